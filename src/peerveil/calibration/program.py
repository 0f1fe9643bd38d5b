"""The linear program: the least conference error for a given error of the adversary.

Variables g(D|A) >= 0 with sum_D g(D|A) = 1, and for every review r and decision D a bound z_(r,D) on the adversary's
best guess. Minimize sum_A p_A sum_D g(D|A) err(A, D) subject to

    sum over A with A(r) = j of p_A g(D|A) <= z_(r,D)   for every reviewer j,
    sum_D z_(r,D) <= 1 - tau_r.

For the adversary who guesses the whole assignment the same with one "review" whose "reviewer" is the assignment
itself. The error in tau is convex and piecewise linear: the value of a linear program in its right-hand side.

Solved by HiGHS's dual simplex (through SciPy); large programs by column generation: solve with some columns, add those
whose reduced cost is negative, until they prove that all columns together would gain less than 1e-8. A status other
than *optimal* is refused. The solver's answer is then
cleaned: probabilities are clipped and normalized, the adversary's error is computed anew from the table, and if it
falls short of what was asked (by solver tolerance), the table is mixed with one that does not depend on A. The
adversary's error is concave in the table, so the mixture reaches it. Where the demand is all that the scores leave
there is no room for that: an answer that misses it by up to 1e-8 is taken, and what it achieves is what is promised.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, csc_array, hstack

from peerveil.calibration.strategy import guess_errors
from peerveil.core.errors import PeerveilError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Whole = NDArray[np.int64]

_MOST_STEPS = 100
_SMALL = 5_000  # columns; larger programs start with some of them
_FEW = 2
_NO_GAIN = 1e-8  # of conference error; the solver's own tolerance leaves about 1e-9 of doubt
_LARGEST_REPAIR = 1e-5
_LARGEST_MISS = 1e-8
_NEGLIGIBLE = 1e-13  # assignments this unlikely follow the others' average decision: they leak nothing


class SolverFailed(PeerveilError):
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

    def __init__(self, assignments: Whole, posterior: Floats, errors: Floats, adversary: str) -> None:
        self.assignments, self.posterior, self.errors, self.adversary = assignments, posterior, errors, adversary
        self.live = np.flatnonzero(posterior > _NEGLIGIBLE)
        p, e = posterior[self.live], errors[self.live]
        count, kinds = e.shape
        if adversary == "paper":
            groups = [np.unique(column, return_inverse=True)[1] for column in assignments[self.live].T]
        else:
            groups = [np.arange(count)]
        sizes = [int(group.max()) + 1 for group in groups]
        starts = np.concatenate([[0], np.cumsum(sizes)]) * kinds
        free = count * kinds
        place = np.arange(free).reshape(count, kinds)
        each = np.arange(kinds)
        rows, columns, values = [], [], []
        for index, (group, size) in enumerate(zip(groups, sizes, strict=True)):
            rows.append((starts[index] + group[:, None] * kinds + each).ravel())
            columns.append(place.ravel())
            values.append(np.repeat(p, kinds))
            bound = free + index * kinds + each
            rows.append(starts[index] + np.arange(size * kinds))
            columns.append(np.tile(bound, size))
            values.append(np.full(size * kinds, -1.0))
            rows.append(np.full(kinds, starts[-1] + index))
            columns.append(bound)
            values.append(np.ones(kinds))
        width = free + len(groups) * kinds
        shape = int(starts[-1]) + len(groups), width
        joined = [np.concatenate(part) for part in (values, rows, columns)]
        self._upper: csc_array = csc_array(coo_array((joined[0], (joined[1], joined[2])), shape=shape))
        ones = coo_array((np.ones(free), (np.repeat(np.arange(count), kinds), np.arange(free))), shape=(count, width))
        self._equal: csc_array = csc_array(ones)
        self._cost = np.concatenate([(p[:, None] * e).ravel(), np.zeros(width - free)])
        self._bounds_from, self._reviews = int(starts[-1]), len(groups)
        self._free = free

    @cached_property
    def ceilings(self) -> Floats:
        """The adversary's error for every review when the decision says nothing: what the scores leave."""
        same = np.ones((len(self.posterior), 1))
        return guess_errors(self.assignments, self.posterior, same, self.adversary)

    def greedy(self) -> Solution:
        """Always the best decision under the true assignment, ties broken by what all assignments like best."""
        liked = self.posterior @ self.errors
        least = self.errors.min(axis=1, keepdims=True)
        choice = np.where(self.errors <= least + 1e-15, liked, np.inf).argmin(axis=1)
        table = np.zeros_like(self.errors)
        table[np.arange(len(choice)), choice] = 1.0
        return self._achieved(table, 0.0)

    def constant(self) -> Solution:
        """The best decision that does not depend on the assignment."""
        table = np.zeros_like(self.errors)
        table[:, int((self.posterior @ self.errors).argmin())] = 1.0
        return self._achieved(table, 0.0)

    def solve(self, targets: Floats) -> Solution:
        """The least conference error when the adversary errs at least ``targets`` (one a review)."""
        right = np.concatenate([np.zeros(self._bounds_from), 1.0 - targets])
        chosen, bound = self._first_columns(), 0.0
        while True:
            answer = self._run(self._cost[chosen], self._upper[:, chosen], right, self._equal[:, chosen])
            first, second = np.asarray(answer.ineqlin.marginals), np.asarray(answer.eqlin.marginals)
            if chosen.size == self._cost.size:
                break
            # a column that was left out and would lower the error has a negative reduced cost; since the columns of an
            # assignment add up to 1, no table gains more than the sum of the assignments' most negative ones
            reduced = self._cost - self._upper.T @ first - self._equal.T @ second
            reduced[chosen] = 0.0
            gain = -reduced[: self._free].reshape(len(self.live), -1).min(axis=1).clip(max=0.0).sum()
            bound = max(bound, float(answer.fun) - float(gain))
            if float(answer.fun) - bound <= _NO_GAIN:
                break
            chosen = np.union1d(chosen, np.flatnonzero(reduced < 0))
        x = np.zeros(self._cost.size)
        x[chosen] = answer.x
        return self._cleaned(x, targets, float(-first[self._bounds_from :].sum()))

    def _first_columns(self) -> Whole:
        """All columns of a small program; of a large one, decisions that are good under an assignment or overall."""
        if self._free <= _SMALL:
            return np.arange(self._cost.size)
        e = self.errors[self.live]
        keep = np.zeros(e.shape, dtype=np.bool_)
        np.put_along_axis(keep, np.argpartition(e, _FEW, axis=1)[:, :_FEW], True, axis=1)
        keep[:, np.argsort(self.posterior @ self.errors)[:_FEW]] = True
        return np.concatenate([np.flatnonzero(keep.ravel()), np.arange(self._free, self._cost.size)])

    def start(self) -> Solution:
        """The least conference error, and with it the most private table: only best decisions may be taken."""
        best = self.errors[self.live] <= self.errors[self.live].min(axis=1, keepdims=True) + 1e-12
        if (best.sum(axis=1) == 1).all():
            return self.greedy()
        highest = np.full(self._cost.size + 1, np.inf)
        highest[: self._free] = np.where(best.ravel(), 1.0, 0.0)
        return self._most_private(highest)

    def most_private(self, conference_error: float, end: Solution) -> Solution:
        """The largest common adversary error when the conference errs at most this much.

        Newton's method on the convex, piecewise linear least error, from the right end ``end``: every step is a
        linear program, lands on the next linear piece, and so ends after finitely many.
        """
        tau, found = float(end.adversary_errors.min()), end
        for _ in range(_MOST_STEPS):
            excess = found.conference_error - conference_error
            if excess <= 1e-12 or found.slope <= 0:
                return found
            tau = max(tau - excess / found.slope, 0.0)
            found = self.solve(np.full(self._reviews, tau))
        raise SolverFailed(f"the frontier was not met at conference error {conference_error:g}")

    def _most_private(self, highest: Floats) -> Solution:
        """One more variable, tau, is added to every sum_D z_(r,D), and maximized."""
        places = self._bounds_from + np.arange(self._reviews), np.zeros(self._reviews, dtype=np.int64)
        tau = coo_array((np.ones(self._reviews), places), shape=(self._upper.shape[0], 1))
        right = np.concatenate([np.zeros(self._bounds_from), np.ones(self._reviews)])
        equal = csc_array(hstack([self._equal, csc_array((self._equal.shape[0], 1))]))
        cost = np.zeros(self._cost.size + 1)
        cost[-1] = -1.0
        bounds = np.column_stack([np.zeros(highest.size), highest])
        answer = self._run(cost, csc_array(hstack([self._upper, tau])), right, equal, bounds)
        found = np.minimum(float(answer.x[-1]), self.ceilings) - 1e-10
        return self._cleaned(np.asarray(answer.x)[:-1], found, 0.0)

    def _run(self, cost: Floats, upper: Any, right: Floats, equal: Any, bounds: Any = (0, None)) -> Any:
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
            raise SolverFailed(f"the linear program was not solved: {answer.message}")
        return answer

    def _cleaned(self, x: Floats, targets: Floats, slope: float) -> Solution:
        kinds = self.errors.shape[1]
        part = np.clip(x[: self._free].reshape(-1, kinds), 0.0, None)
        part[part < 1e-12] = 0.0
        part /= part.sum(axis=1, keepdims=True)
        p = self.posterior[self.live]
        table = np.tile((p @ part) / p.sum(), (len(self.posterior), 1))
        table[self.live] = part
        achieved = guess_errors(self.assignments, self.posterior, table, self.adversary)
        short = targets - achieved
        if (short > 0).any():
            room = self.ceilings - achieved
            with np.errstate(divide="ignore", invalid="ignore"):
                needed = np.where(short > 0, short / room, 0.0)
            mix = float(np.nan_to_num(needed, nan=1.0, posinf=1.0).max()) * (1 + 1e-9)
            if mix > _LARGEST_REPAIR:
                # the demand is all that the scores leave: what is missing stays missing, and is not promised
                if float(short.max()) > _LARGEST_MISS:
                    raise SolverFailed(f"the solver's answer misses the demand by {float(short.max()):.2g}")
                mix = 0.0
            constant = np.zeros(kinds)
            constant[int((self.posterior @ self.errors).argmin())] = 1.0
            table = (1 - mix) * table + mix * constant
        return self._achieved(table, slope)

    def _achieved(self, table: Floats, slope: float) -> Solution:
        caught = guess_errors(self.assignments, self.posterior, table, self.adversary)
        return Solution(table, float((self.posterior[:, None] * table * self.errors).sum()), caught, slope)
