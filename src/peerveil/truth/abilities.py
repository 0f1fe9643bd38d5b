"""What the tallies say about workers: posteriors of abilities on a grid, with the known channel inside.

A worker of ability a gives the true class with probability a and each other class with (1 - a)/(k - 1). The response sends
an answer as given with probability ``keep`` and as each other class with probability ``other``. So a report shows the true
class with probability p(a) = other + (keep - other) a, equation (22) of the paper for k = 2, and each other class with
(1 - p(a))/(k - 1). The prior is put on a, not on p: that is what makes strong privacy workable (docs/truth.md).

In the mean-field approximation the posterior of an ability, given the expected number h of reports that show the true class
out of n, is proportional to prior(a) p(a)^h ((1 - p(a))/(k - 1))^(n - h), exactly. It is one-dimensional, so it is summed
over a grid fine enough for the largest n. What a task needs of a worker is the expected logarithm of the two probabilities.

Abilities have two floors. A worker's general ability u is Beta(s m, s (1 - m)). One-coin: it is the ability in every
class. Two-coin: the ability in a class is Beta(b u, b (1 - u)), the same b for all; large b is one-coin, and with small b a
worker's ability in one class says little of that in another. The mean m, which all workers share, is chosen by the same lower
bound that everything else climbs (type-II likelihood), with Beta(4, 2) on m; s too (:mod:`peerveil.truth.choose`). A large s
makes all abilities equal: that is private majority voting.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    _Scored = tuple[Floats, float, list[Floats], list[Floats]]

_MEANS: Final = np.linspace(0.02, 0.98, 97)
_ON_MEAN: Final = (4.0, 2.0)
_OFFSETS: Final = np.linspace(-2.5, 2.5, 41)  # of the logit of the ability, by class, in the model of a common bias
_NEAR: Final = 4  # steps that the prior mean may move in one iteration
_GENERAL: Final = 41  # cells of the grid of general abilities, where there is another for the classes
_CHUNK: Final = 4_000_000  # grid cells at once
STRENGTH: Final = 6.0
BIAS: Final = 5.0


@dataclass(frozen=True)
class Channel:
    """The response as the estimators see it: how often a report shows the answer, and each other class."""

    keep: float
    other: float
    k: int

    @classmethod
    def of(cls, epsilon: float | None, k: int) -> Channel:
        """The channel of a randomized response; ``None`` is no randomization.

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


@dataclass
class Summary:
    """What a model says after looking at tallies: the weights of reports, and how much the prior and entropy cost."""

    table: Floats | None  # [w, r, z]
    right: Floats | None  # one-coin: [w]
    wrong: Floats | None
    cost: float  # objective = (sum of log normalizers of tasks) - cost
    ability: Floats
    error: Floats
    details: dict[str, Any] = field(default_factory=dict)


