"""The two-sample test (Algorithm 1) with its exact null instead of the printed threshold."""

from __future__ import annotations

import math

from peerveil.core.lazy import ndtri
from peerveil.rankings.variation import NODES, distance_cdf


def distance_tail(items: int, distance: int) -> float:
    """P[the Kendall distance of two uniform rankings is at most ``distance``], never too small."""
    value, rough = (distance_cdf(items, 1.0, [distance], nodes=nodes)[0] for nodes in (2 * NODES, NODES))
    return float(min(1.0, max(value + abs(value - rough) + 1e-12, 1e-15)))


def distance_critical(items: int, level: float) -> int:
    """The largest distance whose lower tail is at most ``level``; -1 if there is none."""
    mean = items * (items - 1) / 4
    deviation = math.sqrt(items * (items - 1) * (2 * items + 5) / 72)
    low, high = -1, int(mean)
    start = int(mean + float(ndtri(level)) * deviation)
    for guess in (start - int(deviation / 4) - 2, start + int(deviation / 4) + 2):  # the normal value is close
        if low < guess < high:
            low, high = (guess, high) if distance_tail(items, guess) <= level else (low, guess)
    while high - low > 1:
        middle = (low + high) // 2
        if distance_tail(items, middle) <= level:
            low = middle
        else:
            high = middle
    return low
