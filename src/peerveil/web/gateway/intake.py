"""Taking posts: status, delay and schedule are decided once, in memory, and written as one entry of the journal.

**Which posts count as predecessors.** Every post that was taken, also one that was edited or withdrawn since. The status of
a post is then a function of the arrivals alone, as the theorem wants it; a withdrawal only removes its own post from
what the public sees, which is post-processing. If withdrawn posts ceased to count, a comment's status would depend on
what its author did to another one meanwhile, and neighbors would differ in more than one comment.

**Edits never redraw.** They replace the text and touch nothing else. An edit of a published post is an event of its own.

**Order.** Requests are taken one after the other by one process. Of two posts of one person that come at once, the second
follows the first.

**Exactly once.** The key and the post are one entry: either both are on the disk or neither. A repeated key gets the answer
of the first request, which can be computed again from the entry. Answers wait until the entry's last byte is on the disk
(:mod:`peerveil.web.gateway.ticks`).

**What an author learns** is a random receipt and the longest delay that the thread's mechanism allows: the same fields, the
same length, whatever was drawn. For a reply to a held post it is that of both, one after the other.
"""

import hmac
import json
import secrets
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, NamedTuple

import numpy as np

from peerveil.core.errors import PeerveilError
from peerveil.core.randomness import Randomness
from peerveil.timing.base import DelayMechanism
from peerveil.web.common import Digests
from peerveil.web.common.database import DAY, SECOND, end_of_day
from peerveil.web.common.errors import Conflict, NotFound, ServiceError, Unavailable, Unprocessable
from peerveil.web.common.tokens import EVERYWHERE
from peerveil.web.gateway.memory import Memory
from peerveil.web.gateway.posts import (
    EDIT,
    EDITING,
    HELD,
    LEAVING,
    POSTING,
    REMOVAL,
    WITHDRAWN,
    Change,
    Post,
    edit_entry,
    post_entry,
    withdrawal_entry,
)
from peerveil.web.gateway.space import Space
from peerveil.web.gateway.tally import place_delays
from peerveil.web.gateway.weeks import Ask, advice

_KEEP: Final = 7 * DAY  # a receipt and an idempotency key outlive the longest delay by this
_NANOS: Final = 1000  # nanoseconds in a microsecond
_HELD_ANSWER: Final = b'{"state": "held"}'
_CODE_BYTES: Final = 16  # of a MAC: guessing one, or two that meet, stays out of reach


@dataclass(frozen=True, slots=True)
class Submit:
    """A new post. ``metadata`` comes out with it, as it is."""

    space: Space
    actor: str
    key: str
    body_hash: str
    thread: str
    content: str
    reply_to: str | None = None
    batch: bool = False
    metadata: str | None = None
    kind: str = POSTING
    changes: str | None = None


@dataclass(frozen=True, slots=True)
class Edit:
    """Another text for a post; ``metadata`` too, if they are given. A published one needs a ``key``."""

    space: str
    actor: str
    receipt: str
    content: str
    metadata: str | None = None
    key: str = ""


@dataclass(frozen=True, slots=True)
class Withdraw:
    """A post that is not to appear, or, with a ``key``, to be taken down."""

    space: str
    actor: str
    receipt: str
    key: str = ""


AuthorRequest = Submit | Edit | Withdraw | Ask


class Moment(NamedTuple):
    """When requests are taken: the time, and the confirmed steps of the clock in it."""

    now: int
    shift: int

    @property
    def unshifted(self) -> int:
        """The time as sealed entries have it."""
        return self.now - self.shift


@dataclass(slots=True)
class Outcome:
    """What becomes of a request: its answer or refusal, the entry to write if there is one, and the post it is about.

    An answer may be given when every entry about ``post`` is on the disk; a refusal at once.
    """

    answer: bytes | PeerveilError
    post: Post | None = None
    entry: bytes | None = None


@dataclass(slots=True)
class _New:
    """A post on its way into memory."""

    request: Submit
    post: Post
    follows: bool
    joined: list[str]
    earlier: int


