"""The gateway's watch on time: nothing appears early, whatever the clocks do.

Delays are measured in the gateway's own time G, which several sources keep right:

- the *database's clock*, which all processes share, and which readers know;
- a *stopwatch* of each machine, that neither steps nor slewing of clocks touch, sleep included;
- the *high mark* in the database: the latest G, with the stopwatch and the machine's start (boot id) that belong to it;
- whether *NTP* keeps the machine's clock right, as the kernel says, now and when the high mark was written.

**While a machine runs**, G advances with its stopwatch, in all its processes and from one process to the next. It follows
the database's clock by at most :data:`SLEW` of the time that has passed, so a step of the clock does not move G, however
often it comes; when the two are more than the tolerance apart, the gateway halts: it takes nothing and publishes nothing
until an operator has said what happened:

- ``step``: the clock was moved. What is held moves by the same amount, so that every delay keeps its length.
- ``pause``: time has really passed (a virtual machine stood still, or the machine was off for longer than is believed).

**After a restart, or on another machine**, nothing has measured the time since the high mark. What the database's clock
says is believed if it is less than the tolerance, or if at both moments NTP kept the machine's clock right and G agreed
with it up to half the tolerance; not beyond the longest pause. Otherwise the process waits, until NTP has set the clock or
an operator has confirmed it.

**No post is early beyond a stated bound.** Let a post be taken when G is g, with a delay of D, so it is due at g + D. On
one machine G advances by at most (1 + SLEW) times what its stopwatch does: ``_follow`` adds the stopwatch's advance, and
at most that part of it; ``max`` with the high mark only takes over a value that another process has reached by the same
rule. So by the stopwatch at least D / (1 + SLEW) passes until it appears: at most 2.2 s too little in 72 minutes. A
change of machine adds at most the tolerance each time: what is believed without a measurement is off by no more, either
because it is no more, or because G was off by at most half of it at both ends. ∎

Assumed: the stopwatch is right to some hundred parts in a million; a kernel that says that its clock is synchronized is
right up to the tolerance; operators confirm what happened. A virtual machine whose host stops it stops the stopwatch too:
posts are then late.
"""

import ctypes
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from sqlalchemy import Connection, Row, case, select, update

from peerveil.core.errors import BadInput
from peerveil.web.common import ServiceDatabase
from peerveil.web.common.database import DAY, SECOND, database_time
from peerveil.web.common.errors import Unavailable
from peerveil.web.gateway.tables import clock, hooks

TOLERANCE: Final = 10 * SECOND
LONGEST_PAUSE: Final = 3 * DAY
SLEW: Final = 1 / 2000
"""The part of the time that has passed by which G may follow the clock: the most that NTP corrects a clock's rate by."""

_SLEWED: Final = round(1 / SLEW)
_UNSYNCHRONIZED: Final = "unsynchronized"
RESTORED: Final = "restored"
"""The state of a restored copy until an operator has looked; like a clock in doubt, it takes and publishes nothing."""


class Halted(Unavailable, name="halted", retry_after=60):
    """The clock is in doubt; nothing is taken or published until it is certain again."""

    def __init__(self, kind: str, step: int) -> None:
        self.kind, self.step = kind, step
        if kind == _UNSYNCHRONIZED:
            words = (
                f"{step / SECOND:,.0f} s have passed since the last record, if the clock is right, and nothing confirms "
                "it: waiting for NTP"
            )
        elif kind == RESTORED:
            words = (
                "this is a restored copy; what was withdrawn after the backup is held in it again. Confirm with "
                "peerveil gateway doctor --confirm-restore"
            )
        else:
            words = (
                f"the database's clock moved {abs(step) / SECOND:.0f} s {'forward' if step > 0 else 'back'} (a {kind})"
            )
        self.reason = f"halted: {words}"
        super().__init__(f"{self.reason}; peerveil gateway doctor shows more")


