"""Exact draws of a radius: the step that noise on the whole numbers of a growing body has in common.

For a norm whose unit ball is a body B, noise z with P(z) proportional to q^ceil(norm(z)), q = e^-epsilon, is
epsilon-DP where neighbors differ by a vector of norm at most 1: ceil(norm(y - x')) <= ceil(norm(y - x) + 1) =
ceil(norm(y - x)) + 1, and the normalizing constant does not depend on x. Since q^c = (1 - q) sum of q^r over r >= c,
such a z is drawn in two steps: a radius r with weight volume(r) q^r, volume(r) the number of points of the lattice in
r B; then a uniform one of these points.
"""

import math
from bisect import bisect_right
from collections.abc import Hashable
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol

from peerveil.core.exact import exp_bounds

if TYPE_CHECKING:
    from peerveil.core.randomness.source import Randomness

_BITS: Final = 192  # of a uniform number, before more are drawn


class Body(Hashable, Protocol):
    """How many points of the lattice there are in r B: a polynomial in r with coefficients that are not negative."""

    @property
    def degree(self) -> int:
        """Of the polynomial."""

    def volume(self, radius: int) -> int:
        """The number of points."""


def draw_radius(body: Body, epsilon: Fraction, randomness: "Randomness") -> int:
    """A radius r with weight volume(r) e^(-epsilon r), exactly.

    Uniform bits are compared with certified bounds of the cumulative distribution; where they do not decide, more bits and
    tighter bounds are used.
    """
    uniform, level = 0, 0
    while True:
        added = _BITS << max(level - 1, 0)
        uniform = uniform << added | randomness.below(1 << added)
        lows, highs = cumulative_bounds(body, epsilon, level)
        radius = bisect_right(lows, uniform)  # the first whose lower bound is above: certain if the one before is below
        if radius < len(lows) and (radius == 0 or uniform >= highs[radius - 1]):
            return radius
        level += 1


@lru_cache(maxsize=64)
def cumulative_bounds(body: Body, epsilon: Fraction, level: int) -> tuple[list[int], list[int]]:
    """Whole numbers low_j <= 2^bits P(radius <= j) <= high_j for j = 0, 1, ..., up to a small tail.

    The weights a_j = volume(j) q^j are bounded by fixed-point numbers, and so is their sum: behind the last one, j = l, the
    ratio a_(j+1) / a_j is at most s = (1 + 1/l)^degree q < 1, so that the rest is at most a_l s / (1 - s).
    """
    bits = _BITS << level
    low_q, high_q = exp_bounds(-epsilon, digits=60 << level)
    last = math.ceil((2 * body.degree + bits) / epsilon) + body.degree + 1
    while (ratio := Fraction(last + 1, last) ** body.degree * high_q) >= 1:
        last *= 2
    volumes = [body.volume(radius) for radius in range(last + 1)]
    point = bits + 64 + volumes[-1].bit_length()
    factors = (low_q.numerator << point) // low_q.denominator, -((-high_q.numerator << point) // high_q.denominator)
    low_power = high_power = 1 << point
    low_sum = high_sum = 0
    sums: list[tuple[int, int]] = []
    for volume in volumes:
        low_sum, high_sum = low_sum + volume * low_power, high_sum + volume * high_power
        sums.append((low_sum, high_sum))
        last_power = high_power
        low_power, high_power = low_power * factors[0] >> point, -(-high_power * factors[1] >> point)
    rest = math.ceil(volumes[-1] * last_power * ratio / (1 - ratio))
    lows = [(low << bits) // (high_sum + rest) for low, _ in sums]
    highs = [min(1 << bits, -((-high << bits) // low_sum)) for _, high in sums]
    return lows, highs
