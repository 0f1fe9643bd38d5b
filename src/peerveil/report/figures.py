"""Figures that fit the page they stand on: one palette, text that stays text, light and dark."""

from __future__ import annotations

import hashlib
import html
import io
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from peerveil.core.errors import BadInput

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS: Final[Mapping[str, str]] = MappingProxyType(
    {"private": "#2b7bba", "leak": "#d1495b", "truth": "#8a8f98", "good": "#2e8b57", "accent": "#c98a00"}
)
"""By meaning: what is published privately, what leaks, what is true, what passed, what to notice. They keep apart
for the color-blind (checked in order of lightness) and on white and black."""

_INK: Final = "#010203"  # drawn in this, shown in the page's own text color
_UNPRINTABLE: Final = re.compile(  # what XML forbids, and what turns the direction of all text behind it
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "peerveil",
    "text.parse_math": False,  # names are shown as they are written: a "$" begins no formula
    "font.family": "sans-serif",
    "font.sans-serif": ["system-ui", "DejaVu Sans"],
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}


class Svg(str):
    """A figure as inline SVG. :func:`svg` makes it, and escapes what is in it: pages show it as it is.

    ``attributes`` and ``content`` are its parts, from which it can be made again.
    """

    attributes: str
    content: str

    def __new__(cls, attributes: str, content: str) -> Svg:  # noqa: D102
        made = super().__new__(cls, f"<svg {attributes}>{content}")
        made.attributes, made.content = attributes, content
        return made

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        return self.attributes, self.content

    def __html__(self) -> str:
        return str(self)

    def alone(self, color: str = "#1b1f24", background: str | None = "#ffffff") -> str:
        """The figure as a file of its own: with colors, since there is no page to take them from."""
        behind = "" if background is None else f"; background: {background}"
        return f'<svg style="color: {color}{behind}" {self.attributes}>{self.content}'


@contextmanager
def figure_style() -> Iterator[None]:
    """Draw in the project's style: everything that is drawn inside the block takes the page's colors."""
    import logging

    import matplotlib as mpl

    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)  # the page's font need not be installed here
    with mpl.rc_context(_STYLE):
        yield


def new_axes(width: float = 7, height: float = 3.4, columns: int = 1) -> list[Axes]:
    """Empty axes in the project's style; draw on them inside :func:`figure_style`."""
    from matplotlib.figure import Figure

    with figure_style():
        figure = Figure(figsize=(width, height), layout="constrained")
        return list(figure.subplots(1, columns, squeeze=False)[0])


def logarithmic(axis: Any) -> None:
    """A logarithmic axis (``ax.xaxis`` or ``ax.yaxis``) with numbers that people read: 1, 2, 5, 10."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    getattr(axis.axes, f"set_{axis.axis_name}scale")("log")
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
    axis.axes.tick_params(axis=axis.axis_name, which="minor", length=0)


def svg(drawing: Figure | Axes, alt: str) -> Svg:
    """A figure as inline SVG.

    Parameters
    ----------
    drawing
        A Matplotlib figure, or axes of one.
    alt
        What the figure shows, in a sentence or two, for those who cannot see it.

    Examples
    --------
    >>> (ax,) = new_axes()
    >>> _ = ax.plot([0, 1], [0, 1])
    >>> text = svg(ax, alt="A rising line")
    >>> 'aria-label="A rising line"' in text, "<?xml" in text
    (True, False)
    """
    if not isinstance(alt, str) or not alt.strip():
        raise BadInput("alt", got=alt, want="a sentence that says what the figure shows")
    figure = drawing.get_figure(root=True) if hasattr(drawing, "get_lines") else drawing
    buffer = io.StringIO()
    with figure_style(), warnings.catch_warnings():
        # the page's font draws the text, and a name that is too long leaves no place for the rest
        warnings.filterwarnings("ignore", message="Glyph .* missing|constrained_layout not applied")
        _plain_powers(figure)
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})  # type: ignore[union-attr]
    # what Matplotlib wrote: <?xml ...><!DOCTYPE ...><svg ATTRIBUTES>CONTENT
    text = re.sub(r"<(metadata|style).*?</\1>", "", buffer.getvalue(), flags=re.DOTALL)
    # attributes instead of styles: pages need not allow inline styles for the sake of figures
    text = re.sub(r' style="([^"]*)"', lambda match: _attributes(match[1]), text.replace(_INK, "currentColor"))
    # each axes of a figure has a mark, and nothing refers to it
    text = _UNPRINTABLE.sub("\ufffd", text.replace(' id="mark"', ""))
    written = re.search(r"<svg ([^>]*)>(.*)", text, flags=re.DOTALL)
    assert written is not None
    attributes = f'stroke-linejoin="round" stroke-linecap="butt" {written[1]}'
    text = f"<svg {attributes}>{written[2]}"
    # several figures stand on one page: their ids must differ
    own = hashlib.sha256(text.encode()).hexdigest()[:8]
    content = re.sub(r'( id="|url\(#|href="#)', rf"\g<1>{own}-", written[2])
    return Svg(f'role="img" aria-label="{_label(alt)}" {attributes}', content)


def safe_svg(draw: Callable[[], Figure | Axes], alt: str) -> Svg:
    """:func:`svg` of what ``draw`` returns; where drawing fails, a figure that says so: no run or page fails for it.

    >>> print(safe_svg(lambda: 1 / 0, "a curve"))  # doctest: +ELLIPSIS
    <svg role="img" aria-label="a curve (this figure could not be drawn: ZeroDivisionError)"...
    """
    try:
        with figure_style():
            return svg(draw(), alt)
    except Exception as error:  # whatever it was: the figure is the least of what was paid for
        reason = f"figure could not be drawn: {type(error).__name__}"
        label = _label(f"{alt} (this {reason})")
        return Svg(
            f'role="img" aria-label="{label}" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 500 40"',
            f'<text x="8" y="26" fill="currentColor" font-size="14">This {reason}.</text></svg>',
        )


def _plain_powers(figure: Any) -> None:
    """Numbers on logarithmic axes as people read them; Matplotlib would write them as formulas."""
    from matplotlib.ticker import FuncFormatter, LogFormatterMathtext, NullFormatter

    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            if isinstance(axis.get_major_formatter(), LogFormatterMathtext):
                axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            if isinstance(axis.get_minor_formatter(), LogFormatterMathtext):
                axis.set_minor_formatter(NullFormatter())


def _label(alt: str) -> str:
    return html.escape(_UNPRINTABLE.sub("\ufffd", " ".join(alt.split())), quote=True)


def _attributes(style: str) -> str:
    """A style as attributes of the same meaning; Matplotlib writes nothing that has none."""
    pairs = (part.split(":", 1) for part in style.split(";") if part.strip())
    return "".join(f' {name.strip()}="{value.strip()}"' for name, value in pairs)
