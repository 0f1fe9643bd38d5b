"""The default model: one-coin, unless the answers clearly show that workers have biases of their own.

**How much abilities differ** is estimated from the answers: one-coin is fitted with priors worth 2 to 1,000 answers, and the one
with the highest lower bound of the likelihood is taken. Where answers contain little information, as at small epsilon, that is a
strong prior, under which all abilities are equal: private majority voting. The mean-field bound is the further below the
likelihood the more abilities may differ, so that on its own it would choose too strong a prior. Experience with people
stands against it: the logarithm of the strength is normal around that of 6, with a standard deviation of 1 (a strength from
2 to 20 is usual). Where the bounds of all strengths are within a factor of 10 in likelihood (no strong evidence either way, by
Jeffreys' scale), and biases do not explain them better either, answers do not show who is better than whom: labels
are then those of majority voting, and only the abilities, with their errors, come from the models.

**Whether classes differ in size**: their shares are even, unless estimated shares make the answers likelier by more than a
fair price.

**Whether abilities differ by class** does not follow from the likelihood of two-coin alone. A crowd that finds one class
harder than the other makes every two-coin model likelier than one-coin, and yet its labels worse: a bias that all workers
share cannot be distinguished from tasks that are harder in one class, nor from classes of different sizes, and the two-coin model
moves the border between the classes to where it should not be. So six explanations of the answers are compared. Personal
biases are ``none`` (one-coin), ``some`` (an ability in general is worth ten answers for the ability in a class) or
``strong`` (two answers), and all workers share a shift by class, or do not. Before, all six are equally likely. Labels are
averaged by the probabilities of the explanations, except that ``some`` biases with a shift count as one-coin, since there
the two may be confused.

Bounds stand for the logarithms of likelihoods. The price of a shift, and of estimated shares, is half the logarithm of the
number of tasks for each class but one (Schwarz, 1978).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from peerveil.truth.confusions import accepted, candidates
from peerveil.truth.em import EMFit, EMModel, EMRun, Engine, ExpectedCounts, Limits, e_step, first_counts
from peerveil.truth.grid import BIAS, GridModel
from peerveil.truth.memory import MemoryEngine
from peerveil.truth.models import STRENGTH, ClassPrior, common_ability, majority_of

if TYPE_CHECKING:
    from peerveil.core.arrays import Floats
    from peerveil.truth.channels import Channels

_Key = TypeVar("_Key")

STRENGTHS: Final = (2.0, 6.0, 20.0, 60.0, 1000.0)
BIASES: Final[Mapping[str, float | None]] = {"none": None, "some": 10.0, "strong": 2.0}
_SPREAD_OF_STRENGTH: Final = 1.0  # standard deviation of the logarithm of a strength
_STRONG_EVIDENCE: Final = math.log(10.0)  # nats
_LEAST_WEIGHT: Final = 0.01  # of a model in the average
_ROUGH_CELLS: Final = 41  # of the grids of fits that are only compared
_ROUGH_ITERATIONS: Final = 40  # of such fits: lower bounds all, so that stopping early errs alike
_COARSE: Final = Limits(20, 1e-5, must_converge=False)  # where a fit goes on with a finer grid
_SAME_PLACE: Final = 0.01  # of all answers: fits whose expected counts differ by less have reached the same maximum
_HOPELESS: Final = 40.0  # nats below the best: a weight of e^-40


@dataclass(frozen=True)
class Evidence:
    """What the answers say about personal biases."""

    bounds: dict[tuple[str, bool], float]
    """By biases and shift, the logarithms of the likelihoods of the six explanations, relative to the best."""
    confusions: dict[str, float] = field(default_factory=dict)
    """Models of confused classes that are averaged with the others: by how many nats each predicts held-out reports better."""

    @property
    def probabilities(self) -> dict[str, float]:
        """Of none, some and strong personal biases."""
        shares = self._shares()
        return {name: shares[name, False] + shares[name, True] for name in BIASES}

    @property
    def weights(self) -> dict[str, float]:
        """The weights of one-coin (none), two-coin for some, and two-coin for strong biases; below 1% it is nothing."""
        shares = self._shares()
        some, strong = shares["some", False], shares["strong", False] + shares["strong", True]
        weights = {"none": 1 - some - strong, "some": some, "strong": strong}
        return _normalized({name: weight if weight >= _LEAST_WEIGHT else 0.0 for name, weight in weights.items()})

    @property
    def silent(self) -> bool:
        """Whether no explanation is clearly likelier than workers without biases."""
        return -self.bounds["none", False] < _STRONG_EVIDENCE

    @property
    def weight(self) -> float:
        """Of two-coin in the average, from 0 to 1; the rest is one-coin."""
        return self.weights["some"] + self.weights["strong"]

    @property
    def model(self) -> str:
        """The name of what was chosen."""
        coins = (
            f"{self.weight:.2f} two-coin, else one-coin"
            if 0 < self.weight < 1
            else ("two-coin" if self.weight else "one-coin")
        )
        return f"{' and '.join((coins, *self.confusions))} (auto)"

    @property
    def in_words(self) -> str:
        """What the answers say about personal biases, in words."""
        if -min(self.bounds.values()) < _STRONG_EVIDENCE:
            return "The answers do not show whether people lean to different answers; both models are averaged."
        if self.weight == 0:
            return "The answers do not show that people lean to different answers, so each has one ability."
        leaning = 1 - self.probabilities["none"]
        models = "each has an ability for every class" if self.weight == 1 else "both models are averaged"
        return f"With a probability of {100 * leaning:.0f}%, people lean to different answers; {models}."

    def _shares(self) -> dict[tuple[str, bool], float]:
        return _normalized({key: math.exp(value) for key, value in self.bounds.items()})


def _normalized(weights: dict[_Key, float]) -> dict[_Key, float]:
    total = math.fsum(weights.values())
    return {key: weight / total for key, weight in weights.items()}


class Pilot:
    """Rough one-coin fits that settings are chosen from, on a sample if there are many answers.

    One-coin is fitted with priors of several strengths, classes being even; then once more with estimated shares of classes. It
    uses answers only, so that choices are equal on every engine. It finds the ``strength`` of the prior on abilities under which
    the answers are likeliest and their ``mean``; whether the answers are ``silent`` about differences between abilities; and
    whether they show classes of different sizes (``skewed``).

    Every fit begins where one of a similar model ended, and ends early if it cannot win any more.
    """

    def __init__(self, engine: Engine, channel: Channels, limits: Limits, history: Floats | None = None) -> None:
        self.answers, self.channel = engine.answers.sample(), channel
        # the price of one more parameter for each class but one (Schwarz, 1978)
        self._price = 0.5 * (channel.k - 1) * math.log(max(len(self.answers.tasks), 2))
        self._model = partial(GridModel, channel, loads=self.answers.loads, cells=_ROUGH_CELLS)
        # fits that are only compared end where an iteration adds less than about a fifth of a nat
        tolerance = max(limits.tolerance, 0.2 / max(len(self.answers), 1000))
        same = isinstance(engine, MemoryEngine) and engine.answers is self.answers and not engine.has_gold
        self._engine = engine if same else MemoryEngine(self.answers)
        self._limits = Limits(_ROUGH_ITERATIONS, tolerance, must_converge=False)
        self._even, one_coin = ClassPrior.even(channel.k), partial(self._model, history=history)
        single = channel.single
        common = majority_of(self.answers, channel)[1] if single is None else common_ability(self.answers.votes, single)
        self._engine.vote_weights = channel.vote_weights(common)
        first = one_coin(self._even, strength=STRENGTH, mean=float(np.clip(common, 0.1, 0.95)))
        runs = {STRENGTH: self._climb(EMRun(first, self._engine, first_counts(self._engine, "correct")))}
        for near, strength in ((STRENGTH, 2.0), (STRENGTH, 20.0), (20.0, 60.0), (60.0, 1000.0)):
            least = max(run.objective for run in runs.values()) - _HOPELESS
            if near not in runs or (near != STRENGTH and runs[near].objective < least):
                continue  # what is farther from the likeliest strength than a hopeless one is hopeless, too
            last = runs[near]
            model = one_coin(self._even, strength=strength, mean=_mean(last))
            runs[strength] = self._climb(EMRun(model, self._engine, last.counts), least)
        bounds = {strength: run.objective for strength, run in runs.items()}
        self.strength = max(bounds, key=lambda s: bounds[s] - 0.5 * (math.log(s / STRENGTH) / _SPREAD_OF_STRENGTH) ** 2)
        self._best = best = runs[self.strength]
        self.mean = _mean(best)
        self.silent = max(bounds.values()) - min(bounds.values()) < _STRONG_EVIDENCE
        estimated = one_coin(ClassPrior(channel.k), strength=self.strength, mean=self.mean)
        free = self._climb(EMRun(estimated, self._engine, best.counts))
        self.skewed = free.objective - best.objective > self._price
        self.end = (free if self.skewed else best).counts  # where one-coin ended

    def evidence(self) -> Evidence:
        """Fit the six explanations, classes being even.

        Two starts, the votes and the labels of one-coin, because one-coin can be caught by people who always give one class: from
        there no model recovers. Strong biases are fitted from both; the others begin where these fits ended.
        """
        of_one_coin = e_step(self._engine, self._best.parameters, "correct by class").counts, self.mean
        votes = first_counts(self._engine, "correct by class"), self.mean
        bounds: dict[tuple[str, bool], float] = {}

        def explain(name: str, shift: bool, starts: list[tuple[ExpectedCounts, float]]) -> list[EMRun]:
            least = max(bounds.values(), default=-math.inf) - _HOPELESS + self._price * shift
            runs: list[EMRun] = []
            for counts, mean in starts:
                model = self._model(self._even, strength=self.strength, bias=BIASES[name], shift=shift, mean=mean)
                run = EMRun(model, self._engine, counts)
                runs.append(self._climb(run, max([least, *(run.objective for run in runs)]), runs))
            bounds[name, shift] = max(run.objective for run in runs) - self._price * shift
            return runs

        explain("none", False, [(self._best.counts, self.mean)])
        strong = _distinct(explain("strong", False, [of_one_coin, votes]))
        hopeless = bounds["strong", False] < bounds["none", False] - _HOPELESS
        some = _distinct(explain("some", False, strong))
        explain("none", True, [of_one_coin] if hopeless else [of_one_coin, *strong])
        explain("some", True, some)
        explain("strong", True, strong)
        top = max(bounds.values())
        return Evidence({key: bounds[key] - top for key in product(BIASES, (False, True))})

    def _climb(self, run: EMRun, least: float = -math.inf, others: Sequence[EMRun] = ()) -> EMRun:
        """EM to convergence, or until it reaches a place where another run ended, or is not going to reach ``least``."""
        while not run.ended(self._limits) and not (run.objectives and run.objective + run.outlook < least):
            if run.objectives and any(_same_place(run, other) for other in others):
                break
            run.step()
        return run


def _mean(run: EMRun) -> float:
    return float(run.parameters.details["prior_mean"])


def _distinct(runs: list[EMRun]) -> list[tuple[ExpectedCounts, float]]:
    """Where runs ended, with the prior mean; once where several ended in the same place."""
    places: list[EMRun] = []
    for run in sorted(runs, key=lambda run: -run.objective):
        if not any(_same_place(run, place) for place in places):
            places.append(run)
    return [(place.counts, _mean(place)) for place in places]


def _same_place(run: EMRun, other: EMRun) -> bool:
    difference = np.abs(run.counts.by_worker - other.counts.by_worker).sum()
    return bool(difference <= _SAME_PLACE * run.counts.loads.sum())


class AutoModel:
    """One-coin, two-coin or their average, by the evidence of a pilot."""

    def __init__(self, pilot: Pilot, class_prior: ClassPrior, history: Floats | None = None) -> None:
        self.pilot, self.class_prior, self.history = pilot, class_prior, history

    def fit(self, engine: Engine, limits: Limits, start: Floats | None = None) -> EMFit:
        """Fit every model that has a weight, and average."""
        evidence = self.pilot.evidence()
        # nothing else is known than these answers, and the pilot has seen all of them
        alone = start is None and self.history is None and not engine.has_gold
        alone = alone and int(engine.loads.sum()) == len(self.pilot.answers)
        ends = {"none": self.pilot.end} if alone else {}
        fits = [
            (weight, self._fit(biases, engine, limits, start, ends.get(biases)))
            for biases, weight in evidence.weights.items()
            if weight > 0
        ]
        if gains := self._confusions():
            evidence = replace(evidence, confusions=gains)
            models = [model for name, model in self._candidates().items() if name in gains]
            fits = [(weight / 2, fit) for weight, fit in fits]
            fits += [(0.5 / len(models), model.fit(engine, limits, start)) for model in models]
        fit = replace(fits[0][1] if len(fits) == 1 else _average(fits), evidence=evidence)
        if self.pilot.silent and evidence.silent and alone:
            fit = replace(fit, posterior=majority_of(self.pilot.answers, self.pilot.channel)[0])
        return fit

    def _candidates(self) -> Mapping[str, EMModel]:
        pilot = self.pilot
        workers = len(pilot.answers.workers)
        return candidates(pilot.channel, self.class_prior, workers, pilot.strength, pilot.mean, self.history)

    def _confusions(self) -> dict[str, float]:
        """The models of confused classes to average with, and by how much each predicts better."""
        pilot = self.pilot
        if pilot.channel.k == 2 or pilot.channel.largest_size > 1:
            return {}  # with two classes every confusion is a bias; reports of several classes hide which are confused
        one_coin = GridModel(
            pilot.channel, self.class_prior, pilot.answers.loads, pilot.strength, mean=pilot.mean, history=self.history
        )
        return accepted(pilot.answers, one_coin, self._candidates(), pilot.channel)

    def _fit(
        self, biases: str, engine: Engine, limits: Limits, start: Floats | None, counts: ExpectedCounts | None
    ) -> EMFit:
        """Two-coin climbs most of its way on a coarse grid, on which its M-steps cost half."""
        mean = self.pilot.mean
        if biases != "none" and limits.must_converge and limits.tolerance < _COARSE.tolerance:
            model = self._model(biases, engine, mean, _ROUGH_CELLS)
            run = EMRun(model, engine, first_counts(engine, model.counted, start))
            while not run.ended(_COARSE) and len(run.objectives) < limits.iterations:
                run.step()
            counts, mean = run.counts, _mean(run)
        return self._model(biases, engine, mean).fit(engine, limits, start, counts)

    def _model(self, biases: str, engine: Engine, mean: float, cells: int | None = None) -> GridModel:
        # for labels more cautious than in the pilot: they suffer more from too much bias than from too little
        bias = BIAS if biases == "strong" else BIASES[biases]
        strength = self.pilot.strength if bias is None else STRENGTH
        data = self.pilot.channel, self.class_prior, engine.loads
        return GridModel(*data, strength, bias, mean=mean, history=self.history, cells=cells)


def _average(fits: list[tuple[float, EMFit]]) -> EMFit:
    """Labels and abilities of several models; the error of an ability includes how far they are apart."""

    def mean(part: Callable[[EMFit], Floats]) -> Floats:
        return np.asarray(sum(weight * part(fit) for weight, fit in fits))

    abilities = mean(lambda fit: fit.abilities)
    variance = mean(lambda fit: fit.standard_errors**2 + (fit.abilities - abilities) ** 2)
    return replace(
        max(fits, key=lambda pair: pair[0])[1],
        posterior=mean(lambda fit: fit.posterior),
        class_shares=mean(lambda fit: fit.class_shares),
        abilities=abilities,
        standard_errors=np.sqrt(variance),
        objectives=[value for _, fit in fits for value in fit.objectives],
        converged=all(fit.converged for _, fit in fits),
        objective=float(sum(weight * fit.objective for weight, fit in fits)),
    )
