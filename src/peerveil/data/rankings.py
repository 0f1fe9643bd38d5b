"""Rankings: orders of the same items by many people, with how often each order occurred."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl

from peerveil.core.arrays import Ints
from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import whole
from peerveil.core.files import write_text
from peerveil.data.orders import RankingSums, Ranks, RankSet, complete_rows, tied_rows
from peerveil.data.readers.files import InputFile
from peerveil.data.readers.preflib import KINDS, preflib_text, read_preflib, stream_preflib
from peerveil.data.readers.rank_tables import ranks_of_table
from peerveil.data.readers.recognize import chosen_format
from peerveil.data.readers.tabular import TABULAR, refuse_text_settings
from peerveil.data.schema import RANKINGS, RawTable, ReadOptions, TableSchema
from peerveil.data.table import Table, check_names, plural, read_only, write_frame


class Rankings(Table):
    """Orders of items, best first, as ranks from 0.

    Parameters
    ----------
    ranks
        whole numbers, one row per ranking and one column per item: ``ranks[i, j]`` is the place of item j in
        ranking i, 0 the best; -1 (or NaN) where ranking i leaves item j out; equal ranks are a tie
    counts
        how often each ranking occurred, at least 1; once each if left out
    items
        the items' names; ``"0"``, ``"1"``, ... if left out

    Notes
    -----
    Ranks are held without gaps (0, 0, 2 becomes 0, 0, 1). ``is_complete`` says whether every ranking orders
    every item without ties; methods that need it call :meth:`require_complete`.

    ``read`` takes PrefLib (.soc .soi .toc .toi), or a table as CSV, TSV, JSON lines or Parquet; ``from_frame`` a frame.
    A table is long (``ranking``, ``item``, ``rank``); wide with one column per item and places in the cells; or wide
    with one column per place (``rank1``, ... or ``1st choice``, ...) and items in the cells. A first column such as
    ``voter`` is left out. Places may count from 0 or from 1: the smallest one in the file decides. ``items`` names
    the items; without it every column but ``count`` is one. ``layout`` says ``"orders"`` (cells hold items) or
    ``"places"`` where the file does not; columns ``rank1``, ``rank2``, ... that hold numbers are refused without it.

    Examples
    --------
    >>> rankings = Rankings(ranks=[[0, 1, 2], [2, 0, 1]], counts=[3, 1], items=["tea", "milk", "juice"])
    >>> print(rankings)
    4 complete rankings (2 rows) of 3 items
    >>> rankings.ranks
    array([[0, 1, 2],
           [2, 0, 1]], dtype=int16)
    >>> places = pl.DataFrame({"voter": [7, 8], "rank1": ["tea", "milk"], "rank2": ["milk", "tea"]})
    >>> Rankings.from_frame(places).items
    ('milk', 'tea')
    >>> Rankings(ranks=[[0, 1, 7]])
    Traceback (most recent call last):
        ...
    peerveil.data.problems.BadTable: Rankings, row 1 (index 0), column 2: got 7, need a rank from 0 to 2, or -1 \
