"""The collector's side of local differential privacy: from randomized rankings alone to a test."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from peerveil.core.arrays import Ints
from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import whole
from peerveil.data.table import is_frame
from peerveil.rankings.laws import squares_null
from peerveil.rankings.local import FORMAT, LocalProtocol, RandomizedRanking, RandomizedRankings
from peerveil.rankings.uniformity import UniformityTest, read_level

_TEXTS: Final = ("epsilon", "method", "protocol")  # not numbers, whatever they look like
_PROTOCOL: Final = ("items", "epsilon", "method", "questions", "seed")


@dataclass(frozen=True, slots=True)
class AnswerCounts:
    """Randomized rankings of one protocol, counted: the answers to each question and their signed sum."""

    protocol: LocalProtocol
    counts: Ints
    sums: Ints
    answers: int | None = None  # None: not stated
    simulated: bool = False


def aggregate_rankings(
    randomized: Any,
    *,
    protocol: LocalProtocol | None = None,
    level: float = 0.05,
    simulated: bool = False,
    answers: int | None = None,
) -> UniformityTest:
    """Test whether rankings differ from chance, from randomized rankings alone.

    Parameters
    ----------
    randomized
        :class:`RandomizedRankings`; or each :class:`RandomizedRanking` or its line of JSON; the path of a file (the
        protocol's line, then one line of JSON per person, as :meth:`RandomizedRankings.text` writes it); a pandas or Polars
        frame, or the path of a CSV or Parquet table, with one row per answer and the protocol in columns (see Notes).
    protocol : LocalProtocol, optional
        The protocol that people followed; answers under another are refused. Needed for single rankings and lines; files
        and tables state theirs.
    level : float, optional
        Significance level: the probability that uniform rankings are rejected. Default: 0.05.
    simulated : bool, optional
        Whether the answers were drawn in a simulation. Default: ``False``, unless the file or table says so.
    answers : int, optional
        How many questions one person may have answered. Default: 1, unless the file or table says otherwise. More than one
        is for ``"pairs"`` only: a uniform ranking orders disjoint pairs independently, so that the null stays exact. The
        guarantee is then that many times epsilon.

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
    >>> from peerveil.rankings import LocalProtocol, Mallows
    >>> simulation = Randomness.simulation(2)
    >>> protocol = LocalProtocol(20, epsilon=1)
    >>> sent = [protocol.randomize(row, randomness=simulation) for row in Mallows(20, 0.5).sample(500, seed=1)]
    >>> test = aggregate_rankings(sent, protocol=protocol, simulated=True)
    >>> test.reject, test.rankings
    (True, 500)
    """
    level = read_level(level)
    if protocol is not None and not isinstance(protocol, LocalProtocol):
        raise BadInput("protocol", got=protocol, want="a LocalProtocol")
    counted = _counted(randomized, protocol)
    if protocol not in (None, counted.protocol):
        raise BadInput("protocol", got=protocol, want=f"{counted.protocol}, as the data say, or None")
    if answers is not None and counted.answers is not None:
        raise BadInput("answers", got=answers, want="None: these data say how many one person may have given")
    if not counted.counts.any():
        raise BadInput("randomized", got=Verbatim("no randomized rankings"), want="at least one")
    stated = counted.answers if answers is None else answers
    return aggregate_sums(
        counted.protocol,
        counted.counts,
        counted.sums,
        level,
        simulated=simulated or counted.simulated,
        answers=1 if stated is None else stated,
    )


def aggregate_sums(
    protocol: LocalProtocol, counts: Ints, sums: Ints, level: float, *, simulated: bool = False, answers: int = 1
) -> UniformityTest:
    """The test from how many answered each question, and the signed sum of their answers."""
    whole(answers, "answers", 1, protocol.questions)
    if answers > 1 and protocol.ask != "pairs":
        raise BadInput("answers", got=answers, want="1: only disjoint pairs are independent in a uniform ranking")
    people = int(counts.sum())
    unit = people / protocol.questions
    single = protocol.guarantee
    guarantee = single.group(answers, unit=single.unit, neighbors=single.neighbors)
    return UniformityTest.of(
        squares_null(tuple(counts[counts > 0].tolist())),
        float(sum(int(s) ** 2 for s in sums)),
        lambda square: square / unit,
        level=level,
        guarantee=guarantee.as_simulated() if simulated else guarantee,
        method="local",
        rankings=people,
        items=protocol.items,
        settings={"questions": protocol.questions, "ask": protocol.ask, "seed": protocol.seed},
    )


def _counted(randomized: Any, protocol: LocalProtocol | None) -> AnswerCounts:
    if isinstance(randomized, RandomizedRankings):
        counts, yes = randomized.counts()
        return AnswerCounts(randomized.protocol, counts, 2 * yes - counts, 1, simulated=randomized.simulated)
    if isinstance(randomized, (str, os.PathLike)):
        path = Path(randomized)
        match path.suffix.lower():
            case ".csv":
                return _count_table(pl.scan_csv(path, schema_overrides=dict.fromkeys(_TEXTS, pl.String)), str(path))
            case ".parquet":
                return _count_table(pl.scan_parquet(path), str(path))
        return _count_file(path)
    if is_frame(randomized):
        if not isinstance(randomized, (pl.DataFrame, pl.LazyFrame)):
            names = randomized if isinstance(randomized, Mapping) else randomized.columns
            randomized = pl.DataFrame({str(name): list(randomized[name]) for name in names})
        return _count_table(randomized.lazy(), "randomized")
    if isinstance(randomized, bytes) or not isinstance(randomized, Iterable):
        want = "randomized rankings, their JSON lines, a file name or a frame"
        raise BadInput("randomized", got=randomized, want=want)
    if protocol is None:
        raise BadInput("protocol", got=None, want="the LocalProtocol that people followed")
    return AnswerCounts(protocol, *_sums(protocol, _read_lines(randomized, protocol, "randomized", 1)))


def _count_file(path: Path) -> AnswerCounts:
    """Count a file: the protocol's line, then one line of JSON per person."""
    want = f"what 'peerveil rankings randomize' writes: first the protocol's line, with {FORMAT!r}"
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
            counts, sums = _sums(protocol, _read_lines(lines, protocol, str(path), 2))
    except (OSError, UnicodeDecodeError) as error:
        got = Verbatim(f"{path} ({type(error).__name__})")
        raise BadInput("randomized", got=got, want="a file of randomized rankings") from None
    return AnswerCounts(protocol, counts, sums, answers, bool(simulated))


def _count_table(table: pl.LazyFrame, where: str) -> AnswerCounts:
    """Count a table with one row per answer, which states its protocol in columns."""
    constant = [*_PROTOCOL, "protocol", "answers"]
    try:
        columns = table.collect_schema().names()
        if missing := {*constant, "question", "bits"} - set(columns):
            raise BadInput(where, got=sorted(missing), want="columns of these names too")
        constant += ["simulated"] if "simulated" in columns else []
        heads = table.select(*constant).unique().head(2).collect().rows(named=True)
        cells = table.group_by("question", "bits").agg(n=pl.len()).collect().rows()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise BadInput(where, got=Verbatim(type(error).__name__), want="a table of randomized rankings") from None
    if len(heads) != 1:
        got = Verbatim("several protocols" if heads else "no protocols")
        raise BadInput(where, got=got, want="randomized rankings of one protocol")
    head = heads[0]
    protocol = LocalProtocol.from_dict({name: head[name] for name in _PROTOCOL})
    if protocol.fingerprint != head["protocol"]:
        raise BadInput(f"{where}, protocol", got=head["protocol"], want=protocol.fingerprint)
    counts, sums = _sums(protocol, ((where, *cell) for cell in cells))
    return AnswerCounts(protocol, counts, sums, head["answers"], bool(head.get("simulated", False)))


def _read_lines(
    lines: Iterable[Any], protocol: LocalProtocol, where: str, first: int
) -> Iterator[tuple[str, int, int, int]]:
    """For each line its place, question and answer, and the number 1; lines of another protocol are refused."""
    name = protocol.fingerprint
    want = f"randomized rankings made under this protocol ({name}): the same items, epsilon, ask, questions and seed"
    for number, line in enumerate(lines, start=first):
        place = f"{where}, line {number}"
        if isinstance(line, str) and not line.strip():
            continue
        try:
            ranking = line if isinstance(line, RandomizedRanking) else RandomizedRanking.from_json(line)
        except BadInput as error:
            raise BadInput(place, got=error.got, want=error.want) from None
        if ranking.protocol != name:
            raise BadInput(place, got=ranking.protocol, want=want)
        yield place, ranking.question, ranking.bits, 1


def _sums(protocol: LocalProtocol, answers: Iterable[tuple[str, int, int, int]]) -> tuple[Ints, Ints]:
    """How many answers each question has, and their signed sums, from places, questions, answers and their numbers."""
    counts, sums = np.zeros((2, protocol.questions), dtype=np.int64)
    for place, question, bits, number in answers:
        if question not in range(protocol.questions):
            raise BadInput(place, got=question, want=f"a question below {protocol.questions}")
        if bits not in (0, 1):
            raise BadInput(place, got=bits, want="0 or 1")
        counts[question] += number
        sums[question] += (2 * bits - 1) * number
    return counts, sums
