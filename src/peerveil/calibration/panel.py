"""Any number of papers: the best strategy against the adversary who guesses who wrote one review.

>>> from peerveil.calibration import Affine, Panel
>>> functions = [Affine(1.2, 0.3), Affine(0.8, -0.6), Affine(1.0, 0.4)]
>>> panel = Panel([0.4, 0.1, 0.9], functions, noise=0.4, accept=1)
>>> frontier = panel.frontier()
>>> [tuple(round(x, 3) for x in point) for point in (frontier.start, frontier.end)]
[(0.227, 0.255), (0.435, 0.517)]
>>> strategy = panel.strategy(adversary_error=0.45)
>>> strategy.table.shape, round(strategy.conference_error, 3)
((6, 3), 0.362)

The adversary who guesses the *whole* assignment (``adversary="assignment"``) is the paper's; with two papers both are
the same. With more, bounding only that guess hides leaks: a decision can name one paper's reviewer for certain while
the whole is guessed with a small probability.

:mod:`peerveil.calibration.program` states and solves the linear program behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from peerveil.calibration.frontier import (
    Frontier,
    one_demand,
    reachable_adversary_error,
    reachable_conference_error,
    traced,
)
from peerveil.calibration.problem import DecisionProblem
from peerveil.calibration.program import Program, Solution
from peerveil.calibration.strategy import Strategy, after_decisions
from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import probability
from peerveil.core.progress import progress_bar

if TYPE_CHECKING:
    from peerveil.core.arrays import Floats


class Panel(DecisionProblem):
    """Papers that are decided together.

    Parameters
    ----------
    scores
        One score per paper, or a list of scores per paper: public.
    functions
        How each reviewer scores: public.
    noise
        The standard deviation of a score around its reviewer's function.
    accept
        How many papers to accept, or a :class:`Threshold`.
    assignments
        The candidates, each a reviewer for every review, paper by paper; without it every way to give all reviewers
        equally many reviews.
    adversary
        ``"paper"``: guesses who wrote any one review; ``"assignment"``: guesses all of it.
    odds
        The candidates' prior weights; equal if left out.
    prior
        Mean and standard deviation of qualities.

    Notes
    -----
    The conference's error is the expected share of the accepted places that should have gone to another paper; with a
    threshold, the expected share of papers on the wrong side of it. For two papers and one place it is the paper's.

    Attributes
    ----------
    posterior : array
        How likely each candidate is once the scores are known.
    decisions : tuple of tuples of int
        Sets of accepted papers. With a threshold, sets that no optimal strategy needs are left out:
        :func:`peerveil.calibration.losses.sets_by_line` says which, and proves it.
    pivotal : tuple of int
        Papers that some of these sets accept and others do not.
    errors : array (assignments, decisions)
    """

    def __repr__(self) -> str:
        return (
            f"Panel(papers={len(self.scores)}, reviewers={len(self.functions)}, accept={self.accept}, "
            f"assignments={len(self.assignments)}, adversary={self.adversary!r})"
        )

    @cached_property
    def program(self) -> Program:
        """The linear program of this panel."""
        return Program(self)

    @property
    def ceilings(self) -> Floats:
        """For every review, the adversary's error from scores alone: no strategy leaves more."""
        return self.program.ceilings

    @cached_property
    def _ends(self) -> tuple[Solution, Solution]:
        start = self.program.start()
        highest = float(self.ceilings.min())
        if float(start.adversary_errors.min()) >= highest - 1e-12:
            return start, start
        return start, self.program.solve(np.full(len(self.ceilings), highest))

    def frontier(self, *, tolerance: float = 1e-9, most: int = 30, progress: bool | None = None) -> Frontier:
        """The frontier, by parametric solves: at most so many, each a linear program.

        Where that is not enough to find every corner, ``gap`` says what is left; ``tolerance=0, most=1000`` goes on.
        """
        start, end = self._ends
        low, high = float(start.adversary_errors.min()), float(end.adversary_errors.min())
        if high - low < 1e-12:
            return Frontier(((start.conference_error, low),), what=self.unit)
        with progress_bar("solving along the frontier", most, show=progress) as advance:

            def tangent(tau: float) -> tuple[float, float, float]:
                solution = self.program.solve(np.full(len(self.ceilings), tau))
                advance(1)
                return tau, solution.conference_error, solution.slope

            ends = (low, start.conference_error, 0.0), (high, end.conference_error, end.slope)
            return traced(*ends, tangent, tolerance, most, self.unit)

    def strategy(
        self,
        *,
        conference_error: float | None = None,
        adversary_error: float | None = None,
        capped: bool = False,
        per_decision: bool = False,
    ) -> Strategy:
        """The Pareto optimal strategy for one demand.

        Parameters
        ----------
        conference_error
            The most that the conference may err; the common adversary error is made as large as possible.
        adversary_error
            The least that the adversary shall err, on every review.
        capped
            With ``adversary_error``: demand of each review as much of it as the scores leave, instead of refusing when
            one review's scores already reveal too much.
        per_decision
            With ``adversary_error``: after *every* decision that can be taken, instead of on average over decisions.
        """
        one_demand(conference_error, adversary_error)
        if per_decision and conference_error is not None:
            raise BadInput("per_decision", got=Verbatim("a conference_error"), want="an adversary_error with it")
        solution = (
            self._at_least(adversary_error, capped, per_decision)
            if conference_error is None
            else self._within(conference_error)
        )
        return Strategy(table=solution.table, per_decision=per_decision, **self.strategy_fields)

    def _within(self, conference_error: float) -> Solution:
        start, end = self._ends
        error = reachable_conference_error(conference_error, start.conference_error)
        if error >= end.conference_error:
            return end
        if error <= start.conference_error + 1e-12:
            return start
        return self.program.most_private(error, end)

    def _at_least(self, adversary_error: float | None, capped: bool, per_decision: bool) -> Solution:
        lowest = float(self.ceilings.min())
        if capped:
            targets = np.minimum(probability(adversary_error, "adversary_error"), self.ceilings)
        else:
            targets = np.full(len(self.ceilings), min(reachable_adversary_error(adversary_error, lowest), lowest))
        greedy = self.program.greedy()
        errors = greedy.adversary_errors[:, None]
        if per_decision:
            errors = after_decisions(self.program.assignments, self.posterior, greedy.table, self.adversary)
        if (errors >= targets[:, None]).all():
            return greedy
        return (Program(self, per_decision=True) if per_decision else self.program).solve(targets)


