"""Reviews and events from JSON: OpenReview notes of API 1 and API 2, and MediaWiki's recent changes.

OpenReview: a list of notes, ``{"notes": [...]}``, JSON lines, and submissions that carry their replies in ``details``.
API 2 wraps every answer (``{"rating": {"value": 8}}``) and lists ``invitations``; API 1 does not and has one
``invitation``. A file may even mix the two. A signature such as ``Venue/Submission12/Reviewer_AbCd`` names a reviewer
within one paper only: the same person has another one on the next paper. It is kept whole, so that nobody is linked by
accident.

MediaWiki: an API answer, a list of answers, a list of changes, or JSON lines of either.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from peerveil.core.errors import show
from peerveil.data.readers.platforms import (
    Content,
    ExportRecord,
    Field,
    ReadOptions,
    counted_note,
    record_table,
    review_table,
)
from peerveil.data.schema import SECOND_CLOCKS

if TYPE_CHECKING:
    from peerveil.data.check import RawTable
    from peerveil.data.readers.files import InputFile

_SCORES = ("rating", "overall_rating", "recommendation", "overall_recommendation", "overall_assessment", "score")
_REVIEW = re.compile(r"(^|[_/-])Review$")
_META_REVIEW = re.compile(r"Meta[^/]*$", re.IGNORECASE)


def openreview_reviews(file: InputFile, options: ReadOptions) -> RawTable:
    """The official reviews: paper (the forum), reviewer (the signature), score, criteria, time."""
    notes = _notes(file)
    reviews = [note for note in notes if _is_review(note.content)]
    if not reviews:
        kinds = sorted({kind for note in notes for kind in _invitations(note.content)})
        got = f"{len(notes)} notes and no review (invitations {', '.join(kinds[:5]) or 'none'})"
        raise file.refusal(got, "notes whose invitation ends in Review, such as .../-/Official_Review")
    others = counted_note(len(notes) - len(reviews), f"left out {{}} of {len(notes):,} notes: not reviews")
    fields: dict[str, Field] = {"paper": "forum", "reviewer": ("signatures", _signature), "time": _time(options)}
    raw = record_table(file, reviews, fields, notes=others)
    return review_table(raw, [_answers(note.content) for note in reviews], options, _SCORES)


def openreview_events(file: InputFile, options: ReadOptions) -> RawTable:
    """Everything posted in a forum but the submission itself: reviews, comments, decisions.

    The time is ``cdate`` (else ``tcdate``); ``columns={"time": "tcdate"}`` asks for another clock. ``number`` and the
    other clocks are kept beside it.
    """
    notes = _notes(file)
    posts = [note for note in notes if note.content.get("replyto")]
    if not posts:
        raise file.refusal(f"{len(notes)} notes, none of them a reply", "notes with replyto: comments or reviews")
    others = counted_note(len(notes) - len(posts), f"left out {{}} of {len(notes):,} notes: submissions, not replies")
    fields: dict[str, Field] = {
        "actor": ("signatures", _signature),
        "thread": "forum",
        "time": _time(options),
        "id": "id",
        "reply_to": ("replyto", _parent),
    }
    raw = record_table(file, posts, fields, ("number", *SECOND_CLOCKS), others)
    if raw.columns["time"].null_count() == len(posts):
        raise raw.source.refusal("notes without cdate and tcdate", "a time in every note", column="cdate")
    return raw


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
    if not notes:
        raise file.refusal("no notes", "at least one note")
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
            replies = [*(details.get("replies") or []), *(details.get("directReplies") or [])]
            yield from (ExportRecord(row, None, reply) for reply in replies if isinstance(reply, dict))


def _invitations(note: Content) -> list[str]:
    names = note.get("invitations")
    if not isinstance(names, list):
        names = [note["invitation"]] if note.get("invitation") else []
    return [str(name) for name in names]


def _is_review(note: Content) -> bool:
    return any(_REVIEW.search(name) and not _META_REVIEW.search(name) for name in _invitations(note))


def _answers(note: Content) -> Content:
    """The form's fields. API 2 wraps answers in ``{"value": ...}``."""
    content = note.get("content")
    form = content if isinstance(content, dict) else {}
    return {name: value.get("value") if isinstance(value, dict) else value for name, value in form.items()}


def _signature(note: Content) -> str | None:
    signatures = note.get("signatures")
    return str(signatures[0]) if isinstance(signatures, list) and signatures else None


def _parent(note: Content) -> Any:
    """What a post answers. An answer to the submission itself opens a conversation: it answers no event."""
    return None if note["replyto"] == note.get("forum") else note["replyto"]


def _time(options: ReadOptions) -> Field:
    clocks = [options.columns["time"]] if "time" in options.columns else ["cdate", "tcdate"]
    return "cdate", lambda note: next((note[name] for name in clocks if note.get(name) is not None), None)


# ---- MediaWiki ----------------------------------------------------------------------------------------------------------


def mediawiki_events(file: InputFile, options: ReadOptions) -> RawTable:  # noqa: ARG001
    """Edits and new pages: user, page title, timestamp; the id is ``rcid``, else ``revid``.

    Log entries, categorization and changes whose user is hidden are left out, and noted.
    """
    changes = list(_changes(file, file.json()))
    if not changes:
        raise file.refusal("no changes", "at least one entry in recentchanges")
    edits = [change for change in changes if change.content.get("type", "edit") in ("edit", "new")]
    visible = [edit for edit in edits if not {"userhidden", "suppressed"} & edit.content.keys()]
    if not visible:
        raise file.refusal(f"{len(changes)} changes and no edit by a visible user", "at least one edit")
    of_all = f"left out {{}} of {len(changes):,} changes: "
    notes = counted_note(len(changes) - len(edits), of_all + "not edits")
    notes += counted_note(len(edits) - len(visible), of_all + "user hidden")
    key = "rcid" if all("rcid" in edit.content for edit in visible) else "revid"
    fields: dict[str, Field] = {"actor": "user", "thread": "title", "time": "timestamp"}
    if any(key in edit.content for edit in visible):
        fields["id"] = key
    return record_table(file, visible, fields, ("revid", "pageid", "userid", "ns"), notes)


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
