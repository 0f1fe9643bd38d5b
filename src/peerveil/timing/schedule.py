"""Drawing delays: a posting is prepared without randomness, then drawn once; the schedule is the operator's alone."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.guarantee import Guarantee
from peerveil.core.result import Pictured, plain
from peerveil.timing.batches import codes
from peerveil.timing.choose import read_gaps_of
from peerveil.timing.durations import in_words, read_duration
from peerveil.timing.mechanism import DelayMechanism
from peerveil.timing.order import ORDER_UNKNOWN, behind_parents, file_order, parents_of, posting_order, shuffle_ties
from peerveil.timing.queue import Queue

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike, NDArray

    from peerveil.core.randomness import Randomness
    from peerveil.data import Events
    from peerveil.timing.durations import Duration

    Whole = NDArray[np.int64]
    Flags = NDArray[np.bool_]
    Floats = NDArray[np.float64]

Gaps: TypeAlias = Mapping[Any, float] | str | os.PathLike[str]
"""The gap in seconds of each value of a column, or a file of them (:func:`peerveil.timing.choose.read_gaps`)."""


@dataclass(frozen=True, repr=False, eq=False)
class PostingSchedule(Pictured):
    """What only the operator may see: which post appears when, under which public id, and how long it waits.

    Arrays have one entry per event, in the order of the log; times are in microseconds.

    Attributes
    ----------
    actor, thread : arrays of int
        Who posted where, as numbers.
    arrival, posted : arrays of int
        When a post arrived, and when it appears.
    own : array of int
        When it would appear if replies were not put behind their parents.
    parent : array of int
        The row of the post that it answers, -1 if there is none.
    shuffle : array of int
        A random order, for posts that nothing else distinguishes.
    batched, adopted : arrays of bool
        Whether it got the long delay, and whether its author uses the mechanism.
    window : float
        Seconds that the mechanism takes for one sitting.
    gap : array of float or None
        The gap of each event in seconds, where they differ.
    threads, ids, rows : series
        The names of the threads; the id of each event in the log, and its row in the input, counted from 1.
    """

    operator_only: ClassVar[bool] = True

    actor: Any
    thread: Any
    arrival: Whole
    posted: Whole
    own: Whole
    parent: Whole
    shuffle: Whole
    batched: Flags
    adopted: Flags
    window: float
    gap: Floats | None
    threads: pl.Series
    ids: pl.Series
    rows: pl.Series

    def __len__(self) -> int:
        return int(self.posted.size)

    @property
    def delay(self) -> Floats:
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

    def frame(self) -> pl.DataFrame:
        """Which post gets which public id, and when to let it appear: columns row, id, thread, public_id and time.

        Where the input has no ids, ``id`` is our own number, and the row is what to look for. This is the only link
        between the two ids: keep it as safe as the log, and do not draw again.
        """
        return pl.DataFrame(
            {
                "row": self.rows,
                "id": self.ids,
                "thread": self.threads.gather(self.thread),
                "public_id": self._place() + 1,
                "time": pl.Series(self.posted).cast(pl.Datetime("us", "UTC")),
            }
        ).sort("public_id")

    def public_posts(self) -> pl.DataFrame:
        """What the public sees: columns id, thread, author, time and reply_to, in the order of posting.

        Ids are numbered in that order; authors are numbered within each thread by first appearance and mean nothing
        across threads. No other column of the log is passed on, since serial numbers and second timestamps would tell
        the order of arrival. Posts of one moment stand in the order of their own drawn times, never of their arrival.
        """
        place = self._place()
        order = np.argsort(place)
        parent = self.parent[order]
        return pl.DataFrame(
            {
                "id": np.arange(1, len(self) + 1),
                "thread": self.threads.gather(self.thread[order]),
                "author": _authors(self.thread[order].astype(np.int64), self.actor[order].astype(np.int64)),
                "time": pl.Series(self.posted[order]).cast(pl.Datetime("us", "UTC")),
                "reply_to": pl.Series(place[np.maximum(parent, 0)] + 1).set(pl.Series(parent < 0), None),
            }
        )

    def _place(self) -> Whole:
        """The place of each event in the order of posting, from 0."""
        place = np.empty(len(self), dtype=np.int64)
        place[posting_order(self)] = np.arange(len(self))
        return place

    def summary(self) -> str:
        """How long posts wait, in one line. Not public: a mean tells how many comments came in batches."""
        delay, (early, left) = self.delay, self.early_replies
        return (
            f"delay mean {in_words(float(delay.mean()))}, median {in_words(float(np.median(delay)))}, longest "
            f"{in_words(float(delay.max()))}; replies before what they answer: {early:,} as drawn, {left:,} as posted"
        )

    def __str__(self) -> str:
        return self.summary()

    def to_dict(self) -> dict[str, Any]:
        """Delays in seconds, early replies and the schedule, as JSON values."""
        delay, (early, left) = self.delay, self.early_replies
        return dict(plain({
            "for": "the operator only: this links public ids to the log",
            "mean_delay": float(delay.mean()),
            "median_delay": float(np.median(delay)),
            "max_delay": float(delay.max()),
            "early_replies": early,
            "early_replies_as_posted": left,
            "schedule": self.frame(),
        }))  # fmt: skip

    def draw(self, ax: Axes) -> None:
        """Delays of posts that got the long delay, and of all others."""
        hours = self.delay / 3600
        ax.hist([hours[self.batched], hours[~self.batched]], bins=40, stacked=True, color=["#c98a00", "#2b7bba"],
                label=["follow-ups and batches", "others"])  # fmt: skip
        ax.set(xlabel="hours from arrival to posting", ylabel="posts")
        ax.legend()


@dataclass(frozen=True, repr=False, eq=False)
class PreparedPosting:
    """A posting that is checked and has its guarantee; nothing is drawn yet."""

    events: Events
    mechanism: DelayMechanism | Queue
    guarantee: Guarantee
    causal: bool
    hold: int  # microseconds
    order: Whole
    order_known: bool
    adopted: Flags
    declared: Flags | None
    gap: Floats | None
    mechanisms: Mapping[float, DelayMechanism]  # by gap, where gaps differ

    def draw(self, randomness: Randomness) -> PostingSchedule:
        """Every delay once."""
        actor, thread, times = codes(self.events)
        if isinstance(self.mechanism, Queue):
            batched, own = self.mechanism.release(actor, times, randomness)
        else:
            order = self.order if self.order_known else shuffle_ties(self.order, times, randomness)
            batched = self._status(self.mechanism, order)
            ticks = self._ticks(self.mechanism, batched, randomness)
            own = np.where(self.adopted, times + self.hold + -(-ticks // 1000), times)
        parent = parents_of(self.events)
        return PostingSchedule(
            actor=actor,
            thread=thread,
            arrival=times,
            posted=behind_parents(own, parent) if self.causal else own,
            own=own,
            parent=parent,
            shuffle=randomness.permutation(times.size),
            batched=batched,
            adopted=self.adopted,
            # attacks are measured on the window that the mechanism treats as one sitting, unless told otherwise
            window=self.mechanism.beta,
            gap=self.gap,
            threads=self.events.numbered("thread")[1],
            ids=self.events.frame["id"],
            rows=pl.Series(self.events.rows),
        )

    def _status(self, mechanism: DelayMechanism, order: Whole) -> Flags:
        """Which events get the long delay, by the order of arrival."""
        actor, thread, times = codes(self.events)
        batched = np.empty(times.size, dtype=np.bool_)
        if self.declared is None:
            batched[order] = mechanism.status(actor[order], thread[order], times[order])
        else:
            batched[order] = _follows_declaration(self.declared[order], actor[order], times[order], mechanism.beta)
        return batched

    def _ticks(self, mechanism: DelayMechanism, batched: Flags, randomness: Randomness) -> Whole:
        """Delays in ticks, each drawn once."""
        if self.gap is None:
            return mechanism.draw_ticks(batched, randomness)
        ticks = np.empty(batched.size, dtype=np.int64)
        order = np.argsort(self.gap, kind="stable")
        edges = np.flatnonzero(np.diff(self.gap[order])) + 1
        for part in np.split(order, edges):
            ticks[part] = self.mechanisms[float(self.gap[part[0]])].draw_ticks(batched[part], randomness)
        return ticks


def prepare_posting(
    events: Events,
    mechanism: DelayMechanism | Queue,
    *,
    hold: Duration | None = None,
    causal: bool = True,
    declared: ArrayLike | None = None,
    adopters: Collection[Any] | None = None,
    gaps: Gaps | None = None,
    by: str = "thread",
) -> PreparedPosting:
    """Check everything and state the guarantee; parameters as in :func:`peerveil.timing.post`."""
    if isinstance(gaps, (str, os.PathLike)):
        by, gaps = read_gaps_of(events, gaps)
    order, known = file_order(events)
    adopted = _adopted(events, adopters)
    if isinstance(mechanism, Queue):
        if hold is not None or declared is not None or gaps is not None or adopters is not None:
            raise BadInput("mechanism", got=mechanism, want="no hold, declared, adopters or gaps: the queue takes none")
        return PreparedPosting(events, mechanism, mechanism.guarantee, causal, 0, order, known, adopted, None, None, {})
    if not isinstance(mechanism, DelayMechanism):
        raise BadInput("mechanism", got=mechanism, want="a mechanism such as FollowUp(epsilon=1, gap=600, beta=300)")
    mechanism, held = _held(mechanism, hold, declared)
    flags = None if declared is None else _declared(declared, mechanism, len(events))
    gap = None if gaps is None else _gap_of_each(events, mechanism, gaps, by)
    mechanisms = {} if gap is None else {g: _with_gap(mechanism, g, by) for g in np.unique(gap).tolist()}
    ordered = known or (declared is None and not mechanism.by_predecessor)
    guarantee = _guarantee(mechanism, declared is not None, gap, adopters is not None, ordered)
    return PreparedPosting(events, mechanism, guarantee, causal, held, order, known, adopted, flags, gap, mechanisms)


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


def _declared(declared: ArrayLike, mechanism: DelayMechanism, size: int) -> Flags:
    flags = np.asarray(declared)
    if flags.dtype != np.bool_ or flags.shape != (size,):
        got = f"an array of {flags.dtype}, shape {flags.shape}"
        raise BadInput("declared", got=Verbatim(got), want=f"one boolean for each of the {size:,} events")
    if mechanism.by_predecessor:
        raise BadInput("declared", got=Verbatim("declarations"), want="a symmetric mechanism: FollowUp needs none")
    return flags


def _follows_declaration(declared: Flags, actor: Any, times: Whole, beta: float) -> Flags:
    """Which comments are declared, or follow a declared one of the same person within beta."""
    order = np.argsort(actor, kind="stable")
    last = np.maximum.accumulate(np.where(declared[order], np.arange(times.size), -1))
    covered = (last >= 0) & (actor[order][last] == actor[order])
    covered &= times[order] - times[order][last] <= round(beta * 1e6)
    out = np.empty(times.size, dtype=np.bool_)
    out[order] = covered
    return out


def _gap_of_each(events: Events, mechanism: DelayMechanism, gaps: Mapping[Any, float], by: str) -> Floats:
    """The gap of every event in seconds."""
    if not isinstance(gaps, Mapping):
        raise BadInput("gaps", got=gaps, want="a mapping of values of the column to seconds")
    group, values = events.numbered(by)
    own = np.array([gaps.get(value, mechanism.gap) for value in values.to_list()], dtype=np.float64)
    return np.asarray(own[group])


def _with_gap(mechanism: DelayMechanism, gap: float, by: str) -> DelayMechanism:
    if gap == mechanism.gap:
        return mechanism
    if not mechanism.beta < gap < np.inf:
        want = f"gaps above the mechanism's beta ({in_words(mechanism.beta)}) for every {by}"
        raise BadInput("gaps", got=gap, want=want)
    return mechanism.with_gap(gap)


def _guarantee(
    mechanism: DelayMechanism, declared: bool, gap: Floats | None, partial: bool, ordered: bool
) -> Guarantee:
    guarantee = mechanism.guarantee
    extra = []
    if declared:
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
    return Guarantee.one_sided_dp(
        mechanism.exact_epsilon, gap=least, unit=guarantee.unit,
        neighbors=f"{guarantee.neighbors}; {'; '.join(extra)}",
    )  # fmt: skip


def _authors(thread: Whole, actor: Whole) -> Whole:
    """Authors numbered within each thread by first appearance."""
    _, first, which = np.unique(thread * (int(actor.max()) + 1) + actor, return_index=True, return_inverse=True)
    order = np.lexsort((first, thread[first]))
    home = thread[first][order]
    number = np.empty(first.size, dtype=np.int64)
    number[order] = np.arange(first.size) - np.searchsorted(home, home) + 1
    return number[which]
