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

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numba import njit

from peerveil.core.errors import PeerveilError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_TOLERANCE: Final = 1e-10
_ROUNDING: Final = 1e-11  # sums this close to their bounds (in units of all entries together) count as tight
_MOST_STEPS: Final = 200_000


class NotOptimal(PeerveilError):
    """The projection could not be proved optimal; nothing is returned in its place."""


@njit(cache=True, nogil=True)
def isotonic(values: Any) -> Any:
    """The closest non-decreasing vector (pool adjacent violators), in one pass."""
    n = values.size
    sums = np.empty(n)
    counts = np.empty(n, dtype=np.int64)
    top = -1
    for i in range(n):
        top += 1
        sums[top] = values[i]
        counts[top] = 1
        while top > 0 and sums[top - 1] * counts[top] >= sums[top] * counts[top - 1]:
            sums[top - 1] += sums[top]
            counts[top - 1] += counts[top]
            top -= 1
    out = np.empty(n)
    place = 0
    for b in range(top + 1):
        mean = sums[b] / counts[b]
        for _ in range(counts[b]):
            out[place] = mean
            place += 1
    return out


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


def project_sums(values: Floats, lowest: Floats) -> Floats:
    """The closest sorted vector whose sums of lowest entries are at least ``lowest``, the last being the total. Exact.

    The set K of all vectors (in any order) with these sums is convex and unchanged by permutations if the steps of
    ``lowest`` are non-decreasing, and then projecting on K after isotonic regression is projecting on both: with p the
    isotonic regression of r, r - p sums to zero on each block where p is constant, and P_K(p) is constant there too, so
    <r - p, y - P_K(p)> <= 0 for every sorted y in K. P_K(p) = p - isotonic(p - w), w the steps: p - w minus its isotonic
    regression has non-negative prefix sums and total zero (Moreau). Two passes.
    """
    steps = np.diff(lowest, prepend=0.0)
    fitted = isotonic(values)
    result: Floats = fitted - isotonic(fitted - steps)
    return result


def project(
    values: Floats,
    lower: Floats,
    upper: Floats,
    lowest: Floats | None = None,
    highest: Floats | None = None,
    *,
    total_known: bool = False,
) -> Floats:
    """The closest point of the region to ``values``; raises :class:`NotOptimal` rather than return another.

    Parameters
    ----------
    values
        The vector to project.
    lower, upper
        Non-decreasing boxes.
    lowest, highest
        Bounds on the sums of the i lowest (from below) and of the i highest entries (from above).
    total_known
        Whether ``lowest[-1]`` is the exact total.
    """
    unit = max(float(upper[-1] - lower[0]), abs(float(lower[0])), abs(float(upper[-1])), 1e-300)
    t: Floats = box_sorted(values, lower, upper)
    if lowest is None:
        return t
    solver = _Dual(values, lower, upper, lowest, highest, total_known=total_known, unit=unit)
    return solver.solve()


class _Dual:
    """Accelerated projected gradients on the multipliers."""

    def __init__(
        self,
        values: Floats,
        lower: Floats,
        upper: Floats,
        lowest: Floats,
        highest: Floats | None,
        *,
        total_known: bool,
        unit: float,
    ) -> None:
        self.values, self.lower, self.upper, self.unit = values, lower, upper, unit
        self.total_known = total_known
        self.n = values.size
        self.low_steps = np.diff(lowest, prepend=0.0)
        self.lowest = lowest
        # the highest sums in terms of suffixes: sum over j > n - i
        self.high_steps = None if highest is None or total_known else np.diff(highest, prepend=0.0)[::-1].copy()
        self.highest = highest

    def point(self, y: Floats) -> Floats:
        """The minimizer of the Lagrangian."""
        t: Floats = box_sorted(self.values + y, self.lower, self.upper)
        return t

    def onto_low(self, a: Floats) -> Floats:
        """The cone of multipliers of the lowest sums: non-increasing; non-negative unless the total is known."""
        fitted: Floats = -isotonic(-a)
        return fitted if self.total_known else np.maximum(fitted, 0.0)

    def onto_high(self, b: Floats) -> Floats:
        """The cone of multipliers of the highest sums: non-decreasing and non-negative."""
        fitted: Floats = isotonic(b)
        return np.maximum(fitted, 0.0)

    def start(self) -> Floats:
        """Multipliers of the problem without boxes, where two passes solve it; zero where they do not."""
        steps = np.maximum.accumulate(self.low_steps)
        if not self.total_known or not np.allclose(steps, self.low_steps, rtol=0, atol=1e-9 * self.unit):
            return np.zeros(self.n)
        fitted = isotonic(self.values)
        return self.onto_low(-isotonic(fitted - self.low_steps))

    def solve(self) -> Floats:
        two = self.high_steps is not None
        step = 0.5 if two else 1.0
        a = self.start()
        b = np.zeros(self.n)
        lead_a, lead_b, pace = a.copy(), b.copy(), 1.0
        for count in range(_MOST_STEPS):
            t = self.point(lead_a - lead_b)
            new_a = self.onto_low(lead_a - step * (t - self.low_steps))
            new_b = self.onto_high(lead_b + step * (t - self.high_steps)) if self.high_steps is not None else b
            # restart where momentum points uphill (O'Donoghue and Candes, 2015)
            uphill = float(np.dot(lead_a - new_a, new_a - a)) + float(np.dot(lead_b - new_b, new_b - b))
            pace_next = 1.0 if uphill > 0 else (1.0 + np.sqrt(1.0 + 4.0 * pace * pace)) / 2.0
            momentum = 0.0 if uphill > 0 else (pace - 1.0) / pace_next
            lead_a, lead_b = new_a + momentum * (new_a - a), new_b + momentum * (new_b - b)
            a, b, pace = new_a, new_b, pace_next
            if count % 8 == 0 or count < 8:
                t = self.point(a - b)
                if self.optimal(t, a, b):
                    return t
        raise NotOptimal(f"no optimal projection within {_MOST_STEPS:,} steps for {self.n} entries")

    def optimal(self, t: Floats, a: Floats, b: Floats) -> bool:
        """The KKT conditions: feasible sums, and multipliers only on tight ones.

        The multiplier of the i-th lowest sum is a_i - a_(i+1), that of a suffix the step of b. Slack under a positive
        multiplier (complementarity) and shortfall (infeasibility) are bounded apart: boxes may leave the sums no more
        room than rounding, and then large multipliers sit on shortfalls of 1e-12.
        """
        slack = np.cumsum(t) - self.lowest
        price = np.append(a[:-1] - a[1:], 0.0 if self.total_known else a[-1])
        short = np.append(slack[:-1], -abs(slack[-1])) if self.total_known else slack
        if self.high_steps is not None and self.highest is not None:
            short = np.append(short, self.highest - np.cumsum(t[::-1]))
            price = np.append(price, np.diff(b, prepend=0.0)[::-1])
        size = self.unit * self.n
        reach = max(self.unit, float(np.abs(self.values).max()))  # loud noise makes for large multipliers
        loose = float(np.dot(price, np.maximum(short - _ROUNDING * size, 0.0)))
        strained = float(np.dot(np.abs(price), np.maximum(-short, 0.0)))
        return (
            float(-short.min()) <= _TOLERANCE * size
            and loose <= 1e-3 * _TOLERANCE * reach * size
            and strained <= _TOLERANCE * reach * size
        )
