"""One request to a webhook's receiver, in a thread of its own, with a deadline for the whole of it.

A time limit on single reads does not stop a receiver that sends one byte after the other. So the connection itself is
shut down when the time is over, or when the gateway stops: whatever the thread waits for then ends at once, be it the TLS
handshake, the upload or the answer. Of the answer only the status is read; headers have the limits of ``http.client``.
"""

from __future__ import annotations

import http.client
import socket
import struct
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping

_LATE: Final = "the time for this request is over"


class Attempt(threading.Thread):
    """Runs a function that may use :meth:`post`; ``result`` is what it returned."""

    def __init__(self, name: str, seconds: float, work: Callable[[Attempt], int]) -> None:
        super().__init__(name=f"webhook {name}", daemon=True)
        self.result = 0
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._work = work
        self._lock = threading.Lock()
        self._handle: socket.socket | None = None
        self._is_cut = False

    def run(self) -> None:
        """Called by :meth:`start`."""
        try:
            self.result = self._work(self)
        finally:
            with self._lock:
                if self._handle is not None:
                    self._handle.close()
                self._handle = None

    def cut_if_late(self) -> None:
        """End the request if its time is over."""
        if time.monotonic() >= self._end:
            self.cut()

    def cut(self) -> None:
        """End the request now."""
        with self._lock:
            self._is_cut = True
            if self._handle is not None:
                with suppress(OSError):
                    # the receiver is told, and what it still sends is dropped
                    self._handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self._handle.shutdown(socket.SHUT_RDWR)

    def post(self, url: str, body: bytes, headers: Mapping[str, str], context: ssl.SSLContext) -> int:
        """Send a body; the status of the answer. Redirects are not followed."""
        request = urllib.request.Request(url, data=body, headers=dict(headers), method="POST")  # noqa: S310
        opener = urllib.request.build_opener(_NoRedirects, _Http(self), _Https(self, context))
        try:
            with opener.open(request, timeout=self._seconds) as answer:
                if self._is_cut:  # the library takes headers that were cut off for whole ones
                    raise TimeoutError(_LATE)
                return int(answer.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code

    def connection(self, kind: type[http.client.HTTPConnection], host: str, **options: Any) -> Any:
        """A connection that can be cut off from its first moment on."""
        made = kind(host, **options)
        vars(made)["_create_connection"] = self._connect
        return made

    def _connect(self, *arguments: Any, **options: Any) -> socket.socket:
        made = socket.create_connection(*arguments, **options)
        with self._lock:
            if self._is_cut:
                made.close()
                raise TimeoutError(_LATE)
            if self._handle is not None:
                self._handle.close()
            self._handle = made.dup()  # TLS takes the socket over; this one stays ours
        return made


class _Http(urllib.request.HTTPHandler):
    def __init__(self, attempt: Attempt) -> None:
        super().__init__()
        self._attempt = attempt

    def http_open(self, request: urllib.request.Request) -> Any:
        def make(host: str, **options: Any) -> Any:
            return self._attempt.connection(http.client.HTTPConnection, host, **options)

        return self.do_open(make, request)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, attempt: Attempt, context: ssl.SSLContext) -> None:
        super().__init__(context=context)
        self._attempt, self._trusted = attempt, context

    def https_open(self, request: urllib.request.Request) -> Any:
        def make(host: str, **options: Any) -> Any:
            return self._attempt.connection(http.client.HTTPSConnection, host, **options)

        return self.do_open(make, request, context=self._trusted)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """A signed body goes where it was sent, and nowhere else."""
        return
