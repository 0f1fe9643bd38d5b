"""EasyChair's ``review.csv``: one row per version of a review, the scores as text in one cell.

The columns are ``#, submission #, member #, member name, number, version, text, scores, total score, ..., date,
time``. The cell ``scores`` holds one line per score, such as ``Overall evaluation: 2``. Of several versions of a review
the last counts.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from peerveil.core.errors import Verbatim
from peerveil.data.readers.platforms import ExportRecord, Field, counted_note, csv_records, record_table, review_table
from peerveil.data.readers.tabular import separator_of
from peerveil.data.schema import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from peerveil.data.check import RawTable
    from peerveil.data.readers.files import InputFile
    from peerveil.data.readers.platforms import Content, ReadOptions

HEADER = frozenset({"submission #", "member #"})
"""Columns, in small letters, by which the file is recognized."""
_SCORES = ("total score", "Overall evaluation", "Overall score", "score")
_SCORE_LINE = re.compile(r"^\s*(.+?)\s*:\s*([-+]?\d+(?:\.\d+)?)\s*(?:\(.*\))?\s*$")
# The times name no zone: give time_zone= if it is not UTC; a date alone is midnight.
_TIME: Field = ("date", lambda cells: f"{cells.get('date', '')} {cells.get('time', '')}".strip())


def read_reviews(file: InputFile, options: ReadOptions) -> RawTable:
    """Reviews: the score is ``total score`` unless ``columns={"score": ...}`` names another one.

    The scores inside the cell ``scores`` are criteria. When all there is is the overall one, there are none.
    """
    versions = _rows(file)
    rows = _latest(versions)
    older = counted_note(len(versions) - len(rows), "left out earlier versions of reviews: {}")
    columns = record_table(file, rows, {"paper": "submission #", "reviewer": "member #", "time": _TIME}, notes=older)
    raw = review_table(columns, [_scores(row.content) for row in rows], options, _SCORES)
    if options.further is not None:
        return raw
    score = raw.columns["score"].to_list()
    return replace(raw, further={name: values for name, values in raw.further.items() if values.to_list() != score})


def read_events(file: InputFile, options: ReadOptions) -> RawTable:  # noqa: ARG001
    """Every version of every review is an event; ``number`` is the order in which EasyChair numbers reviews."""
    rows = _rows(file)
    fields: dict[str, Field] = {"thread": "submission #", "actor": "member #", "time": _TIME}
    number = ("number", lambda cells: cells.get("number") or cells.get("#"))
    raw = record_table(file, rows, fields, [number])
    if raw.columns["time"].null_count() == len(rows):
        raise raw.source.refusal(Verbatim("reviews without date and time"), "the columns date and time", column="date")
    return raw


def _rows(file: InputFile) -> list[ExportRecord]:
    rows = [
        ExportRecord(row.row, row.line, {name.strip().lower(): cell.strip() for name, cell in row.content.items()})
        for row in csv_records(file, separator_of(file, "csv"))
    ]
    names = list(rows[0].content)
    absent = sorted(HEADER - set(names), reverse=True)
    if absent:
        raise file.refusal(Verbatim(f"the columns {listed(names)}"), f"EasyChair's columns {', '.join(absent)}")
    return rows


def _latest(rows: Sequence[ExportRecord]) -> list[ExportRecord]:
    """The last version of each review. Rows without a version are all kept."""
    latest: dict[tuple[str, ...], ExportRecord] = {}
    for row in rows:
        cells = row.content
        version = cells.get("version", "")
        review = (cells["submission #"], cells["member #"], cells.get("number", ""))
        key = review if version.isdecimal() else ("row", str(row.row))
        if key not in latest or int(version) >= int(latest[key].content["version"]):
            latest[key] = row
    return sorted(latest.values(), key=lambda row: row.row)


def _scores(cells: Content) -> dict[str, str]:
    matches = map(_SCORE_LINE.match, re.split(r"[\r\n;]+", cells.get("scores", "")))
    scores = {match[1]: match[2] for match in matches if match}
    return scores | ({"total score": cells["total score"]} if cells.get("total score") else {})
