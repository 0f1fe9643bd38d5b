"""Central differential privacy: statistics that one ranking can move only a little, and noise for just that much.

Write u for a ranking's centered ranks, scaled to length 1, and k for the number of rankings. **Neighbors**: one ranking is
replaced by any other; the numbers of rankings and of items are public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.special import ndtr

from peerveil.rankings.clipped import GAP, clipped_length
from peerveil.rankings.kernels import batch_norms
from peerveil.rankings.nulls import Law, batches_null, concordance_null, squares_null

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_LOSS: Final = (
    0.002  # what clipping may take from the norm of uniform rankings, on average: a shift far below the noise
)


@dataclass(frozen=True, slots=True)
class RankNorm:
    """The length of the sum of the unit vectors u.

    **Proof.** Replacing u by u' moves the sum by u' - u, of length at most 2, and a length by no more than that. ∎
    Rounding: the sum of squares is a whole number, its root one float: a margin of k * 2^-50 covers it.
    """

    rankings: int
    items: int

    @property
    def sensitivity(self) -> Fraction:
        """2, with the margin for rounding."""
        return Fraction(2) + Fraction(self.rankings, 2**50)

    def statistic(self, sums: NDArray[np.int64]) -> float:
        """From the sum of ranks of each item."""
        return rank_length(sums, self.rankings, self.items)

    def null(self) -> Law:
        """The number of rankings times the root of Kendall's W."""
        return concordance_null(self.rankings, self.items).mapped(lambda w: self.rankings * np.sqrt(w))


@dataclass(frozen=True, slots=True)
class ClippedNorm:
    """The largest sum of clipped projections, F = max over vectors v of length up to 1 of the sum of min(<u, v>, cap).

    Without the cap this is the length of the sum. **Proof.** Leave one ranking out and let M be the maximum of the rest. A
    ranking adds at most the cap for every v, and at least -1 for the v that attains M. So with any ranking in the place left
    open, F lies between M - 1 and M + cap, and two neighbors differ by at most 1 + cap, where the plain norm needs 2. ∎
    What is returned lies between F - GAP and F (proved by a dual solution), so the sensitivity is 1 + cap + GAP.

    The cap comes from the numbers of rankings and items alone; it is so large that uniform rankings hardly ever reach it.
    Since F is never above the plain norm, that norm's null gives p-values that are never too small.
    """

    rankings: int
    items: int

    @property
    def cap(self) -> float:
        """Where clipping takes _LOSS from the norm of uniform rankings on average; 1 (no clipping) if there is none.

        A uniform ranking's projection on the common direction is about 1/sqrt(k) (its own share) plus a variable of mean 0
        and variance 1/(m-1). Any cap keeps the guarantee; this one keeps the level.
        """
        return clipping_cap(self.rankings, self.items)

    @property
    def sensitivity(self) -> Fraction:
        """1 + cap + GAP, with the margin for rounding."""
        return 1 + Fraction(self.cap) + Fraction(GAP) + Fraction(self.rankings, 2**40)

    def statistic(self, ranks: Any) -> float:
        """From all complete rankings, each in a row."""
        return clipped_length(ranks, self.cap)

    def null(self) -> Law:
        """The plain norm's."""
        return RankNorm(self.rankings, self.items).null()


@dataclass(frozen=True, slots=True)
class PairsNorm:
    """The length of the vector of signed sums over disjoint pairs of items.

    **Proof.** A ranking contributes a vector with floor(m/2) entries +1 or -1. Replacing it moves the sum by a vector of
    length at most 2 sqrt(floor(m/2)). ∎  Where a ranking leaves a pair open (an item missing, or a tie), a fair coin of its
    own decides, whatever the data: for fixed coins the bound holds, and coins that do not depend on the data cannot
    increase the loss. If what people leave open says nothing about the order of the rest, the null is the same as for
    complete rankings.
    """

    rankings: int
    items: int

    @property
    def pairs(self) -> int:
        """How many disjoint pairs there are; with an odd number of items one is left out."""
        return self.items // 2

    @property
    def sensitivity(self) -> Fraction:
        """2 sqrt(pairs), rounded up, with the margin for rounding."""
        return Fraction(math.isqrt(4 * self.pairs * 2**80) + 1, 2**40) + Fraction(self.rankings * self.pairs, 2**50)

    def statistic(self, sums: NDArray[np.int64]) -> float:
        """From the signed sum of each pair."""
        return math.sqrt(sum(int(s) ** 2 for s in sums))

    def null(self) -> Law:
        """Exact: disjoint pairs of a uniform ranking are independent fair signs."""
        return squares_null((self.rankings,) * self.pairs).mapped(np.sqrt)


@dataclass(frozen=True, slots=True)
class ClippedBatches:
    """The sum over disjoint batches of rankings of their standardized, clipped concordance.

    A batch of b has (length^2 - b) / sqrt(2b(b-1)/(m-1)), of mean 0 and variance 1 for uniform rankings, clipped to
    [-clip, clip]. **Proof.** One ranking stands in one batch, whose term stays within [-clip, clip]. ∎ Rankings are put
    into batches by a random order that does not depend on the data; those left over are not used.
    """

    rankings: int
    items: int
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

    def statistic(self, ranks: Any) -> float:
        """From all complete rankings in random order."""
        square = np.empty(self.batches)
        batch_norms(np.ascontiguousarray(ranks[: self.batches * self.size]), self.size, square)
        return self.from_squares(square)

    def from_squares(self, square: Floats) -> float:
        """From each batch's squared norm of summed doubled centered ranks."""
        b, m = self.size, self.items
        standard = (square / (m * (m * m - 1) / 3) - b) / math.sqrt(2 * b * (b - 1) / (m - 1))
        return math.fsum(np.clip(standard, -self.clip, self.clip))

    def null(self) -> Law:
        """A convolution power of one batch's law."""
        return batches_null(self.batches, self.size, self.items, self.clip)


def rank_length(sums: NDArray[np.int64], rankings: int, items: int) -> float:
    """The length of the sum of unit vectors, from the sum of ranks of each item, in whole numbers until the root."""
    shift = rankings * (items - 1)
    square = sum((2 * int(s) - shift) ** 2 for s in sums)
    return math.sqrt(Fraction(3 * square, items * (items * items - 1)))


def clipping_cap(rankings: int, items: int) -> float:
    """See :attr:`ClippedNorm.cap`."""
    deviation = 1 / math.sqrt(max(items - 1, 1))
    low, high = 0.0, 40.0
    for _ in range(100):  # the expected excess k * deviation * (density(z) - z tail(z)) falls with z
        z = (low + high) / 2
        excess = math.exp(-z * z / 2) / math.sqrt(2 * math.pi) - z * float(ndtr(-z))
        if rankings * deviation * excess > _LOSS:
            low = z
        else:
            high = z
    return min(1.0, math.ceil((1 / math.sqrt(rankings) + deviation * high) * 2**20) / 2**20)
