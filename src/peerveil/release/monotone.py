"""The community's map from criteria to overall score: monotone, of least absolute deviation, found exactly.

Noothigattu, Shah and Procaccia ("Loss functions, axioms, and peer review", 2021) learn how a community turns criteria
(soundness, novelty, ...) into an overall score, as the function f that is non-decreasing in every criterion and
minimizes the L(1,1) empirical risk, the sum over all reviews of abs(score - f(criteria)).

**The linear program, cut into small ones.** With s_1 < ... < s_K the scores that occur, write f by its steps,
f = s_1 + sum_k (s_(k+1) - s_k) z_k, where z_k(p) = 1 if f(p) > s_k. The risk is then a sum over thresholds k of
(s_(k+1) - s_k) times a linear function of z_k: c_k(p) = (reviews at p scoring at most s_k) - (reviews scoring more),
plus a constant. So the program falls apart into K - 1 programs

    minimize sum_p c_k(p) z_k(p)   subject to   0 <= z_k <= 1,  z_k(p) <= z_k(q) for p <= q,

one variable a distinct criteria vector, one constraint an edge of the Hasse diagram. Its matrix is a network's,
hence totally unimodular: an optimal z is the indicator of an upper set. c_k does not fall as k grows, so the smallest
optimal upper sets U_k are nested. (If D = U_(k+1) without U_k were not empty, c_(k+1)(D) < 0, for otherwise U_(k+1)
without D, an upper set, would be optimal and smaller; so c_k(D) < 0, and U_k with D, an upper set, would be better than
U_k.) By reversal so are the largest. The K - 1 solutions fit together to one monotone f, and threshold k need only be
solved on the points that lie between two neighboring upper sets already found. Halving the range of
thresholds each time, all programs of a level are disjoint and are solved as one: ceil(log2 K) programs in all. (Points
between two nested upper sets are an interval-closed set: whatever lies between two of them belongs to them, so the
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
from typing import TYPE_CHECKING, Any

import numpy as np

from peerveil.core.errors import BadInput, PeerveilError, Verbatim

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

MOST_EDGES = 2_000_000
"""More edges than this in the Hasse diagram are refused: the program would not fit into memory."""
_BLOCK = 4_000_000  # comparisons held at once


class SolverFailed(PeerveilError):
    """The solver did not return a provably optimal solution. Nothing of it is used."""


@dataclass(frozen=True, eq=False, repr=False)
class MonotoneMap:
    """A non-decreasing map from criteria to scores, as :func:`monotone_l1_map` finds it.

    Attributes
    ----------
    points : array
        The distinct criteria vectors in lexicographic order, a row each.
    lower, upper : array
        The smallest and the largest optimal map at these points; all their values are scores that occur.
    risk : float
        The sum of absolute deviations, the same for all optimal maps.
    reviews : int
        From how many reviews it was learned.
    """

    points: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    risk: float
    reviews: int

    @property
    def values(self) -> NDArray[np.float64]:
        """The map at its points: the mean of the smallest and the largest optimal one."""
        return np.asarray((self.lower + self.upper) / 2)

    @property
    def unique(self) -> bool:
        """Whether there is only one optimal map."""
        return bool((self.lower == self.upper).all())

    def predict(self, criteria: ArrayLike) -> NDArray[np.float64]:
        """The map at any criteria, a row each.

        Where a row was seen in learning, it is the map's value there. Elsewhere it is the mean of two numbers: the
        largest value among seen points below (the smallest value of all, if there is none), and the smallest value
        among seen points above (the largest of all, if there is none). Both are non-decreasing, so the whole stays so.
        """
        rows = _read_criteria(criteria)
        if rows.shape[1] != self.points.shape[1]:
            raise BadInput(
                "criteria", got=Verbatim(f"{rows.shape[1]} columns"), want=f"{self.points.shape[1]}, as in learning"
            )
        values = self.values
        _, index = _distinct(np.concatenate([self.points, rows]))
        place = np.full(index.max() + 1, -1)
        place[index[: len(values)]] = np.arange(len(values))
        place = place[index[len(values) :]]
        result = values[place]
        unseen = np.flatnonzero(place < 0)
        step = max(1, _BLOCK // self.points.size)
        for start in range(0, unseen.size, step):
            part = unseen[start : start + step]
            result[part] = self._between(rows[part], values)
        return result

    def _between(self, rows: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
        below = (self.points[None] <= rows[:, None]).all(axis=2)
        above = (self.points[None] >= rows[:, None]).all(axis=2)
        least = np.where(below, values, values.min()).max(axis=1)
        most = np.where(above, values, values.max()).min(axis=1)
        return np.asarray((least + most) / 2)

    def __repr__(self) -> str:
        return f"MonotoneMap({len(self.points)} points, {self.reviews} reviews, risk={self.risk:g})"


def monotone_l1_map(criteria: ArrayLike, scores: ArrayLike) -> MonotoneMap:
    """The non-decreasing map of least total absolute deviation from the scores, exactly.

    Parameters
    ----------
    criteria
        A row a review and a column a criterion; more is better in every column.
    scores
        The overall scores.

    Examples
    --------
    >>> found = monotone_l1_map([[1], [2], [2], [3]], [2, 6, 6, 4])
    >>> found.values.tolist(), found.risk  # the last score is an exception; the median of its block is 6
    ([2.0, 6.0, 6.0], 2.0)
    >>> found.predict([[0], [1.5], [9]]).tolist()
    [2.0, 4.0, 6.0]
    """
    rows = _read_criteria(criteria)
    score = _read_scores(scores, len(rows))
    points, index = _distinct(rows)
    below, above = hasse_diagram(points)
    levels, rank = np.unique(score, return_inverse=True)
    lowest, tied = _solve(index, rank, levels.size, below, above, len(points), largest=False)
    highest = _solve(index, rank, levels.size, below, above, len(points), largest=True)[0] if tied else lowest
    lower, upper = levels[lowest], levels[highest]
    deviations = np.sort(np.abs(score - lower[index]))  # sorted, so that the sum is the same for every row order
    for array in (points, lower, upper):
        array.setflags(write=False)
    return MonotoneMap(points, lower, upper, float(deviations.sum()), len(score))


def hasse_diagram(points: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The edges (below, above) of the transitive reduction of the coordinatewise order on distinct, sorted points.

    Points above one point come in lexicographic order, which extends the order. So the first of them is minimal, and
    after everything above it is struck out, the next one is again: each is an edge, and nothing else is.
    """
    codes = np.column_stack([np.unique(column, return_inverse=True)[1] for column in points.T]).astype(np.int32)
    columns = [np.ascontiguousarray(column) for column in codes.T]
    below: list[NDArray[np.int64]] = []
    above: list[NDArray[np.int64]] = []
    edges = 0
    for p in range(len(codes)):
        higher = columns[0][p + 1 :] >= columns[0][p]
        for column in columns[1:]:
            higher &= column[p + 1 :] >= column[p]
        left = np.flatnonzero(higher) + p + 1
        covers = []
        while left.size:
            covers.append(left[0])
            left = left[1:][(codes[left[1:]] < codes[left[0]]).any(axis=1)]
        edges += len(covers)
        if edges > MOST_EDGES:
            raise BadInput(
                "criteria",
                got=Verbatim(f"{len(codes):,} distinct vectors with more than {MOST_EDGES:,} neighboring pairs"),
                want="fewer criteria, or criteria on a coarser scale",
            )
        below.append(np.full(len(covers), p))
        above.append(np.array(covers, dtype=np.int64))
    return np.concatenate(below), np.concatenate(above)


