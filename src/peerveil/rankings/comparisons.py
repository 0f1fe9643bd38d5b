"""Tables of pairwise comparisons (winner, loser, judge), as of model leaderboards, with every judge protected.

**The statistic** is how often each item was preferred to each other one, twice counted so that a tie is one for both. Of
each judge at most c comparisons are used, c public, chosen at random among the judge's own, whatever others say.
**Privacy.** A judge adds at most 2c to the entries. All comparisons of one judge replaced by any others move them by at
most 4c in all, so that discrete Laplace noise of scale 4c/epsilon on every entry is epsilon-DP. ∎ The counts of pairs
make strengths comparable whoever met whom: sums of wins alone would do with less noise, but only if all pairs met equally often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import polars as pl

from peerveil.core.arrays import Floats, Ints
from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.guarantee import Guarantee
from peerveil.core.lazy import njit
from peerveil.data.readers.files import InputFile
from peerveil.data.readers.recognize import chosen_format
from peerveil.data.schema import Column, TableSchema
from peerveil.data.table import Table

if TYPE_CHECKING:
    from peerveil.core.exact import Number
    from peerveil.core.randomness import Randomness

_NEIGHBORS = (
    "all comparisons of one judge are replaced by any others; how many judges there are and the items are public"
)


class Comparisons(Table):
    """Who preferred which item to which: columns winner, loser and judge; in a column tie, 1 says that it was one."""

    _schema: ClassVar[TableSchema] = TableSchema(
        "Comparisons",
        (
            Column("winner", "id", "the item that was preferred", other_names="chosen preferred | model_a a"),
            Column("loser", "id", "the other item", other_names="rejected | model_b b"),
            Column("judge", "id", "who compared", other_names="judge_id rater voter annotator user_id | user"),
            Column("tie", "number", "1 for a tie, 0 or nothing otherwise", required=False, gaps=True),
        ),
        identity=("judge", "winner", "loser"),
    )

    @classmethod
    def read(cls, path: Any, format: str | None = None, *, columns: Any = None, **options: Any) -> Self:  # noqa: A002
        """From CSV, TSV, JSON lines or Parquet."""
        file = InputFile.open(path)
        chosen = chosen_format(file, format, "Labels")  # any plain table
        return cls._of_file(file, chosen, cls._wanted(columns, options), options)

    @property
    def judges(self) -> int:
        """How many there are."""
        return self._distinct("judge")

    def wins(self, per_judge: int, randomness: Randomness) -> tuple[tuple[str, ...], Ints, Any]:
        """The items, twice how often each was preferred to each other one, and the columns of the comparisons used."""
        frame = self._frame.select(pl.col("winner", "loser").cast(pl.String), pl.col("judge").rank("dense") - 1)
        ties = self._frame.get_column("tie", default=pl.Series([0.0])).fill_null(0).to_numpy() == 1
        names = pl.concat([frame["winner"], frame["loser"]]).unique().sort()
        if len(names) < 2 or bool((frame["winner"] == frame["loser"]).any()):
            got = Verbatim("one item" if len(names) < 2 else "an item compared with itself")
            raise BadInput("rankings", got=got, want="comparisons of two different items")
        winner, loser = (
            frame[side].cast(pl.Enum(names)).to_physical().to_numpy().astype(np.int64) for side in ("winner", "loser")
        )
        judge = frame["judge"].to_numpy().astype(np.int64)
        tie = np.broadcast_to(ties, judge.shape)
        if np.bincount(judge).max() > per_judge:
            order = randomness.permutation(judge.size)
            order = order[np.argsort(judge[order], kind="stable")]
            starts = np.searchsorted(judge[order], judge[order])
            chosen = order[np.arange(order.size) - starts < per_judge]
            winner, loser, judge, tie = winner[chosen], loser[chosen], judge[chosen], tie[chosen]
        m = len(names)
        counts = np.bincount(winner * m + loser, np.where(tie, 1, 2), minlength=m * m)
        counts += np.bincount(loser * m + winner, np.where(tie, 1, 0), minlength=m * m)
        return tuple(names.to_list()), counts.reshape(m, m).astype(np.int64), (winner, loser, judge, tie)


def judge_guarantee(epsilon: Number | None) -> Guarantee:
    """The guarantee for all comparisons of one judge."""
    return Guarantee.pure_dp(epsilon, unit="all comparisons of one judge", neighbors=_NEIGHBORS)


def judged_covariance(used: Any, strengths: Floats, slope: Floats) -> Floats:
    """The covariance of the strengths, from the judges as a sample of many: their gradients, whatever they have in common."""
    winner, loser, judge, tie = used
    m = strengths.size
    gain = np.where(tie, 0.5, 1.0) - 1 / (1 + np.exp(strengths[loser] - strengths[winner]))
    number = int(judge.max()) + 1
    squares = np.zeros((m, m))
    _add_squares(np.argsort(judge, kind="stable"), winner, loser, judge, gain, squares)
    inverse = np.linalg.pinv(slope)
    return np.asarray(inverse @ squares @ inverse * number / max(number - 1, 1))


@njit(cache=True, nogil=True)
def _add_squares(order: Any, winner: Any, loser: Any, judge: Any, gain: Any, squares: Any) -> None:
    """Add up g g', g the sum over one judge's comparisons of gain (e_winner - e_loser); only what a judge touched counts."""
    gradient, touched = np.zeros(len(squares)), np.zeros(len(squares), np.int64)
    last_start = np.full(len(squares), -1, np.int64)
    start = 0
    while start < order.size:
        end, number = start, 0
        while end < order.size and judge[order[end]] == judge[order[start]]:
            row = order[end]
            for item, sign in ((winner[row], 1.0), (loser[row], -1.0)):
                if last_start[item] != start:
                    last_start[item], touched[number], gradient[item] = start, item, 0.0
                    number += 1
                gradient[item] += sign * gain[row]
            end += 1
        for a in touched[:number]:
            for b in touched[:number]:
                squares[a, b] += gradient[a] * gradient[b]
        start = end


def modeled_covariance(strengths: Floats, slope: Floats, noise_variance: float) -> Floats:
    """The covariance of the strengths if comparisons are independent, with noise of this variance in every count of wins."""
    chance = 1 / (1 + np.exp(strengths[None] - strengths[:, None]))
    noise = -noise_variance * (chance**2 + (1 - chance) ** 2)  # of z_ij P(j before i) - z_ji P(i before j)
    np.fill_diagonal(noise, 0.0)
    np.fill_diagonal(noise, -noise.sum(axis=1))
    inverse = np.linalg.pinv(slope)
    return np.asarray(inverse @ (slope + noise) @ inverse)
