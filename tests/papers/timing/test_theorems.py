"""Theorems 4.6 and 4.8: the uneven split against a linear program, impossibility, and streams like the paper's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from peerveil import BadInput, Randomness
from peerveil.papers.timing.frontier import frontier
from peerveil.papers.timing.linear_program import best_pair
from peerveil.papers.timing.streams import bitcoin_like, wikipedia_like
from peerveil.papers.timing.two_sided import TruncatedLaplace, convict, late, late_as_printed
from peerveil.papers.timing.uneven import UnevenSplit, narrowest
from peerveil.timing import (
    Exponential,
    FollowUp,
    Staircase,
    ZeroInflatedUniform,
    exact_check,
    linkage_attack,
    optimal_attack,
)
from peerveil.timing.base import DelayMechanism
from peerveil.timing.check import delay_claim, grid_check, shortened

SPLITS: list[DelayMechanism] = [UnevenSplit(epsilon=4, gap=600), UnevenSplit(epsilon=3, gap=600, weight=0.6, window=60)]


@pytest.mark.parametrize("mechanism", SPLITS, ids=repr)
def test_an_uneven_split_keeps_its_guarantee_and_a_short_delay_fails(mechanism: DelayMechanism) -> None:
    exact, grid = exact_check(mechanism), grid_check(mechanism)
    assert exact.passed
    assert grid.passed
    assert exact.total == pytest.approx(mechanism.epsilon, rel=1e-6)  # nothing is wasted
    assert delay_claim(mechanism).audit(8_000, randomness=Randomness.simulation(1)).passed
    for others_too in (False, True):
        broken = shortened(mechanism, 0.1, others_too=others_too)
        assert not exact_check(broken).passed
        assert not grid_check(broken).passed
    drawn = mechanism.draw(np.repeat([True, False], 100_000), Randomness.simulation(4)).reshape(2, -1)
    for part, mean in zip(drawn, (mechanism.mean_batched, mechanism.mean_unbatched), strict=True):
        assert abs(float(part.mean()) - mean) < 6 * float(part.std()) / math.sqrt(part.size)
    for size in (2, 5, 9):  # Lemma A.1: the first comment is not moved, every other is
        assert mechanism.batch_cost(size) == pytest.approx(grid.still + (size - 1) * grid.shifted, rel=1e-6)
    again = mechanism.replace(gap=1200, window=30)
    assert (again.gap, again.window, again.epsilon) == (1200, 30, mechanism.epsilon)
    assert exact_check(again).passed


def test_the_best_attack_on_an_uneven_split_stays_under_proposition_5_1() -> None:
    for separation in (600.0, (0.0, 1200.0)):
        attack = optimal_attack(UnevenSplit(epsilon=2, gap=600), separation, cells=60)
        assert (attack.power <= attack.bound(attack.type_one) + 1e-6).all()


def test_an_uneven_split_has_short_delays_and_costs_long_sittings_more() -> None:
    even, uneven = ZeroInflatedUniform(epsilon=4, gap=600), UnevenSplit(epsilon=4, gap=600)
    assert UnevenSplit(epsilon=4, gap=1).mean_batched == pytest.approx(1.037, abs=1e-3)
    assert UnevenSplit(epsilon=3, gap=1).mean_batched == pytest.approx(1.10, abs=1e-3)
    assert (uneven.rho, uneven.width) == pytest.approx((2, 4 * math.exp(-4)), rel=1e-6)
    assert even.batch_cost(2) == uneven.batch_cost(2) == 4
    assert uneven.batch_cost(5) > 1.3 * even.batch_cost(5)


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: UnevenSplit(epsilon=2000, gap=60), "epsilon"),
        (lambda: UnevenSplit(epsilon=4, gap=60, rho=1.0), "rho"),
        (lambda: UnevenSplit(epsilon=4, gap=60, rho=2.0, width=0.01), "width"),
        (lambda: UnevenSplit(epsilon=4, gap=60).batch_cost(1), "size"),
        (lambda: frontier(1, family="best"), "family"),
        (lambda: convict(lambda x: 0.0 * x, 1, 0.1), "below"),
    ],
)
def test_bad_parameters_are_named(make: Any, argument: str) -> None:
    with pytest.raises(BadInput) as error:
        make()
    assert error.value.argument == argument


@pytest.mark.parametrize("epsilon", [1.0, 3.0, 4.0])
@pytest.mark.parametrize("weight", [0.0, 0.3, 0.7, 1.0])
def test_the_frontiers_against_a_linear_program(epsilon: float, weight: float) -> None:
    """Within (epsilon/2, g)-indistinguishable pairs the paper's is best; over all splits the uneven one is."""
    root = math.exp(epsilon / 2)
    paper = ZeroInflatedUniform(epsilon=epsilon, gap=1, weight=weight)
    closed = weight * paper.mean_batched + (1 - weight) * paper.mean_unbatched
    program = best_pair(root, root, weight, cells=24, horizon=max(3.0, 1.15 * paper.max_delay))
    assert closed - 1e-9 <= program.value <= closed + 0.002
    ours = UnevenSplit(epsilon=epsilon, gap=1, weight=weight)
    mixed = weight * ours.mean_batched + (1 - weight) * ours.mean_unbatched
    values = [
        best_pair(rho, math.exp(epsilon) / rho, weight, cells=24,
                  horizon=max(3.0, 1.2 * ours.max_delay, 1 + 1.2 * narrowest(epsilon, rho))).value
        for rho in {root, min(2.0, root), ours.rho, (ours.rho + root) / 2}
    ]  # fmt: skip
    assert mixed - 1e-6 <= min(values) <= mixed + 0.005  # nothing better was found
    assert mixed <= closed + 1e-6
    if epsilon > 2 * math.log(2) and weight == 1:
        assert mixed < closed - 0.03  # Theorem 4.6 is false there
        assert min(values) < closed - 0.03


