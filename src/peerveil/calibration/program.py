"""The linear program of a panel.

The least conference error for a given error of the adversary.

Variables g(D|A) >= 0 with sum_D g(D|A) = 1, and for every review r and decision D a bound z_(r,D) on the adversary's
best guess. Minimize sum_A p_A sum_D g(D|A) err(A, D) subject to

    sum over A with A(r) = j of p_A g(D|A) <= z_(r,D)   for every reviewer j,
    sum_D z_(r,D) <= 1 - tau_r.

For the adversary who guesses the whole assignment the same with one "review" whose "reviewer" is the assignment
itself. The error in tau is convex and piecewise linear: the value of a linear program in its right-hand side.

**An average over decisions, or every decision.** The last constraint bounds the guess on average: a rare decision may name
a writer for certain, paid for by the others. With ``per_decision`` it is replaced by one for every decision,

    z_(r,D) <= (1 - tau_r) sum_A p_A g(D|A),

which says that *after D* the best guess is wrong with probability tau_r at least; summed over D it implies the average.
It is linear in the same variables (tau is given), so the program is as easy. The error is no longer convex in tau.

Solved by HiGHS's dual simplex (through SciPy); large programs by column generation: solve with some columns, add those
whose reduced cost is negative, until they prove that all columns together would gain less than 1e-8. A status other
than *optimal* is refused. The solver's answer is then
cleaned: probabilities are clipped and normalized, the adversary's error is computed anew from the table, and if it
falls short of the demand (by solver tolerance), the table is mixed with one that does not depend on A: the best fixed
decision or, per decision, its own average over A (decisions less likely than 1e-7 first give way to the best fixed one:
post-processing). The adversary's error is concave in the table, so the mixture reaches the demand. Where the demand is all
that the scores leave
there is no margin for that: an answer that misses it by up to 1e-8 (per decision: 1e-4) is taken, and what it achieves is
what is guaranteed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from peerveil.calibration.strategy import after_decisions, best_decisions, guess_errors
from peerveil.core.errors import PeerveilError
from peerveil.core.lazy import linprog, sparse

if TYPE_CHECKING:
    from peerveil.calibration.problem import DecisionProblem
    from peerveil.core.arrays import Floats, Ints

_MOST_STEPS = 100
_SMALL = 5_000  # columns; larger programs start with some of them
_FEW = 2
_NO_GAIN = 1e-8  # of conference error; the solver's own tolerance leaves about 1e-9 of doubt
_LARGEST_REPAIR = 1e-5
_LARGEST_MISS = 1e-8
_RARE = 1e-7  # decisions this unlikely are not taken: the solver's tolerance is too coarse to bound a guess after them
_LARGEST_MISS_AFTER = 1e-4  # after a decision: the solver's tolerance over the probability of the decision
_NEGLIGIBLE = 1e-13  # assignments this unlikely follow the others' average decision: they leak nothing
_NEGLIGIBLE_AFTER = (
    1e-8  # the same after a decision: HiGHS drops coefficients below 1e-9, which a ratio of them notices
)


class LinearProgramFailed(PeerveilError):
    """The linear program was not solved to optimality; nothing was decided."""


@dataclass(frozen=True, slots=True)
class Solution:
    """A table with what it achieves, and the slope of the conference error in a common adversary error."""

    table: Floats
    conference_error: float
    adversary_errors: Floats
    slope: float


class Program:
    """The linear program of one panel; the matrices are built once for all right-hand sides."""

    def __init__(self, problem: DecisionProblem, per_decision: bool = False) -> None:
        self.per_decision = per_decision
        self.assignments = np.array(problem.assignments, dtype=np.int64)
        self.posterior, self.errors, self.adversary = problem.posterior, problem.errors, problem.adversary
        self.live = np.flatnonzero(self.posterior > (_NEGLIGIBLE_AFTER if per_decision else _NEGLIGIBLE))
        self._free = self.errors[self.live].size  # how many of the variables are probabilities of decisions

    @cached_property
    def ceilings(self) -> Floats:
        """The adversary's error for every review when the decision is always the same: what the scores leave."""
        return guess_errors(self.assignments, self.posterior, np.ones((len(self.posterior), 1)), self.adversary)

    @cached_property
    def _matrices(self) -> tuple[Floats, Any, Any]:
        """Costs, the rows of inequalities (those of z, then one per review), and the rows sum_D g(D|A) = 1."""
        p, errors = self.posterior[self.live], self.errors[self.live]
        count, kinds = errors.shape
        guessed = self.assignments[self.live].T if self.adversary == "paper" else np.arange(count)[None, :]
        each = sparse.eye_array(kinds)
        sums, bounds = [], []
        for values in guessed:
            value, index = np.unique(values, return_inverse=True)
            sums.append(sparse.kron(sparse.coo_array((p, (index, np.arange(count)))), each, format="csc"))
            bounds.append(sparse.kron(np.full((len(value), 1), -1.0), each, format="csc"))
        totals = sparse.kron(sparse.eye_array(len(guessed)), np.ones((1, kinds)), format="csc")
        upper = sparse.block_array([[sparse.vstack(sums), sparse.block_diag(bounds)], [None, totals]], format="csc")
        rows = sparse.kron(sparse.eye_array(count), np.ones((1, kinds)), format="csc")
        equal = sparse.hstack([rows, sparse.csc_array((count, totals.shape[1]))], format="csc")
        return np.concatenate([(p[:, None] * errors).ravel(), np.zeros(totals.shape[1])]), upper, equal

    def greedy(self) -> Solution:
        """Always the best decision under the true assignment."""
        return self._achieved(np.eye(self.errors.shape[1])[best_decisions(self.posterior, self.errors)], 0.0)

    def solve(self, targets: Floats) -> Solution:
        """The least conference error when the adversary errs at least ``targets`` (one per review)."""
        cost, upper, equal = self._matrices
        bounded = upper.shape[0] - len(targets)
        if self.per_decision:
            kinds = self.errors.shape[1]
            slack = 1e-9 + 2 * (1.0 - float(self.posterior[self.live].sum()))  # feasible also at what the scores leave
            taken = sparse.kron(self.posterior[None, self.live], sparse.eye_array(kinds))
            caps = sparse.kron((targets - slack - 1.0)[:, None], taken)
            each = sparse.eye_array(len(targets) * kinds)
            upper = sparse.vstack([upper[:bounded], sparse.hstack([caps, each])], format="csc")
        right = np.zeros(upper.shape[0])
        if not self.per_decision:
            right[bounded:] = 1.0 - targets
        chosen, bound = self._first_columns(cost.size), 0.0
        while True:
            answer = _solved(cost[chosen], upper[:, chosen], right, equal[:, chosen])
            first, second = np.asarray(answer.ineqlin.marginals), np.asarray(answer.eqlin.marginals)
            if chosen.size == cost.size:
                break
            # a column that was left out and would lower the error has a negative reduced cost; since the columns of an
            # assignment add up to 1, no table gains more than the sum of the assignments' most negative ones
            reduced = cost - upper.T @ first - equal.T @ second
            reduced[chosen] = 0.0
            gain = -reduced[: self._free].reshape(len(self.live), -1).min(axis=1).clip(max=0.0).sum()
            bound = max(bound, float(answer.fun) - float(gain))
            if float(answer.fun) - bound <= _NO_GAIN:
                break
            chosen = np.union1d(chosen, np.flatnonzero(reduced < 0))
        x = np.zeros(cost.size)
        x[chosen] = answer.x
        if self.per_decision:
            return self._cleaned_after(x, targets)
        return self._cleaned(x, targets, float(-first[bounded:].sum()))

    def _first_columns(self, width: int) -> Ints:
        """All columns of a small program; of a large one, decisions that are good under an assignment or overall."""
        if self._free <= _SMALL:
            return np.arange(width)
        errors = self.errors[self.live]
        good = np.zeros(errors.shape, dtype=np.bool_)
        np.put_along_axis(good, np.argpartition(errors, _FEW, axis=1)[:, :_FEW], True, axis=1)
        good[:, np.argsort(self.posterior @ self.errors)[:_FEW]] = True
        return np.concatenate([np.flatnonzero(good.ravel()), np.arange(self._free, width)])

    def start(self) -> Solution:
        """The least conference error, and with it the most private table: only best decisions may be taken.

        One more variable, tau, is added to every sum_D z_(r,D), and maximized.
        """
        best = self.errors[self.live] <= self.errors[self.live].min(axis=1, keepdims=True) + 1e-12
        if (best.sum(axis=1) == 1).all():
            return self.greedy()
        cost, upper, equal = self._matrices
        right = np.zeros(upper.shape[0])
        right[-len(self.ceilings) :] = 1.0
        highest = np.full(cost.size + 1, np.inf)
        highest[: self._free] = best.ravel()
        answer = _solved(
            np.append(np.zeros(cost.size), -1.0),
            sparse.hstack([upper, sparse.csc_array(right[:, None])], format="csc"),
            right,
            sparse.hstack([equal, sparse.csc_array((equal.shape[0], 1))], format="csc"),
            np.column_stack([np.zeros(highest.size), highest]),
        )
        return self._cleaned(np.asarray(answer.x)[:-1], np.minimum(float(answer.x[-1]), self.ceilings) - 1e-10, 0.0)

    def most_private(self, conference_error: float, end: Solution) -> Solution:
        """The largest common adversary error when the conference errs at most this much.

        Newton's method on the convex, piecewise linear least error, from the right end ``end``: every step is a
        linear program, lands on the next linear piece, and so ends after finitely many.
        """
        tau, solution = float(end.adversary_errors.min()), end
        for _ in range(_MOST_STEPS):
            excess = solution.conference_error - conference_error
            if excess <= 1e-12 or solution.slope <= 0:
                return solution
            tau = max(tau - excess / solution.slope, 0.0)
            solution = self.solve(np.full(len(self.ceilings), tau))
        raise LinearProgramFailed(f"the frontier was not met at conference error {conference_error:g}")

    def _table(self, x: Floats) -> Floats:
        """The solver's answer as probabilities; assignments that were left out follow the others' average."""
        part = np.clip(x[: self._free].reshape(len(self.live), -1), 0.0, None)
        part[part < 1e-12] = 0.0
        part /= part.sum(axis=1, keepdims=True)
        p = self.posterior[self.live]
        table = np.tile((p @ part) / p.sum(), (len(self.posterior), 1))
        table[self.live] = part
        return table

    def _cleaned_after(self, x: Floats, targets: Floats) -> Solution:
        """The same for a demand on every decision."""
        table = self._table(x)
        best = int((self.posterior @ self.errors).argmin())
        rare = self.posterior @ table < _RARE
        rare[best] = False
        table[:, best] += table[:, rare].sum(axis=1)
        table[:, rare] = 0.0
        short = targets[:, None] - after_decisions(self.assignments, self.posterior, table, self.adversary)
        margin = (self.ceilings - targets)[:, None] + short
        mix = float(np.where(short > 0, short / np.maximum(margin, 1e-300), 0.0).max()) * (1 + 1e-9)
        if mix > _LARGEST_REPAIR:
            if float(short.max()) > _LARGEST_MISS_AFTER:
                raise LinearProgramFailed(f"the solver's answer misses the demand by {float(short.max()):.2g}")
            mix = 0.0
        return self._achieved((1 - mix) * table + mix * (self.posterior @ table), 0.0)

    def _cleaned(self, x: Floats, targets: Floats, slope: float) -> Solution:
        table = self._table(x)
        achieved = guess_errors(self.assignments, self.posterior, table, self.adversary)
        short = targets - achieved
        if (short > 0).any():
            with np.errstate(divide="ignore", invalid="ignore"):
                needed = np.where(short > 0, short / (self.ceilings - achieved), 0.0)
            mix = float(np.nan_to_num(needed, nan=1.0, posinf=1.0).max()) * (1 + 1e-9)
            if mix > _LARGEST_REPAIR:
                # the demand is all that the scores leave: what is missing stays missing, and is not guaranteed
                if float(short.max()) > _LARGEST_MISS:
                    raise LinearProgramFailed(f"the solver's answer misses the demand by {float(short.max()):.2g}")
                mix = 0.0
            constant = np.eye(table.shape[1])[int((self.posterior @ self.errors).argmin())]
            table = (1 - mix) * table + mix * constant
        return self._achieved(table, slope)

    def _achieved(self, table: Floats, slope: float) -> Solution:
        errors = guess_errors(self.assignments, self.posterior, table, self.adversary)
        return Solution(table, float((self.posterior[:, None] * table * self.errors).sum()), errors, slope)


def _solved(cost: Floats, upper: Any, right: Floats, equal: Any, bounds: Any = (0, None)) -> Any:
    answer = linprog(
        cost,
        A_ub=upper,
        b_ub=right,
        A_eq=equal,
        b_eq=np.ones(equal.shape[0]),
        bounds=bounds,
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if answer.status != 0:
        raise LinearProgramFailed(f"the linear program was not solved: {answer.message}")
    return answer
