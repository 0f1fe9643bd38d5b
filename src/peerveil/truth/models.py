"""The shares of the classes, and the models with point estimates: confusion matrices, maximum likelihood, majority."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

import numpy as np

from peerveil.core.arrays import Floats, Ints
from peerveil.core.errors import BadInput, Verbatim
from peerveil.truth.channels import Channel as Channel  # noqa: TC001 (others import it from here)
from peerveil.truth.channels import Channels  # noqa: TC001
from peerveil.truth.em import CoinWeights, EMFit, EMModel, Engine, ExpectedCounts, Limits, Parameters

if TYPE_CHECKING:
    from peerveil.truth.answers import EncodedAnswers

STRENGTH: Final = 6.0  # answers that the prior on an ability is worth
FLOOR: Final = 1e-10  # of probabilities and counts, as in crowd-kit
INNER_STEPS: Final = 5  # of the EM over hidden answers
_PSEUDO_TASKS: Final = 5.0  # of every class, at the beginning of an estimate of shares
_SHRINKAGE: Final = 0.2  # how far class shares are estimated
_MAJORITY_STEPS: Final = 200


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
        channel: Channels,
        class_prior: ClassPrior,
        workers: int,
        strength: float | None = STRENGTH,
        history: Floats | None = None,
    ) -> None:
        k = channel.k
        if channel.largest_size > 1:
            got = Verbatim("answers that name several classes, from a subset response")
            raise BadInput(
                "model", got=got, want="one-coin or two-coin: for tables of errors randomize with response='k-ary'"
            )
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
        if not channel.randomized:
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
        contrast = channel.column("contrast")
        p = channel.column("other") + contrast * abilities
        variance = p * (1 - p) / np.maximum(size, 1) / contrast**2
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

    def __init__(self, channel: Channels, class_prior: ClassPrior) -> None:
        self.channel, self.class_prior = channel, class_prior
        keep, self.other, self.contrast, self.wrong_share = (
            channel.column(name)[:, 0] for name in ("keep", "other", "contrast", "wrong_share")
        )
        self.bounds: tuple[Floats | float, Floats | float]
        self.bounds = np.maximum(self.other, FLOOR), np.minimum(keep, 1 - FLOOR)

    def m_step(self, counts: ExpectedCounts) -> Parameters:
        """Update all abilities; a worker without answers is in the middle of the bounds."""
        hits, loads = counts.by_worker, counts.loads
        low, high = self.bounds
        share = np.where(loads > 0, hits / np.maximum(loads, 1), (low + high) / 2)
        p = np.clip(share, low, high)
        log_prior, prior_penalty = self.class_prior.m_step(counts.by_class)
        return Parameters(
            CoinWeights(np.log(p), np.log((1 - p) * self.wrong_share)),
            log_prior,
            prior_penalty,
            abilities=(p - self.other) / self.contrast,  # the channel undone
            standard_errors=np.sqrt(p * (1 - p) / np.maximum(loads, 1)) / self.contrast,
            details={"shown": p},
        )


def _spread_errors(pairs: Floats, k: int) -> Floats:
    """Correct and wrong counts, one row per worker, as matrices: wrong ones spread evenly."""
    return np.where(np.eye(k, dtype=bool), pairs[:, 0, None, None], pairs[:, 1, None, None] / (k - 1))


class MajorityModel:
    """Workers of one common ability: labels by majority, equation (18) for any number of classes, with probabilities."""

    def __init__(self, channel: Channels) -> None:
        self.channel = channel

    def fit(self, engine: Engine, limits: Limits, start: Floats | None = None) -> EMFit:  # noqa: ARG002
        """Estimate the common ability from the votes; there is nothing to iterate."""
        channel, answers, workers = self.channel, engine.answers, engine.loads.size
        posterior, ability = majority_of(answers, channel)
        contrast = channel.column("contrast")[:, 0]
        shown = channel.column("other")[:, 0] + contrast * ability
        # the information of all answers on the common ability
        information = float((answers.loads * contrast**2 / (shown * (1 - shown))).sum())
        error = 1 / math.sqrt(max(information, 1e-12))
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


def majority_of(answers: EncodedAnswers, channel: Channels) -> tuple[Floats, float]:
    """Posteriors if everybody had the same ability, and that ability by maximum likelihood."""
    if channel.single is not None:
        return majority_posterior(answers.votes, channel.single)
    k, level = channel.k, channel.of_worker[answers.worker]
    cell = np.repeat(np.arange(len(answers.tasks)), np.diff(answers.start)) * k + answers.label
    loads = np.bincount(channel.of_worker, answers.loads, minlength=len(channel.levels)).astype(float)
    other, contrast, wrong_share = channel.of_levels("other", "contrast", "wrong_share")
    ability = 1 / k + 0.8 * (1 - 1 / k)
    for _ in range(_MAJORITY_STEPS):
        shown = np.clip(other + contrast * ability, 1e-12, 1 - 1e-12)
        evidence = np.log(shown / ((1 - shown) * wrong_share))  # of an answer of each level
        score = np.bincount(cell, evidence[level], minlength=len(answers.tasks) * k).reshape(-1, k)
        posterior = np.exp(score - score.max(axis=1, keepdims=True))
        posterior /= posterior.sum(axis=1, keepdims=True)
        hits = np.bincount(level, posterior.ravel()[cell], minlength=len(channel.levels))
        last, ability = ability, _likeliest_ability(hits.astype(float), loads - hits, other, contrast, k)
        if abs(ability - last) < 1e-8:
            break
    return posterior, ability


def _likeliest_ability(hits: Floats, misses: Floats, other: Floats, contrast: Floats, k: int) -> float:
    """The ability that maximizes the sum of h ln(o + c a) + m ln(1 - o - c a) over levels, by bisection: the slope falls."""
    low, high = 1 / k + 1e-6, 1 - 1e-6
    for _ in range(60):
        a = (low + high) / 2
        shown = other + contrast * a
        low, high = (a, high) if (contrast * (hits / shown - misses / (1 - shown))).sum() > 0 else (low, a)
    return (low + high) / 2


def majority_posterior(votes: Floats, channel: Channel) -> tuple[Floats, float]:
    """Posteriors if everybody had the same ability, and that ability by maximum likelihood.

    The order of the classes of a task is the order of their votes, whatever the common ability (above chance) is.

    >>> posterior, ability = majority_posterior(np.array([[3.0, 1.0], [0.0, 4.0], [2.0, 2.0]]), Channel.of(None, 2))
    >>> posterior.argmax(axis=1)[:2].tolist(), float(posterior[2, 0])
    ([0, 1], 0.5)
    """
    ability = common_ability(votes, channel)
    return _posterior(votes, channel.other + channel.contrast * ability, channel.wrong_share), ability


def common_ability(votes: Floats, channel: Channel) -> float:
    """The ability by maximum likelihood if everybody had the same, by EM over distinct rows of votes.

    >>> round(common_ability(np.array([[3.0, 1.0], [0.0, 4.0], [2.0, 2.0]]), Channel.of(None, 2)), 3)
    0.721
    """
    rows, tasks = distinct_rows(votes)
    k, size = channel.k, votes.sum() / channel.size
    low, high = channel.size / k, min(channel.keep, 1 - 1e-6)
    shown = low + 0.8 * (high - low)
    for _ in range(_MAJORITY_STEPS):
        last = shown
        correct = ((_posterior(rows, shown, channel.wrong_share) * rows).sum(axis=1) * tasks).sum()
        shown = float(np.clip(correct / size, low + 1e-6 * (high - low), high))
        if abs(shown - last) < 1e-10:
            break
    return (shown - channel.other) / channel.contrast


def distinct_rows(votes: Floats) -> tuple[Floats, Floats]:
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


def _posterior(votes: Floats, shown: float, wrong_share: float) -> Floats:
    """The posteriors of tasks if a report is correct with probability ``shown``: a softmax of weighted votes."""
    score = votes * math.log(shown / ((1 - shown) * wrong_share))
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
