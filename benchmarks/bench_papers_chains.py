"""Bounds by chains: against a direct transcription of the printed algorithm, and how the cost grows."""

from __future__ import annotations

import importlib
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import Row, best_of
from peerveil.papers.release.chains import chain_bounds, predicted_tuples
from peerveil.release import PublicScores

# the tests' oracle, not as "tests.release.oracle": diffprivlib installs a package of the name "tests"
sys.path.append(str(Path(__file__).parents[1] / "tests" / "release"))

GROWTH = {2: (10, 20, 50, 100, 200, 500, 1_000), 3: (10, 20, 40, 80)}
LEAST_RATIO = 100


def bench() -> list[Row]:
    return [*against_the_printed(), *growth(), *structures()]


def conference(n: int, load: int) -> PublicScores:
    """n reviewers of n papers with i.i.d. weights, as in Figure 2a."""
    return PublicScores(np.random.default_rng(n).random((n, load)).round(6), [load] * n)


def against_the_printed() -> list[Row]:
    """The same bounds in the same run; fails below the promised ratio."""
    oracle: Any = importlib.import_module("oracle")

    public = conference(50, 2)

    def printed_bounds() -> Any:
        return oracle.printed_bounds(public, oracle.omega(public))

    first = best_of(1, partial(chain_bounds, public))[0]
    for bound, printed in zip(chain_bounds(public), printed_bounds(), strict=True):
        np.testing.assert_allclose(bound, np.array(printed, dtype=float), rtol=0, atol=1e-12)
    ours, peer = best_of(15, partial(chain_bounds, public), printed_bounds)
    if ours * LEAST_RATIO > peer:
        raise SystemExit(f"chains are only {peer / ours:.0f} times faster than the printed algorithm")
    what = "chains, n = m = 50, k = l = 2"
    return [
        Row(what, ours, peer, "s", f"peer: the printed algorithm with NumPy, {peer / ours:.0f} times slower"),
        Row(f"{what}, first call", first, None, "s", "compiles, or loads what was compiled before"),
    ]


def growth() -> list[Row]:
    rows = []
    for load, reviewers in GROWTH.items():
        for n in reviewers:
            public = conference(n, load)
            tuples = predicted_tuples(public)
            seconds = best_of(5 if tuples < 100_000 else 2, partial(chain_bounds, public))[0]
            note = f"{tuples:,} tuples, {1e9 * seconds / tuples:.0f} ns each"
            rows.append(Row(f"chains, n = m = {n}, k = l = {load}", seconds, None, "s", note))
    return rows


def structures() -> list[Row]:
    """Ties and stars, where a chain is often blocked: the same size as n = 80, l = 3 above."""
    rng = np.random.default_rng(0)
    ratings = rng.integers(1, 6, (80, 3)).astype(float)
    kinds = {
        "ratings 1 to 5": ratings,
        "all zero but one paper": ratings * (np.arange(80) == 40)[:, None],
        "all equal": np.ones((80, 3)),
        "two papers far above": ratings + 100 * (np.arange(80) < 2)[:, None],
    }
    rows = []
    for kind, weights in kinds.items():
        public = PublicScores(weights, [3] * 80)
        seconds = best_of(2, partial(chain_bounds, public))[0]
        rows.append(Row(f"chains, n = 80, l = 3, {kind}", seconds, None, "s", f"{predicted_tuples(public):,} tuples"))
    return rows
