"""Optional parts: which extra brings them, and a clear error where one is missing.

The services need ``pip install 'peerveil[services]'``, a PostgreSQL server ``'peerveil[postgresql]'``, tables beyond memory
``'peerveil[duckdb]'`` or ``'peerveil[spark]'``. Nothing of them is imported before its first use. What belongs to an extra is
read from the package's own metadata, so that it is written down once.
"""

from __future__ import annotations

import re
from importlib import metadata

from peerveil.core.errors import BadInput, PeerveilError


class MissingExtra(PeerveilError, ImportError):
    """An optional part that is not installed; the message says how to get it."""

    def __init__(self, extra: str, missing: list[str]) -> None:
        self.extra, self.missing = extra, missing
        super().__init__(
            f"the {extra} extra is needed, and {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed; "
            f"need pip install 'peerveil[{extra}]'"
        )


def parts_of(extra: str) -> list[str]:
    """The distributions that an extra asks for."""
    requirement = re.compile(rf"([A-Za-z0-9._-]+)[^;]*;.*extra\s*==\s*['\"]{re.escape(str(extra))}['\"]")
    names = [match[1] for match in map(requirement.match, metadata.requires("peerveil") or []) if match]
    if not names:
        raise BadInput("extra", got=extra, want="an extra that peerveil has, such as 'services' or 'duckdb'")
    return names


def missing_parts(extra: str) -> list[str]:
    """What an extra asks for and this environment does not have."""
    return [name for name in parts_of(extra) if not any(metadata.distributions(name=name))]


def need(extra: str) -> None:
    """Raise :class:`MissingExtra` unless everything that an extra asks for is there. Called before its first use."""
    if gone := missing_parts(extra):
        raise MissingExtra(extra, gone)


def extra_with(module: str) -> MissingExtra | None:
    """The error for a module that could not be imported, if a missing part of an extra has its name."""
    for extra in metadata.metadata("peerveil").get_all("Provides-Extra", []):
        gone = missing_parts(extra)
        if any(module.partition(".")[0] in name.replace("-", "_") for name in gone):
            return MissingExtra(extra, gone)
    return None
