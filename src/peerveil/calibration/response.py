"""Randomized response on the assignment: differential privacy instead of a bound on one adversary (Appendix B).

Pretend that the assignment is another one with a fixed probability, whatever the scores say, and decide by the
pretended one. Keeping the true one of N candidates with probability e^eps/(e^eps + N - 1) and taking any other with
1/(e^eps + N - 1) is eps-differentially private: the ratio of any two rows of that channel is at most e^eps, and what is
decided from the pretended assignment and public scores is post-processing.

The paper prints the chance of keeping as 1/(1 + e^eps), which flips more often than it keeps. Its optimal strategies
are *not* differentially private: their probabilities depend on the scores, and a favorite may be certain.

>>> from peerveil.calibration import Affine, Pair, respond_assignment
>>> pair = Pair((0.6, 0.5), (Affine(1, 0.5), Affine(1, -0.5)), noise=0.5)
>>> response = respond_assignment(pair, epsilon=1)
>>> response.guarantee.epsilon, round(response.strategy.privacy_loss, 6)
(1.0, 1.0)
>>> round(response.strategy.conference_error, 3), round(response.strategy.adversary_error, 3)
(0.318, 0.269)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from peerveil.calibration.checks import secure_unless_given
from peerveil.calibration.pair import ASSIGNMENTS, DECISIONS, Pair
from peerveil.calibration.panel import Panel
from peerveil.calibration.strategy import Decision, Strategy
from peerveil.core.errors import BadInput
from peerveil.core.guarantee import Guarantee
from peerveil.core.randomness import Response

if TYPE_CHECKING:
    from collections.abc import Sequence

    from peerveil.core.exact import Number
    from peerveil.core.randomness import Randomness
    from peerveil.ledger import Account


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
        """Pretend an assignment with the exact response, and take its best decision.

        Parameters
        ----------
        assignment
            The true one: its number, or itself.
        randomness
            Secure unless given.
        account
            An account of a ledger, debited before anything is drawn.
        """
        randomness = secure_unless_given(randomness)
        true = self.strategy.index(assignment)
        guarantee = randomness.stamp(self.guarantee)
        if account is not None:
            data = self.strategy.identity(true)
            account.spend(guarantee, purpose="a randomized decision", data=data, randomness=randomness)
        pretended = int(randomness.respond(np.array([true]), self.response)[0])
        return Decision(
            guarantee=guarantee,
            accepted=self.strategy.decisions[self.favorites[pretended]],
            papers=self.strategy.papers,
        )


def respond_assignment(problem: Pair | Panel, *, epsilon: Number) -> AssignmentResponse:
    """Randomized response for a pair or a panel.

    Parameters
    ----------
    problem
        A :class:`Pair` or a :class:`Panel`.
    epsilon
        The privacy of the assignment: any two candidates are this hard to distinguish.
    """
    if isinstance(problem, Pair):
        assignments, decisions, unit = ASSIGNMENTS, DECISIONS, "which of the two reviewers wrote which review"
        posterior, errors, adversary = np.array(problem.posterior), np.array(problem.errors), "assignment"
    elif isinstance(problem, Panel):
        assignments, decisions, adversary = problem.assignments, problem.decisions, problem.adversary  # type: ignore[assignment]
        posterior, errors = problem.posterior, problem.errors
        unit = "the whole assignment" if adversary == "assignment" else "the writer of one review"
    else:
        raise BadInput("problem", got=problem, want="a Pair or a Panel")
    if len(assignments) < 2:
        raise BadInput("problem", got=problem, want="at least two candidate assignments")
    response = Response(epsilon, len(assignments))
    overall = posterior @ errors
    least = errors.min(axis=1, keepdims=True)
    favorites = np.where(errors <= least + 1e-15, overall, np.inf).argmin(axis=1)
    channel = np.array([[float(p) for p in response.probabilities(row)] for row in range(len(assignments))])
    chosen = np.zeros((len(assignments), len(decisions)))
    chosen[np.arange(len(assignments)), favorites] = 1.0
    strategy = Strategy(
        assignments=assignments,
        decisions=decisions,
        posterior=posterior,
        errors=errors,
        table=channel @ chosen,
        adversary=adversary,
        unit=unit,
        papers=2 if isinstance(problem, Pair) else problem.papers,
    )
    return AssignmentResponse(strategy, response, tuple(favorites.tolist()))
