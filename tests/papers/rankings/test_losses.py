"""Exact losses of the paper's private tests: as printed they exceed the claim, repaired they do not."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations_with_replacement, product

import pytest

from peerveil import Randomness
from peerveil.audit import exact_loss
from peerveil.papers.rankings.local_bits import bit_response, bit_sums, bits_power
from peerveil.papers.rankings.losses import bucket_loss, bucket_loss_as_printed, trunc_loss, trunc_loss_as_printed
from peerveil.papers.rankings.repaired import Bucket, LaplaceSquares, Trunc
from peerveil.rankings import Mallows
from peerveil.rankings.adversary import all_rankings, noisy_loss
from peerveil.rankings.central import pair_sums
from peerveil.rankings.laws import squares_null
from peerveil.rankings.mallows import sample_rankings


@pytest.mark.parametrize(("k", "m"), [(2, 2), (3, 3), (4, 3), (2, 4)])
def test_the_repaired_laplace_test_loses_epsilon_and_no_more(k: int, m: int) -> None:
    assert noisy_loss(LaplaceSquares(k, m)).passed
    assert not noisy_loss(LaplaceSquares(k, m), shrink=0.5).passed  # half the noise is refuted
    assert float(LaplaceSquares(100, 10).sensitivity) == pytest.approx(20 * 99 / 100)


def test_the_bucketed_test_as_printed_loses_everything_and_the_repaired_one_epsilon() -> None:
    assert bucket_loss_as_printed(90, 20, 1 / 3, 0.05) == math.inf
    for epsilon in (Fraction(1, 3), Fraction(1), Fraction(3)):
        test = Bucket.plan(10_000, 20, epsilon, 0.05)
        assert 0.9 * float(epsilon) < bucket_loss(test) <= float(epsilon) * (1 + 1e-12)
        assert bucket_loss(test, coin=test.coin / 2) > float(epsilon)  # planted fault
        level = float(test.coin) + (1 - 2 * float(test.coin)) * test.batch_level
        assert level == pytest.approx(0.05)


@pytest.mark.parametrize(("rankings", "items"), [(2, 4), (3, 3)])
def test_the_repaired_trunc_and_bucket_on_all_small_neighboring_data_sets(rankings: int, items: int) -> None:
    """The proven bounds cover every pair of neighbors: all last rankings, for all others that there can be."""
    kinds = all_rankings(items)
    groups = [
        [pair_sums(kinds[[*rest, last]]) for last in range(len(kinds))]
        for rest in combinations_with_replacement(range(len(kinds)), rankings - 1)
    ]

    def loss(chances: list[float]) -> float:
        return max(math.log(max(p) / min(p)) for p in (chances, [1 - c for c in chances]))

    for bias, coin in ((0.5, 0.05), (1.5, 0.2), (4.0, 0.5)):
        test = Trunc(rankings, items, bias, coin)
        found = max(loss([test.reject_probability(sums) for sums in group]) for group in groups)
        assert found <= test.loss()
        assert found > 0.05 * test.loss()  # the bound is not idle
    bucket = Bucket(2 * rankings, items, 2, Fraction(1, 10), 0.05)
    for group in groups:  # the batch of the person who changes; the other batch does what it does
        for other in (0, 1):
            chances = [float(bucket.reject_probability(int(bucket.batch_rejects(sums)) + other)) for sums in group]
            assert loss(chances) <= bucket_loss(bucket) + 1e-12


def test_trunc_as_printed_loses_more_than_it_says_and_the_repaired_one_does_not() -> None:
    assert trunc_loss_as_printed() == pytest.approx(1.2, abs=0.02)  # claimed: 1/3
    for tolerance in (0.5, 0.9):
        need = Trunc.rankings_needed(20, Fraction(1, 3), 0.05, tolerance)
        test = Trunc.plan(need, 20, Fraction(1, 3), 0.05, tolerance)
        assert trunc_loss(test) <= test.loss() <= 1 / 3
        assert test.null_rejection() <= 0.05
        fewer = Trunc(need // 4, 20, test.bias, test.coin)
        assert fewer.loss() > 1 / 3
    few = Trunc(300, 20, test.bias, test.coin)
    assert trunc_loss(few) > 1 / 3  # the same code convicts it below the size it needs


@pytest.mark.parametrize("items", [4, 5, 6])
def test_a_vector_of_bits_loses_epsilon_and_no_more(items: int) -> None:
    def loss(epsilon: str) -> float:
        """Between a ranking and its reverse, which differ in every bit."""
        laws = [bit_response(items, epsilon).probabilities(answer) for answer in (0, 1)]
        vectors = list(product((0, 1), repeat=items // 2))
        return exact_loss(*({v: Fraction(math.prod(law[b] for b in v)) for v in vectors} for law in laws)).epsilon

    assert 0.99 < loss("1") <= 1
    assert loss("1.2") > 1


def test_the_power_of_bits_agrees_with_whole_reports() -> None:
    m, n, spread, trials = 12, 600, 0.75, 200
    short = bits_power(n, m, spread, 1, trials=3000)
    source, critical = Randomness.simulation(4), squares_null((n,) * (m // 2)).critical(0.05)
    rows = (sample_rankings(Mallows(m, spread), n, source) for _ in range(trials))
    hits = sum(float((bit_sums(r, source.permutation(m), 1, source) ** 2).sum()) >= critical for r in rows)
    assert hits / trials == pytest.approx(short, abs=5 * math.sqrt(0.25 / trials))
