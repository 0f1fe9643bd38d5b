"""A statistic plus Laplace noise: its tails, its critical values and its picture."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import log_ndtr, ndtr

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from peerveil.rankings.nulls import Law

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class NoisyLaw:
    """The law of value + Laplace(scale): a mixture of Laplace laws, so that tails are sums without further simulation."""

    law: Law
    scale: float

    def tail(self, x: float) -> float:
        """P[value + noise >= x], a smooth function of x."""
        return _tail(x, self.law.values, self.law.chances, self.scale)

    def critical(self, level: float) -> float:
        """The value whose tail is exactly ``level`` (the law is continuous)."""
        reach = self.scale * (math.log(1 / min(level, 1 - level)) + 5)
        values, chances = self._atoms()
        low, high = float(values[0]) - reach, float(values[-1]) + reach
        for _ in range(200):
            middle = (low + high) / 2
            if _tail(middle, values, chances, self.scale) > level:
                low = middle
            else:
                high = middle
            if high - low <= 1e-12 * max(1.0, abs(high)):
                break
        return high

    def density(self, x: Floats) -> Floats:
        """The density at each x."""
        values, chances = self._atoms()
        heights = [np.dot(chances, np.exp(-np.abs(point - values) / self.scale)) for point in x]
        return np.array(heights) / (2 * self.scale)

    def _atoms(self) -> tuple[Floats, Floats]:
        """The law's atoms, each value once: draws of a discrete statistic repeat few values very often."""
        first = np.flatnonzero(np.diff(self.law.values, prepend=-np.inf))
        return self.law.values[first], np.add.reduceat(self.law.chances, first)


def _tail(x: float, values: Floats, chances: Floats, scale: float) -> float:
    return float(max(np.dot(chances, laplace_tail(x - values, scale)), 1e-300))


def laplace_tail(x: Floats, scale: float) -> Floats:
    """P[Laplace(scale) >= x]."""
    half = 0.5 * np.exp(-np.abs(x) / scale)
    return np.where(x > 0, half, 1 - half)


def normal_laplace_tail(x: float, deviation: float, scale: float) -> float:
    """P[N(0, deviation^2) + Laplace(scale) >= x], in closed form.

    >>> round(normal_laplace_tail(0.0, 1.0, 2.0), 9)
    0.5
    """
    if deviation <= 0:
        return float(laplace_tail(np.array([x]), scale)[0])
    z, ratio = x / deviation, deviation / scale
    up = math.exp(min(700.0, ratio * ratio / 2 - x / scale + float(log_ndtr(z - ratio))))
    down = math.exp(min(700.0, ratio * ratio / 2 + x / scale + float(log_ndtr(-z - ratio))))
    return float(min(1.0, max(0.0, ndtr(-z) + 0.5 * (up - down))))
