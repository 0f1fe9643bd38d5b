"""The person's side of the wire: an invitation comes, the answer goes in, a report comes out.

The client checks the invitation before it trusts it: the thresholds must belong to a response whose loss is at most the epsilon
that is promised. It draws from the operating system, and remembers what it sent, because a second report of the same answer would
cost epsilon again. If the invitation lists its tasks, a question is identified by its text, not by its id; if it says how many
answers a person gives, the client gives no more.

>>> from peerveil.truth import invitation
>>> client = Client(invitation(epsilon=1, classes=["no", "yes"]))
>>> line = client.report("task 7", "yes")
>>> client.report("task 7", "yes") == line  # the same report, however often it is asked for
True
"""

from __future__ import annotations

import json
import re
import secrets
import unicodedata
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from peerveil.core.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable

FORMAT: Final = "peerveil-truth/1"
_TERMS: Final = 200
_INVISIBLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)
_KEYS: Final = {"format", "epsilon", "classes", "response", "promise"}


class Client:
    """Randomizes one person's answers as an invitation asks.

    Parameters
    ----------
    invitation
        What the operator sent: JSON text or a mapping (:func:`peerveil.truth.invitation`).
    worker
        The person's id, if reports shall carry one (abilities need it).
    bits
        Where random bits come from; the operating system unless given.
    """

    def __init__(
        self, invitation: str | dict[str, Any], *, worker: Any = None, bits: Callable[[int], int] = secrets.randbits
    ) -> None:
        terms = _read(invitation)
        self.epsilon = Fraction(terms["epsilon"])
        self.classes = list(terms["classes"])
        self.promise = str(terms["promise"])
        self.worker = worker
        response = terms["response"]
        self._width, self._keep_below, self._share = (int(response[name]) for name in ("bits", "keep_below", "share"))
        self._bits = bits
        self._sent: dict[Any, str] = {}
        self._asked = terms.get("question", "")
        self._texts = {task["id"]: task["text"] for task in terms.get("tasks", [])}
        self._most: int | None = terms.get("answers")
        self._check()

    def _check(self) -> None:
        """Neighbors: any two answers. The largest likelihood ratio is keep_below/share; it must not exceed e^epsilon."""
        k, total = len(self.classes), 2**self._width
        if self._keep_below + (k - 1) * self._share != total or not self._keep_below > self._share > 0:
            raise BadInput("invitation", got=self._keep_below, want=f"thresholds of a response on {k} classes")
        if Fraction(self._keep_below, self._share) > _exp_below(self.epsilon):
            got = f"a response that loses more than epsilon {self.epsilon}"
            raise BadInput("invitation", got=got, want="thresholds that keep the promise")

    def question(self, task: Any) -> Any:
        """What identifies a task: the question as a person sees it, where the invitation lists tasks; its id otherwise."""
        return seen(self._asked, self._texts[task]) if task in self._texts else task

    def report(self, task: Any, answer: Any) -> str:
        """The report to send, as one line of JSON, equally long for all answers (spaces fill it up).

        A question that was reported before gets its first report again, also under another id.
        """
        question = self.question(task)
        if question in self._sent:
            return self._sent[question]
        if self._most is not None and len(self._sent) >= self._most:
            raise BadInput("task", got=task, want=f"no further question: the terms allow {self._most} answers")
        codes = [i for i, c in enumerate(self.classes) if type(c) is type(answer) and c == answer]
        if not codes:
            raise BadInput("answer", got=answer, want=f"one of {self.classes}")
        drawn, code = self._bits(self._width), codes[0]
        if drawn >= self._keep_below:
            other = (drawn - self._keep_below) // self._share
            code = other + (other >= code)
        lines = [self._line(task, label) for label in self.classes]
        # as long as the longest: an observer of an encrypted line learns nothing from its length
        self._sent[question] = lines[code].ljust(max(len(line) for line in lines))
        return self._sent[question]

    def _line(self, task: Any, label: Any) -> str:
        line = {"format": FORMAT, "task": task, "worker": self.worker, "label": label}
        return json.dumps({k: v for k, v in line.items() if v is not None})


def seen(*parts: Any) -> str:
    r"""A question as a person sees it: other spaces or invisible characters do not make another question.

    >>> seen("Is there a bird?", "picture 1") == seen("Is  there a bird?\n", "pic\u200bture\u00a01")
    True
    """
    text = unicodedata.normalize("NFKC", " ".join(str(part) for part in parts))
    shown = (c for c in _INVISIBLE.sub("", text) if c in "\t\n\v\f\r" or unicodedata.category(c)[0] != "C")
    return " ".join("".join(shown).split())


def _read(invitation: str | dict[str, Any]) -> dict[str, Any]:
    want = f"an invitation of format {FORMAT}"
    try:
        terms = json.loads(invitation) if isinstance(invitation, str) else dict(invitation)
        ok = terms["format"] == FORMAT and set(terms) >= _KEYS and len(terms["classes"]) >= 2
        epsilon = Fraction(terms["epsilon"])
        ok = ok and 0 < epsilon <= 64 and int(terms["response"]["bits"]) in (32, 64)
        ok = ok and len({(type(c), c) for c in terms["classes"]}) == len(terms["classes"])
        ok = ok and all({"id", "text"} <= set(task) for task in terms.get("tasks", []))
    except (TypeError, ValueError, KeyError, ZeroDivisionError):
        raise BadInput("invitation", got=invitation, want=want) from None
    if not ok:
        raise BadInput("invitation", got=invitation, want=want)
    if "answers" in terms and (type(terms["answers"]) is not int or terms["answers"] < 1):
        raise BadInput("answers", got=terms["answers"], want="how many answers a person may give, at least 1")
    return terms


def _exp_below(x: Fraction) -> Fraction:
    """A rational number below e^x, by the first terms of its series; all terms are positive."""
    total, term = Fraction(1), Fraction(1)
    for i in range(1, _TERMS):
        term = term * x / i
        total += term
        if term < Fraction(1, 2**100):
            break
    return total
