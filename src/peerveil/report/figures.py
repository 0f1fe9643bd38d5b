"""Figures that fit the page they stand on: one palette, text that stays text, light and dark."""

from __future__ import annotations

import hashlib
import html
import io
import re
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from peerveil.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS: Final[Mapping[str, str]] = MappingProxyType(
    {"private": "#2b7bba", "leak": "#d1495b", "truth": "#8a8f98", "good": "#2e8b57", "accent": "#c98a00"}
)
"""By meaning: what is published privately, what leaks, what is true, what passed, what to notice. They keep apart
for the colour-blind (checked in order of lightness) and on white and black."""

_INK: Final = "#010203"  # drawn in this, shown in the page's own text colour
_STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "peerveil",
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


@contextmanager
def house_style() -> Iterator[None]:
    """Draw in the house's style: everything that is drawn inside the block takes the page's colours."""
    import logging

    import matplotlib as mpl

    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)  # the page's font need not be installed here
    with mpl.rc_context(_STYLE):
        yield


def new_axes(width: float = 7, height: float = 3.4, columns: int = 1) -> list[Axes]:
    """Empty axes in the house's style; draw on them inside :func:`house_style`."""
    from matplotlib.figure import Figure

    with house_style():
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


def svg(drawing: Figure | Axes, alt: str) -> str:
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
    with house_style():
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})  # type: ignore[union-attr]
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = text.replace(_INK, "currentColor")
    # attributes instead of styles: pages need not allow inline styles for the sake of figures
    text = re.sub(r"<style.*?</style>", "", text, flags=re.DOTALL)
    text = text.replace("<svg ", '<svg stroke-linejoin="round" stroke-linecap="butt" ', 1)
    text = re.sub(r' style="([^"]*)"', lambda found: _attributes(found.group(1)), text)
    text = text.replace(' id="mark"', "")  # each axes of a figure has one, and nothing refers to it
    # several figures stand on one page: their ids must differ
    own = hashlib.sha256(text.encode()).hexdigest()[:8]
    text = re.sub(r'( id="|url\(#|href="#)', rf"\g<1>{own}-", text)
    label = html.escape(" ".join(alt.split()), quote=True)
    return text.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


def _attributes(style: str) -> str:
    """A style as attributes of the same meaning; Matplotlib writes nothing that has none."""
    pairs = (part.split(":", 1) for part in style.split(";") if part.strip())
    return "".join(f' {name.strip()}="{value.strip()}"' for name, value in pairs)
