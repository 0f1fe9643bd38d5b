"""Reviews and events from the exports of OpenReview, HotCRP, EasyChair and MediaWiki.

OpenReview: a list of notes, ``{"notes": [...]}``, JSON lines, and submissions that carry their replies in ``details``.
API 2 wraps every answer (``{"rating": {"value": 8}}``) and lists ``invitations``; API 1 does not and has one
``invitation``. A file may even mix the two. A signature such as ``Venue/Submission12/Reviewer_AbCd`` names a reviewer
within one paper only: the same person has another one on the next paper. It is kept whole, so that nobody is linked by
accident.

HotCRP's web CSV has one row per review: ``paper, title, review, reviewername, email``, then the form's fields. Its batch
export (``batch/reviewcsv.php -c -x``) is long, one row per field of a review or comment, with the second it was
submitted: the one to audit times with.

EasyChair's ``review.csv`` has one row per version of a review: ``#, submission #, member #, member name, number, version,
text, scores, total score, ..., date, time``. The cell ``scores`` holds one line per score, such as ``Overall evaluation:
2``. Of several versions of a review the last counts.

MediaWiki: an API answer, a list of answers, a list of changes, or JSON lines of either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from peerveil.core.errors import show
from peerveil.data.problems import TableSource
from peerveil.data.readers.files import InputFile, csv_rows
from peerveil.data.readers.platforms import Content, ExportRecord, Field, counted_note, record_table, review_table
from peerveil.data.readers.tabular import csv_header, separator_of
from peerveil.data.schema import SECOND_CLOCKS, RawTable, ReadOptions, listed, refuse_absent

_RATINGS = ("rating", "overall_rating", "recommendation", "overall_recommendation", "overall_assessment", "score")
_REVIEW = re.compile(r"(^|[_/-])Review$")
_META_REVIEW = re.compile(r"Meta[^/]*$", re.IGNORECASE)
_SIGNATURE: Field = "signatures", lambda note: next(map(str, _as_list(note.get("signatures"))), None)
# an answer to the submission itself opens a conversation: it answers no event
_PARENT: Field = "replyto", lambda note: None if note["replyto"] == note.get("forum") else note["replyto"]


def openreview_reviews(file: InputFile, options: ReadOptions) -> RawTable:
    """The official reviews: paper (the forum), reviewer (the signature), score, criteria, time."""
    notes = _notes(file)
    reviews = [note for note in notes if _is_official_review(note.content)]
    if not reviews:
        kinds = sorted({kind for note in notes for kind in _invitations(note.content)})
        got = f"{len(notes)} notes and no review (invitations {', '.join(kinds[:5]) or 'none'})"
        raise file.refusal(got, "notes whose invitation ends in Review, such as .../-/Official_Review")
    others = counted_note(len(notes) - len(reviews), f"left out {{}} of {len(notes):,} notes: not reviews")
    fields = {"paper": "forum", "reviewer": _SIGNATURE, "time": _time(options)}
    raw = record_table(file.name, reviews, fields, notes=others)
    return review_table(raw, [_answers(note.content) for note in reviews], options, _RATINGS)


def openreview_events(file: InputFile, options: ReadOptions) -> RawTable:
    """Everything posted in a forum but the submission itself: reviews, comments, decisions.

    The time is ``cdate`` (else ``tcdate``); ``columns={"time": "tcdate"}`` asks for another clock. ``number`` and the
    other clocks are kept beside it.
    """
    notes = _notes(file)
    posts = [note for note in notes if note.content.get("replyto")]
    others = counted_note(len(notes) - len(posts), f"left out {{}} of {len(notes):,} notes: submissions, not replies")
    fields = {"actor": _SIGNATURE, "thread": "forum", "time": _time(options), "id": "id", "reply_to": _PARENT}
    return record_table(file.name, posts, fields, ("number", *SECOND_CLOCKS), others)


def _notes(file: InputFile) -> list[ExportRecord]:
    """Every note with its place in the file, deleted ones left out."""
    document = file.json()
    if isinstance(document, dict):
        document = document.get("notes", [document])
    if not isinstance(document, list):
        raise file.refusal(f"JSON of kind {type(document).__name__}", "a list of notes")
    notes: dict[object, ExportRecord] = {}
    for position, note in enumerate(_flatten(file, document)):
        if not note.content.get("ddate"):
            identifier = note.content.get("id")
            # a reply may be listed on its own and again under its submission
            notes.setdefault(position if identifier is None else str(identifier), note)
    return list(notes.values())


def _flatten(file: InputFile, document: list[Any]) -> Iterator[ExportRecord]:
    for row, note in enumerate(document, start=1):
        if isinstance(note, dict) and isinstance(note.get("notes"), list):
            yield from _flatten(file, note["notes"])
            continue
        if not isinstance(note, dict) or not ("forum" in note or "content" in note):
            raise file.refusal(show(note), f"an OpenReview note with forum and content as note {row}")
        yield ExportRecord(row, None, note)
        details = note.get("details")
        if isinstance(details, dict):
            replies = [*_as_list(details.get("replies")), *_as_list(details.get("directReplies"))]
            yield from (ExportRecord(row, None, reply) for reply in replies if isinstance(reply, dict))


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _invitations(note: Content) -> list[str]:
    return [str(name) for name in (*_as_list(note.get("invitations")), note.get("invitation")) if name]


def _is_official_review(note: Content) -> bool:
    return any(_REVIEW.search(name) and not _META_REVIEW.search(name) for name in _invitations(note))


def _answers(note: Content) -> Content:
    """The form's fields. API 2 wraps answers in ``{"value": ...}``."""
    content = note.get("content")
    form = content if isinstance(content, dict) else {}
    return {name: value.get("value") if isinstance(value, dict) else value for name, value in form.items()}


