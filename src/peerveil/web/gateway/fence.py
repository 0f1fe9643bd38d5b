"""One process leads: it alone takes and publishes. A lock says who, and a number in every transaction makes sure of it.

The lock is the database server's (an advisory lock of one connection) or, for a SQLite file, the operating system's (on a file
beside it); either is free again when its process has died. Whoever gets the lock raises the *fence*, and every
transaction that takes or publishes checks that the fence is still its own. So a process that was stopped for a while, or
cut off from the server, and goes on as if it still led, writes nothing.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, select, update
from sqlalchemy.exc import SQLAlchemyError

from peerveil.web.common import ServiceDatabase
from peerveil.web.common.errors import Unavailable
from peerveil.web.gateway.tables import version

_LEAD_LOCK: Final = 0x6C656164  # "lead"
_FENCE_LOCK: Final = 0x66656E6365  # "fence"


class NotLeading(Unavailable):
    """Another process takes and publishes."""

    def __init__(self) -> None:
        super().__init__("another process of this gateway leads, and did not answer; nothing was taken")


class Overtaken(Unavailable):
    """Another process has begun to lead, or has compacted, since this one looked."""


class LeaderLock:
    """The lock of the process that leads."""

    def __init__(self, database: ServiceDatabase) -> None:
        self._database = database
        self._connection: Connection | None = None
        self._file: int | None = None

    def acquire(self, address: str) -> int | None:
        """Lead, if nobody else does: the new fence. Others find this process at the address."""
        if not (self._lock_file() if self._database.is_sqlite else self._lock_server()):
            return None
        try:
            with self._database.writing("lead") as connection:
                if not self._database.is_sqlite:
                    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_FENCE_LOCK})")
                raised = update(version).values(fence=version.c.fence + 1, leader=address).returning(version.c.fence)
                return int(connection.execute(raised).scalar_one())
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Lead no more."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        if self._connection is not None:
            with suppress(SQLAlchemyError):  # the server may be gone, and the lock with it
                self._connection.exec_driver_sql(f"SELECT pg_advisory_unlock({_LEAD_LOCK})")
            with suppress(SQLAlchemyError):
                self._connection.invalidate()  # a lock that was not given back ends with its session
                self._connection.close()
            self._connection = None

    def _lock_file(self) -> bool:
        path = Path(f"{self._database.path}-leader")
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return False
        self._file = descriptor
        return True

    def _lock_server(self) -> bool:
        try:
            connection = self._database.engine.connect()
            if connection.exec_driver_sql(f"SELECT pg_try_advisory_lock({_LEAD_LOCK})").scalar_one():
                self._connection = connection
                return True
            connection.close()
        except SQLAlchemyError as error:
            raise self._database.translated(error, "nothing was taken") from None
        return False


def check_fence(connection: Connection, fence: int) -> None:
    """Refuse to write for a process that does not lead any more.

    On PostgreSQL the shared lock is held until the end of the transaction, and whoever begins to lead takes it
    exclusively: so no transaction of an earlier leader can end after that. SQLite has one writer at a time anyway.
    """
    if connection.dialect.name != "sqlite":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock_shared({_FENCE_LOCK})")
    if int(connection.execute(select(version.c.fence)).scalar_one()) != fence:
        raise Overtaken("another process leads now; send the same request again, with the same key")
