"""Expectation-maximization, shared by every model and every engine.

An engine holds the answers and the posteriors of the tasks; a model holds what is assumed of the workers. One iteration is

- an M-step of the model: expected counts to parameters;
- an E-step of the engine: parameters to posteriors, and their expected counts.

Both steps maximize the same objective (for grid models a lower bound of the likelihood, for point estimates the likelihood
times the prior), so it cannot fall, and its rise decides about convergence.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

import numpy as np

from peerveil.core.errors import PeerveilError

if TYPE_CHECKING:
    import polars as pl

    from peerveil.core.arrays import Floats, Ints
    from peerveil.truth.answers import EncodedAnswers
    from peerveil.truth.choose import Evidence

Counted: TypeAlias = Literal["correct", "correct by class", "answers by class"]
"""What an M-step reads of every worker: ``by_worker`` and ``loads`` of :class:`ExpectedCounts` have one of three shapes."""

_LONGEST_SERIES: Final = 20.0  # of the last rise: EM whose rises shrink by 5% or more in an iteration
_ERROR_OF_NO_INFORMATION: Final = 0.5 / math.sqrt(3)  # standard deviation of a uniform ability


class EMNotConverged(PeerveilError):
    """The objective still rose in the last allowed iteration.

    Attributes
    ----------
    iterations : int
    rise : float
        The last change of the objective, relative to its size.
    tolerance : float
    """

    def __init__(self, iterations: int, rise: float, tolerance: float) -> None:
        self.iterations, self.rise, self.tolerance = iterations, rise, tolerance
        super().__init__(
            f"EM did not converge after {iterations} iterations (relative change {rise:.2g}, tolerance {tolerance:g}). "
            "Increase iterations or tolerance, or pass must_converge=False"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return EMNotConverged, (self.iterations, self.rise, self.tolerance)


@dataclass(slots=True)
class ExpectedCounts:
    """What an M-step reads, in expectation over the posteriors."""

    by_class: Floats  # [class]: tasks of each class
    by_worker: Floats
    """Correct answers, [worker] or [worker, class]; or answers by what is correct, [worker, answer, class]."""
    loads: Floats  # answers: [worker], or [worker, class] beside correct answers by class
    entropy: float = math.nan  # of the posteriors, where it is known

    @classmethod
    def of_table(
        cls, by_class: Floats, table: Floats, loads: Floats, counted: Counted, sizes: Floats | None = None
    ) -> ExpectedCounts:
        """What is to be counted, from answers (with ``sizes`` their rows) by what is correct: [worker, answer, class]."""
        if counted == "answers by class":
            return cls(by_class, table, loads)
        correct = np.diagonal(table, axis1=1, axis2=2)
        if counted == "correct":
            return cls(by_class, correct.sum(axis=1), loads)
        return cls(by_class, correct, table.sum(axis=1) / (1.0 if sizes is None else sizes[:, None]))


@dataclass(slots=True)
class CoinWeights:
    """Log-probability of the correct answer, and of each other answer: [worker], or [worker, class] by what is correct."""

    correct: Floats
    wrong: Floats

    def of_rows(self, sizes: Floats) -> CoinWeights:
        """The weights of each row, where an answer of worker w has ``sizes[w]`` rows: together they weigh as much as the answer.

        With u and v the weights if the answer is correct and if not, every row weighs v/size, and u - v more if it names the
        class.
        """
        size = sizes.reshape(-1, *[1] * (self.wrong.ndim - 1))
        return CoinWeights(self.correct - self.wrong + self.wrong / size, self.wrong / size)

    def table(self, k: int) -> Floats:
        """The same as [worker, answer, class]."""
        workers = len(self.correct)
        correct, wrong = (part.reshape(workers, 1, -1) for part in (self.correct, self.wrong))
        return np.where(np.eye(k, dtype=bool), correct, wrong)


@dataclass(slots=True)
class Parameters:
    """The outcome of an M-step; the objective is the log-likelihood of the E-step minus the penalty."""

    weights: CoinWeights | Floats  # log-probabilities of answers, or [worker, answer, class]
    log_prior: Floats  # [class]: logarithms of the shares of the classes
    penalty: float  # what priors and entropies cost
    abilities: Floats  # [worker]
    standard_errors: Floats  # [worker]
    details: dict[str, Floats | float] = field(default_factory=dict)

    def expected(self, counts: ExpectedCounts) -> float:
        """The expected log-probability of all answers and correct classes. With the entropy of the posteriors, and without the
        penalty, it is the objective before an E-step.
        """
        hits, weights, total = counts.by_worker.T, self.weights, float(counts.by_class @ self.log_prior)
        if isinstance(weights, CoinWeights):  # transposed: one weight of a worker is that of every class
            return total + float((hits * weights.correct.T + (counts.loads.T - hits) * weights.wrong.T).sum())
        return total + float((hits * weights.T).sum())


@dataclass(slots=True)
class EStep:
    """The outcome of an E-step: the sum over tasks of ln sum_z prior(z) prod weights, and the new counts."""

    log_likelihood: float
    counts: ExpectedCounts


def e_step(engine: Engine, parameters: Parameters, counted: Counted) -> EStep:
    """An E-step whose counts know the entropy of the posteriors."""
    step = engine.e_step(parameters, counted)
    step.counts.entropy = step.log_likelihood - parameters.expected(step.counts)
    return step


class Engine(Protocol):
    """Holds the answers and runs E-steps over them (in memory, DuckDB or Spark)."""

    vote_weights: Floats | None  # [worker]: of votes at the start, where people chose their epsilons; None is equal
    classes: tuple[Hashable, ...]
    workers: pl.Series
    loads: Ints
    has_gold: bool  # whether some correct answers are known

    @property
    def answers(self) -> EncodedAnswers:
        """The answers; a sample of them, about two million, where they need not fit in memory."""

    def start(self, posterior: Floats | None, counted: Counted) -> ExpectedCounts:
        """The expected counts of posteriors to begin with (default: vote shares)."""

    def e_step(self, parameters: Parameters, counted: Counted) -> EStep:
        """Update the posteriors; return the log-likelihood and the expected counts."""

    def correct_moments(self) -> Floats:
        """Two rows, by worker: expected correct answers, and the sum of c (1 - c), c the probability that one is correct."""

    def posterior(self) -> tuple[pl.Series, Floats]:
        """The tasks' ids, sorted, and their posteriors, one row per task."""


