"""The tables of the console: users and their sessions, files, runs, jobs, simulations, and the activity log."""

from __future__ import annotations

import secrets
from typing import Any

from sqlalchemy import BigInteger, Column, Float, Integer, MetaData, Table, Text

from peerveil.storage import Schema, version_table


def _required(name: str, kind: Any = Text, **options: Any) -> Column[Any]:
    """A column without nulls. Where ``key`` is given, the database has another name than the code."""
    return Column(name, kind, nullable=False, **options)


metadata = MetaData()
book = version_table("console_book", metadata, _required("secret"))  # form tokens are derived from the secret
users = Table(
    "console_people",
    metadata,
    Column("id", Text, primary_key=True),
    _required("name", unique=True),
    _required("role"),  # operator, analyst or reader
    _required("password"),  # argon2id
    _required("state"),  # good or off
    _required("made", BigInteger, key="created"),
)
sessions = Table(
    "console_sessions",
    metadata,
    Column("hash", Text, primary_key=True),  # of the cookie
    _required("person", key="user_id"),
    _required("made", BigInteger, key="created"),
    _required("seen", BigInteger, key="last_seen"),
)
invitations = Table(
    "console_invitations",
    metadata,
    Column("hash", Text, primary_key=True),  # of the link's token
    _required("id", unique=True),
    _required("role"),
    _required("by"),
    _required("expires", BigInteger),
    _required("used", Integer),
)
attempts = Table(
    "console_attempts",
    metadata,
    Column("bucket", Text, primary_key=True),  # the hash of a name or of an address
    _required("tries", Integer),
    _required("since", BigInteger),
)
files = Table(
    "console_files",
    metadata,
    Column("id", Text, primary_key=True),
    _required("owner"),
    _required("name"),
    _required("path"),
    _required("kept", Integer, key="copied"),  # 1: the console's own copy; 0: stays where it is
    _required("size", BigInteger),
    _required("state"),  # reading, readable or unreadable
    _required("kind"),  # what to read it as; empty: detected
    _required("columns"),  # JSON: our names to the file's
    _required("look", key="inspection"),  # JSON: what the file contains
    _required("made", BigInteger, key="created"),
)
runs = Table(
    "console_runs",
    metadata,
    Column("id", Text, primary_key=True),
    _required("owner"),
    _required("title"),
    _required("state"),  # see peerveil.web.console.runs.STATES
    _required("simulated", Integer),
    _required("shared", Integer),  # 1: readers and other analysts see what may be published of it
    _required("content"),  # JSON: data, accounts and steps
    _required("study"),  # the study file
    _required("check"),  # JSON: what would be spent and published
    _required("problem"),  # why it was refused or failed
    _required("made", BigInteger, key="created"),
    _required("ended", BigInteger),
)
jobs = Table(
    "console_jobs",
    metadata,
    Column("number", Integer, primary_key=True),
    _required("lane", key="queue"),  # checks, simulations or runs
    _required("kind"),  # inspect, check, simulate or run
    _required("subject"),
    _required("state"),  # queued or working
    _required("attempts", Integer),
    _required("progress", Float),  # from 0 to 1
    _required("saying", key="message"),  # what is being done
)
simulations = Table(
    "console_simulations",
    metadata,
    Column("key", Text, primary_key=True),
    _required("room", key="module"),
    _required("content"),  # JSON
)
activity = Table(
    "console_trail",
    metadata,
    Column("number", Integer, primary_key=True),
    _required("at", BigInteger),
    _required("who", key="user_id"),
    _required("what", key="action"),
    _required("about", key="subject"),
)

SCHEMA = Schema(1, book, lambda: {book: {"secret": secrets.token_hex(32)}})
