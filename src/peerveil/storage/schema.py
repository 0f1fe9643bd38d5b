"""The tables of one ledger or service: declared in short, made once, refused if another version wrote them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy import Column, Connection, Integer, MetaData, Table, insert, inspect, select

from peerveil.core.errors import BadInput, Verbatim
from peerveil.storage.address import Address
from peerveil.storage.transactions import Database

Kind = TypeVar("Kind", bound=Database)


def keys(**kinds: Any) -> list[Column[Any]]:
    """The columns of a primary key, by name."""
    return [Column(name, kind, primary_key=True, autoincrement=False) for name, kind in kinds.items()]


def required(**kinds: Any) -> list[Column[Any]]:
    """Columns without nulls, by name."""
    return [Column(name, kind, nullable=False) for name, kind in kinds.items()]


def version_table(name: str, metadata: MetaData, *more: Column[Any]) -> Table:
    """A table with one row: id 1, the version of all the tables, and whatever else there is once."""
    return Table(name, metadata, *keys(id=Integer), *required(version=Integer), *more)


def guard(table: str, refusal: str, *, fixed: str = "") -> dict[str, list[str]]:
    """For each kind of database, triggers that refuse to change rows of a table (or its ``fixed`` columns) or remove them."""
    change = f"UPDATE OF {fixed}" if fixed else "UPDATE"
    function = f"EXECUTE FUNCTION {table}_guard()"
    return {
        "sqlite": [
            f"CREATE TRIGGER {table}_no_{name} BEFORE {event} ON {table} BEGIN SELECT RAISE(ABORT, '{refusal}'); END"
            for name, event in (("update", change), ("delete", "DELETE"))
        ],
        "postgresql": [
            f"CREATE FUNCTION {table}_guard() RETURNS trigger LANGUAGE plpgsql AS $$ "
            f"BEGIN RAISE EXCEPTION '{refusal}'; END $$",
            f"CREATE TRIGGER {table}_no_change BEFORE {change} OR DELETE ON {table} FOR EACH ROW {function}",
            f"CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table} FOR EACH STATEMENT {function}",
        ],
    }


@dataclass(frozen=True)
class Schema:
    """The tables of one ledger or service."""

    version: int  # that this library writes
    header: Table  # where the version stands, as version_table makes it; the other tables share its metadata
    first: Callable[[], Mapping[Table, Mapping[str, Any]]] = dict  # rows of tables that have a first one, with id 1
    guards: Sequence[Mapping[str, Sequence[str]]] = ()  # triggers, as guard makes them
    alone: bool = True  # whether a SQLite file with other tables is refused
    # of earlier versions, how their tables become these in one transaction; the file is then rewritten
    upgrades: Mapping[int, Callable[[Connection], None]] = field(default_factory=dict)
    hint: str = ""  # behind a message that there is no database: how to make one

    def create(self, connection: Connection) -> None:
        """Make all tables, their triggers and their first rows."""
        self.header.metadata.create_all(connection, checkfirst=False)
        for triggers in self.guards:
            for statement in triggers.get(connection.dialect.name, ()):
                connection.exec_driver_sql(statement)
        for table, row in {self.header: {}, **self.first()}.items():
            version = {"version": self.version} if table is self.header else {}
            connection.execute(insert(table).values(id=1, **version, **row))


def open_tables(
    kind: type[Kind], url: str | os.PathLike[str], schema: Schema, *, create: bool, patience: float
) -> Kind:
    """Open the database at an address, and make its tables if there are none and ``create`` says so."""
    database = kind(Address.read(url), patience)
    database.hint = schema.hint
    try:
        if create:
            database.create_file()
        _prepare(database, schema, create=create)
    except BaseException:
        database.close()
        raise
    return database


def _prepare(database: Database, schema: Schema, *, create: bool) -> None:
    """Tables that exist are only read, so a write-protected copy can still be opened and shown. Whoever comes first
    creates; the others wait for the same lock and find it done.
    """
    with database.reading("open") as connection:
        version = _version(connection, database, schema)
    if version is None and not create:
        raise database.error(f"there is no {database.noun} at {database.shown}{database.remedy}")
    if version is None:
        with database.writing("open", whole=True) as connection:
            version = _version(connection, database, schema)
            if version is None:
                schema.create(connection)
                version = schema.version
    if version in schema.upgrades and create:
        with database.writing("open", whole=True) as connection:
            if _version(connection, database, schema) == version:  # and nobody else has done it meanwhile
                schema.upgrades[version](connection)
                database.upgraded_from = version
        database.rewrite()
        version = schema.version
    if version != schema.version:
        older = version < schema.version
        remedy = "there is no migration, begin with a new database" if older else "upgrade peerveil"
        remedy = f"its tables can be brought up to date{database.remedy}" if version in schema.upgrades else remedy
        raise database.error(
            f"the {database.noun} at {database.shown} was written by {'an older' if older else 'a newer'} peerveil (version "
            f"{version} of the tables; this library knows {schema.version}): {remedy}"
        )


def _version(connection: Connection, database: Database, schema: Schema) -> int | None:
    """The version of the tables; ``None`` if there are none yet."""
    names = set(inspect(connection).get_table_names())
    if schema.header.name in names:
        version = connection.scalar(select(schema.header.c.version).where(schema.header.c.id == 1))
        if version is None:
            raise database.error(f"the {database.noun} at {database.shown} has lost its version row: restore a copy")
        return int(version)
    if names and schema.alone and database.is_sqlite:
        raise BadInput(database.shown, got=Verbatim("a database with other tables"), want=database.wanted)
    return None
