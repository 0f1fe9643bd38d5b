"""What agreement comes to: a public result without names, and each person's agreement for the operator."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import polars as pl

from peerveil.core.guarantee import NOT_PRIVATE_MARK
from peerveil.data.table import plural
from peerveil.truth.figures import draw_agreement
from peerveil.truth.guarantee import AnswersResult

if TYPE_CHECKING:
    from peerveil.core.arrays import Floats, Ints


@dataclass(frozen=True, kw_only=True, eq=False)
class Coefficient:
    """A coefficient of agreement: its estimate and interval, and what one would read off the reports without correction."""

    value: float
    lower: float
    upper: float
    standard_error: float
    of_reports: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.lower:.3f}, {self.upper:.3f}]"


@dataclass(frozen=True, kw_only=True, eq=False)
class Agreement(AnswersResult):
    """How far people agree in what they think, estimated from what they sent. It names no person.

    Attributes
    ----------
    krippendorff, fleiss, observed
        Krippendorff's alpha (nominal), Fleiss' kappa, and the share of pairs of people who agree on a task: each a
        :class:`Coefficient`. Estimates are at most 1, and intervals within -1 and 1.
    chance
        How often two people would agree by chance (as alpha counts it).
    tasks, annotators, reports
        How many tasks were answered by at least two people; how many people and reports there are in all.
    level
        Of the intervals.
    epsilon, answer_epsilon
        Of one report; ``None`` if answers were not randomized.
    most
        How many reports the busiest person sent.
    doubt
        Why the reports do not look randomized with this epsilon, in words; ``None`` if they do.
    is_for_same_people
        Whether intervals are for other tasks and the same people, since there are too few to show how much people differ;
        otherwise they are for other tasks and other people like these.
    """

    krippendorff: Coefficient
    fleiss: Coefficient
    observed: Coefficient
    chance: float
    tasks: int
    annotators: int
    reports: int
    classes: tuple[Any, ...]
    level: float
    epsilon: float | None
    answer_epsilon: Fraction | None
    most: int
    doubt: str | None = None
    is_for_same_people: bool = False

    @property
    def about_intervals(self) -> str:
        """What the intervals are for, in a sentence."""
        if self.is_for_same_people:
            return "Intervals are for other tasks and the same people: two cannot show how much people differ."
        return "Intervals are for other tasks and other people like these."

    @property
    def alpha(self) -> float:
        """Krippendorff's alpha for classes without an order."""
        return self.krippendorff.value

    @property
    def alpha_interval(self) -> tuple[float, float]:
        """The interval of alpha."""
        return self.krippendorff.lower, self.krippendorff.upper

    @property
    def kappa(self) -> float:
        """Fleiss' kappa."""
        return self.fleiss.value

    @property
    def kappa_interval(self) -> tuple[float, float]:
        """The interval of kappa."""
        return self.fleiss.lower, self.fleiss.upper

    @property
    def mark(self) -> str | None:
        """The words that must stand beside this result: "not private" too where the answers were not randomized."""
        return super().mark or (None if self.doubt is None else NOT_PRIVATE_MARK)

    @property
    def _busiest(self) -> tuple[int, Fraction | None]:
        return self.most, self.answer_epsilon

    def summary(self) -> str:
        """The finding in one line."""
        uncorrected = "" if self.epsilon is None else f" (uncorrected {self.krippendorff.of_reports:.3f})"
        return (
            f"Krippendorff's alpha {self.krippendorff}{uncorrected}, Fleiss' kappa {self.fleiss}: {100 * self.level:g}% "
            f"intervals, from {plural(self.reports, 'report')} of {plural(self.annotators, 'person', 'people')}; "
            f"{plural(self.tasks, 'task')} answered by at least two"
        )

    def __str__(self) -> str:
        return super().__str__() if self.doubt is None else f"warning: {self.doubt}\n{super().__str__()}"

    def frame(self) -> pl.DataFrame:
        """A Polars table: one row per coefficient."""
        rows = {
            "Krippendorff's alpha": self.krippendorff,
            "Fleiss' kappa": self.fleiss,
            "agreeing pairs": self.observed,
        }
        return pl.DataFrame([{"coefficient": name, **vars(row)} for name, row in rows.items()])

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values."""
        names = ("chance", "tasks", "annotators", "reports", "level", "epsilon", "doubt", "about_intervals")
        coefficients = {"alpha": self.krippendorff, "kappa": self.fleiss, "observed": self.observed}
        return {
            **{name: dict(vars(value)) for name, value in coefficients.items()},
            **{name: getattr(self, name) for name in names},
            "classes": list(self.classes),
            **self._guarantees(),
        }

    draw = draw_agreement


@dataclass(frozen=True, eq=False)
class AnnotatorAgreement:
    """How far each person agrees with the others, by id: for the operator alone, and apart from :class:`Agreement`."""

    annotators: pl.Series
    """The ids of the people who share a task with somebody, sorted; everything else is in this order."""
    tasks: Ints
    """How many tasks each shares with others."""
    agreement: Floats
    """The mean over these tasks of the share of the others who gave the same answer; unbiased, so it can leave 0 to 1."""
    standard_errors: Floats

    def frame(self) -> pl.DataFrame:
        """A Polars table: worker, tasks, agreement, standard_error; ``.to_pandas()`` makes it one of pandas."""
        columns = {"tasks": self.tasks, "agreement": self.agreement, "standard_error": self.standard_errors}
        return pl.DataFrame({"worker": self.annotators, **columns})
