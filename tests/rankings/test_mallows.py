"""Mallows' model against enumeration, and distances against brute force."""

from __future__ import annotations

import math
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest
from scipy.stats import kendalltau

from peerveil.core.errors import BadInput
from peerveil.core.randomness import Randomness
from peerveil.rankings import Mallows, kendall_distance
from peerveil.rankings.kernels import top_half
from peerveil.rankings.mallows import distance_moments, spread_of_mean
from peerveil.rankings.plan import half_biases, pair_bias
from peerveil.rankings.variation import NODES, distance_cdf, mahonian, spread_at, total_variation, variation_by


def brute_distance(a: Any, b: Any) -> int:
    return sum((a[i] - a[j]) * (b[i] - b[j]) < 0 for i, j in combinations(range(len(a)), 2))


def law(model: Mallows) -> dict[tuple[int, ...], float]:
    weights = {p: model.spread ** brute_distance(p, model.center) for p in permutations(range(model.items))}
    total = math.fsum(weights.values())
    return {p: w / total for p, w in weights.items()}


@pytest.mark.parametrize("m", [1, 2, 3, 7, 8, 9, 17, 33, 100, 257])
def test_kendall_distance_is_the_number_of_discordant_pairs(m: int) -> None:
    rng = np.random.default_rng(m)
    for _ in range(5):
        a, b = rng.permutation(m), rng.permutation(m)
        assert kendall_distance(a, b) == brute_distance(a, b)
        assert kendall_distance(a, a) == 0
        assert kendall_distance(a, m - 1 - a) == m * (m - 1) // 2


def test_kendall_distance_agrees_with_scipy_at_ten_thousand_items() -> None:
    a, b = (np.random.default_rng(i).permutation(10_000) for i in (1, 2))
    pairs = 10_000 * 9_999 / 2
    assert kendall_distance(a, b) == pytest.approx((1 - kendalltau(a, b).statistic) / 2 * pairs, abs=1e-3)


@pytest.mark.parametrize("spread", [1e-6, 0.3, 0.95, 1.0])
def test_samples_follow_the_model(spread: float) -> None:
    model = Mallows(4, spread, center=[2, 0, 3, 1])
    expected, n = law(model), 60_000
    counts: dict[tuple[int, ...], int] = dict.fromkeys(expected, 0)
    for row in model.sample(n, seed=3).tolist():
        counts[tuple(row)] += 1
    for ranking, p in expected.items():
        assert abs(counts[ranking] - n * p) <= 5.5 * math.sqrt(n * p * (1 - p)) + 3
        assert model.log_likelihood([ranking]) == pytest.approx(math.log(p), abs=1e-9)


def test_a_sampler_that_is_off_is_noticed() -> None:
    """The deliberate fault of the test above: another spread."""
    n, p = 60_000, law(Mallows(4, 0.6))[0, 1, 2, 3]
    hits = (Mallows(4, 0.58).sample(n, seed=3) == np.arange(4)).all(axis=1).sum()
    assert abs(hits - n * p) > 5.5 * math.sqrt(n * p * (1 - p))


def test_large_samples_have_the_right_distance() -> None:
    model = Mallows(1000, 0.99)
    rows = model.sample(60, seed=1)
    result = [kendall_distance(row, np.arange(1000)) for row in rows]
    mean, variance = distance_moments(1000, 0.99)
    assert abs(np.mean(result) - mean) < 5 * math.sqrt(variance / 60)
    assert (np.sort(rows, axis=1) == np.arange(1000)).all()
    secure = Mallows(5, 0.5).sample(3)
    assert (np.sort(secure, axis=1) == np.arange(5)).all()


@pytest.mark.parametrize(("m", "spread"), [(2, 0.3), (6, 0.9), (6, 1.0), (7, 1 - 1e-6), (7, 1e-4), (40, 0.999)])
def test_moments_and_normalizer(m: int, spread: float) -> None:
    counts = mahonian(m)
    weights = [c * spread**d for d, c in enumerate(counts)]
    total = math.fsum(weights)
    mean = math.fsum(d * w for d, w in enumerate(weights)) / total
    variance = math.fsum((d - mean) ** 2 * w for d, w in enumerate(weights)) / total
    assert distance_moments(m, spread) == pytest.approx((mean, variance), rel=1e-6)
    assert Mallows(m, spread).log_normalizer == pytest.approx(math.log(total), rel=1e-10)
    assert spread_of_mean(m, mean) == pytest.approx(spread, abs=1e-5)


def test_mahonian_numbers() -> None:
    assert mahonian(1) == [1]
    assert mahonian(5) == [1, 4, 9, 15, 20, 22, 20, 15, 9, 4, 1]
    assert sum(mahonian(60)) == math.factorial(60)


