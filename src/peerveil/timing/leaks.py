"""Identifiers and second timestamps that give the order of arrival away, whatever the public time says.

OpenReview publishes ``tcdate`` (the true moment of creation, in milliseconds) and ``number`` (a serial number) beside a
post; HotCRP letters reviews in order. A delay of the shown time is worth nothing while these stand beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from peerveil.data import Events
from peerveil.data.schema import ORDER_LEAKS, SECOND_CLOCKS
from peerveil.timing.batches import codes

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Leak:
    """A column that tells in which order events arrived.

    Attributes
    ----------
    column : str
        Its name.
    kind : str
        ``"second clock"`` or ``"serial number"``.
    agreement : float
        Of neighboring events of a thread (of the log, if that tells more), the share in the same order as the column.
    scope : str
        ``"thread"`` or ``"log"``: where the order is told.
    """

    column: str
    kind: str
    agreement: float
    scope: str

    @property
    def advice(self) -> str:
        """What to do about it."""
        what = "publish the posting time instead" if self.kind == "second clock" else "number posts when they appear"
        return f"leave {self.column!r} out of what is public, or {what}"

    def __str__(self) -> str:
        return (
            f"{self.column} ({self.kind}) follows the order of arrival in {100 * self.agreement:.3g}% of neighboring "
            f"events of a {self.scope}: {self.advice}"
        )


def find_leaks(events: Any, *, least: float = 0.8, columns: Mapping[str, str] | None = None) -> list[Leak]:
    """Columns kept with the log that follow the order of arrival in at least this share of cases.

    >>> from peerveil.data import Events
    >>> log = Events(actor=list("abab"), thread=[1, 1, 2, 2], time=[1e9, 2e9, 3e9, 4e9], extra={"number": [1, 2, 1, 2]})
    >>> [(leak.column, leak.agreement, leak.scope) for leak in find_leaks(log)]
    [('number', 1.0, 'thread')]
    """
    events = Events.of(events, "events", columns=columns)
    _, thread, times = codes(events)
    found = []
    names = [name for name in events.extra if name in ORDER_LEAKS] + _ordered_ids(events)
    for name in names:
        values = _as_numbers(events.frame[name])
        if values is None:
            continue
        by_thread = _agreement(values, times, np.argsort(thread, kind="stable"), thread)
        overall = _agreement(values, times, np.arange(times.size), None)
        scope, share = max(("log", overall), ("thread", by_thread), key=lambda pair: pair[1])
        if share >= least:
            kind = "second clock" if name in SECOND_CLOCKS else "serial number"
            found.append(Leak(name, kind, float(share), scope))
    return found


def _ordered_ids(events: Events) -> list[str]:
    """The ids themselves, where the log brought numbers of its own."""
    frame = events.frame
    dense = frame["id"].dtype.is_integer() and (frame["id"].sort() == pl.int_range(len(events), eager=True)).all()
    return [] if dense or not frame["id"].dtype.is_integer() else ["id"]


def _as_numbers(series: pl.Series) -> Any:
    """A column as numbers that sort as it does; letters A, B, ..., Z, AA as people count them."""
    if series.dtype.is_temporal():
        series = series.cast(pl.Int64)
    elif series.dtype == pl.String:
        whole = series.cast(pl.Int64, strict=False)
        if whole.null_count() > series.null_count():
            letters = series.str.to_uppercase()
            key = letters.str.len_chars() * 1_000_000_000
            rank = letters.rank("dense")
            whole = (key + rank).cast(pl.Int64)
        series = whole
    elif not series.dtype.is_numeric():
        return None
    return series.cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _agreement(values: Any, times: Any, order: Any, thread: Any) -> float:
    """The share of neighbors (in one thread) in the same order by the column as by arrival; 0 if there are none."""
    later, v = times[order], values[order]
    chosen = (later[1:] > later[:-1]) & ~np.isnan(v[1:]) & ~np.isnan(v[:-1])
    if thread is not None:
        chosen &= thread[order][1:] == thread[order][:-1]
    if not chosen.any():
        return 0.0
    return float(np.mean((v[1:] > v[:-1])[chosen]))
