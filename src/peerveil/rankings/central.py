"""Central differential privacy: statistics that one ranking can move only a little, and noise for just that much.

Write u for a ranking's centered ranks, scaled to length 1, k for the number of rankings and m for that of items.
**Neighbors**: one ranking is replaced by any other; k and m are public, and so is the choice among the tests
(:func:`choose_central`), which rests on them and on epsilon alone.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from peerveil.core.errors import one_of
from peerveil.core.lazy import ndtr
from peerveil.core.randomness import laplace_scale
from peerveil.rankings.clipped import GAP, clipped_length
from peerveil.rankings.kernels import bisected
from peerveil.rankings.laws import (
    Law,
    NoisyLaw,
    batches_null,
    concordance_null,
    normal_laplace_tail,
    squares_null,
    weighted_concordance_null,
    weighted_squares_null,
)

if TYPE_CHECKING:
    from peerveil.core.arrays import Floats, Ints
    from peerveil.core.exact import Number

PRIVATE: Final = ("rank-norm", "clipped-norm", "clipped-batches", "pairs-norm")

_LOSS: Final = 0.002  # what clipping may take from the norm of uniform rankings on average: far below the noise
_SIZES: Final = (2, 3, 4, 5, 6, 8, 10, 12, 16)
_CLIPS: Final = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0)
_LEVEL, _POWER = 0.05, 0.8  # at which tests are compared
_MOST_BATCHES: Final = 100  # with more batches only pairs are used: their law is symmetric, so its mean is exactly 0
_MOST_HELD: Final = 20_000_000  # ranks that a method may hold at once
_MOST_WORK: Final = 2_000_000_000  # products of a Newton step of the clipped norm; beyond, noise hardly matters anyway


@dataclass(frozen=True, slots=True)
class CentralTest(ABC):
    """A statistic of ``rankings`` rankings of ``items`` items with its sensitivity and its law for uniform rankings."""

    name: ClassVar[str]

    rankings: int
    items: int
    weights: tuple[tuple[int, int], ...] = field(default=(), kw_only=True, repr=False)
    """Each weight and how many people have it, which is public; empty if all count once."""

    @property
    def total(self) -> int:
        """The sum of weights."""
        return sum(weight * number for weight, number in self.weights) or self.rankings

    @property
    def weight_cap(self) -> int:
        """The largest weight."""
        return max((weight for weight, _ in self.weights), default=1)

    @property
    @abstractmethod
    def sensitivity(self) -> Fraction:
        """How far one ranking can move the statistic."""

    @property
    def settings(self) -> dict[str, Any]:
        """Parameters chosen from public numbers."""
        return {}

    @abstractmethod
    def from_rows(self, ranks: Any) -> float:
        """The statistic of complete rankings, one row each."""

    @abstractmethod
    def null(self) -> Law:
        """The statistic's law for uniform rankings."""

    def scale(self, epsilon: Number) -> float:
        """The scale of the Laplace noise."""
        return laplace_scale(sensitivity=self.sensitivity, epsilon=epsilon)

    def noisy_null(self, epsilon: Number) -> NoisyLaw:
        """The law with its noise."""
        return NoisyLaw(self.null(), self.scale(epsilon))


@dataclass(frozen=True, slots=True)
class RankNorm(CentralTest):
    """The length of the sum of the unit vectors u, each times its person's weight.

    **Proof.** Replacing u by u' moves the sum by w(u' - u), of length at most twice the largest weight w, and a length by no
    more than that. ∎ Rounding: the sum of squares is a whole number, its root one float: a margin of 2^-50 of the weights'
    sum covers it.
    """

    name = "rank-norm"

    @property
    def sensitivity(self) -> Fraction:
        """2 times the largest weight, with the margin for rounding."""
        return 2 * self.weight_cap + Fraction(self.total, 2**50)

    def statistic(self, sums: Ints) -> float:
        """From the sum of ranks of each item, in whole numbers until the root."""
        shift = self.total * (self.items - 1)
        square = sum((2 * int(s) - shift) ** 2 for s in sums)
        return math.sqrt(Fraction(3 * square, self.items * (self.items * self.items - 1)))

    def from_rows(self, ranks: Any) -> float:
        """The statistic of complete rankings, one row each."""
        return self.statistic(ranks.sum(axis=0, dtype=np.int64))

    def null(self) -> Law:
        """The sum of weights times the root of Kendall's W."""
        return self.concordance().mapped(lambda w: self.total * np.sqrt(w))

    def concordance(self) -> Law:
        """The law of W, the squared length of the (weighted) mean of u."""
        if self.weights:
            return weighted_concordance_null(self.weights, self.items)
        return concordance_null(self.rankings, self.items)

    def moments(self, r: float) -> tuple[float, float]:
        """About the mean and the standard deviation at signal r (see :func:`choose_central`)."""
        k = self.rankings
        variance = k / 2 / (self.items - 1) * (1 + 2 * k * r) / (1 + k * r)
        return math.sqrt(k + k * (k - 1) * r), math.sqrt(variance)


