"""The call a user makes, ``fit_predict`` with the defaults of both sides, beside crowd-kit's DawidSkene on the same reports.

Processor time of one thread in a process of its own, after one call on a hundredth of the reports: the least of up to five calls
within five seconds, on both sides. Memory is the rise of the peak in the first. crowd-kit is installed without its dependencies
(``requirements/bench-peers.lock``): it names a large language-model library.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.timing import Row
from peerveil.truth import PrivateDawidSkene

REPORTS, TASKS, WORKERS = 1_000_000, 200_000, 2_000
CALLS: Final[tuple[tuple[str, int, float | None], ...]] = (  # kind of crowd, classes, epsilon
    ("one-coin", 2, None),
    ("one-coin", 2, 2.0),
    ("one-coin", 10, None),
    ("one-coin", 10, 2.0),
    ("biased", 2, None),
    ("spammers", 2, None),
)
_IDS: Final = {False: "sorted whole numbers", True: "shuffled text"}
_CALL: Final = """
import sys, time, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, "")
from benchmarks import bench_truth_speed as b
who, kind, classes, epsilon, text = sys.argv[1], sys.argv[2], int(sys.argv[3]), eval(sys.argv[4]), sys.argv[5] == "True"
frame, correct = b.sorted_crowd(kind, classes, epsilon, text=text)
run = b.default_run(who, epsilon)
run(frame[: len(frame) // 100])  # import, compile
before, peaks, seconds = b.peak(), [], []
while len(seconds) < 5 and sum(seconds) < 5:
    start = time.process_time()
    labels = run(frame)
    seconds.append(time.process_time() - start)
    peaks.append(b.peak() - before)
print(min(seconds), peaks[0], float((labels == correct.reindex(labels.index)).mean()))
"""
_FIRST: Final = """
import time
start = time.perf_counter()
from peerveil.truth import PrivateDawidSkene, simulate_crowd
PrivateDawidSkene(epsilon=1).fit(simulate_crowd(tasks=100, workers=10, answers=4).randomized)
print(time.perf_counter() - start)
"""


def bench() -> list[Row]:
    rows = [_compare(*call, text=text) for text in _IDS for call in CALLS]
    runs = [_output([sys.executable, "-c", _FIRST]) for _ in range(4)]
    first = min(float(run) for run in runs[1:] if run is not None)
    return [
        *rows,
        Row("first fit of a process", first, None, "s", "imports and compiled code from the cache; wish: below 1.5 s"),
    ]


def _compare(kind: str, classes: int, epsilon: float | None, *, text: bool) -> Row:
    figures = {}
    for who in ("ours", "peer"):
        run = [sys.executable, "-W", "ignore", "-c", _CALL, who, kind, str(classes), str(epsilon), str(text)]
        output = _output(run, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", POLARS_MAX_THREADS="1")
        figures[who] = None if output is None else [float(cell) for cell in output.split()[-3:]]
    if figures["ours"] is None:
        sys.exit("our own call failed")
    seconds, memory, correct = figures["ours"]
    what = f"{kind}, {classes} classes, {'raw' if epsilon is None else f'epsilon {epsilon:g}'}, ids: {_IDS[text]}"
    if figures["peer"] is None:
        return Row(
            what, seconds, None, "s", f"crowd-kit is not installed; {memory / 1e6:.0f} MB; {correct:.2%} correct"
        )
    theirs, peer_memory, peer_correct = figures["peer"]
    note = (
        f"{theirs / seconds:.1f} times as fast (wish: {10 if kind == 'one-coin' else 3}); {memory / 1e6:.0f} MB, peer "
        f"{peer_memory / 1e6:.0f} MB; labels correct {correct:.2%}, peer {peer_correct:.2%}"
    )
    return Row(what, seconds, theirs, "s", note)


def _output(command: list[str], **environment: str) -> str | None:
    """What a program prints; nothing if it fails, as where crowd-kit is missing."""
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)
    return done.stdout if done.returncode == 0 else None


def peak() -> int:
    """The most memory of this program alone, in bytes: getrusage() still knows the one that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def sorted_crowd(
    kind: str, classes: int, epsilon: float | None, *, text: bool = False, seed: int = 0
) -> tuple[Any, Any]:
    """10^6 reports on 200,000 tasks by 2,000 workers as a pandas frame, sorted by task, and the correct answers.

    Workers have one ability (``one-coin``) or one for each class (``biased``), or three of ten always give one class
    (``spammers``). Ids are dense whole numbers, or ``text`` in random order.
    """
    pandas = importlib.import_module("pandas")
    rng = np.random.default_rng(seed)
    task, worker = np.repeat(np.arange(TASKS), REPORTS // TASKS), rng.integers(0, WORKERS, REPORTS)
    correct = rng.integers(0, classes, TASKS)
    ability = rng.beta(4, 2, (WORKERS, classes if kind == "biased" else 1)) * np.ones((1, classes))
    hit = rng.random(REPORTS) < ability[worker, correct[task]]
    label = np.where(hit, correct[task], (correct[task] + rng.integers(1, classes, REPORTS)) % classes)
    if kind == "spammers":
        spammer, always = rng.random(WORKERS) < 0.3, rng.integers(0, classes, WORKERS)
        label = np.where(spammer[worker], always[worker], label)
    if epsilon is not None:
        keep = np.exp(epsilon) / (np.exp(epsilon) + classes - 1)
        other = (label + rng.integers(1, classes, REPORTS)) % classes
        label = np.where(rng.random(REPORTS) < keep, label, other)
    frame = pandas.DataFrame({"task": task, "worker": worker, "label": label})
    truth = pandas.Series(correct)
    if text:
        frame = frame.iloc[rng.permutation(REPORTS)].reset_index(drop=True)
        frame["task"], frame["worker"] = "t" + frame["task"].astype(str), "w" + frame["worker"].astype(str)
        truth.index = "t" + truth.index.astype(str)
    return frame, truth


def default_run(who: str, epsilon: float | None) -> Any:
    """The call a user makes, with the defaults of both sides; crowd-kit knows no epsilon."""
    if who == "ours":
        return PrivateDawidSkene(epsilon=epsilon).fit_predict
    return importlib.import_module("crowdkit.aggregation").DawidSkene().fit_predict
