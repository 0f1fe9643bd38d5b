"""Exact privacy losses of the paper's tests: as printed (infinite, and 1.2 where 1/3 is claimed) and repaired."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from peerveil.papers.rankings.printed import (
    bucket_batches_as_printed,
    trunc_reject_probability_as_printed,
    unif_as_printed,
)
from peerveil.rankings.adversary import loss_of_bits
from peerveil.rankings.central import pair_sums

if TYPE_CHECKING:
    from peerveil.papers.rankings.repaired import Bucket, Trunc


def bucket_loss(test: Bucket, coin: Fraction | None = None) -> float:
    """The exact loss of the repaired bucketed test: R rejecting batches against R + 1, for every R."""
    mixed = test.coin if coin is None else coin

    def chance(r: int) -> Fraction:
        return mixed + (1 - 2 * mixed) * Fraction(r, test.batches)

    return max(loss_of_bits(chance(r), chance(r + 1)).epsilon for r in range(test.batches))


def bucket_loss_as_printed(rankings: int, items: int, epsilon: float, level: float) -> float:
    """The loss of BUNIF as printed between agreement in one batch and chance in all: infinite where one can reject."""
    batches = bucket_batches_as_printed(epsilon)
    size = rankings // batches
    up, down = np.arange(items), np.arange(items)[::-1]
    halves = np.array([up if i % 2 else down for i in range(size)])
    agreed = np.array([up] * size)
    rejects = [unif_as_printed(pair_sums(rows), size, items, level)[2] for rows in (halves, agreed)]
    # one batch at random decides; on the way from chance to agreement, one ranking at a time, its answer turns at one step
    return loss_of_bits(*(int(rejecting) / batches for rejecting in rejects)).epsilon


def trunc_loss_as_printed(
    rankings: int = 1000,
    items: int = 100,
    bias: float = 0.1,
    epsilon: float = 1 / 3,
    level: float = 0.05,
    size: int = 34,
) -> float:
    """The loss of TRUNC as printed between pair sums +-size and +-(size - 2), signs alternating: one ranking changed."""
    signs = np.where(np.arange(items // 2) % 2, 1, -1)
    chances = [
        trunc_reject_probability_as_printed(signs * s, rankings, items, bias, epsilon, level) for s in (size - 2, size)
    ]
    return loss_of_bits(*chances).epsilon


def trunc_loss(test: Trunc, steps: int = 400) -> float:
    """The largest loss of the repaired TRUNC found on equal pair sums s against s + 2, for s across the whole range."""
    worst = 0.0
    top = min(test.rankings - 2, math.ceil(math.sqrt(test.rankings * (test.pairs + test.width) / test.pairs)) + 4)
    for s in np.unique(np.linspace(test.rankings % 2, top, steps).astype(int)):
        sums = np.full(test.pairs, s - (s - test.rankings) % 2)
        chances = [test.reject_probability(sums + shift) for shift in (0, 2)]
        worst = max(worst, loss_of_bits(*chances).epsilon)
    return worst
