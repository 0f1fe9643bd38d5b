"""Local differential privacy: every person answers one question about their ranking, randomized on their device.

A device needs a ranking and a :class:`LocalProtocol` (public numbers, and a public seed that fixes the questions), and sends
one :class:`RandomizedRanking`. :mod:`peerveil.rankings.aggregate` tests from these alone, and
:mod:`peerveil.rankings.local_consensus` finds the consensus.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
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
from peerveil.rankings.mallows import read_items, read_ranking
from peerveil.rankings.naming import is_own, name_items, own_items, read_blocks, read_names

if TYPE_CHECKING:
    from peerveil.core.arrays import Ints
    from peerveil.ledger import Account

QUESTIONS: Final = 3
ASK: Final = ("name", "items", "pairs")
FORMAT: Final = "rankings reports 1"
"""First line of a file of randomized rankings: ``{"peerveil": FORMAT, "items": ..., ...}``."""
NAMING_FORMAT: Final = "rankings reports 2"
"""The same, if people name items."""
FILE_NAME: Final = "reports.jsonl"
QUESTION_FIELDS: Final = ("items", "epsilon", "method", "questions", "seed")
NAMING_FIELDS: Final = ("items", "epsilon", "method", "blocks", "names")
_MOST_SEED: Final = 2**53
_WANT_SEED: Final = "a whole number from 0, public and fixed beforehand"


@dataclass(frozen=True, slots=True, init=False)
class LocalProtocol:
    """What all people and the aggregator agree on beforehand, all of it public, and the randomizer that it defines.

    **Neighbors**: one person has any other ranking. **Proof.** Which question is answered does not depend on the ranking.
    The answer passes through a randomized response whose loss is at most epsilon (:class:`peerveil.Response`); a fair coin
    decides where the ranking does not. For names see :mod:`peerveil.rankings.naming`. Questions drawn from a public seed
    are the same whatever the ranking (Definition 3 of the paper asks for every value of the public randomness). ∎

    Why a test asks about one item: under a weak Mallows signal r (see :func:`~peerveil.rankings.central.choose_central`) "is
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
        ``"pairs"``: is this item before that one?, about a few shared pairs. Both are for tests. ``"name"``: name one of your
        first items, or of your last ones (a coin decides which): for the consensus.
    questions
        How many questions are shared; if people name items, two for each block.
    seed
        Fixes the shared questions. Choose it before anybody answers, and publish it. Names need none.
    blocks
        If people name items: the items (numbers from 0) among which they name; each person is asked about one of these blocks.
        Default: one block of all items. :func:`~peerveil.rankings.next_protocol` chooses those of later rounds.
    names
        If people name items: what the items are called.

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
    blocks: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]

    def __init__(
        self,
        items: int,
        *,
        epsilon: Number,
        ask: str = "items",
        questions: int = QUESTIONS,
        seed: int = 0,
        blocks: Sequence[Sequence[int]] | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        m, exact_epsilon = read_items(items, 2), read_epsilon(epsilon)
        number, start = whole(questions, "questions", 1), whole(seed, "seed", 0, _MOST_SEED - 1, want=_WANT_SEED)
        if one_of(ask, "ask", ASK) == "name":
            shown = read_blocks([range(m)] if blocks is None else blocks, m)
            number, start, called = 2 * len(shown), 0, () if names is None else read_names(names, m)
        elif blocks is not None or names is not None:
            argument, got = ("blocks", blocks) if blocks is not None else ("names", names)
            raise BadInput(argument, got=got, want="None: only for ask='name'")
        else:
            number, shown, called = min(number, m if ask == "items" else m // 2), (), ()
        values = (m, exact_epsilon, ask, number, start, shown, called)
        for own, value in zip(fields(self), values, strict=True):
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
        common = {"items": self.items, "epsilon": str(self.exact_epsilon), "method": self.ask}
        if self.ask == "name":
            return {**common, "blocks": [list(block) for block in self.blocks], "names": list(self.names)}
        return {**common, "questions": self.questions, "seed": self.seed}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LocalProtocol:
        """The protocol that :meth:`to_dict` wrote."""
        own = NAMING_FIELDS if isinstance(data, dict) and data.get("method") == "name" else QUESTION_FIELDS
        if not isinstance(data, dict) or set(data) != set(own):
            raise BadInput("protocol", got=data, want="what LocalProtocol.to_dict() returns")
        settings = dict(data)
        if own is NAMING_FIELDS:
            settings["names"] = settings["names"] or None
        return cls(settings.pop("items"), ask=settings.pop("method"), **settings)

    def order(self) -> Ints:
        """The public order of items from which questions are taken: item(s) first in it are asked about first."""
        return Randomness.simulation(self.seed).permutation(self.items)

    def block(self, question: int) -> tuple[tuple[int, ...], int, bool]:
        """If people name items: the question's block, how many of it are a person's own, and whether these are the last."""
        items = self.blocks[question // 2]
        return items, own_items(len(items), self.response), question % 2 == 1

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
        """Questions and randomized answers (0 or 1, or the item named) as arrays."""
        source = Randomness.of(randomness)
        question = source.integers(0, self.questions, len(ranks))
        if self.ask == "name":
            named = np.empty(len(ranks), dtype=np.int64)
            for q in range(self.questions):
                block, own, last = self.block(q)
                people, items = np.flatnonzero(question == q), np.array(block)
                mine = is_own(np.asarray(ranks)[np.ix_(people, items)], own, last=last)
                named[people] = items[name_items(mine, self.response, source)]
            return question, named
        signs = self.answers(ranks, question)
        answers = np.where(signs == 0, source.integers(0, 2, len(ranks)), (signs > 0).astype(np.int64))
        return question, source.respond(answers, self.response)


@dataclass(frozen=True, slots=True)
class RandomizedRanking:
    """What leaves one person's device.

    ``bits`` is the randomized answer to one question: 0 or 1, or the number of the item that is named. The wire format is one
    line of JSON, with the answer in hexadecimal: ``{"protocol": "1f9a0c2e", "question": 2, "bits": "1"}``.
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
        The randomized rankings; :func:`~peerveil.rankings.aggregate_rankings` tests from them, and
        :func:`~peerveil.rankings.local_consensus` finds the consensus.
    """

    protocol: LocalProtocol
    rankings: tuple[RandomizedRanking, ...] = field(repr=False)

    def summary(self) -> str:
        """How many there are, and the protocol, in one line."""
        number, protocol = len(self.rankings), self.protocol
        return f"{number:,} randomized rankings of {protocol.items:,} items (epsilon {protocol.epsilon:g})"

    def text(self) -> str:
        """As a file: the protocol's line, then one line of JSON per person."""
        version = NAMING_FORMAT if self.protocol.ask == "name" else FORMAT
        header = {"peerveil": version, **self.protocol.to_dict(), "simulated": self.simulated}
        return "\n".join([json.dumps(header), *(ranking.to_json() for ranking in self.rankings)]) + "\n"

    def frame(self) -> pl.DataFrame:
        """One row per person, with the protocol in columns of its own."""
        own = {"protocol": self.protocol.fingerprint, "answers": 1, "simulated": self.simulated}
        table = {"question": [r.question for r in self.rankings], "bits": [r.bits for r in self.rankings]}
        values = (self.protocol.to_dict() | own).items()
        texts = {name: json.dumps(value) if isinstance(value, list) else value for name, value in values}
        return pl.DataFrame(table).with_columns(pl.lit(value).alias(name) for name, value in texts.items())

    def counts(self) -> Ints:
        """How many people gave each answer (no and yes, or each item): one row per question."""
        protocol = self.protocol
        codes = protocol.items if protocol.ask == "name" else 2
        cells = np.array([ranking.question * codes + ranking.bits for ranking in self.rankings], dtype=np.int64)
        return np.bincount(cells, minlength=protocol.questions * codes).reshape(protocol.questions, codes)

    def to_dict(self) -> dict[str, Any]:
        """Protocol, numbers of answers and guarantee as JSON values; the rankings themselves are in :meth:`text`."""
        counts = self.counts()
        answered = {"named": counts.tolist()} if self.protocol.ask == "name" else {"yes": counts[:, 1].tolist()}
        own = {
            "rankings": len(self.rankings),
            "questions": {"answers": counts.sum(axis=1).tolist(), **answered},
        }
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
    ask : {"items", "pairs", "name"}, optional
        What the questions are about: an item's place, the order of two items, or (for the consensus) which item to name as one of
        the first or last. Default: ``"items"``.
    questions : int, optional
        How many questions all people share, unless they name items. Default: 3; see :func:`~peerveil.rankings.choose_questions`.
    public_seed : int, optional
        Fixes the shared questions, unless people name items; publish it beforehand. Default: 0.
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
    named = {"names": ballots.names} if ask == "name" and isinstance(ballots.names[0], str) else {}
    protocol = LocalProtocol(ballots.items, epsilon=epsilon, ask=ask, questions=questions, seed=public_seed, **named)
    ballots.require_rows("a randomized ranking")
    if account is not None:
        purpose = f"randomized rankings of {ballots.items} items"
        account.spend(protocol.guarantee, purpose=purpose, data=ballots.data, randomness=source)
    randomized = protocol.randomize_all(ballots.rows("a randomized ranking", source), randomness=source)
    return RandomizedRankings(guarantee=source.stamp(protocol.guarantee), protocol=protocol, rankings=tuple(randomized))
