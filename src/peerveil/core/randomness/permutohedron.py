"""Whole-number noise for sums of rank vectors, where one person's ranking is replaced by any other."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.core.arrays import Floats, Ints
from peerveil.core.exact import Number, whole
from peerveil.core.guarantee import read_epsilon
from peerveil.core.lazy import njit
from peerveil.core.randomness.radius import draw_radius

if TYPE_CHECKING:
    from peerveil.core.randomness.source import Randomness

MOST_ITEMS: Final = 200
_LARGEST_EPSILON: Final = Fraction(12)  # beyond it noise is made for this one: hardly any, and still drawn quickly


@cache
def _forests(items: int) -> tuple[int, ...]:
    """How many forests on labeled vertices have 0, 1, ... edges: Cayley's n^(n-2) trees for the component of one vertex."""
    if items == 0:
        return (1,)
    counts = [0] * items
    for size in range(1, items + 1):
        trees = math.comb(items - 1, size - 1) * (size ** (size - 2) if size > 1 else 1)
        for edges, rest in enumerate(_forests(items - size)):
            counts[edges + size - 1] += trees * rest
    return tuple(counts)


@dataclass(frozen=True)
class _Permutohedron:
    """The body 2(P - P), P the convex hull of all rankings of ``items`` items."""

    items: int

    @property
    def degree(self) -> int:
        return self.items - 1

    def volume(self, radius: int) -> int:
        """Whole-number points with sum 0 in 2r(P - P), which is P stretched by 4r: t^edges added up over forests (Stanley)."""
        value = 0
        for count in reversed(_forests(self.items)):
            value = value * 4 * radius + count
        return value


@dataclass(frozen=True)
class PermutohedronNoise:
    """Noise z of whole numbers with sum 0, and P(z) proportional to exp(-epsilon ceil(norm(z))).

    **Privacy.** Let x be the sum over people of twice their ranks (ties and items that were left out share the mean of
    their places, so that all entries are whole). A ranking, complete or not, is a point of P, the convex hull of all
    rankings. Replacing one person's ranking by any other moves x by twice the difference of two points of P: by an element of
    B = 2(P - P). With the norm whose unit ball is B that is at most 1, and :mod:`~peerveil.core.randomness.radius` proves that
    y = x + z is epsilon-DP. The norm is the largest over k of (the sum of the k largest entries) / (2k(m - k)). ∎

    **Sampling** is exact. P is a zonotope: up to a shift, the sum of the segments from 0 to e_j - e_i, i < j.
    Stretched by t, it is tiled by parallelepipeds, one for each spanning tree of the complete graph, with the tree's
    edges as sides of length t (a regular fine zonotopal tiling by generic heights; here powers of two, so that no sum
    around a cycle vanishes). All tiles have the same volume, since the edge vectors are unimodular. Which points of a
    shared face belong to which tile is decided by moving every point a little in one fixed direction. So: a uniform
    tree (Prufer), a uniform whole number for each of its edges, and the point is uniform among all points of the
    lattice that stay inside when moved. Those of rB are all among them if P is stretched by 4r + 2: others are drawn
    again.

    Examples
    --------
    >>> from peerveil.core.randomness import Randomness
    >>> noise = PermutohedronNoise(10, 1)
    >>> drawn = noise.draw(Randomness.simulation(1))
    >>> drawn.size, int(drawn.sum()), 80 < noise.sd < 110  # twice the noise of a sum of ranks
    (10, 0, True)
    """

    items: int
    epsilon: Number

    def __post_init__(self) -> None:
        whole(self.items, "items", 2, MOST_ITEMS)
        object.__setattr__(self, "epsilon", min(read_epsilon(self.epsilon), _LARGEST_EPSILON))

    def norm(self, noise: Ints) -> Fraction:
        """The norm whose unit ball is B."""
        largest = sorted(noise.tolist(), reverse=True)
        sums = np.cumsum(np.array(largest, dtype=object))[:-1]
        return max(Fraction(int(s), 2 * k * (self.items - k)) for k, s in enumerate(sums, start=1))

    def draw(self, randomness: "Randomness") -> Ints:
        """One vector of noise, exactly."""
        radius = draw_radius(_Permutohedron(self.items), read_epsilon(self.epsilon), randomness)
        while radius:
            point = self._point(4 * radius + 2, randomness)
            if self.norm(point) <= radius:
                return point
        return np.zeros(self.items, dtype=np.int64)

    def _point(self, stretch: int, randomness: "Randomness") -> Ints:
        """A uniform point of the lattice in the half-open stretched permutohedron, centered."""
        m = self.items
        parent = _random_tree(m, randomness)
        steps = randomness.integers(0, stretch, m - 1).tolist()
        return np.array(tile_point(parent, steps, stretch), dtype=np.int64)

    @cached_property
    def sd(self) -> float:
        """The standard deviation of the noise on each entry, about."""
        drawn = self.simulate(np.random.default_rng(0), 2_000)
        return float(np.sqrt(np.mean(drawn**2)))

    def simulate(self, rng: np.random.Generator, count: int) -> Floats:
        """Vectors of the same noise without its rounding, for modeling: Gamma times a uniform point of the body."""
        points = _continuous_points(self.items, count, int(rng.integers(2**31)))
        radii = rng.gamma(self.items, 1 / float(self.epsilon), size=(count, 1))
        return np.asarray(4 * radii * points)


