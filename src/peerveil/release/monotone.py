"""The community's map from criteria to overall score: monotone, of least absolute deviation, found exactly.

Noothigattu, Shah and Procaccia ("Loss functions, axioms, and peer review", 2021) learn how a community turns criteria
(soundness, novelty, ...) into an overall score, as the function f that is non-decreasing in every criterion and
minimizes the L(1,1) empirical risk, the sum over all reviews of abs(score - f(criteria)).

**The linear program, cut into small ones.** With s_1 < ... < s_K the scores that occur, write f by its steps,
f = s_1 + sum_k (s_(k+1) - s_k) z_k, where z_k(p) = 1 if f(p) > s_k. The risk is then a sum over thresholds k of
(s_(k+1) - s_k) times a linear function of z_k: c_k(p) = (reviews at p scoring at most s_k) - (reviews scoring more),
plus a constant. So the program falls apart into K - 1 programs

    minimize sum_p c_k(p) z_k(p)   subject to   0 <= z_k <= 1,  z_k(p) <= z_k(q) for p <= q,

one variable per distinct criteria vector, one constraint per edge of the Hasse diagram. Its matrix is a network's,
hence totally unimodular: an optimal z is the indicator of an upper set. c_k does not fall as k grows, so the smallest
optimal upper sets U_k are nested. (If D = U_(k+1) without U_k were not empty, c_(k+1)(D) < 0, for otherwise U_(k+1)
without D, an upper set, would be optimal and smaller; so c_k(D) < 0, and U_k with D, an upper set, would be better than
U_k.) By reversal so are the largest. The K - 1 solutions fit together to one monotone f, and threshold k need only be
solved on the points between two neighboring upper sets already found. Halving the range of
thresholds each time, all programs of a level are disjoint and are solved as one: ceil(log2 K) programs in all. (Points
between two nested upper sets are an interval-closed set: whatever is between two of them belongs to them, so the
edges of the whole Hasse diagram among them are enough.)

**Optimality is proved, not believed.** HiGHS returns multipliers y >= 0 of the edges. They are rounded to whole
numbers (the costs are counts of reviews, so that an optimal vertex is whole), and everything else is recomputed from
them in whole numbers: with the reduced cost r(p) = c(p) + sum of y over edges going up from p - sum of y over edges
coming from below, let S be all that can be reached from {r < 0} by going up an edge, or down an edge with y > 0. S is
an upper set. If S has no p with r(p) > 0, then for every feasible z

    sum c z  >=  sum c z + sum_edges y (z_below - z_above)  =  sum r z  >=  sum_p min(r(p), 0)  =  sum_(p in S) c(p),

so S is optimal; and every optimal upper set contains {r < 0}, has no r > 0 and does not cut an edge with y > 0, so S
is the smallest one. The largest is the complement of what reaches {r > 0}. If S does contain a p with r(p) > 0, the
solver's answer was not optimal, and is refused.

**Ties.** The optimal maps are a lattice with a smallest and a largest element. Both are properties of the reviews
alone, whatever the order of the rows and whatever vertex the solver happened to find; the map used is their mean, as
a median of an even number of values usually is. That matters for privacy: a tie broken by row order would let the
private order of the table into what counts as public. (The mean is itself optimal, since the optimal maps are a
convex set. It goes along with shifts and with reversal of the scale; the smallest map alone would favor low scores.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from peerveil.core.arrays import Flags, Floats, Ints
from peerveil.core.errors import BadInput, Verbatim
from peerveil.release.projection import NotOptimal

MOST_EDGES = 2_000_000
"""More edges than this in the Hasse diagram are refused: the program would not fit into memory."""


@dataclass(frozen=True, eq=False)
class MonotoneMap:
    """A non-decreasing map from criteria to scores, as :func:`monotone_l1_map` finds it.

    Attributes
    ----------
    points : array
        The distinct criteria vectors in lexicographic order, one row each.
    index : array
        For each review, which of the points it is.
    lower, upper : array
        The smallest and the largest optimal map at the points; all their values are scores that occur.
    """

    points: Floats
    index: Ints
    lower: Floats
    upper: Floats

    @property
    def values(self) -> Floats:
        """The map at its points: the mean of the smallest and the largest optimal one."""
        return np.asarray((self.lower + self.upper) / 2)

    @property
    def fitted(self) -> Floats:
        """The map at the criteria of each review."""
        return np.asarray(self.values[self.index])


def monotone_l1_map(criteria: ArrayLike, scores: ArrayLike) -> MonotoneMap:
    """The non-decreasing map of least total absolute deviation from the scores, exactly.

    Parameters
    ----------
    criteria
        Finite numbers, one row per review and one column per criterion; more is better in every column.
    scores
        The overall scores.

    Examples
    --------
    >>> community = monotone_l1_map([[1], [2], [2], [3]], [2, 6, 6, 4])
    >>> community.values.tolist()  # the last score is an exception; the median of its block is 6
    [2.0, 6.0, 6.0]
    """
    points, index = _distinct(np.asarray(criteria, dtype=np.float64))
    below, above = hasse_diagram(points)
    levels, rank = np.unique(np.asarray(scores, dtype=np.float64) + 0.0, return_inverse=True)
    lowest, tied = _solve(index, rank, levels.size, below, above, len(points), largest=False)
    highest = _solve(index, rank, levels.size, below, above, len(points), largest=True)[0] if tied else lowest
    return MonotoneMap(points, index, levels[lowest], levels[highest])


def hasse_diagram(points: Floats) -> tuple[Ints, Ints]:
    """The edges (below, above) of the transitive reduction of the coordinatewise order on distinct, sorted points.

    Points above one point come in lexicographic order, which extends the order. So the first of them is minimal, and
    after everything above it is struck out, the next one is again: each is an edge, and nothing else is.
    """
    codes = np.column_stack([np.unique(column, return_inverse=True)[1] for column in points.T]).astype(np.int32)
    columns = [np.ascontiguousarray(column) for column in codes.T]
    edges: list[tuple[int, int]] = []
    for p in range(len(codes)):
        higher = columns[0][p + 1 :] >= columns[0][p]
        for column in columns[1:]:
            higher &= column[p + 1 :] >= column[p]
        left = np.flatnonzero(higher) + p + 1
        while left.size:
            edges.append((p, left[0]))
            left = left[1:][(codes[left[1:]] < codes[left[0]]).any(axis=1)]
        if len(edges) > MOST_EDGES:
            raise BadInput(
                "criteria",
                got=Verbatim(f"{len(codes):,} distinct vectors with more than {MOST_EDGES:,} neighboring pairs"),
                want="fewer criteria, or criteria on a coarser scale",
            )
    below, above = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    return below, above


def _solve(
    index: Ints,
    rank: Ints,
    scores: int,
    below: Ints,
    above: Ints,
    points: int,
    *,
    largest: bool,
) -> tuple[Ints, bool]:
    """The rank of the optimal map's score at each point, and whether any program on the way had two solutions.

    If none had, the smallest and the largest map are the same: by induction over the levels, the two sets between
    which a program is solved are then the smallest and the largest optimal one at once.
    """
    low, high = np.zeros(points, dtype=np.int64), np.full(points, scores - 1)
    tied = False
    while True:
        open_ = np.flatnonzero(low < high)
        if not open_.size:
            return low, tied
        middle = (low + high) // 2
        cost = np.bincount(index, weights=np.where(rank <= middle[index], 1.0, -1.0), minlength=points)
        new = np.full(points, -1)
        new[open_] = np.arange(open_.size)
        inside = (low[below] == low[above]) & (low[below] < high[below])  # both ends in the same range, not settled
        first, last = cuts(cost[open_].astype(np.int64), new[below[inside]], new[above[inside]])
        tied |= bool((first != last).any())
        up = last if largest else first
        low[open_[up]] = middle[open_[up]] + 1
        high[open_[~up]] = middle[open_[~up]]


def cuts(cost: Ints, below: Ints, above: Ints) -> tuple[Flags, Flags]:
    """The smallest and the largest upper set of least total cost, with the proof of the module's docstring."""
    dual = _multipliers(cost, below, above)
    size = cost.size
    whole = cost + _sums(below, dual, size) - _sums(above, dual, size)
    back = dual > 0
    tail, head = np.concatenate([below, above[back]]), np.concatenate([above, below[back]])
    smallest = _reached(whole < 0, tail, head)
    if (whole[smallest] > 0).any():
        raise NotOptimal("HiGHS called a solution optimal that is not: its multipliers do not prove it")
    return smallest, ~_reached(whole > 0, head, tail)


