"""A client in plain Python, and a follower that hands published posts to a platform.

:class:`Follower` reads the feed and calls a function for each item; it writes down how far it came after each. A crash
between the call and the note repeats one item, so the function should know an id that it has handled, as the posters in
:mod:`~peerveil.web.gateway.adapters` do.

>>> client = GatewayClient("http://127.0.0.1:8711", "pv_" + "x" * 43)
>>> client
<GatewayClient of http://127.0.0.1:8711>
"""

import json
import logging
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.files import write_text
from peerveil.web.common.client import Refused, ServiceClient

_TIMEOUT_SECONDS: Final = 30.0
_PAGE: Final = 100
_LONGEST_PAUSE_SECONDS: Final = 600.0
_LOG: Final = logging.getLogger(__name__)


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
        author: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Receipt:
        """Hand in a post. Give your own ``key`` if the attempt should outlive this process.

        With a platform's token, every call about posts needs the ``author``: the account for which it is made.
        """
        body: dict[str, Any] = {"thread": thread, "content": content, "reply_to": reply_to, "batch": batch}
        body |= {} if metadata is None else {"metadata": metadata}
        path = f"/v1/spaces/{quote(space, safe='')}/posts"
        return _receipt(self._call("POST", path, json.dumps(body).encode(), _headers(author, key, keyed=True)))

    def edit(
        self,
        receipt: str,
        content: str,
        *,
        metadata: dict[str, Any] | None = None,
        key: str | None = None,
        author: str | None = None,
    ) -> str | Receipt:
        """Replace the text: of a held post at once, of a published one later (then the answer is a receipt)."""
        body = {"content": content} | ({} if metadata is None else {"metadata": metadata})
        return self._change("PATCH", receipt, json.dumps(body).encode(), _headers(author, key, keyed=True))

    def withdraw(self, receipt: str, *, key: str | None = None, author: str | None = None) -> str | Receipt:
        """Take a held post back, or have a published one removed later (then the answer is a receipt)."""
        return self._change("DELETE", receipt, None, _headers(author, key, keyed=True))

    def status(self, receipt: str, *, author: str | None = None) -> str:
        """``held``, ``posted`` or ``withdrawn``."""
        return str(self._change("GET", receipt, None, _headers(author)))

    def advice(self, space: str, thread: str, *, author: str | None = None) -> dict[str, Any]:
        """What would become of a post now: if it would be a ``follow_up``, warn the author (for so many ``seconds``)."""
        path = f"/v1/spaces/{quote(space, safe='')}/advice?{urlencode({'thread': thread})}"
        return dict(self._call("GET", path, None, _headers(author)))

    def _change(self, method: str, receipt: str, body: bytes | None, headers: dict[str, str]) -> str | Receipt:
        answer = self._call(method, f"/v1/posts/{quote(receipt, safe='')}", body, headers)
        return _receipt(answer) if "receipt" in answer else str(answer["state"])

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


def _set_aside_anew(state: dict[str, Any], item: dict[str, Any]) -> bool:
    """Bring what was set aside about a post up to date with an edit or removal; whether nothing is left to hand over."""
    name, kind = _post_id(item), item.get("kind", "post")
    if kind == "post":
        return False
    about = [entry for entry in state["undelivered"] if _post_id(entry["item"]) == name]
    post = next((entry["item"] for entry in about if entry["item"]["id"] == name), None)
    if kind == "edit" and post is not None:
        post |= {"content": item["content"], "metadata": item["metadata"]}
        return True
    state["undelivered"] = [entry for entry in state["undelivered"] if _post_id(entry["item"]) != name]
    return False


def _post_id(item: dict[str, Any]) -> str:
    """The id of the post that an item is about."""
    return str(item.get("changes") or item["id"])


def _receipt(answer: dict[str, Any]) -> Receipt:
    return Receipt(answer["receipt"], answer["longest_delay"])


def _headers(author: str | None, key: str | None = None, *, keyed: bool = False) -> dict[str, str]:
    named = {} if author is None else {"Peerveil-Author": author.encode().decode("latin-1")}
    return named | ({"Idempotency-Key": secrets.token_hex(16) if key is None else key} if keyed else {})