class GridModel:
    """One-coin and two-coin, with or without a bias that all workers share, by posteriors on a grid.

    Parameters
    ----------
    channel, loads
        The channel, and how many reports each worker sent.
    strength
        How many answers the prior on a general ability is worth (s above).
    bias
        How many answers a general ability is worth for the ability in a class (b above); ``None`` is one-coin.
    shift
        Whether the logits of abilities are shifted, for everybody alike, by class.
    mean
        Where the search for the prior mean begins.
    history
        Right and wrong answers of each worker in earlier work, two columns.
    cells
        Of the grid; by default fine enough for the busiest worker.
    """

    def __init__(
        self,
        channel: Channel,
        loads: NDArray[Any],
        strength: float = STRENGTH,
        bias: float | None = None,
        *,
        shift: bool = False,
        mean: float = 0.7,
        history: Floats | None = None,
        cells: int | None = None,
    ) -> None:
        self.channel, self.strength, self.bias, self.shift = channel, float(strength), bias, shift
        self.history = history
        n = cells or int(np.clip(4 * math.sqrt(float(loads.max(initial=1))), 41, 801))
        self.grid = (np.arange(n) + 0.5) / n
        self.general = self.grid if bias is None else (np.arange(_GENERAL) + 0.5) / _GENERAL
        self.log_prior = _log_beta(_MEANS, self.strength, self.general)  # [mean, general]
        self.own = None if bias is None else np.exp(_log_beta(self.general, bias, self.grid))  # [general, grid]
        # hyperpriors, relative to their peaks: models with more of them must not pay for the fineness of our grids
        self.on_mean = (_ON_MEAN[0] - 1) * np.log(_MEANS) + (_ON_MEAN[1] - 1) * np.log1p(-_MEANS)
        self.on_mean = self.on_mean - self.on_mean.max()
        self.mean = int(np.abs(_MEANS - mean).argmin())
        offsets = _OFFSETS if shift else np.zeros(1)
        shifted = 1 / (1 + np.exp(-(np.log(self.grid / (1 - self.grid)) + offsets[:, None])))
        shown = np.clip(channel.other + channel.contrast * shifted, 1e-300, 1 - 1e-16)
        self.log_right, self.log_wrong = np.log(shown), np.log((1 - shown) / (channel.k - 1))  # [offset, grid]
        self.on_offset = -0.5 * offsets**2
        self.offsets = np.full(channel.k, offsets.size // 2)

    @property
    def is_coin(self) -> bool:
        """Whether only the number of hits matters, not their class."""
        return self.bias is None and not self.shift

    def look(self, hits: Floats, totals: Floats) -> Summary:
        """Update the prior mean and all posteriors. ``hits`` and ``totals``: [w] for one-coin, else [w, class]."""
        k, workers = self.channel.k, hits.shape[0]
        columns = 1 if self.is_coin else k
        hits, misses = hits.reshape(workers, columns), (totals - hits).reshape(workers, columns)
        log_right, log_wrong = self.log_right[self.offsets[:columns]], self.log_wrong[self.offsets[:columns]]
        parts = _parts(workers, columns * self.grid.size)
        scored = (self._score(hits[part], misses[part], log_right, log_wrong, part) for part in parts)
        kept = list(scored) if len(parts) == 1 else None
        ratio = self._choose_mean(scored if kept is None else kept)
        right, wrong, mean, square = (np.empty((workers, columns)) for _ in range(4))
        seen_right, seen_wrong = np.zeros((columns, self.grid.size)), np.zeros((columns, self.grid.size))
        cost = 0.0
        for part in parts:
            h, m = hits[part], misses[part]
            raised, log_sum, *inner = self._score(h, m, log_right, log_wrong, part) if kept is None else kept[0]
            general = raised * ratio
            total = general.sum(axis=1, keepdims=True)
            general /= total
            for z in range(columns):
                q = self._in_class(general, inner, z)
                right[part, z], wrong[part, z] = q @ log_right[z], q @ log_wrong[z]
                mean[part, z], square[part, z] = q @ self.grid, q @ self.grid**2
                if self.shift:
                    seen_right[z] += h[:, z] @ q
                    seen_wrong[z] += m[:, z] @ q
            expected = float((h * right[part]).sum() + (m * wrong[part]).sum())
            cost += expected - log_sum - float(np.log(total).sum())
        cost -= float(self.on_mean[self.mean] + self.on_offset[self.offsets].sum())
        if self.shift:  # the shifts under which the posteriors are likeliest: the bound cannot fall by it
            value = self.log_right @ seen_right.T + self.log_wrong @ seen_wrong.T + self.on_offset[:, None]
            self.offsets = np.asarray(value.argmax(axis=0))
        spread = np.sqrt(np.maximum(square - mean**2, 0))
        worth = self.strength if self.bias is None else self.bias
        details = {"by_class": mean, "prior_mean": float(_MEANS[self.mean]), "prior_strength": worth}
        if self.is_coin:
            return Summary(None, right[:, 0], wrong[:, 0], cost, mean[:, 0], spread[:, 0], details)
        table = np.repeat(wrong[:, None, :], k, axis=1)
        table[:, np.arange(k), np.arange(k)] = right
        error = np.sqrt((spread**2).sum(axis=1)) / k
        return Summary(table, None, None, cost, mean.mean(axis=1), error, details)

    def _score(self, hits: Floats, misses: Floats, log_right: Floats, log_wrong: Floats, part: slice) -> _Scored:
        """Posteriors of general abilities under the prior mean as it stands, not normalized, and the sum of logarithms of what
        they were divided by; for two-coin also what the abilities in the classes need.
        """
        score = self._past(part, self.general) + self.log_prior[self.mean]
        if self.own is None:
            score = score + hits @ log_right + misses @ log_wrong
            return *_raised(score), [], []
        # given u the classes are independent: a product of sums over abilities, then a sum over u
        by_class, inside, log_sum = [], [], 0.0
        for z in range(hits.shape[1]):
            raw = np.multiply.outer(hits[:, z], log_right[z]) + np.multiply.outer(misses[:, z], log_wrong[z])
            raised, more = _raised(raw)
            by_class.append(raised)
            inside.append(np.maximum(raised @ self.own.T, 1e-300))
            score = score + np.log(inside[z])
            log_sum += more
        general, more = _raised(score)
        return general, log_sum + more, by_class, inside

    def _in_class(self, general: Floats, inner: list[list[Floats]], z: int) -> Floats:
        """The posteriors of abilities in a class."""
        by_class, inside = inner
        if self.own is None:
            return general
        q = by_class[z] * ((general / inside[z]) @ self.own)
        return np.asarray(q / q.sum(axis=1, keepdims=True))

    def _choose_mean(self, scored: Iterable[_Scored]) -> Floats:
        """Move to the prior mean nearby under which the tallies are likeliest; returns how the prior changes by it."""
        near = np.arange(max(0, self.mean - _NEAR), min(_MEANS.size, self.mean + _NEAR + 1))
        ratios = np.exp(np.clip(self.log_prior[near] - self.log_prior[self.mean], -600, 600))
        value = self.on_mean[near].copy()
        for raised, *_ in scored:
            value += np.log(np.maximum(raised @ ratios.T, 1e-300)).sum(axis=0)
        best = int(value.argmax())
        self.mean = int(near[best])
        return np.asarray(ratios[best])

    def _past(self, part: slice, grid: Floats) -> Floats:
        """What earlier work says of abilities."""
        if self.history is None:
            return np.zeros((1, grid.size))
        past = self.history[part]
        return np.multiply.outer(past[:, 0], np.log(grid)) + np.multiply.outer(past[:, 1], np.log1p(-grid))


def _log_beta(means: Floats, strength: float, grid: Floats) -> Floats:
    """Logarithms of Beta weights on a grid, one row a mean."""
    raw = (strength * means[:, None] - 1) * np.log(grid) + (strength * (1 - means[:, None]) - 1) * np.log1p(-grid)
    top = raw.max(axis=-1, keepdims=True)
    return np.asarray(raw - top - np.log(np.exp(raw - top).sum(axis=-1, keepdims=True)))


def _raised(score: Floats) -> tuple[Floats, float]:
    """Rows of logarithms as numbers up to 1, and the sum of the logarithms of what they were divided by."""
    top = score.max(axis=1, keepdims=True)
    return np.exp(score - top), float(top.sum())


def _parts(workers: int, width: int) -> list[slice]:
    size = max(1, _CHUNK // width)
    return [slice(first, min(first + size, workers)) for first in range(0, workers, size)]