@dataclass(frozen=True)
class Limits:
    """When EM ends: at a relative change of the objective below ``tolerance``, or after so many ``iterations``."""

    iterations: int = 500
    tolerance: float = 1e-6
    must_converge: bool = True


@dataclass(frozen=True)
class EMFit:
    """Where EM ended; ``evidence`` tells how a model was chosen, if it was."""

    tasks: pl.Series
    posterior: Floats
    class_shares: Floats
    abilities: Floats
    standard_errors: Floats
    objectives: list[float]
    converged: bool
    objective: float
    details: dict[str, Floats | float]
    evidence: Evidence | None = None


class Model(Protocol):
    """Anything that can be fitted on an engine: an EM model, or an automatic choice among several."""

    def fit(self, engine: Engine, limits: Limits, start: Floats | None = None) -> EMFit:
        """Estimate posteriors and abilities, starting from posteriors (default: vote shares)."""


class EMModel(ABC):
    """A model that EM fits."""

    counted: Counted  # what the M-step reads
    settled = False  # whether the last M-step is known to have reached the maximum

    @abstractmethod
    def m_step(self, counts: ExpectedCounts) -> Parameters:
        """The parameters that maximize the objective, given the expected counts."""

    def fit(
        self, engine: Engine, limits: Limits, start: Floats | None = None, counts: ExpectedCounts | None = None
    ) -> EMFit:
        """Iterate M-steps and E-steps until the objective has converged; from expected ``counts``, if they are given."""
        run = EMRun(self, engine, first_counts(engine, self.counted, start) if counts is None else counts)
        while not run.ended(limits):
            run.step()
        if limits.must_converge and not run.converged(limits):
            raise EMNotConverged(limits.iterations, run.change, limits.tolerance)
        tasks, posterior = engine.posterior()
        return EMFit(
            tasks=tasks,
            posterior=posterior,
            class_shares=np.exp(run.parameters.log_prior),
            abilities=run.parameters.abilities,
            standard_errors=_with_unknown_labels(run.parameters.standard_errors, engine),
            objectives=run.objectives,
            converged=run.converged(limits),
            objective=run.objective,
            details=run.parameters.details,
        )


