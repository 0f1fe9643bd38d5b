"""Local reports: made and read apart, exact losses, exact laws, refusals."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from peerveil import Randomness
from peerveil.core.errors import BadInput
from peerveil.rankings import LocalProtocol, LocalReporter, Mallows, Report, aggregate_reports
from peerveil.rankings.adversary import report_distribution, report_loss
from peerveil.rankings.local import choose_questions

ASK = ["items", "pairs"]
FIVE = LocalProtocol(5, epsilon=1)


@pytest.mark.parametrize("ask", ASK)
@pytest.mark.parametrize("m", [2, 3, 4, 5])
def test_the_loss_of_a_report_is_at_most_epsilon(ask: str, m: int) -> None:
    protocol = LocalProtocol(m, epsilon=1, ask=ask)
    assert 0.99 < report_loss(protocol) <= 1


def test_too_little_noise_is_caught_by_the_same_code() -> None:
    """The deliberate fault: answers randomized for twice the epsilon that is claimed."""
    protocol = LocalProtocol(4, epsilon=1)
    object.__setattr__(protocol, "exact_epsilon", protocol.exact_epsilon * 2)
    assert report_loss(protocol) > 1.9


@pytest.mark.parametrize("ask", ASK)
def test_reports_follow_their_exact_distribution(ask: str) -> None:
    protocol = LocalProtocol(5, epsilon=1, ask=ask, seed=3)
    ranking, n = np.array([3, 0, 2, 4, 1]), 20_000
    reporter = LocalReporter.of(protocol)
    reports = reporter.reports(np.tile(ranking, (n, 1)), randomness=Randomness.simulation(1))
    seen: dict[Any, int] = {}
    for one in reports:
        key = one.question, one.bits
        seen[key] = seen.get(key, 0) + 1
    for key, p in report_distribution(protocol, ranking).items():
        assert abs(seen.get(key, 0) - n * float(p)) < 5.5 * math.sqrt(n * float(p * (1 - p)))


@pytest.mark.parametrize("ask", ASK)
def test_reporter_and_aggregator_need_only_the_wire(ask: str) -> None:
    people = Mallows(9, 0.4).sample(1500, seed=2)
    reporter = LocalReporter(9, epsilon=4, ask=ask, seed=11)
    lines = [reporter.report(row, randomness=Randomness.simulation(i)).to_json() for i, row in enumerate(people)]
    assert all(set(json.loads(line)) == {"protocol", "question", "bits"} for line in lines)
    found = aggregate_reports(lines, protocol=reporter.protocol, simulated=True)
    assert found.reject
    assert found.rankings == 1500
    assert found.mark == "simulation, not private"
    again = aggregate_reports([json.loads(line) for line in lines], protocol=reporter.protocol)
    assert again.statistic == found.statistic
    assert again.mark is None


def test_uniform_rankings_give_fair_answers() -> None:
    """Odd and even numbers of items: the statistic's law does not depend on who asks."""
    for m in (4, 5):
        rows = Mallows(m, 1.0).sample(40_000, seed=m)
        for ask in ASK:
            question, bits = LocalReporter(m, epsilon=2, ask=ask).draw(rows, randomness=Randomness.simulation(9))
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
        (lambda: LocalReporter(1, epsilon=1), "items"),
        (lambda: LocalReporter(5, epsilon=0), "epsilon"),
        (lambda: LocalReporter(5, epsilon=1, ask="magic"), "ask"),
        (lambda: LocalReporter(5, epsilon=1, questions=0), "questions"),
        (lambda: LocalReporter(5, epsilon=1, seed=-1), "seed"),
        (lambda: LocalReporter(5, epsilon=1).report([0, 1, 2]), "ranking"),
        (lambda: LocalReporter(3, epsilon=1).report([0, 1, 1]), "ranking"),
        (lambda: LocalReporter(3, epsilon=1).report([0, 1, 2], randomness=3), "randomness"),  # type: ignore[arg-type]
        (lambda: Report.from_json("{}"), "report"),
        (lambda: Report.from_json('{"protocol": "x", "question": -1, "bits": "1"}'), "report"),
        (lambda: Report.from_json('{"protocol": "x", "question": 0, "bits": "zz"}'), "report"),
        (lambda: LocalProtocol.from_dict({"items": 3}), "protocol"),
        (lambda: aggregate_reports([], protocol=FIVE), "reports"),
        (lambda: aggregate_reports("abc"), "reports"),
        (lambda: aggregate_reports(["nonsense"], protocol=FIVE), "reports, line 1"),
        (lambda: aggregate_reports([3], protocol=FIVE), "reports, line 1"),
        (lambda: aggregate_reports([Report(FIVE.fingerprint, 9, 1)], protocol=FIVE), "reports, line 1"),
        (lambda: aggregate_reports([Report(FIVE.fingerprint, 0, 2)], protocol=FIVE), "reports, line 1"),
        (
            lambda: aggregate_reports([Report(LocalProtocol(6, epsilon=1).fingerprint, 0, 1)], protocol=FIVE),
            "reports, line 1",
        ),
        (lambda: aggregate_reports([], protocol=FIVE, level=2), "level"),
    ],
)
def test_bad_input_is_named(make: Any, argument: str) -> None:
    with pytest.raises(BadInput) as caught:
        make()
    assert caught.value.argument == argument
