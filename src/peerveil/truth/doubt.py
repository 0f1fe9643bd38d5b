"""Do reports look randomized at all? They may agree no more than their epsilon allows.

Whoever passes raw answers for reports gets abilities that are wrong, and a promise that nobody kept. Raw answers of
people who know something give themselves away: they agree too often.

**Bound.** Two reports on a task, each randomized by itself with the response that keeps an answer with probability p
and sends each of the k - 1 others with q = (1 - p)/(k - 1), agree with probability p^2 + (k - 1) q^2 if the answers
are equal and 2pq + (k - 2) q^2 if they are not. The first is larger by (p - q)^2. So whatever people think, a pair
agrees with probability at most A = p^2 + (k - 1) q^2 (for two classes p^2 + (1 - p)^2).

**Test.** Let U be the share of agreeing pairs among the n reports on a task. U is the mean, over all orders of the
reports, of the share of agreement among the h = floor(n/2) disjoint pairs of neighbors in that order (Hoeffding
1963, section 5). Given the answers, disjoint pairs agree independently, each with probability at most A. By Jensen's
inequality E e^(s h U) is then at most (1 - A + A e^s)^h for s > 0. Tasks are independent, so for a, the mean of U
with weights h, and N the sum of the h, Chernoff's bound gives P[a >= x] <= e^(-N KL(x, A)) for x > A. ∎ We call
reports doubtful when sqrt(2 N KL(a, A)) > 6: randomized reports are so less often than once in 60 million.

The converse does not hold: raw answers that agree little (hard tasks, few reports, large epsilon) go unnoticed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from peerveil.truth.models import Channel

if TYPE_CHECKING:
    from peerveil.core.arrays import Floats

LARGEST_Z: Final = 6.0


class NotRandomized(UserWarning):
    """EncodedAnswers agree more than answers that were randomized with their epsilon could."""


def largest_agreement(epsilon: float, k: int) -> float:
    """How often two reports on one task agree at most, whatever people think.

    >>> round(largest_agreement(1.0, 2), 4)  # p = 0.7311: p^2 + (1 - p)^2
    0.6068
    """
    channel = Channel.of(epsilon, k)
    return channel.keep**2 + (k - 1) * channel.other**2


def agreement(votes: Floats) -> tuple[float, int]:
    """The share of agreeing pairs of reports (a task weighs as many as it has disjoint pairs), and that number of pairs.

    >>> agreement(np.array([[2.0, 0.0], [1.0, 1.0], [1.0, 0.0]]))
    (0.5, 2)
    """
    number = votes.sum(axis=1)
    held = number >= 2
    if not held.any():
        return 0.0, 0
    n = number[held]
    share = (votes[held] * (votes[held] - 1)).sum(axis=1) / (n * (n - 1))
    weight = np.floor(n / 2)
    return float(share @ weight / weight.sum()), int(weight.sum())


def doubt(votes: Floats, epsilon: float | None) -> str | None:
    """Why reports cannot have been randomized with this epsilon, in words; ``None`` if nothing speaks against it.

    Parameters
    ----------
    votes
        How many reports of each class every task has, one row per task.

    Examples
    --------
    >>> doubt(np.array([[8.0, 0.0], [0.0, 8.0]] * 20), 1.0)[:46]
    'these do not look randomized at epsilon 1: rep'
    >>> doubt(np.array([[5.0, 3.0], [3.0, 5.0]] * 20), 1.0) is None
    True
    """
    if epsilon is None:
        return None
    bound = largest_agreement(epsilon, votes.shape[1])
    found, pairs = agreement(votes)
    if found <= bound or math.sqrt(2 * pairs * _divergence(found, bound)) <= LARGEST_Z:
        return None
    return (
        f"these do not look randomized at epsilon {epsilon:g}: reports on the same task agree in {100 * found:.1f} of "
        f"100 pairs, and at most {100 * bound:.1f} could be expected. If these are raw answers, nothing protects them and "
        "the abilities are wrong: randomize them first, or say that they are not randomized (epsilon none)"
    )


def _divergence(x: float, a: float) -> float:
    """KL(x, a) of two coins."""
    rest = 0.0 if x >= 1 else (1 - x) * math.log((1 - x) / (1 - a))
    return x * math.log(x / a) + rest
