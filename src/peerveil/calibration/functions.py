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

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import LARGEST, number, numbers

_LOG_ROOT_TWO_PI: Final = 0.9189385332046727
_PROBES: Final = np.linspace(-8.0, 8.0, 161)


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
    knots: ClassVar[tuple[float, ...]] = ()  # qualities at which the function is not smooth

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive("scale", self.scale))
        object.__setattr__(self, "bias", number(self.bias, "bias"))

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
            want = "a function with its inverse, or points"
            raise BadInput("function, inverse, points", got=Verbatim("another combination"), want=want)
        if points is not None:
            cubic = _MonotoneCubic(points)
            knots, description = tuple(cubic.points[:, 0].tolist()), f"Monotone(points={cubic.points.tolist()})"
            self._set(cubic.score, cubic.quality, cubic.slope, knots, description)
            return
        for name, part in (("function", function), ("inverse", inverse), ("slope", slope)):
            if part is not None and not callable(part):
                raise BadInput(name, got=part, want="a function of an array")
        self._set(function, inverse, slope, (), f"Monotone({getattr(function, '__name__', 'function')})")
        _check_increasing(self)

    def _set(self, function: Any, inverse: Any, slope: Any, knots: tuple[float, ...], description: str) -> None:
        self._function, self._inverse, self._slope = function, inverse, slope
        self.knots, self.description = knots, description

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
        new._set(
            lambda z: self.score(mean + deviation * z),
            lambda s: (self.quality(s) - mean) / deviation,
            lambda z: deviation * self.slope(mean + deviation * z),
            tuple((knot - mean) / deviation for knot in self.knots),
            self.description,
        )
        return new


class _MonotoneCubic:
    """A monotone cubic through points, with straight ends."""

    def __init__(self, points: Any) -> None:
        from scipy.interpolate import CubicHermiteSpline, PPoly

        want = "at least two pairs of a quality and a score"
        self.points = numbers(points, "points", dimensions=(2,), want=want)
        if self.points.shape[1] != 2 or len(self.points) < 2:
            raise BadInput("points", got=points, want=want)
        x, y = self.points.T
        steps, rises = np.diff(x), np.diff(y)
        if (steps <= 0).any() or (rises <= 0).any():
            what = "qualities" if (steps <= 0).any() else "scores"
            raise BadInput("points", got=Verbatim(f"{what} that fall"), want="strictly increasing qualities and scores")
        secant = rises / steps
        w1, w2 = 2 * steps[1:] + steps[:-1], steps[1:] + 2 * steps[:-1]
        # a weighted harmonic mean: at most 3 times either secant
        inner = (w1 + w2) / (w1 / secant[:-1] + w2 / secant[1:])
        self.slopes = np.concatenate([[secant[0]], inner, [secant[-1]]])
        straight = np.array([[0.0, 0.0], [0.0, 0.0], self.slopes[[0, -1]], [y[0] - rises[0], y[-1]]])
        pieces = np.insert(CubicHermiteSpline(x, y, self.slopes).c, [0, len(x) - 1], straight, axis=1)
        self.score = PPoly(pieces, np.concatenate([[x[0] - steps[0]], x, [x[-1] + steps[-1]]]))
        self.slope = self.score.derivative()

    def quality(self, score: Any) -> Any:
        """The inverse, by Newton's step where it stays inside the bracket and a halving elsewhere."""
        s = np.asarray(score, dtype=np.float64)
        x, y = self.points.T
        piece = np.clip(np.searchsorted(y, s, side="right") - 1, 0, len(y) - 2)
        low, high = x[piece], x[piece + 1]
        inside = (low + high) / 2
        for _ in range(60):
            miss = self.score(inside) - s
            low, high = np.where(miss < 0, inside, low), np.where(miss < 0, high, inside)
            with np.errstate(divide="ignore", invalid="ignore"):
                newton = inside - miss / self.slope(inside)
            moved = np.where((newton > low) & (newton < high), newton, (low + high) / 2)
            hit = np.abs(miss) <= 4e-16 * (1 + np.abs(s))  # a miss of rounding size is as good as none
            still = np.abs(moved - inside) <= 4e-16 * (1 + np.abs(inside))
            inside = np.where(hit, inside, moved)
            if (hit | still).all():
                break
        before, after = x[0] + (s - y[0]) / self.slopes[0], x[-1] + (s - y[-1]) / self.slopes[-1]
        return np.where(s < y[0], before, np.where(s > y[-1], after, inside))