@dataclass(frozen=True, slots=True)
class ClippedNorm(RankNorm):
    """The largest sum of clipped projections, F = max over vectors v of length up to 1 of the sum of min(<u, v>, cap).

    Without the cap this is the length of the sum. **Proof.** Leave one ranking out and let M be the maximum of the rest. A
    ranking adds at most the cap for every v, and at least -1 for the v that attains M. So with any ranking in the place left
    open, F is between M - 1 and M + cap, and two neighbors differ by at most 1 + cap, where the plain norm needs 2. ∎
    What is returned is between F - GAP and F (proved by a dual solution), so the sensitivity is 1 + cap + GAP.

    The cap comes from the numbers of rankings and items alone; it is so large that uniform rankings hardly ever reach it.
    Since F is never above the plain norm, that norm's null gives p-values that are never too small.
    """

    name = "clipped-norm"

    @property
    def cap(self) -> float:
        """Where clipping takes _LOSS from the norm of uniform rankings on average; 1 (no clipping) if there is none.

        A uniform ranking's projection on the common direction is about 1/sqrt(k) (its own share) plus a variable of mean 0
        and variance 1/(m-1). Any cap keeps the guarantee; this one keeps the level.
        """
        deviation = 1 / math.sqrt(max(self.items - 1, 1))

        def loss(z: float) -> float:  # from the expected excess over z deviations
            return self.rankings * deviation * (_normal_density(z) - z * float(ndtr(-z)))

        z = bisected(lambda z: loss(z) > _LOSS, 0.0, 40.0, steps=100)[1]
        return min(1.0, math.ceil((1 / math.sqrt(self.rankings) + deviation * z) * 2**20) / 2**20)

    @property
    def sensitivity(self) -> Fraction:
        """1 + cap + GAP, with the margin for rounding."""
        return 1 + Fraction(self.cap) + Fraction(GAP) + Fraction(self.rankings, 2**40)

    @property
    def settings(self) -> dict[str, Any]:
        """The cap."""
        return {"cap": self.cap}

    def from_rows(self, ranks: Any) -> float:
        """The statistic of complete rankings, one row each."""
        return clipped_length(ranks, self.cap)


@dataclass(frozen=True, slots=True)
class PairsNorm(CentralTest):
    """The length of the vector of signed sums over disjoint pairs of items.

    **Proof.** A ranking contributes a vector with floor(m/2) entries +1 or -1, times its person's weight. Replacing it moves
    the sum by a vector of length at most 2 sqrt(floor(m/2)) times the largest weight. ∎ Where a ranking leaves a pair open (an
    item missing, or a tie), a fair coin of its own decides, whatever the data: for fixed coins the bound holds, and
    coins that do not depend on the data cannot increase the loss. If what people leave open is independent of how they order
    the rest, the null is the same as for complete rankings.
    """

    name = "pairs-norm"

    @property
    def pairs(self) -> int:
        """How many disjoint pairs there are; with an odd number of items one is left out."""
        return self.items // 2

    @property
    def sensitivity(self) -> Fraction:
        """2 sqrt(pairs) times the largest weight, rounded up, with the margin for rounding."""
        root = Fraction(math.isqrt(4 * self.pairs * 2**80) + 1, 2**40)
        return self.weight_cap * root + Fraction(self.total * self.pairs, 2**50)

    def statistic(self, sums: Ints) -> float:
        """From the signed sum of each pair."""
        return math.sqrt(sum(int(s) ** 2 for s in sums))

    def from_rows(self, ranks: Any) -> float:
        """The statistic of complete rankings, one row each, for the pairs (0, 1), (2, 3), ... of columns."""
        return self.statistic(pair_sums(ranks))

    def squares(self) -> Law:
        """The law of the statistic's square: disjoint pairs of a uniform ranking are independent fair signs."""
        return (
            weighted_squares_null(self.weights, self.pairs)
            if self.weights
            else squares_null((self.rankings,) * self.pairs)
        )

    def null(self) -> Law:
        """Exact; simulated for weights."""
        return self.squares().mapped(np.sqrt)


def pair_sums(ranks: Any) -> Ints:
    """The signed sums of the pairs (0, 1), (2, 3), ... of columns, of complete rankings."""
    last = ranks.shape[1] // 2 * 2
    return np.asarray(np.sign(ranks[:, 1:last:2] - ranks[:, 0:last:2]).sum(axis=0, dtype=np.int64))


