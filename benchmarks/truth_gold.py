"""Are confidences and abilities calibrated on gold tasks right on real crowds?

``python -m benchmarks.truth_gold [seeds] [gold tasks] [epsilon]`` prints one row per set with at least 300 tasks of known truth.
A seed randomizes the answers, and draws gold tasks ten times. The expected calibration error (ECE) is over ten bins of equal size
of the tasks with known truth that are not gold:

- ``before`` and ``after`` calibration, and ``error``, the standard error of ``after`` between seeds;
- ``left out``: after calibration with the priors that all sets but this one choose. The choice is among 360 priors, the one under
  which tasks that are not gold are likeliest, summed over the other sets and two kinds of synthetic crowds without shared errors,
  at this epsilon and at half of it (up to 8 seeds, 5 draws). The priors follow in a second table; those of all sets are in use;
- ``temperature``: with a temperature of the log posteriors instead (maximum likelihood, with a normal prior of standard deviation
  1.5 on its logarithm).

``interval`` is how often Wilson's interval of the gold tasks holds the accuracy on all tasks with known truth. ``abilities``
is how often an interval holds a worker's share of correct answers, for workers with 20 answers to tasks with known truth or
more: two standard errors of the model (of which no interval is made), and the interval with gold tasks; ``width`` is the
median width of the latter, from the lower to the upper end. Gold tasks must be a random part of all tasks. In adult content2,
3% of the tasks have a known truth, and other classes than the rest, so that abilities are those of a crowd that answered these
tasks alone.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from peerveil.core.randomness import Randomness
from peerveil.data import Labels
from peerveil.papers.reproduce.truth import SETS, read_set
from peerveil.truth import PrivateDawidSkene, TruthResult, randomize, simulate_crowd
from peerveil.truth.answers import EncodedAnswers
from peerveil.truth.gold import ENOUGH, calibrate, wilson
from peerveil.truth.gold_fit import (
    PRIOR,
    GoldPrior,
    calibrated_confidences,
    confidences_by_slope,
    label_odds,
    weigh_slopes,
)
from peerveil.truth.models import Channel

LEAST_TASKS = 300
BINS = 10
DRAWS = 10  # of gold tasks for every seed
LEAST_ANSWERS = 20  # of a worker whose ability counts as known
CHOOSING_SEEDS, CHOOSING_DRAWS = 8, 5
SPREADS = tuple(itertools.product((0.2, 0.4, 0.8, 1.6), (0.35, 0.7, 1.4)))  # of a, and of u
SLOPES = tuple(itertools.product((-1.6, -1.3, -1.0, -0.7, -0.35), (0.35, 0.6, 1.0)))
INDEPENDENT = (0.0, 0.2)
PRIORS = [GoldPrior(*s, slope, w) for s in SPREADS for slope in SLOPES for w in INDEPENDENT]
SYNTHETIC = {"synthetic, 2 classes": 2, "synthetic, 5 classes": 5}
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Case:
    """A crowd whose answers were randomized once, with what was inferred."""

    result: TruthResult
    answers: EncodedAnswers
    known: Array  # places of tasks with known truth
    correct: Array  # their classes
    contrast: float
    share: Array  # by worker: of correct answers before randomization
    usable: Array  # workers whose share counts as known

    @property
    def label(self) -> Array:
        """The code of each label."""
        return np.searchsorted(np.array(self.result.classes), self.result.labels)

    def right(self) -> Array:
        """Whether the labels of tasks with known truth are correct."""
        return np.asarray(self.label[self.known] == self.correct)


def real_case(name: str, epsilon: float, seed: int, *, known_alone: bool = False) -> Case:
    """One real set; perhaps as if only tasks with known truth had been asked."""
    labels = read_set(name)
    frame = labels.frame.drop_nulls("truth") if known_alone else labels.frame
    truth = dict(labels.truths().iter_rows())
    classes = sorted({*labels.frame["label"].to_list(), *truth.values()})
    lane = Randomness.simulation(4000 + seed)
    sent = frame.select(
        "task", "worker", label=randomize(frame["label"], epsilon=epsilon, classes=classes, randomness=lane)
    )
    answers = EncodedAnswers.of(Labels.from_frame(sent), classes)
    estimator = PrivateDawidSkene(epsilon=epsilon)
    result = estimator.fit(answers)
    tasks = result.tasks.to_list()
    known = np.array([place for place, task in enumerate(tasks) if task in truth])
    correct = np.array([classes.index(truth[tasks[place]]) for place in known])
    by_worker = (
        frame.drop_nulls("truth").group_by("worker").agg((pl.col("label") == pl.col("truth")).mean(), n=pl.len())
    )
    shares = {worker: (share, n) for worker, share, n in by_worker.iter_rows()}
    pairs = np.array([shares.get(worker, (0.0, 0)) for worker in estimator.workers_.workers.to_list()])
    contrast = Channel.of(epsilon, len(classes)).contrast
    return Case(result, answers, known, correct, contrast, pairs[:, 0], pairs[:, 1] >= LEAST_ANSWERS)


def synthetic_case(classes: int, epsilon: float, seed: int) -> Case:
    """A crowd that shares no errors."""
    settings: dict[str, Any] = {"tasks": 600, "workers": 60, "answers": 8, "classes": classes, "epsilon": epsilon}
    crowd = simulate_crowd(**settings, response="k-ary", seed=seed)
    answers = EncodedAnswers.of(crowd.randomized, list(range(classes)))
    result = PrivateDawidSkene(epsilon=epsilon, classes=classes).fit(answers)
    correct = np.array([crowd.truth[task] for task in result.tasks.to_list()])
    contrast = Channel.of(epsilon, classes).contrast
    every = np.ones(crowd.abilities.size, dtype=bool)
    return Case(result, answers, np.arange(correct.size), correct, contrast, crowd.abilities, every)


def calibration_error(confidence: Array, right: Array) -> float:
    """The mean distance of confidence and share of correct labels, over bins with equally many tasks."""
    parts = np.array_split(np.argsort(confidence, kind="stable"), BINS)
    return float(sum(part.size * abs(confidence[part].mean() - right[part].mean()) for part in parts) / right.size)


def splits(case: Case, seed: int, gold_tasks: int, draws: int) -> Iterator[tuple[Array, Array]]:
    """Gold tasks and the others, as places among tasks with known truth."""
    rng = np.random.default_rng(seed)
    for _ in range(draws):
        order = rng.permutation(case.known.size)
        yield order[:gold_tasks], order[gold_tasks:]


def log_scores(case: Case, seed: int, gold_tasks: int) -> Array:
    """The mean log-likelihood of whether tasks that are not gold are labeled correctly, under each of PRIORS."""
    label, right, k = case.label[case.known], case.right(), len(case.result.classes)
    odds = label_odds(case.result.probabilities, case.label)[1][case.known]
    total = np.zeros(len(PRIORS))
    for gold, others in splits(case, seed, gold_tasks, CHOOSING_DRAWS):
        scores = []
        for a, u in SPREADS:
            data = (odds[others], label[others], odds[gold], label[gold], right[gold])
            evidence, means = confidences_by_slope(*data, GoldPrior(a, u, (0.0, 1.0), 0.0))
            for slope, w in itertools.product(SLOPES, INDEPENDENT):
                weight = weigh_slopes(evidence, GoldPrior(a, u, slope, w))
                p = np.clip(np.maximum(weight @ means, 1 / k), 1e-9, 1 - 1e-9)
                scores.append(np.log(np.where(right[others], p, 1 - p)).mean())
        total += scores
    return np.asarray(total / CHOOSING_DRAWS)


def chosen_priors(names: list[str], seeds: int, gold_tasks: int, epsilon: float) -> dict[str, GoldPrior]:
    """For each set the prior that the others choose, and under "" the one that all choose."""
    scores = dict.fromkeys([*names, *SYNTHETIC], np.zeros(len(PRIORS)))
    for size in (epsilon, epsilon / 2):
        for seed in range(min(seeds, CHOOSING_SEEDS)):
            for name in names:
                scores[name] = scores[name] + log_scores(real_case(name, size, seed), seed, gold_tasks)
            for name, k in SYNTHETIC.items():
                scores[name] = scores[name] + log_scores(synthetic_case(k, size, seed), seed, gold_tasks)
    return {out: PRIORS[int(np.argmax(sum(s for name, s in scores.items() if name != out)))] for out in [*names, ""]}


@dataclass(frozen=True)
class Measured:
    """Means over seeds, and the standard error of ``after``."""

    tasks: int
    accuracy: float
    before: float
    after: float
    error: float
    left_out: float
    temperature: float
    interval: float
    abilities_before: float
    abilities_after: float
    width: float

    def row(self, name: str) -> str:
        """A row of the table."""
        shares = (self.accuracy, self.before, self.after, self.error, self.left_out, self.temperature)
        rest = (self.interval, self.abilities_before, self.abilities_after, self.width)
        cells = [name.replace("_", " "), f"{self.tasks:,}", *(f"{x:.3f}" for x in shares), *(f"{x:.2f}" for x in rest)]
        return f"| {' | '.join(cells)} |"


def measure(
    name: str, seeds: int = 20, gold_tasks: int = ENOUGH, epsilon: float = 4.0, left_out: GoldPrior = PRIOR
) -> Measured:
    """One real set."""
    rows = []
    for seed in range(seeds):
        case = real_case(name, epsilon, seed)
        crowd = case if case.known.size == len(case.result.tasks) else real_case(name, epsilon, seed, known_alone=True)
        right, found = case.right(), []
        odds, label = label_odds(case.result.probabilities, case.label)[1][case.known], case.label[case.known]
        of_people = list(splits(crowd, seed, gold_tasks, DRAWS))
        for draw, (gold, others) in enumerate(splits(case, seed, gold_tasks, DRAWS)):
            data = (odds[others], label[others], odds[gold], label[gold], right[gold])
            least = 1 / len(case.result.classes)
            fits = [np.maximum(calibrated_confidences(*data, prior)[0], least) for prior in (PRIOR, left_out)]
            tempered = _tempered(case.result.probabilities[case.known], case.correct, gold)[others]
            low, high = wilson(int(right[gold].sum()), gold_tasks)
            after = _checked(crowd, of_people[draw][0])
            confidences = (case.result.confidence[case.known][others], *fits, tempered)
            found.append(
                [
                    right.mean(),
                    *(calibration_error(confidence, right[others]) for confidence in confidences),
                    low <= right.mean() <= high,
                    *(_covered(crowd, one) for one in (crowd.result, after)),
                    float(np.median(_ends(after)[crowd.usable] @ [-1, 1])),
                ]
            )
        rows.append(np.mean(found, axis=0))
    accuracy, before, after, other, temperature, interval, first, second, width = np.mean(rows, axis=0)
    error = float(np.std([row[2] for row in rows], ddof=1)) / seeds**0.5
    known = case.known.size
    return Measured(known, accuracy, before, after, error, other, temperature, interval, first, second, width)


def _checked(case: Case, gold: Array) -> TruthResult:
    """The result with calibrated abilities."""
    tasks, classes = case.result.tasks.to_list(), case.result.classes
    answers = {tasks[case.known[i]]: classes[case.correct[i]] for i in gold}
    return calibrate(case.result, answers, case.answers, np.array([case.contrast]))


def _ends(result: TruthResult) -> Array:
    """The intervals of abilities; without gold tasks two standard errors of the model."""
    if result.ability_intervals is not None:
        return result.ability_intervals
    return result.abilities[:, None] + 2 * result.standard_errors[:, None] * [-1, 1]


def _covered(case: Case, result: TruthResult) -> float:
    """How often an interval holds a worker's share of correct answers."""
    low, high = _ends(result).T
    return float(((low <= case.share) & (case.share <= high))[case.usable].mean())


