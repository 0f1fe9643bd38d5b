"""What the exports of review platforms have in common: records with places in the file, and forms with scores."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from peerveil.data.problems import TableSource
from peerveil.data.readers.files import InputFile, csv_rows
from peerveil.data.readers.tabular import mixed_series
from peerveil.data.schema import RawTable, ReadOptions, listed, plain_name, refuse_absent

Content = dict[str, Any]
Field = str | tuple[str, Callable[[Content], object]]
"""What a platform calls a column, and how to get it from a record if not by that name."""
_LEADING = re.compile(r"^\s*([-+−]?\d+(?:\.\d+)?)\s*(?:$|[.:)–—-](?!\d)|\()")


@dataclass(frozen=True)
class ExportRecord:
    """One entry of an export, with its row and, where there are lines, its line in the file."""

    row: int
    line: int | None
    content: Content

    def value(self, field: Field) -> object:
        """What the record has in a field."""
        return self.content.get(field) if isinstance(field, str) else field[1](self.content)


def csv_records(file: InputFile, separator: str = ",") -> list[ExportRecord]:
    """Every row that is not blank, its cells by column; a row of another length is refused."""
    (_, header), *rows = csv_rows(file.text(), separator)
    records = []
    for row, (line, cells) in enumerate(rows, start=1):
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(header):
            raise file.refusal(f"{len(cells)} cells in row {row}", f"{len(header)}, as in the header", line=line)
        records.append(ExportRecord(row, line, dict(zip(header, cells, strict=True))))
    if not records:
        raise file.refusal("a header and no rows", "at least one row")
    return records


def record_table(
    file: str,
    records: Sequence[ExportRecord],
    fields: Mapping[str, Field],
    further: Sequence[Field] = (),
    notes: tuple[str, ...] = (),
) -> RawTable:
    """A table with one row per record: our columns from the platform's fields, and the further ones that any record has."""
    if not records:
        raise TableSource(file).refusal(" ".join(["no rows", *(f"({note})" for note in notes)]), "at least one row")

    def column(field: Field) -> pl.Series:
        return mixed_series("", [record.value(field) for record in records])

    names = {name: field if isinstance(field, str) else field[0] for name, field in fields.items()}
    columns = {name: column(field) for name, field in fields.items()}
    others = {field if isinstance(field, str) else field[0]: column(field) for field in further}
    known = {name: values for name, values in others.items() if values.null_count() < len(values)}
    source = TableSource(file, lambda: [(record.row, record.line) for record in records], names=names)
    return RawTable(columns, source, known, notes)


def counted_note(count: int, note: str) -> tuple[str, ...]:
    """A note on what was left out, if anything was; ``{}`` in it stands for the number."""
    return (note.format(f"{count:,}"),) if count else ()


def label_table(
    first: ExportRecord,
    file: str,
    records: Sequence[ExportRecord],
    fields: Mapping[str, Field],
    answers: Mapping[str, Callable[[Content], object]],
    options: ReadOptions,
    *,
    golden: Mapping[str, str] | None = None,
    notes: tuple[str, ...] = (),
) -> RawTable:
    """Labels from an export with one row per task and person; rows without an answer are left out, and noted.

    Parameters
    ----------
    first
        Any record, for the names of the columns.
    records
        Those that count.
    fields
        Task and worker; ``options.columns`` may name another column for the task.
    answers
        The questions by name, each with how its answer is read; ``options.columns`` chooses one, and must if there are several.
    golden
        For a question the column with its correct answers; ``options.columns`` may name another one.
    """
    source, names, chosen = TableSource(file), list(first.content), options.columns
    label = chosen.get("label", next(iter(answers), "..."))
    if "label" not in chosen and len(answers) != 1:
        got = f"{len(answers)} answers per row: {listed(list(answers))}" if answers else "no answers among the columns"
        raise source.refusal(got, "one answer: to say which one is meant", suggestion={"label": label})
    refuse_absent(source, [label], list(answers), "answer")
    columns: dict[str, Field] = {**fields, "label": (label, answers[label])}
    truth = chosen.get("truth", (golden or {}).get(label))
    columns |= {ours: theirs for ours, theirs in (("task", chosen.get("task")), ("truth", truth)) if theirs}
    refuse_absent(source, [field for field in columns.values() if isinstance(field, str)], names)
    answered = [record for record in records if record.value(columns["label"])]
    notes += counted_note(len(records) - len(answered), f"left out {{}} of {len(records):,} rows: no answer in {label}")
    return record_table(file, answered, columns, notes=notes)


def leading_number(value: object) -> float | None:
    """The number that an answer is, or begins with.

    >>> [leading_number(value) for value in (8, "6: marginally above", "3. Weak accept", "-2 (reject)", "good")]
    [8.0, 6.0, 3.0, -2.0, None]
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if abs(value) < 1e15 else None
    match = _LEADING.match(value) if isinstance(value, str) else None
    return float(match[1].replace("−", "-")) if match else None


def review_table(raw: RawTable, forms: Sequence[Content], options: ReadOptions, usual: Sequence[str]) -> RawTable:
    """Reviews from the forms that reviewers filled in, one per row of the other columns.

    The score is the field that ``columns={"score": ...}`` names, else the first of the ``usual`` ones. Without named
    criteria, every field that holds a number in each review is one; a field with gaps is left out and noted.
    """
    fields = list(dict.fromkeys(name for form in forms for name in form))
    answers = {name: [form.get(name) for form in forms] for name in fields}
    score = _score_field(raw.source, answers, options, usual)
    names, notes = options.further, raw.notes
    if names is not None:
        refuse_absent(raw.source, names, fields, "field")
    else:
        scores = [name for name in fields if name != score and _holds_scores(answers[name])]
        gaps = {name: sum(value in (None, "") for value in answers[name]) for name in scores}
        names = tuple(name for name in scores if not gaps[name])
        partial = [f"{name!r}: empty in {count} of {len(forms)} reviews" for name, count in gaps.items() if count]
        notes += tuple(f"left out the criterion {criterion}" for criterion in partial)
    source = replace(raw.source, names={**raw.source.names, "score": score})
    criteria = {name: _numbers(answers[name]) for name in names}
    return RawTable({**raw.columns, "score": _numbers(answers[score])}, source, criteria, notes)


def _score_field(source: TableSource, answers: Content, options: ReadOptions, usual: Sequence[str]) -> str:
    fields = list(answers)
    if "score" in options.columns:
        refuse_absent(source, [options.columns["score"]], fields, "field")
        return options.columns["score"]
    plain = {plain_name(name): name for name in reversed(fields)}
    score = next((plain[plain_name(name)] for name in usual if plain_name(name) in plain), None)
    if score is None:
        likely = next((name for name in fields if _holds_scores(answers[name])), "...")
        want = f"a field such as {', '.join(usual[:3])} among {listed(fields)}: to say which one it is"
        raise source.refusal("no overall score", want, suggestion={"score": likely})
    return score


def _holds_scores(answers: Sequence[object]) -> bool:
    numbers = [leading_number(value) for value in answers if value not in (None, "")]
    return bool(numbers) and None not in numbers


def _numbers(answers: Sequence[object]) -> pl.Series:
    """Answers by their leading numbers; any that has none stays as it is, for the checker to refuse."""
    return mixed_series("", [value if (number := leading_number(value)) is None else number for value in answers])
