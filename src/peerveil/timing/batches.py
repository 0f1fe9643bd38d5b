"""Who posted in batches: simultaneous or within a window, looked at both ways, and what that gives away.

A comment is *batched* if the same person commented on **another** thread within the window, before or after it (the
paper's Algorithm 3 looks only forward and so misses the last comment of every batch). It is a *follow-up* if that
comment came **before** it; follow-ups are what :class:`peerveil.timing.FollowUp` delays most.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl
from numba import njit

from peerveil.core.errors import BadInput
from peerveil.core.result import Pictured
from peerveil.data import Events
from peerveil.timing.durations import in_words, read_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike, NDArray

    from peerveil.timing.durations import Duration

    Whole = NDArray[np.int64]
    Flags = NDArray[np.bool_]

_LONGEST_WALK = 300_000_000  # events that all persons together look at before a sample of persons must do


@dataclass(frozen=True)
class Batches(Pictured):
    """What :func:`find_batches` found, for the operator only; arrays have one entry per event, in the order of the table.

    Attributes
    ----------
    window : float
        Seconds within which two comments of one person on different threads are a batch.
    batched, follow_up : arrays of bool
        Whether the comment has a partner before or after it, and whether it has one before it.
    batch : array of int
        The number of the comment's batch, -1 for comments outside any.
    sizes : array of int
        How many comments each batch has.
    same_rate : float
        Appendix B: of all consecutive comments of one person on different threads, the share within the window.
    other_rate : float
        Appendix B: of all pairs of persons, the share with any two comments within the window of each other.
    other_error : float
        Its standard error: 0 where all pairs were counted, as they are up to some hundred million neighbors; in larger
        logs everybody is compared with a random sample of people.
    steps, pairs : int
        How many consecutive comments and how many pairs of persons the two rates are taken over.
    """

    operator_only: ClassVar[bool] = True

    window: float
    batched: Flags
    follow_up: Flags
    batch: Whole
    sizes: Whole
    same_rate: float
    other_rate: float
    steps: int
    pairs: int
    other_error: float = 0.0

    def __len__(self) -> int:
        return int(self.sizes.size)

    @property
    def largest(self) -> int:
        """How many comments the largest batch has; 0 if there is none."""
        return int(self.sizes.max()) if self.sizes.size else 0

    def risk(self, suspects: ArrayLike) -> NDArray[np.float64]:
        """The posterior of Figure 2 from these rates, for one or several numbers of suspects."""
        return posterior(self.same_rate, self.other_rate, suspects)

    def cost(self, epsilon: float, *, by_predecessor: bool = True) -> tuple[float, float]:
        """What it costs to link a whole batch, typical (mean over batches) and largest.

        Status by predecessor changes every comment of a batch but its first, at epsilon each: (b - 1) epsilon for b
        comments. The paper's mechanism changes all of them at epsilon/2 each: b epsilon / 2.
        """
        if not self.sizes.size:
            return 0.0, 0.0
        costs = epsilon * ((self.sizes - 1.0) if by_predecessor else self.sizes / 2.0)
        return float(costs.mean()), float(costs.max())

    def frame(self) -> pl.DataFrame:
        """How many batches there are of each size."""
        size, batches = np.unique(self.sizes, return_counts=True)
        return pl.DataFrame({"size": size, "batches": batches})

    def draw(self, ax: Axes) -> None:
        """How many batches there are of each size."""
        counts = self.frame()
        ax.bar(counts["size"].to_numpy(), counts["batches"].to_numpy(), color="#2b7bba")
        ax.set(xlabel="comments in a batch", ylabel="batches")

    def __str__(self) -> str:
        return self.summary()

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
    events
        The log: Events, a pandas or Polars frame with its columns, or a file name.
    window
        Seconds (or a timedelta); 0 for simultaneous comments only.
    baseline
        False leaves out ``other_rate`` (it is NaN then), which costs more time than all the rest.
    columns
        Our names for columns that a frame or file calls otherwise: ``{"actor": "user"}``.

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

    >>> log = Events(actor=["r"] * 5, thread=[1, 2, 2, 2, 3], time=[60 * m + 1e9 for m in (0, 5, 6, 8, 100)])
    >>> found = find_batches(log, window=300)
    >>> found.same_rate, found.steps, found.batched.tolist()
    (0.5, 2, [True, True, False, False, False])
    """
    events = Events.of(events, "events", columns=columns)
    micro = read_duration(window, "window", zero=True) // 1000
    actor, thread, times = codes(events)
    # posts of one moment in order of thread, so that the counts are the same for every row order and every engine
    order, before, after = nearest_elsewhere(actor, thread, times, np.lexsort((thread, times, actor)))
    size = times.size
    batched, follow = np.zeros(size, dtype=np.bool_), np.zeros(size, dtype=np.bool_)
    follow[order] = before <= micro
    batched[order] = (before <= micro) | (after <= micro)
    batch, sizes = _label(order, actor, times, batched, micro)
    ordered_actor, ordered_thread, ordered_time = actor[order], thread[order], times[order]
    step = (ordered_actor[1:] == ordered_actor[:-1]) & (ordered_thread[1:] != ordered_thread[:-1])
    waits = (ordered_time[1:] - ordered_time[:-1])[step]
    people = int(actor.max()) + 1
    pairs = people * (people - 1) // 2
    rate, error = _close_pairs(order, actor, times, micro, people) if baseline and pairs else (0.0, 0.0)
    return Batches(
        window=micro / 1e6,
        batched=batched,
        follow_up=follow,
        batch=batch,
        sizes=sizes,
        same_rate=float(np.mean(waits <= micro)) if waits.size else 0.0,
        other_rate=rate if baseline else float("nan"),
        steps=int(waits.size),
        pairs=pairs,
        other_error=error,
    )


