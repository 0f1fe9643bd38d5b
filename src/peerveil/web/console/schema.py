"""The tables of the console: users and their sessions, files, runs, jobs, simulations, and the activity log."""

import secrets
from typing import Any

from sqlalchemy import JSON, BigInteger, Boolean, Column, Float, Integer, MetaData, Table, Text

from peerveil.storage import Schema, version_table

metadata = MetaData()


def _table(table: str, /, *, unique: str = "", **columns: Any) -> Table:
    """A table whose first column is its key; no column has nulls."""
    key = next(iter(columns))
    parts = (
        Column(column, kind, primary_key=column == key, unique=column == unique, nullable=False)
        for column, kind in columns.items()
    )
    return Table(f"console_{table}", metadata, *parts)


book = version_table(
    "console_book", metadata, Column("secret", Text, nullable=False)
)  # form tokens are derived from it
# role: operator, analyst or reader; password: argon2id; state: good or off
users = _table("users", id=Text, name=Text, role=Text, password=Text, state=Text, created=BigInteger, unique="name")
sessions = _table("sessions", hash=Text, user_id=Text, created=BigInteger, last_seen=BigInteger)  # hash: of the cookie
# hash: of the link's token; an invitation that was used is deleted
invitations = _table("invitations", hash=Text, id=Text, role=Text, by=Text, expires=BigInteger, unique="id")
attempts = _table("attempts", bucket=Text, tries=Integer, since=BigInteger)  # bucket: the hash of a name or an address
files = _table(
    "files",
    id=Text,
    owner=Text,
    name=Text,
    path=Text,
    copied=Boolean,  # whether it is the console's own copy, or stays where it is
    size=BigInteger,
    state=Text,  # reading, readable or unreadable
    kind=Text,  # what to read it as; empty: detected
    columns=JSON,  # our names to the file's
    inspection=JSON,  # what the file contains
    created=BigInteger,
)
runs = _table(
    "runs",
    id=Text,
    owner=Text,
    title=Text,
    state=Text,  # see peerveil.web.console.runs.STATES
    simulated=Boolean,
    shared=Boolean,  # whether readers and other analysts see what may be published of it
    steps=JSON,  # actions with their data, accounts and settings
    study=Text,  # the study file
    check=JSON,  # what would be spent and published
    problem=Text,  # why it was refused or failed
    created=BigInteger,
)
jobs = _table(
    "jobs",
    number=Integer,
    queue=Text,  # checks, simulations or runs
    kind=Text,  # inspect, check, simulate or run
    subject=Text,
    state=Text,  # queued or working
    attempts=Integer,
    progress=Float,  # from 0 to 1
    message=Text,  # what is being done
)
simulations = _table("simulations", key=Text, content=Text)  # JSON
activity = _table("activity", number=Integer, at=BigInteger, user_id=Text, action=Text, subject=Text)

SCHEMA = Schema(1, book, lambda: {book: {"secret": secrets.token_hex(32)}})
