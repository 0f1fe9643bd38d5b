"""Reviews and events from EasyChair.

``review.csv`` has one row per version of a review: ``#, submission #, member #, member name, number, version, text,
scores, total score, ..., date, time``. The cell ``scores`` holds one line per score, such as ``Overall evaluation: 2``.
Of several versions of a review the last counts.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from peerveil.data.problems import TableSource
from peerveil.data.readers.files import InputFile
from peerveil.data.readers.platforms import (
    Content,
    ExportRecord,
    Field,
    counted_note,
    csv_records,
    record_table,
    review_table,
)
from peerveil.data.readers.tabular import separator_of
from peerveil.data.schema import RawTable, ReadOptions, refuse_absent

EASYCHAIR = ("submission #", "member #")  # columns, in small letters, by which the file is recognized
_OVERALL = ("total score", "Overall evaluation", "Overall score", "score")
_SCORE_LINE = re.compile(r"^\s*(.+?)\s*:\s*([-+]?\d+(?:\.\d+)?)\s*(?:\(.*\))?\s*$")
# The times name no zone: give time_zone= if it is not UTC; a date alone is midnight.
_TIME: Field = ("date", lambda cells: f"{cells.get('date', '')} {cells.get('time', '')}".strip())


def easychair_reviews(file: InputFile, options: ReadOptions) -> RawTable:
    """Reviews: the score is ``total score`` unless ``columns={"score": ...}`` names another one.

    The scores inside the cell ``scores`` are criteria. When all there is is the overall one, there are none.
    """
    versions = _rows(file)
    rows = _latest(versions)
    older = counted_note(len(versions) - len(rows), "left out earlier versions of reviews: {}")
    columns = record_table(
        file.name, rows, {"paper": "submission #", "reviewer": "member #", "time": _TIME}, notes=older
    )
    raw = review_table(columns, [_scores(row.content) for row in rows], options, _OVERALL)
    if options.further is not None:
        return raw
    score = raw.columns["score"].to_list()
    return replace(raw, further={name: values for name, values in raw.further.items() if values.to_list() != score})


def easychair_events(file: InputFile, options: ReadOptions) -> RawTable:  # noqa: ARG001
    """Every version of every review is an event; ``number`` is the order in which EasyChair numbers reviews."""
    rows = _rows(file)
    fields: dict[str, Field] = {"thread": "submission #", "actor": "member #", "time": _TIME}
    number = ("number", lambda cells: cells.get("number") or cells.get("#"))
    return record_table(file.name, rows, fields, [number])


def _rows(file: InputFile) -> list[ExportRecord]:
    rows = [
        ExportRecord(row.row, row.line, {name.strip().lower(): cell.strip() for name, cell in row.content.items()})
        for row in csv_records(file, separator_of(file, "csv"))
    ]
    refuse_absent(TableSource(file.name), EASYCHAIR, list(rows[0].content))
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
