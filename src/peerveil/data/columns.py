"""One column at a time: from whatever came to the four kinds of value a table holds.

Identifiers are whole numbers or text; a column whose every value is a plain whole number is held as numbers, so
that the same table read from CSV, Parquet or JSON lines is the same table. Scores are finite floats. Answers
(labels) are whole numbers, text or booleans. Nothing here loops over rows unless something is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date, datetime
from typing import Any

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.data.problems import MISSING, Problems

PLAIN_INTEGER = r"^(0|-?[1-9][0-9]{0,18})$"
_TRUTH_WORDS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


def as_series(name: str, values: object) -> pl.Series:
    """A Polars column from a list, tuple, NumPy array, Polars or pandas column.

    >>> as_series("paper", [1, None]).to_list()
    [1, None]
    """
    if isinstance(values, pl.Series):
        return values.alias(name)
    if isinstance(values, np.ndarray):
        return _from_numpy(name, values)
    if isinstance(values, str | bytes | dict) or not hasattr(values, "__len__"):
        raise BadInput(name, got=values, want="a list or an array with one value a row")
    if hasattr(values, "to_numpy"):
        return _from_numpy(name, np.asarray(values.to_numpy()))
    if not isinstance(values, Iterable):
        raise BadInput(name, got=values, want="a list or an array with one value a row")
    return _from_objects(name, list(values))


def _from_numpy(name: str, values: np.ndarray[Any, Any]) -> pl.Series:
    if values.ndim != 1:
        raise BadInput(name, got=Verbatim(f"an array of shape {values.shape}"), want="one dimension")
    if values.dtype.kind in "OUT":
        return _from_objects(name, values.tolist())
    if values.dtype.kind not in "biufM":
        raise BadInput(name, got=Verbatim(f"an array of {values.dtype}"), want="numbers, text or times")
    if values.dtype == np.float16:
        values = values.astype(np.float32)
    if values.dtype.kind == "M" and values.dtype.str[4:] not in ("[ms]", "[us]", "[ns]"):
        values = values.astype("datetime64[us]")
    # a copy: what the caller does to the array later must not reach the table
    return pl.Series(name, np.array(values, order="C"))


def _from_objects(name: str, values: list[object]) -> pl.Series:
    kinds = {type(value) for value in values if value is not None}
    try:
        if kinds == {float} or kinds == {int, float}:
            return pl.Series(name, [None if value is None else float(value) for value in values], dtype=pl.Float64)  # type: ignore[arg-type]
        if kinds == {str, float}:  # pandas says "missing" with a float among text
            values = [None if value != value else value for value in values]
            kinds = {type(value) for value in values if value is not None}
        if len(kinds) <= 1:
            return pl.Series(name, values)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        pass
    if kinds == {int}:  # ids too long for any whole-number type
        return pl.Series(name, [None if value is None else str(value) for value in values], dtype=pl.String)
    shown = ", ".join(sorted(kind.__name__ for kind in kinds)) or "nothing"
    raise BadInput(name, got=Verbatim(f"values of kind {shown}"), want="numbers, text or times of one kind")


def kind_of(dtype: pl.DataType) -> str:
    """A column's type in a word that an error message can use."""
    if dtype.is_nested():
        return "nested values"
    if dtype.is_temporal():
        return "times"
    if dtype == pl.Boolean:
        return "true/false values"
    return {True: "numbers"}.get(dtype.is_numeric(), str(dtype))


def refuse_kind(column: str, series: pl.Series, want: str, problems: Problems) -> None:
    """Note that a whole column is of a kind that cannot be used (shown once, at its first value)."""
    first = series.is_not_null().arg_max() or 0
    problems.add(column, [first], got=lambda row: _python(series, row), want=want)


def _python(series: pl.Series, row: int) -> object:
    value = series[row]
    return value.to_list() if isinstance(value, pl.Series) else value


def refuse_where(
    column: str,
    mask: pl.Series,
    problems: Problems,
    want: str,
    got: Callable[[int], object],
) -> bool:
    """Note every row of a mask; True if there was one."""
    rows = mask.fill_null(value=False).arg_true()
    if not len(rows):
        return False
    problems.add(column, rows.to_list(), got=got, want=want)
    return True


def identifiers(
    column: str, series: pl.Series, problems: Problems, *, nullable: bool = False, want: str = "an id"
) -> pl.Series:
    """Ids as Int64 or String. Empty text counts as missing.

    >>> from peerveil.data.problems import Source
    >>> identifiers("paper", pl.Series(["12", "7"]), Problems(Source("x"))).to_list()
    [12, 7]
    >>> identifiers("paper", pl.Series(["12", "007"]), Problems(Source("x"))).to_list()
    ['12', '007']
    """
    values = _whole_or_text(column, series, problems, want)
    if not nullable:
        _refuse_missing(column, values, problems, want)
    return values


def _refuse_missing(column: str, values: pl.Series, problems: Problems, want: str) -> None:
    if values.null_count():
        refuse_where(column, values.is_null(), problems, want, lambda _: MISSING)


