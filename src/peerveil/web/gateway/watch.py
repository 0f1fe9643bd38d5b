"""The gateway's watch on time: a clock that steps stops everything until an operator has looked.

Delays are measured by the database's clock. If it steps forward, posts would appear early; if it steps at all, people's
sittings are misjudged. A stopwatch that no step touches (time since the machine started) runs beside it, in every
process and, through the database, from one process to the next. When the two disagree by more than the tolerance, the
gateway halts: it takes nothing and publishes nothing, and says so. An operator then says what happened:

- ``step``: the clock was moved. What is held moves by the same amount, so that every delay keeps its length.
- ``pause``: time has really passed (the machine was switched off for longer than the longest pause that is believed).

Below the tolerance (leap seconds, slewing) time never runs backwards: the latest time acted on is kept.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from sqlalchemy import Connection, Row, select, update

from peerveil.core.errors import BadInput
from peerveil.web.common import ServiceDatabase
from peerveil.web.common.database import DAY, SECOND, database_time
from peerveil.web.common.errors import Unavailable
from peerveil.web.gateway.tables import clock, hooks

TOLERANCE: Final = 10 * SECOND
LONGEST_PAUSE: Final = 3 * DAY


class Halted(Unavailable, name="halted", retry_after=60):
    """The clock is in doubt; nothing is taken or published until an operator has confirmed it."""

    def __init__(self, kind: str, step: int) -> None:
        self.kind, self.step = kind, step
        moved = f"{abs(step) / SECOND:.0f} s {'forward' if step > 0 else 'back'}"
        super().__init__(f"halted: the database's clock moved {moved} (a {kind}); peerveil gateway doctor shows more")


class Stopwatch:
    """Time that no clock step touches: since this machine started, sleep included."""

    def __init__(self) -> None:
        self._boottime: int | None = getattr(time, "CLOCK_BOOTTIME", None)
        try:
            self.boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        except OSError:  # no name for this start of the machine: one for this process
            self.boot = uuid4().hex

    def read(self) -> int:
        """Microseconds since the machine started."""
        seconds = time.monotonic() if self._boottime is None else time.clock_gettime(self._boottime)
        return int(seconds * SECOND)


class Watch:
    """Reads the database's time, and refuses to when it cannot be trusted. One for each process."""

    def __init__(
        self,
        *,
        tolerance: int = TOLERANCE,
        longest_pause: int = LONGEST_PAUSE,
        source: Callable[[Connection], int] = database_time,
        stopwatch: Stopwatch | None = None,
    ) -> None:
        self.source = source
        self.stopwatch = Stopwatch() if stopwatch is None else stopwatch
        self._tolerance = tolerance
        self._longest_pause = longest_pause
        self._last: tuple[int, int] | None = None
        self._doubt: tuple[Halted, int] | None = None
        self._lock = threading.Lock()

    def now(self, connection: Connection) -> int:
        """The time in microseconds, or :class:`Halted`."""
        with self._lock:
            row = connection.execute(select(clock)).one()
            now, elapsed = self.source(connection), self.stopwatch.read()
            if self._doubt is not None:
                halted, confirmed = self._doubt
                if row.confirmed == confirmed:
                    raise halted
                self._doubt, self._last = None, None
            if row.state != "running":
                raise Halted(row.state, row.step)
            doubt = self._compare(row, now, elapsed)
            self._last = (now, elapsed)
            if doubt is not None:
                self._doubt = (doubt, row.confirmed)
                raise doubt
            return max(now, int(row.high))

    @staticmethod
    def unshifted(connection: Connection, now: int) -> int:
        """A time without the steps of the clock that operators confirmed: sealed times of arrival are kept like this."""
        return now - int(connection.execute(select(clock.c.shift)).scalar_one())

    def _compare(self, row: Row[tuple[object, ...]], now: int, elapsed: int) -> Halted | None:
        if self._last is not None:
            step = (now - self._last[0]) - (elapsed - self._last[1])
        elif row.high == 0:
            return None
        elif row.boot == self.stopwatch.boot:
            step = (now - row.high) - (elapsed - row.stopwatch)
        else:  # the machine was restarted, or this is another machine: nothing has measured the time between
            gone = now - row.high
            if gone > self._longest_pause:
                return Halted("pause", gone)
            step = min(gone, 0)
        return Halted("step", step) if abs(step) > self._tolerance else None

    def _reading(self, now: int) -> dict[str, Any]:
        return {"high": now, "boot": self.stopwatch.boot, "stopwatch": self.stopwatch.read()}

    def keep(self, connection: Connection, now: int) -> None:
        """Write down the latest time."""
        connection.execute(update(clock).where(clock.c.high <= now).values(**self._reading(now)))

    def record(self, database: ServiceDatabase, halted: Halted) -> None:
        """Make a halt known to all other processes."""
        values = {"state": halted.kind, "step": halted.step}
        with database.writing("halt") as connection:
            connection.execute(update(clock).where(clock.c.state == "running").values(**values))

    def confirm(self, connection: Connection, what: str) -> int:
        """An operator has looked: ``step`` moves what is held, ``pause`` does not. Returns the microseconds moved."""
        if what not in {"step", "pause"}:
            raise BadInput("--confirm-clock", got=what, want="step (the clock was moved) or pause (time has passed)")
        row = connection.execute(select(clock).with_for_update()).one()
        if row.state == "running":
            raise BadInput("--confirm-clock", got=what, want="nothing: the clock is not in doubt")
        moved = int(row.step) if what == "step" else 0
        if moved:
            connection.execute(update(hooks).values(next_try=hooks.c.next_try + moved))
        state = {"state": "running", "step": 0, "confirmed": int(row.confirmed) + 1, "shift": int(row.shift) + moved}
        connection.execute(update(clock).values(**state, **self._reading(self.source(connection))))
        return moved
