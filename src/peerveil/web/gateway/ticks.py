"""One frame per tick, committed at a random moment after it, whether anything came or not.

Requests are decided as they come, and gather in the stream of entries until the tick. Then the frame is cut, sealed and sent to
the database, and nothing is decided until it is committed. An author is answered when the last byte of the entry
is on the disk, so up to two ticks later. What does not fit into a frame waits for the next ones; when too much waits, requests
are refused with 503, and lose nothing.

**Commit times.** If each frame were committed as soon as it is ready, commit times would show how much came. The commit
of a frame begins at its tick + C, where C is uniform on :data:`WINDOW` (a quarter of a tick), drawn before the tick from
the system's randomness, so independent of everything. All that depends on contents is done well before: at :data:`SENT`
the frame is sealed, and the statement that carries it is the same, as long as ever; a quarter of a tick later the window
begins. Behind C stands one COMMIT. Authors are answered after it, and at least half a tick passes from that to the
next frame's statement. (SQLite writes no times into its log. There the transaction begins at C, since it keeps out every
other writer.)

*What remains.* The time on the disk is tick + C + L with a latency L. Let L0 and L1 be its distributions for empty and for
occupied frames, and W the window. Uniform times shifted by a and by b differ by at most |a - b| / W in total variation;
averaged over any coupling of L0 and L1, so do the times on the disk: TV <= E|L0 - L1| / W, least for the coupling in order.
An attacker's AUC is at most 1/2 + TV. The gap to the frame before, whose C is independent, says no more. So a
difference of 0.2 ms moves the AUC by at most 0.2 / 62.5 = .003 at ticks of 250 ms. ∎

*Missed ticks.* The next tick is the first of the clock that is at least :data:`_SHORTEST` of a tick after the end of the
last commit; nothing that requests cause comes between. A frame that is not sealed when it should be sent goes a whole
number of ticks later, by the same times. That happens only if deciding overran its tick by a quarter, although
nothing is begun shortly before a tick: on a machine that is too slow it can depend on what came, so missed ticks are
counted for ``peerveil gateway doctor``.
"""

from __future__ import annotations

import asyncio
import queue
import secrets
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from peerveil.web.common.errors import Unavailable
from peerveil.web.gateway.fence import NotLeading
from peerveil.web.gateway.relay import RelayServer, written
from peerveil.web.gateway.watch import Halted

if TYPE_CHECKING:
    from peerveil.web.gateway.core import Clock, Gateway
    from peerveil.web.gateway.intake import AuthorRequest
    from peerveil.web.gateway.leader import Frame

SENT: Final = 0.25
"""When a frame is sent to the database, as a share of the tick after it was cut."""
WINDOW: Final = (0.5, 0.75)
"""Between which shares it is committed, at random."""
_SHORTEST: Final = 0.125  # of a tick, in which requests are decided
_LONGEST_RESERVE: Final = 0.06  # of a tick, before its end, in which nothing more is begun
_MOST_WAITING: Final = 20_000  # requests; more are refused at once, and lose nothing
_MOST_BYTES: Final = 64 * 2**20  # of texts in requests that are not answered yet; likewise
_AT_ONCE: Final = 100  # requests decided together
_GATHERING: Final = 0.04  # of a tick, in which more requests may come before some are decided: each group has a price
_STANDBY_SECONDS: Final = 0.2
_LOST: Final = "the database failed; send the same request again, with the same key"
_STOPPING: Final = "the service is stopping; nothing was taken"


