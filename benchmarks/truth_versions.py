"""Two versions of the truth module in one run: largest differences of what they estimate, and the ratio of their times.

``python -m benchmarks.truth_versions OLD_SRC NEW_SRC [repeats]`` starts one process per version and gives both the same answers,
in turns. Use snapshots that nobody changes (``git archive COMMIT src | tar -x -C FOLDER``): the files of the truth module and
their digest are printed for each version, so that a run shows what was compared.

Then comes a Markdown table: the largest differences of posteriors, abilities and standard errors, the relative difference of the
objective, the best processor times, and their ratio (below 1: the new version is faster).
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

CASES: tuple[dict[str, Any], ...] = (
    {"name": "one-coin, epsilon 1", "model": "one-coin", "size": 400_000},
    {"name": "one-coin, 4 classes, epsilon 2", "model": "one-coin", "k": 4, "epsilon": 2},
    {"name": "one-coin, maximum likelihood", "model": "one-coin", "ability_prior": None, "class_prior": "estimated"},
    {"name": "one-coin, raw answers", "model": "one-coin", "epsilon": None},
    {"name": "one-coin, prior worth 3 answers", "model": "one-coin", "ability_prior": 3.0},
    {"name": "two-coin, epsilon 2", "model": "two-coin", "epsilon": 2},
    {"name": "two-coin, maximum likelihood, raw", "model": "two-coin", "ability_prior": None, "epsilon": None},
    {"name": "confusion, epsilon 2", "model": "confusion", "epsilon": 2, "size": 400_000},
    {"name": "confusion, 3 classes", "model": "confusion", "k": 3, "epsilon": 2},
    {
        "name": "Dawid and Skene, raw answers",
        "model": "confusion",
        "ability_prior": None,
        "class_prior": "estimated",
        "epsilon": None,
        "size": 400_000,
    },
    {"name": "auto, epsilon 1", "epsilon": 1},
    {"name": "auto, epsilon 3, biased workers", "epsilon": 3, "biased": True, "size": 20_000},
    {"name": "auto, a few answers (averaged)", "epsilon": 2, "biased": True, "size": 2_000},
    {"name": "auto, raw answers, 3 classes", "epsilon": None, "k": 3},
    {"name": "auto, skewed classes", "epsilon": 2, "shares": [0.8, 0.2]},
    {"name": "auto, hardly any information", "epsilon": 0.2, "size": 2_000},
    {"name": "class shares as numbers", "model": "one-coin", "class_prior": [0.6, 0.4]},
    {"name": "gold and history", "model": "two-coin", "epsilon": 2, "gold": 50, "history": 20},
    {"name": "one-coin on DuckDB", "model": "one-coin", "epsilon": 2, "engine": "duckdb"},
    {"name": "confusion on DuckDB, gold", "model": "confusion", "epsilon": 2, "engine": "duckdb", "gold": 50},
    {"name": "auto on DuckDB", "epsilon": 3, "biased": True, "size": 20_000, "engine": "duckdb"},
    {"name": "majority", "model": "majority", "epsilon": 1},
)
_WORKER = """
import inspect, json, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np, polars as pl
from peerveil.truth import PrivateDawidSkene, PrivateMajority
for line in sys.stdin:
    case = json.loads(line)
    frame, out = pl.read_parquet(case["data"]), case["out"]
    settings = {name: case[name] for name in ("ability_prior", "class_prior") if name in case}
    if case["gold"]:
        name = "known" if "known" in inspect.signature(PrivateDawidSkene).parameters else "gold"  # its name in older versions
        settings |= {name: {t: t % 2 for t in range(case["gold"])}, "history": {0: (20.0, 3.0), 1: (1.0, 9.0)}}
    times = []
    for _ in range(case["fits"]):
        start = time.process_time()
        if case["model"] == "majority":
            estimator = PrivateMajority(epsilon=case["epsilon"], classes=case["k"])
            result = estimator.fit(frame)
        else:
            estimator = PrivateDawidSkene(epsilon=case["epsilon"], model=case["model"], classes=case["k"], **settings)
            result = estimator.fit(frame, engine=case["engine"])
        times.append(time.process_time() - start)
    np.savez(out, posterior=result.probabilities, ability=result.abilities, error=result.standard_errors,
             labels=result.labels, objective=result.objective, iterations=result.iterations)
    print(json.dumps([min(times), result.model]), flush=True)
