"""Loops: compiled ones over rankings (one row per ranking, one column per item, ranks from 0), and bisection."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from peerveil.core.lazy import njit


def bisected(
    below: Callable[[float], bool],
    low: float,
    high: float,
    *,
    steps: int,
    geometric: bool = False,
    tolerance: float = 0.0,
) -> tuple[float, float]:
    """Halve the interval ``steps`` times, or until it is narrow: ``below(x)`` says that what is sought is above x.

    >>> round(bisected(lambda x: x * x < 2, 1, 2, steps=50)[1], 6)
    1.414214
    """
    for _ in range(steps):
        middle = math.sqrt(low * high) if geometric else (low + high) / 2
        low, high = (middle, high) if below(middle) else (low, middle)
        if high - low <= tolerance * max(1.0, abs(high)):
            break
    return low, high


@njit(cache=True, nogil=True)
def insert_all(uniform: Any, log_spread: float, center: Any, out: Any) -> None:
    """Turn uniform numbers into Mallows rankings by repeated insertion, O(m log m) a ranking.

    Item i of the central order jumps over V_i of the i items before it, P[V_i = v] proportional to spread^v, v = 0..i,
    independently (Doignon, Pekec and Regenwetter, 2004). Read from the last item back, item i takes the V_i-th free place
    from the back among the i + 1 places still free: a Fenwick tree finds it.
    """
    n, m = uniform.shape
    top = 1
    while 2 * top <= m:
        top *= 2
    tree = np.empty(m + 1, np.int64)
    places = np.arange(m + 1)
    full = places & -places
    total = np.expm1(places[1:] * log_spread)  # 1 - spread^(i+1), negated
    for row in range(n):
        tree[:] = full
        for i in range(m - 1, -1, -1):
            if log_spread == 0.0:
                jump = int(uniform[row, i] * (i + 1))
            else:
                jump = int(np.log1p(uniform[row, i] * total[i]) / log_spread)
            jump = min(jump, i)
            rest = i - jump  # how many free places stand before the one that is taken
            place = 0
            step = top
            while step > 0:
                ahead = place + step
                if ahead <= m and tree[ahead] <= rest:
                    place = ahead
                    rest -= tree[ahead]
                step >>= 1
            out[row, center[i]] = place
            place += 1
            while place <= m:
                tree[place] -= 1
                place += place & (-place)


@njit(cache=True, nogil=True)
def distances(center: Any, ranks: Any) -> Any:
    """The Kendall distance of every row to one ranking: pairs of the row, in the center's order, that are out of order."""
    m = center.size
    ordered, tree = np.empty(m, np.int32), np.empty(m + 1, np.int32)  # a Fenwick tree
    counts = np.zeros(ranks.shape[0], np.int64)
    for row in range(ranks.shape[0]):
        for j in range(m):
            ordered[center[j]] = ranks[row, j]
        tree[:] = 0
        for i in range(m - 1, -1, -1):
            j = ordered[i]
            while j > 0:  # smaller values that come later
                counts[row] += tree[j]
                j &= j - 1
            j = ordered[i] + 1
            while j <= m:
                tree[j] += 1
                j += j & -j
    return counts


@njit(cache=True, nogil=True)
def first_bad_row(ranks: Any) -> int:
    """The first row that is not a complete order of 0 .. m-1; -1 if there is none."""
    n, m = ranks.shape
    last_row = np.full(m, -1, np.int64)  # in which row each rank occurred last
    for row in range(n):
        for j in range(m):
            rank = ranks[row, j]
            if rank < 0 or rank >= m or last_row[rank] == row:
                return row
            last_row[rank] = row
    return -1


@njit(cache=True, nogil=True)
def add_pairs(
    ranks: Any, counts: Any, first: Any, second: Any, last: bool, weighted: bool, sums: Any, undecided: Any
) -> None:
    """Add the signed orders of disjoint pairs, and how many people of each weight left each pair undecided."""
    for row in range(ranks.shape[0]):
        count = counts[row]
        for i in range(first.size):
            a, b = ranks[row, first[i]], ranks[row, second[i]]
            if a == b or (not last and (a < 0 or b < 0)):
                if weighted:
                    undecided[i, count] += 1
                else:
                    undecided[i, 1] += count
            elif b < 0 or 0 <= a < b:
                sums[i] += count
            else:
                sums[i] -= count


@njit(cache=True, nogil=True)
def complete_at_random(ranks: Any, last: bool, seed: int) -> Any:
    """Complete orders: ties are broken at random; items left out (-1) come last, or anywhere, in random order."""
    np.random.seed(seed)
    n, m = ranks.shape
    out = np.empty((n, m), np.int64)
    keys = np.empty(m)
    for row in range(n):
        for i in range(m):
            rank = ranks[row, i]
            keys[i] = (rank if rank >= 0 else m) + np.random.random()
        order = np.argsort(keys)
        if not last:
            ranked = 0
            while ranked < m and keys[order[ranked]] < m:
                ranked += 1
            places = np.random.permutation(m)  # a random set of places for the ranked ones, which keep their order
            order = order[np.argsort(np.concatenate((np.sort(places[:ranked]), places[ranked:])))]
        for place in range(m):
            out[row, order[place]] = place
    return out


