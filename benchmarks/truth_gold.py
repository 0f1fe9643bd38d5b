"""Are confidences and abilities calibrated on gold tasks right on real crowds?

``python -m benchmarks.truth_gold [seeds] [gold tasks] [epsilon]`` prints one row per set with at least 300 tasks of known truth.
A seed randomizes the answers, and draws gold tasks ten times. The expected calibration error (ECE) is over ten bins of equal size
of the tasks with known truth that are not gold, before and after calibration, and with a temperature of the log posteriors
instead (maximum likelihood, with a normal prior of standard deviation 1.5 on its logarithm); ``error`` is the standard error of
``after`` between seeds. ``interval`` is how often Wilson's interval of the gold tasks holds the accuracy on all tasks with known
truth. ``abilities`` is how often two standard errors hold a worker's share of correct answers, for workers with 20 answers to
such tasks or more, before and after.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from peerveil.core.randomness import Randomness
from peerveil.data import Labels
from peerveil.papers.reproduce.truth import SETS, read_set
from peerveil.truth import PrivateDawidSkene, randomize
from peerveil.truth.answers import EncodedAnswers
from peerveil.truth.gold import ENOUGH, calibrate, wilson
from peerveil.truth.models import Channel

LEAST_TASKS = 300
BINS = 10
DRAWS = 10  # of gold tasks for every seed
LEAST_ANSWERS = 20  # of a worker whose ability counts as known
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Measured:
    """Means over seeds, and the standard error of ``after``."""

    tasks: int
    accuracy: float
    before: float
    after: float
    error: float
    temperature: float
    interval: float
    abilities_before: float
    abilities_after: float

    def row(self, name: str) -> str:
        """A row of the table."""
        shares = (self.accuracy, self.before, self.after, self.error, self.temperature)
        rest = (self.interval, self.abilities_before, self.abilities_after)
        cells = [name.replace("_", " "), f"{self.tasks:,}", *(f"{x:.3f}" for x in shares), *(f"{x:.2f}" for x in rest)]
        return f"| {' | '.join(cells)} |"


def calibration_error(confidence: Array, right: Array) -> float:
    """The mean distance of confidence and share of correct labels, over bins with equally many tasks."""
    parts = np.array_split(np.argsort(confidence, kind="stable"), BINS)
    return float(sum(part.size * abs(confidence[part].mean() - right[part].mean()) for part in parts) / right.size)


def measure(name: str, seeds: int = 20, gold_tasks: int = ENOUGH, epsilon: float = 4.0) -> Measured:
    """One real set."""
    labels = read_set(name)
    truth = dict(labels.truths().iter_rows())
    classes = sorted({*labels.frame["label"].to_list(), *truth.values()})
    frame = labels.frame.select("task", "worker", "label")
    contrast, abilities = Channel.of(epsilon, len(classes)).contrast, _abilities(labels)
    rows = []
    for seed in range(seeds):
        lane = Randomness.simulation(4000 + seed)
        sent = frame.with_columns(label=randomize(frame["label"], epsilon=epsilon, classes=classes, randomness=lane))
        answers = EncodedAnswers.of(Labels.from_frame(sent), classes)
        estimator = PrivateDawidSkene(epsilon=epsilon)
        result = estimator.fit(answers)
        tasks = result.tasks.to_list()
        known = np.array([place for place, task in enumerate(tasks) if task in truth])
        correct = np.array([classes.index(truth[tasks[place]]) for place in known])
        right = result.labels[known] == np.array(classes)[correct]
        rng, found = np.random.default_rng(seed), []
        usable = [
            (place, abilities[w]) for place, w in enumerate(estimator.workers_.workers.to_list()) if w in abilities
        ]
        place, share = (np.array(column) for column in zip(*usable, strict=True))
        for _ in range(DRAWS):
            order = rng.permutation(known.size)
            gold, others = order[:gold_tasks], order[gold_tasks:]
            checked = calibrate(
                result, {tasks[known[i]]: truth[tasks[known[i]]] for i in gold}, answers, np.array([contrast])
            )
            tempered = _tempered(result.probabilities[known], correct, gold)
            low, high = wilson(int(right[gold].sum()), gold_tasks)
            confidences = result.confidence[known], checked.confidence[known], tempered
            found.append(
                [
                    right.mean(),
                    *(calibration_error(confidence[others], right[others]) for confidence in confidences),
                    low <= right.mean() <= high,
                    *(
                        np.mean(np.abs(r.abilities[place] - share) <= 2 * r.standard_errors[place])
                        for r in (result, checked)
                    ),
                ]
            )
        rows.append(np.mean(found, axis=0))
    accuracy, before, after, temperature, interval, first, second = np.mean(rows, axis=0)
    error = float(np.std([row[2] for row in rows], ddof=1)) / seeds**0.5
    return Measured(len(truth), accuracy, before, after, error, temperature, interval, first, second)


def _abilities(labels: Labels) -> dict[Any, float]:
    """The share of correct answers of every worker who answered enough tasks with known truth, before randomization."""
    known = labels.frame.drop_nulls("truth")
    by_worker = known.group_by("worker").agg(share=(pl.col("label") == pl.col("truth")).mean(), answers=pl.len())
    frame = by_worker.filter(pl.col("answers") >= LEAST_ANSWERS)
    return dict(zip(frame["worker"].to_list(), frame["share"].to_list(), strict=True))


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
    print("| set | tasks | accuracy | ECE before | after | error | temperature | interval | abilities before | after |")
    for name in SETS:
        if len(read_set(name).truths()) >= LEAST_TASKS:
            print(measure(name, seeds, gold_tasks, epsilon).row(name), flush=True)


if __name__ == "__main__":
    given = sys.argv[1:] + ["20", str(ENOUGH), "4"][len(sys.argv) - 1 :]
    main(int(given[0]), int(given[1]), float(given[2]))