def first_counts(engine: Engine, counted: Counted, start: Floats | None = None) -> ExpectedCounts:
    """The counts that EM begins with: of given posteriors, of the shares of votes, or of votes by their weights.

    Where channels differ, unweighted votes would drown the few that tell much in the many that tell little, and EM may end
    elsewhere.
    """
    if start is not None or engine.vote_weights is None:
        return engine.start(start, counted)
    weights, k = engine.vote_weights, len(engine.classes)
    coin = CoinWeights(weights, np.zeros_like(weights))
    if counted != "correct":
        coin = CoinWeights(np.repeat(weights[:, None], k, axis=1), np.zeros((weights.size, k)))
    votes = coin.table(k) if counted == "answers by class" else coin
    return engine.e_step(Parameters(votes, np.zeros(k), 0.0, weights, weights), counted).counts


class EMRun:
    """EM in progress. All that an iteration needs of the one before are its expected counts, so that runs may take turns."""

    parameters: Parameters
    before: float  # the objective between the first M-step and the first E-step; NaN if it is not known

    def __init__(self, model: EMModel, engine: Engine, counts: ExpectedCounts) -> None:
        self.model, self.engine, self.counts = model, engine, counts
        self.objectives: list[float] = []

    def step(self) -> None:
        """One M-step and one E-step."""
        self.parameters = self.model.m_step(self.counts)
        if not self.objectives:
            self.before = self.parameters.expected(self.counts) + self.counts.entropy - self.parameters.penalty
            self._settled = self.model.settled
        step = e_step(self.engine, self.parameters, self.model.counted)
        self.counts = step.counts
        self.objectives.append(step.log_likelihood - self.parameters.penalty)

    @property
    def objective(self) -> float:
        """The objective after the last step."""
        return self.objectives[-1]

    @property
    def rise(self) -> float:
        """By how much the last step raised the objective.

        After the first step it is twice what the E-step alone did: near its maximum an EM whose errors shrink by r raises the
        objective by c in an M-step, by r c in the E-step, and by r^2 (1 + r) c <= 2 r c in the next iteration. Infinite if the
        M-step may have stopped before its maximum, or if the entropy of the counts at the start is not known.
        """
        if len(self.objectives) > 1:
            return self.objectives[-1] - self.objectives[-2]
        e_step_alone = self.objectives[-1] - self.before
        return 2 * e_step_alone if self._settled and not math.isnan(e_step_alone) else math.inf

    @property
    def outlook(self) -> float:
        """What the objective may still gain: three times the geometric series of the last two rises, at most 20 last rises."""
        before = self.objectives[-2] - self.objectives[-3] if len(self.objectives) > 2 else 0.0
        ratio = self.rise / before if before > 0 else 1.0
        return self.rise * (min(_LONGEST_SERIES, 3 / (1 - ratio)) if ratio < 1 else _LONGEST_SERIES)

    @property
    def change(self) -> float:
        """The same as a share of the objective's size."""
        return abs(self.rise) / max(1.0, abs(self.objective)) if self.objectives else math.inf

    def converged(self, limits: Limits) -> bool:
        """Whether the last step changed the objective by less than the tolerance."""
        return self.change < limits.tolerance

    def ended(self, limits: Limits) -> bool:
        """Whether EM has converged, or may not go on."""
        return self.converged(limits) or len(self.objectives) >= limits.iterations


def _with_unknown_labels(errors: Floats, engine: Engine) -> Floats:
    """Standard errors that account for unknown labels.

    An M-step computes errors as if expected counts had been observed. What is observed about the share p of correct answers is
    less by the missing information (Louis, 1982): n/(p(1-p)) - sum c(1-c)/(p(1-p))^2. Errors grow by the root of the ratio,
    up to that of an ability of which nothing is known.
    """
    correct, uncertainty = engine.correct_moments()
    loads = np.maximum(engine.loads, 1).astype(np.float64)
    p = np.clip(correct / loads, 1e-3, 1 - 1e-3)
    observed = np.clip(1 - uncertainty / (loads * p * (1 - p)), 0.04, 1.0)
    return np.asarray(np.minimum(errors / np.sqrt(observed), np.maximum(errors, _ERROR_OF_NO_INFORMATION)))
