"""From version 3 of the tables, which held posts in rows of their own, to the sealed state.

Everything is read, written as a first state, and the old tables are dropped, in one transaction: a crash leaves the one or
the other. Held posts keep their times, texts and public ids; receipts and idempotency keys go on working. Then the file is
rewritten (``VACUUM``), so that no page keeps an old row. Old backups, replicas and archived logs still say what the old tables
said: destroy them.

The owner of an old receipt is known by a MAC that names no person, so an old post counts in nobody's history, except while
a sitting is under way: the arrivals of that are recovered through the sealed actors of the tokens.
"""

from __future__ import annotations

import base64
import json
import secrets
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from sqlalchemy import MetaData, select, text, update

from peerveil.core.randomness import Randomness
from peerveil.web.common import Digests, Vault
from peerveil.web.common.database import DAY, insert_rows
from peerveil.web.gateway.blocks import Packer
from peerveil.web.gateway.frames import CHUNK_BYTES, Sealer
from peerveil.web.gateway.posts import HELD, POSTED, TALLIES, WITHDRAWN, Post, other_entry, post_entry, record_entry
from peerveil.web.gateway.space import Space
from peerveil.web.gateway.state import Header
from peerveil.web.gateway.tables import SECRET, VERSION, clock, feed, frames, letters, spaces, state, tokens, version
from peerveil.web.gateway.tally import Tally

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

OLDEST: Final = 3
_DROPPED: Final = ("held", "recent", "receipts", "records", "tally")
_COLUMNS: Final = (
    ("gateway_book", "generation INTEGER NOT NULL DEFAULT 1"),
    ("gateway_book", "fence BIGINT NOT NULL DEFAULT 0"),
    ("gateway_book", "leader TEXT NOT NULL DEFAULT ''"),
    ("gateway_book", "tick_ms INTEGER NOT NULL DEFAULT 250"),
    ("gateway_book", "frame_bytes INTEGER NOT NULL DEFAULT 16384"),
    ("gateway_feed", "metadata TEXT"),
    ("gateway_feed", "kind TEXT NOT NULL DEFAULT 'post'"),
    ("gateway_feed", "changes TEXT"),
    ("gateway_clock", "ahead BIGINT NOT NULL DEFAULT 0"),
    ("gateway_clock", "sure INTEGER NOT NULL DEFAULT 1"),  # not recorded then: taken as right, as it was then
    ("gateway_hooks", "since BIGINT NOT NULL DEFAULT 0"),
    ("gateway_hooks", "problem TEXT NOT NULL DEFAULT ''"),
)


def upgrade(connection: Connection, vault: Vault) -> None:
    """Write what version 3 holds as the first state, and drop its tables. Without the keys nothing is changed."""
    old = MetaData()
    old.reflect(connection, only=[f"gateway_{name}" for name in (*_DROPPED, "book")])
    secret = vault.open(
        bytes(connection.execute(select(old.tables["gateway_book"].c.secret)).scalar_one()), about=SECRET
    )
    header, entries = _Old(connection, old, vault, secret).read()
    for name, column in _COLUMNS:
        connection.execute(text(f"ALTER TABLE {name} ADD COLUMN {column}"))
    letters.create(connection)
    for table in (frames, state):
        table.create(connection)
        if connection.dialect.name != "sqlite":
            connection.execute(text(f"ALTER TABLE {table.name} ALTER COLUMN body SET STORAGE EXTERNAL"))
    for index in feed.indexes:
        index.create(connection)
    packer, sealer, number = Packer(CHUNK_BYTES), Sealer(vault, secret), 0
    for entry in (header.entry(), *entries):
        packer.put(entry)
    while packer.backlog or number < 16 or number & (number - 1):
        body = sealer.seal_chunk(1, number, packer.block())
        insert_rows(connection, state, [{"generation": 1, "chunk": number, "body": body}])
        number += 1
    for name in _DROPPED:
        old.tables[f"gateway_{name}"].drop(connection)
    connection.execute(update(version).values(version=VERSION))


