"""A small client in plain Python: it needs nothing but the standard library.

>>> client = GatewayClient("http://127.0.0.1:8711", "pv_" + "x" * 43)
>>> client
<GatewayClient of http://127.0.0.1:8711>
"""

from __future__ import annotations

import http.client
import json
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode, urlsplit

from peerveil.core.errors import BadInput, PeerveilError

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATIENCE: Final = 30.0
_PAUSES: Final = (0.2, 0.5, 1.0, 2.0, 5.0)


class Refused(PeerveilError):
    """The gateway has refused a request.

    Attributes
    ----------
    status : int
        The HTTP status; 0 where the gateway could not be reached.
    name : str
        The short name of the reason.
    """

    def __init__(self, status: int, name: str, message: str) -> None:
        self.status, self.name = status, name
        super().__init__(message)

    def __reduce__(self) -> tuple[object, ...]:
        return Refused, (self.status, self.name, str(self))


@dataclass(frozen=True)
class Receipt:
    """A post that was taken: keep the receipt to edit, withdraw or ask."""

    receipt: str
    longest_delay: int


class GatewayClient:
    """Talks to a gateway with one token.

    Submitting is safe to repeat: a request whose answer was lost is sent again with the same key.
    """

    def __init__(self, url: str, token: str | None = None, *, patience: float = _PATIENCE) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise BadInput("url", got=url, want="the gateway's address, such as https://gateway.example.org")
        self._parts = parts
        self._token = token
        self._patience = patience

    def __repr__(self) -> str:
        return f"<GatewayClient of {self._parts.scheme}://{self._parts.netloc}>"

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
        body: dict[str, Any] = {"thread": thread, "content": content}
        if reply_to is not None:
            body["reply_to"] = reply_to
        if batch:
            body["batch"] = True
        headers = {"Idempotency-Key": secrets.token_hex(16) if key is None else key}
        answer = self._call("POST", f"/v1/spaces/{quote(space, safe='')}/posts", body, headers)
        return Receipt(answer["receipt"], answer["longest_delay"])

    def edit(self, receipt: str, content: str) -> str:
        """Another text for a held post."""
        return str(self._call("PATCH", f"/v1/posts/{quote(receipt, safe='')}", {"content": content})["state"])

    def withdraw(self, receipt: str) -> str:
        """Take a held post back."""
        return str(self._call("DELETE", f"/v1/posts/{quote(receipt, safe='')}")["state"])

    def status(self, receipt: str) -> str:
        """``held``, ``posted`` or ``withdrawn``."""
        return str(self._call("GET", f"/v1/posts/{quote(receipt, safe='')}")["state"])

    def page(self, space: str, after: str | None = None, limit: int = 100) -> tuple[list[dict[str, Any]], str]:
        """Items of the feed behind a cursor, and the cursor behind them."""
        query = {"limit": limit} | ({} if after is None else {"after": after})
        answer = self._call("GET", f"/v1/spaces/{quote(space, safe='')}/feed?{urlencode(query)}")
        return answer["items"], answer["next"]

    def feed(self, space: str, after: str | None = None) -> Iterator[dict[str, Any]]:
        """All items of the feed that are there now."""
        while True:
            items, following = self.page(space, after, 500)
            yield from items
            if not items:
                return
            after = following

    def healthy(self) -> bool:
        """Whether the gateway takes and releases posts."""
        try:
            return bool(self._call("GET", "/healthz")["status"] == "ok")
        except Refused:
            return False

    def _call(
        self, method: str, path: str, body: dict[str, Any] | None = None, headers: dict[str, str] | None = None
    ) -> Any:
        for pause in (*_PAUSES, None):
            try:
                return self._once(method, path, body, headers or {})
            except Refused as refusal:
                # every request may be repeated: submitting carries its key, the others say what is to be
                if pause is None or refusal.status not in (0, 503) or refusal.name == "halted":
                    raise
                time.sleep(pause)
        raise AssertionError("unreachable")

    def _once(self, method: str, path: str, body: dict[str, Any] | None, headers: dict[str, str]) -> Any:
        kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        assert self._parts.hostname is not None
        connection = kind(self._parts.hostname, self._parts.port, timeout=self._patience)
        sent = dict(headers)
        if self._token is not None:
            sent["Authorization"] = f"Bearer {self._token}"
        raw = None
        if body is not None:
            raw = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        try:
            connection.request(method, self._parts.path.rstrip("/") + path, raw, sent)
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise Refused(0, "unreachable", f"{self!r}: {str(error) or type(error).__name__}") from None
        finally:
            connection.close()
        try:
            found = json.loads(text)
        except ValueError:
            raise Refused(answer.status, "unreadable", f"{self!r}: an answer that is not JSON") from None
        if answer.status >= 400:
            raise Refused(answer.status, str(found.get("error")), str(found.get("message")))
        return found
