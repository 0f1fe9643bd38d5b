"""The region by chains: it contains every possible truth, meets the axioms, and adds next to nothing to counting."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.release import oracle

from peerveil.core.randomness import Randomness
from peerveil.papers.release.region import chain_region
from peerveil.papers.release.simulate import simulate_conference
from peerveil.papers.reproduce.release import release_counts
from peerveil.release import PublicScores, feasible_region
from peerveil.release.expectation import draw_assignment
from peerveil.release.family import Family
from peerveil.release.public import sorted_means

REAL = Path(__file__).parents[2] / "release" / "data" / "iclr2026_review_scores.csv.gz"


@pytest.mark.parametrize("start", ["range", "counting"])
def test_every_possible_truth_is_inside_and_projection_never_hurts(start: str) -> None:
    """Theorem 4.6 and Proposition 4.2, for every assignment of small conferences."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        public = oracle.random_public(rng)
        region, truths = chain_region(public, start=start), oracle.sorted_means(public)
        assert all(region.contains(theta) for theta in truths)
        theta = truths[int(rng.integers(len(truths)))]
        noisy = theta + rng.laplace(scale=rng.choice([0.01, 0.3, 3.0]), size=theta.size)
        after, before = np.sum((region.project(noisy) - theta) ** 2), np.sum((noisy - theta) ** 2)
        assert after <= before * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_axioms(seed: int) -> None:
    rng = np.random.default_rng(seed)
    noise = rng.laplace(size=6)
    same = PublicScores(np.full((6, 2), 3.5), loads=[2] * 6)
    assert chain_region(same).project(noise) == pytest.approx(np.full(6, 3.5), abs=1e-6)  # A1
    weights = rng.random((3, 2))
    single = PublicScores(weights, loads=[1] * 6)
    assert chain_region(single).project(noise) == pytest.approx(np.sort(weights.ravel()), abs=1e-6)  # A2
    one = np.zeros((6, 2))
    one[3] = rng.random(2)
    expected = np.sort([0, 0, 0, 0, *(one[3] / 2)])
    assert chain_region(PublicScores(one, loads=[2] * 6)).project(noise) == pytest.approx(expected, abs=1e-6)  # A3


def test_counting_is_tighter_than_chains_on_the_papers_own_simulations() -> None:
    rng = np.random.default_rng(3)
    widths = np.zeros((10, 4))
    for row in widths:
        public = simulate_conference(20, rng=rng).public
        regions = (
            chain_region(public, start="counting"),
            feasible_region(public),
            chain_region(public),
            feasible_region(public, bounds="range"),
        )
        row[:] = [float((region.upper - region.lower).mean()) for region in regions]
    both, counting, chains, whole = widths.mean(axis=0)
    assert both <= counting < chains < whole


def _slice_of_real_scores(
    papers: int, load: int, seed: int
) -> tuple[PublicScores, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Real scores of some papers, with a random assignment of reviewers."""
    frame = pl.read_csv(REAL).sort("paper").group_by("paper", maintain_order=True).agg("rating")
    chosen = np.random.default_rng(seed).choice(frame.height, papers, replace=False)
    scores = [frame["rating"][int(i)].to_numpy().astype(float) for i in chosen]
    sizes = np.array([part.size for part in scores])
    loads = np.full(sizes.sum() // load, load)
    loads[: sizes.sum() % load] += 1
    who = draw_assignment(np.concatenate([[0], np.cumsum(sizes)]), np.sort(loads), seed=seed)
    return PublicScores(scores, np.bincount(who), bounds=(0, 10)), sorted_means(np.concatenate(scores), who)


@pytest.mark.parametrize("epsilon", [1, 2, 10])
def test_chains_do_not_make_the_release_more_accurate(epsilon: int) -> None:
    """Why they are not in the product."""
    conferences = [_slice_of_real_scores(30, 2, seed) for seed in (3, 5, 8)]
    for seed in (1, 2, 3):
        simulated = simulate_conference(20, 3, 3, rng=np.random.default_rng(seed))
        conferences.append((simulated.public, simulated.true_means))
    errors, widths = np.zeros(2), np.zeros(2)
    for public, truth in conferences:
        scale = public.bounds[1] - public.bounds[0]
        regions, family = (chain_region(public, start="counting"), feasible_region(public)), Family(public)
        widths += [float((region.upper - region.lower).mean()) / scale for region in regions]
        for seed in range(3):
            for place, region in enumerate(regions):
                means = release_counts(family, region, truth, Fraction(epsilon), Randomness.simulation(seed))
                errors[place] += float(np.mean((means - truth) ** 2)) / scale**2
    assert widths[1] < 1.01 * widths[0]
    assert errors[1] < 1.002 * errors[0]