@dataclass(frozen=True, slots=True)
class ClippedBatches(CentralTest):
    """The sum over disjoint batches of rankings of their standardized, clipped concordance.

    A batch of b has (length^2 - b) / sqrt(2b(b-1)/(m-1)), of mean 0 and variance 1 for uniform rankings, clipped to
    [-clip, clip]. **Proof.** One ranking stands in one batch, whose term stays within [-clip, clip]. ∎ Rankings are put
    into batches by a random order that does not depend on the data; those left over are not used.
    """

    name = "clipped-batches"

    size: int
    clip: float

    @property
    def batches(self) -> int:
        """How many full batches there are."""
        return self.rankings // self.size

    @property
    def sensitivity(self) -> Fraction:
        """2 clip, with the margin for rounding the sum."""
        return 2 * Fraction(self.clip) * (1 + Fraction(self.batches, 2**45))

    @property
    def settings(self) -> dict[str, Any]:
        """Batch size, clip and number of batches."""
        return {"batch_size": self.size, "clip": self.clip, "batches": self.batches}

    @property
    def deviation(self) -> float:
        """Of a batch's squared length for uniform rankings."""
        return math.sqrt(2 * self.size * (self.size - 1) / (self.items - 1))

    def from_rows(self, ranks: Any) -> float:
        """The statistic of complete rankings in random order, one row each."""
        rows = ranks[: self.batches * self.size].reshape(self.batches, self.size, self.items)
        doubled = 2 * rows.sum(axis=1, dtype=np.int64) - self.size * (self.items - 1)
        return self.from_squares((doubled.astype(np.float64) ** 2).sum(axis=1))

    def from_squares(self, square: Floats) -> float:
        """From each batch's squared norm of summed doubled centered ranks."""
        m = self.items
        standard = (square / (m * (m * m - 1) / 3) - self.size) / self.deviation
        return math.fsum(np.clip(standard, -self.clip, self.clip))

    def null(self) -> Law:
        """A convolution power of one batch's law."""
        return batches_null(self.batches, self.size, self.items, self.clip)

    def moments(self, r: float) -> tuple[float, float]:
        """About the mean and the standard deviation at signal r: sums of normal variables, clipped."""
        b, unit, clip = self.size, self.deviation, self.clip
        mean, deviation = b * (b - 1) * r / unit, math.sqrt(1 + 4 * b**3 * r / (self.items - 1) / unit**2)
        low, high = (-clip - mean) / deviation, (clip - mean) / deviation
        below, above = float(ndtr(low)), float(ndtr(-high))
        inside = 1 - below - above
        d_low, d_high = _normal_density(low), _normal_density(high)
        first = mean * inside + deviation * (d_low - d_high) + clip * (above - below)
        second = (mean**2 + deviation**2) * inside + deviation * (d_low * (mean - clip) - d_high * (mean + clip))
        variance = max(second + clip**2 * (below + above) - first**2, 1e-12)
        return self.batches * first, math.sqrt(self.batches * variance)


def _normal_density(z: float) -> float:
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def central_test(method: str, rankings: int, items: int, epsilon: float) -> Any:
    """A central test by name, its parameters chosen from public numbers."""
    match one_of(method, "method", ("auto", *PRIVATE)):
        case "auto":
            return choose_central(rankings, items, epsilon)
        case "clipped-batches":
            return min(_batch_candidates(rankings, items), key=lambda test: signal_needed(test, epsilon))
    return {kind.name: kind for kind in (RankNorm, ClippedNorm, PairsNorm)}[method](rankings, items)


@lru_cache(maxsize=256)
def choose_central(rankings: int, items: int, epsilon: float) -> RankNorm | ClippedBatches:
    """The test that reaches power 0.8 at level 0.05 with the least signal.

    The signal is the squared length r of the mean unit vector: 0 for uniform rankings. For each candidate the statistic is
    taken to be normal around its mean at r, and the noise is added in closed form. This only chooses; levels and p-values
    never rest on it.

    >>> choose_central(1000, 100, 1 / 3)
    ClippedNorm(rankings=1000, items=100)
    >>> type(choose_central(100, 1000, 1 / 3)).__name__, type(choose_central(10_000, 10, 1 / 3)).__name__
    ('ClippedBatches', 'RankNorm')
    """
    plain, clipped = RankNorm(rankings, items), ClippedNorm(rankings, items)
    candidates: list[RankNorm | ClippedBatches] = [plain]
    if items >= 3:
        feasible = rankings * items <= _MOST_HELD and rankings * items**2 <= _MOST_WORK
        if feasible and clipped.sensitivity < plain.sensitivity:
            candidates.append(clipped)
        candidates += _batch_candidates(rankings, items)
    return min(candidates, key=lambda test: signal_needed(test, epsilon))


def _batch_candidates(rankings: int, items: int) -> list[ClippedBatches]:
    return [
        ClippedBatches(rankings, items, size, clip)
        for size in _SIZES
        if rankings // size >= 1 and (size == 2 or rankings // size <= _MOST_BATCHES)
        for clip in _CLIPS
    ]


def signal_needed(test: RankNorm | ClippedBatches, epsilon: float) -> float:
    """The signal r at which the test has power 0.8; above 2 if it never has."""
    scale = float(test.sensitivity) / epsilon
    mean, deviation = test.moments(0.0)

    def tail(x: float, r: float) -> float:
        center, spread = test.moments(r)
        return normal_laplace_tail(x - center, spread, scale)

    critical = bisected(lambda x: tail(x, 0.0) > _LEVEL, mean, mean + 10 * deviation + 40 * scale, steps=80)[1]
    if tail(critical, 1.0) < _POWER:
        return 2 + (1 - tail(critical, 1.0))  # the least hopeless comes first
    return bisected(lambda r: tail(critical, r) < _POWER, 1e-12, 1.0, steps=60, geometric=True)[1]
