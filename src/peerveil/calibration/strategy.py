"""A strategy is data: for every candidate assignment, how likely each decision is.

It is computed from what is public, may be published itself (the adversary is assumed to know it), and is executed once,
with the true assignment and secure randomness. What is published afterwards is the decision.

**What is guaranteed, and the proof.** Let p_A be the posterior of assignment A given the scores, g(D|A) the table.
Seeing D, the best guess of a function c(A) of the assignment (the whole of it, or the writer of one review) is the value
j with the largest sum of p_A g(D|A) over A with c(A) = j, so it is right with probability
sum_D max_j sum_{A: c(A) = j} p_A g(D|A), and wrong with one minus that. No rule that sees only scores, functions, the
table and D does better (it is the Bayes rule). :attr:`Strategy.adversary_error` is that number, recomputed from the
table that is executed, never taken from a solver. The probability is over the assignment given the scores, and the
conference's coins; it rests on the model of scores being right.

**It is an average over decisions**: a decision that is rarely taken may still name a writer for certain. A table made with
``per_decision`` bounds the guess after every decision D that can be taken: there the error is the least over D of one minus
max_j sum_{A: c(A) = j} p_A g(D|A) / sum_A p_A g(D|A). :attr:`Strategy.worst_errors` has that number for any table.

**Differential privacy instead** (Appendix B), by randomized response on the assignment: pretend that the assignment is
another one with a fixed probability, whatever the scores are, and decide by the pretended one. Keeping the true one of N
candidates with probability e^eps/(e^eps + N - 1) and taking any other with 1/(e^eps + N - 1) is eps-differentially
private: the ratio of any two rows of that channel is at most e^eps, and what is decided from the pretended assignment
and public scores is post-processing. The paper prints the chance of keeping as 1/(1 + e^eps), which flips more often
than it keeps. Its optimal strategies are *not* differentially private: their probabilities depend on the scores, and a
favorite may be certain.

>>> from peerveil.calibration import Affine, Pair, respond_assignment
>>> pair = Pair((0.6, 0.5), (Affine(1, 0.5), Affine(1, -0.5)), noise=0.5)
>>> response = respond_assignment(pair, epsilon=1)
>>> response.guarantee.epsilon, round(response.strategy.privacy_loss, 6)
(1.0, 1.0)
>>> round(response.strategy.conference_error, 3), round(response.strategy.adversary_error, 3)
(0.318, 0.269)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from peerveil.calibration.decision import Decision
from peerveil.calibration.problem import UNITS, DecisionProblem
from peerveil.core.errors import BadInput, Verbatim, one_of
from peerveil.core.exact import Number, numbers, whole
from peerveil.core.guarantee import Guarantee
from peerveil.core.randomness import Randomness, Response
from peerveil.core.result import plain

if TYPE_CHECKING:
    from peerveil.core.arrays import Floats, Ints
    from peerveil.ledger import Account


_ROUNDING = 1e-12  # sums of floats are good to this much; guarantees are rounded down by it


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """Decision probabilities for each candidate assignment.

    Attributes
    ----------
    assignments : tuple of tuples of int
        Each gives the reviewer of every review, paper by paper.
    decisions : tuple of tuples of int
        Each is a set of accepted papers.
    posterior : array
        How likely each assignment is once the scores are known.
    errors : array (assignments, decisions)
        The conference's error of each decision under each assignment.
    table : array (assignments, decisions)
        How likely each decision is made under each assignment; rows add up to 1.
    adversary : str
        ``"paper"``: guesses who wrote one review; ``"assignment"``: guesses all of it.
    conference_error, adversary_error : float
        What the table achieves. For ``"paper"``, the adversary error is that of the review that is guessed best: on average
        over decisions or, with ``per_decision``, after the worst of them.
    review_errors : array
        The adversary's error for every review (one number for ``"assignment"``), on average over decisions.
    worst_errors : array
        The same after the decision that gives most away: 0 if some decision names the writer for certain.
    per_decision : bool
        Whether the guarantee holds after every decision, or on average over decisions.
    papers : int
        How many papers are decided together; by default up to the last one that a decision accepts.
    """

    assignments: tuple[tuple[int, ...], ...]
    decisions: tuple[tuple[int, ...], ...]
    posterior: Floats = field(repr=False)
    errors: Floats = field(repr=False)
    table: Floats = field(repr=False)
    adversary: str = "paper"
    unit: str = UNITS["paper"]
    papers: int = 0
    per_decision: bool = False
    conference_error: float = field(init=False)
    adversary_error: float = field(init=False)
    review_errors: Floats = field(init=False, repr=False)
    worst_errors: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        one_of(self.adversary, "adversary", UNITS)
        table, posterior, errors = (numbers(getattr(self, name), name) for name in ("table", "posterior", "errors"))
        shape = len(self.assignments), len(self.decisions)
        if table.shape != shape or errors.shape != shape or posterior.shape != shape[:1]:
            got = Verbatim(f"shape {table.shape}")
            raise BadInput("table", got=got, want=f"shape {shape}, as posterior and errors")
        if (table < 0).any() or (np.abs(table.sum(axis=1) - 1) > 1e-9).any():
            raise BadInput("table", got=Verbatim("rows that are no probabilities"), want="rows that add up to 1")
        if (posterior < 0).any() or abs(float(posterior.sum()) - 1) > 1e-9:
            raise BadInput("posterior", got=Verbatim("no probabilities"), want="probabilities that add up to 1")
        least = 1 + max((paper for decision in self.decisions for paper in decision), default=-1)
        if self.papers and whole(self.papers, "papers", 1) < least:
            raise BadInput("papers", got=self.papers, want=f"at least {least}: a decision accepts paper {least - 1}")
        review_errors = guess_errors(self.assignments, posterior, table, self.adversary)
        worst_errors = after_decisions(self.assignments, posterior, table, self.adversary).min(axis=1)
        for name, value in (
            ("table", table),
            ("posterior", posterior),
            ("errors", errors),
            ("conference_error", float((posterior[:, None] * table * errors).sum())),
            ("adversary_error", float((worst_errors if self.per_decision else review_errors).min())),
            ("review_errors", review_errors),
            ("worst_errors", worst_errors),
            ("papers", self.papers or least),
        ):
            object.__setattr__(self, name, value)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee, in words; proved above."""
        neighbors = f"{len(self.assignments)} candidate assignments, {LIKELY_AS_SCORED}"
        return guess_guarantee(self.adversary_error, f"{self.unit} ({over_decisions(self.per_decision)})", neighbors)

    @property
    def privacy_loss(self) -> float:
        """The largest log-likelihood ratio of a decision between two candidate assignments; often infinite."""
        possible = self.table.max(axis=0) > 0
        high, low = self.table.max(axis=0)[possible], self.table.min(axis=0)[possible]
        return math.inf if (low == 0).any() else float(np.log(high / low).max())

    def index(self, assignment: int | Sequence[int]) -> int:
        """Which row of the table an assignment is: given by its number, or by itself."""
        if isinstance(assignment, int | np.integer) and not isinstance(assignment, bool):
            want = f"a number from 0 to {len(self.assignments) - 1}, or an assignment"
            return whole(assignment, "assignment", 0, len(self.assignments) - 1, want=want)
        try:
            return self.assignments.index(tuple(int(reviewer) for reviewer in assignment))  # type: ignore[union-attr]
        except (TypeError, ValueError):
            want = f"one of the {len(self.assignments)} candidate assignments, such as {self.assignments[0]}"
            raise BadInput("assignment", got=assignment, want=want) from None

    def decide(
        self, assignment: int | Sequence[int], *, randomness: Randomness | None = None, account: Account | None = None
    ) -> Decision:
        """Draw the decision for the true assignment: the only step that sees it, and the only random one.

        Parameters
        ----------
        assignment
            The true one: its number, or itself.
        randomness
            Secure unless given.
        account
            An account of a ledger. It records the decision before anything is drawn, and refuses a second one.
        """
        return self._decide(
            assignment,
            self.guarantee,
            "a decision",
            lambda true, source: int(source.choose(self.table[true])[0]),
            randomness,
            account,
        )

    def _decide(
        self,
        assignment: int | Sequence[int],
        guarantee: Guarantee,
        purpose: str,
        draw: Callable[[int, Randomness], int],
        randomness: Randomness | None,
        account: Account | None,
    ) -> Decision:
        """Record the guarantee, then draw a decision (its column) for the row of the true assignment."""
        source = Randomness.of(randomness)
        true = self.index(assignment)
        guarantee = source.stamp(guarantee)
        if account is not None:
            # what a ledger knows these papers by: the same for every strategy of the same scores and true assignment
            data = np.concatenate([self.posterior, np.asarray(self.assignments[true], dtype=np.float64)])
            account.spend(guarantee, purpose=purpose, data=data, randomness=source)
        return Decision(guarantee=guarantee, accepted=self.decisions[draw(true, source)], papers=self.papers)

    def summary(self) -> str:
        """The two errors in one line."""
        return (
            f"conference error {self.conference_error:.4f}, adversary error {self.adversary_error:.4f} ({self.unit}; "
            f"{over_decisions(self.per_decision)})"
        )

    def __str__(self) -> str:
        return f"{self.summary()}\n{self.guarantee}"

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values. Nothing in it depends on the true assignment."""
        return {part.name: plain(getattr(self, part.name)) for part in fields(self) if part.init}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The strategy that :meth:`to_dict` wrote; its errors are computed anew."""
        names = [part.name for part in fields(cls) if part.init]
        missing = set(names) - {"papers", "per_decision"} - set(data if isinstance(data, Mapping) else ())
        if missing:
            got = Verbatim(f"no {min(missing)}") if isinstance(data, Mapping) else data
            raise BadInput("data", got=got, want=f"what {cls.__name__}.to_dict() returns")
        return cls(**{name: _as_tuple(data[name]) for name in names if name in data})


