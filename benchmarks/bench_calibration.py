"""Calibration: frontiers of pairs a second, panels, a conference of 10,000 papers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.timing import Row, best_of
from peerveil.calibration import Affine, Conference, Pair, Panel, Threshold
from peerveil.calibration.pair import pair_frontiers
from peerveil.core.randomness import Randomness
from peerveil.data import Reviews

if TYPE_CHECKING:
    from collections.abc import Callable

PAIRS = 2_000_000


def bench() -> list[Row]:
    return [*pairs(), *panels(), conference(Threshold.share(0.25)), conference(2_500)]


def pairs() -> list[Row]:
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((PAIRS, 2))
    shared = PAIRS / best_of(3, lambda: pair_frontiers(scores, scales=[1.0, 0.7], biases=[0.2, -0.3], noise=0.4))[0]
    scales, biases = np.exp(0.4 * rng.standard_normal((PAIRS, 2))), 0.5 * rng.standard_normal((PAIRS, 2))
    own = PAIRS / best_of(3, lambda: pair_frontiers(scores, scales=scales, biases=biases, noise=0.4))[0]
    few = scores[:300].tolist()
    two = (Affine(1.0, 0.2), Affine(0.7, -0.3))
    single = len(few) / best_of(2, lambda: [Pair(s, two, 0.4).frontier() for s in few])[0]
    return [
        Row("pair frontiers, the same two reviewers", shared, single, "instances/s", "peer: one Pair at a time"),
        Row("pair frontiers, reviewers of their own", own, single, "instances/s", "peer: one Pair at a time"),
    ]


def panels() -> list[Row]:
    rows = []
    for papers, places in ((6, 3), (7, 3)):
        seconds, slowest = [], 0.0
        for seed in range(3 if papers == 6 else 2):
            took = _seconds(lambda s=seed, n=papers, k=places: _solve(s, n, k))  # type: ignore[misc]
            seconds.append(took)
            slowest = max(slowest, took)
        note = (
            f"per-paper adversary, halfway up the frontier; median of {len(seconds)} panels {np.median(seconds):.2f} s"
        )
        rows.append(Row(f"panel of {papers}, {places} accepted, slowest", slowest, None, "s", note))
    return rows


def _solve(seed: int, papers: int, places: int) -> None:
    rng = np.random.default_rng(seed)
    people = [
        Affine(float(a), float(b))
        for a, b in zip(np.exp(0.4 * rng.standard_normal(papers)), 0.6 * rng.standard_normal(papers), strict=True)
    ]
    panel = Panel(rng.standard_normal(papers), people, 0.4, places)  # type: ignore[arg-type]
    low = float(panel.program.greedy().adversary_errors.min())
    panel.strategy(adversary_error=(low + float(panel.ceilings.min())) / 2)


def conference(accept: int | Threshold, papers: int = 10_000) -> Row:
    rng = np.random.default_rng(0)
    scale, bias = np.exp(0.3 * rng.standard_normal(papers)), 0.5 * rng.standard_normal(papers)
    score = scale * rng.standard_normal(papers) + bias + 0.3 * rng.standard_normal(papers)
    reviews = Reviews(paper=np.arange(papers), reviewer=np.arange(papers), score=score)
    people = {j: Affine(float(scale[j]), float(bias[j])) for j in range(papers)}
    secure = Randomness.secure()
    took = _seconds(
        lambda: Conference(reviews, functions=people, noise=0.3, accept=accept, group_size=5).decide(
            adversary_error=0.6, capped=True, randomness=secure, progress=False
        )
    )
    rule = "a line" if isinstance(accept, Threshold) else f"exactly {accept:,}"
    name = f"conference of {papers:,} papers, 5 reviewers a cluster, {rule}"
    return Row(name, took, None, "s", "secure randomness, all groups")


def _seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


if __name__ == "__main__":
    for row in bench():
        print("  ".join(row.cells()))
