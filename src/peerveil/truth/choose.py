"""The default: one-coin, unless the reports speak clearly for workers with biases of their own.

**How much abilities differ** is read off the reports: one-coin is fitted with priors worth 2 to 1,000 answers, and the one
with the highest lower bound of the likelihood is taken. Where reports tell little, as at small epsilon, that is a strong
prior, under which all abilities are equal: private majority voting. The mean-field bound is the further below the
likelihood the more abilities may differ, so that on its own it would choose too strong a prior. What is known of people
stands against it: the logarithm of the strength is normal around that of 6, with a standard deviation of 1 (a strength from
2 to 20 is usual). Where the bounds of all strengths lie within a factor of 10 in likelihood (no strong evidence either way, by
Jeffreys' scale), and biases do not explain them better either, reports tell nothing about who is better than whom: labels
are then those of majority voting, and only the abilities, with their errors, come from the models.

**Whether classes differ in size**: their shares are even, unless estimated shares make the reports likelier by more than a
fair price.

**Whether abilities differ by class** cannot be read off the likelihood of two-coin alone. A crowd that finds one class
harder than the other makes every two-coin model likelier than one-coin, and yet its labels worse: a bias that all workers
share cannot be told from tasks that are harder in one class, nor from classes of different sizes, and the two-coin model
moves the border between the classes to where it should not be. So six explanations of the reports are compared. Personal
biases are ``none`` (one-coin), ``some`` (an ability in general is worth ten answers for the ability in a class) or
``strong`` (two answers), and all workers share a shift by class, or do not. Before, all six are equally likely. Labels are
averaged by the probabilities of the explanations, except that one-coin speaks for ``some`` biases with a shift, since there
the two may be confused.

Bounds stand for the logarithms of likelihoods. The price of a shift, and of estimated shares, is half the logarithm of the
number of tasks for each class but one (Schwarz, 1978).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.truth.abilities import BIAS, STRENGTH, Channel, GridModel
from peerveil.truth.answers import EncodedAnswers
from peerveil.truth.loop import ClassPrior, Engine, Fit, MemoryEngine, iterate
from peerveil.truth.majority import majority_posterior

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

STRENGTHS: Final = (2.0, 6.0, 20.0, 60.0, 1000.0)
_USUAL: Final = 1.0  # the standard deviation of the logarithm of a strength
BIASES: Final[Mapping[str, float | None]] = {"none": None, "some": 10.0, "strong": 2.0}
_TELLING: Final = math.log(10.0)  # nats between strengths below which reports are silent about who is better
_ROUGH: Final = 41  # cells of the grids of fits that are only compared
_LEAST: Final = 0.01  # what weighs less is left out of the average
_STEPS: Final = 40  # of such fits: lower bounds all, so that stopping early errs alike
_SAMPLE: Final = 2_000_000  # reports that the choice looks at


@dataclass(frozen=True)
class Evidence:
    """What the reports say about personal biases.

    Attributes
    ----------
    bounds : dict of (biases, shift) to float
        The logarithms of the likelihoods of the six explanations, relative to the best.
    """

    bounds: dict[tuple[str, bool], float]

    @property
    def probabilities(self) -> dict[str, float]:
        """Of none, some and strong personal biases."""
        found = self._shares()
        return {name: found[name, False] + found[name, True] for name in BIASES}

    @property
    def weights(self) -> dict[str, float]:
        """How much one-coin (none), two-coin for some, and two-coin for strong biases weigh; below 1% it is nothing."""
        found = self._shares()
        some, strong = found["some", False], found["strong", False] + found["strong", True]
        weights = {"none": 1 - some - strong, "some": some, "strong": strong}
        kept = {name: weight if weight >= _LEAST else 0.0 for name, weight in weights.items()}
        total = math.fsum(kept.values())
        return {name: weight / total for name, weight in kept.items()}

    @property
    def silent(self) -> bool:
        """Whether no explanation is clearly likelier than workers without biases."""
        return max(self.bounds.values()) - self.bounds["none", False] < _TELLING

    @property
    def tells_nothing(self) -> bool:
        """Whether all explanations are about equally likely, as they were before there were reports."""
        return max(self.bounds.values()) - min(self.bounds.values()) < _TELLING

    @property
    def weight(self) -> float:
        """Of two-coin in the average, from 0 to 1; the rest is one-coin."""
        return self.weights["some"] + self.weights["strong"]

    @property
    def in_words(self) -> str:
        """What the reports say about personal biases, in words."""
        if self.tells_nothing:
            return "The reports do not tell whether people lean to different answers; both models are averaged."
        if self.weight == 0:
            return "The reports do not show that people lean to different answers, so each has one ability."
        leaning = 1 - self.probabilities["none"]
        models = "each has an ability for every class" if self.weight == 1 else "both models are averaged"
        return f"With a probability of {100 * leaning:.0f}%, people lean to different answers; {models}."

    def _shares(self) -> dict[tuple[str, bool], float]:
        top = max(self.bounds.values())
        raised = {key: math.exp(value - top) for key, value in self.bounds.items()}
        total = math.fsum(raised.values())
        return {key: value / total for key, value in raised.items()}


@dataclass(frozen=True)
class Start:
    """What one-coin says before anything else is fitted.

    Attributes
    ----------
    strength : float
        Of the prior on abilities: the one under which the reports are likeliest.
    silent : bool
        Whether the reports tell nothing about differences between abilities.
    mean : float
        Of abilities.
    skewed : bool
        Whether the reports speak for classes of different sizes.
    posterior : ndarray
        One row a task.
    """

    strength: float
    silent: bool
    mean: float
    skewed: bool
    posterior: Floats


def begin(engine: MemoryEngine, channel: Channel, settings: dict[str, Any], history: Floats | None = None) -> Start:
    """Fit one-coin with priors of several strengths, classes being even; then once more with estimated shares of classes."""
    brief, k = _brief(engine.reports, settings), channel.k
    same: dict[str, Any] = {"mean": _common(engine.reports, channel), "history": history, "cells": _ROUGH}
    fits = {}
    for strength in STRENGTHS:
        fits[strength] = iterate(engine, GridModel(channel, engine.loads(), strength, **same), _even(k), **brief)
    best = max(fits, key=lambda s: fits[s].objective - 0.5 * (math.log(s / STRENGTH) / _USUAL) ** 2)
    one = fits[best]
    model = GridModel(channel, engine.loads(), best, **same)
    free = iterate(engine, model, ClassPrior(None, k), start=one.posterior, **brief)
    skewed = free.objective - one.objective > _price(engine.reports)
    bounds = [fit.objective for fit in fits.values()]
    silent = max(bounds) - min(bounds) < _TELLING
    return Start(best, silent, one.summary.details["prior_mean"], skewed, one.posterior)


def evidence(engine: MemoryEngine, channel: Channel, first: Start, settings: dict[str, Any]) -> Evidence:
    """Fit the six explanations, classes being even.

    Two starts, the votes and the labels of one-coin, because one-coin can be caught by people who always give one class: from
    there no model finds out.
    """
    brief, found = _brief(engine.reports, settings), {}
    for name, bias in BIASES.items():
        for shift in (False, True):
            bounds = []
            for start in (None, first.posterior):
                same: dict[str, Any] = {"shift": shift, "mean": first.mean, "cells": _ROUGH}
                model = GridModel(channel, engine.loads(), first.strength, bias, **same)
                bounds.append(iterate(engine, model, _even(channel.k), start=start, **brief).objective)
            found[name, shift] = max(bounds) - _price(engine.reports) * shift
    top = max(found.values())
    return Evidence({key: value - top for key, value in found.items()})


def fit_auto(
    engine: Engine,
    small: MemoryEngine,
    first: Start,
    channel: Channel,
    prior: ClassPrior,
    settings: dict[str, Any],
    *,
    start: Floats | None = None,
    history: Floats | None = None,
) -> tuple[Fit, Evidence]:
    """One-coin, two-coin or their average; ``small`` is what the choice looks at (a sample, if there are many reports)."""
    found = evidence(small, channel, first, settings)
    fits = []
    for name, weight in found.weights.items():
        if weight > 0:
            # for labels more cautious: they suffer more from too much bias than from too little
            bias = BIAS if name == "strong" else BIASES[name]
            strength = first.strength if bias is None else STRENGTH
            model = GridModel(channel, engine.loads(), strength, bias, mean=first.mean, history=history)
            fits.append((weight, iterate(engine, model, prior, start=start, **settings)))
    fit = fits[0][1] if len(fits) == 1 else _average(fits)
    # nothing else is known than these reports, and all of them were looked at
    alone = start is None and history is None and not engine.has_gold
    if first.silent and found.silent and alone and int(engine.loads().sum()) == len(small.reports):
        fit = replace(fit, posterior=majority_posterior(small.reports.votes, channel)[0])
    return fit, found


def _brief(reports: EncodedAnswers, settings: dict[str, Any]) -> dict[str, Any]:
    """Fits that are only compared end where an iteration adds less than about a fifth of a nat."""
    tolerance = max(settings["tolerance"], 0.2 / max(len(reports), 1000))
    return {"iterations": _STEPS, "tolerance": tolerance, "must_converge": False}


def _even(k: int) -> ClassPrior:
    return ClassPrior(np.full(k, 1 / k), k)


def _price(reports: EncodedAnswers) -> float:
    """Of one more parameter for each class but one (Schwarz, 1978)."""
    return 0.5 * (reports.k - 1) * math.log(max(len(reports.tasks), 2))


def _common(reports: EncodedAnswers, channel: Channel) -> float:
    """The ability of a crowd whose members are all alike."""
    return float(np.clip(majority_posterior(reports.votes, channel)[1], 0.1, 0.95))


def _average(fits: list[tuple[float, Fit]]) -> Fit:
    """Labels and abilities of several models; the error of an ability knows how far they are apart."""
    ability = _sum(fits, lambda fit: fit.summary.ability)
    variance = _sum(fits, lambda fit: fit.summary.error**2 + (fit.summary.ability - ability) ** 2)
    main = max(fits, key=lambda pair: pair[0])[1]
    return Fit(
        summary=replace(main.summary, ability=ability, error=np.sqrt(variance)),
        posterior=_sum(fits, lambda fit: fit.posterior),
        shares=_sum(fits, lambda fit: fit.shares),
        objective=float(sum(weight * fit.objective for weight, fit in fits)),
        history=[value for _, fit in fits for value in fit.history],
        converged=all(fit.converged for _, fit in fits),
    )


def _sum(fits: list[tuple[float, Fit]], part: Callable[[Fit], Floats]) -> Floats:
    first, *others = [weight * part(fit) for weight, fit in fits]
    return np.asarray(sum(others, first))


def sample(reports: EncodedAnswers, most: int = _SAMPLE) -> EncodedAnswers:
    """Whole tasks, evenly spaced, with about ``most`` reports; the same on every engine."""
    if len(reports) <= most:
        return reports
    stride = math.ceil(len(reports) / most)
    chosen = np.arange(0, len(reports.tasks), stride)
    sizes = np.diff(reports.start)[chosen]
    start = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.repeat(reports.start[chosen] - start[:-1], sizes) + np.arange(start[-1])
    tasks = reports.tasks.gather(chosen)
    return EncodedAnswers(tasks, reports.workers, reports.classes, start, reports.worker[rows], reports.label[rows])
