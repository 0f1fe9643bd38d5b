"""What a gateway holds, in memory: posts by receipt and by key, the schedule, replies that wait, and sittings.

All indexes are here, none is on disk. Everything is rebuilt from the state and the journal (:mod:`.compaction`), by the same
:meth:`Memory.apply` that the requests went through when they came.

**Publication** happens in two steps under one lock, the same that edits and withdrawals take: :meth:`Memory.claim` marks
posts as leaving, which ends what their authors can change; when the feed has them on disk, :meth:`Memory.posted` forgets
their texts. In between, nothing is written about them but the feed.

**Replies to a held post** appear after it, never with it: a reply at the very moment of its parent can only be its author's
own, since nobody else could read it. Such a reply is due at max(T, P + D'), where T is when it would be due by itself, P is
when its parent appears, and D' is a delay like that of a lone comment that arrived just after P, drawn once. It looks
like the answer of somebody who read the parent at once. D' is independent of everything, so the moment is post-processing
of T and P, and epsilon stays what it is. (At a space's
deadline everything held appears together, so a post that may still be held then cannot be answered before it appears.)

**A withdrawn post** stays in the schedule as long as replies wait for it: they appear when they would have appeared had it
not been withdrawn, so that the moment of the withdrawal does not show.
"""

import base64
import hmac
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush

from peerveil.web.common import Digests
from peerveil.web.common.database import DAY
from peerveil.web.gateway.limits import Limits
from peerveil.web.gateway.posts import EDIT, HELD, LEAVING, POSTED, TALLIES, WITHDRAWAL, WITHDRAWN, Change, Post
from peerveil.web.gateway.sittings import Sittings
from peerveil.web.gateway.space import Space
from peerveil.web.gateway.tally import Tally
from peerveil.web.gateway.weeks import Weeks


class Receipts:
    """Receipts are MACs of public ids: they need not be stored, and show nothing of the id without the key."""

    def __init__(self, digests: Digests) -> None:
        self._digests = digests

    def write(self, post: Post) -> str:
        """The receipt of a post."""
        return base64.urlsafe_b64encode(self.code(post)).decode().rstrip("=")

    def code(self, post: Post) -> bytes:
        """The same as 32 bytes."""
        return post.code or bytes.fromhex(self.of_id(post.id))

    def of_id(self, name: str) -> str:
        """The same in hexadecimal digits, of a public id."""
        return self._digests("receipt", name)

    @staticmethod
    def read(receipt: str) -> bytes:
        """The 32 bytes of a receipt; none if it is no receipt."""
        try:
            raw = base64.b64decode(receipt.encode("ascii") + b"=", altchars=b"-_", validate=True)
        except ValueError:
            return b""
        return raw if len(raw) == 32 else b""


