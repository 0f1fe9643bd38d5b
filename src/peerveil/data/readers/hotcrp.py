"""HotCRP exports: the CSV of the review page, and ``batch/reviewcsv.php -c -x``.

The web CSV has one row per review: ``paper, title, review, reviewername, email``, then the form's fields. The batch
export is long, one row per field of a review or comment, with the second it was submitted: the one to audit times with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from peerveil.core.errors import Verbatim
from peerveil.data.check import RawTable
from peerveil.data.readers.platforms import (
    Record,
    counted_note,
    csv_records,
    records_source,
    review_table,
    text_column,
)
from peerveil.data.readers.tabular import csv_header
from peerveil.data.schema import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from peerveil.data.readers.files import InputFile
    from peerveil.data.readers.tabular import ReadOptions

WEB = frozenset({"paper", "review"})
LONG = frozenset({"pid", "review", "email", "status", "field", "data"})
_SCORES = ("Overall merit", "Overall recommendation", "Overall evaluation", "Overall rating", "Recommendation")
_NOT_FORM = frozenset({
    "paper", "title", "review", "reviewername", "reviewer", "email", "round", "reviewtype", "reviewstatus", "status",
    "submitted_at", "vtag", "sitename", "siteclass", "time", "format", "timezone",
})  # fmt: skip


@dataclass(frozen=True)
class _Contribution:
    """One review or comment of the long export."""

    paper: str
    review: str
    email: str
    status: str
    time: str
    vtag: str
    answers: dict[str, str]

    @property
    def is_review(self) -> bool:
        return not self.status.endswith(("comment", "response"))

    @property
    def is_draft(self) -> bool:
        return "draft" in self.status or "not started" in self.status

    @property
    def letter(self) -> str | None:
        """The letter that HotCRP gives a review in order of assignment: 12C is C."""
        return self.review.removeprefix(self.paper) if self.is_review else None


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
    posts, notes = _contributions(file)
    columns = {
        "actor": text_column(posts, lambda post: post.email),
        "thread": text_column(posts, lambda post: post.paper),
        "time": text_column(posts, lambda post: post.time),
        "id": text_column(posts, lambda post: f"{post.paper}/{post.review}"),
    }
    further = {"letter": text_column(posts, lambda post: post.letter)}
    if any(post.content.vtag for post in posts):
        further["vtag"] = text_column(posts, lambda post: post.vtag)
    their_names = {"actor": "email", "thread": "pid", "time": "submitted_at", "id": "review"}
    return RawTable(columns, records_source(file, posts, their_names), further, notes)


def _contributions(file: InputFile) -> tuple[list[Record[_Contribution]], tuple[str, ...]]:
    """Rows of the long export put together by review or comment; drafts are left out, and noted."""
    header, rows = csv_records(file)
    grouped: dict[tuple[str, str], Record[_Contribution]] = {}
    for row in rows:
        cells = dict(zip(header, row.content, strict=True))
        key = (cells["pid"], cells["review"])
        if key not in grouped:
            times = cells.get("submitted_at", ""), cells.get("vtag", "")
            post = _Contribution(*key, cells["email"], cells["status"], *times, {})
            grouped[key] = Record(row.row, row.line, post)
        grouped[key].content.answers.setdefault(cells["field"], cells["data"])
    submitted = [post for post in grouped.values() if not post.content.is_draft]
    if not submitted:
        raise file.refusal(Verbatim("a header and no submitted review or comment"), "at least one row")
    return submitted, counted_note(len(grouped) - len(submitted), "left out drafts: {}")


def _long_reviews(file: InputFile, options: ReadOptions) -> RawTable:
    posts, notes = _contributions(file)
    reviews = [post for post in posts if post.content.is_review]
    if not reviews:
        raise file.refusal(Verbatim(f"{len(posts)} comments and no review"), "at least one review")
    columns = {
        "paper": text_column(reviews, lambda post: post.paper),
        "reviewer": text_column(reviews, lambda post: post.email),
        "time": text_column(reviews, lambda post: post.time),
    }
    source = records_source(file, reviews, {"paper": "pid", "reviewer": "email", "time": "submitted_at"})
    return review_table(source, columns, [review.content.answers for review in reviews], options, _SCORES, notes)


def _web_reviews(file: InputFile, options: ReadOptions) -> RawTable:
    header, rows = csv_records(file)
    reviews = [Record(row.row, row.line, dict(zip(header, row.content, strict=True))) for row in rows]
    columns = {"paper": text_column(reviews, lambda cells: cells["paper"])}
    people = (name for name in ("email", "reviewername", "reviewer") if any(row.content.get(name) for row in reviews))
    reviewer = next(people, None)
    if reviewer is not None:
        columns["reviewer"] = text_column(reviews, lambda cells: cells[reviewer])
    forms = [{name: cell for name, cell in row.content.items() if name not in _NOT_FORM} for row in reviews]
    source = records_source(file, reviews, {"paper": "paper", "reviewer": reviewer or "email"})
    return review_table(source, columns, forms, options, _SCORES)
