"""Logs from tables and files, with the one further column by which a caller groups events."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from peerveil.data import Events
from peerveil.data.schema import ORDER_LEAKS
from peerveil.data.table import is_frame

if TYPE_CHECKING:
    from collections.abc import Mapping


def read_log(data: Any, argument: str, *, columns: Mapping[str, str] | None = None, group: str | None = None) -> Events:
    """Events from whatever holds them, with the column ``group`` besides those that can give an order away.

    >>> import polars as pl
    >>> frame = pl.DataFrame({"actor": ["a"], "thread": [1], "time": [1e9], "track": ["theory"], "number": [7]})
    >>> read_log(frame, "events", group="track").extra, read_log(frame, "events").extra
    (('number', 'track'), ('number',))
    """
    events = Events.of(data, argument, columns=columns)
    if group is None or group in events.frame.columns or not (isinstance(data, str | os.PathLike) or is_frame(data)):
        return events
    # naming one further column must not drop those that can give an order away
    extra = [*(name for name in events.extra if name in ORDER_LEAKS), group]
    if is_frame(data):
        return Events.from_frame(data, columns=columns, extra=extra)
    return Events.read(data, columns=columns, extra=extra)
