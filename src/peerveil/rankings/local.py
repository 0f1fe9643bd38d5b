"""Local differential privacy: every person answers one question about their ranking, through randomized response.

The reporter needs a ranking and nothing else; the aggregator needs reports and nothing else. What they share is a
:class:`LocalProtocol`: public numbers, and a public seed that fixes the questions.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.core.errors import BadInput
from peerveil.core.exact import printed, whole
from peerveil.core.guarantee import Guarantee, read_epsilon
from peerveil.core.randomness import Randomness, Response
from peerveil.rankings.mallows import read_items, read_randomness, read_ranking

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from numpy.typing import ArrayLike, NDArray

    from peerveil.core.exact import Number

    Ints = NDArray[np.int64]

QUESTIONS: Final = 3
ASK: Final = ("items", "pairs")
_MOST_SEED: Final = 2**53


@dataclass(frozen=True, slots=True, init=False)
class LocalProtocol:
    """What all people and the aggregator agree on beforehand; everything in it is public.

    Parameters
    ----------
    items
        How many items are ranked, at least 2.
    epsilon
        The privacy of everything that one person reports.
    ask
        ``"items"`` (default): is this item in the upper half of your ranking?, about a few items that all people share.
        ``"pairs"``: is this item before that one?, about a few shared pairs.
    questions
        How many questions are shared.
    seed
        Fixes the shared questions. Choose it before the reports, and publish it.
    """

    items: int
    exact_epsilon: Fraction
    ask: str
    questions: int
    seed: int

    def __init__(
        self, items: int, *, epsilon: Number, ask: str = "items", questions: int = QUESTIONS, seed: int = 0
    ) -> None:
        m = read_items(items)
        if m < 2:
            raise BadInput("items", got=items, want="at least 2: one item can be ranked in one way only")
        if ask not in ASK:
            raise BadInput("ask", got=ask, want=f"one of {', '.join(ASK)}")
        whole(seed, "seed", 0, _MOST_SEED - 1, want="a whole number from 0, public and fixed beforehand")
        whole(questions, "questions", 1)
        values = {
            "items": m,
            "exact_epsilon": read_epsilon(epsilon),
            "ask": ask,
            "questions": min(int(questions), m if ask == "items" else m // 2),
            "seed": int(seed),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def epsilon(self) -> float:
        """The privacy of everything that one person reports."""
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

    def order(self) -> Ints:
        """The public order of items from which questions are taken: item(s) first in it are asked about first."""
        return Randomness.simulation(self.seed).permutation(self.items)

    @property
    def fingerprint(self) -> str:
        """Eight letters that stand for the protocol in every report."""
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
        ask, questions, seed = data["method"], data["questions"], data["seed"]
        return cls(data["items"], epsilon=data["epsilon"], ask=ask, questions=questions, seed=seed)

    def answers(self, ranks: Any, question: Any) -> Any:
        """+1, -1 or 0 (a coin must decide) for each row's own question: upper half or not, or first before second."""
        order, rows = self.order(), np.arange(len(ranks))
        if self.ask == "items":
            place = ranks[rows, order[question]].astype(np.int64)
            return np.sign(self.items - 1 - 2 * place)
        first, second = (ranks[rows, order[2 * question + i]].astype(np.int64) for i in (0, 1))
        return np.sign(second - first)


@dataclass(frozen=True, slots=True)
class Report:
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
    def from_json(cls, text: str) -> Report:
        """Read a line; anything else than a report is refused."""
        want = "a report such as " + cls("1f9a0c2e", 2, 1).to_json()
        try:
            data = json.loads(text)
            if set(data) != {"protocol", "question", "bits"} or not isinstance(data["protocol"], str):
                raise ValueError
            if isinstance(data["question"], bool) or not isinstance(data["question"], int) or data["question"] < 0:
                raise ValueError
            if not isinstance(data["bits"], str) or not data["bits"] or set(data["bits"]) - set("0123456789abcdef"):
                raise ValueError
            return cls(data["protocol"], data["question"], int(data["bits"], 16))
        except (ValueError, TypeError):
            raise BadInput("report", got=text, want=want) from None


