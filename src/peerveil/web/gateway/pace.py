"""Answers leave on a grid of time, from a process that does nothing else: no answer tells of others' requests.

**Adversary.** Sends any requests, without a token or malformed, on any connections, and measures when they are answered.
Wants to know whether somebody else handed in a post just then: a gateway is busy with each for a millisecond or more.

**Rule.** A process of its own, the *door*, has all connections, and knows nothing but bytes. It hands on to the gateway
what comes, over a socket that only its owner can reach, and collects the answers. Time is cut into slots of
:data:`SLOT_SECONDS`. The last tenth of each is *quiet*: the door reads nothing and sleeps. If there are answers, it wakes two
milliseconds early and waits, awake, for the slot's end. Then it sends them: a request that was read in slot k is answered at
the beginning of slot k + 2, or of a later one if the gateway took longer. Only status 202 (a post was taken, for which one needs
a token) is passed on as soon as it is there, outside the quiet part.

**Why.** What somebody else's post costs the gateway (to parse, to decide, to store) is done in another process: it decides
neither when a request is read nor when answers are sent. They are ready at least half of the time before they leave: one
slot at least, whatever the phase of the request. So as long as the gateway answers within a slot, the moment of the
answer is a function of when the request was sent, of the operating system, if it wakes a process later than that, and
of what the door itself does for others' bytes: at most some tenths of a millisecond each, which are seen only if they come just
before the end of the door's reading. ``tests/web/gateway/test_sensing.py`` measures what remains; without the door the same
attack succeeds.

**Outside**: whoever keeps the gateway busy for a whole slot; processors of which none is free for the door when it is to wake;
the network between, where posts can be seen anyway.

The file is run as a script by the process that serves, so it begins with nothing but the standard library.
"""

import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from peerveil.web.common import Journal

SLOT_SECONDS: Final = 0.05
CAN_PACE: Final = hasattr(select, "epoll")
_READS_UNTIL: Final = 0.9  # of a slot
_SLOTS: Final = 2  # from the one in which a request is read to that at whose beginning it is answered
_AWAKE_SECONDS: Final = 0.002  # before answers, so that it does not show when other processes let this one wake
_LAST_SECONDS: Final = 1.0  # in which answers are sent after the gateway has gone
_AT_ONCE: Final = 65_536  # bytes
_MOST: Final = 4 * _AT_ONCE  # that wait for one side of a connection, before the other is read on
_TAKEN: Final = b"HTTP/1.1 202 "
_READ: Final = select.EPOLLIN | select.EPOLLRDHUP if CAN_PACE else 0


class _Side:
    """One end of a connection: the client's or the gateway's."""

    def __init__(self, sock: socket.socket, is_client: bool) -> None:
        self.socket, self.is_client, self.number = sock, is_client, sock.fileno()
        self.other: _Side = self
        self.waiting = bytearray()
        """What is to be sent to it."""
        self.events = 0
        self.has_ended = False
        """Whether nothing more will come from it."""


class _Pair:
    """A client's connection and its counterpart to the gateway."""

    def __init__(self, client: _Side, gateway: _Side) -> None:
        self.client, self.gateway = client, gateway
        self.slot = 0
        """In which slot its latest bytes were read."""
        self.is_open = True
        self.was_taken = False
        """Whether the answer that is under way says that a post was taken."""


