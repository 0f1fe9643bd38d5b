"""Two papers, two reviewers, one review each: the paper's model, exactly, for one pair or for millions at once.

>>> from peerveil.calibration import Affine, Pair
>>> from peerveil.core.randomness import Randomness
>>> pair = Pair(scores=(0.6, 0.5), functions=(Affine(1, 0.5), Affine(1, -0.5)), noise=0.5)
>>> print(pair.frontier())  # doctest: +NORMALIZE_WHITESPACE
from conference error 0.1057 (adversary error 0.0000 about the assignment)
to 0.4633 (adversary error 0.4800, all that the scores leave)
>>> strategy = pair.strategy(adversary_error=0.3)
>>> [round(q, 3) for q in strategy.keep], round(strategy.conference_error, 3)
([0.423, 1.0], 0.329)
>>> decision = strategy.decide((0, 1), randomness=Randomness.simulation(1))
>>> decision.accepted
(1,)

**Theorem 4.5, all eight cases, as one line.** Write u, v for the posterior probabilities of the two assignments
(u + v = 1), Phi_i for P[paper 1 is worse] under assignment i, w_i = abs(1 - 2 Phi_i). If both assignments favor the same
paper, accept it: one point, (u min(Phi_1, 1 - Phi_1) + v min(Phi_2, 1 - Phi_2), min(u, v)). If they favor different
papers, the frontier is the segment from that conference error and adversary error 0 to plus
(min(u, v) min(w_1, w_2), min(u, v)).

*Proof.* Let x, y be the probabilities of going against the favorite under assignment 1 and 2. The conference pays
u w_1 x + v w_2 y above its least error. One paper is accepted by u(1 - x) and v y, the other by u x and v(1 - y), so
the adversary's error is min(u(1 - x), v y) + min(u x, v(1 - y)) <= min(u, v, u x + v y). To reach an adversary error t
the moved mass u x + v y must be at least t, which costs at least t min(w_1, w_2); moving t under the cheaper
assignment reaches it, since t <= min(u, v). The sign of Phi_i - 1/2, which of u, v and which of w_1, w_2 is smaller
make the paper's eight cases; none of them enters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerveil.calibration.frontier import Frontier, one_demand, reachable_adversary_error, reachable_conference_error
from peerveil.calibration.functions import Affine, Reviewer, noise_level
from peerveil.calibration.problem import DecisionProblem
from peerveil.calibration.strategy import Strategy
from peerveil.core.arrays import Floats
from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import LARGEST, numbers, probability
from peerveil.core.lazy import ndtr

_BLOCK = 1 << 14  # pairs handled at once: temporary arrays stay in the processor's cache


@dataclass(frozen=True, slots=True, kw_only=True)
class PairStrategy(Strategy):
    """How to decide a pair. ``keep`` = (q1, q2): how often to decide by the true assignment, under each of the two."""

    keep: tuple[float, float]


class Pair(DecisionProblem):
    """Two papers, of which the better one is to be accepted.

    Parameters
    ----------
    scores
        (s1, s2): public.
    functions
        How the two reviewers score: public. Who reviewed what is not.
    noise
        The standard deviation of a score around its reviewer's function.
    prior
        Mean and standard deviation of qualities.
    odds
        The adversary's (and the conference's) prior of the two assignments, before scores.

    Notes
    -----
    Assignment 0 is (0, 1): paper 0 was reviewed by reviewer 0. Assignment 1 is (1, 0).

    Attributes
    ----------
    posterior : array
        u, v: the probabilities of the two assignments once scores are known.
    errors : array (2, 2)
        ``errors[assignment][paper]``: how likely accepting this paper is wrong.
    """

    def __init__(
        self,
        scores: Sequence[float],
        functions: Sequence[Reviewer],
        noise: float = 0.0,
        *,
        prior: tuple[float, float] = (0.0, 1.0),
        odds: Sequence[float] = (0.5, 0.5),
    ) -> None:
        if numbers(scores, "scores").shape != (2,):
            raise BadInput("scores", got=scores, want="two scores, one per paper")
        if len(functions) != 2:
            raise BadInput("functions", got=Verbatim(f"{len(functions)} of them"), want="2")
        super().__init__(scores, functions, noise, 1, ((0, 1), (1, 0)), "assignment", odds=odds, prior=prior)
        self.unit = "which of the two reviewers wrote which review"

    def __repr__(self) -> str:
        scores = tuple(score for (score,) in self.scores)
        return f"Pair(scores={scores}, functions={list(self.functions)}, noise={self.noise:g})"

    def _log_evidence(self, draws: list[list[Any]]) -> Floats:
        """For known affine functions the ratio with what cancels left out: exact however unlikely the scores are."""
        first, second = draws[0]
        if len(draws) > 1 or not isinstance(first, Affine) or not isinstance(second, Affine):
            return super()._log_evidence(draws)
        (s1,), (s2,) = self.scores
        ratio = log_odds(s1, s2, (first.scale, second.scale), (first.bias, second.bias), self.noise)
        return np.array([[0.0, -float(ratio)]])

    @cached_property
    def favorites(self) -> tuple[int | None, int | None]:
        """The paper favored under each assignment; ``None`` for a tie or an impossible assignment."""
        first, second = (
            None if first == second or share == 0 else int(first > second)
            for share, (first, second) in zip(self.posterior, self.errors, strict=True)
        )
        return first, second

    @property
    def torn(self) -> bool:
        """Whether the decision depends on who reviewed what."""
        return None not in self.favorites and self.favorites[0] != self.favorites[1]

    @property
    def price(self) -> float:
        """Conference error per unit of adversary error, 0 if the decision does not depend on the assignment."""
        return float(np.abs(np.diff(self.errors)).min()) if self.torn else 0.0

    @property
    def least_error(self) -> float:
        """The conference error of always deciding by the true assignment."""
        return float(self.posterior @ self.errors.min(axis=1))

    def frontier(self) -> Frontier:
        """Theorems 4.2 and 4.5, proved above."""
        rarer, lowest = float(self.posterior.min()), self.least_error
        if not self.torn or rarer == 0:
            return Frontier(((lowest, rarer),))
        return Frontier(((lowest, 0.0), (lowest + rarer * self.price, rarer)))

    def strategy(self, *, conference_error: float | None = None, adversary_error: float | None = None) -> PairStrategy:
        """The Pareto optimal strategy for one demand (Algorithms 1 and 3, the latter corrected).

        Parameters
        ----------
        conference_error
            The most that the conference may err. More than the frontier's end is not used.
        adversary_error
            The least that the adversary shall err.
        """
        one_demand(conference_error, adversary_error)
        (least, _), (_, most) = self.frontier().start, self.frontier().end
        if conference_error is not None:
            paid = max(reachable_conference_error(conference_error, least) - least, 0.0)
            moved = min(paid / self.price, most) if self.price > 0 else 0.0
        else:
            moved = min(reachable_adversary_error(adversary_error, most), most)
        return self._moving(moved)

    def keeping(self, keep: tuple[float, float]) -> PairStrategy:
        """The strategy that decides by the true assignment with these probabilities, Pareto optimal or not."""
        if len(keep) != 2:
            raise BadInput("keep", got=keep, want="two probabilities")
        q = probability(keep[0], "keep[0]"), probability(keep[1], "keep[1]")
        first, second = self._map_decision(0), self._map_decision(1)
        table = np.array([q[0] * first + (1 - q[0]) * second, q[1] * second + (1 - q[1]) * first])
        return PairStrategy(keep=q, table=table, **self.strategy_fields)

    def _map_decision(self, index: int) -> Floats:
        """How the MAP decision under an assignment falls: a tie goes to the other's favorite, or to a coin."""
        paper = self.favorites[index]
        if paper is None:
            paper = self.favorites[1 - index]
        return np.array([0.5, 0.5]) if paper is None else np.eye(2)[paper]

    def _moving(self, mass: float) -> PairStrategy:
        """Move this much probability away from the favorite, under the assignment where that is cheaper.

        If both cost the same (always so without noise), both keep with the same probability 1 - mass, as in
        randomized response: u q1 + v q2 = 1 - mass, which is what Algorithm 1 asks.
        """
        if mass == 0 or not self.torn:
            return self.keeping((1.0, 1.0))
        (u, v), (first, second) = self.posterior, np.abs(np.diff(self.errors)).ravel()
        if first == second:
            return self.keeping((1.0 - mass, 1.0 - mass))
        if first < second:
            return self.keeping((max(0.0, 1.0 - mass / u), 1.0))
        return self.keeping((1.0, max(0.0, 1.0 - mass / v)))


