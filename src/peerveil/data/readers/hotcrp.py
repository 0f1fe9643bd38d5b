"""HotCRP exports: the CSV of the review page, and ``batch/reviewcsv.php -c -x``.

The web CSV has one row per review: ``paper, title, review, reviewername, email``, then the form's fields. The batch
export is long, one row per field of a review or comment, with the second it was submitted: the one to audit times with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from peerveil.core.errors import Verbatim
from peerveil.data.readers.platforms import ExportRecord, counted_note, csv_records, record_table, review_table
from peerveil.data.readers.tabular import csv_header
from peerveil.data.schema import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from peerveil.data.check import RawTable
    from peerveil.data.readers.files import InputFile
    from peerveil.data.readers.platforms import Content, Field, ReadOptions

WEB = frozenset({"paper", "review"})
LONG = frozenset({"pid", "review", "email", "status", "field", "data"})
_SCORES = ("Overall merit", "Overall recommendation", "Overall evaluation", "Overall rating", "Recommendation")
_NOT_FORM = frozenset({
    "paper", "title", "review", "reviewername", "reviewer", "email", "round", "reviewtype", "reviewstatus", "status",
    "submitted_at", "vtag", "sitename", "siteclass", "time", "format", "timezone",
})  # fmt: skip


def is_web(names: Sequence[str]) -> bool:
    """Whether a header is that of the review page."""
    return set(names) >= WEB and bool({"reviewername", "email", "title"} & set(names)) and "pid" not in names


def read_reviews(file: InputFile, options: ReadOptions) -> RawTable:
    """Reviews from either export; the score is ``Overall merit`` unless ``columns={"score": ...}`` says otherwise."""
    names = csv_header(file, ",")
    if set(names) >= LONG:
        return _long_reviews(file, options)
    if is_web(names):
        return _web_reviews(file, options)
    want = "HotCRP's pid,review,email,... or paper,title,review,..."
    raise file.refusal(Verbatim(f"the columns {listed(names)}"), want)


def read_events(file: InputFile, options: ReadOptions) -> RawTable:  # noqa: ARG001
    """Reviews and comments of the long export, with their times; review letters are kept as ``letter``."""
    names = csv_header(file, ",")
    if not set(names) >= LONG | {"submitted_at"}:
        want = "the export of 'batch/reviewcsv.php -c -x' with submitted_at (the web CSV has no times)"
        raise file.refusal(Verbatim(f"the columns {listed(names)}"), want)
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
        raise file.refusal(Verbatim("a header and no submitted review or comment"), "at least one row")
    return submitted, counted_note(len(groups) - len(submitted), "left out drafts: {}")


def _long_reviews(file: InputFile, options: ReadOptions) -> RawTable:
    groups, notes = _contributions(file)
    answers = [rows for rows in groups.values() if _is_review(rows[0].content)]
    if not answers:
        raise file.refusal(Verbatim(f"{len(groups)} comments and no review"), "at least one review")
    reviews = [rows[0] for rows in answers]
    fields = {"paper": "pid", "reviewer": "email", "time": "submitted_at"}
    forms = [{row.content["field"]: row.content["data"] for row in reversed(rows)} for rows in answers]
    forms = [dict(reversed(form.items())) for form in forms]  # in the order of the file; the first answer counts
    return review_table(record_table(file, reviews, fields, notes=notes), forms, options, _SCORES)


def _web_reviews(file: InputFile, options: ReadOptions) -> RawTable:
    reviews = csv_records(file)
    people = [name for name in ("email", "reviewername", "reviewer") if any(row.content.get(name) for row in reviews)]
    fields = {"paper": "paper"} | ({"reviewer": people[0]} if people else {})
    forms = [{name: cell for name, cell in row.content.items() if name not in _NOT_FORM} for row in reviews]
    return review_table(record_table(file, reviews, fields), forms, options, _SCORES)