class Door:
    """Passes bytes between clients and the gateway, and answers on the grid."""

    def __init__(self, listener: socket.socket, gateway: str, until: int) -> None:
        self._listener, self._gateway, self._until = listener, gateway, until
        self._poll = select.epoll()
        self._pairs: dict[int, tuple[_Pair, _Side]] = {}
        self._held: dict[_Pair, None] = {}  # with an answer that waits for its slot
        self._slot = 0
        self._ends_at: float | None = None
        listener.setblocking(False)
        self._poll.register(listener.fileno(), select.EPOLLIN)
        self._poll.register(until, select.EPOLLIN | select.EPOLLHUP)

    def run(self) -> None:
        """Until the process that serves has gone, and its last answers are sent."""
        try:
            self._run()
        finally:
            for pair in {pair for pair, _ in self._pairs.values()}:
                self._close(pair)
            self._listener.close()
            self._poll.close()

    def _run(self) -> None:
        while self._ends_at is None or (self._pairs and time.monotonic() < self._ends_at):
            self._slot = int(time.monotonic() / SLOT_SECONDS)
            end = (self._slot + 1) * SLOT_SECONDS
            reads_until = end - (1 - _READS_UNTIL) * SLOT_SECONDS
            while (left := reads_until - time.monotonic()) > 0:
                # epoll's own timeout counts milliseconds, and would depend on when the last bytes came
                if not select.select([self._poll], [], [], left)[0]:
                    break
                for number, events in self._poll.poll(0, 64):
                    self._serve(number, events)
            awake = end - (_AWAKE_SECONDS if self._held else 0)
            while (left := awake - time.monotonic()) > 0:
                time.sleep(left)
            while time.monotonic() < end:
                pass
            self._answer(self._slot + 1)

    def _answer(self, slot: int) -> None:
        """Send the answers of a slot."""
        for pair in [pair for pair in self._held if pair.slot + _SLOTS <= slot]:
            del self._held[pair]
            self._send(pair, pair.client)

    # ---- bytes --------------------------------------------------------------------------------------------------

    def _serve(self, number: int, events: int) -> None:
        if number == self._listener.fileno():
            self._accept()
            return
        if number == self._until:
            self._poll.unregister(number)
            self._listen_no_more()
            self._ends_at = time.monotonic() + _LAST_SECONDS
            return
        pair, side = self._pairs.get(number, (None, None))
        if pair is None or side is None:
            return
        if events & select.EPOLLOUT:
            self._send(pair, side)
        if pair.is_open and events & ~select.EPOLLOUT:
            self._receive(pair, side)

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:  # it went away, or there are no more files: the next slot tries again
            time.sleep(0.001)
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        inner = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        inner.setblocking(False)
        try:
            inner.connect(self._gateway)
        except OSError as error:
            inner.close()
            sock.close()
            if not isinstance(error, BlockingIOError):  # it stops: others may listen on this port
                self._listen_no_more()
            return
        client, gateway = _Side(sock, True), _Side(inner, False)
        client.other, gateway.other = gateway, client
        pair = _Pair(client, gateway)
        for side in (client, gateway):
            self._pairs[side.number] = (pair, side)
            self._watch(side, _READ)

    def _listen_no_more(self) -> None:
        if self._listener.fileno() >= 0:
            self._poll.unregister(self._listener.fileno())
            self._listener.close()

    def _receive(self, pair: _Pair, side: _Side) -> None:
        try:
            data = side.socket.recv(_AT_ONCE)
        except BlockingIOError:
            return
        except OSError:
            self._close(pair)
            return
        if not data:
            side.has_ended = True
            self._watch(side, side.events & ~_READ)
        elif side.is_client:
            pair.slot, pair.was_taken = self._slot, False
        elif pair not in self._held and not side.other.waiting:
            pair.was_taken = pair.was_taken or data.startswith(_TAKEN)
        side.other.waiting += data
        if side.is_client or pair.was_taken:
            self._send(pair, side.other)
        else:
            self._held[pair] = None
        if pair.is_open and len(side.other.waiting) > _MOST:
            self._watch(side, side.events & ~_READ)

    def _send(self, pair: _Pair, side: _Side) -> None:
        if not pair.is_open:
            return
        try:
            if side.waiting:
                del side.waiting[: side.socket.send(side.waiting)]
        except BlockingIOError:
            pass
        except OSError:
            self._close(pair)
            return
        self._watch(side, side.events | select.EPOLLOUT if side.waiting else side.events & ~select.EPOLLOUT)
        if len(side.waiting) <= _MOST and not side.other.has_ended:
            self._watch(side.other, side.other.events | _READ)
        if side.other.has_ended and not side.waiting:
            if side.is_client:
                self._close(pair)
            else:
                with suppress(OSError):
                    side.socket.shutdown(socket.SHUT_WR)

    def _watch(self, side: _Side, events: int) -> None:
        if events == side.events:
            return
        if not events:
            self._poll.unregister(side.number)
        elif side.events:
            self._poll.modify(side.number, events)
        else:
            self._poll.register(side.number, events)
        side.events = events

    def _close(self, pair: _Pair) -> None:
        pair.is_open = False
        self._held.pop(pair, None)
        for side in (pair.client, pair.gateway):
            self._watch(side, 0)
            self._pairs.pop(side.number, None)
            side.socket.close()


# ---- the process that serves ------------------------------------------------------------------------------------------


def serve_paced(
    app: "ASGIApp", host: str, port: int, journal: "Journal", *, is_private: bool = True, **options: Any
) -> None:
    """Serve an application like :func:`peerveil.web.common.serving.serve`, behind a door: what is private only so."""
    from peerveil.core.errors import BadInput, Verbatim
    from peerveil.web.common.serving import serve

    if is_private and not CAN_PACE:
        raise BadInput(
            "gateway serve",
            got=Verbatim(sys.platform),
            want="Linux: elsewhere the time of answers would tell when others post; only `gateway serve --demo` runs here",
        )
    serve(app, host, port, journal, door=open_door if CAN_PACE else None, **options)


@contextmanager
def open_door(listener: socket.socket, gateway: str, died: Callable[[], None]) -> Iterator[None]:
    """Let a door listen in the place of this process, and pass everything to a socket; ``died`` is called if it ends."""
    command = [sys.executable, "-I", "-S", __file__, str(listener.fileno()), gateway]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[listener.fileno()])  # noqa: S603
    is_over = threading.Event()

    def wait() -> None:
        process.wait()
        if not is_over.is_set():
            died()

    threading.Thread(target=wait, daemon=True).start()
    try:
        yield
    finally:
        is_over.set()
        process.communicate()  # it ends when it cannot read from this process any more


def main() -> None:
    """A door: the number of the socket that listens, and the path of the gateway's; it ends with its standard input."""
    import resource
    import signal

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    Door(socket.socket(fileno=int(sys.argv[1])), sys.argv[2], sys.stdin.fileno()).run()
    os._exit(0)


if __name__ == "__main__":
    main()
