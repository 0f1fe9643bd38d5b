"""What scores say about a paper's quality, once it is known who gave them.

With quality theta ~ N(0, 1) and scores s_k = beta_k(theta) + noise of standard deviation sigma, one paper and its
reviewers give a *belief*: the posterior of theta, and the log evidence (how likely such scores were).

- no noise, one review: a :class:`KnownQuality`, theta = beta^-1(s), of evidence phi(theta) / beta'(theta);
- affine functions: a :class:`NormalBelief`. With one review the mean is a(s - b)/(a^2 + sigma^2), the variance
  sigma^2/(a^2 + sigma^2), and the score has density N(b, a^2 + sigma^2) -- the noise is part of it, which the paper's
  section 3 forgets;
- anything else: a :class:`NumericBelief`, by adaptive Gauss-Legendre quadrature.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.polynomial import legendre

from peerveil.calibration.functions import Affine, Monotone, log_prior
from peerveil.core.arrays import Floats
from peerveil.core.errors import BadInput, PeerveilError
from peerveil.core.lazy import ndtr

_ORDER: Final = 16
_NODES, _WEIGHTS = legendre.leggauss(_ORDER)
# row i integrates a polynomial, given at the Gauss nodes, from -1 to node i; exact up to the order
_CUMULATIVE: Final[Floats] = legendre.legval(_NODES, legendre.legint(np.eye(_ORDER), lbnd=-1)).T @ np.linalg.inv(
    legendre.legvander(_NODES, _ORDER - 1)
)
_FAR: Final = 38.0  # the standard normal density underflows beyond
_LOG_TWO_PI: Final = math.log(2 * math.pi)
_MOST_PANELS: Final = 20_000
_MOST_UNIFORM_NODES: Final = 1500


def integrate(
    function: Callable[[Floats], Floats], edges: Sequence[float] | Floats, *, tolerance: float = 1e-12
) -> tuple[Floats, Floats]:
    """The final panels, and the integral of each row of a function (from an array of points to rows x points).

    Panels begin and end at ``edges`` at first: put kinks and peaks there. A panel is halved until its two halves change no
    row's integral by more than ``tolerance``, a share of the largest row's total absolute integral.
    """
    first = np.unique(np.asarray(edges, dtype=np.float64))
    low, high = first[:-1], first[1:]
    whole = _panel_sums(function, low, high)
    integrals = np.zeros(len(whole))
    final_edges: list[Floats] = []
    total, panels = 1e-300, 0
    while low.size:
        panels += low.size
        if panels > _MOST_PANELS:
            raise PeerveilError("quadrature did not converge: a function jumps, or is far from smooth")
        middle = (low + high) / 2
        left, right = _panel_sums(function, low, middle), _panel_sums(function, middle, high)
        total = max(total, float(np.abs(whole).sum(axis=1).max()))
        bad = (np.abs(left + right - whole) > tolerance * total).any(axis=0) & (high - low > 1e-13)
        good = ~bad
        integrals = integrals + (left + right)[:, good].sum(axis=1)
        final_edges += [low[good], middle[good], high[good]]
        low, high, whole = (
            np.concatenate([low[bad], middle[bad]]),
            np.concatenate([middle[bad], high[bad]]),
            np.concatenate([left[:, bad], right[:, bad]], axis=1),
        )
    return np.unique(np.concatenate(final_edges)), integrals


def _panel_sums(function: Callable[[Floats], Floats], low: Floats, high: Floats) -> Floats:
    x = (low + high)[:, None] / 2 + (high - low)[:, None] / 2 * _NODES
    values = np.atleast_2d(function(x.ravel())).reshape(-1, low.size, _ORDER)
    return np.asarray((values * _WEIGHTS).sum(axis=2) * (high - low) / 2, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class KnownQuality:
    """A quality that is known exactly; NaN where nobody gives such a score."""

    mean: float
    log_evidence: float

    def sides(self, line: float) -> tuple[float, float]:
        """P[quality below the line], P[above]; both 0 on the line."""
        return float(self.mean < line), float(self.mean > line)

    def sample(self, count: int, rng: np.random.Generator) -> Floats:  # noqa: ARG002
        """Draws of the quality."""
        return np.full(count, self.mean)


@dataclass(frozen=True, slots=True)
class NormalBelief:
    """A normal posterior."""

    mean: float
    deviation: float
    log_evidence: float

    def sides(self, line: float) -> tuple[float, float]:
        """P[quality below the line], P[above]."""
        z = (line - self.mean) / self.deviation
        return float(ndtr(z)), float(ndtr(-z))

    def sample(self, count: int, rng: np.random.Generator) -> Floats:
        """Draws of the quality."""
        return np.asarray(self.mean + self.deviation * rng.standard_normal(count), dtype=np.float64)

    @property
    def edges(self) -> Floats:
        """Panels that resolve the density."""
        return np.asarray(self.mean + self.deviation * np.linspace(-9, 9, 19), dtype=np.float64)

    def law(self, x: Floats, half_widths: Floats) -> tuple[Floats, Floats]:  # noqa: ARG002
        """Density and distribution function at the nodes of panels."""
        return _normal_law(x, self.mean, self.deviation)


@dataclass(frozen=True, slots=True)
class NumericBelief:
    """A posterior known by its log density (up to ``log_evidence``) and the panels that resolve it."""

    log_density: Callable[[Floats], Floats] = field(repr=False)
    edges: Floats = field(repr=False)
    log_evidence: float

    @property
    def mean(self) -> float:
        """The expected quality; NaN where such scores cannot be."""
        if not math.isfinite(self.log_evidence):
            return math.nan
        _, mass = integrate(lambda x: np.exp(self.log_density(x)) * np.array([np.ones_like(x), x]), self.edges)
        return float(mass[1] / mass[0])

    def sides(self, line: float) -> tuple[float, float]:
        """P[quality below the line], P[above]; both 0 where such scores cannot be."""
        if not math.isfinite(self.log_evidence):
            return 0.0, 0.0
        low, high = float(self.edges[0]), float(self.edges[-1])
        if not low < line < high:
            return float(line >= high), float(line <= low)
        below, above = (
            float(integrate(lambda x: np.exp(self.log_density(x))[None, :], np.append(side, line))[1][0])
            for side in (self.edges[self.edges < line], self.edges[self.edges > line])
        )
        return below / (below + above), above / (below + above)

    def sample(self, count: int, rng: np.random.Generator) -> Floats:
        """Draws of the quality, by inversion on a fine grid."""
        grid = np.unique(np.linspace(self.edges[:-1], self.edges[1:], 40))
        density = np.exp(self.log_density(grid))
        mass = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(grid))])
        return np.asarray(np.interp(rng.random(count) * mass[-1], mass, grid), dtype=np.float64)

    def law(self, x: Floats, half_widths: Floats) -> tuple[Floats, Floats]:
        """Density and distribution function at the nodes of panels."""
        density: Floats = np.exp(self.log_density(x.ravel())).reshape(x.shape)
        mass = (density * _WEIGHTS).sum(axis=1) * half_widths[:, 0]
        before = np.concatenate([[0.0], np.cumsum(mass)[:-1]])
        return density, before[:, None] + (density @ _CUMULATIVE.T) * half_widths


Belief = KnownQuality | NormalBelief | NumericBelief


def belief(scores: Sequence[float], functions: Sequence[Affine | Monotone], noise: float) -> Belief:
    """The belief about one paper's quality from its scores and who gave them (aligned)."""
    if noise == 0:
        if len(scores) != 1:
            want = "a standard deviation above 0: without noise several reviews of a paper agree exactly"
            raise BadInput("noise", got=0.0, want=want)
        return _known(scores[0], functions[0])
    if all(isinstance(function, Affine) for function in functions):
        return _normal(scores, functions, noise)
    return _numeric(scores, functions, noise)


