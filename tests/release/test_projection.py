"""Projection: exact, against an independent solver, and never farther from a feasible truth."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from tests.release import oracle

from peerveil.papers.release.simulate import simulate_conference
from peerveil.release import PublicScores, feasible_region
from peerveil.release import projection as module
from peerveil.release.projection import NotOptimal, box_sorted, isotonic
from peerveil.release.region import FeasibleRegion

Floats = NDArray[np.float64]


def by_solver(region: FeasibleRegion, r: Floats) -> Floats:
    """The same projection by a general solver (slow, small cases only)."""
    n = r.size
    rules = [{"type": "ineq", "fun": lambda t: np.diff(t)}]
    if region.lowest_sums is not None:
        low = region.lowest_sums
        rules.append(
            {"type": "ineq", "fun": lambda t: (np.cumsum(t) - low)[: n - 1] if region.total else np.cumsum(t) - low}
        )
    if region.highest_sums is not None:
        high = region.highest_sums
        rules.append({"type": "ineq", "fun": lambda t: high - np.cumsum(t[::-1])})
    if region.total is not None:
        rules.append({"type": "eq", "fun": lambda t: np.atleast_1d(t.sum() - region.total)})
    result = minimize(
        lambda t: 0.5 * np.sum((t - r) ** 2),
        np.clip(np.sort(r), region.lower, region.upper),
        jac=lambda t: t - r,
        bounds=list(zip(region.lower, region.upper, strict=True)),
        constraints=rules,
        method="SLSQP",
        options={"maxiter": 2000, "ftol": 1e-15},
    )
    return np.asarray(result.x)


@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("bounds", ["range", "counting"])
def test_against_a_general_solver(equal: bool, bounds: str) -> None:
    rng = np.random.default_rng(11)
    compared = 0
    while compared < 25:
        public = oracle.random_public(rng)
        if (public.total is not None) is not equal or public.reviewers < 2 or np.ptp(public.values) == 0:
            continue
        region = feasible_region(public, bounds=bounds)
        spread = float(np.ptp(public.values))
        r = rng.normal(public.values.mean(), spread, public.reviewers)
        ours, theirs = region.project(r), by_solver(region, r)
        assert region.contains(ours)
        # ours may be better than the solver's, never worse
        assert np.sum((ours - r) ** 2) <= np.sum((theirs - r) ** 2) + 1e-6 * spread**2
        if region.contains(theirs):
            assert ours == pytest.approx(theirs, abs=3e-3 * spread)
        compared += 1


def test_isotonic_and_boxes() -> None:
    assert isotonic(np.array([3.0, 1.0, 2.0, 5.0])).tolist() == [2, 2, 2, 5]
    values, upper = np.array([1.0, 0.0, 5.0]), np.array([0.2, 10.0, 10.0])
    right = box_sorted(values, np.full(3, -10.0), upper)
    assert right.tolist() == [0.2, 0.2, 5.0]
    clipped = np.clip(isotonic(values), -10, upper)  # the shortcut that is wrong
    assert clipped.tolist() != right.tolist()
    assert np.sum((right - values) ** 2) < np.sum((clipped - values) ** 2)


def test_it_never_hurts() -> None:
    """Proposition 4.2, pointwise: for every feasible truth and every noise."""
    rng = np.random.default_rng(8)
    for _ in range(60):
        public = oracle.random_public(rng)
        truths = oracle.sorted_means(public)
        theta = truths[int(rng.integers(len(truths)))]
        r = theta + rng.laplace(scale=rng.choice([0.01, 0.3, 3.0]), size=theta.size)
        for bounds in ("range", "counting"):
            t = feasible_region(public, bounds=bounds).project(r)
            assert np.sum((t - theta) ** 2) <= np.sum((r - theta) ** 2) * (1 + 1e-6) + 1e-9


def test_a_projection_that_cannot_be_proved_is_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_STEPS", 1)
    rng = np.random.default_rng(0)
    conference = simulate_conference(30, pattern="by-paper", rng=rng)
    region = feasible_region(conference.public)
    noisy = conference.true_means + rng.laplace(size=30)
    with pytest.raises(NotOptimal, match="no optimal projection within 1 steps"):
        region.project(noisy)


@pytest.mark.parametrize("scale", [1.0, 0.03])
def test_many_reviewers_with_active_boxes(scale: float) -> None:
    rng = np.random.default_rng(2)
    conference = simulate_conference(3000, pattern="by-paper", rng=rng)
    region = feasible_region(conference.public)
    r = conference.true_means + rng.laplace(scale=scale, size=3000)
    t = region.project(r)
    assert region.contains(t)
    assert np.sum((t - conference.true_means) ** 2) < np.sum((r - conference.true_means) ** 2)
    # optimality, from outside: no feasible point is on the far side of the hyperplane through t toward r
    for other in (conference.true_means, region.project(np.zeros(3000)), region.project(rng.normal(size=3000))):
        assert float(np.dot(r - t, other - t)) <= 1e-4


def test_one_reviewer_and_constant_weights() -> None:
    single = feasible_region(PublicScores([[2.0], [4.0]], loads=[2]))
    assert single.project([99.0]) == pytest.approx([3.0], abs=1e-6)
    same = feasible_region(PublicScores([[5.0, 5.0], [5.0]], loads=[2, 1]))
    assert same.project([0.0, 9.0]) == pytest.approx([5.0, 5.0], abs=1e-6)
