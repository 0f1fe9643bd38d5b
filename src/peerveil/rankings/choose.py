"""Choosing a central test and its parameters from public numbers alone: rankings, items and epsilon."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import ndtr

from peerveil.rankings.central import ClippedBatches, ClippedNorm, PairsNorm, RankNorm
from peerveil.rankings.noise import normal_laplace_tail

if TYPE_CHECKING:
    from collections.abc import Callable

Central = RankNorm | ClippedNorm | PairsNorm | ClippedBatches

SIZES: Final = (2, 3, 4, 5, 6, 8, 10, 12, 16)
CLIPS: Final = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0)
_LEVEL, _POWER = 0.05, 0.8
_MOST_BATCHES: Final = 100  # with more batches only pairs are used: their law is symmetric, so its mean is exactly 0
_MOST_HELD: Final = 20_000_000  # ranks that a method may hold at once
_MOST_WORK: Final = 2_000_000_000  # products of a Newton step of the clipped norm; beyond, noise hardly matters anyway


@lru_cache(maxsize=256)
def choose_central(rankings: int, items: int, epsilon: float, held: bool = True) -> Central:
    """The test that reaches power 0.8 at level 0.05 with the least signal.

    The signal is the squared length r of the mean unit vector: 0 for uniform rankings. For each candidate the statistic is
    taken to be normal around its mean at r, and the noise is added in closed form. This only chooses; levels and p-values
    never rest on it.

    >>> choose_central(1000, 100, 1 / 3)
    ClippedNorm(rankings=1000, items=100)
    >>> type(choose_central(100, 1000, 1 / 3)).__name__, type(choose_central(10_000, 10, 1 / 3)).__name__
    ('ClippedBatches', 'RankNorm')
    """
    plain = RankNorm(rankings, items)
    candidates: list[Central] = [plain]
    if held and items >= 3:
        clipped = ClippedNorm(rankings, items)
        if (
            clipped.sensitivity < plain.sensitivity
            and rankings * items <= _MOST_HELD
            and rankings * items**2 <= _MOST_WORK
        ):
            candidates.append(clipped)
        candidates += _batch_candidates(rankings, items)
    return min(candidates, key=lambda test: signal_needed(test, epsilon))


def choose_batches(rankings: int, items: int, epsilon: float) -> ClippedBatches:
    """The best batch size and clip for the clipped-batches test."""
    return min(_batch_candidates(rankings, items), key=lambda test: signal_needed(test, epsilon))


def _batch_candidates(rankings: int, items: int) -> list[ClippedBatches]:
    return [
        ClippedBatches(rankings, items, size, clip)
        for size in SIZES
        if rankings // size >= 1 and (size == 2 or rankings // size <= _MOST_BATCHES)
        for clip in CLIPS
    ]


def signal_needed(test: Central, epsilon: float, level: float = _LEVEL, power: float = _POWER) -> float:
    """The signal r at which the test has the wanted power; infinite if it never has."""
    scale = float(test.sensitivity) / epsilon
    model = _model(test)
    mean, deviation = model(0.0)
    critical = _quantile(level, mean, deviation, scale)
    low, high = 1e-12, 1.0

    def reached(r: float) -> bool:
        at, spread = model(r)
        return normal_laplace_tail(critical - at, spread, scale) >= power

    if not reached(high):
        at, spread = model(high)
        return 2 + (1 - normal_laplace_tail(critical - at, spread, scale))  # the least hopeless comes first
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def _model(test: Central) -> Callable[[float], tuple[float, float]]:
    """Mean and standard deviation of the statistic at signal r."""
    k, m = test.rankings, test.items
    if isinstance(test, ClippedBatches):
        g, b, c = test.batches, test.size, test.clip

        def batches(r: float) -> tuple[float, float]:
            unit = math.sqrt(2 * b * (b - 1) / (m - 1))
            mean, variance = _clipped_moments(
                b * (b - 1) * r / unit, math.sqrt(1 + 4 * b**3 * r / (m - 1) / unit**2), c
            )
            return g * mean, math.sqrt(g * variance)

        return batches

    dimensions, share = (test.pairs, 1.0) if isinstance(test, PairsNorm) else (m - 1, 1.0)
    unit = math.sqrt(test.pairs) if isinstance(test, PairsNorm) else 1.0
    if isinstance(test, PairsNorm):
        share = 2 / 3  # a pair's squared bias against r, for a weak signal

    def norm(r: float) -> tuple[float, float]:
        length = math.sqrt(k + k * (k - 1) * share * r)
        return unit * length, unit * math.sqrt(k / 2 / dimensions * (1 + 2 * k * share * r) / (1 + k * share * r))

    return norm


def _clipped_moments(mean: float, deviation: float, clip: float) -> tuple[float, float]:
    """Mean and variance of a normal variable clipped to [-clip, clip]."""
    low, high = (-clip - mean) / deviation, (clip - mean) / deviation
    below, above = float(ndtr(low)), float(ndtr(-high))
    inside = 1 - below - above
    d_low, d_high = (math.exp(-z * z / 2) / math.sqrt(2 * math.pi) for z in (low, high))
    first = mean * inside + deviation * (d_low - d_high)
    second = (mean**2 + deviation**2) * inside + deviation * (d_low * (mean - clip) - d_high * (mean + clip))
    total = first + clip * (above - below)
    return total, max(second + clip**2 * (below + above) - total**2, 1e-12)


def _quantile(level: float, mean: float, deviation: float, scale: float) -> float:
    low, high = mean, mean + 10 * deviation + 40 * scale
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if normal_laplace_tail(middle - mean, deviation, scale) > level else (low, middle)
    return float(np.float64(high))
