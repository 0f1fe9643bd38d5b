"""Opening tables beyond memory: the same on DuckDB and Spark, every refusal named."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import ibis
import polars as pl
import pytest

from peerveil import BadInput
from peerveil.core.optional import MissingExtra
from peerveil.data.engines import open_table, rows_of
from peerveil.timing.engine import micros

MOMENT = datetime(2026, 3, 1, 12, 0, 0, 123_456, tzinfo=UTC)
MICROS = 1_772_366_400_123_456  # date -u -d '2026-03-01 12:00' +%s, and the microseconds


@pytest.fixture
def times(tmp_path: Path) -> Path:
    """The same moment with a zone, in another zone, without one, and as a whole number."""
    path = tmp_path / "times.parquet"
    aware = pl.Series([MOMENT]).cast(pl.Datetime("us", "UTC"))
    pl.DataFrame({
        "utc": aware,
        "tokyo": aware.dt.convert_time_zone("Asia/Tokyo"),
        "naive": aware.dt.replace_time_zone(None),
        "whole": pl.Series([MICROS]),
        "word": pl.Series(["noon"]),
    }).write_parquet(path)  # fmt: skip
    return path


def same_moment(path: Path, engine: str) -> None:
    names = ["utc", "tokyo", "naive", "whole"]
    with open_table(path, names, engine=engine) as table:
        assert rows_of(table.select(**{name: micros(table, name) for name in names})) == [dict.fromkeys(names, MICROS)]
        with pytest.raises(BadInput, match="word: got texts such as 'noon'"):
            micros(table, "word")


def test_duckdb_reads_every_kind_of_time(times: Path) -> None:
    same_moment(times, "duckdb")


@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # Ibis 12 on DuckDB 2
def test_a_table_in_memory_and_one_of_another_connection(times: Path) -> None:
    with open_table(ibis.memtable(pl.DataFrame({"a": [3, 4]})), ["a"]) as table:
        assert rows_of(table.aggregate(n=table.a.sum())) == [{"n": 7}]
    connection = ibis.duckdb.connect()
    with open_table(connection.read_parquet(str(times)), ["utc"]) as table:
        assert rows_of(table.aggregate(n=table.count())) == [{"n": 1}]
    assert connection.con.execute("SELECT 1").fetchall() == [(1,)]  # it stays open
    connection.disconnect()


def test_the_disk_is_left_as_it_was_and_memory_is_limited(times: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(times.parent)
    with open_table(times, [], memory="300MB") as table:
        settings = table.get_backend().con.execute(
            "SELECT current_setting('memory_limit'), current_setting('temp_directory')").fetchone()  # fmt: skip
        assert settings[0] == "286.1 MiB"  # 300 million bytes
        folder = Path(settings[1])
        assert folder.is_dir()
        assert folder.parent != times.parent
    assert not folder.exists()
    assert [p.name for p in times.parent.iterdir()] == ["times.parquet"]


def test_what_cannot_be_opened_is_named(tmp_path: Path, times: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    holes = tmp_path / "holes.parquet"
    pl.DataFrame({"actor": [1, None, 2], "time": [None, None, 5]}).write_parquet(holes)

    def opened(*arguments: Any, **options: Any) -> Any:
        with open_table(*arguments, **options) as table:
            return table

    for arguments, options, message in (
        ((times, ["utc"]), {"engine": "oracle"}, "engine: got 'oracle', need 'duckdb' or 'spark'"),
        ((times, ["utc", "who"]), {}, "columns utc, who; who missing"),
        ((holes, ["actor", "time"]), {}, "1 rows without actor, 2 rows without time"),
        ((tmp_path / "none.parquet", ["a"]), {}, "source: got .*, need an Ibis table, a Parquet or CSV file"),
        ((times, ["utc"]), {"memory": "plenty"}, "memory: got 'plenty', need a size such as '2GB'"),
        ((times, ["utc"]), {"memory": "plenty", "engine": "spark"}, "memory: got"),
    ):
        with pytest.raises(BadInput, match=message):
            opened(*arguments, **options)
    monkeypatch.setattr(metadata, "distributions", lambda name: [])
    for engine in ("duckdb", "spark"):
        with pytest.raises(MissingExtra, match=rf"pip install 'peerveil\[{engine}\]'"):
            opened(times, ["utc"], engine=engine)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")  # PySpark's
def test_spark_reads_every_kind_of_time_and_keeps_its_own_zone(times: Path, spark: Any) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        same_moment(times, "spark")
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    with (
        pytest.raises(BadInput, match="source: got .*, need an Ibis table, a Parquet or CSV file"),
        open_table("none.parquet", [], engine="spark"),
    ):
        pass


@pytest.mark.slow
def test_a_session_of_our_own_is_stopped(times: Path) -> None:
    """In a process of its own: there can be one session at a time."""
    import subprocess

    script = (
        "import sys\nfrom peerveil.data.engines import open_table, rows_of\n"
        "with open_table(sys.argv[1], ['whole'], engine='spark', memory='512MB') as t:\n"
        "    print(rows_of(t.aggregate(n=t.count())))\n"
        "from pyspark.sql import SparkSession\nprint(SparkSession.getActiveSession())\n"
    )
    run = subprocess.run([sys.executable, "-c", script, str(times)], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-2:] == ["[{'n': 1}]", "None"]
