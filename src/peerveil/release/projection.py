"""The closest point of a region of sorted vectors, found exactly and proved optimal before it is returned.

The region: t_1 <= ... <= t_n, lower <= t <= upper (both non-decreasing), sums of the i lowest entries at least A_i, sums
of the i highest at most B_i, and perhaps a known total. The method works on the dual. Let Q(v) be the projection of v on
sortedness and boxes alone (one pass of pooling, :func:`box_sorted`). For multipliers y = a - b with a non-increasing and
non-negative (for the lowest sums; of any sign if the total is known) and b non-decreasing and non-negative (for the
highest sums), t = Q(r + y) minimizes the Lagrangian. The dual function has a 1-Lipschitz gradient in y and its feasible
set is a pair of monotone cones, on which projection is isotonic regression: accelerated projected gradients take two
linear passes a step.

**Optimality** is checked, not assumed: t is in the boxes and sorted by construction and minimizes
the Lagrangian at y, so if it also keeps the sums (up to tolerance) and every multiplier sits on a tight sum (complementary
slackness, up to tolerance), it is the projection: by strong convexity |t - t*|^2 is at most twice the duality gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from peerveil.core.arrays import Floats
from peerveil.core.errors import PeerveilError
from peerveil.core.lazy import njit

_TOLERANCE: Final = 1e-10
_ROUNDING: Final = 1e-11  # sums this close to their bounds (in units of all entries together) count as tight
_MOST_STEPS: Final = 200_000


class NotOptimal(PeerveilError):
    """A solution could not be proved optimal. Nothing is returned in its place."""


@njit(cache=True, nogil=True)
def box_sorted(values: Any, lower: Any, upper: Any) -> Any:
    """The closest vector that is sorted and within non-decreasing bounds, in one pass.

    Pooling with convex costs (Best, Chakravarti and Ubhaya, 2000): the best common value of a block is its mean, clipped
    to the largest lower bound (its last) and the smallest upper bound (its first). Clipping an isotonic regression
    instead would be wrong: values (1, 0, 5) with upper bounds (0.2, 10, 10).
    """
    n = values.size
    sums = np.empty(n)
    counts = np.empty(n, dtype=np.int64)
    first = np.empty(n, dtype=np.int64)
    level = np.empty(n)
    top = -1
    for i in range(n):
        top += 1
        sums[top] = values[i]
        counts[top] = 1
        first[top] = i
        level[top] = min(max(values[i], lower[i]), upper[i])
        while top > 0 and level[top - 1] >= level[top]:
            sums[top - 1] += sums[top]
            counts[top - 1] += counts[top]
            top -= 1
            level[top] = min(max(sums[top] / counts[top], lower[i]), upper[first[top]])
    out = np.empty(n)
    for b in range(top + 1):
        for j in range(first[b], first[b] + counts[b]):
            out[j] = level[b]
    return out


@njit(cache=True, nogil=True)
def isotonic(values: Any) -> Any:
    """The closest non-decreasing vector."""
    return box_sorted(values, np.full(values.size, -np.inf), np.full(values.size, np.inf))


@dataclass(frozen=True, slots=True)
class Projection:
    """The closest point of the region, by accelerated projected gradients on the multipliers.

    Parameters
    ----------
    lower, upper
        Non-decreasing boxes.
    lowest, highest
        Bounds on the sums of the i lowest (from below) and of the i highest entries (from above, or ``None``).
    total_known
        Whether ``lowest[-1]`` is the exact total; ``highest`` is then ``None``.
    """

    lower: Floats
    upper: Floats
    lowest: Floats
    highest: Floats | None = None
    total_known: bool = False

    def of(self, values: Floats) -> Floats:
        """The closest point to ``values``; raises :class:`NotOptimal` rather than return another."""
        low_steps = np.diff(self.lowest, prepend=0.0)
        # the highest sums in terms of suffixes: sum over j > n - i
        high_steps = None if self.highest is None else np.diff(self.highest, prepend=0.0)[::-1]
        step = 1.0 if high_steps is None else 0.5
        a, b = self._start(values, low_steps), np.zeros(values.size)
        lead_a, lead_b, pace = a.copy(), b.copy(), 1.0
        for count in range(_MOST_STEPS):
            t = self._point(values, lead_a - lead_b)
            new_a = self._onto_low(lead_a - step * (t - low_steps))
            # the cone of multipliers of the highest sums: non-decreasing and non-negative
            new_b = b if high_steps is None else np.maximum(isotonic(lead_b + step * (t - high_steps)), 0.0)
            # restart where momentum points uphill (O'Donoghue and Candes, 2015)
            uphill = float(np.dot(lead_a - new_a, new_a - a)) + float(np.dot(lead_b - new_b, new_b - b))
            pace_next = 1.0 if uphill > 0 else (1.0 + np.sqrt(1.0 + 4.0 * pace * pace)) / 2.0
            momentum = 0.0 if uphill > 0 else (pace - 1.0) / pace_next
            lead_a, lead_b = new_a + momentum * (new_a - a), new_b + momentum * (new_b - b)
            a, b, pace = new_a, new_b, pace_next
            if count % 8 == 0 or count < 8:
                t = self._point(values, a - b)
                if self._optimal(values, t, a, b):
                    return t
        raise NotOptimal(f"no optimal projection within {_MOST_STEPS:,} steps for {values.size} entries")

    @property
    def _unit(self) -> float:
        ends = float(self.lower[0]), float(self.upper[-1])
        return max(ends[1] - ends[0], abs(ends[0]), abs(ends[1]), 1e-300)

    def _point(self, values: Floats, y: Floats) -> Floats:
        """The minimizer of the Lagrangian."""
        return np.asarray(box_sorted(values + y, self.lower, self.upper))

    def _onto_low(self, a: Floats) -> Floats:
        """The cone of multipliers of the lowest sums: non-increasing; non-negative unless the total is known."""
        fitted: Floats = -isotonic(-a)
        return fitted if self.total_known else np.maximum(fitted, 0.0)

    def _start(self, values: Floats, low_steps: Floats) -> Floats:
        """Multipliers of the problem without boxes, where two passes solve it; zero where they do not.

        The set K of all vectors (in any order) with these sums is convex and unchanged by permutations if the steps w of the
        lowest sums are non-decreasing, and then projecting on K after isotonic regression is projecting on both: with p the
        isotonic regression of r, r - p sums to zero on each block where p is constant, and P_K(p) is constant there too, so
        <r - p, y - P_K(p)> <= 0 for every sorted y in K. P_K(p) = p - isotonic(p - w): p - w minus its isotonic regression
        has non-negative prefix sums and total zero (Moreau).
        """
        ascending = np.allclose(np.maximum.accumulate(low_steps), low_steps, rtol=0, atol=1e-9 * self._unit)
        if not (self.total_known and ascending):
            return np.zeros(values.size)
        return self._onto_low(-isotonic(isotonic(values) - low_steps))

    def _optimal(self, values: Floats, t: Floats, a: Floats, b: Floats) -> bool:
        """The KKT conditions: feasible sums, and multipliers only on tight ones.

        The multiplier of the i-th lowest sum is a_i - a_(i+1), that of a suffix the step of b. Slack under a positive
        multiplier (complementarity) and shortfall (infeasibility) are bounded apart: boxes may leave the sums no more
        freedom than rounding, and then large multipliers sit on shortfalls of 1e-12.
        """
        slack = np.cumsum(t) - self.lowest
        price = np.append(a[:-1] - a[1:], 0.0 if self.total_known else a[-1])
        short = np.append(slack[:-1], -abs(slack[-1])) if self.total_known else slack
        if self.highest is not None:
            short = np.append(short, self.highest - np.cumsum(t[::-1]))
            price = np.append(price, np.diff(b, prepend=0.0)[::-1])
        size = self._unit * values.size
        reach = max(self._unit, float(np.abs(values).max()))  # loud noise makes for large multipliers
        loose = float(np.dot(price, np.maximum(short - _ROUNDING * size, 0.0)))
        strained = float(np.dot(np.abs(price), np.maximum(-short, 0.0)))
        return (
            float(-short.min()) <= _TOLERANCE * size
            and loose <= 1e-3 * _TOLERANCE * reach * size
            and strained <= _TOLERANCE * reach * size
        )
