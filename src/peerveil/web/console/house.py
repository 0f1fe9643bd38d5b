"""Where a console lives: its folder, its database, its ledger; and the trail of what was done in it."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from sqlalchemy import desc, insert, select

from peerveil.core.errors import BadInput
from peerveil.ledger import Ledger
from peerveil.web.common import ServiceDatabase, database_time, open_database
from peerveil.web.console.schema import SCHEMA, book, trail

if TYPE_CHECKING:
    from sqlalchemy import Connection

LOCAL: Final = "local"
"""Who acts where nobody has to sign in."""

FOLDER: Final = "peerveil-console"
"""Where a console lives if nothing else is said: a folder where it was started."""


@dataclass(frozen=True)
class Settings:
    """How a console was started.

    Attributes
    ----------
    folder
        Where files and runs are kept.
    db
        The console's own tables: a SQLite file or a PostgreSQL address.
    ledger
        Where spending is kept.
    sign_in
        Whether everybody has to sign in, even where nobody was registered yet.
    https
        Whether a server with TLS stands in front: cookies are then never sent in the clear.
    data_folder
        A folder whose files may be named instead of uploaded; everywhere, for one person alone.
    upload_limit
        Bytes that an uploaded file may have.
    row_limit, memory_limit
        Rows that a table may have, and bytes of memory that reading it may take, by estimate.
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
    def make(cls, folder: str | os.PathLike[str] | None = None, db: str | None = None, **more: Any) -> Settings:
        """Fill in what was not said: everything in one folder; on PostgreSQL the ledger is in the same database."""
        where = Path(FOLDER if folder is None else folder).absolute()
        ledger = os.environ.get("PEERVEIL_LEDGER")
        if db is None:
            db = str(where / "console.db")
        elif "://" in db and not db.startswith("sqlite"):
            ledger = ledger or db
        if more.get("collect") is None:
            more["collect"] = os.environ.get("PEERVEIL_COLLECT_DB") or str(where / "collect.db")
        return cls(folder=where, db=db, ledger=ledger or str(where / "ledger.db"), **more)


class House:
    """An open console: what pages and workers share. Safe to use from several threads."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        try:
            for part in ("", "files", "runs"):
                (settings.folder / part).mkdir(parents=True, exist_ok=True, mode=0o700)
            settings.folder.chmod(0o700)
        except OSError as error:
            want = f"a folder that can be written ({error.strerror})"
            raise BadInput("--folder", got=str(settings.folder), want=want) from None
        self.database: ServiceDatabase = open_database(settings.db, SCHEMA, create=True)
        with self.database.reading() as connection:
            self.secret = str(connection.execute(select(book.c.secret)).scalar_one())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back."""
        self.database.close()

    def ledger(self) -> Ledger:
        """The ledger; close it after use."""
        return Ledger.open(self.settings.ledger)

    @property
    def files(self) -> Path:
        """Where uploaded files are."""
        return self.settings.folder / "files"

    @property
    def runs(self) -> Path:
        """Where runs are."""
        return self.settings.folder / "runs"

    # ---- the trail -----------------------------------------------------------------------------------------------

    def note(self, connection: Connection, who: str, what: str, about: str = "") -> None:
        """Write down that somebody did something. Nothing here removes a line."""
        row = {"at": database_time(connection), "who": who, "what": what, "about": about[:300]}
        connection.execute(insert(trail).values(**row))

    def trail(self, most: int = 200) -> list[Any]:
        """The newest lines first."""
        with self.database.reading() as connection:
            return list(connection.execute(select(trail).order_by(desc(trail.c.number)).limit(most)))


def new_id() -> str:
    """A name that cannot be guessed."""
    return secrets.token_hex(8)
