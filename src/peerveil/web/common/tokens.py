"""Bearer tokens: 256 random bits, of which the database holds only the hash, with a role, a scope and a sealed actor.

A token is long and random, so a plain SHA-256 cannot be searched back, and finding its row by the hash tells a guesser
nothing. Tokens that were found are remembered for a moment, so that a withdrawn one stops within :data:`REMEMBERED`.
"""

from __future__ import annotations

import base64
import hmac
import re
import secrets
import threading
import time
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from sqlalchemy import Column, MetaData, Table, Text, insert, select, update

from peerveil.core.errors import BadInput
from peerveil.core.text import on_one_line
from peerveil.web.common.errors import Forbidden, Unauthorized

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import Connection

    from peerveil.web.common.store import ServiceDatabase
    from peerveil.web.common.vault import Vault

REMEMBERED: Final = 30.0
"""Seconds for which a token that was found is not looked up again."""

EVERYWHERE: Final = "*"
"""The scope of a token that holds for all spaces or campaigns."""

_TOKEN: Final = re.compile(r"pv_[A-Za-z0-9_-]{43}")
_MOST: Final = 50_000  # tokens remembered at once


@dataclass(frozen=True, slots=True)
class Identity:
    """Who asks: a role, the space or campaign it holds for, and a name that never leaves the service."""

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
        Column("hash", Text, primary_key=True),
        Column("role", Text, nullable=False),
        Column("scope", Text, nullable=False),
        Column("actor", Text, nullable=False),  # sealed, in base64; empty where a service has no actors
        Column("state", Text, nullable=False),  # good or withdrawn
        sqlite_with_rowid=False,
    )


def hash_token(token: str) -> str:
    """What the database holds of a token."""
    return sha256(token.encode()).hexdigest()


class Tokens:
    """Hands out tokens and recognizes them."""

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
        """A new token. It is shown once, and can be made anew but never read again."""
        if role not in self._roles:
            raise BadInput("role", got=role, want=" or ".join(self._roles))
        if len(actor) > 200 or not on_one_line(actor):
            raise BadInput("actor", got=actor, want="a name of at most 200 characters on one line")
        if actor and self._names is None:
            raise BadInput("actor", got=actor, want="none: this service has no key to seal names with")
        token = f"pv_{secrets.token_urlsafe(32)}"
        digest = hash_token(token)
        sealed = "" if self._names is None else _text(self._names.seal_text(actor, about=digest))
        connection.execute(insert(self._table).values(hash=digest, role=role, scope=scope, actor=sealed, state="good"))
        return token

    def withdraw(self, connection: Connection, token: str) -> bool:
        """Make a token worthless; whether there was such a token."""
        row = update(self._table).where(self._table.c.hash == hash_token(token)).values(state="withdrawn")
        return connection.execute(row).rowcount > 0

    def check(self, header: str | None, *, basic: bool = False) -> Identity:
        """Who sends this ``Authorization`` header; with ``basic``, a browser's password may be the token."""
        token = _from_header(header, basic)
        digest = hash_token(token)
        now = time.monotonic()
        found = self._known.get(digest)
        if found is not None and now - found[0] < REMEMBERED:
            return found[1]
        with self._database.reading() as connection:
            row = connection.execute(select(self._table).where(self._table.c.hash == digest)).mappings().one_or_none()
        if row is None or not hmac.compare_digest(row["hash"], digest) or row["state"] != "good":
            raise Unauthorized("an unknown token, or one that was withdrawn")
        actor = "" if self._names is None else self._names.open_text(base64.b64decode(row["actor"]), about=digest)
        identity = Identity(row["role"], row["scope"], actor, digest)
        with self._lock:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[digest] = (now, identity)
        return identity

    def remembered(self, header: str | None) -> Identity | None:
        """The identity of a token seen a moment ago, without asking the database."""
        if header is None or not header.startswith("Bearer "):
            return None
        found = self._known.get(hash_token(header[7:].strip()))
        return found[1] if found is not None and time.monotonic() - found[0] < REMEMBERED else None


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _from_header(header: str | None, basic: bool) -> str:
    want = "send a token: Authorization: Bearer pv_..."
    kind, _, value = (header or "").partition(" ")
    token = value.strip()
    if basic and kind.lower() == "basic":
        try:
            token = base64.b64decode(token, validate=True).decode().partition(":")[2]
        except ValueError:  # no base64, no ASCII or no UTF-8
            raise Unauthorized(want) from None
    elif kind.lower() != "bearer":
        raise Unauthorized(want)
    if not _TOKEN.fullmatch(token):
        raise Unauthorized(want)
    return token