def _as_tuple(value: Any) -> Any:
    return tuple(_as_tuple(item) for item in value) if isinstance(value, list) else value


def after_decisions(
    assignments: Sequence[Sequence[int]] | Ints, posterior: Floats, table: Floats, adversary: str
) -> Floats:
    """The MAP adversary's error for every review (or the whole assignment) after every decision; 1 if it is never taken."""
    joint = posterior[:, None] * table
    taken = joint.sum(axis=0)
    who = np.asarray(assignments)
    guessed = who.T if adversary == "paper" else np.arange(len(who))[None, :]
    best = np.empty((len(guessed), joint.shape[1]))
    for row, values in zip(best, guessed, strict=True):
        sums = np.zeros((int(values.max()) + 1, joint.shape[1]))
        np.add.at(sums, values, joint)
        row[:] = sums.max(axis=0)
    return np.asarray(1.0 - np.divide(best, taken, out=np.zeros_like(best), where=taken > 0)).clip(0.0)


def over_decisions(per_decision: bool) -> str:
    """Whether a guarantee holds after every decision, in words."""
    return "after every decision" if per_decision else "chosen before decisions are known; on average over decisions"


def guess_errors(
    assignments: Sequence[Sequence[int]] | Ints, posterior: Floats, table: Floats, adversary: str
) -> Floats:
    """The MAP adversary's error for every review, or for the whole assignment; see the proof above."""
    joint = posterior[:, None] * table
    if adversary == "assignment":
        return np.array([1.0 - joint.max(axis=0).sum()]).clip(0.0)
    # for each review, who wrote it under which assignment; a reviewer who never wrote it has row 0
    wrote = (np.arange(writers.max() + 1)[:, None] == writers for writers in np.asarray(assignments).T)
    return np.array([1.0 - (rows.astype(np.float64) @ joint).max(axis=0).sum() for rows in wrote]).clip(0.0)


