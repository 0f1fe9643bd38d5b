"""What a chair saves from OpenReview: submissions, official reviews and comments, signed with profiles. All synthetic."""

from __future__ import annotations

import json
from typing import Any

from peerveil.data import synthetic_conference

VENUE = "Kites.org/2026/Conference"
CRITERIA = ("soundness", "presentation", "contribution")


def signature(reviewer: str) -> str:
    """A reviewer's profile, as a chair sees it."""
    return f"~Rev_{reviewer.rsplit('-', 1)[1]}_Kestrel1"


def openreview_export(papers: int = 60, reviewers: int = 40, seed: int = 3) -> tuple[bytes, set[str]]:
    """The notes of a conference in the layout of API 2, and the names that must never be published."""
    conference = synthetic_conference(papers, reviewers, seed=seed)
    names = {signature(one) for one in conference.reviews.frame["reviewer"].unique()}
    notes: list[dict[str, Any]] = [
        _note(paper, paper, None, f"{VENUE}/-/Submission", f"{VENUE}/{paper}/Authors", 1_767_000_000_000,
              {"title": f"On {paper}"})
        for paper in sorted(set(conference.reviews.frame["paper"]))
    ]  # fmt: skip
    written = set()
    for place, row in enumerate(conference.reviews.frame.iter_rows(named=True)):
        answers = {"rating": int(row["score"]), **{name: int(row[name]) for name in CRITERIA}}
        written.add((row["reviewer"], row["paper"], row["time"]))
        notes.append(
            _note(f"review-{place}", row["paper"], row["paper"], f"{VENUE}/{row['paper']}/-/Official_Review",
                  signature(row["reviewer"]), _milliseconds(row["time"]), answers)
        )  # fmt: skip
    notes += [
        _note(row["id"], row["thread"], row["thread"], f"{VENUE}/{row['thread']}/-/Official_Comment",
              signature(row["actor"]), _milliseconds(row["time"]), {"comment": "A word."})
        for row in conference.events.frame.iter_rows(named=True)
        if (row["actor"], row["thread"], row["time"]) not in written
    ]  # fmt: skip
    return json.dumps({"notes": notes}).encode(), names


def _milliseconds(time: Any) -> int:
    return int(time.timestamp() * 1000)


def _note(
    own: str, forum: str, answers: str | None, kind: str, who: str, time: int, content: dict[str, Any]
) -> dict[str, Any]:
    wrapped = {name: {"value": value} for name, value in content.items()}
    head = {"id": own, "forum": forum, "replyto": answers, "invitations": [kind], "signatures": [who]}
    return {**head, "readers": ["everyone"], "content": wrapped, "cdate": time, "tcdate": time}
