"""Curves over the values of a slider, with the chosen one marked. Drawn for speed: a slider moves, a curve answers.

The horizontal axis counts the slider's values, evenly spaced as they are on the slider, so that the mark moves as the hand
does. Margins and ticks are fixed: measuring texts for a layout takes longer than all the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from peerveil.report import COLORS, Svg, safe_svg
from peerveil.web.console.explore.exploration import Figure
from peerveil.web.console.explore.words import EPSILONS, chance, right_at_most

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from matplotlib.axes import Axes

WIDTH, HEIGHT = 7.0, 3.0  # inches
_LEFT, _RIGHT, _BOTTOM, _TOP = 0.62, 1.95, 0.58, 0.34  # margins in inches; labels of the curves stand on the right
_APART: Final = 0.085  # labels are kept this share of the height apart, for two lines of text twice that


@dataclass(frozen=True)
class Curve:
    """A curve: its name, which may have two lines, a value for each of the slider's, and a color by meaning."""

    name: str
    values: tuple[float, ...]
    color: str = "private"
    dashed: bool = False


def draw_curves(
    values: Sequence[str],
    chosen: str,
    curves: Sequence[Curve],
    *,
    across: str,
    up: str,
    alt: str,
    low: float = 0.0,
    high: float | None = None,
) -> Svg:
    """Curves against a slider's values, the chosen value marked by a line and by points.

    Parameters
    ----------
    across, up
        What the two axes show.
    high
        The top of the picture; a little above the curves if left out.
    """
    from matplotlib.figure import Figure as Drawing

    place = list(values).index(chosen)
    top = high if high is not None else 1.08 * max(max(curve.values) for curve in curves) or 1.0

    def drawn() -> Drawing:
        figure = Drawing(figsize=(WIDTH, HEIGHT))
        box = (_LEFT / WIDTH, _BOTTOM / HEIGHT, 1 - (_LEFT + _RIGHT) / WIDTH, 1 - (_BOTTOM + _TOP) / HEIGHT)
        ax = figure.add_axes(box)
        ax.set_xlim(-0.25, len(values) - 0.75)
        ax.set_ylim(low, top)
        ax.axvline(place, color=COLORS["accent"], lw=7, alpha=0.25, solid_capstyle="butt")
        for curve in curves:
            color = COLORS[curve.color]
            style = (0, (4, 2)) if curve.dashed else "-"
            ax.plot(range(len(values)), curve.values, ls=style, lw=1.4 if curve.dashed else 2.2, color=color)
            ax.plot([place], [curve.values[place]], "o", ms=6, color=color)
        _name_curves(ax, curves, low, top)
        ax.text(place, top + 0.03 * (top - low), f"chosen: {chosen}", ha="center", va="bottom", fontsize=9)
        ax.set_xticks(range(len(values)), values)
        ax.set_yticks(_ticks(low, top))
        ax.set_xlabel(across)
        ax.set_ylabel(up)
        return figure

    return safe_svg(drawn, alt)


def attack_figure(epsilon: str, today: Fraction, what: str) -> Figure:
    """How often an attacker may be right, against epsilon; exact."""
    most = Curve("at most, with\nthis promise", tuple(100 * chance(one, today) for one in EPSILONS), "leak")
    now = Curve("today", (float(100 * today),) * len(EPSILONS), "truth", dashed=True)
    drawing = draw_curves(
        EPSILONS, epsilon, [most, now], across="epsilon", up="right in 100 guesses", high=104,
        alt=f"How often in 100 an attacker may be right about {what}, against epsilon: {right_at_most(epsilon, today)} at the "
        "chosen value.",
    )  # fmt: skip
    return Figure(drawing, f"How often the best attacker may be right about {what}.")


def _name_curves(ax: Axes, curves: Sequence[Curve], low: float, top: float) -> None:
    """Names at the right ends of the curves, moved apart where they would cover each other."""
    span = top - low
    order = sorted(range(len(curves)), key=lambda i: curves[i].values[-1])
    heights = [curves[i].values[-1] for i in order]
    sizes = [_APART * span * (1 + curves[i].name.count("\n")) for i in order]
    spots: list[float] = []
    for height, size in zip(heights, sizes, strict=True):
        least = spots[-1] + (size + sizes[len(spots) - 1]) / 2 if spots else low + size / 2
        spots.append(max(height, least))
    over = spots[-1] + sizes[-1] / 2 - top
    if over > 0:  # push back down from the top
        ceiling = top
        for i in range(len(spots) - 1, -1, -1):
            spots[i] = min(spots[i], ceiling - sizes[i] / 2)
            ceiling = spots[i] - sizes[i] / 2
    right = ax.get_xlim()[1]
    for spot, i in zip(spots, order, strict=True):
        ax.text(right, spot, f" {curves[i].name}", color=COLORS[curves[i].color], fontsize=9, va="center",
                linespacing=1.1)  # fmt: skip


def _ticks(low: float, top: float) -> list[float]:
    """Three to six round numbers."""
    from math import floor, log10

    raw = (top - low) / 5
    unit = 10.0 ** floor(log10(raw))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= raw)
    first = int(-(-low // step))
    return [round(i * step, 10) for i in range(first, int(top / step + 1e-9) + 1)]
