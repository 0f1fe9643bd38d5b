"""What scores say about a paper's quality, once it is known who gave them.

With quality theta ~ N(0, 1) and scores s_k = beta_k(theta) + noise of standard deviation sigma, one paper and its
reviewers give a *belief*: the posterior of theta, and the log evidence (how likely such scores were).

- no noise, one review: a :class:`Point`, theta = beta^-1(s), of evidence phi(theta) / beta'(theta);
- affine functions: a :class:`Normal`. With one review the mean is a(s - b)/(a^2 + sigma^2), the variance
  sigma^2/(a^2 + sigma^2), and the score has density N(b, a^2 + sigma^2) -- the noise is part of it, which the paper's
  section 3 forgets;
- anything else: a :class:`Curve`, by adaptive Gauss-Legendre quadrature.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.special import ndtr

from peerveil.calibration.functions import Affine, log_prior
from peerveil.core.errors import BadInput, PeerveilError, Verbatim

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from peerveil.calibration.functions import Monotone

    Floats = NDArray[np.float64]

_ORDER: Final = 16
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(_ORDER)
_FAR: Final = 38.0  # the standard normal density underflows beyond
_LOG_TWO_PI: Final = math.log(2 * math.pi)
_MOST_PANELS: Final = 20_000
_UNIFORM_MOST: Final = 1500


def _cumulative_matrix() -> Floats:
    """Row i integrates a polynomial, given at the Gauss nodes, from -1 to node i; exact up to the order."""
    vander = np.polynomial.legendre.legvander(_NODES, _ORDER - 1)
    to_coefficients = np.linalg.inv(vander)
    integrated = np.zeros((_ORDER, _ORDER))
    for degree in range(_ORDER):
        unit = np.zeros(_ORDER)
        unit[degree] = 1.0
        integrated[:, degree] = np.polynomial.legendre.legval(_NODES, np.polynomial.legendre.legint(unit, lbnd=-1))
    return np.asarray(integrated @ to_coefficients, dtype=np.float64)


_CUMULATIVE: Final = _cumulative_matrix()


def integrate(
    function: Callable[[Floats], Floats], edges: Sequence[float] | Floats, *, tolerance: float = 1e-12
) -> tuple[Floats, Floats]:
    """Adaptive panels for all rows of a function at once.

    Parameters
    ----------
    function
        From points (an array) to values (rows x points).
    edges
        Where panels begin and end at first: put kinks and peaks here.
    tolerance
        A panel is halved until its two halves change no row's integral by more than this share of the largest row's
        total absolute integral.

    Returns
    -------
    edges, integrals : the final panels, and the integral of each row
    """
    todo = np.unique(np.asarray(edges, dtype=np.float64))
    low, high = todo[:-1], todo[1:]
    done_edges: list[Floats] = []
    total = 1e-300
    kept: Floats = np.zeros(0)
    panels = 0
    whole, _ = _panel_sums(function, low, high)
    while low.size:
        panels += low.size
        if panels > _MOST_PANELS:
            raise PeerveilError("quadrature did not converge: a function jumps, or is far from smooth")
        middle = (low + high) / 2
        left, _ = _panel_sums(function, low, middle)
        right, _ = _panel_sums(function, middle, high)
        total = max(total, float(np.abs(whole).sum(axis=1).max()))
        change = np.abs(left + right - whole)
        bad = (change > tolerance * total).any(axis=0) & (high - low > 1e-13)
        good = ~bad
        kept = (kept if kept.size else np.zeros(whole.shape[0])) + (left + right)[:, good].sum(axis=1)
        done_edges += [low[good], middle[good], high[good]]
        low, high, whole = (
            np.concatenate([low[bad], middle[bad]]),
            np.concatenate([middle[bad], high[bad]]),
            np.concatenate([left[:, bad], right[:, bad]], axis=1),
        )
    return np.unique(np.concatenate(done_edges)), kept


def _panel_sums(function: Callable[[Floats], Floats], low: Floats, high: Floats) -> tuple[Floats, Floats]:
    x = (low + high)[:, None] / 2 + (high - low)[:, None] / 2 * _NODES
    values = np.atleast_2d(function(x.ravel())).reshape(-1, low.size, _ORDER)
    return (values * _WEIGHTS).sum(axis=2) * (high - low) / 2, values


@dataclass(frozen=True, slots=True)
class Point:
    """A quality that is known exactly."""

    value: float
    log_evidence: float


@dataclass(frozen=True, slots=True)
class Normal:
    """A normal posterior."""

    mean: float
    deviation: float
    log_evidence: float


@dataclass(frozen=True, slots=True)
class Curve:
    """A posterior known by its log density (up to ``log_evidence``) and the panels that resolve it."""

    log_density: Callable[[Floats], Floats] = field(repr=False)
    edges: Floats = field(repr=False)
    log_evidence: float


Belief = Point | Normal | Curve


def belief(scores: Sequence[float], functions: Sequence[Affine | Monotone], noise: float) -> Belief:
    """The belief about one paper's quality from its scores and who gave them (aligned)."""
    if noise == 0:
        if len(scores) != 1:
            raise BadInput(
                "noise",
                got=0.0,
                want="a standard deviation above 0: without noise several reviews of a paper agree exactly",
            )
        return _point(scores[0], functions[0])
    if all(isinstance(function, Affine) for function in functions):
        return _normal(scores, functions, noise)
    return _curve(scores, functions, noise)


