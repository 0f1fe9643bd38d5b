"""Who wrote what: exact against a slow enumeration, sampled against exact, and what limits both."""

from __future__ import annotations

import math
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from peerveil.core.errors import BadInput
from peerveil.core.randomness import Randomness
from peerveil.release import posterior as module
from peerveil.release.adversary import swap_odds
from peerveil.release.family import counts_at
from peerveil.release.posterior import posterior_over_assignments, sampled_posterior
from peerveil.release.public import PublicScores, reviewer_means

FOUR = PublicScores([[0.1, 0.8], [0.2, 0.9], [0.4, 0.5], [0.3, 0.7]], [2, 2, 2, 2])
AT = (0.3, 0.45, 0.6)
NOISY = np.array([2.0, 1.0, 4.0])
UNEQUAL = PublicScores([[0.1, 0.8, 0.3], [0.2, 0.9, 0.3], [0.4], [0.35, 0.35]], [1, 2, 3, 3])


@cache
def worlds(public: PublicScores) -> list[tuple[int, ...]]:
    """Every assignment, by trying all."""
    paper = np.repeat(np.arange(public.papers), public.sizes)
    listed: list[tuple[int, ...]] = []
    for author in product(range(public.reviewers), repeat=public.values.size):
        once = len(set(zip(author, paper, strict=True))) == len(author)
        if once and (np.bincount(author, minlength=public.reviewers) == public.loads).all():
            listed.append(author)
    return listed


def counts_of(public: PublicScores, author: Any) -> NDArray[np.float64]:
    return counts_at(reviewer_means(public.values, np.array(author)), np.array(AT))


def slow_posterior(public: PublicScores, noisy: Any, epsilon: float, known: dict[tuple[int, int], int]) -> Any:
    table = np.zeros((public.values.size, public.reviewers))
    for author in worlds(public):
        if any(author[public.offsets[p] + k] != who for (p, k), who in known.items()):
            continue
        likelihood = np.exp(-epsilon * np.abs(counts_of(public, author) - noisy).max())
        for slot, who in enumerate(author):
            table[slot, who] += likelihood
    return table / table.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("known", [{}, {(0, 0): 0}, {(0, 0): 0, (1, 1): 1, (3, 0): 2}])
def test_exact_against_trying_everything(known: dict[tuple[int, int], int]) -> None:
    for public in (FOUR, UNEQUAL):
        result = posterior_over_assignments(public, NOISY, AT, 1.5, known=known)
        assert result.posterior == pytest.approx(slow_posterior(public, NOISY, 1.5, known), abs=1e-12)
        assert result.prior == pytest.approx(slow_posterior(public, NOISY, 0.0, known), abs=1e-9)


def test_how_many_worlds_there_are() -> None:
    """90 matrices of zeros and ones of order 4 with two ones a row and column (OEIS A001499), times 2^4 orders."""
    assert posterior_over_assignments(FOUR, np.zeros(3), AT, 1).worlds == 90 * 2**4 == len(worlds(FOUR))


def test_without_side_knowledge_people_with_equal_loads_cannot_be_told_apart() -> None:
    result = posterior_over_assignments(FOUR, NOISY, AT, 9)
    assert result.posterior == pytest.approx(np.full((8, 4), 1 / 4), abs=1e-12)
    assert result.largest_shift == pytest.approx(0, abs=1e-9)
    unequal = posterior_over_assignments(UNEQUAL, NOISY, AT, 3)
    assert unequal.posterior[:, 2] == pytest.approx(unequal.posterior[:, 3], abs=1e-12)
    assert unequal.largest_shift > 0.1  # but a load that nobody else has is a name


