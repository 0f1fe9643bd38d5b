"""How many people a poll needs: computed from the channel alone, before anybody is asked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput
from peerveil.core.exact import Number, number, whole
from peerveil.core.lazy import ndtri
from peerveil.core.result import Plan
from peerveil.truth.models import Channel
from peerveil.truth.plan import read_epsilon_or_none
from peerveil.truth.shares import check_level
from peerveil.truth.shares_figures import draw_plan

if TYPE_CHECKING:
    from peerveil.core.arrays import Floats

EPSILONS: Final = ("none", "0.5", "1", "2", "4")
_MOST_PEOPLE: Final = 10**15


@dataclass(frozen=True, slots=True)
class SharesPlanRow:
    """How many people one epsilon needs (``None``: no privacy), and how many times as many as without privacy."""

    epsilon: float | None
    people: int
    times: float
    deviation: float
    """The standard deviation of one report's estimate of the share: the margin is z times it by the root of the people."""
    z: float

    def margin_of(self, people: Any) -> Floats:
        """Half the width of the interval with this many people."""
        return np.asarray(self.z * self.deviation / np.sqrt(people))


@dataclass(frozen=True, slots=True)
class SharesPlan(Plan):
    """How many people each epsilon needs for an interval of a given width.

    Attributes
    ----------
    margin
        Half the width of the interval: 0.03 is plus or minus 3 points.
    share
        The share that is estimated; 0.5 is the worst case for two classes.
    rows
        One for each epsilon.
    """

    margin: float
    share: float
    classes: int
    level: float
    rows: tuple[SharesPlanRow, ...]

    @property
    def recommendation(self) -> str:
        """How many people each epsilon needs."""
        parts = [
            f"{'no privacy' if row.epsilon is None else f'epsilon {row.epsilon:g}'}: {row.people:,}"
            for row in self.rows
        ]
        return (
            f"People for ± {100 * self.margin:g} points ({100 * self.level:g}% interval of a share of {100 * self.share:g}%): "
            f"{'; '.join(parts)}."
        )

    def table(self) -> pl.DataFrame:
        """One row per epsilon (null: no privacy)."""
        columns = {
            "epsilon": pl.Series([row.epsilon for row in self.rows], dtype=pl.Float64),
            "people": [row.people for row in self.rows],
            "times_no_privacy": [row.times for row in self.rows],
        }
        return pl.DataFrame(columns)

    draw = draw_plan


def plan_shares(
    *,
    margin: float = 0.03,
    epsilons: Sequence[Number | None] = EPSILONS,
    classes: int = 2,
    share: float = 0.5,
    level: float = 0.95,
) -> SharesPlan:
    """How many people an estimate of a share needs, at each epsilon.

    Parameters
    ----------
    margin
        Half the width of the interval: 0.03 for plus or minus 3 points.
    epsilons
        Which to try; ``None`` (or ``"none"``) is no privacy, for comparison.
    classes
        How many possible answers there are.
    share
        The share to estimate, if it is about known; the default needs the most people with two classes.
    level
        The level of the interval.

    Notes
    -----
    The frequency f of a report is other + (keep - other) share, and the interval of the share has half the width
    z sqrt(f (1 - f) / n) / (keep - other): the Cramér–Rao limit, which the intervals of
    :func:`~peerveil.truth.shares.estimate_shares` reach.

    Examples
    --------
    >>> print(plan_shares(epsilons=["none", 1]).recommendation)
    People for ± 3 points (95% interval of a share of 50%): no privacy: 1,068; epsilon 1: 4,997.
    """
    number(margin, "margin", 1e-6, 0.5, want="half the width of the interval, from 0.000001 to 0.5, such as 0.03")
    number(share, "share", 0, 1, want="a share from 0 to 1")
    check_level(level)
    whole(classes, "classes", 2)
    exact = [
        read_epsilon_or_none(epsilon)
        for epsilon in ([epsilons] if isinstance(epsilons, (str, int, float)) else epsilons)
    ]
    if not exact or len(set(exact)) < len(exact):
        raise BadInput("epsilons", got=epsilons, want="at least one epsilon, and each once")
    z = float(ndtri((1 + level) / 2))
    base = z**2 * share * (1 - share) / margin**2
    rows = []
    for epsilon in exact:
        channel = Channel.of(epsilon, classes)
        frequency = channel.other + channel.contrast * share
        deviation = math.sqrt(frequency * (1 - frequency)) / channel.contrast
        people = (z * deviation / margin) ** 2
        if people > _MOST_PEOPLE:
            raise BadInput("epsilons", got=epsilon, want="a larger epsilon: no population has enough people")
        times = people / base if base > 0 else math.inf
        rows.append(SharesPlanRow(epsilon, max(math.ceil(people - 1e-9), 1), times, deviation, z))
    return SharesPlan(float(margin), float(share), int(classes), float(level), tuple(rows))
