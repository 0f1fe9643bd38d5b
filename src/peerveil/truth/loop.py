"""The iteration that every model and every engine shares.

An engine holds the reports and the posteriors of tasks; a model turns tallies into weights. One iteration: the model looks at
the tallies, the engine passes over the reports with the new weights and returns new tallies. Each half maximizes the same
objective (for grid models a lower bound of the likelihood of the reports, for point estimates the likelihood times the
prior), so that it cannot fall, and its rise is what convergence is judged by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from peerveil.core.errors import PeerveilError
from peerveil.truth import kernels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from peerveil.truth.abilities import Summary
    from peerveil.truth.answers import EncodedAnswers

    Floats = NDArray[np.float64]


_BLIND = 0.5 / math.sqrt(3)  # the standard deviation of an ability of which nothing is known


class EMNotConverged(PeerveilError):
    """The objective still rose when the last allowed iteration was done.

    Attributes
    ----------
    iterations : int
    rise : float
        The last rise of the objective, relative to its size.
    """

    def __init__(self, iterations: int, rise: float, tolerance: float) -> None:
        self.iterations, self.rise, self.tolerance = iterations, rise, tolerance
        super().__init__(
            f"no convergence in {iterations} iterations: the objective still changed by {rise:.2g} of its size, tolerance "
            f"{tolerance:g}. Allow more iterations, a larger tolerance, or must_converge=False"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return EMNotConverged, (self.iterations, self.rise, self.tolerance)


class Engine(Protocol):
    """Where reports live and passes over them run."""

    k: int

    @property
    def has_gold(self) -> bool:
        """Whether some answers are known."""

    def loads(self) -> NDArray[np.int64]:
        """How many reports each worker sent."""

    def begin(self, start: Floats | None) -> Any:
        """Set the posteriors, by default to the shares of votes; returns nothing of interest."""

    def first_tally(self, coin: bool) -> tuple[Floats, Floats]:
        """Tallies of the posteriors as they stand, and the mass of every class."""

    def step(self, summary: Summary, log_prior: Floats) -> tuple[float, Floats, Floats]:
        """A pass: the sum of log normalizers, the new tallies, the mass of every class."""

    def doubt(self) -> tuple[Floats, Floats]:
        """For every worker the expected hits, and the sum of c (1 - c), c being the chance that a report shows the truth."""

    def posterior(self) -> Floats:
        """The posteriors, one row a task."""


class ClassPrior:
    """The shares of the classes: fixed, or estimated with pseudo-counts.

    ``shrink`` says how far the shares are estimated: with w, they are w times what the posteriors say and 1 - w times even.
    That is a Dirichlet prior worth (1 - w)/w times as many tasks as there are, so that the objective still cannot fall.
    """

    def __init__(self, shares: Floats | None, k: int, pseudo: float = 0.0, shrink: float | None = None) -> None:
        self.shares, self.k, self.pseudo, self.shrink = shares, k, pseudo, shrink

    def look(self, mass: Floats) -> tuple[Floats, float]:
        """Logarithms of the shares, and what they cost in the objective."""
        if self.shares is not None:
            return np.log(np.maximum(self.shares, 1e-10)), 0.0
        pseudo = self.pseudo if self.shrink is None else (1 / self.shrink - 1) * float(mass.sum()) / self.k
        counts = mass + pseudo
        shares = np.maximum(counts / counts.sum(), 1e-10)  # crowd-kit's floor
        return np.log(shares), -pseudo * float(np.log(self.k * shares).sum())


@dataclass
class Fit:
    """Where an iteration ended."""

    summary: Summary
    posterior: Floats
    shares: Floats
    objective: float
    history: list[float]
    converged: bool

    @property
    def iterations(self) -> int:
        """How many there were."""
        return len(self.history)


def iterate(
    engine: Engine,
    model: Any,
    prior: ClassPrior,
    *,
    start: Floats | None = None,
    iterations: int = 500,
    tolerance: float = 1e-6,
    must_converge: bool = True,
) -> Fit:
    """Run a model on an engine until the objective rises by less than ``tolerance`` of its size."""
    engine.begin(start)
    tally, mass = engine.first_tally(model.is_coin)
    loads = engine.loads().astype(np.float64)
    objectives: list[float] = []
    rise = math.inf
    for _ in range(iterations):
        summary = _look(model, tally, loads)
        log_prior, prior_cost = prior.look(mass)
        total, tally, mass = engine.step(summary, log_prior)
        objectives.append(total - summary.cost - prior_cost)
        if len(objectives) > 1:
            rise = abs(objectives[-1] - objectives[-2]) / max(1.0, abs(objectives[-1]))
            if rise < tolerance:
                break
    converged = rise < tolerance
    if must_converge and not converged:
        raise EMNotConverged(iterations, rise, tolerance)
    summary.error = _with_doubt(summary.error, engine, loads)
    return Fit(summary, engine.posterior(), np.exp(log_prior), objectives[-1], objectives, converged)


def _with_doubt(error: Floats, engine: Engine, loads: Floats) -> Floats:
    """Standard errors that know of the doubt about the labels.

    Both kinds of models compute errors as if the expected hits had been counted. What is observed about the share p of hits is
    less than that by the information that is missing (Louis, 1982): n/(p(1-p)) - sum c(1-c)/(p(1-p))^2. Errors grow by the
    root of the ratio, up to what knowing nothing at all would give.
    """
    hits, doubt = engine.doubt()
    p = np.clip(hits / np.maximum(loads, 1), 1e-3, 1 - 1e-3)
    left = np.clip(1 - doubt / (np.maximum(loads, 1) * p * (1 - p)), 0.04, 1.0)
    return np.asarray(np.minimum(error / np.sqrt(left), np.maximum(error, _BLIND)))


def _look(model: Any, tally: Floats, loads: Floats) -> Summary:
    """Hand a model the tallies in the form that it reads."""
    found: Summary
    if model.is_coin:
        found = model.look(tally, loads)
    elif hasattr(model, "grid"):
        found = model.look(tally[:, range(tally.shape[1]), range(tally.shape[1])], tally.sum(axis=1))
    else:
        found = model.look(tally)
    return found


class MemoryEngine:
    """EncodedAnswers in memory, compiled passes."""

    def __init__(self, reports: EncodedAnswers, gold: NDArray[np.int32] | None = None) -> None:
        self.reports, self.k = reports, reports.k
        self.gold = np.full(len(reports.tasks), -1, dtype=np.int32) if gold is None else gold
        self._posterior = np.empty((len(reports.tasks), reports.k))
        self._coin = True

    @property
    def has_gold(self) -> bool:
        """Whether some answers are known."""
        return bool((self.gold >= 0).any())

    def loads(self) -> NDArray[np.int64]:
        """How many reports each worker sent."""
        return self.reports.loads

    def begin(self, start: Floats | None) -> None:
        """Set the posteriors: given ones, or the shares of votes."""
        if start is None:
            votes = self.reports.votes
            total = votes.sum(axis=1, keepdims=True)
            np.divide(votes, total, out=self._posterior, where=total > 0)
            self._posterior[total[:, 0] == 0] = 1 / self.k
        else:
            self._posterior[:] = start
        known = np.flatnonzero(self.gold >= 0)
        self._posterior[known] = 0.0
        self._posterior[known, self.gold[known]] = 1.0

    def first_tally(self, coin: bool) -> tuple[Floats, Floats]:
        """Tallies of the posteriors as they stand."""
        r, self._coin = self.reports, coin
        shape = (len(r.workers),) if coin else (len(r.workers), self.k, self.k)
        self._tally = np.empty(shape)
        (kernels.hits_of if coin else kernels.tally_of)(r.start, r.worker, r.label, self._posterior, self._tally)
        return self._tally, self._posterior.sum(axis=0)

    def step(self, summary: Summary, log_prior: Floats) -> tuple[float, Floats, Floats]:
        """One compiled pass."""
        r = self.reports
        if self._coin:
            assert summary.right is not None
            assert summary.wrong is not None
            crowd = np.column_stack([summary.right - summary.wrong, np.zeros(summary.right.size)])
            total = kernels.coin_pass(r.start, r.worker, r.label, crowd, log_prior, self.gold, self._posterior)
            total += float(r.loads @ summary.wrong)  # every report weighs at least that, whatever is true
            self._tally = crowd[:, 1].copy()
        else:
            common = (log_prior, self.gold, self._posterior, self._tally)
            total = kernels.table_pass(r.start, r.worker, r.label, summary.table, *common)
        return float(total), self._tally, self._posterior.sum(axis=0)

    def doubt(self) -> tuple[Floats, Floats]:
        """Expected hits, and the sum of c (1 - c)."""
        r = self.reports
        hits, doubt = np.empty(len(r.workers)), np.empty(len(r.workers))
        kernels.hits_of(r.start, r.worker, r.label, self._posterior, hits)
        kernels.doubt_of(r.start, r.worker, r.label, self._posterior, doubt)
        return hits, doubt

    def posterior(self) -> Floats:
        """The posteriors, one row a task."""
        return self._posterior.copy()
