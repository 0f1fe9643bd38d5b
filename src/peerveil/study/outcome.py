"""The outcome of an action: answers, figures, tables and files in two parts, one for the public and one for the operator.

An outcome is saved as one JSON file before any other file is written from it, so that an interrupted study continues from what
it already has: nothing is drawn twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peerveil.report import Line, Svg

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

    from peerveil.core.guarantee import Guarantee
    from peerveil.core.result import Pictured

    GuaranteeOf = Callable[[int], Guarantee]

NOT_PUBLISHED = "nothing of this step is published"


@dataclass(frozen=True)
class DrawnFigure:
    """A figure as SVG: the parts of an :class:`~peerveil.report.Svg`."""

    attributes: str
    content: str
    caption: str

    @property
    def svg(self) -> Svg:
        """The figure for a page."""
        return Svg(self.attributes, self.content)


@dataclass(frozen=True)
class ReportTable:
    """A small table for the report."""

    columns: list[str]
    rows: list[list[str]]


@dataclass
class OutcomePart:
    """What one group of readers may see.

    Attributes
    ----------
    answer
        The answer to the question, in a plain sentence.
    findings
        What was found, in sentences.
    results
        The figures for programs.
    files
        The text of every output file, by name.
    """

    answer: str = ""
    findings: list[str | Line] = field(default_factory=list)
    results: dict[str, Any] = field(default_factory=dict)
    figures: list[DrawnFigure] = field(default_factory=list)
    tables: list[ReportTable] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show."""
        return not (self.findings or self.figures or self.tables or self.files)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Add a table to the report."""
        self.tables.append(ReportTable(list(columns), [[_cell(value) for value in row] for row in rows]))

    def csv(self, name: str, frame: pl.DataFrame) -> None:
        """Add a table as a CSV file."""
        from peerveil.data.table import csv_text

        self.files[name] = csv_text(frame)

    def json(self, name: str, finding: Pictured) -> None:
        """Add a finding as a JSON file."""
        self.files[name] = finding.to_json(indent=2) + "\n"

    def contents(self) -> dict[str, str]:
        """The text of every file and figure, by name."""
        figures = {f"figure-{number}.svg": figure.svg.alone() for number, figure in enumerate(self.figures, start=1)}
        return self.files | figures

    def __add__(self, more: OutcomePart) -> OutcomePart:
        return OutcomePart(
            self.answer or more.answer,
            self.findings + more.findings,
            self.results | more.results,
            self.figures + more.figures,
            self.tables + more.tables,
            self.files | more.files,
        )


@dataclass
class Outcome:
    """Everything that a step found.

    Attributes
    ----------
    question
        What was asked: the heading of its section.
    public, private
        What everybody may see, and what only the operator may see.
    guarantee_text
        The guarantee in words, or why there is none; ``guarantee_short`` says it in one plain sentence.
    protections
        What is protected and how strongly: pairs such as "one review" and "protected (epsilon 1)". A step that publishes
        something also says how strongly everything that one person did is protected.
    attack
        What an attacker could still do, in sentences.
    failed
        Whether a check failed: a command then ends with exit code 1.
    """

    question: str
    guarantee_text: str = ""
    mark: str | None = None
    public: OutcomePart = field(default_factory=OutcomePart)
    private: OutcomePart = field(default_factory=OutcomePart)
    guarantee_short: str = ""
    guarantee: dict[str, Any] | None = None
    protections: list[list[str]] = field(default_factory=list)
    attack: list[str] = field(default_factory=list)
    failed: bool = False

    def part(self, public: bool) -> OutcomePart:
        """The part for the public or for the operator."""
        return self.public if public else self.private

    @property
    def answer(self) -> str:
        """The public answer; the operator's if there is none."""
        return self.public.answer or self.private.answer

    def public_results(self) -> dict[str, Any]:
        """What programs may read: the public findings and figures, with their guarantee, as JSON values."""
        saved = self.to_dict()
        return {
            "found": saved["public"]["findings"],
            "results": saved["public"]["results"],
            "guarantee": self.guarantee,
            "guarantee_in_words": self.guarantee_text,
            "mark": self.mark,
        }

    # ---- guarantees ------------------------------------------------------------------------------------------

    @classmethod
    def guaranteed(cls, question: str, guarantee: Guarantee, **parts: Any) -> Outcome:
        """An outcome with a guarantee, in words and as data, and its parts."""
        return cls(
            question,
            str(guarantee),
            guarantee.mark,
            guarantee_short=guarantee.short,
            guarantee=guarantee.to_dict(),
            **parts,
        )

    def protect(self, what: str, how: Guarantee | str) -> None:
        """State how strongly something is protected."""
        self.protections.append([what, how if isinstance(how, str) else how.verdict])

    def protect_person(self, item: str, who: str, did: str, loads: tuple[int, int], guarantee_of: GuaranteeOf) -> None:
        """State how strongly one item is protected, and everything that a typical and the busiest person did.

        ``item`` is such as "who wrote one review", ``who`` and ``did`` are such as "reviewer" and "wrote ({} reviews)",
        ``loads`` say how many things a typical person did and the busiest, and ``guarantee_of`` gives the guarantee for so
        many things of one person.
        """
        typical, most = loads
        self.protect(item, guarantee_of(1))
        if 1 < typical < most:
            self.protect(f"everything a typical {who} {did.format(typical)}", guarantee_of(typical))
        busiest = "any" if typical == most else "the busiest"
        self.protect(f"everything {busiest} {who} {did.format(most)}", guarantee_of(most))

    def best_guess(self, guess: str, guarantee: Guarantee) -> None:
        """State how often an attacker who guesses between two neighbors is correct at most."""
        self.attack.append(f"{guess} correctly at most {guess_percent(guarantee)}% of the time.")

    def withhold(self, reason: str, whom: str) -> None:
        """Publish nothing after all: everything becomes the operator's, and ``whom`` it is about is stated as protected."""
        self.private = OutcomePart(findings=[reason]) + self.public + self.private
        self.public, self.attack, self.guarantee = OutcomePart(), [], None
        self.protections = [[whom, NOT_PUBLISHED]]
        self.guarantee_text = self.guarantee_short = reason

    # ---- figures and whole results ---------------------------------------------------------------------------

    def figure(
        self, draw: Callable[..., Any], alt: str, caption: str, *, public: bool, height: float = 3.6, columns: int = 1
    ) -> None:
        """Draw on new axes (as many as ``columns``); the mark is written across each."""
        from peerveil.core.result import stamp_axes
        from peerveil.report import new_axes, safe_svg

        def drawn() -> Axes:
            axes = new_axes(height=height, columns=columns)
            draw(*axes)
            for ax in axes if self.mark else ():
                if not any(text.get_gid() == "mark" for text in ax.texts):
                    stamp_axes(ax, str(self.mark))
            return axes[0]

        svg = safe_svg(drawn, alt)
        self.part(public).figures.append(DrawnFigure(svg.attributes, svg.content, caption))

    def add_result(self, name: str, result: Any, answer: str, caption: str, *, public: bool, cells: Any = None) -> None:
        """Add a result with a table and a figure, such as a plan, and write them as ``name.csv`` and ``name.json``.

        ``cells`` are the columns and rows of the table in the report; by default those of the result.
        """
        part, frame = self.part(public), result.frame()
        part.answer, part.findings, part.results = answer, [answer], result.to_dict()
        part.table(*(cells or (frame.columns, frame.rows())))
        self.figure(result.plot, answer, caption, public=public, height=4)
        part.csv(f"{name}.csv", frame)
        part.json(f"{name}.json", result)

    # ---- files -----------------------------------------------------------------------------------------------

    def write(self, public: Path, private: Path, *, simulated: bool) -> list[tuple[Path, bool]]:
        """Write all files and figures; returns each path and whether it may be published.

        Names of simulated files say so, wherever they are copied to.
        """
        from peerveil.core.files import write_text

        written = [
            (write_text(public / public_name(name, simulated), text), not simulated)
            for name, text in self.public.contents().items()
        ]
        if contents := self.private.contents():
            private.mkdir(parents=True, exist_ok=True, mode=0o700)
            written += [(write_text(private / name, text, private=True), False) for name, text in contents.items()]
        return written

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        from peerveil.core.result import plain

        return dict(plain(self))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Outcome:
        """The outcome that :meth:`to_dict` describes; ValueError if it describes none."""
        from pydantic import TypeAdapter

        return TypeAdapter(cls).validate_python(data)


