"""Passing requests from the other processes of a gateway to the one that leads.

The process that leads listens on a socket and writes its address into the database. Messages are sealed under a key derived
from the gateway's, bound to the connection, their direction and their number: nobody without the key can read, send, repeat
or reorder them. Nothing of them reaches a disk.
"""

from __future__ import annotations

import json
import queue
import secrets
import socket
import struct
import threading
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from peerveil.core.errors import BadInput, PeerveilError
from peerveil.web.common import Identity, ServiceError
from peerveil.web.common.errors import Unavailable
from peerveil.web.gateway.fence import NotLeading
from peerveil.web.gateway.intake import Edit, Submit, Withdraw
from peerveil.web.gateway.watch import Halted
from peerveil.web.gateway.weeks import Ask

if TYPE_CHECKING:
    from collections.abc import Callable

    from peerveil.web.common import Vault
    from peerveil.web.gateway.core import Gateway

_LENGTH: Final = struct.Struct(">I")
_LONGEST: Final = 16 * 2**20
_SESSION_BYTES: Final = 16
_AT_ONCE: Final = 100  # answers in one message
_PATIENCE_SECONDS: Final = 60.0
_CONNECT_SECONDS: Final = 3.0
_KEEP_ALIVE: Final = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 11_000}
"""Of a connection (Linux): a machine that is gone is noticed after 11 s, whether anything was sent to it or not."""


class _Line:
    """One end of a connection: sealed messages, counted in both directions."""

    def __init__(self, sock: socket.socket, vault: Vault, *, asks: bool) -> None:
        self._socket, self._vault = sock, vault
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEP_ALIVE.items():
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        if asks:
            self._session = self._read(_SESSION_BYTES).hex()
        else:
            session = secrets.token_bytes(_SESSION_BYTES)
            sock.sendall(session)
            self._session = session.hex()
        self._own, self._other = ("ask", "answer") if asks else ("answer", "ask")
        self._sent = self._received = 0

    def send(self, value: Any) -> None:
        self._sent += 1
        plain = json.dumps(value).encode("utf-8", "surrogatepass")
        sealed = self._vault.seal(plain, about=f"{self._own} {self._session} {self._sent}")
        self._socket.sendall(_LENGTH.pack(len(sealed)) + sealed)

    def receive(self) -> Any:
        self._received += 1
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
        if length > _LONGEST:
            raise ConnectionError("a message that is too long")
        about = f"{self._other} {self._session} {self._received}"
        return json.loads(self._vault.open(self._read(length), about=about).decode("utf-8", "surrogatepass"))

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _read(self, count: int) -> bytes:
        parts = []
        while count:
            part = self._socket.recv(count)
            if not part:
                raise ConnectionError("the other process has gone")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


