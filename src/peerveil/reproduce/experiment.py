"""What a reproduction is: rows that set the paper beside us, a verdict, and a figure."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from peerveil.result import plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes

    Experiment = Callable[[bool, bool | None], "Reproduction"]

ROOMS: Final = ("release", "timing", "calibration", "rankings", "truth")


@dataclass(frozen=True, slots=True)
class Comparison:
    """One quantity: the paper's value (in words, if it can only be read off a figure), ours, and the verdict."""

    what: str
    paper: str
    ours: str
    verdict: str


@dataclass(frozen=True, slots=True)
class Reproduction:
    """One figure or table, made anew."""

    name: str
    title: str
    rows: tuple[Comparison, ...]
    note: str
    axes: Axes | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the figure, as JSON values."""
        return {"name": self.name, "title": self.title, "note": self.note, "rows": [plain(row) for row in self.rows]}


def experiments() -> dict[str, Experiment]:
    """Every experiment by its name, such as ``release/figure-2a``."""
    found: dict[str, Experiment] = {}
    for room in ROOMS:
        if find_spec(f"peerveil.reproduce.{room}") is not None:
            found.update(import_module(f"peerveil.reproduce.{room}").EXPERIMENTS)
    return found
