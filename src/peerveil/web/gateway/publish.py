"""Publishing posts: claimed, given public ids, appended to the feed and removed from the held ones in one transaction.

- *Exactly once*: a row is deleted in the transaction that publishes it, and its public id is a keyed hash of its own
  random id, which the feed holds only once. Even a restored copy of the database gives the same ids again.
- *In random order*: everything due is ordered by a random number drawn beside the delay, the whole backlog after
  downtime too. Neither arrival nor due time shows.
- *On the grid*: the published time is the last moment of the grid, the same for all that come out together.
- *Nobody is skipped*: positions are drawn under the space's row lock, held until the commit.
- *Replies after parents*: a reply to a held post waits for it.

Several workers may share a PostgreSQL database. A worker that dies loses nothing: what it had claimed is free again.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Row, bindparam, case, delete, select, update

from peerveil.core.errors import PeerveilError
from peerveil.core.randomness import Randomness
from peerveil.web.common.database import SECOND, among, insert_rows
from peerveil.web.common.vault import CannotOpen
from peerveil.web.gateway.intake import open_post, seal_post
from peerveil.web.gateway.tables import clock, feed, held, receipts, recent, spaces
from peerveil.web.gateway.tally import count_published
from peerveil.web.gateway.watch import Halted
from peerveil.web.gateway.webhooks import Deliveries

if TYPE_CHECKING:
    from peerveil.web.common import Digests, Journal, Records, Vault
    from peerveil.web.gateway.core import Gateway
    from peerveil.web.gateway.space import Space

_BATCH: Final = 2000  # posts in one transaction
_RETRY_SEALED: Final = 600 * SECOND  # what cannot be opened is tried again then
_CLEAN_INTERVAL: Final = 5 * SECOND
_LONGEST_PAUSE_SECONDS: Final = 1.0
_PAUSE_WHILE_HALTED_SECONDS: Final = 5.0


@dataclass
class Published:
    """The counts of one transaction; ``sealed`` posts are those that no key opens. They stay."""

    claimed: int = 0
    count: int = 0
    freed: int = 0
    sealed: int = 0


@dataclass
class Publisher:
    """Publishes what is due. The parts that tests replace by faulty ones are methods of their own."""

    _vault: Vault
    _digests: Digests
    _records: Records
    _randomness: Randomness = field(default_factory=Randomness.secure)

    def due_spaces(self, connection: Connection, every: Sequence[Space], now: int) -> list[Space]:
        """The spaces in which something may appear now."""
        return [
            space
            for space in every
            if not space.is_quiet(now)
            and connection.execute(
                select(held.c.id).where(held.c.space == space.name, held.c.due_at <= space.grid_time(now)).limit(1)
            ).first()
        ]

    def publish(self, connection: Connection, space: Space, now: int, limit: int = _BATCH) -> Published:
        """Publish a batch of what is due in a space."""
        moment = space.grid_time(now)
        rows = self.claim(connection, space, moment, limit)
        opened = self._open(connection, rows, now)
        result = Published(claimed=len(rows), count=len(opened), sealed=len(rows) - len(opened))
        if not opened:
            return result
        items = self.items(space, self.shuffle(opened), moment)
        first = self.positions(connection, space, len(items)) - len(items) + 1
        insert_rows(connection, feed, [item | {"position": first + k} for k, item in enumerate(items)])
        connection.execute(delete(held).where(among(connection, held.c.id, [row.id for row, _ in opened])))
        result.freed = self._free_replies(connection, opened, moment)
        lateness = [now - int(row.due_at) for row, _ in opened]
        fits = [int(body["f"][-1] if row.batched_at is None else body["f"][0]) for row, body in opened]
        count_published(connection, space.name, lateness, fits)
        return result

    def claim(self, connection: Connection, space: Space, moment: int, limit: int) -> Sequence[Row[Any]]:
        """Rows that are due and wait for nothing, in random order; other workers' are skipped."""
        due = (held.c.space == space.name, held.c.due_at <= moment, held.c.waits == 0)
        rows = select(held).where(*due).order_by(held.c.shuffle).limit(limit).with_for_update(skip_locked=True)
        return connection.execute(rows).all()

    def shuffle(self, rows: list[Any]) -> list[Any]:
        """A random order."""
        return [rows[k] for k in self._randomness.permutation(len(rows))]

    def items(self, space: Space, opened: list[Any], moment: int) -> list[dict[str, Any]]:
        """Rows of the feed, without positions."""
        return [
            {
                "space": space.name,
                "id": self.public_id(row.id),
                "thread": body["t"],
                "content": body["c"],
                "reply_to": body["r"],
                "posted_at": moment,
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
        """Forget arrivals that no status needs any more, and expired receipts and keys."""
        shift = select(clock.c.shift).scalar_subquery()
        connection.execute(delete(recent).where(recent.c.forget + shift < now))
        connection.execute(delete(receipts).where(receipts.c.expires <= now))
        self._records.forget(connection, now)

    def _open(self, connection: Connection, rows: Sequence[Row[Any]], now: int) -> list[Any]:
        opened = []
        for row in rows:
            try:
                opened.append((row, open_post(self._vault, row)))
            except CannotOpen:
                connection.execute(update(held).where(held.c.id == row.id).values(due_at=now + _RETRY_SEALED))
        return opened

    def _free_replies(self, connection: Connection, opened: list[Any], moment: int) -> int:
        """Replies learn their parent's public id, and are due no earlier than it; how many there are."""
        parent_of = {reply: row.id for row, body in opened for reply in body["k"]}
        if not parent_of:
            return 0
        waiting = select(held.c.id, held.c.body).where(among(connection, held.c.id, list(parent_of)), held.c.waits == 1)
        freed = []
        for row in connection.execute(waiting.order_by(held.c.id).with_for_update()).all():
            sealed = bytes(row.body)
            with suppress(CannotOpen):  # a key is missing: it stays closed, and waits for its key alone
                body = open_post(self._vault, row) | {"r": self.public_id(parent_of[row.id])}
                sealed = seal_post(self._vault, row.id, body)
            freed.append({"post": row.id, "sealed": sealed})
        if freed:
            later = case((held.c.due_at < moment, moment), else_=held.c.due_at)
            values = {"waits": 0, "body": bindparam("sealed"), "due_at": later}
            connection.execute(update(held).where(held.c.id == bindparam("post")).values(**values), freed)
        return len(freed)


class GatewayWorker:
    """Publishes what is due at every moment of the grid, forgets what is no longer needed, calls webhooks.

    It runs in threads beside a server, or in a process of its own.
    """

    def __init__(self, gateway: Gateway, journal: Journal, *, batch: int = _BATCH) -> None:
        self._gateway = gateway
        self._journal = journal
        self._batch = batch
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._halted = False
        self._cleaned_at = 0
        self.deliveries = Deliveries(gateway, journal)

    def start(self) -> None:
        """Begin, in threads."""
        self._threads = [
            threading.Thread(target=self.run, name="publishing", daemon=True),
            threading.Thread(target=self.deliveries.run, args=(self._stop,), name="webhooks", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def alive(self) -> dict[str, bool]:
        """Of each thread whether it runs."""
        return {thread.name: thread.is_alive() for thread in self._threads}

    def stop(self) -> None:
        """Finish the transaction under way, and end."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._threads = []

    def run(self) -> None:
        """Publish until stopped."""
        while not self._stop.is_set():
            try:
                pause_seconds = self.step()
                self._halted = False
            except Halted as halted:
                if not self._halted:
                    self._journal.write("halted", level="error", state=halted.kind, step_seconds=halted.step / SECOND)
                self._halted = True
                pause_seconds = _PAUSE_WHILE_HALTED_SECONDS
            except Exception as error:
                self._journal.error("publish_failed" if isinstance(error, PeerveilError) else "publish_broken", error)
                pause_seconds = _LONGEST_PAUSE_SECONDS
            self._stop.wait(pause_seconds)

    def step(self) -> float:
        """Publish everything that is due now; the seconds until something may be due again."""
        gateway = self._gateway
        with gateway.recording_halts():
            every = list(gateway.spaces.values())
            with gateway.database.reading("publish") as connection:
                now = gateway.watch.now(connection)
                due = gateway.publisher.due_spaces(connection, every, now)
            for space in due:
                while not self._stop.is_set() and self._publish(space):
                    pass
            if now - self._cleaned_at >= _CLEAN_INTERVAL or now < self._cleaned_at:
                self._cleaned_at = now
                with gateway.acting("publish") as (connection, moment):
                    gateway.publisher.clean(connection, moment)
            with gateway.database.reading("publish") as connection:
                now = gateway.watch.now(connection)
        until_next = min((space.grid_micros - now % space.grid_micros for space in every), default=SECOND)
        return min(until_next / SECOND, _LONGEST_PAUSE_SECONDS)

    def _publish(self, space: Space) -> bool:
        """Publish one batch; whether there may be more: a full batch, or replies that became free."""
        with self._gateway.acting("publish") as (connection, moment):
            result = self._gateway.publisher.publish(connection, space, moment, self._batch)
        if result.sealed:
            self._journal.write("cannot_open", level="error", space=space.name, count=result.sealed)
        return result.claimed >= self._batch or result.freed > 0
