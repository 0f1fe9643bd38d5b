"""Shares of a population from counts of randomized reports: maximum likelihood in the simplex, and score intervals.

A mechanism is a response matrix: ``matrix[answer, report]`` is the probability of a report for an answer. Reports that
were made with several matrices (people who chose different epsilons) are blocks of rows, one row per report of one
matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from peerveil.core.arrays import Floats, Ints
from peerveil.core.lazy import nnls, stdtrit

if TYPE_CHECKING:
    from peerveil.truth.shares_subsets import SubsetRows

_STEPS: Final = 200
_HALVINGS: Final = 40
_GAP: Final = 1e-10  # how far the log-likelihood per report may be below its maximum
_RIDGE: Final = 1e-12  # of a Hessian, so that it has a Cholesky factor where classes were never seen
_FLOOR: Final = 1e-300


@dataclass(frozen=True, eq=False)
class ReportCounts:
    """All that estimates of shares need to know about reports: sums by row, a row being one report of one matrix.

    Attributes
    ----------
    likelihood
        One row per report of one matrix, one column per class: the probability of this report for this answer.
    total
        The sum of the weights of the reports in each row; without weights their number.
    cross
        For each two rows, the sum over people of the product of the person's weights in both: all that intervals by
        person need. Where everybody sent one report only its diagonal, the sum of the squares of the weights.
    block
        The number of the matrix that each row belongs to.
    reports, people
        How many reports came, from how many people.
    most
        How many reports the busiest person sent.
    subsets
        Where reports name several classes: these, the rows being those that came. If people sent several, ``cross`` then
        has a row for each matrix and class, among which the weight of a report is shared.
    """

    likelihood: Floats
    total: Floats
    cross: Floats
    block: Ints
    reports: int
    people: int
    most: int = 1
    subsets: SubsetRows | None = None

    @classmethod
    def of(cls, matrices: Sequence[Floats], counts: Sequence[Floats]) -> ReportCounts:
        """Unweighted counts of reports, one report per person, for each matrix.

        >>> counts = ReportCounts.of([np.array([[0.75, 0.25], [0.25, 0.75]])], [np.array([60.0, 40.0])])
        >>> counts.people, maximum_likelihood(counts.likelihood, counts.total).round(4).tolist()
        (100, [0.7, 0.3])
        """
        total = np.concatenate([np.asarray(count, dtype=np.float64) for count in counts])
        block = np.repeat(np.arange(len(matrices)), [matrix.shape[1] for matrix in matrices])
        people = int(total.sum())
        return cls(np.vstack([matrix.T for matrix in matrices]), total, total, block, people, people)

    @property
    def mix(self) -> Floats:
        """The share of the reports that each matrix made."""
        return np.asarray(np.bincount(self.block, self.total) / self.total.sum())

    @property
    def is_complete(self) -> bool:
        """Whether there is one matrix, with a row for every report that could have come, as many as classes."""
        return self.subsets is None and self.likelihood.shape[0] == self.likelihood.shape[1]

    @property
    def is_simple(self) -> bool:
        """Whether everybody sent one report, and all weigh the same."""
        return self.cross.ndim == 1 and bool(np.array_equal(self.cross, self.total))


def maximum_likelihood(likelihood: Floats, total: Floats) -> Floats:
    """The shares in the simplex under which the reports are likeliest.

    Newton steps with x >= 0 on F(x) = sum of w log(L x) - sum of x, w being the shares of the rows. F is concave, and
    its maximum has sum 1: along c x its slope at c = 1 is 1 - sum of x. With A = diag(sqrt(w) / L x) L the gradient is
    g - 1, g = A' sqrt(w), and the Hessian -A'A = -R'R, so that the best point of the quadratic model is that of
    non-negative least squares, R y = R'^-1 (2 g - 1), as A x = sqrt(w). For shares, the log-likelihood per report is at
    most max(g) - 1 below its maximum.

    >>> maximum_likelihood(np.array([[0.75, 0.25], [0.25, 0.75]]), np.array([10.0, 90.0])).tolist()  # 10% < 25%
    [0.0, 1.0]
    """
    k = likelihood.shape[1]
    weight = total / total.sum()
    if likelihood.shape[0] == k and np.allclose(likelihood.sum(axis=0), 1):  # every report that could have come
        direct = np.linalg.lstsq(likelihood, weight, rcond=None)[0]
        if direct.min() >= 0:  # the reports' own shares can be explained: nothing is likelier
            return np.asarray(direct / direct.sum())
    nonzero = weight > 0
    likelihood, weight = likelihood[nonzero], weight[nonzero]
    root, shares = np.sqrt(weight), np.full(k, 1 / k)
    value = _objective(likelihood, weight, shares)
    for _ in range(_STEPS):
        scaled = likelihood * (root / np.maximum(likelihood @ shares, _FLOOR))[:, None]
        gradient = scaled.T @ root
        if gradient.max() - 1 < _GAP:
            break
        hessian = scaled.T @ scaled
        factor = np.linalg.cholesky(hessian + _RIDGE * np.trace(hessian) * np.eye(k))
        # the ridge belongs to the model of the step, not to the objective
        linear = 2 * gradient - 1 + _RIDGE * np.trace(hessian) * shares
        step = nnls(factor.T, np.linalg.solve(factor, linear))[0] - shares
        length = 1.0
        for _ in range(_HALVINGS):
            new = _objective(likelihood, weight, shares + length * step)
            if new >= value:
                break
            length /= 2
        else:
            break  # no step is better: the maximum, as far as floating-point numbers can tell
        shares, value = np.maximum(shares + length * step, 0), new
    return np.asarray(shares / shares.sum())


def _objective(likelihood: Floats, weight: Floats, shares: Floats) -> float:
    return float(weight @ np.log(np.maximum(likelihood @ shares, _FLOOR)) - shares.sum())


@dataclass(frozen=True, eq=False)
class LinearEstimate:
    """Unbiased estimates of linear functions of the shares, with the variance that they have under any shares.

    An estimate is the mean of ``influence[report]`` over the reports. Its influence is that of an efficient estimate
    (Fisher scoring at the shares of maximum likelihood), so that its variance is the Cramér–Rao limit of the channel.

    Attributes
    ----------
    value
        The estimates, one per function: unbiased, and possibly outside the range of what is estimated.
    second
        ``second[f, answer]``: the mean square of the influence for an answer, over the matrices.
    first
        ``first[matrix, f, answer]``: the mean of the influence for an answer with one matrix.
    mix
        The share of the reports that each matrix made.
    effective
        For each function, how many independent reports of equal weight would have the variance.
    freedom
        Degrees of freedom of the intervals: one less than there are people. Without it, intervals for 50 people hold in
        93.5% of the cases at a share of one half; from 1,000 people on it does not matter.
    influence
        The influence of each row's report on each estimate.
    """

    value: Floats
    second: Floats
    first: Floats
    mix: Floats
    effective: Floats
    freedom: int
    influence: Floats

    @classmethod
    def of(cls, counts: ReportCounts, shares: Floats, functions: Floats | None = None) -> LinearEstimate:
        """Estimates of ``functions`` (one row each, one column per class; by default every class's share) around the shares."""
        rows, mix = counts.likelihood, counts.mix
        if counts.subsets is not None:
            return cls._of_subsets(counts, counts.subsets, shares, functions)
        precise = rows / np.maximum(rows @ shares, 1e-12)[:, None]  # L / q
        information = (mix[counts.block][:, None] * precise).T @ rows
        scores = np.linalg.lstsq(information, precise.T, rcond=None)[0]
        influence: Floats = np.asarray(scores if functions is None else functions @ scores, dtype=np.float64)
        blocks = range(mix.size)
        inside = [counts.block == block for block in blocks]
        first = np.stack([influence[:, rows_] @ rows[rows_] for rows_ in inside])
        second = sum(mix[b] * (influence[:, inside[b]] ** 2) @ rows[inside[b]] for b in blocks)
        value = influence @ counts.total / counts.total.sum()
        effective, freedom = _effective(counts, influence), max(counts.people - 1, 1)
        return cls(value, np.asarray(second), first, mix, effective, freedom, influence)

    @classmethod
    def _of_subsets(
        cls, counts: ReportCounts, subsets: SubsetRows, shares: Floats, functions: Floats | None
    ) -> LinearEstimate:
        """The same where reports name several classes: from how often each is named, a binary report for each class."""
        values: Floats = subsets.values(shares, counts.mix)
        values = values if functions is None else np.asarray(functions @ values)
        influence = subsets.of_reports(values)
        first, second = subsets.moments(values)
        value = influence @ counts.total / counts.total.sum()
        effective, freedom = _effective(counts, influence, values), max(counts.people - 1, 1)
        mean_square = np.tensordot(counts.mix, second, axes=1)
        return cls(value, mean_square, first, counts.mix, effective, freedom, influence)

    def variance(self, shares: Floats) -> Floats:
        """The variance of one report's influence under these shares, for every function."""
        return np.asarray(self.second @ shares - self.mix @ (self.first @ shares) ** 2)

    def quantile(self, level: float) -> float:
        """How many standard errors an interval of this level extends to both sides."""
        return float(stdtrit(self.freedom, (1 + level) / 2))


def _effective(counts: ReportCounts, influence: Floats, values: Floats | None = None) -> Floats:
    """The effective number of reports of every estimate.

    The variance by person is sum over people of (sum of w e)^2 / (sum of w)^2, with w the weights and e the influence
    less its mean; that of as many independent reports of equal weight is the mean of e^2 by their number. The design
    effect is their ratio, at least 1. Of reports that name several classes, the cross sums are those of ``values``.
    """
    if counts.is_simple:
        return np.full(len(influence), float(counts.reports))
    means = np.stack([_mean(counts.total, influence, counts.block == block) for block in range(counts.block.max() + 1)])
    centered = influence - means[counts.block].T
    weight = counts.total.sum()
    spread = (centered**2) @ counts.total / weight
    if counts.cross.ndim == 1:
        by_person = (centered**2) @ counts.cross / weight**2
    else:
        if values is not None:  # a report's influence is the mean of the values of its classes, and so is its deviation
            centered = values - np.repeat(means, values.shape[1] // len(means), axis=0).T
        by_person = ((centered @ counts.cross) * centered).sum(axis=1) / weight**2
    by_person *= counts.people / max(counts.people - 1, 1)
    # of reports that are all equal, only the weights tell
    known = counts.cross.sum() / weight**2
    design = np.where(spread > 0, by_person / np.where(spread > 0, spread, 1), known) * counts.reports
    return np.asarray(counts.reports / np.maximum(design, 1))


def _mean(total: Floats, influence: Floats, inside: np.ndarray) -> Floats:
    weight = total[inside].sum()
    return np.asarray(influence[:, inside] @ total[inside] / weight if weight > 0 else np.zeros(len(influence)))


def score_intervals(estimate: LinearEstimate, shares: Floats, level: float) -> tuple[Floats, Floats]:
    """An interval for every class's share, by inverting the score test: Wilson's interval, pushed through the channel.

    A value v of the share of class a is in the interval if n (x - v)^2 <= z^2 var(v), with x the unbiased estimate and
    var(v) the variance if the share is v and the others keep their proportions: a polynomial of degree 2 in v. For
    k-ary response this is Wilson's interval for the frequency of the report, solved for the share.

    If x is outside [0, 1], c being the nearest end, the test compares v with c, as a likelihood ratio would: n (x -
    v)^2 / var(v) may be z^2 larger than n (x - c)^2 / var(c). The interval is then never empty, and covers more often
    than the level, not less.

    >>> matrix = np.array([[0.75, 0.25], [0.25, 0.75]])
    >>> counts = ReportCounts.of([matrix], [np.array([60.0, 40.0])])
    >>> shares = maximum_likelihood(counts.likelihood, counts.total)
    >>> low, high = score_intervals(LinearEstimate.of(counts, shares), shares, 0.95)
    >>> wilson = (0.50078928, 0.69163476)  # of 60 in 100, with the quantile of Student's t for 99 degrees of freedom
    >>> [round(2 * (end - 0.25), 4) for end in wilson], [round(float(end[0]), 4) for end in (low, high)]
    ([0.5016, 0.8833], [0.5016, 0.8833])
    """
    k = len(shares)
    rest = np.tile(shares, (k, 1))
    np.fill_diagonal(rest, 0)
    mass = rest.sum(axis=1, keepdims=True)
    even = (1 - np.eye(k)) / (k - 1)
    rest = np.where(mass > 1e-12, rest / np.where(mass > 1e-12, mass, 1), even)
    # var(v) = s0 + s1 v - sum over matrices of mix (m0 + m1 v)^2
    s0 = np.einsum("ab,ab->a", estimate.second, rest)
    s1 = np.diag(estimate.second) - s0
    m0 = np.einsum("gab,ab->ga", estimate.first, rest)
    m1 = np.einsum("gaa->ga", estimate.first) - m0
    c0, c1, c2 = s0 - estimate.mix @ m0**2, s1 - 2 * estimate.mix @ (m0 * m1), -(estimate.mix @ m1**2)
    x, n = estimate.value, estimate.effective
    inside = np.clip(x, 0, 1)
    variance = np.maximum(c0 + c1 * inside + c2 * inside**2, _FLOOR)
    z2 = estimate.quantile(level) ** 2 / n + (x - inside) ** 2 / variance
    # (x - v)^2 = z2 var(v), solved for v
    a, b, c = 1 - z2 * c2, -2 * x - z2 * c1, x**2 - z2 * c0
    root = np.sqrt(np.maximum(b**2 - 4 * a * c, 0))
    low, high = ((-b + sign * root) / (2 * a) for sign in (-1, 1))
    # whoever joins shares and intervals in one picture must find the one inside the other
    return np.minimum(np.clip(low, 0, 1), shares), np.maximum(np.clip(high, 0, 1), shares)


def difference_interval(
    first: tuple[float, float, float], second: tuple[float, float, float]
) -> tuple[float, float, float]:
    """The difference of two independent estimates, from the intervals of both (Newcombe 1998, method 10).

    >>> [round(value, 4) for value in difference_interval((0.7, 0.5962, 0.7872), (0.6, 0.3869, 0.7812))]
    [0.1, -0.1088, 0.3303]
    """
    (p, low, high), (q, least, most) = first, second
    return p - q, p - q - float(np.hypot(p - low, most - q)), p - q + float(np.hypot(high - p, q - least))
