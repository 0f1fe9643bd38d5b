"""Transactions on SQLite and PostgreSQL that end in one of three ways: written, not written, or open.

A writer on **SQLite** takes the write lock first (``BEGIN IMMEDIATE``), so that it reads what it will change under the
lock. Waiting writers try again after short random pauses, each with the same chance; SQLite's own handler waits longer
the longer it has waited. A writer on **PostgreSQL** locks rows (``SELECT ... FOR UPDATE``). On both, a transaction is on
the disk when the block ends.

:class:`Database` is made for one kind of tables by a subclass, which says what they are called, how errors are raised,
and how the SQLite file is kept.
"""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool, QueuePool

from peerveil.core.errors import BadInput, PeerveilError, Verbatim
from peerveil.core.optional import need

if TYPE_CHECKING:
    from peerveil.storage.address import Address

_PAUSE: Final = (0.0005, 0.006)  # seconds between two attempts at the write lock
_JITTER: Final = random.SystemRandom()
_SCHEMA_LOCK: Final = 0x70656572  # "peer": the advisory lock under which PostgreSQL tables are made
_CLIENT_OPTIONS: Final = {  # of libpq: a server whose machine is gone is noticed after 25 s, and so is a client by the server
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
_CREATING: Final = threading.Lock()
_LOCKED: Final = ("SQLITE_BUSY", "SQLITE_LOCKED", "55P03")
# after these errors of COMMIT, SQLite has rolled back; anything else leaves the outcome open
_SQLITE_NOT_COMMITTED: Final = tuple(f"SQLITE_{name}" for name in ("BUSY", "FULL", "READONLY", "CONSTRAINT", "LOCKED"))


class Closable(ABC):
    """Something open, which is closed at the end of a ``with`` block."""

    @abstractmethod
    def close(self) -> None:
        """Give back what it holds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Database:
    """A database: safe to use from several threads, and in a process that was forked."""

    noun: ClassVar[str] = "database"
    """What the tables are called in messages."""
    error: ClassVar[type[PeerveilError]] = PeerveilError
    """What is raised when the database fails."""
    nothing: ClassVar[Mapping[str, str]] = {"open": "nothing was changed"}
    """For each action, what a failure says about what was not done."""
    pragmas: ClassVar[tuple[str, ...]] = ("journal_mode = DELETE", "synchronous = EXTRA")
    """How the SQLite file is kept."""
    keeps_connections: ClassVar[bool] = False
    """Whether connections to a SQLite file stay open between transactions."""

    def __init__(self, address: Address, patience: float) -> None:
        self._address = address
        self._patience = patience
        self._closed = False
        self._process = os.getpid()
        self.hint = ""
        self.upgraded_from: int | None = None
        """The version of its tables before this very opening brought them up to date."""
        if address.path is not None:
            self.engine = _sqlite(address.path, patience, self.pragmas, self.keeps_connections)
        else:
            self.engine = _postgresql(address, patience)
        self._finalizer = weakref.finalize(self, _dispose, self.engine, os.getpid())

    @property
    def shown(self) -> str:
        """The address without its password."""
        return self._address.shown

    @property
    def remedy(self) -> str:
        """Behind a message that there is none: how to make one."""
        return self.hint

    @property
    def wanted(self) -> str:
        """What an address should lead to."""
        return f"a {self.noun}, or the name of a file that does not exist yet"

    @property
    def path(self) -> Path | None:
        """The SQLite file."""
        return self._address.path

    @property
    def is_sqlite(self) -> bool:
        """Whether this is a file."""
        return self._address.path is not None

    def close(self) -> None:
        """Give all connections back."""
        self._closed = True
        self._finalizer()

    def create_file(self) -> None:
        """Make the SQLite file, readable by its owner only: it holds secrets.

        The lock is for threads: closing a file drops all locks that this process holds on it, SQLite's
        included, so nobody may have it open while the new, empty file is closed. An existing file is never
        opened here.
        """
        path = self._address.path
        if path is None:
            return
        with _CREATING:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            except FileExistsError:
                if not path.exists():
                    raise BadInput(self.shown, got=Verbatim("a file among its folders"), want=self.wanted) from None
            except OSError as error:
                raise self.error(f"cannot make a {self.noun} at {self.shown}: {error.strerror}") from None

    def rewrite(self) -> None:
        """Write all tables anew, so that nothing deleted is left in the files."""
        try:
            with self.engine.connect() as connection:
                connection.exec_driver_sql("VACUUM" if self.is_sqlite else "VACUUM FULL")
                if self.is_sqlite:
                    connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        except SQLAlchemyError as error:
            raise self.translated(error, "its tables are up to date; run VACUUM yourself") from None

    def reading(self, action: str = "read") -> AbstractContextManager[Connection]:
        """One consistent view of everything."""
        return self._begun("BEGIN" if self.is_sqlite else "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", action)

    @contextmanager
    def writing(self, action: str, *, whole: bool = False) -> Iterator[Connection]:
        """A transaction that is committed, durably, when the block ends, and rolled back if it raises.

        ``whole`` locks everything (to make the tables); on PostgreSQL other writers lock rows.
        """
        begin = "BEGIN IMMEDIATE" if self.is_sqlite else "BEGIN ISOLATION LEVEL READ COMMITTED"
        with self._begun(begin, action) as connection:
            if whole and not self.is_sqlite:
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_SCHEMA_LOCK})")
            yield connection
            self._commit(connection, action)

    @contextmanager
    def _begun(self, begin: str, action: str) -> Iterator[Connection]:
        try:
            connection = self._begin(begin)
            try:
                yield connection
            finally:
                _finish(connection)
        except SQLAlchemyError as error:
            raise self.translated(error, self.nothing.get(action, "")) from None

    def _begin(self, begin: str, *, again: bool = False) -> Connection:
        if self._closed:
            raise self.error(f"the {self.noun} at {self.shown} is closed; open it again")
        if os.getpid() != self._process:
            # a forked child must not talk over its parent's connections
            self.engine.dispose(close=False)
            self._process = os.getpid()
            self._finalizer.detach()
            self._finalizer = weakref.finalize(self, _dispose, self.engine, self._process)
        connection = self.engine.connect()
        try:
            if begin == "BEGIN IMMEDIATE":
                self._begin_immediate(connection)
            else:
                connection.exec_driver_sql(begin)
        except BaseException as error:
            _finish(connection)
            # a pooled connection may have died since; nothing has begun, so one fresh one is tried
            if not again and isinstance(error, DBAPIError) and error.connection_invalidated:
                return self._begin(begin, again=True)
            raise
        return connection

    def _begin_immediate(self, connection: Connection) -> None:
        deadline = time.monotonic() + self._patience
        connection.exec_driver_sql("PRAGMA busy_timeout = 0")
        while True:
            try:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            except DBAPIError as error:
                if not error_code(error).startswith(_LOCKED) or time.monotonic() >= deadline:
                    raise
                time.sleep(_JITTER.uniform(*_PAUSE))
            else:
                break
        connection.exec_driver_sql(f"PRAGMA busy_timeout = {round(self._patience * 1000)}")

    def _commit(self, connection: Connection, action: str) -> None:
        try:
            connection.exec_driver_sql("COMMIT")
        except DBAPIError as error:
            if self._rolled_back(error):
                raise
            reason = self._address.without_secrets(error.orig)
            lost = f"the {self.noun} at {self.shown} was lost in the middle of a commit ({reason})"
            raise self.lost(action, lost) from None

    def lost(self, action: str, message: str) -> PeerveilError:  # noqa: ARG002
        """The error of a commit whose outcome is not known."""
        return self.error(f"{message}: open it again to see whether it was done")

    def _rolled_back(self, error: DBAPIError) -> bool:
        """Whether a failed COMMIT certainly left nothing behind."""
        code = error_code(error)
        if self.is_sqlite:
            return code.startswith(_SQLITE_NOT_COMMITTED)
        # the server answered and the session goes on: aborted. 08 and 57P: the session ended, before or after
        return bool(code) and not error.connection_invalidated and not code.startswith(("08", "57P"))

    def translated(self, error: SQLAlchemyError, nothing: str) -> PeerveilError:
        """A driver's error in plain words, without secrets."""
        code = error_code(error)
        if code.startswith("SQLITE_NOTADB"):
            return BadInput(self.shown, got=Verbatim("a file that is not a SQLite database"), want=self.wanted)
        reasons = {
            _LOCKED: f"somebody else has kept it locked for more than {self._patience:g} s",
            ("SQLITE_FULL", "53100"): "the disk is full",
            ("SQLITE_READONLY",): "it is write-protected",
            ("SQLITE_CANTOPEN",): f"the file is missing or closed to this user{self.remedy}",
            ("",): self._address.without_secrets(getattr(error, "orig", None) or error),
        }
        reason = next(words for codes, words in reasons.items() if code.startswith(codes))
        return self.error(f"the {self.noun} at {self.shown}: {reason}" + (f"; {nothing}" if nothing else ""))


def error_code(error: BaseException) -> str:
    """SQLite's name of the error, or PostgreSQL's five characters; empty where the driver gave none."""
    original = getattr(error, "orig", None)
    return getattr(original, "sqlite_errorname", None) or getattr(original, "sqlstate", None) or ""


def _finish(connection: Connection) -> None:
    """Roll back what is open and give the connection back; one that cannot even do that is thrown away."""
    try:
        if not connection.invalidated:
            raw: Any = connection.connection.dbapi_connection
            raw.rollback()
    except Exception:
        connection.invalidate()
    finally:
        connection.close()


def _dispose(engine: Engine, process: int) -> None:
    engine.dispose(close=os.getpid() == process)


def _sqlite(path: Path, patience: float, pragmas: tuple[str, ...], keep: bool) -> Engine:
    # mode=rw: a file that was removed meanwhile is an error, not a fresh one
    address = f"file:{quote(str(path))}?mode=rw"

    def connect() -> sqlite3.Connection:
        with _CREATING:
            connection = sqlite3.connect(
                address, uri=True, timeout=patience, isolation_level=None, check_same_thread=False
            )
        try:
            # fullfsync is for macOS: fsync alone leaves data in the drive's cache
            for pragma in (*pragmas, "fullfsync = ON", "foreign_keys = ON"):
                connection.execute(f"PRAGMA {pragma}")
        except BaseException:
            connection.close()
            raise
        return connection

    pool = QueuePool if keep else NullPool
    return create_engine("sqlite+pysqlite://", creator=connect, poolclass=pool, isolation_level="AUTOCOMMIT")


def _postgresql(address: Address, patience: float) -> Engine:
    assert address.url is not None
    need("postgresql")
    options = {name: value for name, value in _CLIENT_OPTIONS.items() if name not in address.url.query}
    engine = create_engine(
        address.url, isolation_level="AUTOCOMMIT", connect_args=options, pool_timeout=patience, hide_parameters=True
    )

    @event.listens_for(engine, "connect")
    def settle(connection: Any, _: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SHOW synchronous_commit")
            if cursor.fetchone()[0] == "off":  # every other setting is on this server's disk, or on more disks
                cursor.execute("SET synchronous_commit TO on")
            cursor.execute(f"SET lock_timeout TO {max(1, round(patience * 1000))}")
            # a client that freezes inside a transaction must not lock rows forever
            cursor.execute("SET idle_in_transaction_session_timeout TO '60s'")
            # nor may one whose machine is gone: the server would look for it after two hours
            for name in ("idle", "interval", "count"):
                cursor.execute(f"SET tcp_keepalives_{name} TO {_CLIENT_OPTIONS[f'keepalives_{name}']}")

    return engine