def _point(score: float, function: Affine | Monotone) -> Point:
    quality = float(function.quality(score))
    if not math.isfinite(quality):
        return Point(math.nan, -math.inf)  # nobody of this kind gives such a score
    slope = float(function.slope(quality))
    if not slope > 0 or not math.isfinite(slope):
        return Point(math.nan, -math.inf)
    return Point(quality, float(log_prior(quality)) - math.log(slope))


def _normal(scores: Sequence[float], functions: Sequence[Any], noise: float) -> Normal:
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
    return Normal(mean, deviation, log_evidence)


def _curve(scores: Sequence[float], functions: Sequence[Affine | Monotone], noise: float) -> Curve:
    def log_density(theta: Floats) -> Floats:
        value = log_prior(theta)
        with np.errstate(over="ignore", invalid="ignore"):
            for score, function in zip(scores, functions, strict=True):
                value = value - 0.5 * np.square((score - function.score(theta)) / noise)
        return np.asarray(np.where(np.isnan(value), -np.inf, value), dtype=np.float64)

    # every mode lies between 0, where the prior peaks, and the qualities where the likelihoods peak
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
        return Curve(log_density, np.array([low - 1.0, high + 1.0]), -math.inf)
    reach = [2.0**k for k in range(-40, 6)]
    edges = {mode, *peaks}
    for sign in (-1.0, 1.0):
        for step in reach:
            point = min(max(mode + sign * step, -_FAR), _FAR)
            edges.add(point)
            if (point < low or point > high) and float(log_density(np.array([point]))[0]) < top - 80:
                break
    inside = [edge for edge in edges if min(edges) <= edge <= max(edges)]
    knots = [knot for function in functions for knot in function.knots if min(inside) < knot < max(inside)]
    panels, mass = integrate(lambda x: np.exp(log_density(x) - top)[None, :], sorted({*inside, *knots}))
    constant = len(scores) * (-math.log(noise) - 0.5 * _LOG_TWO_PI)
    log_evidence = top + math.log(float(mass[0]))
    return Curve(lambda x: log_density(x) - log_evidence, panels, log_evidence + constant)


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


def mean_of(one: Belief) -> float:
    """The expected quality; NaN where such scores cannot be."""
    if isinstance(one, Point):
        return one.value
    if isinstance(one, Normal):
        return one.mean
    if not math.isfinite(one.log_evidence):
        return math.nan
    _, mass = integrate(lambda x: np.exp(one.log_density(x)) * np.array([np.ones_like(x), x]), one.edges)
    return float(mass[1] / mass[0])


