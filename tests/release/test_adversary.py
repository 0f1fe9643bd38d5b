"""The adversary against the guarantee, the sensitivity against every exchange, and audits that must pass or refute."""

from __future__ import annotations

import math
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerveil.core.errors import BadInput
from peerveil.core.randomness import MaxNormNoise, Randomness
from peerveil.data import Reviews
from peerveil.data.synthetic import balanced_assignment
from peerveil.release import NoisyCounts, adversary
from peerveil.release.adversary import claims, count_claim, group_neighbors, neighbors, swap_attack, swap_odds
from peerveil.release.family import counts_at
from peerveil.release.public import Assignment, PublicScores, reviewer_means
from peerveil.release.weights import WEIGHTS, review_weights

AT = (0.15, 0.45, 0.85)
repeatable = settings(derandomize=True, deadline=None, max_examples=60)


def random_conference(rng: np.random.Generator, *, people: int, papers: int) -> Assignment:
    """Everybody reviews one paper at least, every paper is reviewed once at least; the rest is chance."""
    while True:
        held = rng.random((people, papers)) < rng.uniform(0.2, 0.9)
        if held.any(axis=0).all() and held.any(axis=1).all():
            break
    reviewer, paper = np.nonzero(held)
    return Assignment.of(np.column_stack([reviewer, rng.normal(size=reviewer.size), paper]))


# ---- sensitivity ------------------------------------------------------------------------------------------------------


@st.composite
def conferences(draw: st.DrawFn) -> Reviews:
    """Few people and papers, loads of every kind, scores in tenths with many ties, two criteria."""
    people, papers = draw(st.integers(2, 5)), draw(st.integers(1, 5))
    cells = draw(st.lists(st.booleans(), min_size=people * papers, max_size=people * papers))
    held = np.array(cells).reshape(people, papers)
    held[np.arange(people), np.arange(people) % papers] = True
    held[np.arange(papers) % people, np.arange(papers)] = True
    reviewer, paper = np.nonzero(held)
    size = reviewer.size

    def whole_numbers(low: int, high: int) -> Any:
        return np.array(draw(st.lists(st.integers(low, high), min_size=size, max_size=size)))

    tenths = whole_numbers(0, draw(st.sampled_from([1, 3, 10, 100])))
    clear, sound = whole_numbers(1, 3), whole_numbers(1, 3)
    order = draw(st.permutations(range(size)))
    return Reviews(
        paper=paper[order],
        reviewer=reviewer[order],
        score=tenths[order] / 10,
        criteria={"clear": clear[order], "sound": sound[order]},
    )


def exchanges(reviews: Reviews, weights: Any) -> list[tuple[Any, Any]]:
    """The means before and after every valid exchange."""
    reviewer, paper = reviews.numbered("reviewer")[0], reviews.numbered("paper")[0]
    conference = Assignment.of(np.column_stack([reviewer, weights, paper]))
    before = reviewer_means(weights, reviewer)
    pairs = []
    for i, j in combinations(range(weights.size), 2):
        if conference.may_exchange(i, j):
            swapped = reviewer.copy()
            swapped[[i, j]] = swapped[[j, i]]
            pairs.append((before, reviewer_means(weights, swapped)))
    return pairs


@repeatable
@given(conferences(), st.sampled_from(WEIGHTS), st.lists(st.floats(-11, 11), max_size=4))
def test_no_exchange_moves_any_count_by_more_than_one(reviews: Reviews, weight: str, extra: list[float]) -> None:
    """All weights, unequal loads, ties; thresholds anywhere, equal to means, and one float below and above them."""
    weights = review_weights(reviews, weight=weight).values
    for before, after in exchanges(reviews, weights):
        both = np.concatenate([before, after])
        near = [both, np.nextafter(both, -np.inf), np.nextafter(both, np.inf), np.array(extra)]
        thresholds = np.unique(np.concatenate(near))
        moved = counts_at(after, thresholds) - counts_at(before, thresholds)
        assert np.abs(moved).max() <= 1


@repeatable
@given(conferences(), st.sampled_from(WEIGHTS))
def test_an_exchange_leaves_the_weights_of_papers_as_they_are(reviews: Reviews, weight: str) -> None:
    """Weights are functions of what papers received: another author of the same review changes none of them."""
    who = np.random.default_rng(len(reviews)).permutation(reviews.frame["reviewer"].to_numpy())
    frame = reviews.frame.with_columns(reviewer=who)
    if frame.select("paper", "reviewer").is_duplicated().any():
        return
    one, other = (
        np.sort(review_weights(table, weight=weight).values) for table in (reviews, Reviews.from_frame(frame))
    )
    assert one.tobytes() == other.tobytes()


def test_means_added_in_the_order_of_rows_move_a_count_by_two() -> None:
    pair = adversary._rounding_neighbors()
    threshold = np.array([np.nextafter(0.25, 0)])
    sums = [np.bincount(world.reviewer, weights=world.weight) / 4 for world in (pair.a, pair.b)]
    assert abs(counts_at(sums[0], threshold) - counts_at(sums[1], threshold)).max() == 2
    assert pair.a.means.tobytes() == pair.b.means.tobytes()  # in ascending order nothing moves


