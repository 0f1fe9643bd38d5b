"""Is the default anywhere worse than private majority? Seven real sets, four epsilons, many draws.

``python -m benchmarks.truth_majority [seeds] [sets]`` prints the mean difference of accuracy in points with its standard error
over draws, which models were averaged, and whether any cell is below both -2 standard errors and -.5 points.
"""

from __future__ import annotations

import math
import sys
from collections import Counter

import numpy as np

from peerveil.core.progress import progress_bar
from peerveil.core.randomness import Randomness
from peerveil.data import Labels
from peerveil.papers.reproduce.truth import EPSILONS, SETS, read_set
from peerveil.truth import PrivateDawidSkene, PrivateMajority, randomize
from peerveil.truth.answers import EncodedAnswers


def cell(name: str, epsilon: float, seeds: int) -> tuple[np.ndarray, Counter[str]]:
    """Accuracies in percent [seed, (majority, default)], and the models that the default chose."""
    labels = read_set(name)
    truth, frame = labels.truths(), labels.frame.select("task", "worker", "label")
    classes = sorted({*frame["label"].to_list(), *truth["truth"].to_list()})
    measured, chosen = np.zeros((seeds, 2)), Counter[str]()
    with progress_bar(f"{name}, {epsilon:g}", total=seeds) as advance:
        for seed in range(seeds):
            lane = Randomness.simulation(31 + 1000 * seed + round(10 * epsilon))
            sent = frame.with_columns(
                label=randomize(frame["label"], epsilon=epsilon, classes=classes, randomness=lane)
            )
            reports = EncodedAnswers.of(Labels.from_frame(sent), classes)
            default = PrivateDawidSkene(epsilon=epsilon).fit(reports)
            measured[seed, 0] = PrivateMajority(epsilon=epsilon).fit(reports).accuracy(truth)[0]
            measured[seed, 1] = default.accuracy(truth)[0]
            chosen[default.model] += 1
            advance(1)
    return 100 * measured, chosen


def main(seeds: int, names: tuple[str, ...]) -> None:
    below = []
    for name in names:
        for epsilon in EPSILONS:
            measured, chosen = cell(name, epsilon, seeds)
            difference = measured[:, 1] - measured[:, 0]
            mean, error = difference.mean(), difference.std(ddof=1) / math.sqrt(seeds)
            votes, default = measured.mean(axis=0)
            models = ", ".join(f"{count} x {model}" for model, count in chosen.most_common(3))
            print(
                f"{name:24} {epsilon:4g}  {votes:5.1f} -> {default:5.1f}  {mean:+5.2f} (se {error:.2f})  {models}",
                flush=True,
            )
            if mean < -2 * error and mean < -0.5:
                below.append((name, epsilon))
    print("below both limits:", below or "none")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50, tuple(sys.argv[2:]) or tuple(SETS))
