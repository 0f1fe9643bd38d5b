"""Time is the database's: one function reads it, in whole microseconds since 1970.

On PostgreSQL it is the server's clock, so that several processes on several machines agree. A SQLite file has no clock
but its machine's.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from sqlalchemy import text

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

SECOND: Final = 1_000_000
"""Microseconds in a second."""

_POSTGRESQL: Final = text("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")


def database_time(connection: Connection) -> int:
    """Microseconds since 1970 by the database's clock."""
    if connection.dialect.name == "sqlite":
        return time.time_ns() // 1000
    return int(connection.execute(_POSTGRESQL).scalar_one())


class Stopwatch:
    """Seconds that no clock step touches: since this machine started, sleep included."""

    def __init__(self) -> None:
        boottime = getattr(time, "CLOCK_BOOTTIME", None)
        self._read: Callable[[], float] = time.monotonic if boottime is None else lambda: time.clock_gettime(boottime)
        self.boot = _boot_id()

    def read(self) -> int:
        """Microseconds since the machine started."""
        return int(self._read() * SECOND)


def _boot_id() -> str:
    """A name for this start of this machine, or of this process where there is none."""
    from pathlib import Path
    from uuid import uuid4

    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return uuid4().hex