def log_odds(s1: Any, s2: Any, a: tuple[Any, Any], b: tuple[Any, Any], sigma: float) -> Any:
    """log(u/v) of two affine reviewers, without ever dividing 0 by 0, however unlikely the scores are.

    The odds are f_1(s_1) f_2(s_2) / (f_2(s_1) f_1(s_2)) with f_j = N(b_j, V_j), V_j = a_j^2 + sigma^2. The factors in
    front of the exponentials cancel: log(u/v) = (s_2 - s_1)/2 * ((s_1 + s_2 - 2 b_1)/V_1 - (s_1 + s_2 - 2 b_2)/V_2).
    """
    v1, v2 = np.hypot(a[0], sigma), np.hypot(a[1], sigma)
    total = s1 + s2
    first = (s2 - s1) / v1 * ((total - 2 * b[0]) / v1)
    second = (s2 - s1) / v2 * ((total - 2 * b[1]) / v2)
    return 0.5 * (first - second)


@dataclass(frozen=True, slots=True)
class PairFrontiers:
    """One frontier per row, from ``start`` to ``end``; these are equal where there is nothing to trade."""

    start: Floats  # (n, 2): conference error, adversary error
    end: Floats
    odds: Floats  # (n,): the posterior probability u of assignment 1
    price: Floats  # (n,): conference error per unit of adversary error; 0 where there is nothing to trade
    cheaper: NDArray[np.int8]  # (n,): under which assignment going against the favorite costs less; -1: the same
    favorite: NDArray[np.int8]  # (n, 2): the paper (0 or 1) favored under each assignment; -1 for a tie

    def __len__(self) -> int:
        return len(self.odds)