def _solve(
    index: NDArray[np.int64],
    rank: NDArray[np.int64],
    scores: int,
    below: NDArray[np.int64],
    above: NDArray[np.int64],
    points: int,
    *,
    largest: bool,
) -> tuple[NDArray[np.int64], bool]:
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
        kept = (low[below] == low[above]) & (low[below] < high[below])  # both ends in the same range, not settled
        first, last = cuts(cost[open_].astype(np.int64), new[below[kept]], new[above[kept]])
        tied |= bool((first != last).any())
        up = last if largest else first
        low[open_[up]] = middle[open_[up]] + 1
        high[open_[~up]] = middle[open_[~up]]


def cuts(
    cost: NDArray[np.int64], below: NDArray[np.int64], above: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """The smallest and the largest upper set of least total cost, with the proof of the module's docstring."""
    dual = _multipliers(cost, below, above)
    size = cost.size
    whole = cost + _sums(below, dual, size) - _sums(above, dual, size)
    back = dual > 0
    tail, head = np.concatenate([below, above[back]]), np.concatenate([above, below[back]])
    smallest = _reached(whole < 0, tail, head)
    if (whole[smallest] > 0).any():
        raise SolverFailed("HiGHS called a solution optimal that is not: its multipliers do not prove it")
    return smallest, ~_reached(whole > 0, head, tail)


def _multipliers(cost: NDArray[np.int64], below: NDArray[np.int64], above: NDArray[np.int64]) -> NDArray[np.int64]:
    """The multipliers of the edges as HiGHS finds them, as whole numbers that are not negative."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    if not below.size:
        return np.empty(0, dtype=np.int64)
    edge = np.arange(below.size)
    entries = np.concatenate([np.ones(edge.size), -np.ones(edge.size)])
    places = np.concatenate([edge, edge]), np.concatenate([below, above])
    order = csr_array((entries, places), shape=(edge.size, cost.size))
    found: Any = linprog(cost, A_ub=order, b_ub=np.zeros(edge.size), bounds=(0, 1), method="highs")
    if found.status != 0:
        raise SolverFailed(f"HiGHS found no optimal solution: {found.message}")
    multipliers: NDArray[np.int64] = np.maximum(np.rint(-found.ineqlin.marginals), 0).astype(np.int64)
    return multipliers


def _sums(index: NDArray[np.int64], weights: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Sums of whole numbers below 2^53, which floats add exactly."""
    return np.bincount(index, weights=weights, minlength=size).astype(np.int64)


def _reached(start: NDArray[np.bool_], tail: NDArray[np.int64], head: NDArray[np.int64]) -> NDArray[np.bool_]:
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


def _distinct(rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The distinct rows in lexicographic order, and for each row which it is."""
    key = np.zeros(len(rows), dtype=np.int64)
    first = np.zeros(1, dtype=np.int64)
    for column in rows.T:
        values, code = np.unique(column, return_inverse=True)
        _, first, key = np.unique(key * values.size + code, return_index=True, return_inverse=True)
    return rows[first] + 0.0, key  # + 0.0 makes -0.0, which equals 0.0, look the same in every row order


def _read_criteria(criteria: ArrayLike) -> NDArray[np.float64]:
    want = "numbers, a row a review and a column a criterion"
    try:
        rows = np.asarray(criteria, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput("criteria", got=criteria, want=want) from None
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise BadInput("criteria", got=Verbatim(f"an array of shape {rows.shape}"), want=want)
    wrong = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if wrong.size:
        raise BadInput(f"criteria[{int(wrong[0])}]", got=rows[wrong[0]].tolist(), want="finite numbers")
    return rows


def _read_scores(scores: ArrayLike, rows: int) -> NDArray[np.float64]:
    try:
        array = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput("scores", got=scores, want="numbers, one a row of the criteria") from None
    if array.shape != (rows,) or rows == 0:
        raise BadInput("scores", got=Verbatim(f"an array of shape {array.shape}"), want=f"{max(rows, 1)} numbers")
    wrong = np.flatnonzero(~np.isfinite(array))
    if wrong.size:
        raise BadInput(f"scores[{int(wrong[0])}]", got=float(array[wrong[0]]), want="a finite number")
    return array + 0.0
