"""Exploring a module: milliseconds from a moved slider to words and curves, against drawing one empty figure in the same run.

python benchmarks/bench_console.py
"""

from __future__ import annotations

import statistics
import time
from itertools import cycle
from typing import TYPE_CHECKING, Any

from benchmarks.timing import Row
from peerveil.data import synthetic_conference
from peerveil.report import new_axes, svg
from peerveil.web.console.explore import MODULES, explore, simulate

if TYPE_CHECKING:
    from collections.abc import Callable

TIMES = 20


def medians(*functions: Callable[[], object]) -> list[float]:
    """Median seconds of each, taken in turns so that a busy moment hits all of them."""
    seconds: list[list[float]] = [[] for _ in functions]
    for _ in range(TIMES):
        for i, function in enumerate(functions):
            start = time.perf_counter()
            function()
            seconds[i].append(time.perf_counter() - start)
    return [statistics.median(one) for one in seconds]


def empty_figure() -> str:
    (ax,) = new_axes()
    return svg(ax, "nothing")


def mover(module: str, simulation: dict[str, Any]) -> Callable[[], object]:
    """A hand on the first slider: every time another value."""
    slider = explore(module, simulation, {}).controls[0]
    values = cycle(slider.values)
    return lambda: explore(module, simulation, {slider.name: next(values)})


def bench(papers: int = 600, reviewers: int = 450) -> list[Row]:
    conference = synthetic_conference(papers, reviewers)
    tables = {
        "release": conference.reviews,
        "timing": conference.events,
        "calibration": conference.reviews,
        "rankings": conference.rankings,
        "truth": conference.labels,
    }
    rows = []
    for module in MODULES:
        start = time.process_time()
        simulation = simulate(module, tables[module])
        took = time.process_time() - start
        empty_figure()
        ours, peer = medians(mover(module, simulation), empty_figure)
        note = f"2 figures; peer: one empty figure; simulated once in {took:.1f} s of processor time"
        rows.append(Row(f"explore {module}", 1000 * ours, 1000 * peer, "ms", note))
    return rows


def main() -> None:
    for row in bench():
        print("  ".join(row.cells()))


if __name__ == "__main__":
    main()
