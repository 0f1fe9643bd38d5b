"""Taking posts: status, delay and schedule in the transaction that acknowledges them.

**Which posts count as predecessors.** Every post that was taken, also one that was edited or withdrawn since. The status of
a post is then a function of the arrivals alone, as the theorem wants it; a withdrawal only removes its own post from
what the public sees, which is post-processing. If withdrawn posts ceased to count, a comment's status would depend on
what its author did to another one meanwhile, and neighbors would differ in more than one comment.

**Edits never redraw.** They replace the sealed text and touch nothing else.

**Order.** Requests of one transaction have one time of arrival. Of two posts of one person in it, the second follows the
first. On PostgreSQL a lock on the person (as a hash) keeps two servers from overlooking each other's.

**What is stored about people.** Nothing that repeats: the owner of a receipt is a MAC of receipt, space and actor; the record
of a key is a MAC of person and key, and its body one of that and the request; which held post answers which stands inside
the sealed posts. The arrivals of a sitting are one sealed row per person, under a name that changes every day.

**What an author learns** is a random receipt and the longest delay that the thread's mechanism allows: the same fields,
the same length, whatever was drawn.
"""

import hmac
import json
import secrets
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

import numpy as np
from sqlalchemy import Connection, Row, bindparam, delete, select, text, update

from peerveil.core.randomness import Randomness
from peerveil.timing.base import DelayMechanism
from peerveil.web.common import Digests, Records, Vault
from peerveil.web.common.database import DAY, SECOND, among, end_of_day, insert_rows
from peerveil.web.common.errors import Conflict, NotFound, ServiceError, Unavailable, Unprocessable
from peerveil.web.common.records import Record
from peerveil.web.common.vault import CannotOpen
from peerveil.web.gateway.sittings import Arrival, Sittings
from peerveil.web.gateway.space import Space
from peerveil.web.gateway.tables import feed, held, receipts
from peerveil.web.gateway.tally import place_delays
from peerveil.web.gateway.watch import Watch

_KEEP: Final = 7 * DAY  # a receipt and an idempotency record outlive the longest delay by this
_LOCKS: Final = text(
    "SELECT pg_advisory_xact_lock(k) FROM (SELECT unnest(CAST(:keys AS bigint[])) AS k ORDER BY 1) AS sorted"
)
_NANOS: Final = 1000  # nanoseconds in a microsecond


@dataclass(frozen=True, slots=True)
class Submit:
    """A new post."""

    space: Space
    actor: str
    key: str
    body_hash: str
    thread: str
    content: str
    reply_to: str | None = None
    batch: bool = False


@dataclass(frozen=True, slots=True)
class Edit:
    """Another text for a post that is still held."""

    space: str
    actor: str
    receipt: str
    content: str


@dataclass(frozen=True, slots=True)
class Withdraw:
    """A post that is not to appear."""

    space: str
    actor: str
    receipt: str


AuthorRequest = Submit | Edit | Withdraw


@dataclass(slots=True)
class _Parent:
    """A held post that may be answered by its author."""

    id: str
    owner: str
    replies: list[str]
    body: dict[str, Any] | None
    """What is stored of it, if it is stored already."""


@dataclass(slots=True)
class _New:
    """A post on its way into the tables."""

    request: Submit
    id: str
    receipt: str
    person: str
    owner: str
    record: Record
    follows: bool
    parent: _Parent | None
    reply_to: str | None
    replies: list[str] = field(default_factory=list)
    due_at: int = 0
    batched_at: int | None = None
    fit: tuple[int, ...] = ()

    def body(self) -> dict[str, Any]:
        """What is sealed: thread, content, fits, the public post that it answers, the held posts that answer it."""
        post = self.request
        return {"t": post.thread, "c": post.content, "f": self.fit, "r": self.reply_to, "k": self.replies}


