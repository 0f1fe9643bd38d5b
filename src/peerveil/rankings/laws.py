"""Distributions of statistics when rankings are uniform: exact, from large public simulations, or one verified limit.

Nothing here depends on data beyond the public numbers of rankings and items. Laws are kept in memory, and on disk too if
the environment variable ``PEERVEIL_CACHE`` names a folder.
"""

from __future__ import annotations

import math
import os
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from pathlib import Path
from typing import Final

import numpy as np

from peerveil.core.arrays import Floats
from peerveil.core.files import write_atomically
from peerveil.core.lazy import beta, binom, log_ndtr, ndtr
from peerveil.rankings.kernels import batch_norms_of_shuffles, bisected

_SEED: Final = 2_021_061_2  # public: whoever repeats the simulation gets the same law
_DRAWS: Final = 200_000
_CELLS_SIMULATED: Final = 400  # up to this many ranks a draw, concordance is simulated; beyond, its limit is used
_FEW_ITEMS: Final = 4  # up to this many items, rankings are counted by kind: any number of rankings is quick
_NODES: Final = 20_000
_LONGEST: Final = 1 << 20
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Law:
    """A distribution as atoms: values in ascending order with probabilities."""

    values: Floats
    chances: Floats
    kind: str
    """``"exact"``, ``"simulated"`` (from ``draws`` public draws), ``"limit"``, or ``"convolved"`` from one of these."""
    draws: int = 0
    width: float = 0.0
    """How far a value may have been rounded: tails are taken from so much below, so that they never err downwards."""

    def tail(self, x: float) -> float:
        """P[value >= x], never too small: for a simulated law (1 + hits) / (draws + 1)."""
        first = int(np.searchsorted(self.values, x - self.width - 1e-9 * max(1.0, abs(x))))
        if self.kind == "simulated":
            return (1 + self.values.size - first) / (self.draws + 1)
        return float(min(1.0, max(self.chances[first:].sum(), 1e-15)))

    def critical(self, level: float) -> float:
        """The smallest value whose tail is at most ``level``; infinite if there is none."""
        size = self.values.size
        first = bisect_left(range(size), True, key=lambda i: self.tail(float(self.values[i])) <= level)
        return float(self.values[first]) if first < size else math.inf

    def mapped(self, function: Callable[[Floats], Floats]) -> Law:
        """The law of an increasing function of the value."""
        return Law(function(self.values), self.chances, self.kind, self.draws, 0.0)


@dataclass(frozen=True, slots=True)
class ConcordanceLimit(Law):
    """The beta law with the exact mean and variance of Kendall's W."""

    shape: tuple[float, float] = (1.0, 1.0)

    def tail(self, x: float) -> float:
        """P[W >= x]."""
        return float(max(beta.sf(x, *self.shape), 1e-15))

    def critical(self, level: float) -> float:
        """The value whose tail is ``level``."""
        return float(beta.isf(level, *self.shape))


@dataclass(frozen=True, slots=True)
class NoisyLaw:
    """The law of value + Laplace(scale): a mixture of Laplace laws, so that tails are sums without further simulation."""

    law: Law
    scale: float

    def tail(self, x: float) -> float:
        """P[value + noise >= x], a smooth function of x."""
        return _mixture_tail(x, self.law.values, self.law.chances, self.scale)

    def critical(self, level: float) -> float:
        """The value whose tail is exactly ``level`` (the law is continuous)."""
        reach = self.scale * (math.log(1 / min(level, 1 - level)) + 5)
        atoms = self._atoms()
        low, high = float(atoms[0][0]) - reach, float(atoms[0][-1]) + reach
        return bisected(lambda x: _mixture_tail(x, *atoms, self.scale) > level, low, high, steps=200, tolerance=1e-12)[
            1
        ]

    def density(self, x: Floats) -> Floats:
        """The density at each x."""
        values, chances = self._atoms()
        heights = [np.dot(chances, np.exp(-np.abs(point - values) / self.scale)) for point in x]
        return np.array(heights) / (2 * self.scale)

    def _atoms(self) -> tuple[Floats, Floats]:
        """The law's atoms, each value once: draws of a discrete statistic repeat few values very often."""
        first = np.flatnonzero(np.diff(self.law.values, prepend=-np.inf))
        return self.law.values[first], np.add.reduceat(self.law.chances, first)


def _mixture_tail(x: float, values: Floats, chances: Floats, scale: float) -> float:
    return float(max(np.dot(chances, laplace_tail(x - values, scale)), 1e-300))


def laplace_tail(x: Floats | float, scale: float) -> Floats:
    """P[Laplace(scale) >= x]."""
    half = 0.5 * np.exp(-np.abs(x) / scale)
    return np.where(np.greater(x, 0), half, 1 - half)


