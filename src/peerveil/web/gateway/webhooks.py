"""Webhooks: the feed, sent to an address of the platform, signed, in order, at least once.

Each webhook follows the feed by a position of its own: that is its queue. What it sends, and when it tries again, depends
on what was published and on the receiver's answers, never on arrivals. Receivers drop items whose id they know.

Receivers are independent: each attempt has its own thread and a deadline for the whole of it
(:mod:`peerveil.web.gateway.receivers`). Whatever a receiver answers, or does not, is a failure of that attempt alone; it
is recorded, and tried again after a pause that doubles, with jitter. An attempt after a failure sends fewer items, in the
end a single one, so that one item that a receiver cannot take does not hold others back for long. When the gateway stops,
attempts under way are cut off.

**Dead letters.** When a receiver has failed without a break for :data:`GIVE_UP`, items that are older than that are set
aside, and later ones are tried. An operator lists them and has them sent again (``peerveil gateway webhooks``). A dead
letter is a part of the feed, named by its positions; it holds no texts.

The signature is an HMAC-SHA256 under the webhook's secret of the timestamp, a dot and the body:
``Peerveil-Signature: v1=<hex>``, ``Peerveil-Timestamp: <seconds>``. Every endpoint has a secret of its own.
"""

from __future__ import annotations

import hmac
import http.client
import json
import secrets
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from sqlalchemy import Connection, Row, delete, exists, func, insert, or_, select, update

from peerveil.core.errors import BadInput
from peerveil.web.common.database import DAY, SECOND
from peerveil.web.gateway.feed import Item, read_items
from peerveil.web.gateway.receivers import AddressRefused, Attempt
from peerveil.web.gateway.tables import feed, hooks, letters, spaces

if TYPE_CHECKING:
    from peerveil.web.common import Journal
    from peerveil.web.gateway.core import Gateway

GIVE_UP: Final = 3 * DAY
"""After this long without one accepted attempt, older items become dead letters."""

_DEADLINE_SECONDS: Final = 15.0  # for the whole of an attempt
_MOST_ATTEMPTS: Final = 32  # at a time; webhooks that failed before get at most half of them
_OLDEST_SIGNATURE_SECONDS: Final = 300.0
_MOST_ITEMS: Final = 100
_IDLE_SECONDS: Final = 1.0  # between two looks while nothing is under way
_CLAIM: Final = 60 * SECOND
_LONGEST_PAUSE_SECONDS: Final = 3600.0
_MANY_FAILURES: Final = 5
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
        replayed = exists().where(letters.c.hook == hooks.c.name, letters.c.state == "replay")
        waiting = select(hooks).join(spaces, hooks.c.space == spaces.c.name)
        waiting = waiting.where(hooks.c.active == 1, or_(hooks.c.after < spaces.c.last, replayed))
        with gateway.recording_halts(), gateway.database.reading() as connection:
            rows = connection.execute(waiting.order_by(hooks.c.attempts)).all()
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
            letter = None if row.attempts else _next_replay(connection, row.name)
            items, last = _read_chunk(connection, row, letter)
        problem = self._try(row, items, last, attempt) if items else ""
        with gateway.recording_halts(), gateway.database.writing("deliver") as connection:
            now = gateway.watch.now(connection)
            claimed = (hooks.c.name == row.name) & (hooks.c.next_try == claim)
            values: dict[str, Any]
            if letter is not None:
                _record_replay(connection, letter, last, problem)
                values = {"next_try": now}
            elif not problem:
                values = {"attempts": 0, "next_try": now, "after": last, "since": 0, "problem": ""}
            else:
                values = _failure(connection, row, now, problem)
            connection.execute(update(hooks).where(claimed).values(**values))
        return 0 if problem else len(items)

    def _try(self, row: Row[Any], items: list[Item], last: int, attempt: Attempt) -> str:
        """Send some items; what went wrong, in a few words of our own, or nothing."""
        try:
            status = self._send(row, items, last, attempt)
            problem = "" if 200 <= status < 300 else f"status {status}"
        except AddressRefused as error:
            problem = str(error)
        except Exception as error:  # whatever a receiver does, it is that receiver's failure
            self._journal.error("webhook_failed", error, hook=row.name)
            problem = getattr(error, "verify_message", "") or _in_words(error)
        if problem:
            self._journal.write("webhook_refused", level="warning", hook=row.name, attempt=row.attempts + 1)
        return problem

    def _send(self, row: Row[Any], items: list[Item], last: int, attempt: Attempt) -> int:
        content = {
            "space": row.space,
            "items": [vars(item) for item in items],
            "next": self._gateway.cursors.write(row.space, last),
        }
        body = json.dumps(content, ensure_ascii=False).encode()
        secret = self._gateway.vault.open(bytes(row.secret), about=row.name).decode()
        headers = sign(secret, body) | {"Content-Type": "application/json"}
        allowed = next((hook.allow for hook in self._gateway.space(row.space).webhooks if hook.url == row.url), ())
        return attempt.post(row.url, body, headers, self._context, allowed)


