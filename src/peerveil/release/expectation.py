"""What public data alone predict about the sorted means: their average over possible assignments.

It uses no private data at all, and it is hard to beat when epsilon is small: every release is shown beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from peerveil.core.arrays import Floats
from peerveil.core.exact import whole
from peerveil.core.lazy import njit

if TYPE_CHECKING:
    from peerveil.release.public import PublicScores


_SEED: Final = 2021  # public: whoever repeats the computation gets the same expectation
_WORK: Final = 4_000_000  # reviews drawn, as far as the numbers below allow
_FEWEST, _MOST = 4, 600


@njit(cache=True, nogil=True)
def _assign(offsets: Any, slots: Any, sweeps: int, seed: int = -1) -> None:
    """Shuffle reviewers over reviews in place so that nobody holds two of one paper: repair, then mix by switches."""
    if seed >= 0:
        np.random.seed(seed)
    total = slots.size
    np.random.shuffle(slots)
    papers = offsets.size - 1
    paper_of = np.empty(total, dtype=np.int64)
    for p in range(papers):
        paper_of[offsets[p] : offsets[p + 1]] = p
    stuck, clean = 0, False
    while not clean:
        clean = True
        for p in range(papers):
            for i in range(offsets[p], offsets[p + 1]):
                if not _twice(offsets, slots, p, i, slots[i]):
                    continue
                clean = False
                for _ in range(200):
                    j = np.random.randint(0, total)
                    if paper_of[j] != p and _may_switch(offsets, slots, paper_of, i, j):
                        break
                else:  # nothing fits: disturb, and try again
                    j = np.random.randint(0, total)
                slots[i], slots[j] = slots[j], slots[i]
        stuck += not clean
        if stuck % 50 == 0 and not clean:
            np.random.shuffle(slots)
    for _ in range(sweeps * total):
        i = np.random.randint(0, total)
        j = np.random.randint(0, total)
        if paper_of[i] == paper_of[j] or _may_switch(offsets, slots, paper_of, i, j):
            slots[i], slots[j] = slots[j], slots[i]


@njit(cache=True, nogil=True, inline="always")
def _may_switch(offsets: Any, slots: Any, paper_of: Any, i: int, j: int) -> bool:
    """Whether the reviewers of reviews i and j of two papers can change places."""
    return not (_twice(offsets, slots, paper_of[i], i, slots[j]) or _twice(offsets, slots, paper_of[j], j, slots[i]))


@njit(cache=True, nogil=True, inline="always")
def _twice(offsets: Any, slots: Any, paper: int, but: int, reviewer: int) -> bool:
    """Whether a reviewer holds another review of the paper than the one at place ``but``."""
    for i in range(offsets[paper], offsets[paper + 1]):
        if i != but and slots[i] == reviewer:
            return True
    return False


@njit(cache=True, nogil=True)
def _draw(values: Any, offsets: Any, loads: Any, count: int, sweeps: int, seed: int) -> Any:
    np.random.seed(seed)
    slots = np.repeat(np.arange(loads.size), loads)
    means = np.zeros((count, loads.size))
    for draw in range(count):
        _assign(offsets, slots, sweeps)
        for review in range(values.size):
            means[draw, slots[review]] += values[review]
        means[draw] /= loads
    return means


def draw_assignment(offsets: NDArray[np.int64], loads: NDArray[np.int64], *, seed: int) -> NDArray[np.int64]:
    """A random valid assignment: for each review (paper by paper) the reviewer who wrote it."""
    slots = np.repeat(np.arange(loads.size), loads)
    _assign(offsets, slots, _sweeps(slots.size), seed)
    return slots


def _sweeps(reviews: int) -> int:
    """How often the switches of small conferences pass over all reviews."""
    return 3 if reviews <= 5_000 else 0


def draw_means(public: PublicScores, count: int, seed: int, *, ordered: bool = True) -> Floats:
    """Means in random valid assignments, one row per draw: sorted, or in the order of ``public.loads``.

    Assignments come from a random matching whose conflicts are repaired, mixed by random switches for small
    conferences; that is close to uniform, not exactly so.
    """
    means = _draw(public.values, public.offsets, public.loads, count, _sweeps(public.values.size), seed)
    return np.asarray(np.sort(means, axis=1) if ordered else means)


def public_expectation(public: PublicScores, *, draws: int | None = None) -> Floats:
    """The average sorted mean vector over random assignments. No private data is used.

    Parameters
    ----------
    public
        The public side of the conference; unequal loads are fine.
    draws
        How many assignments to average; chosen by size if left out.

    Examples
    --------
    >>> from peerveil.release.public import PublicScores
    >>> public_expectation(PublicScores([[0, 1], [0, 1]], loads=[1, 1, 1, 1])).tolist()
    [0.0, 0.0, 1.0, 1.0]
    """
    fitting = int(np.clip(_WORK // public.values.size, _FEWEST, 5 * _MOST))
    number = fitting if draws is None else whole(draws, "draws", 1)
    return np.asarray(draw_means(public, number, _SEED).mean(axis=0))
