"""Rankings as they come: a table, an array, a file, or pieces of a stream too long to hold."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.core.errors import BadInput, Verbatim
from peerveil.data import Rankings
from peerveil.data.orders import RankingSums, checked_items
from peerveil.data.table import is_frame
from peerveil.rankings.kernels import add_pairs, add_ranks, first_bad_row

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from peerveil.core.randomness import Randomness

    Ints = NDArray[np.int64]

MOST_HELD: Final = 20_000_000
"""Ranks held in memory; what is longer is read once, from beginning to end."""

_PREFLIB: Final = {".soc", ".soi", ".toc", ".toi"}
_WANT: Final = (
    "Rankings, a pandas or Polars frame, an array (a row a ranking, a column an item, ranks from 0), a file name, "
    "or pieces of these"
)
_MOST_COUNT: Final = 2**40


class Ballots:
    """Checked rankings, in memory if they fit.

    Attributes
    ----------
    items : int
        How many items there are.
    held : bool
        Whether all rankings are in memory. If not, one pass over them is all there is.
    """

    def __init__(self, pieces: Iterable[Any], table: Rankings | None = None) -> None:
        self._table = table
        self._sums = RankingSums()
        self._rest: Iterator[tuple[Any, Ints]] = self._checked(pieces)
        self._parts: list[tuple[Any, Ints]] = []
        self.items = 0
        self.names: tuple[str, ...] = ()  # of the items, where they have names
        self.total = 0
        self.incomplete: int | None = None  # the first row that leaves items out or has ties
        self._rows = 0
        cells, self.held = 0, False
        for part in self._rest:
            self._parts.append(part)
            cells += part[0].size
            if cells > MOST_HELD and table is None:
                break
        else:
            self.held = True
        if not self._parts:
            raise BadInput("rankings", got=Verbatim("no rankings"), want="at least two rankings")

    @classmethod
    def of(cls, rankings: Any, *, columns: Mapping[str, str] | None = None, layout: str | None = None) -> Ballots:
        """From whatever was given; ``columns`` and ``layout`` as in :meth:`peerveil.data.Rankings.read`."""
        settings: dict[str, Any] = {"columns": columns, "layout": layout}
        if isinstance(rankings, (str, os.PathLike)):
            if Path(rankings).suffix.lower() in _PREFLIB and columns is None and layout is None:
                return cls(Rankings.stream(rankings))
            table = Rankings.read(rankings, **settings)
            return cls([table], table)
        if is_frame(rankings):
            table = Rankings.from_frame(rankings, **settings)
            return cls([table], table)
        for name, value in settings.items():
            if value is not None:
                raise BadInput(name, got=value, want="None: only a frame or a file has columns and a layout")
        if isinstance(rankings, Ballots):
            return rankings
        if isinstance(rankings, Rankings):
            return cls([rankings], rankings)
        if isinstance(rankings, np.ndarray):
            return cls([rankings])
        if isinstance(rankings, bytes) or not isinstance(rankings, Iterable):
            raise BadInput("rankings", got=rankings, want=_WANT)
        if isinstance(rankings, (list, tuple)):
            if not rankings:
                raise BadInput("rankings", got=Verbatim("no rankings"), want="at least two rankings")
            if not isinstance(rankings[0], (Rankings, np.ndarray)) or getattr(rankings[0], "ndim", 2) == 1:
                table = Rankings(rankings)
                return cls([table], table)
        return cls(rankings)

    def _checked(self, pieces: Iterable[Any]) -> Iterator[tuple[Any, Ints]]:
        """Every piece as ranks and counts, with the same items, counted and fingerprinted."""
        names: tuple[str, ...] | None = None
        for number, piece in enumerate(pieces):
            table = piece
            if not isinstance(piece, Rankings):
                whole = isinstance(piece, np.ndarray) and piece.ndim == 2 and piece.dtype.kind == "i" and piece.size
                if whole and first_bad_row(piece) < 0:
                    ranks, counts, table = piece, np.ones(len(piece), np.int64), None
                else:
                    try:
                        table = Rankings(piece)
                    except BadInput as error:
                        if number == 0:
                            raise
                        raise BadInput(
                            f"rankings, piece {number + 1}", got=Verbatim(str(error)), want="rankings like the first"
                        ) from error
            if table is not None:
                ranks, counts = table.ranks, table.counts
                bad = None if table.is_complete else int(first_bad_row(ranks))
                if bad is not None and self.incomplete is None:
                    self.incomplete = self._rows + bad + 1
                if names is not None and table.items != names:
                    raise BadInput(f"rankings, piece {number + 1}", got=table.items, want=f"the items {names}")
                names = self.names = table.items
            if self.items not in (0, ranks.shape[1]):
                got = Verbatim(f"{ranks.shape[1]} items in piece {number + 1}")
                raise BadInput("rankings", got=got, want=f"{self.items} items, as in the first piece")
            self.items = int(ranks.shape[1])
            self._rows += len(ranks)
            self.total += int(counts.sum())
            if self.total > _MOST_COUNT:
                raise BadInput("rankings", got=Verbatim("more than 2^40 rankings"), want="at most 2^40")
            if self._table is None:
                self._sums.add(ranks, counts, self._item_names)
            yield ranks, counts

    @property
    def data(self) -> Any:
        """What a ledger may fingerprint; for a stream only after it was read."""
        return self._table if self._table is not None else self._sums.hexdigest(self._item_names)

    @property
    def _item_names(self) -> tuple[str, ...]:
        return self.names or checked_items(None, self.items)

    def blocks(self) -> Iterator[tuple[Any, Ints]]:
        """Ranks and counts, piece by piece; once only if they are not held."""
        yield from self._parts
        if not self.held:
            self._parts = []
            yield from self._rest

    def require_enough(self) -> None:
        """At least two items and two rankings (for a stream: so far)."""
        if self.items < 2:
            want = "at least two items: one item can be ranked in one way only"
            raise BadInput("rankings", got=Verbatim("one item"), want=want)
        if self.total < 2:
            want = "at least two: whether a single ranking is a matter of chance cannot be told"
            raise BadInput("rankings", got=Verbatim("one ranking"), want=want)

    def require_complete(self, method: str) -> None:
        """Refuse partial or tied rankings, with the reason."""
        if self.incomplete is not None:
            raise BadInput(
                "rankings",
                got=Verbatim(f"rankings that leave items out or have ties, the first in row {self.incomplete}"),
                want=f"complete rankings without ties for {method}, which compares the places of all items; "
                "'pairs-norm' takes partial rankings",
            )

    def require_held(self, method: str) -> None:
        """Refuse a stream too long to hold."""
        if not self.held:
            raise BadInput(
                "method",
                got=method,
                want=f"'rank-norm', 'pairs-norm' or 'friedman' for more than {MOST_HELD:,} ranks: they need one pass",
            )

    def rank_sums(self) -> Ints:
        """The sum of ranks of each item."""
        sums = np.zeros(self.items, dtype=np.int64)
        for ranks, counts in self.blocks():
            add_ranks(ranks, counts, sums)
        return sums

    def pair_sums(self, order: Ints, randomness: Randomness) -> Ints:
        """The signed sums of the pairs (order[0], order[1]), (order[2], order[3]), ...; coins decide what is left open."""
        pairs = self.items // 2
        first, second = order[0 : 2 * pairs : 2], order[1 : 2 * pairs : 2]
        sums, left = np.zeros(pairs, dtype=np.int64), np.zeros(pairs, dtype=np.int64)
        for ranks, counts in self.blocks():
            add_pairs(ranks, counts, first, second, sums, left)
        for i in np.flatnonzero(left).tolist():
            sums[i] += fair_signs(int(left[i]), randomness)
        return sums

    def require_rows(self, method: str) -> None:
        """Refuse what :meth:`rows` cannot give."""
        self.require_held(method)
        self.require_complete(method)
        if self.total * self.items > 50 * MOST_HELD:
            raise BadInput("rankings", got=Verbatim(f"{self.total:,} rankings"), want="fewer, or method='rank-norm'")

    def rows(self, method: str, randomness: Randomness) -> Any:
        """All complete rankings, one row per person, in a random order that does not depend on them."""
        self.require_rows(method)
        blocks = [np.repeat(ranks, counts, axis=0) if (counts > 1).any() else ranks for ranks, counts in self.blocks()]
        whole = np.concatenate(blocks) if len(blocks) > 1 else blocks[0]
        return np.ascontiguousarray(whole[randomness.permutation(len(whole))])


def fair_signs(number: int, randomness: Randomness) -> int:
    """The sum of so many independent fair signs."""
    ones, left = 0, number
    while left:
        block = min(left, 62 * 100_000)
        words = randomness.integers(0, 2**62, -(-block // 62))
        if block % 62:
            words[-1] &= (1 << (block % 62)) - 1
        ones += int(np.bitwise_count(words).sum())
        left -= block
    return 2 * ones - number
