"""Private majority: count the reports. Equation (18), for any number of classes, with probabilities."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.core.guarantee import read_epsilon
from peerveil.data import Labels
from peerveil.truth.abilities import Channel
from peerveil.truth.answers import EncodedAnswers
from peerveil.truth.result import TruthResult, WorkerAbilities, as_classes, like, promise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from peerveil.core.exact import Number
    from peerveil.core.guarantee import Guarantee

    Floats = NDArray[np.float64]

_STEPS: Final = 200


class PrivateMajority:
    """Count the reports of every task (18). The baseline that everything is measured against.

    Parameters
    ----------
    epsilon
        Of the response that made the reports; ``None`` if they were not randomized.
    classes
        The classes, or how many there are; read off the reports (which are public) if left out.

    Attributes
    ----------
    workers_ : WorkerAbilities
        The ids of workers and the ability that all share, after a fit: for the operator, not part of the result.

    Examples
    --------
    >>> result = PrivateMajority(epsilon=1).fit({"task": [1, 1, 1, 2], "worker": [1, 2, 3, 1], "label": [0, 0, 1, 1]})
    >>> result.labels.tolist()
    [0, 1]
    """

    workers_: WorkerAbilities

    def __init__(
        self, *, epsilon: Number | None, classes: int | Sequence[Any] | None = None, repeated: str = "all"
    ) -> None:
        self.exact_epsilon = None if epsilon is None else read_epsilon(epsilon)
        self.classes, self.repeated = classes, repeated

    @property
    def epsilon(self) -> float | None:
        """Epsilon as a float."""
        return None if self.exact_epsilon is None else float(self.exact_epsilon)

    def fit(
        self,
        labels: Any,
        *,
        columns: Mapping[str, str] | None = None,
        tasks: Sequence[Any] | None = None,
        guarantee: Guarantee | None = None,
    ) -> TruthResult:
        """Labels by majority, probabilities for a crowd of equal abilities."""
        labels = labels if columns is None else Labels.of(labels, "labels", columns=columns)
        reports = EncodedAnswers.of(labels, self.classes, tasks=tasks, repeated=self.repeated)
        channel = Channel.of(self.epsilon, reports.k)
        posterior, ability = majority_posterior(reports.votes, channel)
        workers = len(reports.workers)
        shown = channel.other + channel.contrast * ability
        error = math.sqrt(shown * (1 - shown) / max(len(reports), 1)) / channel.contrast
        result = TruthResult(
            guarantee=promise(self.exact_epsilon, guarantee),
            tasks=reports.tasks,
            classes=reports.classes,
            labels=as_classes(pick(posterior), reports.classes),
            probabilities=posterior,
            abilities=np.full(workers, ability),
            standard_errors=np.full(workers, error),
            loads=reports.loads,
            model="majority",
            class_shares=np.full(reports.k, 1 / reports.k),
            objective=0.0,
            iterations=0,
            converged=True,
            epsilon=self.epsilon,
            answer_epsilon=self.exact_epsilon,
        )
        self.workers_ = WorkerAbilities.of(reports.workers, result)
        return result.doubted(reports.votes)

    def fit_predict(self, labels: Any, *, columns: Mapping[str, str] | None = None) -> Any:
        """Labels as a pandas series or Polars frame, like the frame that came."""
        return like(labels, self.fit(labels, columns=columns))


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
