"""The trade-off: how wrong the adversary can be kept, for how much error of the conference.

Computed from what is public (scores, miscalibration functions, noise), never from the assignment: a frontier may be
shown to anybody.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from peerveil.calibration.checks import infeasible, number
from peerveil.errors import BadInput

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SLACK = 1e-12  # a demand this close to an end of the frontier is the end


@dataclass(frozen=True, slots=True)
class Frontier:
    """Pareto optimal pairs (conference error, adversary error), both rising, joined by straight lines.

    Attributes
    ----------
    points : tuple of (float, float)
        The corners. One point alone means that there is nothing to trade: the decision leaks nothing.
    gap : float
        By how much conference errors between the points may be overstated; 0 for an exact frontier.
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

    def summary(self) -> str:
        """The two ends in one line."""
        (c0, a0), (c1, a1) = self.start, self.end
        if len(self.points) == 1:
            return f"nothing to trade: conference error {c0:.4f}, adversary error {a0:.4f} about {self.what}"
        return (
            f"from conference error {c0:.4f} (adversary error {a0:.4f} about {self.what}) "
            f"to {c1:.4f} (adversary error {a1:.4f}, all that the scores leave)"
        )

    def __str__(self) -> str:
        return self.summary()

    def draw(self, ax: Axes) -> None:
        """The frontier, with the adversary's best guess from scores alone as a dashed line."""
        from peerveil.calibration.figures import draw_frontier

        draw_frontier(ax, self)
