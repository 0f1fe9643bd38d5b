"""Point estimates: confusion matrices, and abilities without a prior.

With a prior, the most likely matrices given the reports (MAP); without one, maximum likelihood: for ``epsilon=None`` this is
Dawid and Skene (1979), with the rules of crowd-kit (counts below 1e-10 become 1e-10).

The answers are hidden behind the channel, so the M-step is itself an EM over them. Given the expected number N[r, z] of
reports r on tasks of class z, the expected number of answers b is theta[z, b] sum_r N[r, z] C[b, r] / (theta C)[z, r]; a few
such steps never lower the objective (generalized EM), and without randomization one step is exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from peerveil.truth.abilities import STRENGTH, Channel, Summary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

FLOOR: Final = 1e-10
_INNER: Final = 5


class ConfusionModel:
    """A confusion matrix for every worker.

    Parameters
    ----------
    channel, workers
        The channel, and how many workers there are.
    prior
        Pseudo-counts of right and of wrong answers in every row; ``None`` for maximum likelihood.
    history
        Right and wrong answers of each worker in earlier work, two columns; they are spread evenly over the classes.
    """

    is_coin = False

    def __init__(
        self,
        channel: Channel,
        workers: int,
        prior: tuple[float, float] | None = (2 * STRENGTH / 3, STRENGTH / 3),
        history: Floats | None = None,
    ) -> None:
        k = channel.k
        self.channel = channel
        self.worth = 0.0 if prior is None else float(sum(prior))
        self.pseudo = np.zeros((workers, k, k))  # [w, z, answer]
        if prior is not None:
            self.pseudo += _spread(np.array([prior]), k)
        if history is not None:
            self.pseudo += _spread(history, k) / k
        self.theta = np.tile(_spread(np.array([[0.7, 0.3]]), k), (workers, 1, 1))

    def look(self, tally: Floats) -> Summary:
        """Update all matrices from ``tally[w, r, z]``."""
        channel, k = self.channel, self.channel.k
        counts = tally.transpose(0, 2, 1)  # [w, z, r]
        if channel.other == 0:
            expected = np.maximum(counts + self.pseudo, FLOOR)
            self.theta = expected / expected.sum(axis=2, keepdims=True)
            shown = self.theta
        else:
            matrix = channel.matrix
            for _ in range(_INNER):
                shown = self.theta @ matrix
                expected = self.theta * ((counts / shown) @ matrix) + self.pseudo
                expected = np.maximum(expected, FLOOR)
                self.theta = expected / expected.sum(axis=2, keepdims=True)
            shown = self.theta @ matrix
        table = np.ascontiguousarray(np.log(shown).transpose(0, 2, 1))
        cost = -float((self.pseudo * np.log(self.theta)).sum())
        by_class = self.theta[:, np.arange(k), np.arange(k)]
        size = counts.sum(axis=2) + self.pseudo.sum(axis=2)
        # the variance of a share of `size` reports, carried through the channel
        p = channel.other + channel.contrast * by_class
        variance = p * (1 - p) / np.maximum(size, 1) / channel.contrast**2
        error = np.sqrt(np.minimum(variance, 1 / 12).sum(axis=1)) / k
        details = {"by_class": by_class, "confusion": self.theta, "prior_strength": self.worth}
        return Summary(table, None, None, cost, by_class.mean(axis=1), error, details)


class CoinModel:
    """One ability a worker without a prior: maximum likelihood, p kept within what the channel can produce."""

    is_coin = True

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.clip = max(channel.other, FLOOR), min(channel.keep, 1 - FLOOR)

    def look(self, hits: Floats, totals: Floats) -> Summary:
        """Update all abilities; a worker without reports is at the middle of the clip."""
        channel, (low, high) = self.channel, self.clip
        share = np.divide(hits, totals, out=np.full_like(hits, (low + high) / 2), where=totals > 0)
        p = np.clip(share, low, high)
        ability = (p - channel.other) / channel.contrast  # the channel undone
        error = np.sqrt(p * (1 - p) / np.maximum(totals, 1)) / channel.contrast
        return Summary(None, np.log(p), np.log((1 - p) / (channel.k - 1)), 0.0, ability, error, {"shown": p})


def _spread(pairs: Floats, k: int) -> Floats:
    """Right and wrong counts, one row a worker, as matrices: wrong ones spread evenly."""
    full = np.repeat(np.repeat(pairs[:, 1, None, None] / (k - 1), k, axis=1), k, axis=2)
    full[:, np.arange(k), np.arange(k)] = pairs[:, 0, None]
    return full
