"""The driver, the house's own mechanisms, and planted faults that must be caught."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from peerveil import BadInput, Guarantee, Randomness
from peerveil.audit import Pair, PrivacyViolation, check, lower_bound, repeated
from peerveil.audit.cases import (
    Case,
    house_cases,
    one_sided_delay,
    planted_faults,
    response_losses,
    samples_needed,
)

CLAIM = Guarantee.pure_dp(1, unit="one vote", neighbors="one vote more or less")
CONFIDENCE = 0.9999999  # a false alarm in ten million runs


def enough(case: Case, laplace: int) -> int:
    """Outputs a side: a response that is off by 20% takes 40,000 to be seen, and these are quick; noise takes fewer."""
    return 40_000 if case.name.startswith("response") else laplace


@pytest.mark.parametrize("case", list(house_cases()), ids=lambda case: case.name)
def test_the_house_keeps_its_claims(case: Case) -> None:
    report = case.audit(enough(case, 10_000), confidence=CONFIDENCE)
    assert report.passed, str(report)
    assert case.fault is None


@pytest.mark.parametrize("case", list(planted_faults()), ids=lambda case: case.name)
def test_every_planted_fault_is_caught(case: Case) -> None:
    report = case.audit(enough(case, 5_000))
    assert not report.passed, str(report)
    assert report.found > report.claimed
    assert case.fault
    with pytest.raises(PrivacyViolation, match="CLAIM REFUTED"):
        report.raise_if_violated()


def test_a_rare_input_is_found_only_if_it_is_named() -> None:
    case = next(case for case in planted_faults() if case.name == "leak on one rare input")
    findings = {finding.pair: finding.violated for finding in case.audit(5_000).findings}
    assert findings == {"0 and 1": False, "6 and 7": True}


def test_a_one_sided_claim_is_judged_in_its_own_direction() -> None:
    """The correct delay passes one-sidedly although the other direction tells everything, as it may."""
    case = next(case for case in planted_faults() if case.name == "one-sided violation")
    assert check(one_sided_delay, case.pairs, case.guarantee, samples=50_000, confidence=CONFIDENCE).passed
    both = [one_sided_delay(which, 50_000, Randomness.simulation(2)) for which in ("sitting", "alone")]
    assert lower_bound(both[0], both[1]).epsilon > 5


@pytest.mark.parametrize("name", ["Laplace at half scale", "response off by 20%"])
def test_samples_needed(name: str) -> None:
    case = next(case for case in planted_faults() if case.name == name)
    needed = samples_needed(case)
    assert needed is not None
    assert needed <= 12_800
    assert samples_needed(case, start=40, most=40) is None


def test_exact_losses_of_the_response() -> None:
    rows = list(response_losses())
    assert len(rows) == 28
    assert all(row.passed and row.loss <= row.claimed for row in rows)


def test_the_report_reads_as_table_data_and_picture() -> None:
    def mechanism(value: float, count: int, randomness: Randomness) -> Any:
        return randomness.laplace(np.full(count, value), scale=0.4 if value == 2 else 1.0)

    report = check(
        mechanism,
        [("0 and 1", 0.0, 1.0), Pair("1 and 2", 1.0, 2.0)],
        CLAIM,
        name="votes",
        samples=5000,
        randomness=Randomness.simulation(3),
        progress=True,
    )
    text = str(report)
    assert text.startswith("votes: claimed 1, found at least ")
    assert "CLAIM REFUTED" in text
    data = json.loads(json.dumps(report.to_dict()))
    assert data["passed"] is False
    assert [finding["violated"] for finding in data["findings"]] == [False, True]
    ax = report.plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0 and 1", "1 and 2"]
    assert report.plot(ax) is ax
    assert "[simulation: the secure lane was not audited]" in text
    assert data["mark"] == "simulation, not private"
    assert "simulation, not private" in [label.get_text() for label in ax.texts]


def test_mechanisms_of_one_output_a_call() -> None:
    def coin(value: int, randomness: Randomness) -> str:
        return "yes" if randomness.uniform(1)[0] < (0.75 if value else 0.25) else "no"

    report = check(
        repeated(coin), [("heads and tails", 1, 0)], CLAIM, samples=4000, randomness=Randomness.simulation(1)
    )
    assert 0.8 < report.found <= math.log(3)


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