def _cell(value: object) -> str:
    """A value of a table as people read it."""
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)


def typical_and_most(loads: Any) -> tuple[int, int]:
    """How many things a typical person did, and the busiest."""
    import numpy as np

    counts = np.asarray(loads)
    return int(np.median(counts)), int(counts.max())


def person_cautions(who: str, did: str, loads: tuple[int, int], guarantee_of: GuaranteeOf) -> list[str]:
    """How strongly everything of one person is protected, as a caution: parameters as of :meth:`Outcome.protect_person`."""
    people = {f"a typical {who}": loads[0]} | ({"the busiest": loads[1]} if loads[0] < loads[1] else {})
    return [
        f"Everything that {person} {did.format(load)} is {guarantee_of(load).verdict}."
        for person, load in people.items()
    ]


def guess_percent(guarantee: Guarantee) -> str:
    """The largest percentage of correct 50:50 guesses between two neighbors: rounded up, as in the guarantee itself."""
    from peerveil.core.guarantee import odds_in_words

    assert guarantee.exact_epsilon is not None
    return odds_in_words(guarantee.exact_epsilon)[1]


def public_name(name: str, simulated: bool) -> str:
    """A public file's name, which states that it was simulated wherever it is copied to."""
    return f"simulated-{name}" if simulated else name
