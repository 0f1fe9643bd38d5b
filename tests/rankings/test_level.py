"""Slow: how often uniform rankings are rejected, and how often signals are found, on the sizes of the issue."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from peerveil.core.randomness import laplace_scale
from peerveil.rankings import people_needed, power_of
from peerveil.rankings.central import central_test
from peerveil.rankings.laws import NoisyLaw, concordance_null, squares_null

LEVELS = (0.2, 0.05, 0.01, 0.001)
REPEATED = 100_000
pytestmark = pytest.mark.slow


def uniform_rows(k: int, m: int, seed: int) -> Any:
    return np.random.default_rng(seed).permuted(np.tile(np.arange(m, dtype=np.int32), (k, 1)), axis=1)


def statistics(method: str, k: int, m: int) -> np.ndarray[Any, Any]:
    """The statistic of 100,000 uniform data sets, without noise."""
    test, rng = central_test(method, k, m, 1 / 3), np.random.default_rng(5)
    result = np.empty(REPEATED)
    for i in range(REPEATED):
        if method == "pairs-norm":
            result[i] = test.statistic(2 * rng.binomial(k, 0.5, m // 2) - k)
        elif method == "rank-norm":
            result[i] = test.statistic(uniform_rows(k, m, i).sum(axis=0))
        else:
            result[i] = test.from_rows(uniform_rows(k, m, i))
    return result


@pytest.mark.parametrize(
    ("method", "k", "m"),
    [
        ("rank-norm", 2, 2),
        ("rank-norm", 5, 3),
        ("rank-norm", 7, 30),
        ("rank-norm", 40, 12),
        ("clipped-norm", 12, 60),
        ("clipped-norm", 40, 40),
        ("pairs-norm", 3, 4),
        ("pairs-norm", 1000, 100),
        ("clipped-batches", 9, 40),
        ("clipped-batches", 30, 60),
    ],
)
def test_noised_statistics_keep_their_level_exactly(method: str, k: int, m: int) -> None:
    test = central_test(method, k, m, 1 / 3)
    scale = laplace_scale(sensitivity=test.sensitivity, epsilon=1 / 3)
    law = NoisyLaw(test.null(), scale)
    noisy = statistics(method, k, m) + np.random.default_rng(6).laplace(scale=scale, size=REPEATED)
    for level in LEVELS:
        result = float((noisy >= law.critical(level)).mean())
        assert abs(result - level) <= 5 * math.sqrt(level * (1 - level) / REPEATED), (level, result)


@pytest.mark.parametrize(("k", "m"), [(2, 3), (4, 4), (6, 20), (2, 250), (41, 10), (10, 60)])
def test_friedman_never_exceeds_its_level(k: int, m: int) -> None:
    square = np.empty(REPEATED)
    for i in range(REPEATED // 1000):
        sums = 2 * uniform_rows(k * 1000, m, i).reshape(1000, k, m).sum(axis=1) - k * (m - 1)
        square[i * 1000 : (i + 1) * 1000] = (sums**2).sum(axis=1)
    w = square / (m * (m * m - 1) / 3) / k**2
    for level in LEVELS:
        result = float((w >= concordance_null(k, m).critical(level) - 1e-12).mean())
        assert result <= level + 5 * math.sqrt(level * (1 - level) / REPEATED), (level, result)


@pytest.mark.parametrize(("k", "m"), [(2, 2), (5, 7), (1000, 10), (50, 100)])
def test_pair_sums_without_noise_never_exceed_their_level(k: int, m: int) -> None:
    rng = np.random.default_rng(8)
    sums = 2 * rng.binomial(k, 0.5, (REPEATED, m // 2)) - k
    y = (sums.astype(float) ** 2).sum(axis=1)
    for level in LEVELS:
        margin = 5 * math.sqrt(level * (1 - level) / REPEATED)
        assert float((y >= squares_null((k,) * (m // 2)).critical(level)).mean()) <= level + margin


def test_local_tests_never_exceed_their_level() -> None:
    rng = np.random.default_rng(9)
    for people, questions in ((50, 3), (2000, 3), (300, 150)):
        counts = rng.multinomial(people, np.full(questions, 1 / questions))
        law = squares_null(tuple(counts[counts > 0].tolist()))
        sums = 2 * rng.binomial(counts, 0.5, (REPEATED, questions)) - counts
        y = (sums.astype(float) ** 2).sum(axis=1)
        for level in LEVELS:
            margin = 5 * math.sqrt(level * (1 - level) / REPEATED)
            assert float((y >= law.critical(level)).mean()) <= level + margin


# ---- power ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("m", "k", "spread", "least", "trials"),
    [(10, 10_000, 0.99, 0.93, 60), (100, 1000, 0.997, 0.9, 100), (1000, 100, 0.999, 0.9, 300)],
)
def test_the_default_central_test_reaches_its_power(m: int, k: int, spread: float, least: float, trials: int) -> None:
    result = power_of("auto", rankings=k, items=m, spread=spread, epsilon="1/3", trials=trials, seed=1)
    print(result)
    assert result.power >= least


@pytest.mark.parametrize(
    ("m", "n", "spread", "least"), [(100, 2000, 0.95, 0.75), (100, 10_000, 0.98, 0.65), (1000, 2000, 0.995, 0.75)]
)
def test_the_default_local_test_reaches_its_power(m: int, n: int, spread: float, least: float) -> None:
    result = power_of("local", rankings=n, items=m, spread=spread, epsilon="1/3", trials=4000)
    print(result)
    assert result.power >= least


def test_people_needed_locally_are_flat_in_the_number_of_items() -> None:
    for strength in (2, 5):
        people = [
            people_needed("local", items=m, spread=1 - strength / m, epsilon="1/3", trials=4000)
            for m in (100, 1000, 10_000)
        ]
        print(strength, people)
        assert None not in people
        assert max(p for p in people if p) < 1.2 * min(p for p in people if p)
