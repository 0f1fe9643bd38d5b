"""One-coin and two-coin models: posteriors of abilities on a grid, with the known channel inside."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from peerveil.core.arrays import Floats, Ints
from peerveil.truth.em import CoinWeights, Counted, EMModel, ExpectedCounts, Parameters
from peerveil.truth.models import STRENGTH, Channel, ClassPrior

BIAS: Final = 5.0  # answers that a general ability is worth for the ability in a class
_MEANS: Final = np.linspace(0.02, 0.98, 97)  # of abilities
_BETA_OF_MEAN: Final = (4.0, 2.0)
_OFFSETS: Final = np.linspace(-2.5, 2.5, 41)  # of the logit of the ability, by class, in the model of a common bias
_MAX_MEAN_STEPS: Final = 4  # that the prior mean may move in one iteration
_GENERAL_CELLS: Final = 41  # of the grid of general abilities, where there is another for the classes
_CHUNK_CELLS: Final = 4_000_000  # grid cells at once


class GridModel(EMModel):
    """One-coin and two-coin, with or without a bias that all workers share, by posteriors of abilities on a grid.

    The prior is put on the ability a, not on p(a): that is what makes strong privacy workable (docs/truth.md). In the mean-field
    approximation the posterior of an ability, given h expected correct answers of n, is proportional to
    prior(a) p(a)^h ((1 - p(a))/(k - 1))^(n - h), exactly. It is one-dimensional, so it is summed over a grid fine enough for the
    largest n. A task needs the expected logarithms of the two probabilities.

    A worker's general ability u is Beta(s m, s (1 - m)). One-coin: it is the ability in every class. Two-coin: the ability in a
    class is Beta(b u, b (1 - u)), the same b for all; large b is one-coin, and with small b a worker's ability in one class says
    little of that in another. The mean m, which all workers share, is chosen by the same lower bound (type-II likelihood), with
    Beta(4, 2) on m; s too (:mod:`peerveil.truth.choose`). A large s makes all abilities equal: private majority voting.

    Parameters
    ----------
    channel, class_prior, loads
        The channel, the shares of the classes, and the number of answers of each worker.
    strength
        How many answers the prior on a general ability is worth (s above).
    bias
        How many answers a general ability is worth for the ability in a class (b above); ``None`` is one-coin.
    shift
        Whether the logits of abilities are shifted, for everybody alike, by class.
    mean
        Where the search for the prior mean begins.
    history : [worker, 2], optional
        Correct and wrong answers of each worker in earlier work.
    cells
        Of the grid; by default fine enough for the busiest worker.
    """

    def __init__(
        self,
        channel: Channel,
        class_prior: ClassPrior,
        loads: Ints,
        strength: float = STRENGTH,
        bias: float | None = None,
        *,
        shift: bool = False,
        mean: float = 0.7,
        history: Floats | None = None,
        cells: int | None = None,
    ) -> None:
        self.channel, self.class_prior, self.history = channel, class_prior, history
        self.strength, self.bias, self.shift = float(strength), bias, shift
        self.counted: Counted = "correct" if bias is None and not shift else "correct by class"
        self.grid = _grid(cells or int(np.clip(4 * math.sqrt(float(loads.max(initial=1))), 41, 801)))
        self.general = self.grid if bias is None else _grid(_GENERAL_CELLS)
        self.log_prior = _log_beta(_MEANS, self.strength, self.general)  # [mean, general]
        self.in_class = None if bias is None else np.exp(_log_beta(self.general, bias, self.grid))  # [general, grid]
        # hyperpriors, relative to their peaks: models with more of them must not pay for the fineness of our grids
        on_mean = (_BETA_OF_MEAN[0] - 1) * np.log(_MEANS) + (_BETA_OF_MEAN[1] - 1) * np.log1p(-_MEANS)
        self.on_mean = on_mean - on_mean.max()
        self.mean = int(np.abs(_MEANS - mean).argmin())
        offsets = _OFFSETS if shift else np.zeros(1)
        shifted = 1 / (1 + np.exp(-(np.log(self.grid / (1 - self.grid)) + offsets[:, None])))
        shown = np.clip(channel.other + channel.contrast * shifted, 1e-300, 1 - 1e-16)
        self.log_correct, self.log_wrong = np.log(shown), np.log((1 - shown) / (channel.k - 1))  # [offset, grid]
        self.on_offset = -0.5 * offsets**2
        self.offsets = np.full(channel.k, offsets.size // 2)

    def m_step(self, counts: ExpectedCounts) -> Parameters:
        """Update the prior mean, all posteriors of abilities, and the common shift."""
        k, workers = self.channel.k, len(counts.loads)
        hits = counts.by_worker.reshape(workers, -1)
        misses, columns = counts.loads.reshape(workers, -1) - hits, hits.shape[1]
        log_correct, log_wrong = self.log_correct[self.offsets[:columns]], self.log_wrong[self.offsets[:columns]]
        chunks = _chunks(workers, columns * self.grid.size)
        scores = (self._score(hits[part], misses[part], log_correct, log_wrong, part) for part in chunks)
        only_score = next(scores) if len(chunks) == 1 else None
        ratio = self._update_mean(scores if only_score is None else [only_score])
        correct, wrong, mean, square = (np.empty((workers, columns)) for _ in range(4))
        hits_on_grid, misses_on_grid = np.zeros((2, columns, self.grid.size))
        penalty = 0.0
        for part in chunks:
            h, m = hits[part], misses[part]
            score = self._score(h, m, log_correct, log_wrong, part) if only_score is None else only_score
            general = score.general * ratio
            total = general.sum(axis=1, keepdims=True)
            general /= total
            for z in range(columns):
                q = self._posterior_in_class(general, score, z)
                correct[part, z], wrong[part, z] = q @ log_correct[z], q @ log_wrong[z]
                mean[part, z], square[part, z] = q @ self.grid, q @ self.grid**2
                if self.shift:
                    hits_on_grid[z] += h[:, z] @ q
                    misses_on_grid[z] += m[:, z] @ q
            expected = float((h * correct[part]).sum() + (m * wrong[part]).sum())
            penalty += expected - score.log_scale - float(np.log(total).sum())
        penalty -= float(self.on_mean[self.mean] + self.on_offset[self.offsets].sum())
        if self.shift:  # the shifts under which the posteriors are likeliest: the bound cannot fall by it
            value = self.log_correct @ hits_on_grid.T + self.log_wrong @ misses_on_grid.T + self.on_offset[:, None]
            self.offsets = np.asarray(value.argmax(axis=0))
        variance = np.maximum(square - mean**2, 0)
        weights = CoinWeights(correct[:, 0], wrong[:, 0]) if columns == 1 else CoinWeights(correct, wrong)
        log_prior, prior_penalty = self.class_prior.m_step(counts.by_class)
        prior_strength = self.strength if self.bias is None else self.bias
        return Parameters(
            weights,
            log_prior,
            penalty + prior_penalty,
            abilities=mean.mean(axis=1),
            standard_errors=np.sqrt(variance.sum(axis=1)) / columns,
            details={"by_class": mean, "prior_mean": float(_MEANS[self.mean]), "prior_strength": prior_strength},
        )

    def _score(self, hits: Floats, misses: Floats, log_correct: Floats, log_wrong: Floats, part: slice) -> _Score:
        """Posteriors of general abilities under the present prior mean, not normalized."""
        score = self._log_history(part) + self.log_prior[self.mean]
        if self.in_class is None:
            return _Score(*_scaled_exp(score + hits @ log_correct + misses @ log_wrong), [], [])
        # given u the classes are independent: a product of sums over abilities, then a sum over u
        by_class, inside, log_scale = [], [], 0.0
        for z in range(hits.shape[1]):
            raw = np.multiply.outer(hits[:, z], log_correct[z]) + np.multiply.outer(misses[:, z], log_wrong[z])
            likelihood, log_scale_of_class = _scaled_exp(raw)
            by_class.append(likelihood)
            inside.append(np.maximum(likelihood @ self.in_class.T, 1e-300))
            score = score + np.log(inside[z])
            log_scale += log_scale_of_class
        general, log_scale_of_general = _scaled_exp(score)
        return _Score(general, log_scale + log_scale_of_general, by_class, inside)

    def _posterior_in_class(self, general: Floats, score: _Score, z: int) -> Floats:
        """The posteriors of abilities in a class."""
        if self.in_class is None:
            return general
        q = score.by_class[z] * ((general / score.inside[z]) @ self.in_class)
        return np.asarray(q / q.sum(axis=1, keepdims=True))

    def _update_mean(self, scores: Iterable[_Score]) -> Floats:
        """Move to the prior mean nearby under which the counts are likeliest; returns the ratio of the new and old prior."""
        near = np.arange(max(0, self.mean - _MAX_MEAN_STEPS), min(_MEANS.size, self.mean + _MAX_MEAN_STEPS + 1))
        ratios = np.exp(np.clip(self.log_prior[near] - self.log_prior[self.mean], -600, 600))
        value = self.on_mean[near].copy()
        for score in scores:
            value += np.log(np.maximum(score.general @ ratios.T, 1e-300)).sum(axis=0)
        best = int(value.argmax())
        self.mean = int(near[best])
        return np.asarray(ratios[best])

    def _log_history(self, part: slice) -> Floats:
        """The log-likelihood of earlier work, over general abilities."""
        if self.history is None:
            return np.zeros((1, self.general.size))
        correct, wrong = self.history[part].T
        return np.asarray(correct[:, None] * np.log(self.general) + wrong[:, None] * np.log1p(-self.general))


@dataclass(slots=True)
class _Score:
    """Posteriors of general abilities, scaled; ``log_scale`` is the sum of logarithms of the scales.

    For two-coin also the likelihoods of abilities in each class, and their sums over these given the general ability.
    """

    general: Floats
    log_scale: float
    by_class: list[Floats]
    inside: list[Floats]


def _grid(cells: int) -> Floats:
    return (np.arange(cells) + 0.5) / cells


def _log_beta(means: Floats, strength: float, grid: Floats) -> Floats:
    """Logarithms of Beta weights on a grid, one row per mean."""
    raw = (strength * means[:, None] - 1) * np.log(grid) + (strength * (1 - means[:, None]) - 1) * np.log1p(-grid)
    top = raw.max(axis=-1, keepdims=True)
    return np.asarray(raw - top - np.log(np.exp(raw - top).sum(axis=-1, keepdims=True)))


def _scaled_exp(score: Floats) -> tuple[Floats, float]:
    """Exponentials of rows, each scaled to at most 1, and the sum of the logarithms of the scales."""
    top = score.max(axis=1, keepdims=True)
    return np.exp(score - top), float(top.sum())


def _chunks(workers: int, width: int) -> list[slice]:
    size = max(1, _CHUNK_CELLS // width)
    return [slice(first, min(first + size, workers)) for first in range(0, workers, size)]
