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
"""

from __future__ import annotations

import math
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from peerveil.calibration.assignments import read_assignments
from peerveil.calibration.beliefs import belief, mean_of
from peerveil.calibration.checks import (
    infeasible,
    noise_level,
    number,
    numbers,
    one_demand,
    quality_prior,
    weights,
)
from peerveil.calibration.frontier import Frontier, traced
from peerveil.calibration.functions import read_functions
from peerveil.calibration.losses import Threshold, quota_errors, sets_by_line, sets_by_quota, wrong_sides
from peerveil.calibration.program import Program, Solution
from peerveil.calibration.strategy import ADVERSARIES, Strategy
from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import whole
from peerveil.core.progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from peerveil.calibration.beliefs import Belief
    from peerveil.calibration.functions import Reviewer

    Floats = NDArray[np.float64]
    Whole = NDArray[np.int64]

_SLACK = 1e-9
_UNITS = {
    "paper": "the writer of one review (chosen before the decision is known)",
    "assignment": "the whole assignment",
}


class Panel:
    """Papers that are decided together.

    Parameters
    ----------
    scores
        One score a paper, or a list of scores a paper: public.
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

    def __init__(
        self,
        scores: Sequence[float] | Sequence[Sequence[float]],
        functions: Sequence[Reviewer],
        noise: float,
        accept: int | Threshold,
        assignments: Sequence[Sequence[int]] | None = None,
        adversary: str = "paper",
        *,
        odds: Sequence[float] | None = None,
        prior: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        self.scores = _read_scores(scores)
        self.functions = tuple(functions)
        self.noise = noise_level(noise)
        self.prior = quality_prior(prior)
        if adversary not in ADVERSARIES:
            raise BadInput("adversary", got=adversary, want="'paper' or 'assignment'")
        self.adversary = adversary
        self.accept: int | Threshold = 0
        draws = read_functions(list(functions), self.prior)
        counts = [len(one) for one in self.scores]
        self.assignments = read_assignments(assignments, counts, len(self.functions))
        given = np.ones(len(self.assignments)) if odds is None else odds
        self.odds = weights("odds", given, len(self.assignments))
        self._who = np.array(self.assignments, dtype=np.int64)
        self._judge(draws, counts)
        self._decisions(accept)

    def __repr__(self) -> str:
        return (
            f"Panel(papers={len(self.scores)}, reviewers={len(self.functions)}, accept={self.accept}, "
            f"assignments={len(self.assignments)}, adversary={self.adversary!r})"
        )

    @property
    def papers(self) -> int:
        """How many papers there are."""
        return len(self.scores)

    # ---- what scores say ----------------------------------------------------------------------------------------

    def _judge(self, draws: list[list[Any]], counts: list[int]) -> None:
        """Posterior and errors; draws of uncertain reviewers are integrated over, shared by all of one's papers."""
        committees: list[list[tuple[int, ...]]] = []
        which = np.empty((len(self._who), self.papers), dtype=np.int64)
        for paper, (end, count) in enumerate(zip(np.cumsum(counts).tolist(), counts, strict=True)):
            held = list(map(tuple, self._who[:, end - count : end].tolist()))
            listed = sorted(set(held))
            place = {one: index for index, one in enumerate(listed)}
            which[:, paper] = [place[one] for one in held]
            committees.append(listed)
        drawn = [self._beliefs(draw, committees, which) for draw in draws]
        evidence = np.array([part[0] for part in drawn])
        with np.errstate(divide="ignore"):
            joint = evidence + np.log(self.odds)
        if np.isnan(joint).any() or not joint.max() > -math.inf:
            raise BadInput(
                "scores",
                got=Verbatim("scores that nobody gives"),
                want="scores that at least one assignment can explain",
            )
        mass = np.exp(joint - joint.max())
        self.posterior: Floats = mass.sum(axis=0) / mass.sum()
        within = mass / np.maximum(mass.sum(axis=0), 1e-300)
        self.belief_draws = drawn
        self.draw_weights: Floats = within

    def _beliefs(
        self, functions: list[Any], committees: list[list[tuple[int, ...]]], which: Whole
    ) -> tuple[Floats, list[list[Belief]], Whole]:
        """Log evidence of every candidate; per paper the distinct beliefs, and which of them each candidate holds."""
        found: list[list[Belief]] = []
        evidence = np.zeros(len(which))
        for paper, listed in enumerate(committees):
            found.append([belief(self.scores[paper], [functions[j] for j in one], self.noise) for one in listed])
            evidence += np.array([one.log_evidence for one in found[-1]])[which[:, paper]]
        return evidence, found, which

    def expected(self) -> Floats:
        """The expected quality of every paper, given scores alone: an average over candidates, so public."""
        total = np.zeros(self.papers)
        for (_, beliefs, which), share in zip(self.belief_draws, self.draw_weights, strict=True):
            for paper, known in enumerate(beliefs):
                means = np.array([mean_of(one) for one in known])
                total[paper] += float((self.posterior * share) @ np.nan_to_num(means)[which[:, paper]])
        return self.prior[0] + self.prior[1] * total

    def deciding(self, accept: int | Threshold) -> Panel:
        """The same papers, scores and candidates with another rule of acceptance."""
        other = copy(self)
        for name in ("program", "_ends"):
            other.__dict__.pop(name, None)
        other._decisions(accept)
        return other

    def _decisions(self, accept: int | Threshold) -> None:
        """What can be decided, and how wrong it is under every candidate."""
        self.accept = accept if isinstance(accept, Threshold) else whole(accept, "accept", 0, self.papers)
        if isinstance(self.accept, Threshold):
            line = (self.accept.quality - self.prior[0]) / self.prior[1]
            wrong = np.zeros((2, len(self._who), self.papers))
            for (_, beliefs, which), share in zip(self.belief_draws, self.draw_weights, strict=True):
                wrong += share[:, None] * wrong_sides(beliefs, which, line)
            found = sets_by_line(wrong, self.posterior > 0, self.accept.places)
        else:
            found = sets_by_quota(self.papers, self.accept)
        self.decisions, self.pivotal, inside = found
        if isinstance(self.accept, Threshold):
            self.errors: Floats = (wrong[1] @ inside.T + wrong[0] @ (1 - inside).T) / self.papers
            return
        self.errors = np.zeros((len(self._who), len(self.decisions)))
        if not self.pivotal:
            return
        sets = np.array(self.decisions)
        for (_, beliefs, which), share in zip(self.belief_draws, self.draw_weights, strict=True):
            self.errors += share[:, None] * quota_errors(beliefs, which, sets, self.noise)
        self.errors = self.errors.clip(0.0, 1.0)

    # ---- what can be promised -----------------------------------------------------------------------------------

    @cached_property
    def program(self) -> Program:
        """The linear program of this panel."""
        return Program(self._who, self.posterior, self.errors, self.adversary)

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
        what = _UNITS[self.adversary]
        low, high = float(start.adversary_errors.min()), float(end.adversary_errors.min())
        if high - low < 1e-12:
            return Frontier(((start.conference_error, low),), what=what)

        def solve(tau: float) -> tuple[float, float, float]:
            found = self.program.solve(np.full(len(self.ceilings), tau))
            return tau, found.conference_error, found.slope

        with progress_bar("solving along the frontier", most, show=progress) as advance:

            def counted(tau: float) -> tuple[float, float, float]:
                found = solve(tau)
                advance(1)
                return found

            ends = (low, start.conference_error, 0.0), (high, end.conference_error, end.slope)
            return traced(*ends, counted, tolerance, most, what)

    def strategy(
        self, *, conference_error: float | None = None, adversary_error: float | None = None, capped: bool = False
    ) -> Strategy:
        """The Pareto optimal strategy for what is asked.

        Parameters
        ----------
        conference_error
            The most that the conference may err; the common adversary error is made as large as possible.
        adversary_error
            The least that the adversary shall err, on every review.
        capped
            With ``adversary_error``: ask of each review as much of it as the scores leave, instead of refusing when
            one review's scores already say too much.
        """
        one_demand(conference_error, adversary_error)
        if conference_error is not None:
            asked = number("conference_error", conference_error, low=0.0, high=1.0, want="a probability")
            start, end = self._ends
            if asked < start.conference_error - _SLACK:
                why = "less is impossible even with full use of the assignment"
                raise infeasible("conference_error", asked, start.conference_error, 1.0, why)
            if asked >= end.conference_error:
                return self._as_strategy(end)
            if asked <= start.conference_error + 1e-12:
                return self._as_strategy(start)
            return self._as_strategy(self.program.most_private(asked, end))
        asked = number("adversary_error", adversary_error, low=0.0, high=1.0, want="a probability")
        ceilings = self.ceilings
        if capped:
            targets = np.minimum(asked, ceilings)
        else:
            if asked > float(ceilings.min()) + _SLACK:
                why = "the published scores alone already let the adversary guess one review that well"
                raise infeasible("adversary_error", asked, 0.0, float(ceilings.min()), why)
            targets = np.full(len(ceilings), min(asked, float(ceilings.min())))
        greedy = self.program.greedy()
        if (greedy.adversary_errors >= targets).all():
            return self._as_strategy(greedy)
        return self._as_strategy(self.program.solve(targets))

    def _as_strategy(self, solution: Solution) -> Strategy:
        return Strategy(
            assignments=self.assignments,
            decisions=self.decisions,
            posterior=self.posterior,
            errors=self.errors,
            table=solution.table,
            adversary=self.adversary,
            unit=_UNITS[self.adversary],
            papers=self.papers,
        )


def _read_scores(scores: Any) -> tuple[tuple[float, ...], ...]:
    listed = scores.tolist() if isinstance(scores, np.ndarray) else scores
    if not isinstance(listed, list | tuple) or not listed:
        raise BadInput("scores", got=scores, want="a score, or a list of scores, for every paper")
    found = []
    for paper, given in enumerate(listed):
        row = numbers(f"scores[{paper}]", given if isinstance(given, list | tuple | np.ndarray) else [given])
        if row.ndim != 1 or not row.size:
            raise BadInput(f"scores[{paper}]", got=given, want="one or more scores")
        found.append(tuple(row.tolist()))
    return tuple(found)
