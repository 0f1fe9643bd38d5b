"""Two papers, two reviewers, one review each: the paper's model, exactly.

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
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from peerveil.calibration.arrays import log_odds
from peerveil.calibration.beliefs import belief, below
from peerveil.calibration.checks import infeasible, noise_level, number, numbers, one_demand, quality_prior, weights
from peerveil.calibration.frontier import Frontier
from peerveil.calibration.functions import Affine, read_functions
from peerveil.calibration.strategy import Strategy
from peerveil.core.errors import BadInput, Verbatim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from peerveil.calibration.functions import Reviewer

ASSIGNMENTS = ((0, 1), (1, 0))
DECISIONS = ((0,), (1,))
_SLACK = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class PairStrategy(Strategy):
    """How to decide a pair. ``keep`` = (q1, q2): how often to decide by the true assignment, under each of the two."""

    keep: tuple[float, float]


class Pair:
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
    posterior : tuple of float
        u, v: the probabilities of the two assignments once scores are known.
    errors : tuple of tuples of float
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
        given = numbers("scores", scores)
        if given.shape != (2,):
            raise BadInput("scores", got=scores, want="two scores, one a paper")
        self.scores = float(given[0]), float(given[1])
        self.functions = tuple(functions)
        self.noise = noise_level(noise)
        self.prior = quality_prior(prior)
        self._draws = read_functions(list(functions), self.prior, count=2)
        self.odds = tuple(weights("odds", odds, 2).tolist())
        self.posterior, self.errors = self._judge()

    def __repr__(self) -> str:
        return f"Pair(scores={self.scores}, functions={list(self.functions)}, noise={self.noise:g})"

    def _judge(self) -> tuple[tuple[float, float], tuple[tuple[float, float], tuple[float, float]]]:
        """Posterior and errors, integrated over the draws of uncertain reviewers."""
        evidence = np.empty((2, len(self._draws)))
        wrong = np.zeros((2, len(self._draws), 2))
        for draw, functions in enumerate(self._draws):
            for index, assignment in enumerate(ASSIGNMENTS):
                beliefs = [
                    belief([self.scores[paper]], [functions[reviewer]], self.noise)
                    for paper, reviewer in enumerate(assignment)
                ]
                evidence[index, draw] = beliefs[0].log_evidence + beliefs[1].log_evidence
                if evidence[index, draw] > -math.inf:
                    wrong[index, draw] = below(*beliefs)
        if len(self._draws) == 1 and all(isinstance(f, Affine) for f in self._draws[0]):
            # the same ratio with what cancels left out: exact however unlikely the scores are
            first, second = self._draws[0]
            ratio = log_odds(*self.scores, (first.scale, second.scale), (first.bias, second.bias), self.noise)
            evidence = np.array([[0.0], [-float(ratio)]])
        with np.errstate(divide="ignore"):
            joint = evidence + np.log(self.odds)[:, None]
        if np.isnan(joint).any() or not joint.max() > -math.inf:
            raise BadInput(
                "scores", got=Verbatim(str(self.scores)), want="scores that at least one assignment can explain"
            )
        mass = np.exp(joint - joint.max())
        posterior = mass.sum(axis=1) / mass.sum()
        within = mass / np.maximum(mass.sum(axis=1, keepdims=True), 1e-300)
        errors = (within[:, :, None] * wrong).sum(axis=1)
        return (float(posterior[0]), float(posterior[1])), (
            (float(errors[0, 0]), float(errors[0, 1])),
            (float(errors[1, 0]), float(errors[1, 1])),
        )

    @cached_property
    def favorites(self) -> tuple[int | None, int | None]:
        """The paper favored under each assignment; ``None`` for a tie or an impossible assignment."""
        found = []
        for share, (first, second) in zip(self.posterior, self.errors, strict=True):
            found.append(None if first == second or share == 0 else int(first > second))
        return found[0], found[1]

    @property
    def torn(self) -> bool:
        """Whether the decision depends on who reviewed what."""
        return None not in self.favorites and self.favorites[0] != self.favorites[1]

    @property
    def price(self) -> float:
        """Conference error a unit of adversary error, 0 if the decision does not depend on the assignment."""
        return min(abs(first - second) for first, second in self.errors) if self.torn else 0.0

    @property
    def least_error(self) -> float:
        """The conference error of always deciding by the true assignment."""
        return sum(share * min(wrong) for share, wrong in zip(self.posterior, self.errors, strict=True))

    def frontier(self) -> Frontier:
        """Theorems 4.2 and 4.5; the proof is in :mod:`peerveil.calibration.arrays`."""
        rarer, lowest = min(self.posterior), self.least_error
        if not self.torn:
            return Frontier(((lowest, rarer),))
        if rarer == 0:
            return Frontier(((lowest, 0.0),))
        return Frontier(((lowest, 0.0), (lowest + rarer * self.price, rarer)))

    def strategy(self, *, conference_error: float | None = None, adversary_error: float | None = None) -> PairStrategy:
        """The Pareto optimal strategy for what is asked (Algorithms 1 and 3, the latter corrected).

        Parameters
        ----------
        conference_error
            The most that the conference may err. More than the frontier's end is not used.
        adversary_error
            The least that the adversary shall err.
        """
        one_demand(conference_error, adversary_error)
        frontier = self.frontier()
        if conference_error is not None:
            asked = number("conference_error", conference_error, low=0.0, high=1.0, want="a probability")
            if asked < frontier.start[0] - _SLACK:
                why = "less is impossible even with full use of the assignment"
                raise infeasible("conference_error", asked, frontier.start[0], 1.0, why)
            paid = max(asked - frontier.start[0], 0.0)
            moved = min(paid / self.price, frontier.end[1]) if self.price > 0 else 0.0
        else:
            asked = number("adversary_error", adversary_error, low=0.0, high=1.0, want="a probability")
            if asked > frontier.end[1] + _SLACK:
                why = "the published scores alone already let the adversary guess that well"
                raise infeasible("adversary_error", asked, 0.0, frontier.end[1], why)
            moved = min(asked, frontier.end[1]) if self.torn else 0.0
        return self._moving(moved)

    def keeping(self, keep: tuple[float, float]) -> PairStrategy:
        """The strategy that decides by the true assignment with these probabilities, Pareto optimal or not."""
        q = tuple(number(f"keep[{i}]", value, low=0.0, high=1.0, want="a probability") for i, value in enumerate(keep))
        if len(q) != 2:
            raise BadInput("keep", got=keep, want="two probabilities")
        liked = [self._liked(index) for index in (0, 1)]
        table = np.array([[q[i] * liked[i][d] + (1 - q[i]) * liked[1 - i][d] for d in (0, 1)] for i in (0, 1)])
        return PairStrategy(
            keep=(q[0], q[1]),
            assignments=ASSIGNMENTS,
            decisions=DECISIONS,
            posterior=np.array(self.posterior),
            errors=np.array(self.errors),
            table=table,
            adversary="assignment",
            unit="which of the two reviewers wrote which review",
            papers=2,
        )

    def _liked(self, index: int) -> tuple[float, float]:
        """How the MAP decision under an assignment falls: a tie goes to the other's favorite, or to a coin."""
        paper = self.favorites[index]
        if paper is None:
            paper = self.favorites[1 - index]
        return (0.5, 0.5) if paper is None else (1.0 - paper, float(paper))

    def _moving(self, mass: float) -> PairStrategy:
        """Move this much probability away from the favorite, under the assignment where that is cheaper.

        If both cost the same (always so without noise), both keep with the same probability 1 - mass, as in
        randomized response: u q1 + v q2 = 1 - mass, which is what Algorithm 1 asks.
        """
        u, v = self.posterior
        first, second = (abs(a - b) for a, b in self.errors)
        if mass == 0 or not self.torn:
            return self.keeping((1.0, 1.0))
        if first == second:
            return self.keeping((1.0 - mass, 1.0 - mass))
        if first < second:
            return self.keeping((max(0.0, 1.0 - mass / u), 1.0))
        return self.keeping((1.0, max(0.0, 1.0 - mass / v)))
