"""Who posted in batches: simultaneous or within a window, looked at both ways, and what that reveals.

A comment is *batched* if the same person commented on **another** thread within the window, before or after it (the
paper's Algorithm 3 looks only forward and so misses the last comment of every batch). It is a *follow-up* if that
comment came **before** it; follow-ups are what :class:`peerveil.timing.FollowUp` delays most.

Pairs of events are counted, never listed: memory grows with events, not with pairs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from peerveil.core.arrays import Flags, Floats, Ints
from peerveil.core.exact import numbers
from peerveil.core.lazy import njit
from peerveil.core.result import Pictured
from peerveil.timing.durations import Duration, in_words, read_duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_NEVER = np.int64(2**62)
_LONGEST_WALK = 300_000_000  # neighbors to visit; in longer logs a sample of persons is compared with everybody


@dataclass(frozen=True)
class Batches(Pictured):
    """Result of :func:`find_batches`, for the operator only; arrays have one entry per event, in the order of the table."""

    operator_only: ClassVar[bool] = True

    window: float
    """Seconds within which two comments of one person on different threads are a batch."""
    batched: Flags
    """Whether the comment has a partner before or after it."""
    follow_up: Flags
    """Whether it has one before it."""
    batch: Ints
    """The number of the comment's batch, -1 for comments outside any."""
    sizes: Ints
    """How many comments each batch has."""
    same_rate: float
    """Appendix B: of all consecutive comments of one person on different threads, the share within the window."""
    other_rate: float
    """Appendix B: of all pairs of persons, the share with any two comments within the window of each other."""
    steps: int
    """How many consecutive comments the first rate is taken over."""
    pairs: int
    """How many pairs of persons the second rate is taken over."""
    other_error: float = 0.0
    """Its standard error: 0 unless there are so many neighbors that everybody was compared with a random sample of people."""

    def __len__(self) -> int:
        return int(self.sizes.size)

    @property
    def largest(self) -> int:
        """How many comments the largest batch has; 0 if there is none."""
        return int(self.sizes.max()) if self.sizes.size else 0

    def risk(self, suspects: ArrayLike) -> Floats:
        """The posterior of Figure 2 from these rates, for one or several numbers of suspects."""
        return posterior(self.same_rate, self.other_rate, suspects)

    def cost(self, epsilon: float) -> tuple[float, float]:
        """The epsilon at which :class:`FollowUp` lets a whole batch be linked: mean over batches, and largest.

        Every comment of a batch but its first changes its status, at epsilon each: (b - 1) epsilon for b comments.
        """
        costs = epsilon * (self.sizes - 1.0) if self.sizes.size else np.zeros(1)
        return float(costs.mean()), float(costs.max())

    def frame(self) -> pl.DataFrame:
        """The number of batches of each size."""
        size, batches = np.unique(self.sizes, return_counts=True)
        return pl.DataFrame({"size": size, "batches": batches})

    def draw(self, ax: Axes) -> None:
        """The number of batches of each size."""
        counts = self.frame()
        ax.bar(counts["size"].to_numpy(), counts["batches"].to_numpy(), color="#2b7bba")
        ax.set(xlabel="comments in a batch", ylabel="batches")

    def summary(self) -> str:
        """How many batches there are, how large they are, and both rates."""
        share = 100 * float(self.batched.mean())
        text = f"{len(self):,} batches within {in_words(self.window)} hold {share:.3g}% of {self.batched.size:,} events"
        if len(self):
            text += f" (mean size {self.sizes.mean():.3g}, largest {self.largest:,})"
        return (
            f"{text}; {100 * self.same_rate:.4g}% of one person's consecutive comments on different threads are that "
            f"close, against {100 * self.other_rate:.3g}% of pairs of persons"
        )


