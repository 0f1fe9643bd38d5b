"""Planning delays from an earlier log: the gap, and how long posts would wait under each mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.core.result import Plan
from peerveil.timing.choose import choose_gap, choose_gaps, covered
from peerveil.timing.durations import in_words, percent, read_duration
from peerveil.timing.follow_up import FollowUp
from peerveil.timing.reading import read_log
from peerveil.timing.unbounded import Exponential, Staircase
from peerveil.timing.zero_inflated import ZeroInflatedUniform

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes

    from peerveil.core.exact import Number
    from peerveil.timing.durations import Duration
    from peerveil.timing.mechanism import DelayMechanism

PERCENTILE: Final = 50.0
"""Of the history, where neither a percentile nor a cross-over is asked for."""


@dataclass(frozen=True)
class DelayCost:
    """How long posts wait under one mechanism, in seconds, holds included.

    Attributes
    ----------
    mechanism : str
        The name of its class.
    mean_batched, mean_unbatched : float
        The expected delay of a batched comment (for :class:`FollowUp`: a follow-up), and of any other.
    max_delay : float
        The longest delay; infinity if there is none.
    """

    mechanism: str
    mean_batched: float
    mean_unbatched: float
    max_delay: float

    @classmethod
    def of(cls, mechanism: DelayMechanism) -> DelayCost:
        """The closed forms of a mechanism."""
        delays = (mechanism.mean_batched, mechanism.mean_unbatched, mechanism.max_delay)
        return cls(type(mechanism).__name__, *(mechanism.hold + delay for delay in delays))


@dataclass(frozen=True)
class DelayPlan(Plan):
    """What :func:`plan_delays` found.

    Attributes
    ----------
    epsilon, window : float
        The guarantee for a pair of comments, and the seconds of one sitting.
    gap : float
        Seconds: how far apart lone comments may be and still be covered.
    covered : float
        The share of history that the gap covers.
    mechanisms : tuple of DelayCost
        How long posts would wait, the recommended mechanism first.
    per : str or None
        The column whose values have a gap of their own in ``gaps``.
    gaps : dict
        The gap of each value of ``per`` in seconds, as :func:`peerveil.timing.post` takes them.
    """

    epsilon: float
    window: float
    gap: float
    covered: float
    mechanisms: tuple[DelayCost, ...]
    per: str | None
    gaps: dict[Any, float]

    @property
    def recommendation(self) -> str:
        """The gap and the mechanism, and how long posts would wait."""
        best = self.mechanisms[0]
        return (
            f"Recommended: {best.mechanism} with epsilon {self.epsilon:g} and a gap of {in_words(self.gap)}, which covers "
            f"{percent(self.covered)} of the history. Follow-ups wait {in_words(best.mean_batched)} on average, other posts "
            f"{in_words(best.mean_unbatched)}, no post longer than {in_words(best.max_delay)}."
        )

    def __str__(self) -> str:
        return self.summary()

    def table(self) -> pl.DataFrame:
        """One row per mechanism, delays in seconds; ``max_delay`` is null where there is no longest delay."""
        columns = ("mechanism", "mean_batched", "mean_unbatched", "max_delay")
        rows = {name: [getattr(cost, name) for cost in self.mechanisms] for name in columns}
        rows["max_delay"] = [value if math.isfinite(value) else None for value in rows["max_delay"]]
        return pl.DataFrame(rows, schema_overrides={"max_delay": pl.Float64})

    def comparison(self) -> tuple[list[str], list[list[str]]]:
        """The mechanisms in words: column heads, and one row per mechanism."""
        rows = [
            [cost.mechanism, *map(in_words, (cost.mean_batched, cost.mean_unbatched, cost.max_delay))]
            for cost in self.mechanisms
        ]
        return ["mechanism", "batched posts, mean", "other posts, mean", "longest"], rows

    def gaps_frame(self) -> pl.DataFrame:
        """The gap of each value of ``per``, as :func:`peerveil.timing.choose.read_gaps` reads it from a CSV file."""
        return pl.DataFrame({str(self.per): [str(name) for name in self.gaps], "gap": list(self.gaps.values())})

    def draw(self, ax: Axes) -> None:
        """Mean delays under each mechanism."""
        place = np.arange(len(self.mechanisms))
        kinds = (("mean_batched", "batched", "#c98a00"), ("mean_unbatched", "others", "#2b7bba"))
        for shift, (name, label, color) in zip((-0.2, 0.2), kinds, strict=True):
            minutes = [getattr(cost, name) / 60 for cost in self.mechanisms]
            ax.bar(place + shift, minutes, width=0.4, label=label, color=color)
        ax.set_xticks(place, [cost.mechanism for cost in self.mechanisms])
        ax.set_ylabel("mean delay in minutes")
        ax.legend()


def plan_delays(
    history: Any,
    *,
    epsilon: Number = "1",
    window: Duration = 300,
    percentile: float | None = None,
    crossover: float | None = None,
    per: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> DelayPlan:
    """Choose a gap from history, and compute how long posts would wait under each mechanism.

    Parameters
    ----------
    history
        An earlier log (Events, a pandas or Polars frame, or a file name), never the one to be posted: the gap is part of
        the public protocol, and would tell about it.
    epsilon
        The guarantee for a pair of comments.
    window
        Seconds: comments of one person on different threads this close are one sitting.
    percentile, crossover
        Cover this percentage of the history (by default 50), or leave every test this cross-over error: see
        :func:`choose_gap`.
    per
        Also choose a gap for each value of this column: ``"thread"``, or another column of the log.
    columns
        Our names for columns that a frame or file calls otherwise: ``{"actor": "user"}``.

    Examples
    --------
    >>> from peerveil.data import synthetic_conference
    >>> plan = plan_delays(synthetic_conference(papers=60, reviewers=40, seed=1).events, percentile=25)
    >>> plan.table().columns, plan.covered >= 0.25
    (['mechanism', 'mean_batched', 'mean_unbatched', 'max_delay'], True)
    >>> print(plan.recommendation)  # doctest: +ELLIPSIS
    Recommended: FollowUp with epsilon 1 and a gap of 33 h 13 min, which covers ...
    """
    log = read_log(history, "history", columns=columns, group=per)
    seconds = read_duration(window, "window", zero=True) / 1e9
    if percentile is None and crossover is None:
        percentile = PERCENTILE
    wanted: dict[str, Any] = {
        "percentile": percentile,
        "crossover": crossover,
        "epsilon": None if crossover is None else epsilon,
        "beta": seconds,
    }
    gap = choose_gap(log, **wanted)
    gaps = {}
    if per is not None:
        gaps = choose_gaps(log, per=per, between="thread" if per == "thread" else "actor", **wanted)
    kinds: tuple[Any, ...] = (FollowUp, ZeroInflatedUniform, Staircase, Exponential)
    mechanisms: list[DelayMechanism] = [kind(epsilon=epsilon, gap=gap, beta=seconds) for kind in kinds]
    return DelayPlan(
        epsilon=mechanisms[0].epsilon,
        window=seconds,
        gap=gap,
        covered=covered(log, gap=gap, beta=seconds),
        mechanisms=tuple(map(DelayCost.of, mechanisms)),
        per=per,
        gaps=gaps,
    )
