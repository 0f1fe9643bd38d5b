"""Averages over scores for functions of any shape: the same integrals as for affine ones, to the same accuracy.

Write W_1(s_1, s_2) for the probability that paper 1 is worse under assignment 1, W_2 under assignment 2. What makes the
integrand of an average not smooth in s_1, for a given s_2, are single points: W_i = 1/2 (a favourite changes),
W_i = (1 -+ lambda)/2 (a price reaches lambda), s_1 = s_2 (there W_2 = 1 - W_1, the cheaper assignment changes, and
u = v), and further roots of u = v. A posterior of a higher score is larger in the sense of likelihood ratios (scores
are an increasing function plus Gaussian noise), so that W_i falls in s_1, and each of the first is a single root. So
the inner integral is a sum of Gauss rules between these points, and the outer one is adaptive.

With noise, W_i and the densities of scores are analytic on the scale of the noise: they are computed at Chebyshev nodes
of panels two noises wide (the qualities integrated out by Gauss rules on panels that end at the functions' knots) and
interpolated in between.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from peerveil.calibration.beliefs import cumulative_on_panels, gauss_on_panels, integrate
from peerveil.calibration.functions import log_prior
from peerveil.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_X, _W = np.polynomial.legendre.leggauss(10)
_FAR = 8.5  # standard deviations of quality
_ORDER = 14
_CHEBYSHEV = np.cos(np.pi * np.arange(_ORDER) / (_ORDER - 1))[::-1]
_TO_COEFFICIENTS = np.linalg.inv(np.polynomial.chebyshev.chebvander(_CHEBYSHEV, _ORDER - 1))
_MOST_PANELS = 200
_MOST_NODES = 6000
_MOST_CROSSINGS = 12
_BLOCK = 256


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
        turn = quality_of(first, second.score(same))  # the favourite changes under assignment 2; under 1 at x = y
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


class NoisyMoments:
    """With noise: everything that does not depend on prices, computed once."""

    def __init__(self, first: Any, second: Any, noise: float) -> None:
        self.functions, self.noise = (first, second), noise
        ends = np.array([f.score(q) for f in self.functions for q in (-_FAR, _FAR)], dtype=np.float64)
        low, high = float(ends.min()) - 8 * noise, float(ends.max()) + 8 * noise
        count = math.ceil((high - low) / (2 * noise))
        probe = np.linspace(-_FAR, _FAR, 341)
        steepest = max(float(np.max(f.slope(probe))) for f in self.functions)
        step = min(0.7, 2.0 * noise / steepest)
        nodes = 16 * math.ceil(2 * _FAR / step)
        if count > _MOST_PANELS or nodes > _MOST_NODES:
            least = max(noise * count / _MOST_PANELS, noise * nodes / _MOST_NODES)
            raise BadInput(
                "noise", got=noise, want=f"0, or at least {least:.2g} for averages over functions as steep as these"
            )
        knots = [k for f in self.functions for k in f.knots if abs(k) < _FAR]
        self._theta_edges = np.unique([*np.linspace(-_FAR, _FAR, nodes // 16 + 1), *knots])
        self._theta, self._weights = gauss_on_panels(self._theta_edges)
        self._shapes = [np.asarray(f.score(self._theta), dtype=np.float64) for f in self.functions]
        self.edges = np.linspace(low, high, max(count, 8) + 1)
        half = np.diff(self.edges)[:, None] / 2
        scores = (self.edges[:-1, None] + half * (1 + _CHEBYSHEV)).ravel()
        (self._one, log1), (self._two, log2) = (self._posterior(j, scores) for j in (0, 1))
        self._log = [self._fitted(part[:, None])[:, :, 0] for part in (log1, log2)]
        self._scores, self._log_ratio = scores, log1 - log2

    def _posterior(self, reviewer: int, scores: Floats) -> tuple[Floats, Floats]:
        """Posterior densities of quality at the nodes, and log densities of scores."""
        log_joint = log_prior(self._theta) - 0.5 * np.square((scores[:, None] - self._shapes[reviewer]) / self.noise)
        top = log_joint.max(axis=1, keepdims=True)
        density = np.exp(log_joint - top)
        mass = density @ self._weights
        evidence = top[:, 0] + np.log(mass) - math.log(self.noise * math.sqrt(2 * math.pi))
        return density / mass[:, None], evidence

    def _fitted(self, values: Floats) -> Floats:
        """Chebyshev coefficients: panel, degree, column."""
        panels = values.reshape(len(self.edges) - 1, _ORDER, -1)
        return np.asarray(np.einsum("dk,pkb->pdb", _TO_COEFFICIENTS, panels), dtype=np.float64)

    def _at(self, coefficients: Floats, s: Floats, columns: bool) -> Floats:
        """The interpolant at s, whose last axis but none is the column of ``coefficients`` (if it has columns)."""
        panel = np.clip(np.searchsorted(self.edges, s, side="right") - 1, 0, len(self.edges) - 2)
        low, high = self.edges[panel], self.edges[panel + 1]
        t = 2 * (s - low) / (high - low) - 1
        column = np.arange(s.shape[1])[None, :, None] if columns and s.ndim == 3 else np.arange(s.shape[0])[:, None]
        taken = coefficients[panel, :, column] if columns else coefficients[panel]
        before, last = np.zeros_like(t), np.zeros_like(t)
        for degree in range(_ORDER - 1, 0, -1):  # Clenshaw
            before, last = last, taken[..., degree] + 2 * t * last - before
        return np.asarray(taken[..., 0] + t * last - before, dtype=np.float64)

    def moments(self, prices: Floats, tolerance: float) -> tuple[Floats, Floats, float, float]:
        """Adversary error bought up to each price, its cost, the least conference error, the adversary's ceiling."""
        limits = np.minimum(prices, 1.0)
        levels = np.unique([0.5, *((1 - limits) / 2), *((1 + limits) / 2)])
        levels = levels[(levels > 1e-12) & (levels < 1 - 1e-12)]

        def inner(every: Floats) -> Floats:
            blocks = np.array_split(every, -(-every.size // _BLOCK))  # what is gathered at once stays small
            return np.concatenate([of_block(s2) for s2 in blocks], axis=1)

        def of_block(s2: Floats) -> Floats:
            (one, log1), (two, log2) = (self._posterior(j, s2) for j in (0, 1))
            above = [1.0 - cumulative_on_panels(part, self._theta_edges) for part in (two, one)]
            worse = [
                self._fitted((mine * self._weights) @ other.T)
                for mine, other in zip((self._one, self._two), above, strict=True)
            ]
            level = log1 - log2
            roots = _crossings(
                self._scores,
                self._log_ratio,
                level,
                lambda s: self._at(self._log[0] - self._log[1], s, False) - level[:, None],
            )
            falls = np.array([[self._fall(part, share) for share in levels] for part in worse])
            half_at = int(np.searchsorted(levels, 0.5))
            first, second = falls[0, half_at], falls[1, half_at]
            low, high = np.minimum(first, second), np.maximum(first, second)
            marks = [s2, *falls.reshape(-1, len(s2)), *roots.T]
            grid = _grid(self.edges, marks, len(s2))
            half = np.diff(grid, axis=0) / 2
            x = (grid[:-1] + half)[..., None] + half[..., None] * _X
            w1, w2 = (np.clip(self._at(part, x, True), 0.0, 1.0) for part in worse)
            f1, f2 = (np.exp(self._at(part, x, False)) for part in self._log)
            weight = _W * half[..., None]
            own = f1 * np.exp(log2)[:, None] * weight
            smaller = 0.5 * np.minimum(own, f2 * np.exp(log1)[:, None] * weight)
            price = np.minimum(np.abs(1 - 2 * w1), np.abs(1 - 2 * w2))
            middle = (grid[:-1] + half)[..., None]
            torn = np.where((middle > low[:, None]) & (middle < high[:, None]), smaller, 0.0)
            center = price[:, :, _X.size // 2][..., None]  # on one side of every limit between two marks
            rows = [np.where(center <= limit, torn, 0.0).sum(axis=(0, 2)) for limit in prices]
            rows += [np.where(center <= limit, torn * price, 0.0).sum(axis=(0, 2)) for limit in prices]
            rows += [(own * np.minimum(w1, 1 - w1)).sum(axis=(0, 2)), smaller.sum(axis=(0, 2))]
            return np.array(rows)

        _, found = integrate(
            inner, [*self.edges[:: max(1, len(self.edges) // 24)].tolist(), self.edges[-1]], tolerance=tolerance
        )
        count = len(prices)
        return found[:count], found[count : 2 * count], float(found[-2]), float(found[-1])

    def _fall(self, coefficients: Floats, share: float) -> Floats:
        """For every column, where its falling function passes ``share``; an end of the range if it does not."""
        at_edges = np.concatenate(
            [
                np.einsum(
                    "d,pdb->pb", np.polynomial.chebyshev.chebvander(np.array([-1.0]), _ORDER - 1)[0], coefficients
                ),
                np.einsum("d,db->b", np.ones(_ORDER), coefficients[-1])[None],
            ]
        )
        panel = np.clip((at_edges > share).sum(axis=0) - 1, 0, len(self.edges) - 2)
        low, high = self.edges[panel], self.edges[panel + 1]
        for _ in range(52):
            middle = (low + high) / 2
            over = self._at(coefficients, middle[:, None], True)[:, 0] > share
            low, high = np.where(over, middle, low), np.where(over, high, middle)
        return np.asarray((low + high) / 2, dtype=np.float64)


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
