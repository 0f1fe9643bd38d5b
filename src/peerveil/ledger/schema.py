"""The tables of a ledger, the triggers that guard them, and the way from one version to the next.

Exact numbers are text (``"1/10"``): no database rounds them. The triggers are a seat belt against accidents;
what tells of a deliberate change is the chain of digests (:mod:`peerveil.ledger.verify`).
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from sqlalchemy import (
    Column,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    insert,
    select,
)

from peerveil.ledger.entry import timestamp
from peerveil.storage import Schema, version_table
from peerveil.storage import prepare as migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy import Connection

    from peerveil.ledger.database import LedgerDatabase

VERSION: Final = 3
"""The version of the tables that this library writes."""

metadata = MetaData()

header = version_table(
    "peerveil_ledger",
    metadata,
    Column("ledger", Text, nullable=False),  # a random public name, covered by every opening digest
    Column("created", Text, nullable=False),
    Column("accounts", Integer, nullable=False),
)

secret = Table(
    "peerveil_secret",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),  # always 1
    Column("key", LargeBinary, nullable=False),  # keys the fingerprints; never exported
)

accounts = Table(
    "peerveil_accounts",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False, unique=True),
    Column("epsilon", Text, nullable=False),
    Column("opened", Text, nullable=False),
    Column("spent", Text, nullable=False),
    Column("entries", Integer, nullable=False),
    Column("head", Text, nullable=False),
)

entries = Table(
    "peerveil_entries",
    metadata,
    Column("account", Integer, ForeignKey(accounts.c.number), nullable=False),
    Column("serial", Integer, nullable=False),
    Column("at", Text, nullable=False),
    Column("purpose", Text, nullable=False),
    Column("key", Text, nullable=True),
    Column("notion", Text, nullable=False),
    Column("epsilon", Text, nullable=True),
    Column("debit", Text, nullable=False),
    Column("guarantee", Text, nullable=False),
    Column("words", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("lane", Text, nullable=False),
    Column("library", Text, nullable=False),
    Column("previous", Text, nullable=False),
    Column("digest", Text, nullable=False),
    PrimaryKeyConstraint("account", "serial"),
    UniqueConstraint("account", "key"),  # what has a key is debited once
)

bindings = Table(
    "peerveil_bindings",
    metadata,
    Column("fingerprint", Text, primary_key=True),  # of a data set; unique, so that only one account can ever own it
    Column("account", Integer, ForeignKey(accounts.c.number), nullable=False),
)

_APPEND_ONLY: Final = "peerveil: entries of a ledger are append-only"
_BOUND: Final = "peerveil: a data set stays with its account"
_FIXED: Final = "peerveil: an account keeps its name and budget, and is never removed"

_SQLITE_TRIGGERS: Final = (
    f"""CREATE TRIGGER peerveil_entries_no_update BEFORE UPDATE ON peerveil_entries
    BEGIN SELECT RAISE(ABORT, '{_APPEND_ONLY}'); END""",
    f"""CREATE TRIGGER peerveil_entries_no_delete BEFORE DELETE ON peerveil_entries
    BEGIN SELECT RAISE(ABORT, '{_APPEND_ONLY}'); END""",
    # INSERT OR REPLACE removes a row without asking the trigger on DELETE
    """CREATE TRIGGER peerveil_entries_no_replace BEFORE INSERT ON peerveil_entries
    WHEN EXISTS (SELECT 1 FROM peerveil_entries WHERE account = NEW.account AND (serial = NEW.serial OR key = NEW.key))
    BEGIN SELECT RAISE(ABORT, 'peerveil: entries of a ledger are append-only'); END""",
    f"""CREATE TRIGGER peerveil_accounts_fixed BEFORE UPDATE ON peerveil_accounts
    WHEN NEW.number <> OLD.number OR NEW.name <> OLD.name
    OR NEW.epsilon <> OLD.epsilon OR NEW.opened <> OLD.opened
    BEGIN SELECT RAISE(ABORT, '{_FIXED}'); END""",
    f"""CREATE TRIGGER peerveil_accounts_no_delete BEFORE DELETE ON peerveil_accounts
    BEGIN SELECT RAISE(ABORT, '{_FIXED}'); END""",
    f"""CREATE TRIGGER peerveil_bindings_no_update BEFORE UPDATE ON peerveil_bindings
    BEGIN SELECT RAISE(ABORT, '{_BOUND}'); END""",
    f"""CREATE TRIGGER peerveil_bindings_no_delete BEFORE DELETE ON peerveil_bindings
    BEGIN SELECT RAISE(ABORT, '{_BOUND}'); END""",
)

_POSTGRESQL_TRIGGERS: Final = (
    f"""CREATE FUNCTION peerveil_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION '{_APPEND_ONLY}'; END $$""",
    f"""CREATE FUNCTION peerveil_fixed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION '{_FIXED}'; END $$""",
    """CREATE TRIGGER peerveil_entries_no_change BEFORE UPDATE OR DELETE ON peerveil_entries
    FOR EACH ROW EXECUTE FUNCTION peerveil_append_only()""",
    """CREATE TRIGGER peerveil_entries_no_truncate BEFORE TRUNCATE ON peerveil_entries
    FOR EACH STATEMENT EXECUTE FUNCTION peerveil_append_only()""",
    """CREATE TRIGGER peerveil_accounts_fixed BEFORE UPDATE ON peerveil_accounts FOR EACH ROW
    WHEN ((NEW.number, NEW.name, NEW.epsilon, NEW.opened)
    IS DISTINCT FROM (OLD.number, OLD.name, OLD.epsilon, OLD.opened))
    EXECUTE FUNCTION peerveil_fixed()""",
    """CREATE TRIGGER peerveil_accounts_no_delete BEFORE DELETE ON peerveil_accounts
    FOR EACH ROW EXECUTE FUNCTION peerveil_fixed()""",
    """CREATE TRIGGER peerveil_accounts_no_truncate BEFORE TRUNCATE ON peerveil_accounts
    FOR EACH STATEMENT EXECUTE FUNCTION peerveil_fixed()""",
    f"""CREATE FUNCTION peerveil_bound() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION '{_BOUND}'; END $$""",
    """CREATE TRIGGER peerveil_bindings_no_change BEFORE UPDATE OR DELETE ON peerveil_bindings
    FOR EACH ROW EXECUTE FUNCTION peerveil_bound()""",
    """CREATE TRIGGER peerveil_bindings_no_truncate BEFORE TRUNCATE ON peerveil_bindings
    FOR EACH STATEMENT EXECUTE FUNCTION peerveil_bound()""",
)


MIGRATIONS: Final[Mapping[int, Callable[[Connection], None]]] = {}
"""From each older version, the step to the next; it runs once, inside the transaction that records it.

There is none from versions 1 and 2, which were never released: their digests do not cover keys, so they are refused."""


def prepare(database: LedgerDatabase, *, create: bool) -> tuple[str, bytes]:
    """Make or migrate the tables where needed; the ledger's public name and its secret."""
    migrate(database, Schema(VERSION, header, _create, MIGRATIONS), create=create)
    with database.reading("open") as connection:
        name = connection.execute(select(header.c.ledger)).scalar_one()
        key = connection.execute(select(secret.c.key)).scalar_one()
    return str(name), bytes(key)


def _create(connection: Connection) -> None:
    metadata.create_all(connection, checkfirst=False)
    sqlite = connection.dialect.name == "sqlite"
    for statement in _SQLITE_TRIGGERS if sqlite else _POSTGRESQL_TRIGGERS:
        connection.exec_driver_sql(statement)
    now = timestamp(datetime.now(UTC))
    connection.execute(
        insert(header).values(id=1, version=VERSION, ledger=os.urandom(16).hex(), created=now, accounts=0)
    )
    connection.execute(insert(secret).values(id=1, key=os.urandom(32)))
