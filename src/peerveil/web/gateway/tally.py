"""Counts of what was released: how much, how late, and whether delays lie where the mechanism says. Never of intake.

Where single delays lie is shown only in blocks of at least :data:`BLOCK` releases: whoever reads the counts before and
after one release would otherwise learn its delay, and so its arrival.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np
from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite

from peerveil.web.gateway.tables import tally

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from peerveil.core.randomness import Randomness
    from peerveil.timing.mechanism import DelayMechanism

BLOCK: Final = 200
"""Releases that the picture of delays is updated by, at least."""

BINS: Final = 20
"""Parts into which the distribution of delays is cut for the operator's picture."""

EDGES: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 3600.0)
"""Upper edges, in seconds, of the classes of lateness."""

LATE: Final = 1.0
"""Seconds after which a release counts as late."""


def count_release(connection: Connection, space: str, lateness: Sequence[int], fits: Sequence[int]) -> None:
    """Add the releases of one transaction."""
    added: Counter[str] = Counter()
    added["released"] = len(lateness)
    for micro in lateness:
        seconds = micro / 1e6
        added[f"lateness_{bisect_left(EDGES, seconds)}"] += 1
        added["late"] += seconds > LATE
        added["lateness_sum"] += micro
    before = read_tally(connection, space)
    fresh = Counter(fits)
    known = [k for k in range(BINS) if k in fresh or f"pending_{k}" in before]
    waiting = {k: before.get(f"pending_{k}", 0) + fresh[k] for k in known}
    if sum(waiting.values()) >= BLOCK:
        added.update({f"fit_{k}": value for k, value in waiting.items()})
        waiting = dict.fromkeys(waiting, 0)
    pending = {f"pending_{k}": value for k, value in waiting.items()}
    values = {name: before.get(name, 0) + value for name, value in added.items()} | pending
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    row = insert(tally)
    row = row.on_conflict_do_update(index_elements=["space", "name"], set_={"value": row.excluded.value})
    connection.execute(row, [{"space": space, "name": name, "value": value} for name, value in sorted(values.items())])


def read_tally(connection: Connection, space: str) -> dict[str, int]:
    """All counts of a space. Whatever begins with ``pending`` is not for showing."""
    rows = connection.execute(select(tally.c.name, tally.c.value).where(tally.c.space == space))
    return {row.name: int(row.value) for row in rows}


def metrics(connection: Connection, every: Sequence[str]) -> str:
    """Release-side figures in the text format that monitoring systems read."""
    lines = [
        "# HELP peerveil_gateway_released_total Posts released.",
        "# TYPE peerveil_gateway_released_total counter",
        "# HELP peerveil_gateway_late_total Posts released more than a second after they were due.",
        "# TYPE peerveil_gateway_late_total counter",
        "# HELP peerveil_gateway_lateness_seconds Seconds between due and released.",
        "# TYPE peerveil_gateway_lateness_seconds histogram",
    ]
    for space in every:
        counts = read_tally(connection, space)
        lines.append(f'peerveil_gateway_released_total{{space="{space}"}} {counts.get("released", 0)}')
        lines.append(f'peerveil_gateway_late_total{{space="{space}"}} {counts.get("late", 0)}')
        running = 0
        for number, edge in enumerate((*EDGES, None)):
            running += counts.get(f"lateness_{number}", 0)
            label = "+Inf" if edge is None else f"{edge:g}"
            lines.append(f'peerveil_gateway_lateness_seconds_bucket{{space="{space}",le="{label}"}} {running}')
        total = counts.get("lateness_sum", 0) / 1e6
        lines.append(f'peerveil_gateway_lateness_seconds_sum{{space="{space}"}} {total:.6f}')
        lines.append(f'peerveil_gateway_lateness_seconds_count{{space="{space}"}} {running}')
    return "\n".join(lines) + "\n"


def place_delays(
    mechanism: DelayMechanism, flags: NDArray[np.bool_], ticks: NDArray[np.int64], randomness: Randomness
) -> NDArray[np.int64]:
    """Where in its own distribution each delay lies, in :data:`BINS` equally likely parts.

    For a right mechanism this is uniform, whatever the statuses are, so its counts say whether delays are as they
    should be, and nothing about sittings. A point mass at 0 is spread over its share.
    """
    seconds = ticks / 1e9
    place = np.where(flags, mechanism.batched.below(seconds), mechanism.unbatched.below(seconds))
    atom = np.where(flags, mechanism.batched.atom, mechanism.unbatched.atom)
    place = np.where(ticks == 0, atom * randomness.uniform(ticks.size), place)
    return np.minimum((place * BINS).astype(np.int64), BINS - 1)
