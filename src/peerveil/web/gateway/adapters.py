"""Adapters: hand released posts to a platform, one after another, without losing or repeating any that it can recognize.

:class:`Follower` reads the feed and calls a function for each item; it writes down how far it came after each. A crash
between the call and the note repeats one item, so the function should know an id that it has seen, as
:class:`OpenReviewPoster` does.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.files import write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from peerveil.web.gateway.client import GatewayClient

_PAGE: Final = 100


class Follower:
    """Follows a space's feed and hands every item to ``handle``.

    Parameters
    ----------
    client, space
        Where the feed is; the token must be a reader's.
    handle
        Called with each item (``id``, ``thread``, ``content``, ``reply_to``, ``posted_at``), in the order of the feed.
    state
        A file that keeps the cursor and the ids that were handed over since.
    """

    def __init__(
        self, client: GatewayClient, space: str, handle: Callable[[dict[str, Any]], object], state: str | Path
    ) -> None:
        self._client = client
        self._space = space
        self._handle = handle
        self._state = Path(state)

    def step(self) -> int:
        """Hand over what is new; how many items it was."""
        cursor, done = self._read()
        items, following = self._client.page(self._space, cursor, _PAGE)
        count = 0
        for item in items:
            if item["id"] in done:
                continue
            self._handle(item)
            done.add(item["id"])
            self._write(cursor, done)
            count += 1
        if items:
            self._write(following, set())
        return count

    def run(self, pause: float = 5.0, stop: Callable[[], bool] = lambda: False) -> None:
        """Follow until ``stop()``."""
        while not stop():
            if not self.step():
                time.sleep(pause)

    def _read(self) -> tuple[str | None, set[str]]:
        if not self._state.exists():
            return None, set()
        try:
            found = json.loads(self._state.read_text(encoding="utf-8"))
            return found["cursor"], set(found["done"])
        except (ValueError, KeyError, TypeError):
            raise BadInput(str(self._state), got=Verbatim("no state of a follower"), want="its own file") from None

    def _write(self, cursor: str | None, done: set[str]) -> None:
        write_text(self._state, json.dumps({"cursor": cursor, "done": sorted(done)}))


class OpenReviewClient(Protocol):
    """The two calls of OpenReview's own client (API 2) that the poster needs; the platform supplies and signs it in."""

    def post_note_edit(self, **edit: Any) -> Any:
        """Post a note edit."""

    def get_notes(self, **query: Any) -> Any:
        """Find notes."""


class OpenReviewPoster:
    """Posts every released item as a note, at release and not before: OpenReview keeps each note's own milliseconds.

    Parameters
    ----------
    client
        OpenReview's client, signed in by the platform.
    invitation
        The invitation to post under; ``{thread}`` stands for the item's thread, as in
        ``"Venue/Submission{thread}/-/Public_Comment"``.
    signature
        Whose name stands under the notes.
    forums
        The forum of each thread. Threads that it lacks are taken for forums themselves.
    readers
        Who may read them.

    Notes
    -----
    The item's id goes into the note (``peerveil_id``), and is looked for before posting: an item that is handed over twice
    is posted once. The mapping from items to notes, for replies, is kept by the platform in those same notes.
    """

    def __init__(
        self,
        client: OpenReviewClient,
        *,
        invitation: str,
        signature: str,
        forums: Mapping[str, str] | None = None,
        readers: tuple[str, ...] = ("everyone",),
    ) -> None:
        self._client = client
        self._invitation = invitation
        self._signature = signature
        self._forums = dict(forums or {})
        self._readers = list(readers)

    def __call__(self, item: Mapping[str, Any]) -> None:
        """Post one item, unless it is there."""
        forum = self._forums.get(item["thread"], item["thread"])
        there = {self._id(note): note for note in self._client.get_notes(forum=forum)}
        if item["id"] in there:
            return
        parent = there.get(item["reply_to"]) if item["reply_to"] is not None else None
        note = {
            "forum": forum,
            "replyto": forum if parent is None else _field(parent, "id"),
            "signatures": [self._signature],
            "readers": self._readers,
            "content": {"comment": {"value": item["content"]}, "peerveil_id": {"value": item["id"]}},
        }
        self._client.post_note_edit(
            invitation=self._invitation.replace("{thread}", item["thread"]), signatures=[self._signature], note=note
        )

    @staticmethod
    def _id(note: Any) -> str | None:
        content = _field(note, "content") or {}
        value = content.get("peerveil_id", {})
        return value.get("value") if isinstance(value, dict) else value


def _field(note: Any, name: str) -> Any:
    return note.get(name) if isinstance(note, dict) else getattr(note, name, None)
