"""Power and sample sizes."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from peerveil import Randomness
from peerveil.core.errors import BadInput
from peerveil.rankings import (
    LocalProtocol,
    Mallows,
    consensus,
    local_consensus,
    people_needed,
    plan_rankings,
    power_of,
)
from peerveil.rankings.aggregate import aggregate_sums
from peerveil.rankings.central import PRIVATE
from peerveil.report import svg


def test_power_is_the_level_on_uniform_rankings() -> None:
    for method in PRIVATE:
        result = power_of(method, rankings=300, items=30, spread=1.0, epsilon=1, trials=60)
        assert abs(result.power - 0.05) < 6 * result.error + 0.003, method


def test_power_rises_with_people_and_signal() -> None:
    powers = [power_of("auto", rankings=k, items=50, spread=0.99, epsilon=0.5, trials=30).power for k in (30, 100, 400)]
    assert powers == sorted(powers)
    assert powers[-1] > 0.95
    strong, weak = (power_of("local", rankings=5000, items=50, spread=s, epsilon=1).power for s in (0.9, 0.99))
    assert strong > weak


@pytest.mark.parametrize("ask", ["items", "pairs"])
def test_local_power_agrees_with_whole_rankings(ask: str) -> None:
    """The shortcut (exact biases of answers) against people with whole rankings."""
    name = {"items": "local", "pairs": "local-pairs"}[ask]
    m, n, spread, trials = 12, 600, 0.75, 200
    short = power_of(name, rankings=n, items=m, spread=spread, epsilon=1, trials=3000)
    source, hits = Randomness.simulation(4), 0
    for trial in range(trials):
        protocol = LocalProtocol(m, epsilon=1, ask=ask, seed=trial)
        question, bits = protocol.draw(Mallows(m, spread).sample(n, seed=1000 + trial), randomness=source)
        number = protocol.questions
        counts = np.bincount(question, minlength=number)
        sums = np.bincount(question, weights=2.0 * bits - 1, minlength=number).astype(int)
        hits += aggregate_sums(protocol, counts, sums, 0.05).reject
    assert hits / trials == pytest.approx(short.power, abs=5 * math.sqrt(0.25 / trials + short.error**2))


def test_people_needed_reaches_the_power() -> None:
    people = people_needed("local", items=40, spread=0.9, epsilon=1, trials=1000)
    assert people is not None
    assert power_of("local", rankings=people, items=40, spread=0.9, epsilon=1, trials=3000).power > 0.75
    assert power_of("local", rankings=people // 2, items=40, spread=0.9, epsilon=1, trials=3000).power < 0.75


def test_people_needed_locally_do_not_grow_with_items() -> None:
    few, many = (people_needed("local", items=m, spread=1 - 5 / m, epsilon="1/3", trials=1000) for m in (100, 1000))
    assert few is not None
    assert many is not None
    assert many < 1.25 * few


def test_the_plan_prints_plots_and_becomes_data() -> None:
    plan = plan_rankings(items=60, spread=0.9, epsilon=2, trials=4, progress=False)
    assert set(plan.needed) == {"auto", "local"}
    assert "people" in str(plan)
    assert json.loads(json.dumps(plan.to_dict()))["rows"]
    assert "people" in svg(plan.plot(), alt="power")
    free = plan_rankings(items=60, spread=0.9, trials=4, progress=False)
    assert set(free.needed) == {"friedman"}


@pytest.mark.parametrize(("method", "trials"), [("open", 200), ("central", 80), ("local", 100)])
def test_the_planned_number_of_people_tells_the_first_items(method: str, trials: int) -> None:
    settings: dict[str, Any] = {"items": 5, "spread": 0.7, "epsilon": None if method == "open" else 2}
    plan = plan_rankings(first=2, methods=[method], progress=False, **settings)
    people = plan.needed[method]
    assert people is not None
    right = 0
    for seed in range(trials):
        votes, source = Mallows(5, 0.7, [3, 0, 4, 1, 2]).sample(people, seed=seed), Randomness.simulation(seed)
        if method == "local":
            protocol = LocalProtocol(5, epsilon=2, ask="name")
            result = local_consensus(protocol.randomize_all(votes, randomness=source), protocol=protocol)
        else:
            result = consensus(votes, epsilon=settings["epsilon"], randomness=source)
        right += set(result.order[:2]) == {1, 3}
    assert abs(right / trials - 0.8) < 5 * math.sqrt(0.8 * 0.2 / trials)


def test_a_plan_for_the_first_items_compares_open_central_and_local() -> None:
    plan = plan_rankings(items=8, spread=0.8, epsilon=1, first=3, progress=False)
    needed = [plan.needed[method] or math.inf for method in ("open", "central", "local")]
    assert needed == sorted(needed)
    assert needed[0] < needed[2] / 5
    assert "first 3" in str(plan)
    assert "first 3 of 8 items" in plan.recommendation
    assert "first 3 are right" in svg(plan.plot(), alt="first")
    assert set(plan_rankings(items=8, spread=0.8, first=1, progress=False).needed) == {"open"}
    refused: list[tuple[dict[str, Any], str]] = [
        ({"first": 8}, "first"),
        ({"first": 2, "methods": ["friedman"]}, "methods"),
    ]
    for bad, argument in refused:
        with pytest.raises(BadInput) as caught:
            plan_rankings(items=8, spread=0.8, **bad)
        assert caught.value.argument == argument


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: power_of("magic", rankings=10, items=10, spread=0.5), "method"),
        (lambda: power_of("rank-norm", rankings=10, items=10, spread=0.5), "epsilon"),
        (lambda: power_of("local", rankings=10, items=10, spread=0.5), "epsilon"),
        (lambda: power_of("friedman", rankings=100, items=10, spread=0.5, epsilon=1), "epsilon"),
        (lambda: power_of("friedman", rankings=1, items=10, spread=0.5), "rankings"),
        (lambda: power_of("friedman", rankings=10, items=1, spread=0.5), "items"),
        (lambda: power_of("friedman", rankings=10, items=10, spread=2), "spread"),
        (lambda: power_of("friedman", rankings=10, items=10, spread=0.5, trials=0), "trials"),
        (lambda: plan_rankings(items=10, spread=1.0), "spread"),
        (lambda: plan_rankings(items=10, spread=0.5, power=0.01), "power"),
        (lambda: plan_rankings(items=10, spread=0.5, methods=[]), "methods"),
    ],
)
def test_bad_input_is_named(make: Any, argument: str) -> None:
    with pytest.raises(BadInput) as caught:
        make()
    assert caught.value.argument == argument