LIKELY_AS_SCORED = "likely as the published scores make them under the stated miscalibration functions and noise"


def guess_guarantee(error: float, unit: str, neighbors: str) -> Guarantee:
    """A guarantee of the best guess's error, rounded down."""
    return Guarantee.map_error(max(0.0, math.floor((error - _ROUNDING) * 1e12) / 1e12), unit=unit, neighbors=neighbors)


@dataclass(frozen=True, slots=True)
class AssignmentResponse:
    """A differentially private strategy: ``strategy`` has its table and errors, ``decide`` executes it exactly."""

    strategy: Strategy
    response: Response
    favorites: tuple[int, ...]

    @property
    def guarantee(self) -> Guarantee:
        """Pure differential privacy, for any adversary whatever else they know."""
        return Guarantee.pure_dp(
            self.response.exact_epsilon,
            unit="the assignment of reviewers to papers",
            neighbors=f"any two of the {len(self.strategy.assignments)} candidate assignments, the scores unchanged",
        )

    def decide(
        self, assignment: int | Sequence[int], *, randomness: Randomness | None = None, account: Account | None = None
    ) -> Decision:
        """Pretend an assignment with the exact response, and take its best decision; otherwise as :meth:`Strategy.decide`."""
        return self.strategy._decide(
            assignment,
            self.guarantee,
            "a randomized decision",
            lambda true, source: self.favorites[int(source.respond(np.array([true]), self.response)[0])],
            randomness,
            account,
        )


def respond_assignment(problem: DecisionProblem, *, epsilon: Number) -> AssignmentResponse:
    """Randomized response for a pair or a panel.

    Parameters
    ----------
    problem
        A :class:`Pair` or a :class:`Panel`.
    epsilon
        The privacy of the assignment: any two candidates are this hard to distinguish.
    """
    if not isinstance(problem, DecisionProblem):
        raise BadInput("problem", got=problem, want="a Pair or a Panel")
    count = len(problem.assignments)
    if count < 2:
        raise BadInput("problem", got=problem, want="at least two candidate assignments")
    response = Response(epsilon, count)
    best = best_decisions(problem.posterior, problem.errors)
    channel = np.array([[float(p) for p in response.probabilities(row)] for row in range(count)])
    table = channel @ np.eye(len(problem.decisions))[best]
    return AssignmentResponse(Strategy(table=table, **problem.strategy_fields), response, tuple(best.tolist()))


def best_decisions(posterior: Floats, errors: Floats) -> Ints:
    """The best decision under every candidate, ties broken by what all candidates like best."""
    least = errors.min(axis=1, keepdims=True)
    return np.asarray(np.where(errors <= least + 1e-15, posterior @ errors, np.inf).argmin(axis=1))
