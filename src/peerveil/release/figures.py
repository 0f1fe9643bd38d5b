"""Pictures of the release room."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from peerveil.report import COLOURS, logarithmic

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.release.mechanism import PublishedMeans
    from peerveil.release.plan import ReleasePlan


def draw_published(published: PublishedMeans, ax: Axes) -> None:
    """Sorted means against rank: what is published, where the truth can lie, and what was public anyway."""
    n = published.means.size
    share = 100 * (np.arange(n) + 0.5) / n
    region = published.region
    ax.fill_between(
        share, region.lower, region.upper, color=COLOURS["truth"], alpha=0.2, lw=0, label="possible by public data"
    )
    room = 0.35 * float(region.upper[-1] - region.lower[0])
    inside = np.clip(published.noisy, region.lower[0] - room, region.upper[-1] + room)
    shown = np.linspace(0, n - 1, min(n, 2000)).astype(int)
    ax.plot(
        share[shown],
        inside[shown],
        ".",
        ms=3,
        color=COLOURS["leak"],
        alpha=0.35,
        label="noisy input (clipped to the figure)",
    )
    ax.plot(
        share, published.expectation, color=COLOURS["accent"], ls="--", lw=1.5, label="expected from public data alone"
    )
    ax.plot(share, published.means, color=COLOURS["private"], lw=2, label="published")
    ax.set_xlabel("reviewers, from the lowest mean to the highest (%)")
    ax.set_ylabel(f"mean {published.weight}")
    ax.set_xlim(0, 100)
    ax.legend(loc="upper left", fontsize="small")


def draw_plan(plan: ReleasePlan, ax: Axes) -> None:
    """Expected error against epsilon: published (full lines) against public data alone (dashed)."""
    shades = [COLOURS["private"], COLOURS["good"], COLOURS["leak"], COLOURS["truth"]]
    for i, degree in enumerate(sorted({row.leniency for row in plan.rows})):
        rows = sorted((row for row in plan.rows if row.leniency == degree), key=lambda row: row.epsilon)
        colour = shades[i % len(shades)]
        epsilons = [row.epsilon for row in rows]
        ax.plot(
            epsilons, [row.shrinkage for row in rows], "o-", ms=4, color=colour, label=f"published, leniency {degree:g}"
        )
        ax.plot(epsilons, [row.expectation for row in rows], "--", lw=1, color=colour)
        ax.plot(epsilons, [row.projection for row in rows], ":", lw=1, color=colour)
    ax.plot([], [], "--", color="0.5", label="public data alone")
    ax.plot([], [], ":", color="0.5", label="projection only")
    logarithmic(ax.xaxis)
    logarithmic(ax.yaxis)
    ax.set_xlabel("epsilon (for one exchange of reviews)")
    ax.set_ylabel("expected error of a reviewer's mean")
    ax.legend(fontsize="small")
