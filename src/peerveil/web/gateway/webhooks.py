"""Webhooks: the feed, sent to an address of the platform, signed, in order, at least once.

A webhook follows the feed by a position of its own, so what it sends, and when it tries again, depends on what was
published and on the receiver's answers, never on arrivals. Receivers drop items whose id they know.

Receivers are independent: each attempt has its own thread and a deadline for the whole of it. Whatever a receiver
answers, or does not, is a failure of that attempt alone; it is recorded, and tried again after a pause that doubles.
When the gateway stops, attempts under way are cut off.

The signature is an HMAC-SHA256 under the webhook's secret of the timestamp, a dot and the body:
``Peerveil-Signature: v1=<hex>``, ``Peerveil-Timestamp: <seconds>``.
"""

from __future__ import annotations

import hmac
import http.client
import json
import secrets
import socket
import ssl
import struct
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property, partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Row, select, update

from peerveil.core.errors import BadInput
from peerveil.web.common.client import NoRedirects
from peerveil.web.common.database import SECOND
from peerveil.web.gateway.feed import Item, read_items
from peerveil.web.gateway.tables import hooks, spaces

if TYPE_CHECKING:
    from peerveil.web.common import Journal
    from peerveil.web.gateway.core import Gateway

_DEADLINE_SECONDS: Final = 15.0  # for the whole of an attempt
_MOST_ATTEMPTS: Final = 32  # at a time; webhooks that failed before get at most half of them
_OLDEST_SIGNATURE_SECONDS: Final = 300.0
_MOST_ITEMS: Final = 100
_IDLE_SECONDS: Final = 1.0  # between two looks while nothing is under way
_CLAIM: Final = 60 * SECOND
_LONGEST_PAUSE_SECONDS: Final = 3600.0
_GRACE_SECONDS: Final = 3.0  # in which attempts that were cut off may still record it


class Deliveries:
    """Sends what was published to all webhooks."""

    def __init__(
        self, gateway: Gateway, journal: Journal, *, deadline: float = _DEADLINE_SECONDS, most: int = _MOST_ATTEMPTS
    ) -> None:
        self._gateway = gateway
        self._journal = journal
        self._deadline_seconds = deadline
        self._most = most
        self._running: dict[str, Attempt] = {}

    @cached_property
    def _context(self) -> ssl.SSLContext:
        """Created for the first delivery: to read the machine's certificates takes a while."""
        return ssl.create_default_context()

    def run(self, stop: threading.Event) -> None:
        """Deliver until stopped; then cut off what is under way."""
        while not stop.is_set():
            try:
                self.begin()
            except Exception as error:
                self._journal.error("webhooks_failed", error)
            stop.wait(0.1 if self._running else _IDLE_SECONDS)
        end = time.monotonic() + _GRACE_SECONDS
        for attempt in self._running.values():
            attempt.cut()
        for attempt in self._running.values():
            attempt.join(max(0.0, end - time.monotonic()))

    def step(self) -> int:
        """One attempt for every webhook that has something to send and is due; how many items were accepted."""
        begun = self.begin()
        while any(attempt.is_alive() for attempt in begun):
            self._look_after()
            begun[0].join(0.02)
        return sum(attempt.accepted for attempt in begun)

    def begin(self) -> list[Attempt]:
        """Start an attempt for every webhook that has something to send, is due, and has none under way."""
        self._look_after()
        gateway = self._gateway
        waiting = select(hooks).join(spaces, hooks.c.space == spaces.c.name)
        waiting = waiting.where(hooks.c.active == 1, hooks.c.after < spaces.c.last).order_by(hooks.c.attempts)
        with gateway.recording_halts(), gateway.database.reading() as connection:
            rows = connection.execute(waiting).all()
            now = gateway.watch.now(connection) if rows else 0
        begun = []
        for row in rows:
            most = self._most // 2 if row.attempts else self._most
            if row.next_try <= now and row.name not in self._running and len(self._running) < most:
                attempt = Attempt(row.name, self._deadline_seconds, partial(self._deliver, row, now))
                attempt.start()
                self._running[row.name] = attempt
                begun.append(attempt)
        return begun

    def _look_after(self) -> None:
        """Cut off late attempts, and forget those that have ended."""
        for attempt in self._running.values():
            if time.monotonic() >= attempt.end:
                attempt.cut()
        self._running = {name: attempt for name, attempt in self._running.items() if attempt.is_alive()}

    def _deliver(self, row: Row[Any], now: int, attempt: Attempt) -> int:
        try:
            return self._claim_and_send(row, now, attempt)
        except Exception as error:  # on our side: the claim ends after a minute, and it is tried again
            self._journal.error("webhook_broken", error, hook=row.name)
            return 0

    def _claim_and_send(self, row: Row[Any], now: int, attempt: Attempt) -> int:
        gateway, claim = self._gateway, now + _CLAIM
        mine = (hooks.c.name == row.name) & (hooks.c.next_try == row.next_try) & (hooks.c.after == row.after)
        with gateway.database.writing("deliver") as connection:
            if not connection.execute(update(hooks).where(mine).values(next_try=claim)).rowcount:
                return 0  # another worker has it
            items, last = read_items(connection, row.space, row.after, _MOST_ITEMS)
        try:
            accepted = self._send(row, items, last, attempt)
        except Exception as error:  # whatever a receiver does, it is that receiver's failure
            self._journal.error("webhook_failed", error, hook=row.name)
            accepted = False
        attempts = 0 if accepted else row.attempts + 1
        # the pause is random and depends on failures alone
        longest = min(2.0 ** min(attempts, 12), _LONGEST_PAUSE_SECONDS)
        pause = 0 if accepted else int(longest * (0.5 + secrets.randbelow(1000) / 1000) * SECOND)
        if not accepted:
            self._journal.write("webhook_refused", level="warning", hook=row.name, attempt=attempts)
        with gateway.recording_halts(), gateway.database.writing("deliver") as connection:
            next_try = gateway.watch.now(connection) + pause
            values = {"attempts": attempts, "next_try": next_try, "after": last if accepted else row.after}
            claimed = (hooks.c.name == row.name) & (hooks.c.next_try == claim)
            connection.execute(update(hooks).where(claimed).values(**values))
        return len(items) if accepted else 0

    def _send(self, row: Row[Any], items: list[Item], last: int, attempt: Attempt) -> bool:
        content = {
            "space": row.space,
            "items": [vars(item) for item in items],
            "next": self._gateway.cursors.write(row.space, last),
        }
        body = json.dumps(content, ensure_ascii=False).encode()
        secret = self._gateway.vault.open(bytes(row.secret), about=row.name).decode()
        headers = sign(secret, body) | {"Content-Type": "application/json"}
        return 200 <= attempt.post(row.url, body, headers, self._context) < 300


