"""The Python client: fetch a campaign, randomise here, send the report, and send the same bytes again if the network fails."""

from __future__ import annotations

import json
import secrets
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from peerveil.collect.campaign import RANKINGS_FORMAT
from peerveil.errors import BadInput, PeerveilError, Verbatim
from peerveil.rankings import LocalProtocol, LocalReporter
from peerveil.truth import Client

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

_TRIES: Final = 5
_LONGEST: Final = 50_000_000  # bytes of a description


class Refused(PeerveilError):
    """The service did not take a report. ``status`` is its HTTP status; the message is the service's."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


class CollectClient:
    """One person's side of a campaign.

    Parameters
    ----------
    url
        The service, such as ``"https://collect.example.org"``.
    campaign
        The campaign's id.
    token
        The person's invitation.

    Notes
    -----
    The terms are checked before any answer is taken, and an answer is randomised once: what was sent is remembered, and
    repeated as it is. Keep the object, or its :attr:`sent`, for as long as the campaign lasts.
    """

    def __init__(self, url: str, campaign: str, token: str, *, timeout: float = 30.0) -> None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise BadInput("url", got=url, want="an address such as https://collect.example.org")
        self._base = f"{url.rstrip('/')}/v1/campaigns/{quote(campaign, safe='')}"
        self._token, self._timeout = token, timeout
        self.terms: dict[str, Any] = self._ask(urllib.request.Request(self._base))  # noqa: S310
        self.sent: dict[str, tuple[str, str]] = {}
        """For each question, the report and its key."""
        ranking = self.terms.get("format") == RANKINGS_FORMAT
        self._labels = None if ranking else Client(self.terms)
        self._ranking = _reporter(self.terms) if ranking else None

    @property
    def promise(self) -> str:
        """What is promised, as the campaign puts it."""
        return str(self.terms["promise"])

    @property
    def tasks(self) -> list[tuple[str, str]]:
        """Ids and texts of the tasks."""
        return [(task["id"], task["text"]) for task in self.terms.get("tasks", [])]

    def budget(self) -> dict[str, Any]:
        """Answers left, and the numbers of the questions that were answered with this token."""
        return self._ask(urllib.request.Request(f"{self._base}/budget", headers=self._who()))  # noqa: S310

    def answer(self, task: str, answer: str) -> str:
        """Randomise an answer to a task and send the report; returns what was sent."""
        if self._labels is None:
            raise BadInput("task", got=task, want="vote(ranking): this campaign is about rankings")
        if task not in self.sent:
            self.sent[task] = (self._labels.report(task, answer), secrets.token_hex(16))
        return self._deliver(task)

    def vote(self, ranking: ArrayLike | Sequence[int]) -> str:
        """Send the one report of a ranking (the place of every item, from 0); returns what was sent."""
        if self._ranking is None:
            raise BadInput(
                "ranking", got=Verbatim("a ranking"), want="answer(task, answer): this campaign is about labels"
            )
        if "" not in self.sent:
            self.sent[""] = (self._ranking.report(ranking).to_json(), secrets.token_hex(16))
        return self._deliver("")

    def _deliver(self, name: str) -> str:
        line, key = self.sent[name]
        headers = {**self._who(), "Content-Type": "application/json", "Idempotency-Key": key}
        request = urllib.request.Request(f"{self._base}/reports", line.encode(), headers, method="POST")  # noqa: S310
        for attempt in range(_TRIES):
            try:
                self._ask(request)
            except Refused as error:
                if error.status < 500 or attempt == _TRIES - 1:
                    raise
            except (OSError, TimeoutError):
                if attempt == _TRIES - 1:
                    raise
            else:
                return line
            time.sleep(0.2 * 2**attempt)
        raise AssertionError("unreachable")

    def _who(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"}

    def _ask(self, request: urllib.request.Request) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as answer:  # noqa: S310
                found: dict[str, Any] = json.loads(answer.read(_LONGEST))
                return found
        except urllib.error.HTTPError as error:
            with error:
                raise Refused(error.code, _message(error.read(10_000))) from None


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return "the service refused without saying why"


def _reporter(terms: dict[str, Any]) -> LocalReporter:
    """The rankings room's own reporter for these terms; its thresholds follow from epsilon alone, not from the service."""
    names = ("items", "epsilon", "method", "questions", "seed")
    protocol = LocalProtocol.from_dict({name: terms.get(name) for name in names})
    if protocol.fingerprint != terms.get("protocol"):
        raise BadInput("protocol", got=terms.get("protocol"), want=f"{protocol.fingerprint}, as the terms imply")
    return LocalReporter.of(protocol)
