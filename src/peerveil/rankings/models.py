"""Models of preference, fitted to sums of ranks, pairwise counts or rankings: Bradley-Terry, Plackett-Luce, Kemeny.

- :func:`strengths_of`: Bradley and Terry's strengths from mean ranks, which are sufficient where everybody compares all
  items. Plackett and Luce's model has the same P(i before j), so the equation also gives its strengths.
- :func:`fit_pairs`: Bradley and Terry's strengths from counts of comparisons, which may be noisy.
- :func:`fit_plackett_luce`: Plackett and Luce's strengths from rankings, by maximum likelihood.
- :func:`kemeny_order`: the order with the most pairs in agreement, and whether that is proven.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from peerveil.core.arrays import Floats, Ints
from peerveil.core.lazy import connected_components, csr_array, linprog, njit

_EXACT: Final = 16  # items that go through the dynamic program: 2^16 subsets
_LARGEST_PROGRAM: Final = 60  # items of the linear program
_ROUNDS: Final = 60  # of cuts
_RIDGE: Final = 1e-6


def _laplacian(weights: Floats) -> Floats:
    """Minus the weights, with their sums on the diagonal."""
    slope = -weights
    np.fill_diagonal(slope, 0.0)
    np.fill_diagonal(slope, -slope.sum(axis=1))
    return slope


@njit(cache=True, nogil=True)
def _solve(matrix: Any, vector: Any) -> bool:
    """Solve by Cholesky's method, in place; false if the matrix is not positive. One thread: quick while others compute."""
    m = vector.size
    for j in range(m):
        for k in range(j):
            matrix[j:, j] -= matrix[j:, k] * matrix[j, k]
        if matrix[j, j] <= 0:
            return False
        matrix[j:, j] /= np.sqrt(matrix[j, j])
    for i in range(m):
        vector[i] = (vector[i] - (matrix[i, :i] * vector[:i]).sum()) / matrix[i, i]
    for i in range(m - 1, -1, -1):
        vector[i] = (vector[i] - (matrix[i + 1 :, i] * vector[i + 1 :]).sum()) / matrix[i, i]
    return True


def _newton(wins: Floats, compared: Floats) -> tuple[Floats, Floats, bool]:
    """Strengths with sum 0 that solve wins_i = sum_j compared_ij / (1 + exp(t_j - t_i)), the slope there, and success."""
    m = wins.size
    strengths, solved = np.zeros(m), True
    scale = max(float(np.abs(compared).sum()) / m, 1e-12)
    for _ in range(200):
        chance = 1 / (1 + np.exp(strengths[None] - strengths[:, None]))
        gap = wins - (compared * chance).sum(axis=1)
        slope = _laplacian(compared * chance * (1 - chance))
        if np.abs(gap).max() < 1e-10 * scale or not solved:
            break
        solved = _solve(slope + scale / m, gap)
        strengths += gap * min(1.0, 2.0 / max(float(np.abs(gap).max()), 1e-12))
        strengths -= strengths.mean()
    return strengths, slope, solved and bool(np.abs(strengths).max() < 20)


def strengths_of(mean_places: Floats, *, shrink: float = 1.0) -> Floats:
    """Bradley and Terry's strengths for mean ranks, by Newton's method; their sum is 0.

    Mean ranks that no people could have (noise may lead there) are drawn towards the middle until some could.
    """
    m = mean_places.size
    away = shrink * ((m - 1) / 2 - mean_places)
    sums = np.cumsum(np.sort(away)[::-1])[:-1]
    sizes = np.arange(1, m)
    size = float((sums / (sizes * (m - sizes) / 2)).max(initial=0.0))
    wins = (m - 1) / 2 + away * min(1.0, 0.98 / max(size, 1e-12))
    return _newton(wins, 1 - np.eye(m))[0]


def strength_slope(strengths: Floats) -> Floats:
    """How strengths move with mean ranks: minus the inverse of Newton's slope, on vectors with sum 0."""
    chance = 1 / (1 + np.exp(strengths[None] - strengths[:, None]))
    return np.asarray(-np.linalg.pinv(_laplacian(chance * (1 - chance))))


def fit_pairs(wins: Floats) -> tuple[Floats, Floats]:
    """Bradley and Terry's strengths from ``wins[i, j]``, how often i was preferred to j, and the slope (information) there.

    Counts may be noisy. The likelihood equation, wins of i minus the sum over j of (comparisons of i and j) P(i before j) = 0, is
    linear in the counts, so that noise of mean 0 leaves it unbiased: counts below 0 are used as they are, unless the slope
    is then not positive, where they are taken for 0. A little is added to every pair, so that strengths stay finite.
    """
    m = len(wins)
    even = (1 - np.eye(m)) * _RIDGE * max(float(np.abs(wins).sum()) / m**2, 1.0)
    for counts in (wins + even, np.maximum(wins, 0.0) + even):
        strengths, slope, solved = _newton(counts.sum(axis=1), counts + counts.T)
        if solved:
            break
    return strengths, slope


