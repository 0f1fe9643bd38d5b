"""Every step that a study can have, run in one study with a seed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.golden.normal import describe, describe_file
from tests.golden.seeded import seeded

from peerveil.judgements import synthetic_conference
from peerveil.randomness import Randomness
from peerveil.rankings import Mallows, randomize_rankings
from peerveil.study import run_study
from peerveil.truth import simulate_crowd

STEPS: Final = {
    ("release", "means"): 'data = "reviews"\nepsilon = 2\nweight = "miscalibration"\nscale = [1, 10]',
    ("release", "plan"): 'data = "reviews"\nepsilons = [1, 10]\nscale = [1, 10]\ntrials = 2',
    ("timing", "audit"): 'data = "events"\npercentile = 25\nepsilons = [1]',
    ("timing", "plan"): 'data = "events"\npercentile = 25\nper = "thread"',
    ("timing", "post"): 'data = "events"\nepsilon = 1\ngap = "45m"',
    (
        "calibration",
        "decide",
    ): 'data = "reviews"\nhistory = ["past"]\nadversary_error = 0.4\naccept = 8\niterations = 600\ndraws = 2',
    (
        "calibration",
        "plan",
    ): 'data = "reviews"\nhistory = ["past"]\naccepted = 0.3\niterations = 600\ndraws = 1\ndemands = [0, 1]',
    ("calibration", "simulate"): "draws = 300",
    ("rankings", "test"): 'data = "rankings"\nepsilon = 0.5',
    ("rankings", "plan"): 'items = 6\nspread = 0.7\nepsilon = 1\nmethods = ["local"]\ntrials = 4',
    ("rankings", "randomize"): 'data = "rankings"\nepsilon = 1\npublic_seed = 7',
    ("rankings", "aggregate"): 'data = "ranking-reports"',
    ("truth", "infer"): 'data = "reports"\nepsilon = 1\nclasses = [0, 1]\nrandomized = true',
    ("truth", "randomize"): 'data = "answers"\nepsilon = 2\nclasses = [0, 1]',
    ("truth", "label"): 'data = "answers"\nclasses = [0, 1]',
    ("truth", "compare"): 'data = "answers"\nepsilons = [1, 4]\ndraws = 2',
    ("truth", "plan"): 'accuracy = 0.7\nepsilons = ["none", 2]\ntasks = 20\ntrials = 1',
    ("truth", "simulate"): "tasks = 20\nworkers = 6\nanswers = 4",
    ("audit", "house"): "samples = 200",
}
HEAD: Final = """
[study]
title = "Every step"
seed = 1
[data.reviews]
path = "data/reviews.csv"
[data.past]
path = "past/reviews.csv"
[data.events]
path = "data/events.csv"
[data.rankings]
path = "data/rankings.csv"
[data.ranking-reports]
path = "ranking-reports.jsonl"
[data.answers]
path = "answers.csv"
kind = "labels"
[data.reports]
path = "reports.csv"
kind = "labels"
"""


def run_steps(root: Path) -> Iterator[tuple[str, str]]:
    """What every step found, published and kept; then the two reports."""
    synthetic_conference(24, 16, ranked_items=4, seed=4, people_seed=4).write(root / "data")
    synthetic_conference(40, 16, seed=5, people_seed=4).write(root / "past")
    crowd = simulate_crowd(tasks=20, workers=6, answers=4, epsilon=1, seed=2)
    crowd.answers.write(root / "answers.csv")
    crowd.reports.write(root / "reports.csv")
    votes = Mallows(4, 0.8).sample(40, seed=1)
    randomized = randomize_rankings(votes, epsilon=1, public_seed=7, randomness=Randomness.simulation(2))
    (root / "ranking-reports.jsonl").write_text(randomized.text(), encoding="utf-8")
    file = root / "study.toml"
    parts = [f'[[steps]]\naction = "{room}.{do}"\n{settings}\n' for (room, do), settings in STEPS.items()]
    file.write_text(HEAD + "".join(parts), encoding="utf-8")
    with seeded(0):
        done = run_study(file, root / "out", progress=False)
    for name in done.outcomes:
        parts = []
        for folder in ("simulated", "private"):
            for path in sorted((done.folder / folder / name).rglob("*")):
                if path.is_file():
                    text = "(as published)" if path.name == "outcome.json" else describe_file(path, root)
                    parts.append(f"--- {path.relative_to(done.folder)}\n{text}")
        yield name, "\n".join(parts)
    for path in (
        done.report,
        done.folder / "simulated" / "simulated-results.json",
        done.folder / "simulated" / "simulated-report.html",
    ):
        yield path.relative_to(done.folder).as_posix(), describe_file(path, root)
    others = {path.relative_to(done.folder).as_posix() for path in done.folder.rglob("*") if path.is_file()}
    yield "files", describe(sorted(others))
