"""The rankings module at scale: sampling, distances, tolerances, and the default test on a stream."""

from __future__ import annotations

import resource
import time
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import kendalltau

from benchmarks.timing import Row, best_of
from peerveil import Randomness
from peerveil.papers.reproduce.rankings import EXPERIMENTS
from peerveil.rankings import (
    LocalProtocol,
    Mallows,
    consensus,
    kendall_distance,
    local_consensus,
    next_protocol,
    uniformity_test,
)
from peerveil.rankings.models import fit_pairs, fit_plackett_luce, kemeny_order
from peerveil.rankings.variation import _nodes, _spread_at, spread_at


def bench() -> list[Row]:
    parts = (sampling, distances, tolerances, stream, accuracy, local_accuracy, scale, models, figure)
    return [row for part in parts for row in part()]


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
        mallows(num_voters=20, num_candidates=1000, phi=0.99, seed=1)
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


def accuracy() -> list[Row]:
    """Kendall's tau to the truth: 10 items, 1,000 people, Mallows 0.9, epsilon 1; wanted: .95."""
    taus = []
    for seed in range(200):
        scores = consensus(
            Mallows(10, 0.9).sample(1000, seed=seed), epsilon=1, randomness=Randomness.simulation(seed)
        ).scores
        taus.append(kendalltau(list(scores.values()), -np.arange(10))[0])
    note = f"peer: wanted; standard error {np.std(taus) / np.sqrt(len(taus)):.3f}"
    return [Row("tau of the consensus, epsilon 1, 10 items, 1,000 people", float(np.mean(taus)), 0.95, "", note)]


def scale() -> list[Row]:
    votes = np.random.default_rng(1).permuted(np.tile(np.arange(100, dtype=np.int16), (1_000_000, 1)), axis=1)
    consensus(votes[:1000], epsilon=1)
    rows = []
    for epsilon in (None, 1):
        (seconds,) = best_of(2, partial(consensus, votes, epsilon=epsilon))
        what = f"consensus of 1,000,000 rankings of 100 items, {'open' if epsilon is None else 'epsilon 1'}"
        rows.append(Row(what, seconds, 3.0, "s", "peer: wanted; intervals included"))
    upper = np.triu(np.random.default_rng(1).normal(size=(12, 12)), 1)
    kemeny_order(upper - upper.T)
    (seconds,) = best_of(5, partial(kemeny_order, upper - upper.T))
    rows.append(Row("Kemeny's order of 12 items, proven", seconds, 1.0, "s", "peer: wanted"))
    return rows


def models() -> list[Row]:
    """Bradley-Terry of 100 items from 1,000,000 comparisons, and Plackett-Luce of 10 items, beside choix."""
    rng, m, n = np.random.default_rng(2), 100, 1_000_000
    truth = rng.normal(size=m)
    a = rng.integers(0, m, n)
    b = (a + rng.integers(1, m, n)) % m
    won = rng.random(n) < 1 / (1 + np.exp(truth[b] - truth[a]))
    winner, loser = np.where(won, a, b), np.where(won, b, a)

    def strengths() -> Any:
        return fit_pairs(np.bincount(winner * m + loser, minlength=m * m).reshape(m, m).astype(float))[0]

    def luce(rows: Any) -> Any:
        return fit_plackett_luce([(rows, np.ones(len(rows)))], rows.shape[1])

    fitted = strengths()
    votes = np.asarray(Mallows(10, 0.8).sample(5_000, seed=1))
    luce(votes[:10])
    rows = [
        Row("Bradley-Terry, 100 items, 10^6 comparisons", best_of(5, strengths)[0], None, "s", "choix is not installed")
    ]
    try:
        import choix  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        return rows
    pairs = list(zip(winner.tolist(), loser.tolist(), strict=True))
    ours, peer = best_of(3, strengths, partial(choix.ilsr_pairwise, m, pairs))
    reference = choix.ilsr_pairwise(m, pairs)
    apart = float(np.abs(fitted - (reference - reference.mean())).max())
    note = f"peer: choix.ilsr_pairwise ({peer / ours:.0f} times); strengths differ by at most {apart:.0e}"
    rows = [Row("Bradley-Terry, 100 items, 10^6 comparisons", ours, peer, "s", note)]
    orders = [np.argsort(row).tolist() for row in votes]
    ours, peer = best_of(2, partial(luce, votes), partial(choix.ilsr_rankings, 10, orders))
    apart = float(np.abs(luce(votes) - choix.ilsr_rankings(10, orders)).max())
    note = f"peer: choix.ilsr_rankings; strengths differ by at most {apart:.0e}"
    return [*rows, Row("Plackett-Luce, 10 items, 5,000 rankings", ours, peer, "s", note)]


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
