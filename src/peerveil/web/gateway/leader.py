"""What the process that leads has: memory, the stream of entries for the journal, and the place of the next frame.

A request is decided in memory under the lock, and its entry goes into the stream. A frame is cut from the stream, written, and
only then are the posts in it scheduled and their authors answered. When a transaction fails, or its outcome is not
known, everything in memory is dropped, whoever waits is refused, and memory is read from the disk again: a failure is the
same as a crash, and there is one way to recover from both.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from sqlalchemy import select

from peerveil.web.common import Digests, ServiceDatabase
from peerveil.web.common.database import among
from peerveil.web.gateway.blocks import Packer, capacity
from peerveil.web.gateway.compaction import Compaction
from peerveil.web.gateway.fence import LeaderLock, NotLeading, check_fence
from peerveil.web.gateway.frames import Sealer, write_frame
from peerveil.web.gateway.intake import AuthorRequest, Intake, Moment, Outcome, Submit
from peerveil.web.gateway.memory import Memory
from peerveil.web.gateway.posts import HELD, POSTING, REMOVAL, TALLIES, Post, withdrawal_entry
from peerveil.web.gateway.space import Space
from peerveil.web.gateway.state import load, read_state
from peerveil.web.gateway.tables import clock, feed, version
from peerveil.web.gateway.tally import Tally

_ID_LENGTH: Final = 32  # of a public id; a receipt is longer


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame on its way to the disk; ``position`` is the end of the stream in it."""

    fence: int
    seq: int
    sealed: bytes
    position: int