def _multipliers(cost: Ints, below: Ints, above: Ints) -> Ints:
    """The multipliers of the edges as HiGHS finds them, as whole numbers that are not negative."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    if not below.size:
        return np.empty(0, dtype=np.int64)
    edges = below.size
    places = np.tile(np.arange(edges), 2), np.concatenate([below, above])
    order = csr_array((np.repeat([1.0, -1.0], edges), places), shape=(edges, cost.size))
    solution: Any = linprog(cost, A_ub=order, b_ub=np.zeros(edges), bounds=(0, 1), method="highs")
    if solution.status != 0:
        raise NotOptimal(f"HiGHS found no optimal solution: {solution.message}")
    return np.maximum(np.rint(-solution.ineqlin.marginals), 0).astype(np.int64)  # type: ignore[no-any-return]


def _sums(index: Ints, weights: Ints, size: int) -> Ints:
    """Sums of whole numbers below 2^53, which floats add exactly."""
    return np.bincount(index, weights=weights, minlength=size).astype(np.int64)


def _reached(start: Flags, tail: Ints, head: Ints) -> Flags:
    """All that can be reached from the start along arcs."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    size = start.size
    first = np.flatnonzero(start)
    tails, heads = np.concatenate([tail, np.full(first.size, size)]), np.concatenate([head, first])
    graph = csr_array((np.ones(tails.size), (tails, heads)), shape=(size + 1, size + 1))
    reached = np.zeros(size + 1, dtype=bool)
    reached[breadth_first_order(graph, size, return_predecessors=False)] = True
    return reached[:size]


def _distinct(rows: Floats) -> tuple[Floats, Ints]:
    """The distinct rows in lexicographic order, and for each row which it is."""
    key = np.zeros(len(rows), dtype=np.int64)
    first = np.zeros(1, dtype=np.int64)
    for column in rows.T:
        values, code = np.unique(column, return_inverse=True)
        _, first, key = np.unique(key * values.size + code, return_index=True, return_inverse=True)
    return rows[first] + 0.0, key  # + 0.0 makes -0.0, which equals 0.0, look the same in every row order
