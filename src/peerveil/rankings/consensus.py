"""The consensus of rankings: an order of the items with intervals, openly or with central differential privacy.

**The statistic** is the sum over people of twice their ranks; ties, and items that somebody left out, share the mean
of their places. With an epsilon, noise on the permutohedron is added
(:class:`~peerveil.core.randomness.PermutohedronNoise`, which has the proof); all that follows is computed from the
noisy sums and public numbers.

**Scores.** Borda: how many places an item is above the middle, on average. For complete rankings the sums are also
sufficient for Bradley and Terry's model: its strengths solve sum_j 1/(1 + exp(t_j - t_i)) = (m - 1) minus the mean
rank of i.

**Intervals** are for the people who were asked as a sample of many. The sampling covariance is that of the rankings
themselves without epsilon; with epsilon it is simulated from Plackett and Luce's model with the same strengths,
shrunken for the noise. The noise is simulated by its own law. Intervals of scores hold for all items at once; those
of ranks come from simultaneous intervals of all differences of two scores.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.core.arrays import Floats, Ints
from peerveil.core.errors import BadInput, one_of
from peerveil.core.exact import probability, whole
from peerveil.core.guarantee import read_epsilon
from peerveil.core.randomness import PermutohedronNoise, Randomness
from peerveil.core.result import Result
from peerveil.rankings.ballots import Ballots
from peerveil.rankings.kernels import add_places, places_of
from peerveil.rankings.uniformity import ranking_guarantee

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.core.exact import Number
    from peerveil.core.guarantee import Guarantee
    from peerveil.ledger import Account

METHODS: Final = ("auto", "borda", "bradley-terry")
_SIMULATED: Final = 4_000  # errors of the scores
_SAMPLED: Final = 20_000  # rankings whose covariance is taken
_SEED: Final = 1785  # public: equal sums give equal intervals


@dataclass(frozen=True, slots=True)
class TopItems:
    """Which items belong to the first k: for certain (at the result's level), certainly not, and undecided."""

    surely: tuple[Hashable, ...]
    surely_not: tuple[Hashable, ...]
    undecided: tuple[Hashable, ...]


@dataclass(frozen=True, kw_only=True)
class Consensus(Result):
    """An order of the items, with intervals.

    Attributes
    ----------
    order : tuple
        The items, best first.
    scores : dict
        By item: places above the middle on average (Borda), or the strength (Bradley and Terry).
    score_intervals : dict
        By item: an interval of its score; all hold at once with probability ``level``.
    rank_intervals : dict
        By item: the best and the worst rank (from 1) that it may have; all hold at once with probability ``level``.
    strengths : dict
        By item: the strength in Bradley and Terry's model, behind :meth:`prefers`.
    """

    method: str
    level: float
    rankings: int
    order: tuple[Hashable, ...]
    scores: dict[Hashable, float]
    score_intervals: dict[Hashable, tuple[float, float]]
    rank_intervals: dict[Hashable, tuple[int, int]]
    strengths: dict[Hashable, float]
    noise_sd: float | None = field(repr=False)

    def top(self, k: int) -> TopItems:
        """Which items belong to the first k."""
        whole(k, "k", 1, len(self.order))
        ranks = self.rank_intervals
        return TopItems(
            tuple(item for item in self.order if ranks[item][1] <= k),
            tuple(item for item in self.order if ranks[item][0] > k),
            tuple(item for item in self.order if ranks[item][0] <= k < ranks[item][1]),
        )

    def prefers(self, a: Hashable, b: Hashable) -> float:
        """The probability that somebody ranks a before b, in Bradley and Terry's model."""
        for name, item in (("a", a), ("b", b)):
            if item not in self.strengths:
                shown = ", ".join(map(str, self.order[:20]))
                raise BadInput(
                    name, got=item, want=f"one of the items: {shown}{', ...' if len(self.order) > 20 else ''}"
                )
        return float(1 / (1 + np.exp(self.strengths[b] - self.strengths[a])))

    def summary(self) -> str:
        """The finding in one line."""
        first = ", ".join(str(item) for item in self.order[:3])
        low, high = self.rank_intervals[self.order[0]]
        certain = "certainly first" if high == 1 else f"rank {low} to {high}"
        return (
            f"{self.rankings:,} rankings of {len(self.order):,} items: {first}{', ...' if len(self.order) > 3 else ''}; "
            f"{self.order[0]} is {certain} ({self.level:.0%} simultaneous intervals)"
        )

    def frame(self) -> pl.DataFrame:
        """One row per item, best first."""
        rows = [
            {
                "rank": rank,
                "item": str(item),
                "score": self.scores[item],
                "score_lower": self.score_intervals[item][0],
                "score_upper": self.score_intervals[item][1],
                "rank_lower": self.rank_intervals[item][0],
                "rank_upper": self.rank_intervals[item][1],
            }
            for rank, item in enumerate(self.order, start=1)
        ]
        return pl.DataFrame(rows)

    def draw(self, ax: Axes) -> None:
        """Scores as dots with intervals, the best item on top."""
        from peerveil.rankings.figures import draw_consensus

        draw_consensus(self, ax)


def consensus(
    rankings: Any,
    *,
    epsilon: Number | None = None,
    method: str = "auto",
    level: float = 0.95,
    columns: Mapping[str, str] | None = None,
    layout: str | None = None,
    randomness: Randomness | None = None,
    account: Account | None = None,
) -> Consensus:
    """The consensus of rankings: an order of the items with simultaneous intervals.

    Parameters
    ----------
    rankings
        As in :func:`~peerveil.rankings.uniformity_test`: a table, a frame, a file name or an array of ranks; complete, partial
        or tied. An array gives item numbers, a table the items' names.
    epsilon : number, optional
        Privacy budget for one person's ranking. Default: ``None``, which is not private.
    method : str, optional
        ``"borda"`` (default, ``"auto"``): mean ranks. ``"bradley-terry"``: strengths, whose differences are log-odds
        of preferring one item to another.
    level : float, optional
        The probability with which all intervals hold at once. Default: 0.95.
    columns, layout, randomness, account : optional
        As in :func:`~peerveil.rankings.uniformity_test`.

    Examples
    --------
    >>> from peerveil.rankings import Mallows
    >>> votes = Mallows(6, 0.7).sample(500, seed=1)
    >>> result = consensus(votes, epsilon=1, randomness=Randomness.simulation(1))
    >>> result.order, result.rank_intervals[0]
    ((0, 1, 2, 3, 4, 5), (1, 1))
    >>> result.top(2).surely, 0.5 < result.prefers(0, 1) < 0.8
    ((0, 1), True)
    """
    one_of(method, "method", METHODS)
    probability(level, "level")
    exact = None if epsilon is None else read_epsilon(epsilon)
    source = Randomness.of(randomness)
    if account is not None and exact is None:
        raise BadInput("account", got=account, want="None: what is not private cannot be entered in a ledger")
    ballots = Ballots.of(rankings, columns=columns, layout=layout, identified=account is not None)
    ballots.require_enough()
    noise = None if exact is None else PermutohedronNoise(ballots.items, exact)
    sums, sample = _sums(ballots, with_sample=exact is None)
    guarantee = ranking_guarantee(exact, partial=True)
    if noise is not None:
        if account is not None:
            purpose = f"the consensus of rankings of {ballots.items} items"
            account.spend(guarantee, purpose=purpose, data=ballots.data, randomness=source)
        sums = sums + noise.draw(source)
    people = ballots.total
    mean_places = sums / (2 * people)
    covariance = np.cov(sample, rowvar=False) if sample is not None else _modeled(mean_places, people, noise)
    errors = _errors(covariance, people, noise)
    return consensus_of(
        ballots.names,
        people,
        mean_places,
        errors,
        method=method,
        level=level,
        guarantee=guarantee if noise is None else source.stamp(guarantee),
        noise_sd=None if noise is None else noise.sd / 2,
    )


def _sums(ballots: Ballots, *, with_sample: bool) -> tuple[Ints, Floats | None]:
    """Twice the sum of everybody's ranks by item, and the ranks of some people (every so many)."""
    sums = np.zeros(ballots.items, dtype=np.int64)
    sample: list[Floats] = []
    for ranks, counts in ballots.blocks():
        add_places(ranks, counts, sums)
        if with_sample:
            step = max(1, len(ranks) // _SAMPLED)
            repeated = np.repeat(ranks[::step], np.minimum(counts[::step], _SAMPLED), axis=0)
            sample.append(places_of(repeated[:: max(1, len(repeated) // _SAMPLED)]) / 2)
    return sums, np.concatenate(sample) if with_sample else None


def strengths_of(mean_places: Floats, *, shrink: float = 1.0) -> Floats:
    """Bradley and Terry's strengths for mean ranks, by Newton's method; their sum is 0.

    Mean ranks that no people could have (noise may lead there) are drawn towards the middle until some could.
    """
    m = mean_places.size
    away = shrink * ((m - 1) / 2 - mean_places)
    sums = np.cumsum(np.sort(away)[::-1])[:-1]
    sizes = np.arange(1, m)
    size = float((sums / (sizes * (m - sizes) / 2)).max(initial=0.0))
    wins = (m - 1) / 2 + away * min(1.0, 0.98 / max(size, 1e-12))
    strengths = np.zeros(m)
    for _ in range(200):
        chance = 1 / (1 + np.exp(strengths[None] - strengths[:, None]))
        np.fill_diagonal(chance, 0.0)
        gap = wins - chance.sum(axis=1)
        if np.abs(gap).max() < 1e-10:
            break
        slope = -chance * (1 - chance)
        np.fill_diagonal(slope, 0.0)
        np.fill_diagonal(slope, -slope.sum(axis=1))
        step = np.linalg.solve(slope + 1 / m, gap)
        strengths += step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-12))
        strengths -= strengths.mean()
    return strengths


def _modeled(mean_places: Floats, people: int, noise: PermutohedronNoise | None) -> Floats:
    """The covariance of one person's ranks in Plackett and Luce's model, with scores shrunken for the noise in them."""
    m = mean_places.size
    away = (m - 1) / 2 - mean_places
    noise_variance = 0.0 if noise is None else (noise.sd / (2 * people)) ** 2
    signal = max(0.0, 1 - noise_variance * m / max(float(away @ away), 1e-300))
    strengths = strengths_of(mean_places, shrink=signal)
    gumbel = np.random.default_rng(_SEED).gumbel(size=(_SAMPLED // 4, m))
    ranks = np.argsort(np.argsort(-(strengths + gumbel), axis=1), axis=1)
    return np.asarray(np.cov(ranks, rowvar=False))


def _errors(covariance: Floats, people: int, noise: PermutohedronNoise | None) -> Floats:
    """Simulated errors of the mean ranks: sampling of people, and the noise."""
    rng = np.random.default_rng(_SEED)
    values, axes = np.linalg.eigh(np.atleast_2d(covariance) / people)
    errors = (rng.standard_normal((_SIMULATED, values.size)) * np.sqrt(np.maximum(values, 0))) @ axes.T
    return np.asarray(errors if noise is None else errors + noise.simulate(rng, _SIMULATED) / (2 * people))


def consensus_of(
    names: tuple[Hashable, ...],
    people: int,
    mean_places: Floats,
    errors: Floats,
    *,
    method: str,
    level: float,
    guarantee: Guarantee,
    noise_sd: float | None,
) -> Consensus:
    """The consensus from mean places of the items and simulated errors of these."""
    method = "borda" if method == "auto" else method
    places = np.argsort(mean_places, kind="stable")
    strengths = strengths_of(mean_places)
    scores = (mean_places.size - 1) / 2 - mean_places
    half = _simultaneous(errors, level) * np.maximum(errors.std(axis=0), 1e-12)
    low, high = scores - half, scores + half
    if method == "bradley-terry":
        low, high = (_strength_ends(scores, end) for end in (low, high))
    shown = strengths if method == "bradley-terry" else scores
    best, worst = rank_bounds(scores, errors, level)

    def by_item(values: Any) -> dict[Hashable, Any]:
        return dict(zip(names, values, strict=True))

    return Consensus(
        guarantee=guarantee,
        method=method,
        level=level,
        rankings=people,
        order=tuple(names[i] for i in places),
        scores=by_item(shown.tolist()),
        score_intervals=by_item(zip(low.tolist(), high.tolist(), strict=True)),
        rank_intervals=by_item(zip(best.tolist(), worst.tolist(), strict=True)),
        strengths=by_item(strengths.tolist()),
        noise_sd=noise_sd,
    )


def _simultaneous(errors: Floats, level: float) -> float:
    """The quantile of the largest error, each in units of its own deviation."""
    return float(np.quantile((np.abs(errors) / np.maximum(errors.std(axis=0), 1e-12)).max(axis=1), level))


def rank_bounds(scores: Floats, errors: Floats, level: float) -> tuple[Ints, Ints]:
    """The best and the worst rank of each item, from simultaneous intervals of all differences of two scores."""
    m = scores.size
    first, second = np.triu_indices(m, 1)
    covariance = np.cov(errors, rowvar=False)
    sd = np.sqrt(
        np.maximum(covariance[first, first] + covariance[second, second] - 2 * covariance[first, second], 1e-24)
    )
    largest = np.zeros(len(errors))
    for start in range(0, first.size, 500):
        part = slice(start, start + 500)
        apart = np.abs(errors[:, first[part]] - errors[:, second[part]]) / sd[part]
        np.maximum(largest, apart.max(axis=1), out=largest)
    needed = np.quantile(largest, level) * sd
    apart = scores[first] - scores[second]
    better = np.zeros((m, m), dtype=np.bool_)  # [i, j]: i is surely better than j
    better[first, second] = apart > needed
    better[second, first] = -apart > needed
    return 1 + better.sum(axis=0), m - better.sum(axis=1)


def _strength_ends(scores: Floats, ends: Floats) -> Floats:
    """Strengths at the ends of the scores' intervals: one item's score moved, the others' as they are."""
    m = scores.size
    moved = []
    for i in range(m):
        own = scores + (scores[i] - ends[i]) / (m - 1)
        own[i] = ends[i]
        moved.append(strengths_of((m - 1) / 2 - own)[i])
    return np.array(moved)
