"""Papers to be decided together: what their public scores say about who reviewed them, and how wrong a decision is.

Everything here is computed from scores, functions, noise and candidate assignments; the true assignment never enters.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.calibration.assignments import read_assignments
from peerveil.calibration.beliefs import belief
from peerveil.calibration.checks import Floats, Whole, noise_level, numbers, quality_prior
from peerveil.calibration.functions import read_functions
from peerveil.calibration.losses import Threshold, quota_errors, sets_by_line, sets_by_quota, wrong_sides
from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from peerveil.calibration.beliefs import Belief
    from peerveil.calibration.functions import Reviewer


UNITS: Final = {
    "paper": "the writer of one review (chosen before the decision is known)",
    "assignment": "the whole assignment",
}
"""What each kind of adversary guesses."""


class Problem:
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
        if adversary not in UNITS:
            raise BadInput("adversary", got=adversary, want="'paper' or 'assignment'")
        self.adversary, self.unit = adversary, UNITS[adversary]
        draws = read_functions(self.functions, self.prior)
        counts = [len(row) for row in self.scores]
        self.assignments = read_assignments(assignments, counts, len(self.functions))
        weights = numbers("odds", np.ones(len(self.assignments)) if odds is None else odds)
        if weights.shape != (len(self.assignments),) or (weights < 0).any() or not weights.sum() > 0:
            want = f"{len(self.assignments)} weights, none negative and not all 0"
            raise BadInput("odds", got=odds, want=want)
        self.odds: Floats = weights / weights.sum()
        # the distinct committees of each paper, and which of them every candidate gives it
        columns = np.split(np.array(self.assignments, dtype=np.int64), np.cumsum(counts)[:-1], axis=1)
        distinct = [np.unique(column, axis=0, return_inverse=True) for column in columns]
        self.which: Whole = np.column_stack([index.ravel() for _, index in distinct])
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
            sets = sets_by_line(wrong, self.posterior > 0, self.accept.places)
            self.decisions, self.pivotal, inside = sets
            self.errors: Floats = (wrong[1] @ inside.T + wrong[0] @ (1 - inside).T) / self.papers
            return
        self.decisions, self.pivotal, _ = sets_by_quota(self.papers, self.accept)
        self.errors = np.zeros((len(self.assignments), len(self.decisions)))
        if self.pivotal:
            for beliefs, share in weighted:
                errors = quota_errors(beliefs, self.which, np.array(self.decisions), self.noise)
                self.errors += share[:, None] * errors
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
    rows = [np.atleast_1d(numbers(f"scores[{paper}]", row)) for paper, row in enumerate(listed)]
    for paper, row in enumerate(rows):
        if row.ndim != 1 or not row.size:
            raise BadInput(f"scores[{paper}]", got=listed[paper], want="one or more scores")
    return tuple(tuple(row.tolist()) for row in rows)
