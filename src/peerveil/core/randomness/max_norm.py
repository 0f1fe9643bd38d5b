"""Whole-number noise for many counts at once, where one change of the data moves every count by at most 1."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from peerveil.core.errors import BadInput
from peerveil.core.exact import Number, number, whole
from peerveil.core.guarantee import read_epsilon
from peerveil.core.randomness.radius import draw_radius

if TYPE_CHECKING:
    from peerveil.core.arrays import Floats, Ints
    from peerveil.core.randomness.source import Randomness

SMALLEST_EPSILON: Final = Fraction(1, 1000)  # below it the noise exceeds whatever could be counted
MOST_COUNTS: Final = 200


def read_level(level: object) -> float:
    """The coverage of an interval: below 1, since noise has no bound."""
    return number(level, "level", 0.0, 1 - 1e-9, want="a probability below 1, such as 0.95")


@dataclass(frozen=True)
class _Cube:
    """Vectors whose entries are all between -1 and 1."""

    degree: int  # their number of entries

    def volume(self, radius: int) -> int:
        """Vectors of whole numbers between -radius and radius."""
        return int((2 * radius + 1) ** self.degree)


@dataclass(frozen=True)
class MaxNormNoise:
    """Noise z with P(z) proportional to exp(-epsilon max_k abs(z_k)), for vectors of ``size`` whole numbers.

    **Privacy.** If neighboring data have counts N and N' with max_k abs(N_k - N'_k) <= 1, publishing y = N + z is
    epsilon-DP: the normalizing constant does not depend on N, and by the triangle inequality
    exp(-epsilon max abs(y - N)) <= e^epsilon exp(-epsilon max abs(y - N')). ∎

    **Sampling** is exact: a radius r with weight (2r + 1)^size e^(-epsilon r), then every coordinate uniformly from -r, ..., r
    (:mod:`~peerveil.core.randomness.radius`).

    Examples
    --------
    >>> from peerveil.core.randomness import Randomness
    >>> noise = MaxNormNoise(4, 1)
    >>> noise.draw(Randomness.simulation(1), 2).shape, round(noise.variance, 1), noise.half_width(0.95)
    ((2, 4), 9.9, 8)
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
        body, epsilon = _Cube(self.size), read_epsilon(self.epsilon)
        radii = np.array([draw_radius(body, epsilon, randomness) for _ in range(count)])
        noise = np.empty((count, self.size), dtype=np.int64)
        for radius in np.unique(radii).tolist():
            rows = radii == radius
            noise[rows] = randomness.integers(-radius, radius + 1, (int(rows.sum()), self.size))
        return noise

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
        """The least m with P(all abs(z_k) <= m) >= level, so that all counts are within m of what is published at once."""
        read_level(level)
        # within a radius r, all coordinates are at most m with probability ((2 min(m, r) + 1) / (2 r + 1))^size
        largest = np.log(2 * np.arange(self.radii.size) + 1)
        mass = np.log(np.maximum(self.radii, 1e-300))

        def inside(half: int) -> float:
            return float(np.exp(mass + self.size * (np.minimum(largest[half], largest) - largest)).sum())

        return bisect_left(range(self.radii.size - 1), level, key=inside)
