"""The wire format: an invitation, reports as lines, and the file that collects them.

An **invitation** is one JSON object: ``format``, ``epsilon`` (an exact number as text), ``classes``, ``response`` (``bits``,
``keep_below``, ``share``: whole numbers from which every language draws the same distribution) and ``promise`` (in words). A
**report** is one JSON object on a line: ``format``, ``task``, ``worker`` (if known) and ``label``. A **file of reports** is the
invitation, with ``missing``, ``simulated`` and ``guarantee``, followed by reports: everything that inference needs to know.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.files import write_text
from peerveil.core.guarantee import Guarantee
from peerveil.core.randomness import Response
from peerveil.data import Labels
from peerveil.truth.client import FORMAT, Client
from peerveil.truth.randomize import CollectedReports, task_guarantee

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from peerveil.core.exact import Number

_LONGEST: Final = 10_000  # characters of a report


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


def collect(invitation: str, lines: Iterable[str]) -> CollectedReports:
    """Put the reports that persons sent into a table; a line that is not a report of this invitation is refused.

    >>> from peerveil.truth.client import Client
    >>> asked = '{"x": 1}'
    >>> collect(asked, [])
    Traceback (most recent call last):
        ...
    peerveil.core.errors.BadInput: invitation: got '{"x": 1}', need an invitation of format peerveil-truth/1
    """
    client = Client(invitation)  # checks the terms
    terms = json.loads(invitation)
    known = {(type(c), c) for c in client.classes}
    columns: dict[str, list[Any]] = {"task": [], "worker": [], "label": []}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        report = _report(line, number)
        label = report["label"]
        if (type(label), label) not in known:
            raise BadInput(f"report {number}, label", got=label, want=f"one of {client.classes}")
        for name in columns:
            columns[name].append(report[name])
    if not columns["task"]:
        raise BadInput("reports", got=Verbatim("no reports"), want="at least one line")
    table, stored, missing = Labels(**columns), terms.get("guarantee"), terms.get("missing")
    # without a stored guarantee, a task that somebody reported on r times is protected with r times epsilon
    promised = (
        task_guarantee(table.frame, client.epsilon, "answer", hidden=missing is not None)
        if stored is None
        else Guarantee.from_dict(stored)
    )
    return CollectedReports(table, Response(client.epsilon, client.classes), missing, promised)


def _report(line: str, number: int) -> dict[str, Any]:
    want = "one JSON object with format, task, worker and label"
    if len(line) > _LONGEST:
        raise BadInput(f"report {number}", got=Verbatim(f"{len(line):,} characters"), want=want)
    try:
        report = json.loads(line)
    except ValueError:
        raise BadInput(f"report {number}", got=line, want=want) from None
    if not isinstance(report, dict) or report.get("format") != FORMAT or not {"task", "worker", "label"} <= set(report):
        raise BadInput(f"report {number}", got=line, want=want)
    return report


def write_reports(collected: CollectedReports, path: str | Path) -> Path:
    """Write a file of reports: the terms, then one report per line. It names workers, so only its owner may read it."""
    return write_text(Path(path), reports_text(collected), private=True)


def reports_text(collected: CollectedReports) -> str:
    """What a file of reports holds."""
    terms = _terms(collected.response, collected.guarantee)
    terms |= {"missing": collected.missing, "guarantee": collected.guarantee.to_dict()}
    rows = collected.reports.frame.select("task", "worker", "label").iter_rows(named=True)
    lines = [json.dumps(terms), *(json.dumps({"format": FORMAT, **row}) for row in rows)]
    return "\n".join(lines) + "\n"


def read_reports(path: str | Path) -> CollectedReports:
    """Read a file of reports."""
    place = Path(path)
    try:
        with place.open(encoding="utf-8") as file:
            first = file.readline()
            return collect(first.strip(), file)
    except UnicodeDecodeError:
        raise BadInput(str(place), got=Verbatim("bytes that are not UTF-8"), want="a file of reports") from None


def is_report_file(path: str | Path) -> bool:
    """Whether a file begins with the terms of this format."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            return f'"format": "{FORMAT}"' in file.readline(_LONGEST)
    except (OSError, UnicodeDecodeError):
        return False
