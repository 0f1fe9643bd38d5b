"""Backup and restore: one file with every table, from one consistent view, checked before anything is written.

The file is compressed JSON lines with a digest at the end. Bodies stay sealed: without the key the copy is as closed as
the database. It can be restored into the other kind of database, too.

A restored gateway publishes again what had been published after the backup: under the same public ids, so that receivers
that know an id drop it. It does not know what authors withdrew or edited after the backup, so it takes and publishes
nothing until an operator has confirmed it (:meth:`~peerveil.web.gateway.core.Gateway.confirm_restore`). Cursors from
before are refused with "gone". The clock is compared as after any restart.
"""

import base64
import gzip
import json
import os
import secrets
import zlib
from collections.abc import Iterator
from hashlib import sha256
from itertools import groupby, islice
from pathlib import Path
from typing import IO, Any, Final

from sqlalchemy import func, select, update

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.files import write_atomically
from peerveil.storage import Address
from peerveil.web.common import Vault, open_database
from peerveil.web.common.database import insert_rows
from peerveil.web.gateway.core import Gateway
from peerveil.web.gateway.tables import SECRET, VERSION, beats, clock, metadata, schema, version
from peerveil.web.gateway.watch import RESTORED

_KIND: Final = "peerveil gateway backup"
_ROWS: Final = 1000  # read or written at once


def backup(gateway: Gateway, path: str | os.PathLike[str]) -> dict[str, int]:
    """Write everything to a file, all or nothing; the number of rows of each table."""
    counts = dict.fromkeys(metadata.tables, 0)

    def fill(handle: IO[bytes]) -> None:
        digest = sha256()
        with gzip.GzipFile(fileobj=handle, mode="wb", mtime=0) as out:

            def write_line(value: Any) -> None:
                raw = json.dumps(value).encode() + b"\n"
                digest.update(raw)
                out.write(raw)

            write_line({"kind": _KIND, "version": VERSION})
            with gateway.database.reading() as connection:
                for table in metadata.sorted_tables:
                    query = select(table).order_by(*table.primary_key)  # never in storage order: PostgreSQL appends
                    for row in connection.execution_options(yield_per=_ROWS).execute(query):
                        write_line([table.name, [_to_json(value) for value in row]])
                        counts[table.name] += 1
            write_line({"digest": digest.hexdigest()})

    write_atomically(path, fill)
    Path(path).chmod(0o600)
    return counts


def restore(url: str, vault: Vault, path: str | os.PathLike[str]) -> dict[str, int]:
    """Fill a new database from a backup, in one transaction. A gateway that holds anything is never overwritten."""
    _check(path)
    counts = dict.fromkeys(metadata.tables, 0)
    database = open_database(url, schema(vault), create=True)
    try:
        with database.writing("open", whole=True) as connection:
            for table in metadata.sorted_tables:
                if table in (version, clock):
                    connection.execute(table.delete())
                elif connection.execute(select(func.count()).select_from(table)).scalar():
                    got = Verbatim(f"a gateway that is in use, at {Address.read(url).shown}")
                    raise BadInput("--db", got=got, want="a database without a gateway, or an empty one")
            for name, lines in groupby(_rows(path), key=lambda line: line[0]):
                table = metadata.tables[name]
                names = table.columns.keys()
                rows_of_table = (dict(zip(names, map(_from_json, values), strict=True)) for _, values in lines)
                while rows := list(islice(rows_of_table, _ROWS)):
                    insert_rows(connection, table, rows)
                    counts[name] += len(rows)
            connection.execute(beats.delete())  # nothing runs here yet
            connection.execute(update(version).values(epoch=secrets.token_hex(8)))
            connection.execute(update(clock).values(state=RESTORED, step=0))
            sealed = connection.execute(select(version.c.secret)).scalar_one()
            vault.open(bytes(sealed), about=SECRET)  # another key: nothing is written
    finally:
        database.close()
    return counts


def _to_json(value: Any) -> Any:
    return {"b": base64.b64encode(bytes(value)).decode()} if isinstance(value, bytes | memoryview) else value


def _from_json(value: Any) -> Any:
    return base64.b64decode(value["b"]) if isinstance(value, dict) else value


def _lines(path: str | os.PathLike[str]) -> Iterator[bytes]:
    try:
        with gzip.open(path, "rb") as handle:
            yield from handle
    except (OSError, EOFError, zlib.error) as error:
        got = Verbatim(getattr(error, "strerror", None) or "a file that is cut short or is no backup")
        raise BadInput(str(path), got=got, want="a file that peerveil gateway backup has written") from None


def _rows(path: str | os.PathLike[str]) -> Iterator[tuple[str, list[Any]]]:
    return ((value[0], value[1]) for value in map(json.loads, _lines(path)) if isinstance(value, list))


def _check(path: str | os.PathLike[str]) -> None:
    """Refuse a file that is no whole backup of this version: its first line, and the digest of all but its last."""
    digest, lines = sha256(), _lines(path)
    first = last = next(lines, b"")
    for raw in lines:
        digest.update(last)
        last = raw
    head, foot = _object(first), _object(last)
    if head.get("kind") == _KIND and head.get("version") != VERSION:
        want = f"one of version {VERSION}: restore it with the peerveil that wrote it, then upgrade"
        raise BadInput(str(path), got=Verbatim(f"a backup of version {head.get('version')}"), want=want)
    if head.get("kind") != _KIND or foot.get("digest") != digest.hexdigest():
        got = Verbatim("a file that was cut or changed, or no backup")
        raise BadInput(str(path), got=got, want="a whole backup")


def _object(raw: bytes) -> dict[str, Any]:
    try:
        value = json.loads(raw)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