def normal_laplace_tail(x: float, deviation: float, scale: float) -> float:
    """P[N(0, deviation^2) + Laplace(scale) >= x], in closed form.

    >>> round(normal_laplace_tail(0.0, 1.0, 2.0), 9)
    0.5
    """
    z, ratio = x / deviation, deviation / scale
    up = math.exp(min(700.0, ratio * ratio / 2 - x / scale + float(log_ndtr(z - ratio))))
    down = math.exp(min(700.0, ratio * ratio / 2 + x / scale + float(log_ndtr(-z - ratio))))
    return float(min(1.0, max(0.0, ndtr(-z) + 0.5 * (up - down))))


@lru_cache(maxsize=64)
def squares_null(counts: tuple[int, ...]) -> Law:
    """The law of the sum of A_d^2 over d, A_d the sum of n_d independent fair signs: exact, or exact up to small cells.

    Whole numbers up to a million are convolved as they are. Beyond, each A_d^2 is split over two neighboring cells so that
    its mean is kept; the tail is then taken from two cells below.
    """
    sizes, times = np.unique(np.array(counts, dtype=np.int64), return_counts=True)
    mean = float(np.dot(sizes, times))
    largest = float(np.dot(sizes.astype(float) ** 2, times))
    top = min(mean + 14 * math.sqrt(2 * largest) + 90.0 * float(sizes.max()), largest)
    step = max(1.0, top / (_LONGEST // 2))
    length = 1 << max(4, math.ceil(math.log2(top / step + 3)))
    transform = np.ones(length // 2 + 1, dtype=np.complex128)
    for size, number in zip(sizes.tolist(), times.tolist(), strict=True):
        reach = min(size, math.isqrt(int(top)) + 2)
        sums = np.arange(size - 2 * ((size + reach) // 2), reach + 1, 2)
        chances = binom.pmf((sums + size) // 2, size, 0.5)
        place = np.minimum(sums.astype(np.float64) ** 2 / step, length - 1.0)
        transform *= np.fft.rfft(_split(place, chances, length)) ** number
    return _law_of_cells(np.fft.irfft(transform, length), step, 0.0, "exact", 0.0 if step == 1.0 else 2 * step)


@lru_cache(maxsize=64)
def concordance_null(rankings: int, items: int) -> Law:
    """The law of Kendall's W: the squared length of the mean of the rankings' unit vectors, from 0 to 1.

    For two items it is exact. For up to four items, or few ranks in all, it is simulated with 200,000 draws. Beyond, W is
    taken to follow the beta law with W's exact mean 1/k and variance 2(k-1)/(k^3 (m-1)) (Kendall and Babington Smith,
    1939), on [0, 1]: its tails were found within 4% of the truth down to level 0.001 from 400 ranks on, far closer than the
    chi-square limit (a slow test repeats this).
    """
    k, m = int(rankings), int(items)
    if m == 2:
        return squares_null((k,)).mapped(lambda v: v / float(k) ** 2)
    if m <= _FEW_ITEMS or k * m <= _CELLS_SIMULATED:
        values = _remembered(f"concordance-{k}-{m}", lambda: _simulate_concordance(k, m))
        return Law(values, np.full(values.size, 1 / values.size), "simulated", draws=values.size)
    a = (m - 1) / 2 - 1 / k
    shape = a, (k - 1) * a
    nodes = beta.ppf((np.arange(_NODES) + 0.5) / _NODES, *shape)
    return ConcordanceLimit(nodes, np.full(_NODES, 1 / _NODES), "limit", shape=shape)


@lru_cache(maxsize=64)
def weighted_concordance_null(weights: tuple[tuple[int, int], ...], items: int) -> Law:
    """The law of W where people have weights: how many have each is public.

    Its mean is the sum of squared weights over the squared sum s, its variance 2((sum w^2)^2 - sum w^4) / ((m-1) s^4): unit
    vectors of independent uniform rankings have products of mean 0 and variance 1/(m-1). As above, few items or few ranks are
    simulated, and beyond W follows the beta law with this mean and variance.
    """
    total, squares, fourths = (float(sum(n * w**power for w, n in weights)) for power in (1, 2, 4))
    people, m = sum(n for _, n in weights), items
    if m <= _FEW_ITEMS or people * m <= _CELLS_SIMULATED:
        values = np.sort(_simulate_weighted(weights, m) / (m * (m * m - 1) / 3 * total**2))
        return Law(values, np.full(values.size, 1 / values.size), "simulated", draws=values.size)
    mean, variance = squares / total**2, 2 * (squares**2 - fourths) / ((m - 1) * total**4)
    a = mean * (mean * (1 - mean) / variance - 1)
    shape = a, a * (1 - mean) / mean
    nodes = beta.ppf((np.arange(_NODES) + 0.5) / _NODES, *shape)
    return ConcordanceLimit(nodes, np.full(_NODES, 1 / _NODES), "limit", shape=shape)


def _simulate_weighted(weights: tuple[tuple[int, int], ...], m: int) -> Floats:
    """Four times the squared length of weighted sums of centered ranks."""
    rng, draws = np.random.default_rng(_SEED), _DRAWS // 4
    summed = np.zeros((draws, m))
    kinds = 2.0 * np.array(list(permutations(range(m)))) - (m - 1) if m <= _FEW_ITEMS else None
    for weight, number in weights:
        if kinds is not None:
            summed += weight * (rng.multinomial(number, np.full(len(kinds), 1 / len(kinds)), size=draws) @ kinds)
            continue
        for _ in range(number):
            summed += weight * (2.0 * rng.permuted(np.tile(np.arange(m), (draws, 1)), axis=1) - (m - 1))
    return np.asarray((summed**2).sum(axis=1))


@lru_cache(maxsize=64)
def weighted_squares_null(weights: tuple[tuple[int, int], ...], pairs: int) -> Law:
    """The law of the sum of A_d^2 over ``pairs`` d, A_d the sum of everybody's weight with a fair sign; simulated."""
    rng, draws = np.random.default_rng(_SEED), _DRAWS // 4
    values = np.zeros(draws)
    for _ in range(pairs):
        signed = sum(weight * (2.0 * rng.binomial(number, 0.5, size=draws) - number) for weight, number in weights)
        values += signed**2
    return Law(np.sort(values), np.full(draws, 1 / draws), "simulated", draws=draws)


def _simulate_concordance(k: int, m: int) -> Floats:
    most = m * (m * m - 1) / 3 * float(k) ** 2  # of four times the squared norm of summed centered ranks
    if k * m > _CELLS_SIMULATED:  # few items, many rankings: count the rankings of each kind
        kinds = 2 * np.array(list(permutations(range(m)))) - (m - 1)
        numbers = np.random.default_rng(_SEED).multinomial(k, np.full(len(kinds), 1 / len(kinds)), size=_DRAWS)
        return np.sort(((numbers @ kinds).astype(np.float64) ** 2).sum(axis=1) / most)
    squares = np.empty(_DRAWS)
    batch_norms_of_shuffles(k, m, _SEED, squares)
    return np.sort(squares / most)


@lru_cache(maxsize=64)
def batches_null(batches: int, size: int, items: int, clip: float) -> Law:
    """The law of the sum over batches of the clipped standardized concordance: a convolution power of one batch's law.

    A batch of two has a symmetric law (reverse one ranking), which is enforced, so its mean is exactly 0.
    """
    g, b, m = int(batches), int(size), int(items)
    w = concordance_null(b, m)
    standard = np.clip((w.values * b - 1) * b / math.sqrt(2 * b * (b - 1) / (m - 1)), -clip, clip)
    cells = max(8, min(1024, (_LONGEST - 1) // g))
    single = _split((standard + clip) / (2 * clip) * cells, w.chances, cells + 1)
    if b == 2:
        single = (single + single[::-1]) / 2
    length = 1 << math.ceil(math.log2(g * cells + 2))
    chances = np.fft.irfft(np.fft.rfft(single, length) ** g, length)[: g * cells + 1]
    return _law_of_cells(chances, 2 * clip / cells, -g * clip, "convolved", 2 * clip / cells)


def _split(place: Floats, chances: Floats, cells: int) -> Floats:
    """The mass of each cell when every place's is split over its two neighboring cells so that the mean is kept."""
    left = np.floor(place)
    share = place - left
    right = np.minimum(left + 1, cells - 1)
    mass = np.bincount(left.astype(int), chances * (1 - share), minlength=cells)
    return np.asarray(mass + np.bincount(right.astype(int), chances * share, minlength=cells), dtype=np.float64)


def _law_of_cells(chances: Floats, step: float, first: float, kind: str, width: float) -> Law:
    """The law with these masses at first, first + step, ...; cells that hold only rounding errors are left out."""
    mass = np.maximum(chances, 0.0)
    cells = np.flatnonzero(mass > 1e-17)
    return Law(first + step * cells.astype(np.float64), mass[cells] / mass[cells].sum(), kind, width=width)


def _remembered(name: str, simulate: Callable[[], Floats]) -> Floats:
    """A public simulation, from the cache folder if there is one."""
    folder = os.environ.get("PEERVEIL_CACHE")
    if not folder:
        return simulate()
    path = Path(folder) / f"rankings-{_VERSION}-{name}-{_DRAWS}.npy"
    try:
        stored = np.load(path, allow_pickle=False)
        if stored.shape == (_DRAWS,) and stored.dtype == np.float64:
            return np.asarray(stored)
    except (OSError, ValueError, EOFError):
        pass  # there is none, or a broken one
    values = simulate()
    write_atomically(path, lambda handle: np.save(handle, values))
    return values
