"""Backup and restore: one file with every table, from one consistent view, checked before anything is written.

The file is compressed JSON lines with a digest at the end. Bodies stay sealed: without the key the copy is as closed as
the database. It can be restored into the other kind of database, too.

A restored gateway releases again what had been released after the backup: under the same public ids, so that receivers
that know an id drop it. Cursors from before are refused with "gone". The clock is compared as after any restart.
"""

from __future__ import annotations

import base64
import gzip
import json
import secrets
import zlib
from hashlib import sha256
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from sqlalchemy import func, select, update

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.files import write_atomically
from peerveil.storage import Address
from peerveil.web.common import open_database
from peerveil.web.gateway.tables import VERSION, beats, book, clock, insert_rows, metadata, schema

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from peerveil.web.common import Vault
    from peerveil.web.gateway.core import Gateway

_KIND: Final = "peerveil gateway backup"
_ROWS: Final = 1000


def backup(gateway: Gateway, path: str | os.PathLike[str]) -> dict[str, int]:
    """Write everything to a file, all or nothing; the number of rows of each table."""
    counts: dict[str, int] = {}

    def fill(handle: IO[bytes]) -> None:
        digest = sha256()
        with gzip.GzipFile(fileobj=handle, mode="wb", mtime=0) as out:

            def line(value: Any) -> None:
                raw = json.dumps(value).encode() + b"\n"
                digest.update(raw)
                out.write(raw)

            line({"kind": _KIND, "version": VERSION})
            with gateway.database.reading() as connection:
                for table in metadata.sorted_tables:
                    counts[table.name] = 0
                    for row in connection.execution_options(yield_per=_ROWS).execute(
                        select(table).order_by(*table.primary_key)  # never as they lie: PostgreSQL appends
                    ):
                        line([table.name, [_plain(value) for value in row]])
                        counts[table.name] += 1
            out.write(json.dumps({"digest": digest.hexdigest()}).encode() + b"\n")

    write_atomically(path, fill)
    Path(path).chmod(0o600)
    return counts


def restore(url: str, vault: Vault, path: str | os.PathLike[str]) -> dict[str, int]:
    """Fill a new database from a backup, in one transaction. A gateway that holds anything is never overwritten."""
    _check(path)
    counts: dict[str, int] = dict.fromkeys((table.name for table in metadata.sorted_tables), 0)
    database = open_database(url, schema(vault), create=True)
    try:
        with database.writing("open", whole=True) as connection:
            for table in metadata.sorted_tables:
                if table not in (book, clock) and connection.execute(select(func.count()).select_from(table)).scalar():
                    got = Verbatim(f"a gateway that is in use, at {Address.read(url).shown}")
                    raise BadInput("--db", got=got, want="a database without a gateway, or an empty one")
            connection.execute(book.delete())
            connection.execute(clock.delete())
            waiting: dict[str, list[dict[str, Any]]] = {}
            for name, values in _rows(path):
                table = metadata.tables[name]
                row = dict(zip((c.name for c in table.columns), map(_back, values), strict=True))
                waiting.setdefault(name, []).append(row)
                counts[name] += 1
                if len(waiting[name]) >= _ROWS:
                    insert_rows(connection, table, waiting.pop(name))
            for name, rows in waiting.items():
                insert_rows(connection, metadata.tables[name], rows)
            connection.execute(beats.delete())  # nothing runs here yet
            connection.execute(update(book).values(epoch=secrets.token_hex(8)))
            sealed = connection.execute(select(book.c.secret)).scalar_one()
            vault.open(bytes(sealed), about="gateway secret")  # another key: nothing is written
    finally:
        database.close()
    return counts


def _plain(value: Any) -> Any:
    return {"b": base64.b64encode(bytes(value)).decode()} if isinstance(value, bytes | memoryview) else value


def _back(value: Any) -> Any:
    return base64.b64decode(value["b"]) if isinstance(value, dict) else value


def _lines(path: str | os.PathLike[str]) -> Iterator[bytes]:
    try:
        with gzip.open(path, "rb") as handle:
            yield from handle
    except (OSError, EOFError, zlib.error) as error:
        got = Verbatim(getattr(error, "strerror", None) or "a file that is cut short or is no backup")
        raise BadInput(str(path), got=got, want="a file that peerveil gateway backup has written") from None


def _check(path: str | os.PathLike[str]) -> None:
    digest, before = sha256(), None
    wrong = BadInput(str(path), got=Verbatim("a file that was cut or changed, or no backup"), want="a whole backup")
    for number, raw in enumerate(_lines(path)):
        if number == 0:
            try:
                head = json.loads(raw)
            except ValueError:
                raise wrong from None
            if not isinstance(head, dict) or head.get("kind") != _KIND:
                raise wrong
            if head["version"] != VERSION:
                want = f"one of version {VERSION}: restore it with the peerveil that wrote it, then upgrade"
                raise BadInput(str(path), got=Verbatim(f"a backup of version {head['version']}"), want=want)
        if before is not None:
            digest.update(before)
        before = raw
    try:
        last = json.loads(before or b"")
    except ValueError:
        raise wrong from None
    if not isinstance(last, dict) or last.get("digest") != digest.hexdigest():
        raise wrong


def _rows(path: str | os.PathLike[str]) -> Iterator[tuple[str, list[Any]]]:
    for raw in _lines(path):
        value = json.loads(raw)
        if isinstance(value, list):
            yield value[0], value[1]
