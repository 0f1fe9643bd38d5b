"""Two randomized questions together: their joint shares, whether they are independent, and how strongly they are associated."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.lazy import brentq, chdtrc, chndtr
from peerveil.data.table import plural
from peerveil.truth.shares import Interval, SharesBase, check_level
from peerveil.truth.shares_counts import codes_of
from peerveil.truth.shares_figures import draw_cross
from peerveil.truth.shares_fit import LinearEstimate, ReportCounts, maximum_likelihood, score_intervals
from peerveil.truth.shares_read import open_reports

if TYPE_CHECKING:
    from ibis.backends import BaseBackend

    from peerveil.core.arrays import Floats
    from peerveil.core.exact import Number

_MOST_CELLS: Final = 400


@dataclass(frozen=True, kw_only=True, eq=False)
class CrossTable(SharesBase):
    """The joint shares of two questions.

    Attributes
    ----------
    first, second
        The columns; ``first_classes`` are the rows of the arrays, ``second_classes`` their columns.
    shares, lower, upper
        The joint shares (they add up to 1) with the ends of each interval.
    statistic, freedom, pvalue
        The test that the answers to the two questions are independent.
    association
        For two questions with two classes each the correlation (phi, from -1 to 1), else Cramér's V (from 0 to 1), with
        its interval.
    """

    first: str
    second: str
    first_classes: tuple[Any, ...]
    second_classes: tuple[Any, ...]
    shares: Floats
    lower: Floats = field(repr=False)
    upper: Floats = field(repr=False)
    statistic: float
    freedom: int
    pvalue: float
    association: Interval
    level: float
    people: int
    most: int
    epsilon: Fraction | None
    doubt: str | None = None

    def frame(self) -> pl.DataFrame:
        """One row per pair of classes: the joint share and the ends of its interval."""
        pairs = [(a, b) for a in self.first_classes for b in self.second_classes]
        columns = {self.first: [str(a) for a, _ in pairs], self.second: [str(b) for _, b in pairs]}
        if self.first == self.second:
            raise BadInput("second", got=self.second, want="another column than the first")
        return pl.DataFrame(
            {**columns, "share": self.shares.ravel(), "lower": self.lower.ravel(), "upper": self.upper.ravel()}
        )

    def summary(self) -> str:
        """The association with its interval, and the test, in one line."""
        name = "correlation" if self.shares.shape == (2, 2) else "Cramér's V"
        value = self.association
        digits = "< 0.001" if self.pvalue < 0.001 else f"= {self.pvalue:.3f}"
        return (
            f"{name} of {self.first} and {self.second}: {value.value:.2f} [{value.lower:.2f}, {value.upper:.2f}]; independent "
            f"answers: p {digits} ({plural(self.people, 'person', 'people')})"
        )

    draw = draw_cross


def cross_table(
    reports: Any,
    *,
    first: str,
    second: str,
    epsilon: Number | None,
    classes: int | Sequence[Hashable],
    second_classes: int | Sequence[Hashable] | None = None,
    second_epsilon: Number | None = None,
    level: float = 0.95,
    people: str | None = None,
    task: Any = None,
    engine: str = "memory",
    connection: BaseBackend | None = None,
) -> CrossTable:
    """Estimate the joint shares of two questions, each randomized by itself, from a table with one row per person.

    Parameters
    ----------
    reports
        A frame, a file or an Ibis table with a column for each question.
    first, second
        The two columns.
    epsilon, classes
        Of the first question, and of the second unless that has ``second_epsilon`` or ``second_classes``.

    Other parameters are those of :func:`peerveil.truth.shares.estimate_shares`.

    Notes
    -----
    Both answers are randomized independently, so that the matrix of a pair of reports is the Kronecker
    product of the two. If the answers are independent, so are the reports, and the other way round, since both matrices
    can be inverted: the test of independence is Pearson's on the table of reports, and its level needs no correction.
    For k-ary response the joint distribution of the reports deviates from the product of its margins by c1 c2 times the
    deviation of the answers, c being keep - other of each response: that carries an interval of the reports'
    noncentrality over to Cramér's V of the answers. A correlation has the delta method's interval on Fisher's scale.

    Examples
    --------
    >>> table = {"smokes": [1, 1, 0, 0] * 50, "drinks": [1, 1, 0, 1] * 50}
    >>> result = cross_table(table, first="smokes", second="drinks", epsilon=3, classes=2)
    >>> result.shares.round(2).tolist()
    [[0.25, 0.24], [0.0, 0.51]]
    """
    check_level(level)
    if first == second:
        raise BadInput("second", got=second, want="another column than the first")
    settings: dict[str, Any] = {"people": people, "task": task, "engine": engine, "connection": connection}
    other: dict[str, Any] = {
        "epsilon": epsilon if second_epsilon is None else second_epsilon,
        "classes": second_classes or classes,
    }
    opened = open_reports(
        reports, epsilon=epsilon, classes=classes, extra=[second], columns={"label": first}, **settings
    )
    with opened as (source, question):
        if source.person is not None and int(source.people()["most"][0]) > 1:
            got = Verbatim(f"{source.people()['most'][0]:,} rows of one person")
            raise BadInput("reports", got=got, want="one row per person, with a column for each question")
        sums = source.sums("label", second)
    with open_reports({"label": sums[second]}, **other) as (_, asked):
        pass
    if question.epsilon is None or asked.epsilon is None:
        raise BadInput("epsilon", got=epsilon, want="one epsilon for each question")
    k, m = len(question.classes), len(asked.classes)
    if k * m > _MOST_CELLS:
        raise BadInput(
            "classes", got=Verbatim(f"{k} times {m} classes"), want=f"at most {_MOST_CELLS} pairs of classes"
        )
    table = np.zeros((k, m))
    np.add.at(table, (codes_of(sums["label"], question), codes_of(sums[second], asked)), sums["_w"].to_numpy())
    matrices = question.matrix(None), asked.matrix(None)
    counts = ReportCounts.of([np.asarray(np.kron(*matrices), dtype=np.float64)], [table.ravel()])
    shares = maximum_likelihood(counts.likelihood, counts.total)
    estimate = LinearEstimate.of(counts, shares)
    lower, upper = score_intervals(estimate, shares, level)
    statistic, freedom = _independence(table)
    joint = shares.reshape(k, m)
    return CrossTable(
        guarantee=question.guarantee,
        first=first,
        second=second,
        first_classes=question.classes,
        second_classes=asked.classes,
        shares=joint,
        lower=lower.reshape(k, m),
        upper=upper.reshape(k, m),
        statistic=statistic,
        freedom=freedom,
        pvalue=float(chdtrc(freedom, statistic)) if freedom else 1.0,
        association=(
            _correlation(counts, estimate, level)
            if joint.shape == (2, 2)
            else _association(table, joint, matrices, statistic, freedom, level)
        ),
        level=float(level),
        people=counts.people,
        most=2,  # a person sent two reports
        epsilon=max(question.epsilon, asked.epsilon),
    )


def _independence(table: Floats) -> tuple[float, int]:
    """Pearson's statistic of independence, and its degrees of freedom."""
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    return float(((table - expected) ** 2 / expected).sum()), (table.shape[0] - 1) * (table.shape[1] - 1)


