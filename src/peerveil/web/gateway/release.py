"""Releasing posts: claimed, given public ids, appended to the feed and removed from the held ones in one transaction.

- *Exactly once*: a row is deleted in the transaction that publishes it, and its public id is a keyed hash of its own
  random id, which the feed holds only once. Even a copy of the database that is restored gives the same ids again.
- *In random order*: everything due is ordered by a random number drawn beside the delay, the whole backlog after
  downtime too. Neither arrival nor due time shows.
- *On the grid*: the published time is the last moment of the grid, the same for all that come out together.
- *Nobody is skipped*: positions are drawn under the space's row lock, held until the commit.
- *Replies after parents*: a reply to a held post waits for it.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import bindparam, case, delete, select, update

from peerveil.core.randomness import Randomness
from peerveil.web.common.vault import CannotOpen
from peerveil.web.gateway.intake import seal_post
from peerveil.web.gateway.tables import among, clock, feed, held, insert_rows, receipts, recent, spaces
from peerveil.web.gateway.tally import count_release

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Row

    from peerveil.web.common import Digests, Records, Vault
    from peerveil.web.gateway.space import Space

BATCH: Final = 2000
"""Posts in one transaction."""

_LATER: Final = 600 * 1_000_000  # what cannot be opened is tried again after ten minutes


@dataclass
class Released:
    """What one transaction has done."""

    count: int = 0
    claimed: int = 0
    freed: int = 0
    sealed: int = 0
    """Posts that no key opens. They stay."""
    lateness: list[int] = field(default_factory=list)


class Release:
    """Releases what is due. The parts that tests replace by faulty ones are methods of their own."""

    def __init__(self, vault: Vault, digests: Digests, records: Records) -> None:
        self._vault = vault
        self._digests = digests
        self._records = records
        self._randomness = Randomness.secure()

    def due_spaces(self, connection: Connection, every: Sequence[Space], now: int) -> list[Space]:
        """The spaces in which something may appear now."""
        return [
            space
            for space in every
            if not space.is_quiet(now)
            and connection.execute(
                select(held.c.id).where(held.c.space == space.name, held.c.release_at <= space.tick(now)).limit(1)
            ).first()
        ]

    def release(self, connection: Connection, space: Space, now: int, limit: int = BATCH) -> Released:
        """Release a batch of what is due in a space."""
        tick = space.tick(now)
        rows = self.claim(connection, space, tick, limit)
        done = Released(claimed=len(rows))
        opened = self._open(connection, rows, now, done)
        if not opened:
            return done
        items = self.items(space, self.shuffle(opened), tick)
        last = self.positions(connection, space, len(items))
        for offset, item in enumerate(items):
            item["position"] = last - len(items) + 1 + offset
        insert_rows(connection, feed, items)
        ids = [row.id for row, _ in opened]
        connection.execute(delete(held).where(among(connection, held.c.id, ids)))
        done.freed = self._free_replies(connection, opened, tick)
        done.count = len(items)
        done.lateness = [now - int(row.release_at) for row, _ in opened]
        fits = [int(body["f"][-1] if row.batched_at is None else body["f"][0]) for row, body in opened]
        count_release(connection, space.name, done.lateness, fits)
        return done

    def claim(self, connection: Connection, space: Space, tick: int, limit: int) -> Sequence[Row[Any]]:
        """Rows that are due and wait for nothing, in random order; other workers' are skipped."""
        due = (held.c.space == space.name, held.c.release_at <= tick, held.c.waits == 0)
        rows = select(held).where(*due).order_by(held.c.shuffle).limit(limit).with_for_update(skip_locked=True)
        return connection.execute(rows).all()

    def shuffle(self, rows: list[Any]) -> list[Any]:
        """A random order."""
        return [rows[k] for k in self._randomness.permutation(len(rows))]

    def items(self, space: Space, opened: list[Any], tick: int) -> list[dict[str, Any]]:
        """Rows of the feed, without positions."""
        return [
            {
                "space": space.name,
                "id": self.public_id(row.id),
                "thread": body["t"],
                "content": body["c"],
                "reply_to": body["r"],
                "posted_at": tick,
            }
            for row, body in opened
        ]

    def public_id(self, post: str) -> str:
        """The id under which a post appears: unlinkable to anything without the key, and always the same."""
        return self._digests("public", post)[:32]

    def positions(self, connection: Connection, space: Space, count: int) -> int:
        """The last of the next positions; the row stays locked until the commit, so nobody can be skipped."""
        row = update(spaces).where(spaces.c.name == space.name).values(last=spaces.c.last + count)
        return int(connection.execute(row.returning(spaces.c.last)).scalar_one())

    def clean(self, connection: Connection, now: int) -> None:
        """Forget arrivals that no status needs any more, and receipts and keys whose time is over."""
        shift = select(clock.c.shift).scalar_subquery()
        connection.execute(delete(recent).where(recent.c.forget + shift < now))
        connection.execute(delete(receipts).where(receipts.c.expires <= now))
        self._records.forget(connection, now)

    def _open(self, connection: Connection, rows: Sequence[Row[Any]], now: int, done: Released) -> list[Any]:
        opened = []
        for row in rows:
            try:
                opened.append((row, json.loads(self._vault.open(bytes(row.body), about=row.id))))
            except CannotOpen:
                done.sealed += 1
                connection.execute(update(held).where(held.c.id == row.id).values(release_at=now + _LATER))
        return opened

    def _free_replies(self, connection: Connection, opened: list[Any], tick: int) -> int:
        """Replies learn their parent's public id, and are due no earlier than it; how many there are."""
        parent_of = {reply: row.id for row, body in opened for reply in body["k"]}
        if not parent_of:
            return 0
        waiting = select(held.c.id, held.c.body).where(among(connection, held.c.id, list(parent_of)), held.c.waits == 1)
        freed = []
        for row in connection.execute(waiting.order_by(held.c.id).with_for_update()).all():
            sealed = bytes(row.body)
            with suppress(CannotOpen):  # a key is missing: it stays closed, and waits for its key alone
                body = json.loads(self._vault.open(sealed, about=row.id)) | {"r": self.public_id(parent_of[row.id])}
                sealed = seal_post(self._vault, row.id, body)
            freed.append({"post": row.id, "sealed": sealed})
        if freed:
            later = case((held.c.release_at < tick, tick), else_=held.c.release_at)
            values = {"waits": 0, "body": bindparam("sealed"), "release_at": later}
            connection.execute(update(held).where(held.c.id == bindparam("post")).values(**values), freed)
        return len(freed)
