"""The average case: quadrature against simulation and against each other; the price threshold is optimal."""

from __future__ import annotations

import numpy as np
import pytest

from peerveil.calibration import (
    Affine,
    AverageCase,
    Monotone,
    Pair,
    Uncertain,
    pair_frontiers,
    simulate_average,
    simulate_pairs,
)
from peerveil.errors import BadInput
from peerveil.randomness import Randomness

PEOPLE = [Affine(1.0, 0.5), Affine(0.7, -0.5)]


@pytest.mark.parametrize("noise", [0.0, 0.4])
def test_the_ends_agree_with_sampling(noise: float) -> None:
    start, end = AverageCase(PEOPLE, noise).ends
    rng = np.random.default_rng(1)
    count = 400_000
    own = np.where(rng.random((count, 1)) < 0.5, [0, 1], [1, 0])
    scales, biases = np.array([1.0, 0.7]), np.array([0.5, -0.5])
    scores = scales[own] * rng.normal(size=(count, 2)) + biases[own] + noise * rng.normal(size=(count, 2))
    found = pair_frontiers(scores, scales, biases, noise)
    for promised, sampled in ((start, found.start), (end, found.end)):
        for column in (0, 1):
            error = sampled[:, column].std() / np.sqrt(count)
            assert abs(sampled[:, column].mean() - promised[column]) < 5 * error + 1e-12


def test_without_noise_algorithm_2() -> None:
    case = AverageCase(PEOPLE, 0.0)
    start, end = case.ends
    assert start[0] == 0.0
    assert end[0] == pytest.approx(case.zeta)
    assert end[1] - start[1] == pytest.approx(case.zeta, abs=1e-9)
    made = case.strategy(conference_error=case.zeta / 4)
    assert made.share == pytest.approx(0.25)
    assert made.adversary_error == pytest.approx(start[1] + case.zeta / 4)
    assert case.strategy(conference_error=0.9).conference_error == pytest.approx(case.zeta)
    assert case.frontier().points == (start, end)
    pair = made.pair((0.3, 0.2))
    assert pair.adversary_error == pytest.approx(0.25 * min(pair.posterior))


def test_zeta_does_not_depend_on_how_a_function_is_given() -> None:
    straight = AverageCase([Affine(1.5, 0.3), Affine(0.6, -0.2)], 0.0)
    curve = Monotone(lambda x: 1.5 * x + 0.3, lambda s: (s - 0.3) / 1.5, slope=lambda x: 1.5 + 0 * x)
    general = AverageCase([curve, Affine(0.6, -0.2)], 0.0)
    assert np.allclose(straight.ends, general.ends, atol=1e-8, rtol=0)
    noisy = AverageCase([curve, Affine(0.6, -0.2)], 0.3)
    affine = AverageCase([Affine(1.5, 0.3), Affine(0.6, -0.2)], 0.3)
    assert np.allclose(affine.ends, noisy.ends, atol=1e-8, rtol=0)
    for price in (0.4,):
        bought = [np.hstack(case._moments(np.array([price]))) for case in (affine, noisy)]
        assert np.allclose(bought[0], bought[1], atol=1e-8, rtol=0)


def test_curved_functions_on_average() -> None:
    """Against sampled pairs, each with the frontier of its own; a price is found that gives what was asked."""
    people: list[Affine | Monotone] = [Monotone(points=[(-2, -1.5), (0, 0.4), (2, 1.5)]), Affine(0.7, -0.3)]
    case = AverageCase(people, 0.4)
    rng = np.random.default_rng(1)
    sampled = []
    for _ in range(250):
        order = (0, 1) if rng.random() < 0.5 else (1, 0)
        scores = [float(people[j].score(rng.normal())) + 0.4 * rng.normal() for j in order]
        frontier = Pair(scores, people, 0.4).frontier()
        sampled.append([*frontier.start, *frontier.end])
    found = np.array(sampled)
    error = found.std(axis=0) / np.sqrt(len(found))
    assert (np.abs(found.mean(axis=0) - np.ravel(case.ends)) < 5 * error).all()
    with pytest.raises(BadInput, match="at least"):
        _ = AverageCase(people, 1e-4).ends


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.4])
def test_simulation_meets_the_average_promise_of_curved_functions(noise: float) -> None:
    people: list[Affine | Monotone] = [Monotone(points=[(-2, -1.5), (0, 0.4), (2, 1.5)]), Affine(0.7, -0.3)]
    case = AverageCase(people, noise)
    start, end = case.ends
    asked = (start[1] + end[1]) / 2
    made = case.strategy(adversary_error=asked)
    assert asked - 1e-9 <= made.adversary_error < asked + 1e-5
    found = simulate_average(made, draws=2_500, seed=5)
    assert abs(found.conference.distance) < 5
    assert abs(found.adversary.distance) < 5


