"""The channel, the shares of the classes, and the models with point estimates: confusion matrices, maximum likelihood, majority.

A worker of ability a gives the correct class with probability a and each other class with (1 - a)/(k - 1). The response keeps an
answer with probability ``keep`` and sends each other class with probability ``other``. So a randomized answer is correct with
probability p(a) = other + (keep - other) a, equation (22) of the paper for k = 2, and each other class has (1 - p(a))/(k - 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np

from peerveil.core.arrays import Floats, Ints
from peerveil.core.errors import BadInput
from peerveil.truth.em import CoinWeights, EMFit, EMModel, Engine, ExpectedCounts, Limits, Parameters

STRENGTH: Final = 6.0  # answers that the prior on an ability is worth
FLOOR: Final = 1e-10  # of probabilities and counts, as in crowd-kit
INNER_STEPS: Final = 5  # of the EM over hidden answers
_PSEUDO_TASKS: Final = 5.0  # of every class, at the beginning of an estimate of shares
_SHRINKAGE: Final = 0.2  # how far class shares are estimated
_MAJORITY_STEPS: Final = 200


@dataclass(frozen=True)
class Channel:
    """The randomized response as the estimators see it: the probability of the answer itself, and of each other class."""

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
        """Keep - other: how much of an answer the randomized answer retains, from 0 to 1."""
        return self.keep - self.other

    @property
    def matrix(self) -> Floats:
        """``matrix[answer, randomized answer]``."""
        return np.where(np.eye(self.k, dtype=bool), self.keep, self.other)


@dataclass(frozen=True)
class ClassPrior:
    """The shares of the classes: fixed, or estimated with pseudo-counts.

    With ``shrinkage`` w, they are w times what the posteriors say and 1 - w times even. That is a Dirichlet prior worth (1 - w)/w
    times as many tasks as there are, so that the objective still cannot fall.
    """

    k: int
    shares: Floats | None = None
    pseudo: float = 0.0
    shrinkage: float | None = None

    @classmethod
    def even(cls, k: int) -> ClassPrior:
        """Equal shares."""
        return cls(k, np.full(k, 1 / k))

    @classmethod
    def read(cls, setting: str | Sequence[float], k: int, *, skewed: bool, unpenalized: bool) -> ClassPrior:
        """The prior of a setting: ``"shrunk"`` (even unless classes are ``skewed``), ``"uniform"``, ``"estimated"`` (by maximum
        likelihood if ``unpenalized``), or numbers.
        """
        priors = {
            "shrunk": cls(k, shrinkage=_SHRINKAGE) if skewed else cls.even(k),
            "uniform": cls.even(k),
            "estimated": cls(k, pseudo=0.0 if unpenalized else _PSEUDO_TASKS),
        }
        if isinstance(setting, str) and setting in priors:
            return priors[setting]
        if not isinstance(setting, str):
            shares = np.asarray(setting, dtype=np.float64)
            if shares.shape == (k,) and (shares > 0).all() and abs(float(shares.sum()) - 1) < 1e-6:
                return cls(k, shares)
        want = f"'shrunk', 'uniform', 'estimated', or {k} shares that add up to 1"
        raise BadInput("class_prior", got=setting, want=want)

    def m_step(self, tasks_by_class: Floats) -> tuple[Floats, float]:
        """Logarithms of the shares, and their penalty in the objective."""
        if self.shares is not None:
            return np.log(np.maximum(self.shares, FLOOR)), 0.0
        pseudo = self.pseudo
        if self.shrinkage is not None:
            pseudo = (1 / self.shrinkage - 1) * float(tasks_by_class.sum()) / self.k
        counts = tasks_by_class + pseudo
        shares = np.maximum(counts / counts.sum(), FLOOR)
        return np.log(shares), -pseudo * float(np.log(self.k * shares).sum())


class ConfusionModel(EMModel):
    """A confusion matrix for every worker: the most likely one given the answers (MAP).

    Without a prior it is maximum likelihood: for ``epsilon=None`` that is Dawid and Skene (1979), with the rules of crowd-kit.
    The answers are hidden behind the channel, so the M-step is itself an EM over them. Given the expected number N[r, z] of
    randomized answers r on tasks of class z, the expected number of answers b is
    theta[z, b] sum_r N[r, z] C[b, r] / (theta C)[z, r]; a few such steps never lower the objective (generalized EM), and without
    randomization one step is exact.

    Parameters
    ----------
    channel, class_prior, workers
        The channel, the shares of the classes, and the number of workers.
    strength
        How many answers the prior on each row is worth, two thirds of them correct; ``None`` for maximum likelihood.
    history : [worker, 2], optional
        Correct and wrong answers of each worker in earlier work; they are spread evenly over the classes.
    """

    counted = "answers by class"

    def __init__(
        self,
        channel: Channel,
        class_prior: ClassPrior,
        workers: int,
        strength: float | None = STRENGTH,
        history: Floats | None = None,
    ) -> None:
        k = channel.k
        self.channel, self.class_prior, self.strength = channel, class_prior, strength or 0.0
        self.pseudo = np.zeros((workers, k, k))  # [w, z, answer]
        if strength is not None:
            self.pseudo += _spread_errors(np.array([[2 * strength / 3, strength / 3]]), k)
        if history is not None:
            self.pseudo += _spread_errors(history, k) / k
        self.theta = np.tile(_spread_errors(np.array([[0.7, 0.3]]), k), (workers, 1, 1))

    def m_step(self, counts: ExpectedCounts) -> Parameters:
        """Update all matrices."""
        channel, k, matrix = self.channel, self.channel.k, self.channel.matrix
        by_class = counts.by_worker.transpose(0, 2, 1)  # [w, z, r]
        if channel.other == 0:
            self._set_theta(by_class + self.pseudo)
            shown = self.theta
        else:
            for _ in range(INNER_STEPS):
                shown = self.theta @ matrix
                self._set_theta(self.theta * ((by_class / shown) @ matrix) + self.pseudo)
            shown = self.theta @ matrix
        abilities = self.theta[:, np.arange(k), np.arange(k)]
        # the variance of a share of `size` answers, carried through the channel
        size = by_class.sum(axis=2) + self.pseudo.sum(axis=2)
        p = channel.other + channel.contrast * abilities
        variance = p * (1 - p) / np.maximum(size, 1) / channel.contrast**2
        log_prior, prior_penalty = self.class_prior.m_step(counts.by_class)
        return Parameters(
            np.ascontiguousarray(np.log(shown).transpose(0, 2, 1)),
            log_prior,
            prior_penalty - float((self.pseudo * np.log(self.theta)).sum()),
            abilities=abilities.mean(axis=1),
            standard_errors=np.sqrt(np.minimum(variance, 1 / 12).sum(axis=1)) / k,
            details={"by_class": abilities, "confusion": self.theta, "prior_strength": self.strength},
        )

    def _set_theta(self, expected: Floats) -> None:
        expected = np.maximum(expected, FLOOR)
        self.theta = expected / expected.sum(axis=2, keepdims=True)


class CoinModel(EMModel):
    """One ability per worker without a prior: maximum likelihood, p kept within what the channel can produce."""

    counted = "correct"

    def __init__(self, channel: Channel, class_prior: ClassPrior) -> None:
        self.channel, self.class_prior = channel, class_prior
        self.bounds = max(channel.other, FLOOR), min(channel.keep, 1 - FLOOR)

    def m_step(self, counts: ExpectedCounts) -> Parameters:
        """Update all abilities; a worker without answers is in the middle of the bounds."""
        channel, hits, loads = self.channel, counts.by_worker, counts.loads
        share = np.divide(hits, loads, out=np.full_like(hits, sum(self.bounds) / 2), where=loads > 0)
        p = np.clip(share, *self.bounds)
        log_prior, prior_penalty = self.class_prior.m_step(counts.by_class)
        return Parameters(
            CoinWeights(np.log(p), np.log((1 - p) / (channel.k - 1))),
            log_prior,
            prior_penalty,
            abilities=(p - channel.other) / channel.contrast,  # the channel undone
            standard_errors=np.sqrt(p * (1 - p) / np.maximum(loads, 1)) / channel.contrast,
            details={"shown": p},
        )


def _spread_errors(pairs: Floats, k: int) -> Floats:
    """Correct and wrong counts, one row per worker, as matrices: wrong ones spread evenly."""
    return np.where(np.eye(k, dtype=bool), pairs[:, 0, None, None], pairs[:, 1, None, None] / (k - 1))


class MajorityModel:
    """Workers of one common ability: labels by majority, equation (18) for any number of classes, with probabilities."""

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

    >>> posterior, ability = majority_posterior(np.array([[3.0, 1.0], [0.0, 4.0], [2.0, 2.0]]), Channel.of(None, 2))
    >>> posterior.argmax(axis=1)[:2].tolist(), float(posterior[2, 0])
    ([0, 1], 0.5)
    """
    ability = common_ability(votes, channel)
    return _posterior(votes, channel.other + channel.contrast * ability), ability


