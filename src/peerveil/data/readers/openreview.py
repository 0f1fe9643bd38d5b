"""OpenReview notes of API 1 and API 2.

Accepted: a list of notes, ``{"notes": [...]}``, JSON lines, and submissions that carry their replies in
``details``. API 2 wraps every answer (``{"rating": {"value": 8}}``) and lists ``invitations``; API 1 does not and has
one ``invitation``. A file may even mix the two.

A signature such as ``Venue/Submission12/Reviewer_AbCd`` names a reviewer within one paper only: the same person has
another one on the next paper. It is kept whole, so that nobody is linked by accident.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from peerveil.core.errors import Verbatim
from peerveil.data.problems import Source
from peerveil.data.readers.fields import all_or_none, assemble, score_columns, text_series, whole_series

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from peerveil.data.readers.files import InputFile, Raw, Wish

_SCORES = ("rating", "overall_rating", "recommendation", "overall_recommendation", "overall_assessment", "score")
_REVIEW = re.compile(r"(^|[_/-])Review$")
_NOT_REVIEW = re.compile(r"Meta", re.IGNORECASE)
_CLOCKS = ("tcdate", "tmdate", "cdate", "mdate", "pdate", "odate")


def read_reviews(file: InputFile, wish: Wish) -> Raw:
    """The official reviews: paper (the forum), reviewer (the signature), score, criteria, time."""
    notes, total = _notes(file)
    chosen = [(row, note) for row, note in notes if _is_review(note)]
    if not chosen:
        kinds = sorted({kind for _, note in notes for kind in _invitations(note)})
        got = Verbatim(f"{total} notes and no review (invitations {', '.join(kinds[:5]) or 'none'})")
        raise file.refusal(got, "notes whose invitation ends in Review, such as .../-/Official_Review")
    source = _source(file, [row for row, _ in chosen])
    forms = [{name: _value(value) for name, value in _content(note).items()} for _, note in chosen]
    fields = list(dict.fromkeys(name for form in forms for name in form))
    answers = {name: [form.get(name) for form in forms] for name in fields}
    score, criteria, left_out = score_columns(source, answers, wish, _SCORES)
    reviewers = all_or_none([_signature(note) for _, note in chosen])
    clock = wish.columns.get("time")
    columns: dict[str, pl.Series | None] = {
        "paper": text_series("paper", [note.get("forum") for _, note in chosen]),
        "score": score,
        "reviewer": None if reviewers is None else text_series("reviewer", reviewers),
        "time": _times([note for _, note in chosen], clock),
    }
    others = total - len(chosen)
    said = [f"left out {others:,} of {total:,} notes: not reviews"] if others else []
    return assemble(source, columns, criteria, said + left_out)


def read_events(file: InputFile, wish: Wish) -> Raw:
    """Everything posted in a forum but the submission itself: reviews, comments, decisions.

    The time is ``cdate`` (else ``tcdate``); ``columns={"time": "tcdate"}`` asks for another clock. ``number`` and the
    other clocks are kept beside it.
    """
    notes, total = _notes(file)
    chosen = [(row, note) for row, note in notes if note.get("replyto")]
    if not chosen:
        raise file.refusal(Verbatim(f"{total} notes, none of them a reply"), "notes with replyto: comments or reviews")
    source = _source(file, [row for row, _ in chosen])
    posts = [note for _, note in chosen]
    # an answer to the submission itself opens a conversation: it answers no event
    parents = [None if note.get("replyto") == note.get("forum") else note.get("replyto") for note in posts]
    columns: dict[str, pl.Series | None] = {
        "actor": text_series("actor", [_signature(note) for note in posts]),
        "thread": text_series("thread", [note.get("forum") for note in posts]),
        "time": _times(posts, wish.columns.get("time")),
        "id": text_series("id", [note.get("id") for note in posts]),
        "reply_to": text_series("reply_to", parents),
    }
    if columns["time"] is None:
        raise source.refusal(Verbatim("notes without cdate and tcdate"), "a time in every note", column="cdate")
    further = {
        name: whole_series(name, [note.get(name) for note in posts])
        for name in ("number", *_CLOCKS)
        if any(note.get(name) is not None for note in posts)
    }
    others = total - len(chosen)
    said = [f"left out {others:,} of {total:,} notes: submissions, not replies"] if others else []
    return assemble(source, columns, further, said)


def _notes(file: InputFile) -> tuple[list[tuple[int, dict[str, Any]]], int]:
    """Every note with its place in the file, deleted ones left out, and how many there are."""
    document = file.json()
    if isinstance(document, dict):
        document = document.get("notes", [document])
    if not isinstance(document, list):
        raise file.refusal(Verbatim(f"JSON of kind {type(document).__name__}"), "a list of notes")
    found = list(_flatten(file, document))
    seen: set[str] = set()
    kept = []
    for row, note in found:
        if note.get("ddate"):
            continue
        key = str(note.get("id"))
        if note.get("id") is not None and key in seen:
            continue  # a reply that is listed on its own and again under its submission
        seen.add(key)
        kept.append((row, note))
    if not kept:
        raise file.refusal(Verbatim("no notes"), "at least one note")
    return kept, len(kept)


def _flatten(file: InputFile, document: list[Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    for row, note in enumerate(document, start=1):
        if isinstance(note, dict) and isinstance(note.get("notes"), list):
            yield from _flatten(file, note["notes"])
            continue
        if not isinstance(note, dict) or not ("forum" in note or "content" in note):
            raise file.refusal(note, f"an OpenReview note with forum and content as note {row}")
        yield row, note
        details = note.get("details")
        if isinstance(details, dict):
            for name in ("replies", "directReplies"):
                for reply in details.get(name) or []:
                    if isinstance(reply, dict):
                        yield row, reply


def _source(file: InputFile, rows: list[int]) -> Source:
    names = (("paper", "forum"), ("thread", "forum"), ("reviewer", "signatures"), ("actor", "signatures"))
    return Source(
        file.name, lambda position: (rows[position], None), names=(*names, ("reply_to", "replyto"), ("time", "cdate"))
    )


def _invitations(note: dict[str, Any]) -> list[str]:
    listed = note.get("invitations")
    single = note.get("invitation")
    found = listed if isinstance(listed, list) else [single] if single else []
    return [str(name) for name in found]


def _is_review(note: dict[str, Any]) -> bool:
    names = _invitations(note)
    return any(_REVIEW.search(name) and not _NOT_REVIEW.search(name.rsplit("/", 1)[-1]) for name in names)


def _content(note: dict[str, Any]) -> dict[str, Any]:
    content = note.get("content")
    return content if isinstance(content, dict) else {}


def _value(answer: Any) -> Any:
    """API 2 wraps answers in ``{"value": ...}``."""
    return answer.get("value") if isinstance(answer, dict) else answer


def _signature(note: dict[str, Any]) -> str | None:
    signatures = note.get("signatures")
    if isinstance(signatures, list) and signatures:
        return str(signatures[0])
    return None


def _times(notes: list[dict[str, Any]], clock: str | None) -> pl.Series | None:
    names = (clock,) if clock else ("cdate", "tcdate")
    values = [next((note[name] for name in names if note.get(name) is not None), None) for note in notes]
    return None if all(value is None for value in values) else whole_series("time", values)
