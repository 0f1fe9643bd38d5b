"""Identifiers and second timestamps that reveal the order of arrival, whatever the public time says.

OpenReview publishes ``tcdate`` (the true moment of creation, in milliseconds) and ``number`` (a serial number) beside a
post; HotCRP letters reviews in order. A delay of the public time is worth nothing while these are public too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from peerveil.data import Events
from peerveil.data.schema import ORDER_LEAKS, SECOND_CLOCKS
from peerveil.timing.log import codes

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Leak:
    """A column that reveals the order in which events arrived.

    Attributes
    ----------
    column : str
        Its name.
    kind : str
        ``"second clock"`` or ``"serial number"``.
    agreement : float
        Of neighboring events of a thread (of the log, if that reveals more), the share in the same order as the column.
    scope : str
        ``"thread"`` or ``"log"``: where the order is revealed.
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
    """Columns of the log that follow the order of arrival in at least this share of cases.

    >>> from peerveil.data import Events
    >>> log = Events(actor=list("abab"), thread=[1, 1, 2, 2], time=[1e9, 2e9, 3e9, 4e9], extra={"number": [1, 2, 1, 2]})
    >>> [(leak.column, leak.agreement, leak.scope) for leak in find_leaks(log)]
    [('number', 1.0, 'thread')]
    """
    log = Events.of(events, "events", columns=columns)
    _, thread, times = codes(log)
    leaks = []
    for name in [*(name for name in log.extra if name in ORDER_LEAKS), *_own_ids(log)]:
        values = _as_numbers(log.frame[name])
        if values is None:
            continue
        by_thread = _agreement(values, times, np.argsort(thread, kind="stable"), thread)
        overall = _agreement(values, times, np.arange(times.size), None)
        scope, share = max(("log", overall), ("thread", by_thread), key=lambda pair: pair[1])
        if share >= least:
            leaks.append(Leak(name, "second clock" if name in SECOND_CLOCKS else "serial number", share, scope))
    return leaks


def _own_ids(log: Events) -> list[str]:
    """The ids themselves, if they are numbers of the log's own and not ours."""
    ids = log.frame["id"]
    ours = ids.dtype.is_integer() and (ids.sort() == pl.int_range(len(log), eager=True)).all()
    return ["id"] if ids.dtype.is_integer() and not ours else []


def _as_numbers(series: pl.Series) -> Any:
    """A column as numbers that sort as it does; letters A, B, ..., Z, AA as people count them."""
    if series.dtype.is_temporal():
        series = series.cast(pl.Int64)
    elif series.dtype == pl.String:
        numbers = series.cast(pl.Int64, strict=False)
        if numbers.null_count() > series.null_count():
            letters = series.str.to_uppercase()
            numbers = (letters.str.len_chars() * 1_000_000_000 + letters.rank("dense")).cast(pl.Int64)
        series = numbers
    elif not series.dtype.is_numeric():
        return None
    return series.cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _agreement(values: Any, times: Any, order: Any, thread: Any) -> float:
    """The share of neighbors (in one thread) in the same order by the column as by arrival; 0 if there are none."""
    values = values[order]
    chosen = (np.diff(times[order]) > 0) & ~np.isnan(values[1:]) & ~np.isnan(values[:-1])
    if thread is not None:
        chosen &= np.diff(thread[order]) == 0
    return float(np.mean((np.diff(values) > 0)[chosen])) if chosen.any() else 0.0
