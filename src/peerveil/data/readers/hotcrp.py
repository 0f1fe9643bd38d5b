"""Reviews and events from HotCRP.

Its web CSV has one row per review: ``paper, title, review, reviewername, email``, then the form's fields. Its batch
export (``batch/reviewcsv.php -c -x``) is long, one row per field of a review or comment, with the second it was
submitted: the one to audit times with.
"""

import re
from collections.abc import Sequence

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
from peerveil.data.readers.tabular import csv_header
from peerveil.data.schema import RawTable, ReadOptions, listed, refuse_absent

HOTCRP_WEB = {"paper", "review"}
HOTCRP_LONG = ("pid", "review", "email", "status", "field", "data")
# the letter that HotCRP gives a review in order of assignment: 12C is C
_LETTER: Field = "letter", lambda post: str(post["review"]).removeprefix(post["pid"]) if _is_review(post) else None
_SCORES = ("Overall merit", "Overall recommendation", "Overall evaluation", "Overall rating", "Recommendation")
_NOT_FORM = frozenset({
    "paper", "title", "review", "reviewername", "reviewer", "email", "round", "reviewtype", "reviewstatus", "status",
    "submitted_at", "vtag", "sitename", "siteclass", "time", "format", "timezone",
})  # fmt: skip


def is_hotcrp_web(names: Sequence[str]) -> bool:
    """Whether a header is that of the review page."""
    columns = set(names)
    return columns >= HOTCRP_WEB and not columns.isdisjoint({"reviewername", "email", "title"}) and "pid" not in columns


def hotcrp_reviews(file: InputFile, options: ReadOptions) -> RawTable:
    """Reviews from either export; the score is ``Overall merit`` unless ``columns={"score": ...}`` says otherwise."""
    names = csv_header(file, ",")
    if is_hotcrp_web(names):
        return _web_reviews(file, options)
    refuse_absent(TableSource(file.name), HOTCRP_LONG, names)
    return _long_reviews(file, options)


def hotcrp_events(file: InputFile, options: ReadOptions) -> RawTable:  # noqa: ARG001
    """Reviews and comments of the long export, with their times; review letters are kept as ``letter``."""
    names = csv_header(file, ",")
    if not set(names).issuperset((*HOTCRP_LONG, "submitted_at")):
        want = "the export of 'batch/reviewcsv.php -c -x' with submitted_at (the web CSV has no times)"
        raise file.refusal(f"the columns {listed(names)}", want)
    groups, notes = _contributions(file)
    posts = [rows[0] for rows in groups.values()]
    fields: dict[str, Field] = {"actor": "email", "thread": "pid", "time": "submitted_at", "id": ("review", _key)}
    return record_table(file.name, posts, fields, (_LETTER, "vtag"), notes)


def _key(post: Content) -> str:
    return f"{post['pid']}/{post['review']}"


def _is_review(post: Content) -> bool:
    return not str(post["status"]).endswith(("comment", "response"))


def _contributions(file: InputFile) -> tuple[dict[str, list[ExportRecord]], tuple[str, ...]]:
    """Rows of the long export by review or comment; drafts are left out, and noted."""
    groups: dict[str, list[ExportRecord]] = {}
    for row in csv_records(file):
        groups.setdefault(_key(row.content), []).append(row)
    submitted = {
        key: rows for key, rows in groups.items() if not re.search("draft|not started", rows[0].content["status"])
    }
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
    return review_table(record_table(file.name, reviews, fields, notes=notes), forms, options, _SCORES)


def _web_reviews(file: InputFile, options: ReadOptions) -> RawTable:
    reviews = csv_records(file)
    people = [name for name in ("email", "reviewername", "reviewer") if any(row.content.get(name) for row in reviews)]
    fields = {"paper": "paper"} | ({"reviewer": people[0]} if people else {})
    forms = [{name: cell for name, cell in row.content.items() if name not in _NOT_FORM} for row in reviews]
    return review_table(record_table(file.name, reviews, fields), forms, options, _SCORES)
