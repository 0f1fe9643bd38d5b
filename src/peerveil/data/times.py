"""Times, however they came, as UTC with microseconds.

The rules, in one place:

* a time with a zone (``Z``, ``+02:00``) is converted to UTC;
* a time without one is read as UTC, or in the zone named by ``time_zone=``;
* a column that mixes the two is refused: nobody can know what the bare ones meant;
* numbers are seconds, milliseconds, microseconds or nanoseconds since 1970, distinguished by their size
  (below 1e11, 1e14, 1e17, above), the same for the whole column.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput

if TYPE_CHECKING:
    from peerveil.data.check import ColumnCheck

_AWARE: Final = (
    "%+", "%Y-%m-%dT%H:%M:%S%.f%#z", "%Y-%m-%d %H:%M:%S%.f%#z", "%Y-%m-%dT%H:%M%#z", "%Y-%m-%d %H:%M%#z",
)  # fmt: skip
_NAIVE: Final = ("%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M")
_ONE_KIND: Final = "times that either all say their zone or all leave it out"
_MICROSECONDS_BELOW: Final = ((1e11, 1_000_000.0), (1e14, 1_000.0), (1e17, 1.0), (np.inf, 1e-3))
_FIRST: Final = int(datetime(1, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
_LAST: Final = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp()) * 1_000_000


def time_text(value: object) -> object:
    """A Python date or time as text, in UTC if it says its zone; anything else as it is.

    >>> time_text(datetime(2026, 3, 1, 9, tzinfo=UTC)), time_text(date(2026, 3, 1))
    ('2026-03-01T09:00:00+00:00', '2026-03-01')
    """
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).isoformat()
    return value.isoformat() if isinstance(value, date) else value


def check_zone(time_zone: str | ZoneInfo) -> str:
    """The name of the zone in which bare times are read.

    >>> check_zone("Europe/Zurich")
    'Europe/Zurich'
    """
    if str(time_zone) not in available_timezones():
        raise BadInput("time_zone", got=time_zone, want="a zone's name such as 'Europe/Zurich'")
    return str(time_zone)


def check_moment(moment: object, argument: str) -> datetime:
    """A moment in UTC; one without a time zone is refused."""
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise BadInput(argument, got=moment, want="a datetime with a time zone")
    return moment.astimezone(UTC)


def utc_times(check: ColumnCheck) -> pl.Series:
    """A column of times in UTC; what is no time is refused by row or left empty for the checker to refuse."""
    series, dtype = check.series, check.series.dtype
    if dtype == pl.String:
        values = _from_text(check)
    elif dtype == pl.Date or isinstance(dtype, pl.Datetime):
        values = _from_datetimes(check, series.cast(pl.Datetime("us")) if dtype == pl.Date else series)
    elif dtype.is_numeric():
        values = _from_numbers(check, series)
    else:
        values = series if dtype == pl.Null else check.refuse_kind()
    return values.cast(pl.Datetime("us", "UTC"))


def _from_datetimes(check: ColumnCheck, series: pl.Series) -> pl.Series:
    if isinstance(series.dtype, pl.Datetime) and series.dtype.time_zone is not None:
        return series.dt.convert_time_zone("UTC")
    placed = series.dt.replace_time_zone(check.zone, ambiguous="null", non_existent="null")
    want = f"a time that happened exactly once in {check.zone} (clocks change there)"
    check.refuse(placed.is_null() & series.is_not_null(), want, series)
    return placed.dt.convert_time_zone("UTC")


def _from_numbers(check: ColumnCheck, series: pl.Series) -> pl.Series:
    sizes = series.cast(pl.Float64).abs()
    check.refuse(~sizes.is_finite())
    known = sizes.filter(sizes.is_finite())
    if not len(known):
        return pl.repeat(None, len(series), dtype=pl.Int64, eager=True)
    largest = float(known.max())  # type: ignore[arg-type]
    step = unit_of(largest)
    if step != unit_of(float(known.min())):  # type: ignore[arg-type]
        bound = max(bound for bound, _ in _MICROSECONDS_BELOW if bound <= largest)
        check.refuse(sizes < bound, "the same unit as the rest of the column (seconds, milliseconds, ...)")
    if series.dtype.is_integer():
        exact = series.cast(pl.Int64, strict=False)
        micro = exact * int(step) if step >= 1 else exact // 1000
    else:
        micro = (series.cast(pl.Float64) * step + 0.5).floor().cast(pl.Int64, strict=False)
    outside = ~micro.is_between(_FIRST, _LAST).fill_null(value=False) & series.is_not_null()
    check.refuse(outside, "a time between the years 1 and 9999")
    return micro.set(outside, None)


def unit_of(size: float) -> float:
    """How many microseconds one of a number of this size is."""
    return next(microseconds for bound, microseconds in _MICROSECONDS_BELOW if size < bound)


def in_calendar(micro: float) -> bool:
    """Whether a time is between the years 1 and 9999."""
    return _FIRST <= micro <= _LAST


def _from_text(check: ColumnCheck) -> pl.Series:
    series = check.series
    aware = _parse(series, _AWARE, "UTC")
    if aware.null_count() == series.null_count():
        return aware
    rest = series.set(aware.is_not_null(), None)
    bare = _parse(rest, _NAIVE, None).fill_null(rest.str.to_date("%Y-%m-%d", strict=False))
    has_aware, has_bare = aware.null_count() < len(series), bare.null_count() < len(series)
    if has_aware and has_bare:
        minority = bare if bare.null_count() >= aware.null_count() else aware
        check.refuse(minority.is_not_null(), _ONE_KIND)
        return aware.fill_null(bare.dt.replace_time_zone("UTC"))
    if not has_aware and not has_bare:
        for kind in (pl.Int64, pl.Float64):  # whole nanoseconds do not fit into a float
            numbers = series.str.strip_chars().cast(kind, strict=False)
            if numbers.null_count() == series.null_count():
                return _from_numbers(check, numbers)
    return aware if has_aware else _from_datetimes(check, bare)


def _parse(series: pl.Series, formats: tuple[str, ...], zone: str | None) -> pl.Series:
    """Try one format after the other on what the earlier ones could not read."""
    result = pl.Series(series.name, [None], dtype=pl.Datetime("us", zone)).new_from_index(0, len(series))
    for layout in formats:
        left = series.filter(result.is_null())
        if left.null_count() == len(left):
            break
        times = left.str.to_datetime(layout, time_unit="us", time_zone=zone, strict=False)
        if times.null_count() < len(times):
            result = times if len(times) == len(series) else result.scatter(result.is_null().arg_true(), times)
    return result
