"""Do the consensus's intervals hold? Every cell of a grid of items, people and epsilons; ``trials`` data sets each.

``python -m benchmarks rankings_coverage`` prints, by cell, how often all score intervals (wanted: .93 to .98) and all rank
intervals (at least .93) held at once, with their mean widths.
"""

from __future__ import annotations

import math
import os
from itertools import product

import numpy as np

from benchmarks.timing import Row
from peerveil import Randomness
from peerveil.rankings import Mallows, consensus

ITEMS = (5, 10, 20, 50)
PEOPLE = (100, 1_000, 10_000)
EPSILONS = (None, 0.5, 1, 2)


def cell(m: int, n: int, epsilon: float | None, trials: int) -> tuple[float, float, float, float]:
    """Shares of data sets whose score and rank intervals all held, and the mean widths (in places and in ranks)."""
    model = Mallows(m, 1 - 1 / m)
    truth = (m - 1) / 2 - np.mean(
        [np.asarray(model.sample(20_000, seed=10**6 + i)).mean(axis=0) for i in range(50)], axis=0
    )
    true_rank = np.arange(1, m + 1)
    scores = ranks = 0
    widths = []
    for seed in range(trials):
        result = consensus(model.sample(n, seed=seed), epsilon=epsilon, randomness=Randomness.simulation(seed))
        ends = np.array([result.score_intervals[i] for i in range(m)])
        places = np.array([result.rank_intervals[i] for i in range(m)])
        scores += bool(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).all())
        ranks += bool(((places[:, 0] <= true_rank) & (true_rank <= places[:, 1])).all())
        widths.append(((ends[:, 1] - ends[:, 0]).mean(), (places[:, 1] - places[:, 0]).mean()))
    width = np.mean(widths, axis=0)
    return scores / trials, ranks / trials, float(width[0]), float(width[1])


def bench() -> list[Row]:
    trials = int(os.environ.get("TRIALS", "400"))
    error = math.sqrt(0.95 * 0.05 / trials)
    rows = []
    for m, n, epsilon in product(ITEMS, PEOPLE, EPSILONS):
        held, ranked, width, spread = cell(m, n, epsilon, trials)
        note = (
            f"ranks held {ranked:.3f}; mean widths {width:.2f} places, {spread:.2f} ranks; standard error {error:.3f}"
        )
        what = f"score intervals held: {m} items, {n:,} people, {'open' if epsilon is None else f'epsilon {epsilon:g}'}"
        rows.append(Row(what, held, 0.95, "", note))
        print(rows[-1].cells(), flush=True)
    return rows
