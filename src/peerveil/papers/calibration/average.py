"""Algorithm 2, with and without noise: which pairs to randomize, so that the whole of them costs least on average.

Every torn pair (one whose decision depends on the assignment) sells adversary error at its own price
w = min(w_1, w_2), up to min(u, v). The cheapest way to a given average is a fractional knapsack: randomize fully below
a price, not at all above it. Without noise every price is 1, and any even share will do: Algorithm 2's coin.

*Proof.* By the frontier of each pair, moving it by t(s) <= min(u, v) costs t(s) w(s). For a total of t, any plan that
leaves a pair of price below lambda unused while using one above can be improved by exchanging the two.

With affine reviewers all integrals are adaptive quadratures over the second score, with the first integrated piece by
piece between the places where the integrand is not smooth: where a favorite changes (linear in s_1), where u = v
(s_1 = s_2, and one more root), where a price reaches lambda. The least error needs no quadrature: the posterior
means' difference is N(0, t^2) with t^2 = a_1^2/V_1 + a_2^2/V_2, so it is arctan(r/t)/pi with
r = sigma sqrt(1/V_1 + 1/V_2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from peerveil.calibration.beliefs import integrate
from peerveil.calibration.frontier import Frontier, one_demand, reachable_adversary_error, reachable_conference_error
from peerveil.calibration.functions import Affine, Reviewer, Uncertain, noise_level, quality_prior, read_functions
from peerveil.calibration.pair import Pair, PairFrontiers, PairStrategy, log_odds
from peerveil.calibration.simulate import ErrorCheck, Simulation, play_pairs
from peerveil.core.arrays import Floats
from peerveil.core.errors import BadInput
from peerveil.core.guarantee import Guarantee
from peerveil.core.lazy import brentq, ndtr, ndtri
from peerveil.papers.calibration.known import known_moments

if TYPE_CHECKING:
    from peerveil.calibration.decision import Decision
    from peerveil.core.randomness import Randomness


_X, _W = np.polynomial.legendre.leggauss(10)
_REACH = 9.0  # standard deviations


@dataclass(frozen=True)
class AverageStrategy:
    """Randomize pairs up to a price.

    Attributes
    ----------
    price : float
        Pairs that sell adversary error for less are randomized fully, dearer ones not at all.
    share : float
        How far pairs at exactly this price are moved; without noise these are all torn pairs.
    conference_error, adversary_error : float
        Averages over scores, promised.
    """

    case: AverageCase
    price: float
    share: float
    conference_error: float
    adversary_error: float

    def pair(self, scores: Sequence[float]) -> PairStrategy:
        """What to do with a pair of scores."""
        pair = Pair(scores, self.case.reviewers, self.case.noise, prior=self.case.prior)
        end = pair.frontier().end[1]
        if not pair.torn or pair.price > self.price:
            return pair.strategy(adversary_error=0.0)
        return pair.strategy(adversary_error=end if pair.price < self.price else self.share * end)

    def decide(self, scores: Sequence[float], assignment: int | Sequence[int], randomness: Randomness) -> Decision:
        """Decide one pair. Its guarantee is the average one: single pairs may be given away."""
        drawn = self.pair(scores).decide(assignment, randomness=randomness)
        return type(drawn)(guarantee=randomness.stamp(self.guarantee), accepted=drawn.accepted, papers=drawn.papers)

    @property
    def guarantee(self) -> Guarantee:
        """The promise, in words: on average over pairs of papers, not for each."""
        return Guarantee.map_error(
            max(0.0, math.floor((self.adversary_error - 1e-9) * 1e9) / 1e9),
            unit="which of the two reviewers wrote which review, on average over pairs of papers",
            neighbors="the two assignments, equally likely before scores are known",
        )

    def summary(self) -> str:
        """The promise in one line."""
        return f"on average: conference error {self.conference_error:.4f}, adversary error {self.adversary_error:.4f}"


class AverageCase:
    """Two reviewers, and all the pairs of papers that they may get.

    Parameters
    ----------
    reviewers
        Two affine functions, or without noise two increasing ones.
    noise
        The standard deviation of scores.
    prior
        Mean and standard deviation of qualities.

    Examples
    --------
    >>> case = AverageCase([Affine(1, 0.5), Affine(1, -0.5)], noise=0.0)
    >>> round(case.zeta, 6)
    0.1611
    >>> strategy = case.strategy(conference_error=0.05)
    >>> round(strategy.share, 4), round(strategy.adversary_error, 4)
    (0.3104, 0.1286)
    """

    def __init__(
        self, reviewers: Sequence[Reviewer], noise: float = 0.0, *, prior: tuple[float, float] = (0.0, 1.0)
    ) -> None:
        self.reviewers = tuple(reviewers)
        if any(isinstance(one, Uncertain) for one in self.reviewers):
            raise BadInput("reviewers", got=reviewers, want="Affine or Monotone: uncertain reviewers go pair by pair")
        self.noise = noise_level(noise)
        if self.noise and not all(isinstance(one, Affine) for one in self.reviewers):
            raise BadInput("reviewers", got=reviewers, want="two Affine functions, or noise=0")
        self.prior = quality_prior(prior)
        ((self._first, self._second),) = read_functions(list(reviewers), self.prior, count=2)
        self._affine = isinstance(self._first, Affine) and isinstance(self._second, Affine)

    @property
    def zeta(self) -> float:
        """How much conference error it costs to give nothing away beyond the scores."""
        return self.ends[1][0] - self.ends[0][0]

    @cached_property
    def ends(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Start and end of the average frontier."""
        mass, cost, least, ceiling = self._moments(np.array([1.0]))
        return (least, ceiling - float(mass[0])), (least + float(cost[0]), ceiling)

    def frontier(self, points: int = 17) -> Frontier:
        """The average frontier: exact without noise, otherwise on so many prices."""
        start, end = self.ends
        what = "the assignment, on average"
        if end[1] - start[1] < 1e-12:
            return Frontier((start,), what=what)
        if self.noise == 0:
            return Frontier((start, end), what=what)
        prices = np.linspace(0.0, 1.0, points)[1:-1]
        mass, cost, _, _ = self._moments(prices, 1e-6)
        middle = [(start[0] + c, start[1] + m) for m, c in zip(mass.tolist(), cost.tolist(), strict=True)]
        corners = [start]
        for point in (*middle, end):
            if point[0] > corners[-1][0] and point[1] > corners[-1][1]:
                corners.append(point)
        # between two prices the true curve is above the chord by less than the triangle of its two tangents
        gap = max((b[1] - a[1]) / (points - 1) / 4 for a, b in pairwise(corners))
        return Frontier(tuple(corners), gap=float(gap), what=what)

    def strategy(
        self, *, conference_error: float | None = None, adversary_error: float | None = None
    ) -> AverageStrategy:
        """The best strategy for an average error of the conference at most, or of the adversary at least."""
        one_demand(conference_error, adversary_error)
        start, end = self.ends
        if conference_error is not None:
            error = reachable_conference_error(conference_error, start[0])
            index, wanted = 1, min(error, end[0]) - start[0]
        else:
            error = reachable_adversary_error(adversary_error, end[1])
            index, wanted = 0, max(min(error, end[1]) - start[1], 0.0)
        full = (end[1] - start[1], end[0] - start[0])
        if wanted <= 0 or full[index] <= 0:
            return AverageStrategy(self, 0.0, 0.0, *start)
        if self.noise == 0:
            share = min(wanted / full[index], 1.0)
            return AverageStrategy(self, 1.0, share, share * full[1], start[1] + share * full[0])
        if wanted >= full[index] - 1e-12:
            return AverageStrategy(self, 1.0, 1.0, *end)

        def missing(price: float) -> float:
            mass, cost, _, _ = self._moments(np.array([price]))
            return float((mass, cost)[index][0]) - wanted

        price = float(brentq(missing, 0.0, 1.0, xtol=1e-12, rtol=1e-12))
        mass, cost, _, _ = self._moments(np.array([price]))
        return AverageStrategy(self, price, 1.0, start[0] + float(cost[0]), start[1] + float(mass[0]))

    def _moments(self, prices: Floats, tolerance: float = 1e-9) -> tuple[Floats, Floats, float, float]:
        """Adversary error bought up to each price, its cost, the least conference error, the adversary's ceiling."""
        if self._affine:
            return self._affine_moments(prices, tolerance)
        mass, ceiling = self._known
        bought = np.where(prices >= 1.0, mass, 0.0)
        return bought, bought, 0.0, ceiling

    @cached_property
    def _known(self) -> tuple[float, float]:
        return known_moments(self._first, self._second)

    # ---- affine -------------------------------------------------------------------------------------------------

    def _affine_moments(self, prices: Floats, tolerance: float) -> tuple[Floats, Floats, float, float]:
        a1, a2, b1, b2 = self._first.scale, self._second.scale, self._first.bias, self._second.bias
        sigma = self.noise
        v1, v2 = a1 * a1 + sigma * sigma, a2 * a2 + sigma * sigma
        d1, d2 = math.sqrt(v1), math.sqrt(v2)
        spread = sigma * math.sqrt(1 / v1 + 1 / v2)
        least = math.atan2(spread, math.sqrt(a1 * a1 / v1 + a2 * a2 / v2)) / math.pi
        k1, k2 = a1 / v1, a2 / v2
        low, high = min(b1 - _REACH * d1, b2 - _REACH * d2), max(b1 + _REACH * d1, b2 + _REACH * d2)
        other = 2 * (b1 / v1 - b2 / v2) / (1 / v1 - 1 / v2) if v1 != v2 else math.inf
        cuts = spread * ndtri(0.5 + 0.5 * np.minimum(prices, 1.0)) if sigma else np.zeros(0)
        cuts = np.append(cuts[np.isfinite(cuts)], spread * np.array([0.5, 1.5, 3.0, 6.0]))

        def density(x: Any, bias: float, deviation: float) -> Any:
            return np.exp(-0.5 * np.square((x - bias) / deviation)) / (deviation * math.sqrt(2 * math.pi))

        def smaller(s1: Any, s2: Any) -> Any:
            first = density(s1, b1, d1) * density(s2, b2, d2)
            return 0.5 * np.minimum(first, density(s1, b2, d2) * density(s2, b1, d1))

        def inner(s2: Floats) -> Floats:
            root1 = b1 + k2 * (s2 - b2) / k1  # paper 1's favor changes under assignment 1
            root2 = b2 + k1 * (s2 - b1) / k2
            left, right = np.minimum(root1, root2), np.maximum(root1, root2)
            marks = [left, right, s2, other - s2]
            marks += [
                root + sign * cut / k for root, k in ((root1, k1), (root2, k2)) for cut in cuts for sign in (-1, 1)
            ]
            marks += [left + (right - left) * part for part in np.linspace(0, 1, 9)[1:-1]]
            grid = np.sort(np.clip(np.array(marks), np.maximum(left, low), np.minimum(right, high)), axis=0)
            grid = np.where(np.isfinite(grid), grid, left)
            half = np.maximum(np.diff(grid, axis=0), 0.0) / 2
            x = (grid[:-1] + half)[..., None] + half[..., None] * _X
            value = smaller(x, s2[:, None]) * _W * half[..., None]
            gap1 = np.abs(k2 * (s2[:, None] - b2) - k1 * (x - b1))
            gap2 = np.abs(k1 * (s2[:, None] - b1) - k2 * (x - b2))
            closest = np.minimum(gap1, gap2)
            price = 2 * ndtr(closest / spread) - 1 if sigma else np.ones_like(x)
            rows = [np.where(price <= limit, value, 0.0).sum(axis=(0, 2)) for limit in prices]
            rows += [np.where(price <= limit, value * price, 0.0).sum(axis=(0, 2)) for limit in prices]
            rows.append(_all_smaller(s2))
            return np.array(rows)

        def _all_smaller(s2: Floats) -> Floats:
            """The inner integral over every first score, in closed form between the roots of u = v."""
            marks = np.sort(np.array([np.full_like(s2, -np.inf), s2, other - s2, np.full_like(s2, np.inf)]), axis=0)
            total = np.zeros_like(s2)
            for start, stop in pairwise(marks):
                middle = np.where(
                    np.isinf(start) & np.isinf(stop),
                    s2,
                    np.where(
                        np.isinf(start), stop - d1 - d2, np.where(np.isinf(stop), start + d1 + d2, (start + stop) / 2)
                    ),
                )
                first = (ndtr((stop - b1) / d1) - ndtr((start - b1) / d1)) * density(s2, b2, d2)
                second = (ndtr((stop - b2) / d2) - ndtr((start - b2) / d2)) * density(s2, b1, d1)
                total += 0.5 * np.where(log_odds(middle, s2, (a1, a2), (b1, b2), sigma) < 0, first, second)
            return total

        edges = np.unique(
            np.concatenate([np.linspace(low, high, 25), b1 + d1 * np.arange(-6, 7), b2 + d2 * np.arange(-6, 7)])
        )
        with np.errstate(invalid="ignore"):
            _, found = integrate(inner, edges, tolerance=tolerance)
        count = len(prices)
        return found[:count], found[count : 2 * count], least, float(found[-1])


def simulate_average(strategy: AverageStrategy, *, draws: int = 100_000, seed: int = 0) -> Simulation:
    """Fresh pairs of papers of affine reviewers, all decided by one average-case strategy."""
    case = strategy.case
    functions = [one.standardized(*case.prior) for one in case.reviewers if isinstance(one, Affine)]
    share = strategy.share if case.noise == 0 else 1.0

    def bought(pairs: PairFrontiers) -> Floats:
        return np.where(pairs.price <= strategy.price, share * pairs.end[:, 1], 0.0)

    played = play_pairs(functions, case.noise, bought, draws, seed)

    def against(check: ErrorCheck, guaranteed: float) -> ErrorCheck:
        error = math.sqrt(check.observed * (1 - check.observed) / draws)
        return ErrorCheck(check.name, guaranteed, check.observed, error)

    return Simulation(
        draws,
        against(played.conference, strategy.conference_error),
        against(played.adversary, strategy.adversary_error),
    )
