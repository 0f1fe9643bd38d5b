"""Edits and removals of published posts: new entries of the feed, which only grows, so nobody is skipped.

**What readers see.** An entry of kind ``edit`` has the new text and names the post that it ``changes``; one of kind ``removed``
has none. Both repeat what the post replies to, and an edit its metadata, unless the edit names others: so a platform can follow
from the entry alone. Earlier entries about the same post get the new text with it, or lose theirs (and become ``removed``),
so that no text that its author took back can be read any more.

**An author's edit or removal is an event of that person**, taken like a post (:mod:`peerveil.web.gateway.intake`): its arrival
counts in the person's history, it is a follow-up or not, its delay is drawn by the same mechanism, once, and it appears on
the grid, in random order among everything else that is due. *Neighbors* are histories in which one event, a post or a change,
came at another time. The proof of :mod:`peerveil.timing` speaks of events with a status and a delay each and not of what they
say; that an entry names another post is content, like ``reply_to``. So the guarantee is that of a post. ∎

What is not hidden: that the author of a post edited it is public, as is who ``changes`` what. A person has at most
one change of a post on its way: a later edit or removal replaces its text, as with every held post, and draws nothing.

**Exactly once.** The event has an idempotency key, an entry in the journal and a public id of its own, like a post. While a post
or its change is just being published (its outcome is not known yet), requests to change it are refused with 503, so that no
change can appear before what it changes, whatever crashes.

**An operator's take-down** (a law, abuse) appears at once and is on record. It is not hidden, and need not be: it depends on what
is public and on the operator. An edit that was on its way to a post that is gone appears as one more removal.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, or_, select, update

from peerveil.web.common.database import among, insert_rows
from peerveil.web.common.errors import NotFound, Unprocessable
from peerveil.web.gateway.posts import POSTING, REMOVAL
from peerveil.web.gateway.tables import feed, spaces

if TYPE_CHECKING:
    from peerveil.web.common import Identity
    from peerveil.web.gateway.core import Gateway


def apply_changes(connection: Connection, space: str, items: list[dict[str, Any]]) -> None:
    """Bring earlier entries up to date with new ones that change them; have the lock of the space's row."""
    changes = [item for item in items if item["changes"] is not None]
    if not changes:
        return
    named = among(connection, feed.c.id, sorted(item["changes"] for item in changes))
    columns = select(feed.c.id, feed.c.kind, feed.c.reply_to, feed.c.metadata)
    posts = {row.id: row for row in connection.execute(columns.where(named))}
    for item in changes:
        post = posts.get(item["changes"])
        item["reply_to"] = None if post is None else post.reply_to
        if post is not None and post.kind == REMOVAL:
            item["kind"] = REMOVAL
        if item["kind"] == REMOVAL:
            item |= {"content": "", "metadata": None}
            values: dict[str, Any] = {"kind": REMOVAL, "content": "", "metadata": None}
        else:
            if post is not None and item["metadata"] is None:
                item["metadata"] = post.metadata
            values = {"content": item["content"], "metadata": item["metadata"]}
        about = or_(feed.c.id == item["changes"], feed.c.changes == item["changes"])
        connection.execute(update(feed).where(feed.c.space == space, about).values(**values))


def take_down(gateway: Gateway, operator: Identity, space: str, name: str, reason: str) -> None:
    """Remove a published post at once, for an operator. It can be repeated; only the first time does something."""
    from peerveil.web.gateway.reveal import check_reason, write_audit

    operator.require(("operator",), space)
    check_reason(reason, "reason")
    own = gateway.space(space)
    with gateway.acting("publish") as (connection, now):
        raised = update(spaces).where(spaces.c.name == space).values(last=spaces.c.last + 1).returning(spaces.c.last)
        position = int(connection.execute(raised).scalar_one())  # and the row is locked until the commit
        row = connection.execute(select(feed).where(feed.c.space == space, feed.c.id == name)).one_or_none()
        if row is not None and row.changes is not None:
            raise Unprocessable("id: this is a change; give the id of the post that it changes")
        if row is None:
            raise NotFound("no published post of this space has this id")
        if row.kind != POSTING:
            connection.execute(update(spaces).where(spaces.c.name == space).values(last=position - 1))
            return
        item = {
            "space": space,
            "id": gateway.digests("removal", name)[:32],
            "thread": row.thread,
            "content": "",
            "reply_to": row.reply_to,
            "metadata": None,
            "kind": REMOVAL,
            "changes": name,
            "posted_at": own.grid_time(now),
            "position": position,
        }
        apply_changes(connection, space, [item])
        insert_rows(connection, feed, [item])
        write_audit(gateway, connection, operator, "removal", name, reason=reason)


def read_metadata(text: str | None) -> dict[str, Any] | None:
    """The metadata of a row."""
    value = None if text is None else json.loads(text)
    return value if isinstance(value, dict) else None
