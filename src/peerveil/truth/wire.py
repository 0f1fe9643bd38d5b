"""The wire format, and the operator's side of it; the person's side is :mod:`peerveil.truth.client`.

An operator sends an :func:`invitation`; a device answers with a :class:`Client`; the operator puts the lines into a table with
:func:`collect`, and keeps them with :func:`write_answers` and :func:`read_answers`.

An **invitation** is one JSON object: ``format``, ``epsilon`` (an exact number as text), ``classes``, ``response`` (``bits``,
and for ``kind`` "k-ary" ``keep_below`` and ``share``, for "subset" ``size`` and ``inside_below``: whole numbers from which
every language draws the same distribution) and ``promise`` (the guarantee in words). If persons choose among protection levels,
``levels`` lists ``epsilon``, ``response`` and ``promise`` of each. A **randomized answer** is one JSON object on a line:
``format``, ``task``, ``worker`` (if known), ``label`` (of a subset response a list) and, where there are levels, the
``epsilon`` of its own. A **file of randomized answers** is the invitation, with ``missing`` and ``guarantee``, followed by such
lines: all that inference needs.

>>> client = Client(invitation(epsilon=1, classes=["no", "yes"]))
>>> line = client.randomize("task 7", "yes")
>>> client.randomize("task 7", "yes") == line  # an answer is randomized once, however often it is requested
True
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.files import write_text
from peerveil.core.guarantee import Guarantee, read_epsilon
from peerveil.core.randomness import Response, SubsetResponse, best_response
from peerveil.data import Labels
from peerveil.truth.client import FORMAT
from peerveil.truth.client import Client as DeviceClient
from peerveil.truth.guarantee import levels_guarantee, task_guarantee
from peerveil.truth.randomize import CollectedAnswers

if TYPE_CHECKING:
    from peerveil.core.exact import Number

__all__ = ["Client", "collect", "invitation", "read_answers", "write_answers"]

_MAX_LINE_LENGTH: Final = 10_000
_COLUMNS: Final = ("task", "worker", "label")


class Client(DeviceClient):
    """The person's side, see :class:`peerveil.truth.client.Client`; it refuses with :class:`~peerveil.BadInput`."""

    refusal = BadInput


def invitation(
    *, epsilon: Number | Sequence[Number], classes: int | Sequence[Any], guarantee: Guarantee | None = None
) -> str:
    """What an operator sends to the persons: one line of JSON.

    The response is :func:`~peerveil.core.randomness.best_response`, which follows from epsilon and the number of classes.

    Parameters
    ----------
    epsilon
        Of one answer; or several protection levels, of which each person chooses one (``Client(..., epsilon=)``).
    classes
        The list of classes, or a count k for the answers 0 to k - 1.
    guarantee
        What the promise shall say; by default local attribute DP with epsilon for one answer.

    Examples
    --------
    >>> terms = json.loads(invitation(epsilon="1/2", classes=["no", "yes"]))
    >>> terms["epsilon"], terms["classes"], terms["response"]["bits"]
    ('1/2', ['no', 'yes'], 32)
    >>> person = Client(invitation(epsilon=["1/2", 1], classes=["no", "yes"]), worker="ann", epsilon=1)
    >>> json.loads(person.randomize("task 7", "yes"))["epsilon"]
    '1'
    """
    listed: list[Any] = list(epsilon) if isinstance(epsilon, (list, tuple)) else [epsilon]
    exact = sorted({read_epsilon(level) for level in listed})
    if len(exact) < len(listed) or not listed:
        raise BadInput("epsilon", got=epsilon, want="one epsilon, or several different ones")
    responses = [best_response(level, classes) for level in exact]
    terms = _terms(responses[-1], guarantee)
    if isinstance(epsilon, (list, tuple)):
        terms["levels"] = [_level(response, guarantee) for response in responses]
    return json.dumps(terms)


def _terms(response: Response | SubsetResponse, guarantee: Guarantee | None) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "classes": list(response.labels or range(response.k)),
        **_level(response, guarantee),
    }


def _level(response: Response | SubsetResponse, guarantee: Guarantee | None) -> dict[str, Any]:
    """A response and what it promises."""
    thresholds: dict[str, Any]
    if isinstance(response, SubsetResponse):
        thresholds = {"kind": "subset", "size": response.size, "inside_below": response.inside_below}
    else:
        thresholds = {"kind": "k-ary", "keep_below": response.keep_below, "share": response.share}
    return {
        "epsilon": str(response.exact_epsilon),
        "response": {"bits": response.bits, **thresholds},
        "promise": str(guarantee or Guarantee.local_attribute_dp(response.exact_epsilon)),
    }


