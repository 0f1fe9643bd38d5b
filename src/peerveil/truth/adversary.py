"""What randomized answers reveal about one answer of one person, against e^epsilon.

The adversary of the guarantee knows everything but one answer: all other answers of this person and of everybody, the truth,
everybody's ability, and the protocol. They see all randomized answers, and whatever is computed from them.

- :func:`answer_odds`: how far one randomized answer moves their odds between two answers, exactly;
- :func:`sheet_loss`: the exact loss of a whole answer sheet, by enumeration;
- :func:`answer_attack`: how often they are right, on a crowd, against what the guarantee allows;
- :func:`claims`: the whole pipeline (randomize, infer, publish labels and abilities), for the audit's registry.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from itertools import product
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from peerveil.audit import ExactLoss, exact_loss
from peerveil.audit.attack import GuessingAttack
from peerveil.audit.check import Neighbors
from peerveil.audit.claims import Claim, register
from peerveil.core.arrays import Floats
from peerveil.core.errors import BadInput
from peerveil.core.exact import Number, probability, whole
from peerveil.core.guarantee import Guarantee
from peerveil.core.randomness import Randomness, Response
from peerveil.data import Labels
from peerveil.truth.answers import EncodedAnswers
from peerveil.truth.channels import Channels
from peerveil.truth.em import Limits
from peerveil.truth.grid import GridModel
from peerveil.truth.memory import MemoryEngine
from peerveil.truth.models import ClassPrior
from peerveil.truth.publish import publish_labels
from peerveil.truth.wire import Client, invitation

_MOST_OUTCOMES: Final = 200_000
_SHEETS: Final = np.array([[0, 1, 0], [0, 1, 1], [1, 1, 0]])  # worker by task


def answer_odds(sent: int, first: int, second: int, response: Response) -> float:
    """By how much a randomized answer moves the log-odds of two answers (codes): at most epsilon, either way.

    >>> round(answer_odds(0, 0, 1, Response(1, 2)), 6), answer_odds(2, 0, 1, Response(1, 3))
    (1.0, 0.0)
    """
    p, q = response.probabilities(first)[sent], response.probabilities(second)[sent]
    return math.log(p / q)


def sheet_loss(first: Sequence[int], second: Sequence[int], response: Response) -> ExactLoss:
    """The exact loss between two answer sheets of one person (Theorem 1), by enumeration of all that may be sent.

    >>> response = Response(1, 2)
    >>> sheet_loss([0, 1, 1], [0, 0, 1], response).within(1), sheet_loss([0, 1, 1], [1, 0, 1], response).within("1.99")
    (True, False)
    """
    if len(first) != len(second) or response.k ** len(first) > _MOST_OUTCOMES:
        raise BadInput("second", got=second, want="a sheet as long as the first, short enough to enumerate")
    return exact_loss(_distribution(first, response), _distribution(second, response))


def _distribution(sheet: Sequence[int], response: Response) -> dict[tuple[int, ...], Fraction]:
    parts = [response.probabilities(answer) for answer in sheet]
    return {
        out: math.prod((part[r] for part, r in zip(parts, out, strict=True)), start=Fraction(1))
        for out in product(range(response.k), repeat=len(sheet))
    }


@dataclass(frozen=True, slots=True)
class AnswerAttack(GuessingAttack):
    """How well the adversary who knows all but one answer did."""

    epsilon: float
    classes: int
    trials: int
    right: float
    """How often they were right, if the answer was one of two, each equally likely."""
    largest: float
    """The largest log-odds that they ever had."""
    guess_without: float
    """How often they would be right from the truth and the ability alone, which no report hides."""
    guess_with: float
    """The same with the report."""
    simulated: bool

    def __str__(self) -> str:
        mark = f" [{self.mark}]" if self.mark else ""
        return (
            f"An adversary who knows all but one answer, and that it is one of two, is {100 * self.right:.1f}% correct "
            f"(standard error {100 * self.error:.1f}); epsilon {self.epsilon:g} allows {self.allowed}. Largest log-odds "
            f"{self.largest:.3g}. From the truth and the person's ability alone they guess the answer "
            f"{100 * self.guess_without:.1f}% correctly, with the randomized answer {100 * self.guess_with:.1f}%.{mark}"
        )


def answer_attack(
    *,
    epsilon: Number,
    classes: int = 2,
    ability: float = 0.75,
    trials: int = 10_000,
    randomness: Randomness | None = None,
) -> AnswerAttack:
    """Attack the response on random answers of a person of known ability.

    >>> attack = answer_attack(epsilon=1, trials=4000, randomness=Randomness.simulation(1))
    >>> attack.right <= attack.bound + 5 * attack.error, attack.largest <= 1
    (True, True)
    """
    probability(ability, "ability")
    response, randomness = Response(epsilon, classes), Randomness.of(randomness)
    k, n = response.k, whole(trials, "trials", 1)
    # two answers, equally likely
    first = randomness.integers(0, k, n)
    second = (first + randomness.integers(1, k, n)) % k
    answer = np.where(randomness.uniform(n) < 0.5, first, second)
    sent = randomness.respond(answer, response)
    gain = math.log(response.exact_keep / response.exact_other)
    odds = gain * ((sent == answer).astype(float) - (sent == np.where(answer == first, second, first)))
    # an answer as people give it: the true class with the person's ability
    truth = randomness.integers(0, k, n)
    typical = np.where(randomness.uniform(n) < ability, truth, (truth + randomness.integers(1, k, n)) % k)
    sent = randomness.respond(typical, response)
    prior = np.full((n, k), (1 - ability) / (k - 1))
    prior[np.arange(n), truth] = ability
    posterior = prior * response.other
    posterior[np.arange(n), sent] *= response.keep / response.other
    return AnswerAttack(
        epsilon=response.epsilon,
        classes=k,
        trials=n,
        right=float(((odds > 0) + 0.5 * (odds == 0)).mean()),
        largest=float(np.abs(odds).max()),
        guess_without=float((prior.argmax(axis=1) == typical).mean()),
        guess_with=float((posterior.argmax(axis=1) == typical).mean()),
        simulated=not randomness.is_secure,
    )


def _neighbors() -> tuple[Neighbors, ...]:
    """Small crowds in which one person gives another answer to one task."""
    other, changed = _SHEETS.copy(), _SHEETS[:1].copy()
    other[0, 0] = changed[0, 2] = 1
    three = Neighbors("one of three persons, first task", _SHEETS, other)
    return three, Neighbors("one person alone, third task", _SHEETS[:1], changed)


def pipeline(sheets: NDArray[Any], count: int, randomness: Randomness, *, response: Response | None = None) -> Floats:
    """``count`` whole runs for epsilon 1: randomize all sheets, infer, publish every probability and ability."""
    used = Response(1, 2) if response is None else response
    workers, tasks = sheets.shape
    sent = randomness.respond(np.tile(sheets, (count, 1, 1)), used).astype(np.int64)
    return np.array([_published(table.tobytes(), workers, tasks) for table in sent])


@lru_cache(maxsize=4096)
def _published(packed: bytes, workers: int, tasks: int) -> Floats:
    """What is published for one table of randomized answers; inference is not random, so it is cached."""
    sent = np.frombuffer(packed, dtype=np.int64).reshape(workers, tasks)
    start = np.arange(tasks + 1) * workers
    worker = np.tile(np.arange(workers, dtype=np.int32), tasks)
    ids = pl.Series("id", range(16))
    answers = EncodedAnswers(ids[:tasks], ids[:workers], (0, 1), start, worker, sent.T.ravel().astype(np.uint8))
    model = GridModel(Channels.of(1.0, 2, workers), ClassPrior.even(2), answers.loads)
    fit = model.fit(MemoryEngine(answers), Limits(iterations=4, must_converge=False))
    return np.concatenate([fit.posterior[:, 1], fit.abilities])


def _person_pairs() -> tuple[Neighbors, ...]:
    return (Neighbors("all three answers differ", (0, 0, 0), (1, 1, 1)), Neighbors("two differ", (0, 1, 0), (1, 1, 1)))


def _person(sheet: tuple[int, ...], count: int, randomness: Randomness, *, each: int = 1) -> Floats:
    """``count`` outputs of a person who sends ``each`` random answers with the whole epsilon: honest for 1 only."""
    out = np.full((count, len(sheet)), -1.0)
    keys = randomness.uniform((count, len(sheet))).argsort(axis=1)[:, :each]
    out[np.arange(count)[:, None], keys] = randomness.respond(np.array(sheet)[keys], Response(1, 2))
    return out


def _twice(sheets: NDArray[Any], count: int, randomness: Randomness) -> Floats:
    first, second = (randomness.respond(np.tile(sheets[0, 0], count), Response(1, 2)) for _ in range(2))
    return np.asarray(first + second, dtype=float)


def _client(answer: str, count: int, _: Randomness) -> list[str]:
    """Answers as clients send them; they draw from the operating system, always."""
    terms = invitation(epsilon=1, classes=["no", "yes"])
    return [json.loads(Client(terms).randomize(0, answer))["label"] for _ in range(count)]


def _data_set(sheets: NDArray[Any], count: int, randomness: Randomness) -> list[str]:
    """``count`` whole data sets as they are published: labels, card and agreement."""
    workers, tasks = (part.ravel() for part in np.indices(sheets.shape))
    table = Labels(task=tasks, worker=workers, label=sheets.ravel(), truth=sheets.ravel())
    runs = (publish_labels(table, epsilon=1, classes=2, randomness=randomness) for _ in range(count))
    return ["".join(published.contents().values()) for published in runs]


def _classes_as_seen(sheet: tuple[int, ...], count: int, randomness: Randomness) -> Floats:
    """``count`` outputs of somebody who took the list of classes from the answers."""
    response = Response(1, len(set(sheet)))
    sent = randomness.respond(np.tile(np.array(sheet), (count, 1)), response).astype(float)
    return np.column_stack([sent, np.full(count, float(response.k))])


@register
def claims() -> Iterator[Claim]:
    """The response, the client, the whole pipeline and labels for publication, and four that break their claim."""
    answers = ("truth.randomize_answers", "truth.PrivateDawidSkene")
    one_answer = partial(Claim, covers=answers, guarantee=Guarantee.local_attribute_dp(1))
    whole_person = Guarantee.local_dp(
        1, unit="all answers of one person", neighbors="any other answers to the same tasks"
    )
    person = partial(Claim, covers=answers[:1], guarantee=whole_person)
    yield one_answer(
        name="truth: answers, labels and abilities, epsilon 1", mechanism=pipeline, pairs=_neighbors(), samples=3_000
    )
    yield person(
        name="truth: one of several answers, epsilon 1 for the person", mechanism=_person, pairs=_person_pairs()
    )
    yield Claim(
        name="truth: a client's answer, epsilon 1",
        covers=("truth.wire.Client",),
        mechanism=_client,
        pairs=(Neighbors("no and yes", "no", "yes"),),
        guarantee=Guarantee.local_attribute_dp(1),
        samples=20_000,
    )
    one_label = partial(Claim, covers=("truth.publish_labels",), guarantee=Guarantee.local_attribute_dp(1))
    changed = np.array([[0, 1], [1, 1]]), np.array([[1, 1], [1, 1]])
    yield one_label(
        name="truth: labels for publication, epsilon 1",
        mechanism=_data_set,
        pairs=(Neighbors("one of two annotators, first task", *changed),),
        samples=400,
    )
    yield one_label(
        name="truth: classes as seen",
        mechanism=_classes_as_seen,
        pairs=(Neighbors("a class that one annotator gave once", (0, 1, 2), (0, 1, 1)),),
        samples=20_000,
        fault="the list of classes was read off the answers, so that it shows that somebody gave a rare one",
    )
    yield one_answer(
        name="truth: an answer randomized twice",
        mechanism=_twice,
        pairs=_neighbors()[:1],
        samples=20_000,
        fault="the client forgot its first draw and randomized the answer again: 2 epsilon",
    )
    yield one_answer(
        name="truth: thresholds of epsilon 2.5",
        mechanism=partial(pipeline, response=Response("2.5", 2)),
        pairs=_neighbors()[1:],
        samples=3_000,
        fault="the invitation says epsilon 1, the thresholds belong to 2.5",
    )
    yield person(
        name="truth: two answers at the full budget",
        mechanism=partial(_person, each=2),
        pairs=_person_pairs()[:1],
        samples=20_000,
        fault="two answers are sent with epsilon each, and epsilon is guaranteed for both together",
    )
