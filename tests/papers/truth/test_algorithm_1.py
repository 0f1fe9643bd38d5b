"""Algorithm 1 against a slow transcription of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.truth.oracle import Answers, majority

from peerveil import BadInput
from peerveil.data import Labels
from peerveil.papers.truth.algorithm_1 import AlgorithmOne
from peerveil.truth import PrivateDawidSkene, simulate_crowd
from peerveil.truth.simulate import CROWDS


def rows(labels: Labels) -> Answers:
    return [(t, w, int(x)) for t, w, x in labels.frame.select("task", "worker", "label").rows()]


def algorithm_1(
    answers: Answers, epsilon: float, least: float, iterations: int
) -> tuple[dict[Any, float], dict[Any, float]]:
    """The paper's Algorithm 1 on sparse answers: soft labels y, and abilities after step 7."""
    y = {t: p[1] for t, p in majority(answers, 2).items()}
    for _ in range(iterations):
        agree: dict[Any, list[float]] = {}
        for task, worker, x in answers:
            agree.setdefault(worker, []).append((1 - x) * (1 - y[task]) + x * y[task])
        p = {w: min(max(sum(v) / len(v), least), 1 - least) for w, v in agree.items()}
        one, zero = dict.fromkeys(y, 0.0), dict.fromkeys(y, 0.0)
        for task, worker, x in answers:
            one[task] += math.log(p[worker] if x else 1 - p[worker])
            zero[task] += math.log(1 - p[worker] if x else p[worker])
        y = {t: 1 / (1 + math.exp(zero[t] - one[t])) for t in y}
    e = math.exp(epsilon)
    return y, {w: (e + 1) / (e - 1) * (v - 1 / (e + 1)) for w, v in p.items()}


@pytest.mark.parametrize("epsilon", [0.5, 2])
def test_it_is_the_printed_algorithm(epsilon: float) -> None:
    crowd = simulate_crowd(tasks=60, workers=12, answers=5, epsilon=epsilon, seed=1)
    estimator = AlgorithmOne(epsilon=epsilon, iterations=7, tolerance=0, must_converge=False)
    fitted = estimator.fit(crowd.randomized)
    y, ability = algorithm_1(rows(crowd.randomized), epsilon, 1 / (1 + math.exp(epsilon)), 7)
    assert np.abs(fitted.probabilities[:, 1] - [y[t] for t in fitted.tasks.to_list()]).max() < 1e-9
    assert np.abs(fitted.abilities - [ability[w] for w in estimator.workers_.workers.to_list()]).max() < 1e-9
    assert fitted.abilities.min() >= -1e-9  # the natural clip keeps rescaled abilities within 0 and 1
    assert fitted.abilities.max() <= 1 + 1e-9


def test_lambda_by_the_theorem_is_refused_where_there_is_none() -> None:
    crowd = simulate_crowd(tasks=60, workers=12, answers=5, epsilon=1, seed=1)
    with pytest.raises(BadInput, match="asks lambda to be at least"):
        AlgorithmOne(epsilon=1, lambda_="theorem").fit(crowd.randomized)
    assert AlgorithmOne(epsilon=1, lambda_=0.3).fit(crowd.randomized).details["lambda"] == 0.3
    with pytest.raises(BadInput, match="two classes"):
        AlgorithmOne(epsilon=1).fit(simulate_crowd(tasks=20, workers=5, answers=3, classes=3).randomized)
    with pytest.raises(BadInput, match="lambda_: got 0.5"):
        AlgorithmOne(epsilon=1, lambda_=0.5)


def test_the_objective_never_falls() -> None:
    for seed, kind in enumerate(CROWDS):
        crowd = simulate_crowd(tasks=120, workers=20, answers=8, classes=2, kind=kind, epsilon=1, seed=seed)
        result = AlgorithmOne(epsilon=1, tolerance=1e-9, iterations=5000).fit(crowd.randomized)
        steps = np.diff(result.details["objectives"])
        assert steps.min() > -1e-8 * abs(result.objective), (kind, steps.min())


def test_one_coin_without_a_prior_is_the_papers_method() -> None:
    crowd = simulate_crowd(tasks=100, workers=15, answers=6, epsilon=2, seed=4)
    ours = PrivateDawidSkene(epsilon=2, model="one-coin", ability_prior=None, class_prior="uniform").fit(
        crowd.randomized
    )
    paper = AlgorithmOne(epsilon=2).fit(crowd.randomized)
    assert np.abs(ours.probabilities - paper.probabilities).max() < 1e-12