def _time(options: ReadOptions) -> Field:
    clocks = [options.columns["time"]] if "time" in options.columns else ["cdate", "tcdate"]
    return "cdate", lambda note: next((note[name] for name in clocks if note.get(name) is not None), None)


# ---- HotCRP --------------------------------------------------------------------------------------------------------------

HOTCRP_WEB = {"paper", "review"}
HOTCRP_LONG = ("pid", "review", "email", "status", "field", "data")
# the letter that HotCRP gives a review in order of assignment: 12C is C
_LETTER: Field = "letter", lambda post: str(post["review"]).removeprefix(post["pid"]) if _is_review(post) else None
_HOTCRP_SCORES = ("Overall merit", "Overall recommendation", "Overall evaluation", "Overall rating", "Recommendation")
_NOT_FORM = frozenset({
    "paper", "title", "review", "reviewername", "reviewer", "email", "round", "reviewtype", "reviewstatus", "status",
    "submitted_at", "vtag", "sitename", "siteclass", "time", "format", "timezone",
})  # fmt: skip


def csv_records(file: InputFile, separator: str = ",") -> list[ExportRecord]:
    """Every row that is not blank, its cells by column; a row of another length is refused."""
    (_, header), *rows = csv_rows(file.text(), separator)
    records = []
    for row, (line, cells) in enumerate(rows, start=1):
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(header):
            raise file.refusal(f"{len(cells)} cells in row {row}", f"{len(header)}, as in the header", line=line)
        records.append(ExportRecord(row, line, dict(zip(header, cells, strict=True))))
    if not records:
        raise file.refusal("a header and no rows", "at least one row")
    return records


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
    return review_table(record_table(file.name, reviews, fields, notes=notes), forms, options, _HOTCRP_SCORES)


def _web_reviews(file: InputFile, options: ReadOptions) -> RawTable:
    reviews = csv_records(file)
    people = [name for name in ("email", "reviewername", "reviewer") if any(row.content.get(name) for row in reviews)]
    fields = {"paper": "paper"} | ({"reviewer": people[0]} if people else {})
    forms = [{name: cell for name, cell in row.content.items() if name not in _NOT_FORM} for row in reviews]
    return review_table(record_table(file.name, reviews, fields), forms, options, _HOTCRP_SCORES)


# ---- EasyChair ----------------------------------------------------------------------------------------------------------

EASYCHAIR = ("submission #", "member #")  # columns, in small letters, by which the file is recognized
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
    columns = record_table(
        file.name, rows, {"paper": "submission #", "reviewer": "member #", "time": _TIME}, notes=older
    )
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


# ---- MediaWiki ----------------------------------------------------------------------------------------------------------


def mediawiki_events(file: InputFile, options: ReadOptions) -> RawTable:  # noqa: ARG001
    """Edits and new pages: user, page title, timestamp; the id is ``rcid``, else ``revid``.

    Log entries, categorization and changes whose user is hidden are left out, and noted.
    """
    changes = list(_changes(file, file.json()))
    edits = [change for change in changes if change.content.get("type", "edit") in ("edit", "new")]
    visible = [edit for edit in edits if not {"userhidden", "suppressed"} & edit.content.keys()]
    of_all = f"left out {{}} of {len(changes):,} changes: "
    notes = counted_note(len(changes) - len(edits), of_all + "not edits")
    notes += counted_note(len(edits) - len(visible), of_all + "user hidden")
    key = "rcid" if all("rcid" in edit.content for edit in visible) else "revid"
    fields: dict[str, Field] = {"actor": "user", "thread": "title", "time": "timestamp"}
    if any(key in edit.content for edit in visible):
        fields["id"] = key
    return record_table(file.name, visible, fields, ("revid", "pageid", "userid", "ns"), notes)


def _changes(file: InputFile, document: Any) -> Iterator[ExportRecord]:
    """Every change, numbered from 1 through the file."""
    row = 0
    for answer in document if isinstance(document, list) else [document]:
        if not isinstance(answer, dict):
            raise file.refusal(show(answer), "recent changes: objects with title, user and timestamp")
        query = answer.get("query", answer)
        changes = query.get("recentchanges", [answer]) if isinstance(query, dict) else None
        if not isinstance(changes, list):
            raise file.refusal(show(changes), "a list under recentchanges")
        for change in changes:
            row += 1
            if not isinstance(change, dict) or "timestamp" not in change:
                raise file.refusal(show(change), f"a change with title, user and timestamp as entry {row}")
            yield ExportRecord(row, None, change)


READERS: Final[dict[str, dict[str, Callable[[InputFile, ReadOptions], RawTable]]]] = {
    "openreview": {"Reviews": openreview_reviews, "Events": openreview_events},
    "hotcrp": {"Reviews": hotcrp_reviews, "Events": hotcrp_events},
    "easychair": {"Reviews": easychair_reviews, "Events": easychair_events},
    "mediawiki": {"Events": mediawiki_events},
}
