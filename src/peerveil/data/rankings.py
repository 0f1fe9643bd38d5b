"""Rankings: orders of the same items by many people, with how often each order occurred."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import whole
from peerveil.core.files import write_text
from peerveil.data.digest import RankingSums
from peerveil.data.orders import (
    Ranks,
    RankSet,
    as_matrix,
    checked_counts,
    checked_items,
    checked_ranks,
    complete_rows,
    ranks_from_orders,
)
from peerveil.data.problems import Problems, Source
from peerveil.data.readers.preflib import preflib_text
from peerveil.data.readers.ranklayouts import read_layout
from peerveil.data.readers.ranktables import from_frame_columns
from peerveil.data.readers.recognize import read_rankings, stream_rankings
from peerveil.data.table import Table, check_mapping, check_names, make_wish, plural, read_only
from peerveil.data.writing import write_frame

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_PREFLIB = {".soc", ".soi", ".toc", ".toi"}


class Rankings(Table):
    """Orders of items, best first, as ranks from 0.

    Parameters
    ----------
    ranks
        whole numbers, a row a ranking and a column an item: ``ranks[i, j]`` is the place of item j in
        ranking i, 0 the best; -1 (or NaN) where ranking i leaves item j out; equal ranks are a tie
    counts
        how often each ranking occurred, at least 1; once each if left out
    items
        the items' names; ``"0"``, ``"1"``, ... if left out

    Notes
    -----
    Ranks are held without gaps (0, 0, 2 becomes 0, 0, 1). ``is_complete`` says whether every ranking orders
    every item without ties; methods that need it call :meth:`require_complete`.

    Examples
    --------
    >>> rankings = Rankings(ranks=[[0, 1, 2], [2, 0, 1]], counts=[3, 1], items=["tea", "milk", "juice"])
    >>> print(rankings)
    4 complete rankings (2 rows) of 3 items
    >>> rankings.ranks
    array([[0, 1, 2],
           [2, 0, 1]], dtype=int16)
    >>> Rankings(ranks=[[0, 1, 7]])
    Traceback (most recent call last):
        ...
    peerveil.data.problems.BadTable: Rankings, row 1 (index 0), column 2: got 7, need a rank from 0 to 2, or -1 \
