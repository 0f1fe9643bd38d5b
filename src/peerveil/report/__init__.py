"""Showing results: figures as inline SVG, and one self-contained HTML page.

- :func:`svg`: a Matplotlib figure as SVG with a text for those who cannot see it, in the page's own colors;
  :func:`safe_svg`: the same, or a figure that says that it could not be drawn. Both give an :class:`Svg`.
- :class:`Page`: headings, paragraphs, figures and tables, written as a single file that needs no network;
  :class:`Line`: a paragraph with a command.
- :func:`figure_style`, :func:`new_axes`, :func:`logarithmic`: draw so that a figure fits the page, light and dark.
- :data:`COLORS`: the colors that every figure uses.
"""

from peerveil.report.figures import COLORS, Svg, figure_style, logarithmic, new_axes, safe_svg, svg
from peerveil.report.page import Line, Page

__all__ = ["COLORS", "Line", "Page", "Svg", "figure_style", "logarithmic", "new_axes", "safe_svg", "svg"]
