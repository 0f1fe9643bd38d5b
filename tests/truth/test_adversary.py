"""The adversary against the guarantee, and audits that must pass or refute."""

from __future__ import annotations

import pytest

from peerveil import BadInput, Randomness, Response
from peerveil.truth.adversary import answer_attack, answer_odds, sheet_loss


@pytest.mark.parametrize("k", [2, 3, 10])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "4"])
def test_one_report_moves_the_odds_by_at_most_epsilon(k: int, epsilon: str) -> None:
    response = Response(epsilon, k)
    odds = [abs(answer_odds(r, a, b, response)) for r in range(k) for a in range(k) for b in range(k)]
    assert max(odds) <= float(epsilon)
    assert max(odds) > 0.999 * float(epsilon)


def test_sheets_that_differ_in_more_answers_cost_more() -> None:
    response = Response("1/2", 3)
    assert sheet_loss([0, 1, 2], [0, 1, 1], response).within("1/2")
    assert sheet_loss([0, 1, 2], [2, 1, 1], response).within(1)
    assert not sheet_loss([0, 1, 2], [2, 1, 1], response).within("0.99")
    with pytest.raises(BadInput):
        sheet_loss([0] * 30, [1] * 30, response)


@pytest.mark.parametrize("k", [2, 4])
def test_the_attack_stays_below_its_bound_and_comes_close(k: int) -> None:
    found = answer_attack(epsilon=1, classes=k, trials=40_000, randomness=Randomness.simulation(k))
    assert found.right <= found.bound + 5 * found.error
    assert found.largest <= 1
    if k == 2:
        assert found.right > found.bound - 5 * found.error  # two classes: the bound is reached
    assert found.guess_with >= found.guess_without - 5 * found.error
    assert "simulation, not private" in str(found)
    assert found.to_dict()["mark"] == "simulation, not private"
    for bad in ({"ability": 1.5}, {"trials": 0}):
        with pytest.raises(BadInput):
            answer_attack(epsilon=1, classes=k, **bad)
