"""Webhooks: the feed, sent to an address of the platform, signed, in order, at least once.

A webhook follows the feed by a position of its own, so what it sends, and when it tries again, depends on what was
released and on the receiver's answers, never on arrivals. Receivers drop what they have seen by its id.

Receivers are independent: each attempt has its own thread and a deadline for the whole of it. Whatever a receiver answers, or
does not, is a failure of that attempt alone; it is recorded, and tried again after a pause that doubles. When the gateway
stops, attempts under way are cut off.

The signature is an HMAC-SHA256 under the webhook's secret of the timestamp, a dot and the body:
``Peerveil-Signature: v1=<hex>``, ``Peerveil-Timestamp: <seconds>``.
"""

from __future__ import annotations

import hmac
import json
import secrets
import ssl
import time
from functools import cached_property, partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import select, update

from peerveil.core.errors import BadInput
from peerveil.web.common.clock import SECOND
from peerveil.web.gateway.feed import read_items
from peerveil.web.gateway.sending import Attempt
from peerveil.web.gateway.tables import hooks, spaces

if TYPE_CHECKING:
    import threading

    from sqlalchemy import Row

    from peerveil.web.common import Journal
    from peerveil.web.gateway.core import Gateway
    from peerveil.web.gateway.feed import Item

DEADLINE: Final = 15.0
"""Seconds that one attempt may take in all."""
MOST: Final = 32
"""Attempts at a time. Webhooks that failed before get half of them at most, so that the others find room."""
OLDEST: Final = 300.0
"""Seconds after which a receiver should refuse a signature."""

_ITEMS: Final = 100
_IDLE: Final = 1.0  # seconds between two looks while nothing is under way
_CLAIM: Final = 60 * SECOND
_LONGEST_PAUSE: Final = 3600.0
_GRACE: Final = 3.0  # seconds in which attempts that were cut off may still record it


class Deliveries:
    """Sends what was released to all webhooks."""

    def __init__(self, gateway: Gateway, journal: Journal, *, deadline: float = DEADLINE, most: int = MOST) -> None:
        self._gateway = gateway
        self._journal = journal
        self._deadline = deadline
        self._most = most
        self._running: dict[str, Attempt] = {}

    @cached_property
    def _context(self) -> ssl.SSLContext:
        """Made for the first delivery: to read the machine's certificates takes a while, and a gateway may have no webhooks."""
        return ssl.create_default_context()

    def run(self, stop: threading.Event) -> None:
        """Deliver until stopped; then cut off what is under way."""
        while not stop.is_set():
            try:
                self.begin()
            except Exception as error:
                self._journal.error("webhooks_failed", error)
            stop.wait(0.1 if self._running else _IDLE)
        end = time.monotonic() + _GRACE
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
        return sum(attempt.result for attempt in begun)

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
            room = self._most // 2 if row.attempts else self._most
            if row.next_try <= now and row.name not in self._running and len(self._running) < room:
                attempt = Attempt(row.name, self._deadline, partial(self._deliver, row, now))
                attempt.start()
                self._running[row.name] = attempt
                begun.append(attempt)
        return begun

    def _look_after(self) -> None:
        """Cut off what is late, and forget what has ended."""
        for attempt in self._running.values():
            attempt.cut_if_late()
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
            items = read_items(connection, row.space, row.after, _ITEMS)
        try:
            accepted = self._send(row, items, attempt)
        except Exception as error:  # whatever a receiver does, it is that receiver's failure
            self._journal.error("webhook_failed", error, hook=row.name)
            accepted = False
        attempts = 0 if accepted else row.attempts + 1
        # the pause is random and depends on failures alone
        pause = min(2.0 ** min(attempts, 12), _LONGEST_PAUSE) * (0.5 + secrets.randbelow(1000) / 1000)
        if not accepted:
            self._journal.write("webhook_refused", level="warning", hook=row.name, attempt=attempts)
        with gateway.recording_halts(), gateway.database.writing("deliver") as connection:
            values = {
                "attempts": attempts,
                "next_try": gateway.watch.now(connection) + (0 if accepted else int(pause * SECOND)),
                "after": items[-1].position if accepted else row.after,
            }
            connection.execute(
                update(hooks).where(hooks.c.name == row.name, hooks.c.next_try == claim).values(**values)
            )
        return len(items) if accepted else 0

    def _send(self, row: Row[Any], items: list[Item], attempt: Attempt) -> bool:
        body = json.dumps(
            {
                "space": row.space,
                "items": [item.to_dict() for item in items],
                "next": self._gateway.cursors.write(row.space, items[-1].position),
            },
            ensure_ascii=False,
        ).encode()
        secret = self._gateway.vault.open(bytes(row.secret), about=row.name).decode()
        headers = sign(secret, body) | {"Content-Type": "application/json"}
        return 200 <= attempt.post(row.url, body, headers, self._context) < 300


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
        age = abs((time.time() if at is None else at) - int(timestamp))
        good = hmac.compare_digest(sign(secret, body, int(timestamp))["Peerveil-Signature"], signature)
    except (ValueError, TypeError, OverflowError):
        good, age = False, 0.0
    if not good or age > OLDEST:
        raise BadInput("signature", got=signature, want="the gateway's own, at most five minutes old")
