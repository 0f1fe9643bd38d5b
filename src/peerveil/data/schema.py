"""The columns of every table, declared once: what each holds, what an error asks for, and what others call it.

Readers, the checker (:mod:`peerveil.data.check`), format detection and descriptions all follow these declarations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Final, Literal, cast

from peerveil.core.errors import BadInput, Verbatim
from peerveil.data.problems import TableSource, column_options

Kind = Literal["id", "number", "time", "label", "truth", "rank", "count", "any"]
PLAIN_INTEGER: Final = r"^(0|-?[1-9][0-9]{0,18})$"
TIME_WANTED: Final = "a time such as 2026-03-01T09:30:00Z, or seconds or milliseconds since 1970"
# second clocks and counters that platforms publish beside the time: they can give an order away
SECOND_CLOCKS: Final = ("tcdate", "tmdate", "cdate", "mdate", "pdate", "odate", "submitted_at")
ORDER_LEAKS: Final = ("number", "letter", "vtag", *SECOND_CLOCKS)


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    name: str
    kind: Kind  # what its cells hold; peerveil.data.check has one conversion for each
    want: str  # what an error says is needed in a cell
    meaning: str = ""  # what a description says about it
    required: bool = True
    gaps: bool = False  # whether cells may be empty
    empty_is_absent: bool = False  # whether a column that is empty throughout is left out instead of refused
    unique: tuple[str, ...] = ()  # columns whose values, taken together, may occur in one row only
    once: str = ""  # what an error asks for where they occur again
    hint: str = ""  # added to everything that an error asks for
    other_names: str = ""  # what other programs call it: taken, with a note; those behind a bar are only suggested

    @property
    def taken_names(self) -> list[str]:
        """Names that can hardly mean anything else."""
        return self.other_names.partition("|")[0].split()

    @property
    def suggested_names(self) -> list[str]:
        """All other names, the likeliest first."""
        return self.other_names.replace("|", " ").split()


@dataclass(frozen=True)
class TableSchema:
    """The columns of one kind of table, and what else a file of it may hold."""

    table: str
    columns: tuple[Column, ...]
    identity: tuple[str, str, str] = ("", "", "")  # the columns that say who judged what and how
    further: Column | None = None  # what further columns hold; named like the argument that chooses them
    may_be_wide: bool = False  # whether there is another layout that needs none of the columns

    @property
    def argument(self) -> str:
        """What the argument that names columns to read is called."""
        return "columns" if self.further is None else self.further.name

    @property
    def names(self) -> tuple[str, ...]:
        """Our names of all columns."""
        return tuple(column.name for column in self.columns)

    @property
    def required(self) -> tuple[str, ...]:
        """Our names of the columns that the table needs."""
        return tuple(column.name for column in self.columns if column.required)

    def __getitem__(self, name: str) -> Column:
        """The column of a name: one of ours, or a further one."""
        column = next((column for column in self.columns if column.name == name), None)
        if column is not None or self.further is None:
            return cast("Column", column)
        if self.further.kind == "any" and name in SECOND_CLOCKS:
            return replace(self.further, name=name, kind="time", want=TIME_WANTED)
        return replace(self.further, name=name)


@dataclass(frozen=True)
class ReadOptions:
    """Which columns of a file to take: other names for ours, and the further ones to keep (None: by default)."""

    columns: Mapping[str, str] = field(default_factory=dict)
    further: tuple[str, ...] | None = None


@dataclass(frozen=True)
class RawTable:
    """What a reader yields: columns by our names, not yet checked; ``further`` are all others, by their own names."""

    columns: dict[str, Any]
    source: TableSource
    further: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    order: tuple[str, ...] = ()  # all columns by their own names, in the file's order

    @classmethod
    def in_memory(cls, schema: TableSchema, columns: Mapping[str, Any], further: object = None) -> RawTable:
        """Columns that a caller passed, those that are None left out."""
        if not isinstance(further, Mapping | None):
            raise BadInput(schema.argument, got=further, want="a mapping of names to columns")
        present = {name: values for name, values in columns.items() if values is not None}
        return cls(present, TableSource(schema.table, in_memory=True), dict(further or {}))


REVIEWS: Final = TableSchema(
    "Reviews",
    (
        Column("paper", "id", "a paper's id", "the paper that was reviewed", other_names=(
            "submission paper_id paper_number submission_number submission_no paper_no submission_id forum | pid item thread"
        )),
        Column(
            "reviewer", "id", "a reviewer's id in every row, or in none", "who wrote the review",
            required=False, empty_is_absent=True, unique=("paper", "reviewer"), once="one review per person and paper",
            other_names="reviewer_id pc_member reviewer_name reviewer_email | member email user author actor worker",
        ),
        Column("score", "number", "a number", "overall score", other_names=(
            "rating overall overall_score overall_rating overall_evaluation recommendation overall_merit | grade value label"
        )),
        Column(
            "time", "time", TIME_WANTED, "when the review was written", required=False, empty_is_absent=True,
            other_names="timestamp posted_at created_at submitted_at | posted submitted date datetime created cdate",
        ),
    ),
    identity=("reviewer", "paper", "score"),
    further=Column(
        "criteria", "number", "a number", "score on a criterion",
        hint=" (or choose the criteria to keep with criteria=[...])",
    ),
)  # fmt: skip
EVENTS: Final = TableSchema(
    "Events",
    (
        Column(
            "actor", "id", "an actor's id", "who posted",
            other_names="user username user_id author | reviewer editor worker member sender",
        ),
        Column(
            "thread", "id", "a thread's id", "where: a paper, a page or a topic",
            other_names="page forum topic thread_id | paper title submission task item",
        ),
        Column("time", "time", TIME_WANTED, "when it was posted", other_names=REVIEWS["time"].other_names),
        Column(
            "id", "id", "an event's id", "id of the post", required=False, unique=("id",), once="every id once",
            other_names="event_id | event comment_id revid rcid note",
        ),
        Column(
            "reply_to", "id", "an id", "id of the post that it answers", required=False, gaps=True, empty_is_absent=True,
            other_names="replyto in_reply_to | parent parent_id",
        ),
    ),
    identity=("actor", "thread", "time"),
    further=Column("extra", "any", "a value", "further column, kept as it came", gaps=True),
)  # fmt: skip
RANKINGS: Final = TableSchema(
    "Rankings",
    (
        Column("ranking", "id", "a ranking's id", other_names="| voter ballot ranking_id reviewer user"),
        Column(
            "item", "id", "an item", unique=("ranking", "item"), once="every item at most once in a ranking",
            other_names="| alternative candidate paper option",
        ),
        Column("rank", "rank", "a rank: a whole number from 0 or 1", other_names="| position place"),
        Column("count", "count", "a whole number of at least 1", required=False, other_names="| multiplicity votes n"),
    ),
    may_be_wide=True,
)  # fmt: skip
LABELS: Final = TableSchema(
    "Labels",
    (
        Column(
            "task", "id", "a task's id", "the task that was answered",
            other_names="task_id question image document unit_id | item picture sentence example unit paper",
        ),
        Column(
            "worker", "id", "a worker's id", "who answered",
            other_names="annotator worker_id annotator_id performer rater | user reviewer",
        ),
        Column(
            "label", "label", "a label", "the answer",
            other_names="answer response annotation | class vote value rating",
        ),
        Column(
            "truth", "truth", "a label", "the correct answer, where it is known", required=False, gaps=True,
            empty_is_absent=True, other_names="gold true_label ground_truth gold_label",
        ),
        Column(
            "epsilon", "any", "a number above 0, such as 1/2", "with which epsilon the answer was randomized",
            required=False, empty_is_absent=True,
        ),
    ),
    identity=("worker", "task", "label"),
)  # fmt: skip
SCHEMAS: Final = {schema.table: schema for schema in (REVIEWS, EVENTS, RANKINGS, LABELS)}


def plain_name(name: str) -> str:
    """A name without capitals, spaces and signs.

    >>> plain_name("Overall merit"), plain_name("Paper #")
    ('overall_merit', 'paper')
    """
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def listed(names: Sequence[str]) -> str:
    """Column names for an error message."""
    text = ", ".join(names[:20])
    return f"{text}, ... ({len(names)} in all)" if len(names) > 20 else text or "(none)"


def refuse_absent(source: TableSource, wanted: Iterable[str], names: Sequence[str], noun: str = "column") -> None:
    """Refuse a file that lacks some of the wanted columns."""
    absent = [name for name in wanted if name not in names]
    if absent:
        raise source.refusal(f"no {noun} {', '.join(absent)}", f"some of {listed(names)}")


def match_columns(schema: TableSchema, names: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """Our name to theirs: as given, else the same name, else the same but for capitals and signs, else a usual other name.

    A name of the last two kinds is taken only if it is the only one.

    >>> match_columns(LABELS, ["Image", "annotator", "answer", "Label #"], {})
    {'label': 'Label #', 'task': 'Image', 'worker': 'annotator'}
    """
    present = {ours: given.get(ours, ours) for ours in schema.names if given.get(ours, ours) in names}
    for usual in (False, True):
        for column in schema.columns:
            candidates = _candidates(column, names, present, usual)
            if column.name not in present and len(candidates) == 1:
                present[column.name] = candidates[0]
    return present


def _candidates(column: Column, names: Sequence[str], present: Mapping[str, str], usual: bool) -> list[str]:
    """The names, none of them present already, that are a column's own or, if ``usual``, what other programs call it."""
    accepted = column.taken_names if usual else [column.name]
    return [name for name in names if plain_name(name) in accepted and name not in present.values()]


