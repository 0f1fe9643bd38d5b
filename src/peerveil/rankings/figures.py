"""Figures of the rankings module."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from peerveil.rankings.laws import NoisyLaw
from peerveil.report import COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.rankings.compare import RankingComparison
    from peerveil.rankings.consensus import Consensus
    from peerveil.rankings.local import RandomizedRankings
    from peerveil.rankings.plan import PowerCurve
    from peerveil.rankings.uniformity import UniformityTest

_NOUNS = {
    "friedman": "Friedman's statistic",
    "rank-norm": "length of the summed rankings",
    "clipped-norm": "clipped length of the summed rankings",
    "pairs-norm": "length of the pair sums",
    "clipped-batches": "summed clipped concordance of batches",
    "local": "mean squared sum of answers",
}


def draw_test(test: UniformityTest, ax: Axes) -> None:
    """The null's density, where rejection begins, and what was observed."""
    x, y = null_curve(test.null)
    reach = [test.statistic, test.critical] if math.isfinite(test.critical) else [test.statistic]
    low, high = min([x[0], *reach]), max([x[-1], *reach])
    margin = 0.03 * (high - low or 1.0)
    ax.fill_between(x, y, color=COLORS["truth"], alpha=0.35, lw=0, label="if rankings were chance")
    if math.isfinite(test.critical):
        beyond = x >= test.critical
        ax.fill_between(x[beyond], y[beyond], color=COLORS["leak"], alpha=0.6, lw=0)
        ax.axvline(
            test.critical, color=COLORS["leak"], ls="--", lw=1.2, label=f"rejected beyond (level {test.level:g})"
        )
    color = COLORS["private"] if test.guarantee.private else COLORS["accent"]
    p = f"{test.pvalue:.2g}" if test.pvalue >= 1e-6 else "below 0.000001"
    ax.axvline(test.statistic, color=color, lw=2.2, label=f"observed (p {'=' if test.pvalue >= 1e-6 else ''} {p})")
    noise = "" if test.noise_scale is None else ", with noise"
    ax.set(xlabel=_NOUNS[test.method] + noise, xlim=(low - margin, high + margin))
    ax.set(ylabel="how likely", ylim=(0, None), yticks=[])
    ax.legend(fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3)


def null_curve(null: Any) -> tuple[Any, Any]:
    """Points of the null's density."""
    law = null.law if isinstance(null, NoisyLaw) else null
    ends = np.searchsorted(np.cumsum(law.chances), [1e-4, 1 - 1e-4])
    low, high = law.values[np.minimum(ends, law.values.size - 1)].tolist()
    if isinstance(null, NoisyLaw):
        grid = np.linspace(low - 5 * null.scale, high + 5 * null.scale, 300)
        return grid, null.density(grid)
    if high <= low:
        high = low + 1
    bins = min(60, max(5, law.values.size))
    height, edges = np.histogram(law.values, bins=bins, range=(low, high), weights=law.chances, density=True)
    return np.repeat(edges, 2)[1:-1], np.repeat(height, 2)


def draw_randomized(randomized: RandomizedRankings, ax: Axes) -> None:
    """The share of answers that say yes by question, or of names as first by item, with what chance alone would give."""
    counts = randomized.counts()
    ax.axhline(0.5, color=COLORS["truth"], ls="--", lw=1.2, label="if rankings were chance")
    style = {"color": COLORS["private"], "ls": "", "marker": "o", "capsize": 3}
    if randomized.protocol.ask == "name":
        first, last = counts[::2].sum(axis=0), counts[1::2].sum(axis=0)
        shares, total, noun = first, first + last, "item"
    else:
        shares, total, noun = counts[:, 1], counts.sum(axis=1), "question"
    shares = [y / n if n else math.nan for n, y in zip(total.tolist(), shares.tolist(), strict=True)]
    bars = [1.96 * math.sqrt(0.25 / n) if n else math.nan for n in total.tolist()]
    places = range(1, len(shares) + 1)
    ax.errorbar(places, shares, yerr=bars, label="answers, 95% interval", **style)  # type: ignore[arg-type]
    if noun == "item":
        ax.set(ylabel="share of its names that are as one of the first")
        ax.set_xticks(
            places, randomized.protocol.names or list(map(str, range(len(shares)))), rotation=30, parse_math=False
        )
    else:
        ax.set(ylabel="share of randomized answers that say yes", xticks=list(places))
    ax.set(xlabel=noun, ylim=(0, 1))
    ax.legend(fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2)