class Intake:
    """What happens to requests inside one transaction."""

    def __init__(self, vault: Vault, digests: Digests, records: Records, watch: Watch) -> None:
        self._vault = vault
        self._digests = digests
        self._records = records
        self._watch = watch
        self._sittings = Sittings(vault, digests)
        self._randomness = Randomness.secure()

    def take(self, connection: Connection, requests: Sequence[AuthorRequest]) -> list[Any]:
        """An answer (bytes) or a refusal for each request, in order."""
        submits = [request for request in requests if isinstance(request, Submit)]
        taken = iter(self._submit(connection, submits) if submits else ())
        return [
            next(taken) if isinstance(request, Submit) else self._change(connection, request) for request in requests
        ]

    # ---- new posts ----------------------------------------------------------------------------------------------

    def _submit(self, connection: Connection, requests: Sequence[Submit]) -> list[Any]:
        people = [self._digests("person", request.space.name, request.actor) for request in requests]
        keys = [self._digests("key", person, request.key) for person, request in zip(people, requests, strict=True)]
        self._lock(connection, people)
        now = self._watch.now(connection)
        then = self._watch.unshifted(connection, now)
        known = self._records.find(connection, keys)
        spaces = {person: request.space for person, request in zip(people, requests, strict=True)}
        past = self._sittings.read(connection, spaces, then)
        parents = self._parents(connection, requests)
        answers: list[Any] = []
        fresh: list[_New] = []
        rejoined: list[str] = []
        for request, person, key in zip(requests, people, keys, strict=True):
            try:
                body = self._digests("body", key, request.body_hash)
                if key in known:
                    answers.append(known[key].answer_for(body))
                    continue
                if request.space.is_closed(now):
                    raise Conflict("the deadline of this space has passed; nothing more is taken")
                new = self._new(request, person, key, body, past.setdefault(person, []), then, parents, rejoined)
            except ServiceError as refusal:
                answers.append(refusal)
                continue
            known[key] = new.record
            fresh.append(new)
            answers.append(new.record.answer)
        self._draw(fresh, now)
        self._store(connection, fresh, rejoined, now)
        self._sittings.write(connection, {new.person: spaces[new.person] for new in fresh}, past, then)
        return answers

    def _new(
        self,
        request: Submit,
        person: str,
        key: str,
        body: str,
        past: list[Arrival],
        then: int,
        parents: dict[str, str | _Parent],
        rejoined: list[str],
    ) -> _New:
        parent, reply_to = self._reply(request, parents)
        thread = self._digests("thread", request.space.name, request.thread)[:32]
        within = [arrival for arrival in past if then - arrival.at <= request.space.window_micros]
        near = [arrival.post for arrival in within if arrival.thread != thread]
        if request.space.declared:
            # whoever declared a sitting within the window before, on any thread, is in it still
            follows = request.batch or any(arrival.declared for arrival in within)
        else:
            follows = bool(near)
            if not request.space.base.follow_ups_only:
                rejoined += near
        receipt = secrets.token_urlsafe(32)
        digest = sha256(receipt.encode()).hexdigest()
        longest = request.space.longest_delay(request.thread)
        new = _New(
            request=request,
            id=secrets.token_hex(16),
            receipt=digest,
            person=person,
            owner=self.owner(digest, request.space.name, request.actor),
            record=Record(key, body, json.dumps({"receipt": receipt, "longest_delay": longest}).encode()),
            follows=follows,
            parent=parent,
            reply_to=reply_to,
        )
        past.append(Arrival(thread, then, request.batch, new.id))
        parents[receipt] = _Parent(new.id, new.owner, new.replies, None)
        if parent is not None:
            parent.replies.append(new.id)
        return new

    def _reply(self, request: Submit, parents: dict[str, str | _Parent]) -> tuple[_Parent | None, str | None]:
        """The held or the public post that a new one answers."""
        if request.reply_to is None:
            return None, None
        parent = parents.get(request.reply_to)
        if isinstance(parent, str):
            return None, parent
        digest = sha256(request.reply_to.encode()).hexdigest()
        if parent is None or not hmac.compare_digest(
            parent.owner, self.owner(digest, request.space.name, request.actor)
        ):
            raise Unprocessable(
                "reply_to: the public id of a post of this space, or the receipt of a held post of yours"
            )
        return parent, None

    def _parents(self, connection: Connection, requests: Sequence[Submit]) -> dict[str, str | _Parent]:
        """For each reply_to that means something: a public id, or a held post, locked so that it is not published yet."""
        named = {request.reply_to: request.space.name for request in requests if request.reply_to is not None}
        if not named:
            return {}
        parents: dict[str, str | _Parent] = {}
        for row in connection.execute(select(feed.c.id, feed.c.space).where(among(connection, feed.c.id, list(named)))):
            if named[row.id] == row.space:
                parents[row.id] = row.id
        hashes = {sha256(name.encode()).hexdigest(): name for name in named}
        joined = select(held.c.id, held.c.receipt, held.c.body, receipts.c.owner).join_from(
            held, receipts, held.c.receipt == receipts.c.receipt
        )
        own = joined.where(among(connection, held.c.receipt, list(hashes))).order_by(held.c.id)
        for post in connection.execute(own.with_for_update(of=held)):
            with suppress(CannotOpen):  # a key is missing: it cannot be answered now
                body = open_post(self._vault, post)
                parents[hashes[post.receipt]] = _Parent(post.id, post.owner, body["k"], body)
        return parents

    def _draw(self, fresh: Sequence[_New], now: int) -> None:
        """Draw every delay, once. Symmetric mechanisms draw both, and the schedule chooses when the hold is over."""
        groups = defaultdict[DelayMechanism, list[_New]](list)
        for new in fresh:
            groups[new.request.space.mechanism_for(new.request.thread)].append(new)
        for mechanism, members in groups.items():
            flags = np.array([new.follows for new in members])
            own = mechanism.draw_ticks(flags, self._randomness)
            fit = place_delays(mechanism, flags, own, self._randomness)
            waits = not mechanism.follow_ups_only
            others = np.ones(len(members), dtype=np.bool_)
            joined = mechanism.draw_ticks(others, self._randomness) if waits else own
            joined_fit = place_delays(mechanism, others, joined, self._randomness) if waits else fit
            for k, new in enumerate(members):
                space = new.request.space
                # rounded up to microseconds, and then to the grid: functions of the drawn time
                new.due_at = space.due_at(now, -(-int(own[k]) // _NANOS))
                new.fit = (int(fit[k]),)
                if waits and not space.declared and not new.follows:
                    new.batched_at = space.due_at(now, -(-int(joined[k]) // _NANOS))
                    new.fit = (int(fit[k]), int(joined_fit[k]))

    def _store(self, connection: Connection, fresh: Sequence[_New], rejoined: list[str], now: int) -> None:
        if not fresh:
            return
        shuffle = self._randomness.integers(0, 2**62, len(fresh)).tolist()
        until = {
            new.record.key: now + _KEEP + new.request.space.longest_delay(new.request.thread) * SECOND for new in fresh
        }
        insert_rows(
            connection,
            held,
            [
                {
                    "id": new.id,
                    "space": new.request.space.name,
                    "receipt": new.receipt,
                    "due_at": new.due_at,
                    "batched_at": new.batched_at,
                    "shuffle": place,
                    "waits": int(new.parent is not None),
                    "body": seal_post(self._vault, new.id, new.body()),
                }
                for new, place in zip(fresh, shuffle, strict=True)
            ],
        )
        insert_rows(
            connection,
            receipts,
            [
                {
                    "receipt": new.receipt,
                    "owner": new.owner,
                    "space": new.request.space.name,
                    "state": "taken",
                    "expires": end_of_day(until[new.record.key]),
                }
                for new in fresh
            ],
        )
        self._records.keep(connection, [new.record for new in fresh], until=until)
        answered = {new.parent.id: new.parent.body for new in fresh if new.parent is not None and new.parent.body}
        if answered:
            changed = update(held).where(held.c.id == bindparam("post")).values(body=bindparam("sealed"))
            sealed = [{"post": post, "sealed": seal_post(self._vault, post, body)} for post, body in answered.items()]
            connection.execute(changed, sealed)
        if rejoined:
            # a companion has come within the window: the other draw counts. Both were made when the post was taken
            connection.execute(
                update(held)
                .where(among(connection, held.c.id, rejoined), held.c.batched_at.is_not(None))
                .values(due_at=held.c.batched_at, batched_at=None)
            )

    # ---- edits and withdrawals ----------------------------------------------------------------------------------

    def _change(self, connection: Connection, request: Edit | Withdraw) -> Any:
        try:
            self._watch.now(connection)
            receipt = sha256(request.receipt.encode()).hexdigest()
            row = self.find_receipt(connection, receipt, request.space, request.actor)
            # waits for a publication that is under way; the post is then gone
            post = connection.execute(select(held).where(held.c.receipt == receipt).with_for_update()).one_or_none()
            if isinstance(request, Withdraw):
                return self._withdraw(connection, row, post)
            if row.state == "withdrawn" or post is None:
                raise Conflict("it was withdrawn" if row.state == "withdrawn" else "it is posted; too late to edit")
            sealed = seal_post(self._vault, post.id, open_post(self._vault, post) | {"c": request.content})
            connection.execute(update(held).where(held.c.id == post.id).values(body=sealed))
        except CannotOpen:
            return Unavailable("the key of this post is missing; its operator must put it back")
        except ServiceError as refusal:
            return refusal
        return b'{"state": "held"}'

    def _withdraw(self, connection: Connection, row: Row[Any], post: Row[Any] | None) -> bytes:
        if row.state != "withdrawn":
            if post is None:
                raise Conflict("it is posted; too late to withdraw")
            connection.execute(delete(held).where(held.c.id == post.id))
            replies = open_post(self._vault, post)["k"]
            connection.execute(update(held).where(among(connection, held.c.id, replies)).values(waits=0))
            connection.execute(update(receipts).where(receipts.c.receipt == row.receipt).values(state="withdrawn"))
        return b'{"state": "withdrawn"}'

    def find_receipt(self, connection: Connection, receipt: str, space: str, actor: str) -> Row[Any]:
        """The row of a receipt, if it belongs to this person; otherwise it does not exist."""
        row = connection.execute(select(receipts).where(receipts.c.receipt == receipt)).one_or_none()
        if row is None or not hmac.compare_digest(row.owner, self.owner(receipt, space, actor)):
            raise NotFound("no post of yours has this receipt")
        return row

    # ---- small parts --------------------------------------------------------------------------------------------

    def owner(self, receipt: str, space: str, actor: str) -> str:
        """Whose a receipt is, as the tables know it: a value that no other receipt has."""
        return self._digests("owner", receipt, space, actor)

    def _lock(self, connection: Connection, people: Sequence[str]) -> None:
        if connection.dialect.name != "sqlite":
            connection.execute(_LOCKS, {"keys": sorted({int(person[:15], 16) for person in people})})


def seal_post(vault: Vault, post: str, body: dict[str, Any]) -> bytes:
    """What a held post says, sealed for its own row."""
    return vault.seal(json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass"), about=post)


def open_post(vault: Vault, row: Any) -> dict[str, Any]:
    """What the held post of a row says."""
    return dict(json.loads(vault.open(bytes(row.body), about=row.id)))
