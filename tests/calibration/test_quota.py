"""The lottery for exact quotas: its law, its loss on every exchange, and what it debits."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import pytest

from peerveil.calibration import Affine, Conference, Threshold
from peerveil.calibration.affine import AffineScores
from peerveil.calibration.quota import QuotaLottery, _whole_weights, conditional_bernoulli, inclusion
from peerveil.core.errors import BadInput
from peerveil.core.exact import exp_bounds
from peerveil.core.randomness import Randomness
from peerveil.data import Reviews
from peerveil.ledger import BudgetExceeded, Ledger

if TYPE_CHECKING:
    from pathlib import Path

    from peerveil.core.arrays import Ints


def lottery(seed: int, papers: int = 6, uneven: bool = False, places: int = 2, epsilon: str = "1") -> QuotaLottery:
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 4, papers) if uneven else np.full(papers, 2)
    paper = np.repeat(np.arange(papers), counts)
    people = len(paper)
    model = AffineScores(paper, rng.permutation(people), np.ones(people), 2 * rng.standard_normal(people), 1.0)
    return QuotaLottery(model, rng.standard_normal(len(paper)), places, epsilon)


def law(one: QuotaLottery, writer: Ints | None = None) -> dict[tuple[int, ...], Fraction]:
    """P(D) of every decision as an exact fraction, from the whole weights that the sampler uses, by enumeration."""
    exponents = one.exponents(writer)
    joint: dict[tuple[int, ...], Fraction] = {(): Fraction(1)}
    for papers, places in one.blocks:
        weights = _whole_weights(exponents[papers], one.gamma)
        products = {d: prod(weights[i] for i in d) for d in combinations(range(len(papers)), places)}
        total = sum(products.values())
        joint = {
            tuple(sorted((*chosen, *(int(papers[i]) for i in d)))): share * Fraction(product, total)
            for chosen, share in joint.items()
            for d, product in products.items()
        }
    return joint


def exchanged(one: QuotaLottery) -> list[Ints]:
    """Every exchange of two reviews of different papers."""
    model = one.model
    pairs = [(a, b) for a, b in combinations(range(len(model.paper)), 2) if model.paper[a] != model.paper[b]]
    writers = []
    for a, b in pairs:
        writer = model.writer.copy()
        writer[a], writer[b] = writer[b], writer[a]
        writers.append(writer)
    return writers


def largest_ratio(one: QuotaLottery) -> Fraction:
    mine = law(one)
    ratios = []
    for writer in exchanged(one):
        other = law(one, writer)
        ratios += [max(mine[d] / other[d], other[d] / mine[d]) for d in mine]
    return max(ratios)


@pytest.mark.parametrize("uneven", [False, True])
@pytest.mark.parametrize("block", [250, 3])
def test_no_exchange_changes_a_decision_by_more_than_epsilon(
    uneven: bool, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every decision, every exchange, exact fractions; blocks of three papers are drawn apart."""
    monkeypatch.setattr("peerveil.calibration.quota._BLOCK", block)
    seen = []
    for seed in range(6):
        for epsilon in ("1", "1/3", "6"):
            for weight in (0.0, 1.0, None):
                one = replace(lottery(seed, uneven=uneven, epsilon=epsilon), weight=weight)
                ratio = largest_ratio(one)
                assert ratio <= exp_bounds(Fraction(epsilon))[0]
                seen.append(np.log(float(ratio)) / float(Fraction(epsilon)))
    assert max(seen) > 0.4  # the bound is not idle


def test_a_lottery_with_twice_the_strictness_is_caught() -> None:
    """The deliberately broken one: a grid twice as coarse is claimed to be as private."""
    broken = max(float(largest_ratio(replace(lottery(seed, epsilon="2"), weight=0.0))) for seed in range(6))
    assert broken > float(exp_bounds(Fraction(1))[1])


def test_the_sampler_follows_the_law_and_floats_agree() -> None:
    one = lottery(3, places=3, epsilon="8")
    exact = law(one)
    source, rounds = Randomness.simulation(1), 4000
    counts = dict.fromkeys(exact, 0)
    for _ in range(rounds):
        counts[tuple(one.draw(source).tolist())] += 1
    for decision, share in exact.items():
        deviation = np.sqrt(float(share) * (1 - float(share)) * rounds)
        assert abs(counts[decision] - rounds * float(share)) <= 5 * deviation + 1
    chances = [float(sum(share for decision, share in exact.items() if paper in decision)) for paper in range(6)]
    assert one.chances() == pytest.approx(chances, abs=1e-6)
    for decision, share in exact.items():
        accepted = np.isin(np.arange(6), decision).astype(float)
        assert one.log_probability(accepted) == pytest.approx(np.log(float(share)), abs=1e-6)


def test_edges_of_the_sampler() -> None:
    source = Randomness.secure()
    assert conditional_bernoulli([1, 2, 3], 0, source).size == 0
    assert conditional_bernoulli([1, 2, 3], 3, source).tolist() == [0, 1, 2]
    assert inclusion(np.zeros(5), 2) == pytest.approx([0.4] * 5)
    with pytest.raises(BadInput, match="weights: got 1 of them"):
        conditional_bernoulli([0, 0, 7], 2, source)
    with pytest.raises(BadInput, match="epsilon"):
        lottery(1, epsilon="1e-9")


def meeting() -> Conference:
    rng = np.random.default_rng(5)
    paper, bias = np.repeat(np.arange(30), 2), rng.standard_normal(60)
    score = rng.standard_normal(30)[paper] + bias + 0.5 * rng.standard_normal(60)
    reviews = Reviews(paper=paper, reviewer=np.arange(60), score=score)
    people = {j: Affine(1.0, float(bias[j])) for j in range(60)}
    return Conference(reviews, functions=people, noise=0.5, accept=8)


def test_a_conference_is_decided_exactly_and_every_decision_is_debited(tmp_path: Path) -> None:
    conference, secure = meeting(), Randomness.secure()
    with Ledger.open(tmp_path / "l.db") as ledger:
        account = ledger.account("chairs", epsilon=10)
        made, sheet = conference.decide(epsilon=4, randomness=secure, account=account)
        assert made.decisions["accepted"].sum() == 8
        conference.decide(epsilon=4, randomness=secure, account=account)
        assert account.spent == 8
        with pytest.raises(BudgetExceeded):
            conference.decide(epsilon=4, randomness=secure, account=account)
        assert account.spent == 8
    assert made.guarantee.epsilon == 4
    assert "exchange one review each" in str(made.guarantee)
    # what depends on who wrote what stays with the chair
    assert made.conference_error is None
    assert made.plain_error is None
    assert made.to_dict()["conference_error"] is None
    assert sheet.operator_only
    shares = sheet.figures()
    assert shares["best_accepted"] <= shares["best_without_privacy"]
    assert sheet.papers["chance"].sum() == pytest.approx(8)
    assert "by the plain mean" in sheet.summary()
    sheet.plot()


def test_an_epsilon_needs_a_number_of_papers_and_affine_reviewers() -> None:
    conference = meeting()
    line = Conference(conference.reviews, functions=conference.functions, noise=0.5, accept=Threshold(0.0))
    with pytest.raises(BadInput, match="accept: got Threshold"):
        line.decide(epsilon=1)
    with pytest.raises(BadInput, match="one guarantee for one decision"):
        conference.decide(epsilon=1, adversary_error=0.1)