class Attempt(threading.Thread):
    """One request to a receiver, in a thread of its own, with a deadline for the whole of it.

    A time limit on single reads does not stop a receiver that sends one byte after the other. So the connection itself is
    shut down when the time is over, or when the gateway stops: whatever the thread waits for then ends at once, be it the
    TLS handshake, the upload or the answer. Of the answer only the status is read; headers have the limits of
    ``http.client``.

    ``work`` may use :meth:`post`; ``accepted`` is what it returned.
    """

    def __init__(self, name: str, seconds: float, work: Callable[[Attempt], int]) -> None:
        super().__init__(name=f"webhook {name}", daemon=True)
        self.accepted = 0
        self._seconds = seconds
        self.end = time.monotonic() + seconds
        self._work = work
        self._lock = threading.Lock()
        self._handle: socket.socket | None = None
        self._is_cut = False

    def run(self) -> None:
        """Called by :meth:`start`."""
        try:
            self.accepted = self._work(self)
        finally:
            with self._lock:
                if self._handle is not None:
                    self._handle.close()
                self._handle = None

    def cut(self) -> None:
        """End the request now."""
        with self._lock:
            self._is_cut = True
            if self._handle is not None:
                with suppress(OSError):
                    # the receiver is informed, and what it still sends is dropped
                    self._handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self._handle.shutdown(socket.SHUT_RDWR)

    def post(self, url: str, body: bytes, headers: Mapping[str, str], context: ssl.SSLContext) -> int:
        """Send a body; the status of the answer. Redirects are not followed."""
        request = urllib.request.Request(url, data=body, headers=dict(headers), method="POST")  # noqa: S310
        try:
            opener = urllib.request.build_opener(NoRedirects, _Connections(self, context))
            with opener.open(request, timeout=self._seconds) as answer:
                self._check_time()  # the library takes headers that were cut off for whole ones
                return int(answer.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code

    def connection(self, kind: type[http.client.HTTPConnection], host: str, **options: Any) -> Any:
        """A connection that can be cut off from its first moment on."""
        connection = kind(host, **options)
        vars(connection)["_create_connection"] = self._connect
        return connection

    def _connect(self, *arguments: Any, **options: Any) -> socket.socket:
        connected = socket.create_connection(*arguments, **options)
        with self._lock:
            if self._is_cut:
                connected.close()
            self._check_time()
            if self._handle is not None:
                self._handle.close()
            self._handle = connected.dup()  # TLS takes the socket over; this one stays ours
        return connected

    def _check_time(self) -> None:
        if self._is_cut:
            raise TimeoutError("the time for this request is over")


class _Connections(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Opens the connections of an attempt."""

    def __init__(self, attempt: Attempt, context: ssl.SSLContext) -> None:
        super().__init__(context=context)
        self._attempt, self._trusted = attempt, context

    def http_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(partial(self._attempt.connection, http.client.HTTPConnection), request)

    def https_open(self, request: urllib.request.Request) -> Any:
        opened = partial(self._attempt.connection, http.client.HTTPSConnection)
        return self.do_open(opened, request, context=self._trusted)


def sign(secret: str, body: bytes, at: float | None = None) -> dict[str, str]:
    """The two headers that prove where a body comes from."""
    stamp = str(int(time.time() if at is None else at))
    mac = hmac.new(secret.encode(), stamp.encode() + b"." + body, sha256)
    return {"Peerveil-Timestamp": stamp, "Peerveil-Signature": f"v1={mac.hexdigest()}"}


def check_signature(secret: str, body: bytes, timestamp: str, signature: str, at: float | None = None) -> None:
    """For receivers in Python: refuse a body that the gateway did not send, or sent long ago.

    >>> headers = sign("a secret of the platform", b"{}", at=1000)
    >>> check_signature(
    ...     "a secret of the platform", b"{}", headers["Peerveil-Timestamp"], headers["Peerveil-Signature"], at=1001
    ... )
    """
    try:
        age_seconds = abs((time.time() if at is None else at) - int(timestamp))
        genuine = hmac.compare_digest(sign(secret, body, int(timestamp))["Peerveil-Signature"], signature)
    except (ValueError, TypeError, OverflowError):
        genuine, age_seconds = False, 0.0
    if not genuine or age_seconds > _OLDEST_SIGNATURE_SECONDS:
        raise BadInput("signature", got=signature, want="the gateway's own, at most five minutes old")
