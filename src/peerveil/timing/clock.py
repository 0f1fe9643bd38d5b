"""Times of a table in a database as whole microseconds, by the rules of :mod:`peerveil.data.times`.

Every kind of time that is read in memory is read here to the same microsecond, or refused with the name of its column:
timestamps of any unit, dates, numbers since 1970 (seconds to nanoseconds, by their size), and texts. Times without a zone
are UTC. Only texts of one layout are understood, so that no database guesses: ``2026-03-01T09:30:00.25+02:00`` (or a space
for the ``T``; seconds, fraction and zone may be left out, the zone in all rows or in none), ``2026-03-01``, and numbers.
"""

from __future__ import annotations

from typing import Any, Final

from peerveil.core.errors import BadInput, Verbatim
from peerveil.data.engines import builtin, rows_of
from peerveil.data.times import in_calendar, unit_of

_DAY: Final = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK: Final = "[T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?"
_LAYOUTS: Final = {
    "int64": "^-?[0-9]+$",
    "float64": "^-?[0-9]+([.][0-9]*)?([eE][+]?[0-9]+)?$",
    "timestamp": f"^{_DAY}({_CLOCK})?$",
    "timestamp('UTC')": f"^{_DAY}{_CLOCK}(Z|[+-][0-9]{{2}}(:?[0-9]{{2}})?)$",
}
_WANT: Final = (
    "timestamps, dates, numbers since 1970, or texts such as 2026-03-01T09:30:00Z that all say their zone or all leave it "
    "out (without an engine, in memory, more layouts are read)"
)


def micros(table: Any, name: str) -> Any:
    """A column of times as whole microseconds since 1970."""
    column = table[name]
    kind = column.type()
    if kind.is_string():
        column = _from_text(table, name)
        kind = column.type()
    if kind.is_integer() or kind.is_floating() or kind.is_decimal():
        return _from_numbers(table, column, name)
    backend = table.get_backend().name
    if kind.is_date():
        column = column.cast("timestamp")
    elif backend == "duckdb" and (str(kind).startswith("timestamp(9") or "TIMESTAMPTZ_NS" in str(kind)):
        return _thousandth(builtin("epoch_ns")(column))  # epoch_us would round what is finer than a microsecond
    elif not kind.is_timestamp():
        raise BadInput(name, got=Verbatim(f"a column of {kind}"), want=_WANT)
    if backend == "pyspark":
        return builtin("unix_micros")(column.cast("timestamp('UTC')"))
    if backend == "duckdb":
        return builtin("epoch_us")(column)
    return column.truncate("s").epoch_seconds().cast("int64") * 1_000_000 + column.microsecond()


def _from_text(table: Any, name: str) -> Any:
    """Texts as what all of them are: whole numbers, numbers, times without a zone, or times with one."""
    column = table[name]
    counts = {kind: column.re_search(layout).cast("int64").sum() for kind, layout in _LAYOUTS.items()}
    found = rows_of(table.aggregate(every=column.count(), **{f"n{i}": n for i, n in enumerate(counts.values())}))[0]
    for place, kind in enumerate(counts):
        if found[f"n{place}"] == found["every"]:
            read = column.try_cast(kind)
            if not rows_of(table.aggregate(n=read.isnull().cast("int64").sum()))[0]["n"]:
                return read
    example = rows_of(table.aggregate(low=column.min(), high=column.max()))[0]
    got = Verbatim(f"texts such as {example['low']!r} and {example['high']!r}")
    raise BadInput(name, got=got, want=_WANT)


def _from_numbers(table: Any, column: Any, name: str) -> Any:
    """Numbers since 1970 in the unit that their size says, one for the whole column."""
    floats = column.cast("float64")
    wrong = 0
    if not column.type().is_integer():
        wrong = rows_of(table.aggregate(n=(floats.isnan() | floats.isinf()).cast("int64").sum()))[0]["n"]
    ends = {"low": floats.min(), "high": floats.max(), "least": floats.abs().min(), "most": floats.abs().max()}
    found = {key: float(value or 0) for key, value in rows_of(table.aggregate(**ends))[0].items()}
    if wrong:
        raise BadInput(name, got=Verbatim(f"{wrong:,} rows that are no finite number"), want=_WANT)
    step = unit_of(found["most"])
    if unit_of(found["least"]) != step:
        got = Verbatim(f"numbers of the sizes {found['least']:.6g} and {found['most']:.6g}")
        raise BadInput(name, got=got, want="one unit for the whole column (seconds, milliseconds, ...)")
    if not all(in_calendar(found[end] * step) for end in ("low", "high")):
        raise BadInput(name, got=found["low"], want="times between the years 1 and 9999")
    if not column.type().is_integer():
        return (floats * step + 0.5).floor().cast("int64")
    whole = column.cast("int64")
    return whole * int(step) if step >= 1 else _thousandth(whole)


def _thousandth(nanos: Any) -> Any:
    """Nanoseconds as microseconds, rounded down; what is divided is a multiple, so that floats give it exactly."""
    return ((nanos - (nanos % 1000 + 1000) % 1000) / 1000).round().cast("int64")
