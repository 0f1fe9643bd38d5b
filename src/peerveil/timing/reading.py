"""Logs from tables and files, with the one further column by which a caller groups events."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Any

from peerveil.judgements import Events
from peerveil.judgements.events import ORDER_LEAKS
from peerveil.judgements.table import is_frame

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


def as_typed(
    path: str | os.PathLike[str], columns: Mapping[str, str], format_: str | None = None, zone: str | None = None
) -> str:
    """A file with the options that it was read with, as they stand on a command line.

    >>> as_typed("my log.csv", {"actor": "user"})
    "'my log.csv' --column actor=user"
    """
    options = [part for ours, theirs in columns.items() for part in ("--column", f"{ours}={theirs}")]
    options += ["--format", format_] if format_ else []
    options += ["--time-zone", zone] if zone else []
    return shlex.join([os.fspath(path), *options])
