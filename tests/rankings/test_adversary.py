"""Exact losses over all neighboring data sets, faults that the same code catches, and the attack itself."""

from __future__ import annotations

import math

import numpy as np
import pytest

from peerveil.rankings.adversary import (
    central_loss,
    guess_last_ranking,
    neighbor_pairs,
)
from peerveil.rankings.central import PRIVATE, ClippedNorm, PairsNorm, RankNorm
from peerveil.rankings.clipped import clipped_length


@pytest.mark.parametrize("method", PRIVATE)
@pytest.mark.parametrize(("k", "m"), [(2, 2), (3, 2), (2, 3), (3, 3), (4, 3), (2, 4)])
def test_no_neighbors_lose_more_than_epsilon(method: str, k: int, m: int) -> None:
    assert central_loss(method, k, m).passed


@pytest.mark.parametrize("method", PRIVATE)
def test_too_little_noise_is_caught(method: str) -> None:
    """The deliberate fault: noise for a third of the sensitivity."""
    assert not central_loss(method, 2, 4, shrink=1 / 3).passed


def test_sensitivities_are_reached() -> None:
    """They are not generous: the loss comes close to epsilon somewhere."""
    assert central_loss("rank-norm", 3, 3).noisy > 0.99
    assert central_loss("pairs-norm", 2, 4).noisy > 0.99


def test_the_clipped_norm_moves_by_at_most_one_plus_the_cap() -> None:
    worst = 0.0
    for cap in (0.2, 0.5, 0.8):
        for a, b in neighbor_pairs(3, 3):
            moved = abs(clipped_length(a, cap) - clipped_length(b, cap))
            worst = max(worst, moved / (1 + cap))
            assert moved <= 1 + cap + 0.02
    assert worst > 0.8  # and clipping at the plain sensitivity's half would not do
    rng = np.random.default_rng(1)
    for _ in range(40):
        m, k = int(rng.integers(3, 30)), int(rng.integers(2, 40))
        base = np.array([rng.permutation(m) for _ in range(k)])
        base[: k // 2] = np.arange(m)  # many agree, so that there is much to clip
        other = base.copy()
        other[-1] = np.arange(m)[::-1] if rng.random() < 0.5 else np.arange(m)
        cap = float(rng.uniform(0.05, 0.9))
        assert abs(clipped_length(base, cap) - clipped_length(other, cap)) <= 1 + cap + 0.02


def test_sensitivities_are_what_the_proofs_say() -> None:
    assert float(RankNorm(100, 10).sensitivity) == pytest.approx(2)
    assert float(PairsNorm(100, 11).sensitivity) == pytest.approx(2 * math.sqrt(5))
    test = ClippedNorm(1000, 100)
    assert float(test.sensitivity) == pytest.approx(1.02 + test.cap)
    assert test.cap < 0.45


def test_the_attack_stays_within_what_epsilon_allows() -> None:
    rng = np.random.default_rng(3)
    known = np.array([np.arange(20)] * 9 + [rng.permutation(20) for _ in range(10)])
    up = np.arange(20)
    for method in PRIVATE:
        right, most = guess_last_ranking(method, known, up, up[::-1], epsilon=1, trials=6000, seed=2)
        assert 0.5 - 5 * 0.0065 < right < most + 5 * 0.0065
    assert guess_last_ranking("rank-norm", known, up, up[::-1], epsilon=1, trials=6000, seed=2)[0] > 0.55
