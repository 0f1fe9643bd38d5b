"""What a batch of reports asks of the database: five statements, however many reports there are.

PostgreSQL gets each list as one array. SQLite has no arrays, and no network to save; it gets lists of parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import bindparam, insert, select, update

from peerveil.web.collect.schema import people, reports

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    Place = tuple[int, int, int]

_PEOPLE: Final = (
    'SELECT hash, campaign, person, "left" FROM collect_people WHERE hash = ANY(%(hashes)s) ORDER BY hash FOR UPDATE'
)
_KEYS: Final = "SELECT key, campaign, question, code FROM collect_reports WHERE key = ANY(%(keys)s)"
_TAKEN: Final = (
    "SELECT r.campaign, r.person, r.question FROM collect_reports r "
    "JOIN unnest(%(campaigns)s::int4[], %(people)s::int8[], %(questions)s::int4[]) AS p (campaign, person, question) "
    "USING (campaign, person, question)"
)
_INSERT: Final = (
    "INSERT INTO collect_reports (campaign, person, question, code, key) "
    "SELECT * FROM unnest(%(campaign)s::int4[], %(person)s::int8[], %(question)s::int4[], %(code)s::int2[], "
    "%(key)s::bytea[])"
)
_LOWER: Final = (
    'UPDATE collect_people SET "left" = u.l FROM unnest(%(hashes)s::text[], %(left)s::int4[]) AS u (h, l) '
    "WHERE hash = u.h"
)


def locked_people(connection: Connection, hashes: list[str]) -> dict[str, Any]:
    """The rows of tokens by their hashes, locked in that order."""
    if connection.dialect.name == "postgresql":
        rows = connection.exec_driver_sql(_PEOPLE, {"hashes": hashes})
    else:
        rows = connection.execute(select(people).where(people.c.hash.in_(hashes)))
    return {row.hash: row for row in rows}


def used_keys(connection: Connection, keys: list[bytes]) -> dict[bytes, Place]:
    """Keys that were used before, with the report that they were used for: campaign, question, code."""
    if connection.dialect.name == "postgresql":
        rows = connection.exec_driver_sql(_KEYS, {"keys": keys})
    else:
        columns = (reports.c.key, reports.c.campaign, reports.c.question, reports.c.code)
        rows = connection.execute(select(*columns).where(reports.c.key.in_(keys)))
    return {bytes(row.key): (row.campaign, row.question, row.code) for row in rows}


def taken_places(connection: Connection, places: set[Place]) -> set[Place]:
    """Those of the places (campaign, person, question) that have a report already."""
    if not places:
        return set()
    parts = [list(part) for part in zip(*sorted(places), strict=True)]
    if connection.dialect.name == "postgresql":
        rows = connection.exec_driver_sql(_TAKEN, dict(zip(("campaigns", "people", "questions"), parts, strict=True)))
    else:
        # SQLite has no index for a list of triples; campaign and person lead to few rows each
        columns = (reports.c.campaign, reports.c.person, reports.c.question)
        query = select(*columns)
        for column, part in zip(columns, parts, strict=True):
            query = query.where(column.in_(sorted(set(part))))
        rows = connection.execute(query)
    return {(row[0], row[1], row[2]) for row in rows} & places


def write_reports(connection: Connection, new: Sequence[dict[str, Any]], left: dict[str, int]) -> None:
    """Insert reports, and lower the budgets that they used up."""
    if connection.dialect.name == "postgresql":
        names = ("campaign", "person", "question", "code", "key")
        connection.exec_driver_sql(_INSERT, {name: [row[name] for row in new] for name in names})
        connection.exec_driver_sql(_LOWER, {"hashes": list(left), "left": list(left.values())})
        return
    connection.execute(insert(reports), list(new))
    lower = update(people).where(people.c.hash == bindparam("h")).values(left=bindparam("l"))
    connection.execute(lower, [{"h": digest, "l": number} for digest, number in left.items()])
