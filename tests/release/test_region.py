"""Regions: they contain every possible truth, and are as small as promised."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.release import oracle

from peerveil import BadInput
from peerveil.papers.release.simulate import simulate_conference
from peerveil.release import PublicScores, feasible_region
from peerveil.release.region import counting_bounds

REGIONS = ("range", "counting")


def check_containment(count: int, seed: int, shrink: float = 0.0) -> int:
    """How many possible truths lie outside some region, over random small conferences."""
    rng = np.random.default_rng(seed)
    outside = 0
    for _ in range(count):
        public = oracle.random_public(rng)
        truths = oracle.sorted_means(public)
        for bounds in REGIONS:
            region = feasible_region(public, bounds=bounds)
            if shrink:
                width = region.upper - region.lower
                object.__setattr__(region, "lower", region.lower + shrink * width)
            outside += sum(not region.contains(theta) for theta in truths)
    return outside


def test_every_possible_truth_is_inside() -> None:
    assert check_containment(150, seed=1) == 0


def test_a_region_that_is_too_small_is_noticed() -> None:
    assert check_containment(30, seed=1, shrink=0.05) > 0


@pytest.mark.slow
def test_every_possible_truth_is_inside_of_2500_conferences() -> None:
    assert check_containment(2500, seed=2) == 0


def test_each_argument_matters() -> None:
    """Dropping the fifth argument (forced holders) would lose axiom A3 for signed weights."""
    public = PublicScores([[0, 0], [0, 0], [0, 0], [-1, 1]], loads=[2, 2, 2, 2])
    lower, upper, _, _ = counting_bounds(public)
    assert lower[-1] == pytest.approx(0.5)
    assert upper[0] == pytest.approx(-0.5)


# ---- the axioms of the paper ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_axioms(seed: int) -> None:
    rng = np.random.default_rng(seed)
    noise = rng.laplace(size=6)
    same = PublicScores(np.full((6, 2), 3.5), loads=[2] * 6)
    assert feasible_region(same).project(noise) == pytest.approx(np.full(6, 3.5), abs=1e-6)  # A1
    weights = rng.random((3, 2))
    single = PublicScores(weights, loads=[1] * 6)
    assert feasible_region(single).project(noise) == pytest.approx(np.sort(weights.ravel()), abs=1e-6)  # A2
    first_case = np.zeros((6, 2))
    first_case[3] = rng.random(2)
    expected = np.sort([0, 0, 0, 0, *(first_case[3] / 2)])
    assert feasible_region(PublicScores(first_case, loads=[2] * 6)).project(noise) == pytest.approx(
        expected, abs=1e-6
    )  # A3


def test_axiom_a3_for_signed_weights() -> None:
    signed = np.zeros((6, 2))
    signed[0] = [-0.7, 0.4]
    region = feasible_region(PublicScores(signed, loads=[2] * 6))
    assert region.project(np.linspace(-3, 3, 6)) == pytest.approx([-0.35, 0, 0, 0, 0, 0.2], abs=1e-6)


def test_the_example_of_appendix_b() -> None:
    public = PublicScores([[0, 0, 0], [0, 0, 0], [0, 0, 0], [1, 2, 3]], loads=[3, 3, 3, 3])
    region = feasible_region(public)
    third = float(Fraction(1, 3))
    assert region.lower == pytest.approx([0, third, 2 * third, 1], abs=1e-9)
    assert region.upper == pytest.approx([0, third, 2 * third, 1], abs=1e-9)


# ---- sizes --------------------------------------------------------------------------------------------------------


def test_membership_looks_at_everything() -> None:
    public = simulate_conference(8, rng=np.random.default_rng(5)).public
    region = feasible_region(public, bounds="counting")
    assert region.total is not None
    inside = region.project(np.zeros(8))
    assert region.contains(inside)
    assert not region.contains(inside[::-1])
    assert not region.contains(inside + 0.05)
    assert not region.contains(np.full(8, region.total / 8 + 1e-3))


@pytest.mark.parametrize(
    ("papers", "loads", "message"),
    [
        ([], [1], "^papers: got"),
        ("abc", [1], "^papers: got"),
        ([[1.0], []], [1], r"^papers\[1\]: got no reviews"),
        ([[1.0, np.nan]], [1, 1], r"^papers\[0\]: got nan"),
        ([[1.0, np.inf]], [1, 1], r"^papers\[0\]: got inf"),
        ([["a"]], [1], "^papers: got"),
        ([[[1.0]]], [1], "^papers: got"),
        ([[1.0, 2.0]], [1, 0, 1], r"^loads\[1\]: got 0, need at least 1"),
        ([[1.0, 2.0]], [1.0, 1.0], "^loads: got"),
        ([[1.0, 2.0]], [], "^loads: got"),
        ([[1.0, 2.0]], [1, 1, 1], "^loads: got 3 reviews, need the papers' 2"),
        ([[1.0, 2.0]], [2], "^loads: got 2, need at most one review of each of the 1 papers"),
        ([[1.0, 2.0, 3.0], [1.0]], [2, 2], "^papers: got 3 reviews, need at most 2, one per reviewer"),
        ([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [1.0], [1.0]], [4, 2, 2], None),
        ([[1.0, 2.0], [1.0, 2.0], [1.0], [1.0], [1.0]], [4, 3], None),
        ([[1.0], [1.0], [1.0, 2.0, 3.0]], [2, 2, 1], None),
        ([[1.0], [1.0], [1.0], [1.0, 2.0, 3.0]], [3, 3], "^papers|^loads"),
    ],
)
def test_what_cannot_be_a_conference(papers: Any, loads: Any, message: str | None) -> None:
    if message is None:
        assert oracle.sorted_means(PublicScores(papers, loads)).size
    else:
        with pytest.raises(BadInput, match=message):
            PublicScores(papers, loads)


def test_loads_that_no_assignment_has() -> None:
    """Sums and single limits are right; but after one reviewer of all four papers, two papers are left for three."""
    with pytest.raises(BadInput, match="loads that no assignment has"):
        PublicScores([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [1.0], [1.0]], loads=[4, 3, 1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: r.project([1.0, 2.0]), "^noisy: got .*need 8 numbers"),
        (lambda r: r.project(["a"] * 8), "^noisy: got"),
        (lambda r: r.project([np.nan] * 8), "^noisy: got NaN"),
        (lambda r: r.contains([0.0]), "^theta: got"),
    ],
)
def test_bad_vectors(call: Any, message: str) -> None:
    region = feasible_region(simulate_conference(8, rng=np.random.default_rng(5)).public)
    with pytest.raises(BadInput, match=message):
        call(region)


def test_unknown_bounds() -> None:
    with pytest.raises(BadInput, match="^bounds: got 'magic', need one of counting, range"):
        feasible_region(PublicScores([[1.0]], loads=[1]), bounds="magic")
    with pytest.raises(BadInput, match="^bounds: got"):
        PublicScores([[1.0, 2.0]], loads=[1, 1], bounds=(0.0, 1.5))
