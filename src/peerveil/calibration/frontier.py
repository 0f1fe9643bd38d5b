"""The trade-off: how wrong the adversary can be kept, for how much error of the conference.

Computed from what is public (scores, miscalibration functions, noise), never from the assignment: a frontier may be
shown to anybody.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import probability
from peerveil.core.result import Plan
from peerveil.report.figures import COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    Tangent = tuple[float, float, float]  # adversary error, conference error, slope of the latter in the former

ENOUGH: Final = 0.9
"""A recommendation buys this share of the protection that can be had: the rest usually costs most."""
_SLACK: Final = 1e-9  # a demand this close to what can be reached is taken as reached: solvers are not more exact


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
        error = reachable_conference_error(conference_error, self.start[0])
        conference, adversary = zip(*self.points, strict=True)
        return float(np.interp(error, conference, adversary))

    def conference_error(self, adversary_error: float) -> float:
        """The least conference error for an adversary error of at least this much."""
        error = reachable_adversary_error(adversary_error, self.end[1])
        conference, adversary = zip(*self.points, strict=True)
        return float(np.interp(error, adversary, conference))

    @property
    def recommendation(self) -> str:
        """The least demand that brings nearly all protection that can be had."""
        (c0, a0), (_, a1) = self.start, self.end
        if a1 - a0 < 1e-12:
            return f"Recommended: adversary_error={_rounded_down(a1)}. Protection costs nothing here."
        demand = _rounded_down(a0 + ENOUGH * (a1 - a0))
        return (
            f"Recommended: adversary_error={demand}. The conference error is then {self.conference_error(demand):.4f} "
            f"instead of {c0:.4f}, for {ENOUGH:.0%} of the protection that can be had ({a0:.4f} to {a1:.4f})."
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

    def draw(self, ax: Axes) -> None:
        """The trade-off, with what the scores alone leave as a dashed line."""
        conference, adversary = zip(*self.points, strict=True)
        draw_ceiling(ax, self.end[1])
        if len(self.points) == 1:
            ax.plot(conference, adversary, "o", color=COLORS["private"], label="the only point worth taking")
        else:
            ax.plot(conference, adversary, color=COLORS["private"], linewidth=2, label="Pareto frontier")
            ends = [conference[0], conference[-1]], [adversary[0], adversary[-1]]
            ax.plot(*ends, "o", color=COLORS["private"], markersize=5)
        ax.set(
            xlabel="error of the conference",
            ylabel="error of the adversary",
            xlim=(min(0.0, conference[0]), max(conference[-1] * 1.08, 0.01)),
            ylim=(0.0, max(self.end[1] * 1.2, 0.01)),
        )
        ax.legend(loc="lower right", fontsize=9)


def draw_ceiling(ax: Axes, error: float) -> None:
    """What the scores alone leave, as a dashed line."""
    ax.axhline(error, color=COLORS["truth"], linestyle="--", linewidth=1, label="scores alone")


def _rounded_down(error: float) -> float:
    """A demand that a user can type, and that can be met."""
    return math.floor(1000 * error + 1e-9) / 1000


def traced(
    start: Tangent, end: Tangent, solve: Callable[[float], Tangent], tolerance: float, most: int, what: str
) -> Frontier:
    """A convex, piecewise linear frontier from a solver that gives a point and its tangent.

    The next solve is taken where the tangents of two neighbors meet, until no meeting point is below the chord by
    more than ``tolerance``, or ``most`` solves are done; what is left then is the gap.
    """
    tangents = [start, end]
    for solves in range(most + 1):
        meetings = [_meeting(a, b) for a, b in pairwise(tangents)]
        widest = max(range(len(meetings)), key=lambda i: meetings[i][1])
        place, gap = meetings[widest]
        if gap <= tolerance or solves == most:
            break
        tangents.insert(widest + 1, solve(place))
    points = tuple((cost, tau) for tau, cost, _ in _corners(tangents))
    return Frontier(points, gap=0.0 if gap <= tolerance else gap, what=what)


def _meeting(a: Tangent, b: Tangent) -> tuple[float, float]:
    """Where the tangents of two points meet, and how far below the chord."""
    (x0, y0, m0), (x1, y1, m1) = a, b
    if m1 - m0 < 1e-12 or x1 - x0 < 1e-10:
        return x0, 0.0
    x = (y0 - y1 + m1 * x1 - m0 * x0) / (m1 - m0)
    if not x0 + 1e-10 < x < x1 - 1e-10:
        return x0, 0.0
    chord = y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return x, chord - (y0 + m0 * (x - x0))


def _corners(tangents: list[Tangent]) -> list[Tangent]:
    """The points without those on the line between their neighbors."""
    corners = [tangents[0]]
    for here, after in pairwise(tangents[1:]):
        x0, y0, _ = corners[-1]
        straight = y0 + (after[1] - y0) * (here[0] - x0) / (after[0] - x0)
        if straight - here[1] > 1e-12:
            corners.append(here)
    return [*corners, tangents[-1]]


def one_demand(conference_error: object, adversary_error: object) -> None:
    """Require exactly one of the two errors."""
    if (conference_error is None) == (adversary_error is None):
        got = Verbatim("both" if conference_error is not None else "neither")
        raise BadInput("conference_error, adversary_error", got=got, want="exactly one of them")


def reachable_conference_error(value: object, least: float) -> float:
    """A conference error that some strategy reaches."""
    error = probability(value, "conference_error")
    if error < least - _SLACK:
        want = f"a number from {least:.6g} to 1 (less is impossible even with full use of the assignment)"
        raise BadInput("conference_error", got=error, want=want)
    return error


def reachable_adversary_error(value: object, most: float) -> float:
    """An adversary error that some strategy reaches."""
    error = probability(value, "adversary_error")
    if error > most + _SLACK:
        want = f"a number from 0 to {most:.6g} (the published scores alone already let the adversary guess that well)"
        raise BadInput("adversary_error", got=error, want=want)
    return error