class Unavailable(Refused):
    """A platform cannot take an item now: hand the same item over again, at least ``retry_after_seconds`` later."""

    def __init__(self, status: int, message: str, retry_after_seconds: float = 0.0) -> None:
        super().__init__(status, "unavailable", message)
        self.retry_after_seconds = retry_after_seconds

    def __reduce__(self) -> tuple[object, ...]:
        return Unavailable, (self.status, str(self), self.retry_after_seconds)


class Undeliverable(Refused):
    """A platform will not take this item, whereas others may pass."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(status, "undeliverable", message)

    def __reduce__(self) -> tuple[object, ...]:
        return Undeliverable, (self.status, str(self))


@dataclass(frozen=True)
class Follower:
    """Follows a space's feed and hands every item to ``handle``, at least once.

    Parameters
    ----------
    client, space
        Where the feed is; the token must be a reader's.
    handle
        Called with each item (``id``, ``thread``, ``content``, ``reply_to``, ``posted_at``, ``kind``, ``changes``,
        ``metadata``), in the order of the feed. Of kind ``edit`` and ``removed`` it is about the post that it ``changes``. An
        item for which it raises :class:`Undeliverable` is logged and set aside in the state file; the others go on. Later
        edits go into what was set aside, and a removal ends it, so that no old text is handed over by :meth:`retry`.
    state
        A file that keeps the cursor, the ids that were handed over since, and what was set aside. One follower uses it at
        a time.
    """

    client: GatewayClient
    space: str
    handle: Callable[[dict[str, Any]], object]
    state: str | Path

    def step(self) -> int:
        """Hand over what is new; how many items it was."""
        state = self._read()
        items, following = self.client.page(self.space, state["cursor"], _PAGE)
        new = [item for item in items if item["id"] not in state["done"]]
        for item in new:
            try:
                if not _set_aside_anew(state, item):
                    self.handle(item)
            except Undeliverable as refusal:
                _LOG.warning("item %s of thread %s set aside: %s", item["id"], item["thread"], refusal)
                state["undelivered"].append({"item": item, "reason": str(refusal)})
            state["done"].append(item["id"])
            self._write(state)
        if items:
            self._write(state | {"cursor": following, "done": []})
        return len(new)

    def run(self, pause: float = 5.0, stop: Callable[[], bool] = lambda: False) -> None:
        """Follow until ``stop()``. While gateway or platform cannot be reached, try again with growing pauses.

        What needs an operator, such as a token that was refused, ends it with :class:`Refused`; nothing is lost then.
        """
        failures = 0
        while not stop():
            try:
                new, wait_seconds, failures = self.step(), 0.0, 0
            except Refused as refusal:
                is_passing = isinstance(refusal, Unavailable) or refusal.status in (0, 429) or refusal.status >= 500
                if not is_passing:
                    raise
                _LOG.warning("trying again: %s", refusal)
                failures += 1
                wait_seconds = getattr(refusal, "retry_after_seconds", 0.0)
                new = 0
            if not new:
                time.sleep(max(wait_seconds, min(pause * 2.0**failures, _LONGEST_PAUSE_SECONDS)))

    def undelivered(self) -> list[dict[str, Any]]:
        """What was set aside: each an ``item`` and a ``reason``."""
        return list(self._read()["undelivered"])

    def retry(self) -> int:
        """Hand over again what was set aside, say after a thread was added; how many items were taken.

        Not while :meth:`run` uses the same file.
        """
        state = self._read()
        waiting = state["undelivered"]
        for entry in waiting:
            try:
                self.handle(entry["item"])
            except Undeliverable as refusal:
                _LOG.warning("item %s stays set aside: %s", entry["item"]["id"], refusal)
                continue
            state = state | {"undelivered": [other for other in state["undelivered"] if other is not entry]}
            self._write(state)
        return len(waiting) - len(state["undelivered"])

    def _read(self) -> dict[str, Any]:
        empty: dict[str, Any] = {"cursor": None, "done": [], "undelivered": []}
        try:
            state = json.loads(Path(self.state).read_text(encoding="utf-8"))
            return empty | {"cursor": state["cursor"], "done": list(state["done"])} | dict(state)
        except FileNotFoundError:
            return empty
        except (ValueError, KeyError, TypeError):
            raise BadInput(str(self.state), got=Verbatim("no state of a follower"), want="its own file") from None

    def _write(self, state: dict[str, Any]) -> None:
        write_text(self.state, json.dumps(state), private=True)
