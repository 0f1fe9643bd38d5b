"""The tables of the console: people and how they sign in, files, runs, the work that waits, simulations, and the trail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import BigInteger, Column, Float, Integer, MetaData, Table, Text, insert

from peerveil.storage import Schema, version_table

if TYPE_CHECKING:
    from sqlalchemy import Connection

metadata = MetaData()
book = version_table(
    "console_book",
    metadata,
    Column("secret", Text, nullable=False),  # from which the tokens of forms are derived
)
people = Table(
    "console_people",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("role", Text, nullable=False),  # operator, analyst or reader
    Column("password", Text, nullable=False),  # argon2id
    Column("state", Text, nullable=False),  # good or off
    Column("made", BigInteger, nullable=False),
)
sessions = Table(
    "console_sessions",
    metadata,
    Column("hash", Text, primary_key=True),  # of the cookie
    Column("person", Text, nullable=False),
    Column("made", BigInteger, nullable=False),
    Column("seen", BigInteger, nullable=False),
)
invitations = Table(
    "console_invitations",
    metadata,
    Column("hash", Text, primary_key=True),  # of the link's token
    Column("id", Text, nullable=False, unique=True),
    Column("role", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("expires", BigInteger, nullable=False),
    Column("used", Integer, nullable=False),
)
attempts = Table(
    "console_attempts",
    metadata,
    Column("bucket", Text, primary_key=True),  # the hash of a name or of an address
    Column("tries", Integer, nullable=False),
    Column("since", BigInteger, nullable=False),
)
files = Table(
    "console_files",
    metadata,
    Column("id", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("kept", Integer, nullable=False),  # 1: the console's own copy; 0: somebody else's file, pointed to
    Column("size", BigInteger, nullable=False),
    Column("state", Text, nullable=False),  # looking, good or bad
    Column("kind", Text, nullable=False),  # what it is to be read as; empty: recognized
    Column("columns", Text, nullable=False),  # JSON: ours to theirs
    Column("look", Text, nullable=False),  # JSON: what was seen
    Column("made", BigInteger, nullable=False),
)
runs = Table(
    "console_runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("state", Text, nullable=False),  # see peerveil.web.console.runs.STATES
    Column("simulated", Integer, nullable=False),
    Column("shared", Integer, nullable=False),  # 1: readers and other analysts see what may be published of it
    Column("content", Text, nullable=False),  # JSON: data, accounts and steps
    Column("study", Text, nullable=False),  # the study file
    Column("check", Text, nullable=False),  # JSON: what would be spent and published
    Column("problem", Text, nullable=False),  # why it was refused or failed
    Column("made", BigInteger, nullable=False),
    Column("ended", BigInteger, nullable=False),
)
jobs = Table(
    "console_jobs",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("lane", Text, nullable=False),  # desk or runs
    Column("kind", Text, nullable=False),  # look, check, simulate or run
    Column("subject", Text, nullable=False),
    Column("state", Text, nullable=False),  # queued or working
    Column("attempts", Integer, nullable=False),
    Column("progress", Float, nullable=False),  # from 0 to 1
    Column("saying", Text, nullable=False),  # what is being done
)
simulations = Table(
    "console_simulations",
    metadata,
    Column("key", Text, primary_key=True),
    Column("room", Text, nullable=False),
    Column("content", Text, nullable=False),  # JSON
)
trail = Table(
    "console_trail",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("who", Text, nullable=False),
    Column("what", Text, nullable=False),
    Column("about", Text, nullable=False),
)


def _create(connection: Connection) -> None:
    import secrets

    metadata.create_all(connection, checkfirst=False)
    connection.execute(insert(book).values(id=1, version=1, secret=secrets.token_hex(32)))


SCHEMA = Schema(1, book, _create)