for an item that is left out
    """

    _schema: ClassVar[TableSchema] = RANKINGS
    _frame: RankSet  # type: ignore[assignment]

    def __init__(self, ranks: Any, counts: Any = None, items: Sequence[str] | None = None) -> None:
        self._fill(RankSet.of_matrix(ranks, counts, items))

    def _fill(self, content: Any, notes: Sequence[str] = ()) -> None:
        """The content is not a frame but a set of ranks."""
        super()._fill(RankSet(read_only(content.ranks), read_only(content.counts), content.items), notes)

    @classmethod
    def from_orders(cls, orders: Sequence[Sequence[Any]], items: Sequence[str], counts: Any = None) -> Self:
        """From lists of item names, best first; a list inside a list is a tie, what is not named is left out.

        >>> Rankings.from_orders([["tea", "milk"], ["juice", ["tea", "milk"]]], ["tea", "milk", "juice"]).ranks
        array([[ 0,  1, -1],
               [ 1,  1,  0]], dtype=int16)
        """
        return cls._wrap(RankSet.of_orders(orders, items, counts))

    @classmethod
    def _of_file(cls, file: InputFile, chosen: str, wanted: ReadOptions, options: dict[str, Any]) -> Self:
        if chosen in TABULAR:
            return super()._of_file(file, chosen, wanted, options)
        refuse_text_settings(file, chosen)
        if options.get("layout") is not None:
            raise BadInput("layout", got=options["layout"], want="no layout: PrefLib has only one")
        return cls._wrap(read_preflib(file))

    @classmethod
    def _checked(
        cls, raw: RawTable, items: Sequence[str] | None = None, layout: str | None = None
    ) -> tuple[RankSet, tuple[str, ...]]:
        return ranks_of_table(raw, check_names("items", items), layout)

    @classmethod
    def stream(cls, path: str | os.PathLike[str], rows: int = 100_000) -> Iterator[Self]:
        """A PrefLib file in pieces of at most ``rows`` rankings, in memory that does not grow with the file."""
        whole(rows, "rows", 1)
        file = InputFile.open(path)
        if chosen_format(file, None, "Rankings") != "preflib":
            raise file.refusal("a file that is not PrefLib", "a .soc, .soi, .toc or .toi file")
        yield from map(cls._wrap, stream_preflib(file, rows))

    @property
    def ranks(self) -> Ranks:
        """Ranks from 0, one row per ranking and one column per item, -1 where left out; read-only."""
        return self._frame.ranks

    @property
    def counts(self) -> Ints:
        """How often each ranking occurred; read-only."""
        return self._frame.counts

    @property
    def items(self) -> tuple[str, ...]:
        """The items' names, in the order of the columns."""
        return self._frame.items

    @property
    def total(self) -> int:
        """How many rankings there are, repeated ones counted."""
        return int(self.counts.sum())

    def __len__(self) -> int:
        return len(self.ranks)

    @cached_property
    def has_missing(self) -> bool:
        """Whether any ranking leaves an item out."""
        return bool((self.ranks < 0).any())

    @cached_property
    def has_ties(self) -> bool:
        """Whether any ranking puts two items on one place."""
        return bool(tied_rows(self.ranks).any())

    @cached_property
    def is_complete(self) -> bool:
        """Whether every ranking orders every item, without ties."""
        return bool(complete_rows(self.ranks).all())

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
        bad = ~complete_rows(self.ranks)
        faults = {"leave items out": self.has_missing, "have ties": self.has_ties}
        why = " or ".join(fault for fault, present in faults.items() if present)
        number, row = int(self.counts[bad].sum()), int(np.flatnonzero(bad)[0]) + 1
        got = Verbatim(f"{number:,} of {self.total:,} rankings that {why}, the first in row {row}")
        want = f"complete rankings without ties: {method} compares the places of all items"
        raise BadInput("rankings", got=got, want=want)

    @property
    def frame(self) -> pl.DataFrame:
        """Wide: ``count``, then one column per item with ranks from 0, null where left out."""
        ranks = pl.DataFrame(self.ranks, schema=list(self.items), orient="row")
        return ranks.select(pl.Series("count", self.counts.copy()), pl.when(pl.all() >= 0).then(pl.all()))

    def column(self, name: str) -> np.ndarray[Any, Any]:
        """The counts (``"count"``) or the ranks of one item, read-only."""
        if name == "count":
            return self.counts
        if name not in self.items:
            raise BadInput("name", got=name, want=f"one of count, {', '.join(self.items)}")
        return self.ranks[:, self.items.index(name)]

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the rankings in hex; equal ones are one with the sum of their counts, the order of items is ignored."""
        return self._frame.fingerprint()

    @cached_property
    def identity(self) -> str:
        """What a ledger knows the rankings by, in hex."""
        sums = RankingSums()
        sums.add(self.ranks, self.counts, self.items)
        return sums.hexdigest(self.items)

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write a wide table (.csv, .tsv, .jsonl, .parquet), or PrefLib (.soc .soi .toc .toi)."""
        kind = Path(path).suffix.lower().removeprefix(".") if isinstance(path, str | os.PathLike) else ""
        if kind in KINDS:
            return write_text(path, preflib_text(self._frame, Path(path).name, kind))
        return write_frame(self.frame, path)

    def __repr__(self) -> str:
        kind = "complete" if self.is_complete else "partial or tied"
        return f"Rankings(rows={len(self)}, total={self.total}, items={len(self.items)}, {kind})"

    @property
    def headline(self) -> str:
        """The rankings in one line, without notes on how they were read."""
        kind = "complete ranking" if self.is_complete else "partial ranking" if self.has_missing else "ranking"
        shown = plural(self.total, kind) + (" with ties" if self.has_ties else "")
        rows = f" ({plural(len(self), 'row')})" if len(self) != self.total else ""
        return f"{shown}{rows} of {plural(len(self.items), 'item')}"