def test_a_smaller_sensitivity_would_be_refuted() -> None:
    """Each of the audited pairs moves a count by one, and one of them counts of both signs."""
    moved = [counts_at(pair.b.means, np.array(AT)) - counts_at(pair.a.means, np.array(AT)) for pair in neighbors()]
    assert [np.abs(change).max() for change in moved] == [1] * len(moved)
    assert {np.sign(change).sum() for change in moved} & {0.0, 1.0, -1.0}
    for pair in group_neighbors()[:1]:
        means = [reviewer_means(world.weight, world.reviewer) for world in (pair.a, pair.b)]
        assert [(mean <= 0.5).tolist() for mean in means] == [[True, False], [False, True]]


def test_loads_of_one_move_nothing() -> None:
    conference = Assignment.of([(0, 0.0, 0), (1, 1.0, 0), (2, 0.3, 1)])
    result = swap_attack(conference.public, conference.rows, epsilon=1, thresholds=[0.2], trials=50)
    assert (result.moved, result.reach, result.right) == (0, 0, 0.5)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("thresholds", [(0.3,), (0.3, 0.6), AT])
def test_the_exact_loss_is_at_most_epsilon_and_reaches_it(epsilon: float, thresholds: tuple[float, ...]) -> None:
    """Every output on a grid around the counts, for every audited pair of neighbors."""
    largest = 0.0
    for pair in neighbors():
        a, b = (counts_at(world.means, np.array(thresholds)) for world in (pair.a, pair.b))
        grid = np.array(list(product(range(-4, 8), repeat=len(thresholds))), dtype=float)
        losses = [abs(swap_odds(y, a, b, epsilon=epsilon)) for y in grid[:: 1 if len(thresholds) < 3 else 3]]
        losses += [abs(swap_odds(y, a, b, epsilon=epsilon)) for y in (a, b)]
        assert max(losses) <= epsilon + 1e-12
        largest = max(largest, *losses)
    assert largest == pytest.approx(epsilon)


# ---- one exchange ------------------------------------------------------------------------------------------------------


def test_odds_are_the_ratio_of_probabilities() -> None:
    rng = np.random.default_rng(0)
    y, a, b = rng.integers(0, 9, (3, 6)).astype(float)
    ratio = math.exp(-0.7 * np.abs(y - a).max()) / math.exp(-0.7 * np.abs(y - b).max())
    assert swap_odds(y, a, b, epsilon=0.7) == pytest.approx(math.log(ratio))
    assert swap_odds(y, a, b, epsilon=0.7) == -swap_odds(y, b, a, epsilon=0.7)
    assert swap_odds(a, a, b, epsilon=0.7) == pytest.approx(0.7 * np.abs(a - b).max())


@pytest.mark.parametrize(
    ("noisy", "a", "b", "epsilon"),
    [
        ([1.0], [1.0, 2.0], [1.0], 1),
        ([math.nan], [1.0], [1.0], 1),
        ([[1.0]], [[1.0]], [[1.0]], 1),
        ([1.0], [1.0], [2.0], 0),
        ([1.0], [1.0], [2.0], math.inf),
    ],
)
def test_odds_refuse_what_they_cannot_use(noisy: Any, a: Any, b: Any, epsilon: float) -> None:
    with pytest.raises(BadInput):
        swap_odds(noisy, a, b, epsilon=epsilon)


@pytest.mark.parametrize("epsilon", ["0.1", 1, 4])
def test_the_attack_stays_within_what_epsilon_allows(epsilon: Any) -> None:
    for pair in neighbors():
        result = swap_attack(
            pair.a.public,
            pair.a.rows,
            epsilon=epsilon,
            thresholds=AT,
            trials=4000,
            randomness=Randomness.simulation(5),
        )
        assert result.largest <= result.reach * (1 + 1e-9) <= result.epsilon * (1 + 1e-9)
        for rate in (result.right, result.worst_right):
            assert 0.5 - 6 * result.error < rate < result.bound + 6 * result.error


def attack(trials: int, epsilon: int = 2) -> Any:
    """Two people with means 0 and 1, or both 1/2: one threshold between tells them apart as well as epsilon allows."""
    conference = neighbors()[0].a
    randomness = Randomness.simulation(6)
    settings = {"epsilon": epsilon, "thresholds": [0.25], "trials": trials, "randomness": randomness}
    return swap_attack(conference.public, conference.rows, **settings)  # type: ignore[arg-type]


def test_the_attack_is_as_good_as_it_can_be_on_two_people() -> None:
    """One count that moves by 1: the best rule is right with probability exactly e^epsilon / (1 + e^epsilon)."""
    result = attack(20_000)
    assert result.worst_right == pytest.approx(result.bound, abs=6 * result.error)
    assert result.largest == result.reach == 2