def posterior(same_rate: float, other_rate: float, suspects: ArrayLike) -> NDArray[np.float64]:
    """How sure an observer is that two comments which arrived together are by one of K equally likely suspects.

    >>> float(posterior(0.301, 0.0066, 10).round(4))  # the paper's introduction: 83.51%
    0.8352
    """
    number = check_suspects(suspects)
    return np.asarray(same_rate / (same_rate + other_rate * (number - 1)))


def check_suspects(suspects: ArrayLike) -> NDArray[np.float64]:
    """Numbers of suspects."""
    number = np.asarray(suspects, dtype=float)
    if not np.all(number >= 2):
        raise BadInput("suspects", got=suspects, want="whole numbers, at least 2")
    return number


# ---- who stands next to whom -------------------------------------------------------------------------------------


def codes(events: Events) -> tuple[Any, Any, Whole]:
    """Actors and threads as whole numbers, and times in microseconds."""
    return events.numbered("actor")[0], events.numbered("thread")[0], np.asarray(events.times, dtype=np.int64)


def nearest_elsewhere(actor: Any, thread: Any, times: Whole, order: Whole | None = None) -> tuple[Whole, Whole, Whole]:
    """An order by actor and time and, in it, the microseconds to the actor's nearest comment on another thread.

    In a person's sequence, the nearest earlier comment on another thread is the last one before the run of comments
    on the same thread; the nearest later one the first after it. So one pass is enough, whatever the window.
    """
    if order is None:  # the events come in order of time, and the sort is stable: equal times keep their order
        order = np.argsort(actor, kind="stable")
    a, t, when = actor[order], thread[order], times[order]
    far = np.int64(2**62)
    size = when.size
    fresh = np.ones(size, dtype=np.bool_)
    fresh[1:] = (a[1:] != a[:-1]) | (t[1:] != t[:-1])
    starts = np.flatnonzero(fresh)
    run = np.cumsum(fresh) - 1
    first, last = starts[run], np.append(starts[1:], size)[run] - 1
    before, after = np.full(size, far), np.full(size, far)
    has = (first > 0) & (a[np.maximum(first - 1, 0)] == a)
    before[has] = when[has] - when[first[has] - 1]
    has = (last < size - 1) & (a[np.minimum(last + 1, size - 1)] == a)
    after[has] = when[last[has] + 1] - when[has]
    return order, before, after


def _label(order: Whole, actor: Any, times: Whole, batched: Flags, micro: int) -> tuple[Whole, Whole]:
    """Batched comments of one person belong together as long as no two neighbors are further apart than the window."""
    chosen = order[batched[order]]
    batch = np.full(times.size, -1, dtype=np.int64)
    if not chosen.size:
        return batch, np.zeros(0, dtype=np.int64)
    opens = np.ones(chosen.size, dtype=np.bool_)
    a, when = actor[chosen], times[chosen]
    opens[1:] = (a[1:] != a[:-1]) | (when[1:] - when[:-1] > micro)
    number = np.cumsum(opens) - 1
    batch[chosen] = number
    return batch, np.bincount(number).astype(np.int64)


def _close_pairs(order: Whole, actor: Any, times: Whole, micro: int, people: int) -> tuple[float, float]:
    """The share of pairs of persons with two comments within the window, and its standard error.

    Memory grows with people and events only. Where the walk would be too long, a random sample of people is compared
    with everybody: the mean of their shares is unbiased.
    """
    starts = np.searchsorted(actor[order], np.arange(people + 1))
    own = times[order]
    left = np.searchsorted(times, own - micro, side="left")
    right = np.searchsorted(times, own + micro, side="right")
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
