"""The collector's side of local differential privacy: from reports alone to a test."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import whole
from peerveil.data.table import is_frame
from peerveil.rankings.local import LocalProtocol, Report
from peerveil.rankings.nulls import squares_null
from peerveil.rankings.randomize import FORMAT, RandomizedRankings
from peerveil.rankings.uniformity import UniformityTest, read_level

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

_TEXTS: Final[dict[str, Any]] = {
    "epsilon": str,
    "method": str,
    "protocol": str,
}  # columns that a reader takes for numbers
_PROTOCOL: Final = ("items", "epsilon", "method", "questions", "seed")
_TABLES: Final = (".csv", ".parquet")


@dataclass(frozen=True, slots=True)
class Tally:
    """Reports of one protocol, counted: the answers to each question and their signed sum."""

    protocol: LocalProtocol
    counts: Ints
    sums: Ints
    answers: int | None = None  # None: not stated
    simulated: bool = False


def aggregate_reports(
    reports: Any,
    *,
    protocol: LocalProtocol | None = None,
    level: float = 0.05,
    simulated: bool = False,
    answers: int | None = None,
) -> UniformityTest:
    """Test whether rankings differ from chance, from local reports alone.

    Parameters
    ----------
    reports
        Reports or their lines of JSON; the path of a file of reports (the protocol's line, then one line of JSON per
        report, as :meth:`RandomizedRankings.text` writes it); a pandas or Polars frame, or the path of a CSV or Parquet
        table, with one row per report and the protocol in columns of its own (see Notes); or :class:`RandomizedRankings`.
    protocol : LocalProtocol, optional
        The protocol under which the reports were made; reports of another are refused. Needed for reports and lines;
        files and tables state theirs.
    level : float, optional
        Significance level: the probability that uniform rankings are rejected. Default: 0.05.
    simulated : bool, optional
        Whether the reports were made in a simulation. Default: ``False``, unless the file or table says so.
    answers : int, optional
        How many reports one person may have sent, on different questions. Default: 1, unless the file or table says
        otherwise. More than one is for ``"pairs"`` only: a uniform ranking orders disjoint pairs independently, so that the
        null stays exact. The guarantee is then that many times epsilon.

    Notes
    -----
    For uniform rankings every answer is a fair coin (an odd number of items has a middle place, where a coin decides), and
    stays one through randomized response. So with n_d answers to question d, their signed sum A_d is a sum of n_d fair
    signs, independent over d: the law of the sum of squares is exact. The statistic is that sum over n/D.

    A table has the columns question and bits, and items, epsilon, method, questions, seed, protocol and answers (and
    optionally simulated), equal in all rows, as ``peerveil collect export`` and :meth:`RandomizedRankings.frame` give them.

    Examples
    --------
    >>> from peerveil.core.randomness import Randomness
    >>> from peerveil.rankings import LocalReporter, Mallows
    >>> simulation = Randomness.simulation(2)
    >>> reporter = LocalReporter(20, epsilon=1)
    >>> reports = [reporter.report(row, randomness=simulation) for row in Mallows(20, 0.5).sample(500, seed=1)]
    >>> test = aggregate_reports(reports, protocol=reporter.protocol, simulated=True)
    >>> test.reject, test.rankings
    (True, 500)
    """
    read_level(level)
    if protocol is not None and not isinstance(protocol, LocalProtocol):
        raise BadInput("protocol", got=protocol, want="a LocalProtocol, such as LocalReporter.protocol")
    tally = _tally(reports, protocol)
    if protocol not in (None, tally.protocol):
        raise BadInput("protocol", got=protocol, want=f"{tally.protocol}, as the reports say, or None")
    if answers is not None and tally.answers is not None:
        raise BadInput("answers", got=answers, want="None: these reports say how many one person may have sent")
    if not tally.counts.any():
        raise BadInput("reports", got=Verbatim("no reports"), want="at least one")
    return answer_of_sums(
        tally.protocol,
        tally.counts,
        tally.sums,
        float(level),
        simulated=simulated or tally.simulated,
        answers=next((number for number in (answers, tally.answers) if number is not None), 1),
    )


def _tally(reports: Any, protocol: LocalProtocol | None) -> Tally:
    if isinstance(reports, RandomizedRankings):
        counts, yes = reports.counts()
        return Tally(reports.protocol, counts, 2 * yes - counts, 1, simulated=reports.simulated)
    if isinstance(reports, (str, os.PathLike)):
        path = Path(reports)
        return _table_tally(_scan(path), str(path)) if path.suffix.lower() in _TABLES else _file_tally(path)
    if is_frame(reports):
        return _table_tally(_lazy(reports), "reports")
    if isinstance(reports, bytes) or not isinstance(reports, Iterable):
        raise BadInput("reports", got=reports, want="reports, their lines of JSON, a file name or a frame")
    if protocol is None:
        raise BadInput("protocol", got=None, want="the LocalProtocol under which the reports were made")
    numbered = ((f"reports, line {number}", report) for number, report in enumerate(reports, start=1))
    return Tally(protocol, *_sums(numbered, protocol))


def _file_tally(path: Path) -> Tally:
    """Count a file: the protocol's line, then one line of JSON per report."""
    want = f"reports as 'peerveil rankings randomize' writes them: first the protocol's line, with {FORMAT!r}"
    try:
        with path.open(encoding="utf-8") as lines:
            try:
                header = json.loads(next(lines, ""))
                version, simulated, answers = header.pop("peerveil"), header.pop("simulated"), header.pop("answers", 1)
            except (ValueError, KeyError, AttributeError, TypeError):
                raise BadInput(f"{path}, line 1", got=Verbatim("another line"), want=want) from None
            if version != FORMAT:
                raise BadInput(f"{path}, line 1", got=version, want=want)
            protocol = LocalProtocol.from_dict(header)
            numbered = ((f"{path}, line {n}", line) for n, line in enumerate(lines, start=2) if line.strip())
            counts, sums = _sums(numbered, protocol)
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput("reports", got=Verbatim(f"{path} ({type(error).__name__})"), want="a file of reports") from None
    return Tally(protocol, counts, sums, answers, bool(simulated))


