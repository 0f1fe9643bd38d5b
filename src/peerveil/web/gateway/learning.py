"""Gaps learned from an earlier log: one for the space, and one for each thread, or for each track of threads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from peerveil.core.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping


def learn_gaps(table: Mapping[str, Any], window: float, where: str, folder: str) -> tuple[float, dict[str, float]]:
    """The space's gap and the threads' gaps from ``history`` (a file), ``percentile`` and ``per`` (a column).

    History is public by assumption: give an earlier log, never the one that the gateway is to protect. Threads that it
    does not know get the space's gap. With ``per = "track"`` a thread has the gap of its track.
    """
    from peerveil.data import Events
    from peerveil.timing import choose_gap, choose_gaps

    percentile = table.get("percentile", 25)
    per = str(table.get("per", "none"))
    path = Path(folder) / str(table["history"])
    history = Events.read(path)
    default = choose_gap(history, percentile=percentile, window=window)
    if per == "none":
        return default, {}
    if per != "thread" and per not in history.extra:
        raise BadInput(f"{where}.per", got=per, want="none, thread, or another column of the history")
    found = choose_gaps(history, percentile=percentile, per=per, window=window, default=default)
    if per == "thread":
        return default, {str(thread): gap for thread, gap in found.items()}
    rows = history.frame.select("thread", per).unique().iter_rows()
    gaps: dict[str, float] = {}
    for thread, group in rows:
        # a thread that stood in several tracks takes the longest gap: longer covers more
        gaps[str(thread)] = max(found[group], gaps.get(str(thread), 0.0))
    return default, gaps
