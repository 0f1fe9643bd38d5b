"""The rankings module at scale: sampling, distances, tolerances, and the default test on a stream."""

from __future__ import annotations

import resource
import time
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import kendalltau

from benchmarks.timing import Row, best_of
from peerveil.core.randomness import Randomness
from peerveil.papers.reproduce.rankings import EXPERIMENTS
from peerveil.rankings import LocalProtocol, Mallows, kendall_distance, local_consensus, next_protocol, uniformity_test
from peerveil.rankings.variation import _nodes, _spread_at, spread_at


def bench() -> list[Row]:
    return [*sampling(), *distances(), *tolerances(), *stream(), *local_accuracy(), *figure()]


def insertion(items: int, spread: float, n: int, rng: np.random.Generator) -> list[list[int]]:
    """Repeated insertion as it is written in plain Python and NumPy, as in the published packages."""
    chances = [spread ** np.arange(i + 1) / np.sum(spread ** np.arange(i + 1)) for i in range(items)]
    jumps = [rng.choice(i + 1, size=n, p=chances[i]) for i in range(items)]
    orders = []
    for row in range(n):
        order: list[int] = []
        for i in range(items):
            order.insert(i - int(jumps[i][row]), i)
        orders.append(order)
    return orders


def sampling() -> list[Row]:
    model = Mallows(1000, 0.99)
    model.sample(1)
    (ours,) = best_of(3, partial(model.sample, 1000, seed=1))
    rows = []
    peer, name = float("nan"), "prefsampling is not installed"
    try:
        from prefsampling.ordinal import mallows  # type: ignore[import-not-found, import-untyped, unused-ignore]

        start = time.perf_counter()
        mallows(num_voters=20, num_candidates=1000, phi=0.99, normalize_phi=False, seed=1)
        peer, name = 50 * (time.perf_counter() - start), "peer: prefsampling, 20 rankings times 50"
    except ImportError:
        pass
    rows.append(Row.of("1,000 Mallows rankings of 1,000 items", ours, peer, name))
    start = time.perf_counter()
    insertion(1000, 0.99, 1000, np.random.default_rng(1))
    plain = time.perf_counter() - start
    rows.append(Row.of("the same", ours, plain, "peer: repeated insertion in Python, jumps vectorized by NumPy"))
    return rows


def distances() -> list[Row]:
    a, b = (np.random.default_rng(i).permutation(10_000) for i in (1, 2))
    kendall_distance(a, b)
    ours, peer = best_of(20, partial(kendall_distance, a, b), partial(kendalltau, a, b))
    return [Row("Kendall distance, 10,000 items", ours, peer, "s", "peer: scipy.stats.kendalltau")]


def tolerances() -> list[Row]:
    spread_at(50, 0.5)

    def fresh() -> None:
        _spread_at.cache_clear()
        _nodes.cache_clear()
        spread_at(10_000, 0.5)

    (seconds,) = best_of(2, fresh)
    return [
        Row("spread at tolerance 0.5, 10,000 items", seconds, None, "s", "within 10 s; a table would need 10^12 steps")
    ]


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def _pieces(total: int, block: Any) -> Any:
    for _ in range(total // len(block)):
        yield block


def stream() -> list[Row]:
    block = np.random.default_rng(1).permuted(np.tile(np.arange(100, dtype=np.int16), (10_000, 1)), axis=1)
    uniformity_test(_pieces(300_000, block), epsilon=0.5)
    rows = []
    for total in (1_000_000, 4_000_000):
        before, start = _peak(), time.perf_counter()
        uniformity_test(_pieces(total, block), epsilon=0.5)
        seconds = time.perf_counter() - start
        note = f"in pieces of 10,000; the process's peak grew by {max(0.0, _peak() - before):.2f} GB"
        rows.append(Row(f"default test, {total:,} rankings of 100 items", seconds, None, "s", note))
    return rows


def _tau(people: int, spread: float, rounds: int, seed: int) -> float:
    """Kendall's tau of a local consensus of 10 items at epsilon 1 to a random truth."""
    source, truth = Randomness.simulation(seed), np.random.default_rng(seed).permutation(10)
    votes = Mallows(10, spread, truth).sample(people, seed=seed)
    protocols: list[LocalProtocol] = []
    sent: list[Any] = []
    for part in np.array_split(votes, rounds):
        protocol = next_protocol(sent, protocol=protocols) if protocols else LocalProtocol(10, epsilon=1, ask="name")
        protocols += [protocol] if protocol not in protocols else []
        sent += protocol.randomize_all(part, randomness=source)
    order = local_consensus(sent, protocol=protocols).order
    return float(kendalltau([order.index(item) for item in range(10)], truth)[0])


def local_accuracy() -> list[Row]:
    cells = [(1000, 0.9, 1, 500, "target 0.50"), (1900, 0.9, 1, 500, "target 0.60")]
    cells += [
        (1000, spread, rounds, 60, "one round" if rounds == 1 else "adapted")
        for spread in (0.9, 0.7, 0.5)
        for rounds in (1, 4)
    ]
    rows = []
    for people, spread, rounds, trials, note in cells:
        taus = [_tau(people, spread, rounds, seed) for seed in range(trials)]
        error = float(np.std(taus)) / trials**0.5
        name = f"local consensus, 10 items, epsilon 1, {people:,} people, spread {spread:g}, rounds: {rounds}"
        rows.append(Row(name, float(np.mean(taus)), None, "tau", f"{note}; standard error {error:.3f}"))
    return rows


def figure() -> list[Row]:
    start = time.perf_counter()
    EXPERIMENTS["rankings/figure-1c"](False, False)
    return [Row("Figure 1, 10,000 items, 1,000 repetitions", time.perf_counter() - start, None, "s", "within 600 s")]
