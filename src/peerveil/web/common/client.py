"""What the clients of all services share: requests with one token, repeated until the service has answered.

It needs only the standard library.
"""

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from peerveil.core.errors import BadInput, PeerveilError

_PAUSES_SECONDS: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
_LONGEST_BYTES: Final = 50_000_000


class Refused(PeerveilError):
    """A service refused a request.

    Attributes
    ----------
    status : int
        The HTTP status; 0 if the service could not be reached.
    name : str
        The short name of the reason.
    """

    def __init__(self, status: int, name: str, message: str) -> None:
        self.status, self.name = status, name
        super().__init__(message)

    def __reduce__(self) -> tuple[object, ...]:
        return Refused, (self.status, self.name, str(self))


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Tokens and signed bodies go where they were sent, and nowhere else."""

    def redirect_request(self, *_: Any) -> None:
        """Follow nothing: a redirect is an error."""


class ServiceClient:
    """Talks to a service with one token.

    Every request may be repeated: those that change something carry a key or name the final state. So a request is sent
    again if the service cannot be reached or fails.
    """

    def __init__(self, url: str, token: str | None, timeout_seconds: float) -> None:
        self._address = read_address(url)
        self._token = token
        self._timeout_seconds = timeout_seconds
        self._opener = urllib.request.build_opener(NoRedirects)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._address.scheme}://{self._address.netloc}>"

    def _call(self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Any:
        """The JSON of the answer, or :class:`Refused`."""
        for pause_seconds in (*_PAUSES_SECONDS, None):
            try:
                return self._send(method, path, body, headers or {})
            except Refused as refusal:
                if pause_seconds is None or 0 < refusal.status < 500 or refusal.name == "halted":
                    raise
                time.sleep(pause_seconds)
        raise AssertionError("unreachable")

    def _send(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Any:
        token = {} if self._token is None else {"Authorization": f"Bearer {self._token}"}
        kind = {} if body is None else {"Content-Type": "application/json"}
        base = f"{self._address.scheme}://{self._address.netloc}{self._address.path.rstrip('/')}"
        request = urllib.request.Request(base + path, body, {**headers, **token, **kind}, method=method)  # noqa: S310
        try:
            with self._opener.open(request, timeout=self._timeout_seconds) as response:
                status, content = 200, response.read(_LONGEST_BYTES)
                if response.length and len(content) < _LONGEST_BYTES:  # cut off, as by a server that was killed
                    raise http.client.IncompleteRead(content)
        except urllib.error.HTTPError as error:
            with error:
                status, content = error.code, error.read(_LONGEST_BYTES)
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise Refused(0, "unreachable", f"{self!r}: {str(reason) or type(reason).__name__}") from None
        try:
            answer = json.loads(content)
            if status < 400:
                return answer
            refusal = Refused(status, str(answer["error"]), str(answer["message"]))
        except (ValueError, KeyError, TypeError):
            refusal = Refused(status, "unreadable", f"{self!r}: an answer that is not JSON of this service")
        raise refusal


def read_address(url: str, argument: str = "url") -> SplitResult:
    """The parts of a service's address; one that could be spelled in several ways is refused."""
    want = "an address such as https://peerveil.example.org, without a query, dots or doubled slashes in its path"
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise BadInput(argument, got=url, want=want) from None
    steps = parts.path.rstrip("/").split("/")[1:]
    odd = parts.query or parts.fragment or parts.username or "%" in parts.path or {"", ".", ".."} & set(steps)
    if not usable or odd or not url.isprintable() or " " in url:
        raise BadInput(argument, got=url, want=want)
    return parts
