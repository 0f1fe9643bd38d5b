"""The newest posts as Atom and RSS, for readers that speak those."""

from __future__ import annotations

from datetime import datetime
from email.utils import format_datetime
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from peerveil.web.gateway.feed import Item

_NEVER = "1970-01-01T00:00:00Z"


def atom(space: str, items: Sequence[Item], base: str = "") -> str:
    """An Atom feed (RFC 4287) of some items, newest first.

    >>> "<title>iclr</title>" in atom("iclr", [])
    True
    """
    entries = "".join(
        f"<entry><id>urn:peerveil:{item.id}</id><title>{_text(item.thread)}</title>"
        f"<updated>{item.posted_at}</updated>{_reply(item)}"
        f'<content type="text">{_text(item.content)}</content></entry>\n'
        for item in items
    )
    updated = items[0].posted_at if items else _NEVER
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        '<feed xmlns="http://www.w3.org/2005/Atom" xmlns:thr="http://purl.org/syndication/thread/1.0">\n'
        f"<id>urn:peerveil:space:{_text(space)}</id><title>{_text(space)}</title><updated>{updated}</updated>\n"
        f'<author><name>{_text(space)}</name></author><link rel="self" href={quoteattr(_link(base, space, "atom"))}/>\n'
        f"{entries}</feed>\n"
    )


def rss(space: str, items: Sequence[Item], base: str = "") -> str:
    """An RSS 2.0 feed of some items, newest first."""
    entries = "".join(
        f'<item><guid isPermaLink="false">urn:peerveil:{item.id}</guid><title>{_text(item.thread)}</title>'
        f"<pubDate>{format_datetime(datetime.fromisoformat(item.posted_at))}</pubDate>"
        f"<description>{_text(item.content)}</description></item>\n"
        for item in items
    )
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<rss version="2.0"><channel>\n'
        f"<title>{_text(space)}</title><link>{_text(_link(base, space, 'rss'))}</link>"
        f"<description>Posts of {_text(space)}</description>\n{entries}</channel></rss>\n"
    )


def _reply(item: Item) -> str:
    return "" if item.reply_to is None else f'<thr:in-reply-to ref="urn:peerveil:{item.reply_to}"/>'


def _link(base: str, space: str, kind: str) -> str:
    return f"{base.rstrip('/')}/v1/spaces/{space}/feed.{kind}"


def _text(text: str) -> str:
    """Escaped, and without the characters that XML cannot hold."""
    kept = "".join(
        c for c in text if c in "\t\n\r" or " " <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c > "\uffff"
    )
    return escape(kept)
