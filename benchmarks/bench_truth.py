"""Truth inference beside crowd-kit by one model and with a fixed number of iterations, memory, scale, and engines.

The long runs (10^8 reports on DuckDB, 10^7 on Spark) start with ``PEERVEIL_LONG=1``.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.timing import Row, best_of
from peerveil.truth import PrivateDawidSkene

REPORTS, WORKERS, TASKS = 1_000_000, 2_000, 100_000
ITERATIONS = 10
FIXED: dict[str, Any] = {"iterations": ITERATIONS, "tolerance": 0.0, "must_converge": False}
PLAIN: dict[str, Any] = {"class_prior": "estimated", "ability_prior": None, **FIXED}

_MEMORY = """
import sys
sys.path.insert(0, "")
from benchmarks import bench_truth as b
from benchmarks.bench_truth_speed import peak
frame = b.crowd(b.REPORTS, b.TASKS, b.WORKERS)
make = b.ours_run if sys.argv[2] == "ours" else b.peer_run
make(sys.argv[1], b.crowd(1000, 100, 20))()  # compile, import
run = make(sys.argv[1], frame)
before = peak()
run()
print(peak() - before)
"""
_LARGE = """
import json, sys, time
from peerveil.data.engines import connect
from peerveil.truth import PrivateDawidSkene
engine, path, master = sys.argv[1:4]
start = time.perf_counter()
connection = connect(engine, master=master or None) if engine == "spark" else connect(engine, memory="5GB")
estimator = PrivateDawidSkene(epsilon=1, model="one-coin", iterations=10, tolerance=0.0, must_converge=False)
result = estimator.fit(path, engine=engine, connection=connection)
took = time.perf_counter() - start
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) * 1024
print(json.dumps([took, peak, float(result.objective), float(result.probabilities[:, 0].sum())]))
"""


def bench() -> list[Row]:
    rows = [*beside_crowd_kit(), *linear()]
    if os.environ.get("PEERVEIL_LONG"):
        rows += [*duckdb_large(), *spark_large()]
    return rows


def crowd(reports: int, tasks: int, workers: int, seed: int = 0, classes: int = 2) -> Any:
    """A pandas frame of one-coin reports at epsilon 1, in random order."""
    pandas = importlib.import_module("pandas")
    rng = np.random.default_rng(seed)
    task, worker = rng.integers(0, tasks, reports), rng.integers(0, workers, reports)
    truth, shown = rng.integers(0, classes, tasks), 0.27 + 0.46 * rng.beta(4, 2, workers)
    hit = rng.random(reports) < shown[worker]
    label = np.where(hit, truth[task], (truth[task] + rng.integers(1, classes, reports)) % classes)
    return pandas.DataFrame({"task": task, "worker": worker, "label": label})


def ours_run(model: str, frame: Any) -> Any:
    return partial(PrivateDawidSkene(epsilon=None, model=model, classes=2, **PLAIN).fit, frame)


def peer_run(model: str, frame: Any) -> Any:
    aggregation = importlib.import_module("crowdkit.aggregation")
    kind = aggregation.DawidSkene if model == "confusion" else aggregation.OneCoinDawidSkene
    return partial(kind(n_iter=ITERATIONS, tol=-1e30).fit, frame)


def beside_crowd_kit() -> list[Row]:
    frame = crowd(REPORTS, TASKS, WORKERS)
    rows = []
    for model, wish in (("confusion", "20 times faster"), ("one-coin", "50 times faster")):
        ours = ours_run(model, frame)
        ours()  # compile
        (mine,) = best_of(3, ours)
        note = f"{REPORTS:,} reports, {WORKERS:,} workers, 2 classes, 10 iterations, encoding included; wish: {wish}"
        try:
            peer = peer_run(model, frame)
        except ImportError:
            rows.append(Row(f"{model}, 10^6 reports", mine, None, "s", f"crowd-kit is not installed; {note}"))
            continue
        (theirs,) = best_of(1, peer)
        rows.append(Row(f"{model}, 10^6 reports (peer: crowd-kit)", mine, theirs, "s", note))
        if model == "confusion":
            rows.append(
                Row("  largest difference of posteriors", _difference(ours, peer), 1e-6, "", "same start and rules")
            )
        memory = [_memory(model, who) for who in ("ours", "peer")]
        rows.append(
            Row(f"{model}, memory (peer: crowd-kit)", memory[0], memory[1], "B", "rise of the peak; wish: a quarter")
        )
    return rows


def _difference(ours: Any, peer: Any) -> float:
    result, other = ours(), peer()
    return float(np.abs(result.probabilities - other.probas_.sort_index()[[0, 1]].to_numpy()).max())


def _memory(model: str, who: str) -> float:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _MEMORY, model, who], capture_output=True, text=True, check=True
    )
    return float(done.stdout.strip().splitlines()[-1])


def linear() -> list[Row]:
    """Seconds an iteration for every report, over three decades; the peer is the figure at 10^5."""
    rows, base = [], None
    for n in (10**5, 10**6, 10**7):
        frame = pl.from_pandas(crowd(n, n // 10, max(200, n // 500)))
        few, many = (
            best_of(
                2,
                partial(
                    PrivateDawidSkene(epsilon=1, model="one-coin", classes=2, **{**FIXED, "iterations": i}).fit, frame
                ),
            )[0]
            for i in (5, 25)
        )
        each = (many - few) / 20 / n
        rows.append(
            Row(f"one-coin, an iteration, {n:,} reports", each * 1e9, base, "ns a report", "cost is linear if 1")
        )
        base = base or each * 1e9
    return rows


def _large(engine: str, reports: int, workers: int, master: str = "") -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        for part in range(max(1, reports // 10**7)):
            n = min(reports, 10**7)
            frame = pl.from_pandas(crowd(n, n // 10, workers, seed=part))
            frame.with_columns(pl.col("task") + part * (n // 10)).sort("task").write_parquet(
                Path(folder) / f"{part:03}.parquet"
            )
            del frame
        run = [sys.executable, "-W", "ignore", "-c", _LARGE, engine, f"{folder}/*.parquet", master]
        done = subprocess.run(run, capture_output=True, text=True, check=True)
        found: list[float] = json.loads(done.stdout.strip().splitlines()[-1])
        return found


def duckdb_large() -> list[Row]:
    seconds, peak, _, _ = _large("duckdb", 10**8, 100_000)
    return [
        Row(
            "one-coin, 10^8 reports on DuckDB, 10 iterations (limit: 30 min)",
            seconds,
            1800.0,
            "s",
            "from Parquet files",
        ),
        Row("  peak memory (limit: 8 GB)", peak, 8e9, "B", "of the process"),
    ]


def spark_large() -> list[Row]:
    start = time.perf_counter()
    spark = _large("spark", 10**7, 20_000, "local[2]")
    took = time.perf_counter() - start
    duck = _large("duckdb", 10**7, 20_000)
    rows = [
        Row(
            "one-coin, 10^7 reports on Spark, two local cores",
            spark[0],
            duck[0],
            "s",
            f"peer: DuckDB; {took:.0f} s in all",
        )
    ]
    rows.append(Row("  difference of the objective", abs(spark[2] - duck[2]), abs(duck[2]), "nats", "equal answers"))
    return rows
