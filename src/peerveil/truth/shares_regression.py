"""Logistic regression on a randomized answer: how the odds of an answer depend on public columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Unpack

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.lazy import expit, ndtr, ndtri
from peerveil.data.table import plural
from peerveil.truth.shares import SharesBase, check_level
from peerveil.truth.shares_counts import Question, ReportSource, codes_of, matching
from peerveil.truth.shares_figures import draw_coefficients
from peerveil.truth.shares_read import Terms, open_reports

if TYPE_CHECKING:
    from peerveil.core.arrays import Floats

_STEPS: Final = 200
_HALVINGS: Final = 30
_TOLERANCE: Final = 1e-10
_LARGEST: Final = 15.0  # log odds beyond which a share is 0 or 1 for every purpose
_MOST_LEVELS: Final = 50


@dataclass(frozen=True, kw_only=True, eq=False)
class ShareRegression(SharesBase):
    """How the odds of an answer depend on other columns.

    Attributes
    ----------
    answer
        The class whose odds are explained; against all others together.
    names
        Of the coefficients: ``intercept``, the numeric columns, and for other columns each value but the first.
    coefficients, standard_errors, lower, upper, pvalues
        Log odds ratios, their standard errors (from the observed information), intervals, and tests that they are 0.
    log_likelihood
        Of the reports, at the maximum.
    """

    answer: Any
    names: tuple[str, ...]
    coefficients: Floats
    standard_errors: Floats
    lower: Floats
    upper: Floats
    pvalues: Floats
    covariance: Floats = field(repr=False)
    log_likelihood: float
    level: float
    people: int
    most: int
    epsilon: Fraction | None
    doubt: str | None = None

    def frame(self) -> pl.DataFrame:
        """One row per coefficient."""
        names = ("coefficients", "standard_errors", "lower", "upper", "pvalues")
        singular = ("coefficient", "standard_error", "lower", "upper", "pvalue")
        columns = {one: getattr(self, name) for one, name in zip(singular, names, strict=True)}
        return pl.DataFrame(
            {"name": list(self.names), **columns, "odds_ratio": np.exp(np.clip(self.coefficients, -700, 700))}
        )

    def summary(self) -> str:
        """The clearest odds ratios with their intervals, in one line."""
        order = [i for i in np.argsort(self.pvalues, kind="stable") if self.names[i] != "intercept"][:3]
        parts = [
            f"{self.names[i]} {np.exp(self.coefficients[i]):.2f} [{np.exp(self.lower[i]):.2f}, {np.exp(self.upper[i]):.2f}]"
            for i in order
        ]
        return f"odds ratios of {self.answer}: {', '.join(parts)} ({plural(self.people, 'person', 'people')})"

    draw = draw_coefficients


class LogisticFit(NamedTuple):
    """Coefficients of maximum likelihood, their covariance, and the log-likelihood."""

    coefficients: Floats
    covariance: Floats
    log_likelihood: float


def fit_logistic(
    design: Floats, yes: Floats, given_yes: Floats, given_no: Floats, weight: Floats, square: Floats
) -> LogisticFit:
    """Maximum likelihood of P(report) = given_no + (given_yes - given_no) logistic(x b), by Fisher scoring with step halving.

    Parameters
    ----------
    design
        One row per distinct report and columns, x.
    yes
        Whether the report is the class in question, 1 or 0.
    given_yes, given_no
        The probability of *such a report, "the class"*, if the answer is the class, and if it is not.
    weight, square
        The sum of the weights of the rows (their number), and of their squares: where they differ, the covariance is
        the sandwich.

    Notes
    -----
    With m = P(report is the class) and g = dm/d(x b) = (given_yes - given_no) s (1 - s): the score of a row
    is x (y - m) g / (m (1 - m)), its expected information x x' g^2 / (m (1 - m)), and the observed information adds -x
    x' (y - m) / (m (1 - m)) times the derivative of g less g^2 (1 - 2 m) / (m (1 - m)). The likelihood need not be
    concave, hence the halving; the covariance is the inverse of the observed information where that is positive
    definite, else of the expected one.
    """
    contrast = given_yes - given_no

    def chance(b: Floats) -> tuple[Floats, Floats]:
        share = np.asarray(expit(design @ b))
        return share, np.clip(given_no + contrast * share, 1e-300, 1 - 1e-16)

    def value(b: Floats) -> float:
        _, m = chance(b)
        return float(weight @ np.where(yes > 0, np.log(m), np.log1p(-m)))

    b = np.zeros(design.shape[1])
    current = value(b)
    for _ in range(_STEPS):
        share, m = chance(b)
        slope = contrast * share * (1 - share)
        score = design.T @ (weight * (yes - m) * slope / (m * (1 - m)))
        expected = (design * (weight * slope**2 / (m * (1 - m)))[:, None]).T @ design
        step = np.linalg.lstsq(expected, score, rcond=None)[0]
        reach = np.abs(design @ step).max()
        step *= min(1.0, 5.0 / max(reach, 1e-300))  # no log odds jump by more than 5
        length, new = 1.0, value(b + step)
        for _ in range(_HALVINGS):
            if new >= current:
                break
            length /= 2
            new = value(b + length * step)
        if new < current:
            break
        b, gain, current = b + length * step, new - current, new
        if gain < _TOLERANCE * max(1.0, abs(current)) and np.abs(length * (design @ step)).max() < 1e-7:
            break
        if np.abs(design @ b).max() > 4 * _LARGEST:
            break
    share, m = chance(b)
    slope, residual = contrast * share * (1 - share), (yes - m) / (m * (1 - m))
    curve = slope * (1 - 2 * share) - slope**2 * (1 - 2 * m) / (m * (1 - m))
    expected = (design * (weight * slope**2 / (m * (1 - m)))[:, None]).T @ design
    observed = expected - (design * (weight * residual * curve)[:, None]).T @ design
    information = observed if np.linalg.eigvalsh(observed).min() > 0 else expected
    covariance = np.asarray(np.linalg.pinv(information), dtype=np.float64)
    if not np.array_equal(weight, square):
        scores = (design * (square * (residual * slope) ** 2)[:, None]).T @ design
        covariance = covariance @ scores @ covariance
    return LogisticFit(b, covariance, current)


def logistic_regression(
    reports: Any,
    *,
    on: Sequence[str],
    answer: Any = None,
    level: float = 0.95,
    **terms: Unpack[Terms],
) -> ShareRegression:
    """Explain the odds of an answer by public columns, where only the answer was randomized.

    Parameters
    ----------
    on
        The columns: numbers are used as they are, other values each get a coefficient (against the first, in sorted
        order).
    answer
        The class whose odds are explained; by default the last one.

    Other parameters are those of :func:`peerveil.truth.shares.estimate_shares`. Intervals are estimate plus or minus z
    standard errors: for few people or small epsilon compare groups instead.

    Examples
    --------
    >>> rows = [(0, 0)] * 70 + [(0, 1)] * 30 + [(1, 0)] * 45 + [(1, 1)] * 55
    >>> table = pl.DataFrame(rows, schema=["old", "label"], orient="row")
    >>> result = logistic_regression(table, on=["old"], epsilon=3, classes=2)
    >>> result.frame().select("name", pl.col("odds_ratio").round(2)).rows()
    [('intercept', 0.39), ('old', 3.23)]
    """
    check_level(level)
    if isinstance(on, str) or not on or len(set(on)) < len(on) or "label" in on:
        raise BadInput("on", got=on, want="a list of public columns, each once, without that of the answer")
    if terms.get("response") is not None:
        want = "reports that each name a class; of scales and numbers compare groups instead"
        raise BadInput("response", got=terms["response"], want=want)
    with open_reports(reports, extra=list(on), **terms) as (source, question):
        crowd = source.people()
        if source.person is not None and int(crowd["most"][0]) > 1:
            got = Verbatim(f"{crowd['most'][0]:,} reports of one person")
            raise BadInput("reports", got=got, want="one report per person: their answers are not independent")
        sums = source.sums(*[name for name in (source.epsilon,) if name], "label", *on)
    names, design = _design(sums, on)
    answer = question.classes[-1] if answer is None else matching(answer, question.classes, "answer")
    yes = (codes_of(sums["label"], question).to_numpy() == question.classes.index(answer)).astype(float)
    given_yes, given_no = _channels(sums, source, question)
    # columns of one size: the normal equations are then as well conditioned as the data allow
    center, scale = _standard(design, sums["_w"].to_numpy())
    fit = fit_logistic(
        (design - center) / scale, yes, given_yes, given_no, sums["_w"].to_numpy(), sums["_w2"].to_numpy()
    )
    _refuse_unbounded(fit, names, (design - center) / scale)
    # b of the standardized columns: x b = sum of (x - c) / s b, the intercept being the first column
    back = np.diag(1 / scale)
    back[0] -= np.where(np.arange(len(names)) == 0, 0, center / scale)
    coefficients, covariance = back @ fit.coefficients, back @ fit.covariance @ back.T
    errors, z = np.sqrt(np.diag(covariance)), float(ndtri((1 + level) / 2))
    return ShareRegression(
        guarantee=question.guarantee,
        answer=answer,
        names=tuple(names),
        coefficients=coefficients,
        standard_errors=errors,
        lower=coefficients - z * errors,
        upper=coefficients + z * errors,
        pvalues=2 * np.asarray(ndtr(-np.abs(coefficients) / errors)),
        covariance=covariance,
        log_likelihood=fit.log_likelihood,
        level=float(level),
        people=int(crowd["people"][0]),
        most=1,
        epsilon=question.epsilon,
    )


def _design(sums: pl.DataFrame, on: Sequence[str]) -> tuple[list[str], Floats]:
    """The columns of the regression, by name: an intercept, numbers as they are, and indicators."""
    names, parts = ["intercept"], [np.ones(sums.height)]
    for name in on:
        column = sums[name]
        if column.null_count():
            raise BadInput("on", got=Verbatim(f"reports without a value of {name}"), want="a value in every row")
        numeric = _as_numbers(column)
        if numeric is not None:
            if not np.isfinite(numeric).all():
                raise BadInput("on", got=Verbatim(f"values of {name} that are not finite"), want="finite numbers")
            names.append(name)
            parts.append(numeric)
            continue
        levels = column.unique().sort().to_list()
        if len(levels) > _MOST_LEVELS:
            raise BadInput("on", got=name, want=f"a column of numbers, or with at most {_MOST_LEVELS} values")
        for value in levels[1:]:
            names.append(f"{name}={value}")
            parts.append((column == value).to_numpy().astype(float))
    design = np.column_stack(parts)
    for place in range(1, design.shape[1]):
        if np.linalg.matrix_rank(design[:, : place + 1]) <= place:
            got = Verbatim(f"{names[place]}, which the columns before it determine")
            raise BadInput("on", got=got, want="columns that vary, and of which none follows from the others")
    return names, design


def _as_numbers(column: pl.Series) -> Floats | None:
    """A column as numbers; None if it holds something else."""
    if column.dtype == pl.Boolean:
        return None
    try:
        return np.asarray(column.cast(pl.Float64, strict=True).to_numpy(), dtype=np.float64)
    except pl.exceptions.PolarsError:
        return None


def _channels(sums: pl.DataFrame, source: ReportSource, question: Question) -> tuple[Floats, Floats]:
    """The probability of a report of the class, by row: if the answer is the class, and if it is not."""
    epsilons: list[float | None] = [None] * sums.height if source.epsilon is None else sums[source.epsilon].to_list()
    pairs = {value: question.matrix(value)[:2, 0] for value in set(epsilons)}
    both = np.array([pairs[value] for value in epsilons])
    return both[:, 0], both[:, 1]


def _standard(design: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """The mean and standard deviation of every column but the intercept."""
    center = weight @ design / weight.sum()
    scale = np.sqrt(weight @ (design - center) ** 2 / weight.sum())
    center[0], scale[0] = 0.0, 1.0
    return center, np.where(scale > 0, scale, 1.0)


def _refuse_unbounded(fit: LogisticFit, names: Sequence[str], design: Floats) -> None:
    """Refuse coefficients that grow without limit: the reports say 0% or 100% somewhere."""
    errors = np.sqrt(np.maximum(np.diag(fit.covariance), 0))
    if np.abs(design @ fit.coefficients).max() <= _LARGEST and np.isfinite(errors).all():
        return
    worst = names[1 + int(np.argmax(np.abs(fit.coefficients[1:])))] if len(names) > 1 else names[0]
    want = "fewer columns or coarser values, more people, or truth.compare-groups (peerveil.truth.shares_groups)"
    got = Verbatim(
        f"reports that mean a share of 0% or 100% for some values of {worst}, so that its odds ratio has no limit"
    )
    raise BadInput("on", got=got, want=want)
