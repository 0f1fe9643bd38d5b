"""Timing: a month of Wikipedia, a direct row-by-row transcription of delays and attack, memory, and the database."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial
from typing import Any

import numpy as np

from benchmarks.timing import Row, best_of
from peerveil import Randomness
from peerveil.timing import FollowUp, audit_log, linkage_attack, post
from peerveil.timing.simulate import many_events

MONTH = 3_500_000
DAY = 20_000
CUTS = np.geomspace(5, 3600, 20)

_MEMORY = """
import sys, resource
from peerveil.timing import audit_log
from peerveil.timing.simulate import many_events
events = many_events(int(sys.argv[1]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
audit_log(events)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def bench() -> list[Row]:
    return [*month(), day(), *memory(), *database()]


def month() -> list[Row]:
    """The whole audit, attack before and after at three strengths, delays from the secure lane."""
    audit_log(many_events(5_000))  # compile
    events = many_events(MONTH)
    start = time.perf_counter()
    found = audit_log(events)
    took = time.perf_counter() - start
    note = f"limit: 60 s; {len(found.protected)} strengths, secure lane, {len(found.raw.threshold)} cut-offs"
    return [Row(f"audit of {MONTH:,} events with attacks", took, 60.0, "s", note)]


def day() -> Row:
    """Delays and attack for a day, against plain loops over rows and pairs."""
    events, mechanism = many_events(DAY, days=1.0), FollowUp(1, 660, 300)

    def ours() -> Any:
        return linkage_attack(post(events, mechanism, randomness=Randomness.simulation(1)), CUTS)

    ours()
    (fast,) = best_of(3, ours)
    start = time.perf_counter()
    direct = row_by_row(events, mechanism, CUTS)
    slow = time.perf_counter() - start
    assert direct["batched"] == ours().batched
    return Row(
        f"delays and attack, {DAY:,} events", fast, slow, "s", f"{slow / fast:,.0f} times faster; peer: row by row"
    )


def row_by_row(events: Any, mechanism: FollowUp, cuts: Any) -> dict[str, Any]:
    """A direct transcription: status by looking back, one draw a row, then every pair within the largest cut-off."""
    rng = np.random.default_rng(1)
    rows = [(row["time"].timestamp(), row["actor"], row["thread"]) for row in events.frame.iter_rows(named=True)]
    low, end = mechanism.gap, mechanism.max_delay
    recent: dict[Any, list[tuple[float, Any]]] = {}
    posted = []
    for when, actor, thread in rows:
        own = recent.setdefault(actor, [])
        follow = any(when - t <= mechanism.beta and other != thread for t, other in own)
        own.append((when, thread))
        posted.append(when + (rng.uniform(low, end) if follow else rng.uniform(0, end)))
    order = sorted(range(len(rows)), key=posted.__getitem__)
    flagged, right = [0] * len(cuts), [0] * len(cuts)
    for place, i in enumerate(order):
        for j in order[place + 1 :]:
            apart = posted[j] - posted[i]
            if apart > cuts[-1]:
                break
            if rows[i][2] == rows[j][2]:
                continue
            true = rows[i][1] == rows[j][1] and abs(rows[i][0] - rows[j][0]) <= mechanism.beta
            for k, cut in enumerate(cuts):
                if apart <= cut:
                    flagged[k] += 1
                    right[k] += true
    batched = 0
    for own in recent.values():
        for i, (when, thread) in enumerate(own):
            for later, other in own[i + 1 :]:
                if later - when > mechanism.beta + 1e-7:
                    break
                batched += other != thread
    return {"flagged": flagged, "right": right, "batched": batched}


def memory() -> list[Row]:
    """The peak above the log itself, for a log and for one four times as long."""
    peaks = []
    for size in (500_000, 2_000_000):
        run = [sys.executable, "-c", _MEMORY, str(size)]
        peaks.append(int(subprocess.run(run, capture_output=True, text=True, check=True).stdout) * 1024 / size)
    return [
        Row(
            "memory of an audit, 2,000,000 events", peaks[1], peaks[0], "B/event", "peer: 500,000; linear: ratio near 1"
        )
    ]


def database() -> list[Row]:
    """The same counts on DuckDB with little memory; nothing to measure where Ibis is not installed."""
    import tempfile
    from importlib.util import find_spec

    from peerveil.timing import audit_table

    if find_spec("ibis") is None:
        return []
    events = many_events(500_000, days=31.0)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/log.parquet"
        events.frame.write_parquet(path)
        cuts = [10.0, 60.0, 300.0]
        (mine,) = best_of(1, partial(linkage_attack, events, cuts, window=300))
        (theirs,) = best_of(1, partial(audit_table, path, 300, thresholds=cuts, memory="1GB"))
        equal = audit_table(path, 300, thresholds=cuts).attack.flagged.tolist() == linkage_attack(
            events, cuts, window=300).flagged.tolist()  # fmt: skip
    return [
        Row("attack on 500,000 events, DuckDB with 1 GB", theirs, mine, "s", f"peer: in memory; equal answers: {equal}")
    ]