def map_columns(
    schema: TableSchema, source: TableSource, names: list[str], columns: Mapping[str, str], *, numbered: bool = False
) -> dict[str, str]:
    """Our name for a column to theirs; refuses with the columns that are there and a suggestion.

    ``numbered`` columns have no names: the file has no header.
    """
    for ours, theirs in columns.items():
        if ours not in schema.names:
            want = f"names for {', '.join(schema.names)}"
            raise BadInput("columns", got=Verbatim(f"a name for {ours!r}"), want=want)
        if theirs not in names:
            want = f"one of {listed(names)}, since columns= names it for {ours}"
            if numbered:
                want = f"for {ours} a number from 1 to {len(names)}: without a header, columns are numbered"
            elif theirs.isdigit():
                want += " (columns have numbers only in a file without a header: header=False, or --no-header)"
            raise source.refusal(f"no column {theirs!r}", want)
    present = match_columns(schema, names, columns)
    missing = [ours for ours in schema.required if ours not in present]
    if missing and not schema.may_be_wide:
        one, other = ("one", "it has another name") if len(missing) == 1 else ("one of each", "they have other names")
        guess = suggest_columns(schema, names, columns)
        likely = {ours: theirs for ours, theirs in guess.items() if ours != theirs}
        suggestion = likely | {ours: "..." for ours in missing if ours not in likely}
        want = f"{one} among {listed(names)}: if {other}"
        if numbered:
            suggestion = {ours: columns.get(ours, "...") for ours in schema.required}
            want = f"the number of each, from 1 to {len(names)}, since the file has no header"
        raise source.refusal(f"no column {', '.join(missing)}", want, suggestion=suggestion)
    return {ours: present[ours] for ours in schema.names if ours in present}


