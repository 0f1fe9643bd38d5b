"""Slow and plain: what the release module is checked against.

Everything here is exact: a public weight stands for the fraction nearest to it with a denominator of at most a million,
so that ties are ties of real numbers and not of rounded ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations, permutations, product
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from peerveil.release.public import PublicScores

FINEST = 1_000_000


def exact_weights(public: PublicScores) -> list[list[Fraction]]:
    return [[Fraction(float(w)).limit_denominator(FINEST) for w in weights] for weights in public.paper_weights]


def whole_weights(public: PublicScores) -> tuple[list[list[int]], int]:
    """The weights in so small a unit that every mean is a whole number of it, and how many units make 1."""
    weights = exact_weights(public)
    units = lcm(*(w.denominator for row in weights for w in row)) * lcm(*public.loads.tolist())
    return [[int(w * units) for w in row] for row in weights], units


# The printed algorithm: section 4.3, Remark 4.5, Appendix A


@dataclass(frozen=True)
class Omega:
    """The sorted list of all weight tuples: their means, and their entries as (paper, place)."""

    means: list[int]
    units: int
    entries: list[tuple[tuple[int, int], ...]]

    def mean(self, v: int) -> Fraction:
        return Fraction(self.means[v], self.units)

    def disjoint(self) -> NDArray[np.bool_]:
        """The graph G: an edge between two tuples that have no entry of X in common."""
        numbers = {entry: i for i, entry in enumerate(sorted({e for entries in self.entries for e in entries}))}
        holds = np.zeros((len(self.entries), len(numbers)), dtype=np.float32)
        for v, entries in enumerate(self.entries):
            holds[v, [numbers[entry] for entry in entries]] = 1
        return np.asarray(holds @ holds.T == 0)


def omega(public: PublicScores, tie: Callable[[tuple[int, ...]], Any] = lambda numbers: numbers) -> Omega:
    """All tuples of every size that is somebody's load, by mean; equal means by ``tie`` of the entries' numbers.

    Entries are numbered by decreasing absolute weight, then by paper and place.
    """
    weights, units = whole_weights(public)
    all_entries = [(p, place) for p, row in enumerate(weights) for place in range(len(row))]
    all_entries.sort(key=lambda entry: (-abs(weights[entry[0]][entry[1]]), entry))
    number = {entry: i for i, entry in enumerate(all_entries)}
    result = []
    for load in sorted(set(public.loads.tolist())):
        for papers in combinations(range(public.papers), load):
            for places in product(*(range(len(weights[p])) for p in papers)):
                entries = tuple(zip(papers, places, strict=True))
                mean = sum(weights[p][place] for p, place in entries) // load
                result.append((mean, tie(tuple(sorted(number[e] for e in entries))), entries))
    result.sort(key=lambda row: row[:2])
    return Omega([row[0] for row in result], units, [row[2] for row in result])


def longest_left_chains(graph: NDArray[np.bool_]) -> NDArray[np.int64]:
    """For each vertex, by dynamic programming: one more than the most among its neighbors at lower indices."""
    lengths = np.zeros(len(graph), dtype=np.int64)
    for v in range(len(graph)):
        lengths[v] = 1 + lengths[:v][graph[v, :v]].max(initial=0)
    return lengths


def longest_right_chains(graph: NDArray[np.bool_]) -> NDArray[np.int64]:
    """For each vertex, by dynamic programming: one more than the most among its neighbors at higher indices."""
    lengths = np.zeros(len(graph), dtype=np.int64)
    for v in reversed(range(len(graph))):
        lengths[v] = 1 + lengths[v + 1 :][graph[v, v + 1 :]].max(initial=0)
    return lengths


def lower_bounds(public: PublicScores, tuples: Omega, left: NDArray[np.int64], slack: int = 0) -> list[Fraction]:
    """Algorithm 1. ``slack`` plants a fault: C2 allows so many more unmarked entries (the list may then end too soon)."""
    n, bounds = public.reviewers, []
    unmarked = [set(range(size)) for size in public.sizes.tolist()]
    i, w = 1, 0
    while i <= n and w < len(tuples.means):
        for paper, place in tuples.entries[w]:
            unmarked[paper].discard(place)
        if left[w] >= i and all(len(row) <= n - i + slack for row in unmarked):
            bounds.append(tuples.mean(w))
            i += 1
        w += 1
    return bounds


def upper_bounds(
    public: PublicScores, tuples: Omega, right: NDArray[np.int64], slack: int = 0, start: tuple[int, int] | None = None
) -> dict[int, Fraction]:
    """Algorithm 2 from i = n and the last tuple, the bound of each i; or as printed from ``start=(1, 0)``."""
    n, bounds = public.reviewers, {}
    unmarked = [set(range(size)) for size in public.sizes.tolist()]
    i, w = start or (n, len(tuples.means) - 1)
    while i >= 1 and w >= 0:
        for paper, place in tuples.entries[w]:
            unmarked[paper].discard(place)
        if right[w] >= n - i + 1 and all(len(row) <= i - 1 + slack for row in unmarked):
            bounds[i] = tuples.mean(w)
            i -= 1
        w -= 1
    return bounds


def printed_bounds(
    public: PublicScores, tuples: Omega, chains: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
) -> tuple[list[Fraction], list[Fraction]]:
    """Lower and upper bounds by the printed definition, Algorithm 2 corrected; ``chains`` if they are known already."""
    if chains is None:
        graph = tuples.disjoint()
        chains = longest_left_chains(graph), longest_right_chains(graph)
    left, right = chains
    lower = lower_bounds(public, tuples, left)
    assert len(lower) == public.reviewers
    upper = upper_bounds(public, tuples, right)
    return lower, [upper[i] for i in range(1, public.reviewers + 1)]


# All assignments


def sorted_means(public: PublicScores) -> NDArray[np.float64]:
    """The sorted means of every valid assignment, each once, as rows."""
    weights, units = whole_weights(public)
    rows = sorted(_assignments(tuple(sorted(map(tuple, weights))), tuple(public.loads.tolist())))
    _assignments.cache_clear()
    return np.array([[mean / units for mean in row] for row in rows])


@cache
def _assignments(papers: tuple[tuple[int, ...], ...], loads: tuple[int, ...]) -> frozenset[tuple[int, ...]]:
    """Papers with the weights that are left, and the loads that are left, both sorted: interchangeable ones coincide.

    Somebody wrote the first review of the first paper: go through that reviewer's load and other reviews.
    """
    if not loads:
        return frozenset([()]) if not papers else frozenset()
    result: set[tuple[int, ...]] = set()
    for load in set(loads):
        rest = list(loads)
        rest.remove(load)
        for others in combinations(range(1, len(papers)), load - 1):
            chosen = (0, *others)
            choices = [(papers[0][0],), *(sorted(set(papers[p])) for p in others)]
            for values in product(*choices):
                left = [list(row) for row in papers]
                for p, value in zip(chosen, values, strict=True):
                    left[p].remove(value)
                after = tuple(sorted(tuple(row) for row in left if row))
                if len(after) < max(rest, default=0) or any(len(row) > len(rest) for row in after):
                    continue
                mean = sum(values) // load
                result.update(tuple(sorted((mean, *tail))) for tail in _assignments(after, tuple(rest)))
    return frozenset(result)


def every_assignment(public: PublicScores) -> NDArray[np.float64]:
    """The sorted means of every assignment of reviews to reviewers, as often as it gives them."""
    rows: list[list[float]] = []

    def place(paper: int, left: list[int], sums: list[float]) -> None:
        if paper == public.papers:
            rows.append(sorted(total / load for total, load in zip(sums, public.loads.tolist(), strict=True)))
            return
        weights = public.paper_weights[paper].tolist()
        for chosen in permutations([reviewer for reviewer, free in enumerate(left) if free], len(weights)):
            new_left, new_sums = left.copy(), sums.copy()
            for reviewer, weight in zip(chosen, weights, strict=True):
                new_left[reviewer] -= 1
                new_sums[reviewer] += weight
            place(paper + 1, new_left, new_sums)

    place(0, public.loads.tolist(), [0.0] * public.loads.size)
    return np.array(rows)


def hull_projection(
    vertices: NDArray[np.float64], r: NDArray[np.float64], tolerance: float = 1e-9
) -> NDArray[np.float64]:
    """The point of the convex hull of the rows that is closest to r, checked by its optimality condition.

    With P the vertices minus r as columns, minimize |P x|^2 + (1 - sum x)^2 over x >= 0. Writing x = s y with y on the
    simplex it is s^2 |P y|^2 + (1 - s)^2: whatever s is, y is best at the point of the hull closest to r.
    """
    reach = max(1.0, float(np.abs(vertices - r).max()))
    x, _ = nnls(np.vstack([(vertices - r).T / reach, np.ones(len(vertices))]), np.append(np.zeros(r.size), 1.0))
    t = (x / x.sum()) @ vertices
    excess = float(((vertices - t) @ (r - t)).max())
    assert excess <= tolerance * reach**2, f"not the projection: a vertex is {excess} beyond"
    return np.asarray(t)


# Instances

KINDS = ("grid", "decimals", "thirds", "binary", "constant", "one paper", "one signed paper", "miscalibration")
ODDS = (0.2, 0.25, 0.15, 0.1, 0.03, 0.06, 0.06, 0.15)


def random_public(
    rng: np.random.Generator, *, reviewers: int = 6, papers: int = 6, reviews: int = 12, kind: str | None = None
) -> PublicScores:
    """A small valid conference: loads and sizes equal or not, many ties, weights of both signs, special structures."""
    even = [
        (n, m, load)
        for n, m in product(range(2, reviewers + 1), range(2, papers + 1))
        for load in range(1, m + 1)
        if n * load % m == 0 and n * load <= reviews
    ]
    written = np.zeros((papers, reviewers), dtype=bool)
    if rng.random() < 0.4:  # equal loads and sizes
        n, m, load = even[int(rng.integers(len(even)))]
        written = np.zeros((m, n), dtype=bool)
        written[np.arange(n * load) % m, np.repeat(np.arange(n), load)] = True
    while not (written.any(axis=0).all() and written.any(axis=1).all() and written.sum() <= reviews):
        m, n = int(rng.integers(1, papers + 1)), int(rng.integers(1, reviewers + 1))
        written = rng.random((m, n)) < rng.uniform(0.3, 0.9)
        if m * n < reviews and rng.random() < 0.8:  # few reviews have few assignments: mostly take more
            written[:] = False
    sizes = written.sum(axis=1)
    kind = kind or str(rng.choice(KINDS, p=ODDS))
    rows = [_weights(rng, kind, int(size)) for size in sizes]
    if kind == "constant":
        rows = [np.full(size, rows[0][0]) for size in sizes]
    if kind.startswith("one"):
        odd = int(rng.integers(m))
        rows = [row if p == odd else np.zeros(row.size) for p, row in enumerate(rows)]
    return PublicScores(rows, written.sum(axis=0))


def _weights(rng: np.random.Generator, kind: str, size: int) -> NDArray[np.float64]:
    if kind == "decimals":
        return np.asarray(rng.uniform(-1, 1, size).round(4))
    if kind == "thirds":
        return rng.integers(-3, 4, size) / 3
    if kind == "binary":
        return rng.integers(0, 2, size).astype(float)
    if kind == "one signed paper":
        return rng.integers(-2, 3, size) / 10
    if kind == "miscalibration":
        scores = rng.integers(1, 6, size)
        return np.asarray(scores - (scores.sum() - scores) / (size - 1)) if size > 1 else np.zeros(1)
    return rng.integers(0, 6, size) / 10  # grid, constant, one paper


def shape(public: PublicScores) -> str:
    """What an instance is, for messages."""
    loads = dict(sorted(Counter(public.loads.tolist()).items()))
    return f"loads {loads}, papers {[row.tolist() for row in public.paper_weights]}"
