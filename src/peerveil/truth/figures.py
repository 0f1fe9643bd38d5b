"""Figures of the truth module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from peerveil.report import COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.truth.agreement_result import Agreement
    from peerveil.truth.gold import GoldCheck
    from peerveil.truth.plan import TruthComparison, TruthPlan
    from peerveil.truth.publish import LabelsPreview
    from peerveil.truth.randomize import RandomizedAnswers
    from peerveil.truth.result import TruthResult

_MOST_BARS = 120
_GROUPS = 3  # of gold tasks, by confidence; ten tasks each if there are thirty
_MOST_GROUPS = 10


def draw_abilities(result: TruthResult, ax: Axes) -> None:
    """Abilities, sorted and without names, with gold tasks in intervals; a point's size grows with its answers."""
    order = np.argsort(result.abilities, kind="stable")
    chosen = order[np.linspace(0, order.size - 1, min(order.size, _MOST_BARS)).astype(int)]
    place = np.linspace(0, 100, chosen.size)
    ability = result.abilities[chosen]
    if result.ability_intervals is not None:
        low, high = result.ability_intervals[chosen].T
        ax.vlines(place, low, high, color=COLORS["private"], alpha=0.35, lw=1.5, label="95% interval")
    size = 6 + 30 * np.sqrt(result.loads[chosen] / max(1, int(result.loads.max())))
    label = "ability (larger: more answers)"
    ax.scatter(place, np.clip(ability, 0, 1), s=size, color=COLORS["private"], zorder=3, label=label)
    ax.axhline(1 / len(result.classes), color=COLORS["truth"], ls="--", lw=1, label="guessing")
    ax.set(ylabel="ability (share of correct answers)", ylim=(-0.02, 1.02))
    ax.set_xlabel("workers, from the lowest ability to the highest (%)")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, fontsize="small")


