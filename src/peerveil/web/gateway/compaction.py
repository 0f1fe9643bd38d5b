"""Rewriting state and journal into a new state, by the clock.

Compaction reads only the disk and writes only the disk, so it can run in a process of its own while requests are taken. It
reads the old state and the frames so far in one consistent view, drops the texts of what is posted, arrivals that no status
needs, and receipts whose days are over, and writes the rest as the state of the next generation, in small
transactions. One update of one row makes that state the one that holds; whatever happens before it leaves the old state
and all frames in place. Then what the new state covers is deleted. Posts that are published meanwhile are in the new
state as held, and struck when it is loaded.

It begins by the clock, and writes one transaction of chunks per step of a steady pace. The number of chunks is padded to a
power of two.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import ColumnElement, Connection, delete, func, select, update

from peerveil.web.common import Vault
from peerveil.web.common.database import insert_rows
from peerveil.web.gateway.blocks import Packer, capacity
from peerveil.web.gateway.fence import Overtaken, check_fence
from peerveil.web.gateway.frames import CHUNK_BYTES, Sealer
from peerveil.web.gateway.memory import appears_at
from peerveil.web.gateway.posts import (
    EDIT,
    HELD,
    POSTED,
    TALLIES,
    WITHDRAWN,
    Change,
    Post,
    other_entry,
    post_entry,
    record_entry,
)
from peerveil.web.gateway.state import Header, count_late, read_journal, read_posted, read_state
from peerveil.web.gateway.tables import clock, frames, spaces, state, version
from peerveil.web.gateway.tally import Tally
from peerveil.web.gateway.weeks import counts_weeks, week_start

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from peerveil.web.common import Journal, ServiceDatabase
    from peerveil.web.gateway.core import Gateway
    from peerveil.web.gateway.space import Space

_LEAST_CHUNKS: Final = 16
_CHUNKS_AT_ONCE: Final = 16
_FRAMES_AT_ONCE: Final = 200
PACE_SECONDS: Final = 0.25
"""Between two transactions of a compaction that runs beside a server."""
INTERVAL_SECONDS: Final = 3600.0
"""Between two compactions."""


class Compaction:
    """One compaction. ``fence`` is that of the process that leads; ``pace`` the seconds between two transactions."""

    def __init__(
        self, database: ServiceDatabase, sealer: Sealer, every: Mapping[str, Space], fence: int, pace: float = 0.0
    ) -> None:
        self._database = database
        self._sealer = sealer
        self._every = every
        self._fence = fence
        self._pace = pace
        self._next = time.monotonic()
        self._tallies: dict[str, Tally] = {}

    def run(self) -> int:
        """Write the next state, make it the one that holds, and delete what it covers; its number of chunks."""
        with self._database.reading("compact") as connection:
            generation = int(connection.execute(select(version.c.generation)).scalar_one()) + 1
            self._delete_states(state.c.generation >= generation)  # what a compaction that died has left
            header, entries = self._rewrite(connection, generation - 1)
            count = self._write_chunks(generation, header, entries)
        with self._database.writing("compact") as connection:
            check_fence(connection, self._fence)
            flip = update(version).where(version.c.generation == generation - 1).values(generation=generation)
            if not connection.execute(flip).rowcount:
                raise Overtaken("another process has compacted meanwhile")
        self._delete_states(state.c.generation < generation)
        self._delete_frames(header.first)
        if self._database.is_sqlite:
            with self._database.engine.connect() as connection:
                connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        return count

    # ---- what is kept -------------------------------------------------------------------------------------------

    def _rewrite(self, connection: Connection, generation: int) -> tuple[Header, Iterator[bytes]]:
        """The header and the entries of the next state."""
        row = connection.execute(select(clock)).one()
        shift, now = int(row.shift), int(row.high) - int(row.shift)  # no later than the time is
        header, old = read_state(connection, self._sealer, generation)
        posted = {name: moment - shift for name, moment in read_posted(connection, header)}
        positions = connection.execute(select(spaces.c.name, spaces.c.last)).all()
        fresh: list[Post] = []
        edits: dict[str, Change] = {}
        withdrawn: set[str] = set()
        joined: set[str] = set()
        for change in read_journal(connection, self._sealer, header):
            if change.post is not None:
                fresh.append(change.post)
                joined.update(change.joined)
            elif change.kind == EDIT:
                edits[change.id] = change
            else:
                withdrawn.add(change.id)
        header.feed = {row.name: int(row.last) for row in positions}
        window = max((space.window_micros for space in self._every.values()), default=0)
        weekly = counts_weeks(self._every)
        gone: dict[str, int] = {}  # withdrawn posts, and when they would have appeared

        def updated() -> Iterator[Post]:
            """Old posts before new ones: a parent comes before its replies."""
            for change in old:
                if change.kind == TALLIES and change.values is not None:
                    self._tallies.update({name: Tally(counts) for name, counts in change.values.items()})
                elif change.post is not None:
                    yield change.post
            yield from fresh

        def entries() -> Iterator[bytes]:
            for post in updated():
                if post.id in joined and post.state == HELD:
                    post.join_sitting()
                if post.id in edits:
                    change = edits[post.id]
                    post.content, post.metadata = change.content, change.metadata
                    post.kind, post.changed = change.post_kind, change.changed
                if post.id in withdrawn:
                    post.strip(WITHDRAWN)
                parent = post.reply_to if post.waits else None
                if parent is not None and (parent in posted or parent in gone):
                    post.waits, post.after = False, posted[parent] if parent in posted else gone[parent]
                    post.reply_to = parent if parent in posted else None
                if now - post.arrived > window:
                    post.thread_code = b""
                    post.arrived = post.arrived if weekly and post.arrived >= week_start(now) else 0
                if post.state == HELD and post.id in posted:
                    tally = self._tallies.setdefault(post.space, Tally())
                    count_late(tally, post, self._every[post.space], posted[post.id], shift)
                    post.strip(POSTED)
                is_awaited = post.state == WITHDRAWN and post.shuffle > 0
                if is_awaited and not post.waits:
                    planned = appears_at(post, self._every[post.space], shift)
                    if planned <= now:
                        gone[post.id], is_awaited = planned, False
                if post.state == HELD or is_awaited:
                    yield post_entry(post)
                elif post.forget > now:
                    yield record_entry(post)
            yield other_entry(TALLIES, self._tallies)

        return header, entries()

    # ---- what is written ----------------------------------------------------------------------------------------

    def _write_chunks(self, generation: int, header: Header, entries: Iterator[bytes]) -> int:
        packer, number = Packer(CHUNK_BYTES), 0
        rows: list[dict[str, Any]] = []

        def cut() -> None:
            nonlocal number
            body = self._sealer.seal_chunk(generation, number, packer.block())
            rows.append({"generation": generation, "chunk": number, "body": body})
            number += 1
            if len(rows) == _CHUNKS_AT_ONCE:
                self._insert(rows)
                rows.clear()

        packer.put(header.entry())
        for entry in entries:
            packer.put(entry)
            while packer.backlog >= capacity(CHUNK_BYTES):
                cut()
        while packer.backlog or number < _LEAST_CHUNKS or number & (number - 1):
            cut()
        return number

    def _insert(self, rows: list[dict[str, Any]]) -> None:
        self._wait()
        with self._database.writing("compact") as connection:
            check_fence(connection, self._fence)
            insert_rows(connection, state, rows)

    def _delete_states(self, which: ColumnElement[bool]) -> None:
        query = select(state.c.generation, state.c.chunk).where(which).limit(_CHUNKS_AT_ONCE)
        while rows := self._database.rows(query):
            self._wait()
            with self._database.writing("compact") as connection:
                check_fence(connection, self._fence)
                for row in rows:
                    own = (state.c.generation == row.generation) & (state.c.chunk == row.chunk)
                    connection.execute(delete(state).where(own))

    def _delete_frames(self, first: int) -> None:
        lowest = self._database.rows(select(func.min(frames.c.seq)))[0][0]
        for begin in range(lowest or first, first, _FRAMES_AT_ONCE):
            self._wait()
            with self._database.writing("compact") as connection:
                check_fence(connection, self._fence)
                connection.execute(delete(frames).where(frames.c.seq < min(begin + _FRAMES_AT_ONCE, first)))

    def _wait(self) -> None:
        """Until the next step of the pace; a step that was missed is left out."""
        if self._pace:
            now = time.monotonic()
            while self._next < now:
                self._next += self._pace
            time.sleep(self._next - now)
            self._next += self._pace


# ---- beside a server --------------------------------------------------------------------------------------------------


class CompactionClock(threading.Thread):
    """Compacts at every full hour of the clock, in a process of its own, as long as this process leads."""

    def __init__(self, gateway: Gateway, journal: Journal, *, seconds: float = INTERVAL_SECONDS) -> None:
        super().__init__(name="compaction", daemon=True)
        self._gateway, self._journal, self._seconds = gateway, journal, seconds
        self._stopping = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None

    def stop(self) -> None:
        """End a compaction under way; the next one begins anew."""
        self._stopping.set()
        if self._child is not None:
            self._child.kill()
        if self.ident is not None:
            self.join()

    def run(self) -> None:
        """Called by :meth:`start`."""
        while not self._stopping.wait(self._seconds - time.time() % self._seconds):
            if self._gateway.leader.is_leading:
                try:
                    self._compact()
                except Exception as error:
                    self._journal.error("compaction_failed", error)

    def _compact(self) -> None:
        gateway = self._gateway
        task = {
            "url": gateway.url,
            "keys": gateway.vault.text(),
            "fence": gateway.leader.fence,
            "pace": min(PACE_SECONDS, self._seconds / 40),
        }
        command = [sys.executable, "-c", f"from {__name__} import main; main()"]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)  # noqa: S603
        self._child.communicate(json.dumps(task).encode())
        code, self._child = self._child.returncode, None
        if code and not self._stopping.is_set():
            self._journal.write("compaction_failed", level="error", status=code)


def main() -> None:
    """One compaction; what it needs comes on the standard input, where no other user can read it."""
    from peerveil.web.gateway.core import Gateway

    task = json.loads(sys.stdin.buffer.read())
    os.nice(10)
    with Gateway(task["url"], Vault.read(task["keys"])) as gateway:
        Compaction(gateway.database, gateway.sealer, gateway.spaces, task["fence"], task["pace"]).run()