class RelayServer(threading.Thread):
    """Answers the other processes, as long as this one leads."""

    def __init__(self, gateway: Gateway, host: str) -> None:
        super().__init__(name="relay", daemon=True)
        self._gateway = gateway
        self._vault = gateway.sealer.derive("relay")
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._socket = socket.create_server((host, 0), family=family, backlog=64)
        except OSError as error:
            raise BadInput("relay", got=host, want=f"an address of this machine ({error.strerror})") from None
        name, port = self._socket.getsockname()[:2]
        self.address = f"{name}:{port}"
        self._lines: list[_Line] = []

    def run(self) -> None:
        """Called by :meth:`start`."""
        with suppress(OSError):
            while True:
                accepted, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(accepted,), daemon=True).start()

    def stop(self) -> None:
        """Close all connections."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for line in list(self._lines):
            line.close()
        if self.ident is not None:
            self.join()

    def _serve(self, accepted: socket.socket) -> None:
        answers: queue.Queue[list[Any] | None] = queue.Queue()
        line: _Line | None = None
        with suppress(OSError, PeerveilError, ValueError):
            line = _Line(accepted, self._vault, asks=False)
            self._lines.append(line)
            threading.Thread(target=_send_all, args=(line, answers), daemon=True).start()
            while True:
                for number, *asked in line.receive():
                    self._do(asked, partial(_put_answer, answers, number))
        answers.put(None)
        if line is not None:
            self._lines.remove(line)
        accepted.close()

    def _do(self, asked: list[Any], answer: Callable[[Future[Any]], None]) -> None:
        future: Future[Any] = Future()
        try:
            if not self._gateway.leader.is_leading:
                raise NotLeading
            kind, *fields = asked
            if kind == "status":
                future.set_result(self._gateway.status(Identity("author", fields[0], fields[1], ""), fields[2]))
            elif kind == "tallies":
                future.set_result(self._gateway.tallies())
            else:
                future = self._gateway.group.put(self._request(kind, fields))
        except Exception as error:
            future.set_exception(error)
        future.add_done_callback(answer)

    def _request(self, kind: str, fields: list[Any]) -> Any:
        if kind in ("submit", "ask"):
            return (Submit if kind == "submit" else Ask)(self._gateway.space(fields[0]), *fields[1:])
        return {"edit": Edit, "withdraw": Withdraw}[kind](*fields)


def _put_answer(answers: queue.Queue[list[Any] | None], number: int, future: Future[Any]) -> None:
    error = future.exception()
    if isinstance(error, Halted):
        answers.put([number, "halted", error.kind, error.step])
    elif error is not None:
        known = isinstance(error, ServiceError)
        name, words = (type(error).__name__, str(error)) if known else ("Unavailable", _FAILED)
        answers.put([number, "error", name, words, getattr(error, "retry_after", None)])
    else:
        value = future.result()
        answers.put([number, "bytes" if isinstance(value, bytes) else "value", _text(value)])


_FAILED: Final = "the process that leads failed; send the same request again, with the same key"


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def _send_all(line: _Line, answers: queue.Queue[list[Any] | None]) -> None:
    with suppress(OSError):
        while True:
            group = [answers.get()]
            with suppress(queue.Empty):
                while len(group) < _AT_ONCE and group[-1] is not None:
                    group.append(answers.get_nowait())
            line.send([one for one in group if one is not None])
            if group[-1] is None:
                return


class RelayClient:
    """The connection of this process to the one that leads; it is made again when it breaks."""

    def __init__(self, vault: Vault, find: Callable[[], str]) -> None:
        self._vault, self._find = vault, find
        self._lock = threading.Lock()
        self._line: _Line | None = None
        self._number = 0
        self._open: dict[int, Future[Any]] = {}

    def ask(self, *asked: Any) -> Future[Any]:
        """Ask the process that leads; the future is refused if there is none, or the connection breaks."""
        return self.ask_all([list(asked)])[0]

    def ask_all(self, group: list[list[Any]]) -> list[Future[Any]]:
        """The same for several at once."""
        with self._lock:
            try:
                line = self._line or self._connect()
                futures: list[Future[Any]] = [Future() for _ in group]
                first = self._number + 1
                self._number += len(group)
                self._open |= {first + k: future for k, future in enumerate(futures)}
                line.send([[first + k, *asked] for k, asked in enumerate(group)])
            except (OSError, ValueError):
                self._break()
                raise NotLeading from None
        return futures

    def close(self) -> None:
        """End the connection."""
        with self._lock:
            self._break()

    def _connect(self) -> _Line:
        host, _, port = self._find().rpartition(":")
        if not host:
            raise NotLeading
        sock = socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS)
        self._line = _Line(sock, self._vault, asks=True)
        sock.settimeout(None)
        threading.Thread(target=self._listen, args=(self._line,), daemon=True).start()
        return self._line

    def _listen(self, line: _Line) -> None:
        with suppress(OSError, PeerveilError, ValueError):
            while True:
                for number, kind, *rest in line.receive():
                    future = self._open.pop(number, None)
                    if future is not None and future.set_running_or_notify_cancel():
                        _resolve(future, kind, rest)
        with self._lock:
            if self._line is line:
                self._break()

    def _break(self) -> None:
        """Refuse what is open: whether it was done, the same request will find out."""
        if self._line is not None:
            self._line.close()
            self._line = None
        unanswered, self._open = list(self._open.values()), {}
        for future in unanswered:
            if future.set_running_or_notify_cancel():
                future.set_exception(Unavailable(_FAILED))


def _resolve(future: Future[Any], kind: str, rest: list[Any]) -> None:
    if kind == "halted":
        future.set_exception(Halted(*rest))
    elif kind == "error":
        kind_of_error = {cls.__name__: cls for cls in _kinds(ServiceError)}.get(rest[0], Unavailable)
        refusal = NotLeading() if kind_of_error is NotLeading else kind_of_error(rest[1])
        refusal.retry_after = rest[2]
        future.set_exception(refusal)
    else:
        future.set_result(rest[0].encode() if kind == "bytes" else rest[0])


def _kinds(kind: type[Any]) -> list[type[Any]]:
    return [kind, *(each for child in kind.__subclasses__() for each in _kinds(child))]


def written(request: Any) -> list[Any]:
    """A request as a message."""
    if isinstance(request, Submit):
        own = [request.actor, request.key, request.body_hash, request.thread, request.content, request.reply_to]
        return ["submit", request.space.name, *own, request.batch, request.metadata]
    if isinstance(request, Ask):
        return ["ask", request.space.name, request.actor, request.thread]
    own = [request.space, request.actor, request.receipt]
    if isinstance(request, Edit):
        return ["edit", *own, request.content, request.metadata, request.key]
    return ["withdraw", *own, request.key]