class Stopwatch:
    """Time that neither steps nor slewing of clocks touch: since this machine started, sleep included."""

    def __init__(self) -> None:
        self._slept = 0
        names = ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC", "CLOCK_MONOTONIC_RAW")
        self._clocks: list[int] | None = [getattr(time, name) for name in names if hasattr(time, name)]
        if len(self._clocks) < len(names):
            self._clocks = None
        try:
            boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
            self.boot = f"{boot} raw"  # earlier versions measured from the same start with a clock that is slewed
        except OSError:  # no name for this start of the machine: one for this process
            self.boot = uuid4().hex

    def read(self) -> int:
        """Microseconds since the machine started."""
        if self._clocks is None:
            return time.monotonic_ns() // 1000
        boottime, monotonic, raw = map(time.clock_gettime_ns, self._clocks)
        self._slept = max(self._slept, boottime - monotonic)  # the later of the two has gone on: never too much
        return (raw + self._slept) // 1000


class _Timex(ctypes.Structure):
    """The beginning of Linux's ``struct timex``, and bytes for the rest."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        *((name, ctypes.c_long) for name in ("offset", "freq", "maxerror", "esterror")),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 512),
    )


_LIBRARY: Final = ctypes.CDLL(None) if sys.platform == "linux" else None


def machine_time() -> int:
    """Microseconds since 1970 by this machine's clock."""
    return time.time_ns() // 1000


def synchronized_time() -> int | None:
    """Microseconds since 1970 by this machine's clock, if the kernel says that NTP keeps it right; otherwise nothing."""
    if _LIBRARY is None:
        return None
    state = _Timex()
    result = _LIBRARY.adjtimex(ctypes.byref(state))  # with modes = 0 it only reads
    unsynchronized, error = 0x40, 5  # STA_UNSYNC and TIME_ERROR
    if result < 0 or result == error or state.status & unsynchronized or state.maxerror > TOLERANCE:
        return None
    return machine_time()


