"""Versions of tables: made once, migrated step by step, each step inside the transaction that records it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlalchemy import Column, Integer, MetaData, Table, inspect, select, update

from peerveil.core.errors import BadInput, Verbatim

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy import Connection

    from peerveil.storage.transactions import Database


def version_table(name: str, metadata: MetaData, *more: Column[object]) -> Table:
    """A table with one row: id 1, the version of all the tables, and whatever else there is once."""
    return Table(
        name,
        metadata,
        Column("id", Integer, primary_key=True, autoincrement=False),  # always 1
        Column("version", Integer, nullable=False),
        *more,
    )


@dataclass(frozen=True)
class Schema:
    """The tables of one ledger or service.

    Attributes
    ----------
    version : int
        The version that this library writes.
    header : sqlalchemy.Table
        Where the version stands, as :func:`version_table` makes it.
    create : callable
        Makes all tables and the row of ``header``.
    migrations : mapping
        From each older version, the step to the next.
    alone : bool
        Whether a SQLite file with other tables is refused.
    """

    version: int
    header: Table
    create: Callable[[Connection], None]
    migrations: Mapping[int, Callable[[Connection], None]] = field(default_factory=dict)
    alone: bool = True


def prepare(database: Database, schema: Schema, *, create: bool) -> None:
    """Make or migrate the tables where needed.

    Tables that are up to date are only read, so a write-protected copy can still be opened and shown. Whoever comes
    first creates; the others wait for the same lock and find it done.
    """
    with database.reading("open") as connection:
        version = _version(connection, database, schema)
    if version is None and not create:
        raise database.error(f"there is no {database.noun} at {database.shown}{database.remedy}")
    if version is None or version < schema.version:
        with database.writing("open", whole=True) as connection:
            version = _version(connection, database, schema)
            if version is None:
                schema.create(connection)
                version = schema.version
            if any(step not in schema.migrations for step in range(version, schema.version)):
                raise database.error(
                    f"the {database.noun} at {database.shown} was written by an older peerveil (version {version} of the "
                    f"tables; this library knows {schema.version}), and there is no migration: begin with a new database"
                )
            for step in range(version, schema.version):
                schema.migrations[step](connection)
                connection.execute(update(schema.header).values(version=step + 1))
            version = max(version, schema.version)
    if version > schema.version:
        raise database.error(
            f"the {database.noun} at {database.shown} was written by a newer peerveil (version {version} of the "
            f"tables; this library knows {schema.version}): upgrade peerveil"
        )


def _version(connection: Connection, database: Database, schema: Schema) -> int | None:
    """The version of the tables; ``None`` if there are none yet."""
    names = set(inspect(connection).get_table_names())
    if schema.header.name in names:
        version = connection.execute(
            select(schema.header.c.version).where(schema.header.c.id == 1)
        ).scalar_one_or_none()
        if version is None:
            raise database.error(f"the {database.noun} at {database.shown} has lost its version row: restore a copy")
        return int(version)
    if names and schema.alone and database.is_sqlite:
        want = f"a {database.noun}, or the name of a file that does not exist yet"
        raise BadInput(database.shown, got=Verbatim("a database with other tables"), want=want)
    return None
