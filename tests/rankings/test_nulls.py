"""Laws of statistics for uniform rankings: against enumeration, against each other, and with noise against integration."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2

from peerveil.rankings import laws
from peerveil.rankings.adversary import all_rankings
from peerveil.rankings.central import ClippedBatches, ClippedNorm, RankNorm, choose_central, signal_needed
from peerveil.rankings.clipped import clipped_length
from peerveil.rankings.kernels import batch_norms_of_shuffles
from peerveil.rankings.laws import NoisyLaw, normal_laplace_tail


def enumerated(counts: tuple[int, ...]) -> dict[int, float]:
    law: dict[int, float] = {}
    for signs in product(*(product((-1, 1), repeat=n) for n in counts)):
        total = sum(sum(part) ** 2 for part in signs)
        law[total] = law.get(total, 0.0) + 2.0 ** -sum(counts)
    return law


@pytest.mark.parametrize("counts", [(1,), (2, 2), (3, 3, 3), (1, 4, 5), (7,)])
def test_sums_of_squares_are_exact(counts: tuple[int, ...]) -> None:
    law = laws.squares_null(counts)
    for value, chance in enumerated(counts).items():
        assert law.chances[law.values == value].sum() == pytest.approx(chance, abs=1e-12)
        tail = sum(p for v, p in enumerated(counts).items() if v >= value)
        assert law.tail(value) == pytest.approx(tail, abs=1e-12)


def test_many_pairs_approach_the_chi_square_law() -> None:
    for pairs, k in ((1, 10**6), (50, 10_000), (5000, 10**5)):
        law = laws.squares_null((k,) * pairs)
        for level in (0.2, 0.05, 0.001):
            assert law.tail(k * float(chi2.isf(level, pairs))) == pytest.approx(level, rel=0.01)
        assert np.dot(law.values, law.chances) == pytest.approx(pairs * k, rel=1e-9)


def test_critical_values_are_the_smallest_within_the_level() -> None:
    law = laws.squares_null((10, 10))
    for level in (0.5, 0.05, 0.001):
        critical = law.critical(level)
        assert law.tail(critical) <= level < law.tail(float(law.values[law.values < critical][-1]))
    assert laws.squares_null((2,)).critical(0.1) == math.inf


def test_concordance_by_enumeration() -> None:
    kinds = 2 * all_rankings(3) - 2
    squares = [float((a + b + c) @ (a + b + c)) / (8 * 9) for a, b, c in product(kinds, repeat=3)]
    law = laws.concordance_null(3, 3)
    for value in sorted(set(squares)):
        exact = float(np.mean(np.array(squares) >= value - 1e-9))
        assert law.tail(value) == pytest.approx(exact, abs=6 * math.sqrt(0.25 / 200_000) + 1e-5)
    assert laws.concordance_null(3, 2).tail(1.0) == pytest.approx(0.25)


def test_concordance_limit_has_the_exact_mean_and_variance() -> None:
    for k, m in ((2, 300), (10, 100), (500, 7)):
        law = laws.concordance_null(k, m)
        assert isinstance(law, laws.ConcordanceLimit)
        a, b = law.shape
        assert a / (a + b) == pytest.approx(1 / k)
        assert a * b / (a + b) ** 2 / (a + b + 1) == pytest.approx(2 * (k - 1) / (k**3 * (m - 1)))


@pytest.mark.parametrize(("k", "m"), [(3, 140), (10, 41), (41, 10), (85, 5)])
def test_concordance_limit_just_beyond_the_simulated_range(k: int, m: int) -> None:
    draws = np.empty(40_000)
    batch_norms_of_shuffles(k, m, 99, draws)
    w = draws / (m * (m * m - 1) / 3) / k**2
    for level in (0.2, 0.05, 0.01):
        result = float((w >= laws.concordance_null(k, m).critical(level)).mean())
        assert abs(result - level) < 5 * math.sqrt(level / w.size) + 0.01 * level
    # the chi-square limit that other tools use is far off for few rankings
    far = float((w * k * (m - 1) >= chi2.isf(0.01, m - 1)).mean())
    assert k > 20 or far < 0.008


def test_noise_is_added_exactly() -> None:
    law = laws.squares_null((9, 9)).mapped(np.sqrt)
    noisy = NoisyLaw(law, 3.0)
    rng = np.random.default_rng(1)
    drawn = rng.choice(law.values, 400_000, p=law.chances) + rng.laplace(scale=3.0, size=400_000)
    for level in (0.2, 0.05, 0.001):
        critical = noisy.critical(level)
        assert noisy.tail(critical) == pytest.approx(level, rel=1e-8)
        assert abs((drawn >= critical).mean() - level) < 5 * math.sqrt(level / drawn.size)
    grid = np.linspace(-80, 100, 4001)
    assert noisy.density(grid).sum() * (grid[1] - grid[0]) == pytest.approx(1, abs=1e-3)


def test_normal_plus_laplace_in_closed_form() -> None:
    rng = np.random.default_rng(2)
    drawn = 1.5 * rng.normal(size=400_000) + rng.laplace(scale=2.0, size=400_000)
    for x in (-3.0, 0.0, 2.0, 8.0):
        assert normal_laplace_tail(x, 1.5, 2.0) == pytest.approx((drawn >= x).mean(), abs=0.004)
    assert normal_laplace_tail(5.0, 1e-9, 2.0) == pytest.approx(0.5 * math.exp(-2.5))


def test_batches_are_a_convolution_of_one_batch() -> None:
    test = ClippedBatches(60, 30, 3, 1.0)
    draws = np.empty(20 * 20_000)
    batch_norms_of_shuffles(3, 30, 5, draws)
    sums = np.array([test.from_squares(part) for part in draws.reshape(-1, 20)])
    law = test.null()
    assert np.dot(law.values, law.chances) == pytest.approx(sums.mean(), abs=5 * sums.std() / math.sqrt(20_000) + 0.02)
    for level in (0.2, 0.05, 0.01):
        assert abs((sums >= law.critical(level)).mean() - level) < 5 * math.sqrt(level / 20_000) + 0.05 * level
    symmetric = ClippedBatches(60, 30, 2, 1.0).null()
    assert np.dot(symmetric.values, symmetric.chances) == pytest.approx(0, abs=1e-9)


def test_the_clipped_norm_is_the_norm_where_nothing_is_clipped() -> None:
    rng = np.random.default_rng(3)
    rows = np.array([rng.permutation(200) for _ in range(50)])
    test = ClippedNorm(50, 200)
    assert test.cap < 0.5
    assert test.from_rows(rows) == pytest.approx(RankNorm(50, 200).statistic(rows.sum(axis=0)), abs=1e-6)


def test_the_clipped_norm_against_a_search_over_directions() -> None:
    """Three items: rankings are six directions in a plane, and so is v."""
    rng = np.random.default_rng(4)
    kinds = all_rankings(3)
    basis = np.array([[1, -1, 0], [1, 1, -2]]) / np.sqrt([[2], [6]])
    angles = np.linspace(0, 2 * np.pi, 2_001)
    v = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    for _ in range(60):
        rows = kinds[rng.integers(0, 6, rng.integers(2, 30))]
        u = (rows - 1) / math.sqrt(2) @ basis.T
        cap = float(rng.uniform(0.1, 1.0))
        projected = u @ v.T
        best = max(float(np.minimum(t * projected, cap).sum(axis=0).max()) for t in np.linspace(0, 1, 101))
        assert best - 0.021 <= clipped_length(rows, cap) <= best + 0.05  # the grid is coarse


def test_clipping_everything_is_solved_too() -> None:
    same = np.tile(np.arange(40), (500, 1))
    assert clipped_length(same, 0.25) == pytest.approx(125, abs=0.03)
    mixed = np.vstack([same[:250], same[:250, ::-1]])
    assert 0 <= clipped_length(mixed, 0.25) <= 0.03


def test_the_choice_depends_on_public_numbers_and_is_the_best_of_its_candidates() -> None:
    for k, m in ((100, 1000), (1000, 100), (1000, 500), (10_000, 10), (2, 2), (3, 5)):
        chosen = choose_central(k, m, 1 / 3)
        assert signal_needed(chosen, 1 / 3) <= signal_needed(RankNorm(k, m), 1 / 3)
        assert chosen == choose_central(k, m, 1 / 3)


def test_laws_are_kept_in_a_folder_if_one_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEERVEIL_CACHE", str(tmp_path / "cache"))
    laws.concordance_null.cache_clear()
    first = laws.concordance_null(5, 4)
    (file,) = (tmp_path / "cache").iterdir()
    laws.concordance_null.cache_clear()
    assert np.array_equal(laws.concordance_null(5, 4).values, first.values)
    file.write_bytes(b"broken")
    laws.concordance_null.cache_clear()
    assert np.array_equal(laws.concordance_null(5, 4).values, first.values)


@pytest.mark.parametrize(
    "camps", [(600, 400, 0), (510, 490, 0), (900, 100, 0), (300, 0, 700), (100, 200, 700), (2, 1, 0)]
)
@pytest.mark.parametrize("items", [4, 40])
def test_the_clipped_norm_is_found_on_every_kind_of_data(camps: tuple[int, int, int], items: int) -> None:
    """Two camps made an earlier solver give up: an answer that depends on the data, and is covered by no guarantee."""
    rng = np.random.default_rng(5)
    up = np.arange(items)
    rows = [np.tile(up, (camps[0], 1)), np.tile(up[::-1], (camps[1], 1))]
    rows += [rng.permuted(np.tile(up, (camps[2], 1)), axis=1)] if camps[2] else []
    ranks = np.vstack(rows)
    for cap in (0.2, 0.45, 0.9):
        value = clipped_length(ranks, cap)
        unit = (ranks - (items - 1) / 2) / np.sqrt(items * (items**2 - 1) / 12)
        assert 0 <= value <= np.linalg.norm(unit.sum(axis=0)) + 1e-9
        if camps[2] == 0:  # along the camps' own axis the sum rises up to the cap, and the rest of v is free
            assert value == pytest.approx((camps[0] - camps[1]) * cap, abs=0.021)
        for _ in range(200):  # no vector of length 1 does better
            v = rng.standard_normal(items)
            v /= np.linalg.norm(v)
            assert float(np.minimum(unit @ v, cap).sum()) <= value + 0.0201
