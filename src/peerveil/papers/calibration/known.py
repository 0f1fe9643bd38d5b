"""Algorithm 2's average over scores without noise, for increasing functions of any shape.

For a given second score, what makes the integrand not smooth in the first are single points: where a favorite changes,
where both scores are equal, and where the two assignments are equally likely. So the inner integral is a sum of Gauss
rules between these points, and the outer one is adaptive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from peerveil.calibration.beliefs import integrate
from peerveil.calibration.functions import log_prior
from peerveil.core.arrays import Floats

_X, _W = np.polynomial.legendre.leggauss(10)
_FAR = 8.5  # standard deviations of quality
_MOST_CROSSINGS = 12


def known_moments(first: Any, second: Any, tolerance: float = 1e-9) -> tuple[float, float]:
    """Without noise: the torn pairs' share of min(u, v), and all pairs'."""

    def log_density(function: Any, score: Any) -> Any:
        quality = function.quality(score)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = log_prior(quality) - np.log(function.slope(quality))
        return np.where(np.isfinite(quality), np.nan_to_num(value, nan=-np.inf), -np.inf)

    def quality_of(function: Any, score: Any) -> Any:
        return np.clip(np.nan_to_num(function.quality(score), nan=_FAR, posinf=_FAR, neginf=-_FAR), -_FAR, _FAR)

    def odds(x: Any) -> Any:
        """Log f_1/f_2 at the score that reviewer 1 gives to quality x."""
        s = first.score(x)
        with np.errstate(invalid="ignore"):
            return np.nan_to_num(log_density(first, s) - log_density(second, s), nan=0.0, posinf=700.0, neginf=-700.0)

    knots = [*first.knots, *np.atleast_1d(quality_of(first, second.score(np.array(second.knots)))).tolist()]
    fixed = np.unique(np.clip([*np.linspace(-_FAR, _FAR, 35), *knots], -_FAR, _FAR))
    fine = np.unique(np.concatenate([fixed, np.linspace(-_FAR, _FAR, 481)]))
    at_fine = odds(fine)

    def inner(y: Floats) -> Floats:
        s2 = second.score(y)
        same = quality_of(first, s2)  # there s_1 = s_2
        turn = quality_of(first, second.score(same))  # the favorite changes under assignment 2; under 1 at x = y
        level = odds(same)
        roots = _crossings(fine, at_fine, level, lambda x: odds(x) - level[:, None])
        low, high = np.minimum(y, turn), np.maximum(y, turn)
        grid = _grid(fixed, [same, low, high, *roots.T], len(y))
        half = np.diff(grid, axis=0) / 2
        x = (grid[:-1] + half)[..., None] + half[..., None] * _X
        s1 = first.score(x)
        own = log_density(first, s1) + log_density(second, s2)[:, None]
        value = np.minimum(own, log_density(second, s1) + log_density(first, s2)[:, None])
        with np.errstate(over="ignore"):
            value = 0.5 * (np.exp(value + np.log(first.slope(x))) * _W).sum(axis=2) * half
        middle = grid[:-1] + half
        torn = np.where((middle > low) & (middle < high), value, 0.0)
        return np.asarray(np.array([torn.sum(axis=0), value.sum(axis=0)]) * second.slope(y), dtype=np.float64)

    mapped = quality_of(second, first.score(np.array(first.knots)))
    edges = np.unique(np.clip([*np.linspace(-_FAR, _FAR, 13), *second.knots, *np.atleast_1d(mapped)], -_FAR, _FAR))
    _, found = integrate(inner, edges, tolerance=tolerance)
    return float(found[0]), float(found[1])


def _crossings(grid: Floats, values: Floats, level: Floats, miss: Callable[[Floats], Floats]) -> Floats:
    """Where a function, given on a grid, passes each row's level: (rows, at most 12), padded with the grid's start."""
    over = (values[None, :] - level[:, None]) > 1e-12
    change = over[:, 1:] != over[:, :-1]
    most = min(int(change.sum(axis=1).max(initial=0)), _MOST_CROSSINGS)
    if most == 0:
        return np.empty((len(level), 0))
    place = np.argsort(~change, axis=1, kind="stable")[:, :most]
    real = np.take_along_axis(change, place, axis=1)
    low, high = grid[place].astype(np.float64), grid[place + 1].astype(np.float64)
    rising = np.take_along_axis(over, place + 1, axis=1)
    for _ in range(52):
        middle = (low + high) / 2
        past = (miss(middle) > 0) == rising
        low, high = np.where(past, low, middle), np.where(past, middle, high)
    return np.asarray(np.where(real, (low + high) / 2, grid[0]), dtype=np.float64)


def _grid(fixed: Floats, marks: list[Floats], count: int) -> Floats:
    """Fixed edges and each column's own marks, sorted: (edges, columns)."""
    own = np.clip(np.array(marks), fixed[0], fixed[-1])
    return np.sort(np.concatenate([np.repeat(fixed[:, None], count, axis=1), own]), axis=0)
