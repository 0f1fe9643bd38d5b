"""The engine for answers in memory: compiled E-steps (:mod:`peerveil.truth.kernels`) over answers that are sorted by task."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from peerveil.core.errors import BadInput, Verbatim
from peerveil.truth import kernels
from peerveil.truth.em import CoinWeights, Counted, EStep, ExpectedCounts, Parameters

if TYPE_CHECKING:
    import polars as pl

    from peerveil.core.arrays import Floats
    from peerveil.truth.answers import EncodedAnswers

_MOST_CODES: Final = 2**32 - 1
_ROWS: Final = 256  # added up side by side


def column_sums(table: Floats) -> Floats:
    """The sums of few long columns: NumPy is slow along short rows, so many are taken as one.

    >>> column_sums(np.ones((1000, 3))).tolist()
    [1000.0, 1000.0, 1000.0]
    """
    k, whole = table.shape[1], len(table) // _ROWS * _ROWS
    blocks = table[:whole].reshape(-1, _ROWS * k).sum(axis=0).reshape(_ROWS, k)
    return np.asarray(blocks.sum(axis=0) + table[whole:].sum(axis=0))


class MemoryEngine:
    """Answers in memory; ``gold`` has the code of each task's known correct answer, -1 where there is none.

    Two classes need one number per task and answer, for every model: the evidence for class 1. More classes have a pass for
    each kind of counts.
    """

    vote_weights: Floats | None = None

    def __init__(self, answers: EncodedAnswers, gold: NDArray[np.int32] | None = None) -> None:
        self.answers, self.workers, self.classes, self.loads = answers, answers.workers, answers.classes, answers.loads
        self.has_gold = gold is not None and bool((gold >= 0).any())
        self._gold = gold if gold is not None and self.has_gold else np.empty(0, dtype=np.int32)
        k = answers.k
        if len(answers.workers) * k > _MOST_CODES:
            got = Verbatim(f"{len(answers.workers):,} workers and {k:,} classes")
            raise BadInput("labels", got=got, want=f"at most {_MOST_CODES:,} pairs of a worker and a class")
        # one code for worker and label; unsigned, so that no position is checked for being negative
        self._code = answers.worker.astype(np.uint32) * np.uint32(k) + answers.label
        self._start = answers.start.astype(np.uint64)
        self._answers_of_code = np.bincount(self._code, minlength=len(self.workers) * k).astype(np.float64)
        self._posterior = np.empty(len(answers.tasks) if k == 2 else (len(answers.tasks), k))
        self._float_loads = self.loads.astype(np.float64)
        self._sizes = None if answers.sizes is None else answers.sizes.astype(np.float64)

    def start(self, posterior: Floats | None, counted: Counted) -> ExpectedCounts:
        """The expected counts of posteriors to begin with (default: vote shares)."""
        shape = len(self.answers.tasks), self.answers.k
        if posterior is None:
            posterior = self._vote_shares
        elif posterior.shape != shape or not np.isfinite(posterior).all() or (posterior < 0).any():
            raise BadInput("start", got=posterior, want=f"probabilities of shape {shape}")
        if self.has_gold:
            known = np.flatnonzero(self._gold >= 0)
            posterior = posterior.copy()
            posterior[known] = np.eye(shape[1])[self._gold[known]]
        by_class = column_sums(posterior)
        if counted == "correct":
            return ExpectedCounts(by_class, self._moments(posterior)[0], self._float_loads)
        if counted == "correct by class" and shape[1] == 2:
            of_class_1 = np.zeros((len(self._answers_of_code), 1))
            kernels.count_answers(self._start, self._code, np.ascontiguousarray(posterior[:, 1:]), of_class_1)
            return self._counts_of_two(by_class, of_class_1[:, 0], counted)
        if counted == "correct by class":
            correct, answers = np.zeros((2, len(self.workers), shape[1]))
            kernels.count_by_class(self._start, self._code, posterior, correct, answers)
            return ExpectedCounts(by_class, correct, self._answers(answers))
        table = np.zeros((len(self.workers), shape[1], shape[1]))
        kernels.count_answers(self._start, self._code, posterior, table.reshape(-1, shape[1]))
        return ExpectedCounts(by_class, table, self._float_loads)

    def e_step(self, parameters: Parameters, counted: Counted) -> EStep:
        """Update the posteriors; return the log-likelihood and the expected counts."""
        weights, log_prior, k = parameters.weights, parameters.log_prior, self.answers.k
        if k == 2:
            return self._e_step_of_two(
                weights.table(k) if isinstance(weights, CoinWeights) else weights, log_prior, counted
            )
        data, state = (self._start, self._code), (log_prior, self._gold, self._posterior)
        if not isinstance(weights, CoinWeights):
            table = np.zeros((len(self.workers), k, k))
            flat = weights.reshape(-1, k), table.reshape(-1, k)
            log_likelihood = kernels.table_pass(*data, flat[0], *state, flat[1])
            return EStep(log_likelihood, self._counts(table, self._float_loads))
        evidence = weights.correct - weights.wrong
        wrong = weights.wrong if self._sizes is None else weights.of_rows(self._sizes).wrong
        if counted == "correct":  # the weights of one-coin models are the same for every class
            correct = np.zeros(len(self.workers))
            least = float(self.loads @ weights.wrong)  # the weight of all answers, if none were correct
            log_likelihood = least + kernels.coin_pass(*data, evidence, *state, correct)
            return EStep(log_likelihood, self._counts(correct, self._float_loads))
        correct, answers = np.zeros((2, len(self.workers), k))
        if wrong.ndim == 1:
            wrong, evidence = (np.repeat(weight[:, None], k, axis=1) for weight in (wrong, evidence))
        log_likelihood = kernels.class_coin_pass(*data, wrong, evidence, *state, correct, answers)
        return EStep(log_likelihood, self._counts(correct, self._answers(answers)))

    def _e_step_of_two(self, table: Floats, log_prior: Floats, counted: Counted) -> EStep:
        """With two classes, posteriors depend on differences of log weights alone; ``table`` is [worker, answer, class]."""
        table = table.reshape(-1, 2)
        evidence, log_odds = table[:, 1] - table[:, 0], float(log_prior[1] - log_prior[0])
        of_class_1 = np.zeros(len(table))
        total = kernels.two_class_pass(
            self._start, self._code, evidence, log_odds, self._gold, self._posterior, of_class_1
        )
        tasks = len(self.answers.tasks)
        # the log-likelihood if class 0 were correct everywhere
        log_likelihood = total + float((self._answers_of_code * table[:, 0]).sum()) + tasks * float(log_prior[0])
        share = float(self._posterior.sum())
        by_class = np.array([tasks - share, share])
        return EStep(log_likelihood, self._counts_of_two(by_class, of_class_1, counted))

    def _counts_of_two(self, by_class: Floats, of_class_1: Floats, counted: Counted) -> ExpectedCounts:
        """The expected counts of two classes, from the answers of each code to tasks of class 1."""
        table = np.column_stack([np.maximum(self._answers_of_code - of_class_1, 0.0), of_class_1]).reshape(-1, 2, 2)
        return ExpectedCounts.of_table(by_class, table, self._float_loads, counted)

    def correct_moments(self) -> Floats:
        """By worker the expected correct answers, and the sum of c (1 - c), c being the probability that one is correct."""
        return self._moments(self.posterior()[1])

    def posterior(self) -> tuple[pl.Series, Floats]:
        """The tasks' ids, sorted, and their posteriors."""
        p = self._posterior
        return self.answers.tasks, np.column_stack([1.0 - p, p]) if self.answers.k == 2 else p.copy()

    @cached_property
    def _vote_shares(self) -> Floats:
        return self.answers.vote_shares

    def _counts(self, by_worker: Floats, loads: Floats) -> ExpectedCounts:
        return ExpectedCounts(column_sums(self._posterior), by_worker, loads)

    def _answers(self, rows: Floats) -> Floats:
        """Answers of workers, from their rows."""
        return rows if self._sizes is None else rows / self._sizes[:, None]

    def _moments(self, posterior: Floats) -> Floats:
        if self._sizes is not None:  # an answer that names several classes is correct if any of them is
            answers, first = self.answers, self.answers.answer_starts
            task = np.repeat(np.arange(len(answers.tasks)), np.diff(answers.start))
            c = np.add.reduceat(posterior[task, answers.label], first)
            return np.stack([np.bincount(answers.worker[first], v, len(self.workers)) for v in (c, c * (1 - c))])
        if self.answers.k == 2:  # c (1 - c) is the same for both answers
            p, by_code = posterior[:, 1], np.zeros((len(self._answers_of_code), 2))
            kernels.count_answers(self._start, self._code, np.column_stack([p, p * (1.0 - p)]), by_code)
            of_class_1, uncertainty = by_code.reshape(-1, 2, 2).transpose(2, 0, 1)
            of_class_0 = self._answers_of_code.reshape(-1, 2) - of_class_1
            return np.stack([of_class_0[:, 0] + of_class_1[:, 1], uncertainty.sum(axis=1)])
        moments = np.zeros((2, len(self.workers)))
        kernels.add_moments(self._start, self._code, posterior, *moments)
        return moments
