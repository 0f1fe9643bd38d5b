"""The engine for answers in memory: compiled E-steps over answers that are sorted by task.

One pass does the whole step: the posterior of a task needs its own answers only, and is added to the counts of the workers who
gave them before the next task is read. So every answer is read twice while it is in the processor's cache, and nothing of the
size of the data is allocated.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from peerveil.core.errors import BadInput
from peerveil.core.lazy import njit
from peerveil.truth.em import CoinWeights, EStep, ExpectedCounts, Parameters

if TYPE_CHECKING:
    import polars as pl

    from peerveil.core.arrays import Codes, Floats
    from peerveil.truth.answers import EncodedAnswers


class MemoryEngine:
    """Answers in memory; ``gold`` has the code of each task's known correct answer, -1 where there is none."""

    def __init__(self, answers: EncodedAnswers, gold: NDArray[np.int32] | None = None) -> None:
        self.answers, self.workers, self.classes, self.loads = answers, answers.workers, answers.classes, answers.loads
        self.gold = np.full(len(answers.tasks), -1, dtype=np.int32) if gold is None else gold
        self.has_gold = bool((self.gold >= 0).any())
        self._data = answers.start, answers.worker, answers.label
        self._posterior = np.empty((len(answers.tasks), answers.k))
        self._float_loads = self.loads.astype(np.float64)

    def start(self, posterior: Floats | None = None, *, one_coin: bool) -> ExpectedCounts:
        """Initialize the posteriors (default: vote shares) and return their expected counts."""
        shape = self._posterior.shape
        if posterior is None:
            posterior = self.answers.vote_shares
        elif posterior.shape != shape or not np.isfinite(posterior).all() or (posterior < 0).any():
            raise BadInput("start", got=posterior, want=f"probabilities of shape {shape}")
        self._posterior[:] = posterior
        known = np.flatnonzero(self.gold >= 0)
        self._posterior[known] = np.eye(shape[1])[self.gold[known]]
        if one_coin:
            return self._counts(self.correct_moments()[0])
        self._by_worker = np.empty((len(self.workers), shape[1], shape[1]))
        count_answers(*self._data, self._posterior, self._by_worker)
        return self._counts(self._by_worker)

    def e_step(self, parameters: Parameters) -> EStep:
        """Update the posteriors; return the log-likelihood and the expected counts by worker and class."""
        weights, state = parameters.weights, (parameters.log_prior, self.gold, self._posterior)
        if isinstance(weights, CoinWeights):
            crowd = np.column_stack([weights.correct - weights.wrong, np.zeros(weights.wrong.size)])
            least = float(self.loads @ weights.wrong)  # the weight of all answers, if none were correct
            return EStep(coin_pass(*self._data, crowd, *state) + least, self._counts(crowd[:, 1].copy()))
        log_likelihood = table_pass(*self._data, weights, *state, self._by_worker)
        return EStep(log_likelihood, self._counts(self._by_worker))

    def correct_moments(self) -> Floats:
        """By worker the expected correct answers, and the sum of c (1 - c), c being the probability that one is correct."""
        moments = np.zeros((2, len(self.workers)))
        add_moments(*self._data, self._posterior, *moments)
        return moments

    def posterior(self) -> tuple[pl.Series, Floats]:
        """The tasks' ids, sorted, and their posteriors."""
        return self.answers.tasks, self._posterior.copy()

    def _counts(self, by_worker: Floats) -> ExpectedCounts:
        return ExpectedCounts(self._posterior.sum(axis=0), by_worker, self._float_loads)


@njit(cache=True, inline="always")
def _normalize(score: Floats, known: int) -> float:
    """Log-scores of a task to its posterior, in place; returns the logarithm of the normalizer. ``known`` is a class or -1."""
    if known >= 0:
        log_normalizer: float = score[known]
        for z in range(score.size):
            score[z] = 1.0 if z == known else 0.0
        return log_normalizer
    top: float = score[0]
    for z in range(1, score.size):
        top = max(top, score[z])
    total = 0.0
    for z in range(score.size):
        score[z] = math.exp(score[z] - top)
        total += score[z]
    for z in range(score.size):
        score[z] /= total
    return top + math.log(total)


@njit(cache=True)
def table_pass(
    start: Codes,
    worker: Codes,
    label: Codes,
    weights: Floats,
    log_prior: Floats,
    gold: Codes,
    posterior: Floats,
    counts: Floats,
) -> float:
    """An E-step for any model, with ``weights[w, r, z]``: writes the posteriors and ``counts[w, r, z]``.

    Returns the log-likelihood. ``gold[t]`` is a known class or -1.
    """
    k = np.uint64(log_prior.size)  # unsigned, so that no index can be negative and none is checked for it
    counts[:] = 0.0
    flat_weights, flat_counts = weights.reshape(-1), counts.reshape(-1)
    score = np.empty(k)
    total = 0.0
    for t in range(start.size - 1):
        for z in range(k):
            score[z] = log_prior[z]
        for i in range(start[t], start[t + 1]):
            cell = (np.uint64(worker[i]) * k + np.uint64(label[i])) * k
            for z in range(k):
                score[z] += flat_weights[cell + z]
        total += _normalize(score, gold[t])
        for z in range(k):
            posterior[t, z] = score[z]
        for i in range(start[t], start[t + 1]):
            cell = (np.uint64(worker[i]) * k + np.uint64(label[i])) * k
            for z in range(k):
                flat_counts[cell + z] += score[z]
    return total


@njit(cache=True)
def coin_pass(
    start: Codes, worker: Codes, label: Codes, crowd: Floats, log_prior: Floats, gold: Codes, posterior: Floats
) -> float:
    """:func:`table_pass` for one-coin models, at a cost that does not grow with the number of classes.

    A correct answer weighs ``crowd[w, 0]`` more than a wrong one (whose weight is the same whatever is correct, and is added by
    the caller). ``crowd[w, 1]`` becomes the expected number of correct answers of worker w. Both stand beside each other, so that
    a worker is fetched from memory once per task.
    """
    k = log_prior.size
    crowd[:, 1] = 0.0
    score, total = np.empty(k), 0.0
    for t in range(start.size - 1):
        for z in range(k):
            score[z] = log_prior[z]
        for i in range(start[t], start[t + 1]):
            score[label[i]] += crowd[np.uint64(worker[i]), 0]  # unsigned: no index is checked for being negative
        total += _normalize(score, gold[t])
        for z in range(k):
            posterior[t, z] = score[z]
        for i in range(start[t], start[t + 1]):
            crowd[np.uint64(worker[i]), 1] += score[label[i]]
    return total


@njit(cache=True)
def count_answers(start: Codes, worker: Codes, label: Codes, posterior: Floats, counts: Floats) -> None:
    """The expected counts that belong to given posteriors."""
    counts[:] = 0.0
    for t in range(start.size - 1):
        for i in range(start[t], start[t + 1]):
            row = counts[worker[i], label[i]]
            for z in range(posterior.shape[1]):
                row[z] += posterior[t, z]


@njit(cache=True)
def add_moments(
    start: Codes, worker: Codes, label: Codes, posterior: Floats, correct: Floats, uncertainty: Floats
) -> None:
    """Add c and c (1 - c) of every answer to its worker, c being the probability that it is correct."""
    for t in range(start.size - 1):
        for i in range(start[t], start[t + 1]):
            c = posterior[t, label[i]]
            correct[worker[i]] += c
            uncertainty[worker[i]] += c * (1.0 - c)
