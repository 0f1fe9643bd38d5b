"""Is "reviewers differ more than by chance" said only when they do?"""

from __future__ import annotations

import numpy as np
import pytest

from peerveil import Randomness
from peerveil.data import Reviews, synthetic_conference
from peerveil.release import NoisyCounts, PublicScores, plan_release, publish
from peerveil.release.estimate import CountModel, default_thresholds
from peerveil.release.expectation import draw_means
from peerveil.release.family import Family, counts_at
from peerveil.release.spread import LEVEL, SpreadStatistic


def conference(seed: int = 1) -> Reviews:
    return synthetic_conference(120, 80, seed=seed).reviews


def statistic(epsilon: float) -> tuple[PublicScores, NoisyCounts, SpreadStatistic]:
    public = PublicScores.of(conference(), weight="miscalibration", scale=(1, 10))
    family = Family(public)
    at = default_thresholds(family, epsilon)
    mechanism = NoisyCounts(thresholds=tuple(at.tolist()), epsilon=epsilon)
    return public, mechanism, SpreadStatistic(CountModel(family, at, mechanism.noise))


@pytest.mark.parametrize("epsilon", [0.1, 2, 30])
def test_chance_is_hardly_ever_called_a_difference(epsilon: float) -> None:
    public, mechanism, test = statistic(epsilon)
    truths, randomness = draw_means(public, 2000, 123_457), Randomness.simulation(7)
    noise = mechanism.noise.draw(randomness, len(truths))
    exact = [counts_at(truth, np.array(mechanism.thresholds)) for truth in truths]
    alarms = sum(test.test(row).reject for row in np.array(exact) + noise)
    # the null distribution has 600 simulated assignments only: up to half more than the level; five standard errors on top
    assert alarms <= 2000 * 1.5 * LEVEL + 5 * np.sqrt(2000 * 1.5 * LEVEL)
    assert alarms > 0 or epsilon == 30  # it is a test, not a refusal


def test_the_sentence_that_was_wrong_before() -> None:
    """Reviewers shuffled over papers: a release at a small epsilon must not claim that they differ."""
    reviews = conference()
    rng = np.random.default_rng(3)
    sentences = []
    for seed in range(8):
        frame = reviews.frame.select("paper", "score").with_columns(
            reviewer=rng.permutation(reviews.frame["reviewer"].to_numpy())
        )
        shuffled = Reviews.from_frame(frame.unique(["paper", "reviewer"], maintain_order=True))
        published = publish(shuffled, epsilon=1, scale=(1, 10), randomness=Randomness.simulation(seed))
        sentences.append(published.beyond_public())
    assert all("no sign that" in text.lower() for text in sentences)
    assert all("would have been noticed" in text for text in sentences)


def test_a_real_difference_is_noticed_as_often_as_is_said() -> None:
    """At the standard deviation that is called noticeable, 80% of releases notice; the family draws other conferences here."""
    public, mechanism, test = statistic(2)
    family = Family(public)
    assert 0 < test.noticeable < family.weight_sd
    noise = mechanism.noise.draw(Randomness.simulation(3), 400)
    for factor, low, high in ((1.0, 0.6, 1.0), (1.5, 0.95, 1.0), (0.25, 0.0, 0.5)):
        strength = factor * test.noticeable / family.weight_sd
        truths = [family.means("normal", strength, 50_000 + draw) for draw in range(400)]
        counts = np.array([counts_at(truth, np.array(mechanism.thresholds)) for truth in truths]) + noise
        assert low <= np.mean([test.test(row).reject for row in counts]) <= high


def test_the_sentence_names_the_size_of_a_difference() -> None:
    strict = synthetic_conference(120, 80, seed=2, bias=2.0).reviews
    published = publish(strict, epsilon=4, scale=(1, 10), randomness=Randomness.simulation(1))
    assert published.spread is not None
    assert published.spread.reject
    assert "more than by chance" in published.beyond_public()
    assert "no sign that" not in published.beyond_public().lower()
    assert "if it is roughly normal" in str(published)
    assert published.strictness_interval[0] > 0


def test_the_plan_says_what_would_be_noticed_and_more_epsilon_notices_more() -> None:
    public = PublicScores.of(conference(), weight="miscalibration", scale=(1, 10))
    plan = plan_release(public, epsilons=[1, 10, 100], strictness=[0], trials=2, progress=False)
    sizes = list(plan.noticeable.values())
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] > 0
    assert "noticed" in plan.recommendation


def test_nobody_can_differ() -> None:
    reviews = Reviews(paper=["a", "a", "b", "b"], reviewer=["x", "y", "x", "y"], score=[5, 5, 5, 5])
    published = publish(reviews, epsilon=1, scale=(1, 10), randomness=Randomness.simulation(1))
    assert published.spread is None
    assert "all reviewers' means are known" in published.beyond_public()
