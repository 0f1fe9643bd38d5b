"""What operators see: how much was published, how late, whether delays are where the mechanism says, and the guarantee.

There is no figure of intake, no backlog and nothing about a single post. Figures stand in the memory of the process that
leads, and in the sealed state as of its last compaction; the number of published posts is the feed's own.

Where single delays are is shown only in blocks of at least :data:`BLOCK` posts: whoever reads the counts before and
after one post would otherwise learn its delay, and so its arrival.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, func, select

from peerveil.report import Page, svg
from peerveil.report.figures import COLORS, figure_style, new_axes
from peerveil.timing.durations import in_words, percent
from peerveil.web.common.database import SECOND
from peerveil.web.gateway.space import NOT_PRIVATE
from peerveil.web.gateway.tables import clock, feed
from peerveil.web.gateway.webhooks import read_webhooks

if TYPE_CHECKING:
    from peerveil.core.randomness import Randomness
    from peerveil.timing.base import DelayMechanism
    from peerveil.web.gateway.core import Gateway
    from peerveil.web.gateway.space import Space

BLOCK: Final = 200
"""The picture of delays is updated after at least this many posts."""

BINS: Final = 20
"""Equally likely parts of the distribution of delays, for the operator's picture."""

EDGES_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 3600.0)
"""Upper edges of the classes of lateness."""

LATE_SECONDS: Final = 1.0
"""A post that appears later than this after its time counts as late."""

_HOURS: Final = 48
_HOUR: Final = 3600 * SECOND
_BAND: Final = 4.5  # standard errors beyond which a bar is called wrong


class Tally(Counter[str]):
    """The counts of a space. Whatever begins with ``pending`` is not for showing."""

    def add(self, lateness: Sequence[int], fits: Sequence[int]) -> None:
        """Count posts that came out together: their lateness in microseconds, and the part of each delay."""
        self["released"] += len(lateness)
        self["lateness_sum"] += sum(lateness)
        for micros in lateness:
            self[f"lateness_{bisect_left(EDGES_SECONDS, micros / SECOND)}"] += 1
            self["late"] += micros > LATE_SECONDS * SECOND
        for part in fits:
            self[f"pending_{part}"] += 1
        if sum(self[f"pending_{k}"] for k in range(BINS)) >= BLOCK:
            for k in range(BINS):
                self[f"fit_{k}"] += self[f"pending_{k}"]
                self[f"pending_{k}"] = 0


def place_delays(
    mechanism: DelayMechanism, flags: NDArray[np.bool_], ticks: NDArray[np.int64], randomness: Randomness
) -> NDArray[np.int64]:
    """The part of its own distribution that each delay falls into, of :data:`BINS` equally likely ones.

    For a correct mechanism this is uniform, whatever the statuses are, so its counts say whether delays are as they
    should be, and nothing about sittings. A point mass at 0 is spread over its share.
    """
    seconds = ticks / 1e9
    place = np.where(flags, mechanism.batched.below(seconds), mechanism.unbatched.below(seconds))
    atom = np.where(flags, mechanism.batched.atom, mechanism.unbatched.atom)
    place = np.where(ticks == 0, atom * randomness.uniform(ticks.size), place)
    return np.minimum((place * BINS).astype(np.int64), BINS - 1)


def fit_verdict(counts: Mapping[str, int]) -> tuple[bool, str]:
    """Whether the delays that were served fit the mechanism (a chi-square test), and the same in words."""
    from scipy.stats import chisquare

    pvalue = float(chisquare([counts[f"fit_{k}"] for k in range(BINS)]).pvalue)
    fits = pvalue > 1e-6
    return fits, f"They fit (p = {pvalue:.2f})." if fits else "They do NOT fit: stop, and look for the fault."


# ---- the operator's page ----------------------------------------------------------------------------------------------