def find_batches(
    events: Any, *, window: Duration, baseline: bool = True, columns: Mapping[str, str] | None = None
) -> Batches:
    """Find batches, and the two rates of Appendix B.

    Parameters
    ----------
    events, columns
        The log: Events, a pandas or Polars frame, or a file name; and what these call our columns: ``{"actor": "user"}``.
    window
        Seconds (or a timedelta); 0 for simultaneous comments only.
    baseline
        False leaves out ``other_rate`` (it is NaN then), which costs more time than all the rest.

    Notes
    -----
    *The counting rule of Appendix B.* A person's comments are put in order of time. Two that stand next to each
    other and are on different threads are consecutive; the first rate is the share of these at most the window apart.
    Comments of one moment are put in order of thread: which of them came first does not matter to these counts.
    People with one comment do not count. For the second rate every pair of distinct persons counts once, people with
    one comment included, and is close if *any* two comments of theirs are at most the window apart, on whatever threads.

    Examples
    --------
    The paper's example (minutes 0, 5, 6, 8, 100 on papers 1, 2, 2, 2, 3) has rate 1/2:

    >>> from peerveil.data import Events
    >>> log = Events(actor=["r"] * 5, thread=[1, 2, 2, 2, 3], time=[60 * m + 1e9 for m in (0, 5, 6, 8, 100)])
    >>> batches = find_batches(log, window=300)
    >>> batches.same_rate, batches.steps, batches.batched.tolist()
    (0.5, 2, [True, True, False, False, False])
    """
    from peerveil.data import Events
    from peerveil.timing.log import codes

    events = Events.of(events, "events", columns=columns)
    micros = read_duration(window, "window", zero=True) // 1000
    actor, thread, times = codes(events)
    # posts of one moment in order of thread, so that the counts are the same for every row order and every engine
    order, before, after = nearest_elsewhere(actor, thread, times, np.lexsort((thread, times, actor)))
    follow_up, batched = in_place(before <= micros, order), in_place(np.minimum(before, after) <= micros, order)
    batch, sizes = _label(order[batched[order]], actor, times, micros)
    waits = np.diff(times[order])[(np.diff(actor[order]) == 0) & (np.diff(thread[order]) != 0)]
    people = int(actor.max()) + 1
    pairs = people * (people - 1) // 2
    rate, error = _close_pairs(order, actor, times, micros, people) if baseline and pairs else (0.0, 0.0)
    return Batches(
        window=micros / 1e6,
        batched=batched,
        follow_up=follow_up,
        batch=batch,
        sizes=sizes,
        same_rate=float(np.mean(waits <= micros)) if waits.size else 0.0,
        other_rate=rate if baseline else float("nan"),
        steps=int(waits.size),
        pairs=pairs,
        other_error=error,
    )


def posterior(same_rate: float, other_rate: float, suspects: ArrayLike) -> Floats:
    """How sure an observer is that two comments which arrived together are by one of K equally likely suspects.

    >>> float(posterior(0.301, 0.0066, 10).round(4))  # the paper's introduction: 83.51%
    0.8352
    """
    return np.asarray(same_rate / (same_rate + other_rate * (check_suspects(suspects) - 1)))


def check_suspects(suspects: ArrayLike) -> Floats:
    """Numbers of suspects."""
    return numbers(suspects, "suspects", low=2, want="whole numbers, at least 2")


# ---- who stands next to whom -------------------------------------------------------------------------------------


def nearest_elsewhere(actor: Any, thread: Any, times: Ints, order: Ints | None = None) -> tuple[Ints, Ints, Ints]:
    """An order by actor and time and, in it, the microseconds to the actor's nearest comment on another thread.

    In a person's sequence, the nearest earlier comment on another thread is the last one before the run of comments
    on the same thread; the nearest later one the first after it. So one pass is enough, whatever the window.
    """
    if order is None:  # the events come in order of time, and the sort is stable: equal times keep their order
        order = np.argsort(actor, kind="stable")
    actor, thread, times = actor[order], thread[order], times[order]
    last = times.size - 1
    run_starts = np.concatenate([[True], (np.diff(actor) != 0) | (np.diff(thread) != 0)])
    starts = np.flatnonzero(run_starts)
    run = np.cumsum(run_starts) - 1
    earlier, later = starts[run] - 1, np.append(starts[1:], last + 1)[run]
    before, after = np.full(times.size, _NEVER), np.full(times.size, _NEVER)
    has = (earlier >= 0) & (actor[np.maximum(earlier, 0)] == actor)
    before[has] = times[has] - times[earlier[has]]
    has = (later <= last) & (actor[np.minimum(later, last)] == actor)
    after[has] = times[later[has]] - times[has]
    return order, before, after


def in_place(values: Any, order: Ints) -> Any:
    """Values that are listed in some order of the rows, in the order of the rows themselves."""
    out = np.empty_like(values)
    out[order] = values
    return out


def _label(batched: Ints, actor: Any, times: Ints, micros: int) -> tuple[Ints, Ints]:
    """Number the batches: neighbors of one person at most the window apart belong together. Rows by actor and time."""
    batch = np.full(times.size, -1, dtype=np.int64)
    if not batched.size:
        return batch, np.zeros(0, dtype=np.int64)
    number = np.cumsum(np.append(0, (np.diff(actor[batched]) != 0) | (np.diff(times[batched]) > micros)))
    batch[batched] = number
    return batch, np.bincount(number).astype(np.int64)


