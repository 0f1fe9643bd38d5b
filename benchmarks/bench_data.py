"""Reading and validating 10 million labels against Polars' own read, in one run, best of three.

python benchmarks/bench_data.py [rows]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from peerveil.data import Events, Labels, Rankings, synthetic_conference

if TYPE_CHECKING:
    from collections.abc import Callable

Result = tuple[str, float, float, str]
_MEMORY = """
import sys
from pathlib import Path
import numpy, polars
from peerveil.data import Labels

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1])

Path("/proc/self/clear_refs").write_text("5")  # forget the peak of whoever started this process
before = peak()
how, path = sys.argv[1:]
table = Labels.read(path) if how == "ours" else getattr(polars, "read_" + how)(path)
print(peak() - before)
"""


def best(work: Callable[[], object], repeats: int = 3) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def peak(how: str, path: Path) -> float:
    """Megabytes at the peak above the imports, in a fresh process."""
    run = subprocess.run([sys.executable, "-c", _MEMORY, how, str(path)], capture_output=True, text=True, check=True)
    return int(run.stdout) / 1024


def write_preflib(path: Path, rows: int, items: int, rng: np.random.Generator) -> None:
    orders = np.argsort(rng.random((rows, items)), axis=1) + 1
    frame = pl.DataFrame(orders, schema=[str(column) for column in range(items)])
    body = frame.select(pl.concat_str([pl.lit("1: "), pl.concat_str(pl.all(), separator=",")])).write_csv(
        include_header=False, quote_style="never"
    )
    header = f"# DATA TYPE: soc\n# NUMBER ALTERNATIVES: {items}\n# NUMBER VOTERS: {rows}\n"
    path.write_text(header + body)


def bench(rows: int = 10_000_000) -> list[Result]:
    rng = np.random.default_rng(1)
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = pl.DataFrame(
            {
                "task": rng.integers(0, max(rows // 10, 1), rows),
                "worker": rng.integers(0, max(rows // 500, 1), rows),
                "label": rng.integers(0, 5, rows),
            }
        )
        text = whole.with_columns(
            pl.format("task-{}", "task").alias("task"),
            pl.format("worker-{}", "worker").alias("worker"),
            pl.col("label").replace_strict([0, 1, 2, 3, 4], ["cat", "dog", "cow", "hen", "owl"]),
        )
        for kind, frame in (("numbers", whole), ("text", text)):
            for suffix, read in (("csv", pl.read_csv), ("parquet", pl.read_parquet)):
                path = folder / f"labels-{kind}.{suffix}"
                getattr(frame, f"write_{suffix}")(path)
                read(path)  # both find the file in the page cache
                ours = best(lambda path=path: Labels.read(path))  # type: ignore[misc]
                peer = best(lambda read=read, path=path: read(path))  # type: ignore[misc]
                memory = f"peak {peak('ours', path):,.0f} MB, Polars {peak(suffix, path):,.0f} MB"
                results.append((f"read {rows:,} labels ({kind}, {suffix})", ours, peer, memory))
        labels = Labels.from_frame(whole)
        start = time.perf_counter()
        labels.fingerprint  # noqa: B018
        results.append((f"fingerprint of {rows:,} labels", time.perf_counter() - start, float("nan"), "first use"))
        results.append(
            (f"codes of {rows:,} labels", best(lambda: labels.codes(5)), float("nan"), "5 classes given as a count")
        )
        results.append(_events(folder, max(rows // 3, 1), rng))
        results.append(_preflib(folder, rows, rng))
        conference = best(lambda: synthetic_conference(papers=600, reviewers=1_800))
        results.append(("synthetic conference, 600 papers", conference, float("nan"), "1,800 reviewers, all tables"))
        large = best(lambda: synthetic_conference(papers=20_000, reviewers=15_000), repeats=1)
        results.append(("synthetic conference, 20,000 papers", large, float("nan"), "15,000 reviewers, all tables"))
    return results


def _events(folder: Path, rows: int, rng: np.random.Generator) -> Result:
    path = folder / "events.csv"
    micro = pl.Series(rng.integers(1_640_995_200_000, 1_643_673_600_000, rows)).cast(pl.Datetime("ms", "UTC"))
    pl.DataFrame(
        {
            "time": micro.dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ"),
            "actor": rng.integers(0, rows // 20 + 1, rows),
            "thread": rng.integers(0, rows // 3 + 1, rows),
        }
    ).write_csv(path)
    ours = best(lambda: Events.read(path), repeats=1)
    peer = best(lambda: pl.read_csv(path, try_parse_dates=True), repeats=1)
    return f"read {rows:,} events (csv)", ours, peer, "times parsed, sorted, numbered; Polars: parsed only"


def _preflib(folder: Path, rows: int, rng: np.random.Generator) -> Result:
    path = folder / "votes.soc"
    write_preflib(path, rows, 5, rng)
    ours = best(lambda: Rankings.read(path), repeats=1)
    broken = folder / "broken.soc"
    text = path.read_text().replace("# NUMBER VOTERS", "# SOMETHING ELSE")
    cut = text.rindex("\n", 0, len(text) // 2)
    broken.write_text(text[:cut] + "\n1: 1,2,3,3,5" + text[cut:])

    def name_it() -> None:
        try:
            Rankings.read(broken)
        except ValueError as error:
            named = "alternative 3 twice" in str(error)
        else:
            named = False
        if not named:
            raise RuntimeError("the bad line was not named")

    refusal_seconds = best(name_it, repeats=1)
    return (
        f"read {rows:,} PrefLib lines of 5 items",
        ours,
        float("nan"),
        f"one bad line named in {refusal_seconds:.1f} s",
    )


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    for name, ours, peer, note in bench(rows):
        against = "" if peer != peer else f"  Polars {peer:7.3f} s  ratio {ours / peer:5.2f}"
        print(f"{name:48} {ours:7.3f} s{against}  {note}")


if __name__ == "__main__":
    main()
