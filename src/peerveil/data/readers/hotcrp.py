"""HotCRP exports: the CSV of the review page, and ``batch/reviewcsv.php -c -x``.

The web CSV has a row a review: ``paper, title, review, reviewername, email``, then the form's fields. The batch export
is long, a row a field of a review or comment, with the second it was submitted: the one to audit times with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from peerveil.core.errors import Verbatim
from peerveil.data.problems import Source
from peerveil.data.readers.fields import all_or_none, assemble, score_columns, text_series
from peerveil.data.readers.files import InputFile, Raw, Wish, csv_rows
from peerveil.data.readers.tabular import csv_header, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

LONG = frozenset({"pid", "review", "email", "status", "field", "data"})
WEB = frozenset({"paper", "review"})
_SCORES = ("Overall merit", "Overall recommendation", "Overall evaluation", "Overall rating", "Recommendation")
_ABOUT = [
    "paper",
    "title",
    "review",
    "reviewername",
    "reviewer",
    "email",
    "round",
    "reviewtype",
    "reviewstatus",
    "status",
    "submitted_at",
    "vtag",
    "sitename",
    "siteclass",
    "time",
    "format",
    "timezone",
]


@dataclass(frozen=True)
class _Post:
    """One review or comment of the long export."""

    row: int
    line: int
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


def is_web(names: Sequence[str]) -> bool:
    """Whether a header is that of the review page."""
    return set(names) >= WEB and bool({"reviewername", "email", "title"} & set(names)) and "pid" not in names


def read_reviews(file: InputFile, wish: Wish) -> Raw:
    """Reviews from either export; the score is ``Overall merit`` unless ``columns={"score": ...}`` says otherwise."""
    names = csv_header(file, ",")
    if set(names) >= LONG:
        return _long_reviews(file, wish)
    if is_web(names):
        return _web_reviews(file, wish)
    raise file.refusal(
        Verbatim(f"the columns {shown(names)}"), "HotCRP's pid,review,email,... or paper,title,review,..."
    )


def read_events(file: InputFile, wish: Wish) -> Raw:  # noqa: ARG001
    """Reviews and comments of the long export, with their times; review letters are kept as ``letter``."""
    names = csv_header(file, ",")
    if not set(names) >= LONG or "submitted_at" not in names:
        want = "the export of 'batch/reviewcsv.php -c -x' with submitted_at (the web CSV has no times)"
        raise file.refusal(Verbatim(f"the columns {shown(names)}"), want)
    posts, drafts = _posts(file)
    source = _source(file, posts, (("actor", "email"), ("thread", "pid"), ("time", "submitted_at"), ("id", "review")))
    columns: dict[str, pl.Series | None] = {
        "actor": text_series("actor", [post.email for post in posts]),
        "thread": text_series("thread", [post.paper for post in posts]),
        "time": text_series("time", [post.time for post in posts]),
        "id": text_series("id", [f"{post.paper}/{post.review}" for post in posts]),
    }
    further = {"letter": text_series("letter", [_letter(post) for post in posts])}
    if any(post.vtag for post in posts):
        further["vtag"] = text_series("vtag", [post.vtag for post in posts])
    return assemble(source, columns, further, _about_drafts(drafts))


def _letter(post: _Post) -> str | None:
    """The letter that HotCRP gives a review in order of assignment: 12C is C."""
    return post.review.removeprefix(post.paper) if post.is_review else None


def _posts(file: InputFile) -> tuple[list[_Post], int]:
    """Rows of the long export put together by review or comment; drafts counted and left out."""
    records = csv_rows(file.text(), ",")
    _, header = next(records)
    place = {name: position for position, name in enumerate(header)}
    posts: dict[tuple[str, str], _Post] = {}
    for row, (line, cells) in enumerate(records, start=1):
        if not any(cells):
            continue
        if len(cells) != len(header):
            raise file.refusal(
                Verbatim(f"{len(cells)} cells in row {row}"), f"{len(header)}, as in the header", line=line
            )

        def cell(name: str, cells: list[str] = cells) -> str:
            return cells[place[name]] if name in place else ""

        key = (cell("pid"), cell("review"))
        post = posts.get(key)
        if post is None:
            post = posts[key] = _Post(
                row, line, *key, cell("email"), cell("status"), cell("submitted_at"), cell("vtag"), {}
            )
        post.answers.setdefault(cell("field"), cell("data"))
    kept = [post for post in posts.values() if not post.is_draft]
    if not kept:
        raise file.refusal(Verbatim("a header and no submitted review or comment"), "at least one row")
    return kept, len(posts) - len(kept)


def _about_drafts(drafts: int) -> list[str]:
    return [f"left out drafts: {drafts:,}"] if drafts else []


def _source(file: InputFile, posts: Sequence[_Post], names: tuple[tuple[str, str], ...]) -> Source:
    return Source(file.name, lambda at: (posts[at].row, posts[at].line), names=names)


def _long_reviews(file: InputFile, wish: Wish) -> Raw:
    posts, drafts = _posts(file)
    reviews = [post for post in posts if post.is_review]
    if not reviews:
        raise file.refusal(Verbatim(f"{len(posts)} comments and no review"), "at least one review")
    source = _source(file, reviews, (("paper", "pid"), ("reviewer", "email"), ("time", "submitted_at")))
    fields = list(dict.fromkeys(name for post in reviews for name in post.answers))
    answers = {name: [post.answers.get(name) for post in reviews] for name in fields}
    score, criteria, left_out = score_columns(source, answers, wish, _SCORES)
    emails = all_or_none([post.email for post in reviews])
    times = all_or_none([post.time for post in reviews])
    columns: dict[str, pl.Series | None] = {
        "paper": text_series("paper", [post.paper for post in reviews]),
        "score": score,
        "reviewer": None if emails is None else text_series("reviewer", emails),
        "time": None if times is None else text_series("time", times),
    }
    return assemble(source, columns, criteria, _about_drafts(drafts) + left_out)


def _web_reviews(file: InputFile, wish: Wish) -> Raw:
    records = list(csv_rows(file.text(), ","))
    header = records[0][1]
    rows = [(row, line, cells) for row, (line, cells) in enumerate(records[1:], start=1) if any(cells)]
    if not rows:
        raise file.refusal(Verbatim("a header and no rows"), "at least one row")
    for row, line, cells in rows:
        if len(cells) != len(header):
            raise file.refusal(
                Verbatim(f"{len(cells)} cells in row {row}"), f"{len(header)}, as in the header", line=line
            )
    table = {name: [cells[position] for _, _, cells in rows] for position, name in enumerate(header)}
    people = next(
        (name for name in ("email", "reviewername", "reviewer") if all_or_none(table.get(name, [])) is not None), None
    )
    names = (("paper", "paper"), ("reviewer", people or "email"))
    source = Source(file.name, lambda at: (rows[at][0], rows[at][1]), names=names)
    answers = {name: values for name, values in table.items() if name not in _ABOUT}
    score, criteria, left_out = score_columns(source, answers, wish, _SCORES)
    columns: dict[str, pl.Series | None] = {
        "paper": text_series("paper", table["paper"]),
        "score": score,
        "reviewer": None if people is None else text_series("reviewer", table[people]),
    }
    return assemble(source, columns, criteria, left_out)