"""


def answers(case: dict[str, Any], path: Path) -> None:
    """A crowd of one-coin workers, or of workers who lean to a class each, randomized with epsilon."""
    import polars as pl

    rng = np.random.default_rng(len(case["name"]))
    n, k, epsilon = case["size"], case["k"], case["epsilon"]
    tasks, workers = max(100, n // 10), max(20, n // 200)
    correct = rng.choice(k, tasks, p=case.get("shares"))
    task, worker = rng.integers(0, tasks, n), rng.integers(0, workers, n)
    ability = rng.beta(4, 2, (workers, k)) if case["biased"] else np.repeat(rng.beta(4, 2, workers)[:, None], k, axis=1)
    right = rng.random(n) < ability[worker, correct[task]]
    label = np.where(right, correct[task], (correct[task] + rng.integers(1, k, n)) % k)
    if epsilon is not None:
        keep = np.exp(epsilon) / (np.exp(epsilon) + k - 1)
        label = np.where(rng.random(n) < keep, label, (label + rng.integers(1, k, n)) % k)
    pl.DataFrame({"task": task, "worker": worker, "label": label}).write_parquet(path)


def main(sources: list[str], repeats: int) -> None:
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", _WORKER],
            env={**os.environ, "PYTHONPATH": source},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for source in sources
    ]
    for source in sources:
        files = sorted((Path(source) / "peerveil" / "truth").glob("*.py"))
        digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]
        print(f"{source}: {digest}, {len(files)} files: {' '.join(path.stem for path in files)}\n")
    print("| case | model | posteriors | abilities | errors | objective | old s | new s | ratio |\n|" + "---|" * 9)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for given in CASES:
            default = {"model": "auto", "k": 2, "epsilon": 1, "size": 100_000, "biased": False, "gold": 0}
            case = {**default, "engine": "memory", "fits": 1, **given, "data": str(folder / "answers.parquet")}
            answers(case, folder / "answers.parquet")
            times: list[list[float]] = [[], []]
            models = ["", ""]
            for _ in range(1 + repeats):  # the first, which compiles, is not timed
                for i, worker in enumerate(workers):
                    assert worker.stdin is not None
                    assert worker.stdout is not None
                    worker.stdin.write(json.dumps({**case, "out": str(folder / f"{i}.npz")}) + "\n")
                    worker.stdin.flush()
                    seconds, models[i] = json.loads(worker.stdout.readline())
                    times[i].append(seconds)
            old, new = (np.load(folder / f"{i}.npz") for i in range(2))
            assert models[0] == models[1], models
            assert int(old["iterations"]) == int(new["iterations"])
            assert (old["labels"] == new["labels"]).all()
            gaps = [float(np.abs(old[key] - new[key]).max()) for key in ("posterior", "ability", "error")]
            gaps.append(abs(float(old["objective"] - new["objective"])) / max(1.0, abs(float(old["objective"]))))
            best = [min(part[1:]) for part in times]
            cells = [f"{gap:.1e}" for gap in gaps] + [f"{best[0]:.3f}", f"{best[1]:.3f}", f"{best[1] / best[0]:.2f}"]
            print(f"| {case['name']} | {models[0]} | {' | '.join(cells)} |", flush=True)
    for worker in workers:
        worker.communicate()


if __name__ == "__main__":
    main(sys.argv[1:3], int(sys.argv[3]) if len(sys.argv) > 3 else 3)