def raw_table(
    schema: TableSchema, source: TableSource, content: dict[str, Any], columns: Mapping[str, str]
) -> RawTable:
    """Columns by our names and the rest by their own; notes say which were taken under a name that nobody gave."""
    mapping = map_columns(schema, source, list(content), columns)
    return RawTable(
        {ours: content[theirs] for ours, theirs in mapping.items()},
        replace(source, names=mapping),
        {name: values for name, values in content.items() if name not in mapping.values()},
        tuple(_match_notes(schema, list(content), columns, mapping)),
        tuple(content),
    )


def _match_notes(
    schema: TableSchema, names: list[str], given: Mapping[str, str], mapping: Mapping[str, str]
) -> Iterable[str]:
    """Which columns were taken under another name, and which were not since several could be meant."""
    for column in schema.columns:
        theirs = mapping.get(column.name)
        if theirs is None:
            candidates = [name for usual in (False, True) for name in _candidates(column, names, mapping, usual)]
            if len(candidates) > 1:
                option = column_options({column.name: candidates[0]})
                yield (
                    f"no column was read as {column.name}, since {' and '.join(candidates)} could be meant: name one in "
                    f"columns= (on the command line: {option})"
                )
        elif column.name not in (theirs, *given):
            yield f"column {theirs!r} was read as {column.name}"


def suggest_columns(schema: TableSchema, names: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """What our columns are probably called: for a person to check.

    >>> suggest_columns(LABELS, ["image", "annotator", "has_bird"], {"task": "image"})
    {'task': 'image', 'worker': 'annotator', 'label': 'has_bird'}
    """
    guess = dict(given)
    free = [name for name in names if name not in guess.values()]
    for certain in (True, False):
        for column in schema.columns:
            if column.name in guess:
                continue
            plain = {plain_name(name): name for name in reversed(free)}
            candidates = [column.name, *(() if certain else column.suggested_names)]
            if not certain and column.required:
                candidates += get_close_matches(column.name, plain, n=1, cutoff=0.7)
            theirs = next((plain[candidate] for candidate in candidates if candidate in plain), None)
            if theirs is not None:
                guess[column.name] = theirs
                free.remove(theirs)
    left = [ours for ours in schema.required if ours not in guess]
    if len(left) == len(free) == 1 and len(guess) >= len(schema.required) - 1:
        guess[left[0]] = free[0]
    return {ours: guess[ours] for ours in schema.names if ours in guess}