@njit(cache=True, nogil=True)
def batch_norms_of_shuffles(size: int, items: int, seed: int, out: Any) -> None:
    """Squared norms of summed centered ranks (times 4), for batches of uniformly random rankings.

    The first ranking of each batch is 0 .. m-1, which changes no distribution.
    """
    np.random.seed(seed)
    row = np.empty(items, np.int64)
    total = np.empty(items, np.int64)
    for batch in range(out.size):
        for j in range(items):
            total[j] = 2 * j - (items - 1)
        for _ in range(size - 1):
            for j in range(items):
                k = int(np.random.random() * (j + 1))
                row[j] = row[k]
                row[k] = j
            for j in range(items):
                total[j] += 2 * row[j] - (items - 1)
        out[batch] = (total * total).sum()


@njit(cache=True, nogil=True)
def top_half(items: int, place: int, log_spread: float) -> float:
    """P[the item at ``place`` of the center is ranked in the upper half] minus P[in the lower half] under Mallows.

    The item enters at i - V_i and moves down by one whenever a later item enters above it: item i enters at or above place
    r with probability spread^(i-r) (1 - spread^(r+1)) / (1 - spread^(i+1)). O(m^2), exact.
    """
    j = np.arange(items + 1).astype(np.float64)
    power = np.exp(j * log_spread)
    share = j if log_spread == 0.0 else np.expm1(j * log_spread) / np.expm1(log_spread)  # (1 - spread^j)/(1 - spread)
    chance = np.zeros(items + 1, np.float64)
    for r in range(place + 1):
        chance[r] = power[place - r] / share[place + 1]
    for i in range(place + 1, items):
        for r in range(i, -1, -1):
            stays = chance[r] * (1.0 - power[i - r] * share[r + 1] / share[i + 1])
            moved = chance[r - 1] * power[i - r + 1] * share[r] / share[i + 1] if r > 0 else 0.0
            chance[r] = moved + stays
    half = items // 2
    return float(chance[:half].sum() - chance[items - half : items].sum())


@njit(cache=True, nogil=True)
def _place_of_rank(ranks: Any, last: bool, places: Any) -> None:
    """Fill in twice the place of each rank of one ranking; the last entry is for items that are left out (-1)."""
    places[:] = 0
    for rank in ranks:
        places[rank] += 1  # -1 is the last entry
    left_out, before = places[-1], 0
    for rank in range(places.size):
        size = places[rank]
        places[rank] = 2 * before + size - 1
        before += size
    if not last:  # every item that is left out stands in the middle, the others around it
        places[:-1] += left_out
        places[-1] = ranks.size - 1


@njit(cache=True, nogil=True)
def places_of(ranks: Any, last: bool = True) -> Any:
    """Twice the place of every item in every ranking.

    With signs s_ij = 1 if i is ranked before j, -1 if after, 0 if neither, the place of i is the middle minus half the sum
    of s_ij over j. So ties share the mean of their places; items that are left out (-1) do so behind the others
    (``last``), or stand in the middle, with signs 0, and the others around them.
    """
    n, m = ranks.shape
    places, by_rank = np.empty((n, m), np.int64), np.empty(m + 1, np.int64)
    for row in range(n):
        _place_of_rank(ranks[row], last, by_rank)
        for i in range(m):
            places[row, i] = by_rank[ranks[row, i]]
    return places


@njit(cache=True, nogil=True)
def add_places(ranks: Any, counts: Any, sums: Any, last: bool = True) -> None:
    """Add up :func:`places_of`, each ranking as often as it counts."""
    n, m = ranks.shape
    by_rank = np.empty(m + 1, np.int64)
    for row in range(n):
        _place_of_rank(ranks[row], last, by_rank)
        for i in range(m):
            sums[i] += counts[row] * by_rank[ranks[row, i]]


@njit(cache=True, nogil=True)
def add_signs(ranks: Any, counts: Any, last: bool, sums: Any) -> None:
    """Add to sums[i, j] the signs of :func:`places_of`: how many more rank i before j than after it."""
    n, m = ranks.shape
    for row in range(n):
        for i in range(m):
            a = ranks[row, i]
            for j in range(i):
                b = ranks[row, j]
                if a == b or (not last and (a < 0 or b < 0)):
                    continue
                sign = counts[row] if b < 0 or 0 <= a < b else -counts[row]
                sums[i, j] += sign
                sums[j, i] -= sign