def _in_words(error: Exception) -> str:
    """What is wrong with a receiver, for the operator."""
    match error:
        case TimeoutError():
            return "no answer in time"
        case http.client.HTTPException():
            return "an answer that is no HTTP"
        case socket.gaierror():
            return "its name is not known"
        case OSError(strerror=str(reason)):
            return reason.lower()
    return type(error).__name__


# ---- the queue of a webhook -------------------------------------------------------------------------------------------


def _read_chunk(connection: Connection, row: Row[Any], letter: Row[Any] | None) -> tuple[list[Item], int]:
    """The items of the next attempt, and the position of the last one."""
    if letter is None:
        return read_items(connection, row.space, row.after, max(1, _MOST_ITEMS >> row.attempts))
    limit = min(_MOST_ITEMS, letter.last - letter.sent)
    items, last = read_items(connection, row.space, letter.sent, limit)
    return items, last if items else letter.last


def _failure(connection: Connection, row: Row[Any], now: int, problem: str) -> dict[str, Any]:
    """What a webhook's row becomes after a failure; items that are too old become a dead letter."""
    attempts, since, after = row.attempts + 1, row.since or now, row.after
    if now - since >= GIVE_UP:
        old = (feed.c.space == row.space, feed.c.position > after, feed.c.posted_at <= now - GIVE_UP)
        last = connection.execute(select(func.max(feed.c.position)).where(*old)).scalar()
        if last is not None:
            key = {"hook": row.name, "after": after}
            rest = {"sent": after, "last": last, "given_up_at": now, "problem": problem, "state": "dead"}
            connection.execute(insert(letters).values(**key, **rest))
            after = last
    # the pause is random and depends on failures alone
    longest = min(2.0 ** min(attempts, 12), _LONGEST_PAUSE_SECONDS)
    pause = int(longest * (0.5 + secrets.randbelow(1000) / 1000) * SECOND)
    return {"attempts": attempts, "next_try": now + pause, "after": after, "since": since, "problem": problem}


def _next_replay(connection: Connection, hook: str) -> Row[Any] | None:
    wanted = select(letters).where(letters.c.hook == hook, letters.c.state == "replay").order_by(letters.c.after)
    return connection.execute(wanted.limit(1)).one_or_none()


def _record_replay(connection: Connection, letter: Row[Any], last: int, problem: str) -> None:
    """A dead letter after an attempt: shorter, gone, or dead again."""
    own = (letters.c.hook == letter.hook) & (letters.c.after == letter.after)
    if problem:
        connection.execute(update(letters).where(own).values(state="dead", problem=problem))
    elif last >= letter.last:
        connection.execute(delete(letters).where(own))
    else:
        connection.execute(update(letters).where(own).values(sent=last))


@dataclass(frozen=True)
class WebhookState:
    """What operators see of a webhook. Everything follows from the feed and from the receiver's answers."""

    name: str
    space: str
    host: str
    waiting: int
    """Published items that the receiver has not accepted yet."""
    attempts: int
    failing_seconds: float
    problem: str
    dead: int
    """Items in dead letters."""

    @property
    def is_failing(self) -> bool:
        """Whether an operator should look: five attempts in a row were not accepted, or items were set aside."""
        return self.attempts >= _MANY_FAILURES or self.dead > 0

    def in_words(self) -> str:
        """How it stands, for doctor and page."""
        attempts = f"{self.attempts} attempt{'s' if self.attempts > 1 else ''}"
        failing = f"failing for {self.failing_seconds:,.0f} s ({attempts}, {self.problem}); "
        set_aside = f", {self.dead:,} in dead letters" if self.dead else ""
        return f"{self.host}: {failing if self.attempts else ''}{self.waiting:,} waiting{set_aside}"


def read_webhooks(connection: Connection, now: int) -> list[WebhookState]:
    """The state of all webhooks of the configuration, by name."""
    dead = select(letters.c.hook, func.sum(letters.c.last - letters.c.sent)).group_by(letters.c.hook)
    dead_of = {hook: int(count) for hook, count in connection.execute(dead)}
    rows = select(hooks, spaces.c.last).join(spaces, hooks.c.space == spaces.c.name).where(hooks.c.active == 1)
    return [
        WebhookState(
            name=row.name,
            space=row.space,
            host=urlsplit(row.url).netloc,  # its path may hold a secret
            waiting=int(row.last - row.after),
            attempts=int(row.attempts),
            failing_seconds=max(0, now - row.since) / SECOND if row.since else 0.0,
            problem=row.problem,
            dead=dead_of.get(row.name, 0),
        )
        for row in connection.execute(rows.order_by(hooks.c.name))
    ]


def replay(connection: Connection, name: str | None = None) -> int:
    """Have the dead letters of one webhook or of all sent again; the number of items. They are dead again if that fails."""
    known = connection.execute(select(hooks.c.name).where(hooks.c.active == 1)).scalars().all()
    if name is not None and name not in known:
        raise BadInput("WEBHOOK", got=name, want=f"one of {', '.join(sorted(known)) or 'none: there is no webhook'}")
    own = letters.c.hook.in_(known if name is None else [name])
    count = connection.execute(select(func.sum(letters.c.last - letters.c.sent)).where(own)).scalar()
    connection.execute(update(letters).where(own).values(state="replay"))
    return int(count or 0)


# ---- signatures -----------------------------------------------------------------------------------------------------


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
