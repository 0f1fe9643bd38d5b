"""Webhooks: the feed, sent to an address of the platform, signed, in order, at least once.

A webhook follows the feed by a position of its own, so what it sends, and when it tries again, depends on what was
released and on the receiver's answers, never on arrivals. Receivers drop what they have seen by its id.

The signature is an HMAC-SHA256 under the webhook's secret of the timestamp, a dot and the body:
``Peerveil-Signature: v1=<hex>``, ``Peerveil-Timestamp: <seconds>``.
"""

from __future__ import annotations

import hmac
import json
import secrets
import time
import urllib.error
import urllib.request
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import select, update

from peerveil.errors import BadInput, PeerveilError
from peerveil.gateway.feed import read_items
from peerveil.gateway.tables import hooks
from peerveil.services.clock import SECOND

if TYPE_CHECKING:
    import threading

    from sqlalchemy import Row

    from peerveil.gateway.core import Gateway
    from peerveil.services import Journal

_ITEMS: Final = 100
_LEASE: Final = 60 * SECOND
_PATIENCE: Final = 15.0
_LONGEST_PAUSE: Final = 3600.0
OLDEST: Final = 300.0
"""Seconds after which a receiver should refuse a signature."""


class Deliveries:
    """Sends what was released to all webhooks."""

    def __init__(self, gateway: Gateway, journal: Journal) -> None:
        self._gateway = gateway
        self._journal = journal
        self._opener = urllib.request.build_opener(_NoRedirects)

    def run(self, stop: threading.Event) -> None:
        """Deliver until stopped."""
        while not stop.is_set():
            try:
                sent = self.step()
            except PeerveilError as error:
                self._journal.error("webhooks_failed", error)
                sent = 0
            stop.wait(0.05 if sent else 1.0)

    def step(self) -> int:
        """One attempt for every webhook that has something to send and is due; how many items were accepted."""
        gateway, sent = self._gateway, 0
        with gateway.recording_halts():
            with gateway.database.reading() as connection:
                rows = connection.execute(select(hooks).where(hooks.c.active == 1)).all()
                now = gateway.watch.now(connection) if rows else 0
            for row in rows:
                if row.next_try <= now:
                    sent += self._deliver(row, now)
        return sent

    def _deliver(self, row: Row[Any], now: int) -> int:
        gateway = self._gateway
        with gateway.database.reading() as connection:
            items = read_items(connection, row.space, row.after, _ITEMS)
        if not items:
            return 0
        mine = (hooks.c.name == row.name) & (hooks.c.next_try == row.next_try) & (hooks.c.after == row.after)
        with gateway.database.writing("deliver") as connection:
            lease = now + _LEASE
            if not connection.execute(update(hooks).where(mine).values(next_try=lease)).rowcount:
                return 0  # another worker has it
        last = items[-1].position
        body = {
            "space": row.space,
            "items": [item.to_dict() for item in items],
            "next": gateway.cursors.write(row.space, last),
        }
        secret = gateway.vault.open(bytes(row.secret), about=row.name).decode()
        accepted = self._send(row.url, secret, json.dumps(body, ensure_ascii=False).encode())
        attempts = 0 if accepted else row.attempts + 1
        # the pause is random and depends on failures alone
        pause = min(2.0 ** min(attempts, 12), _LONGEST_PAUSE) * (0.5 + secrets.randbelow(1000) / 1000)
        values = {"attempts": attempts, "next_try": now + (0 if accepted else int(pause * SECOND))}
        if accepted:
            values["after"] = last
        else:
            self._journal.write("webhook_refused", level="warning", hook=row.name, attempt=attempts)
        with gateway.database.writing("deliver") as connection:
            connection.execute(
                update(hooks).where(hooks.c.name == row.name, hooks.c.next_try == lease).values(**values)
            )
        return len(items) if accepted else 0

    def _send(self, url: str, secret: str, body: bytes) -> bool:
        request = urllib.request.Request(url, data=body, method="POST")  # noqa: S310
        for name, value in sign(secret, body).items():
            request.add_header(name, value)
        request.add_header("Content-Type", "application/json")
        try:
            with self._opener.open(request, timeout=_PATIENCE) as answer:
                return bool(200 <= answer.status < 300)
        except (urllib.error.URLError, OSError, ValueError):
            return False


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """A signed body goes where it was sent, and nowhere else."""
        return


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