class Memory:
    """The posts of a gateway. Not safe to use from several threads: whoever leads has a lock."""

    def __init__(self, digests: Digests, spaces: Callable[[], Mapping[str, Space]]) -> None:
        self.receipts = Receipts(digests)
        self.spaces = spaces
        self.sittings = Sittings()
        self.limits = Limits(spaces)
        self.weeks = Weeks(spaces)
        self.tallies = defaultdict[str, Tally](Tally)
        self.held: dict[str, Post] = {}
        """By public id: what is held or leaving, and withdrawn posts for which replies wait."""
        self.by_key: dict[bytes, Post] = {}
        self._by_receipt: dict[bytes, Post] = {}
        self._replies_to = defaultdict[str, list[Post]](list)
        self._schedule = defaultdict[str, list[tuple[int, int, str]]](list)  # of each space, by due time
        self._due = defaultdict[str, list[tuple[int, str]]](list)  # of each space: what is due, in random order
        self._forget_on = defaultdict[int, deque[Post]](deque)  # by day

    # ---- what comes ---------------------------------------------------------------------------------------------

    def add(self, post: Post, joined: Sequence[str], shift: int) -> None:
        """A post has been taken, or is read from disk."""
        self.by_key[post.key] = post
        self._by_receipt[self.receipts.code(post)[:16]] = post
        self._forget_on[post.forget // DAY].append(post)
        if post.arrived:
            self.sittings.add(post)
            self.limits.add(post)
            self.weeks.add(post)
        target = None if post.changes is None else self.find_by_id(post.changes)
        if target is not None:
            target.latest = post
        if post.state in (HELD, WITHDRAWN) and post.shuffle:
            self.held[post.id] = post
            if post.waits and post.reply_to is not None:
                self._replies_to[post.reply_to].append(post)
        for other in joined:
            earlier = self.held.get(other)
            if earlier is not None and earlier.state == HELD:
                earlier.join_sitting()
                if earlier.planned >= 0:
                    self.schedule(earlier, shift)

    def edit(self, post: Post, change: Change) -> None:
        """Another text, or a removal in the place of an edit; nothing else changes."""
        post.content, post.metadata = change.content, change.metadata
        post.kind, post.changed = change.post_kind, change.changed

    def withdraw(self, post: Post) -> None:
        """A post is not to appear."""
        post.strip(WITHDRAWN)
        if not self._replies_to.get(post.id):
            self.held.pop(post.id, None)

    def apply(self, change: Change, shift: int) -> None:
        """An entry that was read from disk."""
        if change.post is not None:
            change.post.is_durable = True
            self.add(change.post, change.joined, shift)
            return
        if change.kind == TALLIES and change.values is not None:
            self.tallies.update({name: Tally(counts) for name, counts in change.values.items()})
        post = self.held.get(change.id)
        if post is not None and change.kind == EDIT:
            self.edit(post, change)
        elif post is not None and change.kind == WITHDRAWAL:
            self.withdraw(post)

    def find(self, receipt: str) -> Post | None:
        """The post of a receipt."""
        code = self.receipts.read(receipt)
        post = self._by_receipt.get(code[:16])
        return post if post is not None and hmac.compare_digest(code, self.receipts.code(post)) else None

    def find_by_id(self, name: str) -> Post | None:
        """The post of a public id, as long as its receipt is known."""
        return self._by_receipt.get(bytes.fromhex(self.receipts.of_id(name))[:16])

    # ---- what goes ----------------------------------------------------------------------------------------------

    def schedule(self, post: Post, shift: int) -> None:
        """Put a post whose entry is on the disk into the schedule, unless it waits for another."""
        post.is_durable = True
        if post.waits or post.id not in self.held:
            return
        post.planned = appears_at(post, self.spaces()[post.space], shift)
        heappush(self._schedule[post.space], (post.planned, post.shuffle, post.id))

    def claim(self, space: str, moment: int, limit: int, shift: int) -> list[Post]:
        """Posts that are due, in random order; they are leaving from now on."""
        schedule, due = self._schedule[space], self._due[space]
        while schedule and schedule[0][0] <= moment:
            planned, shuffle, name = heappop(schedule)
            post = self.held.get(name)
            if post is not None and post.planned == planned and post.state in (HELD, WITHDRAWN):
                heappush(due, (shuffle, name))
                if post.state == WITHDRAWN:
                    self._release_replies(post.id, planned, shift)
        claimed: list[Post] = []
        while due and len(claimed) < limit:
            post = self.held.get(heappop(due)[1])
            if post is not None and post.state == HELD:
                post.state = LEAVING
                claimed.append(post)
            elif post is not None and post.state == WITHDRAWN:
                self._release_replies(post.id, moment, shift)
        return claimed

    def posted(self, posts: Iterable[Post], moment: int, shift: int) -> None:
        """Posts are in the feed, and on the disk."""
        for post in posts:
            post.strip(POSTED)
            self._release_replies(post.id, moment, shift)

    def _release_replies(self, parent: str, moment: int, shift: int) -> None:
        withdrawn = self.held.pop(parent).state == WITHDRAWN
        for reply in self._replies_to.pop(parent, ()):
            reply.waits, reply.after = False, moment
            if withdrawn:
                reply.reply_to = None
            if reply.is_durable:
                self.schedule(reply, shift)

    def is_due(self, space: str, moment: int) -> bool:
        """Whether something may appear in a space."""
        schedule = self._schedule[space]
        return bool(self._due[space] or (schedule and schedule[0][0] <= moment))

    def forget(self, now: int) -> None:
        """Forget arrivals that no status needs any more, and receipts and keys whose days are over."""
        self.sittings.forget(now, self.longest_window())
        self.limits.forget(now)
        self.weeks.forget(now)
        for day in [day for day in self._forget_on if (day + 1) * DAY <= now]:
            for post in self._forget_on.pop(day):
                if post.id in self.held:  # it is late: the gateway was down
                    self._forget_on[now // DAY].append(post)
                    continue
                self.by_key.pop(post.key, None)
                self._by_receipt.pop(self.receipts.code(post)[:16], None)

    def longest_window(self) -> int:
        """Microseconds after which no status needs an arrival."""
        return max((space.window_micros for space in self.spaces().values()), default=0)

    def __len__(self) -> int:
        return len(self._by_receipt)


def appears_at(post: Post, space: Space, shift: int) -> int:
    """When a post that waits for no other is to appear; a reply as if it had come when its parent appeared: see above."""
    if post.after < 0:
        return post.due
    return max(post.due, space.due_at(post.after + shift + 1, post.pause) - shift)
