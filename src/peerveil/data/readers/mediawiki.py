"""Events from MediaWiki: an API answer, a list of answers, a list of changes, or JSON lines of either."""

from collections.abc import Iterator
from typing import Any

from peerveil.core.errors import show
from peerveil.data.readers.files import InputFile
from peerveil.data.readers.platforms import ExportRecord, Field, counted_note, record_table
from peerveil.data.schema import RawTable, ReadOptions


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
