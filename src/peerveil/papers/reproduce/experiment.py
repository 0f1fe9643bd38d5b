"""What a reproduction is: rows that set the paper beside us, a verdict, and a figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from peerveil.core.result import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Experiment = Callable[[bool, bool | None], "Reproduction"]

MODULES: Final = ("release", "timing", "calibration", "rankings", "truth")


class Verdict(StrEnum):
    """What a comparison comes to."""

    AGREES = "agrees"
    ERRATUM = "erratum"
    DIFFERS = "differs"
    NOTHING_PRINTED = "nothing printed"

    @classmethod
    def of(cls, agrees: bool) -> Verdict:
        """Agreement, or a difference that no erratum explains."""
        return cls.AGREES if agrees else cls.DIFFERS


@dataclass(frozen=True, slots=True)
class Comparison:
    """One quantity: the paper's value (in words, if it can only be read off a figure), ours, and the verdict.

    ``explanation`` says the verdict in more words; where it is empty, there is no more to say.
    """

    what: str
    paper: str
    ours: str
    verdict: Verdict
    explanation: str = ""

    @property
    def text(self) -> str:
        """The verdict for a table: its explanation, or the verdict itself."""
        return self.explanation or self.verdict.value


@dataclass(frozen=True, slots=True)
class Reproduction:
    """One figure or table, made anew."""

    name: str
    title: str
    rows: tuple[Comparison, ...]
    note: str
    axes: Axes | None = field(default=None, repr=False)

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many rows agree, are explained by an erratum, differ, or have nothing to be compared with."""
        return count_verdicts(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the figure, as JSON values."""
        rows, counts = plain(self.rows), plain(self.counts)
        return {"name": self.name, "title": self.title, "note": self.note, "counts": counts, "rows": rows}


def count_verdicts(rows: Iterable[Comparison]) -> dict[Verdict, int]:
    """How many rows there are of each verdict."""
    verdicts = Counter(row.verdict for row in rows)
    return {verdict: verdicts[verdict] for verdict in Verdict}


def experiments() -> dict[str, Experiment]:
    """Every experiment by its name, such as ``release/figure-2a``."""
    experiments: dict[str, Experiment] = {}
    for module in MODULES:
        experiments.update(import_module(f"peerveil.papers.reproduce.{module}").EXPERIMENTS)
    return experiments
