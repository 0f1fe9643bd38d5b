"""The consensus: exact noise on the permutohedron, scores, intervals, partial rankings."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import chi2, kendalltau

from peerveil import BadInput, Randomness
from peerveil.core.randomness import PermutohedronNoise
from peerveil.core.randomness.permutohedron import _Permutohedron, _random_tree, tile_point
from peerveil.data import Rankings
from peerveil.ledger import Ledger
from peerveil.rankings import Mallows, consensus
from peerveil.rankings.adversary import consensus_loss
from peerveil.rankings.kernels import add_places, places_of
from peerveil.rankings.models import strengths_of


def all_trees(m: int) -> set[tuple[int, ...]]:
    """Every labeled tree as parents, rooted at the last vertex."""
    trees = set()
    for edges in combinations(list(combinations(range(m), 2)), m - 1):
        parent = {m - 1: -1}
        queue = [m - 1]
        for u in queue:
            for v in (j if i == u else i for i, j in edges if u in (i, j)):
                if v not in parent:
                    parent[v] = u
                    queue.append(v)
        if len(parent) == m:
            trees.add(tuple(parent[v] for v in range(m)))
    return trees


def points_inside(m: int, radius: int) -> list[tuple[int, ...]]:
    noise, span = PermutohedronNoise(m, 1), range(-2 * m * radius, 2 * m * radius + 1)
    points = ((*rest, -sum(rest)) for rest in product(span, repeat=m - 1))
    return [point for point in points if noise.norm(np.array(point)) <= radius]


@pytest.mark.parametrize(("m", "radius"), [(2, 1), (2, 3), (3, 1), (3, 2), (4, 1)])
def test_tiles_cover_every_point_of_the_body_exactly_once(m: int, radius: int) -> None:
    stretch, trees = 4 * radius + 2, all_trees(m)
    assert len(trees) == m ** (m - 2)
    cover = Counter(
        tuple(tile_point(list(tree), [*steps, 0], stretch))
        for tree in trees
        for steps in product(range(stretch), repeat=m - 1)
    )
    inside = points_inside(m, radius)
    assert max(cover.values()) == 1
    assert set(inside) <= set(cover)
    assert len(inside) == _Permutohedron(m).volume(radius)


def test_trees_are_uniform() -> None:
    source, count = Randomness.simulation(3), 16_000
    seen = Counter(tuple(_random_tree(4, source)) for _ in range(count))
    assert set(seen) == all_trees(4)
    statistic = sum((value - count / 16) ** 2 for value in seen.values()) / (count / 16)
    assert statistic < chi2.isf(1e-7, 15)


def law_of_norms(m: int, epsilon: float, most: int) -> np.ndarray[Any, Any]:
    body = _Permutohedron(m)
    shells = [body.volume(r) - (body.volume(r - 1) if r else 0) for r in range(most)]
    weights = np.array(shells, dtype=float) * np.exp(-epsilon * np.arange(most))
    return np.asarray(weights / weights.sum())


@pytest.mark.parametrize(("drawn_for", "fits"), [("1", True), ("1.3", False)])
def test_the_law_of_the_norm(drawn_for: str, fits: bool) -> None:
    noise, source, count = PermutohedronNoise(3, drawn_for), Randomness.simulation(5), 6_000
    norms = np.array([int(-(-noise.norm(noise.draw(source)) // 1)) for _ in range(count)])
    law = law_of_norms(3, 1.0, 200)
    expected = count * np.append(law[:7], law[7:].sum())
    seen = np.bincount(np.minimum(norms, 7), minlength=8)
    statistic = float(((seen - expected) ** 2 / expected).sum())
    assert bool(statistic < chi2.isf(1e-7, 7)) is fits


def test_directions_are_uniform_within_a_shell() -> None:
    noise, source = PermutohedronNoise(3, 2), Randomness.simulation(6)
    inside = points_inside(3, 1)
    drawn = Counter(tuple(noise.draw(source).tolist()) for _ in range(20_000))
    seen = np.array([drawn[point] for point in inside if any(point)])
    assert ((seen - seen.mean()) ** 2).sum() / seen.mean() < chi2.isf(1e-7, seen.size - 1)


def test_a_replaced_ranking_moves_the_sums_by_norm_one_at_most() -> None:
    rng, noise = np.random.default_rng(1), PermutohedronNoise(7, 1)
    largest = Fraction(0)
    for _ in range(2_000):
        rows = rng.integers(-1, 7, (2, 7)).astype(np.int16)  # partial and tied
        rows = Rankings(_dense(rows)).ranks
        a, b = places_of(rows)
        largest = max(largest, noise.norm(a - b))
    up = np.arange(7)
    assert noise.norm(2 * (up - up[::-1])) == 1
    assert largest <= 1


def _dense(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    out = rows.copy()
    for row in out:
        present = np.unique(row[row >= 0])
        row[row >= 0] = np.searchsorted(present, row[row >= 0])
    return out


def test_exact_loss() -> None:
    assert consensus_loss(3) == 1
    assert consensus_loss(3, noise_epsilon=2) == 2


def test_places_share_the_mean() -> None:
    ranks = np.array([[0, 1, 2, 3], [0, 0, 1, -1], [-1, 0, -1, -1]], dtype=np.int16)
    assert places_of(ranks).tolist() == [[0, 2, 4, 6], [1, 1, 4, 6], [4, 0, 4, 4]]
    sums = np.zeros(4, dtype=np.int64)
    add_places(ranks, np.array([2, 1, 3]), sums)
    assert sums.tolist() == [2 * 0 + 1 + 12, 2 * 2 + 1 + 0, 2 * 4 + 4 + 12, 2 * 6 + 6 + 12]


def test_strengths_reproduce_the_scores() -> None:
    truth = np.array([1.0, 0.3, -0.2, -1.1])
    chance = 1 / (1 + np.exp(truth[None] - truth[:, None]))
    wins = chance.sum(axis=1) - 0.5
    assert strengths_of(3 - wins) == pytest.approx(truth, abs=1e-8)
    assert np.isfinite(strengths_of(np.array([-9.0, 1, 2, 12]))).all()  # noise may lead beyond what is possible


@pytest.mark.parametrize("epsilon", [None, 1])
def test_names_numbers_and_forms(epsilon: int | None) -> None:
    source = Randomness.simulation(1)
    votes = Mallows(5, 0.5).sample(400, seed=2)
    numbered = consensus(votes, epsilon=epsilon, randomness=source)
    assert numbered.order == (0, 1, 2, 3, 4)
    table = Rankings(votes, items=["tea", "milk", "juice", "water", "beer"])
    named = consensus(table, epsilon=epsilon, randomness=source, method="bradley-terry")
    assert named.order == ("tea", "milk", "juice", "water", "beer")
    assert named.scores == named.strengths
    assert named.frame()["item"].to_list() == list(named.order)
    assert all(low <= named.scores[item] <= high for item, (low, high) in named.score_intervals.items())
    assert 0.5 < named.prefers("tea", "beer") < 1
    assert named.prefers("tea", "beer") + named.prefers("beer", "tea") == pytest.approx(1)
    top = named.top(2)
    assert {*top.surely, *top.undecided, *top.surely_not} == set(named.order)
    assert "tea" in top.surely
    assert isinstance(named.frame(), pl.DataFrame)
    named.plot()
    assert named.guarantee.epsilon == epsilon


def test_partial_rankings_are_taken_with_the_same_guarantee() -> None:
    ranks = np.array([[0, 1, -1], [0, 0, 1], [1, 0, 2]] * 40, dtype=np.int16)
    result = consensus(Rankings(ranks, items=["a", "b", "c"]), epsilon=2, randomness=Randomness.simulation(1))
    assert result.order[-1] == "c"
    assert "complete or not" in str(result.guarantee)


def test_central_accuracy() -> None:
    """Kendall's tau at epsilon 1, 10 items, 1,000 people, Mallows 0.9: 0.95 in the benchmark; here 60 data sets."""
    taus = []
    for seed in range(60):
        votes = Mallows(10, 0.9).sample(1000, seed=seed)
        scores = consensus(votes, epsilon=1, randomness=Randomness.simulation(seed)).scores
        taus.append(kendalltau(list(scores.values()), -np.arange(10))[0])
    assert np.mean(taus) > 0.95 - 5 * np.std(taus) / np.sqrt(60)


