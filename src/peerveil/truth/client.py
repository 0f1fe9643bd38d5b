"""The person's side of the truth module: an invitation comes, an answer goes in, a randomized answer comes out.

This file needs nothing but Python 3.11. It is part of peerveil (:class:`peerveil.truth.wire.Client`) and, alone, the package
``peerveil-client`` (``clients/python``), for devices and platforms that shall not install an analysis library.

>>> terms = {
...     "format": FORMAT,
...     "epsilon": "1",
...     "classes": ["no", "yes"],
...     "promise": "epsilon 1 for one answer",
...     "response": {"bits": 32, "keep_below": 3139872686, "share": 1155094610},
... }
>>> client = Client(terms)
>>> line = client.randomize("task 7", "yes")
>>> client.randomize("task 7", "yes") == line  # an answer is randomized once, however often it is requested
True
>>> Client({**terms, "epsilon": "1/2"})  # doctest: +ELLIPSIS
Traceback (most recent call last):
    ...
peerveil.truth.client.Refused: invitation: got 'a response that loses more than epsilon 1/2', need thresholds that ...
"""

from __future__ import annotations

import json
import re
import secrets
import unicodedata
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar, Final

__all__ = ["FORMAT", "Client", "Refused", "visible_text"]

FORMAT: Final = "peerveil-truth/1"
_KEYS: Final = {"format", "epsilon", "classes", "response", "promise"}
_INVISIBLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)


class Refused(ValueError):
    """An invitation that breaks its own guarantee, or an answer that it does not take. Nothing was drawn."""

    def __init__(self, argument: str, *, got: object, want: str) -> None:
        super().__init__(f"{argument}: got {got!r:.200}, need {want}")


class Client:
    """Randomizes one person's answers under the terms of an invitation.

    The thresholds of an invitation are checked before they are trusted. Random bits come from the operating system. What was sent
    is remembered, because a second randomized answer to the same question would cost epsilon again. If the invitation lists
    its tasks, a question is identified by its text, not by its id; if it limits the number of answers, the client gives no more.

    Parameters
    ----------
    invitation
        What the operator sent: JSON text or a mapping.
    worker
        The person's id, if randomized answers shall carry one (abilities need it).
    bits
        Where random bits come from; the operating system by default.
    """

    refusal: ClassVar[Callable[..., ValueError]] = Refused

    def __init__(
        self, invitation: str | dict[str, Any], *, worker: Any = None, bits: Callable[[int], int] = secrets.randbits
    ) -> None:
        terms = self._read(invitation)
        self.epsilon = Fraction(terms["epsilon"])
        self.classes = list(terms["classes"])
        self.guarantee = str(terms["promise"])
        self.worker = worker
        self._bits = bits
        thresholds = (int(terms["response"][name]) for name in ("bits", "keep_below", "share"))
        self._width, self._keep_below, self._share = thresholds
        self._sent: dict[Any, str] = {}
        self._question_text = terms.get("question", "")
        self._task_texts = {task["id"]: task["text"] for task in terms.get("tasks", [])}
        self._max_answers: int | None = terms.get("answers")
        # neighbors: any two answers; the largest likelihood ratio is keep_below/share, and must not exceed e^epsilon
        k, total = len(self.classes), 2**self._width
        if self._keep_below + (k - 1) * self._share != total or not self._keep_below > self._share > 0:
            raise self.refusal("invitation", got=self._keep_below, want=f"thresholds of a response on {k} classes")
        if Fraction(self._keep_below, self._share) > exp_below(self.epsilon):
            got = f"a response that loses more than epsilon {self.epsilon}"
            raise self.refusal("invitation", got=got, want="thresholds that keep the guarantee")

    def question(self, task: Any) -> Any:
        """What identifies a task: the question as a person sees it, where the invitation lists tasks; its id otherwise."""
        return visible_text(self._question_text, self._task_texts[task]) if task in self._task_texts else task

    def randomize(self, task: Any, answer: Any) -> str:
        """The randomized answer to send, as one line of JSON, equally long for all answers (spaces fill it up).

        A question that was answered before gets its first line again, also under another id.
        """
        question = self.question(task)
        if question in self._sent:
            return self._sent[question]
        if self._max_answers is not None and len(self._sent) >= self._max_answers:
            raise self.refusal(
                "task", got=task, want=f"no further question: the terms allow {self._max_answers} answers"
            )
        codes = [i for i, c in enumerate(self.classes) if type(c) is type(answer) and c == answer]
        if not codes:
            raise self.refusal("answer", got=answer, want=f"one of {self.classes}")
        draw, code = self._bits(self._width), codes[0]
        if draw >= self._keep_below:
            other = (draw - self._keep_below) // self._share
            code = other + (other >= code)
        lines = [self._line(task, label) for label in self.classes]
        # as long as the longest: an observer of an encrypted line learns nothing from its length
        self._sent[question] = lines[code].ljust(max(len(line) for line in lines))
        return self._sent[question]

    def _line(self, task: Any, label: Any) -> str:
        line = {"format": FORMAT, "task": task, "worker": self.worker, "label": label}
        return json.dumps({k: v for k, v in line.items() if v is not None})

    def _read(self, invitation: str | dict[str, Any]) -> dict[str, Any]:
        try:
            terms = json.loads(invitation) if isinstance(invitation, str) else dict(invitation)
            valid = (
                terms["format"] == FORMAT
                and set(terms) >= _KEYS
                and len({(type(c), c) for c in terms["classes"]}) == len(terms["classes"]) >= 2
                and 0 < Fraction(terms["epsilon"]) <= 64
                and int(terms["response"]["bits"]) in (32, 64)
                and all({"id", "text"} <= set(task) for task in terms.get("tasks", []))
            )
        except (TypeError, ValueError, KeyError, ZeroDivisionError):
            valid = False
        if not valid:
            raise self.refusal("invitation", got=invitation, want=f"an invitation of format {FORMAT}")
        if "answers" in terms and (type(terms["answers"]) is not int or terms["answers"] < 1):
            raise self.refusal("answers", got=terms["answers"], want="how many answers a person may give, at least 1")
        return terms


def visible_text(*parts: Any) -> str:
    r"""A question as a person sees it: other spaces or invisible characters do not make another question.

    >>> visible_text("Is there a bird?", "picture 1") == visible_text("Is  there a bird?\n", "pic\u200bture\u00a01")
    True
    """
    text = unicodedata.normalize("NFKC", " ".join(str(part) for part in parts))
    visible = (c for c in _INVISIBLE.sub("", text) if c in "\t\n\v\f\r" or unicodedata.category(c)[0] != "C")
    return " ".join("".join(visible).split())


def exp_below(exponent: Fraction) -> Fraction:
    """A rational number not above e^exponent, and within 2^-250 of it in relation: every term of the series is rounded down.

    >>> float(exp_below(Fraction(1)))
    2.718281828459045
    """
    unit = total = term = 1 << 320
    count = 0
    while term:
        count += 1
        term = term * exponent.numerator // (exponent.denominator * count)
        total += term
    return Fraction(total, unit)
