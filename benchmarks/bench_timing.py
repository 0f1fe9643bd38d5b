"""Timing: a month of Wikipedia, a direct row-by-row transcription of delays and attack, memory, and the database."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

from benchmarks.logs import many_events
from benchmarks.timing import Row, best_of
from peerveil import Randomness
from peerveil.timing import FollowUp, audit_log, audit_table, find_batches, linkage_attack, post

MONTH = 3_500_000
DAY = 20_000
LITTLE = "300MB"
CUTS = np.geomspace(5, 3600, 20)

# The log is read, not made, in the process that is measured: making it would need more memory than auditing it. VmHWM is
# this process's own peak; the one that getrusage tells begins with that of the process which started it.
_MEMORY = """
import re, sys
from pathlib import Path
from benchmarks.logs import many_events
from peerveil.data import Events
from peerveil.timing import audit_log

def status(name):
    return int(re.search(name + r":\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])

audit_log(many_events(1000))  # compile
before = status("VmRSS")
audit_log(Events.read(sys.argv[1]))
print(status("VmHWM") - before)
"""


def bench() -> list[Row]:
    return [*month(), day(), *memory(), *database()]


def month() -> list[Row]:
    """The whole audit, attack before and after at three strengths, delays from the secure randomness."""
    audit_log(many_events(5_000))  # compile
    events = many_events(MONTH)
    start, busy = time.perf_counter(), time.process_time()
    audit = audit_log(events)
    took, used = time.perf_counter() - start, time.process_time() - busy
    cuts = len(audit.raw.threshold)
    note = f"limit: 60 s on two idle cores; {len(audit.protected)} strengths, secure randomness, {cuts} cut-offs"
    return [
        Row(f"audit of {MONTH:,} events with attacks, wall clock", took, 60.0, "s", note),
        Row("the same, processor time (does not grow with what else runs)", used, 120.0, "s", "limit: two cores, 60 s"),
    ]


def day() -> Row:
    """Delays and attack for a day, against plain loops over rows and pairs."""
    events, mechanism = many_events(DAY, days=1.0), FollowUp(epsilon=1, gap=660, window=300)

    def ours() -> Any:
        _, schedule = post(events, mechanism=mechanism, randomness=Randomness.simulation(1))
        return linkage_attack(schedule, thresholds=CUTS)

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
    """A direct transcription: status by looking back, one draw per row, then every pair within the largest cut-off."""
    rng = np.random.default_rng(1)
    rows = [(row["time"].timestamp(), row["actor"], row["thread"]) for row in events.frame.iter_rows(named=True)]
    low, end = mechanism.gap, mechanism.max_delay
    recent: dict[Any, list[tuple[float, Any]]] = {}
    posted = []
    for when, actor, thread in rows:
        own = recent.setdefault(actor, [])
        follow = any(when - t <= mechanism.window and other != thread for t, other in own)
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
            true = rows[i][1] == rows[j][1] and abs(rows[i][0] - rows[j][0]) <= mechanism.window
            for k, cut in enumerate(cuts):
                if apart <= cut:
                    flagged[k] += 1
                    right[k] += true
    batched = 0
    for own in recent.values():
        for i, (when, thread) in enumerate(own):
            for later, other in own[i + 1 :]:
                if later - when > mechanism.window + 1e-7:
                    break
                batched += other != thread
    return {"flagged": flagged, "right": right, "batched": batched}


def memory() -> list[Row]:
    """The peak above an empty audit's, for a log and for one four times as long: reading and auditing it."""
    peaks = []
    with tempfile.TemporaryDirectory() as folder:
        for size in (500_000, 2_000_000):
            path = f"{folder}/{size}.parquet"
            many_events(size).frame.write_parquet(path)
            run = [sys.executable, "-c", _MEMORY, path]
            peaks.append(int(subprocess.run(run, capture_output=True, text=True, check=True).stdout) * 1024 / size)
    note = "peer: 500,000 events; linear: ratio near 1"
    return [Row("memory of an audit, 2,000,000 events", peaks[1], peaks[0], "B/event", note)]


def database() -> list[Row]:
    """The same counts on DuckDB, out of core: far less memory than the log and its pairs need."""
    events, cuts = many_events(MONTH), [10.0, 60.0, 300.0]
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/log.parquet"
        events.frame.write_parquet(path)
        start = time.perf_counter()
        table_audit = audit_table(path, window=300, thresholds=cuts, memory=LITTLE)
        theirs = time.perf_counter() - start
        start = time.perf_counter()
        attack, batches = (
            linkage_attack(events, thresholds=cuts, window=300),
            find_batches(events, window=300, baseline=False),
        )
        mine = time.perf_counter() - start
    equal = table_audit.attack.flagged.tolist() == attack.flagged.tolist()
    equal &= table_audit.attack.right.tolist() == attack.right.tolist()
    equal &= (table_audit.batched, table_audit.same_rate) == (int(batches.batched.sum()), batches.same_rate)
    assert equal, "the database counts otherwise"
    note = "peer: in memory; equal answers"
    return [Row(f"rates and attack on {MONTH:,} events, DuckDB with {LITTLE}", theirs, mine, "s", note)]
