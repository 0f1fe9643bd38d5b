"""Figures of the audit, and its page."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from peerveil.report import COLORS, Page, figure_style, new_axes, svg
from peerveil.report.page import WORDS
from peerveil.timing.batches import posterior
from peerveil.timing.durations import in_words
from peerveil.timing.plan import intervals

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.data import Events
    from peerveil.timing.base import DelayMechanism
    from peerveil.timing.exposure import TimingAudit

_UNITS = {"days": 86_400, "hours": 3600, "minutes": 60}
SHADES = ("#2b7bba", "#c98a00", "#2e8b57", "#9b6bc7")  # distinct on light and on dark pages


def draw_waits(ax: Axes, events: Events, window: float, gap: float | None = None) -> None:
    """How long people wait between their posts on different threads: the peak on the left exposes them."""
    waits = np.maximum(intervals(events), 1.0)
    last = max(float(waits.max()), 2 * window, 10.0) * 1.01 if waits.size else 10.0
    edges = np.geomspace(1, last, 50 if waits.size else 2)
    ax.hist(waits[waits <= window], bins=edges.tolist(), color=COLORS["leak"], label="in one sitting")
    ax.hist(waits[waits > window], bins=edges.tolist(), color=COLORS["truth"], label="apart")
    ax.axvline(window, color=COLORS["accent"], linestyle="--", label=f"window, {in_words(window)}")
    if gap:
        ax.axvline(gap, color=COLORS["private"], linestyle="--", label=f"gap, {in_words(gap)}")
    marks = {1: "1 s", 60: "1 min", 3600: "1 h", 86_400: "1 day", 864_000: "10 days"}
    seconds = [second for second in marks if second <= edges[-1]]
    ax.set(xscale="log", xticks=seconds, xticklabels=[marks[second] for second in seconds])
    ax.minorticks_off()
    ax.set(xlabel="time from a person's post to their next one on another thread", ylabel="posts")
    ax.legend(loc="upper left", bbox_to_anchor=(0, 1.22), ncols=4, fontsize=9)


def draw_delays(ax: Axes, mechanism: DelayMechanism) -> None:
    """How long posts wait, by the protocol alone: the share that has appeared after each time."""
    last = mechanism.hold + min(mechanism.max_delay, 5 * mechanism.mean_batched)
    unit, seconds = next(((name, size) for name, size in _UNITS.items() if last >= 2 * size), ("seconds", 1))
    waits = np.linspace(0, 1.05 * last, 400)
    kind = "follow-ups" if mechanism.follow_ups_only else "posts of one sitting"
    for label, delay, color in ((kind, mechanism.batched, "leak"), ("all others", mechanism.unbatched, "private")):
        appeared = np.where(waits >= mechanism.hold, delay.below(waits - mechanism.hold), 0.0)
        ax.plot(waits / seconds, 100 * appeared, color=COLORS[color], label=label)
    ax.set(xlabel=f"{unit} after a post was written", ylabel="has appeared (%)", ylim=(0, 102), xlim=(0, None))
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, fontsize=9)


def draw_attacks(ax: Axes, audit: TimingAudit) -> None:
    """Precision against recall, before and after."""
    audit.raw.draw(ax, "no protection", color=COLORS["leak"])
    for trial, color in zip(audit.protected, SHADES, strict=False):
        trial.attack.draw(ax, f"epsilon {trial.mechanism.epsilon:g}", color=color)
    attacks = [audit.raw, *(trial.attack for trial in audit.protected)]
    values = [float(value) for attack in attacks for value in attack.precision[attack.recall > 0.01]]
    if values and 0 < min(values) < 0.1 * max(values):  # small values would be invisible on a linear axis
        ax.set_yscale("log")
        ax.set_ylim(0.5 * min(values), 2 * max(values))
    elif values and 0 < max(values) < 0.5:
        ax.set_ylim(0, 1.1 * max(values))
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, fontsize=9)


def draw_curves(ax: Axes, audit: TimingAudit) -> None:
    """The best attack on a pair, under its bound."""
    for trial, color in zip(audit.protected, SHADES, strict=False):
        trial.best_attack.draw(ax, f"epsilon {trial.mechanism.epsilon:g}", color=color)
        ax.plot(trial.known_order.type_one, trial.known_order.power, color=color, linestyle="--", linewidth=1)
    ax.plot([0, 1], [1, 0], color=COLORS["truth"], linewidth=1)
    ax.plot([], [], color=COLORS["truth"], linestyle="--", label="order known")
    ax.plot([], [], color=COLORS["truth"], linewidth=6, alpha=0.25, label="guaranteed bound")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, fontsize=9)


def draw_risk(ax: Axes, same_rate: float, other_rate: float) -> None:
    """Figure 2 with measured rates."""
    number = np.arange(2, 51)
    ax.plot(number, posterior(same_rate, other_rate, number), color=COLORS["leak"], label="arrived together")
    ax.plot(number, 1 / number, color=COLORS["truth"], linestyle="--", label="before looking")
    ax.set(xlabel="suspects", ylabel="probability of a correct guess", ylim=(0, 1.02))
    ax.legend()


class Sketch(NamedTuple):
    """A figure to be drawn on a number of axes, with its description and its caption."""

    draw: Callable[..., None]
    alt: str
    caption: str
    columns: int = 1


def audit_sketches(audit: TimingAudit, events: Events) -> list[Sketch]:
    """The figures of an audit: waits between posts, and both attacks if delays were tried."""

    def draw_both(left: Axes, right: Axes) -> None:
        draw_attacks(left, audit)
        draw_curves(right, audit)

    waits = Sketch(
        lambda ax: draw_waits(ax, events, audit.batches.window, audit.gap or None),
        "Histogram of waits between posts of one person on different threads.",
        "Waits between posts of one person on different threads; the left peak exposes people.",
    )
    attacks = Sketch(
        draw_both,
        "Left: how many pairs linked by time are correct, and how many true pairs are found. Right: power of the best test on "
        "a pair of posts.",
        "Left: linking posts by time, before and after. Right: the best test on one pair of posts (dashed: order known, pale: "
        "what the guarantee allows).",
        columns=2,
    )
    return [waits, attacks] if audit.protected else [waits]


def audit_page(audit: TimingAudit, events: Events) -> Page:
    """The audit as one page for the operator."""
    b = audit.batches
    waits, *attacks = audit_sketches(audit, events)
    with figure_style():
        page = Page("How exposed are people by when they post?", lead=audit.headline)
        page.paragraph(audit.summary())
        page.see_words()
        page.heading("What to do")
        for line in audit.advice:
            page.paragraph(line.text)
            if line.command:
                page.code(line.command)
        page.paragraph("For the operator only: this page states facts about the people in the log.")
        if audit.recommended is not None:
            guarantee = audit.recommended.mechanism.guarantee
            page.guarantee(guarantee.short, str(guarantee))
        page.heading("The leak")
        page.paragraph(audit.leak)
        _add(page, waits)
        if b.same_rate and not math.isnan(b.other_rate):
            sure = f"{100 * float(b.risk(audit.suspects)):.1f}% with {audit.suspects} suspects"
            caption = f"How sure an observer is after seeing two comments that close: {sure}."
            _add(page, Sketch(lambda ax: draw_risk(ax, b.same_rate, b.other_rate), caption, caption))
        if audit.protected:
            _add_trials(page, audit)
            _add(page, *attacks)
        page.heading("Other leaks in the log")
        if audit.leaks:
            rows = [[k.column, k.kind, f"{100 * k.agreement:.1f}%", k.scope, k.advice] for k in audit.leaks]
            page.table(["column", "kind", "follows arrival", "within", "what to do"], rows)
        else:
            page.paragraph("No serial number and no second timestamp in the file follows the order of arrival.")
        page.glossary(WORDS)
        page.footer("Created by `peerveil timing audit`. Delays were drawn to be measured; nothing was posted.")
    return page


def _add(page: Page, sketch: Sketch) -> None:
    axes = new_axes(height=3.2, columns=sketch.columns)
    sketch.draw(*axes)
    page.figure(svg(axes[0], sketch.alt), sketch.caption)


def _add_trials(page: Page, audit: TimingAudit) -> None:
    page.heading("What delays would do")
    page.paragraph(f"Outside the guarantee: {audit.outside_in_words}")
    page.paragraph(
        f"The gap is {in_words(audit.gap)}. Posts that follow a post of the same person on another thread wait longest; "
        "the tables show what that does at several strengths, in one random draw of the delays."
    )
    head, rows = audit.comparison()
    costs, attacks = [0, 1, 2, 3, 9, 10, 11], [0, 4, 5, 6, 7, 8, 12, 13]
    for columns in (costs, attacks):
        page.table([head[i] for i in columns], [[row[i] for i in columns] for row in rows])
    page.paragraph(
        "Links: every two posts that appear within some time of each other are taken for one person's; in each row the time is "
        "chosen so that half of the true pairs are found. Best test: how often the best possible test on one pair of comments "
        'is wrong when both kinds of error are equal (50% is guessing); "all history" counts lone comments further apart than '
        "the gap as well. "
        "Too early: replies that would appear before what they answer; causal posting holds them back. Overtaken: posts of a "
        "thread that appear before the one that came before them. Whole sitting: the epsilon at which all of it is linked."
    )