class _Loop:
    """An event loop whose requests wait here. Whatever is ready for them wakes it once, not once for each."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._lock = threading.Lock()
        self._ready: list[tuple[asyncio.Future[bytes], bytes | BaseException]] = []

    def add(self, future: asyncio.Future[bytes], answer: bytes | BaseException) -> None:
        with self._lock:
            self._ready.append((future, answer))
            is_first = len(self._ready) == 1
        if is_first:
            with suppress(RuntimeError):  # the loop has ended, and nobody waits any more
                self.loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        with self._lock:
            ready, self._ready = self._ready, []
        for future, answer in ready:
            if future.done():  # the client went away
                continue
            if isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)


class _Waiter(NamedTuple):
    """Whoever waits for an answer in an event loop."""

    loop: _Loop
    future: asyncio.Future[bytes]

    def settle(self, answer: bytes | BaseException) -> None:
        self.loop.add(self.future, answer)


class _Caller(NamedTuple):
    """Whoever waits in a thread."""

    future: Future[bytes]

    def settle(self, answer: bytes | BaseException) -> None:
        if not self.future.set_running_or_notify_cancel():
            return  # nobody waits any more
        if isinstance(answer, BaseException):
            self.future.set_exception(answer)
        else:
            self.future.set_result(answer)


class _Asked(NamedTuple):
    """A request on its way: what was asked, by whom, and the bytes that are reserved for it until it is answered."""

    request: AuthorRequest
    asker: _Waiter | _Caller
    size: int


class _Waiting(NamedTuple):
    """An answer that waits for the disk."""

    position: int
    asked: _Asked
    answer: bytes


class Ticks(threading.Thread):
    """Takes requests and writes frames, in a thread. Where another process leads, requests are passed to it."""

    def __init__(self, gateway: Gateway, *, waiting: int = _MOST_WAITING, waiting_bytes: int = _MOST_BYTES) -> None:
        super().__init__(name="intake", daemon=True)
        self._gateway = gateway
        self._queue: queue.Queue[_Asked] = queue.Queue(waiting)
        self._loop: _Loop | None = None
        self._free_bytes = waiting_bytes
        self._free_lock = threading.Lock()
        self._answers = deque[_Waiting]()
        self._reserve_seconds = 0.0  # before the tick in which no more is begun
        self._fence = 0
        self._done = self._last_close = 0.0  # the end of the last commit, and the tick before it
        self.due = self.missed = self.overrun = 0
        """Ticks that there were while this process led, those in which no frame was committed, and those of them in which
        it was not sealed in time (the rest: the last commit had not ended)."""
        self._stopping = False
        self._relay: RelayServer | None = None
        self.passes_on = False
        """Whether requests go to another process, which leads."""

    # ---- requests -----------------------------------------------------------------------------------------------

    def put(self, request: AuthorRequest) -> Future[bytes]:
        """Hand in a request; the future is done when it is on the disk, or refused."""
        future: Future[bytes] = Future()
        self._put(request, _Caller(future))
        return future

    async def submit(self, request: AuthorRequest) -> bytes:
        """Hand in a request and wait for its answer."""
        loop = asyncio.get_running_loop()
        if self._loop is None or self._loop.loop is not loop:
            self._loop = _Loop(loop)
        future: asyncio.Future[bytes] = loop.create_future()
        self._put(request, _Waiter(self._loop, future))
        return await future

    def _put(self, request: AuthorRequest, asker: _Waiter | _Caller) -> None:
        if self._stopping or self.ident is None:
            raise Unavailable(_STOPPING)
        if not self.is_alive():
            raise Unavailable("the writer has died, the service must be restarted; nothing was taken")
        size = 4 * (len(getattr(request, "content", "")) + len(getattr(request, "metadata", "") or ""))  # at most
        try:
            with self._free_lock:
                if size > self._free_bytes:
                    raise queue.Full
                self._free_bytes -= size
            try:
                self._queue.put_nowait(_Asked(request, asker, size))
            except queue.Full:
                self._free(size)
                raise
        except queue.Full:
            raise Unavailable("too many requests at once; nothing was taken") from None

    def _free(self, size: int) -> None:
        with self._free_lock:
            self._free_bytes += size

    def _settle(self, asked: _Asked, answer: bytes | BaseException) -> None:
        self._free(asked.size)
        asked.asker.settle(answer)

    def start(self) -> None:
        """Begin; from here on other processes find this one, if it leads."""
        if self._gateway.leader.may_lead:
            self._relay = RelayServer(self._gateway, self._gateway.relay_host)
            self._relay.start()
            self._gateway.leader.address = self._relay.address
            if self._gateway.leader.is_leading:
                self._gateway.leader.drop()  # and lead again, with this address
        super().start()

    def stop(self) -> None:
        """Write what has come, then end. Later requests are refused."""
        self._stopping = True
        if self.ident is not None:
            self.join()
        if self._relay is not None:
            self._relay.stop()
        self._refuse(Unavailable(_STOPPING))

    # ---- the thread ---------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Called by :meth:`start`."""
        try:
            while not self._stopping or self._queue.qsize() or self._answers:
                try:
                    self._tick()
                    self.passes_on = False
                except NotLeading:
                    self._fail(Unavailable(_LOST))
                    self.passes_on = not self._stopping
                    self._pass_on(time.monotonic() + _STANDBY_SECONDS)
                except Exception as error:  # the database is away, or this process was overtaken: nothing waits forever
                    self._refuse(error)
                    time.sleep(_STANDBY_SECONDS)
        except BaseException as error:
            self._refuse(error)
            raise

    def _tick(self) -> None:
        leader = self._gateway.leader
        with leader.lock:
            _ = leader.memory
            if self._fence != leader.fence:  # it was read from the disk again meanwhile: what was not there yet is lost
                self._fail(Unavailable(_LOST))
                self._fence = leader.fence
                self._done = time.monotonic()
                self._last_close = self._done // leader.tick_seconds * leader.tick_seconds
        tick = leader.tick_seconds
        close = (max(self._done, self._last_close) / tick + _SHORTEST) // 1 * tick + tick
        drawn = WINDOW[0] + (WINDOW[1] - WINDOW[0]) * secrets.randbelow(2**32) / 2**32
        clock = self._read_clock()  # once per tick, whether anything comes or not
        self._gather(close, clock)
        frame = leader.cut()
        while time.monotonic() > close + tick * SENT:
            close += tick
            self.overrun += 1
        passed = round((close - self._last_close) / tick)
        self.due, self.missed = self.due + passed, self.missed + passed - 1
        self._last_close = close
        self._write(frame, close + tick * SENT, close + tick * drawn)

    def _write(self, frame: Frame, sent: float, committed: float) -> None:
        leader = self._gateway.leader
        leader.write(frame, sent, committed)
        self._done = time.monotonic()
        while self._answers and self._answers[0].position <= frame.position:
            waiting = self._answers.popleft()
            self._settle(waiting.asked, waiting.answer)

    def _pass_on(self, end: float) -> None:
        """Pass requests to the process that leads, for a while; then see whether it still does."""
        while (left := end - time.monotonic()) > 0:
            group = self._next(left)
            if not group:
                continue
            try:
                answers = self._gateway.relay.ask_all([written(asked.request) for asked in group])
            except Exception as error:
                for asked in group:
                    self._settle(asked, error)
                time.sleep(max(0.0, end - time.monotonic()))
                return
            for asked, answer in zip(group, answers, strict=True):
                answer.add_done_callback(partial(self._copy, asked))

    def _copy(self, asked: _Asked, answer: Future[Any]) -> None:
        error = answer.exception()
        self._settle(asked, answer.result() if error is None else error)

    def _next(self, seconds: float, gather: float = 0.0) -> list[_Asked]:
        """Some requests, as soon as there are any, or after a while in which more may come."""
        try:
            group = [self._queue.get(timeout=seconds)]
        except queue.Empty:
            return []
        if gather and self._queue.qsize() < _AT_ONCE:
            time.sleep(gather)
        with suppress(queue.Empty):
            while len(group) < _AT_ONCE:
                group.append(self._queue.get_nowait())
        return group

    def _gather(self, close: float, clock: Clock | Halted) -> None:
        """Decide what comes until the tick, and never beyond it: what would take too long waits for the next one."""
        tick, first = self._gateway.leader.tick_seconds, True
        while (left := close - time.monotonic()) > 0 or first:
            reserve = min(self._reserve_seconds, tick * _LONGEST_RESERVE)
            if self._gateway.leader.is_full() or (left < reserve and not first):
                time.sleep(max(0.0, left))
                return
            # whatever waits already is looked at in every tick
            group = self._next(max(left - reserve, 1e-6), gather=min(tick * _GATHERING, max(0.0, left - reserve)))
            first = False
            if not group:
                continue
            if isinstance(clock, Halted):
                for asked in group:
                    self._settle(asked, clock)
                continue
            begun = time.monotonic()
            self._decide(group, clock)
            # somewhat more than the slowest group lately
            self._reserve_seconds = max(1.5 * (time.monotonic() - begun), 0.9 * self._reserve_seconds)

    def _read_clock(self) -> Clock | Halted:
        try:
            return self._gateway.read_clock()
        except Halted as halted:
            return halted

    def _decide(self, group: Sequence[_Asked], clock: Clock) -> None:
        try:
            outcomes = self._gateway.leader.take(
                self._gateway.intake, [asked.request for asked in group], clock.moment()
            )
        except BaseException as error:
            for asked in group:
                self._settle(asked, error)
            raise
        for asked, outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome.answer, Exception):
                self._settle(asked, outcome.answer)
            else:
                position = 0 if outcome.post is None else outcome.post.position
                self._answers.append(_Waiting(position, asked, outcome.answer))

    def _fail(self, error: BaseException) -> None:
        while self._answers:
            self._settle(self._answers.popleft().asked, error)

    def _refuse(self, error: BaseException) -> None:
        """Refuse everything that waits."""
        self._fail(error)
        with suppress(queue.Empty):
            while True:
                self._settle(self._queue.get_nowait(), error)
