"""Distributions of one delay: exact on whole ticks, with densities in seconds.

Three kinds are enough for every mechanism of the module: :class:`Steps` (uniform pieces and a point mass at 0),
:class:`Tail` (exponential, as a geometric number of microseconds) and :class:`Stairs` (the staircase). Each is drawn
exactly from the bits of a :class:`peerveil.Randomness`; nothing is computed in floats that a privacy proof needs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final, Self

import numpy as np
from numpy.typing import ArrayLike

from peerveil.core.arrays import Floats, Ints
from peerveil.core.exact import at_least
from peerveil.timing.durations import TICKS

if TYPE_CHECKING:
    from peerveil.core.randomness import Randomness

WHOLE: Final = 1 << 53  # weights are whole multiples of 2^-53
_MICRO: Final = TICKS // 1_000_000


class Delay(ABC):
    """The distribution of one delay. All public numbers are in seconds."""

    @property
    def maximum(self) -> float:
        """The longest delay that can come; infinity if there is none."""
        return math.inf

    @property
    def horizon(self) -> float:
        """A time by which all but 1e-12 of the delays are over."""
        return self.maximum

    @property
    def atom(self) -> float:
        """The probability of no delay at all, where that is a point mass."""
        return 0.0

    @property
    @abstractmethod
    def breaks(self) -> tuple[float, ...]:
        """Where the density jumps."""

    @abstractmethod
    def density(self, x: ArrayLike) -> Floats:
        """The density at x, the point mass at 0 left out."""

    @abstractmethod
    def smooth_below(self, x: ArrayLike) -> Floats:
        """The probability of a delay in (0, x]: the point mass at 0 left out."""

    @abstractmethod
    def draw_ticks(self, count: int, randomness: Randomness) -> Ints:
        """Independent delays in ticks."""

    @abstractmethod
    def scaled(self, factor: float) -> Self:
        """The same distribution with every delay multiplied by a factor, to the nearest tick."""

    def below(self, x: ArrayLike) -> Floats:
        """The distribution function."""
        points = np.asarray(x, dtype=float)
        return np.where(points < 0, 0.0, self.atom + self.smooth_below(points))


@dataclass(frozen=True)
class Steps(Delay):
    """Uniform pieces, each on the ticks low + 1, ..., high with a weight in units of 2^-53; what is left is at 0.

    >>> half = Steps(((0, 10 * TICKS, WHOLE // 2),))
    >>> half.atom, half.mean, half.maximum
    (0.5, 2.50000000025, 10.0)
    """

    pieces: tuple[tuple[int, int, int], ...]

    @property
    def mean(self) -> float:
        """The expected delay."""
        total = sum((Fraction(weight, WHOLE) * (low + 1 + high) / 2 for low, high, weight in self.pieces), Fraction(0))
        return float(total / TICKS)

    @property
    def maximum(self) -> float:
        """The longest delay."""
        return max(high for _, high, _ in self.pieces) / TICKS

    @property
    def spare(self) -> int:
        """The weight at 0."""
        return WHOLE - sum(weight for _, _, weight in self.pieces)

    @property
    def atom(self) -> float:
        """The probability of no delay."""
        return self.spare / WHOLE

    @property
    def breaks(self) -> tuple[float, ...]:
        """The ends of the pieces."""
        return tuple(sorted({edge / TICKS for low, high, _ in self.pieces for edge in (low, high)}))

    def density(self, x: ArrayLike) -> Floats:
        """Constant on each piece."""
        points = np.asarray(x, dtype=float)
        inside = [(points > low / TICKS) & (points <= high / TICKS) for low, high, _ in self.pieces]
        return np.select(inside, [weight / WHOLE / ((high - low) / TICKS) for low, high, weight in self.pieces], 0.0)

    def smooth_below(self, x: ArrayLike) -> Floats:
        """Linear on each piece."""
        ticks = np.asarray(x, dtype=float) * TICKS
        parts = [weight / WHOLE * np.clip((ticks - low) / (high - low), 0.0, 1.0) for low, high, weight in self.pieces]
        return np.asarray(sum(parts))

    def draw_ticks(self, count: int, randomness: Randomness) -> Ints:
        """Choose a piece by its exact weight, then a tick of it, uniformly."""
        low, high, weight = self.pieces[0]
        if weight == WHOLE:
            return randomness.integers(low + 1, high + 1, count)
        out, edge = np.zeros(count, dtype=np.int64), 0
        chosen = randomness.integers(0, WHOLE, count)
        for low, high, weight in self.pieces:
            here = np.flatnonzero((chosen >= edge) & (chosen < edge + weight))
            out[here] = randomness.integers(low + 1, high + 1, here.size)
            edge += weight
        return out

    def scaled(self, factor: float) -> Self:
        """Every piece scaled."""
        return replace(self, pieces=tuple((round(factor * a), round(factor * b), w) for a, b, w in self.pieces))

    def least_mass(self, first: int, last: int) -> Fraction:
        """The smallest probability of any one tick from ``first`` to ``last``, exactly."""
        if first < 0:
            return Fraction(0)
        masses = [Fraction(self.spare, WHOLE)] if first == 0 else []
        covered = max(first, 1)
        for low, high, weight in sorted(self.pieces):
            if high < covered or low >= last or covered > last:
                continue
            if low + 1 > covered:
                return Fraction(0)
            masses.append(Fraction(weight, WHOLE * (high - low)))
            covered = high + 1
        return min(masses) if covered > last and masses else Fraction(0)


@dataclass(frozen=True)
class Tail(Delay):
    """``start`` ticks plus a geometric number of microseconds: the exponential distribution on the clock's grid.

    P[start + k microseconds] is proportional to exp(-k / scale). Drawn exactly: discrete Laplace noise, given that it
    is not negative, is geometric.
    """

    start: int
    scale: float  # in microseconds

    @property
    def horizon(self) -> float:
        """All but 1e-12 of the delays are over."""
        return self.start / TICKS + 28 * self.scale / 1e6

    @property
    def breaks(self) -> tuple[float, ...]:
        """Where it begins."""
        return (self.start / TICKS,)

    def density(self, x: ArrayLike) -> Floats:
        """An exponential from the start on."""
        scales = self._scales_after_start(x)
        return np.where(scales >= 0, np.exp(-np.maximum(scales, 0)) * 1e6 / self.scale, 0.0)

    def smooth_below(self, x: ArrayLike) -> Floats:
        """One minus an exponential from the start on."""
        scales = self._scales_after_start(x)
        return np.where(scales >= 0, -np.expm1(-np.maximum(scales, 0)), 0.0)

    def _scales_after_start(self, x: ArrayLike) -> Floats:
        return np.asarray((np.asarray(x, dtype=float) - self.start / TICKS) * 1e6 / self.scale)

    def draw_ticks(self, count: int, randomness: Randomness) -> Ints:
        """The start, and a geometric number of microseconds."""
        return self.start + _MICRO * draw_geometric(count, self.scale, randomness)

    def scaled(self, factor: float) -> Self:
        """Start and scale, scaled."""
        return replace(self, start=round(factor * self.start), scale=factor * self.scale)


@dataclass(frozen=True)
class Stairs(Delay):
    """``start`` ticks plus the absolute value of the staircase distribution (Geng and Viswanath) of width ``step``.

    In period k = 0, 1, ... of ``step`` ticks, the first ``tread`` ticks have mass proportional to exp(-k loss), the
    others to exp(-(k+1) loss). Drawn exactly: a tick r of the period, uniformly, and a geometric number m; if r is
    behind the tread, m = 0 is thrown away and the period is m - 1, else it is m. So (m, r) has mass exp(-m loss).
    """

    start: int
    step: int
    tread: int
    loss: Fraction

    @property
    def _heights(self) -> tuple[float, float]:
        """The density on the first tread, and what it falls by."""
        fall = math.exp(-float(self.loss))
        share = self.tread / self.step
        return (1 - fall) / (self.step / TICKS * (share + fall * (1 - share))), fall

    @property
    def _periods(self) -> int:
        """Periods that hold all but 1e-12 of the delays."""
        return math.ceil(28 / float(self.loss))

    @property
    def horizon(self) -> float:
        """All but 1e-12 of the delays are over."""
        return (self.start + self._periods * self.step) / TICKS

    @property
    def breaks(self) -> tuple[float, ...]:
        """Where the stairs fall, up to the horizon."""
        parts = (0, self.tread)
        return tuple((self.start + k * self.step + part) / TICKS for k in range(self._periods) for part in parts)

    def density(self, x: ArrayLike) -> Floats:
        """Constant on each tread."""
        height, fall = self._heights
        points = np.asarray(x, dtype=float) - self.start / TICKS
        period = np.floor(np.maximum(points, 0) * TICKS / self.step)
        late = np.maximum(points, 0) * TICKS - period * self.step >= self.tread
        return np.where(points >= 0, height * fall ** (period + late), 0.0)

    def smooth_below(self, x: ArrayLike) -> Floats:
        """Linear on each tread."""
        height, fall = self._heights
        points = np.maximum(np.asarray(x, dtype=float) - self.start / TICKS, 0)
        period = np.floor(points * TICKS / self.step)
        rest = points - period * self.step / TICKS
        tread = self.tread / TICKS
        inside = np.minimum(rest, tread) + fall * np.maximum(rest - tread, 0)
        return np.asarray(1 - fall**period + height * fall**period * inside)

    def draw_ticks(self, count: int, randomness: Randomness) -> Ints:
        """The start, and a period and a tick in it."""
        scale = at_least(1 / self.loss)

        def draw(missing: int) -> Ints:
            place = randomness.integers(0, self.step, missing)
            number = draw_geometric(missing, scale, randomness)
            late = place >= self.tread
            return np.asarray((self.step * (number - late) + place)[~late | (number > 0)])

        return self.start + _filled(count, draw)

    def scaled(self, factor: float) -> Self:
        """Start, step and tread, scaled."""
        start, step, tread = (round(factor * ticks) for ticks in (self.start, self.step, self.tread))
        return replace(self, start=start, step=step, tread=tread)


def draw_geometric(count: int, scale: float, randomness: Randomness) -> Ints:
    """Whole numbers k >= 0 with mass proportional to exp(-k / scale)."""

    def draw(missing: int) -> Ints:
        noise = randomness.discrete_laplace(np.zeros(2 * missing + 8, dtype=np.int64), scale=scale)
        return noise[noise >= 0][:missing]

    return _filled(count, draw)


def _filled(count: int, draw: Callable[[int], Ints]) -> Ints:
    """So many numbers, from a sampler that may return fewer than it is asked for."""
    out, filled = np.empty(count, dtype=np.int64), 0
    while filled < count:
        numbers = draw(count - filled)
        out[filled : filled + numbers.size] = numbers
        filled += numbers.size
    return out
