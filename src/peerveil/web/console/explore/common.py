"""What all explorations share: controls, charts, the epsilon slider, the attacker's bound, and sweeps over settings.

Each module declares the same parts for a setting: a headline, the attack, facts, charts and a recommendation.

**Why one formula serves every prior.** Let an attacker consider several cases possible before anything is published, the
likeliest with probability p: that guess is correct with probability p. Whatever is published is at most e^epsilon times as
likely in one case as in another, so after it no case is likelier than p e^epsilon/(p e^epsilon + 1 - p), which grows with p.
The best guess is therefore correct at most that often. Values are rounded up.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any, Final, NamedTuple, Self

import numpy as np

from peerveil.core.exact import exp_bounds
from peerveil.core.guarantee import read_epsilon
from peerveil.core.guarantee.wording import rounded
from peerveil.core.lazy import isotonic_regression
from peerveil.report import COLORS, Svg, safe_svg

Values = Mapping[str, Any]
"""Public facts, or a simulation: values of JSON."""
Progress = Callable[[float], object]
"""Called with the completed share, from 0 to 1."""
EPSILONS: Final = ("0.1", "0.2", "0.3", "0.5", "1", "2", "3", "5", "10")
"""The values of epsilon sliders."""
SMOOTHED: Final = " Simulated values use a few draws per setting, and their curves are smoothed."
"""Added wherever a curve was smoothed."""
_MAX_EPSILON: Final = 30  # nothing is guaranteed above it
_EPSILON_HELP: Final = (
    "Strength of the guarantee. A smaller epsilon reveals less about one person and makes the result less accurate."
)


@dataclass(frozen=True)
class Control:
    """A parameter that the reader can change: a ``"slider"`` with rising values, or a ``"choice"``."""

    name: str
    label: str
    values: Sequence[str]
    default: str
    help: str
    kind: str = "slider"


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

    @classmethod
    def of(cls, caption: str, y_label: str, *series: Series, percent: bool = True) -> Self:
        """A chart of some curves."""
        return cls(caption, y_label, series, percent)


class Figure(NamedTuple):
    """A chart drawn as inline SVG."""

    svg: Svg
    caption: str


class Attack(NamedTuple):
    """How often an attacker is correct about ``target``, in percent: before, and with the setting.

    ``guaranteed`` says that the setting's value is an upper bound; otherwise it is an average from a simulation.
    """

    target: str
    before: str
    after: str
    guaranteed: bool = True
    note: str = ""

    @property
    def fact(self) -> str:
        """In short."""
        return f"{self._limit} {self.after} correct about {self.target}; {self.before} today"

    @property
    def sentence(self) -> str:
        """As a sentence, the same for every module."""
        text = (
            f"An attacker who is correct {self.before} of the time today about {self.target} would be correct "
            f"{self._limit} {self.after} of the time with this setting."
        )
        return f"{text} {self.note}".rstrip()

    @property
    def _limit(self) -> str:
        return "at most" if self.guaranteed else "about"


@dataclass(frozen=True)
class Exploration:
    """What one setting of a module means. Computed from public facts or from synthetic data, never from private data.

    A module declares the first group of fields; :func:`peerveil.web.console.explore.explore` adds the second.

    Attributes
    ----------
    facts : tuple of (str, str)
        Accuracy, delay, cost: a name, and the value in words.
    recommended : mapping
        The recommended values of controls; the others stay as chosen.
    about : str
        What all of it was computed from.
    steps : tuple of mappings
        The study steps for this setting, without data and account.
    """

    headline: str
    attack: Attack
    facts: tuple[tuple[str, str], ...]
    charts: tuple[Chart, ...]
    recommended: Mapping[str, str]
    reason: str
    about: str
    steps: tuple[Mapping[str, Any], ...]

    module: str = ""
    controls: tuple[Control, ...] = ()
    chosen: Mapping[str, str] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()


def epsilon_control(label: str) -> Control:
    """The epsilon slider."""
    return Control("epsilon", label, EPSILONS, "1", _EPSILON_HELP)


def success_bound(epsilon: str, prior: Fraction) -> Fraction:
    """How often an attacker is correct at most, who is correct with probability ``prior`` without the release."""
    exact = read_epsilon(epsilon)
    if exact > _MAX_EPSILON:
        return Fraction(1)
    high = exp_bounds(exact)[1]
    return prior * high / (1 - prior + prior * high)


def success_percent(epsilon: str, prior: Fraction) -> str:
    """The bound in percent, rounded up.

    >>> success_percent("0.2", Fraction(1, 10)), success_percent("1", Fraction(1, 2))
    ('12%', '73.2%')
    """
    return f"{rounded(100 * success_bound(epsilon, prior), math.ceil)}%"


def success_curve(prior: Fraction) -> list[float]:
    """The bound for every epsilon of the sliders."""
    return [float(success_bound(epsilon, prior)) for epsilon in EPSILONS]


def success_chart(prior: Fraction, target: str) -> Chart:
    """How often an attacker can be correct, against epsilon; exact."""
    return Chart.of(
        f"How often the best attacker can be correct about {target}.",
        "correct guesses (%)",
        Series("at most, with\nthis guarantee", success_curve(prior), "leak"),
        Series("today", float(prior), "truth", dashed=True),
    )


def percent(share: float) -> str:
    """A simulated share in percent.

    >>> percent(0.2514), percent(1.0), percent(0.004), percent(0.0)
    ('25%', '100%', '0.4%', '0%')
    """
    value = 100 * share
    return f"{value:.1f}".removesuffix(".0") + "%" if 0 < value < 9.95 else f"{value:.0f}%"


def first_epsilon(suffices: Iterable[bool]) -> str | None:
    """The smallest epsilon that suffices, if one does."""
    return next((epsilon for epsilon, enough in zip(EPSILONS, suffices, strict=True) if enough), None)


def sweep(progress: Progress, compute: Callable[..., Any], *values: Iterable[str]) -> dict[str, Any]:
    """A function at every combination of values, by the values joined with spaces; reports progress."""
    settings = list(product(*values))
    results = {}
    for done, setting in enumerate(settings):
        progress(done / len(settings))
        results[" ".join(setting)] = compute(*setting)
    progress(1.0)
    return results


def rising(values: Sequence[float]) -> list[float]:
    """The nearest values (least squares) that never fall.

    A few draws may suggest that more epsilon makes a result worse. It never does: whoever has more epsilon can add noise
    until they have less.

    >>> rising([1.0, 3.0, 2.0, 4.0])
    [1.0, 2.5, 2.5, 4.0]
    """
    return [float(value) for value in isotonic_regression(np.asarray(values, dtype=np.float64)).x]


def falling(values: Sequence[float]) -> list[float]:
    """The nearest values that never rise."""
    return [-value for value in rising([-value for value in values])]


# ---- charts: drawn fast, since they follow a moving slider --------------------------------------------------------------
#
# The horizontal axis counts the slider's values, evenly spaced as on the slider. Margins and ticks are fixed: measuring
# texts for a layout takes longer than everything else.

WIDTH, HEIGHT = 7.0, 3.0  # inches
_LEFT, _RIGHT, _BOTTOM, _TOP = 0.62, 1.95, 0.58, 0.34  # margins in inches; names of curves are on the right
_LINE_SHARE: Final = 0.085  # height of a line of text, as a share of the chart


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


def _drawing(chart: Chart, control: Control, place: int, curves: list[np.ndarray[Any, Any]], top: float) -> Any:
    from matplotlib.figure import Figure as Drawing
    from matplotlib.ticker import MaxNLocator

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
    ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    return figure


def _name_curves(ax: Any, series: tuple[Series, ...], ends: list[float], top: float) -> None:
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
