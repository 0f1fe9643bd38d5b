"""All reproductions on one page: the paper's values beside ours, with our figures."""

from __future__ import annotations

from collections.abc import Sequence

from peerveil.papers.reproduce.experiment import Reproduction, Verdict, count_verdicts
from peerveil.report import Page, Svg, figure_style, svg

COLUMNS = ("what", "paper", "ours", "verdict")


def figure_of(found: Reproduction) -> Svg | None:
    """The figure as SVG, or None where there is none to draw."""
    if found.axes is None:
        return None
    with figure_style():
        return svg(found.axes, f"{found.title}. {found.note}")


def summary_rows(done: Sequence[tuple[Reproduction, float]]) -> list[tuple[object, ...]]:
    """One row per experiment: name, title, counts of each verdict, seconds; and a row of sums."""
    rows: list[tuple[object, ...]] = [
        (found.name, found.title, *found.counts.values(), f"{seconds:.1f}") for found, seconds in done
    ]
    total = count_verdicts(row for found, _ in done for row in found.rows)
    return [*rows, ("all", "", *total.values(), f"{sum(seconds for _, seconds in done):.1f}")]


SUMMARY_COLUMNS = ("figure or table", "shows", *Verdict, "seconds")


def write_page(done: Sequence[tuple[Reproduction, float]], *, quick: bool) -> Page:
    """The page: a summary, then every figure and table with its rows."""
    lead = "Every figure and table, made anew: the paper's value, ours, and agreement or what explains the difference."
    page = Page("The five papers, made anew", lead=lead)
    if quick:
        page.warning("Few trials", ["Made with --quick: a look, not a reproduction."])
    page.table(SUMMARY_COLUMNS, summary_rows(done))
    for found, _ in done:
        page.heading(f"{found.name}: {found.title}")
        picture = figure_of(found)
        if picture is not None:
            page.figure(picture, found.note)
        else:
            page.paragraph(found.note)
        page.table(COLUMNS, [(row.what, row.paper, row.ours, row.text) for row in found.rows])
    page.footer("Made by peerveil reproduce.")
    return page