@njit(cache=True, nogil=True)
def _luce_step(ranks: Any, weights: Any, last: bool, strength: Any, wins: Any, rates: Any) -> None:
    """Of each item: how often it was chosen, and the sum over choices it took part in of 1 / (the strengths offered)."""
    n, m = ranks.shape
    keys = np.empty(m)
    for row in range(n):
        for i in range(m):
            keys[i] = ranks[row, i] if ranks[row, i] >= 0 else m
        order = np.argsort(keys)
        ranked = 0
        while ranked < m and keys[order[ranked]] < m:
            ranked += 1
        offered = 0.0
        if last:
            for k in range(ranked, m):
                offered += strength[order[k]]
        choices = ranked if last and ranked < m else ranked - 1
        for k in range(ranked - 1, -1, -1):  # the strengths offered at each choice, from the last one back
            offered += strength[order[k]]
            keys[k] = 1.0 / offered
        rate = 0.0
        for k in range(m):
            if k < choices:
                rate += weights[row] * keys[k]
                wins[order[k]] += weights[row]
            if k < ranked or last:
                rates[order[k]] += rate


def fit_plackett_luce(blocks: list[tuple[Any, Any]], items: int, *, last: bool = True) -> Floats:
    """Plackett and Luce's strengths (logarithms, sum 0) of rankings without ties, by maximum likelihood (Hunter's MM, 2004).

    Items that are left out were offered at every choice and never taken (``last``), or not offered at all.
    """
    logs = np.zeros(items)
    for _ in range(2_000):
        wins, rates = np.zeros(items), np.zeros(items)
        for ranks, weights in blocks:
            _luce_step(ranks, weights, last, np.exp(logs), wins, rates)
        prior = (
            1e-6 * wins.sum() / items
        )  # a choice between each item and an average one, won and lost: keeps logs finite
        moved = np.log((wins + prior) / (rates + 2 * prior / (np.exp(logs) + 1)))
        moved -= moved.mean()
        change = float(np.abs(moved - logs).max())
        logs = moved
        if change < 1e-9:
            break
    return logs


@njit(cache=True, nogil=True)
def luce_scores(ranks: Any, last: bool, strength: Any) -> tuple[Any, Any]:
    """Each ranking's gradient of the log-likelihood, and the sum of minus the second derivatives."""
    n, m = ranks.shape
    gradients, information, keys = np.zeros((n, m)), np.zeros((m, m)), np.empty(m)
    for row in range(n):
        for i in range(m):
            keys[i] = ranks[row, i] if ranks[row, i] >= 0 else m
        order = np.argsort(keys)
        ranked = 0
        while ranked < m and keys[order[ranked]] < m:
            ranked += 1
        end = m if last else ranked
        for k in range(ranked if ranked < end else ranked - 1):
            offered = 0.0
            for place in range(k, end):
                offered += strength[order[place]]
            gradients[row, order[k]] += 1.0
            for a in range(k, end):
                p = strength[order[a]] / offered
                gradients[row, order[a]] -= p
                information[order[a], order[a]] += p
                for b in range(k, end):
                    information[order[a], order[b]] -= p * strength[order[b]] / offered
    return gradients, information


# ---- Kemeny ----------------------------------------------------------------------------------------------------------


def kemeny_order(margins: Floats) -> tuple[Ints, bool]:
    """The order that agrees with the most comparisons, and whether no other one agrees with more.

    ``margins[i, j]`` says how many more prefer i to j than j to i; their sum over all i before j is maximized.
    Items fall into components in which everybody can be reached over majorities, and every best order has them one
    after another (otherwise swapping neighbors would gain): each is solved alone. Up to 16 items a dynamic program over
    subsets is exact. Above, a linear program with the inequalities of triangles is solved, and its solution rounded: if
    it orders the items as it is, or no better than the rounded order, that is proven to be best.
    """
    order: list[int] = []
    proven = True
    for members in tie_components(margins > 0):
        inner = margins[np.ix_(members, members)]
        if members.size <= _EXACT:
            best = _subsets(inner)
        else:
            best, certain = _program(inner)
            proven &= certain
        order += members[best].tolist()
    return np.array(order), proven


def tie_components(beats: Any) -> list[Ints]:
    """Components of items, best first: all in an earlier one beat all in a later one.

    Two items stand in one component if neither surely comes before the other: if ``beats`` goes both ways or neither way, or a
    cycle leads through both.
    """
    may = ~np.asarray(beats).T  # [i, j]: i may stand before j, since j does not beat it
    np.fill_diagonal(may, True)
    number, label = connected_components(csr_array(may), connection="strong")
    groups = [np.flatnonzero(label == k) for k in range(number)]
    # of any two components one stands first: the one whose items may stand before more items
    return sorted(groups, key=lambda members: -int(may[members].any(axis=0).sum()))


