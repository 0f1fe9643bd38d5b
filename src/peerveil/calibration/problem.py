"""Papers to be decided together: what their public scores say about who reviewed them, and how wrong a decision is.

Everything here is computed from scores, functions, noise and candidate assignments; the true assignment never enters.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice, permutations, product
from typing import Any, Final

import numpy as np

from peerveil.calibration.beliefs import Belief, belief
from peerveil.calibration.functions import Reviewer, noise_level, quality_prior, read_functions
from peerveil.calibration.losses import Threshold, quota_errors, sets_by_line, sets_by_quota, wrong_sides
from peerveil.core.arrays import Floats, Ints
from peerveil.core.errors import BadInput, Verbatim, one_of
from peerveil.core.exact import numbers, whole

MOST_CANDIDATES: Final = 50_000
"""More candidate assignments than this are refused: the linear program would not fit."""
UNITS: Final = {
    "paper": "the writer of one review",
    "assignment": "the whole assignment",
}
"""What each kind of adversary guesses."""


class DecisionProblem:
    """The base of :class:`~peerveil.calibration.Pair` and :class:`~peerveil.calibration.Panel`, which document it."""

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
        self.noise, self.prior = noise_level(noise), quality_prior(prior)
        self.adversary = one_of(adversary, "adversary", UNITS)
        self.unit = UNITS[adversary]
        draws = read_functions(self.functions, self.prior)
        counts = [len(row) for row in self.scores]
        self.assignments = read_assignments(assignments, counts, len(self.functions))
        want = f"{len(self.assignments)} weights, none negative and not all 0"
        weights = numbers(np.ones(len(self.assignments)) if odds is None else odds, "odds", low=0.0, want=want)
        if weights.shape != (len(self.assignments),) or not weights.sum() > 0:
            raise BadInput("odds", got=odds, want=want)
        self.odds: Floats = weights / weights.sum()
        # the distinct committees of each paper, and which of them every candidate gives it
        columns = np.split(np.array(self.assignments, dtype=np.int64), np.cumsum(counts)[:-1], axis=1)
        distinct = [np.unique(column, axis=0, return_inverse=True) for column in columns]
        self.which: Ints = np.column_stack([index.ravel() for _, index in distinct])
        self.beliefs: list[list[list[Belief]]] = [  # [draw][paper][committee]
            [
                [belief(row, [people[j] for j in committee], self.noise) for committee in committees]
                for row, (committees, _) in zip(self.scores, distinct, strict=True)
            ]
            for people in draws
        ]
        with np.errstate(divide="ignore"):
            joint = self._log_evidence(draws) + np.log(self.odds)
        if np.isnan(joint).any() or not joint.max() > -math.inf:
            got = Verbatim("scores that nobody gives")
            raise BadInput("scores", got=got, want="scores that at least one assignment can explain")
        mass = np.exp(joint - joint.max())
        self.posterior: Floats = mass.sum(axis=0) / mass.sum()
        self.draw_weights: Floats = mass / np.maximum(mass.sum(axis=0), 1e-300)
        self._set_decisions(accept)

    @property
    def papers(self) -> int:
        """How many papers there are."""
        return len(self.scores)

    def _log_evidence(self, draws: list[list[Any]]) -> Floats:  # noqa: ARG002
        """How likely the scores are, for every draw of the functions and every candidate."""
        evidence = np.zeros((len(self.beliefs), len(self.assignments)))
        for row, beliefs in zip(evidence, self.beliefs, strict=True):
            for known, column in zip(beliefs, self.which.T, strict=True):
                row += np.array([one.log_evidence for one in known])[column]
        return evidence

    def _set_decisions(self, accept: int | Threshold) -> None:
        """What can be decided, and how wrong it is under every candidate; draws of functions are integrated over."""
        self.accept = accept if isinstance(accept, Threshold) else whole(accept, "accept", 0, self.papers)
        weighted = list(zip(self.beliefs, self.draw_weights, strict=True))
        if isinstance(self.accept, Threshold):
            line = (self.accept.quality - self.prior[0]) / self.prior[1]
            wrong = sum(share[:, None] * wrong_sides(beliefs, self.which, line) for beliefs, share in weighted)
            self.decisions, self.pivotal, inside = sets_by_line(wrong, self.posterior > 0, self.accept.places)
            self.errors: Floats = (wrong[1] @ inside.T + wrong[0] @ (1 - inside).T) / self.papers
            self.above: Floats = self.posterior @ wrong[0]  # P[paper is above the line], from scores alone
            return
        self.decisions, self.pivotal, _ = sets_by_quota(self.papers, self.accept)
        self.errors = np.zeros((len(self.assignments), len(self.decisions)))
        if self.pivotal:
            for beliefs, share in weighted:
                self.errors += share[:, None] * quota_errors(beliefs, self.which, np.array(self.decisions), self.noise)
            self.errors = self.errors.clip(0.0, 1.0)

    def expected(self) -> Floats:
        """The expected quality of every paper, given scores alone: an average over candidates, so public."""
        total = np.zeros(self.papers)
        for beliefs, share in zip(self.beliefs, self.draw_weights, strict=True):
            for paper, known in enumerate(beliefs):
                means = np.nan_to_num([one.mean for one in known])
                total[paper] += float((self.posterior * share) @ means[self.which[:, paper]])
        return self.prior[0] + self.prior[1] * total

    @property
    def strategy_fields(self) -> dict[str, Any]:
        """What all strategies of these papers have in common: the fields of a Strategy except its table."""
        names = ("assignments", "decisions", "posterior", "errors", "adversary", "unit", "papers")
        return {name: getattr(self, name) for name in names}


def _read_scores(scores: Any) -> tuple[tuple[float, ...], ...]:
    listed = scores.tolist() if isinstance(scores, np.ndarray) else scores
    if not isinstance(listed, list | tuple) or not listed:
        raise BadInput("scores", got=scores, want="a score, or a list of scores, for every paper")
    want = "one or more scores, finite and up to 1e100"
    rows = [numbers(row, f"scores[{i}]", dimensions=(0, 1), want=want) for i, row in enumerate(listed)]
    return tuple(tuple(np.atleast_1d(row).tolist()) for row in rows)


# ---- candidate assignments: who could have written which review, as far as the public knows --------------------------


def all_assignments(reviews: Sequence[int], reviewers: int) -> tuple[tuple[int, ...], ...]:
    """Every way to give each of so many reviewers equally many reviews (so many per paper), none two of one paper.

    >>> all_assignments([1, 1], 2)
    ((0, 1), (1, 0))
    >>> len(all_assignments([2, 2, 2], 3))  # each reviewer writes two of six reviews, of different papers
    48
    """
    total = sum(reviews)
    if reviewers < 1 or total % reviewers:
        want = f"a list of candidates: {total} reviews cannot be shared equally by {reviewers} reviewers"
        raise BadInput("assignments", got=None, want=want)
    if total == reviewers:
        _check_count(math.factorial(total))
        return tuple(permutations(range(reviewers)))
    paper = [index for index, count in enumerate(reviews) for _ in range(count)]
    candidates = tuple(islice(_fill(paper, [total // reviewers] * reviewers, []), MOST_CANDIDATES + 1))
    _check_count(len(candidates))
    return candidates


def _check_count(count: int) -> None:
    if count > MOST_CANDIDATES:
        got = Verbatim(f"{count:,} or more candidates")
        raise BadInput("assignments", got=got, want=f"at most {MOST_CANDIDATES:,}: give fewer candidates")


def _fill(paper: list[int], loads: list[int], chosen: list[int]) -> Iterator[tuple[int, ...]]:
    """Every way to complete the chosen reviewers, each of whom has so many reviews left to write."""
    place = len(chosen)
    if place == len(paper):
        yield tuple(chosen)
        return
    taken = {who for who, other in zip(chosen, paper, strict=False) if other == paper[place]}
    for reviewer, load in enumerate(loads):
        if load and reviewer not in taken:
            fewer = [*loads[:reviewer], load - 1, *loads[reviewer + 1 :]]
            yield from _fill(paper, fewer, [*chosen, reviewer])


def committees_exchanged(committees: Sequence[Sequence[int]], *, within: bool = False) -> tuple[tuple[int, ...], ...]:
    """Every way to exchange whole committees between papers, sorted: the order does not depend on the true one.

    ``committees`` has the reviewers of each paper, in the order of its reviews. The k-th of a committee wrote the k-th review
    of whichever paper it got; with ``within`` its members may also have exchanged their reviews.

    >>> committees_exchanged([(0, 1), (2, 3)])
    ((0, 1, 2, 3), (2, 3, 0, 1))
    >>> len(committees_exchanged([(0, 1), (2, 3)], within=True))
    8
    """
    count = math.factorial(len(committees))
    if within:
        count *= math.prod(math.factorial(len(committee)) for committee in committees)
    _check_count(count)
    candidates: set[tuple[int, ...]] = set()
    for order in permutations(committees):
        orders = product(*(permutations(committee) for committee in order)) if within else [order]
        candidates.update(tuple(chain.from_iterable(part)) for part in orders)
    return tuple(sorted(candidates))


def reviews_exchanged(committees: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """Every way to exchange the k-th reviews of papers, each k by itself, sorted; nobody twice on one paper.

    >>> reviews_exchanged([(0, 1), (2, 3)])
    ((0, 1, 2, 3), (0, 3, 2, 1), (2, 1, 0, 3), (2, 3, 0, 1))
    """
    positions = list(zip(*committees, strict=True))
    _check_count(math.factorial(len(committees)) ** len(positions))
    candidates: set[tuple[int, ...]] = set()
    for orders in product(*(set(permutations(position)) for position in positions)):
        papers = list(zip(*orders, strict=True))
        if all(len(set(committee)) == len(committee) for committee in papers):
            candidates.add(tuple(chain.from_iterable(papers)))
    return tuple(sorted(candidates))


def read_assignments(assignments: Any, reviews: Sequence[int], reviewers: int) -> tuple[tuple[int, ...], ...]:
    """Checked candidates: a reviewer for every review, none twice on a paper, no candidate twice."""
    if assignments is None:
        return all_assignments(reviews, reviewers)
    try:
        candidates = tuple(tuple(int(reviewer) for reviewer in candidate) for candidate in assignments)
    except (TypeError, ValueError):
        want = "a list of candidates, each a reviewer for every review"
        raise BadInput("assignments", got=assignments, want=want) from None
    if not candidates:
        raise BadInput("assignments", got=assignments, want="at least one candidate")
    _check_count(len(candidates))
    total = sum(reviews)
    for index, candidate in enumerate(candidates):
        if len(candidate) != total or min(candidate) < 0 or max(candidate) >= reviewers:
            want = f"{total} reviewers from 0 to {reviewers - 1}, one for every review"
            raise BadInput(f"assignments[{index}]", got=candidate, want=want)
    for committee in np.split(np.array(candidates), np.cumsum(reviews)[:-1], axis=1):
        twice = np.flatnonzero((np.diff(np.sort(committee, axis=1), axis=1) == 0).any(axis=1))
        if twice.size:
            raise BadInput(f"assignments[{twice[0]}]", got=candidates[twice[0]], want="no reviewer twice on one paper")
    repeated, times = Counter(candidates).most_common(1)[0]
    if times > 1:
        raise BadInput("assignments", got=repeated, want="every candidate once; use odds to make one likelier")
    return candidates
