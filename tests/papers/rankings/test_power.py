"""The product's tests against the printed ones: how often signals are found, and how many people the theorems ask for."""

from __future__ import annotations

import math

import numpy as np
import pytest

from peerveil import Randomness
from peerveil.papers.rankings import printed as paper
from peerveil.papers.rankings.local_bits import bits_power
from peerveil.papers.rankings.two_sample import distance_critical, distance_tail
from peerveil.rankings import Mallows, people_needed, power_of
from peerveil.rankings.mallows import sample_rankings


def test_distances_have_exact_tails() -> None:
    assert distance_tail(3, 0) == pytest.approx(1 / 6, abs=1e-9)
    for m, level in ((30, 0.05), (12, 0.01), (40, 0.001)):
        critical = distance_critical(m, level)
        assert distance_tail(m, critical) <= level < distance_tail(m, critical + 1)
    assert distance_critical(2, 0.05) == -1


def test_the_theorems_ask_for_far_more_people_than_are_needed() -> None:
    m, spread, epsilon = 60, 0.9, 2.0
    asked = paper.theorems_as_printed(m, spread, 0.05, epsilon)
    central = people_needed("rank-norm", items=m, spread=spread, epsilon=epsilon, trials=10)
    local = people_needed("local", items=m, spread=spread, epsilon=epsilon, trials=100)
    assert central is not None
    assert local is not None
    assert asked["Theorem 4"] == math.inf  # promises nothing here
    assert asked["Theorem 5"] > 10 * central  # and that without privacy
    assert asked["Theorem 6"] > 10_000 * central
    assert asked["Theorem 7"] > 1000 * local


@pytest.mark.slow
@pytest.mark.parametrize(("m", "n", "spread"), [(100, 2000, 0.95), (100, 10_000, 0.98), (1000, 2000, 0.995)])
def test_the_vector_of_bits_finds_hardly_anything(m: int, n: int, spread: float) -> None:
    assert bits_power(n, m, spread, "1/3", trials=1000) < 0.12


@pytest.mark.slow
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
        ours = power_of("auto", rankings=k, items=m, spread=spread, epsilon="1/3", trials=trials, seed=2)
        rival: list[list[float]] = [[] for _ in range(1 + len(biases))]
        for _ in range(trials):
            rows = sample_rankings(Mallows(m, spread, source.permutation(m)), k, source)
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
