"""A client in plain Python, and adapters that hand published posts to a platform.

:class:`Follower` reads the feed and calls a function for each item; it writes down how far it came after each. A crash
between the call and the note repeats one item, so the function should know an id that it has handled, as
:class:`OpenReviewPoster` does.

>>> client = GatewayClient("http://127.0.0.1:8711", "pv_" + "x" * 43)
>>> client
<GatewayClient of http://127.0.0.1:8711>
"""

import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote, urlencode

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.files import write_text
from peerveil.web.common.client import Refused, ServiceClient

_TIMEOUT_SECONDS: Final = 30.0
_PAGE: Final = 100


@dataclass(frozen=True)
class Receipt:
    """A post that was taken. Keep the receipt to edit or withdraw the post, or to see its state."""

    receipt: str
    longest_delay: int


class GatewayClient(ServiceClient):
    """Talks to a gateway with one token.

    Submitting is safe to repeat: a request whose answer was lost is sent again with the same key.
    """

    def __init__(self, url: str, token: str | None = None, *, patience: float = _TIMEOUT_SECONDS) -> None:
        super().__init__(url, token, patience)

    def submit(
        self,
        space: str,
        thread: str,
        content: str,
        *,
        reply_to: str | None = None,
        batch: bool = False,
        key: str | None = None,
    ) -> Receipt:
        """Hand in a post. Give your own ``key`` if the attempt should outlive this process."""
        body = {"thread": thread, "content": content, "reply_to": reply_to, "batch": batch}
        headers = {"Idempotency-Key": secrets.token_hex(16) if key is None else key}
        path = f"/v1/spaces/{quote(space, safe='')}/posts"
        return Receipt(**self._call("POST", path, json.dumps(body).encode(), headers))

    def edit(self, receipt: str, content: str) -> str:
        """Replace the text of a held post."""
        return self._state("PATCH", receipt, json.dumps({"content": content}).encode())

    def withdraw(self, receipt: str) -> str:
        """Take a held post back."""
        return self._state("DELETE", receipt)

    def status(self, receipt: str) -> str:
        """``held``, ``posted`` or ``withdrawn``."""
        return self._state("GET", receipt)

    def _state(self, method: str, receipt: str, body: bytes | None = None) -> str:
        return str(self._call(method, f"/v1/posts/{quote(receipt, safe='')}", body)["state"])

    def page(self, space: str, after: str | None = None, limit: int = _PAGE) -> tuple[list[dict[str, Any]], str]:
        """Items of the feed behind a cursor, and the cursor behind them."""
        query = {"limit": limit} | ({} if after is None else {"after": after})
        answer = self._call("GET", f"/v1/spaces/{quote(space, safe='')}/feed?{urlencode(query)}")
        return answer["items"], answer["next"]

    def feed(self, space: str, after: str | None = None) -> Iterator[dict[str, Any]]:
        """All items of the feed that are there now."""
        items, after = self.page(space, after, 500)
        while items:
            yield from items
            items, after = self.page(space, after, 500)

    def healthy(self) -> bool:
        """Whether the gateway takes and publishes posts."""
        try:
            return bool(self._call("GET", "/readyz")["status"] == "ready")
        except Refused:
            return False


@dataclass(frozen=True)
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

    client: GatewayClient
    space: str
    handle: Callable[[dict[str, Any]], object]
    state: str | Path

    def step(self) -> int:
        """Hand over what is new; how many items it was."""
        cursor, done = self._read()
        items, following = self.client.page(self.space, cursor, _PAGE)
        new = [item for item in items if item["id"] not in done]
        for item in new:
            self.handle(item)
            done.add(item["id"])
            self._write(cursor, done)
        if items:
            self._write(following, set())
        return len(new)

    def run(self, pause: float = 5.0, stop: Callable[[], bool] = lambda: False) -> None:
        """Follow until ``stop()``."""
        while not stop():
            if not self.step():
                time.sleep(pause)

    def _read(self) -> tuple[str | None, set[str]]:
        try:
            state = json.loads(Path(self.state).read_text(encoding="utf-8"))
            return state["cursor"], set(state["done"])
        except FileNotFoundError:
            return None, set()
        except (ValueError, KeyError, TypeError):
            raise BadInput(str(self.state), got=Verbatim("no state of a follower"), want="its own file") from None

    def _write(self, cursor: str | None, done: set[str]) -> None:
        write_text(self.state, json.dumps({"cursor": cursor, "done": sorted(done)}))


class OpenReviewClient(Protocol):
    """The two calls of OpenReview's own client (API 2) that the poster needs; the platform supplies and signs it in."""

    def post_note_edit(self, **edit: Any) -> Any:
        """Post a note edit."""

    def get_notes(self, **query: Any) -> Any:
        """Find notes."""


@dataclass(frozen=True, kw_only=True)
class OpenReviewPoster:
    """Posts every published item as a note, when it is published and not before: OpenReview keeps each note's own
    milliseconds.

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

    client: OpenReviewClient = field(kw_only=False)
    invitation: str
    signature: str
    forums: Mapping[str, str] | None = None
    readers: tuple[str, ...] = ("everyone",)

    def __call__(self, item: Mapping[str, Any]) -> None:
        """Post one item, unless it is there."""
        forum = (self.forums or {}).get(item["thread"], item["thread"])
        notes = {self._item_id(note): note for note in self.client.get_notes(forum=forum)}
        if item["id"] in notes:
            return
        parent = notes.get(item["reply_to"]) if item["reply_to"] is not None else None
        note = {
            "forum": forum,
            "replyto": forum if parent is None else _field(parent, "id"),
            "signatures": [self.signature],
            "readers": list(self.readers),
            "content": {"comment": {"value": item["content"]}, "peerveil_id": {"value": item["id"]}},
        }
        self.client.post_note_edit(
            invitation=self.invitation.replace("{thread}", item["thread"]), signatures=[self.signature], note=note
        )

    @staticmethod
    def _item_id(note: Any) -> str | None:
        content = _field(note, "content") or {}
        value = content.get("peerveil_id", {})
        return value.get("value") if isinstance(value, dict) else value


def _field(note: Any, name: str) -> Any:
    return note.get(name) if isinstance(note, dict) else getattr(note, name, None)
