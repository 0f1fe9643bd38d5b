"""EasyChair's ``review.csv``: a row a version of a review, the scores as text in one cell.

The columns are ``#, submission #, member #, member name, number, version, text, scores, total score, ..., date,
time``. The cell ``scores`` holds a line a score, such as ``Overall evaluation: 2``. Of several versions of a review
the last counts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from peerveil.core.errors import Verbatim
from peerveil.data.problems import Source
from peerveil.data.readers.fields import assemble, score_columns, text_series
from peerveil.data.readers.files import InputFile, Raw, Wish, csv_rows
from peerveil.data.readers.tabular import separator_of, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

_SCORES = ("total score", "Overall evaluation", "Overall score", "score")
_LINE = re.compile(r"^\s*(.+?)\s*:\s*([-+]?\d+(?:\.\d+)?)\s*(?:\(.*\))?\s*$")
_REQUIRED = ("submission #", "member #")
HEADER = frozenset(_REQUIRED)
"""Columns, in small letters, by which the file is recognized."""
Row = tuple[int, int, dict[str, str]]


def read_reviews(file: InputFile, wish: Wish) -> Raw:
    """Reviews: the score is ``total score`` unless ``columns={"score": ...}`` names another one.

    The scores inside the cell ``scores`` are criteria. When all there is is the overall one, there are none.
    """
    every = _rows(file)
    rows = _latest(every)
    source = _source(file, rows)
    forms = [_scores(row[2]) for row in rows]
    fields = list(dict.fromkeys(name for form in forms for name in form))
    answers: dict[str, list[object]] = {name: [form.get(name) for form in forms] for name in fields}
    score, criteria, left_out = score_columns(source, answers, wish, _SCORES)
    if wish.further is None:
        criteria = {name: values for name, values in criteria.items() if values.to_list() != score.to_list()}
    columns: dict[str, pl.Series | None] = {
        "paper": text_series("paper", [row[2].get("submission #") for row in rows]),
        "score": score,
        "reviewer": text_series("reviewer", [row[2].get("member #") for row in rows]),
        "time": _times(rows),
    }
    older = len(every) - len(rows)
    said = [f"left out earlier versions of reviews: {older:,}"] if older else []
    return assemble(source, columns, criteria, said + left_out)


def read_events(file: InputFile, wish: Wish) -> Raw:  # noqa: ARG001
    """Every version of every review is an event; ``number`` is the order in which EasyChair numbers reviews."""
    rows = _rows(file)
    source = _source(file, rows)
    times = _times(rows)
    if times is None:
        raise source.refusal(Verbatim("reviews without date and time"), "the columns date and time", column="date")
    columns: dict[str, pl.Series | None] = {
        "actor": text_series("actor", [row[2].get("member #") for row in rows]),
        "thread": text_series("thread", [row[2].get("submission #") for row in rows]),
        "time": times,
    }
    further = {"number": text_series("number", [row[2].get("number") or row[2].get("#") for row in rows])}
    return assemble(source, columns, further, ())


def _rows(file: InputFile) -> list[Row]:
    separator = separator_of(file, "csv")
    records = list(csv_rows(file.text(), separator))
    header = [name.strip().lower() for name in records[0][1]] if records else []
    absent = [name for name in _REQUIRED if name not in header]
    if absent:
        raise file.refusal(Verbatim(f"the columns {shown(header)}"), f"EasyChair's columns {', '.join(absent)}")
    rows: list[Row] = []
    for row, (line, cells) in enumerate(records[1:], start=1):
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(header):
            raise file.refusal(
                Verbatim(f"{len(cells)} cells in row {row}"), f"{len(header)}, as in the header", line=line
            )
        stripped = {name: cell.strip() for name, cell in zip(header, cells, strict=True)}
        rows.append((row, line, stripped))
    if not rows:
        raise file.refusal(Verbatim("a header and no rows"), "at least one row")
    return rows


def _source(file: InputFile, rows: Sequence[Row]) -> Source:
    names = (
        ("paper", "submission #"),
        ("thread", "submission #"),
        ("reviewer", "member #"),
        ("actor", "member #"),
        ("time", "date"),
    )
    return Source(file.name, lambda at: (rows[at][0], rows[at][1]), names=names)


def _latest(rows: Sequence[Row]) -> list[Row]:
    """The last version of each review. Rows without a version are all kept."""
    best: dict[tuple[str, ...], Row] = {}
    for row in rows:
        cells = row[2]
        version = cells.get("version", "")
        if not version.isdecimal():
            best[("row", str(row[0]))] = row
            continue
        key = (cells["submission #"], cells["member #"], cells.get("number", ""))
        if key not in best or int(version) >= int(best[key][2]["version"]):
            best[key] = row
    return sorted(best.values(), key=lambda row: row[0])


def _scores(cells: dict[str, str]) -> dict[str, str]:
    found = {}
    for line in re.split(r"[\r\n;]+", cells.get("scores", "")):
        match = _LINE.match(line)
        if match:
            found[match[1]] = match[2]
    if cells.get("total score"):
        found["total score"] = cells["total score"]
    return found


def _times(rows: Sequence[Row]) -> pl.Series | None:
    """Date and time in one; a date alone is midnight. They name no zone: give time_zone= if it is not UTC."""
    joined = [f"{row[2].get('date', '')} {row[2].get('time', '')}".strip() for row in rows]
    return text_series("time", joined) if any(joined) else None