class LocalReporter:
    """Runs on the person's side: turns their ranking into one report.

    **Neighbors**: one person has any other ranking. **Proof.** Which question is answered does not depend on the ranking.
    The answer passes through a randomized response whose loss is at most epsilon (:class:`peerveil.Response`); a fair coin
    decides where the ranking does not. Questions drawn from a public seed are the same whatever the ranking (Definition
    3 of the paper asks for every value of the public randomness). ∎

    Why a question about one item: under a weak Mallows signal r (see :mod:`peerveil.rankings.choose`) "is it in the upper
    half?" has a mean square bias of 3r/4, a pair's order 2r/3, the sign of a projection on a random balanced direction
    2r/pi; and over items it varies less (kurtosis 9/5 against 12/5 and 3), so that a few questions suffice more often.

    Parameters
    ----------
    items, epsilon, ask, questions, seed
        See :class:`LocalProtocol`.

    Examples
    --------
    >>> reporter = LocalReporter(5, epsilon=1)
    >>> report = reporter.report([4, 0, 1, 2, 3], randomness=Randomness.simulation(1))
    >>> Report.from_json(report.to_json()) == report, report.question < 3
    (True, True)
    """

    def __init__(
        self, items: int, *, epsilon: Number, ask: str = "items", questions: int = QUESTIONS, seed: int = 0
    ) -> None:
        self.protocol = LocalProtocol(items, epsilon=epsilon, ask=ask, questions=questions, seed=seed)

    @classmethod
    def of(cls, protocol: LocalProtocol) -> LocalReporter:
        """A reporter for a protocol."""
        ask, questions, seed = protocol.ask, protocol.questions, protocol.seed
        return cls(protocol.items, epsilon=protocol.exact_epsilon, ask=ask, questions=questions, seed=seed)

    @property
    def guarantee(self) -> Guarantee:
        """What is promised to the person."""
        return self.protocol.guarantee

    def report(self, ranking: ArrayLike, *, randomness: Randomness | None = None) -> Report:
        """The report of one complete ranking (ranks from 0, a place for every item)."""
        ranks = read_ranking(ranking, self.protocol.items, "ranking")
        return self.reports(ranks.reshape(1, -1), randomness=randomness)[0]

    def reports(self, ranks: Any, *, randomness: Randomness | None = None) -> list[Report]:
        """The reports of many people, for studies: one row per ranking, already checked."""
        name = self.protocol.fingerprint
        question, bits = self.draw(ranks, randomness=randomness)
        return [Report(name, q, b) for q, b in zip(question.tolist(), bits.tolist(), strict=True)]

    def draw(self, ranks: Any, *, randomness: Randomness | None = None) -> tuple[Ints, Any]:
        """Questions and randomized answers (0 or 1) as arrays."""
        source = read_randomness(randomness)
        protocol, n = self.protocol, len(ranks)
        question = source.integers(0, protocol.questions, n)
        signs = protocol.answers(ranks, question)
        coins = source.integers(0, 2, n)
        answers = np.where(signs == 0, coins, (signs > 0).astype(np.int64))
        return question, source.respond(answers, protocol.response)


def choose_questions(people: int, *, epsilon: Number) -> int:
    """How many shared questions give power 0.8 at the weakest signal, from public numbers alone.

    The signal is a mean square bias t of an answer; over random items the bias is uniform on (-sqrt(3t), sqrt(3t)), and
    cannot exceed 1. With few people only a strong signal is found, biases saturate, and one or two questions are best.

    >>> choose_questions(100, epsilon="1/3"), choose_questions(10_000, epsilon="1/3")
    (1, 3)
    """
    from scipy.stats import chi2, ncx2

    strength = people * math.tanh(float(read_epsilon(epsilon)) / 2) ** 2
    rng = np.random.default_rng(20210612)
    place = rng.uniform(-1, 1, (400, 16))
    best = (math.inf, 1)
    for number in (1, 2, 3, 4, 5, 6, 8, 12):
        bound = float(chi2.isf(0.05, number))
        low, high = 1e-9, 100.0
        for _ in range(40):
            middle = math.sqrt(low * high)
            bias = np.clip(place[:, :number] * math.sqrt(3 * middle), -1, 1)
            shift = strength / number * (bias**2).sum(axis=1)
            enough = float(np.mean(ncx2.sf(bound, number, np.maximum(shift, 1e-12)))) >= 0.8
            low, high = (low, middle) if enough else (middle, high)
        if high < 0.98 * best[0]:
            best = (high, number)
    return best[1]
