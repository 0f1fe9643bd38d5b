"""Publishing posts: claimed in memory, appended to the feed in one transaction, and forgotten in memory.

- *Exactly once*: the feed holds every public id only once, and a post is claimed only when its entry is on the disk. After a
  crash it is held if the feed does not have it, and posted if it does (:mod:`peerveil.web.gateway.state`).
- *In random order*: everything due is ordered by a random number drawn beside the delay, the whole backlog after
  downtime too. Neither arrival nor due time shows.
- *On the grid*: the published time is the last moment of the grid, the same for all that come out together.
- *Nobody is skipped*: positions are drawn under the space's row lock, held until the commit.
- *Replies after parents*: a reply to a held post waits for it (:mod:`peerveil.web.gateway.memory`).
- *Nothing of intake*: the transaction writes the feed, the space's newest position and the time, and nothing else.

The process that leads publishes; others stand by, and lead when it has died.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, update

from peerveil.core.errors import PeerveilError
from peerveil.core.randomness import Randomness
from peerveil.web.common.database import SECOND, insert_rows
from peerveil.web.gateway.changes import apply_changes
from peerveil.web.gateway.compaction import CompactionClock
from peerveil.web.gateway.fence import NotLeading, check_fence
from peerveil.web.gateway.tables import feed, spaces
from peerveil.web.gateway.watch import Halted
from peerveil.web.gateway.webhooks import Deliveries

if TYPE_CHECKING:
    from peerveil.web.common import Journal
    from peerveil.web.gateway.core import Clock, Gateway
    from peerveil.web.gateway.leader import Leader
    from peerveil.web.gateway.posts import Post
    from peerveil.web.gateway.space import Space

_BATCH: Final = 2000  # posts in one transaction
_KEEP_INTERVAL: Final = 5 * SECOND  # at which the time is written down, and memory is cleaned
_LONGEST_PAUSE_SECONDS: Final = 1.0
_PAUSE_WHILE_HALTED_SECONDS: Final = 5.0


@dataclass
class Publisher:
    """Publishes what is due. The parts that tests replace by faulty ones are methods of their own."""

    _randomness: Randomness = field(default_factory=Randomness.secure)

    def publish(self, connection: Connection, space: Space, posts: Sequence[Post], moment: int) -> None:
        """Append posts to the feed of a space."""
        items = self.items(space, self.shuffle(list(posts)), moment)
        first = self.positions(connection, space, len(items)) - len(items) + 1
        apply_changes(connection, space.name, items)
        insert_rows(connection, feed, [item | {"position": first + k} for k, item in enumerate(items)])

    def claim(self, leader: Leader, space: Space, moment: int, limit: int) -> list[Post]:
        """Posts that are due and wait for nothing, in random order. Have the lock."""
        return leader.memory.claim(space.name, moment - leader.shift, limit, leader.shift)

    def shuffle(self, posts: list[Post]) -> list[Post]:
        """A random order."""
        return [posts[k] for k in self._randomness.permutation(len(posts))]

    def items(self, space: Space, posts: list[Post], moment: int) -> list[dict[str, Any]]:
        """Rows of the feed, without positions."""
        return [
            {
                "space": space.name,
                "id": self.public_id(post),
                "thread": post.thread,
                "content": post.content,
                "reply_to": post.reply_to,
                "metadata": post.metadata,
                "kind": post.kind,
                "changes": post.changes,
                "posted_at": moment,
            }
            for post in posts
        ]

    def public_id(self, post: Post) -> str:
        """The id under which a post appears: random, drawn when it was taken, and always the same."""
        return post.id

    def positions(self, connection: Connection, space: Space, count: int) -> int:
        """The last of the next positions; the row stays locked until the commit, so nobody can be skipped."""
        row = update(spaces).where(spaces.c.name == space.name).values(last=spaces.c.last + count)
        return int(connection.execute(row.returning(spaces.c.last)).scalar_one())

    def clean(self, leader: Leader, now: int) -> None:
        """Forget arrivals that no status needs any more, and receipts and keys whose days are over. Have the lock."""
        leader.memory.forget(now - leader.shift)


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
        self._compaction = CompactionClock(gateway, journal, seconds=gateway.compaction_seconds)

    def start(self) -> None:
        """Begin, in threads."""
        self._threads = [
            threading.Thread(target=self.run, name="publishing", daemon=True),
            threading.Thread(target=self.deliveries.run, args=(self._stop,), name="webhooks", daemon=True),
        ]
        for thread in (*self._threads, self._compaction):
            thread.start()

    def alive(self) -> dict[str, bool]:
        """Of each thread whether it runs."""
        return {thread.name: thread.is_alive() for thread in self._threads}

    def stop(self) -> None:
        """Finish the transaction under way, and end."""
        self._stop.set()
        self._compaction.stop()
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
            except NotLeading:
                pause_seconds = _LONGEST_PAUSE_SECONDS
            except Exception as error:
                self._journal.error("publish_failed" if isinstance(error, PeerveilError) else "publish_broken", error)
                pause_seconds = _LONGEST_PAUSE_SECONDS
            self._stop.wait(pause_seconds)

    def step(self) -> float:
        """Publish everything that is due now; the seconds until something may be due again."""
        gateway, leader = self._gateway, self._gateway.leader
        with gateway.recording_halts():
            with leader.lock:
                _ = leader.memory
            every = list(gateway.spaces.values())
            clock = gateway.read_clock()
            leader.shift = clock.shift
            for space in every:
                while not self._stop.is_set() and self._publish(space, clock):
                    pass
            now = clock.moment().now
            if now - self._cleaned_at >= _KEEP_INTERVAL or now < self._cleaned_at:
                self._cleaned_at = now
                with gateway.acting("publish") as (_, moment), leader.lock:
                    gateway.publisher.clean(leader, moment)
            now = clock.moment().now
        until_next = min((space.grid_micros - now % space.grid_micros for space in every), default=SECOND)
        return min(until_next / SECOND, _LONGEST_PAUSE_SECONDS)

    def _publish(self, space: Space, clock: Clock) -> bool:
        """Publish one batch; whether there was anything."""
        gateway, leader, publisher = self._gateway, self._gateway.leader, self._gateway.publisher
        now = clock.moment().now
        if space.is_quiet(now):
            return False
        moment = space.grid_time(now)
        with leader.lock:
            posts = publisher.claim(leader, space, moment, self._batch)
            fence = leader.fence
        if not posts:
            return False
        lateness = [now - leader.shift - post.planned for post in posts]
        try:
            with gateway.acting("publish") as (connection, _):
                check_fence(connection, fence)
                publisher.publish(connection, space, posts, moment)
        except BaseException:  # whether it was written or not, the disk knows
            with leader.lock:
                if leader.fence == fence:
                    leader.drop()
            raise
        with leader.lock:
            if leader.fence == fence:
                leader.memory.tallies[space.name].add(lateness, [post.fit[0] for post in posts])
                leader.memory.posted(posts, moment - leader.shift, leader.shift)
        return True
