"""What the exports of review platforms have in common: records with places in the file, and forms with scores."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from peerveil.data.problems import TableSource
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


def record_table(
    file: str,
    records: Sequence[ExportRecord],
    fields: Mapping[str, Field],
    further: Sequence[Field] = (),
    notes: tuple[str, ...] = (),
) -> RawTable:
    """A table with one row per record: our columns from the platform's fields, and the further ones that any record has."""
    ours = {column: entry if isinstance(entry, tuple) else (entry, None) for column, entry in fields.items()}
    others = [entry if isinstance(entry, tuple) else (entry, None) for entry in further]
    columns = {theirs: _column(records, theirs, get) for theirs, get in others}
    return RawTable(
        {column: _column(records, theirs, get) for column, (theirs, get) in ours.items()},
        TableSource(
            file,
            lambda position: (records[position].row, records[position].line),
            names=tuple((column, theirs) for column, (theirs, _) in ours.items()),
        ),
        {name: values for name, values in columns.items() if values.null_count() < len(values)},
        notes,
    )


def _column(records: Sequence[ExportRecord], name: str, get: Callable[[Content], object] | None) -> pl.Series:
    """Whole numbers if all values are, text otherwise; gaps kept."""
    values = [record.content.get(name) if get is None else get(record.content) for record in records]
    if all(value is None or type(value) is int for value in values):
        try:
            return pl.Series(values, dtype=pl.Int64)
        except (OverflowError, TypeError, pl.exceptions.PolarsError):
            pass
    return _as_text(values)


def _as_text(values: Sequence[object]) -> pl.Series:
    return pl.Series([None if value in (None, "") else str(value) for value in values], dtype=pl.String)


def counted_note(count: int, note: str) -> tuple[str, ...]:
    """A note on what was left out, if anything was; ``{}`` in it stands for the number."""
    return (note.format(f"{count:,}"),) if count else ()


def leading_number(value: object) -> float | None:
    """The number that an answer is, or begins with.

    >>> [leading_number(value) for value in (8, "6: marginally above", "3. Weak accept", "-2 (reject)", "good")]
    [8.0, 6.0, 3.0, -2.0, None]
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if abs(value) < 1e15 else None
    match = _LEADING.match(value) if isinstance(value, str) else None
    return float(match[1].replace("−", "-")) if match else None


def review_table(
    raw: RawTable, forms: Sequence[Mapping[str, object]], options: ReadOptions, usual: Sequence[str]
) -> RawTable:
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
        notes += tuple(
            f"left out the criterion {name!r}: empty in {count} of {len(forms)} reviews"
            for name, count in gaps.items()
            if count
        )
    source = replace(raw.source, names=(*raw.source.names, ("score", score)))
    criteria = {name: _numbers(answers[name]) for name in names}
    return RawTable({**raw.columns, "score": _numbers(answers[score])}, source, criteria, notes)


def _score_field(
    source: TableSource, answers: Mapping[str, Sequence[object]], options: ReadOptions, usual: Sequence[str]
) -> str:
    fields = list(answers)
    if "score" in options.columns:
        refuse_absent(source, [options.columns["score"]], fields, "field")
        return options.columns["score"]
    plain = {plain_name(name): name for name in reversed(fields)}
    score = next((plain[plain_name(name)] for name in usual if plain_name(name) in plain), None)
    if score is None:
        raise source.refusal(
            "no overall score",
            f"a field such as {', '.join(usual[:3])} among {listed(fields)}: to say which one it is",
            suggestion={"score": next((name for name in fields if _holds_scores(answers[name])), "...")},
        )
    return score


def _holds_scores(answers: Sequence[object]) -> bool:
    numbers = [leading_number(value) for value in answers if value not in (None, "")]
    return bool(numbers) and None not in numbers


def _numbers(answers: Sequence[object]) -> pl.Series:
    """Answers by their leading numbers; any that has none stays text, for the checker to refuse."""
    numbers = [leading_number(value) for value in answers]
    if all(number is not None or value is None for number, value in zip(numbers, answers, strict=True)):
        return pl.Series(numbers, dtype=pl.Float64)
    return _as_text([value if number is None else number for number, value in zip(numbers, answers, strict=True)])
