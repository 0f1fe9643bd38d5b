"""What each module costs as its work grows: ``python -m benchmarks.growth`` measures, and writes docs/pictures/growth.svg.

Every size is measured in a process of its own, after a small run that compiles what is compiled: seconds of the work alone,
and the largest memory of the whole process (libraries included, about 200 MB).
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "pictures" / "growth.svg"


def release(size: int) -> Callable[[], object]:
    """Publish the means of ``size`` reviewers, four reviews each, secure randomness."""
    from peerveil.data import Reviews
    from peerveil.data.synthetic import balanced_assignment
    from peerveil.release import publish

    rng = np.random.default_rng(1)
    paper, person = balanced_assignment(np.full(size, 4), size, rng)
    table = Reviews(paper=paper, reviewer=person, score=rng.integers(1, 11, paper.size))
    return lambda: publish(table, epsilon=1, scale=(1, 10))


def timing(size: int) -> Callable[[], object]:
    """Post a log of ``size`` events with delays, secure randomness."""
    from peerveil.papers.timing.streams import wikipedia_like
    from peerveil.timing import FollowUp, post

    log = wikipedia_like(size)
    return lambda: post(log, mechanism=FollowUp(epsilon=1, gap=660, window=300)).public


def calibration(size: int) -> Callable[[], object]:
    """Decide ``size`` papers with three reviews each, strictness known, groups of three."""
    from peerveil.calibration import Affine, Conference, Threshold
    from peerveil.core.randomness import Randomness
    from peerveil.data import Reviews
    from peerveil.data.synthetic import balanced_assignment

    rng = np.random.default_rng(1)
    paper, person = balanced_assignment(np.full(size, 3), max(10, size // 2), rng)
    people = {j: Affine(float(np.exp(0.2 * rng.normal())), float(0.5 * rng.normal())) for j in range(person.max() + 1)}
    quality = rng.normal(size=size)
    score = np.array([people[j].scale * quality[p] + people[j].bias for p, j in zip(paper, person, strict=True)])
    table = Reviews(paper=paper, reviewer=person, score=score + 0.3 * rng.normal(size=score.size))
    meeting = Conference(table, functions=people, noise=0.3, accept=Threshold.share(0.25), group_size=3)
    return lambda: meeting.decide(adversary_error=0.5, capped=True, randomness=Randomness.secure(), progress=False)


def rankings(size: int) -> Callable[[], object]:
    """Test ``size`` rankings of 100 items, read in pieces."""
    from peerveil.rankings import Mallows, uniformity_test

    piece = Mallows(100, 0.999).sample(min(size, 10_000), seed=1)
    return lambda: uniformity_test((piece for _ in range(max(1, size // len(piece)))), method="rank-norm", epsilon=1)


def truth(size: int) -> Callable[[], object]:
    """Infer from ``size`` reports, ten a task, in memory."""
    from peerveil.truth import PrivateDawidSkene, simulate_crowd

    crowd = simulate_crowd(tasks=size // 10, workers=max(20, size // 2000), answers=10, epsilon=2, seed=1)
    return lambda: PrivateDawidSkene(epsilon=2, model="one-coin").fit(crowd.randomized)


MODULES: dict[str, tuple[Callable[[int], Callable[[], object]], str, tuple[int, ...]]] = {
    "release": (release, "reviewers", (1_000, 10_000, 100_000)),
    "timing": (timing, "events", (10_000, 100_000, 1_000_000)),
    "calibration": (calibration, "papers", (100, 400, 1_600)),
    "rankings": (rankings, "rankings of 100 items", (10_000, 100_000, 1_000_000)),
    "truth": (truth, "reports", (100_000, 1_000_000, 10_000_000)),
}
_SMALL = {"release": 200, "timing": 2_000, "calibration": 12, "rankings": 1_000, "truth": 5_000}


def one(module: str, size: int) -> dict[str, float]:
    """Measure one size, here and now."""
    make = MODULES[module][0]
    make(_SMALL[module])()
    work = make(size)
    began = time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    return {"size": size, "seconds": seconds, "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def measure() -> dict[str, list[dict[str, float]]]:
    """Every module and size, each in a process of its own."""
    found: dict[str, list[dict[str, float]]] = {}
    for module, (_, unit, sizes) in MODULES.items():
        for size in sizes:
            command = [sys.executable, "-m", "benchmarks.growth", module, str(size)]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
            row = json.loads(done.stdout.splitlines()[-1])
            found.setdefault(module, []).append(row)
            print(f"{module:12} {size:>12,} {unit:24} {row['seconds']:9.2f} s {row['megabytes']:8.0f} MB", flush=True)
    return found


def draw(found: dict[str, list[dict[str, Any]]]) -> None:
    """Seconds and memory against size, one line per module."""
    from peerveil.core.files import write_text
    from peerveil.report import COLORS, figure_style, logarithmic, new_axes, svg

    axes = new_axes(9, 3.6, columns=2)
    with figure_style():
        for (module, rows), color in zip(found.items(), COLORS.values(), strict=True):
            sizes = [row["size"] for row in rows]
            axes[0].plot(
                sizes,
                [row["seconds"] for row in rows],
                "o-",
                ms=4,
                color=color,
                label=f"{module} ({MODULES[module][1]})",
            )
            axes[1].plot(sizes, [row["megabytes"] for row in rows], "o-", ms=4, color=color)
        for ax, label in zip(axes, ("seconds", "megabytes, libraries included"), strict=True):
            ax.set_xscale("log")
            logarithmic(ax.yaxis)
            ax.set_xlabel("size")
            ax.set_ylabel(label)
        axes[0].legend(fontsize=8)
        picture = svg(
            axes[0], "Seconds and memory of the five modules against the size of their work, both logarithmic"
        )
    write_text(PICTURE, picture.alone("#7a828c", background=None))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(one(sys.argv[1], int(sys.argv[2]))))
    else:
        draw(measure())