def _scan(path: Path) -> pl.LazyFrame:
    return pl.scan_parquet(path) if path.suffix.lower() == ".parquet" else pl.scan_csv(path, schema_overrides=_TEXTS)


def _lazy(frame: Any) -> pl.LazyFrame:
    if isinstance(frame, (pl.DataFrame, pl.LazyFrame)):
        return frame.lazy()
    names = list(frame) if isinstance(frame, Mapping) else list(frame.columns)
    return pl.LazyFrame({str(name): list(frame[name]) for name in names})


def _table_tally(table: pl.LazyFrame, where: str) -> Tally:
    """Count a table with one row per report, which states its protocol in columns."""
    constant = [*_PROTOCOL, "protocol", "answers"]
    try:
        columns = table.collect_schema().names()
        missing = {*constant, "question", "bits"} - set(columns)
        if missing:
            raise BadInput(where, got=sorted(missing), want="columns of these names too")
        constant += ["simulated"] if "simulated" in columns else []
        heads = table.select(*constant).unique().head(2).collect().rows(named=True)
        cells = table.group_by("question", "bits").agg(n=pl.len()).collect().rows()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise BadInput(where, got=Verbatim(type(error).__name__), want="a table of reports") from None
    if len(heads) != 1:
        got = Verbatim("several protocols" if heads else "no protocols")
        raise BadInput(where, got=got, want="reports of one protocol")
    head = heads[0]
    protocol = LocalProtocol.from_dict({name: head[name] for name in _PROTOCOL})
    if protocol.fingerprint != head["protocol"]:
        raise BadInput(f"{where}, protocol", got=head["protocol"], want=protocol.fingerprint)
    counts, sums = np.zeros(protocol.questions, dtype=np.int64), np.zeros(protocol.questions, dtype=np.int64)
    for question, bits, n in cells:
        if question not in range(protocol.questions) or bits not in (0, 1):
            raise BadInput(where, got=(question, bits), want=f"questions below {protocol.questions}, and bits 0 or 1")
        counts[question] += n
        sums[question] += (2 * bits - 1) * n
    return Tally(protocol, counts, sums, head["answers"], bool(head.get("simulated", False)))


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
    whole(answers, "answers", 1, protocol.questions)
    if answers > 1 and protocol.ask != "pairs":
        raise BadInput("answers", got=answers, want="1: only disjoint pairs are independent in a uniform ranking")
    people = int(counts.sum())
    unit = people / protocol.questions
    law = squares_null(tuple(counts[counts > 0].tolist()))
    square = sum(int(s) ** 2 for s in sums)
    pvalue = law.tail(float(square))
    one = protocol.guarantee
    promise = one.group(answers, unit=one.unit, neighbors=one.neighbors)
    return UniformityTest(
        guarantee=promise.as_simulated() if simulated else promise,
        method="local",
        reject=pvalue <= level,
        statistic=square / unit,
        critical=law.critical(level) / unit,
        pvalue=pvalue,
        level=level,
        rankings=people,
        items=protocol.items,
        settings={"questions": protocol.questions, "ask": protocol.ask, "seed": protocol.seed},
        null=law.mapped(lambda v: v / unit),
    )


def _sums(reports: Iterable[tuple[str, Any]], protocol: LocalProtocol) -> tuple[Ints, Ints]:
    """How many answers each question has, and their signed sums; every report is checked, and named in an error."""
    name, number = protocol.fingerprint, protocol.questions
    counts, sums = np.zeros(number, dtype=np.int64), np.zeros(number, dtype=np.int64)
    for place, given in reports:
        try:
            report = given if isinstance(given, Report) else Report.from_json(_text(given))
        except BadInput as error:
            raise BadInput(place, got=error.got, want=error.want) from None
        if report.protocol != name:
            want = f"reports made under this protocol ({name}): the same items, epsilon, ask, questions and seed"
            raise BadInput(place, got=report.protocol, want=want)
        if report.question >= number:
            raise BadInput(place, got=report.question, want=f"a question below {number}")
        if report.bits > 1:
            raise BadInput(place, got=report.bits, want="0 or 1")
        counts[report.question] += 1
        sums[report.question] += 2 * report.bits - 1
    return counts, sums


def _text(given: Any) -> str:
    if isinstance(given, str):
        return given
    if isinstance(given, Mapping):
        return json.dumps(dict(given))
    raise BadInput("report", got=given, want="a Report or its line of JSON")
