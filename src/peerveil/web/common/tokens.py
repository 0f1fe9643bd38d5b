"""Bearer tokens: 256 random bits, of which the database holds only the hash, with a role, a scope and a sealed actor.

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
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from sqlalchemy import Connection, MetaData, Table, Text, insert, select, update

from peerveil.core.errors import BadInput, one_of
from peerveil.core.text import on_one_line
from peerveil.storage import keys, required
from peerveil.web.common.database import ServiceDatabase
from peerveil.web.common.errors import Forbidden, Unauthorized
from peerveil.web.common.vault import Vault

REMEMBERED_SECONDS: Final = 30.0
"""How long a checked token is not looked up again."""

EVERYWHERE: Final = "*"
"""The scope of a token that holds for all spaces or campaigns."""

_TOKEN: Final = re.compile(r"pv_[A-Za-z0-9_-]{43}")
_MOST: Final = 50_000  # tokens remembered at once


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
        one_of(role, "role", self._roles)
        if len(actor) > 200 or not on_one_line(actor):
            raise BadInput("actor", got=actor, want="a name of at most 200 characters on one line")
        if actor and self._names is None:
            raise BadInput("actor", got=actor, want="none: this service has no key to seal names with")
        token = new_token()
        digest = hash_token(token)
        sealed = b"" if self._names is None else self._names.seal_text(actor, about=digest)
        values = {"hash": digest, "role": role, "scope": scope, "actor": base64.b64encode(sealed).decode()}
        connection.execute(insert(self._table).values(**values, state="good"))
        return token

    def withdraw(self, connection: Connection, token: str) -> bool:
        """Make a token worthless; whether there was such a token."""
        row = update(self._table).where(self._table.c.hash == hash_token(token)).values(state="withdrawn")
        return connection.execute(row).rowcount > 0

    def check(self, header: str | None, *, basic: bool = False) -> Identity:
        """The identity behind an ``Authorization`` header (:func:`read_token`)."""
        digest = hash_token(read_token(header, basic=basic))
        identity = self._remembered(digest)
        if identity is not None:
            return identity
        row = self._database.first(select(self._table).where(self._table.c.hash == digest))
        if row is None or not hmac.compare_digest(row.hash, digest) or row.state != "good":
            raise Unauthorized("an unknown token, or one that was withdrawn")
        actor = "" if self._names is None else self._names.open_text(base64.b64decode(row.actor), about=digest)
        identity = Identity(row.role, row.scope, actor, digest)
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
