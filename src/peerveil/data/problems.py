"""What is wrong with a table, and exactly where.

A :class:`Problem` is one bad cell, row or file. :class:`BadTable` carries the first twenty of them and counts the
rest; its message points to the first few by row and column.

>>> raise BadTable([Problem("reviews.csv", "abc", "a number", row=17, line=18, column="score")])
Traceback (most recent call last):
    ...
peerveil.data.problems.BadTable: reviews.csv, row 17 (line 18), column score: got 'abc', need a number
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from peerveil.core.errors import BadInput, Verbatim, show

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

MOST_KEPT = 20
_MOST_SHOWN = 5
_MOST_HELD = 200
MISSING = Verbatim("nothing")


@dataclass(frozen=True)
class Suggestion:
    """What columns are probably called: in ``columns`` our names, each with theirs. ``table`` would read them.

    >>> print(Suggestion("Labels", {"task": "item"}))
    pass columns={'task': 'item'} (on the command line: --column task=item)
    """

    table: str
    columns: Mapping[str, str]

    def __str__(self) -> str:
        options = column_options(self.columns)
        return f"pass columns={dict(self.columns)!r} (on the command line: {options})"


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, where it is, and what would be right.

    Attributes
    ----------
    file : str
        The file's name, or the table's name for values that came from memory.
    got : object
        What came.
    want : str
        What would be right.
    row : int or None
        The row counted from 1, the header not counted; None if the whole file or column is meant.
    column : str or None
        The column as it is called in the file.
    line : int or None
        The line of the file counted from 1, where the format has lines.
    suggestion : Suggestion or None
        The names of columns that would probably mend it.
    """

    file: str
    got: object
    want: str
    row: int | None = None
    column: str | None = None
    line: int | None = None
    in_memory: bool = False
    suggestion: Suggestion | None = None

    @property
    def where(self) -> str:
        """The place in words.

        >>> Problem("Labels", 1.5, "a whole number", row=3, column="label", in_memory=True).where
        'Labels, row 3 (index 2), column label'
        """
        parts = [self.file]
        if self.row is not None:
            beside = ""
            if self.line is not None:
                beside = f" (line {self.line})"
            elif self.in_memory:
                beside = f" (index {self.row - 1})"
            parts.append(f"row {self.row}{beside}")
        elif self.line is not None:
            parts.append(f"line {self.line}")
        if self.column is not None:
            parts.append(f"column {self.column}")
        return ", ".join(parts)

    def remedy(self, advice: str | None = None) -> str:
        """What would be right, and how to follow the suggestion if there is one: in Python and as options by default."""
        return self.want if self.suggestion is None else f"{self.want}, {advice or self.suggestion}"

    def told(self, advice: str | None = None) -> str:
        """The problem in a sentence, with advice for where it is shown."""
        return f"{self.where}: got {show(self.got)}, need {self.remedy(advice)}"

    def __str__(self) -> str:
        return self.told()


class BadTable(BadInput):
    """A file or a set of columns that cannot become a table. Nothing was read, kept or written.

    Attributes
    ----------
    problems : tuple of Problem
        The first problems, at most 20.
    total : int
        How many there are altogether.
    """

    def __init__(self, problems: Sequence[Problem], total: int | None = None) -> None:
        if not problems:
            raise BadInput("problems", got=problems, want="at least one problem")
        self.problems = tuple(problems[:MOST_KEPT])
        self.total = max(len(problems), total or 0)
        first = self.problems[0]
        super().__init__(first.where, got=first.got, want=first.remedy())
        lines = [str(problem) for problem in self.problems[:_MOST_SHOWN]]
        if self.total > len(lines):
            lines.append(f"and {self.total - len(lines):,} more")
        self.args = ("\n  ".join(lines),)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.problems, self.total)


def _same_row(row: int) -> tuple[int, int | None]:
    return row + 1, None


@dataclass(frozen=True)
class Source:
    """Where the rows of a table came from, so that an error can point back at them.

    ``locate`` turns a position (from 0) into a row number and, if there is one, a line number. It is called
    only once something is wrong, so it may be slow. ``names`` says what a column is called in the file.
    """

    name: str
    locate: Callable[[int], tuple[int, int | None]] = _same_row
    in_memory: bool = False
    names: tuple[tuple[str, str], ...] = ()

    def column(self, column: str) -> str:
        """What a column is called where it came from."""
        return dict(self.names).get(column, column)

    def refusal(
        self,
        got: object,
        want: str,
        *,
        column: str | None = None,
        line: int | None = None,
        suggestion: Suggestion | None = None,
    ) -> BadTable:
        """The error that refuses the file as a whole, or one column or line of it."""
        shown = None if column is None else self.column(column)
        problem = Problem(
            self.name, got, want, column=shown, line=line, in_memory=self.in_memory, suggestion=suggestion
        )
        return BadTable([problem])


class Problems:
    """Collects what is wrong with one table; raises once everything has been looked at.

    >>> problems = Problems(Source("votes.csv"))
    >>> problems.add("rank", [4, 9], got=lambda position: -1, want="a rank from 0 to 6")
    >>> problems.total
    2
    >>> problems.raise_any()
    Traceback (most recent call last):
        ...
    peerveil.data.problems.BadTable: votes.csv, row 5, column rank: got -1, need a rank from 0 to 6
      votes.csv, row 10, column rank: got -1, need a rank from 0 to 6
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.total = 0
        self._found: list[tuple[int, int, Problem]] = []

    def add(
        self,
        column: str | None,
        positions: Iterable[int],
        *,
        got: Callable[[int], object],
        want: str,
    ) -> None:
        """Note the same fault at several positions (from 0), with what was found at each."""
        kept = 0
        for position in positions:
            self.total += 1
            if kept >= MOST_KEPT or len(self._found) >= _MOST_HELD:
                continue
            kept += 1
            row, line = self.source.locate(int(position))
            shown = None if column is None else self.source.column(column)
            problem = Problem(
                self.source.name,
                got(int(position)),
                want,
                row=row,
                line=line,
                column=shown,
                in_memory=self.source.in_memory,
            )
            self._found.append((int(position), len(self._found), problem))

    def raise_any(self) -> None:
        """Raise :class:`BadTable` if anything was noted, the earliest rows first."""
        if self._found:
            ordered = [problem for _, _, problem in sorted(self._found, key=lambda entry: entry[:2])]
            raise BadTable(ordered, self.total)


def column_options(columns: Mapping[str, str]) -> str:
    """What columns are called, as options of a command.

    >>> column_options({"paper": "Paper #", "score": "merit"})
    "--column paper='Paper #' --column score=merit"
    """
    return " ".join(f"--column {ours}={shlex.quote(theirs)}" for ours, theirs in columns.items())