def _known(score: float, function: Affine | Monotone) -> KnownQuality:
    quality = float(function.quality(score))
    slope = float(function.slope(quality)) if math.isfinite(quality) else math.nan
    if not 0 < slope < math.inf:
        return KnownQuality(math.nan, -math.inf)
    return KnownQuality(quality, float(log_prior(quality)) - math.log(slope))


def _normal(scores: Sequence[float], functions: Sequence[Any], noise: float) -> NormalBelief:
    """Sequentially, a score at a time: each step is the one-review formula, stable for any noise.

    Given theta ~ N(m, t^2), the score is N(a m + b, a^2 t^2 + sigma^2), and theta becomes
    N(m + a t^2 (s - a m - b)/(a^2 t^2 + sigma^2), t^2 sigma^2/(a^2 t^2 + sigma^2)).
    """
    mean, deviation, log_evidence = 0.0, 1.0, 0.0
    for score, function in zip(scores, functions, strict=True):
        total = math.hypot(function.scale * deviation, noise)
        residual = (score - function.bias - function.scale * mean) / total
        log_evidence += -0.5 * residual * residual - math.log(total) - 0.5 * _LOG_TWO_PI
        mean += function.scale * deviation * deviation / total * residual
        deviation *= noise / total
    return NormalBelief(mean, deviation, log_evidence)