def draw_reliability(check: GoldCheck, ax: Axes) -> None:
    """Share of correct labels against confidence on the gold tasks, in groups of equal size, before and after calibration."""
    from peerveil.truth.gold import wilson

    groups = min(_MOST_GROUPS, max(_GROUPS, check.tasks // 20))
    series = (
        (check.model_confidence, "leak", "s", "before calibration"),
        (check.confidence, "private", "o", "calibrated"),
    )
    ax.plot([0, 1], [0, 1], color=COLORS["truth"], ls="--", lw=1, label="confidence = share correct")
    for confidence, color, marker, label in series:
        parts = np.array_split(np.argsort(confidence, kind="stable"), groups)
        x = [float(confidence[part].mean()) for part in parts]
        share = [float(check.right[part].mean()) for part in parts]
        bounds = [wilson(int(check.right[part].sum()), part.size) for part in parts]
        ax.vlines(x, *zip(*bounds, strict=True), color=COLORS[color], alpha=0.35, lw=1.5)
        ax.plot(x, share, marker, ms=7, color=COLORS[color], label=label)
    low = min(float(check.model_confidence.min()), float(check.confidence.min()), 1 - 1 / _GROUPS)
    ax.set(xlim=(max(0.0, low - 0.05), 1.02), ylim=(-0.02, 1.02))
    ax.set(xlabel="confidence of a label (mean of a group of gold tasks)", ylabel="share of correct labels")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, fontsize="small")


def draw_plan(plan: TruthPlan, ax: Axes) -> None:
    """Accuracy against answers per task: full lines ours, dotted lines majority."""
    shades = [COLORS["leak"], COLORS["accent"], COLORS["private"], COLORS["good"]]
    for i, epsilon in enumerate(plan.needed):
        rows = [row for row in plan.rows if row.epsilon == epsilon]
        x, color = [row.answers for row in rows], shades[i % len(shades)]
        accuracy, errors = [row.accuracy for row in rows], [row.error for row in rows]
        label = "no privacy" if epsilon is None else f"epsilon {epsilon:g}"
        ax.errorbar(x, accuracy, yerr=errors, marker="o", ms=4, color=color, label=label)
        ax.plot(x, [row.majority for row in rows], ":", lw=1, color=color)
    ax.plot([], [], ":", color="0.5", label="private majority")
    ax.axhline(plan.accuracy, color=COLORS["truth"], ls="--", lw=1)
    _finish(ax, sorted({row.answers for row in plan.rows}), "answers per task", "share of correct labels")


def draw_comparison(comparison: TruthComparison, ax: Axes) -> None:
    """Same labels and correct labels against epsilon, with two standard errors."""
    x = [row.epsilon for row in comparison.rows]
    same = [row.agreement for row in comparison.rows]
    bars = [2 * row.agreement_error for row in comparison.rows]
    ax.errorbar(x, same, yerr=bars, marker="o", ms=4, color=COLORS["private"], label="same label as without privacy")
    right = [row.accuracy for row in comparison.rows if row.accuracy is not None]
    if right and comparison.base_accuracy is not None:
        bars = [2 * row.accuracy_error for row in comparison.rows if row.accuracy_error is not None]
        ax.errorbar(x, right, yerr=bars, marker="s", ms=4, color=COLORS["good"], label="correct label")
        label = "correct label without privacy"
        ax.axhline(comparison.base_accuracy, color=COLORS["truth"], ls="--", lw=1, label=label)
    ax.set_ylim(top=1.02)
    _finish(ax, x, f"epsilon of one {comparison.unit}", "share of tasks")


def _finish(ax: Axes, ticks: Sequence[float], xlabel: str, ylabel: str) -> None:
    """A logarithmic axis with a tick at every setting that was tried."""
    ax.set(xscale="log", xlabel=xlabel, ylabel=ylabel)
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.legend(fontsize="small", loc="lower right")


def draw_classes(sent: RandomizedAnswers, ax: Axes) -> None:
    """Shares of the classes among the randomized answers, and estimated for the answers (the response undone)."""
    response = sent.response
    classes = list(response.labels or range(response.k))
    named = sent.answers.frame["label"].explode() if response.size > 1 else sent.answers.frame["label"]
    numbers = dict(named.value_counts().iter_rows())
    counts = np.array([numbers.get(label, 0) for label in classes], dtype=float)
    total = max(1.0, counts.sum() / response.size)
    estimate = np.clip(response.unbiased(counts) / total, 0, 1)
    place = np.arange(response.k)
    ax.bar(place - 0.2, counts / total, 0.38, color=COLORS["truth"], label="randomized answers")
    ax.bar(place + 0.2, estimate, 0.38, color=COLORS["private"], label="answers, estimated")
    ax.set_xticks(place, [name if len(name) < 16 else f"{name[:14]}…" for name in map(str, classes)])
    ax.set(ylabel="share", ylim=(0, 1.02))
    ax.legend(fontsize="small")


def draw_preview(preview: LabelsPreview, ax: Axes) -> None:
    """Same labels, correct labels and alpha with its typical interval, against epsilon."""
    x = [row.epsilon for row in preview.rows]
    same = [row.same for row in preview.rows]
    ax.plot(x, same, "o-", ms=4, color=COLORS["private"], label="same label as without privacy")
    right = [row.accuracy for row in preview.rows if row.accuracy is not None]
    if right:
        ax.plot(x, right, "s-", ms=4, color=COLORS["good"], label="correct label")
    known = [(row.epsilon, row.alpha, row.alpha_width / 2) for row in preview.rows if row.alpha_width is not None]
    if known:
        place, alpha, half = np.array(known, dtype=float).T
        label = "Krippendorff's alpha, typical 95% interval"
        ax.errorbar(place, alpha, yerr=half, fmt="D", ms=4, capsize=4, color=COLORS["accent"], label=label)
    if preview.alpha is not None:
        ax.axhline(preview.alpha, color=COLORS["truth"], ls="--", lw=1, label="alpha without privacy")
    ax.set_ylim(-0.05, 1.05)
    _finish(ax, x, f"epsilon of one {preview.unit}", "share of tasks, alpha")
    ax.legend(fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2)


def draw_agreement(result: Agreement, ax: Axes) -> None:
    """Coefficients with their intervals, and what one would read off the reports without correction."""
    names = {
        "Krippendorff's alpha": result.krippendorff,
        "Fleiss' kappa": result.fleiss,
        "agreeing pairs": result.observed,
    }
    place = np.arange(len(names))[::-1]
    values, lower, upper, raw = np.array(
        [[c.value, min(c.lower, c.value), max(c.upper, c.value), c.of_reports] for c in names.values()]
    ).T
    label = f"estimate, {100 * result.level:g}% interval"
    ax.errorbar(
        values, place, xerr=[values - lower, upper - values], fmt="o", color=COLORS["private"], capsize=4, label=label
    )
    if result.epsilon is not None:
        ax.plot(raw, place, "x", color=COLORS["truth"], ms=8, label="read off the reports, uncorrected")
    ax.set_yticks(place, list(names))
    ax.set(xlabel="agreement (1: complete; alpha and kappa 0: by chance)", ylim=(-0.6, len(names) - 0.4))
    ax.set_xlim(min(-0.02, float(lower.min()) - 0.02, float(raw.min()) - 0.02), 1.02)
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, fontsize="small")