@pytest.mark.parametrize(
    ("m", "spread"),
    [(2, 0.3), (3, 0.5), (10, 0.1), (10, 0.9), (50, 0.7), (50, 0.99), (150, 0.98), (150, 0.999), (5, 1e-5), (20, 1e-4)],
)
def test_total_variation_against_mahonian_numbers(m: int, spread: float) -> None:
    counts = mahonian(m)
    weights = [spread**d for d in range(len(counts))]
    total, every = math.fsum(c * w for c, w in zip(counts, weights, strict=True)), sum(counts)
    exact = 0.5 * math.fsum(abs(c / every - c * w / total) for c, w in zip(counts, weights, strict=True))
    value = total_variation(m, spread)
    error = abs(value - variation_by(NODES, m, spread))
    assert abs(value - exact) <= error + 1e-9
    assert error < 2e-9


def test_the_distribution_of_distances() -> None:
    result = distance_cdf(5, 1.0, np.arange(11))
    assert np.abs(result - np.cumsum(mahonian(5)) / 120).max() <= 1e-12


@pytest.mark.parametrize(("m", "tolerance"), [(2, 0.2), (10, 0.05), (100, 0.5), (500, 0.999), (10_000, 0.3)])
def test_the_spread_at_a_tolerance(m: int, tolerance: float) -> None:
    assert total_variation(m, spread_at(m, tolerance)) == pytest.approx(tolerance, abs=1e-7)


def test_the_fit_finds_spread_and_center() -> None:
    truth = Mallows(25, 0.85, center=Randomness.simulation(5).permutation(25))
    rows = truth.sample(800, seed=2)
    result = Mallows.fit(rows)
    assert result.spread == pytest.approx(0.85, abs=0.01)
    assert kendall_distance(result.center, truth.center) <= 2
    assert result.log_likelihood(rows) >= truth.log_likelihood(rows)
    twice = Mallows.fit(rows, counts=np.full(800, 2))
    assert (twice.center == result.center).all()
    assert Mallows.fit([[0, 1, 2], [2, 1, 0]]).spread == 1.0
    assert Mallows.fit([[0, 1, 2]]).spread < 1e-100


def test_biases_of_answers_against_enumeration() -> None:
    model = Mallows(5, 0.7)
    probabilities = law(model)
    for place in range(5):
        exact = sum(p * np.sign(2 - ranking[place]) for ranking, p in probabilities.items())
        assert top_half(5, place, math.log(0.7)) == pytest.approx(exact, abs=1e-12)
    for gap in range(1, 5):
        exact = sum(p * (1 if r[0] < r[gap] else -1) for r, p in probabilities.items())
        assert float(pair_bias(0.7, gap)) == pytest.approx(exact, abs=1e-12)
    places, biases = half_biases(101, 0.99)
    assert biases[0] == -biases[-1] > 0
    assert np.interp(50, places, biases) == pytest.approx(0, abs=1e-12)
    assert float(pair_bias(1 - 1e-9, 10)) == pytest.approx(21e-9 / 6, rel=1e-3)


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: Mallows(0, 0.5), "items"),
        (lambda: Mallows(True, 0.5), "items"),
        (lambda: Mallows(3, 0), "spread"),
        (lambda: Mallows(3, 1.1), "spread"),
        (lambda: Mallows(3, math.nan), "spread"),
        (lambda: Mallows(3, 0.5, center=[0, 1, 1]), "center"),
        (lambda: Mallows(3, 0.5, center=[0, 1]), "center"),
        (lambda: Mallows(3, 0.5).sample(-1), "count"),
        (lambda: Mallows(3, 0.5).sample(2, seed="x"), "seed"),  # type: ignore[arg-type]
        (lambda: Mallows(3, 0.5).log_likelihood([[0, 0, 1]]), "rankings"),
        (lambda: Mallows.fit([]), "ranks"),
        (lambda: Mallows.fit([[0, 1], [1]]), "ranks"),
        (lambda: Mallows.fit([[0.5, 1.0]]), "Rankings, row 1 (index 0), column 0"),
        (lambda: kendall_distance([0, 1], [0, 1, 2]), "b"),
        (lambda: kendall_distance([0, 3, 1], [0, 1, 2]), "a"),
        (lambda: kendall_distance([0.0, 1.0], [0, 1]), "a"),
        (lambda: spread_at(10, 0), "tolerance"),
        (lambda: spread_at(10, math.nan), "tolerance"),
        (lambda: spread_at(2, 0.5), "tolerance"),
        (lambda: spread_at(1, 0.2), "items"),
        (lambda: mahonian(10_000), "items"),
    ],
)
def test_bad_input_is_named(make: Any, argument: str) -> None:
    with pytest.raises(BadInput) as caught:
        make()
    assert caught.value.argument == argument
