"""Counts of what was published: how much, how late, and whether delays lie where the mechanism says. Never of intake.

Where single delays lie is shown only in blocks of at least :data:`BLOCK` posts: whoever reads the counts before and
after one post would otherwise learn its delay, and so its arrival.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np
from sqlalchemy import select

from peerveil.web.common.database import SECOND, insert_rows
from peerveil.web.gateway.tables import tally

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from peerveil.core.randomness import Randomness
    from peerveil.timing.mechanism import DelayMechanism

BLOCK: Final = 200
"""The picture of delays is updated after at least this many posts."""

BINS: Final = 20
"""Equally likely parts of the distribution of delays, for the operator's picture."""

EDGES_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 3600.0)
"""Upper edges of the classes of lateness."""

LATE_SECONDS: Final = 1.0
"""A post that appears later than this after its time counts as late."""

_HEAD: Final = """\
# HELP peerveil_gateway_released_total Posts published.
# TYPE peerveil_gateway_released_total counter
# HELP peerveil_gateway_late_total Posts published more than a second after they were due.
# TYPE peerveil_gateway_late_total counter
# HELP peerveil_gateway_lateness_seconds Seconds between due and published.
# TYPE peerveil_gateway_lateness_seconds histogram
"""


def count_published(connection: Connection, space: str, lateness: Sequence[int], fits: Sequence[int]) -> None:
    """Add the posts of one transaction: their lateness in microseconds, and the part of each delay."""
    counts = read_tally(connection, space)
    counts["released"] += len(lateness)
    counts["lateness_sum"] += sum(lateness)
    for micros in lateness:
        counts[f"lateness_{bisect_left(EDGES_SECONDS, micros / SECOND)}"] += 1
        counts["late"] += micros > LATE_SECONDS * SECOND
    for part in fits:
        counts[f"pending_{part}"] += 1
    if sum(counts[f"pending_{k}"] for k in range(BINS)) >= BLOCK:
        for k in range(BINS):
            counts[f"fit_{k}"] += counts[f"pending_{k}"]
            counts[f"pending_{k}"] = 0
    rows = [{"space": space, "name": name, "value": value} for name, value in sorted(counts.items())]
    insert_rows(connection, tally, rows, replace=True)


def read_tally(connection: Connection, space: str) -> Counter[str]:
    """All counts of a space. Whatever begins with ``pending`` is not for showing."""
    rows = connection.execute(select(tally.c.name, tally.c.value).where(tally.c.space == space))
    return Counter({row.name: int(row.value) for row in rows})


def metrics(connection: Connection, names: Sequence[str]) -> str:
    """Figures of what was published, in the text format that monitoring systems read."""
    lines = []
    for space in names:
        counts = read_tally(connection, space)
        values = {"released_total": counts["released"], "late_total": counts["late"]}
        lines += [f'peerveil_gateway_{name}{{space="{space}"}} {value}' for name, value in values.items()]
        running = 0
        for number, edge in enumerate((*EDGES_SECONDS, None)):
            running += counts[f"lateness_{number}"]
            label = "+Inf" if edge is None else f"{edge:g}"
            lines.append(f'peerveil_gateway_lateness_seconds_bucket{{space="{space}",le="{label}"}} {running}')
        total = counts["lateness_sum"] / SECOND
        lines.append(f'peerveil_gateway_lateness_seconds_sum{{space="{space}"}} {total:.6f}')
        lines.append(f'peerveil_gateway_lateness_seconds_count{{space="{space}"}} {running}')
    return _HEAD + "".join(f"{line}\n" for line in lines)


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
