"""Probabilities and standard errors that mean what they say, on data from the model."""

from __future__ import annotations

import math

import numpy as np
import pytest

from peerveil.truth import PrivateDawidSkene, PrivateMajority, simulate_crowd


@pytest.mark.parametrize(
    ("model", "epsilon", "k"),
    [("auto", 1, 2), ("auto", 2, 2), ("auto", 4, 2), ("auto", 2, 4), ("one-coin", 0.5, 2), ("confusion", 2, 2)],
)
def test_of_labels_given_90_percent_85_to_95_are_right(model: str, epsilon: float, k: int) -> None:
    kind = "confusion" if model == "confusion" else "one-coin"
    given: list[float] = []
    right: list[bool] = []
    for seed in range(6):
        crowd = simulate_crowd(
            tasks=1500, workers=60, answers=25 if epsilon < 1 else 12, classes=k, kind=kind, epsilon=epsilon, seed=seed
        )
        result = PrivateDawidSkene(epsilon=epsilon, model=model).fit(crowd.randomized)
        given += result.confidence.tolist()
        right += [
            label == crowd.truth[task]
            for task, label in zip(result.tasks.to_list(), result.labels.tolist(), strict=True)
        ]
    confidence, hit = np.array(given), np.array(right)
    near = (confidence > 0.87) & (confidence < 0.93)
    assert near.sum() > 150
    spare = 5 * math.sqrt(0.09 / near.sum()) if near.sum() < 1000 else 0.0  # few labels: their own chance on top
    assert 0.85 - spare <= hit[near].mean() <= 0.95 + spare
    assert abs(confidence.mean() - hit.mean()) < 0.03


def test_majority_probabilities_are_calibrated_for_equal_abilities() -> None:
    crowd = simulate_crowd(tasks=8000, workers=50, answers=15, ability=(3000, 1000), epsilon=1, seed=1)
    result = PrivateMajority(epsilon=1).fit(crowd.randomized)
    hit = np.array(
        [label == crowd.truth[t] for t, label in zip(result.tasks.to_list(), result.labels.tolist(), strict=True)]
    )
    assert abs(result.confidence.mean() - hit.mean()) < 5 * 0.5 / math.sqrt(8000)
    assert abs(result.abilities[0] - 0.75) < 5 * result.standard_errors[0] + 0.01


@pytest.mark.parametrize("epsilon", [1, 3])
def test_standard_errors_cover_the_abilities(epsilon: float) -> None:
    score = []
    for seed in range(10):
        crowd = simulate_crowd(tasks=800, workers=30, answers=10, epsilon=epsilon, seed=seed)
        result = PrivateDawidSkene(epsilon=epsilon, model="one-coin").fit(crowd.randomized)
        score += ((result.abilities - crowd.abilities) / result.standard_errors).tolist()
    inside = float(np.mean(np.abs(score) < 2))
    assert 0.87 < inside < 0.995  # 95% if the errors were exactly normal
