"""The Python client: fetch a campaign, randomize here, store the draw, send it, and send the same bytes again if that fails."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from peerveil.core.errors import BadInput, PeerveilError, Verbatim
from peerveil.rankings import LocalProtocol
from peerveil.truth import Client
from peerveil.truth.wire import visible_text
from peerveil.web.collect.campaign import RANKINGS_FORMAT
from peerveil.web.collect.device import Device

if TYPE_CHECKING:
    import os
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
    device
        The file in which this device keeps what it sent; by default ``peerveil/device.db`` in the user's folder for state.
    new_person
        Say so if somebody else uses the device from now on. Otherwise a fresh invitation does not draw again.

    Notes
    -----
    The terms are checked before any answer is taken. The first answer pins them: the device never gives more answers in
    all than they said, whatever the service claims later, and changed terms raise :class:`TermsChanged`
    until :meth:`agree`. A question, identified by what a person sees of it, is randomized once: another object, another
    invitation or another id gets the first report again. See :mod:`peerveil.web.collect.device`.
    """

    def __init__(
        self,
        url: str,
        campaign: str,
        token: str,
        *,
        timeout: float = 30.0,
        device: str | os.PathLike[str] | None = None,
        new_person: bool = False,
    ) -> None:
        service = _service_of(url)
        self._base = f"{service}/v1/campaigns/{quote(campaign, safe='')}"
        self._token, self._timeout = token, timeout
        self.terms: dict[str, Any] = self._ask(urllib.request.Request(self._base))  # noqa: S310
        answers = self.terms.get("answers")
        if type(answers) is not int or answers < 1:
            raise BadInput("answers", got=answers, want="terms that say how many answers a person may give")
        ranking = self.terms.get("format") == RANKINGS_FORMAT
        self._labels = None if ranking else Client(self.terms)
        self._ranking = _protocol(self.terms) if ranking else None
        self._device = Device(device, service, campaign, self.terms, new_person=new_person)

    @property
    def promise(self) -> str:
        """What is promised, as the campaign puts it."""
        return str(self.terms["promise"])

    @property
    def tasks(self) -> list[tuple[str, str]]:
        """Ids and texts of the tasks."""
        return [(task["id"], task["text"]) for task in self.terms.get("tasks", [])]

    def agree(self) -> None:
        """The person read :attr:`terms` as they are now, and agrees. The number of answers stays at most the first."""
        self._device.agree()

    def budget(self) -> dict[str, Any]:
        """Answers left, and the numbers of the questions that were answered with this token.

        The service may say that fewer are left than this device allows, never more.
        """
        found = self._ask(urllib.request.Request(f"{self._base}/budget", headers=self._who()))  # noqa: S310
        left = found.get("left")
        return {**found, "left": min(left if type(left) is int else 0, self._device.left())}

    def answer(self, task: str, answer: str) -> str:
        """Randomize an answer to a task and send the report; returns what was sent."""
        labels = self._labels
        if labels is None:
            raise BadInput("task", got=task, want="vote(ranking): this campaign is about rankings")
        if task not in dict(self.tasks):
            raise BadInput("task", got=task, want="the id of one of the campaign's tasks")
        return self._deliver(*self._device.draw(labels.question(task), lambda: labels.randomize(task, answer)))

    def vote(self, ranking: ArrayLike | Sequence[int]) -> str:
        """Send the one report of a ranking (the place of every item, from 0); returns what was sent."""
        protocol = self._ranking
        if protocol is None:
            raise BadInput(
                "ranking", got=Verbatim("a ranking"), want="answer(task, answer): this campaign is about labels"
            )
        question = visible_text(self.terms["question"], *sorted(visible_text(name) for name in self.terms["names"]))
        return self._deliver(*self._device.draw(question, lambda: protocol.randomize(ranking).to_json()))

    def _deliver(self, line: str, key: str) -> str:
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


def _protocol(terms: dict[str, Any]) -> LocalProtocol:
    """The rankings module's own protocol for these terms; its thresholds follow from epsilon alone, not from the service."""
    names = ("items", "epsilon", "method", "questions", "seed")
    protocol = LocalProtocol.from_dict({name: terms.get(name) for name in names})
    if protocol.fingerprint != terms.get("protocol"):
        raise BadInput("protocol", got=terms.get("protocol"), want=f"{protocol.fingerprint}, as the terms imply")
    return protocol


def _service_of(url: str) -> str:
    """A service's address in one spelling, since the device counts answers per service.

    >>> _service_of("HTTP://Collect.Example.org/") == _service_of("http://collect.example.org:080")
    True
    """
    want = "an address such as https://collect.example.org, without a query, dots or doubled slashes in its path"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise BadInput("url", got=url, want=want) from None
    steps = parts.path.rstrip("/").split("/")[1:]
    odd = (
        parts.query or parts.fragment or parts.username or "%" in parts.path or any(s in ("", ".", "..") for s in steps)
    )
    if parts.scheme not in ("http", "https") or not host or odd:
        raise BadInput("url", got=url, want=want)
    shown = f"[{host}]" if ":" in host else host
    default = 443 if parts.scheme == "https" else 80
    return f"{parts.scheme}://{shown}:{default if port is None else port}" + "".join(f"/{step}" for step in steps)
