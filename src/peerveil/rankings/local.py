"""Local differential privacy: every person answers one question about their ranking, through randomized response.

A device needs a ranking and a :class:`LocalProtocol` (public numbers, and a public seed that fixes the questions), and sends
one :class:`RandomizedRanking`. :mod:`peerveil.rankings.aggregate` tests from these alone.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from peerveil.core.errors import BadInput, Verbatim, one_of
from peerveil.core.exact import Number, printed, whole
from peerveil.core.files import write_text
from peerveil.core.guarantee import Guarantee, read_epsilon
from peerveil.core.randomness import Randomness, Response
from peerveil.core.result import Result
from peerveil.rankings.ballots import Ballots
from peerveil.rankings.figures import draw_randomized
from peerveil.rankings.kernels import bisected
from peerveil.rankings.mallows import read_items, read_ranking

if TYPE_CHECKING:
    from peerveil.core.arrays import Ints
    from peerveil.ledger import Account

QUESTIONS: Final = 3
ASK: Final = ("items", "pairs")
FORMAT: Final = "rankings reports 1"
"""First line of a file of randomized rankings: ``{"peerveil": FORMAT, "items": ..., ...}``."""
FILE_NAME: Final = "reports.jsonl"
_MOST_SEED: Final = 2**53


@dataclass(frozen=True, slots=True, init=False)
class LocalProtocol:
    """What all people and the aggregator agree on beforehand, all of it public, and the randomizer that it defines.

    **Neighbors**: one person has any other ranking. **Proof.** Which question is answered does not depend on the ranking.
    The answer passes through a randomized response whose loss is at most epsilon (:class:`peerveil.Response`); a fair coin
    decides where the ranking does not. Questions drawn from a public seed are the same whatever the ranking (Definition
    3 of the paper asks for every value of the public randomness). ∎

    Why a question about one item: under a weak Mallows signal r (see :func:`~peerveil.rankings.central.choose_central`) "is
    it in the upper half?" has a mean square bias of 3r/4, a pair's order 2r/3, the sign of a projection on a random balanced
    direction 2r/pi; and over items it varies less (kurtosis 9/5 against 12/5 and 3), so that a few questions suffice more
    often.

    Parameters
    ----------
    items
        How many items are ranked, at least 2.
    epsilon
        The privacy of everything that one person sends.
    ask
        ``"items"`` (default): is this item in the upper half of your ranking?, about a few items that all people share.
        ``"pairs"``: is this item before that one?, about a few shared pairs.
    questions
        How many questions are shared.
    seed
        Fixes the shared questions. Choose it before anybody answers, and publish it.

    Examples
    --------
    >>> protocol = LocalProtocol(5, epsilon=1)
    >>> randomized = protocol.randomize([4, 0, 1, 2, 3], randomness=Randomness.simulation(1))
    >>> RandomizedRanking.from_json(randomized.to_json()) == randomized, randomized.question < 3
    (True, True)
    """

    items: int
    exact_epsilon: Fraction
    ask: str
    questions: int
    seed: int

    def __init__(
        self, items: int, *, epsilon: Number, ask: str = "items", questions: int = QUESTIONS, seed: int = 0
    ) -> None:
        m, exact_epsilon = read_items(items, 2), read_epsilon(epsilon)
        number = min(whole(questions, "questions", 1), m if one_of(ask, "ask", ASK) == "items" else m // 2)
        start = whole(seed, "seed", 0, _MOST_SEED - 1, want="a whole number from 0, public and fixed beforehand")
        for own, value in zip(fields(self), (m, exact_epsilon, ask, number, start), strict=True):
            object.__setattr__(self, own.name, value)

    @property
    def epsilon(self) -> float:
        """The privacy of everything that one person sends."""
        return printed(self.exact_epsilon, "up")

    @property
    def response(self) -> Response:
        """The randomized response to one yes-or-no question."""
        return Response(self.exact_epsilon, classes=2)

    @property
    def guarantee(self) -> Guarantee:
        """Local DP for one person's whole ranking."""
        return Guarantee.local_dp(
            self.exact_epsilon, unit="one person's ranking", neighbors="one person has any other ranking of the items"
        )

    @property
    def attenuation(self) -> float:
        """How much of a question's bias is left after randomized response: tanh(epsilon/2)."""
        return 2 * self.response.keep - 1

    @property
    def fingerprint(self) -> str:
        """Eight letters that stand for the protocol in every randomized ranking."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()[:8]

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, in the wire format (there ``ask`` is called ``method``)."""
        return {
            "items": self.items,
            "epsilon": str(self.exact_epsilon),
            "method": self.ask,
            "questions": self.questions,
            "seed": self.seed,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LocalProtocol:
        """The protocol that :meth:`to_dict` wrote."""
        if not isinstance(data, dict) or set(data) != {"items", "epsilon", "method", "questions", "seed"}:
            raise BadInput("protocol", got=data, want="what LocalProtocol.to_dict() returns")
        settings = dict(data)
        return cls(settings.pop("items"), ask=settings.pop("method"), **settings)

    def order(self) -> Ints:
        """The public order of items from which questions are taken: item(s) first in it are asked about first."""
        return Randomness.simulation(self.seed).permutation(self.items)

    def answers(self, ranks: Any, question: Any) -> Any:
        """+1, -1 or 0 (a coin must decide) for each row's own question: upper half or not, or first before second."""
        order, rows = self.order(), np.arange(len(ranks))
        if self.ask == "items":
            return np.sign(self.items - 1 - 2 * ranks[rows, order[question]].astype(np.int64))
        first, second = (ranks[rows, order[2 * question + i]].astype(np.int64) for i in (0, 1))
        return np.sign(second - first)

    def randomize(self, ranking: ArrayLike, *, randomness: Randomness | None = None) -> RandomizedRanking:
        """What a device sends for one complete ranking (ranks from 0, a place for every item)."""
        ranks = read_ranking(ranking, self.items, "ranking").reshape(1, -1)
        return self.randomize_all(ranks, randomness=randomness)[0]

    def randomize_all(self, ranks: Any, *, randomness: Randomness | None = None) -> list[RandomizedRanking]:
        """The same for many people, each by itself: one row per ranking, already checked."""
        question, bits = self.draw(ranks, randomness=randomness)
        name = self.fingerprint
        return [RandomizedRanking(name, q, b) for q, b in zip(question.tolist(), bits.tolist(), strict=True)]

    def draw(self, ranks: Any, *, randomness: Randomness | None = None) -> tuple[Ints, Any]:
        """Questions and randomized answers (0 or 1) as arrays."""
        source = Randomness.of(randomness)
        question = source.integers(0, self.questions, len(ranks))
        signs = self.answers(ranks, question)
        answers = np.where(signs == 0, source.integers(0, 2, len(ranks)), (signs > 0).astype(np.int64))
        return question, source.respond(answers, self.response)


@dataclass(frozen=True, slots=True)
class RandomizedRanking:
    """What leaves one person's device.

    ``bits`` is the randomized answer to one question, 0 or 1. The wire format is one line of JSON:
    ``{"protocol": "1f9a0c2e", "question": 2, "bits": "1"}``.
    """

    protocol: str
    question: int
    bits: int

    def to_json(self) -> str:
        """One line."""
        return json.dumps({"protocol": self.protocol, "question": self.question, "bits": f"{self.bits:x}"})

    @classmethod
    def from_json(cls, line: str | Mapping[str, Any]) -> RandomizedRanking:
        """Read a line, or the object in it; anything else is refused."""
        want = "a randomized ranking such as " + cls("1f9a0c2e", 2, 1).to_json()
        try:
            data = json.loads(line) if isinstance(line, str) else line
        except ValueError:
            raise BadInput("randomized ranking", got=line, want=want) from None
        match data:
            case {"protocol": str(protocol), "question": int(question), "bits": str(bits), **rest} if (
                not rest and type(question) is int and question >= 0 and bits and set(bits) <= set("0123456789abcdef")
            ):
                return cls(protocol, question, int(bits, 16))
        raise BadInput("randomized ranking", got=line, want=want)


@dataclass(frozen=True, kw_only=True)
class RandomizedRankings(Result):
    """One randomized ranking per person, in random order; every field may be published.

    Attributes
    ----------
    protocol
        What people answered, and with which epsilon.
    rankings
        The randomized rankings; :func:`~peerveil.rankings.aggregate_rankings` tests from them.
    """

    protocol: LocalProtocol
    rankings: tuple[RandomizedRanking, ...] = field(repr=False)

    def summary(self) -> str:
        """How many there are, and the protocol, in one line."""
        number, protocol = len(self.rankings), self.protocol
        return f"{number:,} randomized rankings of {protocol.items:,} items (epsilon {protocol.epsilon:g})"

    def text(self) -> str:
        """As a file: the protocol's line, then one line of JSON per person."""
        header = {"peerveil": FORMAT, **self.protocol.to_dict(), "simulated": self.simulated}
        return "\n".join([json.dumps(header), *(ranking.to_json() for ranking in self.rankings)]) + "\n"

    def frame(self) -> pl.DataFrame:
        """One row per person, with the protocol in columns of its own."""
        own = {"protocol": self.protocol.fingerprint, "answers": 1, "simulated": self.simulated}
        table = {"question": [r.question for r in self.rankings], "bits": [r.bits for r in self.rankings]}
        return pl.DataFrame(table).with_columns(
            pl.lit(v).alias(name) for name, v in (self.protocol.to_dict() | own).items()
        )

    def counts(self) -> tuple[Ints, Ints]:
        """How many people answered each question, and how many of these answers are yes."""
        question = np.array([ranking.question for ranking in self.rankings], dtype=np.int64)
        yes = np.array([ranking.bits == 1 for ranking in self.rankings], dtype=bool)
        number = self.protocol.questions
        return np.bincount(question, minlength=number), np.bincount(question[yes], minlength=number)

    def to_dict(self) -> dict[str, Any]:
        """Protocol, numbers of answers and guarantee as JSON values; the rankings themselves are in :meth:`text`."""
        answers, yes = (count.tolist() for count in self.counts())
        own = {"rankings": len(self.rankings), "questions": {"answers": answers, "yes": yes}}
        return {**super().to_dict(), "protocol": self.protocol.to_dict(), **own}

    def save(self, folder: str | os.PathLike[str], *, force: bool = False) -> list[Path]:
        """Write ``reports.jsonl`` (see :meth:`text`), ``result.json``, ``figure.svg`` and ``table.csv`` into a folder."""
        path = Path(folder) / FILE_NAME
        if path.exists() and not force:
            got = Verbatim(f"{folder}, which holds {FILE_NAME}")
            raise BadInput("folder", got=got, want="a new or empty folder, or force=True to replace what is in it")
        return [*super().save(folder, force=force), write_text(path, self.text())]

    draw = draw_randomized


def randomize_rankings(
    rankings: Any,
    *,
    epsilon: Number,
    ask: str = "items",
    questions: int = QUESTIONS,
    public_seed: int = 0,
    columns: Mapping[str, str] | None = None,
    layout: str | None = None,
    randomness: Randomness | None = None,
    account: Account | None = None,
) -> RandomizedRankings:
    """Randomize complete rankings one by one, as each person's device would; in random order.

    Parameters
    ----------
    rankings, columns, layout
        See :func:`~peerveil.rankings.uniformity_test`.
    epsilon : number
        Privacy budget for one person's ranking.
    ask : {"items", "pairs"}, optional
        What the questions are about: an item's place, or the order of two items. Default: ``"items"``.
    questions : int, optional
        How many questions all people share. Default: 3; see :func:`~peerveil.rankings.choose_questions`.
    public_seed : int, optional
        Fixes the shared questions; publish it beforehand. Default: 0.
    randomness : Randomness, optional
        Default: ``Randomness.secure()``.
    account : Account, optional
        An account of a ledger, debited before anything is drawn.

    Notes
    -----
    Each ranking is randomized by itself, and the order is drawn without looking at the result: the guarantee is that of one
    :meth:`LocalProtocol.randomize`.

    Examples
    --------
    >>> from peerveil.rankings import Mallows, aggregate_rankings
    >>> votes = Mallows(20, 0.5).sample(500, seed=1)
    >>> randomized = randomize_rankings(votes, epsilon=1, randomness=Randomness.simulation(2))
    >>> print(randomized.summary())
    500 randomized rankings of 20 items (epsilon 1)
    >>> aggregate_rankings(randomized).reject
    True
    """
    source = Randomness.of(randomness)
    ballots = Ballots.of(rankings, columns=columns, layout=layout)
    protocol = LocalProtocol(ballots.items, epsilon=epsilon, ask=ask, questions=questions, seed=public_seed)
    ballots.require_rows("a randomized ranking")
    if account is not None:
        purpose = f"randomized rankings of {ballots.items} items"
        account.spend(protocol.guarantee, purpose=purpose, data=ballots.data, randomness=source)
    randomized = protocol.randomize_all(ballots.rows("a randomized ranking", source), randomness=source)
    return RandomizedRankings(guarantee=source.stamp(protocol.guarantee), protocol=protocol, rankings=tuple(randomized))


def choose_questions(people: int, *, epsilon: Number) -> int:
    """How many shared questions give power 0.8 at the weakest signal, from public numbers alone.

    The signal is a mean square bias t of an answer; over random items the bias is uniform on (-sqrt(3t), sqrt(3t)), and
    cannot exceed 1. With few people only a strong signal is found, biases saturate, and one or two questions are best.

    >>> choose_questions(100, epsilon="1/3"), choose_questions(10_000, epsilon="1/3")
    (1, 3)
    """
    from scipy.stats import chi2, ncx2

    strength = people * math.tanh(float(read_epsilon(epsilon)) / 2) ** 2
    place = np.random.default_rng(20210612).uniform(-1, 1, (400, 16))
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
