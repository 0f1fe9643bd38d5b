"""Randomized answers against a campaign: what is an answer to it, and what one says. Pure functions, without a database.

Only two whole numbers of an answer are ever kept: which question, and which class. Whatever else a client might hide in
the spelling of its JSON is gone after :meth:`AnswerReader.read`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from peerveil.core.errors import BadInput, Verbatim
from peerveil.rankings import RandomizedRanking
from peerveil.truth.wire import FORMAT

if TYPE_CHECKING:
    from peerveil.web.collect.campaign import Campaign

LONGEST_BYTES: Final = 4096
"""The longest id and class fit in it."""


@dataclass(frozen=True, slots=True)
class RandomizedAnswer:
    """An answer as it is kept: the number of the task or question, and the code of the randomized class."""

    question: int
    code: int


class AnswerReader:
    """Reads the randomized answers of one campaign; its tables of ids are built once."""

    def __init__(self, campaign: Campaign) -> None:
        self.campaign = campaign
        self.tasks = {task: number for number, (task, _) in enumerate(campaign.tasks)}
        self.codes = {name: code for code, name in enumerate(campaign.classes)}
        self.fingerprint = campaign.protocol.fingerprint if campaign.kind == "rankings" else ""

    def read(self, body: bytes) -> RandomizedAnswer:
        """What an answer says; anything else than an answer to this campaign is refused.

        No error repeats a label: what people send must not stand in a log.
        """
        if len(body) > LONGEST_BYTES:
            raise BadInput("answer", got=Verbatim(f"{len(body):,} bytes"), want=f"at most {LONGEST_BYTES:,} bytes")
        try:
            content = json.loads(body.decode("utf-8"), object_pairs_hook=_distinct, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            raise BadInput("answer", got=Verbatim("no JSON"), want="one JSON object in UTF-8") from None
        return self._label(content) if self.campaign.kind == "labels" else self._ranking(content)

    def _label(self, content: Any) -> RandomizedAnswer:
        keys = {"format", "task", "label"}
        if not isinstance(content, dict) or set(content) != keys or content["format"] != FORMAT:
            want = f"an object with format {FORMAT}, task and label, and nothing else"
            raise BadInput("answer", got=_shape(content), want=want)
        task, label = content["task"], content["label"]
        if not isinstance(task, str) or task not in self.tasks:
            raise BadInput("task", got=Verbatim("something else"), want="the id of one of the campaign's tasks")
        if not isinstance(label, str) or label not in self.codes:
            raise BadInput("label", got=Verbatim("something else"), want="one of the campaign's classes")
        return RandomizedAnswer(self.tasks[task], self.codes[label])

    def _ranking(self, content: Any) -> RandomizedAnswer:
        try:
            ranking = RandomizedRanking.from_json(content)
        except BadInput:
            want = "an object with protocol, question and bits, and nothing else"
            raise BadInput("answer", got=_shape(content), want=want) from None
        if ranking.protocol != self.fingerprint:
            raise BadInput("protocol", got=ranking.protocol, want=f"{self.fingerprint}, that of this campaign")
        if ranking.question >= self.campaign.questions:
            raise BadInput("question", got=ranking.question, want=f"a question below {self.campaign.questions}")
        if ranking.bits > 1:
            raise BadInput("bits", got=Verbatim("more than one bit"), want="0 or 1")
        return RandomizedAnswer(ranking.question, ranking.bits)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names differ: two readers must not see two different answers in one text."""
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError
    return content


def _no_constant(_: str) -> Any:
    raise ValueError


def _shape(content: Any) -> Verbatim:
    """What came, by its names alone."""
    if isinstance(content, dict):
        return Verbatim("an object with " + (", ".join(sorted(content))[:60] or "nothing"))
    return Verbatim(f"a {type(content).__name__}")
