"""The Python client: fetch a campaign, randomize here, store the draw, send it, and send the same bytes again if that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from peerveil.core.errors import BadInput, Verbatim
from peerveil.rankings import LocalProtocol
from peerveil.truth import Client
from peerveil.truth.wire import visible_text
from peerveil.web.collect.campaign import RANKINGS_FORMAT
from peerveil.web.collect.device import Device
from peerveil.web.common.client import ServiceClient, read_address

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from numpy.typing import ArrayLike


class CollectClient(ServiceClient):
    """One person's side of a campaign.

    Parameters
    ----------
    url
        The service, such as ``"https://collect.example.org"``.
    campaign
        The campaign's id.
    token
        The person's invitation.
    timeout
        Seconds to wait for an answer of the service.
    device
        The file in which this device keeps what it sent; by default ``peerveil/device.db`` in the user's folder for state.
    new_person
        Say so if somebody else uses the device from now on. Otherwise a fresh invitation does not draw again.

    Notes
    -----
    The terms are checked before any answer is taken. The first answer pins them: the device never gives more answers in
    all than they said, whatever the service claims later, and changed terms raise :class:`TermsChanged`
    until :meth:`agree`. A question, identified by what a person sees of it, is randomized once: another object, another
    invitation or another id gets the first randomized answer again. See :mod:`peerveil.web.collect.device`.
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
        super().__init__(url, token, timeout)
        self._path = f"/v1/campaigns/{quote(campaign, safe='')}"
        self.terms: dict[str, Any] = self._call("GET", self._path)
        answers = self.terms.get("answers")
        if type(answers) is not int or answers < 1:
            raise BadInput("answers", got=answers, want="terms that say how many answers a person may give")
        ranking = self.terms.get("format") == RANKINGS_FORMAT
        self._labels = None if ranking else Client(self.terms)
        self._ranking = _protocol(self.terms) if ranking else None
        self._device = Device(device, _service_of(url), campaign, self.terms, new_person=new_person)

    @property
    def promise(self) -> str:
        """The guarantee, as the campaign puts it."""
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
        budget = self._call("GET", f"{self._path}/budget")
        left = budget.get("left")
        return {**budget, "left": min(left if type(left) is int else 0, self._device.left())}

    def answer(self, task: str, answer: str) -> str:
        """Randomize an answer to a task and send it; returns what was sent."""
        labels = self._labels
        if labels is None:
            raise BadInput("task", got=task, want="vote(ranking): this campaign is about rankings")
        if task not in dict(self.tasks):
            raise BadInput("task", got=task, want="the id of one of the campaign's tasks")
        return self._deliver(*self._device.draw(labels.question(task), lambda: labels.randomize(task, answer)))

    def vote(self, ranking: ArrayLike | Sequence[int]) -> str:
        """Randomize one answer about a ranking (the place of every item, from 0) and send it; returns what was sent."""
        protocol = self._ranking
        if protocol is None:
            raise BadInput(
                "ranking", got=Verbatim("a ranking"), want="answer(task, answer): this campaign is about labels"
            )
        question = visible_text(self.terms["question"], *sorted(visible_text(name) for name in self.terms["names"]))
        return self._deliver(*self._device.draw(question, lambda: protocol.randomize(ranking).to_json()))

    def _deliver(self, line: str, key: str) -> str:
        self._call("POST", f"{self._path}/reports", line.encode(), {"Idempotency-Key": key})
        return line


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
    parts = read_address(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = (443 if parts.scheme == "https" else 80) if parts.port is None else parts.port
    return f"{parts.scheme}://{host}:{port}{parts.path.rstrip('/')}"
