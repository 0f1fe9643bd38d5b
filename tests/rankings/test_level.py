"""Slow: how often uniform rankings are rejected, and how often signals are found, on the sizes of the issue."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from peerveil import Randomness
from peerveil.randomness import laplace_scale
from peerveil.rankings import Mallows, people_needed, power_of
from peerveil.rankings import printed as paper
from peerveil.rankings.kernels import batch_norms, shuffle_rows
from peerveil.rankings.noise import NoisyLaw
from peerveil.rankings.nulls import concordance_critical, distance_critical, squares_null
from peerveil.rankings.uniformity import central_test

LEVELS = (0.2, 0.05, 0.01, 0.001)
REPEATED = 100_000
pytestmark = pytest.mark.slow


def uniform_rows(k: int, m: int, seed: int) -> Any:
    rows = np.empty((k, m), dtype=np.int32)
    shuffle_rows(rows, seed)
    return rows


def statistics(method: str, k: int, m: int) -> np.ndarray[Any, Any]:
    """The statistic of 100,000 uniform data sets, without noise."""
    test, rng = central_test(method, k, m, 1 / 3), np.random.default_rng(5)
    found = np.empty(REPEATED)
    for i in range(REPEATED):
        if method in ("pairs-norm", "laplace"):
            found[i] = test.statistic(2 * rng.binomial(k, 0.5, m // 2) - k)
        elif method == "rank-norm":
            found[i] = test.statistic(uniform_rows(k, m, i).sum(axis=0))
        else:
            found[i] = test.statistic(uniform_rows(k, m, i))
    return found


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
        ("laplace", 200, 11),
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
        found = float((noisy >= law.critical(level)).mean())
        assert abs(found - level) <= 5 * math.sqrt(level * (1 - level) / REPEATED), (level, found)


@pytest.mark.parametrize(("k", "m"), [(2, 3), (4, 4), (6, 20), (2, 250), (41, 10), (10, 60)])
def test_friedman_never_exceeds_its_level(k: int, m: int) -> None:
    square = np.empty(REPEATED)
    rows = uniform_rows(k * 1000, m, 1)
    for i in range(REPEATED // 1000):
        shuffle_rows(rows, i)
        batch_norms(rows, k, square[i * 1000 : (i + 1) * 1000])
    w = square / (m * (m * m - 1) / 3) / k**2
    for level in LEVELS:
        found = float((w >= concordance_critical(k, m, level) - 1e-12).mean())
        assert found <= level + 5 * math.sqrt(level * (1 - level) / REPEATED), (level, found)


@pytest.mark.parametrize(("k", "m"), [(2, 2), (5, 7), (1000, 10), (50, 100)])
def test_unif_and_two_sample_never_exceed_their_level(k: int, m: int) -> None:
    rng = np.random.default_rng(8)
    sums = 2 * rng.binomial(k, 0.5, (REPEATED, m // 2)) - k
    y = (sums.astype(float) ** 2).sum(axis=1)
    jumps = rng.integers(0, np.arange(1, m + 1), (REPEATED, m)).sum(axis=1)  # the law of Kendall's distance
    for level in LEVELS:
        room = 5 * math.sqrt(level * (1 - level) / REPEATED)
        assert float((y >= squares_null((k,) * (m // 2)).critical(level)).mean()) <= level + room
        assert float((jumps <= distance_critical(1, m, level)).mean()) <= level + room


def test_local_tests_never_exceed_their_level() -> None:
    rng = np.random.default_rng(9)
    for people, questions in ((50, 3), (2000, 3), (300, 150)):
        counts = rng.multinomial(people, np.full(questions, 1 / questions))
        law = squares_null(tuple(counts[counts > 0].tolist()))
        sums = 2 * rng.binomial(counts, 0.5, (REPEATED, questions)) - counts
        y = (sums.astype(float) ** 2).sum(axis=1)
        for level in LEVELS:
            room = 5 * math.sqrt(level * (1 - level) / REPEATED)
            assert float((y >= law.critical(level)).mean()) <= level + room


# ---- power ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("m", "k", "spread", "least", "trials"),
    [(10, 10_000, 0.99, 0.93, 60), (100, 1000, 0.997, 0.9, 100), (1000, 100, 0.999, 0.9, 300)],
)
def test_the_default_central_test_reaches_its_power(m: int, k: int, spread: float, least: float, trials: int) -> None:
    found = power_of("auto", k, m, spread, epsilon="1/3", trials=trials, seed=1)
    print(found)
    assert found.power >= least


@pytest.mark.parametrize(
    ("m", "n", "spread", "least"), [(100, 2000, 0.95, 0.75), (100, 10_000, 0.98, 0.65), (1000, 2000, 0.995, 0.75)]
)
def test_the_default_local_test_reaches_its_power(m: int, n: int, spread: float, least: float) -> None:
    found = power_of("local", n, m, spread, epsilon="1/3", trials=4000)
    printed = power_of("local-bits", n, m, spread, epsilon="1/3", trials=1000)
    print(found, printed)
    assert found.power >= least
    assert printed.power < 0.12


def test_people_needed_locally_are_flat_in_the_number_of_items() -> None:
    for strength in (2, 5):
        people = [people_needed("local", m, 1 - strength / m, epsilon="1/3", trials=4000) for m in (100, 1000, 10_000)]
        print(strength, people)
        assert None not in people
        assert max(p for p in people if p) < 1.2 * min(p for p in people if p)


@pytest.mark.parametrize(
    ("m", "k", "spreads"),
    [
        (10, 10_000, (0.998, 0.995, 0.99, 0.98, 0.97)),
        (100, 1000, (0.9995, 0.999, 0.998, 0.997, 0.996, 0.995)),
        (500, 1000, (0.9999, 0.9998, 0.9996, 0.9995, 0.9994, 0.9992)),
    ],
)
def test_the_default_is_never_behind_the_printed_tests_that_keep_their_level(
    m: int, k: int, spreads: tuple[float, ...]
) -> None:
    """BUNIF with 3 batches, and TRUNC at all tolerances (up to 0.9999) at which it rejects at most 5% of uniform data sets."""
    trials, source = (40 if m < 500 else 25), Randomness.simulation(3)
    uniform = 2 * np.random.default_rng(1).binomial(k, 0.5, (2000, m // 2)) - k
    biases = []
    for tolerance in (0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 0.97, 0.98, 0.99, 0.999, 0.9999):
        bias = paper.bias_as_printed(m, tolerance)
        null = np.mean([paper.trunc_reject_probability_as_printed(s, k, m, bias, 1 / 3, 0.05) for s in uniform])
        if null <= 0.05:
            biases.append(bias)
    for spread in spreads:
        ours = power_of("auto", k, m, spread, epsilon="1/3", trials=trials, seed=2)
        rival: list[list[float]] = [[] for _ in range(1 + len(biases))]
        for _ in range(trials):
            rows = Mallows(m, spread, source.permutation(m)).sample(k, source)
            signs = np.where(rows[:, 0 : 2 * (m // 2) : 2] < rows[:, 1::2], 1, -1)
            batches = [signs[i * (k // 3) : (i + 1) * (k // 3)].sum(axis=0) for i in range(3)]
            rival[0].append(float(np.mean([paper.unif_as_printed(s, k // 3, m, 0.05)[2] for s in batches])))
            for j, bias in enumerate(biases):
                chance = paper.trunc_reject_probability_as_printed(signs.sum(axis=0), k, m, bias, 1 / 3, 0.05)
                rival[1 + j].append(chance)
        print(m, k, spread, f"ours {ours.power:.3f} +- {ours.error:.3f}", [round(float(np.mean(r)), 3) for r in rival])
        for powers in rival:
            error = math.hypot(float(np.std(powers, ddof=1)) / math.sqrt(trials), ours.error)
            assert ours.power >= float(np.mean(powers)) - 2 * error - 0.005
