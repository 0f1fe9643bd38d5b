"""Optional parts: which extra brings them, and a clear error where one is missing.

The services need ``pip install 'peerveil[services]'``, the Spark engine ``'peerveil[spark]'``. Nothing of them is imported before
its first use. What belongs to an extra is read from the package's own metadata, so that it is written down once.
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
    """The distributions that an extra asks for on this machine.

    >>> "fastapi" in parts_of("services")
    True
    """
    names = []
    for line in metadata.requires("peerveil") or []:
        requirement, _, condition = line.partition(";")
        named = re.search(r"extra\s*==\s*['\"]([^'\"]+)['\"]", condition)
        if named and named[1] == extra:
            name = re.match(r"[A-Za-z0-9._-]+", requirement.strip())
            assert name is not None
            names.append(name[0])
    if not names:
        raise BadInput("extra", got=extra, want="an extra that peerveil has, such as 'services' or 'spark'")
    return names


def missing_parts(extra: str) -> list[str]:
    """What an extra asks for and this environment does not have."""
    gone = []
    for name in parts_of(extra):
        try:
            metadata.distribution(name)
        except metadata.PackageNotFoundError:
            gone.append(name)
    return gone


def need(extra: str) -> None:
    """Raise :class:`MissingExtra` unless everything that an extra asks for is there. Called before its first use."""
    gone = missing_parts(extra)
    if gone:
        raise MissingExtra(extra, gone)
