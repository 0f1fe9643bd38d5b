"""Shares of a population from randomized reports: how many would answer what, with intervals that hold.

:func:`estimate_shares` is for one question. :mod:`peerveil.truth.shares_groups` compares groups,
:mod:`peerveil.truth.shares_cross` joins two questions, :mod:`peerveil.truth.shares_regression` explains an answer by
other columns, :mod:`peerveil.truth.shares_plan` says beforehand how many people are needed.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import Number, number, numbers
from peerveil.core.guarantee import NOT_PRIVATE_MARK
from peerveil.data.table import plural
from peerveil.truth.guarantee import LARGEST_Z, AnswersResult, NotRandomized
from peerveil.truth.shares_counts import Question, count_by
from peerveil.truth.shares_figures import draw_shares
from peerveil.truth.shares_fit import LinearEstimate, ReportCounts, maximum_likelihood, score_intervals
from peerveil.truth.shares_read import Terms, open_reports

if TYPE_CHECKING:
    from ibis.backends import BaseBackend

    from peerveil.core.arrays import Floats
    from peerveil.core.randomness import NumberResponse, OrderedResponse

INTERVALS: Final = "Each interval holds for its own share, not for all of them at once."
HONEST: Final = (
    "Intervals assume that the people who answered are a random sample, and that their devices randomized every answer."
)


class Interval(NamedTuple):
    """An estimate with the ends of its interval."""

    value: float
    lower: float
    upper: float


class SharesBase(AnswersResult, ABC):
    """What results about shares have in common: a table, and whether the reports can have been randomized."""

    doubt: str | None
    most: int
    epsilon: Fraction | None

    @property
    def mark(self) -> str | None:
        """The words that must stand beside this result: "not private" too where the reports were not randomized."""
        return super().mark or (None if self.doubt is None else NOT_PRIVATE_MARK)

    @property
    def _busiest(self) -> tuple[int, Fraction | None]:
        return self.most, self.epsilon

    @abstractmethod
    def frame(self) -> pl.DataFrame:
        """The estimates as a table."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SharesResult(SharesBase):
    """The shares of the answers in a population, each with an interval.

    Attributes
    ----------
    classes
        The possible answers; everything about classes is in this order.
    shares
        The likeliest shares: at least 0, with sum 1.
    lower, upper
        The ends of each share's interval.
    standard_errors
        Of the shares, if they were not limited to 0 and 1.
    level
        How often each interval holds its share: of all classes at once if ``simultaneous``, else of each by itself.
    unlimited
        Unbiased estimates, which may be below 0 or above 1: for sums over groups and for comparison with other
        programs.
    mean
        The mean of the classes' scores with its interval, where the classes have scores.
    reports, people, most
        How many reports came, from how many people, and from the busiest.
    effective
        How many independent reports of equal weight would give intervals as wide, on average over the classes.
    epsilon
        Of one report; ``None`` if people chose their own.
    doubt
        Why the reports cannot have been randomized with this epsilon, in words; ``None`` if nothing speaks against it.
    are_levels
        Whether the classes are levels that numbers were rounded to at random: only the mean then says something.
    """

    classes: tuple[Any, ...]
    shares: Floats
    lower: Floats
    upper: Floats
    standard_errors: Floats
    level: float
    simultaneous: bool
    unlimited: Floats = field(repr=False)
    mean: Interval | None
    reports: int
    people: int
    most: int
    effective: float
    epsilon: Fraction | None
    doubt: str | None = None
    are_levels: bool = False

    def frame(self) -> pl.DataFrame:
        """One row per class: its share, the ends of its interval, and its standard error; of numbers the mean alone."""
        if self.are_levels and self.mean is not None:
            return pl.DataFrame([self.mean], schema=["mean", "lower", "upper"], orient="row")
        labels = {"class": list(map(str, self.classes)) if isinstance(self.classes[0], bool) else list(self.classes)}
        columns = {name: getattr(self, name) for name in ("shares", "lower", "upper", "standard_errors")}
        named = {"share": columns["shares"], "lower": columns["lower"], "upper": columns["upper"]}
        return pl.DataFrame({**labels, **named, "standard_error": columns["standard_errors"]})

    def share(self, answer: Hashable) -> Interval:
        """The share of one class with its interval.

        >>> result = estimate_shares([1] * 60 + [0] * 40, epsilon=2, classes=2)
        >>> [round(value, 2) for value in result.share(1)]
        [0.63, 0.5, 0.75]
        """
        if answer not in self.classes:
            raise BadInput("answer", got=answer, want=f"one of the classes {list(self.classes)}")
        place = self.classes.index(answer)
        return Interval(*(float(values[place]) for values in (self.shares, self.lower, self.upper)))

    def summary(self) -> str:
        """The largest shares with their intervals (of numbers the mean), in one line."""
        mean = "" if self.mean is None else "mean {:.3g} [{:.3g}, {:.3g}]".format(*self.mean)
        people = f"({plural(self.people, 'person', 'people')})"
        if self.are_levels:
            return f"{mean} {people}"
        order = np.argsort(-self.shares, kind="stable")[:_SHOWN]
        parts = [f"{self.classes[i]} {_percent(Interval(self.shares[i], self.lower[i], self.upper[i]))}" for i in order]
        more = "" if len(self.classes) <= _SHOWN else f", and {len(self.classes) - _SHOWN} more"
        return f"{', '.join(parts)}{more}{'; ' if mean else ''}{mean} {people}"

    draw = draw_shares


