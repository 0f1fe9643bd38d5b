"""Where tables live: a SQLite file or a PostgreSQL database, and how to name it without its password."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from peerveil.core.errors import BadInput, Verbatim

_SCHEME: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):")
_SQLITE: Final = "sqlite:///"
_POSTGRESQL: Final = {"postgresql", "postgres", "postgresql+psycopg"}
_WANT: Final = "a path, sqlite:///path or postgresql://user@host/database"


@dataclass(frozen=True, slots=True)
class Address:
    """Either a file or a server.

    >>> Address.read("postgresql://chair:swordfish@db.example.org/budget").shown
    'postgresql://db.example.org/budget'
    """

    path: Path | None
    url: URL | None = field(repr=False)
    shown: str

    @classmethod
    def read(cls, url: str | os.PathLike[str]) -> Address:
        """The address in a string or path; a path object is always a file."""
        if isinstance(url, os.PathLike):
            return cls._file(os.fspath(url))
        if not isinstance(url, str):
            raise BadInput("url", got=url, want=_WANT)
        scheme = _SCHEME.match(url)
        if scheme is None:
            return cls._file(url)
        name = scheme.group(1).lower()
        if name not in _POSTGRESQL | {"sqlite"}:
            # the rest is not shown: it may hold a password
            raise BadInput("url", got=Verbatim(f"an address that begins with {name}:"), want=_WANT)
        if name == "sqlite":
            prefix, rest = url[: len(_SQLITE)], url[len(_SQLITE) :]
            if prefix.lower() != _SQLITE or "?" in rest:
                raise BadInput("url", got=url, want="sqlite:///path, or just the path if it contains a ?")
            return cls._file(rest)
        try:
            parsed = make_url(url)
        except (ArgumentError, ValueError):
            raise BadInput("url", got=Verbatim(f"an unreadable {name} address"), want=_WANT) from None
        return cls(None, parsed.set(drivername="postgresql+psycopg"), _without_password(parsed))

    @classmethod
    def _file(cls, name: str | bytes) -> Address:
        if not isinstance(name, str) or not name.strip() or "\0" in name:
            raise BadInput("url", got=name, want=_WANT)
        if name == ":memory:":
            raise BadInput("url", got=name, want="a file: memory would forget what was written")
        path = Path(name).absolute()
        try:
            folder = path.is_dir()
        except OSError as error:
            raise BadInput("url", got=name, want=f"a path that can be used ({error.strerror})") from None
        if folder:
            raise BadInput(str(path), got=Verbatim("a directory"), want="a file, not a directory")
        return cls(path, None, str(path))

    @property
    def has_password(self) -> bool:
        """Whether the address itself holds a password."""
        return any(self._secrets())

    def without_secrets(self, message: object) -> str:
        """A driver's message on one line, the password (if it should appear) replaced."""
        text = " ".join(str(message).split())
        for word in self._secrets():
            text = text.replace(word, "***")
        return text

    def _secrets(self) -> Iterable[str]:
        if self.url is None:
            return
        if self.url.password:
            yield str(self.url.password)
        for name, value in self.url.query.items():
            if "password" in name:
                yield from (value,) if isinstance(value, str) else value


def _without_password(url: URL) -> str:
    """Host, port and database: neither the user, the password nor the options."""
    named = url.query.get("host", "")
    host = url.host or (named if isinstance(named, str) else ",".join(named))
    port = f":{url.port}" if url.port else ""
    return f"postgresql://{host}{port}/{url.database or ''}"
