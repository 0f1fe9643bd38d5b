"""Rankings as plain tables: wide (a row a ranking; a column an item or a place) or long (ranking, item, rank)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.data import columns as col
from peerveil.data.orders import RankSet, checked_counts, checked_items, checked_ranks, rank_type, without_gaps
from peerveil.data.problems import MISSING, Problems, Source
from peerveil.data.readers.files import InputFile, Raw, Wish
from peerveil.data.readers.ranklayouts import SHOWN, from_orders, holds_orders, people_columns
from peerveil.data.readers.tabular import map_columns, read_tabular, shown

_LONG = ("ranking", "item", "rank")
_OPTIONAL = {"ranking": "", "item": "", "rank": "", "count": "how often"}


Read = tuple[RankSet, tuple[str, ...]]


def read_rank_table(file: InputFile, format: str, wish: Wish) -> Read:  # noqa: A002
    """A wide or a long table with notes; long if it has the columns ranking, item and rank."""
    raw = read_tabular(file, format, wish, table="Rankings", required=(), optional=_OPTIONAL, kinds={})
    return _from_raw(raw, wish.further, wish.layout)


def from_frame_columns(
    frame: Any, columns: Mapping[str, str], items: Sequence[str] | None, layout: str | None = None
) -> Read:
    """The same from a Polars or pandas frame or a mapping of columns."""
    source = Source("Rankings", in_memory=True)
    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    if isinstance(frame, Mapping):
        names = [str(name) for name in frame]
    elif hasattr(frame, "columns") and hasattr(frame, "__getitem__"):
        names = [str(name) for name in frame.columns]
    else:
        raise BadInput("frame", got=frame, want="a Polars or pandas frame, or a mapping of columns")
    mapping = map_columns(source, names, columns, (), _OPTIONAL, table="Rankings")
    named = Source("Rankings", in_memory=True, names=tuple(mapping.items()))
    taken = {ours: col.as_series(ours, frame[theirs]) for ours, theirs in mapping.items()}
    rest = {name: col.as_series(name, frame[name]) for name in names if name not in set(mapping.values())}
    return _from_raw(Raw(taken, named, rest, order=tuple(names)), items, layout)


def _from_raw(raw: Raw, items: Sequence[str] | None, layout: str | None) -> Read:
    if all(name in raw.columns for name in _LONG):
        return _from_long(raw, items), ()
    who = people_columns([*raw.order, ""])
    if who and {"item", "rank"} <= set(raw.columns):  # long, with people for rankings
        source = Source(
            raw.source.name, raw.source.locate, raw.source.in_memory, (*raw.source.names, ("ranking", who[-1]))
        )
        taken = {"ranking": raw.further[who[-1]], **raw.columns}
        return _from_long(Raw(taken, source, raw.further), items), (f"took the column {who[-1]!r} for the rankings",)
    # a wide table may call an item "rank" or "item": put such columns back
    wide = {raw.source.column(name): values for name, values in raw.columns.items() if name != "count"}
    columns, count = {**wide, **raw.further}, raw.columns.get("count")
    order = [name for name in raw.order if name in columns]  # as in the file: an id stands first
    columns = {name: columns[name] for name in [*order, *(name for name in columns if name not in order)]}
    named = items is not None and layout != "orders" and set(items) <= set(columns)  # the items are columns
    people = [] if named else people_columns(list(columns))
    notes: tuple[str, ...] = ()
    if people:
        columns = {name: values for name, values in columns.items() if name not in people}
        notes = (f"left out {', '.join(people)}: by its name no item",)
    ordered = None
    if not named:
        ordered = holds_orders(columns, raw.source, layout)
    if ordered is None:
        return _from_wide(columns, count, raw.source, items), notes
    if not len(columns[ordered[0]]):
        raise raw.source.refusal(Verbatim("no rows"), "at least one ranking")
    problems = Problems(raw.source)
    counts = _counts(count, problems)
    problems.raise_any()
    return from_orders(columns, ordered, counts, items, problems), notes


def _from_wide(
    columns: Mapping[str, pl.Series], count: pl.Series | None, source: Source, items: Sequence[str] | None
) -> RankSet:
    names = tuple(items) if items is not None else tuple(columns)
    absent = [name for name in names if name not in columns]
    if absent:
        raise source.refusal(Verbatim(f"no column {', '.join(absent)}"), f"some of {shown(list(columns))}")
    if not names:
        raise source.refusal(Verbatim("no columns of items or places"), SHOWN)
    checked_items(names)
    problems = Problems(source)
    series = [_whole(name, columns[name], problems) for name in names]
    counts = _counts(count, problems)
    problems.raise_any()
    if not len(series[0]):
        raise source.refusal(Verbatim("no rows"), "at least one ranking")
    lows = [values.min() for values in series]
    smallest = min((int(cast("int", low)) for low in lows if low is not None), default=0)
    # of a choice of items the best may be on any place; ranks are closed up anyway
    base = smallest if items is not None and smallest > 0 else int(smallest == 1)
    matrix = np.column_stack([values.fill_null(base - 1).to_numpy() for values in series]) - base
    ranks = checked_ranks(matrix, names, problems, base=base, places=len(columns))
    problems.raise_any()
    return RankSet(ranks, checked_counts(counts, len(ranks), problems), names)


def _whole(name: str, series: pl.Series, problems: Problems) -> pl.Series:
    """Ranks in one column: whole numbers, empty where the item is left out."""
    want = "a rank: a whole number from 0 or 1, or nothing"
    if series.dtype == pl.String:
        stripped = series.str.strip_chars()
        stripped = stripped.set(stripped == "", None)
        values = stripped.cast(pl.Float64, strict=False)
        col.refuse_where(name, values.is_null() & stripped.is_not_null(), problems, want, lambda row: series[row])
    elif series.dtype.is_numeric() or series.dtype == pl.Null:
        values = series.cast(pl.Float64)
    else:
        col.refuse_kind(name, series, want, problems)
        return pl.Series(name, [None] * len(series), dtype=pl.Int64)
    values = values.fill_nan(None)
    odd = (values != values.floor()) | values.is_infinite() | (values.abs() > 2.0**31)
    if col.refuse_where(name, odd, problems, want, lambda row: series[row]):
        return pl.Series(name, [None] * len(series), dtype=pl.Int64)
    return values.cast(pl.Int64)


def _counts(count: pl.Series | None, problems: Problems) -> np.ndarray[Any, Any] | None:
    if count is None:
        return None
    values = col.numbers("count", count, problems, want="a whole number of at least 1")
    bad = (values < 1) | (values != values.floor()) | (values > 2.0**53)
    col.refuse_where("count", bad, problems, "a whole number of at least 1", lambda row: count[row])
    return values.fill_nan(1.0).fill_null(1.0).to_numpy()


def _from_long(raw: Raw, items: Sequence[str] | None) -> RankSet:
    problems = Problems(raw.source)
    ranking = col.identifiers("ranking", raw.columns["ranking"], problems, want="a ranking's id")
    item = col.identifiers("item", raw.columns["item"], problems, want="an item").cast(pl.String)
    rank = _whole("rank", raw.columns["rank"], problems)
    col.refuse_where("rank", rank.is_null(), problems, "a rank in every row", lambda _: MISSING)
    problems.raise_any()
    names = tuple(items) if items is not None else tuple(_in_order(item, raw.columns["item"]))
    checked_items(names)
    column = item.replace_strict(list(names), range(len(names)), default=None, return_dtype=pl.Int64)
    want = f"one of the {len(names)} items given"
    col.refuse_where("item", column.is_null(), problems, want, lambda row: item[row])
    base = 1 if rank.min() == 1 else 0
    low = (rank < base) | (rank - base >= len(names))
    want = f"a rank from {base} to {len(names) - 1 + base}"
    col.refuse_where("rank", low, problems, want, lambda row: rank[row])
    pairs = pl.DataFrame({"ranking": ranking, "item": item})
    again = pairs.is_duplicated() & ~pairs.select(pl.struct(pl.all()).is_first_distinct()).to_series()
    col.refuse_where("item", again, problems, "every item at most once in a ranking", lambda row: item[row])
    counts = _counts(raw.columns.get("count"), problems)
    problems.raise_any()
    rows = ranking.rank("dense").cast(pl.Int64).to_numpy() - 1
    height = int(rows.max()) + 1
    ranks = np.full((height, len(names)), -1, dtype=rank_type(len(names)))
    ranks[rows, column.to_numpy()] = (rank - base).to_numpy()
    number = np.ones(height, dtype=np.int64)
    if counts is not None:
        number[rows] = counts.astype(np.int64)
        differs = pl.Series(number[rows] != counts)
        col.refuse_where("count", differs, problems, "one count a ranking", lambda row: counts[row].item())
        problems.raise_any()
    return RankSet(without_gaps(ranks), number, names)


def _in_order(item: pl.Series, original: pl.Series) -> list[str]:
    """Item names sorted: as numbers if they are numbers."""
    distinct = item.unique()
    numbers = distinct.cast(pl.Int64, strict=False)
    order = numbers.arg_sort() if not numbers.null_count() and original.len() else distinct.arg_sort()
    return [str(name) for name in distinct.gather(order).to_list()]