def pair_frontiers(scores: ArrayLike, *, scales: ArrayLike, biases: ArrayLike, noise: float = 0.0) -> PairFrontiers:
    """Frontiers of many pairs of papers with affine reviewers.

    Parameters
    ----------
    scores
        (n, 2), or (2,) for one pair.
    scales, biases
        (n, 2), or (2,) for the same two reviewers everywhere. Scales are above 0.
    noise
        A standard deviation, 0 for none: the limit of Theorem 4.2, ties included.

    Examples
    --------
    >>> frontiers = pair_frontiers([[0.6, 0.5], [2.0, -1.0]], scales=[1.0, 1.0], biases=[0.5, -0.5], noise=0.5)
    >>> frontiers.start.round(3).tolist()
    [[0.106, 0.0], [0.005, 0.083]]
    >>> frontiers.end.round(3).tolist()
    [[0.463, 0.48], [0.005, 0.083]]
    """
    s = _rows(scores, "scores", -LARGEST, None)
    a, b = _rows(scales, "scales", 1 / LARGEST, len(s)), _rows(biases, "biases", -LARGEST, len(s))
    sigma = noise_level(noise)
    blocks = [slice(first, first + _BLOCK) for first in range(0, len(s), _BLOCK)] or [slice(0)]
    parts = [_block(s[rows].T, [x.T if len(x) == 1 else x[rows].T for x in (a, b)], sigma) for rows in blocks]
    return PairFrontiers(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _rows(values: ArrayLike, name: str, low: float, count: int | None) -> Floats:
    """Pairs of numbers: any number of rows, or one for all or as many as there are scores."""
    want = "one pair of numbers per row" if count is None else f"numbers from {low:g}, of shape (2,) or ({count}, 2)"
    array = np.atleast_2d(numbers(values, name, low=low, empty=True, want=want))
    if array.shape[1] != 2 or (count is not None and len(array) not in {1, count}):
        raise BadInput(name, got=Verbatim(f"shape {np.shape(values)}"), want=want)
    return array


def _block(s: Floats, functions: Sequence[Floats], sigma: float) -> tuple[Any, ...]:
    """The fields of :class:`PairFrontiers` for some pairs."""
    (s1, s2), ((a1, a2), (b1, b2)) = s, functions
    with np.errstate(over="ignore", invalid="ignore"):
        logit = log_odds(s1, s2, (a1, a2), (b1, b2), sigma)
    if np.isnan(logit).any():
        raise BadInput("scores", got=Verbatim("scores beyond arithmetic"), want="smaller scores, or a larger noise")
    rarer = 1.0 / (1.0 + np.exp(np.minimum(np.abs(logit), 700.0)))
    u = np.where(logit > 0, 1.0 - rarer, rarer)
    v1, v2 = a1 * a1 + sigma * sigma, a2 * a2 + sigma * sigma
    # posterior means: of paper 1 and 2 under assignment 1, then under assignment 2
    gap1 = a2 * (s2 - b2) / v2 - a1 * (s1 - b1) / v1
    gap2 = a1 * (s2 - b1) / v1 - a2 * (s1 - b2) / v2
    if sigma > 0:
        spread = sigma * np.sqrt(1.0 / v1 + 1.0 / v2)
        least1, least2 = ndtr(-np.abs(gap1) / spread), ndtr(-np.abs(gap2) / spread)
        w1, w2 = 1.0 - 2.0 * least1, 1.0 - 2.0 * least2
        lowest = u * least1 + (1.0 - u) * least2
    else:  # known qualities; a tie is no error
        w1, w2 = np.abs(np.sign(gap1)), np.abs(np.sign(gap2))
        lowest = np.zeros_like(u)
    torn = ((gap1 < 0) & (gap2 > 0)) | ((gap1 > 0) & (gap2 < 0))
    price = np.where(torn, np.minimum(w1, w2), 0.0)
    start = np.column_stack([lowest, np.where(torn, 0.0, rarer)])
    end = np.column_stack([lowest + rarer * price, rarer])
    cheaper = np.where(w1 == w2, -1, np.where(w1 < w2, 0, 1)).astype(np.int8)
    favorite = np.column_stack([np.where(gap == 0, -1, gap > 0) for gap in (gap1, gap2)]).astype(np.int8)
    return start, end, u, price, cheaper, favorite
