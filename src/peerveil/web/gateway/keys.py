"""Keys that seal: a new one in front, and the old one removed once nothing is sealed with it.

1. :func:`add_key` puts a new key in front. Whatever is sealed from then on is sealed with it, by each process from its
   next start on; both keys open.
2. What the old key sealed is sealed anew or ages out: the gateway's secret and the secrets of webhooks at the next
   ``peerveil gateway init`` or ``serve``, everything else as the tables say.
3. :func:`keys_in_use` reads from every sealed value which key sealed it; the name of the key stands in front. When the
   old key is not among them, and no process that knows only the old key is left, :func:`drop_key` removes it.
"""

import os
from collections import defaultdict
from pathlib import Path

from sqlalchemy import Connection, LargeBinary, func, select

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.files import write_atomically
from peerveil.web.common.vault import VARIABLE, Vault
from peerveil.web.gateway.tables import metadata

_PREFIX_BYTES = 17  # the length of a name, and the name


def keys_in_use(connection: Connection) -> dict[str, set[str]]:
    """For each key that sealed something, the tables in which that stands."""
    tables: dict[str, set[str]] = defaultdict(set)
    for table in metadata.sorted_tables:
        for column in table.columns:
            if isinstance(column.type, LargeBinary):
                prefixes = select(func.substr(column, 1, _PREFIX_BYTES)).distinct()
                for prefix in connection.execute(prefixes).scalars():
                    tables[Vault.key_of(bytes(prefix))].add(table.name)
    return dict(tables)


def read_keys(path: str | os.PathLike[str]) -> list[str]:
    """The keys of a key file, as written, the newest first."""
    return [part.strip() for part in Path(path).read_text(encoding="utf-8").strip().split(",")]


def key_name(key: str) -> str:
    """The name of a key, which is no secret."""
    return key.partition(":")[0]


def write_keys(path: str | os.PathLike[str], keys: list[str]) -> None:
    """Write a key file that only its owner can read, all or nothing."""
    text = ",".join(keys)
    Vault.read(text)  # never write what could not be read again
    write_atomically(path, lambda handle: handle.write(text.encode() + b"\n"), private=True)


def add_key(path: str | os.PathLike[str]) -> str:
    """Put a new key in front of those of a file; its name."""
    new = Vault.new_key()
    write_keys(path, [new, *read_keys(path)])
    return key_name(new)


def drop_key(connection: Connection, path: str | os.PathLike[str], name: str) -> None:
    """Remove an old key from a file, unless something is still sealed with it."""
    keys = read_keys(path)
    names = [key_name(key) for key in keys]
    if name not in names[1:]:
        old = ", ".join(names[1:]) or "none: there is only the current one"
        raise BadInput("--drop", got=name, want=f"an old key ({old})")
    if tables := keys_in_use(connection).get(name):
        got = Verbatim(f"key {name!r}, which still seals something in {', '.join(sorted(tables))}")
        raise BadInput("--drop", got=got, want="a key that nothing is sealed with; see `peerveil gateway doctor`")
    write_keys(path, [key for key in keys if key_name(key) != name])


def require_key_file(path: str | os.PathLike[str] | None) -> Path:
    """The key file; keys of the environment cannot be changed from here."""
    if os.environ.get(VARIABLE) or path is None or not Path(path).exists():
        want = f"a key file; if the key is in {VARIABLE}, put the output of `peerveil gateway key new` and a comma in front of it"
        raise BadInput("key_file", got=Verbatim("no key file in use"), want=want)
    return Path(path)
