"""What was inferred, as the database keeps it and as it is published."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import delete, insert, select

from peerveil.report import Svg
from peerveil.web.collect.schema import abilities, labels, results
from peerveil.web.common import database_time
from peerveil.web.common.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

    from peerveil.web.collect.store import Known, Store

_ROWS: Final = 20_000  # written at once


@dataclass(frozen=True, slots=True)
class Stored:
    """A result: when it was made (microseconds), what it says, and its figure."""

    made: int
    content: dict[str, Any]
    figure: Svg


def stored_result(store: Store, known: Known, kind: str) -> Stored | None:
    """The last result of a kind, ``"final"`` or ``"so far"``."""
    query = select(results).where(results.c.campaign == known.number, results.c.kind == kind)
    with store.database.reading() as connection:
        row = connection.execute(query).one_or_none()
    if row is None:
        return None
    content = json.loads(row.content)
    content.pop("estimated_accuracy", None)  # an earlier version stored an interval that did not hold the truth
    return Stored(row.made, content, Svg(*json.loads(row.figure)))


def store_result(
    store: Store,
    known: Known,
    kind: str,
    content: dict[str, Any],
    figure: Svg,
    *,
    label_rows: Iterable[dict[str, Any]] = (),
    ability_rows: Iterable[dict[str, Any]] = (),
) -> None:
    """Replace the result of a kind, with its labels and abilities, in one transaction: readers see the old one or the new one."""
    with store.database.writing("open") as connection:
        here = results.c.campaign == known.number
        connection.execute(delete(results).where(here, results.c.kind == kind))
        made = database_time(connection)
        parts = json.dumps([figure.attributes, figure.content])
        row = {"campaign": known.number, "kind": kind, "made": made, "content": json.dumps(content), "figure": parts}
        connection.execute(insert(results).values(**row))
        if kind == "final":
            for table, rows in ((labels, label_rows), (abilities, ability_rows)):
                connection.execute(delete(table).where(table.c.campaign == known.number))
                _insert(connection, table, known.number, rows)


def _insert(connection: Connection, table: Any, number: int, rows: Iterable[dict[str, Any]]) -> None:
    held: list[dict[str, Any]] = []
    for row in rows:
        held.append({"campaign": number, **row})
        if len(held) == _ROWS:
            connection.execute(insert(table), held)
            held = []
    if held:
        connection.execute(insert(table), held)


def published_results(store: Store, known: Known, after: int, limit: int) -> dict[str, Any]:
    """What everybody may read: nothing before the campaign is closed and inferred, nothing at all if it is not to be published.

    Abilities are not in it: they belong to people, if only to their numbers, and are for the operator.
    """
    campaign = known.campaign
    found = stored_result(store, known, "final")
    if not campaign.publish:
        raise NotFound("the results of this campaign are not published")
    if found is None:
        raise NotFound("there are no results yet: nothing is published while the campaign is open")
    answer: dict[str, Any] = {"campaign": campaign.id, **found.content}
    if campaign.kind == "rankings":
        return answer
    answer["labels"] = found_labels(store, known, after, limit)
    answer["next"] = answer["labels"][-1]["number"] if len(answer["labels"]) == limit else None
    return answer


def found_labels(store: Store, known: Known, after: int = -1, limit: int | None = None) -> list[dict[str, Any]]:
    """The labels that were inferred, in the order of tasks: number, task, label and confidence."""
    campaign = known.campaign
    query = select(labels).where(labels.c.campaign == known.number, labels.c.question > after)
    with store.database.reading() as connection:
        rows = connection.execute(query.order_by(labels.c.question).limit(limit)).all()
    return [
        {
            "number": row.question,
            "task": campaign.tasks[row.question][0],
            "label": campaign.classes[row.code],
            "confidence": row.confidence,
        }
        for row in rows
    ]
