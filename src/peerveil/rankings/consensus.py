"""The consensus of rankings: an order of the items with intervals, openly or with central differential privacy.

**One private statistic for each model**, chosen by measurement; all that follows is computed from it and public numbers.

- Sums of places, for Borda's scores, Bradley and Terry's and Plackett and Luce's strengths
  (:class:`~peerveil.core.randomness.PermutohedronNoise` has the proof). A person's places are the middle minus half
  the sum of signs s_ij (:func:`~peerveil.rankings.kernels.places_of`), each from -1 to 1: a point of the permutohedron, which
  is the sum of these segments, for complete, partial and tied rankings alike. Of a person who counts w times, at most the
  cap, the sum moves by w times as much: noise for epsilon / cap.
- Pairwise sums of signs, for Kemeny's order. Replacing a ranking moves every one by at most 2, so that noise with mass
  proportional to exp(-epsilon/2 max abs(z)) is epsilon-DP (:class:`~peerveil.core.randomness.MaxNormNoise`). It is more
  noise: one entry per pair, not per item.
- Counts of wins, for tables of comparisons (:mod:`~peerveil.rankings.comparisons`).

**Scores.** Borda: how many places an item is above the middle, on average. Bradley and Terry: strengths that solve
sum_j 1/(1 + exp(t_j - t_i)) = (m - 1) minus the mean rank of i, for which sums of ranks are sufficient. Plackett and Luce have
the same probability that i comes before j, so with an epsilon the same equation is solved; without one the likelihood of the
rankings is maximized.

**Intervals** are for the people who were asked as a sample of many. The sampling covariance is that of the rankings
themselves without epsilon; with epsilon it is simulated from Plackett and Luce's model with the same strengths,
shrunken for the noise. The noise is simulated by its own law. Intervals of scores hold for all items at once; those
of ranks come from simultaneous intervals of all differences of two scores, or, for Kemeny, of all majorities.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, one_of
from peerveil.core.exact import probability, whole
from peerveil.core.guarantee import Guarantee, read_epsilon
from peerveil.core.randomness import Randomness
from peerveil.core.result import Result
from peerveil.rankings.ballots import Ballots
from peerveil.rankings.comparisons import Comparisons, judge_guarantee
from peerveil.rankings.intervals import rank_bounds, simultaneous
from peerveil.rankings.statistics import Fit, PairSums, PlaceSums, fit_comparisons
from peerveil.rankings.uniformity import ranking_guarantee

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.core.exact import Number
    from peerveil.ledger import Account

METHODS: Final = ("auto", "borda", "bradley-terry", "plackett-luce", "kemeny")
_MOST_PER_JUDGE: Final = 1_000_000


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
        By item: places above the middle on average (Borda, Kemeny), or the strength (Bradley-Terry, Plackett-Luce).
    score_intervals : dict
        By item: an interval of its score; all hold at once with probability ``level``.
    rank_intervals : dict
        By item: the best and the worst rank (from 1) that it may have; all hold at once with probability ``level``.
    strengths : dict
        By item: the strength in Bradley and Terry's model, behind :meth:`prefers`.
    proven : bool or None
        For Kemeny: whether no other order agrees with more of the (noisy) pairwise preferences.
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
    proven: bool | None = None
    noun: str = "rankings"

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
            f"{self.rankings:,} {self.noun} of {len(self.order):,} items: {first}{', ...' if len(self.order) > 3 else ''}; "
            f"{self.order[0]} is {certain} ({self.level:.0%} simultaneous intervals)"
            f"{'; the order may not be the best' if self.proven is False else ''}"
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
    unranked: str = "last",
    weight_cap: int | None = None,
    per_judge: int | None = None,
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
        ``"borda"`` (default, ``"auto"``): mean ranks. ``"bradley-terry"``, ``"plackett-luce"``: strengths, whose
        differences are log-odds of preferring one item to another. ``"kemeny"``: the order that agrees with most pairwise
        preferences.
    level : float, optional
        The probability with which all intervals hold at once. Default: 0.95.
    per_judge : int, optional
        The table holds comparisons instead (columns ``winner``, ``loser``, ``judge``; ``tie`` is 1 for a tie), and
        everything that one judge said is protected. At most so many comparisons of each judge are used, drawn at random;
        the number is public.
    columns, layout, unranked, weight_cap, randomness, account : optional
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

    def debit(guarantee: Guarantee, data: Any, items: int) -> None:
        if account is not None:
            account.spend(guarantee, purpose=f"the consensus of {items} items", data=data, randomness=source)

    if per_judge is not None:
        unused = {"layout": layout, "weight_cap": weight_cap, "unranked": None if unranked == "last" else unranked}
        for name, value in unused.items():
            if value is not None:
                raise BadInput(name, got=value, want="nothing with per_judge: comparisons have none")
        one_of(method, "method", ("auto", "bradley-terry"))
        table = Comparisons.of(rankings, "rankings", columns=columns)
        names: tuple[Hashable, ...]
        names, counts, used = table.wins(whole(per_judge, "per_judge", 1, _MOST_PER_JUDGE), source)
        guarantee = judge_guarantee(exact)
        if exact is not None:
            debit(guarantee, table, len(names))
        fit, method, noun = (
            fit_comparisons(counts, used, per_judge, exact, source),
            "bradley-terry",
            "judges' comparisons",
        )
        total = table.judges  # how many comparisons there are is not public
    else:
        reading: dict[str, Any] = {"unranked": unranked, "weight_cap": weight_cap, "identified": account is not None}
        ballots = Ballots.of(rankings, columns=columns, layout=layout, **reading)
        ballots.require_enough()
        method, noun = "borda" if method == "auto" else method, "rankings"
        statistic = PairSums if method == "kemeny" else PlaceSums
        measured = statistic.of(ballots, method, exact)
        guarantee = ranking_guarantee(exact, weighted=weight_cap is not None)
        if exact is not None:
            debit(guarantee, ballots.data, ballots.items)
        names, total = ballots.names, ballots.total
        fit = measured.fit(method, level, source)
    guarantee = guarantee if exact is None else source.stamp(guarantee)
    return consensus_of(names, total, fit, method=method, level=level, guarantee=guarantee, noun=noun)


def consensus_of(
    names: tuple[Hashable, ...],
    total: int,
    fit: Fit,
    *,
    method: str,
    level: float,
    guarantee: Guarantee,
    noun: str = "rankings",
) -> Consensus:
    """The consensus from fitted scores and simulated errors of these."""
    half = simultaneous(fit.errors, level)
    best, worst = fit.bounds or rank_bounds(fit.scores, fit.errors, level)
    order = np.argsort(-fit.scores, kind="stable") if fit.order is None else fit.order

    def by_item(values: Any) -> dict[Hashable, Any]:
        return dict(zip(names, values, strict=True))

    return Consensus(
        guarantee=guarantee,
        method=method,
        level=level,
        rankings=total,
        order=tuple(names[i] for i in order),
        scores=by_item(fit.scores.tolist()),
        score_intervals=by_item(zip((fit.scores - half).tolist(), (fit.scores + half).tolist(), strict=True)),
        rank_intervals=by_item(zip(best.tolist(), worst.tolist(), strict=True)),
        strengths=by_item(fit.strengths.tolist()),
        noise_sd=fit.noise_sd,
        proven=fit.proven,
        noun=noun,
    )
