"""Whole-number noise for many counts at once, where one change of the data moves every count by at most 1."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from peerveil.core.errors import BadInput
from peerveil.core.exact import Number, exp_bounds, number, whole
from peerveil.core.guarantee import read_epsilon

if TYPE_CHECKING:
    from peerveil.core.arrays import Floats, Ints
    from peerveil.core.randomness.source import Randomness

SMALLEST_EPSILON: Final = Fraction(1, 1000)  # below it the noise exceeds whatever could be counted
MOST_COUNTS: Final = 200
_BITS: Final = 192  # of a uniform number, before more are drawn


def read_level(level: object) -> float:
    """The coverage of an interval: below 1, since noise has no bound."""
    return number(level, "level", 0.0, 1 - 1e-9, want="a probability below 1, such as 0.95")


@dataclass(frozen=True)
class MaxNormNoise:
    """Noise z with P(z) proportional to exp(-epsilon max_k abs(z_k)), for vectors of ``size`` whole numbers.

    **Privacy.** If neighboring data have counts N and N' with max_k abs(N_k - N'_k) <= 1, publishing y = N + z is
    epsilon-DP: the normalizing constant does not depend on N, and by the triangle inequality
    exp(-epsilon max abs(y - N)) <= e^epsilon exp(-epsilon max abs(y - N')). ∎

    **Sampling** is exact. With q = e^-epsilon, q^m = (1 - q) sum of q^r over r >= m. So draw a radius r with weight
    (2r + 1)^size q^r, then every coordinate uniformly from -r, ..., r: z comes with probability proportional to the sum of
    q^r over r >= max abs(z_k), which is q^max abs(z_k) / (1 - q). The radius is drawn by comparing uniform bits with certified
    bounds of its cumulative distribution; where they do not decide, more bits and tighter bounds are used.

    Examples
    --------
    >>> from peerveil.core.randomness import Randomness
    >>> noise = MaxNormNoise(4, 1)
    >>> noise.draw(Randomness.simulation(1), 2).shape, round(noise.variance, 1), noise.half_width(0.95)
    ((2, 4), 9.9, 7)
    """

    size: int
    epsilon: Number

    def __post_init__(self) -> None:
        whole(self.size, "size", 1, MOST_COUNTS)
        epsilon = read_epsilon(self.epsilon)
        if epsilon < SMALLEST_EPSILON:
            raise BadInput("epsilon", got=self.epsilon, want=f"at least {float(SMALLEST_EPSILON)}")
        object.__setattr__(self, "epsilon", epsilon)

    def draw(self, randomness: Randomness, count: int = 1) -> Ints:
        """``count`` independent vectors, one per row."""
        radii = np.array([self._radius(randomness) for _ in range(count)])
        noise = np.empty((count, self.size), dtype=np.int64)
        for radius in np.unique(radii).tolist():
            rows = radii == radius
            noise[rows] = randomness.integers(-radius, radius + 1, (int(rows.sum()), self.size))
        return noise

    def _radius(self, randomness: Randomness) -> int:
        uniform, level = 0, 0
        while True:
            bits = _BITS << level
            added = bits - (_BITS << (level - 1) if level else 0)
            uniform = uniform << added | randomness.below(1 << added)
            lows, highs = _cumulative(self.size, read_epsilon(self.epsilon), level)
            radius = bisect_right(
                lows, uniform
            )  # the first whose lower bound is above: certain, if the one before is below
            if radius < len(lows) and (radius == 0 or uniform >= highs[radius - 1]):
                return radius
            level += 1

    @cached_property
    def radii(self) -> Floats:
        """The probabilities of the radii 0, 1, ..., for modeling; what is beyond adds up to less than 1e-12."""
        epsilon = float(self.epsilon)
        radius = np.arange(math.ceil((self.size + 40 + 12 * math.sqrt(self.size)) / epsilon) + 5)
        weight = self.size * np.log(2 * radius + 1) - epsilon * radius
        mass = np.exp(weight - weight.max())
        return np.asarray(mass / mass.sum())

    @property
    def variance(self) -> float:
        """Of every coordinate."""
        radius = np.arange(self.radii.size)
        return float(self.radii @ (radius * (radius + 1) / 3))

    def half_width(self, level: float) -> int:
        """The least m with P(all abs(z_k) <= m) >= level, so that all counts lie within m of what is published at once."""
        read_level(level)
        # within a radius r, all coordinates are at most m with probability ((2 min(m, r) + 1) / (2 r + 1))^size
        largest = np.log(2 * np.arange(self.radii.size) + 1)
        mass = np.log(np.maximum(self.radii, 1e-300))

        def inside(half: int) -> float:
            return float(np.exp(mass + self.size * (np.minimum(largest[half], largest) - largest)).sum())

        return bisect_left(range(self.radii.size - 1), level, key=inside)


@lru_cache(maxsize=64)
def _cumulative(size: int, epsilon: Fraction, level: int) -> tuple[list[int], list[int]]:
    """Whole numbers low_j <= 2^bits P(radius <= j) <= high_j for j = 0, 1, ..., up to a tail below 2^-bits.

    The weights a_j = (2j + 1)^size q^j are bounded by fixed-point numbers, and so is their sum Z: behind the last one the
    ratio a_(j+1) / a_j is at most some s < 1, and falls, so that the rest is at most a_j s / (1 - s).
    """
    bits = _BITS << level
    low_q, high_q = exp_bounds(-epsilon, digits=60 << level)
    last = math.ceil((2 * size + bits) / epsilon) + size
    while (ratio := Fraction(2 * last + 3, 2 * last + 1) ** size * high_q) >= 1:
        last *= 2
    point = bits + 64 + size * (2 * last + 1).bit_length()
    factors = (low_q.numerator << point) // low_q.denominator, -((-high_q.numerator << point) // high_q.denominator)
    powers, sums = [1 << point, 1 << point], [0, 0]
    bounds: list[tuple[int, int]] = []
    for radius in range(last + 1):
        volume = (2 * radius + 1) ** size
        sums = [sums[0] + volume * powers[0], sums[1] + volume * powers[1]]
        bounds.append((sums[0], sums[1]))
        powers = [powers[0] * factors[0] >> point, -(-powers[1] * factors[1] >> point)]
    term = (2 * last + 1) ** size * -(-powers[1] * high_q.denominator // high_q.numerator)
    rest = math.ceil(term * ratio / (1 - ratio))
    lowest, highest = sums[0], sums[1] + rest
    lows = [(low << bits) // highest for low, _ in bounds]
    highs = [min(1 << bits, -((-high << bits) // lowest)) for _, high in bounds]
    return lows, highs
