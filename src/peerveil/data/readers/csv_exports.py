"""Reviews and events from the CSV exports of HotCRP and EasyChair.

HotCRP's web CSV has one row per review: ``paper, title, review, reviewername, email``, then the form's fields. Its batch
export (``batch/reviewcsv.php -c -x``) is long, one row per field of a review or comment, with the second it was
submitted: the one to audit times with.

EasyChair's ``review.csv`` has one row per version of a review: ``#, submission #, member #, member name, number, version,
text, scores, total score, ..., date, time``. The cell ``scores`` holds one line per score, such as ``Overall evaluation:
2``. Of several versions of a review the last counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from peerveil.data.readers.platforms import (
    Content,
    ExportRecord,
    Field,
    ReadOptions,
    counted_note,
    csv_records,
    record_table,
    review_table,
)
from peerveil.data.readers.tabular import csv_header, separator_of
from peerveil.data.schema import listed

if TYPE_CHECKING:
    from peerveil.data.check import RawTable
    from peerveil.data.readers.files import InputFile

HOTCRP_WEB = frozenset({"paper", "review"})
HOTCRP_LONG = frozenset({"pid", "review", "email", "status", "field", "data"})
_HOTCRP_SCORES = ("Overall merit", "Overall recommendation", "Overall evaluation", "Overall rating", "Recommendation")
_NOT_FORM = frozenset({
    "paper", "title", "review", "reviewername", "reviewer", "email", "round", "reviewtype", "reviewstatus", "status",
    "submitted_at", "vtag", "sitename", "siteclass", "time", "format", "timezone",
})  # fmt: skip


def is_hotcrp_web(names: Sequence[str]) -> bool:
    """Whether a header is that of the review page."""
    return set(names) >= HOTCRP_WEB and bool({"reviewername", "email", "title"} & set(names)) and "pid" not in names


def hotcrp_reviews(file: InputFile, options: ReadOptions) -> RawTable:
    """Reviews from either export; the score is ``Overall merit`` unless ``columns={"score": ...}`` says otherwise."""
    names = csv_header(file, ",")
    if set(names) >= HOTCRP_LONG:
        return _long_reviews(file, options)
    if is_hotcrp_web(names):
        return _web_reviews(file, options)
    want = "HotCRP's pid,review,email,... or paper,title,review,..."
    raise file.refusal(f"the columns {listed(names)}", want)


def hotcrp_events(file: InputFile, options: ReadOptions) -> RawTable:  # noqa: ARG001
    """Reviews and comments of the long export, with their times; review letters are kept as ``letter``."""
    names = csv_header(file, ",")
    if not set(names) >= HOTCRP_LONG | {"submitted_at"}:
        want = "the export of 'batch/reviewcsv.php -c -x' with submitted_at (the web CSV has no times)"
        raise file.refusal(f"the columns {listed(names)}", want)
    groups, notes = _contributions(file)
    posts = [rows[0] for rows in groups.values()]
    fields: dict[str, Field] = {"actor": "email", "thread": "pid", "time": "submitted_at", "id": ("review", _key)}
    return record_table(file, posts, fields, (("letter", _letter), "vtag"), notes)


def _key(post: Content) -> str:
    return f"{post['pid']}/{post['review']}"


def _is_review(post: Content) -> bool:
    return not str(post["status"]).endswith(("comment", "response"))


def _letter(post: Content) -> str | None:
    """The letter that HotCRP gives a review in order of assignment: 12C is C."""
    return str(post["review"]).removeprefix(post["pid"]) if _is_review(post) else None


def _contributions(file: InputFile) -> tuple[dict[str, list[ExportRecord]], tuple[str, ...]]:
    """Rows of the long export by review or comment; drafts are left out, and noted."""
    groups: dict[str, list[ExportRecord]] = {}
    for row in csv_records(file):
        groups.setdefault(_key(row.content), []).append(row)
    status = {key: rows[0].content["status"] for key, rows in groups.items()}
    submitted = {key: groups[key] for key in groups if "draft" not in status[key] and "not started" not in status[key]}
    if not submitted:
        raise file.refusal("a header and no submitted review or comment", "at least one row")
    return submitted, counted_note(len(groups) - len(submitted), "left out drafts: {}")


def _long_reviews(file: InputFile, options: ReadOptions) -> RawTable:
    groups, notes = _contributions(file)
    answers = [rows for rows in groups.values() if _is_review(rows[0].content)]
    if not answers:
        raise file.refusal(f"{len(groups)} comments and no review", "at least one review")
    reviews = [rows[0] for rows in answers]
    fields = {"paper": "pid", "reviewer": "email", "time": "submitted_at"}
    forms = [{row.content["field"]: row.content["data"] for row in reversed(rows)} for rows in answers]
    forms = [dict(reversed(form.items())) for form in forms]  # in the order of the file; the first answer counts
    return review_table(record_table(file, reviews, fields, notes=notes), forms, options, _HOTCRP_SCORES)


def _web_reviews(file: InputFile, options: ReadOptions) -> RawTable:
    reviews = csv_records(file)
    people = [name for name in ("email", "reviewername", "reviewer") if any(row.content.get(name) for row in reviews)]
    fields = {"paper": "paper"} | ({"reviewer": people[0]} if people else {})
    forms = [{name: cell for name, cell in row.content.items() if name not in _NOT_FORM} for row in reviews]
    return review_table(record_table(file, reviews, fields), forms, options, _HOTCRP_SCORES)


# ---- EasyChair ----------------------------------------------------------------------------------------------------------

EASYCHAIR = frozenset({"submission #", "member #"})
"""Columns, in small letters, by which the file is recognized."""
_EASYCHAIR_SCORES = ("total score", "Overall evaluation", "Overall score", "score")
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
    columns = record_table(file, rows, {"paper": "submission #", "reviewer": "member #", "time": _TIME}, notes=older)
    raw = review_table(columns, [_scores(row.content) for row in rows], options, _EASYCHAIR_SCORES)
    if options.further is not None:
        return raw
    score = raw.columns["score"].to_list()
    return replace(raw, further={name: values for name, values in raw.further.items() if values.to_list() != score})


def easychair_events(file: InputFile, options: ReadOptions) -> RawTable:  # noqa: ARG001
    """Every version of every review is an event; ``number`` is the order in which EasyChair numbers reviews."""
    rows = _rows(file)
    fields: dict[str, Field] = {"thread": "submission #", "actor": "member #", "time": _TIME}
    number = ("number", lambda cells: cells.get("number") or cells.get("#"))
    raw = record_table(file, rows, fields, [number])
    if raw.columns["time"].null_count() == len(rows):
        raise raw.source.refusal("reviews without date and time", "the columns date and time", column="date")
    return raw


def _rows(file: InputFile) -> list[ExportRecord]:
    rows = [
        ExportRecord(row.row, row.line, {name.strip().lower(): cell.strip() for name, cell in row.content.items()})
        for row in csv_records(file, separator_of(file, "csv"))
    ]
    names = list(rows[0].content)
    absent = sorted(EASYCHAIR - set(names), reverse=True)
    if absent:
        raise file.refusal(f"the columns {listed(names)}", f"EasyChair's columns {', '.join(absent)}")
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
