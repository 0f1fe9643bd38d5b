"""Charts over the values of a slider, with the chosen value marked. Drawn fast, since they follow a moving slider.

The horizontal axis counts the slider's values, evenly spaced as on the slider. Margins and ticks are fixed: measuring texts
for a layout takes longer than everything else.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, log10
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from peerveil.core.errors import BadInput
from peerveil.report import COLORS, safe_svg

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from peerveil.report import Svg

WIDTH, HEIGHT = 7.0, 3.0  # inches
_LEFT, _RIGHT, _BOTTOM, _TOP = 0.62, 1.95, 0.58, 0.34  # margins in inches; names of curves are on the right
_LINE_SHARE: Final = 0.085  # height of a line of text, as a share of the chart


@dataclass(frozen=True)
class Control:
    """A parameter that the reader can change: a ``"slider"`` with rising values, or a ``"choice"``."""

    name: str
    label: str
    values: tuple[str, ...]
    default: str
    help: str
    kind: str = "slider"

    def read(self, value: object) -> str:
        """The chosen value, or an error that lists the possible ones."""
        if not isinstance(value, str) or value not in self.values:
            raise BadInput(self.name, got=value, want=f"one of {', '.join(self.values)}")
        return value


class Series(NamedTuple):
    """A curve: one value for each value of the first control, or one number for a horizontal line. Colors have meanings."""

    name: str
    values: Sequence[float] | float
    color: str = "private"
    dashed: bool = False


class Chart(NamedTuple):
    """Curves over the values of the first control. With ``percent``, values are shares and are drawn as percentages."""

    caption: str
    y_label: str
    series: tuple[Series, ...]
    percent: bool = True


class Figure(NamedTuple):
    """A chart drawn as inline SVG."""

    svg: Svg
    caption: str


def draw(chart: Chart, control: Control, chosen: str) -> Figure:
    """A chart against the values of a slider; the description for screen readers gives the values at the chosen one."""
    count, place, scale = len(control.values), control.values.index(chosen), 100.0 if chart.percent else 1.0
    curves = [scale * np.broadcast_to(series.values, count) for series in chart.series]
    top = 104.0 if chart.percent else 1.08 * max(curve.max() for curve in curves) or 1.0
    values = "; ".join(
        f"{' '.join(series.name.split())} {curve[place]:.3g}"
        for series, curve in zip(chart.series, curves, strict=True)
    )
    alt = f"{chart.caption} At {chosen}, {chart.y_label}: {values}."
    return Figure(safe_svg(lambda: _drawing(chart, control, place, curves, top), alt), chart.caption)


def _drawing(chart: Chart, control: Control, place: int, curves: list[np.ndarray[Any, Any]], top: float) -> Drawing:
    from matplotlib.figure import Figure as Drawing

    figure = Drawing(figsize=(WIDTH, HEIGHT))
    box = (_LEFT / WIDTH, _BOTTOM / HEIGHT, 1 - (_LEFT + _RIGHT) / WIDTH, 1 - (_BOTTOM + _TOP) / HEIGHT)
    places = range(len(control.values))
    ax = figure.add_axes(box)
    ax.set(xlim=(-0.25, len(places) - 0.75), ylim=(0, top), xlabel=control.label, ylabel=chart.y_label)
    ax.axvline(place, color=COLORS["accent"], lw=7, alpha=0.25, solid_capstyle="butt")
    for series, curve in zip(chart.series, curves, strict=True):
        color = COLORS[series.color]
        style = (0, (4, 2)) if series.dashed else "-"
        ax.plot(places, curve, ls=style, lw=1.4 if series.dashed else 2.2, color=color)
        ax.plot([place], [curve[place]], "o", ms=6, color=color)
    _name_curves(ax, chart.series, [float(curve[-1]) for curve in curves], top)
    ax.text(place, 1.03 * top, f"chosen: {control.values[place]}", ha="center", va="bottom", fontsize=9)
    ax.set_xticks(places, control.values)
    ax.set_yticks(_ticks(top))
    return figure


def _name_curves(ax: Axes, series: tuple[Series, ...], ends: list[float], top: float) -> None:
    """Names at the right ends of the curves, moved apart where they would overlap."""
    order = sorted(range(len(series)), key=lambda i: ends[i])
    sizes = [_LINE_SHARE * top * (1 + series[i].name.count("\n")) for i in order]
    heights: list[float] = []
    bottom = 0.0
    for i, size in zip(order, sizes, strict=True):  # upwards: no name begins below the end of the one before
        heights.append(max(ends[i], bottom + size / 2))
        bottom = heights[-1] + size / 2
    ceiling = top
    for k in reversed(range(len(order))):  # and back down, where the last one would be above the top
        heights[k] = min(heights[k], ceiling - sizes[k] / 2)
        ceiling = heights[k] - sizes[k] / 2
    right = ax.get_xlim()[1]
    for height, i in zip(heights, order, strict=True):
        color = COLORS[series[i].color]
        ax.text(right, height, f" {series[i].name}", color=color, fontsize=9, va="center", linespacing=1.1)


def _ticks(top: float) -> list[float]:
    """Three to six round numbers."""
    unit = 10.0 ** floor(log10(top / 5))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= top / 5)
    return [round(i * step, 10) for i in range(int(top / step + 1e-9) + 1)]