_SHOWN: Final = 5


def _percent(interval: Interval) -> str:
    return f"{100 * interval.value:.1f}% [{100 * interval.lower:.1f}, {100 * interval.upper:.1f}]"


def estimate_shares(
    reports: Any,
    *,
    epsilon: Number | None = None,
    classes: int | Sequence[Hashable] | None = None,
    level: float = 0.95,
    simultaneous: bool = False,
    scores: Mapping[Any, float] | Sequence[float] | bool | None = None,
    weights: Any = None,
    margins: Mapping[str, Mapping[Any, float]] | None = None,
    people: Any = None,
    columns: Mapping[str, str] | None = None,
    task: Any = None,
    engine: str = "memory",
    connection: BaseBackend | None = None,
    response: OrderedResponse | NumberResponse | None = None,
) -> SharesResult:
    """Estimate which share of a population would give each answer, from reports that were randomized on each person's device.

    Parameters
    ----------
    reports
        The reports: an array, list or series; a table, file (or pattern such as ``poll/*.parquet``) or Ibis table with
        a column ``label``; Labels; or randomized answers of this module, which state epsilon and classes themselves. A
        report may be a list of classes (a subset response); all with one epsilon then name equally many.
    epsilon
        With which each answer was randomized. Where people chose their own, leave it out: the table then has a column
        ``epsilon``.
    classes
        The possible answers, or how many there are.
    level
        How often an interval shall hold its share.
    simultaneous
        Whether the level is for the intervals of all classes at once (Bonferroni).
    scores
        The numbers that the classes stand for, to estimate their mean; ``True`` if the classes are numbers themselves.
    weights
        A weight for each report, or the column that holds it, where people who answered stand for different numbers of
        others.
    margins
        Known shares of the population by public columns, ``{"age": {"young": 0.4, "old": 0.6}}``: weights are computed
        from them.
    people
        Who sent each report, or the column that says it (by default ``worker``, if there is one). Several reports of
        one person are not independent: intervals are then by person.
    columns
        Names of the columns label, worker and epsilon, where they differ: ``{"label": "vote"}``.
    task
        In a table with several tasks: the one whose reports to use. By default shares are of the answers to all tasks.
    engine
        ``"memory"``, ``"duckdb"`` or ``"spark"``: where reports are counted.
    connection
        An Ibis connection to use, such as one to a Spark cluster.
    response
        For reports of a scale or of bounded numbers: the :class:`~peerveil.core.randomness.OrderedResponse` or
        :class:`~peerveil.core.randomness.NumberResponse` that made them, in place of epsilon and classes. Classes of
        numbers are the levels that they were rounded to; their ``mean`` is that of the numbers.

    Notes
    -----
    Reports are public, and this is computed from them alone: no privacy is spent (post-processing).

    Shares are those of maximum likelihood in the simplex (:func:`peerveil.truth.shares_fit.maximum_likelihood`).
    Intervals invert the score test, Wilson's interval pushed through the channel
    (:func:`peerveil.truth.shares_fit.score_intervals`). They always hold the estimate, and are within 5% of the
    Cramér–Rao limit from 1,000 people on (``python -m benchmarks.truth_shares``). Where reports name several classes,
    the interval of a class is that of the binary report whether it is named.

    Examples
    --------
    A poll of 1,000 people of whom 300 would say yes, randomized at epsilon 1:

    >>> from peerveil import Randomness
    >>> from peerveil.truth import randomize
    >>> answers = ["yes"] * 300 + ["no"] * 700
    >>> sent = randomize(answers, epsilon=1, classes=["yes", "no"], randomness=Randomness.simulation(2))
    >>> result = estimate_shares(sent, epsilon=1, classes=["yes", "no"])
    >>> print(result.summary())
    no 67.1% [60.4, 73.6], yes 32.9% [26.4, 39.6] (1,000 people)
    """
    check_level(level)
    terms: Terms = {
        "epsilon": epsilon, "classes": classes, "weights": weights, "margins": margins, "people": people, "columns": columns,
        "task": task, "engine": engine, "connection": connection, "response": response,
    }  # fmt: skip
    with open_reports(reports, lists=True, **terms) as (source, question):
        counts = count_by(source, question)[None]
    result = shares_of(counts, question, level=level, simultaneous=simultaneous, scores=scores)
    if result.doubt is not None:
        warnings.warn(result.doubt, NotRandomized, stacklevel=2)
    return result