class _Old:
    """The tables of version 3."""

    def __init__(self, connection: Connection, old: MetaData, vault: Vault, secret: bytes) -> None:
        self._connection, self._vault, self._old = connection, vault, old
        self._digests = Digests(secret)
        self._shift = int(connection.execute(select(clock.c.shift)).scalar_one())
        rows = connection.execute(select(spaces)).all()
        self._spaces = {row.name: Space.from_json(row.settings) for row in rows}
        self._header = Header(feed={row.name: int(row.last) for row in rows})
        self._randomness = Randomness.secure()

    def _rows(self, name: str) -> list[Row[Any]]:
        return list(self._connection.execute(select(self._old.tables[f"gateway_{name}"])).all())

    def read(self) -> tuple[Header, list[bytes]]:
        """The header and the entries of the first state."""
        held = {row.receipt: row for row in self._rows("held")}
        bodies = {row.id: json.loads(self._vault.open(bytes(row.body), about=row.id)) for row in held.values()}
        parent_of = {reply: row.id for row in held.values() for reply in bodies[row.id]["k"]}
        receipts = {row.receipt: row for row in self._rows("receipts")}
        arrivals = self._arrivals()
        posts: dict[str, Post] = {}
        gone = []
        for record in self._rows("records"):
            answer = json.loads(self._vault.open(bytes(record.answer), about=record.key))
            digest = sha256(answer["receipt"].encode()).hexdigest()
            known = receipts.get(digest)
            if known is None:
                continue
            post = Post(
                secrets.token_hex(16), bytes.fromhex(record.key[:32]), bytes.fromhex(record.body[:32]),
                bytes.fromhex(known.owner), known.space, answer["longest_delay"], int(known.expires) + DAY,
                code=base64.urlsafe_b64decode(answer["receipt"] + "="),
            )  # fmt: skip
            row = held.get(digest)
            if row is None:
                post.state = WITHDRAWN if known.state == "withdrawn" else POSTED
                gone.append(post)
                continue
            self._fill(post, row, bodies[row.id], parent_of.get(row.id), arrivals)
            posts[row.id] = post
        if len(posts) < len(held):  # no post may be lost without a word
            raise RuntimeError(f"{len(held) - len(posts)} held posts have no record: restore a backup, or ask for help")
        # a parent stands before its replies
        ordered = sorted(posts, key=lambda name: _depth(name, parent_of))
        entries = [record_entry(post) for post in gone] + [post_entry(posts[name]) for name in ordered]
        tallies = {name: Tally() for name in self._spaces}
        for row in self._rows("tally"):
            tallies.setdefault(row.space, Tally())[row.name] = int(row.value)
        return self._header, [*entries, other_entry(TALLIES, tallies)]

    def _fill(
        self, post: Post, row: Row[Any], body: dict[str, Any], parent: str | None, arrivals: dict[str, tuple[Any, ...]]
    ) -> None:
        post.id, post.state = self._public_id(row.id), HELD
        post.thread, post.content, post.reply_to = body["t"], body["c"], body["r"]
        post.due, post.shuffle = int(row.due_at) - self._shift, max(1, int(row.shuffle))
        post.batched_at = None if row.batched_at is None else int(row.batched_at) - self._shift
        post.fit = tuple(body["f"] if post.batched_at is not None else body["f"][-1:])
        if row.waits and parent is not None:
            post.waits, post.reply_to = True, self._public_id(parent)
            mechanism = self._spaces[post.space].mechanism_for(post.thread)
            post.pause = -(-int(mechanism.draw_ticks(np.zeros(1, dtype=np.bool_), self._randomness)[0]) // 1000)
        if row.id in arrivals:
            post.person, thread_code, post.arrived, post.declared = arrivals[row.id]
            post.thread_code = bytes.fromhex(thread_code)

    def _public_id(self, name: str) -> str:
        return self._digests("public", name)[:32]

    def _arrivals(self) -> dict[str, tuple[bytes, str, int, bool]]:
        """Of each post of a sitting under way: the person, the thread, the arrival, and whether it was declared."""
        names = Vault({"names": self._digests.key("names")})
        rows = {row.person: row for row in self._rows("recent")}
        actors = {
            names.open_text(base64.b64decode(row.actor), about=row.hash)
            for row in self._connection.execute(select(tokens).where(tokens.c.role == "author"))
        }
        arrival_of: dict[str, tuple[bytes, str, int, bool]] = {}
        for actor in actors if rows else ():
            person = bytes.fromhex(self._digests("person", actor)[:32])
            for space in self._spaces.values():
                old = self._digests("person", space.name, actor)
                for row in self._of_days(old, space, rows):
                    for thread, at, declared, post in json.loads(
                        self._vault.open_text(bytes(row.body), about=row.person)
                    ):
                        arrival_of[post] = (person, thread, at, declared)
        return arrival_of

    def _of_days(self, person: str, space: Space, rows: dict[str, Row[Any]]) -> list[Row[Any]]:
        """The rows of a person: their names change every day, so all days that a row can be of are tried."""
        period = max(DAY, space.window_micros)
        days = {int(row.forget) // period - ago for row in rows.values() for ago in range(3)}
        tried = (self._digests("sitting", person, str(day)) for day in days)
        return [rows[name] for name in tried if name in rows]


def _depth(name: str, parent_of: dict[str, str]) -> int:
    depth = 0
    while name in parent_of:
        name, depth = parent_of[name], depth + 1
    return depth
