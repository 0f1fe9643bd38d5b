"""The tables of the service: campaigns, tokens, people's budgets, randomized answers, and what was inferred.

A person is a random number that was drawn with their token. An answer is four numbers and the hash of its key: which
campaign, which person, which question, which randomized class. There is no time of arrival, no address, no name.
"""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    bindparam,
    select,
    update,
)

from peerveil.storage import Schema, keys, required, version_table
from peerveil.web.common.database import among, insert_rows
from peerveil.web.common.tokens import token_table

Place = tuple[int, int, int]

metadata = MetaData()
version = version_table("collect_book", metadata)
tokens = token_table("collect_tokens", metadata)

campaigns = Table(
    "collect_campaigns",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    *required(
        spec=Text,  # the campaign's file, as JSON
        closed=Integer,  # 1 once nothing more is taken, by time or by the operator
        job=Text,  # inference: "", "running", "done" or "failed"
        beat=BigInteger,  # when it last said that it is alive, in microseconds
        stage=Text,
        done=BigInteger,
        total=BigInteger,
    ),
)
people = Table(
    "collect_people",
    metadata,
    *keys(hash=Text),  # of the token
    *required(campaign=Integer, person=BigInteger, left=Integer),  # left: answers that may still be given
    UniqueConstraint("campaign", "person"),
    sqlite_with_rowid=False,
)
answers = Table(
    "collect_reports",
    metadata,
    *keys(campaign=Integer, person=BigInteger, question=Integer),
    *required(code=SmallInteger),
    Column("key", LargeBinary, nullable=False, unique=True),
    sqlite_with_rowid=False,
)
results = Table(
    "collect_results",
    metadata,
    *keys(campaign=Integer, kind=Text),  # "final" or "so far"
    *required(made=BigInteger, content=Text, figure=Text),  # JSON; SVG: its attributes and its content, as JSON
)
labels = Table(
    "collect_labels",
    metadata,
    *keys(campaign=Integer, question=Integer),
    *required(code=SmallInteger, confidence=Float),
)
abilities = Table(
    "collect_abilities",
    metadata,
    *keys(campaign=Integer, person=BigInteger),
    *required(reports=Integer, ability=Float, standard_error=Float),
)
SCHEMA = Schema(2, version)

# ---- what a batch of answers needs: five statements, however many answers there are -----------------------------------

_TAKEN: Final = (
    "SELECT r.campaign, r.person, r.question FROM collect_reports r "
    "JOIN unnest(%(campaign)s::int4[], %(person)s::int8[], %(question)s::int4[]) AS p (campaign, person, question) "
    "USING (campaign, person, question)"
)


def locked_people(connection: Connection, hashes: list[str]) -> dict[str, Any]:
    """The rows of tokens by their hashes, locked in that order."""
    rows = select(people).where(among(connection, people.c.hash, hashes)).order_by(people.c.hash).with_for_update()
    return {row.hash: row for row in connection.execute(rows)}


def used_keys(connection: Connection, keys: list[bytes]) -> dict[bytes, Place]:
    """Keys that were used before, with the answer that they were used for: campaign, question, code."""
    rows = connection.execute(select(answers).where(among(connection, answers.c.key, keys)))
    return {bytes(row.key): (row.campaign, row.question, row.code) for row in rows}


def taken_places(connection: Connection, places: set[Place]) -> set[Place]:
    """Those of the places (campaign, person, question) that have an answer already."""
    if not places:
        return set()
    columns = (answers.c.campaign, answers.c.person, answers.c.question)
    parts = dict(zip(columns, map(list, zip(*sorted(places), strict=True)), strict=True))
    if connection.dialect.name == "postgresql":
        rows = connection.exec_driver_sql(_TAKEN, {column.name: part for column, part in parts.items()})
    else:
        # SQLite has no index for a list of triples; campaign and person lead to few rows each
        conditions = [column.in_(sorted(set(part))) for column, part in parts.items()]
        rows = connection.execute(select(*columns).where(*conditions))
    return {(row[0], row[1], row[2]) for row in rows} & places


def write_answers(connection: Connection, new: Sequence[dict[str, Any]], left: dict[str, int]) -> None:
    """Insert answers, and lower the budgets that they used up."""
    insert_rows(connection, answers, new)
    lower = update(people).where(people.c.hash == bindparam("token")).values(left=bindparam("remaining"))
    connection.execute(lower, [{"token": digest, "remaining": number} for digest, number in left.items()])
