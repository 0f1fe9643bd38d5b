"""What the public data alone say about the sorted means: their average over assignments that could have been.

It uses no private data at all, and it is hard to beat when epsilon is small: every release is shown beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numba import njit

from peerveil.core.errors import BadInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from peerveil.release.public import PublicScores

    Floats = NDArray[np.float64]

LENIENCY: Final = (0.0, 0.25, 0.5, 1.0, 2.0)
"""How strongly reviewers differ, in the assignments that are simulated: see :func:`draw_means`."""

_SEED: Final = 2021  # public: whoever repeats the computation gets the same expectation
_WORK: Final = 4_000_000  # weights drawn for each degree of leniency, as far as the numbers below allow
_FEWEST, _MOST = 4, 600
_REMEMBERED: Final = (
    100_000  # up to so many reviews the last few simulations are kept: audits and plans ask for the same again
)
_KNOWN: Final[dict[bytes, PublicPrior]] = {}


@njit(cache=True, nogil=True)
def _assign(offsets: Any, slots: Any, sweeps: int) -> None:
    """Shuffle reviewers over reviews in place so that nobody holds two of one paper: repair, then mix by switches."""
    total = slots.size
    np.random.shuffle(slots)
    papers = offsets.size - 1
    paper_of = np.empty(total, dtype=np.int64)
    for p in range(papers):
        for i in range(offsets[p], offsets[p + 1]):
            paper_of[i] = p
    stuck = 0
    while True:
        clean = True
        for p in range(papers):
            for i in range(offsets[p], offsets[p + 1]):
                if not _twice(offsets, slots, p, i, slots[i]):
                    continue
                clean = False
                for _ in range(200):
                    j = np.random.randint(0, total)
                    q = paper_of[j]
                    if (
                        q != p
                        and not _twice(offsets, slots, p, i, slots[j])
                        and not _twice(offsets, slots, q, j, slots[i])
                    ):
                        slots[i], slots[j] = slots[j], slots[i]
                        break
                else:  # nothing fits: disturb, and try again
                    j = np.random.randint(0, total)
                    slots[i], slots[j] = slots[j], slots[i]
        if clean:
            break
        stuck += 1
        if stuck % 50 == 0:
            np.random.shuffle(slots)
    for _ in range(sweeps * total):
        i = np.random.randint(0, total)
        j = np.random.randint(0, total)
        p, q = paper_of[i], paper_of[j]
        if p == q or (not _twice(offsets, slots, p, i, slots[j]) and not _twice(offsets, slots, q, j, slots[i])):
            slots[i], slots[j] = slots[j], slots[i]


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
    slots = np.empty(values.size, dtype=np.int64)
    place = 0
    for j in range(n):
        for _ in range(loads[j]):
            slots[place] = j
            place += 1
    out = np.empty((leniency.size, n))
    widest = 0
    for p in range(offsets.size - 1):
        widest = max(widest, offsets[p + 1] - offsets[p])
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


@njit(cache=True, nogil=True)
def _seeded_assign(offsets: Any, slots: Any, sweeps: int, seed: int) -> None:
    np.random.seed(seed)
    _assign(offsets, slots, sweeps)


def draw_assignment(offsets: NDArray[np.int64], loads: NDArray[np.int64], *, seed: int) -> NDArray[np.int64]:
    """A random valid assignment: for each review (paper by paper) the reviewer who wrote it."""
    slots = np.repeat(np.arange(loads.size), loads)
    _seeded_assign(offsets, slots, 3 if slots.size <= 5_000 else 0, seed)
    return slots


def draw_means(public: PublicScores, leniency: Floats, seed: int) -> Floats:
    """Sorted means of random valid assignments, one row for each entry of ``leniency``.

    Leniency b says how much reviewers differ: reviewer j has a kindness z_j ~ N(0, 1), and the weights of a paper go to
    its reviewers in the order of b z_j + N(0, 1). At 0 all assignments are alike; at 2 four fifths of the variance is
    the reviewer. Assignments come from a random matching whose conflicts are repaired, mixed by random switches for small
    conferences; that is close to uniform, not exactly so.
    """
    sweeps = 3 if public.values.size <= 5_000 else 0
    strengths = np.ascontiguousarray(leniency, dtype=np.float64)
    means: Floats = _draw(public.values, public.offsets, public.loads, strengths, sweeps, seed)
    return means


@dataclass(frozen=True, slots=True)
class PublicPrior:
    """Simulated sorted means for several degrees of leniency: ``means[d]`` has one row a draw."""

    leniency: tuple[float, ...]
    means: tuple[Floats, ...]


def public_prior(public: PublicScores, leniency: tuple[float, ...] = LENIENCY) -> PublicPrior:
    """Draws for every degree of leniency, as many as the conference's size allows; the same for the same public data."""
    if public.values.size > _REMEMBERED:
        return _simulated(public, leniency)
    parts = (public.values, public.offsets, public.loads)
    key = sha256(
        b"".join(part.tobytes() for part in parts) + repr((leniency, *(p.size for p in parts))).encode()
    ).digest()
    found = _KNOWN.pop(key, None)
    _KNOWN[key] = _simulated(public, leniency) if found is None else found
    while len(_KNOWN) > 4:
        del _KNOWN[next(iter(_KNOWN))]
    return _KNOWN[key]


def _simulated(public: PublicScores, leniency: tuple[float, ...]) -> PublicPrior:
    draws = int(np.clip(_WORK // (public.values.size * len(leniency)), _FEWEST, _MOST))
    means = tuple(draw_means(public, np.full(draws, b), _SEED + i) for i, b in enumerate(leniency))
    for rows in means:
        rows.flags.writeable = False  # they may be handed out again
    return PublicPrior(leniency, means)


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
    if draws is None:
        draws = int(np.clip(_WORK // public.values.size, _FEWEST, 5 * _MOST))
    elif isinstance(draws, bool) or not isinstance(draws, int) or draws < 1:
        raise BadInput("draws", got=draws, want="a whole number, at least 1")
    average: Floats = draw_means(public, np.zeros(draws), _SEED).mean(axis=0)
    return average
