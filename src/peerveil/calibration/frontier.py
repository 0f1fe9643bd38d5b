"""The trade-off: how wrong the adversary can be kept, for how much error of the conference.

Computed from what is public (scores, miscalibration functions, noise), never from the assignment: a frontier may be
shown to anybody.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from peerveil.calibration.checks import infeasible, number
from peerveil.core.errors import BadInput
from peerveil.core.result import Plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes

    Known = tuple[float, float, float]  # adversary error, conference error, slope of the latter in the former

_SLACK = 1e-12  # a demand this close to an end of the frontier is the end
ENOUGH = 0.9
"""A recommendation buys this share of the protection that can be had: the rest usually costs most."""


@dataclass(frozen=True, slots=True)
class Frontier(Plan):
    """Pareto optimal pairs (conference error, adversary error), both rising, joined by straight lines.

    Attributes
    ----------
    points : tuple of (float, float)
        The corners. One point alone means that there is nothing to trade: the decision leaks nothing.
    gap : float
        By how much conference errors between the points may be overstated; 0 for an exact frontier. The points, and
        the lines between them, can always be had: a coin between two tables errs, for conference and adversary alike,
        at least as well as the line (the adversary's error is concave in the table).
    what : str
        Whose guess the adversary error is about.
    """

    points: tuple[tuple[float, float], ...]
    gap: float = 0.0
    what: str = "the assignment"

    def __post_init__(self) -> None:
        if not self.points:
            raise BadInput("points", got=self.points, want="at least one point")

    @property
    def start(self) -> tuple[float, float]:
        """The least conference error, and the adversary error that comes with it."""
        return self.points[0]

    @property
    def end(self) -> tuple[float, float]:
        """The largest adversary error: what scores alone leave. More conference error buys nothing."""
        return self.points[-1]

    def adversary_error(self, conference_error: float) -> float:
        """The largest adversary error for a conference error of at most this much."""
        asked = number("conference_error", conference_error, low=0.0, high=1.0)
        if asked < self.start[0] - _SLACK:
            why = "less is impossible even with full use of the assignment"
            raise infeasible("conference_error", asked, self.start[0], 1.0, why)
        conference, adversary = (np.array(axis) for axis in zip(*self.points, strict=True))
        return float(np.interp(asked, conference, adversary))

    def conference_error(self, adversary_error: float) -> float:
        """The least conference error for an adversary error of at least this much."""
        asked = number("adversary_error", adversary_error, low=0.0, high=1.0)
        if asked > self.end[1] + _SLACK:
            why = "the published scores alone already let the adversary guess that well"
            raise infeasible("adversary_error", asked, 0.0, self.end[1], why)
        if asked <= self.start[1]:
            return self.start[0]
        conference, adversary = (np.array(axis) for axis in zip(*self.points, strict=True))
        return float(np.interp(asked, adversary, conference))

    @property
    def recommendation(self) -> str:
        """The least demand that brings nearly all protection that can be had."""
        (c0, a0), (_, a1) = self.start, self.end
        if a1 - a0 < _SLACK:
            return f"Recommended: adversary_error={_rounded_down(a1)}. Protection costs nothing here."
        asked = _rounded_down(a0 + ENOUGH * (a1 - a0))
        return (
            f"Recommended: adversary_error={asked}. The conference error is then {self.conference_error(asked):.4f} instead "
            f"of {c0:.4f}, for {ENOUGH:.0%} of the protection that can be had ({a0:.4f} to {a1:.4f})."
        )

    def table(self) -> pl.DataFrame:
        """The corners: ``conference_error``, ``adversary_error``."""
        return pl.DataFrame(list(self.points), schema=["conference_error", "adversary_error"], orient="row")

    def summary(self) -> str:
        """The two ends in one line."""
        (c0, a0), (c1, a1) = self.start, self.end
        if len(self.points) == 1:
            return f"nothing to trade: conference error {c0:.4f}, adversary error {a0:.4f} about {self.what}"
        return (
            f"from conference error {c0:.4f} (adversary error {a0:.4f} about {self.what}) "
            f"to {c1:.4f} (adversary error {a1:.4f}, all that the scores leave)"
            + (f"; conference errors in between may be overstated by up to {self.gap:.1g}" if self.gap > 0 else "")
        )

    def __str__(self) -> str:
        return self.summary()

    def draw(self, ax: Axes) -> None:
        """The frontier, with the adversary's best guess from scores alone as a dashed line."""
        from peerveil.calibration.figures import draw_frontier

        draw_frontier(ax, self)


def _rounded_down(error: float) -> float:
    """A demand that a user can type, and that can be met."""
    return math.floor(1000 * error + 1e-9) / 1000


def traced(
    start: Known, end: Known, solve: Callable[[float], Known], tolerance: float, most: int, what: str
) -> Frontier:
    """A convex, piecewise linear frontier from a solver that gives a point and its tangent.

    The next solve is taken where the tangents of two neighbors meet, until no meeting point lies below the chord by
    more than ``tolerance``, or ``most`` solves are done; what is left then is the gap.
    """
    known = [start, end]
    for solves in range(most + 1):
        gaps = [_meeting(a, b) for a, b in pairwise(known)]
        widest = max(range(len(gaps)), key=lambda i: gaps[i][1])
        place, gap = gaps[widest]
        if gap <= tolerance or solves == most:
            break
        known.insert(widest + 1, solve(place))
    points = tuple((cost, tau) for tau, cost, _ in _corners(known))
    return Frontier(points, gap=0.0 if gap <= tolerance else gap, what=what)


def _meeting(a: Known, b: Known) -> tuple[float, float]:
    """Where the tangents of two points meet, and how far below the chord."""
    (x0, y0, m0), (x1, y1, m1) = a, b
    if m1 - m0 < 1e-12 or x1 - x0 < 1e-10:
        return x0, 0.0
    x = (y0 - y1 + m1 * x1 - m0 * x0) / (m1 - m0)
    if not x0 + 1e-10 < x < x1 - 1e-10:
        return x0, 0.0
    chord = y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return x, chord - (y0 + m0 * (x - x0))


def _corners(known: list[Known]) -> list[Known]:
    """The points without those that lie on the line between their neighbors."""
    kept = [known[0]]
    for here, after in pairwise(known[1:]):
        x0, y0, _ = kept[-1]
        straight = y0 + (after[1] - y0) * (here[0] - x0) / (after[0] - x0)
        if straight - here[1] > 1e-12:
            kept.append(here)
    return [*kept, known[-1]]
