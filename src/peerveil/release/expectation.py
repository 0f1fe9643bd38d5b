"""What public data alone predict about the sorted means: their average over possible assignments.

It uses no private data at all, and it is hard to beat when epsilon is small: every release is shown beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from peerveil.core.arrays import Floats
from peerveil.core.exact import whole

if TYPE_CHECKING:
    from peerveil.release.public import PublicScores


LENIENCY: Final = (0.0, 0.25, 0.5, 1.0, 2.0)
"""How strongly reviewers differ, in the assignments that are simulated: see :func:`draw_means`."""

_SEED: Final = 2021  # public: whoever repeats the computation gets the same expectation
_WORK: Final = 4_000_000  # weights drawn for each degree of leniency, as far as the numbers below allow
_FEWEST, _MOST = 4, 600
_REMEMBERED: Final = 100_000  # up to so many reviews the last few simulations are kept: audits and plans repeat them
_KNOWN: Final[dict[bytes, PublicPrior]] = {}


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
def _draw(values: Any, offsets: Any, loads: Any, leniency: Any, sweeps: int, seed: int) -> Any:
    np.random.seed(seed)
    n = loads.size
    slots = np.repeat(np.arange(n), loads)
    out = np.empty((leniency.size, n))
    widest = np.diff(offsets).max()
    felt = np.empty(widest)
    holder = np.empty(widest, dtype=np.int64)
    for s in range(leniency.size):
        _assign(offsets, slots, sweeps)
        sums = np.zeros(n)
        strength = leniency[s]
        kindness = np.random.normal(0.0, 1.0, n)
        for p in range(offsets.size - 1):
            start, end = offsets[p], offsets[p + 1]
            if strength == 0.0:
                for i in range(start, end):
                    sums[slots[i]] += values[i]
            else:  # the kinder reviewers of a paper gave its higher weights, up to chance
                for i in range(start, end):  # insertion sort of the reviewers by how they felt
                    who = slots[i]
                    mood = strength * kindness[who] + np.random.normal()
                    j = i - start
                    while j > 0 and felt[j - 1] > mood:
                        felt[j] = felt[j - 1]
                        holder[j] = holder[j - 1]
                        j -= 1
                    felt[j] = mood
                    holder[j] = who
                for i in range(start, end):
                    sums[holder[i - start]] += values[i]
        out[s] = np.sort(sums / loads)
    return out


def draw_assignment(offsets: NDArray[np.int64], loads: NDArray[np.int64], *, seed: int) -> NDArray[np.int64]:
    """A random valid assignment: for each review (paper by paper) the reviewer who wrote it."""
    slots = np.repeat(np.arange(loads.size), loads)
    _assign(offsets, slots, _sweeps(slots.size), seed)
    return slots


def _sweeps(reviews: int) -> int:
    """How often the switches of small conferences pass over all reviews."""
    return 3 if reviews <= 5_000 else 0


def draw_means(public: PublicScores, leniency: Floats, seed: int) -> Floats:
    """Sorted means of random valid assignments, one row for each entry of ``leniency``.

    Leniency b says how much reviewers differ: reviewer j has a kindness z_j ~ N(0, 1), and the weights of a paper go to
    its reviewers in the order of b z_j + N(0, 1). At 0 all assignments are alike; at 2 four fifths of the variance is
    the reviewer. Assignments come from a random matching whose conflicts are repaired, mixed by random switches for small
    conferences; that is close to uniform, not exactly so.
    """
    strengths = np.ascontiguousarray(leniency, dtype=np.float64)
    sweeps = _sweeps(public.values.size)
    return np.asarray(_draw(public.values, public.offsets, public.loads, strengths, sweeps, seed))


@dataclass(frozen=True, slots=True)
class PublicPrior:
    """Simulated sorted means for several degrees of leniency: ``means[d]`` has one row per draw."""

    leniency: tuple[float, ...]
    means: tuple[Floats, ...]


def public_prior(public: PublicScores) -> PublicPrior:
    """Draws for every degree of leniency, as many as the conference's size allows; the same for the same public data."""
    if public.values.size > _REMEMBERED:
        return _simulated(public)
    parts = (public.values, public.offsets, public.loads)
    sizes = repr([part.size for part in parts]).encode()
    key = sha256(sizes + b"".join(part.tobytes() for part in parts)).digest()
    _KNOWN[key] = _KNOWN.pop(key) if key in _KNOWN else _simulated(public)  # the latest comes last
    while len(_KNOWN) > 4:
        del _KNOWN[next(iter(_KNOWN))]
    return _KNOWN[key]


def _simulated(public: PublicScores) -> PublicPrior:
    draws = int(np.clip(_WORK // (public.values.size * len(LENIENCY)), _FEWEST, _MOST))
    means = tuple(draw_means(public, np.full(draws, b), _SEED + i) for i, b in enumerate(LENIENCY))
    for rows in means:
        rows.flags.writeable = False  # they may be handed out again
    return PublicPrior(LENIENCY, means)


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
    return np.asarray(draw_means(public, np.zeros(number), _SEED).mean(axis=0))
