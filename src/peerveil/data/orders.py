"""Arrays of ranks: checked, without gaps, and small.

The one representation is an integer array with one row per ranking and one column per item: the place of the item,
from 0, or -1 where the ranking leaves it out. Items on one place are tied.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from peerveil.core.arrays import Flags, Ints
from peerveil.core.errors import BadInput, Verbatim
from peerveil.data.check import ColumnCheck, as_series
from peerveil.data.problems import ProblemLog, TableSource
from peerveil.data.schema import RANKINGS

Ranks = np.ndarray[Any, np.dtype[np.signedinteger[Any]]]
_BLOCK_CELLS = 4_000_000
IN_MEMORY = TableSource("Rankings", in_memory=True)


@dataclass(frozen=True)
class RankSet:
    """What a reader of rankings hands over: checked ranks, how often each occurred, and the items' names."""

    ranks: Ranks
    counts: Ints
    items: tuple[str, ...]

    @classmethod
    def checked(cls, ranks: Ranks, counts: Any, items: tuple[str, ...], log: ProblemLog) -> RankSet:
        """Ranks without gaps; counts that are none and rankings without any item are noted, then all notes raised.

        >>> RankSet.checked(np.array([[0, 0, 2]]), None, ("a", "b", "c"), ProblemLog(TableSource("x"))).ranks.tolist()
        [[0, 0, 1]]
        """
        numbers = checked_counts(counts, len(ranks), log)
        empty = np.flatnonzero((ranks < 0).all(axis=1)).tolist()
        log.add(None, empty, got=lambda _: Verbatim("no ranked item"), want="at least one")
        log.raise_any()
        return cls(without_gaps(ranks), numbers, items)

    @classmethod
    def of_matrix(cls, ranks: Any, counts: Any, items: Sequence[str] | None) -> RankSet:
        """From numbers, one row per ranking and one column per item; NaN is -1."""
        want = "whole numbers, one row per ranking and one column per item"
        try:
            matrix = np.asarray(ranks)
        except ValueError:
            raise BadInput("ranks", got=Verbatim("rows of different lengths"), want=want) from None
        if matrix.ndim != 2 or matrix.dtype.kind not in "iuf":
            raise BadInput("ranks", got=Verbatim(f"{matrix.dtype} of shape {matrix.shape}"), want=want)
        if matrix.size == 0:
            raise BadInput("ranks", got=Verbatim(f"shape {matrix.shape}"), want="at least one ranking and one item")
        names = checked_items(items, matrix.shape[1])
        log = ProblemLog(IN_MEMORY)
        matrix = np.where(np.isnan(matrix), -1.0, matrix) if matrix.dtype.kind == "f" else matrix
        return cls.checked(checked_ranks(matrix, names, log), counts, names, log)

    @classmethod
    def of_orders(cls, orders: Sequence[Sequence[Any]], items: Sequence[str], counts: Any) -> RankSet:
        """From lists of names, best first. Goes through the lists one by one: for small inputs."""
        if isinstance(orders, str) or not hasattr(orders, "__len__") or not len(orders):
            raise BadInput("orders", got=orders, want="at least one list of items, best first")
        names = checked_items(items)
        log = ProblemLog(IN_MEMORY)
        columns = {name: position for position, name in enumerate(names)}
        ranks = np.full((len(orders), len(names)), -1, dtype=rank_type(len(names)))
        for row, order in enumerate(orders):

            def refuse(got: object, want: str, row: int = row) -> None:
                log.add(None, [row], got=lambda _: got, want=want)

            if isinstance(order, str) or not hasattr(order, "__len__"):
                refuse(order, "a list of items, best first")
                continue
            for rank, entry in enumerate(order):
                for name in entry if isinstance(entry, list | tuple | set | frozenset) else [entry]:
                    if name not in columns:
                        refuse(name, f"one of the {len(names)} items")
                    elif ranks[row, columns[name]] >= 0:
                        refuse(Verbatim(f"the item {name!r} twice"), "every item at most once")
                    else:
                        ranks[row, columns[name]] = rank
        return cls.checked(ranks, counts, names, log)

    def fingerprint(self) -> str:
        """SHA-256, in hex. Equal rankings are one ranking with the sum of their counts; the order of items is ignored."""
        ranks = np.ascontiguousarray(self.ranks[:, np.argsort(np.array(self.items))].astype("<i4"))
        rows = ranks.view(np.dtype((np.void, 4 * ranks.shape[1]))).ravel()
        distinct, inverse = np.unique(rows, return_inverse=True)
        counts = np.zeros(len(distinct), dtype="<i8")
        np.add.at(counts, inverse, self.counts)
        names = "\n".join(["peerveil Rankings 1", *sorted(self.items), ""]).encode()
        return hashlib.sha256(names + distinct.tobytes() + counts.tobytes()).hexdigest()