def collect(invitation: str, lines: Iterable[str]) -> CollectedAnswers:
    """Put the randomized answers that persons sent into a table; a line that does not fit the invitation is refused.

    >>> collect('{"x": 1}', [])
    Traceback (most recent call last):
        ...
    peerveil.core.errors.BadInput: invitation: got '{"x": 1}', need an invitation of format peerveil-truth/1
    """
    levels, terms = _read_levels(invitation)
    rows = [_read_line(line, number, levels) for number, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise BadInput("lines", got=Verbatim("no answers"), want="at least one line")
    columns = dict(zip((*_COLUMNS, "epsilon"), map(list, zip(*rows, strict=True)), strict=True))
    if len({isinstance(label, list) for label in columns["label"]}) > 1:  # of several levels
        columns["label"] = [label if isinstance(label, list) else [label] for label in columns["label"]]
    if "levels" not in terms:
        del columns["epsilon"]
    table, missing, stated = Labels(**columns), terms.get("missing"), terms.get("guarantee")
    if stated is not None:
        guarantee = Guarantee.from_dict(stated)
    else:  # a task that somebody answered r times is protected with r times epsilon
        guarantee = task_guarantee(table.frame, max(levels), "answer", hidden=missing is not None)
        if "levels" in terms and not table.repeated:
            chosen = table.frame.select("worker", "epsilon").unique()
            guarantee = levels_guarantee([read_epsilon(level) for level in chosen["epsilon"].to_list()])
    responses = [_response(client) for client in levels.values()]
    return CollectedAnswers(table, responses[-1], missing, guarantee, tuple(responses) if "levels" in terms else ())


def _read_levels(invitation: str) -> tuple[dict[Fraction, Client], dict[str, Any]]:
    """A client for every level, by rising epsilon, which checks its terms; and the terms."""
    try:
        terms = json.loads(invitation)
    except ValueError:
        terms = None
    if not isinstance(terms, dict) or "levels" not in terms:
        client = Client(invitation)  # checks the terms
        return {client.epsilon: client}, json.loads(invitation)
    Client(invitation, epsilon=terms.get("epsilon"))  # one of the levels; checks the form of all
    clients = [Client(invitation, epsilon=level["epsilon"]) for level in terms["levels"]]
    return {client.epsilon: client for client in sorted(clients, key=lambda client: client.epsilon)}, terms


def _response(client: Client) -> Response | SubsetResponse:
    if client.size == 1:
        return Response(client.epsilon, client.classes)
    return SubsetResponse(client.epsilon, client.classes, size=client.size)


def _read_line(line: str, number: int, levels: Mapping[Fraction, Client]) -> tuple[Any, ...]:
    """Task, worker, label and epsilon of a line; a class is known by its type too, since 1 == True."""
    want = "one JSON object with format, task, worker and label"
    if len(line) > _MAX_LINE_LENGTH:
        raise BadInput(f"line {number}", got=Verbatim(f"{len(line):,} characters"), want=want)
    try:
        answer = json.loads(line)
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or answer.get("format") != FORMAT or not set(_COLUMNS) <= set(answer):
        raise BadInput(f"line {number}", got=line, want=want)
    stated = answer.get("epsilon", str(max(levels)) if len(levels) == 1 else None)
    client = next((client for level, client in levels.items() if str(level) == stated), None)
    if client is None:
        want = f"one of the levels of the invitation: {', '.join(map(str, levels))}"
        raise BadInput(f"line {number}, epsilon", got=stated, want=want)
    label, classes = answer["label"], client.classes
    members = label if client.size > 1 and isinstance(label, list) else [label]
    codes = {i for member in members for i, c in enumerate(classes) if type(c) is type(member) and c == member}
    if not len(codes) == len(members) == client.size:
        several = f"a list of {client.size} different ones" if client.size > 1 else "one"
        raise BadInput(f"line {number}, label", got=label, want=f"{several} of {classes}")
    return (*(answer[name] for name in _COLUMNS), stated)


def write_answers(collected: CollectedAnswers, path: str | Path) -> Path:
    """Write a file of randomized answers. It names workers, so only its owner may read it."""
    return write_text(path, answers_text(collected), private=True)


def answers_text(collected: CollectedAnswers) -> str:
    """The content of a file of randomized answers: the terms, then one answer per line."""
    terms = _terms(collected.response, collected.guarantee)
    columns = [*_COLUMNS]
    if collected.levels:
        terms["levels"] = [_level(response, collected.guarantee) for response in collected.levels]
        columns.append("epsilon")
    terms |= {"missing": collected.missing, "guarantee": collected.guarantee.to_dict()}
    rows = collected.answers.frame.select(columns).iter_rows(named=True)
    lines = [json.dumps(terms), *(json.dumps({"format": FORMAT, **_unwrapped(row)}) for row in rows)]
    return "\n".join(lines) + "\n"


def _unwrapped(row: dict[str, Any]) -> dict[str, Any]:
    """A row with a class in place of a list of one, which a k-ary level has beside subset levels."""
    label = row["label"]
    return {**row, "label": label[0]} if isinstance(label, list) and len(label) == 1 else row


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