def operator_page(gateway: Gateway, names: Sequence[str]) -> Page:
    """The page for some spaces."""
    page = Page(
        "Gateway", lead="What readers have received, and how. Nothing here is about single posts or about intake."
    )
    tallies = gateway.tallies()
    with gateway.database.reading() as connection:
        row = connection.execute(select(clock)).one()
        now = gateway.watch.source(connection)
        if row.state != "running":
            page.warning(
                "Halted: nothing is taken or published",
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
            _add_space(page, connection, gateway.spaces[name], tallies[name], now)
    return page


def _add_space(page: Page, connection: Connection, space: Space, counts: Mapping[str, int], now: int) -> None:
    published, late = counts["released"], counts["late"]
    page.heading(space.name)
    if space.demo:
        page.warning("Demonstration", [NOT_PRIVATE])
    page.guarantee(space.in_words())
    recent = select(func.count()).where(feed.c.space == space.name, feed.c.posted_at > now - _HOUR)
    rows = {
        "published in all": f"{published:,}",
        "published in the last hour": f"{connection.execute(recent).scalar_one():,}",
        "published more than a second late": f"{late:,} ({percent(late / max(published, 1))})",
        "mean lateness": in_words(counts["lateness_sum"] / max(published, 1) / SECOND),
        "longest delay stated to authors": in_words(space.longest_delay("")),
        "time grid": in_words(space.grid),
    }
    for state in read_webhooks(connection, now):
        if state.space == space.name:
            rows[f"webhook {state.name}"] = state.in_words()
    page.table(["", ""], [list(row) for row in rows.items()])
    if not published:
        page.paragraph("Nothing has been published yet.")
        return
    caption = f"Posts that appeared in each of the last {_HOURS} hours."
    page.figure(svg(_throughput(connection, space.name, now), caption), caption)
    page.figure(svg(_lateness(counts), "How late posts appeared."), "How late posts appeared. Longer is not lost.")
    delays = sum(counts[f"fit_{k}"] for k in range(BINS))
    if not delays:
        page.paragraph(f"Whether delays are as they should be is shown from {BLOCK} posts on, in blocks of as many.")
        return
    page.figure(
        svg(_fit(counts), "Delays against the mechanism's distribution; all bars should be equally high."),
        f"{delays:,} delays in {BINS} parts that the mechanism makes equally likely: bars should be level, within the "
        f"band. {fit_verdict(counts)[1]}",
    )


def _bars(positions: range, heights: Sequence[int], colors: Any, **more: Any) -> Any:
    (ax,) = new_axes(7, 2.4)
    with figure_style():
        ax.bar(positions, heights, color=colors, **more)
        ax.set_ylabel("posts")
    return ax


def _throughput(connection: Connection, space: str, now: int) -> Any:
    last = now // _HOUR
    rows = connection.execute(
        select(feed.c.posted_at, func.count())
        .where(feed.c.space == space, feed.c.posted_at >= (last - _HOURS + 1) * _HOUR)
        .group_by(feed.c.posted_at)
    )
    hours = [0] * _HOURS
    for moment, count in rows:
        hours[min(int(moment // _HOUR - last + _HOURS - 1), _HOURS - 1)] += int(count)
    ax = _bars(range(1 - _HOURS, 1), hours, COLORS["private"], width=1.0)
    ax.set(xlabel="hours ago", xlim=(-_HOURS + 0.5, 0.5))
    return ax


def _lateness(counts: Mapping[str, int]) -> Any:
    labels = [f"to {_short(edge)}" for edge in EDGES_SECONDS] + ["more"]
    colors = [COLORS["private" if edge <= LATE_SECONDS else "leak"] for edge in (*EDGES_SECONDS, math.inf)]
    places = range(len(labels))
    ax = _bars(places, [counts[f"lateness_{k}"] for k in places], colors)
    ax.set_xticks(places, labels, rotation=45, ha="right")
    return ax


def _fit(counts: Mapping[str, int]) -> Any:
    bars = [counts[f"fit_{k}"] for k in range(BINS)]
    expected = sum(bars) / BINS
    spread = _BAND * math.sqrt(expected * (1 - 1 / BINS))
    ax = _bars(range(BINS), bars, [COLORS["leak" if abs(bar - expected) > spread else "good"] for bar in bars])
    ax.axhspan(expected - spread, expected + spread, color=COLORS["truth"], alpha=0.3)
    ax.axhline(expected, color=COLORS["truth"], linewidth=1)
    ax.set(xlabel="from the shortest delays to the longest", ylim=(0, None), xticks=[])
    return ax


def _short(seconds: float) -> str:
    return f"{seconds * 1000:g} ms" if seconds < 1 else f"{seconds:g} s" if seconds < 60 else f"{seconds / 60:g} min"