def _numeric(scores: Sequence[float], functions: Sequence[Affine | Monotone], noise: float) -> NumericBelief:
    def log_density(theta: Floats) -> Floats:
        value = log_prior(theta)
        with np.errstate(over="ignore", invalid="ignore"):
            for score, function in zip(scores, functions, strict=True):
                value = value - 0.5 * np.square((score - function.score(theta)) / noise)
        return np.asarray(np.where(np.isnan(value), -np.inf, value), dtype=np.float64)

    # every mode is between 0, where the prior peaks, and the qualities where the likelihoods peak
    peaks = [0.0]
    for score, function in zip(scores, functions, strict=True):
        exact = float(function.quality(score))
        if not math.isfinite(exact):
            exact = math.copysign(_FAR, score - float(function.score(0.0)))
        peaks.append(min(max(exact, -_FAR), _FAR))
    low, high = min(peaks), max(peaks)
    mode = _highest(log_density, low, high, peaks)
    top = float(log_density(np.array([mode]))[0])
    if not math.isfinite(top):
        return NumericBelief(log_density, np.array([low - 1.0, high + 1.0]), -math.inf)
    edges = {mode, *peaks}
    for sign in (-1.0, 1.0):
        for exponent in range(-40, 6):
            point = min(max(mode + sign * 2.0**exponent, -_FAR), _FAR)
            edges.add(point)
            if not low <= point <= high and float(log_density(np.array([point]))[0]) < top - 80:
                break
    edges |= {knot for function in functions for knot in function.knots if min(edges) < knot < max(edges)}
    panels, mass = integrate(lambda x: np.exp(log_density(x) - top)[None, :], sorted(edges))
    constant = len(scores) * (-math.log(noise) - 0.5 * _LOG_TWO_PI)
    log_evidence = top + math.log(float(mass[0]))
    return NumericBelief(lambda x: log_density(x) - log_evidence, panels, log_evidence + constant)


def _highest(log_density: Callable[[Floats], Floats], low: float, high: float, starts: list[float]) -> float:
    """The place of the highest density between two bounds, by zooming in."""
    grid = np.unique(np.concatenate([np.linspace(low, high, 801), starts]))
    for _ in range(12):
        best = int(np.argmax(log_density(grid)))
        left, right = grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)]
        if right <= left:
            break
        grid = np.unique(np.append(np.linspace(left, right, 41), grid[best]))
    return float(grid[int(np.argmax(log_density(grid)))])


def below(first: Belief, second: Belief) -> tuple[float, float]:
    """P[first quality < second quality] and P[first > second]; both 0 where two known qualities are equal.

    A tie of known qualities is no error, whichever paper is accepted (the proof of Theorem 4.2); with noise ties have
    probability 0 and the two numbers add up to 1. Both are 0 where such scores cannot be.
    """
    if not math.isfinite(first.log_evidence + second.log_evidence):
        return 0.0, 0.0
    if isinstance(first, KnownQuality):
        return first.sides(second.mean)
    if isinstance(first, NormalBelief) and isinstance(second, NormalBelief):
        z = (second.mean - first.mean) / math.hypot(first.deviation, second.deviation)
        return float(ndtr(z)), float(ndtr(-z))
    weights, density, cumulative = on_grid([first, second])
    under = float((weights * density[0] * (1.0 - cumulative[1])).sum())
    over = float((weights * density[0] * cumulative[1]).sum())
    return under / (under + over), over / (under + over)


def on_grid(beliefs: Sequence[Any]) -> tuple[Floats, Floats, Floats]:
    """Common quadrature weights, with the density and distribution function of every belief (with noise) at the nodes."""
    if all(isinstance(one, NormalBelief) for one in beliefs):
        mean, deviation = np.array([[one.mean, one.deviation] for one in beliefs]).T[:, :, None]
        low, high = float((mean - 9 * deviation).min()), float((mean + 9 * deviation).max())
        # the trapezoidal rule converges faster than any power for such products; their narrowest feature is about
        # the least deviation over the root of how many are multiplied
        step = 0.55 * float(deviation.min()) / math.sqrt(min(len(beliefs), 9))
        count = math.ceil((high - low) / step) + 1
        if count <= _MOST_UNIFORM_NODES:
            x = np.linspace(low, high, count)
            return np.full(count, x[1] - x[0]), *_normal_law(x, mean, deviation)
        edges = np.unique(mean + deviation * np.linspace(-9, 9, 10))
    else:
        edges = np.unique(np.concatenate([one.edges for one in beliefs]))
    half_widths = np.diff(edges)[:, None] / 2
    x = (edges[:-1] + edges[1:])[:, None] / 2 + half_widths * _NODES
    density, cumulative = (
        np.array(part).reshape(len(beliefs), -1)
        for part in zip(*(one.law(x, half_widths) for one in beliefs), strict=True)
    )
    return (half_widths * _WEIGHTS).ravel(), density, cumulative.clip(0.0, 1.0)


def _normal_law(x: Floats, mean: Any, deviation: Any) -> tuple[Floats, Floats]:
    z = (x - mean) / deviation
    return np.exp(-0.5 * z * z) / (deviation * math.sqrt(2 * math.pi)), ndtr(z)