class Intake:
    """Decides what happens to requests. The parts that tests replace by faulty ones are methods of their own."""

    def __init__(self, digests: Digests) -> None:
        self._digests = digests
        self._randomness = Randomness.secure()

    def take(
        self, memory: Memory, requests: Sequence[AuthorRequest], moment: Moment, public: Mapping[str, tuple[str, str]]
    ) -> list[Outcome]:
        """An outcome for each request, in order.

        ``public`` holds space and thread of those posts in the feed that requests answer.
        """
        outcomes: list[Outcome | None] = [None] * len(requests)
        fresh: list[tuple[int, _New]] = []
        for number, request in enumerate(requests):
            try:
                event: Submit | Outcome
                if isinstance(request, Submit):
                    event = request
                elif isinstance(request, Ask):
                    event = Outcome(self.advise(memory, request, moment.unshifted))
                else:
                    if fresh:  # of a post that is not drawn yet nobody has the receipt; but order is kept all the same
                        self._finish(memory, fresh, outcomes, moment)
                    event = self._change(memory, request)
                if isinstance(event, Outcome):
                    outcomes[number] = event
                    continue
                taken = self._submit(memory, event, moment, public)
                if isinstance(taken, _New):
                    fresh.append((number, taken))
                else:
                    outcomes[number] = Outcome(self.answer(memory, taken), taken)
            except ServiceError as refusal:
                outcomes[number] = Outcome(refusal)
        self._finish(memory, fresh, outcomes, moment)
        return [outcome for outcome in outcomes if outcome is not None]

    # ---- new posts ----------------------------------------------------------------------------------------------

    def person(self, actor: str) -> bytes:
        """Who somebody is, in all spaces of this gateway."""
        return self._code("person", actor)

    def _submit(
        self, memory: Memory, request: Submit, moment: Moment, public: Mapping[str, tuple[str, str]]
    ) -> "_New | Post":
        space, then = request.space, moment.unshifted
        person = self.person(request.actor)
        used = self._used(space.name, request.actor, request.key)
        key, body = bytes.fromhex(used)[:_CODE_BYTES], self._code("body", used, request.body_hash)
        known = memory.by_key.get(key)
        if known is not None:
            self.check_body(known, body)
            return known
        if space.is_closed(moment.now):
            raise Conflict("the deadline of this space has passed; nothing more is taken")
        parent = self._parent(memory, request, public)
        latest = moment.now + parent.longest * SECOND if isinstance(parent, Post) else 0
        # the parent could appear at the deadline, and the reply with it: a function of what its author was told
        if space.deadline is not None and latest >= space.deadline:
            raise Conflict("so near the deadline, a held post cannot be answered; answer it when it has appeared")
        memory.limits.check(person, space, then)
        memory.weeks.check(person, space, then)
        earlier = memory.weeks.count(person, then)
        thread_code = self._code("thread", space.name, request.thread)
        follows, joined = self._status(memory, request, person, thread_code, then)
        longest = space.longest_delay(request.thread, earlier) + (parent.longest if isinstance(parent, Post) else 0)
        post = Post(
            secrets.token_hex(16), key, body, person, space.name, longest,
            end_of_day(then + _KEEP + longest * SECOND), HELD, thread_code, then, request.batch, thread=request.thread,
            content=request.content, metadata=request.metadata, waits=isinstance(parent, Post),
            reply_to=parent.id if isinstance(parent, Post) else parent, kind=request.kind, changes=request.changes,
        )  # fmt: skip
        # known from here on, so that the next request of the same transaction sees it
        memory.by_key[key] = post
        memory.sittings.add(post)
        memory.limits.add(post)
        memory.weeks.add(post)
        return _New(request, post, follows, joined, earlier)

    def advise(self, memory: Memory, request: Ask, then: int) -> bytes:
        """What would become of a post now: a function of the asker's own posts."""
        person, code = self.person(request.actor), self._code("thread", request.space.name, request.thread)
        near = memory.sittings.near(person, then, request.space.window_micros)
        ends = [post.arrived + request.space.window_micros - then for post in near if post.thread_code != code]
        seconds = max((left // SECOND + 1 for left in ends), default=0)
        return advice(request.space, request.thread, memory.weeks.count(person, then), seconds)

    def check_body(self, post: Post, body: bytes) -> None:
        """Refuse a key that was used for another request."""
        if not hmac.compare_digest(post.body, body):
            raise Unprocessable("Idempotency-Key: it was used with another body; take a new key for a new request")

    def _status(
        self, memory: Memory, request: Submit, person: bytes, thread_code: bytes, then: int
    ) -> tuple[bool, list[str]]:
        """Whether a post is part of a sitting that has begun, and the earlier posts that become part of one by it."""
        window, joined, follows = request.space.window_micros, [], False
        spaces = memory.spaces()
        for earlier in memory.sittings.near(person, then, memory.longest_window()):
            elsewhere = earlier.thread_code != thread_code
            within = then - earlier.arrived <= window
            if request.space.declared:
                # whoever declared a sitting within the window before, on any thread, is in it still
                follows = follows or request.batch or (within and earlier.declared)
            else:
                follows = follows or (within and elsewhere)
            # whether the earlier one gets a companion is for the window of its own space
            own = spaces.get(earlier.space) if elsewhere else None
            if own is not None and own.looks_back and then - earlier.arrived <= own.window_micros:
                joined.append(earlier.id)
        return follows or (request.space.declared and request.batch), joined

    def _parent(self, memory: Memory, request: Submit, public: Mapping[str, tuple[str, str]]) -> Post | str | None:
        """The held or the public post that a new one answers: of the same space and thread."""
        if request.reply_to is None:
            return None
        where = (request.space.name, request.thread)
        if public.get(request.reply_to) == where:
            return request.reply_to
        parent = self.own(memory, request.reply_to, request.space.name, request.actor)
        if parent is None or parent.state != HELD or parent.thread != request.thread or parent.changes:
            raise Unprocessable(
                "reply_to: the public id of a post of this thread, or the receipt of a held post of yours on it"
            )
        return parent

    def _finish(
        self, memory: Memory, fresh: list[tuple[int, _New]], outcomes: list[Outcome | None], moment: Moment
    ) -> None:
        """Draw what new posts need, and write them into memory."""
        self.draw([new for _, new in fresh], moment)
        for number, new in fresh:
            memory.sittings.discard(new.post)  # add() brings it back
            memory.limits.discard(new.post)
            memory.add(new.post, new.joined, moment.shift)
            outcomes[number] = Outcome(self.answer(memory, new.post), new.post, post_entry(new.post, new.joined))
        fresh.clear()

    def draw(self, fresh: Sequence[_New], moment: Moment) -> None:
        """Draw every delay, once. Symmetric mechanisms draw both, and the schedule chooses when the hold is over."""
        groups = defaultdict[DelayMechanism, list[_New]](list)
        for new in fresh:
            groups[new.request.space.mechanism_for(new.request.thread, new.earlier)].append(new)
        for mechanism, members in groups.items():
            flags = np.array([new.follows for new in members])
            own = mechanism.draw_ticks(flags, self._randomness)
            fit = place_delays(mechanism, flags, own, self._randomness)
            waits = not mechanism.follow_ups_only
            others = np.ones(len(members), dtype=np.bool_)
            joined = mechanism.draw_ticks(others, self._randomness) if waits else own
            joined_fit = place_delays(mechanism, others, joined, self._randomness) if waits else fit
            pauses = mechanism.draw_ticks(~others, self._randomness)
            order = self._randomness.integers(1, 2**62, len(members))
            for k, new in enumerate(members):
                post, space = new.post, new.request.space
                # rounded up to microseconds, and then to the grid: functions of the drawn time
                post.due = space.due_at(moment.now, -(-int(own[k]) // _NANOS)) - moment.shift
                post.shuffle = int(order[k])
                post.fit = (int(fit[k]),)
                post.pause = -(-int(pauses[k]) // _NANOS) if post.waits else 0
                if waits and not space.declared and not new.follows:
                    post.batched_at = space.due_at(moment.now, -(-int(joined[k]) // _NANOS)) - moment.shift
                    post.fit = (int(fit[k]), int(joined_fit[k]))

    def answer(self, memory: Memory, post: Post) -> bytes:
        """What the author gets, now and whenever the same request is repeated."""
        return json.dumps({"receipt": memory.receipts.write(post), "longest_delay": post.longest}).encode()

    # ---- edits and withdrawals ----------------------------------------------------------------------------------

    def _change(self, memory: Memory, request: Edit | Withdraw) -> Outcome | Submit:
        """What becomes of a held post, or the event that changes a published one."""
        post = self.find(memory, request.receipt, request.space, request.actor)
        if isinstance(request, Edit) and len(request.content) > memory.spaces()[post.space].longest:
            raise Unprocessable(f"content: at most {memory.spaces()[post.space].longest} characters in this space")
        if post.state == WITHDRAWN:
            if isinstance(request, Withdraw):
                return Outcome(b'{"state": "withdrawn"}', post)
            raise Conflict("it was withdrawn")
        if post.state != HELD:
            return self._change_published(memory, request, post)
        if isinstance(request, Withdraw):
            memory.withdraw(post)
            return Outcome(b'{"state": "withdrawn"}', post, withdrawal_entry(post))
        memory.edit(post, self._edited(request, post, post.kind))
        return Outcome(_HELD_ANSWER, post, edit_entry(post))

    def _change_published(self, memory: Memory, request: Edit | Withdraw, post: Post) -> Outcome | Submit:
        """A change of a published post is an event of its author: see :mod:`peerveil.web.gateway.changes`."""
        if post.changes is not None:
            raise Conflict("this is a change itself, and posted; send the receipt of the post that it changed")
        if not request.key:
            raise Conflict("it is posted; with a header Idempotency-Key the change appears later, as a post would")
        used, latest = self._used(post.space, request.actor, request.key), post.latest
        known = memory.by_key.get(bytes.fromhex(used)[:_CODE_BYTES])
        event = self._event(memory, request, post)
        if known is not None:
            return event  # it is repeated
        changed = self._changed(request, post)
        if changed == post.changed:  # it was done when the post was held
            return Outcome(_HELD_ANSWER, post)
        if latest is not None and latest.state != WITHDRAWN:
            if changed == latest.changed or (latest.kind == REMOVAL and isinstance(request, Withdraw)):
                return Outcome(self.answer(memory, latest), latest)
            if latest.kind == REMOVAL:
                raise Conflict("it was taken down by its author")
            if latest.state == HELD:
                memory.edit(latest, self._edited(request, latest, event.kind))
                return Outcome(self.answer(memory, latest), latest, edit_entry(latest))
        if post.state == LEAVING or (latest is not None and latest.state == LEAVING):
            raise Unavailable("it appears at this very moment; send the same request again")
        if not post.thread:
            raise Conflict("it was posted by an earlier version of the gateway, and cannot be changed")
        return event

    def _event(self, memory: Memory, request: Edit | Withdraw, post: Post) -> Submit:
        content, metadata = (request.content, request.metadata) if isinstance(request, Edit) else ("", None)
        kind = EDITING if isinstance(request, Edit) else REMOVAL
        body_hash = sha256(json.dumps([kind, post.id, content, metadata]).encode()).hexdigest()
        return Submit(
            memory.spaces()[post.space], request.actor, request.key, body_hash, post.thread, content,
            metadata=metadata, kind=kind, changes=post.id,
        )  # fmt: skip

    def _edited(self, request: Edit | Withdraw, post: Post, kind: str) -> Change:
        content, metadata = (request.content, request.metadata) if isinstance(request, Edit) else ("", None)
        if isinstance(request, Edit) and metadata is None:
            metadata = post.metadata
        changed = self._changed(request, post)
        return Change(EDIT, post.id, content=content, metadata=metadata, post_kind=kind, changed=changed)

    def _changed(self, request: Edit | Withdraw, post: Post) -> bytes:
        return self._code("change", self._used(post.space, request.actor, request.key)) if request.key else b"-"

    def _used(self, space: str, actor: str, key: str) -> str:
        return self._digests("key", self._digests("person", space, actor), key)

    def find(self, memory: Memory, receipt: str, space: str, actor: str) -> Post:
        """The post of a receipt, if it belongs to this person; otherwise it does not exist."""
        post = self.own(memory, receipt, space, actor)
        if post is None:
            raise NotFound("no post of yours has this receipt")
        return post

    def own(self, memory: Memory, receipt: str, space: str, actor: str) -> Post | None:
        """The same, or None."""
        post = memory.find(receipt)
        if post is None or space not in (EVERYWHERE, post.space):
            return None
        person = self.person(actor)
        if len(post.person) > len(person):  # from version 3
            person = bytes.fromhex(self._digests("owner", sha256(receipt.encode()).hexdigest(), post.space, actor))
        return post if hmac.compare_digest(post.person, person) else None

    def _code(self, kind: str, *parts: Any) -> bytes:
        return bytes.fromhex(self._digests(kind, *parts)[: 2 * _CODE_BYTES])
