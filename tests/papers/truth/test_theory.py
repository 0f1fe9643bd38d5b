"""Theorems 1 to 4 beside practice, and the errata: the printed form fails, ours passes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from peerveil import BadInput, Response
from peerveil.papers.truth.algorithm_1 import (
    AlgorithmOne,
    objective_of_equation_4,
    objective_of_equation_4_as_printed,
)
from peerveil.papers.truth.theory import (
    ability_error_bound,
    check_theorem_2,
    collective_private_wisdom,
    effective_ability,
    fewest_tasks,
    label_error_bound,
    lambda_interval,
    private_effective_ability,
)
from peerveil.truth import PrivateDawidSkene, PrivateMajority, simulate_crowd
from peerveil.truth.adversary import sheet_loss
from peerveil.truth.answers import EncodedAnswers


def test_theorem_2_lambda_interval_is_empty_for_all_but_enormous_data() -> None:
    """Printed: choose lambda in (15). There is none below 213,800 tasks at v = 1, nor below 5.7 million at epsilon 1."""
    assert 213_700 < fewest_tasks(1.0) < 213_900
    perfect = collective_private_wisdom([1.0], 1)
    assert 5.6e6 < fewest_tasks(perfect) < 5.8e6
    assert lambda_interval(1000, 0.0)[0] == math.inf


def test_theorem_2_lists_too_few_conditions() -> None:
    """A crowd that meets every printed condition, on which step (33) to (34) of the proof fails."""
    n, m = 4000, 10**9
    wisdom = 0.05
    ability = 0.5 + 0.5 * math.sqrt(wisdom)
    low, high = lambda_interval(m, wisdom)
    printed = n <= m and math.log(m) <= n and math.log(m) / n <= wisdom and low <= high
    assert printed
    exponents = [
        4 * n / x * math.sqrt(math.log(m) / m) + 4 * math.log(1 / x) * math.sqrt(n * math.log(m)) - n * wisdom
        for x in np.linspace(low, high, 50)
    ]
    assert min(exponents) > -0.5 * n * wisdom  # (33) does not give (34), for any lambda that is allowed
    found = check_theorem_2(m, [ability] * n, None)
    assert [c.name for c in found.conditions if not c.holds] == ["the unlisted one"]
    assert not found.holds


def test_theorem_2_can_hold() -> None:
    found = check_theorem_2(10**12, [1.0] * 20_000, None, start_error=0.0)
    assert found.holds, str(found)
    assert "applies" in str(found)
    assert found.bound == label_error_bound(20_000, 1.0) < 1e-300
    assert found.to_dict()["holds"]


def test_theorem_4_cannot_meet_the_missing_condition() -> None:
    """ceil(n^delta) experts, delta < 1/2: n v^2 = n^(2 delta - 1) times a constant below 1, which falls with n."""
    values = []
    for n in (10**4, 10**6, 10**8):
        experts = math.ceil(n**0.45)
        v = math.tanh(2 / 2) ** 2 * experts / n
        values.append(n * v**2)
    assert values == sorted(values, reverse=True)
    assert max(values) < 64 * math.log(8) ** 2 * math.log(10**4)


def test_definition_3_needs_the_word_only() -> None:
    response = Response(1, 2)
    assert sheet_loss([0, 1, 0], [1, 1, 0], response).within(1)  # differ only in one answer
    assert not sheet_loss([0, 1, 0], [1, 0, 0], response).within(
        1
    )  # as printed: they differ in the first, and elsewhere too


def test_the_bound_at_epsilon_0_is_2_not_one_half() -> None:
    assert label_error_bound(50, collective_private_wisdom([0.9] * 50, 1e-9)) == pytest.approx(2, abs=1e-9)


def test_equation_4_needs_the_index_of_the_task() -> None:
    """With y_j as (7) gives it, F(p, y) is the log-likelihood of (2) plus m ln 2; with y_i it is something else."""
    crowd = simulate_crowd(tasks=15, workers=15, answers=15, epsilon=2, seed=1)
    fitted = AlgorithmOne(epsilon=2).fit(crowd.randomized)
    reports = EncodedAnswers.of(crowd.randomized)
    task = np.repeat(np.arange(15), np.diff(reports.start))
    p = np.asarray(fitted.details["shown"])
    y = fitted.probabilities[:, 1]
    given = (p, y, task, reports.worker, reports.label)
    likelihood = 0.0
    for t in range(15):
        mine = slice(reports.start[t], reports.start[t + 1])
        q, x = p[reports.worker[mine]], reports.label[mine]
        one, zero = np.prod(np.where(x == 1, q, 1 - q)), np.prod(np.where(x == 1, 1 - q, q))
        likelihood += math.log(0.5 * one + 0.5 * zero)
    assert objective_of_equation_4(*given) == pytest.approx(likelihood + 15 * math.log(2), abs=1e-9)
    assert abs(objective_of_equation_4_as_printed(*given) - likelihood - 15 * math.log(2)) > 1
    assert fitted.objective == pytest.approx(likelihood, abs=1e-9)


def test_theorem_3_rescales_by_minus_the_noise() -> None:
    """p = contrast p* + 1/(e^eps + 1), so that p - contrast p* **minus** 1/(e^eps + 1) is 0; plus, as printed, it is not."""
    e = math.exp(1)
    star = np.array([0.5, 0.8, 1.0])
    p = (e - 1) / (e + 1) * star + 1 / (e + 1)
    assert np.abs(p - (e - 1) / (e + 1) * star - 1 / (e + 1)).max() < 1e-12
    assert np.abs(p - (e - 1) / (e + 1) * star + 1 / (e + 1)).min() > 0.5
    assert private_effective_ability(star, 1) == pytest.approx(p)


def test_equation_17_on_a_crowd_that_answers_everything() -> None:
    """Abilities from Algorithm 1 on full answers of good workers are within the bound, and the bound is not vacuous."""
    crowd = simulate_crowd(tasks=4000, workers=60, answers=60, ability=(30, 8), epsilon=1, seed=3)
    fitted = AlgorithmOne(epsilon=1).fit(crowd.randomized)
    bound = ability_error_bound(4000, 1)
    assert np.abs(fitted.abilities - crowd.abilities).max() < bound < 0.5
    with pytest.raises(BadInput, match="at most 1"):
        ability_error_bound(4000, 2)


def test_theorem_4_by_experiment() -> None:
    """Few experts among coin-flippers at epsilon 4 > ln(85/15): majority is worse than the private method."""
    worse = []
    for seed in range(5):
        crowd = simulate_crowd(tasks=400, workers=60, answers=60, kind="experts", epsilon=4, seed=seed)
        ours = AlgorithmOne(epsilon=4).fit(crowd.randomized).accuracy(crowd.truth)[0]
        votes = PrivateMajority(epsilon=4).fit(crowd.randomized).accuracy(crowd.truth)[0]
        worse.append(ours - votes)
    assert min(worse) > 0.1


def test_sparse_answers_are_said_to_be_outside_the_theorem() -> None:
    crowd = simulate_crowd(tasks=50, workers=20, answers=5, epsilon=1, seed=1)
    fitted = PrivateDawidSkene(epsilon=1, model="one-coin").fit(crowd.randomized)
    found = check_theorem_2(50, fitted.abilities, 1, answered=fitted.loads.sum() / (50 * 20))
    assert not found.conditions[0].holds
    assert "does not apply" in str(found)


def test_bad_abilities_are_refused() -> None:
    for bad in ([], [1.2], [math.nan]):
        with pytest.raises(BadInput):
            effective_ability(bad)