def _random_tree(items: int, randomness: "Randomness") -> list[int]:
    """The parents in a uniform labeled tree, rooted at the last vertex, from its Prufer code."""
    code = randomness.integers(0, items, items - 2).tolist() if items > 2 else []
    degree = [1] * items
    for vertex in code:
        degree[vertex] += 1
    parent = [-1] * items
    pointer = leaf = next(v for v in range(items) if degree[v] == 1)
    for vertex in code:
        parent[leaf] = vertex
        degree[vertex] -= 1
        if vertex < pointer and degree[vertex] == 1:
            leaf = vertex
        else:
            pointer = leaf = next(v for v in range(pointer + 1, items) if degree[v] == 1)
    parent[leaf] = items - 1
    return parent


def tile_point(parent: list[int], steps: list[int], stretch: int) -> list[int]:
    """The point of a tree's tile at the given steps (0 to stretch - 1) along its edges, centered.

    The edge between i < j has the vector e_j - e_i and the height 2^(its number). Potentials p with p_j - p_i equal to the
    heights of the tree's edges decide for every other edge whether it is taken fully or not at all.
    """
    m = len(parent)
    height = [[0] * m for _ in range(m)]
    power = 1
    for i in range(m):
        for j in range(i + 1, m):
            height[i][j] = power
            power <<= 1
    potential: list[int | None] = [None] * m
    potential[m - 1] = 0

    def potential_of(v: int) -> int:
        path = []
        while potential[v] is None:
            path.append(v)
            v = parent[v]
        value = potential[v] or 0
        for child in reversed(path):
            above = parent[child]
            value += -height[child][above] if child < above else height[above][child]
            potential[child] = value
        return value

    values = [potential_of(v) for v in range(m)]
    twice = [0] * m  # twice the point, relative to the center: an edge adds 2c - stretch to j and takes it from i
    for i in range(m):
        for j in range(i + 1, m):
            if parent[i] == j:  # moving the point a little goes down this edge: 1 to stretch
                amount = 2 * (steps[i] + 1) - stretch
            elif parent[j] == i:
                amount = 2 * steps[j] - stretch
            else:
                amount = stretch if height[i][j] < values[j] - values[i] else -stretch
            twice[j] += amount
            twice[i] -= amount
    return [value // 2 for value in twice]


@njit(cache=True, nogil=True)
def _continuous_points(m: int, count: int, seed: int) -> Any:
    """Uniform points of P, centered, by random trees and random heights."""
    np.random.seed(seed)
    points = np.zeros((count, m))
    height, parent = np.zeros((m, m)), np.empty(m, dtype=np.int64)
    potential, order = np.zeros(m), np.empty(m, dtype=np.int64)
    for i in range(m):  # generic heights: one tiling serves all draws
        for j in range(i + 1, m):
            height[i, j] = np.random.normal()
            height[j, i] = -height[i, j]
    for draw in range(count):
        # a uniform spanning tree by Wilson's walk on the complete graph
        inside = np.zeros(m, dtype=np.bool_)
        inside[m - 1] = True
        parent[m - 1] = -1
        filled = 1
        order[0] = m - 1
        for start in range(m - 1):
            v = start
            while not inside[v]:
                w = np.random.randint(0, m - 1)
                parent[v] = w if w < v else w + 1
                v = parent[v]
            v = start
            first = filled
            while not inside[v]:
                inside[v] = True
                order[filled] = v
                filled += 1
                v = parent[v]
            order[first:filled] = order[first:filled][::-1].copy()
        potential[m - 1] = 0.0
        for place in range(1, m):
            v = order[place]
            potential[v] = potential[parent[v]] + height[parent[v], v]
        for i in range(m):
            for j in range(i + 1, m):
                if parent[i] == j or parent[j] == i:
                    amount = np.random.random() - 0.5
                else:
                    amount = 0.5 if height[i, j] < potential[j] - potential[i] else -0.5
                points[draw, j] += amount
                points[draw, i] -= amount
    return points