@dataclass
class RankingSums:
    """The identity of rankings, gathered piece by piece: any order of rows, pieces and items gives the same.

    A sum of two 64-bit hashes of every row. Nobody gains by a collision: data that are taken for others are refused.
    """

    _sums: list[int] = field(default_factory=lambda: [0, 0])

    def add(self, ranks: Ranks, counts: Ints, items: Sequence[str]) -> None:
        """Take in rows of ranks, each so many times."""
        order = np.argsort(np.array(items))
        for position, factor in enumerate((0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)):
            mixed = np.full(len(ranks), factor, dtype=np.uint64)
            for column in order.tolist():
                mixed ^= ranks[:, column].astype(np.int64).view(np.uint64)
                mixed *= np.uint64(factor)
                mixed ^= mixed >> np.uint64(29)
            total = (mixed * counts.astype(np.uint64)).sum(dtype=np.uint64)
            self._sums[position] = (self._sums[position] + int(total)) % 2**64

    def hexdigest(self, items: Sequence[str]) -> str:
        """The identity of all rows together."""
        text = "\n".join(["peerveil rankings 2", *sorted(items), *map(str, self._sums)])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


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
    names = () if isinstance(items, str) or not hasattr(items, "__len__") else tuple(items)
    usable = all(isinstance(name, str) and name.strip() and name != "count" for name in names)
    if not names or not usable or len(set(names)) < len(names):
        raise BadInput("items", got=items, want="a list of distinct names, none empty and none 'count'")
    if number is not None and len(names) != number:
        raise BadInput("items", got=Verbatim(f"{len(names)} names"), want=f"{number}, one per column of ranks")
    return names


def checked_ranks(
    matrix: np.ndarray[Any, Any], items: Sequence[str], log: ProblemLog, *, base: int | None = None, places: int = 0
) -> Ranks:
    """Ranks in the smallest type; what is out of range or fractional is noted by row and item.

    ``base`` is what the input counts ranks from, so that an error can speak the input's language; ``places`` is how
    many items were ranked, if only some of them are kept.
    """
    width = places or matrix.shape[1]
    bad = (matrix < -1) | (matrix >= width)
    if matrix.dtype.kind == "f":
        bad |= matrix != np.floor(matrix)
    low, gap = (0, "-1") if base is None else (base, "nothing")
    want = f"a rank from {low} to {width - 1 + low}, or {gap} for an item that is left out"
    for column in np.flatnonzero(bad.any(axis=0)).tolist():
        cells = (matrix[:, column] + low).tolist()
        log.add(items[column], np.flatnonzero(bad[:, column]).tolist(), got=cells.__getitem__, want=want)
    if bad.any():
        return np.zeros(matrix.shape, dtype=rank_type(width))
    return matrix.astype(rank_type(width))


def _blocks(rows: int, width: int) -> Iterator[slice]:
    """Slices of rows with few enough cells to work on at once."""
    step = max(1, _BLOCK_CELLS // width)
    return (slice(start, start + step) for start in range(0, rows, step))


def complete_rows(ranks: Ranks) -> Flags:
    """Which rows put every item on a place of its own.

    >>> complete_rows(np.array([[1, 0], [0, 0], [0, -1]])).tolist()
    [True, False, False]
    """
    rows, width = ranks.shape
    complete = np.zeros(rows, dtype=np.bool_)
    for chosen in _blocks(rows, width):
        block = ranks[chosen]
        taken = np.zeros((len(block), width + 1), dtype=np.bool_)
        np.put_along_axis(taken, np.where(block < 0, width, block).astype(np.int64), True, axis=1)
        complete[chosen] = taken[:, :width].all(axis=1)
    return complete


def tied_rows(ranks: Ranks) -> Flags:
    """Which rows, without gaps, put two items on one place."""
    return np.asarray(ranks.max(axis=1) + 1 < (ranks >= 0).sum(axis=1))


def without_gaps(ranks: Ranks) -> Ranks:
    """The same orders with ranks 0, 1, 2, ... in each row. Works in place on rows that need it."""
    incomplete = np.flatnonzero(~complete_rows(ranks))
    for part in _blocks(len(incomplete), ranks.shape[1]):
        rows = incomplete[part]
        block = ranks[rows]
        order = np.argsort(block, axis=1, kind="stable")
        ordered = np.take_along_axis(block, order, axis=1)
        steps = np.zeros(ordered.shape, dtype=block.dtype)
        steps[:, 1:] = (ordered[:, 1:] != ordered[:, :-1]) & (ordered[:, :-1] >= 0)
        dense = np.cumsum(steps, axis=1, dtype=block.dtype)
        dense[ordered < 0] = -1
        np.put_along_axis(block, order, dense, axis=1)
        ranks[rows] = block
    return ranks


def checked_counts(counts: Any, rows: int, log: ProblemLog) -> Ints:
    """How often each ranking occurred: whole numbers of at least 1."""
    if counts is None:
        return np.ones(rows, dtype=np.int64)
    if np.ndim(counts) != 1 or len(counts) != rows:
        got = Verbatim(f"values of shape {np.shape(counts)}")
        raise BadInput("counts", got=got, want=f"{rows} whole numbers, one per ranking")
    return ColumnCheck(RANKINGS["count"], as_series("count", counts), log).values().fill_null(1).to_numpy()
