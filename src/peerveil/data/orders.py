"""Arrays of ranks: checked, without gaps, and small.

The one representation is an integer array with a row a ranking and a column an item: the place of the item, from
0, or -1 where the ranking leaves it out. Items on one place are tied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from peerveil.core.errors import BadInput, Verbatim

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from peerveil.data.problems import Problems

Ranks = np.ndarray[Any, np.dtype[np.signedinteger[Any]]]
Counts = np.ndarray[Any, np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]
_CELLS = 4_000_000


@dataclass(frozen=True)
class RankSet:
    """What a reader of rankings hands over: checked ranks, how often each occurred, and the items' names."""

    ranks: Ranks
    counts: Counts
    items: tuple[str, ...]


def rank_type(items: int) -> type[np.int16] | type[np.int32]:
    """The smallest type that holds every rank: two bytes up to 32,767 items."""
    return np.int16 if items <= np.iinfo(np.int16).max else np.int32


def checked_items(items: Sequence[str] | None, number: int | None = None) -> tuple[str, ...]:
    """The names of the items; numbers as text if none are given.

    >>> checked_items(None, 3)
    ('0', '1', '2')
    """
    if items is None:
        return tuple(str(position) for position in range(number or 0))
    want = "a list of distinct names, none empty and none 'count'"
    if isinstance(items, str) or not hasattr(items, "__len__"):
        raise BadInput("items", got=items, want=want)
    names = tuple(items)
    bad = not names or any(not isinstance(name, str) or not name.strip() or name == "count" for name in names)
    if bad or len(set(names)) < len(names):
        raise BadInput("items", got=items, want=want)
    if number is not None and len(names) != number:
        raise BadInput("items", got=Verbatim(f"{len(names)} names"), want=f"{number}, one a column of ranks")
    return names


def as_matrix(ranks: Any) -> np.ndarray[Any, Any]:
    """Two-dimensional numbers; NaN becomes -1."""
    want = "whole numbers, a row a ranking and a column an item"
    try:
        array = np.asarray(ranks)
    except ValueError:
        raise BadInput("ranks", got=Verbatim("rows of different lengths"), want=want) from None
    if array.ndim != 2 or array.dtype.kind not in "iuf":
        raise BadInput("ranks", got=Verbatim(f"{array.dtype} of shape {array.shape}"), want=want)
    if array.shape[0] == 0 or array.shape[1] == 0:
        raise BadInput("ranks", got=Verbatim(f"shape {array.shape}"), want="at least one ranking and one item")
    return np.where(np.isnan(array), -1.0, array) if array.dtype.kind == "f" else array


def checked_ranks(
    matrix: np.ndarray[Any, Any],
    items: Sequence[str],
    problems: Problems,
    *,
    base: int | None = None,
    places: int | None = None,
) -> Ranks:
    """Ranks in the smallest type, without gaps; what is out of range or fractional is noted by row and item.

    ``base`` is what the input counts ranks from, so that an error can speak the input's language; ``places`` is how
    many items were ranked, if only some of them are kept.

    >>> from peerveil.data.problems import Problems, Source
    >>> checked_ranks(np.array([[0, 0, 2]]), "abc", Problems(Source("x"))).tolist()
    [[0, 0, 1]]
    """
    width = places or matrix.shape[1]
    bad = (matrix < -1) | (matrix >= width)
    if matrix.dtype.kind == "f":
        bad |= matrix != np.floor(matrix)
    if bad.any():
        rows, columns = np.nonzero(bad)
        low, gap = (0, "-1") if base is None else (base, "nothing")
        want = f"a rank from {low} to {width - 1 + low}, or {gap} for an item that is left out"
        for row, column in zip(rows[:50].tolist(), columns[:50].tolist(), strict=True):
            problems.add(items[column], [row], got=_at(matrix, column, low), want=want)
        problems.total += max(0, len(rows) - 50)
        return np.zeros(matrix.shape, dtype=rank_type(width))
    array: Ranks = matrix.astype(rank_type(width))
    empty = np.flatnonzero((array < 0).all(axis=1))
    if len(empty):
        problems.add(None, empty.tolist(), got=lambda _: Verbatim("no ranked item"), want="at least one")
    return without_gaps(array)


