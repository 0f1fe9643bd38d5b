"""Run the benchmarks (or those named) and print a table for each: what takes an hour is run only if it is named."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks
from benchmarks.timing import Row
from peerveil.cli.base import print_table

_FIRST = "bench_truth_speed"  # the call that most users make
_LONG = {"bench_release", "bench_rankings_coverage"}  # coverage and errors over thousands of simulations


def main() -> None:
    names = (m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name.startswith("bench_"))
    found = sorted(names, key=lambda name: (name != _FIRST, name))
    asked = [f"bench_{name.removeprefix('bench_')}" for name in sys.argv[1:]]
    asked = asked or [name for name in found if name not in _LONG]
    unknown = sorted(set(asked) - set(found))
    if unknown:
        sys.exit(f"no benchmark {', '.join(unknown)}; there are: {', '.join(found)}")
    for name in asked:
        rows = importlib.import_module(f"benchmarks.{name}").bench()
        cells = [(row if isinstance(row, Row) else Row.of(*row)).cells() for row in rows]
        print_table(("what", "ours", "peer", "ours / peer", "note"), cells, title=name)


if __name__ == "__main__":
    main()
