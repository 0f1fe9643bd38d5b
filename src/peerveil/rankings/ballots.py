"""The rankings that a test reads: from a table, an array, a file, or pieces of a stream too long to hold."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.core.errors import BadInput, Verbatim, one_of
from peerveil.core.exact import whole
from peerveil.data import Rankings
from peerveil.data.orders import RankingSums, checked_items
from peerveil.data.table import is_frame
from peerveil.rankings.kernels import add_pairs, complete_at_random, first_bad_row

if TYPE_CHECKING:
    from peerveil.core.arrays import Ints
    from peerveil.core.randomness import Randomness

MOST_HELD: Final = 20_000_000
"""Ranks held in memory; what is longer is read once, from beginning to end."""

_PREFLIB: Final = {".soc", ".soi", ".toc", ".toi"}
_WANT: Final = (
    "Rankings, a pandas or Polars frame, an array (one row per ranking, one column per item, ranks from 0), a file "
    "name, or pieces of these"
)
_MOST_COUNT: Final = 2**40
_MOST_WEIGHT: Final = 1_000_000
UNRANKED: Final = ("last", "unknown")


class Ballots:
    """Checked rankings of ``items`` items; unless they are ``held`` in memory, one pass over them is all there is.

    Items that somebody left out come ``last`` in that ranking, all on one place, or nothing is known about them. With a
    ``weight_cap`` every row is one person, whose ranking counts as often as its count says, at most so often; otherwise a row
    stands for as many people.
    """

    def __init__(
        self,
        pieces: Iterable[Any],
        table: Rankings | None = None,
        *,
        identified: bool = True,
        unranked: str = "last",
        weight_cap: int | None = None,
    ) -> None:
        self.last = one_of(unranked, "unranked", UNRANKED) == "last"
        self.weight_cap = None if weight_cap is None else whole(weight_cap, "weight_cap", 1, _MOST_WEIGHT)
        self._weights: dict[int, int] = {}  # how many people have each weight
        self._table, self._identified = table, identified  # whether a ledger will ask for the identity of a stream
        self._sums = RankingSums()
        self._rest: Iterator[tuple[Any, Ints]] = self._checked(pieces)
        self._parts: list[tuple[Any, Ints]] = []
        self.items = self.total = self._rows = 0
        self._names: tuple[str, ...] = ()  # of the items
        self.incomplete: int | None = None  # the first row that leaves items out or has ties
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
    def of(
        cls,
        rankings: Any,
        *,
        columns: Mapping[str, str] | None = None,
        layout: str | None = None,
        **reading: Any,
    ) -> Ballots:
        """From any supported form; ``columns`` and ``layout`` as in :meth:`peerveil.data.Rankings.read`."""
        settings: dict[str, Any] = {"columns": columns, "layout": layout}
        options = [name for name, value in settings.items() if value is not None]
        if isinstance(rankings, (str, os.PathLike)):
            if Path(rankings).suffix.lower() in _PREFLIB and not options:
                return cls(Rankings.stream(rankings), **reading)
            rankings = Rankings.read(rankings, **settings)
        elif is_frame(rankings):
            rankings = Rankings.from_frame(rankings, **settings)
        elif options:
            want = "None: only a frame or a file has columns and a layout"
            raise BadInput(options[0], got=settings[options[0]], want=want)
        if isinstance(rankings, bytes) or not isinstance(rankings, (Rankings, Iterable)):
            raise BadInput("rankings", got=rankings, want=_WANT)
        if isinstance(rankings, (list, tuple)) and rankings:  # of rankings, unless of whole pieces
            pieces = isinstance(rankings[0], Rankings) or (
                isinstance(rankings[0], np.ndarray) and rankings[0].ndim != 1
            )
            rankings = rankings if pieces else Rankings(rankings)
        if isinstance(rankings, Rankings):
            return cls([rankings], rankings, **reading)
        return cls([rankings] if isinstance(rankings, np.ndarray) else rankings, **reading)

    def _checked(self, pieces: Iterable[Any]) -> Iterator[tuple[Any, Ints]]:
        """Every piece as ranks and counts, with the same items, counted and fingerprinted."""
        for number, piece in enumerate(pieces, start=1):
            where = f"rankings, piece {number}"
            plain = isinstance(piece, np.ndarray) and piece.ndim == 2 and piece.dtype.kind == "i" and piece.size
            if plain and first_bad_row(piece) < 0:
                ranks, counts, names = piece, np.ones(len(piece), np.int64), checked_items(None, piece.shape[1])
            else:
                try:
                    table = piece if isinstance(piece, Rankings) else Rankings(piece)
                except BadInput as error:
                    if number == 1:
                        raise
                    raise BadInput(where, got=Verbatim(str(error)), want="rankings like the first") from error
                ranks, counts, names = table.ranks, table.counts, table.items
                if self.incomplete is None and not table.is_complete:
                    self.incomplete = self._rows + int(first_bad_row(ranks)) + 1
            if self._names not in ((), names):
                raise BadInput(where, got=names, want=f"the {self.items} items of the first piece")
            self._names, self.items = names, len(names)
            self._rows += len(ranks)
            people = counts
            if self.weight_cap is not None:
                counts, people = np.minimum(counts, self.weight_cap), np.ones(len(ranks), np.int64)
                for weight, number in zip(
                    *(part.tolist() for part in np.unique(counts, return_counts=True)), strict=True
                ):
                    self._weights[weight] = self._weights.get(weight, 0) + number
            self.total += int(people.sum())
            if self.total > _MOST_COUNT:
                raise BadInput("rankings", got=Verbatim("more than 2^40 rankings"), want="at most 2^40")
            if self._table is None and self._identified:
                self._sums.add(ranks, counts, names)
            yield ranks, counts

    @property
    def weights(self) -> tuple[tuple[int, int], ...]:
        """Each weight and how many people have it; of a stream only after it was read. Everybody counts once without a cap."""
        return tuple(sorted(self._weights.items())) or ((1, self.total),)

    @property
    def data(self) -> Any:
        """The identity of the data for a ledger; of a stream only after it was read."""
        return self._table if self._table is not None else self._sums.hexdigest(self._names)

    @property
    def names(self) -> tuple[Any, ...]:
        """The items' names, or numbers where they have none."""
        return tuple(range(self.items)) if self._names == checked_items(None, self.items) else self._names

    def blocks(self) -> Iterator[tuple[Any, Ints]]:
        """Ranks and counts, piece by piece; once only if they are not held."""
        yield from self._parts
        if not self.held:
            self._parts = []
            yield from self._rest

    def require_enough(self) -> None:
        """At least two items and two rankings (for a stream: so far)."""
        if self.items < 2:
            raise BadInput("rankings", got=Verbatim("one item"), want="at least two: one can be ranked in one way only")
        if self.total < 2:
            raise BadInput("rankings", got=Verbatim("one ranking"), want="at least two to test for chance")

    def require_complete(self, method: str) -> None:
        """Refuse partial or tied rankings, with the reason."""
        if self.incomplete is not None:
            got = Verbatim(f"rankings that leave items out or have ties, the first in row {self.incomplete}")
            raise BadInput("rankings", got=got, want=f"complete rankings without ties for {method}")

    def require_held(self, method: str) -> None:
        """Refuse a stream too long to hold."""
        if not self.held:
            able = "'rank-norm', 'pairs-norm' or 'friedman'"
            raise BadInput("method", got=method, want=f"{able} for more than {MOST_HELD:,} ranks: they need one pass")

    def completed(self, randomness: Randomness) -> Iterator[tuple[Any, Ints]]:
        """Complete rankings and their weights, piece by piece: what a person leaves open is decided at random.

        Rankings that are uniform as far as they go become uniform ones. Each person's coins are independent of everything
        else, so that a mechanism which is private for complete rankings is so for all: its loss is bounded for every outcome
        of the coins.
        """
        seed = int(randomness.integers(0, 2**31 - 1, 1)[0]) if self.incomplete is not None or not self.held else 0
        for ranks, counts in self.blocks():
            if self.incomplete is None:
                yield ranks, counts
                continue
            ones = np.ones_like(counts)
            people, weights = (counts, ones) if self.weight_cap is None else (ones, counts)
            if int(people.sum()) * self.items > 50 * MOST_HELD:
                got = Verbatim(f"{int(people.sum()):,} rankings, some of them partial or tied")
                raise BadInput("rankings", got=got, want="fewer, or method='pairs-norm'")
            owner, step = np.repeat(np.arange(len(ranks)), people), max(1, MOST_HELD // (10 * self.items))
            for start in range(0, len(owner), step):
                rows, seed = owner[start : start + step], seed + 1
                yield complete_at_random(ranks[rows], self.last, seed), weights[rows]

    def rank_sums(self, randomness: Randomness) -> Ints:
        """The sum of ranks of each item, over completed rankings."""
        blocks = (np.einsum("i,ij->j", counts, ranks) for ranks, counts in self.completed(randomness))
        return sum(blocks, start=np.zeros(self.items, dtype=np.int64))

    def pair_sums(self, order: Ints, randomness: Randomness) -> Ints:
        """The signed sums of the pairs (order[0], order[1]), (order[2], order[3]), ...; coins decide what is left open."""
        pairs = self.items // 2
        first, second = order[0 : 2 * pairs : 2], order[1 : 2 * pairs : 2]
        sums, undecided = np.zeros(pairs, dtype=np.int64), np.zeros((pairs, (self.weight_cap or 1) + 1), dtype=np.int64)
        for ranks, counts in self.blocks():
            add_pairs(ranks, counts, first, second, self.last, self.weight_cap is not None, sums, undecided)
        for i, weight in zip(*(part.tolist() for part in np.nonzero(undecided)), strict=True):
            sums[i] += weight * fair_signs(int(undecided[i, weight]), randomness)
        return sums

    def require_rows(self, method: str) -> None:
        """Refuse what is too much to hold, and partial rankings."""
        self.require_held(method)
        self.require_complete(method)
        self._require_few()

    def _require_few(self) -> None:
        if self.total * self.items > 50 * MOST_HELD:
            raise BadInput("rankings", got=Verbatim(f"{self.total:,} rankings"), want="fewer, or method='rank-norm'")

    def rows(self, method: str, randomness: Randomness) -> Any:
        """All rankings, completed, one row per person, in a random order that does not depend on them."""
        self.require_held(method)
        self._require_few()
        rows = np.concatenate([np.repeat(ranks, counts, axis=0) for ranks, counts in self.completed(randomness)])
        return rows[randomness.permutation(len(rows))]


def fair_signs(number: int, randomness: Randomness) -> int:
    """The sum of so many independent fair signs."""
    ones = 0
    for start in range(0, number, 62 * 100_000):
        block = min(number - start, 62 * 100_000)
        words = randomness.integers(0, 2**62, -(-block // 62))
        if block % 62:
            words[-1] &= (1 << (block % 62)) - 1
        ones += int(np.bitwise_count(words).sum())
    return 2 * ones - number
