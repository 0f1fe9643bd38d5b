"""The community's map: optimal, canonical, monotone, and refused when the solver has not earned trust."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.optimize
from numpy.typing import NDArray

from peerveil.core.errors import BadInput
from peerveil.release import monotone
from peerveil.release.monotone import MonotoneMap, cuts, hasse_diagram, monotone_l1_map
from peerveil.release.projection import NotOptimal

DATA = Path(__file__).parent / "data" / "iclr2026_review_scores.csv.gz"


def risk_of(community: MonotoneMap, scores: Any) -> float:
    """The sum of absolute deviations, the same for every order of the rows."""
    return float(np.sort(np.abs(np.asarray(scores) - community.lower[community.index])).sum())


def brute_force(result: MonotoneMap, criteria: NDArray[Any], scores: NDArray[Any]) -> tuple[float, Any, Any]:
    """The least risk over all monotone maps to scores that occur, and the smallest and largest map that reach it."""
    points = result.points
    below = [(p, q) for p, q in product(range(len(points)), repeat=2) if p != q and (points[p] <= points[q]).all()]
    index = [int(np.flatnonzero((points == row).all(axis=1))[0]) for row in criteria]
    best = np.inf
    optimal: list[Any] = []
    for values in product(np.unique(scores), repeat=len(points)):
        if all(values[p] <= values[q] for p, q in below):
            risk = sum(abs(s - values[i]) for s, i in zip(scores, index, strict=True))
            if risk < best - 1e-9:
                best, optimal = risk, []
            if risk < best + 1e-9:
                optimal.append(values)
    return best, np.min(optimal, axis=0), np.max(optimal, axis=0)


@pytest.mark.parametrize("seed", range(60))
def test_against_all_monotone_maps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    criteria = rng.integers(0, 3, (int(rng.integers(1, 12)), int(rng.integers(1, 4))))
    criteria = criteria[np.isin(np.unique(criteria, axis=0, return_inverse=True)[1].ravel(), range(5))]
    scores = rng.choice([-2.5, 0, 1, 4], len(criteria))
    result = monotone_l1_map(criteria, scores)
    risk, smallest, largest = brute_force(result, criteria, scores)
    assert risk_of(result, scores) == pytest.approx(risk)
    assert result.lower.tolist() == smallest.tolist()
    assert result.upper.tolist() == largest.tolist()


def direct_program(criteria: NDArray[Any], scores: NDArray[Any]) -> float:
    """The textbook linear program, with all comparable pairs and a deviation a review; nothing shared with ours."""
    points, index = np.unique(criteria, axis=0, return_inverse=True)
    n, m = len(points), len(scores)
    rows: list[NDArray[Any]] = []
    right: list[float] = []
    for p, q in product(range(n), repeat=2):
        if p != q and (points[p] <= points[q]).all():
            rows.append(np.eye(n + m)[p] - np.eye(n + m)[q])
            right.append(0)
    for r, (i, s) in enumerate(zip(index.ravel(), scores, strict=True)):
        for sign in (1, -1):
            rows.append(sign * np.eye(n + m)[i] - np.eye(n + m)[n + r])
            right.append(sign * s)
    cost = np.r_[np.zeros(n), np.ones(m)]
    solved = scipy.optimize.linprog(cost, A_ub=np.array(rows), b_ub=right, bounds=(None, None), method="highs")
    assert solved.status == 0
    return float(solved.fun)


@pytest.mark.parametrize("seed", range(10))
def test_against_the_textbook_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    criteria = rng.integers(0, 4, (80, 3))
    scores = criteria.sum(axis=1) + rng.normal(0, 2, 80)  # almost all different
    result = monotone_l1_map(criteria, scores)
    assert risk_of(result, scores) == pytest.approx(direct_program(criteria, scores))
    for values in (result.lower, result.values, result.upper):
        assert (result.points[result.index] == criteria).all()
        assert np.abs(scores - values[result.index]).sum() == pytest.approx(risk_of(result, scores))
        below, above = hasse_diagram(result.points)
        assert (values[below] <= values[above]).all()


def test_the_map_is_a_function_of_the_reviews_not_of_their_order() -> None:
    rng = np.random.default_rng(5)
    criteria = rng.integers(1, 5, (400, 3))
    scores = rng.choice([0.1, 0.2, 0.7, 1.3], 400)  # many ties, and sums that round
    first = monotone_l1_map(criteria, scores)
    assert (first.lower != first.upper).any()
    for _ in range(20):
        order = rng.permutation(400)
        again = monotone_l1_map(criteria[order], scores[order])
        assert again.points.tobytes() == first.points.tobytes()
        assert again.values.tobytes() == first.values.tobytes()
        assert risk_of(again, scores[order]) == risk_of(first, scores)


def test_signed_zeros_do_not_depend_on_the_order_either() -> None:
    a = monotone_l1_map([[0.0], [-0.0]], [0.0, -0.0])
    b = monotone_l1_map([[-0.0], [0.0]], [-0.0, 0.0])
    assert (a.points.tobytes(), a.values.tobytes()) == (b.points.tobytes(), b.values.tobytes())
    assert len(a.points) == 1


def test_hasse_diagram_is_the_transitive_reduction() -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        points = np.unique(rng.integers(0, 4, (30, 3)), axis=0).astype(float)
        order = (points[:, None] <= points[None]).all(axis=2) & ~np.eye(len(points), dtype=bool)
        reduction = order & ~((order.astype(int) @ order.astype(int)) > 0)
        below, above = hasse_diagram(points)
        edges = np.zeros_like(order)
        edges[below, above] = True
        assert below.size == edges.sum()  # none twice
        assert (edges == reduction).all()


def test_one_review_constant_criteria_and_contradicting_reviews() -> None:
    single = monotone_l1_map([[3, 1]], [7])
    assert (single.lower.tolist(), single.upper.tolist()) == ([7], [7])
    constant = monotone_l1_map([[2], [2], [2], [2]], [1, 3, 9, 10])  # every number from 3 to 9 is a median
    assert (constant.lower.tolist(), constant.upper.tolist(), constant.values.tolist()) == ([3], [9], [6])
    assert risk_of(constant, [1, 3, 9, 10]) == 15
    against = monotone_l1_map([[1], [2], [3]], [9, 5, 1])  # the better the criteria, the worse the score
    assert against.values.tolist() == [5, 5, 5]


def test_real_reviews() -> None:
    frame = pl.read_csv(DATA)
    names = ["soundness", "presentation", "contribution"]
    result = monotone_l1_map(frame.select(names).to_numpy(), frame["rating"].to_numpy())
    assert (len(result.fitted), len(result.points)) == (76_816, 64)
    assert (result.lower == result.upper).all()
    assert risk_of(result, frame["rating"]) == np.abs(frame["rating"].to_numpy() - result.fitted).sum() == 61_374
    same = (result.points == result.points[:, :1]).all(axis=1)
    assert result.values[same].tolist() == [0, 4, 6, 8]


def test_a_solver_that_stops_early_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*args: Any, **options: Any) -> Any:
        result = original(*args, **options)
        result.status, result.message = 4, "almost solved"
        return result

    original = scipy.optimize.linprog
    monkeypatch.setattr(scipy.optimize, "linprog", stopped)
    with pytest.raises(NotOptimal, match="almost solved"):
        monotone_l1_map([[1], [2]], [5, 1])


@pytest.mark.parametrize("fault", ["nothing", "half", "double"])
def test_a_solver_that_lies_is_refused(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """Multipliers that belong to no optimal solution, with the status of an optimal one."""

    def lying(*args: Any, **options: Any) -> Any:
        true = original(*args, **options).ineqlin.marginals
        factor = {"nothing": 0, "half": 0.5, "double": 2}[fault]
        return SimpleNamespace(status=0, message="optimal", ineqlin=SimpleNamespace(marginals=factor * true))

    original = scipy.optimize.linprog
    monkeypatch.setattr(scipy.optimize, "linprog", lying)
    with pytest.raises(NotOptimal, match="do not prove"):
        monotone_l1_map(np.repeat([[1], [2]], 4, axis=0), [5, 5, 5, 5, 1, 1, 1, 3])


def test_smallest_and_largest_set_of_least_cost() -> None:
    below, above = np.array([0, 1]), np.array([1, 2])
    smallest, largest = cuts(np.array([1, 0, -1]), below, above)  # {2}, {1, 2} and {0, 1, 2} less one: tied
    assert smallest.tolist() == [False, False, True]
    assert largest.tolist() == [False, True, True]


def test_a_diagram_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monotone, "MOST_EDGES", 10)
    with pytest.raises(BadInput, match="coarser"):
        monotone_l1_map(list(product(range(3), repeat=2)), range(9))


@pytest.mark.slow
def test_ten_thousand_criteria_vectors() -> None:
    rng = np.random.default_rng(3)
    criteria = rng.integers(0, 10, (50_000, 4))
    scores = np.clip(np.rint(criteria.mean(axis=1) + 1 + rng.normal(0, 2, 50_000)), 1, 10)
    result = monotone_l1_map(criteria, scores)
    assert len(result.points) > 9_900
    below, above = hasse_diagram(result.points)
    for values in (result.lower, result.upper):
        assert (values[below] <= values[above]).all()
    assert np.abs(scores - result.fitted).sum() == risk_of(result, scores)