def check_level(level: float) -> float:
    """The level of an interval, strictly between 0 and 1."""
    return number(level, "level", 1e-9, 1 - 1e-9, want="a number between 0 and 1, such as 0.95")


def shares_of(
    counts: ReportCounts, question: Question, *, level: float, simultaneous: bool = False, scores: Any = None
) -> SharesResult:
    """The result for counts of reports."""
    shares = maximum_likelihood(counts.likelihood, counts.total)
    estimate = LinearEstimate.of(counts, shares)
    each = 1 - (1 - level) / len(shares) if simultaneous else level
    lower, upper = score_intervals(estimate, shares, each)
    variance = estimate.variance(np.clip(shares, 0, 1))
    values = read_scores(True if question.are_levels else scores, question.classes)
    return SharesResult(
        guarantee=question.guarantee,
        classes=question.classes,
        shares=shares,
        lower=lower,
        upper=upper,
        standard_errors=np.sqrt(np.maximum(variance, 0) / estimate.effective),
        level=float(level),
        simultaneous=bool(simultaneous),
        unlimited=estimate.value,
        mean=None if values is None else mean_of(counts, shares, values, level),
        reports=counts.reports,
        people=counts.people,
        most=counts.most,
        effective=float(estimate.effective.mean()),
        epsilon=question.epsilon,
        doubt=shares_doubt(estimate, question),
        are_levels=question.are_levels,
    )


def read_scores(scores: Any, classes: Sequence[Any]) -> Floats | None:
    """The score of each class; None if the classes have none."""
    if scores is None or scores is False:
        return None
    want = f"a finite number for each of the {len(classes)} classes, at least two of them different (True: the classes)"
    if scores is True:
        listed: Any = classes
    elif isinstance(scores, Mapping):
        if missing := [name for name in classes if name not in scores]:
            raise BadInput("scores", got=Verbatim(f"no score for {missing[0]!r}"), want=want)
        listed = [scores[name] for name in classes]
    else:
        listed = scores
    if isinstance(listed, str) or any(isinstance(value, (bool, str)) for value in listed):
        raise BadInput("scores", got=list(listed), want=want)
    values = numbers(listed, "scores", dimensions=(1,), want=want)
    if values.size != len(classes) or np.ptp(values) == 0:
        raise BadInput("scores", got=list(listed), want=want)
    return np.asarray(values, dtype=np.float64)


def mean_of(counts: ReportCounts, shares: Floats, scores: Floats, level: float) -> Interval:
    """The mean of the scores: of the shares of maximum likelihood, with the interval of its unbiased estimate.

    With x the unbiased estimate and c the nearest possible mean, the interval is x plus or minus sqrt(z^2 v + (x -
    c)^2), v being the variance of x: as for shares, it is never empty. It is cut at the lowest and the highest score.
    """
    estimate = LinearEstimate.of(counts, shares, scores[None, :])
    x, low, high = float(estimate.value[0]), float(scores.min()), float(scores.max())
    variance = max(float(estimate.variance(shares)[0]), 0.0) / float(estimate.effective[0])
    half = math.sqrt(estimate.quantile(level) ** 2 * variance + (x - min(max(x, low), high)) ** 2)
    mean = float(shares @ scores)
    return Interval(mean, min(max(x - half, low), mean), max(min(x + half, high), mean))


def shares_doubt(estimate: LinearEstimate, question: Question) -> str | None:
    """Why reports cannot have been randomized with this epsilon, in words; ``None`` if nothing speaks against it.

    A share below 0 or above 1 by more than 6 standard errors: no answers give such reports. Raw answers of which almost
    all are equal are noticed, others are not.
    """
    inside = np.clip(estimate.value, 0, 1)
    # under share c of a class, whatever the others are, the variance of its estimate is that of the channel
    k = len(inside)
    variances = []
    for a in range(k):
        shares = np.full(k, (1 - inside[a]) / max(k - 1, 1))
        shares[a] = inside[a]
        variances.append(float(estimate.variance(shares)[a]))
    error = np.sqrt(np.maximum(variances, 1e-300) / estimate.effective)
    worst = int(np.argmax(np.abs(estimate.value - inside) / error))
    if abs(estimate.value[worst] - inside[worst]) <= LARGEST_Z * error[worst]:
        return None
    at = "these epsilons" if question.epsilon is None else f"epsilon {question.epsilon}"
    return (
        f"these do not look randomized at {at}: the reports would mean that {100 * estimate.value[worst]:.0f}% answer "
        f"{question.classes[worst]!r}. If these are raw answers, nothing protects them and the shares are wrong"
    )
