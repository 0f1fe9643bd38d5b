"""The tables of a gateway. No column holds a name or a time of arrival in clear, and no value repeats for one person.

======== ====================================================================== =============================
table    holds                                                                  until
======== ====================================================================== =============================
held     one row per held post: sealed body, when it is due                     publication or withdrawal
recent   one row per person of the last sittings, sealed: for the next status   at most twice the window
receipts which receipts exist; a MAC of receipt, space and actor each           some days after the last delay
records  idempotency records                                                    the same
feed     what readers see                                                       for ever
beats    which background parts run in which process                            an hour after the last beat
======== ====================================================================== =============================

Rows of SQLite tables lie in the order of their random keys, not of arrival; so do rows of a backup.
``tests/web/gateway/test_linkage.py`` attacks every column.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    insert,
)

from peerveil.storage import Schema, version_table
from peerveil.web.common.records import record_table
from peerveil.web.common.tokens import token_table

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from peerveil.web.common.vault import Vault

VERSION: Final = 3
SECRET: Final = "gateway secret"  # noqa: S105 - what the secret of the hashes is sealed about
metadata = MetaData()

version = version_table(
    "gateway_book",
    metadata,
    Column("epoch", Text, nullable=False),  # a random name; a restored copy gets another, so old cursors are refused
    Column("secret", LargeBinary, nullable=False),  # sealed; all MAC keys are derived from it
)
clock = Table(
    "gateway_clock",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),  # always 1
    Column("high", BigInteger, nullable=False),  # the latest time that was acted on
    Column("boot", Text, nullable=False),
    Column("stopwatch", BigInteger, nullable=False),
    Column("state", Text, nullable=False),  # running, step or pause
    Column("step", BigInteger, nullable=False),
    Column("confirmed", Integer, nullable=False),  # how often an operator has confirmed the clock
    Column("shift", BigInteger, nullable=False),  # the sum of confirmed steps; sealed arrivals are in time minus shift
)
spaces = Table(
    "gateway_spaces",
    metadata,
    Column("name", Text, primary_key=True),
    Column("settings", Text, nullable=False),
    Column("last", BigInteger, nullable=False),  # the position of the newest item of the feed; its lock orders workers
)
tokens = token_table("gateway_tokens", metadata)
records = record_table("gateway_records", metadata)
held = Table(
    "gateway_held",
    metadata,
    Column("id", Text, primary_key=True),
    Column("space", Text, nullable=False),
    Column("receipt", Text, nullable=False, unique=True),  # its hash
    Column("due_at", BigInteger, nullable=False),
    Column(
        "batched_at", BigInteger
    ),  # when it is due instead, should a companion come within the window (symmetric only)
    Column("shuffle", BigInteger, nullable=False),
    Column("waits", Integer, nullable=False),  # 1 while the post that it answers is held
    Column("body", LargeBinary, nullable=False),  # thread, text, what it answers, and the held posts that answer it
    sqlite_with_rowid=False,
)
Index("gateway_held_due", held.c.space, held.c.due_at)
recent = Table(
    "gateway_recent",
    metadata,
    Column("person", Text, primary_key=True),  # a MAC of space, actor and day: another one every day
    Column("body", LargeBinary, nullable=False),  # thread, arrival, declaration and id of each post, sealed and padded
    Column("forget", BigInteger, nullable=False),  # a multiple of the window, in time minus shift
    sqlite_with_rowid=False,
)
Index("gateway_recent_forget", recent.c.forget)
receipts = Table(
    "gateway_receipts",
    metadata,
    Column("receipt", Text, primary_key=True),
    Column("owner", Text, nullable=False),  # a MAC of receipt, space and actor: no two are equal
    Column("space", Text, nullable=False),
    Column("state", Text, nullable=False),  # taken or withdrawn
    Column("expires", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
feed = Table(
    "gateway_feed",
    metadata,
    Column("space", Text, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("id", Text, nullable=False, unique=True),  # made from the held post: it cannot be published twice
    Column("thread", Text, nullable=False),
    Column("content", Text, nullable=False),
    Column("reply_to", Text),
    Column("posted_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("space", "position"),
    sqlite_with_rowid=False,
)
hooks = Table(
    "gateway_hooks",
    metadata,
    Column("name", Text, primary_key=True),
    Column("space", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("secret", LargeBinary, nullable=False),
    Column("after", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_try", BigInteger, nullable=False),
    Column("active", Integer, nullable=False),
)
tally = Table(
    "gateway_tally",
    metadata,
    Column("space", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("value", BigInteger, nullable=False),
    PrimaryKeyConstraint("space", "name"),
)
audit = Table(
    "gateway_audit",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
    Column("action", Text, nullable=False),  # request or approve
    Column("request", Integer, nullable=False),  # the number of the request that is made or approved
    Column("body", LargeBinary, nullable=False),  # operator, receipt and reason, sealed
)
beats = Table(
    "gateway_beats",
    metadata,
    Column("part", Text, nullable=False),  # publishing, webhooks or intake
    Column("process", Text, nullable=False),  # a random name
    Column("state", Text, nullable=False),  # running, dead or stopped
    Column("at", BigInteger, nullable=False),
    PrimaryKeyConstraint("part", "process"),
)

_APPEND_ONLY: Final = "peerveil: what operators did is append-only"
_TRIGGERS: Final = {
    "sqlite": [
        f"CREATE TRIGGER gateway_audit_no_{what.lower()} BEFORE {what} ON gateway_audit "
        f"BEGIN SELECT RAISE(ABORT, '{_APPEND_ONLY}'); END"
        for what in ("UPDATE", "DELETE")
    ],
    "postgresql": [
        "CREATE FUNCTION gateway_append_only() RETURNS trigger LANGUAGE plpgsql AS $$ "
        f"BEGIN RAISE EXCEPTION '{_APPEND_ONLY}'; END $$",
        "CREATE TRIGGER gateway_audit_no_change BEFORE UPDATE OR DELETE ON gateway_audit "
        "FOR EACH ROW EXECUTE FUNCTION gateway_append_only()",
    ],
}


def _rename_due_time(connection: Connection) -> None:
    connection.exec_driver_sql("ALTER TABLE gateway_held RENAME COLUMN release_at TO due_at")
    connection.exec_driver_sql("UPDATE gateway_beats SET part = 'publishing' WHERE part = 'release'")


def schema(vault: Vault) -> Schema:
    """The gateway's tables; the secret of the hashes is sealed from its first moment."""

    def create(connection: Connection) -> None:
        metadata.create_all(connection, checkfirst=False)
        for statement in _TRIGGERS[connection.dialect.name]:
            connection.exec_driver_sql(statement)
        sealed = vault.seal(secrets.token_bytes(32), about=SECRET)
        connection.execute(insert(version).values(id=1, version=VERSION, epoch=secrets.token_hex(8), secret=sealed))
        begin = {"high": 0, "boot": "", "stopwatch": 0, "state": "running", "step": 0, "confirmed": 0, "shift": 0}
        connection.execute(insert(clock).values(id=1, **begin))

    return Schema(VERSION, version, create, {2: _rename_due_time}, alone=False)
