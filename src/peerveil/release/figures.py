"""Figures of the release module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from peerveil.core.result import stamp_axes
from peerveil.report import COLORS, logarithmic

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.release.mechanism import PublishedMeans
    from peerveil.release.plan import ReleasePlan


# what a weight is called on an axis, and which way is which
_AXIS: Final = {
    "rating": "mean score",
    "miscalibration": "strictness (below 0: stricter)",
    "normalized": "mean normalized score",
    "subjectivity": "mean subjectivity",
}


def draw_published(published: PublishedMeans, ax: Axes) -> None:
    """Sorted means against rank: what is published, what public data allow, and what they predict.

    The noisy means are not drawn: they reach far beyond everything else, and would flatten it.
    """
    n = published.means.size
    share = 100 * (np.arange(n) + 0.5) / n
    region = published.region
    ax.fill_between(
        share, region.lower, region.upper, color=COLORS["truth"], alpha=0.25, lw=0, label="possible by public data"
    )
    ax.plot(share, published.means, color=COLORS["private"], lw=2.5, label="published")
    ax.plot(share, published.expectation, color=COLORS["accent"], ls=(0, (4, 2)), lw=1.6, label="expected by chance")
    label = _AXIS.get(published.weight, f"mean {published.weight}")
    ax.set(xlabel="reviewers, lowest to highest (%)", ylabel=label, xlim=(0, 100), ylim=_band(published))
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, fontsize="small")


def draw_histogram(published: PublishedMeans, ax: Axes) -> None:
    """How many reviewers lie where, as published, against what chance would give."""
    low, high = _band(published)
    bins = np.linspace(low, high, min(30, max(8, int(np.sqrt(published.means.size)) + 1)))
    ax.hist(published.means, bins=bins.tolist(), color=COLORS["private"], alpha=0.8, label="published")
    style = {"histtype": "step", "color": COLORS["accent"], "ls": "--", "lw": 1.6}
    ax.hist(published.expectation, bins=bins.tolist(), label="expected by chance", **style)  # type: ignore[arg-type]
    ax.set(xlabel=_AXIS.get(published.weight, f"mean {published.weight}"), ylabel="reviewers")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, fontsize="small")


def draw_release(published: PublishedMeans, left: Axes, right: Axes) -> None:
    """The histogram and the sorted means side by side, each with the mark if there is one."""
    draw_histogram(published, left)
    if published.mark:
        stamp_axes(left, published.mark)
    published.plot(right)


def _band(published: PublishedMeans) -> tuple[float, float]:
    """Where the curves lie, with a margin; the region of what is possible may reach beyond."""
    both = np.concatenate([published.means, published.expectation])
    low, high = float(both.min()), float(both.max())
    margin = 0.1 * (high - low) or 0.5
    return low - margin, high + margin


def draw_plan(plan: ReleasePlan, ax: Axes) -> None:
    """Expected error against epsilon: published (full lines) against public data alone (dashed)."""
    shades = [COLORS["private"], COLORS["good"], COLORS["leak"], COLORS["truth"]]
    for i, degree in enumerate(sorted({row.leniency for row in plan.rows})):
        rows = sorted((row for row in plan.rows if row.leniency == degree), key=lambda row: row.epsilon)
        color = shades[i % len(shades)]
        epsilons = [row.epsilon for row in rows]
        ax.plot(
            epsilons, [row.shrinkage for row in rows], "o-", ms=4, color=color, label=f"published, leniency {degree:g}"
        )
        ax.plot(epsilons, [row.expectation for row in rows], "--", lw=1, color=color)
        ax.plot(epsilons, [row.projection for row in rows], ":", lw=1, color=color)
    ax.plot([], [], "--", color="0.5", label="public data alone")
    ax.plot([], [], ":", color="0.5", label="projection only")
    logarithmic(ax.xaxis)
    logarithmic(ax.yaxis)
    ax.set(xlabel="epsilon (for one exchange of reviews)", ylabel="expected error of a reviewer's mean")
    ax.legend(fontsize="small")
