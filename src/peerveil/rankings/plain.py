"""Tests without privacy: what each computes, and its law when rankings are uniform.

Each function returns an :class:`Outcome`. P-values are exact, or simulated and counted as (1 + hits) / (draws + 1), so that
they are valid whatever the number of draws; only concordance (Friedman) uses a limit, for many ranks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.errors import BadInput, Verbatim
from peerveil.rankings import nulls
from peerveil.rankings.central import rank_length
from peerveil.rankings.kernels import agreement_counts, distance, distances_to, pair_distances, shuffle_rows
from peerveil.rankings.mallows import Mallows
from peerveil.rankings.nulls import Law
from peerveil.rankings.printed import squares_mean
from peerveil.rankings.variation import distance_cdf

if TYPE_CHECKING:
    from peerveil.randomness import Randomness
    from peerveil.rankings.intake import Ballots
    from peerveil.rankings.noise import NoisyLaw

_WORK: Final = 300_000_000  # steps of a simulated null
_DRAWS: Final = (199, 9999)
_MOST_MATRIX: Final = 3_000
_SEED: Final = 1_957


@dataclass(frozen=True, slots=True)
class Outcome:
    """A statistic, its critical value and its p-value; ``upper`` says whether large values reject."""

    statistic: float
    critical: float
    p_value: float
    null: Law | NoisyLaw | None
    kind: str
    upper: bool = True


def two_sample(ballots: Ballots, level: float, randomness: Randomness) -> Outcome:
    """2SAMP on all disjoint pairs of rankings: their summed Kendall distance, small values reject; exact null."""
    rows = ballots.rows("two-sample", randomness)
    pairs = len(rows) // 2
    found = np.empty(pairs, dtype=np.int64)
    pair_distances(rows, found)
    total = int(found.sum())
    return Outcome(
        float(total),
        nulls.distance_critical(pairs, ballots.items, level),
        nulls.distance_tail(pairs, ballots.items, total),
        distance_law(pairs, ballots.items),
        "exact",
        upper=False,
    )


def unif(ballots: Ballots, level: float, randomness: Randomness) -> Outcome:
    """UNIF with its exact null: the mean squared signed sum over random disjoint pairs of items."""
    sums = ballots.pair_sums(randomness.permutation(ballots.items), randomness)
    k = ballots.total
    ballots.require_enough()
    law = nulls.squares_null((k,) * (ballots.items // 2))
    square = sum(int(s) ** 2 for s in sums)
    shown = law.mapped(lambda v: v / k)
    return Outcome(squares_mean(sums, k), law.critical(level) / k, law.tail(float(square)), shown, "exact")


def friedman(ballots: Ballots, level: float) -> Outcome:
    """Friedman's statistic k (m-1) W, W being Kendall's coefficient of concordance."""
    sums = ballots.rank_sums()
    ballots.require_complete("friedman")
    ballots.require_enough()
    k, m = ballots.total, ballots.items
    w = (rank_length(sums, k, m) / k) ** 2
    law = nulls.concordance_null(k, m)
    return Outcome(
        k * (m - 1) * w,
        k * (m - 1) * nulls.concordance_critical(k, m, level),
        nulls.concordance_tail(k, m, w),
        law.mapped(lambda v: v * k * (m - 1)),
        law.kind,
    )


def mean_distance(ballots: Ballots, level: float, randomness: Randomness) -> Outcome:
    """The mean Kendall distance over all pairs of rankings; small values reject; simulated null."""
    k, m = ballots.total, ballots.items
    rows = ballots.rows("kendall-distance", randomness)
    law = mean_distance_null(k, m)
    found = mean_pairwise_distance(rows)
    # small values reject: the law and the statistic are turned round, so that one rule of tails serves both
    turned = Law(-law.values[::-1], law.chances[::-1], law.kind, law.draws)
    return Outcome(found, -turned.critical(level), turned.tail(-found), law, law.kind, upper=False)


def mean_pairwise_distance(rows: Any) -> float:
    """The mean of Kendall's distance over all pairs of rows."""
    k, m = rows.shape
    if k * math.log2(m + 1) <= m:
        total = sum(int(distance(rows[i], rows[j])) for i in range(k) for j in range(i))
    elif m <= _MOST_MATRIX:
        wins = np.zeros((m, m), dtype=np.int64)
        agreement_counts(rows, np.ones(k, np.int64), wins)
        total = int((np.triu(wins, 1) * np.triu(wins.T, 1)).sum())
    else:
        want = f"at most {_MOST_MATRIX:,} for so many rankings, or method='friedman'"
        raise BadInput("items", got=Verbatim(f"{m:,} items"), want=want)
    return float(total / (k * (k - 1) / 2))


@lru_cache(maxsize=16)
def mean_distance_null(rankings: int, items: int) -> Law:
    """Simulated: as many draws as the work allows, at least 199."""
    k, m = rankings, items
    one = min(k * m * m, k * k * m * max(1, int(math.log2(m + 1))))
    draws = max(_DRAWS[0], min(_DRAWS[1], _WORK // one))
    values = np.empty(draws)
    rows = np.empty((k, m), dtype=np.int32)
    for i in range(draws):
        shuffle_rows(rows, _SEED + i)
        values[i] = mean_pairwise_distance(rows)
    return Law(np.sort(values), np.full(draws, 1 / draws), "simulated", draws=draws)


def mallows(ballots: Ballots, level: float, randomness: Randomness) -> Outcome:
    """Mallows' test made exact: half of the rankings give a centre, the other half's summed distance to it is tested.

    Given the centre, uniform rankings have independent distances with the Mahonian law, whatever the centre is.
    """
    rows = ballots.rows("mallows", randomness)
    half = len(rows) // 2
    center = Mallows.fit(rows[:half]).center
    found = np.empty(len(rows) - half, dtype=np.int64)
    distances_to(center, rows[half:], found)
    total = int(found.sum())
    return Outcome(
        float(total),
        nulls.distance_critical(found.size, ballots.items, level),
        nulls.distance_tail(found.size, ballots.items, total),
        distance_law(found.size, ballots.items),
        "exact",
        upper=False,
    )


def distance_law(pairs: int, items: int) -> Law:
    """The law of a summed distance on a grid, for pictures."""
    mean = pairs * items * (items - 1) / 4
    deviation = math.sqrt(max(pairs * items * (items - 1) * (2 * items + 5) / 72, 0.25))
    grid = np.unique(np.floor(np.linspace(mean - 5 * deviation, mean + 5 * deviation, 400)))
    values, _ = distance_cdf(items, 1.0, grid, copies=pairs)
    return Law(grid, np.maximum(np.diff(values, prepend=0.0), 0.0), "exact")
