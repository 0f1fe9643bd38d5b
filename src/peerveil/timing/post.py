"""Posting a log under a mechanism: who waits, how long, what the public then sees, and replies behind their parents."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from peerveil.errors import BadInput, Verbatim
from peerveil.judgements import Events
from peerveil.randomness import Randomness
from peerveil.result import Result, plain
from peerveil.timing.batches import codes
from peerveil.timing.durations import in_words, read_duration
from peerveil.timing.mechanism import DelayMechanism
from peerveil.timing.order import ORDER_UNKNOWN, arrival_order, behind_parents, parents_of, posting_order
from peerveil.timing.queue import Queue

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike, NDArray

    from peerveil.timing.durations import Duration

    Whole = NDArray[np.int64]
    Flags = NDArray[np.bool_]


@dataclass(frozen=True, repr=False)
class Truth:
    """What only the operator knows, one entry an event in the order of the log; times in microseconds."""

    actor: Any
    thread: Any
    arrival: Whole
    posted: Whole
    own: Whole
    """The time before replies were put behind their parents."""
    parent: Whole
    shuffle: Whole
    """A random order, for posts that nothing else tells apart."""
    batched: Flags
    adopted: Flags
    window: float
    gap: NDArray[np.float64] | None = None

    @property
    def delay(self) -> NDArray[np.float64]:
        """Seconds from arrival to posting."""
        return (self.posted - self.arrival) / 1e6

    @property
    def early_replies(self) -> tuple[int, int]:
        """Replies that would appear before what they answer: by their own times, and as posted."""
        replies = self.parent >= 0
        above = np.maximum(self.parent, 0)
        arrived = replies & (self.arrival >= self.arrival[above])  # clock errors in the log are not ours
        return (
            int(np.count_nonzero(arrived & (self.own < self.own[above]))),
            int(np.count_nonzero(arrived & (self.posted < self.posted[above]))),
        )

    @property
    def overtaken(self) -> float:
        """The share of posts in a thread that appear before the post that arrived just before them there."""
        order = np.argsort(self.thread, kind="stable")
        same = self.thread[order][1:] == self.thread[order][:-1]
        later = self.posted[order]
        return float(np.mean((later[1:] < later[:-1])[same])) if same.any() else 0.0


@dataclass(frozen=True, kw_only=True)
class Posted(Result):
    """What the public sees, with its guarantee.

    Attributes
    ----------
    truth : Truth
        What only the operator knows; left out of :meth:`to_dict` and of every picture.
    """

    truth: Truth = field(repr=False, compare=False)
    threads: pl.Series = field(repr=False, compare=False)
    ids: pl.Series = field(repr=False, compare=False)
    rows: pl.Series = field(repr=False, compare=False)
    mechanism: str = ""

    @cached_property
    def public(self) -> pl.DataFrame:
        """What is published: columns id, thread, author, time and reply_to, in the order of posting.

        Ids are numbered in that order; authors are numbered within each thread by first appearance and mean nothing
        across threads. No other column of the log is passed on, since serial numbers and second timestamps would tell
        the order of arrival. Posts of one moment stand in the order of their own drawn times, never of their arrival.
        """
        return _public(self.threads, self.truth, self._place)

    @cached_property
    def schedule(self) -> pl.DataFrame:
        """What the operator does: which post of theirs gets which public id, and when to let it appear. Not public.

        A post is named by its row in the input (counted from 1), its id and its thread; where the input has no ids, ``id``
        is our own number, and the row is what to look for. It is the only link between the two ids: keep it as safe as the
        log, and do not draw again.
        """
        return pl.DataFrame(
            {
                "row": self.rows,
                "id": self.ids,
                "thread": self.threads.gather(self.truth.thread),
                "public_id": self._place + 1,
                "time": pl.Series(self.truth.posted).cast(pl.Datetime("us", "UTC")),
            }
        ).sort("public_id")

    @cached_property
    def _place(self) -> Whole:
        """The place of each event in the order of posting, from 0."""
        place = np.empty(len(self), dtype=np.int64)
        place[posting_order(self.truth)] = np.arange(len(self))
        return place

    def __len__(self) -> int:
        return int(self.truth.posted.size)

    def summary(self) -> str:
        """The finding in one line."""
        return f"{len(self):,} comments posted by {self.mechanism}"

    @property
    def for_operator(self) -> str:
        """How long posts wait, in one line. Not public: a mean tells how many comments came in batches."""
        delay, (early, left) = self.truth.delay, self.truth.early_replies
        return (
            f"delay mean {in_words(float(delay.mean()))}, median {in_words(float(np.median(delay)))}, longest "
            f"{in_words(float(delay.max()))}; replies before what they answer: {early:,} as drawn, {left:,} as posted"
        )

    def to_dict(self) -> dict[str, Any]:
        """The public part only."""
        return {
            "mechanism": self.mechanism,
            "public": plain(self.public),
            "guarantee": self.guarantee.to_dict(),
            "guarantee_in_words": str(self.guarantee),
            "mark": self.mark,
        }

    def draw(self, ax: Axes) -> None:
        """Public posts over time."""
        when = self.public["time"].cast(pl.Int64).to_numpy() / 3.6e9
        ax.hist(when - when[0], bins=min(72, max(10, int(np.ptp(when)) + 1)), color="#2b7bba")
        ax.set_xlabel("hours since the first post")
        ax.set_ylabel("posts")


def post(
    events: Any,
    mechanism: DelayMechanism | Queue,
    hold: Duration | None = None,
    *,
    causal: bool = True,
    randomness: Randomness | None = None,
    declared: ArrayLike | None = None,
    adopters: Collection[Any] | None = None,
    gaps: Mapping[Any, float] | None = None,
    by: str = "thread",
) -> Posted:
    """Post a log: draw every delay once, and return what the public sees.

    Parameters
    ----------
    events
        The log, as it arrived: Events, a pandas or Polars frame with its columns, or a file name. Equal times are
        taken in the order of its rows, or at random where these cannot say: see :mod:`peerveil.timing.order`.
    mechanism
        :class:`FollowUp` (status by predecessor, the default choice), one of the symmetric mechanisms, or
        :class:`Queue`.
    hold
        Seconds: hold every comment that long to see whether it is batched (Algorithm 3). Only symmetric mechanisms
        need it; it is then also their beta, and their noise is built for gap + beta, as the guarantee needs.
    causal
        A reply is posted no earlier than what it answers: at max(its own time, its parent's). This looks only at
        posted times and at the public reply tree, so it is post-processing, and the guarantee is untouched.
    randomness
        The secure lane unless given.
    declared
        One boolean an event: the author said on posting "more will follow within beta". That comment and theirs
        within beta after it count as batched, and nothing is held (§5.2). For symmetric mechanisms; the guarantee
        then rests on people's answers.
    adopters
        The actors who use the mechanism; comments of all others are posted at once. Everybody unless given.
    gaps, by
        Another gap for each value of the column ``by`` (such as :func:`choose_gaps` returns); events whose value is
        not in it keep the mechanism's own. Give gaps from earlier data: they are part of the public protocol.

    Examples
    --------
    >>> from peerveil.timing import FollowUp
    >>> log = Events(actor=["ann", "ann"], thread=["A", "B"], time=[1_700_000_000, 1_700_000_060])
    >>> posted = post(log, FollowUp(1, gap=600, beta=300), randomness=Randomness.simulation(1))
    >>> posted.public.columns, bool((posted.truth.delay >= 0).all())
    (['id', 'thread', 'author', 'time', 'reply_to'], True)
    """
    events = Events.of(events, "events")
    if not isinstance(mechanism, (DelayMechanism, Queue)):
        raise BadInput("mechanism", got=mechanism, want="a mechanism such as FollowUp(1, gap=600, beta=300)")
    source = Randomness.secure() if randomness is None else randomness
    if not isinstance(source, Randomness):
        raise BadInput("randomness", got=source, want="Randomness.secure() or Randomness.simulation(seed)")
    actor, thread, times = codes(events)
    adopted = _adopted(events, adopters)
    gap = None
    if isinstance(mechanism, Queue):
        if hold is not None or declared is not None or gaps is not None or adopters is not None:
            raise BadInput("mechanism", got=mechanism, want="no hold, declared, adopters or gaps: the queue takes none")
        batched, own = mechanism.release(actor, times, source)
        guarantee, held, name = mechanism.guarantee, 0, repr(mechanism)
    else:
        mechanism, held = _held(mechanism, hold, declared)
        order, known = arrival_order(events, source)
        batched = np.empty(times.size, dtype=np.bool_)
        if declared is None:
            batched[order] = mechanism.status(actor[order], thread[order], times[order])
        else:
            batched[order] = _declared(declared, order, actor[order], times[order], mechanism)
        ticks, gap = _draw(events, mechanism, batched, source, gaps, by)
        own = np.where(adopted, times + held + -(-ticks // 1000), times)
        ordered = known or (declared is None and not mechanism.by_predecessor)
        guarantee = _promise(mechanism, declared, gap, adopters is not None, ordered)
        name = repr(mechanism)
    parent = parents_of(events)
    posted = behind_parents(own, parent) if causal else own
    shuffle = source.permutation(times.size)
    # attacks are measured on the window that the mechanism treats as one sitting, unless told otherwise
    truth = Truth(actor, thread, times, posted, own, parent, shuffle, batched, adopted, mechanism.beta, gap)
    stamped = source.stamp(guarantee)
    threads, ids, rows = events.numbered("thread")[1], events.frame["id"], pl.Series(events.rows)
    return Posted(guarantee=stamped, truth=truth, threads=threads, ids=ids, rows=rows, mechanism=name)


def _held(mechanism: DelayMechanism, hold: Duration | None, declared: object) -> tuple[DelayMechanism, int]:
    """The mechanism to draw from, and the hold in microseconds."""
    if hold is None:
        wait = (
            0 if declared is not None or mechanism.by_predecessor else read_duration(mechanism.beta, "hold", zero=True)
        )
        return mechanism, wait // 1000
    wait = read_duration(hold, "hold", zero=True)
    if mechanism.by_predecessor:
        if wait:
            raise BadInput("hold", got=hold, want="none: status by predecessor needs the past only")
        return mechanism, 0
    if declared is not None and wait:
        raise BadInput("hold", got=hold, want="none where people declare their batches")
    if mechanism.beta and round(mechanism.beta * 1e9) != wait:
        raise BadInput("hold", got=hold, want=f"the mechanism's beta, {mechanism.beta:g}")
    return (mechanism if mechanism.beta or not wait else mechanism.with_beta(wait / 1e9)), wait // 1000


def _adopted(events: Events, adopters: Collection[Any] | None) -> Flags:
    if adopters is None:
        return np.ones(len(events), dtype=np.bool_)
    if isinstance(adopters, (str, bytes)) or not isinstance(adopters, Collection):
        raise BadInput("adopters", got=adopters, want="a collection of actors")
    column = events.frame["actor"]
    try:
        return column.is_in(pl.Series(list(adopters), dtype=column.dtype).implode()).to_numpy()
    except (TypeError, pl.exceptions.PolarsError):
        raise BadInput("adopters", got=adopters, want=f"actors of the log ({column.dtype})") from None


def _declared(declared: ArrayLike, came: Whole, actor: Any, times: Whole, mechanism: DelayMechanism) -> Flags:
    said = np.asarray(declared)
    if said.dtype != np.bool_ or said.shape != times.shape:
        got = f"an array of {said.dtype}, shape {said.shape}"
        raise BadInput("declared", got=Verbatim(got), want=f"one boolean for each of the {times.size:,} events")
    if mechanism.by_predecessor:
        raise BadInput("declared", got=Verbatim("declarations"), want="a symmetric mechanism: FollowUp needs none")
    said = said[came]
    order = np.argsort(actor, kind="stable")
    place = np.arange(times.size)
    last = np.maximum.accumulate(np.where(said[order], place, -1))
    covered = (last >= 0) & (actor[order][last] == actor[order])
    covered &= times[order] - times[order][last] <= round(mechanism.beta * 1e6)
    out = np.empty(times.size, dtype=np.bool_)
    out[order] = covered
    return out


def _draw(
    events: Events,
    mechanism: DelayMechanism,
    batched: Flags,
    source: Randomness,
    gaps: Mapping[Any, float] | None,
    by: str,
) -> tuple[Whole, NDArray[np.float64] | None]:
    """Delays in ticks, each drawn once, and the gap of every event where they differ."""
    if gaps is None:
        return mechanism.draw_ticks(batched, source), None
    if not isinstance(gaps, Mapping):
        raise BadInput("gaps", got=gaps, want="a mapping of values of the column to seconds")
    codes_, values = events.numbered(by)
    own = np.array([gaps.get(value, mechanism.gap) for value in values.to_list()], dtype=float)
    gap = own[codes_]
    ticks = np.empty(batched.size, dtype=np.int64)
    order = np.argsort(gap, kind="stable")
    edges = np.flatnonzero(np.diff(gap[order])) + 1
    for part in np.split(order, edges):
        ticks[part] = _with_gap(mechanism, float(gap[part[0]]), by).draw_ticks(batched[part], source)
    return ticks, gap


def _with_gap(mechanism: DelayMechanism, gap: float, by: str) -> DelayMechanism:
    if gap == mechanism.gap:
        return mechanism
    if not mechanism.beta < gap < np.inf:
        want = f"gaps above the mechanism's beta ({in_words(mechanism.beta)}) for every {by}"
        raise BadInput("gaps", got=gap, want=want)
    return mechanism.with_gap(gap)


def _promise(mechanism: DelayMechanism, declared: object, gap: Any, partial: bool, ordered: bool) -> Any:
    guarantee = mechanism.guarantee
    extra = []
    if declared is not None:
        extra.append("if everybody declares their batches truthfully")
    if gap is not None:
        extra.append("the gap is that of the later comment's group, at least the one stated")
    if partial:
        extra.append("for people who use the mechanism for all of their comments")
    if not ordered:
        extra.append(ORDER_UNKNOWN)
    if not extra:
        return guarantee
    least = mechanism.gap if gap is None else float(gap.min())
    return type(guarantee).one_sided_dp(
        mechanism.exact_epsilon, gap=least, unit=guarantee.unit,
        neighbours=f"{guarantee.neighbours}; {'; '.join(extra)}",
    )  # fmt: skip


def _public(threads: pl.Series, truth: Truth, place: Whole) -> pl.DataFrame:
    """The posts in the order of posting."""
    size = place.size
    order = np.empty(size, dtype=np.int64)
    order[place] = np.arange(size)
    parent = truth.parent[order]
    return pl.DataFrame(
        {
            "id": np.arange(1, size + 1),
            "thread": threads.gather(truth.thread[order]),
            "author": _authors(truth.thread[order].astype(np.int64), truth.actor[order].astype(np.int64)),
            "time": pl.Series(truth.posted[order]).cast(pl.Datetime("us", "UTC")),
            "reply_to": pl.Series(place[np.maximum(parent, 0)] + 1).set(pl.Series(parent < 0), None),
        }
    )


def _authors(thread: Whole, actor: Whole) -> Whole:
    """Authors numbered within each thread by first appearance."""
    _, first, which = np.unique(thread * (int(actor.max()) + 1) + actor, return_index=True, return_inverse=True)
    order = np.lexsort((first, thread[first]))
    home = thread[first][order]
    number = np.empty(first.size, dtype=np.int64)
    number[order] = np.arange(first.size) - np.searchsorted(home, home) + 1
    return number[which]
