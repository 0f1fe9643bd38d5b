"""What an action hands over: findings, pictures, tables and files, each marked as public or not, as plain data.

An outcome is kept as one JSON file before anything is made of it, so that a study that was interrupted is finished from
what it already has: nothing is drawn twice.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from peerveil.core.files import write_text
from peerveil.core.result import plain
from peerveil.report import Line, Svg, new_axes, safe_svg

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import polars as pl
    from matplotlib.axes import Axes

    from peerveil.core.guarantee import Guarantee
    from peerveil.core.result import Pictured, Plan

    GuaranteeOf = Callable[[int], Guarantee]


@dataclass(frozen=True)
class Picture:
    """A figure as SVG."""

    svg: Svg
    caption: str
    public: bool


@dataclass(frozen=True)
class TableOf:
    """A small table for the report."""

    columns: list[str]
    rows: list[list[str]]
    public: bool


@dataclass(frozen=True)
class File:
    """A text file of the study's folder."""

    name: str
    text: str
    public: bool


@dataclass
class Outcome:
    """Everything that a step found.

    Attributes
    ----------
    asked
        What was asked, in a sentence.
    answer
        The answer, in a plain sentence that may be published; ``private_answer`` must not.
    found
        What was found, in sentences that may be published; ``private_found`` must not.
    promise
        The guarantee in words, or why there is none to give; ``promise_short`` says it in one plain sentence.
    protects
        How well what is protected: pairs such as "one review" and "protected (epsilon 1)". A step that publishes
        something also says how it is with everything that one person did.
    attack
        What an attacker could still do, in sentences.
    results
        The figures for programs, which may be published; ``private_results`` must not.
    failed
        Whether a check failed: a command then ends with exit code 1.
    """

    asked: str
    found: list[str] = field(default_factory=list)
    private_found: list[str | Line] = field(default_factory=list)
    answer: str = ""
    private_answer: str = ""
    promise: str = ""
    promise_short: str = ""
    protects: list[list[str]] = field(default_factory=list)
    guarantee: dict[str, Any] | None = None
    mark: str | None = None
    attack: list[str] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    tables: list[TableOf] = field(default_factory=list)
    files: list[File] = field(default_factory=list)
    results: dict[str, Any] = field(default_factory=dict)
    private_results: dict[str, Any] = field(default_factory=dict)
    failed: bool = False

    def promises(self, guarantee: Guarantee) -> None:
        """Take over a guarantee, in words and as data."""
        self.promise, self.promise_short = str(guarantee), guarantee.short
        self.guarantee, self.mark = guarantee.to_dict(), guarantee.mark

    def protect(self, what: str, how: Guarantee | str) -> None:
        """Say how well something is protected."""
        self.protects.append([what, how if isinstance(how, str) else how.verdict])

    def protect_person(self, one: str, who: str, did: str, loads: tuple[int, int], guarantee_of: GuaranteeOf) -> None:
        """Say how well one thing is protected, and everything that a typical and the busiest person did.

        Parameters
        ----------
        one : str
            The one thing, such as "who wrote one review".
        who, did : str
            Who did it, and what, such as "reviewer" and "wrote ({} reviews)".
        loads : tuple of int
            How many things a typical person did, and the busiest.
        guarantee_of : callable
            The guarantee for so many things of one person.
        """
        typical, most = loads
        self.protect(one, guarantee_of(1))
        if 1 < typical < most:
            self.protect(f"everything a typical {who} {did.format(typical)}", guarantee_of(typical))
        busiest = "any" if typical == most else "the busiest"
        self.protect(f"everything {busiest} {who} {did.format(most)}", guarantee_of(most))

    def best_guess(self, guess: str, guarantee: Guarantee) -> None:
        """Say how often an attacker who guesses between two neighbors is correct at most."""
        self.attack.append(f"{guess} correctly at most {guess_percent(guarantee)}% of the time.")

    def keep_back(self, why: str, whom: str) -> None:
        """Publish nothing after all: everything becomes the operator's, and ``whom`` it is about is said to be protected."""
        self.private_answer, self.answer = self.answer, ""
        self.private_found = [why, *self.found, *self.private_found]
        self.private_results = {**self.results, **self.private_results}
        self.found, self.results, self.attack = [], {}, []
        self.promise = self.promise_short = why
        self.guarantee = None
        self.protects = [[whom, "nothing of this step is published"]]
        self.pictures = [replace(picture, public=False) for picture in self.pictures]
        self.tables = [replace(table, public=False) for table in self.tables]
        self.files = [replace(file, public=False) for file in self.files]

    def picture(
        self,
        draw: Callable[..., object],
        alt: str,
        caption: str,
        *,
        public: bool,
        height: float = 3.6,
        columns: int = 1,
    ) -> None:
        """Draw on new axes (as many as ``columns``) and keep the figure; the mark is written across each."""

        def drawn() -> Axes:
            axes: Sequence[Axes] = new_axes(height=height, columns=columns)
            draw(*axes)
            if self.mark:
                from peerveil.core.result import stamp_axes

                for ax in axes:
                    if not any(text.get_gid() == "mark" for text in ax.texts):
                        stamp_axes(ax, self.mark)
            return axes[0]

        self.pictures.append(Picture(safe_svg(drawn, alt), caption, public))

    def plan(self, plan: Plan, caption: str, *, public: bool = True) -> None:
        """Take over a plan: its recommendation, its table and its figure."""
        sentences = [plan.recommendation]
        if public:
            self.answer, self.found, self.results = plan.recommendation, sentences, plan.to_dict()
        else:
            self.private_answer, self.private_found = plan.recommendation, [*sentences]
            self.private_results = plan.to_dict()
        table = plan.table()
        self.table(table.columns, [[_cell(value) for value in row] for row in table.rows()], public=public)
        self.picture(plan.plot, plan.recommendation, caption, public=public, height=4)
        self.file("plan.csv", table.write_csv(), public=public)
        self.json("plan.json", plan, public=public)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[object]], *, public: bool) -> None:
        """Keep a table."""
        self.tables.append(TableOf(list(columns), [[str(cell) for cell in row] for row in rows], public))

    def file(self, name: str, text: str, *, public: bool) -> None:
        """Keep a file."""
        self.files.append(File(name, text, public))

    def csv(self, name: str, frame: pl.DataFrame, *, public: bool) -> None:
        """Keep a table as a CSV file."""
        from peerveil.data.table import csv_text

        self.file(name, csv_text(frame), public=public)

    def json(self, name: str, finding: Pictured, *, public: bool) -> None:
        """Keep a finding as a JSON file."""
        self.file(name, finding.to_json(indent=2) + "\n", public=public)

    def write(self, public: Path, private: Path, *, simulated: bool) -> list[tuple[Path, bool]]:
        """Write all files and pictures, apart; returns each path and whether it may be published.

        Names of simulated files say so, wherever they are copied to.
        """
        contents = [(file.name, file.text, file.public) for file in self.files]
        contents += [
            (f"figure-{number}.svg", picture.svg.alone(), picture.public)
            for number, picture in enumerate(self.pictures, start=1)
        ]
        written = []
        for name, text, is_public in contents:
            target = public / public_name(name, simulated) if is_public else private / name
            written.append((write_text(target, text, private=not is_public), is_public and not simulated))
        return written

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        pictures = [{**asdict(one), "svg": [one.svg.attributes, one.svg.content]} for one in self.pictures]
        return dict(plain(asdict(replace(self, pictures=[])))) | {"pictures": pictures}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Outcome:
        """What :meth:`to_dict` gave."""
        rest = dict(data)
        lists: dict[str, Any] = {
            "private_found": [x if isinstance(x, str) else Line(*x) for x in rest.pop("private_found")],
            "pictures": [Picture(**item | {"svg": Svg(*item["svg"])}) for item in rest.pop("pictures")],
            "tables": [TableOf(**item) for item in rest.pop("tables")],
            "files": [File(**item) for item in rest.pop("files")],
        }
        return cls(**rest, **lists)


