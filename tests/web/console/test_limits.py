"""The attack: a file of a few megabytes that is a table of gigabytes. It is refused before it is read."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import subprocess
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import polars as pl
from tests.web.console.clients import LocalConsole, said, where

from peerveil.data import BadTable, synthetic_conference
from peerveil.web.console.app import ConsoleSettings
from peerveil.web.console.limits import admit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pa: Any = import_module("pyarrow")
pq: Any = import_module("pyarrow.parquet")
GROUP = 1_000_000
WORK = """
import re, sys, io
from pathlib import Path
from peerveil.web.console import ConsoleSettings
from peerveil.web.console.app import ConsoleApp
from peerveil.web.console.users import User
from peerveil.web.console import files
from peerveil.web.console.worker import JobWorker
from peerveil.web.common import Journal
import peerveil.data, polars
app = ConsoleApp(ConsoleSettings.make(sys.argv[1], memory_limit=500_000_000))
def peak():  # not getrusage: that begins with the peak of the process that started this one
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
before = peak()
me = User("local", "you", "operator")
for path in sys.argv[2:]:
    file = files.add_path(app, me, path)
    while JobWorker(app, "checks", Journal("console", io.StringIO())).work():
        pass
    found = files.find(app, me, file)
    print(found.state, peak() - before, found.inspection.get("refused"), sep="|")
"""


def repeated(path: Path, groups: int, **columns: Any) -> Path:
    """A Parquet file of constant columns, written group by group."""
    table = pa.table({name: pa.repeat(value, GROUP) for name, value in columns.items()})
    with pq.ParquetWriter(path, table.schema) as writer:
        for _ in range(groups):
            writer.write_table(table)
    return path


def lists(path: Path) -> Path:
    """A thousand rows, each a list of 30,000 equal numbers: 240 MB if they are read."""
    values = pa.repeat(pa.scalar(1, pa.int64()), 30_000_000)
    column = pa.ListArray.from_arrays(pa.array(range(0, 30_000_001, 30_000), pa.int32()), values)
    pq.write_table(pa.table({"paper": pa.array(range(1000)), "reviewer": column, "score": pa.array(range(1000))}), path)
    return path


def long_texts(path: Path) -> Path:
    """A text of a megabyte, stored once, in 20,000 rows."""
    text = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), 20_000), pa.array(["x" * 1_000_000]))
    pq.write_table(
        pa.table({"paper": pa.array(range(20_000)), "reviewer": text, "score": pa.repeat(1.0, 20_000)}), path
    )
    return path


def bomb(path: Path, line: bytes, lines: int, head: bytes = b"paper,reviewer,score\n") -> Path:
    with gzip.open(path, "wb", compresslevel=1) as handle:
        handle.write(head)
        for _ in range(lines // 100_000):
            handle.write(line * 100_000)
    return path


HOSTILE: dict[str, Callable[[Path], Path]] = {
    "equal rows": lambda folder: repeated(folder / "a.parquet", 10, paper=1, reviewer="ann", score=5.0),
    "lists": lambda folder: lists(folder / "b.parquet"),
    "long texts": lambda folder: long_texts(folder / "c.parquet"),
    "many columns": lambda folder: repeated(folder / "d.parquet", 1, **{f"c{i}": 1 for i in range(60)}),
    "gzip of lines": lambda folder: bomb(folder / "e.csv.gz", b"1,ann,5\n", 30_000_000),
    "gzip of one line": lambda folder: bomb(folder / "f.csv.gz", b"a" * 100, 3_000_000, b"paper"),
    "gzip of JSON": lambda folder: bomb(folder / "g.json.gz", b'{"a":1},', 30_000_000, b"["),
}


def test_a_small_file_that_is_a_large_table_is_refused_unread(tmp_path: Path) -> None:
    paths = {name: make(tmp_path) for name, make in HOSTILE.items()}
    assert all(path.stat().st_size < 40_000_000 for path in paths.values())
    command = [sys.executable, "-c", WORK, str(tmp_path / "console"), *map(str, paths.values())]
    env = {**os.environ, "POLARS_MAX_THREADS": "2"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, env=env)
    for name, line in zip(paths, done.stdout.splitlines(), strict=True):
        state, grown, why = line.split("|")
        assert state == "unreadable", name
        assert "rows" in why, name
        assert "--row-limit" in why, name
        assert "--engine duckdb" in why, name
        assert int(grown) < 150_000, f"{name}: {int(grown) / 1e6:.2f} GB"  # kilobytes, of this file and those before


def test_the_page_says_what_came_and_what_is_allowed(tmp_path: Path) -> None:
    console = LocalConsole(tmp_path, row_limit=60, memory_limit=10**9)
    try:
        me = console.browser()
        frame = synthetic_conference(30, 20, seed=1).reviews.frame.select("paper", "reviewer", "score")
        buffer = io.BytesIO()
        frame.write_parquet(buffer)
        for upload in (("r.parquet", buffer.getvalue()), ("r.csv", frame.write_csv().encode())):
            file = where(me.add(*upload))
            console.work("checks")
            page = said(me.get(file))
            assert f"at least {frame.height} rows" in page or f"at least {frame.height + 1} rows" in page, page
            assert "at most 60 rows and 1.0 GB" in page
        small = where(me.add("small.csv", frame.head(50).write_csv().encode()))
        console.work("checks")
        assert "50 reviews" in said(me.get(small))
    finally:
        console.close()


def test_a_file_that_grew_after_it_was_looked_at_is_refused(tmp_path: Path) -> None:
    console = LocalConsole(tmp_path, row_limit=1000)
    try:
        me = console.browser()
        me.send("/ledger", "/ledger/open", {"name": "main", "epsilon": "5"})
        path = tmp_path / "reviews.csv"
        frame = synthetic_conference(30, 20, seed=1).reviews.frame.select("paper", "reviewer", "score")
        frame.write_csv(path)
        file = where(me.send("/data", "/data/path", {"path": str(path)})).rsplit("/", 1)[1]
        console.work("checks")
        pl.concat([frame] * 50).write_csv(path)
        fields = {"action": "release.publish", "data": file, "account": "main", "epsilon": "1"}
        run = where(me.send("/release", "/release/prepare", fields))
        console.work("checks")
        assert "at most 1,000 rows" in said(me.get(run))
    finally:
        console.close()


def test_ordinary_tables_are_admitted(tmp_path: Path) -> None:
    settings = ConsoleSettings.make(tmp_path / "console")
    conference = synthetic_conference(200, 150, seed=1)
    for suffix in ("csv", "csv.gz", "tsv", "jsonl", "parquet"):
        for kind in ("reviews", "events", "labels", "rankings"):
            admit(getattr(conference, kind).write(tmp_path / f"{kind}.{suffix}"), settings)
    (tmp_path / "notes.json").write_text(json.dumps({"notes": [{"id": str(i)} for i in range(5000)]}))
    admit(tmp_path / "notes.json", settings)
    for name, content in (("broken.gz", b"\x1f\x8b" + b"0" * 50), ("broken.parquet", b"PAR1" + b"0" * 50)):
        (tmp_path / name).write_bytes(content)
        with contextlib.suppress(BadTable):  # not too large; what is wrong with it is the reader's to say
            admit(tmp_path / name, settings)
