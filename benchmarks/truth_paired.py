"""Is a small difference between the default and the paper's method more than luck? Paired over many seeds, two-class sets.

``python -m benchmarks.truth_paired [seeds] [sets]`` prints points of accuracy (default minus paper), with standard errors: for
the 20 seeds of the tests and of ``peerveil reproduce truth``, and for the seeds after them, which nothing was chosen with.
"""

from __future__ import annotations

import sys

import numpy as np

from peerveil.core.progress import progress_bar
from peerveil.papers.reproduce.truth import EPSILONS, read_set, scores

USED = 20  # seeds of the tests and of the reproduction
PAIRED = ("bluebirds", "sentiment_polarity", "sentiment_polarity_amt", "zencrowd_us")


def main(seeds: int, names: tuple[str, ...]) -> None:
    print("| set | epsilon | the 20 seeds | the others |\n|---|---|---|---|")
    for name in names:
        labels = read_set(name)
        with progress_bar(name, total=seeds * len(EPSILONS)) as advance:
            for epsilon in EPSILONS:
                found = scores(labels, epsilon, seeds, advance)
                points = 100 * (found["default"] - found["as-printed"])[:, 0]
                cells = [_with_error(part) for part in (points[:USED], points[USED:])]
                print(f"| {name.replace('_', ' ')} | {epsilon:g} | {cells[0]} | {cells[1]} |", flush=True)


def _with_error(points: np.ndarray) -> str:
    if points.size < 2:
        return ""
    return f"{points.mean():+.2f} ± {points.std(ddof=1) / np.sqrt(points.size):.2f}"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 220, tuple(sys.argv[2].split(",")) if len(sys.argv) > 2 else PAIRED)
