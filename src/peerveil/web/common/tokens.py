"""Bearer tokens: 256 random bits, of which the database holds only the hash, with a role, a scope and a sealed actor.

Sealed actors all have one length, and tokens that are issued together stand in the order of their random hashes. How many
there are, and when each lot was issued, shows in a copy of the database: issue the tokens of a platform in one lot.

A token is long and random, so a plain SHA-256 cannot be searched back, and finding its row by the hash tells a guesser
nothing. Checked tokens are remembered for a moment, so that a withdrawn one stops within :data:`REMEMBERED_SECONDS`.
"""

import base64
import hmac
import math
import re
import secrets
import threading
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from sqlalchemy import Connection, MetaData, Table, Text, select, update

from peerveil.core.errors import BadInput, one_of
from peerveil.core.text import on_one_line
from peerveil.storage import keys, required
from peerveil.web.common.database import ServiceDatabase, insert_rows
from peerveil.web.common.errors import Forbidden, Unauthorized
from peerveil.web.common.vault import Vault

REMEMBERED_SECONDS: Final = 30.0
"""How long a checked token is not looked up again."""

EVERYWHERE: Final = "*"
"""The scope of a token that holds for all spaces or campaigns."""

_TOKEN: Final = re.compile(r"pv_[A-Za-z0-9_-]{43}")
_MOST: Final = 50_000  # tokens remembered at once
_ID: Final = re.compile(r"[0-9a-f]{16}")
_ID_DIGITS: Final = 16  # of a hash
_ACTOR_BYTES: Final = 1024  # of every sealed actor
_LONGEST_ACTOR: Final = 200
ACTOR: Final = f"an account of at most {_LONGEST_ACTOR} characters on one line, without spaces around it"


def is_actor(text: str) -> bool:
    """Whether a text may name a person: the same rule for tokens and for the header of a platform."""
    return len(text) <= _LONGEST_ACTOR and on_one_line(text) and text == text.strip()


@dataclass(frozen=True, slots=True)
class Identity:
    """The user behind a token: a role, the space or campaign it holds for, and a name that never leaves the service."""

    role: str
    scope: str
    actor: str
    digest: str

    def require(self, roles: Collection[str], scope: str | None = None) -> None:
        """Refuse other roles and other scopes."""
        if self.role not in roles:
            raise Forbidden(f"this needs a token of role {' or '.join(sorted(roles))}; yours is {self.role}")
        if scope is not None and self.scope not in (EVERYWHERE, scope):
            raise Forbidden("this token is for another space")


@dataclass(frozen=True, slots=True)
class TokenRow:
    """What an operator sees of a token."""

    id: str
    role: str
    scope: str
    actor: str
    state: str


def token_table(name: str, metadata: MetaData) -> Table:
    """The table of a service's tokens."""
    return Table(
        name,
        metadata,
        *keys(hash=Text),
        *required(role=Text, scope=Text, actor=Text, state=Text),  # actor: sealed, in base64; state: good or withdrawn
        sqlite_with_rowid=False,
    )


def new_token() -> str:
    """A random token."""
    return f"pv_{secrets.token_urlsafe(32)}"


def hash_token(token: str) -> str:
    """What the database holds of a token."""
    return sha256(token.encode()).hexdigest()


def read_token(header: str | None, *, basic: bool = False) -> str:
    """The token of an ``Authorization`` header; with ``basic``, a browser's password may be the token."""
    kind, _, value = (header or "").partition(" ")
    token = value.strip() if kind.lower() == "bearer" else ""
    if basic and kind.lower() == "basic":
        with suppress(ValueError):  # no base64, no ASCII or no UTF-8
            token = base64.b64decode(value.strip(), validate=True).decode().partition(":")[2]
    if not _TOKEN.fullmatch(token):
        raise Unauthorized("send a token: Authorization: Bearer pv_...")
    return token


