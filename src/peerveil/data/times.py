"""Times, however they came, as UTC with microseconds.

The rules, in one place:

* a time with a zone (``Z``, ``+02:00``) is converted to UTC;
* a time without one is read as UTC, or in the zone named by ``time_zone=``;
* a column that mixes the two is refused: nobody can know what the bare ones meant;
* numbers are seconds, milliseconds, microseconds or nanoseconds since 1970, told apart by their size
  (below 1e11, 1e14, 1e17, above), the same for the whole column.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.data.columns import as_series, moment_kind, refuse_kind, refuse_where
from peerveil.data.problems import MISSING, Problems

UTC_MICROSECONDS = pl.Datetime("us", "UTC")
_AWARE = ("%+", "%Y-%m-%dT%H:%M:%S%.f%#z", "%Y-%m-%d %H:%M:%S%.f%#z", "%Y-%m-%dT%H:%M%#z", "%Y-%m-%d %H:%M%#z")
_NAIVE = ("%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M")
_WANT = "a time such as 2026-03-01T09:30:00Z, or seconds or milliseconds since 1970"
_ONE_KIND = "times that either all say their zone or all leave it out"
_STEPS = ((1e11, 1_000_000.0), (1e14, 1_000.0), (1e17, 1.0), (np.inf, 1e-3))
_FIRST = int(datetime(1, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
_LAST = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp()) * 1_000_000


def time_series(name: str, values: object) -> pl.Series:
    """A column of times from a list, an array or a column; Python times of several zones are allowed.

    >>> time_series("time", [datetime(2026, 3, 1, 9, tzinfo=UTC)]).dtype
    Datetime(time_unit='us', time_zone='UTC')
    """
    if isinstance(values, list | tuple) and any(isinstance(value, date) for value in values):
        kinds = {moment_kind(value) for value in values if value is not None}
        if kinds == {"aware"}:
            moved = [None if value is None else value.astimezone(UTC) for value in values]
            return pl.Series(name, moved, dtype=UTC_MICROSECONDS)
        if kinds == {"naive"}:
            whole = [_midnight(value) for value in values]
            return pl.Series(name, whole, dtype=pl.Datetime("us"))
        position = next(row for row, value in enumerate(values) if _differs(value, values))
        raise BadInput(f"{name}, row {position + 1} (index {position})", got=values[position], want=_ONE_KIND)
    return as_series(name, values)


def _midnight(value: date | datetime | None) -> datetime | None:
    if value is None or isinstance(value, datetime):
        return value
    return datetime(value.year, value.month, value.day)


def _differs(value: object, values: list[object] | tuple[object, ...]) -> bool:
    known = next(moment_kind(other) for other in values if other is not None)
    return value is not None and moment_kind(value) != known


def check_zone(time_zone: str | None) -> str:
    """The zone in which bare times are read; UTC unless another is named.

    >>> check_zone("Europe/Zurich")
    'Europe/Zurich'
    """
    if time_zone is None:
        return "UTC"
    if isinstance(time_zone, ZoneInfo):
        return str(time_zone.key)
    if not isinstance(time_zone, str) or time_zone not in available_timezones():
        raise BadInput("time_zone", got=time_zone, want="a zone's name such as 'Europe/Zurich'")
    return time_zone


def check_now(now: object) -> datetime | None:
    """The moment after which an event cannot have happened, or None for no such check."""
    if now is None:
        return None
    if not isinstance(now, datetime) or now.tzinfo is None:
        raise BadInput("now", got=now, want="a datetime with a time zone")
    return now.astimezone(UTC)


def utc(column: str, series: pl.Series, problems: Problems, *, zone: str = "UTC", nullable: bool = False) -> pl.Series:
    """A column of times in UTC; problems are noted by row.

    >>> from peerveil.data.problems import Source
    >>> utc("time", pl.Series([1_700_000_000]), Problems(Source("x")))[0].isoformat()
    '2023-11-14T22:13:20+00:00'
    """
    dtype = series.dtype
    if dtype == pl.String:
        values = _from_text(column, series, problems, zone)
    elif isinstance(dtype, pl.Datetime):
        values = _from_datetimes(column, series, problems, zone)
    elif dtype == pl.Date:
        values = _from_datetimes(column, series.cast(pl.Datetime("us")), problems, zone)
    elif dtype.is_numeric():
        values = _from_numbers(column, series, problems)
    elif dtype == pl.Null:
        values = series.cast(UTC_MICROSECONDS)
    else:
        refuse_kind(column, series, _WANT, problems)
        return pl.Series(column, [None] * len(series), dtype=UTC_MICROSECONDS)
    if not nullable and values.null_count():
        missing = (series == "") | series.is_null() if dtype == pl.String else series.is_null()
        refuse_where(column, missing, problems, "a time in every row", lambda _: MISSING)
    return values.cast(UTC_MICROSECONDS)


def _from_datetimes(column: str, series: pl.Series, problems: Problems, zone: str) -> pl.Series:
    if isinstance(series.dtype, pl.Datetime) and series.dtype.time_zone is not None:
        return series.dt.convert_time_zone("UTC")
    placed = series.dt.replace_time_zone(zone, ambiguous="null", non_existent="null")
    if placed.null_count() != series.null_count():
        refuse_where(
            column,
            placed.is_null() & series.is_not_null(),
            problems,
            f"a time that happened exactly once in {zone} (clocks change there)",
            lambda row: Verbatim(series[row]),
        )
    return placed.dt.convert_time_zone("UTC")


def _from_numbers(column: str, series: pl.Series, problems: Problems) -> pl.Series:
    floats = series.cast(pl.Float64)
    if refuse_where(column, ~floats.is_finite(), problems, _WANT, lambda row: Verbatim(series[row])):
        return pl.Series(column, [None] * len(series), dtype=UTC_MICROSECONDS)
    known = floats.abs().drop_nulls()
    if not len(known):
        return series.cast(pl.Int64).cast(UTC_MICROSECONDS)
    largest = float(known.max())  # type: ignore[arg-type]
    step = unit_of(largest)
    if step != unit_of(float(known.min())):  # type: ignore[arg-type]
        bound = next(bound for bound, factor in reversed(_STEPS) if bound <= largest)
        refuse_where(
            column,
            floats.abs() < bound,
            problems,
            "the same unit as the rest of the column (seconds, milliseconds, ...)",
            lambda row: series[row],
        )
    if series.dtype.is_integer():
        exact = series.cast(pl.Int64, strict=False)
        micro = exact * int(step) if step >= 1 else exact // 1000
    else:
        micro = (floats * step + 0.5).floor().cast(pl.Int64, strict=False)
    return _in_calendar(column, micro, series, problems)


def unit_of(size: float) -> float:
    """How many microseconds one of a number of this size is."""
    return next(factor for bound, factor in _STEPS if size < bound)


def in_calendar(micro: float) -> bool:
    """Whether a time lies between the years 1 and 9999."""
    return _FIRST <= micro <= _LAST


def _in_calendar(column: str, micro: pl.Series, series: pl.Series, problems: Problems) -> pl.Series:
    outside = ((micro < _FIRST) | (micro > _LAST)) | (micro.is_null() & series.is_not_null())
    if refuse_where(column, outside, problems, "a time between the years 1 and 9999", lambda row: series[row]):
        micro = micro.set(outside.fill_null(value=False), None)
    return micro.cast(UTC_MICROSECONDS)


def _from_text(column: str, series: pl.Series, problems: Problems, zone: str) -> pl.Series:
    if (series == "").any():
        series = series.set(series == "", None)
    aware = _parse(series, _AWARE, "UTC")
    if aware.null_count() == series.null_count():
        return aware
    bare = _parse(series.set(aware.is_not_null(), None), _NAIVE, None)
    bare = bare.fill_null(series.set(aware.is_not_null(), None).str.to_date("%Y-%m-%d", strict=False))
    has_aware, has_bare = aware.null_count() < len(series), bare.null_count() < len(series)
    if has_aware and has_bare:
        minority = bare if bare.null_count() >= aware.null_count() else aware
        refuse_where(column, minority.is_not_null(), problems, _ONE_KIND, lambda row: series[row])
    elif not has_aware and not has_bare:
        for kind in (pl.Int64, pl.Float64):  # whole nanoseconds do not fit into a float
            as_numbers = series.str.strip_chars().cast(kind, strict=False)
            if as_numbers.null_count() == series.null_count():
                return _from_numbers(column, as_numbers, problems)
    unread = series.is_not_null() & aware.is_null() & bare.is_null()
    refuse_where(column, unread, problems, _WANT, lambda row: series[row])
    if has_aware:
        return aware
    return _from_datetimes(column, bare, problems, zone)


def _parse(series: pl.Series, formats: tuple[str, ...], zone: str | None) -> pl.Series:
    """Try one format after the other on what the earlier ones could not read."""
    result = pl.Series(series.name, [None], dtype=pl.Datetime("us", zone)).new_from_index(0, len(series))
    for layout in formats:
        left = series.filter(result.is_null())
        if left.null_count() == len(left):
            break
        read = left.str.to_datetime(layout, time_unit="us", time_zone=zone, strict=False)
        if read.null_count() == len(read):
            continue
        result = read if len(read) == len(series) else result.scatter(result.is_null().arg_true(), read)
    return result
