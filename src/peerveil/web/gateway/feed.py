"""The feed: what readers see, in the order in which it appeared, by a cursor that never skips and never repeats.

Positions are assigned under the lock of the space's row, which a worker holds until it has committed. So whoever sees
position n sees all positions before it. A cursor is a position with a keyed check, bound to the space and to this copy
of the database: a forged one is refused, and one from before a restore is *gone* rather than silently wrong.

The newest posts are also there as Atom (:func:`atom`) and RSS (:func:`rss`).
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from sqlalchemy import Connection, select

from peerveil.web.common import Digests
from peerveil.web.common.errors import Gone, Unprocessable
from peerveil.web.gateway.changes import read_metadata
from peerveil.web.gateway.posts import REMOVAL
from peerveil.web.gateway.tables import feed


@dataclass(frozen=True)
class Item:
    """A post as readers see it."""

    id: str
    thread: str
    content: str
    reply_to: str | None
    posted_at: str = field(metadata={"description": "A moment of the space's time grid."})
    kind: str = field(default="post", metadata={"description": "post, edit or removed."})
    changes: str | None = field(default=None, metadata={"description": "The id of the post that this changes."})
    metadata: dict[str, Any] | None = field(
        default=None, metadata={"description": "What the platform gave along, last; null if nothing, or if removed."}
    )


def posted_words(moment: int) -> str:
    """A time of the grid as text, no finer than it is.

    >>> posted_words(120_000_000), posted_words(1_500_000)
    ('1970-01-01T00:02:00Z', '1970-01-01T00:00:01.500Z')
    """
    exact = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment)
    unit = "seconds" if moment % 1_000_000 == 0 else "milliseconds" if moment % 1000 == 0 else "microseconds"
    return exact.isoformat(timespec=unit).replace("+00:00", "Z")


def read_items(
    connection: Connection, space: str, after: int, limit: int, *, newest: bool = False
) -> tuple[list[Item], int]:
    """The items behind a position (the ``newest`` first, if so), and the position of the last one."""
    order = feed.c.position.desc() if newest else feed.c.position
    query = select(feed).where(feed.c.space == space, feed.c.position > after).order_by(order).limit(limit)
    rows = connection.execute(query).all()
    items = [
        Item(
            row.id, row.thread, row.content, row.reply_to, posted_words(row.posted_at), row.kind, row.changes,
            read_metadata(row.metadata),
        )
        for row in rows
    ]  # fmt: skip
    return items, rows[-1].position if rows else after


@dataclass(frozen=True)
class Cursors:
    """Positions as opaque texts."""

    _digests: Digests
    _epoch: str

    def write(self, space: str, position: int) -> str:
        """The cursor behind a position."""
        raw = position.to_bytes(8, "big")
        return base64.urlsafe_b64encode(bytes.fromhex(self._epoch[:8]) + raw + self._check(space, raw)).decode()

    def read(self, space: str, cursor: str | None) -> int:
        """The position that a cursor stands for; 0 if there is none."""
        if cursor is None:
            return 0
        try:
            raw = base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True)
        except ValueError:
            raw = b""
        if len(raw) == 18 and raw[:4] != bytes.fromhex(self._epoch[:8]):
            raise Gone("after: a cursor from before this database was restored; read the feed again from its beginning")
        if len(raw) != 18 or raw[12:] != self._check(space, raw[4:12]):
            raise Unprocessable("after: the 'next' of an earlier answer of this feed, or nothing")
        return int.from_bytes(raw[4:12], "big")

    def _check(self, space: str, raw: bytes) -> bytes:
        return bytes.fromhex(self._digests("cursor", self._epoch, space, raw))[:6]


def atom(space: str, items: Sequence[Item], base: str = "", title: str = "") -> str:
    """An Atom feed (RFC 4287) of some items, newest first. What was removed is a tombstone (RFC 6721).

    >>> "<title>iclr</title>" in atom("iclr", [])
    True
    """
    entries = "".join(
        f'<at:deleted-entry ref="urn:peerveil:{_post_id(item)}" when="{item.posted_at}"/>\n'
        if item.kind == REMOVAL
        else f"<entry><id>urn:peerveil:{_post_id(item)}</id><title>{_text(item.thread)}</title>"
        f"<updated>{item.posted_at}</updated>{_reply(item)}"
        f'<content type="text">{_text(item.content)}</content></entry>\n'
        for item in _latest(items)
    )
    updated = items[0].posted_at if items else posted_words(0)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        '<feed xmlns="http://www.w3.org/2005/Atom" xmlns:thr="http://purl.org/syndication/thread/1.0" '
        'xmlns:at="http://purl.org/atompub/tombstones/1.0">\n'
        f"<id>urn:peerveil:space:{_text(space)}</id><title>{_text(title or space)}</title><updated>{updated}</updated>\n"
        f'<author><name>{_text(space)}</name></author><link rel="self" href={quoteattr(_link(base, space, "atom"))}/>\n'
        f"{entries}</feed>\n"
    )


def rss(space: str, items: Sequence[Item], base: str = "", title: str = "") -> str:
    """An RSS 2.0 feed of some items, newest first."""
    entries = "".join(
        f'<item><guid isPermaLink="false">urn:peerveil:{_post_id(item)}</guid><title>{_text(item.thread)}</title>'
        f"<pubDate>{format_datetime(datetime.fromisoformat(item.posted_at))}</pubDate>"
        f"<description>{_text(item.content)}</description></item>\n"
        for item in _latest(items)
        if item.kind != REMOVAL
    )
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<rss version="2.0"><channel>\n'
        f"<title>{_text(title or space)}</title><link>{_text(_link(base, space, 'rss'))}</link>"
        f"<description>Posts of {_text(space)}</description>\n{entries}</channel></rss>\n"
    )


def _post_id(item: Item) -> str:
    return item.changes or item.id


def _latest(items: Sequence[Item]) -> list[Item]:
    """Of items, newest first, the newest one about each post."""
    newest: dict[str, Item] = {}
    for item in items:
        newest.setdefault(_post_id(item), item)
    return list(newest.values())


def _reply(item: Item) -> str:
    return "" if item.reply_to is None else f'<thr:in-reply-to ref="urn:peerveil:{item.reply_to}"/>'


def _link(base: str, space: str, kind: str) -> str:
    return f"{base.rstrip('/')}/v1/spaces/{space}/feed.{kind}"


def _text(text: str) -> str:
    """Escaped, and without the characters that XML cannot hold."""
    allowed = (c for c in text if c in "\t\n\r" or " " <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c > "\uffff")
    return escape("".join(allowed))
