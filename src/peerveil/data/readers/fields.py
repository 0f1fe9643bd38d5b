"""What the review platforms have in common: forms with fields, some of which are scores."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import polars as pl

from peerveil.core.errors import Verbatim
from peerveil.data.problems import Problems, Source, Suggestion
from peerveil.data.readers.files import Raw, Wish
from peerveil.data.readers.tabular import plain_name, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LEADING = re.compile(r"^\s*([-+−]?\d+(?:\.\d+)?)\s*(?:$|[.:)–—-](?!\d)|\()")


def leading_number(value: object) -> float | None:
    """The number that an answer is, or begins with.

    >>> [leading_number(value) for value in (8, "6: marginally above", "3. Weak accept", "-2 (reject)", "good")]
    [8.0, 6.0, 3.0, -2.0, None]
    """
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return float(value) if abs(value) < 1e15 else None
    match = _LEADING.match(value) if isinstance(value, str) else None
    return float(match[1].replace("−", "-")) if match else None


def score_columns(
    source: Source,
    answers: Mapping[str, Sequence[object]],
    wish: Wish,
    usual: Sequence[str],
) -> tuple[pl.Series, dict[str, pl.Series], list[str]]:
    """The overall score, the criteria, and notes on what was left out.

    ``answers`` holds, per field of the form, one answer a review (None where there is none). The score is the
    field that ``columns={"score": ...}`` names, else the first of the ``usual`` ones. Without named criteria,
    every field that holds a number in each review is one; a field with gaps is left out and noted.
    """
    field = _score_field(source, answers, wish, usual)
    problems = Problems(source)
    score = _numbers(field, answers[field], problems)
    notes = []
    criteria: dict[str, pl.Series] = {}
    named = wish.further
    for name in named if named is not None else answers:
        if name not in answers:
            raise source.refusal(Verbatim(f"no field {name!r}"), f"one of {shown(list(answers))}")
        if named is not None:
            criteria[name] = _numbers(name, answers[name], problems)
        elif name != field and _is_score(answers[name]):
            gaps = sum(1 for value in answers[name] if value is None or value == "")
            if gaps:
                notes.append(f"left out the criterion {name!r}: empty in {gaps} of {len(score)} reviews")
            else:
                criteria[name] = _numbers(name, answers[name], problems)
    problems.raise_any()
    return score, criteria, notes


def _score_field(source: Source, answers: Mapping[str, Any], wish: Wish, usual: Sequence[str]) -> str:
    asked = wish.columns.get("score")
    if asked is not None:
        if asked not in answers:
            raise source.refusal(Verbatim(f"no field {asked!r}"), f"one of {shown(list(answers))}")
        return asked
    plain = {plain_name(name): name for name in reversed(list(answers))}
    for name in usual:
        if plain_name(name) in plain:
            return plain[plain_name(name)]
    numeric = [name for name, values in answers.items() if _is_score(values)]
    example = numeric[0] if numeric else "..."
    raise source.refusal(
        Verbatim("no overall score"),
        f"a field such as {', '.join(usual[:3])} among {shown(list(answers))}: to say which one it is",
        suggestion=Suggestion("Reviews", {"score": example}),
    )


def _is_score(values: Sequence[object]) -> bool:
    given = [value for value in values if value is not None and value != ""]
    return bool(given) and all(leading_number(value) is not None for value in given)


def _numbers(field: str, values: Sequence[object], problems: Problems) -> pl.Series:
    numbers = [leading_number(value) for value in values]
    bad = [row for row, number in enumerate(numbers) if number is None]
    problems.add(
        field,
        bad,
        got=lambda row: values[row] if values[row] not in (None, "") else Verbatim("nothing"),
        want="a number, or text that begins with one",
    )
    return pl.Series(field, [0.0 if number is None else number for number in numbers])


def all_or_none(values: Sequence[object]) -> list[object] | None:
    """A column, or None if it is empty throughout (an export that does not show it)."""
    cleaned = [None if value == "" else value for value in values]
    return None if all(value is None for value in cleaned) else cleaned


def text_series(name: str, values: Sequence[object]) -> pl.Series:
    """Ids as text, gaps kept."""
    return pl.Series(name, [None if value in (None, "") else str(value) for value in values], dtype=pl.String)


def whole_series(name: str, values: Sequence[object]) -> pl.Series:
    """Whole numbers, gaps kept; what is not one becomes text for the checker to refuse."""
    if all(value is None or (isinstance(value, int) and not isinstance(value, bool)) for value in values):
        try:
            return pl.Series(name, list(values), dtype=pl.Int64)
        except (OverflowError, TypeError, pl.exceptions.PolarsError):
            pass
    return text_series(name, values)


def assemble(
    source: Source, columns: Mapping[str, pl.Series | None], further: Mapping[str, pl.Series], notes: Sequence[str]
) -> Raw:
    """A reader's result without the columns that are not there."""
    return Raw(
        {name: value for name, value in columns.items() if value is not None}, source, dict(further), tuple(notes)
    )