def test_the_frontier_is_one_point_up_to_two_ln_two() -> None:
    small, large = frontier(1.38), frontier(1.5)
    assert np.ptp(small.mean_batched) < 1e-9 < np.ptp(large.mean_batched)
    assert frontier(4, family="uneven").mean_batched.min() < frontier(4).mean_batched.min() - 0.04


# ---- why one side only -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [1, 2])
@pytest.mark.parametrize("delta", [0.0, 0.5, 0.999])
def test_parts_one_and_two_convict_every_mechanism(part: int, delta: float) -> None:
    for mechanism in (FollowUp(epsilon=1, gap=1), Exponential(epsilon=1, gap=1), Staircase(epsilon="0.1", gap=1)):
        found = convict(lambda x, m=mechanism: float(m.batched.below(x)), part, delta)  # type: ignore[misc]
        assert found.here > delta
        assert found.there == 0


def test_part_three_as_printed_is_refuted_and_as_corrected_holds() -> None:
    example = TruncatedLaplace(1.0, 1e-3)
    assert max(example.spill()) <= 1e-3 * 1.01  # it is two-sided (1, 0.001)-private
    late_by = np.array([14.0, 20.0, 100.0])
    assert (example.late(late_by) == 0).all()  # no delay exceeds 13.5 gaps
    assert (late_as_printed(late_by, 1e-3) > 0.7).all()  # yet the paper says that most do
    steps = np.arange(0.5, 14, 0.5)
    assert (example.late(steps) >= late(steps, 1.0, 1e-3) - 1e-9).all()


# ---- streams like the paper's -----------------------------------------------------------------------------------------


def test_invented_streams() -> None:
    """Their rates are checked against the paper's in tests/papers/reproduce/test_timing.py."""
    transfers = bitcoin_like(5000)
    attack = linkage_attack(transfers, thresholds=[60], window=60, within="actor")
    assert (attack.precision[0], attack.recall[0]) == (1.0, 1.0)
    with pytest.raises(BadInput):
        wikipedia_like(2)
