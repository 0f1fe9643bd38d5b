"""Simultaneous intervals of scores and ranks, from simulated errors: sampling of people, and public noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.core.arrays import Floats, Ints
from peerveil.rankings.kernels import places_of
from peerveil.rankings.models import strengths_of, tie_components

if TYPE_CHECKING:
    from peerveil.core.randomness import PermutohedronNoise

SIMULATED: Final = 4_000  # errors of the scores
SAMPLED: Final = 20_000  # rankings whose covariance is taken
SEED: Final = 1785  # public: equal sums give equal intervals


def some_rows(ranks: Any, people: Ints, most: int = SAMPLED) -> Any:
    """The ranks of some people, every so many."""
    step = max(1, len(ranks) // most)
    repeated = np.repeat(ranks[::step], np.minimum(people[::step], most), axis=0)
    return repeated[:: max(1, len(repeated) // most)]


def luce_rows(strengths: Floats, number: int) -> Ints:
    """Rankings of Plackett and Luce's model: the order of strengths with Gumbel noise."""
    gumbel = np.random.default_rng(SEED).gumbel(size=(number, strengths.size))
    return np.asarray(np.argsort(np.argsort(-(strengths + gumbel), axis=1), axis=1))


def modeled_strengths(mean_places: Floats, noise_variance: float) -> Floats:
    """Strengths for noisy mean ranks, shrunken for the noise in them."""
    away = (mean_places.size - 1) / 2 - mean_places
    signal = max(0.0, 1 - noise_variance * mean_places.size / max(float(away @ away), 1e-300))
    return strengths_of(mean_places, shrink=signal)


def place_covariance(rows: Any, *, last: bool = True) -> Floats:
    """The covariance of the places of one person."""
    return np.atleast_2d(np.cov(places_of(rows, last) / 2, rowvar=False))


def normal_errors(covariance: Floats, *, freedom: float = np.inf) -> Floats:
    """Errors with this covariance; with few people, of whom it was taken, a little longer (Student's t)."""
    rng = np.random.default_rng(SEED)
    values, axes = np.linalg.eigh(covariance)
    errors = (rng.standard_normal((SIMULATED, values.size)) * np.sqrt(np.maximum(values, 0))) @ axes.T
    if np.isfinite(freedom):
        errors *= np.sqrt(freedom / rng.chisquare(freedom, size=(SIMULATED, 1)))
    return np.asarray(errors)


def noise_errors(noise: PermutohedronNoise, weight: float) -> Floats:
    """Errors of mean ranks by the noise of sums of twice the ranks; ``weight`` is the sum of weights."""
    return noise.simulate(np.random.default_rng(SEED + 1), SIMULATED) / (2 * weight)


def simultaneous(errors: Floats, level: float) -> Floats:
    """Half the lengths of intervals: a quantile of the largest error, each in units of its own deviation."""
    sd = np.maximum(errors.std(axis=0), 1e-12)
    return np.asarray(np.quantile((np.abs(errors) / sd).max(axis=1), level) * sd)


def rank_bounds(scores: Floats, errors: Floats, level: float) -> tuple[Ints, Ints]:
    """The best and the worst rank of each item, from simultaneous intervals of all differences of two scores."""
    m = scores.size
    first, second = np.triu_indices(m, 1)
    covariance = np.cov(errors, rowvar=False)
    sd = np.sqrt(
        np.maximum(covariance[first, first] + covariance[second, second] - 2 * covariance[first, second], 1e-24)
    )
    largest = np.zeros(len(errors))
    for start in range(0, first.size, 500):
        part = slice(start, start + 500)
        apart = np.abs(errors[:, first[part]] - errors[:, second[part]]) / sd[part]
        np.maximum(largest, apart.max(axis=1), out=largest)
    needed = np.quantile(largest, level) * sd
    apart = scores[first] - scores[second]
    better = np.zeros((m, m), dtype=np.bool_)  # [i, j]: i is surely better than j
    better[first, second] = apart > needed
    better[second, first] = -apart > needed
    return 1 + better.sum(axis=0), m - better.sum(axis=1)


def component_bounds(surely: Any) -> tuple[Ints, Ints]:
    """The ranks that each item can have in a Kemeny order, where ``surely[i, j]`` says that a majority surely prefers i to j.

    Whatever the other majorities are: each component comes as a whole before the next one in every best order.
    """
    best, worst = np.empty((2, len(surely)), dtype=np.int64)
    before = 0
    for members in tie_components(surely):
        best[members], worst[members] = before + 1, before + members.size
        before += members.size
    return best, worst
