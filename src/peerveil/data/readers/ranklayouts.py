"""Which way round a wide table of rankings is: places in the cells of items, or items in the cells of places.

The two are inverse to each other. Headers such as ``rank1, rank2, rank3`` say that cells hold items. If the cells are numbers,
they could be either, and nothing but a question is honest.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.data.orders import Counts, RankSet, checked_counts, checked_items, rank_type, without_gaps

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from peerveil.data.problems import Problems, Source

LAYOUTS: Final = ("orders", "places")
SHOWN: Final = """one of three layouts (columns voter and count may be left out):
  a column a place, with items:   voter,rank1,rank2,rank3
                                  ann,tea,milk,juice
  a column an item, with places:  voter,tea,milk,juice
                                  ann,1,2,3
  a row an item, long:            ranking,item,rank
                                  ann,tea,1"""
_PEOPLE: Final = (
    "voter", "respondent", "person", "participant", "user", "ballot", "judge", "reviewer", "worker", "annotator", "ranking",
    "response", "responseid", "id", "timestamp", "name", "email", "email_address", "timestamp", "name", "email", "email_address",
)  # fmt: skip
_WORDS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_NOUN: Final = "(?:rank|choice|place|position|preference|pref)"
_NUMBERED: Final = re.compile(rf"{_NOUN}[ _#.-]*(\d+)")
_ORDINAL: Final = re.compile(rf"(\d+)(?:st|nd|rd|th)(?:[ _-]*{_NOUN})?")
_WORDED: Final = re.compile(rf"({'|'.join(_WORDS)})(?:[ _-]*{_NOUN})?")


def read_layout(layout: str | None) -> str | None:
    """The argument ``layout``."""
    if layout is not None and layout not in LAYOUTS:
        want = "'orders' (cells hold items, a column is a place), 'places' (cells hold places), or nothing"
        raise BadInput("layout", got=layout, want=want)
    return layout


def people_columns(names: Sequence[str]) -> list[str]:
    """The first columns whose names say that they hold people or times, and no items.

    >>> people_columns(["Timestamp", "Voter ID", "tea", "milk"]), people_columns(["tea", "id"])
    (['Timestamp', 'Voter ID'], [])
    """
    found = []
    for name in names[:-1]:
        plain = re.sub(r"[ _.-]+", "_", name.strip().lower())
        if plain not in _PEOPLE and plain.removesuffix("_id") not in _PEOPLE:
            break
        found.append(name)
    return found


def place_columns(names: Sequence[str]) -> list[str] | None:
    """The columns from the best place to the worst, if all of them are named by places; ``None`` otherwise.

    >>> (
    ...     place_columns(["rank2", "rank1"]),
    ...     place_columns(["1st choice", "2nd choice"]),
    ...     place_columns(["Second", "first"]),
    ... )
    (['rank1', 'rank2'], ['1st choice', '2nd choice'], ['first', 'Second'])
    >>> place_columns(["rank1", "tea"]), place_columns(["rank1", "rank3"])
    (None, None)
    """
    places = {_place(name.strip().lower()): name for name in names}
    first = min((place for place in places if place is not None), default=None)
    if len(names) < 2 or len(places) < len(names) or None in places or first not in (0, 1):
        return None
    whole = sorted(place for place in places if place is not None)
    return [places[place] for place in whole] if whole == list(range(first, first + len(names))) else None


def _place(name: str) -> int | None:
    for pattern in (_NUMBERED, _ORDINAL):
        match = pattern.fullmatch(name)
        if match:
            return int(match[1]) if len(match[1]) < 6 else None
    match = _WORDED.fullmatch(name)
    return _WORDS.index(match[1]) + 1 if match else None


def holds_orders(columns: Mapping[str, pl.Series], source: Source, layout: str | None) -> list[str] | None:
    """The columns from best to worst if cells hold items; ``None`` if they hold places. A doubtful table is refused."""
    ordered = place_columns(list(columns))
    if layout is not None:
        return (ordered or list(columns)) if layout == "orders" else None
    words = [name for name, values in columns.items() if _is_words(values)]
    if ordered is None:
        if words:
            raise source.refusal(
                Verbatim(f"words in column {words[0]}, such as {_example(columns[words[0]])!r}"), SHOWN
            )
        return None
    if _share_of_words(columns.values()) < 0.5:
        first, cell = ordered[0], _example(columns[ordered[0]])
        if not cell:
            raise source.refusal(Verbatim(f"no cell with an item in the column {first}"), "an item in every row")
        want = (
            f"to know what they are: if {cell} is the item that somebody put first, say layout='orders' (--layout orders); if "
            f"{first} is an item and {cell} its place, say layout='places' (--layout places)"
        )
        raise source.refusal(Verbatim(f"numbers in the columns {first}, {ordered[1]}, ..."), want)
    return ordered


def from_orders(
    columns: Mapping[str, pl.Series],
    ordered: Sequence[str],
    counts: np.ndarray[Any, Any] | None,
    items: Sequence[str] | None,
    problems: Problems,
) -> RankSet:
    """Ranks from columns of items, the best place first; empty cells are left out."""
    texts = {name: _as_text(columns[name]) for name in ordered}
    seen = pl.concat([values.rename("item") for values in texts.values()]).drop_nulls().unique()
    names = tuple(items) if items is not None else tuple(_sorted(seen))
    checked_items(names)
    rows = len(texts[ordered[0]])
    ranks = np.full((rows, len(names)), -1, dtype=rank_type(max(len(names), len(ordered))))
    for place, (name, values) in enumerate(texts.items()):
        codes = values.replace_strict(list(names), range(len(names)), default=None, return_dtype=pl.Int64)
        unknown = (codes.is_null() & values.is_not_null()).arg_true().to_list()
        shown = values.to_list()
        problems.add(name, unknown, got=shown.__getitem__, want=f"one of the {len(names)} items given")
        given = codes.is_not_null().arg_true().to_numpy()
        codes_given = codes.drop_nulls().to_numpy()
        again = given[ranks[given, codes_given] >= 0].tolist()
        problems.add(
            name, again, got=shown.__getitem__, want="every item once in a row, and this one stands there before"
        )
        ranks[given, codes_given] = place
    empty = np.flatnonzero((ranks < 0).all(axis=1)).tolist()
    problems.add(ordered[0], empty, got=lambda _: Verbatim("no item in the row"), want="at least one")
    problems.raise_any()
    number: Counts = checked_counts(counts, rows, problems)
    problems.raise_any()
    return RankSet(without_gaps(ranks), number, names)


def _as_text(values: pl.Series) -> pl.Series:
    """Items as text; empty cells as null, 3.0 (a whole number in a column with gaps) as 3."""
    if values.dtype.is_float():
        values = values.fill_nan(None)
        if (values == values.floor()).all(ignore_nulls=True):
            values = values.cast(pl.Int64)
    text = values.cast(pl.String).str.strip_chars()
    return text.set((text == "").fill_null(value=False), None)


def _is_words(values: pl.Series) -> bool:
    """Whether a column holds text and not one number."""
    if values.dtype.is_numeric() or values.dtype == pl.Null:
        return False
    text = _as_text(values).drop_nulls()
    return bool(len(text)) and text.cast(pl.Float64, strict=False).is_null().all()


def _share_of_words(columns: Iterable[pl.Series]) -> float:
    """How much of what stands in the cells is no number: of a thousand rows, which will do."""
    text = pl.concat([_as_text(values.head(1000)).rename("cell") for values in columns]).drop_nulls()
    return float(text.cast(pl.Float64, strict=False).is_null().mean() or 0) if len(text) else 0.0  # type: ignore[arg-type]


def _example(values: pl.Series) -> str:
    return str(_as_text(values).drop_nulls().head(1).to_list()[0]) if values.drop_nulls().len() else ""


def _sorted(distinct: pl.Series) -> list[str]:
    """Names sorted: as numbers if they are numbers."""
    numbers = distinct.cast(pl.Int64, strict=False)
    order = distinct.arg_sort() if numbers.null_count() else numbers.arg_sort()
    return [str(name) for name in distinct.gather(order).to_list()]
