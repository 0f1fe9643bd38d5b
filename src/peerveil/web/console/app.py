"""The shared state of a console: settings, folder, database, ledger, services, and the activity log."""

from __future__ import annotations

import os
import secrets
import shlex
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from sqlalchemy import Connection, desc, insert, select

from peerveil.core.errors import BadInput, Verbatim
from peerveil.ledger import Ledger
from peerveil.storage import Address
from peerveil.web.common import database_time, open_database
from peerveil.web.console.schema import SCHEMA, activity, book, users

if TYPE_CHECKING:
    from peerveil.web.collect import Store
    from peerveil.web.collect.service import Inferrer
    from peerveil.web.gateway import Gateway

_T = TypeVar("_T")
LOCAL_USER: Final = "local"
"""Acts when sign-in is disabled."""


@dataclass(frozen=True)
class ConsoleSettings:
    """How a console was started.

    Attributes
    ----------
    folder
        Folder for files and runs.
    db
        The console's own tables: a SQLite file or a PostgreSQL address.
    ledger
        Where spending is recorded.
    sign_in
        Whether everybody must sign in, even before anybody is registered.
    https
        Whether a TLS proxy is in front: cookies are then sent over HTTPS only.
    data_folder
        Files in this folder can be named instead of uploaded; without sign-in, files anywhere can be.
    upload_limit
        Largest upload in bytes.
    row_limit, memory_limit
        Largest number of rows of a table, and largest estimated bytes of memory for reading it.
    gateway, collect
        Databases of the two services, if there are any.
    """

    folder: Path
    db: str
    ledger: str
    sign_in: bool = False
    https: bool = False
    data_folder: Path | None = None
    upload_limit: int = 200_000_000
    row_limit: int = 5_000_000
    memory_limit: int = 4_000_000_000
    gateway: str | None = None
    collect: str | None = None

    @classmethod
    def make(cls, folder: str | os.PathLike[str], db: str | None = None, **more: Any) -> Self:
        """Fill in defaults: everything in one folder; on PostgreSQL the ledger is in the same database."""
        where = Path(folder).absolute()
        ledger = os.environ.get("PEERVEIL_LEDGER")
        if db is None:
            db = str(where / "console.db")
        elif "://" in db and not db.startswith("sqlite"):
            ledger = ledger or db
        if more.get("collect") is None:
            more["collect"] = os.environ.get("PEERVEIL_COLLECT_DB") or str(where / "collect.db")
        return cls(folder=where, db=db, ledger=ledger or str(where / "ledger.db"), **more)


class ConsoleApp:
    """Shared state of a running console, for pages and workers. Safe to use from several threads.

    ``local`` says that it is served to this machine alone.
    """

    def __init__(self, settings: ConsoleSettings, *, local: bool = True) -> None:
        self.settings, self.local = settings, local
        self.files_folder, self.runs_folder = settings.folder / "files", settings.folder / "runs"
        try:
            for folder in (settings.folder, self.files_folder, self.runs_folder):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            settings.folder.chmod(0o700)
        except OSError as error:
            want = f"a folder that can be written ({error.strerror})"
            raise BadInput("--folder", got=str(settings.folder), want=want) from None
        self.services = Services(settings)
        self.database = open_database(settings.db, SCHEMA, create=True)
        self.secret = str(self.database.first(select(book)).secret)

    def close(self) -> None:
        """Close all connections."""
        self.services.close()
        self.database.close()

    def writing(self) -> AbstractContextManager[Connection]:
        """A transaction."""
        return self.database.writing("take")

    def ledger(self) -> Ledger:
        """The ledger; close it after use."""
        return Ledger.open(self.settings.ledger)

    def has_users(self) -> bool:
        """Whether anybody is registered; from then on everybody signs in."""
        return self.database.first(select(users.c.id)) is not None

    def single_user(self) -> bool:
        """Whether nobody signs in: served to this machine alone, and nobody is registered."""
        return self.local and not self.settings.sign_in and not self.has_users()

    def activity(self) -> list[Any]:
        """The newest entries of the activity log."""
        return self.database.rows(select(activity).order_by(desc(activity.c.number)).limit(200))

    def log(self, connection: Connection, user: str, action: str, subject: str = "") -> None:
        """Add an entry to the activity log. Nothing here removes one."""
        row = {"at": database_time(connection), "user_id": user, "action": action, "subject": subject[:300]}
        connection.execute(insert(activity).values(**row))

    @contextmanager
    def logged(self, user: str, action: str, subject: str = "") -> Iterator[Connection]:
        """A transaction with an entry in the activity log."""
        with self.writing() as connection:
            yield connection
            self.log(connection, user, action, subject)


def new_id() -> str:
    """An id that cannot be guessed."""
    return secrets.token_hex(8)


class Services:
    """The gateway and the collection of answers, as far as this console knows them. Safe to use from several threads."""

    def __init__(self, settings: ConsoleSettings) -> None:
        assert settings.collect is not None  # ConsoleSettings.make fills it in
        self.collect_url, self.gateway_url = settings.collect, settings.gateway
        self._opened: dict[str, Any] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the connections. Inference that was started continues: it is a process of its own."""
        with self._lock:
            for name in {"store", "gateway"} & self._opened.keys():
                self._opened.pop(name).close()

    def _open(self, name: str, create: Callable[[], _T]) -> _T:
        with self._lock:
            if name not in self._opened:
                self._opened[name] = create()
            opened: _T = self._opened[name]
            return opened

    def has_collection(self) -> bool:
        """Whether there is a collection; a database on a server is only contacted on use."""
        path = Address.read(self.collect_url).path
        return path is None or path.exists()

    def store(self, *, create: bool = False) -> Store:
        """The collection; with ``create`` its tables are made if there are none."""
        from peerveil.web.collect import Store

        return self._open("store", lambda: Store(self.collect_url, create=create))

    def inferrer(self) -> Inferrer:
        """Starts inference in processes of their own, and knows their state."""
        from peerveil.web.collect.service import Inferrer

        return self._open("inferrer", lambda: Inferrer(self.collect_url))

    def gateway(self) -> Gateway:
        """The gateway, with the keys and the clock watch that its own commands would use."""
        from peerveil.web.gateway import Gateway, GatewaySettings

        def opened() -> Gateway:
            settings = GatewaySettings.find(os.environ.get("PEERVEIL_GATEWAY_CONFIG"), self.gateway_url)
            return Gateway(settings.db, settings.vault(), watch=settings.watch())

        if self.gateway_url is None:
            want = "the address of its database: start the console with --gateway"
            raise BadInput("gateway", got=Verbatim("nothing"), want=want)
        return self._open("gateway", opened)


def start_command(service: str, url: str) -> str:
    """The command that starts a service on a database; the user and password of a server never show.

    >>> start_command("collect", "/srv/my data/collect.db")
    "peerveil collect serve --db '/srv/my data/collect.db'"
    >>> start_command("collect", "postgresql://chair:swordfish@db/collect")
    'PEERVEIL_COLLECT_DB=... peerveil collect serve'
    """
    address = Address.read(url)
    if address.path is None:
        return f"PEERVEIL_{service.upper()}_DB=... peerveil {service} serve"
    return f"peerveil {service} serve --db {shlex.quote(address.shown)}"
