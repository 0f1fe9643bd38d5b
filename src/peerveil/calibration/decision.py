"""What deciding hands out: decisions for everybody, and for the chair alone how well each review is protected."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from peerveil.core.guarantee import SIMULATION_MARK
from peerveil.core.result import Pictured, Result
from peerveil.report.figures import COLORS

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes


@dataclass(frozen=True, kw_only=True)
class Decision(Result):
    """What is published: which papers are accepted."""

    accepted: tuple[int, ...]
    papers: int

    def summary(self) -> str:
        """Which papers are accepted, counted from 0."""
        return f"accepted of {self.papers} papers: {', '.join(map(str, self.accepted)) or 'none'}"

    def draw(self, ax: Axes) -> None:
        """A bar for every paper: accepted or not."""
        papers = list(range(self.papers))
        accepted = np.isin(papers, self.accepted)
        ax.bar(
            papers, np.where(accepted, 1.0, 0.25), color=np.where(accepted, COLORS["good"], COLORS["truth"]).tolist()
        )
        ax.set(xlabel="paper", xticks=papers, yticks=[0.25, 1.0], yticklabels=["rejected", "accepted"])


@dataclass(frozen=True, kw_only=True)
class ConferenceDecision(Result):
    """Decisions for every paper: may be published.

    Attributes
    ----------
    decisions : polars.DataFrame
        ``paper``, ``accepted``.
    conference_error : float
        The expected share of papers on the wrong side of the line.
    demand : float
        The adversary error that was demanded.
    line : float
        The quality from which papers are to be accepted.
    """

    decisions: pl.DataFrame
    conference_error: float
    demand: float
    line: float

    def summary(self) -> str:
        """How many papers are accepted, and how many are expected on the wrong side."""
        return (
            f"{self.decisions['accepted'].sum()} of {self.decisions.height} papers accepted, line at quality "
            f"{self.line:.3g}; expected share of papers on the wrong side {self.conference_error:.4f}"
        )

    @property
    def protection(self) -> str:
        """What was demanded, and what is guaranteed for every review, in words."""
        reached = float(self.guarantee.exact_error or 0)
        shortfall = "" if reached >= self.demand else ", since the scores alone reveal some writers"
        return (
            f"The best guess of a review's writer should be wrong {100 * self.demand:.3g}% of the time; guaranteed for "
            f"every review: {math.floor(1000 * reached) / 10:g}%{shortfall}"
        )

    def frame(self) -> pl.DataFrame:
        """The decisions: one row per paper."""
        return self.decisions

    def figures(self) -> dict[str, Any]:
        """The decision in a few figures."""
        return {
            "accepted": int(self.decisions["accepted"].sum()),
            "papers": self.decisions.height,
            "line": self.line,
            "conference_error": self.conference_error,
        }

    def draw(self, ax: Axes) -> None:
        """How many papers are accepted and rejected."""
        accepted = int(self.decisions["accepted"].sum())
        counts = [self.decisions.height - accepted, accepted]
        ax.bar_label(ax.barh(["rejected", "accepted"], counts, color=[COLORS["truth"], COLORS["good"]]), padding=3)
        ax.set_xlabel("papers")


@dataclass(frozen=True, kw_only=True)
class ChairSheet(Pictured):
    """How well each review is protected, with its writer: for the chair alone.

    Only the column ``reviewer`` depends on who wrote what; the errors are functions of the scores, the functions and the
    committees of a group. They stay with the chair all the same: they name the reviews that are easiest to attack, and the
    committees, which the guarantee assumes to be known, are not published.

    Attributes
    ----------
    reviews : polars.DataFrame
        One row per review: ``group``, ``paper``, ``reviewer``, ``settled``, ``adversary_error``, ``from_scores``.
    conference_error, least_error : float
        The expected share of papers on the wrong side of the line, and what it would be without privacy.
    demand : float
        The adversary error that was demanded.
    simulated : bool
        Whether the decisions were drawn in a simulation.
    """

    operator_only: ClassVar[bool] = True

    reviews: pl.DataFrame = field(repr=False)
    conference_error: float
    least_error: float
    demand: float
    simulated: bool = False

    @property
    def mark(self) -> str | None:
        """The words that must stand beside a simulation."""
        return SIMULATION_MARK if self.simulated else None

    @property
    def named(self) -> float:
        """The share of writers that the adversary is expected to name right after the decisions."""
        return 1.0 - float(np.mean(self.reviews["adversary_error"].to_numpy()))

    @property
    def named_from_scores(self) -> float:
        """The same from the published scores alone."""
        return 1.0 - float(np.mean(self.reviews["from_scores"].to_numpy()))

    def summary(self) -> str:
        """What is settled, what privacy costs, what an adversary can still guess."""
        papers = self.reviews.unique("paper")
        protected = int((self.reviews["adversary_error"] >= self.demand - 1e-9).sum())
        return (
            f"{papers['settled'].sum()} of {papers.height} papers settled whoever reviewed them; expected share of papers on "
            f"the wrong side {self.conference_error:.4f} (without privacy {self.least_error:.4f}); {protected} of "
            f"{self.reviews.height} reviews protected as demanded, the others as far as their scores allow; the best "
            f"adversary names {100 * self.named:.1f}% of the writers ({100 * self.named_from_scores:.1f}% from scores alone)"
        )

    def frame(self) -> pl.DataFrame:
        """One row per review. It names reviewers."""
        return self.reviews

    def figures(self) -> dict[str, Any]:
        """The sheet in a few figures."""
        return {
            "settled": int(self.reviews.unique("paper")["settled"].sum()),
            "least_error": self.least_error,
            "writers_named": self.named,
            "writers_named_from_scores": self.named_from_scores,
        }

    def draw(self, ax: Axes) -> None:
        """How wrong the adversary is about each review, from worst protected to best, and what scores alone leave."""
        table = self.reviews.sort("from_scores")
        share = [(place + 0.5) / table.height for place in range(table.height)]
        ax.plot(share, table["adversary_error"], ".", color=COLORS["private"], ms=5, label="after the decisions")
        # above the points, since the two often agree
        ax.plot(share, table["from_scores"], color=COLORS["leak"], ls=(0, (3, 2)), lw=1.6, label="scores alone")
        ax.axhline(self.demand, color=COLORS["accent"], linewidth=1.2, label="demanded")
        ax.set(
            xlabel="reviews, sorted by what their scores give away",
            ylabel="how often the best guess is wrong",
            ylim=(0.0, 1.0),
        )
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, fontsize=9)
