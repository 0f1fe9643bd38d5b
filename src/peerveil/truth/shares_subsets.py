"""Reports that name several classes: what estimates of shares need to know about a subset response.

A report is a set S of w of the k classes. It contains the answer with probability ``keep``, and any other class with
probability ``other``; given whether it contains the answer, all sets are equally likely. There are too many sets to list
them, so that moments are those of the k indicators 1[c in S]. With answer a they follow from the response:

    P[c in S] = keep if c = a, else other,
    P[c and d in S] = t1 if a is c or d, else t2,  where  t1 = keep (w - 1)/(k - 1)                                       (M)
    and  t2 = keep (w - 1)(w - 2)/((k - 1)(k - 2)) + (1 - keep) w (w - 1)/((k - 1)(k - 2)).

t1: S contains a, and d is one of w - 1 others among k - 1. t2: S contains a and two of k - 1 others in w - 1 places, or
does not, and has w places for two of k - 1. ∎ With w = 1 both are 0, and this is k-ary response.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from peerveil.core.arrays import Floats, Ints
    from peerveil.truth.channels import Channel


@dataclass(frozen=True, eq=False)
class SubsetRows:
    """The distinct reports that came, for each channel, and the moments of all that could have come.

    A linear estimate gives every report the mean of a value over the classes that it names. These values stand in one row
    per estimate, one column per channel and class.

    Attributes
    ----------
    channels
        One for each epsilon.
    block
        By row: the number of the channel.
    shown
        By row and class: whether the report names the class.
    """

    channels: tuple[Channel, ...]
    block: Ints
    shown: NDArray[np.bool_]

    @property
    def likelihood(self) -> Floats:
        """By row and answer: the probability of the report, relative to 1/C(k-1, w-1) of its channel.

        The factor is the same for every answer, so that it changes no estimate.

        >>> from peerveil.truth.channels import Channel
        >>> rows = SubsetRows((Channel.of(1.0, 3, 2),), np.array([0]), np.array([[True, True, False]]))
        >>> (rows.likelihood[0, 0] / rows.likelihood[0, 2]).round(6) == np.exp(1).round(6)
        np.True_
        """
        inside = np.array([channel.keep for channel in self.channels])[self.block, None]
        outside = np.array([(1 - channel.keep) * channel.wrong_share for channel in self.channels])[self.block, None]
        return np.where(self.shown, inside, outside)

    def values(self, shares: Floats, mix: Floats) -> Floats:
        """The values of the estimates of every class's share z: those of w_b v_b (1[z in S] - other_b) / (keep_b - other_b).

        They are unbiased if sum of mix_b v_b = 1. v_b is in proportion to the precision of channel b under the shares.
        """
        precision = []
        for channel in self.channels:
            frequency = channel.other + channel.contrast * shares
            precision.append(channel.contrast**2 / (frequency * (1 - frequency)))
        weight = np.stack(precision) / (mix @ np.stack(precision))
        blocks = [
            (v / channel.contrast)[:, None] * (channel.size * np.eye(channel.k) - channel.other)
            for v, channel in zip(weight, self.channels, strict=True)
        ]
        return np.hstack(blocks)

    def of_reports(self, values: Floats) -> Floats:
        """By estimate and row: the mean of the values over the classes that the report names."""
        sums: Floats = np.empty((len(values), self.block.size))
        for b, (channel, part) in enumerate(zip(self.channels, self._by_channel(values), strict=True)):
            rows = self.block == b
            sums[:, rows] = part @ self.shown[rows].T / channel.size
        return sums

    def moments(self, values: Floats) -> tuple[Floats, Floats]:
        """The mean and the mean square of a report's estimate, [channel, estimate, answer], by (M)."""
        first, second = [], []
        for channel, part in zip(self.channels, self._by_channel(values), strict=True):
            a = part / channel.size
            t1, t2 = joint_probabilities(channel)
            total, squares = a.sum(axis=1, keepdims=True), a**2
            first.append(a @ channel.matrix.T)
            alone = squares @ (channel.matrix.T - t2)  # c = d, in place of t2
            second.append(t2 * total**2 + alone + 2 * (t1 - t2) * a * (total - a))
        return np.stack(first), np.stack(second)

    def covariance(self, values: Floats, shares: Floats, mix: Floats) -> Floats:
        """The covariance of the estimates of one report, under these shares and by (M)."""
        covariance = np.zeros((len(values), len(values)))
        for weight, channel, part in zip(mix, self.channels, self._by_channel(values), strict=True):
            t1, t2 = joint_probabilities(channel)
            frequency = channel.other + channel.contrast * shares
            both = t2 + (t1 - t2) * (shares[:, None] + shares)
            np.fill_diagonal(both, frequency)
            a = part / channel.size
            covariance += weight * a @ (both - np.outer(frequency, frequency)) @ a.T
        return covariance

    def _by_channel(self, values: Floats) -> list[Floats]:
        return np.split(values, len(self.channels), axis=1)


def joint_probabilities(channel: Channel) -> tuple[float, float]:
    """The probabilities t1 and t2 of equation (M).

    >>> from peerveil.truth.channels import Channel
    >>> channel = Channel.of(1.0, 3, 2)
    >>> (
    ...     [round(value, 4) for value in joint_probabilities(channel)],
    ...     round(channel.keep / 2, 4),
    ...     round(1 - channel.keep, 4),
    ... )
    ([0.4223, 0.1554], 0.4223, 0.1554)
    """
    k, w, keep = channel.k, channel.size, channel.keep
    if w == 1:
        return 0.0, 0.0
    pairs = (k - 1) * (k - 2)
    return keep * (w - 1) / (k - 1), (w - 1) * (keep * (w - 2) + (1 - keep) * w) / pairs