def below(first: Belief, second: Belief) -> tuple[float, float]:
    """P[first quality < second quality] and P[first > second]; both 0 where two known qualities are equal.

    A tie of known qualities is no error, whichever paper is accepted (the proof of Theorem 4.2); with noise ties have
    probability 0 and the two numbers add up to 1.
    """
    if isinstance(first, Point) and isinstance(second, Point):
        return float(first.value < second.value), float(first.value > second.value)
    if isinstance(first, Normal) and isinstance(second, Normal):
        z = (second.mean - first.mean) / math.hypot(first.deviation, second.deviation)
        return float(ndtr(z)), float(ndtr(-z))
    _, weights, density, cumulative = on_grid([first, second])
    under = float((weights * density[0] * (1.0 - cumulative[1])).sum())
    over = float((weights * density[0] * cumulative[1]).sum())
    return under / (under + over), over / (under + over)


def on_grid(beliefs: Sequence[Belief]) -> tuple[Floats, Floats, Floats, Floats]:
    """Common nodes and weights, with every belief's density and distribution function at the nodes."""
    if any(isinstance(one, Point) for one in beliefs):
        raise BadInput("beliefs", got=Verbatim("a known quality"), want="noisy scores")
    if all(isinstance(one, Normal) for one in beliefs):
        return _normals_on_grid([one for one in beliefs if isinstance(one, Normal)])
    edges: list[Floats] = []
    for one in beliefs:
        if isinstance(one, Curve):
            edges.append(one.edges)
        elif isinstance(one, Normal):
            edges.append(one.mean + one.deviation * np.linspace(-9, 9, 19))
    return _on_panels(beliefs, np.unique(np.concatenate(edges)))


def _normals_on_grid(beliefs: list[Normal]) -> tuple[Floats, Floats, Floats, Floats]:
    mean = np.array([one.mean for one in beliefs])[:, None]
    deviation = np.array([one.deviation for one in beliefs])[:, None]
    low, high = float((mean - 9 * deviation).min()), float((mean + 9 * deviation).max())
    # the trapezoidal rule converges faster than any power for such products; their narrowest feature is about
    # the least deviation over the root of how many are multiplied
    step = 0.55 * float(deviation.min()) / math.sqrt(min(len(beliefs), 9))
    count = math.ceil((high - low) / step) + 1
    if count > _UNIFORM_MOST:
        near = mean + deviation * np.linspace(-9, 9, 10)
        return _on_panels(beliefs, np.unique(near))
    x = np.linspace(low, high, count)
    z = (x - mean) / deviation
    density = np.exp(-0.5 * z * z) / (deviation * math.sqrt(2 * math.pi))
    return x, np.full(count, x[1] - x[0]), density, ndtr(z)


def _on_panels(beliefs: Sequence[Belief], edges: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    low, high = edges[:-1], edges[1:]
    half = (high - low)[:, None] / 2
    x = (low + high)[:, None] / 2 + half * _NODES
    density = np.empty((len(beliefs), *x.shape))
    cumulative = np.empty_like(density)
    for row, one in enumerate(beliefs):
        if isinstance(one, Normal):
            z = (x - one.mean) / one.deviation
            density[row] = np.exp(-0.5 * z * z) / (one.deviation * math.sqrt(2 * math.pi))
            cumulative[row] = ndtr(z)
        elif isinstance(one, Curve):
            density[row] = np.exp(one.log_density(x.ravel())).reshape(x.shape)
            mass = (density[row] * _WEIGHTS).sum(axis=1) * half[:, 0]
            before = np.concatenate([[0.0], np.cumsum(mass)[:-1]])
            cumulative[row] = before[:, None] + (density[row] @ _CUMULATIVE.T) * half
    shape = len(beliefs), -1
    return x.ravel(), (half * _WEIGHTS).ravel(), density.reshape(shape), np.clip(cumulative.reshape(shape), 0.0, 1.0)
