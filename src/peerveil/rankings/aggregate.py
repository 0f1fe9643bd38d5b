"""The collector's side of local differential privacy: from randomized rankings alone to a test."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from peerveil.core.arrays import Ints
from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import Number, whole
from peerveil.core.guarantee import read_epsilon
from peerveil.data.table import is_frame
from peerveil.rankings.kernels import bisected
from peerveil.rankings.laws import Law, squares_null
from peerveil.rankings.local import (
    FORMAT,
    NAMING_FIELDS,
    NAMING_FORMAT,
    QUESTION_FIELDS,
    LocalProtocol,
    RandomizedRanking,
    RandomizedRankings,
)
from peerveil.rankings.uniformity import UniformityTest, read_level

_TEXTS: Final = ("epsilon", "method", "protocol")  # not numbers, whatever they look like
_SEED: Final = 20210612
_NULL_DRAWS: Final = 20_000
_Answer = tuple[str, int, int, int]  # where it stands, question, answer, how often


@dataclass(frozen=True, slots=True)
class AnswerCounts:
    """Randomized rankings of one protocol, counted: one row per question, one column per answer (no and yes, or items)."""

    protocol: LocalProtocol
    tally: Ints
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
    counted = count_answers(randomized, protocol)
    if answers is not None and counted.answers is not None:
        raise BadInput("answers", got=answers, want="None: these data say how many one person may have given")
    stated = counted.answers if answers is None else answers
    many, drawn = 1 if stated is None else stated, simulated or counted.simulated
    if counted.protocol.ask == "name":
        whole(many, "answers", 1, 1, want="1: a person names one item")
        return _naming_test(counted.protocol, counted.tally, level, simulated=drawn)
    signs = counted.tally @ np.array([-1, 1])
    return aggregate_sums(counted.protocol, counted.tally.sum(axis=1), signs, level, simulated=drawn, answers=many)


def _naming_test(protocol: LocalProtocol, tally: Ints, level: float, *, simulated: bool) -> UniformityTest:
    """Whether some items are named more often as first than as last: the sum of squared differences over a block's mean.

    For uniform rankings every item of a block is named equally often, as each is a person's own with the same
    probability. So given how many answered, the differences of a block are sums of independent steps: simulated, publicly.
    """
    people, rng = int(tally.sum()), np.random.default_rng(_SEED)
    statistic, null = 0.0, np.zeros(_NULL_DRAWS)
    for number, block in enumerate(protocol.blocks):
        first, last = tally[2 * number : 2 * number + 2, block]
        share = max(int(first.sum() + last.sum()), 1) / len(block)
        even = np.full(len(block), 1 / len(block))
        draws = rng.multinomial(first.sum(), even, _NULL_DRAWS) - rng.multinomial(last.sum(), even, _NULL_DRAWS)
        null += (draws.astype(np.float64) ** 2).sum(axis=1) / share
        statistic += float(((first - last) ** 2).sum()) / share
    null.sort()
    return UniformityTest.of(
        Law(null, np.full(_NULL_DRAWS, 1 / _NULL_DRAWS), "simulated", _NULL_DRAWS),
        statistic,
        lambda value: value,
        level=level,
        guarantee=protocol.guarantee.as_simulated() if simulated else protocol.guarantee,
        method="local",
        rankings=people,
        items=protocol.items,
        settings={"questions": protocol.questions, "ask": protocol.ask},
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


def count_answers(randomized: Any, protocol: LocalProtocol | None) -> AnswerCounts:
    """Randomized rankings in any form, counted; at least one of them."""
    if protocol is not None and not isinstance(protocol, LocalProtocol):
        raise BadInput("protocol", got=protocol, want="a LocalProtocol")
    counted = _counted(randomized, protocol)
    if protocol not in (None, counted.protocol):
        raise BadInput("protocol", got=protocol, want=f"{counted.protocol}, as the data say, or None")
    if not counted.tally.any():
        raise BadInput("randomized", got=Verbatim("no randomized rankings"), want="at least one")
    return counted


def _counted(randomized: Any, protocol: LocalProtocol | None) -> AnswerCounts:
    if isinstance(randomized, AnswerCounts):
        return randomized
    if isinstance(randomized, RandomizedRankings):
        return AnswerCounts(randomized.protocol, randomized.counts(), 1, simulated=randomized.simulated)
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
    return AnswerCounts(protocol, _tally(protocol, _read_lines(randomized, protocol, "randomized", 1)))


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
            if version != (NAMING_FORMAT if header.get("method") == "name" else FORMAT):
                raise BadInput(f"{path}, line 1", got=version, want=want)
            protocol = LocalProtocol.from_dict(header)
            tally = _tally(protocol, _read_lines(lines, protocol, str(path), 2))
    except (OSError, UnicodeDecodeError) as error:
        got = Verbatim(f"{path} ({type(error).__name__})")
        raise BadInput("randomized", got=got, want="a file of randomized rankings") from None
    return AnswerCounts(protocol, tally, answers, bool(simulated))


def _count_table(table: pl.LazyFrame, where: str) -> AnswerCounts:
    """Count a table with one row per answer, which states its protocol in columns."""
    try:
        columns = table.collect_schema().names()
        own = NAMING_FIELDS if "blocks" in columns else QUESTION_FIELDS
        constant = [*own, "protocol", "answers"]
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
    try:
        lists = {name: json.loads(head[name]) for name in own if name in ("blocks", "names")}
    except (TypeError, ValueError):
        raise BadInput(where, got=head["blocks"], want="blocks and names as JSON lists") from None
    protocol = LocalProtocol.from_dict({name: head[name] for name in own} | lists)
    if protocol.fingerprint != head["protocol"]:
        raise BadInput(f"{where}, protocol", got=head["protocol"], want=protocol.fingerprint)
    tally = _tally(protocol, ((where, *cell) for cell in cells))
    return AnswerCounts(protocol, tally, head["answers"], bool(head.get("simulated", False)))


def _read_lines(lines: Iterable[Any], protocol: LocalProtocol, where: str, first: int) -> Iterator[_Answer]:
    """For each line its place, question and answer, and the number 1; lines of another protocol are refused."""
    name = protocol.fingerprint
    want = f"randomized rankings made under this protocol ({name}): the same items, epsilon, ask and questions"
    for place, ranking in read_rankings(lines, where, first):
        if ranking.protocol != name:
            raise BadInput(place, got=ranking.protocol, want=want)
        yield place, ranking.question, ranking.bits, 1


def read_rankings(lines: Iterable[Any], where: str, first: int = 1) -> Iterator[tuple[str, RandomizedRanking]]:
    """Randomized rankings and where they stand; empty lines are left out."""
    for number, line in enumerate(lines, start=first):
        place = f"{where}, line {number}"
        if isinstance(line, str) and not line.strip():
            continue
        try:
            yield place, line if isinstance(line, RandomizedRanking) else RandomizedRanking.from_json(line)
        except BadInput as error:
            raise BadInput(place, got=error.got, want=error.want) from None


def _tally(protocol: LocalProtocol, answers: Iterable[_Answer]) -> Ints:
    """How many people gave each answer to each question."""
    naming = protocol.ask == "name"
    allowed = [set(block) for block in protocol.blocks for _ in range(2)] or [{0, 1}] * protocol.questions
    tally = np.zeros((protocol.questions, protocol.items if naming else 2), dtype=np.int64)
    for place, question, bits, number in answers:
        if question not in range(protocol.questions):
            raise BadInput(place, got=question, want=f"a question below {protocol.questions}")
        if bits not in allowed[question]:
            raise BadInput(place, got=bits, want="an item of the question's block" if naming else "0 or 1")
        tally[question, bits] += number
    return tally


def choose_questions(people: int, *, epsilon: Number) -> int:
    """How many shared questions give power 0.8 at the weakest signal, from public numbers alone.

    The signal is a mean square bias t of an answer; over random items the bias is uniform on (-sqrt(3t), sqrt(3t)), and
    cannot exceed 1. With few people only a strong signal is found, biases saturate, and one or two questions are best.

    >>> choose_questions(100, epsilon="1/3"), choose_questions(10_000, epsilon="1/3")
    (1, 3)
    """
    from scipy.stats import chi2, ncx2

    strength = people * math.tanh(float(read_epsilon(epsilon)) / 2) ** 2
    place = np.random.default_rng(_SEED).uniform(-1, 1, (400, 16))
    best = (math.inf, 1)
    for number in (1, 2, 3, 4, 5, 6, 8, 12):
        critical = float(chi2.isf(0.05, number))

        def too_weak(signal: float, number: int = number, critical: float = critical) -> bool:
            bias = np.clip(place[:, :number] * math.sqrt(3 * signal), -1, 1)
            shift = strength / number * (bias**2).sum(axis=1)
            return float(np.mean(ncx2.sf(critical, number, np.maximum(shift, 1e-12)))) < 0.8

        signal = bisected(too_weak, 1e-9, 100.0, steps=40, geometric=True)[1]
        if signal < 0.98 * best[0]:
            best = (signal, number)
    return best[1]
