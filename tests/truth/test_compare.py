"""What randomizing costs on one's own answers, and plans for crowds like an earlier one."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from peerveil import BadInput, Randomness
from peerveil.data import Labels
from peerveil.truth import (
    PrivateDawidSkene,
    PrivateMajority,
    abilities_like,
    compare_truth,
    plan_truth,
    randomize_answers,
    simulate_crowd,
)
from peerveil.truth.plan import ANSWERS


def answers(ability: tuple[float, float] = (6, 2)) -> Labels:
    crowd = simulate_crowd(tasks=120, workers=15, answers=5, ability=ability, epsilon=None, seed=3)
    frame = crowd.answers.frame
    return Labels.from_frame(frame.with_columns(truth=pl.Series([crowd.truth[t] for t in frame["task"].to_list()])))


def test_a_row_is_what_randomizing_by_hand_gives() -> None:
    table = answers()
    found = compare_truth(table, epsilons=[2], draws=2, seed=9)
    base = PrivateDawidSkene(epsilon=None, classes=[0, 1]).fit(table)
    same, right = [], []
    for draw in range(2):
        result = (
            randomize_answers(table, epsilon=2, classes=2, randomness=Randomness.simulation(9 + draw))
            .operator.fit()
            .public
        )
        same.append(np.mean(result.labels == base.labels))
        right.append(result.accuracy(table)[0])
    (row,) = found.rows
    assert row.agreement == pytest.approx(np.mean(same))
    assert row.agreement_error == pytest.approx(abs(same[0] - same[1]) / 2)
    assert row.accuracy == pytest.approx(np.mean(right))
    assert (row.answers, row.covered) == (600, 1.0)
    assert found.base_accuracy == base.accuracy(table)[0]


def test_more_epsilon_keeps_more_and_a_person_sends_less() -> None:
    table = answers()
    found = compare_truth(table.frame.drop("truth").to_pandas(), epsilons=[1, 8], draws=4)
    assert found.rows[1].agreement > found.rows[0].agreement + 5 * found.rows[0].agreement_error
    assert found.rows[0].accuracy is found.base_accuracy is None
    person = compare_truth(table, epsilons=[2], unit="person", draws=2).rows[0]
    assert person.covered < 0.3
    assert person.answers == 15
    assert found.frame().columns[:2] == ["epsilon", "answers"]


def test_it_says_that_it_must_not_be_published() -> None:
    found = compare_truth(answers(), epsilons=[1], draws=2)
    assert found.mark == "not private"
    assert "not for publication" in found.summary()
    assert "No privacy" in str(found)
    assert any(text.get_gid() == "mark" for text in found.plot().texts)
    assert found.to_dict()["mark"] == "not private"


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({"draws": 1}, "draws"),
        ({"epsilons": []}, "epsilons"),
        ({"epsilons": [-1]}, "epsilons"),
        ({"unit": "crowd"}, "unit"),
        ({"classes": [0, 5]}, "Labels"),
        ({"labels": 3}, "labels"),
    ],
)
def test_bad_input_is_named(arguments: dict[str, Any], argument: str) -> None:
    settings: dict[str, Any] = {"draws": 2, "epsilons": [1]}
    with pytest.raises(BadInput, match=f"^{argument}"):
        compare_truth(arguments.pop("labels", answers()), **(settings | arguments))


def test_a_crowd_like_an_earlier_one() -> None:
    """The Beta distribution comes back from what was inferred, within what 400 workers tell."""
    crowd = simulate_crowd(tasks=1500, workers=400, answers=20, ability=(8, 2), epsilon=None, seed=1)
    a, b = abilities_like(PrivateDawidSkene(epsilon=None, model="one-coin").fit(crowd.answers))
    assert a / (a + b) == pytest.approx(0.8, abs=0.03)
    assert 6 < a + b < 16
    for bad in (3, {"ability": [0.5]}, {"ability": [0.5, 2.0], "standard_error": [0.1, 0.1]}, "nowhere.csv"):
        with pytest.raises(BadInput):
            abilities_like(bad)


def test_a_plan_is_refined_and_has_a_baseline() -> None:
    plan = plan_truth(accuracy=0.85, epsilons=["none", 2], tasks=150, trials=2, ability=(6, 2))
    assert list(plan.needed) == [None, 2.0]
    free, private = plan.needed[None], plan.needed[2.0]
    assert free is not None
    assert private is not None
    assert free < private
    tried = [row.answers for row in plan.rows if row.epsilon == 2.0]
    assert tried == sorted(tried)
    below = [row for row in plan.rows if row.epsilon == 2.0 and row.answers < private]
    assert private - max(row.answers for row in below) <= max(1, private // 20)
    assert any(row.answers not in ANSWERS for row in plan.rows)
    assert "no privacy: " in plan.recommendation
    assert plan.table().columns == ["epsilon", "answers", "accuracy", "majority", "error"]
    assert plan.table().height == len(plan.rows)
    assert set(plan.to_dict()["needed"]) == {"none", "2.0"}
    with pytest.raises(BadInput, match="^epsilons"):
        plan_truth(accuracy=0.85, epsilons=[1, "1"], tasks=50, trials=1)


def test_majority_takes_other_names_for_columns() -> None:
    frame = pl.DataFrame({"item": [1, 1, 2], "who": [1, 2, 1], "said": [0, 0, 1]})
    result = PrivateMajority(epsilon=None).fit(frame, columns={"task": "item", "worker": "who", "label": "said"})
    assert result.labels.tolist() == [0, 1]
