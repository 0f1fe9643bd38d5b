"""Local privacy: randomized and read apart, exact losses, exact laws, refusals."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from peerveil import Randomness
from peerveil.core.errors import BadInput
from peerveil.rankings import LocalProtocol, Mallows, RandomizedRanking, aggregate_rankings, choose_questions
from peerveil.rankings.adversary import local_distribution, local_loss

ASK = ["items", "pairs"]
EVERY = [*ASK, "name"]
FIVE = LocalProtocol(5, epsilon=1)


@pytest.mark.parametrize("ask", EVERY)
@pytest.mark.parametrize("m", [2, 3, 4, 5])
def test_the_loss_of_a_randomized_ranking_is_at_most_epsilon(ask: str, m: int) -> None:
    protocol = LocalProtocol(m, epsilon=1, ask=ask)
    assert 0.99 < local_loss(protocol) <= 1


def test_too_little_noise_is_caught_by_the_same_code() -> None:
    """The deliberate fault: answers randomized for twice the epsilon that is claimed."""
    protocol = LocalProtocol(4, epsilon=1)
    object.__setattr__(protocol, "exact_epsilon", protocol.exact_epsilon * 2)
    assert local_loss(protocol) > 1.9


@pytest.mark.parametrize("ask", EVERY)
def test_randomized_rankings_follow_their_exact_distribution(ask: str) -> None:
    protocol = LocalProtocol(5, epsilon=1, ask=ask, seed=3)
    person, n = np.array([3, 0, 2, 4, 1]), 20_000
    sent = protocol.randomize_all(np.tile(person, (n, 1)), randomness=Randomness.simulation(1))
    counts: dict[Any, int] = {}
    for ranking in sent:
        key = ranking.question, ranking.bits
        counts[key] = counts.get(key, 0) + 1
    for key, p in local_distribution(protocol, person).items():
        assert abs(counts.get(key, 0) - n * float(p)) < 5.5 * math.sqrt(n * float(p * (1 - p)))


@pytest.mark.parametrize("ask", EVERY)
def test_device_and_aggregator_need_only_the_wire(ask: str) -> None:
    people = Mallows(9, 0.4).sample(1500, seed=2)
    protocol = LocalProtocol(9, epsilon=4, ask=ask, seed=11)
    lines = [protocol.randomize(row, randomness=Randomness.simulation(i)).to_json() for i, row in enumerate(people)]
    assert all(set(json.loads(line)) == {"protocol", "question", "bits"} for line in lines)
    test = aggregate_rankings(lines, protocol=protocol, simulated=True)
    assert test.reject
    assert test.rankings == 1500
    assert test.mark == "simulation, not private"
    again = aggregate_rankings([json.loads(line) for line in lines], protocol=protocol)
    assert again.statistic == test.statistic
    assert again.mark is None


def test_uniform_rankings_give_fair_answers() -> None:
    """Odd and even numbers of items: the statistic's law does not depend on who asks."""
    for m in (4, 5):
        rows = Mallows(m, 1.0).sample(40_000, seed=m)
        for ask in ASK:
            question, bits = LocalProtocol(m, epsilon=2, ask=ask).draw(rows, randomness=Randomness.simulation(9))
            for q in np.unique(question):
                mine = bits[question == q]
                assert abs(mine.mean() - 0.5) < 5.5 * 0.5 / math.sqrt(mine.size)


def test_the_protocol_is_a_value() -> None:
    protocol = LocalProtocol(10, epsilon="1/3", questions=5, seed=8)
    assert LocalProtocol.from_dict(json.loads(json.dumps(protocol.to_dict()))) == protocol
    assert protocol.fingerprint != LocalProtocol(10, epsilon="1/3", questions=5, seed=9).fingerprint
    assert LocalProtocol(4, epsilon=1, questions=100).questions == 4
    assert LocalProtocol(4, epsilon=1).attenuation == pytest.approx(math.tanh(0.5), abs=1e-6)
    assert "Local differential privacy with epsilon 1/3 for one person's ranking" in str(protocol.guarantee)


def test_few_people_share_few_questions() -> None:
    chosen = [choose_questions(n, epsilon=1 / 3) for n in (50, 500, 5000, 100_000)]
    assert chosen[0] == 1
    assert chosen == sorted(chosen)
    assert chosen[-1] in (3, 4, 5)


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: LocalProtocol(1, epsilon=1), "items"),
        (lambda: LocalProtocol(5, epsilon=0), "epsilon"),
        (lambda: LocalProtocol(5, epsilon=1, ask="magic"), "ask"),
        (lambda: LocalProtocol(5, epsilon=1, questions=0), "questions"),
        (lambda: LocalProtocol(5, epsilon=1, seed=-1), "seed"),
        (lambda: LocalProtocol(5, epsilon=1).randomize([0, 1, 2]), "ranking"),
        (lambda: LocalProtocol(3, epsilon=1).randomize([0, 1, 1]), "ranking"),
        (lambda: LocalProtocol(3, epsilon=1).randomize([0, 1, 2], randomness=3), "randomness"),  # type: ignore[arg-type]
        (lambda: RandomizedRanking.from_json("{}"), "randomized ranking"),
        (lambda: RandomizedRanking.from_json('{"protocol": "x", "question": -1, "bits": "1"}'), "randomized ranking"),
        (lambda: RandomizedRanking.from_json('{"protocol": "x", "question": 0, "bits": "zz"}'), "randomized ranking"),
        (lambda: LocalProtocol.from_dict({"items": 3}), "protocol"),
        (lambda: aggregate_rankings([], protocol=FIVE), "randomized"),
        (lambda: aggregate_rankings("abc"), "randomized"),
        (lambda: aggregate_rankings(["nonsense"], protocol=FIVE), "randomized, line 1"),
        (lambda: aggregate_rankings([3], protocol=FIVE), "randomized, line 1"),
        (lambda: aggregate_rankings([RandomizedRanking(FIVE.fingerprint, 9, 1)], protocol=FIVE), "randomized, line 1"),
        (lambda: aggregate_rankings([RandomizedRanking(FIVE.fingerprint, 0, 2)], protocol=FIVE), "randomized, line 1"),
        (
            lambda: aggregate_rankings(
                [RandomizedRanking(LocalProtocol(6, epsilon=1).fingerprint, 0, 1)], protocol=FIVE
            ),
            "randomized, line 1",
        ),
        (lambda: aggregate_rankings([], protocol=FIVE, level=2), "level"),
    ],
)
def test_bad_input_is_named(make: Any, argument: str) -> None:
    with pytest.raises(BadInput) as caught:
        make()
    assert caught.value.argument == argument
