"""Rankings as plain tables: long (ranking, item, rank), or wide in one of two ways.

A wide table has one row per ranking, and either one column per item with places in the cells, or one column per place
with items in the cells. The two are inverse to each other. Headers such as ``rank1, rank2, rank3`` say that cells hold
items. If the cells are numbers, they could be either, and nothing but a question is honest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.data.check import as_series, check_columns
from peerveil.data.orders import RankSet, checked_counts, checked_items, checked_ranks, rank_type
from peerveil.data.problems import ProblemLog, TableSource
from peerveil.data.schema import RANKINGS, Column, RawTable, TableSchema, refuse_absent

_LAYOUTS: Final = """one of three layouts (columns voter and count may be left out):
  one column per place, with items:   voter,rank1,rank2,rank3
                                      ann,tea,milk,juice
  one column per item, with places:   voter,tea,milk,juice
                                      ann,1,2,3
  one row per item, long:             ranking,item,rank
                                      ann,tea,1"""
_PEOPLE: Final = (
    "voter", "respondent", "person", "participant", "user", "ballot", "judge", "reviewer", "worker", "annotator", "ranking",
    "response", "responseid", "id", "timestamp", "name", "email", "email_address",
)  # fmt: skip
_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_NOUN: Final = "(?:rank|choice|place|position|preference|pref)"
_ORDINAL: Final = rf"(?:(\d{{1,5}})(?:st|nd|rd|th)|({'|'.join(_ORDINALS)}))"
_PLACE: Final = re.compile(rf"{_NOUN}[ _#.-]*(\d{{1,5}})|{_ORDINAL}(?:[ _-]*{_NOUN})?")


def people_columns(names: Sequence[str]) -> list[str]:
    """The first columns whose names say that they hold people or times, and no items.

    >>> people_columns(["Timestamp", "Voter ID", "tea", "milk"]), people_columns(["tea", "id"])
    (['Timestamp', 'Voter ID'], [])
    """
    people = []
    for name in names[:-1]:
        plain = re.sub(r"[ _.-]+", "_", name.strip().lower())
        if plain not in _PEOPLE and plain.removesuffix("_id") not in _PEOPLE:
            break
        people.append(name)
    return people


def place_columns(names: Sequence[str]) -> list[str] | None:
    """The columns from the best place to the worst, if all of them are named by places; ``None`` otherwise.

    >>> place_columns(["rank2", "rank1"]), place_columns(["1st choice", "2nd choice"])
    (['rank1', 'rank2'], ['1st choice', '2nd choice'])
    >>> place_columns(["Second", "first"]), place_columns(["rank1", "tea"]), place_columns(["rank1", "rank3"])
    (['first', 'Second'], None, None)
    """
    columns = {_place(name.strip().lower()): name for name in names}
    for first in (0, 1):
        places = range(first, first + len(names))
        if len(names) >= 2 and columns.keys() == set(places):
            return [columns[place] for place in places]
    return None


def _place(name: str) -> int | None:
    match = _PLACE.fullmatch(name)
    if match is None:
        return None
    return _ORDINALS.index(match[3]) + 1 if match[3] else int(match[1] or match[2])


def ranks_of_table(raw: RawTable, items: Sequence[str] | None, layout: str | None) -> tuple[RankSet, tuple[str, ...]]:
    """The rankings in a table of any layout, and notes on what was left out."""
    if layout not in (None, "orders", "places"):
        want = "'orders' (cells hold items, a column is a place), 'places' (cells hold places), or nothing"
        raise BadInput("layout", got=layout, want=want)
    source = raw.source
    if set(RANKINGS.required) <= raw.columns.keys():
        return _from_long(raw, items), ()
    people = people_columns([*raw.order, ""])
    if people and {"item", "rank"} <= raw.columns.keys():  # long, with people for rankings
        named = replace(source, names={**source.names, "ranking": people[-1]})
        long = RawTable({"ranking": raw.further[people[-1]], **raw.columns}, named)
        return _from_long(long, items), (f"took the column {people[-1]!r} for the rankings",)
    # a wide table may call an item "rank" or "item": put such columns back, in the order of the file
    named_back = {source.names.get(name, name): values for name, values in raw.columns.items() if name != "count"}
    everything = {**named_back, **raw.further}
    names = [name for name in raw.order if name in everything]
    are_columns = items is not None and layout != "orders" and set(items).issubset(names)
    people = [] if are_columns else people_columns(names)
    notes = (f"left out {', '.join(people)}: by its name no item",) if people else ()
    columns = {name: as_series(name, everything[name]) for name in names if name not in people}
    ordered = None if are_columns else _holds_orders(columns, source, layout)
    count = raw.columns.get("count")
    if columns and not len(next(iter(columns.values()))):
        raise source.refusal("no rows", "at least one ranking")
    if ordered is None:
        return _from_places(columns, count, source, items), notes
    return _from_orders({name: columns[name] for name in ordered}, count, source, items), notes


def _holds_orders(columns: Mapping[str, pl.Series], source: TableSource, layout: str | None) -> list[str] | None:
    """The columns from best to worst if cells hold items; ``None`` if they hold places. A doubtful table is refused."""
    ordered = place_columns(list(columns))
    if layout is not None:
        return (ordered or list(columns)) if layout == "orders" else None
    if ordered is None:
        for name, values in columns.items():
            if _share_of_words(values) == 1.0:
                raise source.refusal(f"words in column {name}, such as {_example(values)!r}", _LAYOUTS)
        return None
    # a thousand rows will do
    if _share_of_words(pl.concat([_as_text(values.head(1000)).rename("cell") for values in columns.values()])) < 0.5:
        first, cell = ordered[0], _example(columns[ordered[0]])
        if not cell:
            raise source.refusal(f"no cell with an item in the column {first}", "an item in every row")
        want = (
            f"to know what they are: if {cell} is the item that somebody put first, say layout='orders' "
            f"(--layout orders); if {first} is an item and {cell} its place, say layout='places' (--layout places)"
        )
        raise source.refusal(f"numbers in the columns {first}, {ordered[1]}, ...", want)
    return ordered


def _as_text(values: pl.Series) -> pl.Series:
    """Items as text; empty cells as null, 3.0 (a whole number in a column with gaps) as 3."""
    if values.dtype.is_float():
        values = values.fill_nan(None)
        if (values == values.floor()).all(ignore_nulls=True):
            values = values.cast(pl.Int64)
    text = values.cast(pl.String).str.strip_chars()
    return text.set((text == "").fill_null(value=False), None)


def _share_of_words(values: pl.Series) -> float:
    """The share of the cells that are no numbers, empty ones left out."""
    if values.dtype.is_numeric() or values.dtype == pl.Null:
        return 0.0
    text = _as_text(values).drop_nulls()
    return float(cast("float", text.cast(pl.Float64, strict=False).is_null().mean() or 0.0))


def _example(values: pl.Series) -> str:
    return next(iter(_as_text(values).drop_nulls()), "")


def _from_orders(
    columns: Mapping[str, pl.Series], count: Any, source: TableSource, items: Sequence[str] | None
) -> RankSet:
    """Ranks from columns of items, the best place first; empty cells are left out."""
    texts = {name: _as_text(values) for name, values in columns.items()}
    names = checked_items(items or _sorted(pl.concat([values.rename("item") for values in texts.values()])))
    rows = len(next(iter(texts.values())))
    log = ProblemLog(source)
    ranks = np.full((rows, len(names)), -1, dtype=rank_type(max(len(names), len(columns))))
    for place, (name, values) in enumerate(texts.items()):
        codes = _codes(name, values, names, log)
        ranked, code = codes.is_not_null().arg_true().to_numpy(), codes.drop_nulls().to_numpy()
        again = ranked[ranks[ranked, code] >= 0].tolist()
        want = "every item once in a row, and this one stands there before"
        log.add(name, again, got=values.__getitem__, want=want)
        ranks[ranked, code] = place
    empty = np.flatnonzero((ranks < 0).all(axis=1)).tolist()
    log.add(next(iter(columns)), empty, got=lambda _: Verbatim("no item in the row"), want="at least one")
    log.raise_any()
    return RankSet.checked(ranks, count, names, log)


def _codes(column: str, values: pl.Series, names: Sequence[str], log: ProblemLog) -> pl.Series:
    """Items as positions among the names; another item is noted."""
    codes = values.replace_strict(list(names), range(len(names)), default=None, return_dtype=pl.Int64)
    unknown = (codes.is_null() & values.is_not_null()).arg_true().to_list()
    log.add(column, unknown, got=values.__getitem__, want=f"one of the {len(names)} items given")
    return codes


def _sorted(items: pl.Series) -> list[str]:
    """Distinct names sorted: as numbers if they are numbers."""
    distinct = items.drop_nulls().unique()
    numbers = distinct.cast(pl.Int64, strict=False)
    order = distinct.arg_sort() if numbers.null_count() else numbers.arg_sort()
    return [str(name) for name in distinct.gather(order)]


def _from_places(
    columns: Mapping[str, pl.Series], count: Any, source: TableSource, items: Sequence[str] | None
) -> RankSet:
    """Ranks from columns of places, one per item; empty cells are left out."""
    names = tuple(columns if items is None else items)
    refuse_absent(source, names, list(columns))
    if not names:
        raise source.refusal("no columns of items or places", _LAYOUTS)
    checked_items(names)
    want = "a rank: a whole number from 0 or 1, or nothing"
    schema = TableSchema("Rankings", tuple(Column(name, "rank", want, gaps=True) for name in names))
    places, log = check_columns(schema, RawTable(dict(columns), source))
    log.raise_any()
    smallest = min((cast("int", places[name].min()) for name in names if places[name].count()), default=0)
    # of a choice of items the best may be on any place; ranks are closed up anyway
    base = smallest if items is not None and smallest > 0 else int(smallest == 1)
    matrix = np.column_stack([places[name].fill_null(base - 1).to_numpy() for name in names]) - base
    ranks = checked_ranks(matrix, names, log, base=base, places=len(columns))
    return RankSet.checked(ranks, count, names, log)


def _from_long(raw: RawTable, items: Sequence[str] | None) -> RankSet:
    checked, log = check_columns(RANKINGS, replace(raw, further={}))
    log.raise_any()
    ranking, item, rank = checked["ranking"], checked["item"].cast(pl.String), checked["rank"]
    names = checked_items(items or _sorted(item))
    column = _codes("item", item, names, log)
    base = 1 if rank.min() == 1 else 0
    outside = (~rank.is_between(base, len(names) - 1 + base)).arg_true().to_list()
    log.add("rank", outside, got=rank.__getitem__, want=f"a rank from {base} to {len(names) - 1 + base}")
    log.raise_any()
    rows = ranking.rank("dense").cast(pl.Int64).to_numpy() - 1
    ranks = np.full((int(rows.max()) + 1, len(names)), -1, dtype=rank_type(len(names)))
    ranks[rows, column.to_numpy()] = (rank - base).to_numpy()
    repeated = checked_counts(checked.get("count"), len(rows), log)
    counts = np.ones(len(ranks), dtype=np.int64)
    counts[rows] = repeated
    differing = np.flatnonzero(counts[rows] != repeated).tolist()
    log.add("count", differing, got=lambda row: int(repeated[row]), want="one count per ranking")
    return RankSet.checked(ranks, counts, names, log)
