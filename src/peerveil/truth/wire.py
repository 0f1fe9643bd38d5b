"""The wire format, and the person's side of it: an invitation comes, an answer goes in, a randomized answer comes out.

An **invitation** is one JSON object: ``format``, ``epsilon`` (an exact number as text), ``classes``, ``response`` (``bits``,
``keep_below``, ``share``: whole numbers from which every language draws the same distribution) and ``promise`` (the guarantee in
words). A **randomized answer** is one JSON object on a line: ``format``, ``task``, ``worker`` (if known) and ``label``. A **file
of randomized answers** is the invitation, with ``missing`` and ``guarantee``, followed by such lines: all that inference needs.

>>> client = Client(invitation(epsilon=1, classes=["no", "yes"]))
>>> line = client.randomize("task 7", "yes")
>>> client.randomize("task 7", "yes") == line  # an answer is randomized once, however often it is requested
True
"""

from __future__ import annotations

import json
import re
import secrets
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import Number, exp_bounds
from peerveil.core.files import write_text
from peerveil.core.guarantee import Guarantee
from peerveil.core.randomness import Response
from peerveil.data import Labels
from peerveil.truth.guarantee import task_guarantee
from peerveil.truth.randomize import CollectedAnswers

FORMAT: Final = "peerveil-truth/1"
_MAX_LINE_LENGTH: Final = 10_000
_INVISIBLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)
_COLUMNS: Final = ("task", "worker", "label")
_INVITATION_KEYS: Final = {"format", "epsilon", "classes", "response", "promise"}


# ---- the person's side ------------------------------------------------------------------------------------------------


class Client:
    """Randomizes one person's answers under the terms of an invitation.

    The thresholds of an invitation are checked before they are trusted. Random bits come from the operating system. What was sent
    is remembered, because a second randomized answer to the same question would cost epsilon again. If the invitation lists
    its tasks, a question is identified by its text, not by its id; if it limits the number of answers, the client gives no more.

    Parameters
    ----------
    invitation
        What the operator sent: JSON text or a mapping (:func:`peerveil.truth.invitation`).
    worker
        The person's id, if randomized answers shall carry one (abilities need it).
    bits
        Where random bits come from; the operating system by default.
    """

    def __init__(
        self, invitation: str | dict[str, Any], *, worker: Any = None, bits: Callable[[int], int] = secrets.randbits
    ) -> None:
        terms = _read_invitation(invitation)
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
            raise BadInput("invitation", got=self._keep_below, want=f"thresholds of a response on {k} classes")
        if Fraction(self._keep_below, self._share) > exp_bounds(self.epsilon)[0]:
            got = f"a response that loses more than epsilon {self.epsilon}"
            raise BadInput("invitation", got=got, want="thresholds that keep the guarantee")

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
            raise BadInput("task", got=task, want=f"no further question: the terms allow {self._max_answers} answers")
        codes = [i for i, c in enumerate(self.classes) if type(c) is type(answer) and c == answer]
        if not codes:
            raise BadInput("answer", got=answer, want=f"one of {self.classes}")
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


def visible_text(*parts: Any) -> str:
    r"""A question as a person sees it: other spaces or invisible characters do not make another question.

    >>> visible_text("Is there a bird?", "picture 1") == visible_text("Is  there a bird?\n", "pic\u200bture\u00a01")
    True
    """
    text = unicodedata.normalize("NFKC", " ".join(str(part) for part in parts))
    visible = (c for c in _INVISIBLE.sub("", text) if c in "\t\n\v\f\r" or unicodedata.category(c)[0] != "C")
    return " ".join("".join(visible).split())


def _read_invitation(invitation: str | dict[str, Any]) -> dict[str, Any]:
    try:
        terms = json.loads(invitation) if isinstance(invitation, str) else dict(invitation)
        valid = (
            terms["format"] == FORMAT
            and set(terms) >= _INVITATION_KEYS
            and len({(type(c), c) for c in terms["classes"]}) == len(terms["classes"]) >= 2
            and 0 < Fraction(terms["epsilon"]) <= 64
            and int(terms["response"]["bits"]) in (32, 64)
            and all({"id", "text"} <= set(task) for task in terms.get("tasks", []))
        )
    except (TypeError, ValueError, KeyError, ZeroDivisionError):
        valid = False
    if not valid:
        raise BadInput("invitation", got=invitation, want=f"an invitation of format {FORMAT}")
    if "answers" in terms and (type(terms["answers"]) is not int or terms["answers"] < 1):
        raise BadInput("answers", got=terms["answers"], want="how many answers a person may give, at least 1")
    return terms


# ---- the operator's side ----------------------------------------------------------------------------------------------


