"""Where the paper is wrong: the printed form fails, ours passes (docs/errata.md)."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from peerveil.core.errors import BadInput
from peerveil.papers.rankings import printed as paper
from peerveil.papers.rankings.local_bits import bit_response
from peerveil.papers.rankings.repaired import LaplaceSquares, Trunc
from peerveil.papers.rankings.two_sample import distance_critical, distance_tail
from peerveil.rankings.laws import NoisyLaw, squares_null
from peerveil.rankings.plan import pair_bias
from peerveil.rankings.variation import mahonian, total_variation


def trunc_on_uniform_rankings(k: int, m: int, tolerance: float, *, literal: bool = False, level: float = 0.05) -> float:
    """P[TRUNC as printed rejects uniform rankings] for epsilon 1/3, averaged over 400 data sets."""
    bias, rng = paper.bias_as_printed(m, tolerance), np.random.default_rng(1)
    sums = 2 * rng.binomial(k, 0.5, size=(400, m // 2)) - k
    chances = [paper.trunc_reject_probability_as_printed(s, k, m, bias, 1 / 3, level, literal=literal) for s in sums]
    return float(np.mean(chances))


def test_algorithm_3_line_16_must_reject_where_it_is_printed_to_accept() -> None:
    assert trunc_on_uniform_rankings(10_000, 10, 0.9, literal=True) > 0.9  # a test of level .05
    assert trunc_on_uniform_rankings(10_000, 10, 0.9) <= 0.05


@pytest.mark.parametrize(("k", "m"), [(10_000, 10), (1000, 100), (1000, 500), (100, 1000)])
def test_algorithm_3_rejects_uniform_rankings_at_small_tolerances(k: int, m: int) -> None:
    assert 0.4 < trunc_on_uniform_rankings(k, m, 0.02) < 0.55
    with pytest.raises(BadInput) as refused:  # the repaired test refuses: its guarantee or its level would not hold
        Trunc.plan(k, m, Fraction(1, 3), 0.05, 0.02)
    assert refused.value.argument in ("rankings", "tolerance")


def test_algorithm_3_repaired_keeps_level_and_epsilon() -> None:
    need = Trunc.rankings_needed(10, Fraction(1, 3), 0.05, 0.9)
    test = Trunc.plan(need, 10, Fraction(1, 3), 0.05, 0.9)
    assert test.null_rejection() <= 0.05
    assert test.loss() <= 1 / 3


@pytest.mark.parametrize(("m", "level"), [(2, 1e-3), (6, 1e-3), (4, 1e-6), (32, 1e-6)])
def test_algorithm_2_exceeds_its_level_for_few_items(m: int, level: float) -> None:
    k = 2000
    law = squares_null((k,) * (m // 2))
    assert law.tail(k * paper.unif_threshold_as_printed(m, level)) > level
    assert law.tail(law.critical(level)) <= level


def test_algorithm_4_thresholds() -> None:
    m, k, epsilon = 10, 1000, 1 / 3
    noisy = NoisyLaw(LaplaceSquares(k, m).null(), 2 * m / epsilon)
    assert noisy.tail(paper.laplace_threshold_as_printed(m, 0.05, epsilon)) < 1e-6  # valid, and powerless
    for level in (1e-5, 1e-6):
        assert noisy.tail(paper.laplace_proof_threshold_as_printed(m, level, epsilon)) > level  # the proof's fails
        assert noisy.tail(noisy.critical(level)) == pytest.approx(level, rel=1e-6)


def pair_law(spread: float, m: int) -> dict[tuple[int, ...], float]:
    def distance(p: tuple[int, ...]) -> int:
        return sum(p[i] > p[j] for i in range(m) for j in range(i + 1, m))

    weights = {p: spread ** distance(p) for p in permutations(range(m))}
    return {p: w / sum(weights.values()) for p, w in weights.items()}


def test_appendix_b_probability_of_an_order() -> None:
    law = pair_law(0.5, 5)
    for q in range(1, 5):
        exact = sum(p for r, p in law.items() if r[0] < r[q])
        ours, printed = (1 + float(pair_bias(0.5, q))) / 2, 1 / (1 + 0.5**q)
        assert ours == pytest.approx(exact, abs=1e-12)
        assert (abs(printed - exact) < 1e-12) == (q == 1)  # as printed it holds for neighbors only
    # at distance m/8 the printed bias is up to 1.5 times too large, so its sample size 2.25 times too small
    ratio = math.tanh(-math.log(0.9999) * 125 / 2) / float(pair_bias(0.9999, 125))
    assert 1.45 < ratio < 1.5


def test_appendix_b_disjoint_pairs_depend_on_each_other() -> None:
    law = pair_law(0.5, 4)
    first = {r: (1 if r[0] < r[2] else -1) for r in law}
    second = {r: (1 if r[1] < r[3] else -1) for r in law}
    mean = [sum(law[r] * x[r] for r in law) for x in (first, second)]
    covariance = sum(law[r] * first[r] * second[r] for r in law) - mean[0] * mean[1]
    assert covariance == pytest.approx(0.01451, abs=1e-5)
    uniform = pair_law(1.0, 4)
    assert sum(uniform[r] * first[r] * second[r] for r in uniform) == pytest.approx(0, abs=1e-12)  # the level stands


def test_theorem_4_promises_nothing_for_few_items() -> None:
    assert not any(paper.two_sample_allowed_as_printed(m, 0.9, 0.05) for m in range(4, 29))
    assert sum(j * j for j in range(100)) > 100**3 / 6  # its bound on the sum of squares
    assert all(sum(j * j for j in range(m)) <= m**3 / 3 for m in range(1, 200))


def test_theorem_4_exact_test_works_for_few_items() -> None:
    assert distance_tail(8, 0) == pytest.approx(1 / math.factorial(8), rel=1e-6)
    assert distance_critical(8, 0.05) > paper.two_sample_threshold_as_printed(8, 0.05)


def test_theorem_6_two_steps_add_up() -> None:
    """Each of lines 10 and 16 may move P[reject] by delta eps/2; together they move it by twice that."""
    epsilon, delta = 1 / 3, 0.05 / 6
    together = math.log1p(2 * (delta * epsilon / 2) / (delta / 2))
    assert together > 0.41 > epsilon
    assert math.log1p((delta * epsilon / 2) / (delta / 2)) <= epsilon  # one alone would do


def test_claim_11_needs_twice_the_bound() -> None:
    """New: P[|Z| <= b ln(1/delta)] = 1 - delta for Z of scale b = 4/(k delta eps); Claim 11 prints half of that bound."""
    delta = 0.05
    assert 1 - math.exp(-math.log(1 / delta)) == pytest.approx(1 - delta)
    assert 1 - math.exp(-math.log(1 / delta) / 2) == pytest.approx(1 - math.sqrt(delta))


def test_section_7_3_batches() -> None:
    assert paper.bucket_batches_as_printed(0.33) == 4
    assert paper.bucket_batches_as_printed(1 / 3) == 3


def test_section_6_attenuation() -> None:
    m, epsilon = 100, 1.0
    kept = 2 * bit_response(m, epsilon).keep - 1
    assert kept == pytest.approx(epsilon / m, rel=1e-3)
    assert kept < 0.6 * 2 * epsilon / m  # as printed


def test_section_4_1_mahonian_numbers_are_cubic_and_not_needed() -> None:
    assert len(mahonian(30)) == 30 * 29 // 2 + 1
    assert 0.4 < total_variation(10_000, 0.99999) < 0.7  # where the table is out of reach


def test_appendix_e_exchanges_the_two_probabilities() -> None:
    response = bit_response(4, 1)
    p = 0.9
    one = p * response.keep + (1 - p) * (1 - response.keep)
    gamma = 0.5
    as_printed = math.exp(gamma) / (math.exp(gamma) + 1) - p * math.tanh(gamma / 2)
    assert one > 0.5 > as_printed
    assert one == pytest.approx(1 - as_printed, abs=1e-6)
