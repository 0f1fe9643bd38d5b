"""The real scores of a conference (76,816 public reviews), with simulated assignments: all four weights, end to end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.release import oracle

from peerveil import Randomness
from peerveil.data import Reviews
from peerveil.papers.release.region import chain_region
from peerveil.papers.release.simulate import simulate_conference
from peerveil.release import PublicScores, feasible_region, publish, review_weights
from peerveil.release.expectation import draw_assignment
from peerveil.release.family import counts_at
from peerveil.release.public import sorted_means

DATA = Path(__file__).parent / "data" / "iclr2026_review_scores.csv.gz"


def real_reviews(load: int = 4) -> Reviews:
    """Who wrote which review is not public: a random valid assignment, everybody writing about ``load`` reviews."""
    frame = pl.read_csv(DATA).sort("paper")
    sizes = frame.group_by("paper", maintain_order=True).len()["len"].to_numpy()
    loads = np.full(frame.height // load, load)
    loads[: frame.height % load] += 1
    who = draw_assignment(np.concatenate([[0], np.cumsum(sizes)]), np.sort(loads), seed=1)
    criteria = {name: frame[name].to_numpy() for name in ("soundness", "presentation", "contribution")}
    return Reviews(paper=frame["paper"].to_numpy(), reviewer=who, score=frame["rating"].to_numpy(), criteria=criteria)


@pytest.mark.slow
@pytest.mark.parametrize("weight", ["rating", "miscalibration", "normalized", "subjectivity"])
def test_publishing_on_real_scores(weight: str) -> None:
    """Reviewers do not differ here: the release must not be worse than public data, and its intervals must cover."""
    reviews = real_reviews()
    result = publish(reviews, epsilon=1, weight=weight, scale=(0, 10), randomness=Randomness.simulation(1))
    truth = sorted_means(review_weights(reviews, weight=weight, scale=(0, 10)).values, reviews.numbered("reviewer")[0])
    region = feasible_region(PublicScores.of(reviews, weight=weight, scale=(0, 10)))
    assert region.contains(truth)
    assert region.contains(result.means)
    published, public = (float(np.sqrt(np.mean((guess - truth) ** 2))) for guess in (result.means, result.expectation))
    assert published < 1.05 * public
    assert np.mean((result.lower <= truth + 1e-9) & (truth <= result.upper + 1e-9)) > 0.93
    exact = counts_at(truth, result.thresholds)
    assert np.abs(exact - result.counts).max() <= result.half_width  # with this seed; 19 of 20 seeds
    print(f"{weight}: published {published:.3g}, public expectation {public:.3g}")


@pytest.mark.slow
def test_the_limit_of_projection_is_the_convex_hull() -> None:
    """For five reviewers the hull of all possible truths can be enumerated: how much would it gain over our region?"""
    rng = np.random.default_rng(12)
    ours: list[float] = []
    hull: list[float] = []
    paper: list[float] = []
    for _ in range(60):
        conference = simulate_conference(5, rng=rng)
        vertices = oracle.sorted_means(conference.public)
        noisy = conference.true_means + rng.laplace(size=5)
        guesses = (
            feasible_region(conference.public).project(noisy),
            oracle.hull_projection(vertices, noisy),
            chain_region(conference.public).project(noisy),
        )
        for errors, guess in zip((ours, hull, paper), guesses, strict=True):
            errors.append(float(np.sum((guess - conference.true_means) ** 2)))
    print(f"hull {np.mean(hull):.4f}, ours {np.mean(ours):.4f}, the paper's {np.mean(paper):.4f}")
    assert np.mean(hull) <= np.mean(ours) <= 1.5 * np.mean(hull)
    assert np.mean(ours) < np.mean(paper)
