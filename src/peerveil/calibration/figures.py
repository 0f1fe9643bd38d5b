"""Figures of this module: each function is the ``draw`` method of its result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peerveil.report.figures import COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.calibration.decision import ChairSheet, ConferenceDecision, Decision
    from peerveil.calibration.fit import MiscalibrationFit
    from peerveil.calibration.frontier import Frontier
    from peerveil.calibration.plan import Tradeoff
    from peerveil.calibration.simulate import Simulation


def draw_frontier(frontier: Frontier, ax: Axes) -> None:
    """The trade-off, with what the scores alone leave as a dashed line."""
    conference, adversary = zip(*frontier.points, strict=True)
    _scores_alone(ax, frontier.end[1])
    if len(frontier.points) == 1:
        ax.plot(conference, adversary, "o", color=COLORS["private"], label="the only point worth taking")
    else:
        ax.plot(conference, adversary, color=COLORS["private"], linewidth=2, label="Pareto frontier")
        ends = [conference[0], conference[-1]], [adversary[0], adversary[-1]]
        ax.plot(*ends, "o", color=COLORS["private"], markersize=5)
    ax.set(
        xlabel="error of the conference",
        ylabel="error of the adversary",
        xlim=(min(0.0, conference[0]), max(conference[-1] * 1.08, 0.01)),
        ylim=(0.0, max(frontier.end[1] * 1.2, 0.01)),
    )
    ax.legend(loc="lower right", fontsize=9)


def _scores_alone(ax: Axes, error: float) -> None:
    """What the scores alone leave, as a dashed line."""
    ax.axhline(error, color=COLORS["truth"], linestyle="--", linewidth=1, label="scores alone")


def draw_decision(decision: Decision, ax: Axes) -> None:
    """A bar for every paper: accepted or not."""
    papers = range(decision.papers)
    chosen = set(decision.accepted)
    colors = [COLORS["good"] if paper in chosen else COLORS["truth"] for paper in papers]
    ax.bar(list(papers), [1.0 if paper in chosen else 0.25 for paper in papers], color=colors)
    ax.set_xlabel("paper")
    ax.set_xticks(list(papers))
    ax.set_yticks([0.25, 1.0], ["rejected", "accepted"])


def draw_simulation(simulation: Simulation, ax: Axes) -> None:
    """Guaranteed errors as lines, observed ones as points with five standard errors."""
    for place, check in enumerate((simulation.conference, simulation.adversary)):
        ax.hlines(check.guaranteed, place - 0.3, place + 0.3, color=COLORS["truth"], linewidth=2)
        width = 5 * check.standard_error
        ax.errorbar([place], [check.observed], yerr=[width], fmt="o", color=COLORS["private"], capsize=4)
    ax.set_xticks([0, 1], ["error of the conference", "error of the adversary"])
    ax.set_xlim((-0.6, 1.6))
    ax.set_ylim(bottom=0.0)
    ax.set_ylabel("guaranteed (line), observed (point)")


def draw_acceptance(decision: ConferenceDecision, ax: Axes) -> None:
    """How many papers are accepted and rejected."""
    accepted = int(decision.decisions["accepted"].sum())
    counts = [decision.decisions.height - accepted, accepted]
    bars = ax.barh(["rejected", "accepted"], counts, color=[COLORS["truth"], COLORS["good"]])
    ax.bar_label(bars, padding=3)
    ax.set_xlabel("papers")


def draw_protection(sheet: ChairSheet, ax: Axes) -> None:
    """How wrong the adversary is about each review, from worst protected to best, and what scores alone leave."""
    table = sheet.reviews.sort("from_scores")
    share = [(place + 0.5) / table.height for place in range(table.height)]
    ax.plot(share, table["adversary_error"], ".", color=COLORS["private"], markersize=5, label="after the decisions")
    # above the points, since the two often agree
    dashes = (0, (3, 2))
    ax.plot(share, table["from_scores"], color=COLORS["leak"], linestyle=dashes, linewidth=1.6, label="scores alone")
    ax.axhline(sheet.demand, color=COLORS["accent"], linewidth=1.2, label="demanded")
    ax.set(
        xlabel="reviews, sorted by what their scores give away",
        ylabel="how often the best guess is wrong",
        ylim=(0.0, 1.0),
    )
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, fontsize=9)


def draw_tradeoff(tradeoff: Tradeoff, ax: Axes) -> None:
    """What a conference pays, and how many writers the best adversary then misses; points are labeled with the demand."""
    ax.plot(tradeoff.conference_error, tradeoff.adversary_error, "o-", color=COLORS["private"], label="demand (number)")
    _scores_alone(ax, tradeoff.adversary_error[-1])
    labeled: list[float] = []
    span = float(tradeoff.conference_error[-1] - tradeoff.conference_error[0]) or 1.0
    for demand, x, y in zip(tradeoff.demands, tradeoff.conference_error, tradeoff.adversary_error, strict=True):
        if all(abs(x - other) > 0.05 * span for other in labeled):  # labels must not cover each other
            ax.annotate(f"{demand:g}", (x, y), textcoords="offset points", xytext=(5, -12), fontsize=8)
            labeled.append(float(x))
    ax.set(
        xlabel="expected share of papers on the wrong side",
        ylabel="share of writers that the adversary misses",
        ylim=(0.0, min(1.0, 1.2 * float(tradeoff.adversary_error.max()) + 0.02)),
    )
    ax.legend(loc="lower right", fontsize=9)


def draw_fit(fit: MiscalibrationFit, ax: Axes) -> None:
    """Scale and bias of every reviewer, with a standard deviation of each."""
    table = fit.table
    ax.errorbar(
        table["bias"],
        table["scale"],
        xerr=table["bias_deviation"],
        yerr=table["scale_deviation"],
        fmt="o",
        markersize=4,
        linewidth=0.6,
        color=COLORS["private"],
    )
    ax.set(xlabel="bias (lower is stricter)", ylabel="scale")