def invitation(*, epsilon: Number, classes: int | Sequence[Any], guarantee: Guarantee | None = None) -> str:
    """What an operator sends to the persons: one line of JSON.

    >>> terms = json.loads(invitation(epsilon="1/2", classes=["no", "yes"]))
    >>> terms["epsilon"], terms["classes"], terms["response"]["bits"]
    ('1/2', ['no', 'yes'], 32)
    """
    response = Response(epsilon, classes)
    return json.dumps(_terms(response, guarantee or Guarantee.local_attribute_dp(response.exact_epsilon)))


def _terms(response: Response, guarantee: Guarantee) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "epsilon": str(response.exact_epsilon),
        "classes": list(response.labels or range(response.k)),
        "response": {"bits": response.bits, "keep_below": response.keep_below, "share": response.share},
        "promise": str(guarantee),
    }


def collect(invitation: str, lines: Iterable[str]) -> CollectedAnswers:
    """Put the randomized answers that persons sent into a table; a line that does not fit the invitation is refused.

    >>> collect('{"x": 1}', [])
    Traceback (most recent call last):
        ...
    peerveil.core.errors.BadInput: invitation: got '{"x": 1}', need an invitation of format peerveil-truth/1
    """
    client = Client(invitation)  # checks the terms
    terms = json.loads(invitation)
    rows = [_read_line(line, number, client.classes) for number, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise BadInput("lines", got=Verbatim("no answers"), want="at least one line")
    columns = dict(zip(_COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
    table, missing, stated = Labels(**columns), terms.get("missing"), terms.get("guarantee")
    # by default: a task that somebody answered r times is protected with r times epsilon
    guarantee = task_guarantee(table.frame, client.epsilon, "answer", hidden=missing is not None)
    if stated is not None:
        guarantee = Guarantee.from_dict(stated)
    return CollectedAnswers(table, Response(client.epsilon, client.classes), missing, guarantee)


def _read_line(line: str, number: int, classes: list[Any]) -> tuple[Any, ...]:
    """Task, worker and label of a line; a class is known by its type too, since 1 == True."""
    want = "one JSON object with format, task, worker and label"
    if len(line) > _MAX_LINE_LENGTH:
        raise BadInput(f"line {number}", got=Verbatim(f"{len(line):,} characters"), want=want)
    try:
        answer = json.loads(line)
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or answer.get("format") != FORMAT or not set(_COLUMNS) <= set(answer):
        raise BadInput(f"line {number}", got=line, want=want)
    label = answer["label"]
    if not any(type(label) is type(known) and label == known for known in classes):
        raise BadInput(f"line {number}, label", got=label, want=f"one of {classes}")
    return tuple(answer[name] for name in _COLUMNS)


def write_answers(collected: CollectedAnswers, path: str | Path) -> Path:
    """Write a file of randomized answers. It names workers, so only its owner may read it."""
    return write_text(path, answers_text(collected), private=True)


def answers_text(collected: CollectedAnswers) -> str:
    """The content of a file of randomized answers: the terms, then one answer per line."""
    terms = _terms(collected.response, collected.guarantee)
    terms |= {"missing": collected.missing, "guarantee": collected.guarantee.to_dict()}
    rows = collected.answers.frame.select(*_COLUMNS).iter_rows(named=True)
    lines = [json.dumps(terms), *(json.dumps({"format": FORMAT, **row}) for row in rows)]
    return "\n".join(lines) + "\n"


def read_answers(path: str | Path) -> CollectedAnswers:
    """Read a file of randomized answers."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            return collect(file.readline().strip(), file)
    except UnicodeDecodeError:
        got = Verbatim("bytes that are not UTF-8")
        raise BadInput(str(Path(path)), got=got, want="a file of randomized answers") from None


def is_answer_file(path: str | Path) -> bool:
    """Whether a file begins with the terms of this format."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            return f'"format": "{FORMAT}"' in file.readline(_MAX_LINE_LENGTH)
    except (OSError, UnicodeDecodeError):
        return False


def stated_answers(
    source: object, *, epsilon: Number | None = None, classes: Any = None, model: str = "auto"
) -> CollectedAnswers | None:
    """The answers of a file that states its own terms, which must then not be given; None for any other source."""
    if not (isinstance(source, (str, Path)) and is_answer_file(source)):
        return None
    for name, value in (("epsilon", epsilon), ("classes", classes)):
        if value is not None:
            raise BadInput(name, got=value, want="nothing: the file of randomized answers states it")
    collected = read_answers(source)
    if collected.missing is not None and model == "majority":
        raise BadInput("model", got=model, want="another model for answers that hide which tasks were answered")
    return collected
