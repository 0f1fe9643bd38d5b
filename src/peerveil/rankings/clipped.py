"""The largest sum of clipped projections, computed to a stated accuracy on every data set.

F = max over v of length at most 1 of the sum over rankings of min(<u, v>, cap), u the unit vectors of centered ranks. The
accuracy is part of the sensitivity of :class:`peerveil.rankings.central.ClippedNorm`, and a solver that gave up on some data
would tell about them. So the way is one that cannot stall: a smoothed problem is climbed by Newton steps that respect
the ball exactly, the smoothing shrinks, and a dual solution proves how far from the maximum the value can be at most.

**Smoothing.** min(x, cap) is replaced by the largest t + mu ln(x - t) + mu ln(cap - t) over t. With a = x - t and b = cap - t
its derivative in x is w = mu/a, between 0 and 1, and its second derivative -mu/(a^2 + b^2).

**Dual.** For all weights w in [0, 1], F is at most (length of the sum of w u) + cap times the sum of (1 - w): min(x, cap) is
at most w x + (1 - w) cap. At the smoothed maximum this exceeds F by at most 2 k mu, k the number of rankings: each of the two
logarithms of a ranking adds mu to the gap of the central path.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from peerveil.core.arrays import Floats
from peerveil.core.errors import PeerveilError
from peerveil.rankings.kernels import bisected

GAP: Final = 0.02
"""How exactly the clipped norm is solved for; it is part of its sensitivity."""

_MOST_STEPS: Final = 2000  # fewer than 40 were ever needed


def clipped_length(ranks: Any, cap: float) -> float:
    """F from below, within GAP of the maximum; a row of ``ranks`` is a complete ranking.

    >>> camps = np.array([[0, 1, 2, 3]] * 6 + [[3, 2, 1, 0]] * 4)  # two camps: the plain norm is 2
    >>> round(clipped_length(camps, 0.5), 1)
    1.0
    """
    k, m = ranks.shape
    unit = (np.asarray(ranks, dtype=np.float64) - (m - 1) / 2) / math.sqrt(m * (m * m - 1) / 12)
    total = unit.sum(axis=0)
    size = math.sqrt(float(total @ total))
    if size <= GAP:
        return 0.0  # F is between 0 (v = 0) and the plain norm
    v = total / size
    if float((unit @ v).max()) <= cap:
        return size  # nothing is clipped where the plain sum is largest
    smoothing, best, bound = 0.1, 0.0, size
    for _ in range(_MOST_STEPS):
        x = unit @ v
        a = _distance_to_best(x, cap, smoothing)
        b = a - (x - cap)
        weights = smoothing / a
        pull = unit.T @ weights
        best = max(best, float(np.minimum(x, cap).sum()))
        bound = min(bound, math.sqrt(float(pull @ pull)) + cap * float((1 - weights).sum()))
        if bound - best <= GAP:
            return best
        curvature = (unit * (smoothing / (a * a + b * b))[:, None]).T @ unit
        step = _best_in_ball(curvature, pull + curvature @ v) - v
        v = v + _step_length(x, unit @ step, cap, smoothing) * step
        if float(pull @ step) < 0.3 * smoothing * math.sqrt(k):  # near the top of this smoothing: take a finer one
            smoothing = max(0.2 * smoothing, GAP / (16 * k))
    raise PeerveilError("the clipped norm was not found to its accuracy: an error in peerveil")  # pragma: no cover


def _distance_to_best(x: Floats, cap: float, smoothing: float) -> Floats:
    """A = x - t at the best t, without cancellation: 1/a + 1/b = 1/mu, b = a - (x - cap)."""
    apart = np.abs(x - cap)
    near = smoothing + 2 * smoothing**2 / (apart + np.sqrt(apart**2 + 4 * smoothing**2))
    return np.asarray(near + np.maximum(x - cap, 0.0))


def _best_in_ball(curvature: Floats, slope: Floats) -> Floats:
    """The y of length at most 1 that maximizes <slope, y> - <y, curvature y>/2: exact, by eigenvectors."""
    values, vectors = np.linalg.eigh(curvature)
    values, parts = np.maximum(values, 0.0), vectors.T @ slope
    largest = math.sqrt(float(parts @ parts))
    inside = parts / (values + 1e-12 * largest + 1e-300)
    if float(inside @ inside) <= 1.0:
        return np.asarray(vectors @ inside)
    # the multiplier of the ball; at `largest` the length is at most 1
    multiplier = bisected(lambda x: float(np.sum((parts / (values + x)) ** 2)) > 1.0, 0.0, largest, steps=80)[1]
    return np.asarray(vectors @ (parts / (values + multiplier)))


def _step_length(x: Floats, along: Floats, cap: float, smoothing: float) -> float:
    """How far to go, at most 1: where the smoothed sum stops rising."""

    def rising(length: float) -> bool:
        return float((smoothing / _distance_to_best(x + length * along, cap, smoothing)) @ along) > 0

    return 1.0 if rising(1.0) else bisected(rising, 0.0, 1.0, steps=30)[0]
