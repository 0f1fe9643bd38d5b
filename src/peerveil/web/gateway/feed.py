"""The feed: what readers see, in the order in which it appeared, by a cursor that never skips and never repeats.

Positions are given out under the lock of the space's row, which a release holds until it is committed. So whoever sees
position n sees all positions before it. A cursor is a position with a keyed check, bound to the space and to this copy
of the database: a forged one is refused, and one from before a restore is *gone* rather than silently wrong.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import select

from peerveil.web.common.errors import Gone, Unprocessable
from peerveil.web.gateway.tables import feed

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from peerveil.web.common import Digests

MOST: Final = 500
"""Items in one answer."""

_CURSOR: Final = re.compile(r"[A-Za-z0-9_-]{22,24}={0,2}")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Item:
    """A post as the public sees it."""

    id: str
    thread: str
    content: str
    reply_to: str | None
    posted_at: str
    position: int

    def to_dict(self) -> dict[str, Any]:
        """What is sent: not the position, which the cursor stands for."""
        return {
            "id": self.id,
            "thread": self.thread,
            "content": self.content,
            "reply_to": self.reply_to,
            "posted_at": self.posted_at,
        }


def posted_words(moment: int) -> str:
    """A time of the grid as text, no finer than it is.

    >>> posted_words(120_000_000), posted_words(1_500_000)
    ('1970-01-01T00:02:00Z', '1970-01-01T00:00:01.500Z')
    """
    exact = _EPOCH + timedelta(microseconds=moment)
    fine = "seconds" if moment % 1_000_000 == 0 else "milliseconds" if moment % 1000 == 0 else "microseconds"
    return exact.isoformat(timespec=fine).replace("+00:00", "Z")


def read_items(connection: Connection, space: str, after: int, limit: int) -> list[Item]:
    """The items behind a position."""
    rows = connection.execute(
        select(feed).where(feed.c.space == space, feed.c.position > after).order_by(feed.c.position).limit(limit)
    )
    return [
        Item(row.id, row.thread, row.content, row.reply_to, posted_words(row.posted_at), row.position) for row in rows
    ]


def latest_items(connection: Connection, space: str, limit: int) -> list[Item]:
    """The newest items, newest first."""
    rows = connection.execute(select(feed).where(feed.c.space == space).order_by(feed.c.position.desc()).limit(limit))
    return [
        Item(row.id, row.thread, row.content, row.reply_to, posted_words(row.posted_at), row.position) for row in rows
    ]


class Cursors:
    """Positions as opaque texts."""

    def __init__(self, digests: Digests, epoch: str) -> None:
        self._digests = digests
        self._epoch = epoch

    def write(self, space: str, position: int) -> str:
        """The cursor behind a position."""
        raw = position.to_bytes(8, "big")
        return base64.urlsafe_b64encode(bytes.fromhex(self._epoch[:8]) + raw + self._check(space, raw)).decode()

    def read(self, space: str, cursor: str | None) -> int:
        """The position that a cursor stands for; 0 where there is none."""
        if cursor is None:
            return 0
        wrong = Unprocessable("after: the 'next' of an earlier answer of this feed, or nothing")
        try:
            raw = base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raise wrong from None
        if len(raw) != 18:
            raise wrong
        if raw[:4] != bytes.fromhex(self._epoch[:8]):
            raise Gone("after: a cursor from before this database was restored; read the feed again from its beginning")
        if raw[12:] != self._check(space, raw[4:12]):
            raise wrong
        return int.from_bytes(raw[4:12], "big")

    def _check(self, space: str, raw: bytes) -> bytes:
        return bytes.fromhex(self._digests("cursor", self._epoch, space, raw))[:6]
