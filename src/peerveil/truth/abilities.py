"""What the tallies say about workers: posteriors of abilities on a grid, with the known channel inside.

A worker of ability a gives the true class with probability a and each other class with (1 - a)/(k - 1). The response sends
an answer as given with probability ``keep`` and as each other class with probability ``other``. So a report shows the true
class with probability p(a) = other + (keep - other) a, equation (22) of the paper for k = 2, and each other class with
(1 - p(a))/(k - 1). The prior is put on a, not on p: that is what makes strong privacy workable (docs/truth.md).

In the mean-field approximation the posterior of an ability, given the expected number h of reports that show the true class
out of n, is proportional to prior(a) p(a)^h ((1 - p(a))/(k - 1))^(n - h), exactly. It is one-dimensional, so it is summed
over a grid fine enough for the largest n. What a task needs of a worker is the expected logarithm of the two probabilities.

The prior is Beta(s m, s (1 - m)). Its strength s is fixed by the channel (:func:`prior_strength`); its mean m, which all
workers share, is chosen by the same lower bound that everything else climbs (type-II likelihood), with Beta(4, 2) on m.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_MEANS: Final = np.linspace(0.02, 0.98, 97)
_ON_MEAN: Final = (4.0, 2.0)
_OFFSETS: Final = np.linspace(-2.5, 2.5, 41)  # of the logit of the ability, by class, in the model of a common bias
_CHUNK: Final = 4_000_000  # grid cells at once
STRENGTH: Final = 6.0


@dataclass(frozen=True)
class Channel:
    """The response as the estimators see it: how often a report shows the answer, and each other class."""

    keep: float
    other: float
    k: int

    @classmethod
    def of(cls, epsilon: float | None, k: int) -> Channel:
        """The channel of a randomized response; ``None`` is no randomisation.

        >>> channel = Channel.of(1.0, 2)
        >>> round(channel.keep, 4), round(channel.contrast, 4)
        (0.7311, 0.4621)
        """
        if epsilon is None:
            return cls(1.0, 0.0, k)
        odds = math.exp(min(epsilon, 700.0))
        return cls(odds / (odds + k - 1), 1 / (odds + k - 1), k)

    @property
    def contrast(self) -> float:
        """Keep - other: how much of an answer is left in its report, from 0 to 1."""
        return self.keep - self.other

    @property
    def matrix(self) -> Floats:
        """``matrix[answer, report]``."""
        full = np.full((self.k, self.k), self.other)
        np.fill_diagonal(full, self.keep)
        return full


def prior_strength(channel: Channel) -> float:
    """How many answers the prior on an ability is worth: 6, and more the less of an answer is left in a report, steeply so where
    that is less than a quarter.

    At small epsilon the mean-field posterior takes noise for skill; a stronger prior keeps it near majority voting, of which
    an infinitely strong one is a smooth version (all abilities equal).
    """
    left = max(channel.contrast, 1e-3)
    return STRENGTH / math.sqrt(left) * max(1.0, 0.25 / left)


@dataclass
class Summary:
    """What a model says after looking at tallies: the weights of reports, and how much the prior and entropy cost."""

    table: Floats | None  # [w, r, z]
    right: Floats | None  # one-coin: [w]
    wrong: Floats | None
    cost: float  # objective = (sum of log normalisers of tasks) - cost
    ability: Floats
    error: Floats
    details: dict[str, Any] = field(default_factory=dict)


class GridModel:
    """One-coin, two-coin, and one-coin with a common bias of the crowd, by posteriors on a grid.

    Parameters
    ----------
    channel, loads
        The channel, and how many reports each worker sent.
    groups
        ``"worker"``: one ability a worker (one-coin). ``"class"``: one for each true class (two-coin).
        ``"offset"``: one ability a worker whose logit is shifted, for everybody alike, by class.
    strength
        Of the prior; ``free_means`` gives every class a prior mean of its own.
    history
        Right and wrong answers of each worker in earlier work, two columns.
    cells
        Of the grid; by default fine enough for the busiest worker.
    """

    def __init__(
        self,
        channel: Channel,
        loads: NDArray[Any],
        groups: str = "worker",
        *,
        strength: float | None = None,
        free_means: bool = False,
        history: Floats | None = None,
        cells: int | None = None,
    ) -> None:
        self.channel, self.groups, self.free_means = channel, groups, free_means
        natural = STRENGTH / 3 if groups == "class" else prior_strength(channel)  # biases differ more than abilities
        self.strength = natural if strength is None else float(strength)
        self.history = history
        n = cells or int(np.clip(4 * math.sqrt(float(loads.max(initial=1))), 41, 801))
        self.grid = (np.arange(n) + 0.5) / n
        self.log_right, self.log_wrong = self._logs(self.grid)
        a, b = self.strength * _MEANS[:, None], self.strength * (1 - _MEANS[:, None])
        raw = (a - 1) * np.log(self.grid) + (b - 1) * np.log1p(-self.grid)
        self.log_prior = _log_shares(raw)  # [mean, grid]
        # hyperpriors, relative to their peaks: models with more of them must not pay for the fineness of our grids
        self.on_mean = (_ON_MEAN[0] - 1) * np.log(_MEANS) + (_ON_MEAN[1] - 1) * np.log1p(-_MEANS)
        self.on_mean = self.on_mean - self.on_mean.max()
        self.on_offset = -0.5 * _OFFSETS**2
        self.means = np.full(channel.k, int(np.abs(_MEANS - 0.7).argmin()))
        shifted = 1 / (1 + np.exp(-(np.log(self.grid / (1 - self.grid)) + _OFFSETS[:, None])))
        self.shift_right, self.shift_wrong = self._logs(shifted) if groups == "offset" else (raw, raw)
        self.offsets = np.full(channel.k, _OFFSETS.size // 2)

    @property
    def is_coin(self) -> bool:
        """Whether only the number of hits matters, not their class."""
        return self.groups == "worker"

    def _logs(self, ability: Floats) -> tuple[Floats, Floats]:
        shown = np.clip(self.channel.other + self.channel.contrast * ability, 1e-300, 1 - 1e-16)
        return np.log(shown), np.log((1 - shown) / (self.channel.k - 1))

    def look(self, hits: Floats, totals: Floats) -> Summary:
        """Update all posteriors. ``hits`` and ``totals``: [w] for one-coin, else [w, class]."""
        k, workers = self.channel.k, hits.shape[0]
        if self.groups == "offset":
            return self._look_offset(hits, totals)
        columns = 1 if self.is_coin else k
        hits, totals = hits.reshape(workers, columns), totals.reshape(workers, columns)
        right, wrong, mean, square = (np.empty((workers, columns)) for _ in range(4))
        cost = 0.0
        pooled = np.zeros((columns, self.grid.size))
        for z in range(columns):
            prior = self.log_prior[self.means[z]]
            for part in _parts(workers, self.grid.size):
                weight, log_sum = self._posterior(
                    hits[part, z], totals[part, z], self.log_right, self.log_wrong, prior, part
                )
                right[part, z], wrong[part, z] = weight @ self.log_right, weight @ self.log_wrong
                mean[part, z], square[part, z] = weight @ self.grid, weight @ self.grid**2
                pooled[z] += weight.sum(axis=0)
                misses = totals[part, z] - hits[part, z]
                expected = hits[part, z] @ right[part, z] + misses @ wrong[part, z]
                cost += float(expected) - log_sum
        cost -= float(self.on_mean[self.means].sum() if self.free_means else self.on_mean[self.means[0]])
        self._choose_means(pooled)
        spread = np.sqrt(np.maximum(square - mean**2, 0))
        details = {"by_class": mean, "prior_mean": _MEANS[self.means[:columns]].tolist()}
        if self.is_coin:
            return Summary(None, right[:, 0], wrong[:, 0], cost, mean[:, 0], spread[:, 0], details)
        table = np.repeat(wrong[:, None, :], k, axis=1)
        table[:, np.arange(k), np.arange(k)] = right
        error = np.sqrt((spread**2).sum(axis=1)) / k
        return Summary(table, None, None, cost, mean.mean(axis=1), error, details)

    def _posterior(
        self, hits: Floats, totals: Floats, right: Floats, wrong: Floats, prior: Floats, part: slice
    ) -> tuple[Floats, float]:
        """Normalised weights on the grid, and the sum of log normalisers."""
        weight = np.multiply.outer(hits, right) if right.ndim == 1 else hits @ right
        weight += np.multiply.outer(totals - hits, wrong) if right.ndim == 1 else (totals - hits) @ wrong
        weight += prior
        if self.history is not None:
            past = self.history[part]
            weight += np.multiply.outer(past[:, 0], np.log(self.grid))
            weight += np.multiply.outer(past[:, 1], np.log1p(-self.grid))
        top = weight.max(axis=1, keepdims=True)
        np.exp(weight - top, out=weight)
        total = weight.sum(axis=1, keepdims=True)
        weight /= total
        return weight, float(top.sum() + np.log(total).sum())

    def _choose_means(self, pooled: Floats) -> None:
        """The prior means under which the posteriors are likeliest: the bound cannot fall by it."""
        if self.free_means:
            best = (pooled @ self.log_prior.T + self.on_mean).argmax(axis=1)
            self.means = np.resize(best, self.channel.k)
        else:
            self.means = np.full(self.channel.k, int((self.log_prior @ pooled.sum(axis=0) + self.on_mean).argmax()))

    def _look_offset(self, hits: Floats, totals: Floats) -> Summary:
        k, workers = self.channel.k, hits.shape[0]
        right, wrong = self.shift_right[self.offsets], self.shift_wrong[self.offsets]  # [class, grid]
        out_right, out_wrong = np.empty((workers, k)), np.empty((workers, k))
        mean, square = np.empty(workers), np.empty(workers)
        pooled, seen_right, seen_wrong = (np.zeros((n, self.grid.size)) for n in (1, k, k))
        cost = 0.0
        for part in _parts(workers, self.grid.size):
            h, misses = hits[part], totals[part] - hits[part]
            weight, log_sum = self._posterior(h, totals[part], right, wrong, self.log_prior[self.means[0]], part)
            out_right[part], out_wrong[part] = weight @ right.T, weight @ wrong.T
            mean[part], square[part] = weight @ self.grid, weight @ self.grid**2
            pooled[0] += weight.sum(axis=0)
            seen_right += h.T @ weight
            seen_wrong += misses.T @ weight
            cost += float((h * out_right[part]).sum() + (misses * out_wrong[part]).sum()) - log_sum
        cost -= float(self.on_mean[self.means[0]] + self.on_offset[self.offsets].sum())
        self._choose_means(pooled)
        value = self.shift_right @ seen_right.T + self.shift_wrong @ seen_wrong.T + self.on_offset[:, None]
        self.offsets = value.argmax(axis=0)
        table = np.repeat(out_wrong[:, None, :], k, axis=1)
        table[:, np.arange(k), np.arange(k)] = out_right
        spread = np.sqrt(np.maximum(square - mean**2, 0))
        return Summary(table, None, None, cost, mean, spread, {"offsets": _OFFSETS[self.offsets].tolist()})


def _log_shares(raw: Floats) -> Floats:
    """Logarithms of weights, normalised along the last axis."""
    top = raw.max(axis=-1, keepdims=True)
    return np.asarray(raw - top - np.log(np.exp(raw - top).sum(axis=-1, keepdims=True)))


def _parts(workers: int, width: int) -> list[slice]:
    size = max(1, _CHUNK // width)
    return [slice(first, min(first + size, workers)) for first in range(0, workers, size)]