def test_other_priors_are_played_too() -> None:
    """Scores of 1 to 10 with qualities N(5, 2): the same case as standardised functions, and simulated as such."""
    people = [Affine(1.0, 0.5), Affine(0.7, 1.0)]
    case = AverageCase(people, 0.8, prior=(5.0, 2.0))
    plain = AverageCase([Affine(2.0, 5.5), Affine(1.4, 4.5)], 0.8)
    assert np.allclose(case.ends, plain.ends, atol=1e-12)
    found = simulate_average(case.strategy(adversary_error=case.ends[1][1]), draws=50_000, seed=1)
    assert abs(found.conference.distance) < 5
    assert abs(found.adversary.distance) < 5


def test_a_price_threshold_beats_an_even_share() -> None:
    case = AverageCase(PEOPLE, 0.4)
    start, end = case.ends
    middle = (start[1] + end[1]) / 2
    made = case.strategy(adversary_error=middle)
    assert made.adversary_error == pytest.approx(middle, abs=1e-7)
    assert made.conference_error < (start[0] + end[0]) / 2 - 0.005  # what half of every pair's protection costs
    back = case.strategy(conference_error=made.conference_error)
    assert back.adversary_error == pytest.approx(middle, abs=1e-6)
    frontier = case.frontier(points=9)
    assert frontier.adversary_error(made.conference_error) == pytest.approx(middle, abs=5e-3)


@pytest.mark.parametrize("noise", [0.0, 0.4])
def test_simulation_meets_the_average_promise(noise: float) -> None:
    case = AverageCase(PEOPLE, noise)
    start, end = case.ends
    made = case.strategy(adversary_error=(start[1] + end[1]) / 2)
    found = simulate_average(made, draws=200_000, seed=2)
    assert abs(found.conference.distance) < 5
    assert abs(found.adversary.distance) < 5


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.05, 0.4, 1.0])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_simulation_meets_the_promise_of_every_pair_strategy(noise: float, share: float) -> None:
    found = simulate_pairs(PEOPLE, noise, share, draws=1_000_000, seed=3)
    assert abs(found.conference.distance) < 5
    assert abs(found.adversary.distance) < 5
    case = AverageCase(PEOPLE, noise)
    start, end = case.ends
    made = case.strategy(adversary_error=start[1] + share * (end[1] - start[1]))
    average = simulate_average(made, draws=1_000_000, seed=4)
    assert abs(average.conference.distance) < 5
    assert abs(average.adversary.distance) < 5


def test_decisions_and_refusals() -> None:
    case = AverageCase(PEOPLE, 0.4)
    made = case.strategy(adversary_error=0.15)
    drawn = made.decide((0.3, 0.2), (1, 0), Randomness.simulation(1))
    assert drawn.simulated
    assert "on average" in str(drawn.guarantee)
    with pytest.raises(BadInput, match="from 0.1"):
        case.strategy(conference_error=0.01)
    with pytest.raises(BadInput, match="adversary_error"):
        case.strategy(adversary_error=0.5)
    with pytest.raises(BadInput, match="pair by pair"):
        AverageCase([Uncertain((Affine(1.0),)), Affine(1.0)])
    same = AverageCase([Affine(1.0), Affine(1.0)], 0.3)  # nothing to learn, nothing to trade
    assert same.frontier().points[0][1] == pytest.approx(0.5)