def test_who_knows_all_but_one_exchange_gains_at_most_epsilon() -> None:
    rng = np.random.default_rng(1)
    everything = worlds(FOUR)
    epsilon = 0.5
    tried, largest = 0, 0.0
    while tried < 100:
        author = everything[int(rng.integers(len(everything)))]
        i, j = (int(k) for k in rng.choice(8, 2, replace=False))
        swapped = list(author)
        swapped[i], swapped[j] = swapped[j], swapped[i]
        if author[i] == author[j] or tuple(swapped) not in everything:
            continue
        tried += 1
        known = {(k // 2, k % 2): author[k] for k in range(8) if k not in (i, j)}
        noisy = rng.integers(-2, 7, 3)
        result = posterior_over_assignments(FOUR, noisy, AT, epsilon, known=known)
        shift = result.shift(i // 2, i % 2, author[i], author[j])
        odds = swap_odds(noisy, counts_of(FOUR, author), counts_of(FOUR, swapped), epsilon=epsilon)
        assert result.worlds == 2
        assert shift == pytest.approx(odds, abs=1e-9)
        assert abs(shift) <= epsilon * (1 + 1e-12)
        largest = max(largest, abs(shift))
    assert largest == pytest.approx(epsilon)


def test_who_knows_less_is_limited_by_the_reach() -> None:
    rng = np.random.default_rng(2)
    for _ in range(50):
        noisy = rng.integers(-2, 7, 3)
        result = posterior_over_assignments(FOUR, noisy, AT, 0.5, known={(0, 0): 0, (1, 1): 1})
        assert 0 < result.largest_shift <= result.reach
        assert result.reach <= 0.5 * 4


def test_half_the_epsilon_would_be_noticed() -> None:
    """The deliberate fault: an adversary who believes in twice the noise gets other probabilities."""
    known = {(0, 0): 0}
    wrong = posterior_over_assignments(FOUR, NOISY, AT, 0.75, known=known)
    assert np.abs(wrong.posterior - slow_posterior(FOUR, NOISY, 1.5, known)).max() > 0.01


@pytest.mark.parametrize("public", [FOUR, UNEQUAL])
@pytest.mark.parametrize("known", [{}, {(0, 0): 0, (1, 1): 1}])
def test_sampled_against_exact(public: PublicScores, known: dict[tuple[int, int], int]) -> None:
    exact = posterior_over_assignments(public, NOISY, AT, 1.5, known=known)
    sampled = sampled_posterior(public, NOISY, AT, 1.5, known=known, sweeps=10_000, randomness=Randomness.simulation(4))
    assert np.abs(sampled.posterior - exact.posterior).max() < 0.03
    assert np.abs(sampled.prior - exact.prior).max() < 0.03
    assert math.isnan(sampled.largest_shift)
    assert math.isinf(sampled.reach)
    assert 0 < sampled.error < 0.02
    assert "sampled" in repr(sampled)


def test_the_walk_stays_valid_and_its_means_do_not_drift() -> None:
    rng = np.random.default_rng(7)
    author: NDArray[np.int64] = np.array(worlds(UNEQUAL)[5])
    for seed in range(3):
        release = rng.integers(0, 5, 3).astype(float), np.array(AT), 1.0
        module._chain(UNEQUAL, author, np.arange(9), release, 500, Randomness.simulation(seed))
        assert tuple(author.tolist()) in set(worlds(UNEQUAL))


def test_everything_known_leaves_nothing_to_find() -> None:
    author = worlds(FOUR)[17]
    known = {(k // 2, k % 2): who for k, who in enumerate(author)}
    exact = posterior_over_assignments(FOUR, np.zeros(3), AT, 1, known=known)
    sampled = sampled_posterior(FOUR, np.zeros(3), AT, 1, known=known, sweeps=10, randomness=Randomness.simulation(1))
    for result in (exact, sampled):
        assert result.posterior.argmax(axis=1).tolist() == list(author)
        assert result.posterior.max(axis=1).tolist() == [1] * 8


def test_an_impossible_author_has_no_odds() -> None:
    result = posterior_over_assignments(FOUR, np.zeros(3), AT, 1, known={(0, 0): 0})
    assert result.authors(0, 1)[0] == 0  # who wrote one review of a paper did not write the other
    assert math.isnan(result.shift(0, 1, 0, 1))


@pytest.mark.parametrize("find", [posterior_over_assignments, sampled_posterior])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"counts": [1.0]}, "counts"),
        ({"counts": [0.0, 0.0, math.nan]}, "counts"),
        ({"thresholds": [0.0, 0.1, math.inf]}, "thresholds"),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"known": {(0, 2): 0}}, "paper, place"),
        ({"known": {(9, 0): 0}}, "paper, place"),
        ({"known": {(0, 0): 4}}, "a reviewer, 0 to 3"),
        ({"known": {(0, 0): 1, (0, 1): 1}}, "one person"),
        ({"known": {(0, 0): 1, (1, 0): 1, (2, 0): 1}}, "no assignment has"),
        ({"known": [1]}, "mapping"),
    ],
)
def test_hostile_input(find: Any, changes: dict[str, Any], message: str) -> None:
    arguments = {"counts": np.zeros(3), "thresholds": AT, "epsilon": 1.0, **changes}
    with pytest.raises(BadInput, match=message):
        find(FOUR, **arguments)


def test_large_conferences_are_sent_to_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    many = PublicScores([np.linspace(0, 1, 4)] * 30, [4] * 30)
    with pytest.raises(BadInput, match="sampled_posterior"):
        posterior_over_assignments(many, np.zeros(3), AT, 1)
    monkeypatch.setattr(module, "MOST_WORLDS", 100)
    with pytest.raises(BadInput, match="sampled_posterior"):
        posterior_over_assignments(FOUR, np.zeros(3), AT, 1)
    for name in ("sweeps", "chains"):
        with pytest.raises(BadInput, match=name):
            sampled_posterior(FOUR, np.zeros(3), AT, 1, **{name: 1})  # type: ignore[arg-type]
