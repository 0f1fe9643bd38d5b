"""Figures of shares: intervals by class, by group, for a cross table, a regression and a plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from peerveil.report import COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_SHOWN = 30
_LONGEST = 18


def short(name: Any) -> str:
    """A name that fits beside a figure."""
    text = str(name)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _points(ax: Axes, place: Any, ends: Any, color: str, label: str | None = None) -> None:
    """Estimates with their intervals, on horizontal lines: ``ends`` are the values and the ends of the intervals."""
    values, lower, upper = ends
    ax.hlines(place, lower, upper, color=color, lw=2.5, alpha=0.45)
    ax.plot(values, place, "o", color=color, ms=6, label=label, zorder=3)


def _rows(ax: Axes, names: Sequence[Any]) -> None:
    """One name per line, the first on top."""
    ax.set_yticks(range(len(names)), [short(name) for name in names])
    ax.set_ylim(len(names) - 0.5, -0.5)


def _shares_axis(ax: Axes, upper: float, xlabel: str) -> None:
    """An axis of shares from 0, as percentages."""
    ax.set_xlim(-0.01, min(1.01, 1.08 * upper + 0.02))
    ax.xaxis.set_major_formatter(lambda value, _: f"{100 * value:g}%")
    ax.set_xlabel(xlabel)
    ax.grid(axis="x", color=COLORS["truth"], alpha=0.25, lw=0.8)


def draw_shares(result: Any, ax: Axes) -> None:
    """The share of each class with its interval, the largest first where there are many; of numbers the mean."""
    if result.are_levels:
        _points(ax, [0], ([end] for end in result.mean), COLORS["private"])
        _rows(ax, ["mean"])
        ax.set(xlim=(result.classes[0], result.classes[-1]), xlabel=f"mean, with its {100 * result.level:g}% interval")
        ax.grid(axis="x", color=COLORS["truth"], alpha=0.25, lw=0.8)
        return
    order = np.arange(len(result.classes))
    if len(order) > _MOST_SHOWN:
        order = np.argsort(-result.shares, kind="stable")[:_MOST_SHOWN]
    lower, upper = result.lower[order], result.upper[order]
    _points(ax, np.arange(order.size), (result.shares[order], lower, upper), COLORS["private"])
    _rows(ax, [result.classes[i] for i in order])
    _shares_axis(ax, float(upper.max()), f"share of the population, with {100 * result.level:g}% intervals")


def draw_groups(result: Any, ax: Axes) -> None:
    """The shares (or the mean) of every group with their intervals."""
    colors = [COLORS[name] for name in ("private", "leak", "good", "accent", "truth")]
    shown = result.groups[:_MOST_SHOWN]
    if result.of_means:
        values = [group.mean for group in result.results[:_MOST_SHOWN]]
        ends = [[value[i] for value in values] for i in range(3)]
        _points(ax, np.arange(len(shown)), ends, colors[0])
        _rows(ax, shown)
        ax.set_xlabel(f"mean, with {100 * result.level:g}% intervals")
        ax.grid(axis="x", color=COLORS["truth"], alpha=0.25, lw=0.8)
        return
    # of two classes one says everything: yes of yes and no, 1 of 0 and 1
    telling = 0 if isinstance(result.classes[0], str) else 1
    classes = [telling] if len(result.classes) == 2 else range(len(result.classes))
    chosen = list(classes)[: len(colors)]
    for number, c in enumerate(chosen):
        place = np.arange(len(shown)) + (number - (len(chosen) - 1) / 2) * 0.7 / max(len(chosen), 1)
        rows = [(one.shares[c], one.lower[c], one.upper[c]) for one in result.results[:_MOST_SHOWN]]
        _points(ax, place, np.array(rows).T, colors[number], short(result.classes[c]))
    _rows(ax, shown)
    highest = max(float(one.upper[chosen].max()) for one in result.results)
    _shares_axis(ax, highest, f"share of the group, with {100 * result.level:g}% intervals")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, fontsize="small")


def draw_cross(result: Any, ax: Axes) -> None:
    """The joint shares: darker cells hold more people; the number is the percentage."""
    from matplotlib.colors import LinearSegmentedColormap

    table = result.shares
    shades = LinearSegmentedColormap.from_list("shares", ["#2b7bba10", "#2b7bbae0"])
    ax.imshow(table, cmap=shades, vmin=0, vmax=max(float(table.max()), 1e-9), aspect="auto")
    for row, column in np.ndindex(*table.shape) if table.size <= 100 else ():
        ax.text(column, row, f"{100 * table[row, column]:.0f}%", ha="center", va="center", fontsize="small")
    ax.set_xticks(range(table.shape[1]), [short(name) for name in result.second_classes])
    ax.set_yticks(range(table.shape[0]), [short(name) for name in result.first_classes])
    ax.set(xlabel=short(result.second), ylabel=short(result.first))


def draw_coefficients(result: Any, ax: Axes) -> None:
    """The odds ratio of every column with its interval, on a logarithmic scale."""
    chosen = [i for i, name in enumerate(result.names) if name != "intercept"] or [0]
    value, lower, upper = (
        np.exp(np.clip(v[chosen], -30, 30)) for v in (result.coefficients, result.lower, result.upper)
    )
    _points(ax, np.arange(len(chosen)), (value, lower, upper), COLORS["private"])
    ax.axvline(1, color=COLORS["truth"], ls="--", lw=1)
    _rows(ax, [result.names[i] for i in chosen])
    ax.set(xscale="log", xlabel=f"odds ratio, with {100 * result.level:g}% intervals")
    low, high = float(lower.min()), float(upper.max())
    ticks = [t for t in (0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 100) if low / 1.5 <= t <= high * 1.5]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()


def draw_plan(plan: Any, ax: Axes) -> None:
    """Half the width of the interval against the number of people, for each epsilon, on logarithmic scales."""
    shades = [COLORS["leak"], COLORS["accent"], COLORS["private"], COLORS["good"]]
    needed = [row.people for row in plan.rows]
    people = np.geomspace(max(20, min(needed) / 4), max(needed) * 2, 60)
    for number, row in enumerate(plan.rows):
        label = "no privacy" if row.epsilon is None else f"epsilon {row.epsilon:g}"
        color = COLORS["truth"] if row.epsilon is None else shades[number % len(shades)]
        ax.plot(people, 100 * np.minimum(row.margin_of(people), 1), color=color, label=label)
        ax.plot([row.people], [100 * plan.margin], "o", ms=5, color=color)
    ax.axhline(100 * plan.margin, color=COLORS["truth"], ls="--", lw=1)
    ax.set(xscale="log", yscale="log", xlabel="people", ylabel=f"± points ({100 * plan.level:g}% interval)")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ticks = [tick for tick in (0.5, 1, 2, 3, 5, 10, 20, 50, 100) if ax.get_ylim()[0] <= tick <= ax.get_ylim()[1]]
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.legend(fontsize="small")