def draw_power(curve: PowerCurve, ax: Axes) -> None:
    """Power against the number of people, one line per test."""
    shades = [COLORS["private"], COLORS["good"], COLORS["accent"], COLORS["leak"], COLORS["truth"]]
    for i, method in enumerate(dict.fromkeys(row.method for row in curve.rows)):
        rows = [row for row in curve.rows if row.method == method]
        people, power, error = zip(*((row.rankings, row.power, row.error) for row in rows), strict=True)
        ax.errorbar(people, power, yerr=error, color=shades[i % 5], marker="o", ms=3.5, label=method)
    ax.axhline(curve.wanted, color="0.5", ls=":", lw=1)
    ax.text(1.0, curve.wanted, f" {curve.wanted:g}", transform=ax.get_yaxis_transform(), va="center", fontsize=8)
    if len({row.rankings for row in curve.rows}) > 1:
        ax.set_xscale("log")
    goal = f"power at level {curve.level:g}"
    if curve.first is not None:
        goal = (
            "probability that the first is right"
            if curve.first == 1
            else f"probability that the first {curve.first} are right"
        )
    ax.set(xlabel="people", ylabel=goal, ylim=(0, 1.02))
    ax.legend(fontsize="small", loc="best")


def draw_consensus(result: Consensus, ax: Axes) -> None:
    """Scores as dots with simultaneous intervals, the best item on top; long lists show the first 40."""
    shown = result.order[:40]
    places = np.arange(len(shown))
    scores = np.array([result.scores[item] for item in shown])
    low, high = np.array([result.score_intervals[item] for item in shown]).T
    color = COLORS["private"] if result.guarantee.private else COLORS["accent"]
    ax.errorbar(
        scores, places, xerr=np.maximum([scores - low, high - scores], 0.0), fmt="o", ms=5, capsize=3, color=color
    )
    ranks = [result.rank_intervals[item] for item in shown]
    labels = [
        f"{item}  ({low} to {high})" if low < high else f"{item}  ({low})"
        for item, (low, high) in zip(shown, ranks, strict=True)
    ]
    ax.set_yticks(places, labels, parse_math=False)
    ax.invert_yaxis()
    is_strength = result.method in ("bradley-terry", "plackett-luce")
    unit = "strength" if is_strength else "places above the middle, on average"
    ax.set(xlabel=f"{unit} ({result.level:.0%} simultaneous intervals)")


def draw_comparison(result: RankingComparison, ax: Axes) -> None:
    """How many places items moved, with simultaneous intervals; long lists show the 40 that moved most."""
    shown = sorted(result.differences, key=lambda item: -abs(result.differences[item]))[:40]
    shown.sort(key=lambda item: -result.differences[item])
    places, moved = np.arange(len(shown)), set(result.moved)
    differences = np.array([result.differences[item] for item in shown])
    low, high = np.array([result.intervals[item] for item in shown]).T
    color = COLORS["private"] if result.guarantee.private else COLORS["accent"]
    for certain, style in ((True, color), (False, COLORS["truth"])):
        chosen = np.array([(item in moved) is certain for item in shown])
        if chosen.any():
            errors = [(differences - low)[chosen], (high - differences)[chosen]]
            label = "moved for certain" if certain else "may not have moved"
            ax.errorbar(
                differences[chosen], places[chosen], xerr=errors, fmt="o", ms=5, capsize=3, color=style, label=label
            )
    ax.axvline(0, color="0.6", lw=0.8)
    ax.set_yticks(places, [str(item) for item in shown], parse_math=False)
    ax.invert_yaxis()
    ax.set(xlabel=f"places better in the second group ({result.confidence:.0%} simultaneous intervals)")
    ax.legend(fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2)