# ---- groups of a conference ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PaperGroup:
    """Papers whose committees could have been exchanged. ``panel`` is public; ``true`` stays with the chair."""

    papers: tuple[Any, ...]
    reviewers: tuple[Any, ...]
    panel: Panel
    true: int

    def protection(self, errors: Any) -> Iterator[tuple[Any, ...]]:
        """For every review its paper, writer, whether the paper is settled, and the adversary's error after and before."""
        numbers = [number for number, scores in enumerate(self.panel.scores) for _ in scores]
        writers = self.panel.assignments[self.true]
        for number, writer, error, ceiling in zip(numbers, writers, errors, self.panel.ceilings, strict=True):
            settled = number not in self.panel.pivotal
            yield self.papers[number], self.reviewers[writer], settled, float(error), float(ceiling)


def group_strategy(panel: Panel, demand: float | None, per_decision: bool) -> Strategy:
    """The table of one group: as demanded as far as its scores allow, or the best decision from the scores alone."""
    if demand is not None:
        return panel.strategy(adversary_error=demand, capped=True, per_decision=per_decision)
    fixed = np.eye(len(panel.decisions))[int((panel.posterior @ panel.errors).argmin())]
    return Strategy(table=np.tile(fixed, (len(panel.posterior), 1)), per_decision=True, **panel.strategy_fields)
