"""The tables of the service: campaigns, tokens, people's budgets, reports, and what was inferred.

A person is a random number that was drawn with their token. A report is four numbers and the hash of its key: which campaign,
which person, which question, which randomized class. There is no time of arrival, no address, no name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    insert,
)

from peerveil.storage import Schema, version_table
from peerveil.web.common.tokens import token_table

if TYPE_CHECKING:
    from sqlalchemy import Connection

metadata = MetaData()
book = version_table("collect_book", metadata)
tokens = token_table("collect_tokens", metadata)

campaigns = Table(
    "collect_campaigns",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("spec", Text, nullable=False),  # the campaign's file, as JSON
    Column("closed", Integer, nullable=False),  # 1 once nothing more is taken, by time or by the operator
    Column("job", Text, nullable=False),  # inference: "", "running", "done" or "failed"
    Column("beat", BigInteger, nullable=False),  # when it last said that it is alive, in microseconds
    Column("stage", Text, nullable=False),
    Column("done", BigInteger, nullable=False),
    Column("total", BigInteger, nullable=False),
)
people = Table(
    "collect_people",
    metadata,
    Column("hash", Text, primary_key=True),  # of the token
    Column("campaign", Integer, nullable=False),
    Column("person", BigInteger, nullable=False),
    Column("left", Integer, nullable=False),  # answers that may still be given
    UniqueConstraint("campaign", "person"),
    sqlite_with_rowid=False,
)
reports = Table(
    "collect_reports",
    metadata,
    Column("campaign", Integer, primary_key=True, autoincrement=False),
    Column("person", BigInteger, primary_key=True, autoincrement=False),
    Column("question", Integer, primary_key=True, autoincrement=False),
    Column("code", SmallInteger, nullable=False),
    Column("key", LargeBinary, nullable=False, unique=True),
    sqlite_with_rowid=False,
)
results = Table(
    "collect_results",
    metadata,
    Column("campaign", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, primary_key=True),  # "final" or "so far"
    Column("made", BigInteger, nullable=False),
    Column("content", Text, nullable=False),  # JSON
    Column("figure", Text, nullable=False),  # SVG: its attributes and its content, as JSON
)
labels = Table(
    "collect_labels",
    metadata,
    Column("campaign", Integer, primary_key=True, autoincrement=False),
    Column("question", Integer, primary_key=True, autoincrement=False),
    Column("code", SmallInteger, nullable=False),
    Column("confidence", Float, nullable=False),
)
abilities = Table(
    "collect_abilities",
    metadata,
    Column("campaign", Integer, primary_key=True, autoincrement=False),
    Column("person", BigInteger, primary_key=True, autoincrement=False),
    Column("reports", Integer, nullable=False),
    Column("ability", Float, nullable=False),
    Column("standard_error", Float, nullable=False),
)


def _create(connection: Connection) -> None:
    metadata.create_all(connection, checkfirst=False)
    connection.execute(insert(book).values(id=1, version=SCHEMA.version))


SCHEMA = Schema(2, book, _create)
