"""Figures of the release module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from peerveil.core.result import stamp_axes
from peerveil.release.ask import BELOW
from peerveil.release.mechanism import points
from peerveil.report import COLORS, logarithmic

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.release.ask import StrictnessAnswer
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
    """Sorted means against rank: what is published, with its band, beside what chance alone would give."""
    n = published.means.size
    share = 100 * (np.arange(n) + 0.5) / n
    band = f"{published.level:.0%} band"
    ax.fill_between(share, published.lower, published.upper, color=COLORS["private"], alpha=0.2, lw=0, label=band)
    ax.plot(share, published.means, color=COLORS["private"], lw=2.5, label="published")
    ax.plot(share, published.expectation, color=COLORS["accent"], ls=(0, (4, 2)), lw=1.6, label="by chance")
    ax.set(
        xlabel="reviewers, lowest to highest (%)", ylabel=_axis(published.weight), xlim=(0, 100), ylim=_band(published)
    )
    ax.legend(loc="upper left", fontsize="small", frameon=False)  # the curves rise from the lower left


def draw_shares(published: PublishedMeans, ax: Axes) -> None:
    """The share of reviewers below each threshold, with intervals that assume nothing, beside what chance would give."""
    shares, n = published.shares, published.means.size
    below, low, high = (100 * shares[name].to_numpy() for name in ("below", "below_lower", "below_upper"))
    errors = np.maximum([below - low, high - below], 0.0)
    ax.errorbar(
        shares["threshold"], below, yerr=errors, fmt="o", ms=4, capsize=3, color=COLORS["private"],
        label=f"published, {published.level:.0%} interval",
    )  # fmt: skip
    chance = 100 * (np.arange(n) + 0.5) / n
    ax.plot(published.expectation, chance, color=COLORS["accent"], ls=(0, (4, 2)), lw=1.6, label="by chance")
    ax.set(xlabel=_axis(published.weight), ylabel="reviewers at or below (%)", ylim=(-2, 102))
    ax.legend(loc="upper left", fontsize="small", frameon=False)


def draw_release(published: PublishedMeans, left: Axes, right: Axes) -> None:
    """The shares and the sorted means side by side, each with the mark if there is one."""
    draw_shares(published, left)
    if published.mark:
        stamp_axes(left, published.mark)
    published.plot(right)


def draw_answer(answer: StrictnessAnswer, ax: Axes) -> None:
    """The share of strict reviewers in each group, with joint intervals."""
    places = np.arange(len(answer.groups))
    middle = np.array([100 * group.stricter.estimate for group in answer.groups])
    low, high = (
        np.array([100 * getattr(group.stricter, end) for group in answer.groups]) for end in ("lower", "upper")
    )
    ax.errorbar(
        middle,
        places,
        xerr=np.maximum([middle - low, high - middle], 0.0),
        fmt="o",
        ms=5,
        capsize=4,
        color=COLORS["private"],
        label=f"published, {answer.level:.0%} interval",
    )
    chance = [100 * group.stricter_by_chance for group in answer.groups]
    ax.plot(chance, places, "|", ms=14, mew=2, color=COLORS["accent"], label="by chance")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, fontsize="small")
    names = [group.name or "all reviewers" for group in answer.groups]
    ax.set_yticks(places, [f"{name} ({group.reviewers:,})" for name, group in zip(names, answer.groups, strict=True)])
    ax.set(xlabel=f"reviewers at least {points(answer.distance)}\n{BELOW[answer.weight]} average (%)", xlim=(0, None))
    ax.set_ylim(-0.6, len(places) - 0.4)
    ax.invert_yaxis()


def _axis(weight: str) -> str:
    return _AXIS.get(weight, f"mean {weight}")


def _band(published: PublishedMeans) -> tuple[float, float]:
    """Where the curves are, with a margin; the band may reach beyond."""
    both = np.concatenate([published.means, published.expectation])
    low, high = float(both.min()), float(both.max())
    margin = 0.1 * (high - low) or 0.5
    return low - margin, high + margin


def draw_plan(plan: ReleasePlan, ax: Axes) -> None:
    """Expected error against epsilon: published (full lines) against public data alone (dashed)."""
    shades = [COLORS["private"], COLORS["good"], COLORS["leak"], COLORS["truth"]]
    for i, strictness in enumerate(sorted({row.strictness for row in plan.rows})):
        rows = sorted((row for row in plan.rows if row.strictness == strictness), key=lambda row: row.epsilon)
        color, epsilons = shades[i % len(shades)], [row.epsilon for row in rows]
        label = f"strictness SD {strictness:.2g}"
        ax.plot(epsilons, [row.published for row in rows], "o-", ms=4, color=color, label=label)
        ax.plot(epsilons, [row.public for row in rows], "--", lw=1, color=color)
    ax.plot([], [], "--", color="0.5", label="public data alone")
    logarithmic(ax.xaxis)
    ax.set(xlabel="epsilon (for one exchange of reviews)", ylabel="expected error of a mean", ylim=(0, None))
    ax.legend(loc="lower left", fontsize="small")