for an item that is left out
    """

    _required: ClassVar[tuple[str, ...]] = ()
    _ranks: Ranks
    _counts: np.ndarray[Any, np.dtype[np.int64]]
    _items: tuple[str, ...]

    def __init__(self, ranks: Any, counts: Any = None, items: Sequence[str] | None = None) -> None:
        problems = Problems(Source("Rankings", in_memory=True))
        matrix = as_matrix(ranks)
        names = checked_items(items, matrix.shape[1])
        array = checked_ranks(matrix, names, problems)
        number = checked_counts(counts, len(array), problems)
        problems.raise_any()
        self._set(RankSet(array, number, names))

    def _set(self, content: RankSet, notes: Sequence[str] = ()) -> None:
        self._fill(pl.DataFrame(), notes)
        object.__setattr__(self, "_ranks", read_only(content.ranks))
        object.__setattr__(self, "_counts", read_only(content.counts))
        object.__setattr__(self, "_items", content.items)

    @classmethod
    def _of(cls, content: RankSet, notes: Sequence[str] = ()) -> Self:
        table = cls.__new__(cls)
        table._set(content, notes)
        return table

    def __reduce__(self) -> tuple[Any, ...]:
        content = RankSet(np.array(self._ranks), np.array(self._counts), self._items)
        return _rebuild, (type(self), content, self._notes)

    @classmethod
    def from_orders(cls, orders: Sequence[Sequence[Any]], items: Sequence[str], counts: Any = None) -> Self:
        """From lists of item names, best first; a list inside a list is a tie, what is not named is left out.

        >>> Rankings.from_orders([["tea", "milk"], ["juice", ["tea", "milk"]]], ["tea", "milk", "juice"]).ranks
        array([[ 0,  1, -1],
               [ 1,  1,  0]], dtype=int16)
        """
        names = checked_items(items)
        problems = Problems(Source("Rankings", in_memory=True))
        array = ranks_from_orders(orders, names, problems)
        number = checked_counts(counts, len(array), problems)
        problems.raise_any()
        return cls._of(RankSet(array, number, names))

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        columns: Mapping[str, str] | None = None,
        *,
        items: Sequence[str] | None = None,
        layout: str | None = None,
    ) -> Self:
        """From a pandas or Polars frame: wide (a column an item, or a column a place) or long; see :meth:`read`.

        >>> Rankings.from_frame(pl.DataFrame({"tea": [1, 2], "milk": [2, 1]})).ranks
        array([[0, 1],
               [1, 0]], dtype=int16)
        >>> places = pl.DataFrame({"voter": [7, 8], "rank1": ["tea", "milk"], "rank2": ["milk", "tea"]})
        >>> Rankings.from_frame(places).items
        ('milk', 'tea')
        """
        named = check_names("items", items)
        return cls._of(*from_frame_columns(frame, check_mapping(columns), named, read_layout(layout)))

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        format: str | None = None,  # noqa: A002
        *,
        columns: Mapping[str, str] | None = None,
        items: Sequence[str] | None = None,
        layout: str | None = None,
    ) -> Self:
        """Read PrefLib (.soc .soi .toc .toi), or a table as CSV, TSV, JSON lines or Parquet.

        A table is long (``ranking``, ``item``, ``rank``); wide with a column an item and places in the cells; or wide with a
        column a place (``rank1``, ``rank2``, ... or ``1st choice``, ...) and items in the cells. A first column such as
        ``voter`` is left out. Places may count from 0 or from 1: the smallest one in the file decides. ``items`` names
        the items; without it every column but ``count`` is one. ``layout`` says ``"orders"`` (cells hold items) or
        ``"places"`` where the file does not; columns ``rank1``, ``rank2``, ... that hold numbers are refused without it.
        """
        content, notes = read_rankings(path, format, make_wish(columns, "items", items, read_layout(layout)))
        return cls._of(content, notes)

    @classmethod
    def stream(cls, path: str | os.PathLike[str], rows: int = 100_000) -> Iterator[Self]:
        """A PrefLib file in pieces of at most ``rows`` rankings, in memory that does not grow with the file."""
        whole(rows, "rows", 1)
        for content in stream_rankings(path, rows):
            yield cls._of(content)

    @property
    def ranks(self) -> Ranks:
        """Ranks from 0, a row a ranking and a column an item, -1 where left out; read-only."""
        return self._ranks

    @property
    def counts(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """How often each ranking occurred; read-only."""
        return self._counts

    @property
    def items(self) -> tuple[str, ...]:
        """The items' names, in the order of the columns."""
        return self._items

    @property
    def total(self) -> int:
        """How many rankings there are, repeated ones counted."""
        return int(self._counts.sum())

    def __len__(self) -> int:
        return len(self._ranks)

    @property
    def has_missing(self) -> bool:
        """Whether any ranking leaves an item out."""
        if "missing" not in self._cache:
            self._cache["missing"] = bool((self._ranks < 0).any())
        return bool(self._cache["missing"])

    @property
    def has_ties(self) -> bool:
        """Whether any ranking puts two items on one place."""
        if "ties" not in self._cache:
            ranked = (self._ranks >= 0).sum(axis=1)
            self._cache["ties"] = bool((self._ranks.max(axis=1) + 1 < ranked).any())
        return bool(self._cache["ties"])

    @property
    def is_complete(self) -> bool:
        """Whether every ranking orders every item, without ties."""
        if "complete" not in self._cache:
            self._cache["complete"] = bool(self._complete_rows().all())
        return bool(self._cache["complete"])

    def _complete_rows(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        return complete_rows(self._ranks)

    def require_complete(self, method: str) -> None:
        """Refuse to go on with partial or tied rankings; ``method`` says what needs complete ones.

        >>> Rankings([[0, 1, 2], [0, 1, -1]]).require_complete("the rank-norm test")
        Traceback (most recent call last):
            ...
        peerveil.core.errors.BadInput: rankings: got 1 of 2 rankings that leave items out, the first in row 2, need \
complete rankings without ties: the rank-norm test compares the places of all items
        """
        if self.is_complete:
            return
        bad = ~self._complete_rows()
        row = int(np.flatnonzero(bad)[0])
        number = int(self._counts[bad].sum())
        why = "leave items out" if self.has_missing and not self.has_ties else "leave items out or have ties"
        why = "have ties" if not self.has_missing else why
        raise BadInput(
            "rankings",
            got=Verbatim(f"{number:,} of {self.total:,} rankings that {why}, the first in row {row + 1}"),
            want=f"complete rankings without ties: {method} compares the places of all items",
        )

    @property
    def frame(self) -> pl.DataFrame:
        """Wide: ``count``, then a column an item with ranks from 0, null where left out."""
        columns = [pl.Series("count", self._counts.copy())]
        for position, name in enumerate(self._items):
            ranks = pl.Series(name, np.ascontiguousarray(self._ranks[:, position]))
            columns.append(ranks.set(ranks < 0, None) if self.has_missing else ranks)
        return pl.DataFrame(columns)

    def column(self, name: str) -> np.ndarray[Any, Any]:
        """The counts (``"count"``) or the ranks of one item, read-only."""
        if name == "count":
            return self._counts
        if name not in self._items:
            raise BadInput("name", got=name, want=f"one of count, {', '.join(self._items)}")
        return self._ranks[:, self._items.index(name)]

    def _digest(self) -> str:
        """Equal rankings are one ranking with the sum of their counts; the order of the items does not matter."""
        order = np.argsort(np.array(self._items))
        ranks = np.ascontiguousarray(self._ranks[:, order].astype("<i4"))
        rows = ranks.view(np.dtype((np.void, 4 * ranks.shape[1]))).ravel()
        distinct, inverse = np.unique(rows, return_inverse=True)
        counts = np.zeros(len(distinct), dtype="<i8")
        np.add.at(counts, inverse, self._counts)
        digest = hashlib.sha256("\n".join(["peerveil Rankings 1", *sorted(self._items), ""]).encode())
        digest.update(distinct.tobytes())
        digest.update(counts.tobytes())
        return digest.hexdigest()

    def _identity(self) -> str:
        sums = RankingSums()
        sums.add(self._ranks, self._counts, self._items)
        return sums.hexdigest(self._items)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rankings):
            return NotImplemented if not isinstance(other, Table) else False
        same = self.total == other.total and set(self._items) == set(other._items)
        return same and self.fingerprint == other.fingerprint

    __hash__ = Table.__hash__

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write a wide table (.csv, .tsv, .jsonl, .parquet), or PrefLib (.soc .soi .toc .toi)."""
        suffix = Path(path).suffix.lower() if isinstance(path, str | os.PathLike) else ""
        if suffix in _PREFLIB:
            text = preflib_text(RankSet(self._ranks, self._counts, self._items), Path(path).name, suffix[1:])
            return write_text(path, text)
        return write_frame(self.frame, path)

    def __repr__(self) -> str:
        kind = "complete" if self.is_complete else "partial or tied"
        return f"Rankings(rows={len(self)}, total={self.total}, items={len(self._items)}, {kind})"

    def __str__(self) -> str:
        kind = "complete ranking" if self.is_complete else "partial ranking" if self.has_missing else "ranking"
        shown = plural(self.total, kind) + (" with ties" if self.has_ties else "")
        rows = f" ({plural(len(self), 'row')})" if len(self) != self.total else ""
        return "\n".join([f"{shown}{rows} of {plural(len(self._items), 'item')}", *self.notes])


def _rebuild(kind: type[Rankings], content: RankSet, notes: tuple[str, ...]) -> Rankings:
    return kind._of(content, notes)
