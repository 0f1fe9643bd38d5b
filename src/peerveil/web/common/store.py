"""A service's database: WAL on SQLite, every acknowledged write on the disk, connections kept open.

WAL lets readers go on beside the one writer; ``synchronous=FULL`` syncs the log at every commit, so what was
acknowledged survives a loss of power. ``secure_delete`` overwrites what was deleted: intake rows are secrets. The
database is then a file with a companion (``-wal``): copy it by the service's own backup, never by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from peerveil.storage import Address, Database, Schema, prepare
from peerveil.storage.transactions import error_code
from peerveil.web.common.errors import Clash, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy.exc import SQLAlchemyError

    from peerveil.core.errors import PeerveilError

_CLASHES = ("SQLITE_CONSTRAINT", "23505", "40001", "40P01")

PATIENCE = 20.0
"""Seconds to wait for others who hold a lock."""


class ServiceDatabase(Database):
    """The database of a service."""

    noun: ClassVar[str] = "database"
    error: ClassVar[type[PeerveilError]] = Unavailable
    nothing: ClassVar[Mapping[str, str]] = {"open": "nothing was changed", "take": "nothing was taken"}
    pragmas: ClassVar[tuple[str, ...]] = (
        "journal_mode = WAL",
        "synchronous = FULL",
        "secure_delete = ON",
        "temp_store = MEMORY",
    )
    keeps_connections: ClassVar[bool] = True

    def lost(self, action: str, message: str) -> PeerveilError:  # noqa: ARG002
        """A commit whose outcome is not known: the same request with the same key finds out."""
        return Unavailable(f"{message}: send the same request again, with the same key")

    def translated(self, error: SQLAlchemyError, nothing: str) -> PeerveilError:
        """Two writers that met are told apart from a database that fails."""
        if error_code(error).startswith(_CLASHES):
            return Clash(f"two writers met at {self.shown}; nothing was written, try again")
        return super().translated(error, nothing)


def open_database(
    url: str, schema: Schema, *, create: bool, patience: float = PATIENCE, kind: type[ServiceDatabase] = ServiceDatabase
) -> ServiceDatabase:
    """Open a service's database at an address and bring its tables up to date."""
    database = kind(Address.read(url), patience)
    try:
        if create:
            database.create_file()
        prepare(database, schema, create=create)
    except BaseException:
        database.close()
        raise
    return database
