"""The default: one-coin, unless the reports speak clearly for workers with biases of their own.

Which model labels best cannot be read off its likelihood alone. A crowd that finds one class harder than the other makes
every two-coin model likelier than one-coin, and yet its labels worse: a bias that all workers share cannot be told from
tasks that are harder in one class, and the two-coin model moves the border between the classes to where it should not
be. What the tasks cannot explain are biases that *differ* between workers. So three likelihoods of the reports are compared:

- ``common``: one ability a worker, and a shift by class that all workers share;
- ``own``: an ability for every worker and class;
- ``nothing``: reports that are pure chance.

The share (own - common) / (own - nothing + 2 nats a worker) is how much of all that the reports tell is told by personal biases
only. Below 8% the answer is one-coin, above 14% two-coin, and in between their posteriors are averaged. On seven real data sets
the share is above 14% for the one crowd on which one-coin fails (from epsilon 1 on), and below 7% for all others; invented crowds
whose members always give one class of their own are found too (``peerveil reproduce truth/crowds``).

Private majority is the limit of one-coin for a strong prior, so that it need not be a candidate of its own: at small epsilon
the prior is strong (:func:`~peerveil.truth.abilities.prior_strength`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.truth.abilities import Channel, GridModel
from peerveil.truth.loop import ClassPrior, Engine, Fit, MemoryEngine, iterate
from peerveil.truth.reports import Reports

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

LOW: Final = 0.08
HIGH: Final = 0.14
_ROUGH: Final[dict[str, Any]] = {"strength": 4.0, "cells": 41}
_SPARE: Final = 2.0  # nats a worker: where reports tell almost nothing, the share stays small
_STEPS: Final = 40  # of the two fits that are only compared: both lower bounds, so that stopping early errs alike
_SAMPLE: Final = 2_000_000  # reports that the choice looks at


@dataclass(frozen=True)
class Evidence:
    """What the reports say about personal biases.

    Attributes
    ----------
    share : float
        How much of what the reports tell needs personal biases.
    weight : float
        Of two-coin in the average; the rest is one-coin.
    """

    common: float
    own: float
    nothing: float
    workers: int

    @property
    def share(self) -> float:
        """From 0 to 1."""
        told = max(self.own - self.nothing, 0.0) + _SPARE * self.workers
        return max(0.0, self.own - self.common) / told

    @property
    def weight(self) -> float:
        """0 below 8%, 1 above 14%, linear in between."""
        return float(np.clip((self.share - LOW) / (HIGH - LOW), 0.0, 1.0))


def evidence(engine: MemoryEngine, channel: Channel, start: Floats | None, settings: dict[str, Any]) -> Evidence:
    """Fit both explanations from the votes and from ``start``, classes being even, and keep the better of each.

    Two starts, because one-coin can be caught by people who always give one class: from there no model finds out.
    """
    even = ClassPrior(np.full(channel.k, 1 / channel.k), channel.k)
    brief = {"iterations": _STEPS, "tolerance": max(1e-6, settings["tolerance"]), "must_converge": False}
    values = {}
    for groups in ("offset", "class"):
        found = []
        for begin in (None, start):
            model = GridModel(channel, engine.loads(), groups, free_means=groups == "class", **_ROUGH)
            found.append(iterate(engine, model, even, start=begin, **brief).objective)
        values[groups] = max(found)
    return Evidence(values["offset"], values["class"], -len(engine.reports) * math.log(channel.k), engine.loads().size)


def fit_auto(
    engine: Engine, reports: Reports, channel: Channel, prior: ClassPrior, settings: dict[str, Any], **extra: Any
) -> tuple[Fit, Evidence]:
    """One-coin, two-coin or their average; ``reports`` are what the choice looks at (a sample, if there are many)."""
    start, history = extra.get("start"), extra.get("history")
    one = iterate(engine, GridModel(channel, engine.loads(), "worker", history=history), prior, start=start, **settings)
    looked_at = sample(reports)
    small = MemoryEngine(looked_at)
    if looked_at is reports and one.posterior.shape[0] == len(reports.tasks):
        found = evidence(small, channel, one.posterior, settings)
    else:
        first = iterate(small, GridModel(channel, small.loads(), "worker"), prior, **settings)
        found = evidence(small, channel, first.posterior, settings)
    if found.weight == 0:
        return one, found
    model = GridModel(channel, engine.loads(), "class", history=history)
    two = iterate(engine, model, extra.get("two_prior", prior), start=start, **settings)
    if found.weight == 1:
        return two, found
    return _average(one, two, found.weight), found


def _average(one: Fit, two: Fit, weight: float) -> Fit:
    a, b = one.summary, two.summary
    ability = (1 - weight) * a.ability + weight * b.ability
    error = np.sqrt(
        (1 - weight) * (a.error**2 + (a.ability - ability) ** 2) + weight * (b.error**2 + (b.ability - ability) ** 2)
    )
    return Fit(
        summary=replace(b, ability=ability, error=error),
        posterior=(1 - weight) * one.posterior + weight * two.posterior,
        shares=(1 - weight) * one.shares + weight * two.shares,
        objective=(1 - weight) * one.objective + weight * two.objective,
        history=one.history + two.history,
        converged=one.converged and two.converged,
    )


def sample(reports: Reports, most: int = _SAMPLE) -> Reports:
    """Whole tasks, evenly spaced, with about ``most`` reports; the same on every engine."""
    if len(reports) <= most:
        return reports
    stride = math.ceil(len(reports) / most)
    chosen = np.arange(0, len(reports.tasks), stride)
    sizes = np.diff(reports.start)[chosen]
    start = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.repeat(reports.start[chosen] - start[:-1], sizes) + np.arange(start[-1])
    tasks = reports.tasks.gather(chosen)
    return Reports(tasks, reports.workers, reports.classes, start, reports.worker[rows], reports.label[rows])
