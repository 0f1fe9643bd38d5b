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


def wrong_side(error: float, plain: float | None) -> str:
    """The expected share of papers on the wrong side of the line, beside that of the plain mean."""
    return f"expected share of papers on the wrong side {error:.4f}, by the plain mean {plain:.4f}"


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
    conference_error, plain_error : float, optional
        The expected share of papers on the wrong side of the line, and that of the plain mean: computed from what is public.
        None with an epsilon, where both would depend on who wrote what.
    demand : float, optional
        The adversary error that was demanded.
    line : float, optional
        The quality from which papers are to be accepted.
    """

    decisions: pl.DataFrame
    conference_error: float | None = None
    plain_error: float | None = None
    demand: float | None = None
    line: float | None = None

    def summary(self) -> str:
        """How many papers are accepted, and how many are expected on the wrong side."""
        accepted = f"{self.decisions['accepted'].sum()} of {self.decisions.height} papers accepted"
        if self.conference_error is None:
            return accepted
        return f"{accepted}, line at quality {self.line:.3g}; {wrong_side(self.conference_error, self.plain_error)}"

    @property
    def protection(self) -> str:
        """What was demanded, and what is guaranteed for every review, in words."""
        if self.guarantee.exact_error is None:
            return self.guarantee.short.rstrip(".")
        reached = float(self.guarantee.exact_error)
        if self.demand is None:
            return (
                "Decisions were made from the scores alone and give nothing away beyond them; from the scores, the best guess of "
                f"a review's writer is wrong at least {math.floor(1000 * reached) / 10:g}% of the time"
            )
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
            "plain_error": self.plain_error,
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
    conference_error, least_error, plain_error : float
        The expected share of papers on the wrong side of the line, what it would be without privacy, and for the plain mean.
    demand : float, optional
        The adversary error that was demanded.
    simulated : bool
        Whether the decisions were drawn in a simulation.
    """

    operator_only: ClassVar[bool] = True

    reviews: pl.DataFrame = field(repr=False)
    conference_error: float
    least_error: float
    plain_error: float
    demand: float | None
    simulated: bool = False

    @property
    def mark(self) -> str | None:
        """The words that must stand beside a simulation."""
        return SIMULATION_MARK if self.simulated else None

    @property
    def named(self) -> float:
        """The share of writers that the adversary names right after the decisions: at most, if demanded of every decision."""
        return 1.0 - float(np.mean(self.reviews["adversary_error"].to_numpy()))

    @property
    def named_from_scores(self) -> float:
        """The same from the published scores alone."""
        return 1.0 - float(np.mean(self.reviews["from_scores"].to_numpy()))

    def summary(self) -> str:
        """What is settled, what privacy costs, what an adversary can still guess."""
        papers = self.reviews.unique("paper")
        protected = int((self.reviews["adversary_error"] >= (self.demand or 0) - 1e-9).sum())
        demanded = f"{protected} of {self.reviews.height} reviews protected as demanded, the others as far as their scores allow"
        return (
            f"{papers['settled'].sum()} of {papers.height} papers settled whoever reviewed them; "
            f"{wrong_side(self.conference_error, self.plain_error)}, without privacy {self.least_error:.4f}; "
            f"{'' if self.demand is None else demanded + '; '}the best adversary names {100 * self.named:.1f}% of the writers "
            f"({100 * self.named_from_scores:.1f}% from scores alone)"
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
        if self.demand is not None:
            ax.axhline(self.demand, color=COLORS["accent"], linewidth=1.2, label="demanded")
        ax.set(
            xlabel="reviews, sorted by what their scores give away",
            ylabel="how often the best guess is wrong",
            ylim=(0.0, 1.0),
        )
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, fontsize=9)


@dataclass(frozen=True, kw_only=True)
class LotterySheet(Pictured):
    """How likely every paper was accepted: for the chair alone, as it depends on who wrote what.

    Attributes
    ----------
    papers : polars.DataFrame
        One row per paper: ``paper``, ``accepted``, ``plain_mean``, ``by_plain_mean`` (whether the plain mean would accept it),
        ``chance`` and ``among_best`` (how likely it is accepted, and truly among the best, given who wrote what).
    best_possible : float
        The expected share of the truly best papers among those that open calibration would accept.
    """

    operator_only: ClassVar[bool] = True

    papers: pl.DataFrame = field(repr=False)
    best_possible: float
    simulated: bool = False

    @property
    def mark(self) -> str | None:
        """The words that must stand beside a simulation."""
        return SIMULATION_MARK if self.simulated else None

    def figures(self) -> dict[str, float]:
        """The expected share of the truly best papers that are accepted: by the lottery, the plain mean and open calibration."""
        best = self.papers["among_best"].to_numpy()
        places = max(float(self.papers["accepted"].sum()), 1.0)
        lottery, plain = (float(self.papers[name].to_numpy() @ best) / places for name in ("chance", "by_plain_mean"))
        return {"best_accepted": lottery, "best_by_plain_mean": plain, "best_without_privacy": self.best_possible}

    def summary(self) -> str:
        """The three shares in one line."""
        shares = self.figures()
        return (
            f"expected share of the truly best papers that are accepted {shares['best_accepted']:.4f}, by the plain mean "
            f"{shares['best_by_plain_mean']:.4f}, without privacy {shares['best_without_privacy']:.4f}"
        )

    def frame(self) -> pl.DataFrame:
        """One row per paper."""
        return self.papers

    def draw(self, ax: Axes) -> None:
        """How likely each paper was accepted, against its plain mean."""
        for accepted, color, label in ((False, "truth", "rejected"), (True, "good", "accepted")):
            part = self.papers.filter(self.papers["accepted"] == accepted)
            ax.plot(part["plain_mean"], part["chance"], "o", ms=4, color=COLORS[color], label=label)
        ax.set(xlabel="plain mean of scores", ylabel="chance to be accepted", ylim=(-0.02, 1.02))
        ax.legend(loc="upper left", fontsize=9)
