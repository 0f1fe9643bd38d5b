"""One contract: every accepted format of times gives equal answers on every engine, or an error that names the column."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.cli.runner import run

from peerveil import BadInput
from peerveil.data import Events
from peerveil.data.engines import open_table, rows_of
from peerveil.timing import audit_table, find_batches, linkage_attack
from peerveil.timing.engine import micros

WINDOW, CUTS = 300, [0.0, 60.0, 300.0]
UTC = pl.Datetime("us", "UTC")


def moments(unit: str) -> pl.Series:
    """Five days of a small forum, with equal times, times before 1970 and all digits that the unit has."""
    rng = np.random.default_rng(5)
    start = 1_700_000_000 + rng.integers(0, 3000, 240) * 60
    start[:20] -= 2_500_000_000
    digits = {"s": 0, "ms": 3, "us": 6, "ns": 9}[unit]
    fine = rng.integers(0, 10**digits, 240) if digits else 0
    return pl.Series("time", (start * 10**digits + fine * rng.integers(0, 2, 240)).astype(np.int64))


def recent(unit: str) -> pl.Series:
    """The same without what is before 1970: numbers of one size."""
    return moments(unit)[20:]


def stamps(unit: Any) -> pl.Series:
    return moments(unit).cast(pl.Datetime(unit))


def offsets(layout: str) -> pl.Series:
    """Texts of the same moments, each with an offset of its own."""
    zones = ["+02:00", "-05:30", "Z", "+14:00", "-12:00"]
    shifts = np.tile([120, -330, 0, 840, -720], 48)
    local = stamps("us") + pl.Series(shifts * 60_000_000).cast(pl.Duration("us"))
    return local.dt.strftime(layout) + pl.Series(np.tile(zones, 48))


FAR = pl.Series([250_000_000_000 * k + 7 for k in range(1, 11)] * 24)  # milliseconds, to the year 2049
DISTANT = pl.Series(
    [datetime(9998, 12, 31, 23, 59, 59, 999_999), datetime(1, 1, 2), datetime(2024, 2, 29, 23, 59)] * 80
)
FORMATS = {
    "from the first year to the last": DISTANT,  # equal rows too
    **{f"whole {unit}": recent(unit) for unit in ("s", "ms", "us", "ns")},
    **{f"{unit} as text": recent(unit).cast(pl.String) for unit in ("s", "ns")},
    "fractions of seconds": recent("us") / 1e6,
    "fractions of seconds as text": (recent("ms") / 1e3).cast(pl.String),
    "half microseconds": recent("s") * 1e6 + np.tile([0.25, 0.5, 0.75, 1.5], 55),
    "fractions of nanoseconds": recent("ns").cast(pl.Float64),
    **{f"timestamps in {unit}": stamps(unit) for unit in ("ms", "us", "ns")},
    "timestamps with a zone": stamps("us").dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo"),
    "timestamps with a zone in ns": stamps("ns").dt.replace_time_zone("UTC").dt.convert_time_zone("America/New_York"),
    "dates": stamps("us").dt.date(),
    "dates as text": stamps("us").dt.strftime("%Y-%m-%d"),
    "text in UTC": stamps("us").dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ"),
    "text with nanoseconds": stamps("ns").dt.strftime("%Y-%m-%dT%H:%M:%S%.9fZ"),
    "text with a zone": stamps("ms").dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Kolkata")
    .dt.strftime("%Y-%m-%d %H:%M:%S%.3f%:z"),
    "text without a zone": stamps("us").dt.strftime("%Y-%m-%d %H:%M:%S%.6f"),
    "text to the minute": stamps("us").dt.strftime("%Y-%m-%dT%H:%M"),
}  # fmt: skip


MORE = {
    "an offset in every row": offsets("%Y-%m-%dT%H:%M:%S%.6f"),
    "an offset in every row, to the minute": offsets("%Y-%m-%d %H:%M"),
    "far future in milliseconds": FAR,
    "from the first year to the last, as text": DISTANT.dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ"),
    "small whole numbers": recent("s").cast(pl.Int32),
    "unsigned whole numbers": recent("us").cast(pl.UInt64),
    "decimals": recent("ms").cast(pl.Decimal(20, 0)),
}


def log_of(time: pl.Series) -> pl.DataFrame:
    rng = np.random.default_rng(6)
    actor, thread = rng.integers(0, 12, len(time)), rng.integers(0, 9, len(time))
    return pl.DataFrame({"actor": actor, "thread": pl.Series(thread).cast(pl.String) + "-th", "time": time})


def write(frame: pl.DataFrame, path: Path) -> Path:
    _ = frame.write_parquet(path) if path.suffix == ".parquet" else frame.write_csv(path)
    return path


def counts(path: Path, engine: str) -> tuple[Any, ...]:
    """Everything an audit counts, in memory or in a database, and every time in microseconds."""
    if engine == "memory":
        events = Events.read(path)
        found, attack = find_batches(events, window=WINDOW), linkage_attack(events, thresholds=CUTS, window=WINDOW)
        own = int(found.batched.sum()), int(found.follow_up.sum()), found.steps, found.same_rate
        other = found.other_rate
        times = events.times.tolist()
    else:
        table = audit_table(path, window=WINDOW, thresholds=CUTS, engine=engine, baseline=True)
        attack, own = table.attack, (table.batched, table.follow_ups, table.steps, table.same_rate)
        assert table.other_rate is not None
        other = table.other_rate
        with open_table(path, ["time"], engine=engine, texts=["time"]) as opened:
            times = sorted(row["t"] for row in rows_of(opened.select(t=micros(opened, "time"))))
    return times, own, round(other, 12), attack.flagged.tolist(), attack.right.tolist(), attack.batched


@pytest.mark.parametrize("kind", [".parquet", ".csv"])
@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_audit_in_memory_and_on_duckdb(name: str, kind: str, tmp_path: Path) -> None:
    """Epoch seconds were taken for microseconds before: 100% in batches where 4% were."""
    path = write(log_of(FORMATS[name]), tmp_path / f"log{kind}")
    assert counts(path, "duckdb") == counts(path, "memory")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [".parquet", ".csv"])
@pytest.mark.parametrize("name", MORE)
def test_so_do_rarer_formats(name: str, kind: str, tmp_path: Path) -> None:
    path = write(log_of(MORE[name]), tmp_path / f"log{kind}")
    assert counts(path, "duckdb") == counts(path, "memory")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")  # PySpark's
@pytest.mark.parametrize("name", [*FORMATS, *MORE])
def test_every_format_gives_the_same_audit_on_spark(name: str, tmp_path: Path, spark: Any) -> None:
    path = write(log_of((FORMATS | MORE)[name]), tmp_path / "log.parquet")
    assert counts(path, "spark") == counts(path, "memory")


REFUSED = {
    "no leap year": pl.Series(["2023-02-29T00:00:00Z", "2023-02-28T00:00:00Z"]),
    "an hour of 24": pl.Series(["2023-02-27T24:00:00Z", "2023-02-28T00:00:00Z"]),
    "two units": pl.Series([1_700_000_000, 1_700_000_000_000]),
    "some with a zone": pl.Series(["2026-03-01T09:30:00Z", "2026-03-01T09:30:00"]),
    "words": pl.Series(["2026-03-01T09:30:00Z", "noon"]),
    "not a number": pl.Series([1.7e9, float("nan")]),
    "before the calendar": pl.Series([-9e10, -9e10]),
    "no such day": pl.Series(["2026-02-30", "2026-03-01"]),
    "of another kind": pl.Series([True, False]),
}


@pytest.mark.parametrize("kind", [".parquet", ".csv"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_memory_refuses_a_database_refuses_too_by_its_column(name: str, kind: str, tmp_path: Path) -> None:
    path = write(log_of(REFUSED[name]), tmp_path / f"log{kind}")
    for engine in ("memory", "duckdb"):
        with pytest.raises(BadInput, match="time"):
            counts(path, engine)


def test_a_leap_second_is_the_next_one_in_memory_and_refused_by_a_database(tmp_path: Path) -> None:
    path = write(log_of(pl.Series(["2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"])), tmp_path / "log.csv")
    assert len(set(Events.read(path).times.tolist())) == 1
    with pytest.raises(BadInput, match="time"):
        counts(path, "duckdb")


def test_the_command_gives_equal_shares_and_refuses_what_an_engine_cannot_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(log_of(recent("s")), tmp_path / "log.csv")
    arguments = ("timing", "audit", path, "--json", "--force", "--out", tmp_path / "out")
    in_database = json.loads(run(capsys, *arguments, "--engine", "duckdb")[1])["operator_only"]["results"]
    batches = find_batches(Events.read(path), window=300)
    assert in_database["batched"] == batches.batched.sum()
    assert 0 < in_database["batched"] < 0.9 * in_database["events"]
    in_memory = json.loads(run(capsys, *arguments)[1])["operator_only"]["results"]
    assert in_memory["batched_share"] == batches.batched.mean()
    for option in (("--time-zone", "Europe/Zurich"), ("--format", "csv")):
        code, _, error = run(capsys, *arguments, "--engine", "duckdb", *option)
        assert code != 0
        assert "times without a zone as UTC" in error
    with pytest.raises(BadInput, match="Parquet file: Spark guesses"):
        audit_table(path, engine="spark")