def test_too_little_noise_shows_in_the_attack(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deliberately broken mechanism: a quarter of the noise."""
    monkeypatch.setattr(adversary, "MaxNormNoise", lambda size, epsilon: MaxNormNoise(size, 4 * epsilon))
    result = attack(4000, epsilon=1)
    assert result.worst_right > result.bound + 6 * result.error


def test_nothing_can_be_told_where_nothing_moves() -> None:
    conference = Assignment.of([(0, 0.0, 0), (1, 1.0, 0), (2, 0.3, 1)])
    result = swap_attack(conference.public, conference.rows, epsilon=1, trials=100, randomness=Randomness.simulation(1))
    assert (result.right, result.worst_right, result.largest, result.reach) == (0.5, 0.5, 0, 0)


def test_in_a_large_conference_an_exchange_drowns() -> None:
    rng = np.random.default_rng(4)
    paper, reviewer = balanced_assignment(np.full(500, 4), 500, rng)
    conference = Assignment.of(np.column_stack([reviewer, rng.beta(2, 2, paper.size), paper]))
    result = swap_attack(
        conference.public, conference.rows, epsilon=1, trials=4000, randomness=Randomness.simulation(2)
    )
    assert 0.1 < result.moved < 1
    assert result.reach == 1  # some exchange moves a count
    assert result.right < 0.5 + 8 * result.error < result.bound


def test_the_report_reads_and_becomes_data() -> None:
    conference = neighbors()[0].a
    result = swap_attack(conference.public, conference.rows, epsilon=1, trials=400, randomness=Randomness.simulation(5))
    assert "epsilon 1 allows 73.2" in str(result)
    assert "[simulation, not private]" in str(result)
    data = result.to_dict()
    assert (data["trials"], data["mark"]) == (400, "simulation, not private")
    assert data["bound"] == pytest.approx(math.e / (1 + math.e))
    secure = swap_attack(conference.public, conference.rows, epsilon=1, trials=50)
    assert (secure.simulated, secure.to_dict()["mark"]) == (False, None)


def test_the_attack_refuses_what_it_cannot_use() -> None:
    conference = neighbors()[0].a
    with pytest.raises(BadInput, match="epsilon"):
        swap_attack(conference.public, conference.rows, epsilon=0, trials=100)
    with pytest.raises(BadInput, match="trials"):
        swap_attack(conference.public, conference.rows, epsilon=1, trials=0)
    with pytest.raises(BadInput, match="at least two"):
        swap_attack(PublicScores([[1.0]], [1]), [(0, 1.0, 0)], epsilon=1, trials=10)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(0, 0.0, 0)], "those that are public"),
        ([(0, 0.0, 0), (1, 1.0, 0), (0, 0.2, 1), (1, 0.6, 1)], "those that are public"),
        ([(0, 0.0, 0), (0, 1.0, 0), (1, 0.2, 1), (1, 0.5, 1)], "two reviews of one paper"),
        ([(0, 0.0, 0), (2, 1.0, 0), (0, 0.2, 1), (1, 0.5, 1)], "not public"),
        ([(0, 0.0, 0), (1, math.nan, 0), (0, 0.2, 1), (1, 0.5, 1)], "rows"),
        ([(0.5, 0.0, 0), (1, 1.0, 0), (0, 0.2, 1), (1, 0.5, 1)], "rows"),
        ("abc", "rows"),
    ],
)
def test_an_assignment_that_is_not_of_this_conference(rows: Any, message: str) -> None:
    public = PublicScores([[0.0, 1.0], [0.2, 0.5]], [2, 2])
    with pytest.raises(BadInput, match=message):
        Assignment(public, rows)


def test_exchanges_keep_what_is_public() -> None:
    rng = np.random.default_rng(3)
    for _ in range(30):
        conference = random_conference(rng, people=4, papers=4)
        count = 0
        for i, j in combinations(range(len(conference.weight)), 2):
            if conference.may_exchange(i, j):
                conference.exchange(i, j)  # checks loads, weights and that nobody reviews a paper twice
                count += 1
            else:
                with pytest.raises(BadInput, match="i, j"):
                    conference.exchange(i, j)
        assert count > 0  # two people can always exchange something


# ---- the audit ----------------------------------------------------------------------------------------------------------


def test_any_publish_function_can_be_audited() -> None:
    def leaks(conference: Assignment, count: int, randomness: Randomness) -> Any:
        return NoisyCounts(thresholds=AT, epsilon=3).release(conference.means, randomness, count)

    claim = count_claim(leaks, "leaking")
    assert not claim.audit(8000, randomness=Randomness.simulation(9)).passed


def test_sound_claims_pass_and_broken_ones_are_caught_with_the_registered_samples() -> None:
    listed = list(claims())
    assert {name for claim in listed for name in claim.covers} == {
        "release.NoisyCounts",
        "release.publish",
        "release.ask",
    }
    assert sum(claim.fault is not None for claim in listed) == 4
    for claim in listed:
        assert claim.audit(randomness=Randomness.simulation(20)).passed == (claim.fault is None), claim.name
