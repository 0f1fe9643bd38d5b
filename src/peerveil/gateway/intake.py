"""Taking posts: status, delay and schedule in the transaction that acknowledges them.

**Which posts count as predecessors.** Every post that was taken, also one that was edited or withdrawn since. The status of
a post is then a function of the arrivals alone, as the theorem wants it; a withdrawal only removes its own post from
what the public sees, which is post-processing. If withdrawn posts ceased to count, a comment's status would depend on
what its author did to another one meanwhile, and neighbours would differ in more than one comment.

**Edits never redraw.** They replace the sealed text and touch nothing else.

**Order.** Jobs of one transaction have one time of arrival. Of two posts of one person in it, the second follows the
first. On PostgreSQL a lock on the person (as a hash) keeps two servers from overlooking each other's.

**What an author is told** is a random receipt and the longest delay that the thread's mechanism allows: the same fields,
the same length, whatever was drawn.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from sqlalchemy import delete, select, text, update

from peerveil.gateway.tables import among, feed, held, insert_rows, receipts, recent
from peerveil.randomness import Randomness
from peerveil.services.errors import Conflict, NotFound, ServiceError, Unprocessable
from peerveil.services.records import DAY, Record, end_of_day

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Connection, Row

    from peerveil.gateway.space import Space
    from peerveil.gateway.watch import Watch
    from peerveil.services import Digests, Records, Vault
    from peerveil.timing import DelayMechanism

KEPT: Final = 7 * DAY
"""How long a receipt and an idempotency record outlive the longest delay."""

_LOCKS: Final = text(
    "SELECT pg_advisory_xact_lock(k) FROM (SELECT unnest(CAST(:keys AS bigint[])) AS k ORDER BY 1) AS sorted"
)
_TICK: Final = 1000  # nanoseconds in a microsecond


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

    actor_of: dict[str, str]
    receipt: str
    content: str


@dataclass(frozen=True, slots=True)
class Withdraw:
    """A post that is not to appear."""

    actor_of: dict[str, str]
    receipt: str


Job = Submit | Edit | Withdraw


@dataclass(slots=True)
class _New:
    """A post on its way into the tables."""

    job: Submit
    id: str
    receipt: str
    owner: str
    record: str
    follows: bool
    parent: str | None
    reply_to: str | None
    mechanism: DelayMechanism
    answer: bytes
    release_at: int = 0
    batched_at: int | None = None
    fit: tuple[int, ...] = ()


class Intake:
    """What happens to jobs inside one transaction."""

    def __init__(self, vault: Vault, digests: Digests, records: Records, watch: Watch) -> None:
        self._vault = vault
        self._digests = digests
        self._records = records
        self._watch = watch
        self._randomness = Randomness.secure()

    def take(self, connection: Connection, jobs: Sequence[Job]) -> list[Any]:
        """An answer (bytes) or a refusal for each job, in order."""
        answers: list[Any] = [None] * len(jobs)
        submits = [(i, job) for i, job in enumerate(jobs) if isinstance(job, Submit)]
        if submits:
            for i, answer in self._submit(connection, submits):
                answers[i] = answer
        for i, job in enumerate(jobs):
            if not isinstance(job, Submit):
                answers[i] = self._change(connection, job)
        return answers

    # ---- new posts ----------------------------------------------------------------------------------------------

    def _submit(self, connection: Connection, jobs: Sequence[tuple[int, Submit]]) -> list[tuple[int, Any]]:
        owners = [self.owner(job.space.name, job.actor) for _, job in jobs]
        keys = [self._digests("key", owner, job.key) for owner, (_, job) in zip(owners, jobs, strict=True)]
        self._lock(connection, owners)
        now = self._watch.now(connection)
        known = self._records.find(connection, keys)
        past = self._recent(connection, owners, now)
        parents = self._parents(connection, jobs)
        answers: list[tuple[int, Any]] = []
        fresh: list[_New] = []
        rejoined: list[str] = []
        for (i, job), owner, key in zip(jobs, owners, keys, strict=True):
            try:
                if key in known:
                    answers.append((i, known[key].answer_for(job.body_hash)))
                    continue
                if job.space.is_closed(now):
                    raise Conflict("the deadline of this space has passed; nothing more is taken")
                new = self._new(job, owner, key, past.setdefault(owner, []), now, parents, rejoined)
            except ServiceError as refusal:
                answers.append((i, refusal))
                continue
            known[key] = Record(key, job.body_hash, new.answer)
            fresh.append(new)
            answers.append((i, new.answer))
        self._draw(fresh, now)
        self._store(connection, fresh, rejoined, now)
        return answers

    def _new(
        self,
        job: Submit,
        owner: str,
        key: str,
        past: list[tuple[str, int, bool, str]],
        now: int,
        parents: dict[str, tuple[str, str | None]],
        rejoined: list[str],
    ) -> _New:
        parent, reply_to = self._reply(job, owner, parents)
        thread = self._digests("thread", job.space.name, job.thread)
        beta = job.space.beta_ticks
        near = [(post, declared) for other, at, declared, post in past if other != thread and now - at <= beta]
        if job.space.declared:
            # whoever declared a sitting within beta before, on any thread, is in it still
            follows = job.batch or any(declared and now - at <= beta for _, at, declared, _ in past)
        else:
            follows = bool(near)
            if not job.space.base.by_predecessor:
                rejoined += [post for post, _ in near]
        receipt = secrets.token_urlsafe(32)
        longest = job.space.longest_delay(job.thread)
        new = _New(
            job=job,
            id=secrets.token_hex(16),
            receipt=sha256(receipt.encode()).hexdigest(),
            owner=owner,
            record=key,
            follows=follows,
            parent=parent,
            reply_to=reply_to,
            mechanism=job.space.mechanism_for(job.thread),
            answer=json.dumps({"receipt": receipt, "longest_delay": longest}).encode(),
        )
        past.append((thread, now, job.batch, new.id))
        parents[receipt] = (new.id, owner)
        return new

    def _reply(
        self, job: Submit, owner: str, parents: dict[str, tuple[str, str | None]]
    ) -> tuple[str | None, str | None]:
        """The held or the public post that a new one answers."""
        if job.reply_to is None:
            return None, None
        found = parents.get(job.reply_to)
        if found is None or found[1] not in (None, owner):
            raise Unprocessable(
                "reply_to: the public id of a post of this space, or the receipt of a held post of yours"
            )
        return (None, found[0]) if found[1] is None else (found[0], None)

    def _parents(self, connection: Connection, jobs: Sequence[tuple[int, Submit]]) -> dict[str, tuple[str, str | None]]:
        """For each reply_to that means something: a public id, or a held post with its owner."""
        named = {job.reply_to: job.space.name for _, job in jobs if job.reply_to is not None}
        if not named:
            return {}
        found: dict[str, tuple[str, str | None]] = {}
        for row in connection.execute(select(feed.c.id, feed.c.space).where(among(connection, feed.c.id, list(named)))):
            if named[row.id] == row.space:
                found[row.id] = (row.id, None)
        hashes = {sha256(name.encode()).hexdigest(): name for name in named}
        joined = select(held.c.id, held.c.receipt, held.c.space, receipts.c.owner).join_from(
            held, receipts, held.c.receipt == receipts.c.receipt
        )
        for own in connection.execute(joined.where(among(connection, held.c.receipt, list(hashes)))):
            if named[hashes[own.receipt]] == own.space:
                found[hashes[own.receipt]] = (own.id, own.owner)
        return found

    def _recent(
        self, connection: Connection, owners: Sequence[str], now: int
    ) -> dict[str, list[tuple[str, int, bool, str]]]:
        """What each person wrote within a sitting before now."""
        found: dict[str, list[tuple[str, int, bool, str]]] = {}
        rows = select(recent).where(among(connection, recent.c.actor, sorted(set(owners))), recent.c.forget >= now)
        for row in connection.execute(rows):
            found.setdefault(row.actor, []).append((row.thread, row.arrival, bool(row.declared), row.post))
        return found

    def _draw(self, fresh: Sequence[_New], now: int) -> None:
        """Draw every delay, once. Symmetric mechanisms draw both, and the schedule chooses when the hold is over."""
        groups: dict[DelayMechanism, list[_New]] = {}
        for new in fresh:
            groups.setdefault(new.mechanism, []).append(new)
        for mechanism, members in groups.items():
            flags = np.array([new.follows for new in members])
            own = mechanism.draw_ticks(flags, self._randomness)
            fit = _fit(mechanism, flags, own, self._randomness)
            waits = not mechanism.by_predecessor
            others = np.ones(len(members), dtype=np.bool_)
            joined = mechanism.draw_ticks(others, self._randomness) if waits else own
            joined_fit = _fit(mechanism, others, joined, self._randomness) if waits else fit
            for k, new in enumerate(members):
                space = new.job.space
                # rounded up to microseconds, and then to the grid: functions of the drawn time
                new.release_at = space.release_at(now, -(-int(own[k]) // _TICK))
                new.fit = (int(fit[k]),)
                if waits and not space.declared and not new.follows:
                    new.batched_at = space.release_at(now, -(-int(joined[k]) // _TICK))
                    new.fit = (int(fit[k]), int(joined_fit[k]))

    def _store(self, connection: Connection, fresh: Sequence[_New], rejoined: list[str], now: int) -> None:
        if not fresh:
            return
        shuffle = self._randomness.integers(0, 2**62, len(fresh)).tolist()
        until = {new.record: now + KEPT + new.job.space.longest_delay(new.job.thread) * 1_000_000 for new in fresh}
        insert_rows(
            connection,
            held,
            [
                {
                    "id": new.id,
                    "space": new.job.space.name,
                    "receipt": new.receipt,
                    "release_at": new.release_at,
                    "batched_at": new.batched_at,
                    "shuffle": place,
                    "parent": new.parent,
                    "reply_to": new.reply_to,
                    "body": self._seal(new.id, new.job.thread, new.job.content, new.fit),
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
                    "space": new.job.space.name,
                    "state": "taken",
                    "expires": end_of_day(until[new.record]),
                }
                for new in fresh
            ],
        )
        insert_rows(connection, recent, self._remembered(fresh, now), replace="post")
        self._records.keep(
            connection, [Record(new.record, new.job.body_hash, new.answer) for new in fresh], until=until
        )
        if rejoined:
            # a companion has come within beta: the other draw counts. Both were made when the post was taken
            connection.execute(
                update(held)
                .where(among(connection, held.c.id, rejoined), held.c.batched_at.is_not(None))
                .values(release_at=held.c.batched_at, batched_at=None)
            )

    def _remembered(self, fresh: Sequence[_New], now: int) -> list[dict[str, Any]]:
        """What the next status needs: each post of a sitting, or only the last on each thread where the past decides."""
        rows: dict[str, dict[str, Any]] = {}
        for new in fresh:
            thread = self._digests("thread", new.job.space.name, new.job.thread)
            post = new.owner[:32] + thread[:32] if new.mechanism.by_predecessor else new.id
            rows[post] = {
                "post": post,
                "actor": new.owner,
                "thread": thread,
                "arrival": now,
                "forget": now + new.job.space.beta_ticks,
                "declared": int(new.job.batch),
            }
        return list(rows.values())

    # ---- edits and withdrawals ----------------------------------------------------------------------------------

    def _change(self, connection: Connection, job: Edit | Withdraw) -> Any:
        try:
            self._watch.now(connection)
            receipt = sha256(job.receipt.encode()).hexdigest()
            row = self.find_receipt(connection, receipt, job.actor_of)
            # waits for a release that is under way; the post is then gone
            post = connection.execute(select(held).where(held.c.receipt == receipt).with_for_update()).one_or_none()
            if isinstance(job, Withdraw):
                return self._withdraw(connection, row, post)
            if row.state == "withdrawn" or post is None:
                raise Conflict("it was withdrawn" if row.state == "withdrawn" else "it is posted; too late to edit")
            body = json.loads(self._vault.open(bytes(post.body), about=post.id))
            sealed = self._seal(post.id, body["t"], job.content, tuple(body["f"]))
            connection.execute(update(held).where(held.c.id == post.id).values(body=sealed))
        except ServiceError as refusal:
            return refusal
        return b'{"state": "held"}'

    def _withdraw(self, connection: Connection, row: Row[Any], post: Row[Any] | None) -> bytes:
        if row.state != "withdrawn":
            if post is None:
                raise Conflict("it is posted; too late to withdraw")
            connection.execute(delete(held).where(held.c.id == post.id))
            connection.execute(update(held).where(held.c.parent == post.id).values(parent=None))
            connection.execute(update(receipts).where(receipts.c.receipt == row.receipt).values(state="withdrawn"))
        return b'{"state": "withdrawn"}'

    def find_receipt(self, connection: Connection, receipt: str, actor_of: dict[str, str]) -> Row[Any]:
        """The row of a receipt, if it belongs to one of these people; otherwise it does not exist."""
        row = connection.execute(select(receipts).where(receipts.c.receipt == receipt)).one_or_none()
        if row is None or row.owner not in {self.owner(space, actor) for space, actor in actor_of.items()}:
            raise NotFound("no post of yours has this receipt")
        return row

    # ---- small parts --------------------------------------------------------------------------------------------

    def owner(self, space: str, actor: str) -> str:
        """A person as the tables know them."""
        return self._digests("actor", space, actor)

    def _lock(self, connection: Connection, owners: Sequence[str]) -> None:
        if connection.dialect.name != "sqlite":
            keys = sorted({int(owner[:15], 16) for owner in owners})
            connection.execute(_LOCKS, {"keys": keys})

    def _seal(self, post: str, thread: str, content: str, fit: tuple[int, ...]) -> bytes:
        body = json.dumps({"t": thread, "c": content, "f": fit}, ensure_ascii=False)
        return self._vault.seal(body.encode("utf-8", "surrogatepass"), about=post)


BINS: Final = 20
"""Parts into which the distribution of delays is cut for the operator's picture."""


def _fit(
    mechanism: DelayMechanism, flags: NDArray[np.bool_], ticks: NDArray[np.int64], randomness: Randomness
) -> NDArray[np.int64]:
    """Where in its own distribution each delay lies, in :data:`BINS` equally likely parts.

    For a right mechanism this is uniform, whatever the statuses are, so its counts say whether delays are as they
    should be, and nothing about sittings. A point mass at 0 is spread over its share.
    """
    seconds = ticks / 1e9
    place = np.where(flags, mechanism.batched.below(seconds), mechanism.unbatched.below(seconds))
    atom = np.where(flags, mechanism.batched.atom, mechanism.unbatched.atom)
    place = np.where(ticks == 0, atom * randomness.uniform(ticks.size), place)
    return np.minimum((place * BINS).astype(np.int64), BINS - 1)
