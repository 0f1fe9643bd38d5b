"""Is "reviewers differ more than by chance" said only when they do?"""

from __future__ import annotations

import numpy as np
import pytest

from peerveil import Randomness
from peerveil.data import Reviews, synthetic_conference
from peerveil.release import PublicScores, plan_release, publish
from peerveil.release.estimate import LEVEL, spread_test
from peerveil.release.expectation import draw_means, public_prior
from peerveil.release.mechanism import LaplaceMeans


def conference(seed: int = 1) -> Reviews:
    return synthetic_conference(120, 80, seed=seed).reviews


@pytest.mark.parametrize("epsilon", [0.1, 2, 30, 1000])
def test_chance_is_hardly_ever_called_a_difference(epsilon: float) -> None:
    public = PublicScores.of(conference(), weight="miscalibration", scale=(1, 10))
    prior, scale = public_prior(public), LaplaceMeans(epsilon=epsilon).scale(public)
    rng = np.random.default_rng(7)
    trials = draw_means(public, np.zeros(1000), seed=77)
    alarms = sum(
        spread_test(truth + rng.laplace(scale=scale, size=truth.size), 2 * scale**2, prior.means[0]).pvalue < LEVEL  # type: ignore[union-attr]
        for truth in trials
    )
    # at small noise the statistic is a little skewed: up to twice the level; five standard errors on top
    assert alarms <= 1000 * 2 * LEVEL + 5 * np.sqrt(1000 * 2 * LEVEL)


def test_the_sentence_that_was_wrong_before() -> None:
    """Reviewers shuffled over papers: a release at a small epsilon must not claim that they differ."""
    reviews = conference()
    rng = np.random.default_rng(3)
    sentence = []
    for seed in range(8):
        frame = reviews.frame.select("paper", "score").with_columns(
            reviewer=rng.permutation(reviews.frame["reviewer"].to_numpy())
        )
        frame = frame.unique(["paper", "reviewer"], maintain_order=True)
        shuffled = Reviews.from_frame(frame)
        published = publish(
            shuffled, epsilon=1, weight="miscalibration", scale=(1, 10), randomness=Randomness.simulation(seed)
        )
        sentence.append(published.beyond_public())
    assert all("cannot be told" in text for text in sentence)


def test_a_real_difference_is_found_when_the_noise_allows() -> None:
    public = PublicScores.of(conference(), weight="miscalibration", scale=(1, 10))
    prior = public_prior(public)
    strict = draw_means(public, np.array([2.0]), seed=5)[0]
    result = spread_test(strict, 0.0, prior.means[0])
    assert result is not None
    assert result.pvalue < 1e-6
    assert str(result).startswith("Reviewers differ")
    drowned = spread_test(strict, 1e6, prior.means[0])
    assert drowned is not None
    assert "cannot be told" in str(drowned)
    same = spread_test(prior.means[0][0], 0.0, prior.means[0])
    assert same is not None
    assert same.pvalue > LEVEL


def test_the_plan_says_what_would_be_noticed_and_more_epsilon_notices_more() -> None:
    public = PublicScores.of(conference(), weight="miscalibration", scale=(1, 10))
    plan = plan_release(public, epsilons=[1, 10, 100], leniency=[0], trials=2, progress=False)
    shares = list(plan.noticed.values())
    assert shares == sorted(shares, reverse=True)
    assert "is noticed if it spreads their means wider by" in plan.recommendation


def test_nobody_can_differ() -> None:
    reviews = Reviews(paper=["a", "a", "b", "b"], reviewer=["x", "y", "x", "y"], score=[5, 5, 5, 5])
    published = publish(reviews, epsilon=1, scale=(1, 10), randomness=Randomness.simulation(1))
    assert published.spread is None
    assert "all reviewers' means are equal" in published.beyond_public()