class Watch:
    """Reads G, and refuses to when it is not certain. One for each process.

    Parameters
    ----------
    source
        The database's clock.
    stopwatch
        The machine's stopwatch.
    reference
        This machine's clock if it is known to be right, otherwise nothing.
    """

    def __init__(
        self,
        *,
        tolerance: int = TOLERANCE,
        longest_pause: int = LONGEST_PAUSE,
        source: Callable[[Connection], int] = database_time,
        stopwatch: Stopwatch | None = None,
        reference: Callable[[], int | None] = synchronized_time,
    ) -> None:
        self.source = source
        self.stopwatch = Stopwatch() if stopwatch is None else stopwatch
        self.reference = reference
        self._tolerance = tolerance
        self._longest_pause = longest_pause
        self._last: tuple[int, int] | None = None  # G, and the stopwatch that belongs to it
        self._ahead = 0  # of the database's clock, at that moment
        self._unspent = 0  # microseconds of the stopwatch that are too few to follow by one
        self._confirmed: int | None = None  # how often an operator had confirmed the clock
        self._doubt: Halted | None = None
        self._lock = threading.Lock()

    def now(self, connection: Connection) -> int:
        """The time in microseconds, or :class:`Halted`."""
        with self._lock:
            row = connection.execute(select(clock)).one()
            if row.confirmed != self._confirmed:  # an operator has set G: begin again from the high mark
                self._confirmed, self._doubt, self._last = row.confirmed, None, None
            if self._doubt is not None:
                raise self._doubt
            if row.state != "running":
                raise Halted(row.state, row.step)
            try:
                return max(self._measure(row, connection), int(row.high))
            except Halted as halted:
                if halted.kind != _UNSYNCHRONIZED:  # which passes by itself
                    self._doubt = halted
                raise

    @staticmethod
    def unshifted(connection: Connection, now: int) -> int:
        """A time without the steps of the clock that operators confirmed: sealed times of arrival are kept like this."""
        return now - int(connection.execute(select(clock.c.shift)).scalar_one())

    def _measure(self, row: Row[tuple[object, ...]], connection: Connection) -> int:
        """G, from the last reading or from the high mark."""
        before = self.stopwatch.read()
        shown = self.source(connection)
        after = self.stopwatch.read()
        if self._last is None:
            if row.high == 0:
                self._last = (shown, before)
            elif row.boot == self.stopwatch.boot:
                self._last = (row.high, row.stopwatch)
            else:
                self._last = (self._after_restart(row, shown), before)
        moment = self._follow(shown, before, after)
        self._ahead = moment - shown
        return moment

    def _follow(self, shown: int, before: int, after: int) -> int:
        """Advance G with the stopwatch, and towards the clock, which was read between two readings of the stopwatch."""
        assert self._last is not None
        moment, then = self._last
        most, self._unspent = divmod(self._unspent + before - then, _SLEWED)
        moment += before - then
        apart = max(shown - moment - (after - before), min(0, shown - moment))  # the least that is possible
        moment += max(-most, min(most, apart))
        left = apart - max(-most, min(most, apart))
        if abs(left) > self._tolerance:
            raise Halted("step", left)
        self._last = (moment, before)
        return moment

    def _after_restart(self, row: Row[Any], shown: int) -> int:
        """G, where no stopwatch has measured the time since the high mark."""
        moment = shown + int(row.ahead)
        gone = moment - int(row.high)
        if gone < -self._tolerance:
            raise Halted("step", gone)
        if gone > self._tolerance:
            if not (row.sure and self._agrees(moment)):
                raise Halted(_UNSYNCHRONIZED, gone)
            if gone > self._longest_pause:
                raise Halted("pause", gone)
        return moment

    def _agrees(self, moment: int) -> bool:
        """Whether NTP keeps this machine's clock right, and G agrees with it."""
        reference = self.reference()
        return reference is not None and abs(reference - moment) <= self._tolerance // 2

    def keep(self, connection: Connection, now: int) -> None:
        """Write down the latest time."""
        with self._lock:
            # G and the stopwatch advance alike: what the stopwatch showed, or will show, when G is ``now``
            stopwatch = self.stopwatch.read() if self._last is None else self._last[1] + now - self._last[0]
            values = {"high": now, "boot": self.stopwatch.boot, "stopwatch": stopwatch, "ahead": self._ahead}
            values["sure"] = int(self._agrees(now))
        connection.execute(update(clock).where(clock.c.high <= now).values(**values))

    def record(self, database: ServiceDatabase, halted: Halted) -> None:
        """Make a halt known to all other processes; one that concerns this machine alone is not theirs."""
        if halted.kind == _UNSYNCHRONIZED:
            return
        values = {"state": halted.kind, "step": halted.step}
        with database.writing("halt") as connection:
            connection.execute(update(clock).where(clock.c.state == "running").values(**values))

    def confirm(self, connection: Connection, what: str) -> int:
        """An operator has looked: ``step`` moves what is held, ``pause`` does not. Returns the microseconds moved."""
        if what not in {"step", "pause"}:
            raise BadInput("--confirm-clock", got=what, want="step (the clock was moved) or pause (time has passed)")
        row = connection.execute(select(clock).with_for_update()).one()
        if row.state == RESTORED:
            raise BadInput("--confirm-clock", got=what, want="--confirm-restore first: this is a restored copy")
        shown, stopwatch = self.source(connection), self.stopwatch.read()
        step = int(row.step)
        if row.state == "running":
            step = self._doubted_here(row, shown, what)
        elif row.boot == self.stopwatch.boot:  # the clock may have moved again since: measured until now
            step = shown - (int(row.high) + stopwatch - int(row.stopwatch))
        moved = step if what == "step" else 0
        if moved:
            since = case((hooks.c.since > 0, hooks.c.since + moved), else_=0)
            connection.execute(update(hooks).values(next_try=hooks.c.next_try + moved, since=since))
        state = {"state": "running", "step": 0, "confirmed": int(row.confirmed) + 1, "shift": int(row.shift) + moved}
        high = {"high": shown, "boot": self.stopwatch.boot, "stopwatch": stopwatch, "ahead": 0}
        high["sure"] = int(self._agrees(shown))
        connection.execute(update(clock).values(**state, **high))
        return moved

    def _doubted_here(self, row: Row[Any], shown: int, what: str) -> int:
        """The step that this machine alone is in doubt about, since it was restarted."""
        try:
            if row.high and row.boot != self.stopwatch.boot:
                self._after_restart(row, shown)
        except Halted as halted:
            return halted.step
        raise BadInput("--confirm-clock", got=what, want="nothing: the clock is not in doubt")
