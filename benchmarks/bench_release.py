"""The release module at scale: regions, projection and the whole default, in seconds."""

from __future__ import annotations

import resource
import time
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.timing import Row, best_of
from peerveil import Randomness
from peerveil.data import Reviews
from peerveil.release import PublicScores, feasible_region, publish
from peerveil.release.expectation import draw_assignment
from peerveil.release.projection import isotonic

Floats = NDArray[np.float64]


def bench() -> list[Row]:
    return [*whole(), *projection()]


def conference(reviewers: int, reviews_per_paper: int = 4, seed: int = 0) -> tuple[Any, Any, Floats]:
    """Papers, reviewers and scores with unequal loads (1 to 7)."""
    rng = np.random.default_rng(seed)
    loads = rng.integers(1, 8, reviewers)
    loads[-1] += -loads.sum() % reviews_per_paper
    papers = int(loads.sum()) // reviews_per_paper
    offsets = np.arange(papers + 1) * reviews_per_paper
    who = draw_assignment(offsets, np.sort(loads), seed=seed)
    paper = np.repeat(np.arange(papers), reviews_per_paper)
    score = np.clip(np.round(rng.normal(5.5, 1.5, papers)[paper] + rng.normal(0, 1.2, who.size)), 1, 10)
    return paper, who, score


def whole() -> list[Row]:
    rows = []
    paper, who, score = conference(200)
    publish(Reviews(paper=paper, reviewer=who, score=score), epsilon=1)  # compile
    for n in (1_000, 10_000, 100_000):
        paper, who, score = conference(n)
        reviews = Reviews(paper=paper, reviewer=who, score=score)
        start = time.perf_counter()
        result = publish(reviews, epsilon=1, scale=(1, 10), randomness=Randomness.secure())
        seconds = time.perf_counter() - start
        assert result.region.contains(result.means)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        note = f"secure randomness, unequal loads, {score.size:,} reviews; process peak {peak:.2f} GB"
        rows.append(Row(f"publish, {n:,} reviewers", seconds, None, "s", note))
    return rows


def projection() -> list[Row]:
    rows = []
    for n in (1_000, 10_000, 100_000):
        paper, who, score = conference(n)
        order = np.argsort(paper, kind="stable")
        papers = np.split(score[order], np.flatnonzero(np.diff(paper[order])) + 1)
        region = feasible_region(PublicScores(papers, np.bincount(who)))
        noisy = np.sort(np.bincount(who, weights=score) / np.bincount(who)) + np.random.default_rng(2).laplace(size=n)
        region.project(noisy)
        (seconds,) = best_of(3, partial(region.project, noisy))
        (plain,) = best_of(3, partial(isotonic, noisy))
        rows.append(
            Row(f"projection with boxes and sums, {n:,}", seconds, plain, "s", "peer: isotonic regression alone")
        )
    return rows
