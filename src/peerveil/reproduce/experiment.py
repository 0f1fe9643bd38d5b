"""What a reproduction is: rows that set the paper beside us, a verdict, and a figure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal

from peerveil.result import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from matplotlib.axes import Axes

    Experiment = Callable[[bool, bool | None], "Reproduction"]
    Kind = Literal["agrees", "erratum", "differs", "nothing printed"]

ROOMS: Final = ("release", "timing", "calibration", "rankings", "truth")
KINDS: Final[tuple[Kind, ...]] = ("agrees", "erratum", "differs", "nothing printed")
# what stands in place of a value where the paper prints none
_NOTHING: Final = ("no experiment", "another log", "curve only", "curves without", "a curve without")


@dataclass(frozen=True, slots=True)
class Comparison:
    """One quantity: the paper's value (in words, if it can only be read off a figure), ours, and the verdict."""

    what: str
    paper: str
    ours: str
    verdict: str

    @property
    def kind(self) -> Kind:
        """The verdict in a word: agreement, an erratum that explains the difference, a difference, or no value to compare.

        >>> Comparison("mean", "31 min", "31", "agrees as printed; erratum: g + beta").kind
        'agrees'
        >>> Comparison("q2", "-0.1", "0.3", "erratum: the printed one is negative").kind
        'erratum'
        >>> Comparison("accuracy", "no experiment", "0.8", "default +2.1 points").kind
        'nothing printed'
        """
        if self.paper == "-" or self.paper.startswith(_NOTHING):
            return "nothing printed"
        if self.verdict.startswith(("agrees", "same direction", "below the bound", "informed above basic")):
            return "agrees"
        return "erratum" if "erratum" in self.verdict else "differs"


@dataclass(frozen=True, slots=True)
class Reproduction:
    """One figure or table, made anew."""

    name: str
    title: str
    rows: tuple[Comparison, ...]
    note: str
    axes: Axes | None = field(default=None, repr=False)

    @property
    def counts(self) -> dict[Kind, int]:
        """How many rows agree, are explained by an erratum, differ, or have nothing to be compared with."""
        return count_kinds(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the figure, as JSON values."""
        rows = [{**plain(row), "kind": row.kind} for row in self.rows]
        return {"name": self.name, "title": self.title, "note": self.note, "counts": self.counts, "rows": rows}


def count_kinds(rows: Iterable[Comparison]) -> dict[Kind, int]:
    """How many rows there are of each kind."""
    found = Counter(row.kind for row in rows)
    return {kind: found[kind] for kind in KINDS}


def experiments() -> dict[str, Experiment]:
    """Every experiment by its name, such as ``release/figure-2a``."""
    found: dict[str, Experiment] = {}
    for room in ROOMS:
        found.update(import_module(f"peerveil.reproduce.{room}").EXPERIMENTS)
    return found
