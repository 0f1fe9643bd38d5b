"""The weights of reviews: the community's map on real reviews, and how it grows with distinct criteria vectors."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from benchmarks.timing import Row, best_of
from peerveil.data import Reviews
from peerveil.release.monotone import monotone_l1_map
from peerveil.release.weights import WEIGHTS, review_weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

DATA = Path(__file__).parents[1] / "tests" / "release" / "data" / "iclr2026_review_scores.csv.gz"
NAMES = ["soundness", "presentation", "contribution"]


def bench() -> list[Row]:
    return [*weights(), *growth()]


def weights() -> list[Row]:
    reviews = Reviews.read(DATA, columns={"score": "rating"})
    rows = [
        Row.of(
            f"weight {weight}", best_of(3, partial(review_weights, reviews, weight=weight))[0], np.nan, "76,816 reviews"
        )
        for weight in WEIGHTS
    ]
    frame = pl.read_csv(DATA)
    criteria, scores = frame.select(NAMES).to_numpy(), frame["rating"].to_numpy()
    ours, peer = best_of(3, partial(monotone_l1_map, criteria, scores), partial(textbook, criteria, scores))
    note = "76,816 reviews, 64 points; peer: one program with a deviation a (point, score), all comparable pairs"
    return [*rows, Row.of("community's map", ours, peer, note)]


def growth() -> list[Row]:
    rng = np.random.default_rng(0)
    rows = []
    for levels, criteria in ((4, 3), (10, 3), (7, 4), (10, 4)):
        given = rng.integers(0, levels, (50_000, criteria))
        scores = np.clip(np.rint(given.mean(axis=1) / (levels - 1) * 9 + 1 + rng.normal(0, 2, 50_000)), 1, 10)
        points = len(np.unique(given, axis=0))
        peer = best_of(1, partial(textbook, given, scores))[0] if points <= 1000 else np.nan
        note = f"50,000 reviews, {criteria} criteria of {levels} levels"
        ours = best_of(1, partial(monotone_l1_map, given, scores))[0]
        rows.append(Row.of(f"community's map, {points:,} points", ours, peer, note))
    return rows


def textbook(criteria: NDArray[Any], scores: NDArray[Any]) -> float:
    """The whole program at once, as it is usually written; HiGHS like ours."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    points, index = np.unique(criteria, axis=0, return_inverse=True)
    pairs, counts = np.unique(np.column_stack([index.ravel(), scores]), axis=0, return_counts=True)
    n, m = len(points), len(pairs)
    below, above = np.nonzero((points[:, None] <= points[None]).all(axis=2) & ~np.eye(n, dtype=bool))
    e = below.size
    at, deviation = pairs[:, 0].astype(int), n + np.arange(m)
    row = np.concatenate([np.arange(e)] * 2 + [e + np.arange(m)] * 2 + [e + m + np.arange(m)] * 2)
    column = np.concatenate([below, above, at, deviation, at, deviation])
    entry = np.concatenate([np.ones(e), -np.ones(e), np.ones(m), -np.ones(m), -np.ones(m), -np.ones(m)])
    right = np.concatenate([np.zeros(e), pairs[:, 1], -pairs[:, 1]])
    cost = np.concatenate([np.zeros(n), counts])
    matrix = coo_array((entry, (row, column)), shape=(e + 2 * m, n + m)).tocsr()
    return float(linprog(cost, A_ub=matrix, b_ub=right, bounds=(None, None), method="highs").fun)