@pytest.mark.parametrize(
    ("m", "people", "spread", "epsilon"), [(10, 300, 0.9, None), (10, 1000, 0.9, 1), (5, 100, 0.8, 0.5)]
)
def test_intervals_cover(m: int, people: int, spread: float, epsilon: float | None) -> None:
    truth = (m - 1) / 2 - np.asarray(Mallows(m, spread).sample(100_000, seed=10**6)).mean(axis=0)
    scores = ranks = 0
    trials = 120
    for seed in range(trials):
        votes = Mallows(m, spread).sample(people, seed=seed)
        result = consensus(votes, epsilon=epsilon, randomness=Randomness.simulation(seed))
        scores += all(low <= truth[i] <= high for i, (low, high) in result.score_intervals.items())
        ranks += all(result.rank_intervals[i][0] <= i + 1 <= result.rank_intervals[i][1] for i in range(m))
    error = np.sqrt(0.95 * 0.05 / trials)
    assert scores / trials > 0.95 - 5 * error
    assert ranks / trials > 0.95 - 5 * error


def test_an_account_is_debited_once_and_not_without_epsilon(tmp_path: Any) -> None:
    votes = Mallows(4, 0.8).sample(50, seed=1)
    with Ledger.open(tmp_path / "budget.db") as ledger:
        account = ledger.account("votes", epsilon=1)
        consensus(votes, epsilon=1, account=account)
        assert account.remaining == 0
        with pytest.raises(BadInput, match="account"):
            consensus(votes, account=account)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "median"}, "method"),
        ({"level": 1.5}, "level"),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        consensus(Mallows(4, 0.8).sample(50, seed=1), **settings)


def test_too_many_items_for_the_noise() -> None:
    with pytest.raises(BadInput, match="items"):
        consensus(np.tile(np.arange(300, dtype=np.int16), (5, 1)), epsilon=1)
    assert consensus(np.tile(np.arange(300, dtype=np.int16), (5, 1))).order[0] == 0


def test_unknown_items() -> None:
    result = consensus(Mallows(4, 0.8).sample(50, seed=1))
    with pytest.raises(BadInput, match="a"):
        result.prefers("tea", 1)
    with pytest.raises(BadInput, match="k"):
        result.top(9)