def _check_increasing(function: Monotone) -> None:
    """Refuse what is seen to fall, to stand still, or not to be undone by its inverse."""
    with np.errstate(all="ignore"):
        scores = np.asarray(function.score(_PROBES), dtype=np.float64)
    if scores.shape != _PROBES.shape:
        got = Verbatim(f"shape {scores.shape} for {_PROBES.shape}")
        raise BadInput("function", got=got, want="an array for an array")
    finite = np.isfinite(scores)
    probes, scores = _PROBES[finite], scores[finite]
    if len(scores) < 2 or (np.diff(scores) <= 0).any():
        raise BadInput("function", got=function.description, want="a function that increases, on -8 to 8 at least")
    back = np.asarray(function.quality(scores), dtype=np.float64)
    # where scores saturate in floating point the inverse cannot know better
    with np.errstate(all="ignore"):
        blur = 1e-6 + 1e-12 * np.abs(scores) / np.maximum(np.asarray(function.slope(probes)), 1e-300)
    if not (np.abs(back - probes) <= blur).all():
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
    """Checked and standardized functions, one list per draw: ``[draw][reviewer]``."""
    if not isinstance(functions, Sequence) or not functions or not all(isinstance(r, Reviewer) for r in functions):
        raise BadInput("functions", got=functions, want="a list of Affine, Monotone or Uncertain")
    if count is not None and len(functions) != count:
        raise BadInput("functions", got=Verbatim(f"{len(functions)} of them"), want=f"{count}")
    sizes = {len(r.draws) for r in functions if isinstance(r, Uncertain)} or {1}
    if len(sizes) > 1:
        raise BadInput("functions", got=Verbatim(f"{sorted(sizes)} draws"), want="as many draws of every uncertain one")
    return [
        [(r.draws[k] if isinstance(r, Uncertain) else r).standardized(*prior) for r in functions]
        for k in range(sizes.pop())
    ]


def read_miscalibration(path: str | os.PathLike[str], *, reviewers: Collection[Any] | None = None) -> dict[Any, Affine]:
    """Functions from a table with the columns ``reviewer``, ``scale`` and ``bias`` (CSV or Parquet).

    Parameters
    ----------
    path : path
        The table.
    reviewers : collection, optional
        The functions of these reviewers only, each of whom must have a row; 7 and ``"7"`` are the same person. By default
        those of everybody in the table.
    """
    name = str(path)
    if not Path(name).is_file():
        raise BadInput(name, got=Verbatim("no such file"), want="a table with the columns reviewer, scale and bias")
    frame = pl.read_parquet(name) if name.endswith(".parquet") else pl.read_csv(name)
    if missing := {"reviewer", "scale", "bias"} - set(frame.columns):
        raise BadInput(name, got=frame.columns, want=f"a column {min(missing)}")
    functions: dict[Any, Affine] = {}
    for row, (reviewer, scale, bias) in enumerate(frame.select("reviewer", "scale", "bias").iter_rows(), start=1):
        if reviewer in functions:
            raise BadInput(f"{name}, row {row}", got=reviewer, want="every reviewer once")
        try:
            functions[reviewer] = Affine(scale, bias)
        except BadInput as error:
            raise BadInput(f"{name}, row {row}, {error.argument}", got=error.got, want=error.want) from None
    if reviewers is None:
        return functions
    by_text = {str(reviewer): function for reviewer, function in functions.items()}
    if unknown := sum(str(reviewer) not in by_text for reviewer in reviewers):
        got = Verbatim(f"no row for {unknown} of {len(reviewers)} reviewers")
        raise BadInput("reviewers", got=got, want="a row for every reviewer of the data")
    return {reviewer: by_text[str(reviewer)] for reviewer in reviewers}


def positive(argument: str, value: object) -> float:
    """A finite number above 0."""
    return number(value, argument, 1 / LARGEST, want="a finite number above 0")


def noise_level(value: object) -> float:
    """A standard deviation of 0 or more."""
    level = number(value, "noise", 0.0, want="a standard deviation: a finite number, 0 or more")
    if 0 < level < 1 / LARGEST:
        raise BadInput("noise", got=value, want="0 (no noise), or a standard deviation of at least 1e-100")
    return level


def quality_prior(prior: object) -> tuple[float, float]:
    """Mean and standard deviation of papers' qualities."""
    if not isinstance(prior, tuple | list) or len(prior) != 2:
        raise BadInput("prior", got=prior, want="the mean and the standard deviation of qualities, such as (0, 1)")
    return number(prior[0], "prior[0]"), positive("prior[1]", prior[1])


def log_prior(quality: Any) -> Any:
    """The log density of the standard normal."""
    return -0.5 * np.square(quality) - _LOG_ROOT_TWO_PI
