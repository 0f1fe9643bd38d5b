"""Reviews and events from OpenReview: notes as a list, as ``{"notes": [...]}``, JSON lines, or submissions that carry replies.

API 2 wraps every answer (``{"rating": {"value": 8}}``) and lists ``invitations``; API 1 does not and has one
``invitation``. A file may even mix the two. A signature such as ``Venue/Submission12/Reviewer_AbCd`` names a reviewer
within one paper only: the same person has another one on the next paper. It is kept whole, so that nobody is linked by
accident.
"""

import re
from collections.abc import Iterator
from typing import Any

from peerveil.core.errors import show
from peerveil.data.readers.files import InputFile
from peerveil.data.readers.platforms import Content, ExportRecord, Field, counted_note, record_table, review_table
from peerveil.data.schema import SECOND_CLOCKS, RawTable, ReadOptions

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