def _at(matrix: np.ndarray[Any, Any], column: int, low: int) -> Callable[[int], object]:
    return lambda row: matrix[row, column].item() + low


def _always(value: object) -> Callable[[int], object]:
    return lambda _: value


def complete_rows(ranks: Ranks) -> Mask:
    """Which rows put every item on a place of its own.

    >>> complete_rows(np.array([[1, 0], [0, 0], [0, -1]])).tolist()
    [True, False, False]
    """
    rows, width = ranks.shape
    result = np.zeros(rows, dtype=np.bool_)
    step = max(1, _CELLS // width)
    for start in range(0, rows, step):
        block = ranks[start : start + step]
        seen = np.zeros((len(block), width + 1), dtype=np.bool_)
        np.put_along_axis(seen, np.where(block < 0, width, block).astype(np.int64), True, axis=1)
        result[start : start + step] = seen[:, :width].all(axis=1)
    return result


def without_gaps(ranks: Ranks) -> Ranks:
    """The same orders with ranks 0, 1, 2, ... in each row. Works in place on rows that need it."""
    needs = np.flatnonzero(~complete_rows(ranks))
    if not len(needs):
        return ranks
    step = max(1, _CELLS // ranks.shape[1])
    for start in range(0, len(needs), step):
        chosen = needs[start : start + step]
        block = ranks[chosen]
        order = np.argsort(block, axis=1, kind="stable")
        ordered = np.take_along_axis(block, order, axis=1)
        steps = np.zeros(ordered.shape, dtype=block.dtype)
        steps[:, 1:] = (ordered[:, 1:] != ordered[:, :-1]) & (ordered[:, :-1] >= 0)
        dense = np.cumsum(steps, axis=1, dtype=block.dtype)
        dense[ordered < 0] = -1
        np.put_along_axis(block, order, dense, axis=1)
        ranks[chosen] = block
    return ranks


def checked_counts(counts: Any, rows: int, problems: Problems) -> Counts:
    """How often each ranking occurred: whole numbers of at least 1."""
    if counts is None:
        return np.ones(rows, dtype=np.int64)
    array = np.asarray(counts)
    if array.ndim != 1 or len(array) != rows or array.dtype.kind not in "iuf":
        got = Verbatim(f"{array.dtype} of shape {array.shape}")
        raise BadInput("counts", got=got, want=f"{rows} whole numbers, one a ranking")
    bad = np.flatnonzero(~(array >= 1) | (array != np.floor(array)) | (array > 2**53))
    if len(bad):
        problems.add("count", bad.tolist(), got=lambda row: array[row].item(), want="a whole number of at least 1")
        return np.ones(rows, dtype=np.int64)
    return array.astype(np.int64)


def ranks_from_orders(orders: Sequence[Sequence[Any]], items: Sequence[str], problems: Problems) -> Ranks:
    """Ranks from lists of names, best first. Goes through the lists one by one: for small inputs and after failures."""
    if isinstance(orders, str) or not hasattr(orders, "__len__") or not len(orders):
        raise BadInput("orders", got=orders, want="at least one list of items, best first")
    place = {name: position for position, name in enumerate(items)}
    ranks = np.full((len(orders), len(items)), -1, dtype=rank_type(len(items)))
    for row, order in enumerate(orders):
        if isinstance(order, str) or not hasattr(order, "__len__"):
            problems.add(None, [row], got=_always(order), want="a list of items, best first")
            continue
        for rank, entry in enumerate(order):
            tied = entry if isinstance(entry, list | tuple | set | frozenset) else [entry]
            for name in tied:
                column = place.get(name)
                if column is None:
                    problems.add(None, [row], got=_always(name), want=f"one of the {len(items)} items")
                elif ranks[row, column] >= 0:
                    got = Verbatim(f"the item {name!r} twice")
                    problems.add(None, [row], got=_always(got), want="every item at most once")
                else:
                    ranks[row, column] = rank
        if (ranks[row] < 0).all():
            problems.add(None, [row], got=lambda _: Verbatim("no ranked item"), want="at least one")
    return without_gaps(ranks)
