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
    epsilon
        The protection level that the person chooses, where the invitation offers several.
    bits
        Where random bits come from; the operating system by default.

    Attributes
    ----------
    size
        How many classes a report names: 1, or more for a subset response.
    """

    refusal: ClassVar[Callable[..., ValueError]] = Refused

    def __init__(
        self,
        invitation: str | dict[str, Any],
        *,
        worker: Any = None,
        epsilon: Any = None,
        bits: Callable[[int], int] = secrets.randbits,
    ) -> None:
        terms = self._read(invitation)
        self._states_epsilon = "levels" in terms
        if self._states_epsilon or epsilon is not None:
            terms |= self._level(terms, epsilon)
        self.epsilon = Fraction(terms["epsilon"])
        self.classes = list(terms["classes"])
        self.guarantee = str(terms["promise"])
        self.worker = worker
        self._bits = bits
        self._read_response(terms["response"])
        self._sent: dict[Any, str] = {}
        self._question_text = terms.get("question", "")
        self._task_texts = {task["id"]: task["text"] for task in terms.get("tasks", [])}
        self._max_answers: int | None = terms.get("answers")

    def _read_response(self, response: dict[str, Any]) -> None:
        """Check and set the thresholds. Neighbors are any two answers; their likelihood ratio must not exceed e^epsilon."""
        k, self._width = len(self.classes), int(response["bits"])
        total, kind = 2**self._width, response.get("kind", "k-ary")
        self._share, self.size = 0, 1
        try:
            if kind == "subset":
                self._keep_below, self.size = int(response["inside_below"]), int(response["size"])
                inside, outside = self._keep_below * (k - self.size), (total - self._keep_below) * self.size
                valid = 1 < self.size < k and inside > outside > 0
            else:
                self._keep_below, self._share = int(response["keep_below"]), int(response["share"])
                inside, outside = self._keep_below, self._share
                valid = kind == "k-ary" and inside + (k - 1) * outside == total and inside > outside > 0
            valid &= self._width in (32, 64) and 0 < self.epsilon <= 64
        except (KeyError, TypeError, ValueError):
            valid = False
        if not valid:
            raise self.refusal("invitation", got=response, want=f"thresholds of a response on {k} classes")
        if Fraction(inside, outside) > exp_below(self.epsilon):
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
        longest = sorted(self.classes, key=lambda label: len(json.dumps(label)))[-self.size :]
        if self.size == 1:
            label, longest_label = self.classes[self._draw_class(codes[0])], longest[0]
        else:
            label, longest_label = [self.classes[code] for code in self._draw_subset(codes[0])], longest
        # as long as the longest: an observer of an encrypted line learns nothing from its length
        self._sent[question] = self._line(task, label).ljust(len(self._line(task, longest_label)))
        return self._sent[question]

    def _draw_class(self, code: int) -> int:
        """k-ary response: the answer below the threshold, else one of the other classes."""
        draw = self._bits(self._width)
        if draw < self._keep_below:
            return code
        other = (draw - self._keep_below) // self._share
        return other + (other >= code)

    def _draw_subset(self, code: int) -> list[int]:
        """Subset response: ``size`` of the other classes, the last one replaced by the answer below the threshold; in order.

        The same numbers are drawn for every answer, whether it is named or not.
        """
        inside, others = self._bits(self._width) < self._keep_below, list(range(len(self.classes) - 1))
        for place in range(self.size):  # Fisher and Yates, as far as it is needed
            chosen = place + self._below(len(others) - place)
            others[place], others[chosen] = others[chosen], others[place]
        report = [other + (other >= code) for other in others[: self.size]]
        report[-1] = code if inside else report[-1]
        return sorted(report)

    def _below(self, limit: int) -> int:
        """A uniform whole number below a limit: 64 bits, cut to those of limit - 1, drawn again if too large."""
        mask = (1 << (limit - 1).bit_length()) - 1
        while (drawn := self._bits(64) & mask) >= limit:
            pass
        return drawn

    def _line(self, task: Any, label: Any) -> str:
        level = str(self.epsilon) if self._states_epsilon else None
        line = {"format": FORMAT, "task": task, "worker": self.worker, "label": label, "epsilon": level}
        return json.dumps({k: v for k, v in line.items() if v is not None})

    def _level(self, terms: dict[str, Any], epsilon: Any) -> dict[str, Any]:
        """The epsilon and the response of the level that the person chooses."""
        try:
            chosen = {Fraction(level["epsilon"]): level for level in terms.get("levels", [terms])}[Fraction(epsilon)]
            return {name: chosen[name] for name in ("epsilon", "response", "promise")}
        except (KeyError, TypeError, ValueError, ZeroDivisionError):
            want = (
                f"one of the levels of the invitation: {[level['epsilon'] for level in terms.get('levels', [terms])]}"
            )
            raise self.refusal("epsilon", got=epsilon, want=want) from None

    def _read(self, invitation: str | dict[str, Any]) -> dict[str, Any]:
        try:
            terms = json.loads(invitation) if isinstance(invitation, str) else dict(invitation)
            valid = (
                terms["format"] == FORMAT
                and set(terms) >= _KEYS
                and len({(type(c), c) for c in terms["classes"]}) == len(terms["classes"]) >= 2
                and 0 < Fraction(terms["epsilon"]) <= 64
                and int(terms["response"]["bits"]) in (32, 64)
                and all({"epsilon", "response", "promise"} <= set(level) for level in terms.get("levels", []))
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
