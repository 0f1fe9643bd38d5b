"""The private statistics behind the consensus, and what is fitted to them: :mod:`~peerveil.rankings.consensus` says why."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from peerveil.core.arrays import Floats, Ints
from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.guarantee import read_epsilon
from peerveil.core.randomness import MaxNormNoise, PermutohedronNoise, Randomness, laplace_scale
from peerveil.rankings.ballots import MOST_HELD, Ballots
from peerveil.rankings.comparisons import judged_covariance, modeled_covariance
from peerveil.rankings.intervals import (
    SAMPLED,
    SEED,
    SIMULATED,
    component_bounds,
    luce_rows,
    modeled_strengths,
    noise_errors,
    normal_errors,
    place_covariance,
    simultaneous,
    some_rows,
)
from peerveil.rankings.kernels import add_places, add_signs, complete_at_random
from peerveil.rankings.models import (
    fit_pairs,
    fit_plackett_luce,
    kemeny_order,
    luce_scores,
    strength_slope,
    strengths_of,
)

if TYPE_CHECKING:
    from fractions import Fraction

    from peerveil.core.exact import Number

MOST_KEMENY: Final = 20  # items of a private Kemeny order: one count per pair


def noise_for(method: str, items: int, epsilon: Number, weight_cap: int | None = None) -> Any:
    """The noise that a method's statistic gets; refuses what cannot be made private."""
    per_unit = read_epsilon(epsilon) / (weight_cap or 1)
    if method != "kemeny":
        return PermutohedronNoise(items, per_unit)
    if items > MOST_KEMENY:
        raise BadInput("method", got="kemeny", want=f"another one for more than {MOST_KEMENY} items, or no epsilon")
    return MaxNormNoise(items * (items - 1) // 2, per_unit / 2)


@dataclass(frozen=True)
class Fit:
    """Scores of the items with simulated errors; an order or bounds of ranks where scores do not decide them."""

    scores: Floats
    errors: Floats
    strengths: Floats
    noise_sd: float | None = None
    order: Ints | None = None
    bounds: tuple[Ints, Ints] | None = None
    proven: bool | None = None


@dataclass(frozen=True)
class _Statistic(ABC):
    """A statistic of the rankings, its noise, and what the sampling errors are taken from."""

    sums: Ints
    noise: Any
    rows: Any  # ranks of some people; None with an epsilon
    last: bool
    total: int  # the sum of weights
    effective: float  # as many people with equal weights have the same sampling error
    blocks: list[tuple[Any, Any]] = field(default_factory=list)
    _most: ClassVar[int]  # rankings of which sampling errors are taken

    @classmethod
    def of(cls, ballots: Ballots, method: str, epsilon: Fraction | None) -> Any:
        """Add up; refuses what cannot be made private before anything is spent."""
        keep = method == "plackett-luce"
        noise = None if epsilon is None else noise_for(method, ballots.items, epsilon, ballots.weight_cap)
        if keep and epsilon is None and not ballots.held:
            got = Verbatim(f"more than {MOST_HELD:,} ranks")
            raise BadInput("rankings", got=got, want="fewer, or method='bradley-terry', which reads them once")
        sums, rows, blocks = np.zeros(cls._shape(ballots.items), dtype=np.int64), [], []
        for ranks, counts in ballots.blocks():
            cls._add(ranks, counts, ballots.last, sums)
            if epsilon is None:
                rows.append(some_rows(ranks, counts if ballots.weight_cap is None else np.ones_like(counts), cls._most))
            if keep and epsilon is None:
                blocks.append((ranks, counts))
        total, squares = (sum(number * weight**power for weight, number in ballots.weights) for power in (1, 2))
        sample = np.concatenate(rows) if rows else None
        return cls(sums, noise, sample, ballots.last, total, total**2 / squares, blocks)

    @staticmethod
    @abstractmethod
    def _shape(items: int) -> tuple[int, ...]:
        """Of the sums."""

    @staticmethod
    @abstractmethod
    def _add(ranks: Any, counts: Any, last: bool, sums: Ints) -> None:
        """Take in rankings."""

    @abstractmethod
    def fit(self, method: str, level: float, source: Randomness) -> Fit:
        """Draw the noise, if there is any, and fit the model."""


class PlaceSums(_Statistic):
    """Sums of twice the places."""

    _most = SAMPLED

    @staticmethod
    def _shape(items: int) -> tuple[int, ...]:
        return (items,)

    @staticmethod
    def _add(ranks: Any, counts: Any, last: bool, sums: Ints) -> None:
        add_places(ranks, counts, sums, last)

    def fit(self, method: str, level: float, source: Randomness) -> Fit:  # noqa: ARG002
        """Scores and strengths."""
        m = self.sums.size
        noise = self.noise
        sums = self.sums if noise is None else self.sums + noise.draw(source)
        mean_places = sums / (2 * self.total)
        strengths = strengths_of(mean_places)
        if noise is None and method == "plackett-luce":
            return self._likelihood(source)
        if noise is None:
            covariance, freedom = place_covariance(self.rows, last=self.last), max(self.effective - 1, 1.0)
            errors = normal_errors(covariance / self.effective, freedom=freedom)
        else:
            modeled = modeled_strengths(mean_places, (noise.sd / (2 * self.total)) ** 2)
            covariance = place_covariance(luce_rows(modeled, 5_000))
            errors = normal_errors(covariance / self.effective) + noise_errors(noise, self.total)
        sd = None if noise is None else noise.sd / 2
        if method == "borda":
            return Fit((m - 1) / 2 - mean_places, errors, strengths, sd)
        return Fit(strengths, errors @ strength_slope(strengths), strengths, sd)

    def _likelihood(self, source: Randomness) -> Fit:
        """Plackett and Luce's model by maximum likelihood, ties broken at random; a sandwich for the covariance."""
        seed = int(source.integers(0, 2**31 - 1, 1)[0])

        def ordered(ranks: Any) -> Any:  # ties are broken; what was left out stays out
            return np.where(ranks < 0, -1, complete_at_random(ranks, True, seed))

        blocks = [(ordered(ranks), counts.astype(np.float64)) for ranks, counts in self.blocks]
        strengths = fit_plackett_luce(blocks, self.sums.size, last=self.last)
        some = ordered(self.rows)[:: max(1, len(self.rows) // 2_000)]
        gradients, information = luce_scores(some, self.last, np.exp(strengths))
        inverse = np.linalg.pinv(information / len(some))
        covariance = inverse @ np.cov(gradients, rowvar=False) @ inverse
        return Fit(
            strengths, normal_errors(covariance / self.effective, freedom=max(self.effective - 1, 1.0)), strengths
        )


class PairSums(_Statistic):
    """Sums of the signs of all pairs."""

    _most = 1_000

    @staticmethod
    def _shape(items: int) -> tuple[int, ...]:
        return (items, items)

    @staticmethod
    def _add(ranks: Any, counts: Any, last: bool, sums: Ints) -> None:
        add_signs(ranks, counts, last, sums)

    def fit(self, method: str, level: float, source: Randomness) -> Fit:  # noqa: ARG002
        """Kemeny's order."""
        m = len(self.sums)
        first, second = np.triu_indices(m, 1)
        pairs = self.sums[first, second].astype(np.float64)
        rng, rows, noise = np.random.default_rng(SEED), self.rows, self.noise
        if noise is not None:
            pairs += noise.draw(source)[0]
        margins = np.zeros((m, m))
        margins[first, second] = pairs / self.total
        margins -= margins.T
        scores = margins.sum(axis=1) / 2
        noise_variance = 0.0 if noise is None else noise.variance * (m - 1) / (4 * self.total**2)
        strengths = strengths_of((m - 1) / 2 - scores)
        if rows is None:
            rows = luce_rows(modeled_strengths((m - 1) / 2 - scores, noise_variance), self._most)
        signs = np.array([_signs(row, self.last)[first, second] for row in rows], dtype=np.float64)
        draws = SIMULATED if first.size <= 200 else 1_000
        # sums of people's signs with normal weights have the covariance of the sum
        errors = (
            rng.standard_normal((draws, len(signs)))
            @ (signs - signs.mean(axis=0))
            / np.sqrt(len(signs) * self.effective)
        )
        if noise is not None:
            radius = rng.choice(noise.radii.size, size=(draws, 1), p=noise.radii)
            errors += radius * rng.uniform(-1, 1, errors.shape) / self.total
        surely = np.zeros((m, m), dtype=np.bool_)
        half = simultaneous(errors, level)
        surely[first, second], surely[second, first] = pairs / self.total > half, -pairs / self.total > half
        order, proven = kemeny_order(margins)
        by_item = np.zeros((len(errors), m))
        for pair, (i, j) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
            by_item[:, i] += errors[:, pair] / 2
            by_item[:, j] -= errors[:, pair] / 2
        sd = None if noise is None else float(np.sqrt(noise.variance))
        return Fit(scores, by_item, strengths, sd, order, component_bounds(surely), proven)


def _signs(row: Any, last: bool) -> Ints:
    sums = np.zeros((row.size, row.size), dtype=np.int64)
    add_signs(row[None], np.ones(1, dtype=np.int64), last, sums)
    return sums


def noisy_wins(counts: Ints, per_judge: int, epsilon: Fraction, source: Randomness) -> Ints:
    """Twice the counts of wins with noise for everything that one judge said; the diagonal stays 0."""
    noisy = source.discrete_laplace(counts, scale=laplace_scale(sensitivity=4 * per_judge, epsilon=epsilon))
    np.fill_diagonal(noisy, 0)
    return noisy


def fit_comparisons(counts: Ints, used: Any, per_judge: int, epsilon: Fraction | None, source: Randomness) -> Fit:
    """Bradley and Terry's strengths from how often each item was preferred to each other one (twice)."""
    if epsilon is None:
        strengths, slope = fit_pairs(counts / 2)
        return Fit(strengths, normal_errors(judged_covariance(used, strengths, slope)), strengths)
    noisy = noisy_wins(counts, per_judge, epsilon, source) / 2
    scale = laplace_scale(sensitivity=4 * per_judge, epsilon=epsilon)
    strengths, slope = fit_pairs(noisy)
    covariance = modeled_covariance(strengths, slope, 2 * (scale / 2) ** 2)
    return Fit(strengths, normal_errors(covariance), strengths, scale / np.sqrt(2))
