"""The audit in a database gives the answers of the one in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from peerveil import BadInput, Randomness
from peerveil.data import Events
from peerveil.timing import FollowUp, audit_table, find_batches, linkage_attack, post

LOG = Path(__file__).parent / "data" / "wikipedia_edits_2015_09_12.csv.gz"
CUTS = [0.0, 10.0, 60.0, 300.0, 1800.0]


def same(events: Events, folder: Path, engine: str) -> None:
    _, schedule = post(events, mechanism=FollowUp(epsilon=1, gap=2400, window=300), randomness=Randomness.simulation(1))
    # arrivals as timestamps, posting times as whole microseconds: both are understood
    path = folder / "log.parquet"
    events.frame.with_columns(pl.Series("posted", schedule.posted)).write_parquet(path)
    batches = find_batches(events, window=300)
    raw = audit_table(path, window=300, thresholds=CUTS, engine=engine, baseline=True)
    assert (raw.batched, raw.follow_ups) == (batches.batched.sum(), batches.follow_up.sum())
    assert (raw.steps, raw.same_rate) == (batches.steps, batches.same_rate)
    assert raw.other_rate == pytest.approx(batches.other_rate)
    after = audit_table(path, window=300, thresholds=CUTS, engine=engine, posted="posted")
    for ours, theirs in (
        (linkage_attack(events, thresholds=CUTS, window=300), raw),
        (linkage_attack(schedule, thresholds=CUTS), after),
    ):
        assert np.array_equal(ours.flagged, theirs.attack.flagged)
        assert np.array_equal(ours.right, theirs.attack.right)
        assert ours.batched == theirs.attack.batched
    assert after.mean_delay == pytest.approx(schedule.delay.mean())
    assert after.max_delay == pytest.approx(schedule.delay.max())


def test_duckdb_agrees_on_the_real_log(tmp_path: Path) -> None:
    same(Events.read(LOG, columns={"actor": "user", "thread": "page"}), tmp_path, "duckdb")


def test_duckdb_agrees_where_times_are_equal(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    n = 400
    log = Events(
        actor=rng.integers(0, 20, n), thread=rng.integers(0, 9, n), time=1_600_000_000 + 100 * rng.integers(0, 60, n)
    )
    same(log, tmp_path, "duckdb")


def test_names_of_columns_and_engines_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    pl.DataFrame({"actor": [1], "thread": [2], "time": [3]}).write_parquet(path)
    assert audit_table(path).events == 1
    with pytest.raises(BadInput, match="shown"):
        audit_table(path, posted="shown")
    with pytest.raises(BadInput, match="engine"):
        audit_table(path, engine="oracle")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")  # PySpark's
def test_spark_agrees_on_the_real_log(tmp_path: Path, spark: Any) -> None:
    same(Events.read(LOG, columns={"actor": "user", "thread": "page"}), tmp_path, "spark")
    assert spark.range(3).count() == 3  # the caller's session goes on