def common_ability(votes: Floats, channel: Channel) -> float:
    """The ability by maximum likelihood if everybody had the same, by EM over distinct rows of votes.

    >>> round(common_ability(np.array([[3.0, 1.0], [0.0, 4.0], [2.0, 2.0]]), Channel.of(None, 2)), 3)
    0.742
    """
    rows, tasks = _distinct_rows(votes)
    k, size = channel.k, votes.sum()
    low, high = 1 / k, min(channel.keep, 1 - 1e-6)
    shown = low + 0.8 * (high - low)
    for _ in range(_MAJORITY_STEPS):
        last = shown
        correct = ((_posterior(rows, shown) * rows).sum(axis=1) * tasks).sum()
        shown = float(np.clip(correct / size, low + 1e-6 * (high - low), high))
        if abs(shown - last) < 1e-10:
            break
    return (shown - channel.other) / channel.contrast


def _distinct_rows(votes: Floats) -> tuple[Floats, Floats]:
    """The distinct rows of votes, and how many tasks have each; rows too long for a number in base max + 1 all stay."""
    base, k = int(votes.max(initial=0)) + 1, votes.shape[1]
    if base**k > 2**62:
        return votes, np.ones(len(votes))
    places = base ** np.arange(k, dtype=np.int64)
    key = np.zeros(len(votes), dtype=np.int64)
    for z in range(k):
        key += votes[:, z].astype(np.int64) * places[z]
    keys, tasks = np.unique(key, return_counts=True)
    return (keys[:, None] // places % base).astype(np.float64), tasks.astype(np.float64)


def _posterior(votes: Floats, shown: float) -> Floats:
    """The posteriors of tasks if an answer is correct with probability ``shown``: a softmax of weighted votes."""
    score = votes * math.log(shown * (votes.shape[1] - 1) / (1 - shown))
    weight = np.exp(score - score.max(axis=1, keepdims=True))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def likeliest_class(posterior: Floats) -> Ints:
    """The likeliest class of every task. Ties are broken evenly, and repeatably: the same answers give the same labels.

    >>> likeliest_class(np.array([[0.2, 0.8], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])).tolist()[0]
    1
    """
    columns = posterior.T  # NumPy is quick along long axes
    top = reduce(np.maximum, columns)
    best = columns.argmax(axis=0)
    tied = posterior >= top[:, None] - 1e-9
    several = np.flatnonzero(reduce(np.add, tied.T.astype(np.int8)) > 1)
    if several.size:
        seed = round(float(top.sum()) * 1000)  # depends on the answers, and is the same on every engine
        keys = np.random.default_rng(seed).random(posterior.shape)[several]
        best[several] = np.where(tied[several], keys, -1.0).argmax(axis=1)
    return np.asarray(best, dtype=np.int64)
