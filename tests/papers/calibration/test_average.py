"""Algorithm 2, the average case: quadrature against simulation; the price threshold is optimal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from peerveil.calibration import Affine, Monotone, Uncertain
from peerveil.calibration.pair import pair_frontiers
from peerveil.core.errors import BadInput
from peerveil.core.randomness import Randomness
from peerveil.papers.calibration.average import AverageCase, simulate_average

PEOPLE = [Affine(1.0, 0.5), Affine(0.7, -0.5)]


@pytest.mark.parametrize("noise", [0.0, 0.4])
def test_the_ends_agree_with_sampling(noise: float) -> None:
    start, end = AverageCase(PEOPLE, noise).ends
    rng = np.random.default_rng(1)
    count = 400_000
    own = np.where(rng.random((count, 1)) < 0.5, [0, 1], [1, 0])
    scales, biases = np.array([1.0, 0.7]), np.array([0.5, -0.5])
    scores = scales[own] * rng.normal(size=(count, 2)) + biases[own] + noise * rng.normal(size=(count, 2))
    found = pair_frontiers(scores, scales=scales, biases=biases, noise=noise)
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
    with pytest.raises(BadInput, match="two Affine functions, or noise=0"):
        AverageCase([curve, Affine(0.6, -0.2)], 0.3)


def test_other_priors_are_played_too() -> None:
    """Scores of 1 to 10 with qualities N(5, 2): the same case as standardized functions, and simulated as such."""
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
def test_simulation_meets_the_average_promise_and_finds_a_deliberate_fault(noise: float) -> None:
    case = AverageCase(PEOPLE, noise)
    start, end = case.ends
    made = case.strategy(adversary_error=(start[1] + end[1]) / 2)
    found = simulate_average(made, draws=200_000, seed=2)
    assert abs(found.conference.distance) < 5
    assert abs(found.adversary.distance) < 5
    less = replace(made, price=0.9 * made.price, share=0.9 * made.share)  # buys less than it should
    assert simulate_average(less, draws=200_000, seed=2).adversary.distance < -5


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.05, 0.4, 1.0])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_simulation_meets_every_average_promise(noise: float, share: float) -> None:
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
