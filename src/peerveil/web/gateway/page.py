"""The operator's page: what was released, how late, whether delays are as they should be, and what is promised.

It has no figure of intake, no backlog and nothing about a single post: see :mod:`peerveil.web.gateway.tally`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import func, select

from peerveil.report import Page, svg
from peerveil.report.figures import COLORS, figure_style, new_axes
from peerveil.timing.durations import in_words, percent
from peerveil.web.common.clock import SECOND
from peerveil.web.gateway.tables import clock, feed, hooks
from peerveil.web.gateway.tally import BINS, BLOCK, EDGES, LATE, read_tally

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

    from peerveil.web.gateway.core import Gateway
    from peerveil.web.gateway.space import Space

_HOURS: Final = 48
_CHANCE: Final = 4.5  # standard errors beyond which a bar is called wrong


def operator_page(gateway: Gateway, names: Sequence[str]) -> Page:
    """The page for some spaces."""
    page = Page("Gateway", lead="What readers have received, and how. Nothing here tells of single posts or of intake.")
    with gateway.database.reading() as connection:
        row = connection.execute(select(clock)).one()
        now = gateway.watch.source(connection)
        if row.state != "running":
            page.warning(
                "Halted: nothing is taken or released",
                [
                    f"The database's clock moved by {row.step / SECOND:,.0f} s (a {row.state}).",
                    "Look at the clock. Then: peerveil gateway doctor --confirm-clock step (the clock was moved), or "
                    "--confirm-clock pause (time has really passed).",
                ],
            )
        elif now - row.high > 60 * SECOND:
            page.warning("No worker", ["No worker has been at work for a minute: peerveil gateway work, or serve."])
        if not names:
            page.paragraph("There is no space yet: put one into the configuration file, and run peerveil gateway init.")
        for name in names:
            _space(page, connection, gateway.spaces[name], now)
    return page


def _space(page: Page, connection: Connection, space: Space, now: int) -> None:
    counts = read_tally(connection, space.name)
    released = counts.get("released", 0)
    page.heading(space.name)
    page.guarantee(space.in_words())
    hour = connection.execute(
        select(func.count()).where(feed.c.space == space.name, feed.c.posted_at > now - 3600 * SECOND)
    ).scalar_one()
    mean = counts.get("lateness_sum", 0) / max(released, 1) / 1e6
    page.table(
        ["", ""],
        [
            ["released in all", f"{released:,}"],
            ["released in the last hour", f"{hour:,}"],
            [
                "released more than a second late",
                f"{counts.get('late', 0):,} ({percent(counts.get('late', 0) / max(released, 1))})",
            ],
            ["mean lateness", in_words(mean)],
            ["an author is told to wait at most", in_words(space.longest_delay(""))],
            ["time grid", in_words(space.grid)],
            *([["webhooks", _hooks(connection, space.name)]] if space.webhooks else []),
        ],
    )
    if not released:
        page.paragraph("Nothing has been released yet.")
        return
    page.figure(
        svg(_throughput(connection, space.name, now), f"Posts released in each of the last {_HOURS} hours."),
        f"Posts that appeared in each of the last {_HOURS} hours.",
    )
    page.figure(svg(_lateness(counts), "How late posts were released."), "How late posts appeared. Longer is not lost.")
    shown = sum(counts.get(f"fit_{k}", 0) for k in range(BINS))
    if not shown:
        page.paragraph(f"Whether delays are as they should be is shown from {BLOCK} releases on, in blocks of as many.")
        return
    _, verdict = fit_verdict(counts)
    page.figure(
        svg(_fit(counts), "Delays against the mechanism's distribution; all bars should be equally high."),
        f"{shown:,} delays in {BINS} parts that the mechanism makes equally likely: bars should be level, within the band. "
        f"{verdict}",
    )


def fit_verdict(counts: Mapping[str, int]) -> tuple[bool, str]:
    """Whether the delays that were served fit the mechanism (a chi-square test), and the same in words."""
    from scipy.stats import chi2

    bars = [counts.get(f"fit_{k}", 0) for k in range(BINS)]
    expected = sum(bars) / BINS
    statistic = sum((bar - expected) ** 2 for bar in bars) / expected
    p = float(chi2.sf(statistic, BINS - 1))
    fits = p > 1e-6
    return fits, f"They fit (p = {p:.2f})." if fits else "They do NOT fit: stop, and look for the fault."


def _hooks(connection: Connection, space: str) -> str:
    rows = connection.execute(select(hooks.c.attempts).where(hooks.c.space == space, hooks.c.active == 1)).scalars()
    failing = [attempts for attempts in rows if attempts]
    return f"{len(failing)} failing, after up to {max(failing)} attempts" if failing else "all well"


def _throughput(connection: Connection, space: str, now: int) -> Any:
    length = 3600 * SECOND
    last = now // length
    rows = connection.execute(
        select(feed.c.posted_at, func.count())
        .where(feed.c.space == space, feed.c.posted_at >= (last - _HOURS + 1) * length)
        .group_by(feed.c.posted_at)
    )
    hours = [0] * _HOURS
    for moment, count in rows:
        hours[min(int(moment // length - last + _HOURS - 1), _HOURS - 1)] += int(count)
    (ax,) = new_axes(7, 2.4)
    with figure_style():
        ax.bar(range(1 - _HOURS, 1), hours, width=1.0, color=COLORS["private"])
        ax.set(xlabel="hours ago", ylabel="posts", xlim=(-_HOURS + 0.5, 0.5))
    return ax


def _lateness(counts: Mapping[str, int]) -> Any:
    labels = [f"to {_short(edge)}" for edge in EDGES] + ["more"]
    values = [counts.get(f"lateness_{k}", 0) for k in range(len(labels))]
    colors = [COLORS["private" if edge <= LATE else "leak"] for edge in (*EDGES, math.inf)]
    (ax,) = new_axes(7, 2.4)
    with figure_style():
        ax.bar(range(len(labels)), values, color=colors)
        ax.set_xticks(range(len(labels)), labels, rotation=45, ha="right")
        ax.set_ylabel("posts")
    return ax


def _fit(counts: Mapping[str, int]) -> Any:
    bars = [counts.get(f"fit_{k}", 0) for k in range(BINS)]
    expected = sum(bars) / BINS
    spread = _CHANCE * math.sqrt(expected * (1 - 1 / BINS))
    wrong = [abs(bar - expected) > spread for bar in bars]
    (ax,) = new_axes(7, 2.4)
    with figure_style():
        ax.bar(range(BINS), bars, color=[COLORS["leak" if bad else "good"] for bad in wrong])
        ax.axhspan(expected - spread, expected + spread, color=COLORS["truth"], alpha=0.3)
        ax.axhline(expected, color=COLORS["truth"], linewidth=1)
        ax.set(xlabel="from the shortest delays to the longest", ylabel="posts", ylim=(0, None), xticks=[])
    return ax


def _short(seconds: float) -> str:
    return f"{seconds * 1000:g} ms" if seconds < 1 else f"{seconds:g} s" if seconds < 60 else f"{seconds / 60:g} min"
