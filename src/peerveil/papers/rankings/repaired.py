"""The paper's three private tests, repaired so that their guarantee is true: LAP, the bucketed test, and TRUNC."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import exp_bounds
from peerveil.papers.rankings.printed import bias_as_printed, squares_mean, trunc_share
from peerveil.rankings.central import PairsNorm
from peerveil.rankings.laws import Law, squares_null


@dataclass(frozen=True, slots=True)
class LaplaceSquares(PairsNorm):
    """LAP (Algorithm 4, Theorem 9): Y, the mean square of the signed pair sums, plus Laplace noise.

    **Proof** (Claim 10, for floor(m/2) pairs). A changed ranking moves each S from s to s' with s' - s in {-2, 0, 2} and
    both within [-k, k], so S^2 by at most 4(k-1), and Y by at most 4 floor(m/2) (k-1)/k. ∎ The critical value is exact;
    the printed one is far too high, and the proof's fails at small levels.
    """

    @property
    def sensitivity(self) -> Fraction:
        """4 floor(m/2) (k-1)/k, with a margin for rounding."""
        k, pairs = self.rankings, self.items // 2
        return Fraction(4 * pairs * (k - 1), k) + Fraction(k * pairs, 2**50)

    def statistic(self, sums: NDArray[np.int64]) -> float:
        """Y."""
        return squares_mean(sums, self.rankings)

    def null(self) -> Law:
        """Exact."""
        return squares_null((self.rankings,) * (self.items // 2)).mapped(lambda v: v / self.rankings)


@dataclass(frozen=True, slots=True)
class Bucket:
    """One of several batches at random decides, and a coin is mixed in.

    With R of g batches rejecting, P[reject] = a + (1 - 2a) R/g. **Proof.** A ranking stands in one batch, so R changes by at
    most 1, and P[reject] and P[accept] by at most (1 - 2a)/g; neither is below a. So their ratios are at most
    1 + (1 - 2a)/(g a), which is at most e^epsilon for the a below. ∎ (The paper has a = 0: then a data set on which every
    batch accepts never rejects, its neighbor does with probability 1/g, and the loss is infinite. Cai, Daskalakis and
    Kamath, 2017, mix in the coin.) The level is a + (1 - 2a) times the batch's level.
    """

    rankings: int
    items: int
    batches: int
    coin: Fraction
    batch_level: float

    @classmethod
    def plan(cls, rankings: int, items: int, epsilon: Fraction, level: float) -> Bucket:
        """As few batches as leave half of the level to the coin; refuses if there are too few rankings."""
        gain = exp_bounds(epsilon)[0] - 1
        batches = math.ceil((2 / Fraction(level) - 2) / gain)
        if rankings < 2 * batches:
            raise BadInput(
                "rankings",
                got=Verbatim(f"{rankings:,} rankings"),
                want=f"at least {2 * batches:,}: two in each of the {batches:,} batches that this epsilon and level need",
            )
        coin = 1 / (2 + batches * gain)
        coin = Fraction(math.ceil(coin * 2**40), 2**40)
        rest = (Fraction(level) - coin) / (1 - 2 * coin)
        return cls(rankings, items, batches, coin, float(rest))

    @property
    def batch_size(self) -> int:
        """Rankings in a batch; those left over are not used."""
        return self.rankings // self.batches

    def null(self) -> Law:
        """Of a batch's Y."""
        size = self.batch_size
        return squares_null((size,) * (self.items // 2)).mapped(lambda v: v / size)

    def batch_rejects(self, sums: NDArray[np.int64]) -> bool:
        """UNIF with its exact null on one batch."""
        return self.null().tail(squares_mean(sums, self.batch_size)) <= self.batch_level

    def reject_probability(self, rejecting: int) -> Fraction:
        """P[reject] when so many batches reject."""
        return self.coin + (1 - 2 * self.coin) * Fraction(rejecting, self.batches)


@dataclass(frozen=True, slots=True)
class Trunc:
    """TRUNC without its line 10: a coin with probability ``coin``, else reject with probability p(Y).

    p = clip((Y - Y0) / width, 0, 1), Y0 the number of pairs, width = m mu^2 (k-1)/16. **Proof.** Let D and D' be
    neighbors, not both with p = 1, and let D be one with Y <= Y0 + width. By Cauchy-Schwarz the absolute pair sums of D add
    up to at most A = sqrt(pairs k (Y0 + width)). Each S moves by at most 2, so Y by at most (4A + 4 pairs)/k, and p by at
    most that over the width: call it d. Both answers have at least probability coin/2, so the loss is at most
    ln(1 + (1 - coin) d / (coin/2)), which :meth:`plan` keeps within epsilon, or refuses. ∎ (The paper bounds the
    sensitivity by the absolute value of the sum of S, which alternating signs make 0.)
    """

    rankings: int
    items: int
    bias: float
    coin: float

    @property
    def pairs(self) -> int:
        """How many pairs there are."""
        return self.items // 2

    @property
    def width(self) -> float:
        """Over which range of Y the probability rises from 0 to 1."""
        return self.items * self.bias**2 * (self.rankings - 1) / 16

    @property
    def step(self) -> float:
        """By how much p can differ between neighbors."""
        most = math.sqrt(self.pairs * self.rankings * (self.pairs + self.width))
        return min(1.0, (4 * most + 4 * self.pairs) / self.rankings / self.width)

    def loss(self) -> float:
        """The proven bound on the privacy loss."""
        return math.log1p((1 - self.coin) * self.step * (1 + 1e-9) / (self.coin / 2))

    def share(self, sums: NDArray[np.int64]) -> float:
        """p, centered on the number of pairs."""
        y = squares_mean(sums, self.rankings) - self.pairs + self.items / 2
        return trunc_share(y, self.rankings, self.items, self.bias)

    def reject_probability(self, sums: NDArray[np.int64]) -> float:
        """P[reject] on given sums."""
        return self.coin / 2 + (1 - self.coin) * self.share(sums)

    def null_rejection(self) -> float:
        """P[reject] for uniform rankings, by the exact law of Y."""
        law = squares_null((self.rankings,) * self.pairs)
        share = np.clip((law.values / self.rankings - self.pairs) / self.width, 0, 1)
        return self.coin / 2 + (1 - self.coin) * float(np.dot(law.chances, share))

    @classmethod
    def plan(cls, rankings: int, items: int, epsilon: Fraction, level: float, tolerance: float) -> Trunc:
        """With half of the level for the coin; refuses where the proof or the level does not hold."""
        bias = bias_as_printed(items, tolerance)
        test = cls(rankings, items, bias, level)
        if test.loss() > float(epsilon):
            need = cls.rankings_needed(items, epsilon, level, tolerance)
            raise BadInput(
                "rankings",
                got=Verbatim(f"{rankings:,} rankings"),
                want=f"at least {need:,} for TRUNC at this tolerance: below, its guarantee has no proof",
            )
        if test.null_rejection() > level:
            want = "a larger tolerance: TRUNC would reject uniform rankings more often than the level"
            raise BadInput("tolerance", got=tolerance, want=want)
        return test

    @classmethod
    def rankings_needed(cls, items: int, epsilon: Fraction, level: float, tolerance: float) -> int:
        """From how many rankings on the guarantee holds."""
        bias = bias_as_printed(items, tolerance)
        low, high = 2, 4
        while cls(high, items, bias, level).loss() > float(epsilon):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if cls(middle, items, bias, level).loss() > float(epsilon) else (low, middle)
        return high
