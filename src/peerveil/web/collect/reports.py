"""Reports against a campaign: what is a report of it, and what one says. Pure functions, before any database is asked.

Only two whole numbers of a report are ever kept: which question, and which class. Whatever else a client might hide in the
spelling of its JSON is gone after :meth:`Intake.read`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from peerveil.core.errors import BadInput, Verbatim
from peerveil.rankings import RandomizedRanking
from peerveil.truth.wire import FORMAT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from peerveil.web.collect.campaign import Campaign

LONGEST: Final = 4096
"""Bytes of a report; the longest id and class fit in it."""


@dataclass(frozen=True, slots=True)
class Received:
    """A report as it is kept: the number of the task or question, and the code of the randomized answer."""

    question: int
    code: int


class Intake:
    """Reads reports of one campaign; its tables of ids are made once."""

    def __init__(self, campaign: Campaign) -> None:
        self.campaign = campaign
        self.tasks = {task: number for number, (task, _) in enumerate(campaign.tasks)}
        self.codes = {name: code for code, name in enumerate(campaign.classes)}
        self.fingerprint = campaign.protocol.fingerprint if campaign.kind == "rankings" else ""

    def read(self, body: bytes) -> Received:
        """What a report says; anything else than a report of this campaign is refused.

        No error repeats a label: what people send is nobody's business in a log.
        """
        if len(body) > LONGEST:
            raise BadInput("report", got=Verbatim(f"{len(body):,} bytes"), want=f"at most {LONGEST:,} bytes")
        try:
            content = json.loads(body.decode("utf-8"), object_pairs_hook=_distinct, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            raise BadInput("report", got=Verbatim("no JSON"), want="one JSON object in UTF-8") from None
        return self._labels(content) if self.campaign.kind == "labels" else self._rankings(content)

    def _labels(self, content: Any) -> Received:
        keys = {"format", "task", "label"}
        if not isinstance(content, dict) or set(content) != keys or content["format"] != FORMAT:
            want = f"an object with format {FORMAT}, task and label, and nothing else"
            raise BadInput("report", got=_shape(content), want=want)
        task, label = content["task"], content["label"]
        if not isinstance(task, str) or task not in self.tasks:
            raise BadInput("task", got=Verbatim("something else"), want="the id of one of the campaign's tasks")
        if not isinstance(label, str) or label not in self.codes:
            raise BadInput("label", got=Verbatim("something else"), want="one of the campaign's classes")
        return Received(self.tasks[task], self.codes[label])

    def _rankings(self, content: Any) -> Received:
        want = "an object with protocol, question and bits, and nothing else"
        try:
            report = RandomizedRanking.from_json(content)
        except BadInput:
            raise BadInput("report", got=_shape(content), want=want) from None
        if report.protocol != self.fingerprint:
            raise BadInput("protocol", got=report.protocol, want=f"{self.fingerprint}, that of this campaign")
        if report.question >= self.campaign.questions:
            raise BadInput("question", got=report.question, want=f"a question below {self.campaign.questions}")
        if report.bits > 1:
            raise BadInput("bits", got=Verbatim("more than one bit"), want="0 or 1")
        return Received(report.question, report.bits)


def width(campaign: Campaign) -> Mapping[int, int]:
    """For every question, how many bytes each of its reports has: the same for all answers.

    >>> from peerveil.web.collect import Campaign
    >>> terms = {"id": "a", "title": "A", "classes": ["no", "perhaps"], "tasks": ["1", "22"], "epsilon": 1}
    >>> width(Campaign.from_dict(terms))
    {0: 63, 1: 64}
    """
    if campaign.kind == "rankings":
        name = campaign.protocol.fingerprint
        return {q: len(RandomizedRanking(name, q, 0).to_json()) for q in range(campaign.questions)}
    longest = max(campaign.classes, key=lambda c: len(json.dumps(c)))
    return {
        number: len(json.dumps({"format": FORMAT, "task": task, "label": longest}))
        for number, (task, _) in enumerate(campaign.tasks)
    }


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names differ: two readers must not see two different reports in one text."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def _no_constant(_: str) -> Any:
    raise ValueError


def _shape(content: Any) -> Verbatim:
    """What came, by its names alone."""
    if isinstance(content, dict):
        return Verbatim("an object with " + (", ".join(sorted(content))[:60] or "nothing"))
    return Verbatim(f"a {type(content).__name__}")