class Leader:
    """Leads as soon as it must, if no other process does. Safe to use from several threads."""

    def __init__(
        self, database: ServiceDatabase, sealer: Sealer, digests: Digests, spaces: Callable[[], Mapping[str, Space]]
    ) -> None:
        self._database = database
        self._sealer = sealer
        self._digests = digests
        self._spaces = spaces
        self._right = LeaderLock(database)
        self._memory: Memory | None = None
        self._waiting = deque[Post]()  # new posts that are not on the disk yet
        self.lock = threading.RLock()
        """Held while memory is read or changed. Claims and withdrawals share it."""
        self.may_lead = True
        """Whether this process leads if no other does."""
        self.address = ""
        """Where it then listens to the others."""
        self.fence = 0
        self.tick_seconds = 0.25
        self.shift = 0
        """The confirmed steps of the clock, as of the last request."""

    @property
    def is_leading(self) -> bool:
        """Whether memory is here."""
        return self._memory is not None

    @property
    def memory(self) -> Memory:
        """Everything that is held; read from the disk if this process begins to lead. Have the lock."""
        if self._memory is None:
            fence = self._right.acquire(self.address) if self.may_lead else None
            if fence is None:
                raise NotLeading
            try:
                with self._database.reading("lead") as connection:
                    book = connection.execute(select(version)).one()
                    self._memory, self._seq = load(connection, self._sealer, self._digests, self._spaces)
                    self.shift = int(connection.execute(select(clock.c.shift)).scalar_one())
            except BaseException:
                self._right.release()
                raise
            self.fence, self.tick_seconds = fence, book.tick_ms / 1000
            self._packer = Packer(book.frame_bytes)
            self._capacity = capacity(book.frame_bytes)
        return self._memory

    def drop(self) -> None:
        """Forget everything, and lead no more: the disk has it."""
        with self.lock:
            self._memory = None
            self._waiting.clear()
            self.fence = 0
            self._right.release()

    @contextmanager
    def looking(self) -> Iterator[Memory]:
        """Memory to look at: this process's own if it leads, else what the disk has now."""
        with self.lock:
            if self._memory is not None:
                yield self._memory
                return
        with self._database.reading() as connection:
            memory, _ = load(connection, self._sealer, self._digests, self._spaces)
        yield memory

    # ---- the journal --------------------------------------------------------------------------------------------

    def take(self, intake: Intake, requests: Sequence[AuthorRequest], moment: Moment) -> list[Outcome]:
        """Decide requests, and put their entries into the stream."""
        with self.lock:
            memory, self.shift = self.memory, moment.shift
            try:
                outcomes = intake.take(memory, requests, moment, self._public_parents(requests))
                for outcome in outcomes:
                    if outcome.entry is not None and outcome.post is not None:
                        outcome.post.position = self._packer.put(outcome.entry)
                        if not outcome.post.is_durable:
                            self._waiting.append(outcome.post)
            except BaseException:  # memory may be half changed
                self.drop()
                raise
        return outcomes

    @property
    def backlog(self) -> int:
        """How many bytes of entries are in no frame yet."""
        return self._packer.backlog if self.is_leading else 0

    def is_full(self) -> bool:
        """Whether the next frame is full already: whatever comes waits."""
        return self.is_leading and self._packer.backlog >= self._capacity

    def cut(self) -> Frame:
        """The next frame."""
        with self.lock:
            if self._memory is None:
                raise NotLeading
            sealed = self._sealer.seal_frame(self._seq, self._packer.block())
            self._seq += 1
            return Frame(self.fence, self._seq - 1, sealed, self._packer.cut)

    def write(self, frame: Frame, sent: float = 0.0, committed: float = 0.0) -> None:
        """Put a frame on the disk, and the posts that end in it into the schedule.

        The frame goes to the database and is committed at these moments of the monotonic clock. SQLite's transaction
        keeps out all other writers, and its log has no times: there it begins when it should be committed.
        """
        try:
            _sleep_until(committed if self._database.is_sqlite else sent)
            with self._database.writing("take") as connection:
                check_fence(connection, frame.fence)
                write_frame(connection, frame.seq, frame.sealed)
                _sleep_until(committed)
        except BaseException:
            if self.fence == frame.fence:
                self.drop()
            raise
        with self.lock:
            while self.fence == frame.fence and self._waiting and self._waiting[0].position <= frame.position:
                post = self._waiting.popleft()
                if not post.is_durable and self._memory is not None:
                    self._memory.schedule(post, self.shift)

    def _public_parents(self, requests: Sequence[AuthorRequest]) -> Mapping[str, tuple[str, str]]:
        """Space and thread of the published posts that requests answer."""
        named = {str(r.reply_to) for r in requests if isinstance(r, Submit) and len(r.reply_to or "") == _ID_LENGTH}
        named = {name for name in named if name.isalnum()}
        if not named:
            return {}
        with self._database.reading("take") as connection:
            query = select(feed.c.id, feed.c.space, feed.c.thread).where(
                among(connection, feed.c.id, sorted(named)), feed.c.kind == POSTING
            )
            return {row.id: (row.space, row.thread) for row in connection.execute(query)}

    def written_tallies(self) -> dict[str, Tally]:
        """The figures in the state, without leading."""
        with self._database.reading() as connection:
            generation = int(connection.execute(select(version.c.generation)).scalar_one())
            _, changes = read_state(connection, self._sealer, generation)
            tallies = [change.values for change in changes if change.kind == TALLIES and change.values is not None]
        return {name: Tally(counts) for values in tallies for name, counts in values.items()}

    def find(self) -> str:
        """Where the process that leads listens."""
        return str(self._database.rows(select(version.c.leader))[0].leader)

    def discard(self) -> int:
        """Withdraw everything that is held, but removals of what is published; how much it was."""
        with self.lock:
            every = [post for post in self.memory.held.values() if post.state == HELD and post.kind != REMOVAL]
            for post in every:
                self.memory.withdraw(post)
                post.position = self._packer.put(withdrawal_entry(post))
            while self.backlog:
                self.write(self.cut())
        return len(every)

    # ---- compaction ---------------------------------------------------------------------------------------------

    def compact(self, pace: float = 0.0) -> int:
        """Compact now; the number of chunks. What is taken and published meanwhile goes on."""
        with self.lock:
            _ = self.memory
            fence = self.fence
        return Compaction(self._database, self._sealer, self._spaces(), fence, pace).run()


def _sleep_until(moment: float) -> None:
    left = moment - time.monotonic()
    if left > 0:
        time.sleep(left)
