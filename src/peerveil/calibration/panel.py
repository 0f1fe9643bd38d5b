"""Any number of papers: the best strategy against the adversary who guesses who wrote one review.

>>> from peerveil.calibration import Affine, Panel
>>> reviewers = [Affine(1.2, 0.3), Affine(0.8, -0.6), Affine(1.0, 0.4)]
>>> panel = Panel([0.4, 0.1, 0.9], reviewers, noise=0.4, accept=1)
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
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from peerveil.calibration.assignments import read_assignments
from peerveil.calibration.beliefs import belief
from peerveil.calibration.checks import (
    infeasible,
    noise_level,
    number,
    numbers,
    one_demand,
    quality_prior,
    weights,
    whole,
)
from peerveil.calibration.frontier import Frontier
from peerveil.calibration.functions import read_reviewers
from peerveil.calibration.losses import known_errors, sides_of_line, top_probabilities
from peerveil.calibration.program import Program, Solution
from peerveil.calibration.strategy import ADVERSARIES, Strategy
from peerveil.errors import BadInput, Verbatim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from peerveil.calibration.beliefs import Belief
    from peerveil.calibration.functions import Reviewer

    Floats = NDArray[np.float64]
    Whole = NDArray[np.int64]

_SLACK = 1e-9
_MOST_DECISIONS = 20_000
_UNITS = {
    "paper": "the writer of one review (chosen before the decision is known)",
    "assignment": "the whole assignment",
}


@dataclass(frozen=True, slots=True)
class Threshold:
    """Accept every paper whose quality is above a line, however many they are.

    >>> round(Threshold.share(0.25).quality, 4)  # the best quarter, if qualities are N(0, 1)
    0.6745
    """

    quality: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "quality", number("quality", self.quality))

    @classmethod
    def share(cls, accepted: float, prior: tuple[float, float] = (0.0, 1.0)) -> Threshold:
        """The line that this share of all papers is expected to pass: public, since it uses the prior alone."""
        share = number("accepted", accepted, low=1e-9, high=1 - 1e-9, want="a share between 0 and 1")
        mean, deviation = quality_prior(prior)
        return cls(mean - deviation * float(ndtri(share)))


class Panel:
    """Papers that are decided together.

    Parameters
    ----------
    scores
        One score a paper, or a list of scores a paper: public.
    reviewers
        Their functions: public.
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
        Sets of accepted papers. With a threshold, papers whose better side is the same under every candidate are put
        there in all of them (nothing is lost: another decision would cost error and could only tell more).
    errors : array (assignments, decisions)
    """

    def __init__(
        self,
        scores: Sequence[float] | Sequence[Sequence[float]],
        reviewers: Sequence[Reviewer],
        noise: float,
        accept: int | Threshold,
        assignments: Sequence[Sequence[int]] | None = None,
        adversary: str = "paper",
        *,
        odds: Sequence[float] | None = None,
        prior: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        self.scores = _read_scores(scores)
        self.reviewers = tuple(reviewers)
        self.noise = noise_level(noise)
        self.prior = quality_prior(prior)
        if adversary not in ADVERSARIES:
            raise BadInput("adversary", got=adversary, want="'paper' or 'assignment'")
        self.adversary = adversary
        self.accept: int | Threshold = (
            accept if isinstance(accept, Threshold) else whole("accept", accept, 0, len(self.scores))
        )
        functions = read_reviewers(list(reviewers), self.prior)
        counts = [len(one) for one in self.scores]
        self.assignments = read_assignments(assignments, counts, len(self.reviewers))
        given = np.ones(len(self.assignments)) if odds is None else odds
        self.odds = weights("odds", given, len(self.assignments))
        self._who = np.array(self.assignments, dtype=np.int64)
        self._judge(functions, counts)

    def __repr__(self) -> str:
        return (
            f"Panel(papers={len(self.scores)}, reviewers={len(self.reviewers)}, accept={self.accept}, "
            f"assignments={len(self.assignments)}, adversary={self.adversary!r})"
        )

    @property
    def papers(self) -> int:
        """How many papers there are."""
        return len(self.scores)

    # ---- what scores say ----------------------------------------------------------------------------------------

    def _judge(self, functions: list[list[Any]], counts: list[int]) -> None:
        """Posterior and errors; draws of uncertain reviewers are integrated over, shared by all of one's papers."""
        ends = np.cumsum(counts)
        drawn = [self._beliefs(draw, ends, counts) for draw in functions]
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
        if isinstance(self.accept, Threshold):
            line = (self.accept.quality - self.prior[0]) / self.prior[1]
            self._threshold(line, drawn, within)
        else:
            self._quota(self.accept, drawn, within)

    def _beliefs(
        self, functions: list[Any], ends: Whole, counts: list[int]
    ) -> tuple[Floats, list[list[Belief]], Whole]:
        """Log evidence of every candidate; per paper the distinct beliefs, and which of them each candidate holds."""
        found: list[list[Belief]] = []
        which = np.empty((len(self._who), self.papers), dtype=np.int64)
        evidence = np.zeros(len(self._who))
        for paper, (end, count) in enumerate(zip(ends.tolist(), counts, strict=True)):
            committees, places = np.unique(self._who[:, end - count : end], axis=0, return_inverse=True)
            which[:, paper] = places.ravel()
            found.append(
                [
                    belief(self.scores[paper], [functions[j] for j in committee], self.noise)
                    for committee in committees.tolist()
                ]
            )
            evidence += np.array([one.log_evidence for one in found[-1]])[which[:, paper]]
        return evidence, found, which

    def _threshold(self, line: float, drawn: list[Any], within: Floats) -> None:
        wrong = np.zeros((2, len(self._who), self.papers))  # rejecting, accepting
        for (_, beliefs, which), share in zip(drawn, within, strict=True):
            for paper, known in enumerate(beliefs):
                sides = np.array([sides_of_line(one, line) for one in known])[which[:, paper]]
                wrong[0, :, paper] += share * sides[:, 1]
                wrong[1, :, paper] += share * sides[:, 0]
        possible = self.posterior > 0
        rather = np.sign(wrong[0] - wrong[1])[possible]  # +1: accept, -1: reject, 0: either
        yes, no = (rather > 0).any(axis=0), (rather < 0).any(axis=0)
        pivotal = np.flatnonzero(yes & no)
        settled = [int(paper) for paper in np.flatnonzero(yes & ~no)]
        if 2 ** len(pivotal) > _MOST_DECISIONS:
            raise BadInput("scores", got=Verbatim(f"{len(pivotal)} papers near the line"), want="at most 14 in a panel")
        choices = np.array(list(product((0, 1), repeat=len(pivotal))), dtype=np.int64).reshape(
            2 ** len(pivotal), len(pivotal)
        )
        inside = np.zeros((len(choices), self.papers), dtype=np.int64)
        inside[:, settled] = 1
        inside[:, pivotal] = choices
        self.decisions = tuple(tuple(np.flatnonzero(row).tolist()) for row in inside)
        self.errors: Floats = (wrong[1] @ inside.T + wrong[0] @ (1 - inside).T) / self.papers
        self.pivotal = tuple(pivotal.tolist())

    def _quota(self, places: int, drawn: list[Any], within: Floats) -> None:
        if math.comb(self.papers, places) > _MOST_DECISIONS:
            raise BadInput("accept", got=places, want=f"a quota with at most {_MOST_DECISIONS:,} possible decisions")
        self.decisions = tuple(combinations(range(self.papers), places))
        self.pivotal = tuple(range(self.papers)) if 0 < places < self.papers else ()
        self.errors = np.zeros((len(self._who), len(self.decisions)))
        if places in {0, self.papers}:
            return
        sets = np.array(self.decisions)
        for (_, beliefs, which), share in zip(drawn, within, strict=True):
            if self.noise == 0:
                found = known_errors(beliefs, which, sets)
            else:
                top = top_probabilities(beliefs, which, places)
                found = 1.0 - top[:, sets].sum(axis=2) / places
            self.errors += share[:, None] * found
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

    def frontier(self, *, tolerance: float = 1e-9, most: int = 60) -> Frontier:
        """The frontier, by parametric solves.

        Every solve gives a point and a tangent; the next one is taken where the tangents of two neighbours meet, until
        no meeting point lies below the chord by more than ``tolerance``, or ``most`` solves are done. What is left is
        stated as ``gap``.
        """
        start, end = self._ends
        what = _UNITS[self.adversary]
        low, high = float(start.adversary_errors.min()), float(end.adversary_errors.min())
        if high - low < 1e-12:
            return Frontier(((start.conference_error, low),), what=what)
        known = [(low, start.conference_error, 0.0), (high, end.conference_error, end.slope)]
        solves = 0
        while True:
            gaps = [_meeting(a, b) for a, b in pairwise(known)]
            widest = max(range(len(gaps)), key=lambda i: gaps[i][1])
            place, gap = gaps[widest]
            if gap <= tolerance or solves >= most:
                break
            found = self.program.solve(np.full(len(self.ceilings), place))
            known.insert(widest + 1, (place, found.conference_error, found.slope))
            solves += 1
        return Frontier(
            tuple((cost, tau) for tau, cost, _ in _corners(known)),
            gap=0.0 if gap <= tolerance else gap,
            what=what,
        )

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
        )

    def draw(self, ax: Any) -> None:
        """The frontier."""
        self.frontier().draw(ax)


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


def _meeting(a: tuple[float, float, float], b: tuple[float, float, float]) -> tuple[float, float]:
    """Where the tangents of two points meet, and how far below the chord."""
    (x0, y0, m0), (x1, y1, m1) = a, b
    if m1 - m0 < 1e-12 or x1 - x0 < 1e-10:
        return x0, 0.0
    x = (y0 - y1 + m1 * x1 - m0 * x0) / (m1 - m0)
    if not x0 + 1e-10 < x < x1 - 1e-10:
        return x0, 0.0
    chord = y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return x, chord - (y0 + m0 * (x - x0))


def _corners(known: list[tuple[float, float, float]]) -> list[tuple[float, float, float]]:
    """The points without those that lie on the line between their neighbours."""
    kept = [known[0]]
    for here, after in pairwise(known[1:]):
        x0, y0, _ = kept[-1]
        straight = y0 + (after[1] - y0) * (here[0] - x0) / (after[0] - x0)
        if straight - here[1] > 1e-12:
            kept.append(here)
    return [*kept, known[-1]]
