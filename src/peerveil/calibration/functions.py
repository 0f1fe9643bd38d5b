"""Miscalibration: how a reviewer turns a paper's quality into a score.

A reviewer j gives a paper of quality theta the score beta_j(theta) + noise. Known to the conference and to the
adversary are the beta_j: affine, or any increasing function that can be inverted, or one of several (uncertain).

>>> strict = Affine(scale=0.8, bias=-1.0)
>>> round(strict.score(1.0), 12), round(strict.quality(-0.2), 12)
(-0.2, 1.0)
>>> curved = Monotone(points=[(-2, 1), (0, 5), (2, 6)])
>>> float(curved.score(0.0)), round(float(curved.quality(5.5)), 3)
(5.0, 0.83)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

import numpy as np

from peerveil.calibration.checks import number, numbers, positive
from peerveil.core.errors import BadInput, Verbatim

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

_LOG_ROOT_TWO_PI: Final = 0.9189385332046727
_PROBES: Final = np.linspace(-8.0, 8.0, 161)


@runtime_checkable
class Miscalibration(Protocol):
    """What every miscalibration function can do; all take and return numbers or arrays."""

    def score(self, quality: Any) -> Any:
        """The score, without noise, of a paper of this quality."""

    def quality(self, score: Any) -> Any:
        """The quality that earns this score, NaN where no quality does."""

    def slope(self, quality: Any) -> Any:
        """The derivative of :meth:`score`, above 0."""

    def standardized(self, mean: float, deviation: float) -> Miscalibration:
        """The same function of z where quality = mean + deviation * z."""

    @property
    def knots(self) -> tuple[float, ...]:
        """Qualities at which the function is not smooth."""


@dataclass(frozen=True, slots=True)
class Affine:
    """score = scale * quality + bias.

    Parameters
    ----------
    scale
        Above 0. Below 1 for a reviewer who spreads scores less than qualities.
    bias
        Below 0 for a strict reviewer.
    """

    scale: float
    bias: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive("scale", self.scale))
        object.__setattr__(self, "bias", number("bias", self.bias))

    def score(self, quality: Any) -> Any:
        """The score, without noise, of a paper of this quality."""
        return self.scale * quality + self.bias

    def quality(self, score: Any) -> Any:
        """The quality that earns this score."""
        return (score - self.bias) / self.scale

    def slope(self, quality: Any) -> Any:
        """The scale."""
        return self.scale * np.ones_like(quality, dtype=np.float64)

    def standardized(self, mean: float, deviation: float) -> Affine:
        """The same function of z where quality = mean + deviation * z."""
        return Affine(self.scale * deviation, self.bias + self.scale * mean)

    @property
    def knots(self) -> tuple[float, ...]:
        """None: it is smooth."""
        return ()


class Monotone:
    """Any increasing function that can be inverted.

    Parameters
    ----------
    function, inverse
        The score of a quality, and the quality of a score; both must take arrays. They are checked to be increasing
        and each other's inverse on qualities from -8 to 8.
    slope
        The derivative of ``function``; taken numerically if left out.
    points
        Instead of functions: (quality, score) pairs, both strictly increasing. Between them a monotone cubic
        (Fritsch and Carlson's condition: slopes at the points at most three times the secants beside them), beyond
        them straight lines, so that every score has a quality.

    Examples
    --------
    >>> Monotone(points=[(0, 5), (1, 4)])
    Traceback (most recent call last):
        ...
    peerveil.core.errors.BadInput: points: got scores that fall, need strictly increasing qualities and scores
    """

    __slots__ = ("_function", "_inverse", "_slope", "description", "knots")

    def __init__(
        self,
        function: Callable[[Any], Any] | None = None,
        inverse: Callable[[Any], Any] | None = None,
        *,
        slope: Callable[[Any], Any] | None = None,
        points: Sequence[tuple[float, float]] | ArrayLike | None = None,
    ) -> None:
        if (points is None) == (function is None) or (function is None) != (inverse is None):
            raise BadInput(
                "function, inverse, points",
                got=Verbatim("another combination"),
                want="a function with its inverse, or points",
            )
        self.knots: tuple[float, ...] = ()
        if points is not None:
            curve = _Curve(points)
            self._function: Callable[[Any], Any] = curve.score
            self._inverse: Callable[[Any], Any] = curve.quality
            self._slope: Callable[[Any], Any] | None = curve.slope
            self.knots = tuple(curve.x.tolist())
            self.description = f"Monotone(points={np.column_stack([curve.x, curve.y]).tolist()})"
            return
        assert function is not None
        assert inverse is not None
        for name, part in (("function", function), ("inverse", inverse), ("slope", slope)):
            if part is not None and not callable(part):
                raise BadInput(name, got=part, want="a function of an array")
        self._function, self._inverse, self._slope = function, inverse, slope
        self.description = f"Monotone({getattr(function, '__name__', 'function')})"
        _check_increasing(self)

    def __repr__(self) -> str:
        return self.description

    def score(self, quality: Any) -> Any:
        """The score, without noise, of a paper of this quality."""
        return self._function(quality)

    def quality(self, score: Any) -> Any:
        """The quality that earns this score, NaN where no quality does."""
        with np.errstate(all="ignore"):
            return self._inverse(score)

    def slope(self, quality: Any) -> Any:
        """The derivative of :meth:`score`."""
        if self._slope is not None:
            return self._slope(quality)
        step = 1e-5 * np.maximum(1.0, np.abs(quality))
        low, high = quality - step, quality + step
        # one extrapolation step: the error falls from step^2 to step^4
        wide = (self._function(quality + 2 * step) - self._function(quality - 2 * step)) / (4 * step)
        return (4 * (self._function(high) - self._function(low)) / (high - low) - wide) / 3

    def standardized(self, mean: float, deviation: float) -> Monotone:
        """The same function of z where quality = mean + deviation * z."""
        if (mean, deviation) == (0.0, 1.0):
            return self
        new = object.__new__(Monotone)
        new._function = lambda z: self.score(mean + deviation * z)
        new._inverse = lambda s: (self.quality(s) - mean) / deviation
        new._slope = lambda z: deviation * self.slope(mean + deviation * z)
        new.knots = tuple((knot - mean) / deviation for knot in self.knots)
        new.description = self.description
        return new


class _Curve:
    """A monotone cubic through points, with straight ends."""

    def __init__(self, points: Any) -> None:
        array = numbers("points", points, columns=2)
        if array.ndim != 2 or len(array) < 2:
            raise BadInput("points", got=points, want="at least two pairs of a quality and a score")
        self.x, self.y = array[:, 0].copy(), array[:, 1].copy()
        steps, rises = np.diff(self.x), np.diff(self.y)
        if (steps <= 0).any() or (rises <= 0).any():
            what = "qualities" if (steps <= 0).any() else "scores"
            raise BadInput("points", got=Verbatim(f"{what} that fall"), want="strictly increasing qualities and scores")
        secant = rises / steps
        before, after = secant[:-1], secant[1:]
        w1, w2 = 2 * steps[1:] + steps[:-1], steps[1:] + 2 * steps[:-1]
        inner = (w1 + w2) / (w1 / before + w2 / after)  # a weighted harmonic mean: at most 3 times either secant
        self.d = np.concatenate([[secant[0]], inner, [secant[-1]]])

    def _piece(self, q: Floats) -> tuple[NDArray[np.int64], Floats, Floats]:
        i = np.clip(np.searchsorted(self.x, q, side="right") - 1, 0, len(self.x) - 2)
        h = self.x[i + 1] - self.x[i]
        return i, h, (q - self.x[i]) / h

    def score(self, quality: Any) -> Any:
        q = np.asarray(quality, dtype=np.float64)
        i, h, t = self._piece(q)
        y0, y1, d0, d1 = self.y[i], self.y[i + 1], self.d[i], self.d[i + 1]
        inside = (
            y0 * (1 + 2 * t) * (1 - t) ** 2
            + h * d0 * t * (1 - t) ** 2
            + y1 * t**2 * (3 - 2 * t)
            - h * d1 * t**2 * (1 - t)
        )
        low, high = q < self.x[0], q > self.x[-1]
        ends = np.where(low, self.y[0] + self.d[0] * (q - self.x[0]), self.y[-1] + self.d[-1] * (q - self.x[-1]))
        return np.where(low | high, ends, inside)

    def slope(self, quality: Any) -> Any:
        q = np.asarray(quality, dtype=np.float64)
        i, h, t = self._piece(q)
        rise, d0, d1 = (self.y[i + 1] - self.y[i]) / h, self.d[i], self.d[i + 1]
        inside = 6 * t * (1 - t) * rise + d0 * (1 - t) * (1 - 3 * t) + d1 * t * (3 * t - 2)
        return np.where(q < self.x[0], self.d[0], np.where(q > self.x[-1], self.d[-1], inside))

    def quality(self, score: Any) -> Any:
        s = np.asarray(score, dtype=np.float64)
        i = np.clip(np.searchsorted(self.y, s, side="right") - 1, 0, len(self.y) - 2)
        low, high = self.x[i].astype(np.float64), self.x[i + 1].astype(np.float64)
        inside = (low + high) / 2
        for _ in range(60):  # Newton's step where it stays inside, a halving elsewhere
            miss = self.score(inside) - s
            low, high = np.where(miss < 0, inside, low), np.where(miss < 0, high, inside)
            with np.errstate(divide="ignore", invalid="ignore"):
                newton = inside - miss / self.slope(inside)
            moved = np.where((newton > low) & (newton < high), newton, (low + high) / 2)
            done = np.abs(moved - inside) <= 4e-16 * (1 + np.abs(inside))
            inside = moved
            # Newton's last steps may hop between neighboring floats: a miss of rounding size is as good as none
            if (done | (np.abs(miss) <= 4e-16 * (1 + np.abs(s)))).all():
                break
        ends = np.where(
            s < self.y[0], self.x[0] + (s - self.y[0]) / self.d[0], self.x[-1] + (s - self.y[-1]) / self.d[-1]
        )
        return np.where((s < self.y[0]) | (s > self.y[-1]), ends, inside)


def _check_increasing(function: Monotone) -> None:
    """Refuse what is seen to fall, to stand still, or not to be undone by its inverse."""
    with np.errstate(all="ignore"):
        scores = np.asarray(function.score(_PROBES), dtype=np.float64)
    if scores.shape != _PROBES.shape:
        raise BadInput(
            "function", got=Verbatim(f"shape {scores.shape} for {_PROBES.shape}"), want="an array for an array"
        )
    seen = np.isfinite(scores)
    if seen.sum() < 2 or (np.diff(scores[seen]) <= 0).any():
        raise BadInput("function", got=function.description, want="a function that increases, on -8 to 8 at least")
    back = np.asarray(function.quality(scores[seen]), dtype=np.float64)
    # where scores saturate in floating point the inverse cannot know better
    with np.errstate(all="ignore"):
        blur = 1e-6 + 1e-12 * np.abs(scores[seen]) / np.maximum(np.asarray(function.slope(_PROBES[seen])), 1e-300)
    if not (np.abs(back - _PROBES[seen]) <= blur).all():
        raise BadInput("inverse", got=function.description, want="the inverse of function: inverse(function(x)) = x")


@dataclass(frozen=True, slots=True)
class Uncertain:
    """A reviewer of whom only several equally credible functions are known, such as draws from a fitted posterior.

    Draw k of one reviewer belongs to draw k of every other, and all of a reviewer's papers share a draw: what is not
    known of the reviewer is integrated over, not hidden in a larger noise.
    """

    draws: tuple[Affine | Monotone, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "draws", tuple(self.draws))
        if not self.draws or not all(isinstance(d, Affine | Monotone) for d in self.draws):
            raise BadInput("draws", got=self.draws, want="one or more Affine or Monotone functions")


Reviewer = Affine | Monotone | Uncertain


def read_functions(functions: Any, prior: tuple[float, float], *, count: int | None = None) -> list[list[Any]]:
    """Checked and standardized functions, a list a draw: ``[draw][reviewer]``."""
    listed = list(functions) if isinstance(functions, Sequence) else None
    if listed is None or not listed or not all(isinstance(r, Reviewer) for r in listed):
        raise BadInput("functions", got=functions, want="a list of Affine, Monotone or Uncertain")
    if count is not None and len(listed) != count:
        raise BadInput("functions", got=Verbatim(f"{len(listed)} of them"), want=f"{count}")
    sizes = {len(r.draws) for r in listed if isinstance(r, Uncertain)}
    if len(sizes) > 1:
        raise BadInput("functions", got=Verbatim(f"{sorted(sizes)} draws"), want="as many draws of every uncertain one")
    draws = sizes.pop() if sizes else 1
    return [
        [(r.draws[k] if isinstance(r, Uncertain) else r).standardized(*prior) for r in listed] for k in range(draws)
    ]


def log_prior(quality: Any) -> Any:
    """The log density of the standard normal."""
    return -0.5 * np.square(quality) - _LOG_ROOT_TWO_PI
