"""The checker of all tables: columns as they came in, columns of the declared kinds out, every problem by row.

Ids are whole numbers or text; a column whose every value is a plain whole number is held as numbers, so that the same
table read from CSV, Parquet or JSON lines is the same table. Scores are finite floats. Labels are whole numbers, text
or booleans. Nothing here loops over rows unless something is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.data.problems import MISSING, ProblemLog
from peerveil.data.schema import PLAIN_INTEGER, Column, RawTable, TableSchema
from peerveil.data.times import check_zone, time_text, utc_times

_BOOLEANS: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_TYPE_WORDS: Final = {"Int64": "whole numbers", "String": "text", "Boolean": "true/false"}


def check_columns(
    schema: TableSchema, raw: RawTable, time_zone: str | None = None
) -> tuple[dict[str, pl.Series], ProblemLog]:
    """The columns of a table in the kinds that its schema declares, and the log of what is wrong with them.

    The caller may add problems of its own to the log, and then raises them all.
    """
    zone = "UTC" if time_zone is None else check_zone(time_zone)
    for name in raw.further:
        if not isinstance(name, str) or not name.strip() or name in schema.names:
            raise BadInput(schema.argument, got=name, want=f"a name other than {', '.join(schema.names)}")
    declared = [schema[name] for name in (*(name for name in schema.names if name in raw.columns), *raw.further)]
    values = {**raw.columns, **raw.further}
    series = {column.name: _read(column, values[column.name]) for column in declared}
    lengths = {name: len(values) for name, values in series.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise BadInput(raw.source.name, got=Verbatim(f"columns of different lengths ({listed})"), want="one length")
    if not any(lengths.values()):
        raise BadInput(raw.source.name, got=Verbatim("no rows"), want="at least one row")
    log = ProblemLog(raw.source)
    checked: dict[str, pl.Series] = {}
    for column in declared:
        check = ColumnCheck(column, series[column.name], log, zone, checked)
        if not (column.empty_is_absent and _without_nan(check.series).null_count() == len(check.series)):
            checked[column.name] = check.values()
            _refuse_repeats(column, checked, log)
    return checked, log


@dataclass
class ColumnCheck:
    """One column on its way into a table. A cell is refused once, for the first thing that is wrong with it."""

    column: Column
    series: pl.Series
    log: ProblemLog
    zone: str = "UTC"
    others: Mapping[str, pl.Series] = field(default_factory=dict)
    _refused: pl.Series | None = None

    def values(self) -> pl.Series:
        """The column in its declared kind; what cannot be converted is refused, and empty cells unless allowed."""
        values = _CONVERSIONS[self.column.kind](self).alias(self.column.name)
        if values.null_count():
            self.refuse(values.is_null() & ~self.missing() if self.column.gaps else values.is_null())
        return values

    def refuse(self, bad: pl.Series, want: str = "", shown: pl.Series | None = None) -> None:
        """Note every row of a mask, with its cell as it came or as ``shown``."""
        bad = bad.fill_null(value=False)
        if not bad.any():
            return
        fresh = bad if self._refused is None else bad & ~self._refused
        self._refused = bad if self._refused is None else bad | self._refused
        cells = self.series if shown is None else shown
        want = (want or self.column.want) + self.column.hint
        self.log.add(self.column.name, fresh.arg_true().to_list(), got=lambda row: _cell(cells, row), want=want)

    def refuse_kind(self, want: str = "") -> pl.Series:
        """Note, at its first value, that a whole column cannot be used; returns empty cells in its place."""
        first = pl.Series([self.series.is_not_null().arg_max() or 0])
        self.refuse(pl.int_range(len(self.series), eager=True).is_in(first), want)
        self._refused = pl.repeat(True, len(self.series), eager=True)
        return pl.repeat(None, len(self.series), dtype=pl.Int64, eager=True)

    def missing(self) -> pl.Series:
        """Which cells are empty."""
        if self.series.dtype == pl.String:
            return self.series.is_null() | (self.series.str.strip_chars() == "").fill_null(value=True)
        return _without_nan(self.series).is_null()


def _read(column: Column, values: object) -> pl.Series:
    """The values of a column with null for empty text."""
    series = as_series(column.name, values, column.kind)
    return series.set(series == "", None) if series.dtype == pl.String and (series == "").any() else series


def _without_nan(series: pl.Series) -> pl.Series:
    """Numbers with null for NaN; any other column as it is."""
    return series.fill_nan(None) if series.dtype.is_float() else series


def _cell(series: pl.Series, row: int) -> object:
    value = series[row]
    if isinstance(value, pl.Series):
        return value.to_list()
    if value is None or (isinstance(value, str) and not value.strip()):
        return MISSING
    return Verbatim(value) if isinstance(value, datetime) else value


def _refuse_repeats(column: Column, checked: Mapping[str, pl.Series], log: ProblemLog) -> None:
    """Note rows that repeat an earlier one where a column must be unique."""
    if not column.unique:
        return
    key = pl.DataFrame([checked[name] for name in column.unique])
    if not key.is_duplicated().any():
        return
    rows = key.with_row_index("row").with_columns(first=pl.col("row").min().over(column.unique))
    repeated = rows.filter((pl.col("row") != pl.col("first")) & pl.all_horizontal(pl.all().is_not_null()))
    for row, first in repeated.select("row", "first").iter_rows():
        want = f"{column.once} (row {log.source.locate(first)[0]} is another)"
        log.add(column.name, [row], got=checked[column.name].__getitem__, want=want)


def _ids(check: ColumnCheck) -> pl.Series:
    """Whole numbers or text; text that is plain whole numbers throughout as numbers."""
    series = check.series
    if isinstance(series.dtype, pl.Categorical | pl.Enum | pl.Boolean):
        series = series.cast(pl.String)
    if series.dtype == pl.String and not _every(series, lambda known: known.str.contains(PLAIN_INTEGER)):
        return series
    if series.dtype in (pl.String, pl.Null) or series.dtype.is_integer():
        whole = series.cast(pl.Int64, strict=False)
        return whole if whole.null_count() == series.null_count() else series.cast(pl.String)
    want = f"{check.column.want}: a whole number or text"
    if not series.dtype.is_float():
        return check.refuse_kind(want)
    floats = series.cast(pl.Float64).fill_nan(None)
    check.refuse((floats != floats.floor()) | (floats.abs() >= 2.0**53), want)
    return floats.cast(pl.Int64, strict=False)


def _every(series: pl.Series, test: Callable[[pl.Series], pl.Series]) -> bool:
    """Whether there are values and all of them pass; the first one is tried alone, since it mostly decides."""
    known = series.drop_nulls()
    return bool(len(known) and test(known.head(1)).all() and test(known).all())


def _floats(check: ColumnCheck) -> pl.Series:
    series = check.series
    if series.dtype == pl.String:
        return series.str.strip_chars().cast(pl.Float64, strict=False)
    numeric = series.dtype.is_numeric() or series.dtype == pl.Null
    return (series if numeric else check.refuse_kind()).cast(pl.Float64)


def _numbers(check: ColumnCheck) -> pl.Series:
    values = _floats(check)
    check.refuse(~values.is_finite(), "a finite number", values)
    return values


def _whole(check: ColumnCheck, low: float, high: float) -> pl.Series:
    values = _floats(check).fill_nan(None)
    check.refuse((values != values.floor()) | ~values.is_between(low, high))
    return values.cast(pl.Int64, strict=False)


def _labels(check: ColumnCheck) -> pl.Series:
    """Whole numbers, text or booleans; text that is true or false throughout as booleans. Or lists of them: sets of classes."""
    if isinstance(check.series.dtype, pl.List | pl.Array):
        return _label_sets(check)
    values = check.series if check.series.dtype == pl.Boolean else _ids(check)
    if values.dtype != pl.String or not _every(values, lambda known: known.is_in(list(_BOOLEANS))):
        return values
    return values.replace_strict(_BOOLEANS, return_dtype=pl.Boolean)


def _label_sets(check: ColumnCheck) -> pl.Series:
    """Lists of different labels, sorted: the order in which classes were named reveals nothing."""
    lists = check.series.arr.to_list() if isinstance(check.series.dtype, pl.Array) else check.series
    if isinstance(getattr(lists.dtype, "inner", None), pl.List | pl.Array):
        return check.refuse_kind("a label, or a list of different labels")
    rows = pl.DataFrame({"row": pl.int_range(len(lists), eager=True), "label": lists}).explode("label")
    log = ProblemLog(check.log.source)
    members = ColumnCheck(check.column, rows["label"], log)
    values = _labels(members)
    if members._refused is not None:
        values = values.set(members._refused, None)
    sets = rows.with_columns(label=values).group_by("row", maintain_order=True).agg(pl.col("label").sort())["label"]
    bad = (sets.list.n_unique() < sets.list.len()) | sets.list.eval(pl.element().is_null()).list.any()
    check.refuse(bad | lists.is_null() | (lists.list.len() == 0), "a list of different labels in every row")
    return sets


def _truths(check: ColumnCheck) -> pl.Series:
    """Correct answers, in the kind of value that the labels are."""
    labels, series = check.others["label"], check.series
    if isinstance(labels.dtype, pl.List):
        labels = labels.explode()
    if labels.dtype == series.dtype == pl.String:
        return series  # as it stands: "True" among text labels is text
    truth = _labels(check)
    if truth.dtype == labels.dtype or truth.null_count() == len(truth):
        return truth
    if labels.dtype == pl.String and truth.dtype == pl.Int64:
        return truth.cast(pl.String)
    fitting = pl.repeat(None, len(truth), dtype=labels.dtype, eager=True)
    if labels.dtype == pl.Int64 and truth.dtype == pl.String:
        floats = truth.cast(pl.Float64, strict=False)  # 1.0 is what a whole number with gaps turns into
        fractions = (floats != floats.floor()).fill_null(value=False)
        fitting = floats.set(fractions, None).cast(pl.Int64, strict=False)
    want = f"a right answer of the labels' kind ({_TYPE_WORDS[str(labels.dtype)]})"
    check.refuse(fitting.is_null() & truth.is_not_null(), want)
    return fitting


def _as_it_came(check: ColumnCheck) -> pl.Series:
    """Whole numbers, floats, text, booleans or times."""
    series, dtype = check.series, check.series.dtype
    if dtype == pl.Boolean or isinstance(dtype, pl.Datetime):
        return series
    if dtype == pl.Null:
        return series.cast(pl.String)
    if dtype.is_float():
        return series.cast(pl.Float64).fill_nan(None)
    if dtype == pl.String or dtype.is_integer() or isinstance(dtype, pl.Categorical | pl.Enum):
        return _ids(check)
    return pl.Series(series.name, [None if value is None else str(value) for value in series.to_list()])


_CONVERSIONS: Final[dict[str, Callable[[ColumnCheck], pl.Series]]] = {
    "id": _ids,
    "number": _numbers,
    "time": utc_times,
    "label": _labels,
    "truth": _truths,
    "rank": lambda check: _whole(check, -(2.0**31), 2.0**31),
    "count": lambda check: _whole(check, 1.0, 2.0**53),
    "any": _as_it_came,
}


def as_series(name: str, values: object, kind: str = "any") -> pl.Series:
    """A Polars column from a list, tuple, NumPy array, Polars or pandas column.

    >>> as_series("paper", [1, None]).to_list()
    [1, None]
    """
    if isinstance(values, pl.Series):
        return values.alias(name)
    if kind == "time" and isinstance(values, list | tuple):
        values = list(map(time_text, values))
    if (
        getattr(getattr(values, "dtype", None), "storage", None) == "pyarrow"
    ):  # text of pandas: no Python object for each cell
        return pl.Series(name, values)  # type: ignore[arg-type]  # a pandas series
    if hasattr(values, "to_numpy"):
        values = np.asarray(values.to_numpy())
    if isinstance(values, np.ndarray):
        if kind == "label" and values.ndim == 2:
            rows: Any = values.tolist()  # sets of classes, one per row
            return pl.Series(name, rows)
        return _from_numpy(name, values)
    if isinstance(values, str | bytes | dict) or not (hasattr(values, "__len__") and isinstance(values, Iterable)):
        raise BadInput(name, got=values, want="a list or an array with one value per row")
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
    if values.dtype.kind == "M" and np.datetime_data(values.dtype)[0] not in ("ms", "us", "ns"):
        values = values.astype("datetime64[us]")
    # a copy: what the caller does to the array later must not reach the table
    return pl.Series(name, np.array(values, order="C"))


def _from_objects(name: str, values: list[Any]) -> pl.Series:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {str, float}:  # pandas says "missing" with a float among text
        values = [None if value != value else value for value in values]
        kinds = {type(value) for value in values if value is not None}
    try:
        if kinds == {int, float}:
            return pl.Series(name, [None if value is None else float(value) for value in values], dtype=pl.Float64)
        if len(kinds) <= 1:
            return pl.Series(name, values)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        pass
    if kinds == {int}:  # ids too long for any whole-number type
        return pl.Series(name, [None if value is None else str(value) for value in values], dtype=pl.String)
    shown = ", ".join(sorted(kind.__name__ for kind in kinds)) or "nothing"
    raise BadInput(name, got=Verbatim(f"values of kind {shown}"), want="numbers, text or times of one kind")
