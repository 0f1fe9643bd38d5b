"""The wire format, and the operator's side of it; the person's side is :mod:`peerveil.truth.client`.

An operator sends an :func:`invitation`; a device answers with a :class:`Client`; the operator puts the lines into a table with
:func:`collect`, and keeps them with :func:`write_answers` and :func:`read_answers`.

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
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.files import write_text
from peerveil.core.guarantee import Guarantee
from peerveil.core.randomness import Response
from peerveil.data import Labels
from peerveil.truth.client import FORMAT
from peerveil.truth.client import Client as DeviceClient
from peerveil.truth.guarantee import task_guarantee
from peerveil.truth.randomize import CollectedAnswers

if TYPE_CHECKING:
    from peerveil.core.exact import Number

__all__ = ["Client", "collect", "invitation", "read_answers", "write_answers"]

_MAX_LINE_LENGTH: Final = 10_000
_COLUMNS: Final = ("task", "worker", "label")


class Client(DeviceClient):
    """The person's side, see :class:`peerveil.truth.client.Client`; it refuses with :class:`~peerveil.BadInput`."""

    refusal = BadInput


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
