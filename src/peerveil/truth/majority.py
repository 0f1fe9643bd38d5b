"""Private majority: count the answers. Equation (18), for any number of classes, with probabilities."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from peerveil.truth.em import EMFit, Engine, Limits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from peerveil.truth.models import Channel

    Floats = NDArray[np.float64]

_MAX_STEPS: Final = 200


class MajorityModel:
    """Workers of one common ability: labels by majority."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    def fit(self, engine: Engine, limits: Limits, start: Floats | None = None) -> EMFit:  # noqa: ARG002
        """Estimate the common ability from the votes; there is nothing to iterate."""
        channel, answers, workers = self.channel, engine.answers, engine.loads.size
        posterior, ability = majority_posterior(answers.votes, channel)
        shown = channel.other + channel.contrast * ability
        error = math.sqrt(shown * (1 - shown) / max(len(answers), 1)) / channel.contrast
        return EMFit(
            tasks=answers.tasks,
            posterior=posterior,
            class_shares=np.full(channel.k, 1 / channel.k),
            abilities=np.full(workers, ability),
            standard_errors=np.full(workers, error),
            objectives=[],
            converged=True,
            objective=0.0,
            details={},
        )


def majority_posterior(votes: Floats, channel: Channel) -> tuple[Floats, float]:
    """Posteriors if everybody had the same ability, and that ability by maximum likelihood.

    The order of the classes of a task is the order of their votes, whatever the common ability (above chance) is.

    >>> from peerveil.truth.models import Channel
    >>> posterior, ability = majority_posterior(np.array([[3.0, 1.0], [0.0, 4.0], [2.0, 2.0]]), Channel.of(None, 2))
    >>> posterior.argmax(axis=1)[:2].tolist(), float(posterior[2, 0])
    ([0, 1], 0.5)
    """
    k, size = channel.k, votes.sum()
    low, high = 1 / k, min(channel.keep, 1 - 1e-6)
    shown = low + 0.8 * (high - low)
    for _ in range(_MAX_STEPS):
        last = shown
        shown = float(np.clip((_posterior(votes, shown) * votes).sum() / size, low + 1e-6 * (high - low), high))
        if abs(shown - last) < 1e-10:
            break
    return _posterior(votes, shown), (shown - channel.other) / channel.contrast


def _posterior(votes: Floats, shown: float) -> Floats:
    """The posteriors of tasks if an answer is correct with probability ``shown``: a softmax of weighted votes."""
    score = votes * math.log(shown * (votes.shape[1] - 1) / (1 - shown))
    weight = np.exp(score - score.max(axis=1, keepdims=True))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def likeliest_class(posterior: Floats) -> NDArray[np.int64]:
    """The likeliest class of every task. Ties are broken evenly, and repeatably: the same answers give the same labels.

    >>> likeliest_class(np.array([[0.2, 0.8], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])).tolist()[0]
    1
    """
    top = posterior.max(axis=1, keepdims=True)
    tied = posterior >= top - 1e-9
    best = posterior.argmax(axis=1)
    several = np.flatnonzero(tied.sum(axis=1) > 1)
    if several.size:
        seed = round(float(top.sum()) * 1000)  # depends on the answers, and is the same on every engine
        keys = np.random.default_rng(seed).random(posterior.shape)[several]
        best[several] = np.where(tied[several], keys, -1.0).argmax(axis=1)
    return np.asarray(best, dtype=np.int64)