class Tokens:
    """Issues tokens and checks them."""

    def __init__(
        self, database: ServiceDatabase, table: Table, roles: Collection[str], names: Vault | None = None
    ) -> None:
        self._database = database
        self._names = names
        self._table = table
        self._roles = tuple(roles)
        self._known: dict[str, tuple[float, Identity]] = {}
        self._lock = threading.Lock()

    def issue(self, connection: Connection, *, role: str, scope: str, actor: str = "") -> str:
        """A new token. It is shown once, and can be issued anew but never read again."""
        return self.issue_many(connection, role=role, scope=scope, actors=[actor])[0]

    def issue_many(self, connection: Connection, *, role: str, scope: str, actors: Sequence[str]) -> list[str]:
        """A new token for each actor, in one statement whose order reveals nothing."""
        one_of(role, "role", self._roles)
        for actor in actors:
            if not is_actor(actor):
                raise BadInput("actor", got=actor, want=ACTOR)
            if actor and self._names is None:
                raise BadInput("actor", got=actor, want="none: this service has no key to seal names with")
        issued = [new_token() for _ in actors]
        rows = [
            {"hash": digest, "role": role, "scope": scope, "actor": self._seal(actor, digest), "state": "good"}
            for digest, actor in zip(map(hash_token, issued), actors, strict=True)
        ]
        insert_rows(connection, self._table, sorted(rows, key=lambda row: row["hash"]))
        return issued

    def read_all(self, scope: str = EVERYWHERE) -> list[TokenRow]:
        """All tokens of a scope, in the order of their random ids; without the tokens themselves, which nobody has."""
        query = select(self._table).order_by(self._table.c.hash)
        if scope != EVERYWHERE:
            query = query.where(self._table.c.scope == scope)
        return [
            TokenRow(row.hash[:_ID_DIGITS], row.role, row.scope, self._open(row.actor, row.hash), row.state)
            for row in self._database.rows(query)
        ]

    def revoke(self, connection: Connection, name: str, scope: str = EVERYWHERE) -> bool:
        """Make the token of an id worthless, if it is of the scope; whether there is one."""
        if not _ID.fullmatch(name):
            return False
        own = self._table.c.hash.startswith(name)
        if scope != EVERYWHERE:
            own &= self._table.c.scope == scope
        with self._lock:  # at once in this process
            self._known = {digest: known for digest, known in self._known.items() if not digest.startswith(name)}
        return connection.execute(update(self._table).where(own).values(state="withdrawn")).rowcount > 0

    def withdraw(self, connection: Connection, token: str) -> bool:
        """Make a token worthless; whether there was such a token."""
        return self.revoke(connection, hash_token(token)[:_ID_DIGITS])

    def _seal(self, actor: str, digest: str) -> str:
        padded = actor.encode().ljust(_ACTOR_BYTES, b"\0")
        return base64.b64encode(b"" if self._names is None else self._names.seal(padded, about=digest)).decode()

    def _open(self, sealed: str, digest: str) -> str:
        return "" if self._names is None else self._names.open_text(base64.b64decode(sealed), about=digest)

    def check(self, header: str | None, *, basic: bool = False) -> Identity:
        """The identity behind an ``Authorization`` header (:func:`read_token`)."""
        digest = hash_token(read_token(header, basic=basic))
        identity = self._remembered(digest)
        if identity is not None:
            return identity
        row = self._database.first(select(self._table).where(self._table.c.hash == digest))
        if row is None or not hmac.compare_digest(row.hash, digest) or row.state != "good":
            raise Unauthorized("an unknown token, or one that was withdrawn")
        identity = Identity(row.role, row.scope, self._open(row.actor, digest), digest)
        with self._lock:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[digest] = (time.monotonic(), identity)
        return identity

    def remembered(self, header: str | None) -> Identity | None:
        """The identity of a token that was checked a moment ago, without asking the database."""
        return self._remembered(hash_token(header[7:].strip())) if header and header.startswith("Bearer ") else None

    def _remembered(self, digest: str) -> Identity | None:
        checked_at, identity = self._known.get(digest, (-math.inf, None))
        return identity if time.monotonic() - checked_at < REMEMBERED_SECONDS else None
