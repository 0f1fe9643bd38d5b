"""The delay distributions: closed forms, draws, densities, exact and sampled privacy, deliberately broken mechanisms."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from peerveil import BadInput, Randomness
from peerveil.timing import Exponential, FollowUp, Staircase, Uniform, ZeroInflatedUniform, exact_check
from peerveil.timing.base import DelayMechanism
from peerveil.timing.check import delay_claim, grid_check, shortened
from peerveil.timing.delays import best_eta
from peerveil.timing.distributions import Steps

MECHANISMS: list[DelayMechanism] = [
    ZeroInflatedUniform(epsilon="0.5", gap=660, window=300),
    ZeroInflatedUniform(epsilon=4, gap=600, weight=0.25, window=60),
    ZeroInflatedUniform(epsilon=3, gap=600, weight=0),
    Uniform(epsilon=1, gap=600),
    Exponential(epsilon=1, gap=600, window=60),
    Staircase(epsilon=1, gap=600, window=60),
    FollowUp(epsilon="0.5", gap=660, window=300),
    FollowUp(epsilon=1, gap=600),
    FollowUp(epsilon=3, gap=600, window=60, weight=0.3),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_closed_forms_agree_with_a_million_draws(mechanism: DelayMechanism) -> None:
    randomness = Randomness.simulation(4)
    flags = np.repeat([True, False], 500_000)
    drawn = mechanism.draw(flags, randomness)
    for part, mean, delay in (
        (drawn[flags], mechanism.mean_batched, mechanism.batched),
        (drawn[~flags], mechanism.mean_unbatched, mechanism.unbatched),
    ):
        error = float(part.std()) / math.sqrt(part.size)
        assert abs(float(part.mean()) - mean) < 6 * error
        if isinstance(delay, Steps):
            assert delay.mean == pytest.approx(mean, rel=1e-6)
        assert (part >= 0).all()
        assert float(part.max()) <= mechanism.max_delay
        # the distribution function, and no delay at all as often as it says
        at = np.quantile(part, [0.1, 0.5, 0.9])
        shares = np.array([np.mean(part <= x) for x in at])
        assert np.abs(delay.below(at) - shares).max() < 6 * 0.5 / math.sqrt(part.size)
        assert abs(float(np.mean(part == 0)) - delay.atom) < 6 * 0.5 / math.sqrt(part.size)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_densities_integrate_to_the_distribution(mechanism: DelayMechanism) -> None:
    for delay in (mechanism.batched, mechanism.unbatched):
        x = np.linspace(0, delay.horizon, 400_001)
        mass = float(delay.density((x[1:] + x[:-1]) / 2).sum() * (x[1] - x[0]))
        assert mass + delay.atom == pytest.approx(1, abs=2e-4)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_lemma_a1_holds_exactly_and_on_a_grid_and_a_short_delay_fails(mechanism: DelayMechanism) -> None:
    exact, grid = exact_check(mechanism), grid_check(mechanism)
    assert exact.passed
    assert grid.passed
    assert exact.total == pytest.approx(mechanism.epsilon, rel=1e-6)  # nothing is wasted
    assert grid.total == pytest.approx(mechanism.epsilon, rel=1e-6)
    for others_too in (False, True):
        broken = shortened(mechanism, 0.1, others_too=others_too)
        assert not grid_check(broken).passed
        assert not exact_check(broken).passed


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_a_sampled_audit_of_what_is_posted_passes_and_a_short_delay_fails(mechanism: DelayMechanism) -> None:
    assert delay_claim(mechanism).audit(8_000, randomness=Randomness.simulation(1)).passed
    for others_too in (False, True):
        broken = shortened(mechanism, 0.1, others_too=others_too)
        assert not delay_claim(broken).audit(20_000, randomness=Randomness.simulation(2)).passed


def test_secure_randomness_is_audited_too() -> None:
    audit = delay_claim(FollowUp(epsilon=1, gap=600, window=60)).audit(4_000)
    assert audit.passed
    assert not audit.guarantee.simulated


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 6.0])
@pytest.mark.parametrize("weight", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_the_best_eta_minimizes_the_corrected_mean_not_the_printed_one(epsilon: float, weight: float) -> None:
    q = math.exp(-epsilon / 2)
    eta = np.linspace(q * 1.0001, 1, 20_001)
    corrected = weight * (1 + eta / (eta - q)) + (1 - weight) * eta**2 / (eta - q)
    best = best_eta(epsilon / 2, weight)
    value = weight * (1 + best / (best - q)) + (1 - weight) * best**2 / (best - q)
    assert value <= corrected.min() * (1 + 1e-9)


def test_figures_of_the_issue() -> None:
    follow, full = FollowUp(epsilon="0.5", gap=11, window=5), ZeroInflatedUniform(epsilon="0.5", gap=11, window=5)
    assert follow.mean_batched == pytest.approx(19.48, abs=0.01)
    assert follow.mean_unbatched == pytest.approx(13.98, abs=0.01)
    assert full.hold + full.mean_batched == pytest.approx(49.2, abs=0.1)
    assert follow.batch_cost(5) == 2.0
    assert full.batch_cost(5) == 1.25


def test_units_and_guarantees() -> None:
    assert FollowUp(epsilon=1, gap=timedelta(minutes=11), window=timedelta(minutes=5)) == FollowUp(
        epsilon=1, gap=660, window=300
    )
    assert hash(Uniform(epsilon=1, gap=60)) == hash(Uniform(epsilon=1, gap=60.0))
    text = str(FollowUp(epsilon=1, gap=660, window=300).guarantee)
    assert "ordered" in text
    assert "which of the two came first is the same in both" in text
    assert "no third comment" in str(Uniform(epsilon=1, gap=60, window=5).guarantee)
    assert Uniform(epsilon=1, gap=60).eta == 1.0
    assert Exponential(epsilon=1, gap=60).max_delay == math.inf
    assert "hold" in str(Uniform(epsilon=1, gap=60, window=5))


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: FollowUp(epsilon=0, gap=60), "epsilon"),
        (lambda: FollowUp(epsilon=1, gap=0), "gap"),
        (lambda: FollowUp(epsilon=1, gap="5m"), "gap"),
        (lambda: FollowUp(epsilon=1, gap=float("nan")), "gap"),
        (lambda: FollowUp(epsilon=1, gap=60, window=60), "window"),
        (lambda: FollowUp(epsilon=1, gap=60, window=-1), "window"),
        (lambda: ZeroInflatedUniform(epsilon=1, gap=60, weight=1.5), "weight"),
        (lambda: ZeroInflatedUniform(epsilon=1, gap=60, eta=0.5), "eta"),
        (lambda: ZeroInflatedUniform(epsilon="1e-9", gap=86_400), "epsilon"),
        (lambda: Exponential(epsilon="1e-9", gap=86_400), "epsilon"),
        (lambda: ZeroInflatedUniform(epsilon=2000, gap=60, weight=0.3), "epsilon"),
        (lambda: Staircase(epsilon="1e-9", gap=86_400), "epsilon"),
        (lambda: Uniform(epsilon=1, gap=60).draw(np.array([1, 0])), "batched"),
        (
            lambda: Uniform(epsilon=1, gap=60).draw(True, 3),  # type: ignore[arg-type]
            "randomness",
        ),
        (lambda: Uniform(epsilon=1, gap=60).batch_cost(1), "size"),
    ],
)
def test_bad_parameters_are_named(make: Any, argument: str) -> None:
    with pytest.raises(BadInput) as error:
        make()
    assert error.value.argument == argument


def test_what_came_is_what_the_message_shows_and_large_epsilons_work() -> None:
    with pytest.raises(BadInput, match="got 1e-09"):
        ZeroInflatedUniform(epsilon="1e-9", gap=86_400)
    for kind in (FollowUp, ZeroInflatedUniform, Uniform, Exponential, Staircase):
        assert exact_check(kind(epsilon=100, gap=60)).passed
        assert kind(epsilon=100, gap=60).mean_batched == pytest.approx(60, rel=0.03)


def test_replacing_gap_and_window_keeps_the_rest() -> None:
    for mechanism in MECHANISMS:
        again = mechanism.replace(gap=1200, window=30)
        assert again.gap == 1200
        assert again.window == 30
        assert again.epsilon == mechanism.epsilon
        assert exact_check(again).passed
