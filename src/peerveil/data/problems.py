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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Any

from peerveil.core.errors import BadInput, Verbatim, show

MOST_REPORTED = 20
_MOST_SHOWN = 5
_MOST_HELD = 200
MISSING = Verbatim("nothing")
Place = tuple[int, int | None]  # a row and, where there are lines, a line, both from 1


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, where it is, and what would be right."""

    file: str  #: The file's name, or the table's name for values that came from memory.
    got: object  #: The value that is wrong.
    want: str  #: What would be right.
    row: int | None = None  #: The row counted from 1, the header not counted; None for the whole file or column.
    column: str | None = None  #: The column as it is called in the file.
    line: int | None = None  #: The line of the file counted from 1, where the format has lines.
    in_memory: bool = False  #: Whether the values came from memory.
    suggestion: Mapping[str, str] | None = None  #: Our names of columns, each with the name that it probably has.

    @property
    def where(self) -> str:
        """The place in words.

        >>> Problem("Labels", 1.5, "a whole number", row=3, column="label", in_memory=True).where
        'Labels, row 3 (index 2), column label'
        """
        place = "" if self.line is None else f", line {self.line}"
        if self.row is not None:
            index = f" (index {self.row - 1})" if self.in_memory else ""
            place = f", row {self.row}" + (index if self.line is None else f" (line {self.line})")
        return self.file + place + ("" if self.column is None else f", column {self.column}")

    def remedy(self, advice: str | None = None) -> str:
        """What would be right, and how to follow the suggestion if there is one: in Python and as options by default."""
        if self.suggestion is None:
            return self.want
        options = column_options(self.suggestion)
        return f"{self.want}, {advice or f'pass columns={dict(self.suggestion)!r} (on the command line: {options})'}"

    def sentence(self, advice: str | None = None) -> str:
        """The problem in a sentence, with advice for where it is shown."""
        return f"{self.where}: got {show(self.got)}, need {self.remedy(advice)}"

    def __str__(self) -> str:
        return self.sentence()


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
        self.problems = tuple(problems[:MOST_REPORTED])
        self.total = max(len(problems), total or 0)
        first = self.problems[0]
        super().__init__(first.where, got=first.got, want=first.remedy())
        lines = [str(problem) for problem in self.problems[:_MOST_SHOWN]]
        if self.total > len(lines):
            lines.append(f"and {self.total - len(lines):,} more")
        self.args = ("\n  ".join(lines),)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.problems, self.total)


@dataclass(frozen=True)
class TableSource:
    """Where the rows of a table came from, so that an error can point back at them.

    ``places`` gives the place of every position, where that is not simply the next row. It is called only once something
    is wrong, so it may be slow. ``names`` says what a column is called in the file.
    """

    name: str
    places: Callable[[], Sequence[Place]] = tuple
    in_memory: bool = False
    names: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def _places(self) -> Sequence[Place]:
        return self.places()

    def locate(self, position: int) -> Place:
        """The place of a position (from 0)."""
        return self._places[position] if position < len(self._places) else (position + 1, None)

    def refusal(self, got: str, want: str, **place: Any) -> BadTable:
        """The error that refuses the file, or the line or column that ``place`` names; ``got`` are words."""
        return BadTable([Problem(self.name, Verbatim(got), want, in_memory=self.in_memory, **place)])


@dataclass
class ProblemLog:
    """Collects what is wrong with one table; raises once everything has been checked.

    >>> log = ProblemLog(TableSource("votes.csv"))
    >>> log.add("rank", [4, 9], got=lambda position: -1, want="a rank from 0 to 6")
    >>> log.total
    2
    >>> log.raise_any()
    Traceback (most recent call last):
        ...
    peerveil.data.problems.BadTable: votes.csv, row 5, column rank: got -1, need a rank from 0 to 6
      votes.csv, row 10, column rank: got -1, need a rank from 0 to 6
    """

    source: TableSource
    total: int = 0
    _entries: list[tuple[int, Problem]] = field(default_factory=list)

    def add(self, column: str | None, positions: Sequence[int], *, got: Callable[[int], object], want: str) -> None:
        """Note the same problem at several positions (from 0), with the value at each."""
        self.total += len(positions)
        shown = None if column is None else self.source.names.get(column, column)
        for position in positions[: min(MOST_REPORTED, _MOST_HELD - len(self._entries))]:
            row, line = self.source.locate(position)
            problem = Problem(self.source.name, got(position), want, row, shown, line, self.source.in_memory)
            self._entries.append((position, problem))

    def raise_any(self) -> None:
        """Raise :class:`BadTable` if anything was noted, the earliest rows first."""
        if self._entries:
            raise BadTable([problem for _, problem in sorted(self._entries, key=itemgetter(0))], self.total)


def column_options(columns: Mapping[str, str]) -> str:
    """What columns are called, as options of a command.

    >>> column_options({"paper": "Paper #", "score": "merit"})
    "--column paper='Paper #' --column score=merit"
    """
    return " ".join(f"--column {ours}={shlex.quote(theirs)}" for ours, theirs in columns.items())
