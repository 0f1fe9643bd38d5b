"""Measuring, shared by the benchmarks."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Row:
    """One line of a benchmark: ours and a peer's figure in one unit, and what was measured."""

    what: str
    ours: float
    peer: float | None
    unit: str
    note: str = ""

    @classmethod
    def of(cls, what: str, ours: float, peer: float, note: str) -> Row:
        """From seconds, a peer of NaN meaning that there is none."""
        return cls(what, ours, None if peer != peer else peer, "s", note)

    def cells(self) -> tuple[str, str, str, str, str]:
        ratio = f"{self.ours / self.peer:.2f}" if self.peer else "-"
        return self.what, _figure(self.ours, self.unit), _figure(self.peer, self.unit), ratio, self.note


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    for limit, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def best_of(times: int, *functions: Callable[[], object]) -> list[float]:
    """The least seconds of each function, taken in turns so that a busy moment hits all of them."""
    best = [float("inf")] * len(functions)
    for _ in range(times):
        for i, function in enumerate(functions):
            start = time.perf_counter()
            function()
            best[i] = min(best[i], time.perf_counter() - start)
    return best
