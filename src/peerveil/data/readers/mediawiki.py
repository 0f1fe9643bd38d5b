"""MediaWiki recent changes as JSON: an API answer, a list of answers, a list of changes, or JSON lines of either."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from peerveil.core.errors import Verbatim
from peerveil.data.problems import Source
from peerveil.data.readers.fields import text_series, whole_series
from peerveil.data.readers.files import InputFile, Raw, Wish

if TYPE_CHECKING:
    from collections.abc import Iterator

_POSTS = {"edit", "new"}


def read_events(file: InputFile, wish: Wish) -> Raw:  # noqa: ARG001
    """Edits and new pages: user, page title, timestamp; the id is ``rcid``, else ``revid``.

    Log entries, categorization and changes whose user is hidden are left out, and noted.
    """
    changes = list(_changes(file, file.json()))
    if not changes:
        raise file.refusal(Verbatim("no changes"), "at least one entry in recentchanges")
    posts = [(row, change) for row, change in changes if change.get("type", "edit") in _POSTS]
    shown = [(row, change) for row, change in posts if not _hidden(change)]
    if not shown:
        raise file.refusal(Verbatim(f"{len(changes)} changes and no edit by a visible user"), "at least one edit")
    notes = []
    if len(posts) < len(changes):
        notes.append(f"left out {len(changes) - len(posts):,} of {len(changes):,} changes: not edits")
    if len(shown) < len(posts):
        notes.append(f"left out {len(posts) - len(shown):,} of {len(changes):,} changes: user hidden")
    rows = [row for row, _ in shown]
    kept = [change for _, change in shown]
    key = "rcid" if all("rcid" in change for change in kept) else "revid"
    names = (("actor", "user"), ("thread", "title"), ("time", "timestamp"), ("id", key))
    source = Source(file.name, lambda position: (rows[position], None), names=names)
    columns = {
        "actor": text_series("actor", [change.get("user") for change in kept]),
        "thread": text_series("thread", [change.get("title") for change in kept]),
        "time": text_series("time", [change.get("timestamp") for change in kept]),
    }
    if any(key in change for change in kept):
        columns["id"] = whole_series("id", [change.get(key) for change in kept])
    further = {
        name: whole_series(name, [change.get(name) for change in kept])
        for name in ("revid", "pageid", "userid", "ns")
        if any(change.get(name) is not None for change in kept)
    }
    return Raw(columns, source, further, tuple(notes))


def _hidden(change: dict[str, Any]) -> bool:
    return "userhidden" in change or "suppressed" in change


def _changes(file: InputFile, document: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every change, numbered from 1 through the file."""
    row = 0
    for answer in document if isinstance(document, list) else [document]:
        if not isinstance(answer, dict):
            raise file.refusal(answer, "recent changes: objects with title, user and timestamp")
        query = answer.get("query", answer)
        listed = query.get("recentchanges", [answer]) if isinstance(query, dict) else None
        if not isinstance(listed, list):
            raise file.refusal(listed, "a list under recentchanges")
        for change in listed:
            row += 1
            if not isinstance(change, dict) or "timestamp" not in change:
                raise file.refusal(change, f"a change with title, user and timestamp as entry {row}")
            yield row, change
