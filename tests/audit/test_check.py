"""Auditing a mechanism over neighboring inputs."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from peerveil import BadInput, Guarantee, Randomness
from peerveil.audit import Neighbors, PrivacyViolation, check, repeated

CLAIM = Guarantee.pure_dp(1, unit="one vote", neighbors="one vote more or less")


def test_the_result_reads_as_table_data_and_picture() -> None:
    def mechanism(value: float, count: int, randomness: Randomness) -> Any:
        return randomness.laplace(np.full(count, value), scale=0.4 if value == 2 else 1.0)

    result = check(
        mechanism,
        [("0 and 1", 0.0, 1.0), Neighbors("1 and 2", 1.0, 2.0)],
        CLAIM,
        name="votes",
        samples=5000,
        randomness=Randomness.simulation(3),
        progress=True,
    )
    text = str(result)
    assert text.startswith("votes: claimed 1, measured at least ")
    assert "CLAIM REFUTED" in text
    data = json.loads(json.dumps(result.to_dict()))
    assert data["passed"] is False
    assert [pair["violated"] for pair in data["pairs"]] == [False, True]
    ax = result.plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0 and 1", "1 and 2"]
    assert result.plot(ax) is ax
    assert "[simulation: secure randomness was not audited]" in text
    assert data["mark"] == "simulation, not private"
    assert "simulation, not private" in [label.get_text() for label in ax.texts]
    with pytest.raises(PrivacyViolation, match="CLAIM REFUTED"):
        result.raise_if_violated()


def test_mechanisms_of_one_output_per_call() -> None:
    def coin(value: int, randomness: Randomness) -> str:
        return "yes" if randomness.uniform(1)[0] < (0.75 if value else 0.25) else "no"

    result = check(
        repeated(coin), [("heads and tails", 1, 0)], CLAIM, samples=4000, randomness=Randomness.simulation(1)
    )
    assert 0.8 < result.measured <= math.log(3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pairs": []}, "^pairs: got"),
        ({"pairs": None}, "^pairs: got None"),
        ({"pairs": [(0, 1)]}, "^pairs: got"),
        ({"pairs": [(5, 0, 1)]}, "^pairs: got"),
        ({"mechanism": None}, "^mechanism: got None"),
        ({"mechanism": lambda x, n, r: [0.0] * 50}, "^mechanism: got 50 outputs, need a function that returns 100000"),
        ({"mechanism": lambda x, n, r: 5}, "^mechanism: got a int"),
        ({"randomness": "secure"}, "^randomness: got 'secure'"),
        ({"confidence": "x"}, "^confidence: got 'x'"),
        ({"guarantee": Guarantee.pure_dp(None, unit="a", neighbors="b")}, "^guarantee: got"),
        ({"guarantee": Guarantee.map_error(0.2, unit="a", neighbors="b")}, "^guarantee: got"),
        ({"guarantee": 1.0}, "^guarantee: got 1.0"),
        ({"samples": 10}, "^samples: got 10"),
        ({"samples": 1e5}, "^samples: got 100000.0"),
        ({"confidence": 2}, "^confidence: got 2"),
    ],
)
def test_bad_input(arguments: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {
        "mechanism": repeated(lambda x, r: x),
        "pairs": [("a", 0, 1)],
        "guarantee": CLAIM,
    } | arguments
    with pytest.raises(BadInput, match=message):
        check(**given)