def _cell(value: object) -> str:
    """A number of a table as people read it."""
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)


def typical_and_most(loads: Any) -> tuple[int, int]:
    """How many things a typical person did, and the busiest."""
    import numpy as np

    counts = np.asarray(loads)
    return int(np.median(counts)), int(counts.max())


def person_cautions(who: str, did: str, loads: tuple[int, int], guarantee_of: GuaranteeOf) -> list[str]:
    """How strongly everything of one person is protected, as a caution: parameters as of :meth:`Outcome.protect_person`."""
    people = (f"a typical {who}", "the busiest") if loads[0] < loads[1] else (f"a typical {who}",)
    return [
        f"Everything that {person} {did.format(load)} is {guarantee_of(load).verdict}."
        for person, load in zip(people, loads, strict=False)
    ]


def guess_percent(guarantee: Guarantee) -> str:
    """How often in 100 a 50:50 guess between two neighbors is correct at most: rounded up, as in the guarantee itself."""
    from peerveil.core.guarantee import odds_in_words

    assert guarantee.exact_epsilon is not None
    return odds_in_words(guarantee.exact_epsilon)[1]


def public_name(name: str, simulated: bool) -> str:
    """A public file's name, which tells that it was simulated wherever it is copied to."""
    return f"simulated-{name}" if simulated else name
