"""A post as the gateway's memory has it, and as entries of the journal and of the state write it.

All times are in microseconds *minus the shift*: the clock steps that operators confirmed are not in them, so that a
confirmed step changes no sealed value (:mod:`peerveil.web.gateway.watch`).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

HELD: Final = 0
LEAVING: Final = 1  # its publication is under way
POSTED: Final = 2
WITHDRAWN: Final = 3

POSTING: Final = "post"
EDITING: Final = "edit"
REMOVAL: Final = "removed"

_POST: Final = "p"
_RECORD: Final = "r"
EDIT: Final = "e"
WITHDRAWAL: Final = "w"
HEADER: Final = "h"
TALLIES: Final = "t"


@dataclass(slots=True, eq=False)
class Post:
    """A post that was taken. After publication or withdrawal only its first part is kept, for receipts and keys."""

    id: str
    """Its public id, drawn when it was taken."""
    key: bytes
    """MAC of person, space and idempotency key."""
    body: bytes
    """MAC of the request, which no other request with this key may differ from."""
    person: bytes
    """MAC of the actor: one history for all spaces. (Of a post from version 3, the longer MAC of its receipt's owner.)"""
    space: str
    longest: int
    """Seconds: the longest delay, as its author was told."""
    forget: int
    """When receipt and key may be forgotten."""
    state: int = HELD
    thread_code: bytes = b""
    """MAC of space and thread, for as long as the next status of the person may need it."""
    arrived: int = 0
    declared: bool = False
    code: bytes = b""
    """Its receipt, if it is from version 3, where receipts were random."""

    thread: str = ""
    content: str = ""
    metadata: str | None = None
    reply_to: str | None = None
    """The public id of the post that it answers."""
    kind: str = POSTING
    changes: str | None = None
    """The public id of the published post that this one edits or removes."""
    changed: bytes = b""
    """MAC of the key of the request that last changed it while it was held."""
    latest: "Post | None" = None
    """Of a published post: its latest edit or removal. It stands in that one's entry."""
    waits: bool = False
    """Whether that one was held when this one came, and has not appeared yet."""
    after: int = -1
    """When that one appeared (or would have, had it not been withdrawn); -1 if it did not wait for any."""
    pause: int = 0
    """How long after that one it appears at the earliest: a delay of its own, drawn once."""
    due: int = 0
    batched_at: int | None = None
    """When it is due if a companion comes within the window (symmetric mechanisms)."""
    shuffle: int = 0
    fit: tuple[int, ...] = ()
    position: int = 0
    """Where in the journal's stream the last entry about it ends: authors are answered when that is on the disk."""
    is_durable: bool = False
    """Whether its own entry is on the disk: it is not published before."""
    planned: int = -1
    """The time for which it stands in the schedule; -1 if it does not."""

    def join_sitting(self) -> None:
        """A companion has come within the window: the other draw counts. Both were made when the post was taken."""
        if self.batched_at is not None:
            self.due, self.batched_at, self.fit = self.batched_at, None, self.fit[-1:]

    def strip(self, state: int) -> None:
        """Forget the text of what is posted or withdrawn. An edit of a posted one needs the thread."""
        self.state = state
        self.content = ""
        self.metadata = None
        if state == WITHDRAWN:
            self.thread = ""


def post_entry(post: Post, joined: Sequence[str] = ()) -> bytes:
    """A held post in full; ``joined`` are the posts whose sitting it joined."""
    code, arrived = post.thread_code.hex(), post.arrived
    own = [_POST, post.id, post.key.hex(), post.body.hex(), post.person.hex(), post.space, post.longest, post.forget]
    own += [post.state, code, arrived, int(post.declared), post.code.hex(), *_change_of(post)]
    own += [post.content, post.metadata, post.reply_to]
    own += [int(post.waits), post.after, post.pause, post.due, post.batched_at, post.shuffle, post.fit, joined]
    return _pack(own)


def record_entry(post: Post) -> bytes:
    """What is kept of a post that is posted or withdrawn."""
    own = [_RECORD, post.id, post.key.hex(), post.body.hex(), post.person.hex(), post.space, post.longest, post.forget]
    own += [post.state, post.thread_code.hex(), post.arrived, int(post.declared), post.code.hex()]
    return _pack([*own, *_change_of(post)])


def _change_of(post: Post) -> list[Any]:
    return [post.thread, post.kind, post.changes, post.changed.hex()]


def edit_entry(post: Post) -> bytes:
    """Another text for a held post, or a removal in the place of an edit that is held."""
    return _pack([EDIT, post.id, post.content, post.metadata, post.kind, post.changed.hex()])


def withdrawal_entry(post: Post) -> bytes:
    """A post that is not to appear."""
    return _pack([WITHDRAWAL, post.id])


def other_entry(kind: str, values: dict[str, Any]) -> bytes:
    """What a state says besides posts."""
    return _pack([kind, values])


def _pack(values: Sequence[Any]) -> bytes:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


@dataclass(slots=True)
class Change:
    """An entry that was read: a post with those whose sitting it joined, an edit, a withdrawal, or what a state says."""

    kind: str
    id: str = ""
    post: Post | None = None
    joined: Sequence[str] = ()
    content: str = ""
    metadata: str | None = None
    post_kind: str = POSTING
    changed: bytes = b""
    values: dict[str, Any] | None = None


def read_entry(raw: bytes) -> Change:
    """What an entry says."""
    kind, first, *rest = json.loads(raw.decode("utf-8", "surrogatepass"))
    if kind in (HEADER, TALLIES):
        return Change(kind, values=first)
    if kind == EDIT:
        content, metadata, post_kind, changed = rest
        return Change(
            kind, first, content=content, metadata=metadata, post_kind=post_kind, changed=bytes.fromhex(changed)
        )
    if kind == WITHDRAWAL:
        return Change(kind, first)
    key, body, person, space, longest, forget, state, thread_code, arrived, declared, code, *more = rest
    post = Post(
        first, bytes.fromhex(key), bytes.fromhex(body), bytes.fromhex(person), space, longest, forget, state,
        bytes.fromhex(thread_code), arrived, bool(declared), bytes.fromhex(code),
    )  # fmt: skip
    post.thread, post.kind, post.changes, changed, *held = more
    post.changed = bytes.fromhex(changed)
    if not held:
        return Change(kind, first, post)
    post.content, post.metadata, post.reply_to, waits, post.after, post.pause, post.due = held[:7]
    post.batched_at, post.shuffle, fit, joined = held[7:]
    post.waits, post.fit = bool(waits), tuple(fit)
    return Change(kind, first, post, joined)