def _correlation(counts: ReportCounts, estimate: LinearEstimate, level: float) -> Interval:
    """The correlation of two answers of two classes, with its interval: the delta method on Fisher's scale.

    With P the unbiased joint shares, p and q the shares of the second classes and D = P11 - p q, the correlation is phi
    = D / s, s = sqrt(p (1 - p) q (1 - q)). Its influence is that of D by s, less phi times that of log s. Where the
    reports leave no share for one of the classes, or no correlation between -1 and 1, nothing is known.
    """
    p, q, both = estimate.value[2] + estimate.value[3], estimate.value[1] + estimate.value[3], estimate.value[3]
    if not (0 < p < 1 and 0 < q < 1):
        return Interval(0.0, -1.0, 1.0)
    size = math.sqrt(p * (1 - p) * q * (1 - q))
    phi = (both - p * q) / size
    if abs(phi) >= 1:
        return Interval(math.copysign(1.0, phi), -1.0, 1.0)
    dp, dq = estimate.influence[2] + estimate.influence[3] - p, estimate.influence[1] + estimate.influence[3] - q
    dlog = (1 - 2 * p) / (2 * p * (1 - p)) * dp + (1 - 2 * q) / (2 * q * (1 - q)) * dq
    influence = (estimate.influence[3] - both - q * dp - p * dq) / size - phi * dlog
    error = math.sqrt(float(influence**2 @ counts.total) / counts.total.sum() / estimate.effective[0])
    center, half = math.atanh(phi), estimate.quantile(level) * error / (1 - phi**2)
    return Interval(phi, math.tanh(center - half), math.tanh(center + half))


def _association(
    table: Floats, joint: Floats, matrices: tuple[Floats, Floats], statistic: float, freedom: int, level: float
) -> Interval:
    """Cramér's V of the answers, with its interval."""
    n, contrast = table.sum(), math.prod(matrix[0, 0] - matrix[0, 1] for matrix in matrices)
    reports = table / n
    if freedom == 0:
        return Interval(0.0, 0.0, 1.0)
    answers = [_margin(reports.sum(axis=1 - side), matrices[side]) for side in (0, 1)]
    spread = [math.sqrt(max(float(1 - (p**2).sum()), 1e-12)) for p in answers]
    noisy = [math.sqrt(max(float(1 - (p**2).sum()), 1e-12)) for p in (reports.sum(axis=1), reports.sum(axis=0))]
    # the correlation of the answers for one of the reports: sd(report) sd(report) / (c1 c2 sd(answer) sd(answer))
    factor = noisy[0] * noisy[1] / (contrast * spread[0] * spread[1])
    rank = min(joint.shape) - 1
    low, high = (_noncentrality(statistic, freedom, tail) for tail in ((1 + level) / 2, (1 - level) / 2))
    value, low, high = (
        min(factor * math.sqrt(max(noncentral, 0.0) / (n * rank)), 1.0)
        for noncentral in (statistic - freedom, low, high)
    )
    return Interval(value, min(low, value), max(high, value))


def _margin(reports: Floats, matrix: Floats) -> Floats:
    return maximum_likelihood(matrix.T, reports)


def _noncentrality(statistic: float, freedom: int, probability: float) -> float:
    """The noncentrality under which a chi-squared statistic stays below this value with this probability; 0 if there is none."""
    if chndtr(statistic, freedom, 0.0) <= probability:
        return 0.0
    high = max(statistic, 1.0)
    while chndtr(statistic, freedom, high) > probability:
        high *= 2
    return float(brentq(lambda noncentral: chndtr(statistic, freedom, noncentral) - probability, 0.0, high))
