"""Two groups compared: level whatever people are like, power, intervals, forms and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from peerveil import BadInput, Randomness
from peerveil.data import Rankings
from peerveil.ledger import Ledger
from peerveil.rankings import Mallows, RankingComparison, compare
from peerveil.rankings.compare import _concentration
from peerveil.rankings.kernels import places_of

ITEMS = ["tea", "milk", "juice", "water", "beer"]
BEFORE = Mallows(5, 0.7).sample(500, seed=1)
AFTER = Mallows(5, 0.7, [4, 1, 2, 3, 0]).sample(400, seed=2)


def run(a: Any = BEFORE, b: Any = AFTER, epsilon: Any = 1, seed: int = 1, **more: Any) -> RankingComparison:
    return compare(a, b, epsilon=epsilon, randomness=Randomness.simulation(seed), **more)


@pytest.mark.parametrize("epsilon", [None, 1])
def test_what_moved_is_found_and_reads_well(epsilon: int | None) -> None:
    result = run(Rankings(BEFORE, items=ITEMS), Rankings(AFTER, items=ITEMS), epsilon)
    assert result.reject
    assert set(result.moved) == {"tea", "beer"}
    assert result.differences["beer"] > 0 > result.differences["tea"]
    assert result.frame()["item"][0] == "beer"
    assert "rank differently" in result.summary()
    assert result.rankings == (500, 400)
    assert result.guarantee.epsilon == epsilon
    result.plot()
    same = run(BEFORE[:250], BEFORE[250:], epsilon)
    assert not same.reject
    assert same.moved == ()


def test_the_order_of_columns_does_not_matter() -> None:
    table = Rankings(AFTER, items=ITEMS)
    turned = Rankings(np.asarray(AFTER)[:, ::-1], items=ITEMS[::-1])
    first, second = (run(Rankings(BEFORE, items=ITEMS), other, None) for other in (table, turned))
    assert first.differences == second.differences
    with pytest.raises(BadInput, match="those of the first group"):
        run(Rankings(BEFORE, items=ITEMS), Rankings(AFTER, items=[*ITEMS[:4], "wine"]))


def test_partial_rankings_and_counts() -> None:
    groups = [np.where(np.asarray(votes) >= 3, -1, votes) for votes in (BEFORE, AFTER)]
    assert run(groups[0], groups[1]).reject
    ranks, counts = np.unique(groups[0], axis=0, return_counts=True)
    assert run(Rankings(ranks, counts=counts), groups[1], None).differences == pytest.approx(
        run(groups[0], groups[1], None).differences
    )


def opposed(n: int, seed: int) -> Any:
    """Two camps, each the other's reverse: the largest eigenvalue that a covariance of ranks can have."""
    up = np.arange(8)
    return np.where(np.random.default_rng(seed).random((n, 1)) < 0.5, up, up[::-1])


def agreeing(n: int, seed: int) -> Any:
    return np.asarray(Mallows(8, 0.9).sample(n, seed=seed))


@pytest.mark.slow
@pytest.mark.parametrize("people", [(100, 100), (1000, 400)])
@pytest.mark.parametrize("epsilon", [None, 0.5, 2])
@pytest.mark.parametrize("data", [opposed, agreeing])
def test_level_and_intervals(data: Any, epsilon: float | None, people: tuple[int, int]) -> None:
    trials = 300
    results = [run(data(people[0], 2 * s), data(people[1], 2 * s + 1), epsilon, s) for s in range(trials)]
    rejected, held = (
        float(np.mean([value(r) for r in results])) for value in (lambda r: r.reject, lambda r: not r.moved)
    )
    print(f"{data.__name__}, {people}, epsilon {epsilon}: rejected {rejected:.3f}, all intervals hold 0 {held:.3f}")
    error = np.sqrt(0.05 * 0.95 / trials)
    assert rejected < 0.05 + 4 * error
    assert held > 0.95 - 4 * error


@pytest.mark.slow
def test_power() -> None:
    """10 items, 500 people in each group, the first and the last item exchanged; printed as in the docs."""
    for spread in (0.9, 0.95, 0.97):
        other = Mallows(10, spread, [9, *range(1, 9), 0])
        share = {}
        for epsilon in (None, 0.5, 1, 2):
            found = [
                run(Mallows(10, spread).sample(500, seed=2 * s), other.sample(500, seed=2 * s + 1), epsilon, s).reject
                for s in range(100)
            ]
            share[epsilon] = float(np.mean(found))
        print(spread, share)
        assert share[None] >= share[2] - 0.1
        assert share[2] >= share[0.5] - 0.1
    assert share[None] > 0.2


def test_the_concentration_moves_by_no_more_than_its_sensitivity() -> None:
    rng = np.random.default_rng(1)
    largest = 0.0
    for _ in range(2_000):
        n = int(rng.integers(2, 6))
        rows = Rankings(_valid(rng, n + 1)).ranks
        ones = [np.ones(n, dtype=np.int64)]
        values = [_concentration([places_of(rows[chosen])], ones, 4) for chosen in (range(n), range(1, n + 1))]
        largest = max(largest, n * abs(values[0] - values[1]))
    assert largest <= np.sqrt(2) + 1e-9


def _valid(rng: np.random.Generator, n: int) -> Any:
    rows = rng.integers(-1, 4, (n, 4))
    rows[(rows < 0).all(axis=1)] = 0
    return rows


def test_both_groups_are_debited(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "budget.db") as ledger:
        account = ledger.account("votes", epsilon=2)
        compare(BEFORE, AFTER, epsilon=1, account=account)
        assert account.remaining == 0
        with pytest.raises(BadInput, match="account"):
            compare(BEFORE, AFTER, account=account)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"level": 2}, "level"),
        ({"confidence": 1.5}, "confidence"),
        ({"epsilon": -1}, "epsilon"),
        ({"unranked": "x"}, "unranked"),
    ],
)
def test_bad_settings(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(BadInput, match=named):
        compare(BEFORE, AFTER, **settings)