def _whole_or_text(column: str, series: pl.Series, problems: Problems, want: str) -> pl.Series:
    dtype = series.dtype
    if dtype == pl.Int64:
        return series
    if dtype == pl.String:
        return _tidy_text(series)
    if dtype == pl.Null:
        return series.cast(pl.Int64)
    if isinstance(dtype, pl.Categorical | pl.Enum):
        return _tidy_text(series.cast(pl.String))
    if dtype == pl.Boolean:
        return series.cast(pl.String)
    if dtype.is_integer():
        narrow = series.cast(pl.Int64, strict=False)
        return narrow if narrow.null_count() == series.null_count() else series.cast(pl.String)
    if dtype.is_float():
        whole = series.cast(pl.Float64).fill_nan(None)
        bad = (whole != whole.floor()) | (whole.abs() >= 2.0**53)
        if refuse_where(column, bad, problems, f"{want}: a whole number or text", lambda row: series[row]):
            return whole.cast(pl.Int64, strict=False).fill_null(0)
        return whole.cast(pl.Int64)
    refuse_kind(column, series, f"{want}: a whole number or text", problems)
    return pl.Series(column, [0] * len(series), dtype=pl.Int64)


def _tidy_text(series: pl.Series) -> pl.Series:
    """Text with empty cells as nulls; as Int64 if every value is a plain whole number."""
    if (series == "").any():
        series = series.set(series == "", None)
    first = series.is_not_null().arg_max()
    if first is None or series[first] is None:
        return series
    if not pl.Series([series[first]]).str.contains(PLAIN_INTEGER)[0]:
        return series
    if not series.str.contains(PLAIN_INTEGER).all(ignore_nulls=True):
        return series
    numbers = series.cast(pl.Int64, strict=False)
    return numbers if numbers.null_count() == series.null_count() else series


def numbers(column: str, series: pl.Series, problems: Problems, *, want: str = "a number", hint: str = "") -> pl.Series:
    """Finite floats, none missing.

    >>> from peerveil.data.problems import Source
    >>> numbers("score", pl.Series(["3", " 4.5"]), Problems(Source("x"))).to_list()
    [3.0, 4.5]
    """
    dtype = series.dtype
    if dtype.is_numeric() or dtype == pl.Null:
        values = series.cast(pl.Float64)
    elif dtype == pl.String:
        stripped = series.str.strip_chars()
        stripped = stripped.set(stripped == "", None)
        values = stripped.cast(pl.Float64, strict=False)
        refuse_where(column, values.is_null() & stripped.is_not_null(), problems, want + hint, lambda row: series[row])
        series = series.set(stripped.is_null(), None)
    else:
        refuse_kind(column, series, want + hint, problems)
        return pl.Series(column, np.zeros(len(series)))
    if series.null_count():
        refuse_where(column, series.is_null(), problems, want + hint, lambda _: MISSING)
    if not _all_finite(values):
        refuse_where(column, ~values.is_finite(), problems, "a finite number" + hint, lambda row: Verbatim(values[row]))
    return values


def _all_finite(values: pl.Series) -> bool:
    return bool(values.is_finite().all(ignore_nulls=True))


def answers(column: str, series: pl.Series, problems: Problems, *, nullable: bool = False) -> pl.Series:
    """Labels as Int64, String or Boolean.

    >>> from peerveil.data.problems import Source
    >>> answers("label", pl.Series(["true", "False"]), Problems(Source("x"))).to_list()
    [True, False]
    """
    want = "a label"
    if series.dtype == pl.Boolean:
        values = series
    else:
        values = _whole_or_text(column, series, problems, want)
        if values.dtype == pl.String:
            values = _truth_words(values)
    if not nullable:
        _refuse_missing(column, values, problems, want)
    return values


def _truth_words(series: pl.Series) -> pl.Series:
    first = series.is_not_null().arg_max()
    if first is None or series[first] not in _TRUTH_WORDS:
        return series
    if not series.is_in(list(_TRUTH_WORDS)).all(ignore_nulls=True):
        return series
    return series.replace_strict(_TRUTH_WORDS, return_dtype=pl.Boolean)


def secondary(series: pl.Series) -> pl.Series:
    """A column that is kept as it came: whole numbers, floats, text, booleans or UTC times; may have gaps."""
    dtype = series.dtype
    if dtype == pl.String:
        return _tidy_text(series)
    if dtype == pl.Boolean or isinstance(dtype, pl.Datetime):
        return series
    if dtype == pl.Null:
        return series.cast(pl.String)
    if isinstance(dtype, pl.Categorical | pl.Enum):
        return _tidy_text(series.cast(pl.String))
    if dtype.is_integer():
        narrow = series.cast(pl.Int64, strict=False)
        return narrow if narrow.null_count() == series.null_count() else series.cast(pl.String)
    if dtype.is_float():
        return series.cast(pl.Float64).fill_nan(None)
    return pl.Series(series.name, [None if value is None else str(value) for value in series.to_list()])


def moment_kind(value: object) -> str:
    """How a Python time says where it is: 'aware', 'naive' or 'other'."""
    if isinstance(value, datetime):
        return "aware" if value.tzinfo is not None else "naive"
    return "naive" if isinstance(value, date) else "other"
