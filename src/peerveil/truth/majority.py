"""Private majority: count the reports. Equation (18), for any number of classes, with probabilities."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from peerveil.truth.abilities import Channel

    Floats = NDArray[np.float64]

_STEPS: Final = 200


def majority_posterior(votes: Floats, channel: Channel) -> tuple[Floats, float]:
    """Posteriors if everybody had the same ability, and that ability by maximum likelihood.

    The order of the classes of a task is the order of their votes, whatever the common ability (above chance) is.

    >>> from peerveil.truth.abilities import Channel
    >>> posterior, ability = majority_posterior(np.array([[3.0, 1.0], [0.0, 4.0], [2.0, 2.0]]), Channel.of(None, 2))
    >>> posterior.argmax(axis=1)[:2].tolist(), float(posterior[2, 0])
    ([0, 1], 0.5)
    """
    k, size = channel.k, votes.sum()
    low, high = 1 / k, min(channel.keep, 1 - 1e-6)
    shown = low + 0.8 * (high - low)
    for _ in range(_STEPS):
        score = votes * math.log(shown * (k - 1) / (1 - shown))
        posterior = softmax(score)
        new = float(np.clip((posterior * votes).sum() / size, low + 1e-6 * (high - low), high))
        done = abs(new - shown) < 1e-10
        shown = new
        if done:
            break
    return softmax(votes * math.log(shown * (k - 1) / (1 - shown))), (shown - channel.other) / channel.contrast


def softmax(score: Floats) -> Floats:
    """Rows of scores as probabilities."""
    weight = np.exp(score - score.max(axis=1, keepdims=True))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def pick(posterior: Floats) -> NDArray[np.int64]:
    """The likeliest class of every task. Ties are broken evenly, and repeatably: the same reports give the same labels.

    >>> pick(np.array([[0.2, 0.8], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])).tolist()[0]
    1
    """
    top = posterior.max(axis=1, keepdims=True)
    tied = posterior >= top - 1e-9
    best = posterior.argmax(axis=1)
    several = np.flatnonzero(tied.sum(axis=1) > 1)
    if several.size:
        seed = round(float(top.sum()) * 1000)  # other reports, other luck; the same on every engine
        keys = np.random.default_rng(seed).random(posterior.shape)[several]
        best[several] = np.where(tied[several], keys, -1.0).argmax(axis=1)
    return np.asarray(best, dtype=np.int64)
