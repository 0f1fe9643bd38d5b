"""Do the few settings of the default generalize? Choose them on six real sets, and measure on the seventh, for every set.

``python -m benchmarks.truth_left_out [seeds] [sets]`` prints, for every set, the settings that the other sets would have chosen
(by the gain over private majority, accuracy and balanced accuracy together, all epsilons) and what these give on the set that
had no say, beside the default.
"""

from __future__ import annotations

import itertools
import sys
from unittest import mock

import numpy as np

from peerveil.core.progress import progress_bar
from peerveil.core.randomness import Randomness
from peerveil.data import Labels
from peerveil.papers.reproduce.truth import EPSILONS, SETS, read_set
from peerveil.truth import PrivateDawidSkene, PrivateMajority, randomize
from peerveil.truth.answers import EncodedAnswers

SHRINKS = (0.05, 0.2, 0.5)  # how far the shares of classes are estimated
CENTERS = (6.0, 20.0)  # how strong a prior on abilities is usual
SETTINGS = tuple(itertools.product(SHRINKS, CENTERS))
DEFAULT = (0.2, 6.0)


def gains(name: str, seeds: int) -> np.ndarray:
    """Points above private majority: [epsilon, setting, (accuracy, balanced accuracy)], mean over seeds."""
    labels = read_set(name)
    truth = labels.truths()
    classes = sorted({*labels.frame["label"].to_list(), *truth["truth"].to_list()})
    frame = labels.frame.select("task", "worker", "label")
    found = np.zeros((len(EPSILONS), len(SETTINGS), 2))
    with progress_bar(name, total=len(EPSILONS) * seeds) as advance:
        for (i, epsilon), seed in itertools.product(enumerate(EPSILONS), range(seeds)):
            lane = Randomness.simulation(7 + 1000 * seed + round(10 * epsilon))
            sent = frame.with_columns(
                label=randomize(frame["label"], epsilon=epsilon, classes=classes, randomness=lane)
            )
            reports = EncodedAnswers.of(Labels.from_frame(sent), classes)
            votes = np.array(PrivateMajority(epsilon=epsilon).fit(reports).accuracy(truth))
            for j, (shrink, center) in enumerate(SETTINGS):
                with (
                    mock.patch("peerveil.truth.models._SHRINKAGE", shrink),
                    mock.patch("peerveil.truth.choose.STRENGTH", center),
                ):
                    ours = np.array(
                        PrivateDawidSkene(epsilon=epsilon, must_converge=False).fit(reports).accuracy(truth)
                    )
                found[i, j] += 100 * (ours - votes) / seeds
            advance(1)
    return found


def main(seeds: int, names: tuple[str, ...]) -> None:
    measured = {name: gains(name, seeds) for name in names}
    for name in names:
        others = np.mean([measured[other].mean(axis=(0, 2)) for other in names if other != name], axis=0)
        chosen = int(others.argmax())
        own, plain = measured[name][:, chosen].mean(axis=0), measured[name][:, SETTINGS.index(DEFAULT)].mean(axis=0)
        shrink, center = SETTINGS[chosen]
        points = " | ".join(f"{accuracy:+.1f} ({balanced:+.1f})" for accuracy, balanced in (own, plain))
        print(f"| {name.replace('_', ' ')} | {shrink:g}, {center:g} | {points} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5, tuple(sys.argv[2].split(",")) if len(sys.argv) > 2 else SETS)
