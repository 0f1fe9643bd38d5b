"""What protection would cost, before anything is decided: computed from what is public.

The true assignment never enters (:mod:`peerveil.calibration.conference` proves it), so a plan may be shown to anybody who may
see the scores, and spends nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from peerveil.calibration.conference import GROUP_SIZE, Conference
from peerveil.calibration.frontier import ENOUGH, Frontier, draw_ceiling
from peerveil.calibration.panel import Panel
from peerveil.core.errors import BadInput
from peerveil.core.exact import numbers, whole
from peerveil.core.progress import progress_bar
from peerveil.core.result import Plan
from peerveil.report.figures import COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.calibration.functions import Reviewer
    from peerveil.calibration.losses import Threshold
    from peerveil.core.arrays import Floats
    from peerveil.data import Reviews

_DEMANDS = (0.0, 0.2, 0.35, 0.5, 0.65, 0.8, 1.0)
_MOST_REVIEWS = 6  # solved as one panel, with 720 candidate assignments


@dataclass(frozen=True, slots=True)
class Tradeoff(Plan):
    """What protection costs a whole conference.

    Attributes
    ----------
    demands : array
        Adversary errors that are demanded.
    conference_error : array
        The expected share of papers on the wrong side of the line.
    adversary_error : array
        The share of writers that the best adversary is expected to miss.
    groups : int
        Over how many of the groups this was computed, and
    of : int
        of how many.
    """

    demands: Floats
    conference_error: Floats
    adversary_error: Floats
    groups: int
    of: int

    @property
    def recommendation(self) -> str:
        """The least demand that brings nearly all protection that can be had."""
        missed, cost = self.adversary_error, self.conference_error
        place = int((missed >= missed[0] + ENOUGH * (missed[-1] - missed[0]) - 1e-12).argmax())
        demand = f"Recommended: adversary_error={self.demands[place]:g}."
        if place == 0:
            return f"{demand} Asking for more protects nobody better here."
        return (
            f"{demand} The share of papers on the wrong side is then {cost[place]:.4f} instead of {cost[0]:.4f}, and the best "
            f"adversary misses {100 * missed[place]:.1f}% of the writers instead of {100 * missed[0]:.1f}% "
            f"(at most {100 * missed[-1]:.1f}%)."
        )

    def table(self) -> pl.DataFrame:
        """One row per demand: ``demand``, ``conference_error``, ``adversary_error``."""
        errors = {"conference_error": self.conference_error, "adversary_error": self.adversary_error}
        return pl.DataFrame({"demand": self.demands, **errors})

    def summary(self) -> str:
        """Both ends in one line."""
        cost, missed = self.conference_error, 100 * self.adversary_error
        start = f"conference error {cost[0]:.4f}, adversary misses {missed[0]:.1f}% of writers"
        if np.ptp(cost) < 1e-9 and np.ptp(self.adversary_error) < 1e-9:
            return f"nothing to trade: {start} at any demand"
        sampled = "" if self.groups == self.of else f" (estimated from {self.groups} of {self.of} groups)"
        end = f"demand {self.demands[-1]:g}: {cost[-1]:.4f}, {missed[-1]:.1f}%"
        return f"demand {self.demands[0]:g}: {start}; {end}{sampled}"

    def draw(self, ax: Axes) -> None:
        """What a conference pays, and how many writers the best adversary then misses; points are labeled with the demand."""
        ax.plot(self.conference_error, self.adversary_error, "o-", color=COLORS["private"], label="demand (number)")
        draw_ceiling(ax, self.adversary_error[-1])
        labeled: list[float] = []
        span = float(self.conference_error[-1] - self.conference_error[0]) or 1.0
        for demand, x, y in zip(self.demands, self.conference_error, self.adversary_error, strict=True):
            if all(abs(x - other) > 0.05 * span for other in labeled):  # labels must not cover each other
                ax.annotate(f"{demand:g}", (x, y), textcoords="offset points", xytext=(5, -12), fontsize=8)
                labeled.append(float(x))
        ax.set(
            xlabel="expected share of papers on the wrong side",
            ylabel="share of writers that the adversary misses",
            ylim=(0.0, min(1.0, 1.2 * float(self.adversary_error.max()) + 0.02)),
        )
        ax.legend(loc="lower right", fontsize=9)


def plan_decisions(
    reviews: Any,
    *,
    functions: Mapping[Any, Reviewer],
    noise: float,
    accept: int | Threshold,
    adversary: str = "paper",
    group_size: int = GROUP_SIZE,
    exactly: bool = True,
    exchange: str = "committees",
    demands: Sequence[float] = _DEMANDS,
    most_groups: int = 100,
    columns: Mapping[str, str] | None = None,
    progress: bool | None = None,
) -> Frontier | Tradeoff:
    """What protection would cost: exactly for a handful of papers, group by group for a conference.

    Up to six reviews, each by another reviewer, are solved as one panel in which anybody may have written any review: the
    plan is a :class:`Frontier`. Otherwise papers are put into groups as :class:`Conference` does: a :class:`Tradeoff`.

    Parameters
    ----------
    reviews, functions, noise, accept, group_size, exactly, exchange, columns
        As of a :class:`Conference`.
    adversary
        ``"paper"``: guesses who wrote any one review; ``"assignment"``: guesses all of it (for a panel).
    demands
        The adversary errors to try for a conference.
    most_groups
        At most so many groups are tried, evenly chosen.
    progress
        Whether to show a bar; ``None`` shows it on a terminal.

    Examples
    --------
    >>> from peerveil.calibration import Affine
    >>> from peerveil.data import Reviews
    >>> reviews = Reviews(paper=[1, 2, 3], reviewer=["ann", "bo", "cy"], score=[0.4, 0.1, 0.9])
    >>> people = {"ann": Affine(1.2, 0.3), "bo": Affine(0.8, -0.6), "cy": Affine(1.0, 0.4)}
    >>> plan = plan_decisions(reviews, functions=people, noise=0.4, accept=1)
    >>> print(plan.recommendation)  # doctest: +NORMALIZE_WHITESPACE
    Recommended: adversary_error=0.491. The conference error is then 0.4063 instead of 0.2272, for 90% of the
    protection that can be had (0.2548 to 0.5174).
    """
    conference = Conference(
        reviews,
        functions=functions,
        noise=noise,
        accept=accept,
        group_size=group_size,
        exactly=exactly,
        exchange=exchange,
        columns=columns,
    )
    check_adversary(conference.reviews, adversary)
    if not _is_panel(conference.reviews):
        return plan_conference(conference, demands=demands, most_groups=most_groups, progress=progress)
    frame = conference.reviews.frame
    people = sorted(frame["reviewer"].to_list(), key=str)
    scores = frame.sort("paper", maintain_order=True).group_by("paper", maintain_order=True).agg("score")["score"]
    panel = Panel(scores.to_list(), [functions[who] for who in people], noise, accept, adversary=adversary)
    return panel.frontier(progress=progress)


def check_adversary(reviews: Reviews, adversary: str) -> None:
    """Refuse an adversary who guesses everything, except against one panel."""
    if adversary != "paper" and not _is_panel(reviews):
        want = "paper: a conference is decided group by group, against the guess of one review"
        raise BadInput("adversary", got=adversary, want=want)


def _is_panel(reviews: Reviews) -> bool:
    """Whether there are so few reviews, each by another reviewer, that they are solved as one panel."""
    count = len(reviews.frame)
    return count <= _MOST_REVIEWS and reviews.frame["reviewer"].n_unique() == count


def plan_conference(
    conference: Conference, *, demands: Sequence[float] = _DEMANDS, most_groups: int = 100, progress: bool | None = None
) -> Tradeoff:
    """What conference and adversary err for several demands, from at most so many groups, evenly chosen."""
    levels = np.sort(numbers(demands, "demands", low=0, high=1, dimensions=(1,), want="probabilities"))
    count = min(whole(most_groups, "most_groups", 1), len(conference))
    chosen = np.unique(np.linspace(0, len(conference) - 1, count).astype(int)).tolist()
    cost, missed = np.zeros(len(levels)), np.zeros(len(levels))
    papers = reviews = 0
    with progress_bar("trying demands", len(chosen), show=progress) as advance:
        for group in conference.groups(chosen):
            strategies = [group.panel.strategy(adversary_error=level, capped=True) for level in levels.tolist()]
            cost += [strategy.conference_error * len(group.papers) for strategy in strategies]
            missed += [strategy.review_errors.sum() for strategy in strategies]
            papers += len(group.papers)
            reviews += len(group.panel.assignments[0])
            advance(1)
    return Tradeoff(levels, cost / papers, missed / reviews, len(chosen), len(conference))
