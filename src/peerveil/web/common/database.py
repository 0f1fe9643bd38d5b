"""A service's database: durable writes, connections kept open, one clock, and statements on many rows at once.

On SQLite, WAL lets readers go on beside the one writer. ``synchronous=FULL`` syncs the log at every commit, so what was
acknowledged survives a loss of power. ``secure_delete`` overwrites deleted rows: intake rows are secrets. The database
is then a file with a companion (``-wal``): copy it with the service's own backup, never by hand.

Time is the database's, in whole microseconds since 1970. On PostgreSQL it is the server's clock, so that several
processes on several machines agree. A SQLite file has only its machine's clock.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from sqlalchemy import ARRAY, Column, ColumnElement, Connection, Executable, Select, Table, bindparam, text
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.sql.expression import any_

from peerveil.core.errors import PeerveilError
from peerveil.storage import Database, Schema, open_tables
from peerveil.storage.transactions import error_code
from peerveil.web.common.errors import Clash, DatabaseFailed

SECOND: Final = 1_000_000
"""Microseconds in a second."""
DAY: Final = 86_400 * SECOND

_PATIENCE_SECONDS: Final = 20.0  # to wait for others who hold a lock
_CLASHES: Final = ("SQLITE_CONSTRAINT", "23505", "40001", "40P01")
_POSTGRESQL_TIME: Final = text("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")


class ServiceDatabase(Database):
    """The database of a service."""

    noun: ClassVar[str] = "database"
    error: ClassVar[type[PeerveilError]] = DatabaseFailed
    nothing: ClassVar[Mapping[str, str]] = {"open": "nothing was changed", "take": "nothing was taken"}
    pragmas: ClassVar[tuple[str, ...]] = (
        "journal_mode = WAL",
        "synchronous = FULL",
        "secure_delete = ON",
        "temp_store = MEMORY",
    )
    keeps_connections: ClassVar[bool] = True

    def rows(self, query: Executable) -> list[Any]:
        """The rows of a query."""
        with self.reading() as connection:
            return list(connection.execute(query))

    def first(self, query: Select[Any]) -> Any:
        """The first row of a query, or None."""
        return next(iter(self.rows(query.limit(1))), None)

    def check(self) -> None:
        """Fail unless the database answers."""
        self.rows(text("SELECT 1"))

    def lost(self, action: str, message: str) -> PeerveilError:  # noqa: ARG002
        """A commit whose outcome is unknown: the same request with the same key finds out."""
        return DatabaseFailed(f"{message}: send the same request again, with the same key")

    def translated(self, error: SQLAlchemyError, nothing: str) -> PeerveilError:
        """Distinguish two writers that met from a database that fails."""
        if error_code(error).startswith(_CLASHES):
            return Clash(f"two writers met at {self.shown}; nothing was written, try again")
        return super().translated(error, nothing)


def open_database(url: str, schema: Schema, *, create: bool) -> ServiceDatabase:
    """Open a service's database at an address."""
    return open_tables(ServiceDatabase, url, schema, create=create, patience=_PATIENCE_SECONDS)


def database_time(connection: Connection) -> int:
    """Microseconds since 1970 by the database's clock."""
    if connection.dialect.name == "sqlite":
        return time.time_ns() // 1000
    return int(connection.execute(_POSTGRESQL_TIME).scalar_one())


def end_of_day(moment: int) -> int:
    """The next midnight (UTC), in microseconds: too coarse to tell when something arrived."""
    return (moment // DAY + 1) * DAY


def among(connection: Connection, column: Column[Any], values: Sequence[Any]) -> ColumnElement[bool]:
    """``column IN values``; PostgreSQL gets the list as one array."""
    if connection.dialect.name == "sqlite":
        return column.in_(values)
    return column == any_(bindparam(None, list(values), ARRAY(column.type), unique=True))


def update_or_insert(
    connection: Connection, table: Table, key: Mapping[str, Any], values: Mapping[str, Any], **fresh: Any
) -> None:
    """Give the row of a key new values; if there is none, insert it, with the values of a ``fresh`` row besides."""
    own = [table.c[name] == value for name, value in key.items()]
    if not connection.execute(table.update().where(*own).values(**values)).rowcount:
        connection.execute(table.insert().values(**key, **values, **fresh))


def insert_rows(
    connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]], *, replace: bool = False
) -> None:
    """Insert many rows in one statement. PostgreSQL gets one array per column, since every statement is a round trip.

    With ``replace``, rows whose primary key exists take the new values; no key may come twice.
    """
    if not rows:
        return
    key = [column.name for column in table.primary_key]
    if connection.dialect.name == "sqlite":
        statement = sqlite.insert(table)
        if replace:
            statement = statement.on_conflict_do_update(index_elements=key, set_=dict(statement.excluded))
        connection.execute(statement, rows)
        return
    columns = {column.name: column.type.compile(connection.dialect) for column in table.columns}
    arrays = ", ".join(f"%s::{kind}[]" for kind in columns.values())
    clash = ""
    if replace:
        values = ", ".join(f'"{name}" = excluded."{name}"' for name in columns)
        clash = f" ON CONFLICT ({', '.join(key)}) DO UPDATE SET {values}"
    names = ", ".join(f'"{name}"' for name in columns)
    command = f"INSERT INTO {table.name} ({names}) SELECT * FROM unnest({arrays}){clash}"  # noqa: S608
    connection.exec_driver_sql(command, tuple([row.get(name) for row in rows] for name in columns))