@njit(cache=True, nogil=True)
def _subsets(margins: Any) -> Any:
    """The best order by a dynamic program: value[S] is the largest sum of margins if the items of S stand in front."""
    m = len(margins)
    value, final = np.full(1 << m, -np.inf), np.zeros(1 << m, np.int64)
    value[0] = 0.0
    for subset in range(1, 1 << m):
        for item in range(m):
            if not subset >> item & 1:
                continue
            reached = value[subset ^ (1 << item)]
            for other in range(m):
                if subset >> other & 1:
                    reached += margins[other, item]
            if reached > value[subset]:
                value[subset], final[subset] = reached, item
    order, subset = np.empty(m, np.int64), (1 << m) - 1
    for place in range(m - 1, -1, -1):
        order[place] = final[subset]
        subset ^= 1 << final[subset]
    return order


@njit(cache=True, nogil=True)
def _improve(margins: Any, order: Any) -> float:
    """Move single items to better places until no move gains; returns the sum of margins."""
    m = len(order)
    moved = True
    while moved:
        moved = False
        for place in range(m):
            item, gain, best, target = order[place], 0.0, 1e-9, place
            for q in range(place - 1, -1, -1):
                gain += 2 * margins[item, order[q]]
                if gain > best:
                    best, target = gain, q
            gain = 0.0
            for q in range(place + 1, m):
                gain -= 2 * margins[item, order[q]]
                if gain > best:
                    best, target = gain, q
            if target != place:
                moved = True
                if target < place:
                    order[target + 1 : place + 1] = order[target:place].copy()
                else:
                    order[place:target] = order[place + 1 : target + 1].copy()
                order[target] = item
    total = 0.0
    for a in range(m):
        for b in range(a + 1, m):
            total += margins[order[a], order[b]]
    return total


def _program(margins: Floats) -> tuple[Ints, bool]:
    """The linear ordering relaxation with cuts for violated triangles, rounded and improved; and whether that is best."""
    m = len(margins)
    order = np.argsort(-margins.sum(axis=1), kind="stable")
    value = _improve(margins, order)
    if m > _LARGEST_PROGRAM:
        return order, False
    first, second = np.triu_indices(m, 1)
    number = np.zeros((m, m), dtype=np.int64)
    number[first, second] = np.arange(first.size)
    objective = margins[first, second]  # x_ij = 1 if i stands before j adds margins_ij, 0 takes it away
    cuts: list[tuple[int, int, int, float]] = []
    i, j, k = (part.ravel() for part in np.meshgrid(*[np.arange(m)] * 3, indexing="ij"))
    triangles = np.stack([i, j, k])[:, (i < j) & (j < k)]
    columns = number[triangles[0], triangles[1]], number[triangles[1], triangles[2]], number[triangles[0], triangles[2]]
    for _ in range(_ROUNDS):
        matrix, bounds = None, None
        if cuts:  # side * (x_ij + x_jk - x_ik) <= 1 (above) or 0 (below)
            rows = np.repeat(np.arange(len(cuts)), 3)
            cells = np.array([cut[:3] for cut in cuts]).ravel()
            signs = np.array([[side, side, -side] for *_, side in cuts]).ravel()
            matrix = csr_array((signs, (rows, cells)), shape=(len(cuts), first.size))
            bounds = np.array([1.0 if side > 0 else 0.0 for *_, side in cuts])
        solved = linprog(-2 * objective, A_ub=matrix, b_ub=bounds, bounds=(0, 1), method="highs")
        if solved.x is None:
            return order, False
        bound = -float(solved.fun) - float(objective.sum())
        if bound <= value + 1e-6 * max(1.0, abs(value)):
            return order, True
        x = np.zeros((m, m))
        x[first, second] = solved.x
        x[second, first] = 1 - solved.x
        rounded = np.argsort(-x.sum(axis=1), kind="stable")
        gained = _improve(margins, rounded)
        if gained > value:
            order, value = rounded, gained
        sums = solved.x[columns[0]] + solved.x[columns[1]] - solved.x[columns[2]]
        violated = np.flatnonzero((sums > 1 + 1e-6) | (sums < -1e-6))
        if not violated.size:
            return order, bound <= value + 1e-6 * max(1.0, abs(value))
        worst = violated[np.argsort(-np.abs(sums[violated] - 0.5))][: 20 * m]
        cuts += [
            (int(columns[0][t]), int(columns[1][t]), int(columns[2][t]), 1.0 if sums[t] > 1 else -1.0) for t in worst
        ]
    return order, False