def _tempered(posterior: Array, correct: Array, gold: Array) -> Array:
    """Confidences of the labels with the temperature of the gold tasks."""
    score = np.log(np.maximum(posterior, 1e-12))

    def soft(power: float) -> Array:
        weight = np.exp(power * (score - score.max(axis=1, keepdims=True)))
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))

    def objective(log_power: float) -> float:
        p = soft(np.exp(log_power))[gold, correct[gold]]
        return float(np.log(np.maximum(p, 1e-300)).sum()) - 0.5 * (log_power / 1.5) ** 2

    return np.asarray(soft(np.exp(max(np.linspace(-5, 2, 141), key=objective))).max(axis=1))


def main(seeds: int, gold_tasks: int, epsilon: float) -> None:
    print(f"epsilon {epsilon:g}, {gold_tasks} gold tasks, {seeds} seeds")
    names = [name for name in SETS if len(read_set(name).truths()) >= LEAST_TASKS]
    priors = chosen_priors(names, seeds, gold_tasks, epsilon)
    columns = (
        "set tasks accuracy before after error left-out temperature interval abilities-before abilities-after width"
    )
    print(f"| {' | '.join(columns.split())} |")
    for name in names:
        print(measure(name, seeds, gold_tasks, epsilon, priors[name]).row(name), flush=True)
    print("\n| left out | spread of a | of u | ln b | its spread | no shared errors |")
    for name, prior in priors.items():
        cells = (prior.intercept, prior.classes, *prior.shared, prior.independent)
        print(f"| {name.replace('_', ' ') or 'none'} | {' | '.join(f'{x:g}' for x in cells)} |")


if __name__ == "__main__":
    given = sys.argv[1:] + ["20", str(ENOUGH), "4"][len(sys.argv) - 1 :]
    main(int(given[0]), int(given[1]), float(given[2]))
