"""The chart of gain against leak: the module's face on the command line, in the console and in reports."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from peerveil.report.figures import COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.calibration.leak import LeakOption

_LOOKS: Final = {  # color, marker, words, and whether the label stands left of the point
    "plain": ("truth", "o", "plain mean", True),
    "open": ("leak", "D", "open calibration", False),
    "groups": ("good", "*", "announced groups", True),
    "panel": ("accent", "s", "panels on average,", True),
    "panel each": ("accent", "o", "panels,", True),
    "lottery": ("private", "o", "ε =", False),
    "balance": ("truth", "^", "", False),
}
_SPACE: Final = 0.075  # between labels, of the height


def draw_leak(ax: Axes, options: tuple[LeakOption, ...]) -> None:
    """Every option a point, the plain mean at the origin; options of a kind are joined. Up and left is better."""
    plain = options[0]
    for line in (ax.axhline, ax.axvline):
        line(0.0, color=COLORS["truth"], lw=0.8, zorder=1)
    left: list[tuple[float, float, str, str]] = []  # labels beside the vertical axis must not cover each other
    for kind, (name, marker, words, on_left) in _LOOKS.items():
        part, color = [one for one in options if one.kind == kind], COLORS[name]
        x, y = [100 * (one.near_line - plain.near_line) for one in part], [100 * one.gain for one in part]
        face, size = "none" if kind == "panel" else color, 13 if marker == "*" else 8
        ax.plot(x, y, marker, ls=":", lw=1.2, ms=size, mfc=face, color=color, zorder=3)
        for number, (one, across, up) in enumerate(zip(part, x, y, strict=True)):
            beside = "balanced committees," if kind == "balance" and number == 0 else words
            text = f"{beside} {one.setting}".strip()
            if on_left:
                left.append((across, up, text, color))
            else:
                ax.annotate(text, (across, up), (9, -3), textcoords="offset points", fontsize=9, color=color)
    low, high = min(ax.get_ylim()[0], -0.5), max(ax.get_ylim()[1], 1.0)
    right, place = max(ax.get_xlim()[1], 1.0), -math.inf
    for across, up, text, color in sorted(left, key=lambda label: label[1]):
        place = max(up, place + _SPACE * (high - low))
        thin = {"arrowstyle": "-", "color": color, "lw": 0.6, "shrinkA": 1, "shrinkB": 4}
        aligned: dict[str, Any] = {"ha": "right", "va": "center", "fontsize": 9, "color": color, "arrowprops": thin}
        ax.annotate(text, (across, up), (-0.06 * right, place), **aligned)
    ax.set(
        xlim=(-0.56 * right, 1.22 * right),
        ylim=(low, max(high, place + _SPACE * (high - low))),
        xlabel="added leak: points more of right guesses who wrote a review near the line",
        ylabel="gain over the plain mean\n(points of the best papers accepted)",
    )
    ax.set_xticks([tick for tick in ax.get_xticks() if 0 <= tick <= 1.2 * right])
    ax.set_title(f"Scores alone: a 50:50 guess is right {plain.near_line:.0%} of the time", fontsize=10, loc="left")