def _close_pairs(order: Ints, actor: Any, times: Ints, micros: int, people: int) -> tuple[float, float]:
    """The share of pairs of persons with two comments within the window, and its standard error.

    Memory grows with people and events only. Where the walk would be too long, a random sample of people is compared
    with everybody: the mean of their shares is unbiased.
    """
    starts = np.searchsorted(actor[order], np.arange(people + 1))
    own = times[order]
    left = np.searchsorted(times, own - micros, side="left")
    right = np.searchsorted(times, own + micros, side="right")
    chosen = np.arange(people)
    work = int((right - left).sum())
    if work > _LONGEST_WALK:
        size = max(int(people * _LONGEST_WALK / work), min(people, 1000))
        chosen = np.sort(np.random.default_rng(0).permutation(people)[:size])
    who = np.ascontiguousarray(actor, dtype=np.int32)
    workers = min(os.cpu_count() or 1, 8)
    with ThreadPoolExecutor(workers) as pool:
        parts = pool.map(lambda k: _count_close(starts, left, right, who, people, chosen[k::workers]), range(workers))
        met = np.concatenate(list(parts)) / (people - 1)
    error = 0.0 if chosen.size == people else float(met.std(ddof=1) / np.sqrt(met.size))
    return float(met.mean()), error


@njit(cache=True, nogil=True)
def _count_close(starts, left, right, actor, people, chosen):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Whom each person meets: walk the union of the windows around their comments and mark everybody in it."""
    met = np.full(people, -1, dtype=np.int32)
    out = np.zeros(chosen.size, dtype=np.int64)
    for k in range(chosen.size):
        person = chosen[k]
        met[person] = person
        reached = 0
        for i in range(starts[person], starts[person + 1]):
            for j in range(max(left[i], reached), right[i]):
                other = actor[j]
                if met[other] != person:
                    met[other] = person
                    out[k] += 1
            reached = max(reached, right[i])
    return out


# ---- counting pairs ----------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _first_within(group, value, limit):  # type: ignore[no-untyped-def]  # pragma: no cover
    """For each row the first one of its group whose value is at most the limit below; rows by group, then value."""
    first = np.empty(group.size, dtype=np.int64)
    low = 0
    for i in range(group.size):
        while group[low] != group[i] or value[i] - value[low] > limit:
            low += 1
        first[i] = low
    return first


@njit(cache=True, nogil=True)
def count_within(group, value, limits):  # type: ignore[no-untyped-def]  # pragma: no cover
    """For each limit, the number of pairs in one group whose values differ by at most it; rows by group, then value."""
    pairs = np.zeros(limits.size, dtype=np.int64)
    rows = np.arange(group.size)
    for k in range(limits.size):
        pairs[k] = (rows - _first_within(group, value, limits[k])).sum()
    return pairs


@njit(cache=True, nogil=True)
def count_joint(group, arrival, posted, window, limits):  # type: ignore[no-untyped-def]  # pragma: no cover
    """For each limit, pairs in one group that arrived within the window and were posted within the limit.

    Rows are sorted by group, then arrival; limits ascend. The last entry counts all pairs within the window. A group is
    done pair by pair, or, where it has too many pairs for that, with a Fenwick tree over the posting times: then the work
    is (limits) x (events) x log(events), whatever the number of pairs.
    """
    first = _first_within(group, arrival, window)
    earlier = np.arange(group.size) - first
    bins = np.zeros(limits.size + 1, dtype=np.int64)  # the last one: posted further apart than every limit
    start = 0
    while start < group.size:
        stop = start + 1
        while stop < group.size and group[stop] == group[start]:
            stop += 1
        count = stop - start
        if earlier[start:stop].sum() <= 4 * limits.size * count * (1 + np.log2(count)):
            for i in range(start, stop):
                for j in range(first[i], i):
                    bins[np.searchsorted(limits, abs(posted[i] - posted[j]))] += 1
        else:
            _count_by_tree(first[start:stop] - start, posted[start:stop], limits, bins)
        start = stop
    pairs = np.cumsum(bins)
    pairs[-1] = earlier.sum()
    return pairs


@njit(cache=True, nogil=True)
def _count_by_tree(first, posted, limits, bins):  # type: ignore[no-untyped-def]  # pragma: no cover
    """A window slides over arrivals; a Fenwick tree counts the posting times in it that are close enough."""
    ordered = np.sort(posted)
    rank = np.searchsorted(ordered, posted)
    before = 0
    for k in range(limits.size):
        tree = np.zeros(posted.size + 1, dtype=np.int64)
        total = 0
        low = 0
        for i in range(posted.size):
            while low < first[i]:
                _add(tree, rank[low], -1)
                low += 1
            total += _sum_below(tree, np.searchsorted(ordered, posted[i] + limits[k], side="right"))
            total -= _sum_below(tree, np.searchsorted(ordered, posted[i] - limits[k], side="left"))
            _add(tree, rank[i], 1)
        bins[k] += total - before
        before = total


@njit(cache=True, nogil=True)
def _add(tree, rank, amount):  # type: ignore[no-untyped-def]  # pragma: no cover
    node = rank + 1
    while node < tree.size:
        tree[node] += amount
        node += node & -node


@njit(cache=True, nogil=True)
def _sum_below(tree, rank):  # type: ignore[no-untyped-def]  # pragma: no cover
    total = 0
    while rank > 0:
        total += tree[rank]
        rank -= rank & -rank
    return total
