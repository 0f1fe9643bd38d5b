"""The collector's side of local differential privacy: from reports alone to a test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from peerveil.errors import BadInput, Verbatim
from peerveil.rankings.local import QUESTIONS, LocalProtocol, Report
from peerveil.rankings.nulls import squares_null
from peerveil.rankings.uniformity import UniformityTest, read_level

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from peerveil.numerics.exact import Number

    Ints = NDArray[np.int64]


_TEXTS: dict[str, Any] = {"epsilon": str, "method": str, "protocol": str}  # columns that look like numbers to a reader


def aggregate_reports(
    reports: Iterable[Report | str | Mapping[str, Any]],
    items: int,
    epsilon: Number,
    level: float = 0.05,
    *,
    method: str = "items",
    questions: int = QUESTIONS,
    seed: int = 0,
    simulated: bool = False,
    answers: int = 1,
) -> UniformityTest:
    """Test whether rankings differ from chance, from one report a person.

    Parameters
    ----------
    reports
        Reports, or their lines of JSON. Nothing else is needed, and nothing private is left in them.
    items, epsilon, method, questions, seed
        The protocol under which they were made (:class:`LocalProtocol`); reports of another are refused.
    level
        How often uniform rankings may be called different.
    simulated
        Whether the reports were made in the simulation lane; a report does not say so itself.
    answers
        How many reports one person may have sent, on different questions. More than one is for ``"pairs"`` only: a uniform
        ranking orders disjoint pairs independently, so that the null stays exact. The promise is then so many times epsilon.

    Notes
    -----
    For uniform rankings every answer is a fair coin (an odd number of items has a middle place, where a coin decides), and
    stays one through randomized response. So with n_d answers to question d, their signed sum A_d is a sum of n_d fair
    signs, independent over d: the law of the sum of squares is exact. The statistic is that sum over n/D.

    Examples
    --------
    >>> from peerveil.randomness import Randomness
    >>> from peerveil.rankings import LocalReporter, Mallows
    >>> simulation = Randomness.simulation(1)
    >>> reporter = LocalReporter(20, epsilon=1)
    >>> reports = [reporter.report(row, simulation) for row in Mallows(20, 0.5).sample(500, simulation)]
    >>> test = aggregate_reports(reports, 20, 1, simulated=True)
    >>> test.reject, test.rankings
    (True, 500)
    """
    protocol = LocalProtocol(items, epsilon, method, questions, seed)
    read_level(level)
    if isinstance(reports, (str, bytes)) or not isinstance(reports, Iterable):
        raise BadInput("reports", got=reports, want="reports, or their lines of JSON")
    counts, sums = _sums(reports, protocol)
    if not counts.any():
        raise BadInput("reports", got=Verbatim("no reports"), want="at least one")
    return answer_of_sums(protocol, counts, sums, float(level), simulated=simulated, answers=answers)


def aggregate_table(path: str | Path, level: float = 0.05) -> UniformityTest:
    """The test from a table of reports (CSV or Parquet) that holds its protocol in columns of its own.

    Columns: question and bits, one row a report; items, epsilon, method, questions, seed, protocol and answers, equal in all
    rows, as ``peerveil collect export`` writes them.
    """
    import polars as pl

    constant = ("items", "epsilon", "method", "questions", "seed", "protocol", "answers")
    where = str(path)
    try:
        lazy = pl.scan_parquet(where) if where.endswith(".parquet") else pl.scan_csv(where, schema_overrides=_TEXTS)
        missing = {*constant, "question", "bits"} - set(lazy.collect_schema().names())
        if missing:
            raise BadInput(where, got=sorted(missing), want="columns of these names too")
        head = lazy.select(*constant).unique().head(2).collect().rows(named=True)
        tally = lazy.group_by("question", "bits").agg(n=pl.len()).collect().rows()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise BadInput(where, got=Verbatim(type(error).__name__), want="a table of reports") from None
    if len(head) != 1:
        raise BadInput(
            where, got=Verbatim(f"{'no' if not head else 'several'} protocols"), want="reports of one protocol"
        )
    one = head[0]
    protocol = LocalProtocol.from_dict(
        {name: one[name] for name in ("items", "epsilon", "method", "questions", "seed")}
    )
    if protocol.fingerprint != one["protocol"]:
        raise BadInput(f"{where}, protocol", got=one["protocol"], want=protocol.fingerprint)
    counts, sums = np.zeros(protocol.questions, dtype=np.int64), np.zeros(protocol.questions, dtype=np.int64)
    for question, bits, n in tally:
        if question not in range(protocol.questions) or bits not in (0, 1):
            raise BadInput(where, got=(question, bits), want=f"questions below {protocol.questions}, and bits 0 or 1")
        counts[question] += n
        sums[question] += (2 * bits - 1) * n
    return answer_of_sums(protocol, counts, sums, read_level(level), answers=one["answers"])


def answer_of_sums(
    protocol: LocalProtocol,
    counts: Ints,
    sums: Ints,
    level: float,
    *,
    simulated: bool = False,
    answers: int = 1,
) -> UniformityTest:
    """The test from how many answered each question, and the signed sum of their answers."""
    if isinstance(answers, bool) or not isinstance(answers, int) or not 1 <= answers <= protocol.questions:
        raise BadInput("answers", got=answers, want=f"a whole number from 1 to {protocol.questions}")
    if answers > 1 and protocol.method != "pairs":
        raise BadInput("answers", got=answers, want="1: only disjoint pairs are independent in a uniform ranking")
    people = int(counts.sum())
    unit = people / protocol.questions
    law = squares_null(tuple(counts[counts > 0].tolist()))
    square = sum(int(s) ** 2 for s in sums)
    p_value = law.tail(float(square))
    one = protocol.guarantee
    promise = one.group(answers, unit=one.unit, neighbours=one.neighbours)
    return UniformityTest(
        guarantee=promise.as_simulated() if simulated else promise,
        method="local",
        reject=p_value <= level,
        statistic=square / unit,
        critical=law.critical(level) / unit,
        p_value=p_value,
        level=level,
        rankings=people,
        items=protocol.items,
        settings={"questions": protocol.questions, "about": protocol.method, "seed": protocol.seed},
        null=law.mapped(lambda v: v / unit),
    )


def _sums(reports: Iterable[Any], protocol: LocalProtocol) -> tuple[Ints, Ints]:
    """How many answers each question has, and their signed sums; every report is checked."""
    name, number = protocol.fingerprint, protocol.questions
    counts, sums = np.zeros(number, dtype=np.int64), np.zeros(number, dtype=np.int64)
    for place, given in enumerate(reports, start=1):
        try:
            report = given if isinstance(given, Report) else Report.from_json(_text(given))
        except BadInput as error:
            raise BadInput(f"reports, line {place}", got=error.got, want=error.want) from None
        if report.protocol != name:
            want = f"reports made under this protocol ({name}): the same items, epsilon, method, questions and seed"
            raise BadInput(f"reports, line {place}", got=report.protocol, want=want)
        if report.question >= number:
            raise BadInput(f"reports, line {place}", got=report.question, want=f"a question below {number}")
        if report.bits > 1:
            raise BadInput(f"reports, line {place}", got=report.bits, want="0 or 1")
        counts[report.question] += 1
        sums[report.question] += 2 * report.bits - 1
    return counts, sums


def _text(given: Any) -> str:
    if isinstance(given, str):
        return given
    if isinstance(given, Mapping):
        import json

        return json.dumps(dict(given))
    raise BadInput("report", got=given, want="a Report or its line of JSON")
