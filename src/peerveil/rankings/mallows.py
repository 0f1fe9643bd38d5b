"""Mallows' model: a central ranking, and how far people stray from it."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerveil.core.arrays import Ints
from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import number, whole
from peerveil.core.lazy import gammaln
from peerveil.core.randomness import Randomness
from peerveil.data import Rankings
from peerveil.rankings.kernels import bisected, distances, first_bad_row, insert_all

_CELLS: Final = 4_000_000  # uniform numbers held at once
MOST_ITEMS: Final = 10_000_000
_MOST_FOR_SEARCH: Final = 2_000
_SMALLEST: Final = 1e-300


class Mallows:
    """P[ranking] is proportional to spread to the power of its Kendall distance to the center.

    Parameters
    ----------
    items
        How many items are ranked.
    spread
        Above 0 and up to 1: 1 is the uniform distribution, near 0 everybody ranks like the center.
    center
        The central ranking as ranks from 0, a place for every item; 0, 1, 2, ... if left out.

    Examples
    --------
    >>> model = Mallows(4, 0.5, center=[3, 2, 1, 0])
    >>> ranks = model.sample(1000, seed=1)
    >>> ranks.shape, bool((ranks[:, 3] < ranks[:, 0]).mean() > 0.8)
    ((1000, 4), True)
    >>> round(model.log_likelihood([[3, 2, 1, 0]]), 6) == round(-model.log_normalizer, 6)
    True
    """

    def __init__(self, items: int, spread: float, center: ArrayLike | None = None) -> None:
        self.items = read_items(items)
        self.spread = read_spread(spread)
        self.center: Ints = np.arange(self.items) if center is None else read_ranking(center, self.items, "center")

    def __repr__(self) -> str:
        return f"Mallows(items={self.items}, spread={self.spread:g})"

    def sample(self, count: int, *, seed: int = 0) -> NDArray[np.int32]:
        """Synthetic rankings: an array of ranks from 0, one row per ranking and one column per item.

        Repeated insertion with a Fenwick tree, O(items log items) per ranking; exact up to the 53 bits of a uniform
        number. The same seed gives the same rankings.
        """
        return sample_rankings(self, whole(count, "count", 0), Randomness.simulation(seed))

    @property
    def log_normalizer(self) -> float:
        """The logarithm of Z, which is the product over i of 1 + spread + ... + spread^i (the same for every center)."""
        return float(gammaln(self.items + 1) + log_thinning(self.items, self.spread))

    def log_likelihood(self, ranks: ArrayLike) -> float:
        """The log-likelihood of rankings: ln(spread) times their distances to the center, less ln Z each."""
        table = _complete(ranks)
        if len(table.items) != self.items:
            raise BadInput("ranks", got=Verbatim(f"{len(table.items)} columns"), want=f"{self.items}, one per item")
        distance = int(distances(self.center, table.ranks).sum())
        return float(math.log(self.spread) * distance - len(table) * self.log_normalizer)

    @classmethod
    def fit(cls, ranks: ArrayLike, counts: ArrayLike | None = None) -> Mallows:
        """The most likely model.

        The center minimizes the summed distance: it starts from the order of the mean ranks (Borda) and moves single items
        while that helps (up to 2,000 items; with more the Borda order is kept). That is a local optimum; finding the best
        center is NP-hard. Given the center, the spread is the one whose expected distance is the mean distance seen: the
        model is an exponential family in ln(spread), so that is its unique maximum. At a mean distance above the uniform
        one the spread is 1.

        Examples
        --------
        >>> model = Mallows(30, 0.9, center=Randomness.simulation(5).permutation(30))
        >>> fitted = Mallows.fit(model.sample(400, seed=2))
        >>> round(fitted.spread, 1), kendall_distance(fitted.center, model.center) < 10
        (0.9, True)
        """
        table = _complete(ranks, counts)
        center = _central_ranking(table.ranks, table.counts)
        mean = float(np.dot(distances(center, table.ranks), table.counts) / table.total)
        return cls(len(table.items), spread_of_mean(len(table.items), mean), center)


def sample_rankings(model: Mallows, count: int, randomness: Randomness) -> NDArray[np.int32]:
    """:meth:`Mallows.sample` with draws from a source that the caller goes on using."""
    ranks = np.empty((count, model.items), dtype=np.int32)
    order = np.argsort(model.center)
    step = max(1, _CELLS // model.items)
    for start in range(0, count, step):
        part = ranks[start : start + step]
        insert_all(randomness.uniform(part.shape), math.log(model.spread), order, part)
    return ranks


def kendall_distance(a: ArrayLike, b: ArrayLike) -> int:
    """The number of pairs of items that two complete rankings order differently, in O(m log m).

    Parameters
    ----------
    a, b
        Ranks from 0, a place for every item.

    Examples
    --------
    >>> kendall_distance([0, 1, 2, 3], [3, 2, 1, 0])
    6
    """
    first = read_ranking(a, None, "a")
    return int(distances(first, read_ranking(b, first.size, "b").reshape(1, -1))[0])


def log_thinning(items: int, spread: float) -> float:
    """ln(Z(spread) / items!), without cancellation near spread 1."""
    x = math.log(spread)
    if x == 0.0:
        return 0.0
    i = np.arange(1, items + 1, dtype=np.float64)
    return float(np.sum(np.log(np.expm1(i * x) / (i * math.expm1(x)))))


def distance_moments(items: int, spread: float) -> tuple[float, float]:
    """Mean and variance of the Kendall distance to the center: sums over independent truncated geometric jumps.

    For jumps 0..i-1 with weights spread^v: mean q/(1-q) - i q^i/(1-q^i), variance q/(1-q)^2 - i^2 q^i/(1-q^i)^2.
    """
    i = np.arange(1, items + 1, dtype=np.float64)
    x = -math.log(spread)
    # series in x where the closed form cancels
    mean, variance = (i - 1) / 2 - x * (i * i - 1) / 12, (i * i - 1) / 12 - x * x * (i**4 - 1) / 240
    if x * items >= 1e-4:
        large = i * x >= 1e-3
        steps = i[large]
        with np.errstate(over="ignore"):
            mean[large] = 1 / math.expm1(x) - steps / np.expm1(steps * x)
        half = np.minimum(steps * x / 2, 300.0)
        variance[large] = 1 / (4 * math.sinh(x / 2) ** 2) - steps**2 / (4 * np.sinh(half) ** 2)
    return float(math.fsum(mean)), max(0.0, float(math.fsum(variance)))


def spread_of_mean(items: int, mean: float) -> float:
    """The spread at which the expected distance is ``mean``; 1 if the mean is not below the uniform one."""
    if mean >= items * (items - 1) / 4:
        return 1.0
    if mean <= 0:
        return _SMALLEST
    longest = -math.log(_SMALLEST)  # the mean falls with x = -ln(spread)
    x = bisected(lambda x: distance_moments(items, math.exp(-x))[0] >= mean, 1e-18, longest, steps=200, geometric=True)[
        1
    ]
    return math.exp(-x)


def _complete(ranks: ArrayLike, counts: ArrayLike | None = None) -> Rankings:
    table = Rankings(ranks, counts)
    table.require_complete("a Mallows model")
    return table


def _central_ranking(rows: Any, weight: Ints) -> Ints:
    """Borda, then single-item moves while the summed distance falls."""
    order = np.argsort(weight @ rows.astype(np.float64), kind="stable")
    m = rows.shape[1]
    if m > _MOST_FOR_SEARCH:
        return np.argsort(order)
    wins = np.array([weight @ (rows[:, [item]] < rows) for item in range(m)])  # [a, b]: a stands before b
    for _ in range(50):  # until nothing helps
        before_moves = order
        for item in order.tolist():
            current = int(np.flatnonzero(order == item)[0])
            rest = np.delete(order, current)
            # cost of standing before rest[p]: those before p who are preferred less, those after who are preferred more
            before = np.concatenate([[0], np.cumsum(wins[item, rest])])
            cost = before + np.concatenate([np.cumsum(wins[rest, item][::-1])[::-1], [0]])
            best = int(np.argmin(cost))
            if cost[best] < cost[current]:
                order = np.insert(rest, best, item)
        if order is before_moves:
            break
    return np.argsort(order)


def read_items(items: int, least: int = 1) -> int:
    """A number of items; one item can be ranked in one way only."""
    return whole(items, "items", least, MOST_ITEMS)


def read_spread(spread: float) -> float:
    """A spread in (0, 1]."""
    return number(spread, "spread", _SMALLEST, 1, want="a number above 0 and up to 1 (1 is uniform)")


def read_share(share: float, argument: str, want: str) -> float:
    """A number strictly between 0 and 1."""
    return number(share, argument, 1e-300, 1 - 2**-53, want=want)


def read_ranking(ranks: ArrayLike, items: int | None, argument: str) -> Ints:
    """One complete ranking."""
    want = "a complete ranking: every rank from 0 to the number of items less 1, once"
    array = np.asarray(ranks)
    if array.ndim != 1 or array.dtype.kind not in "iu" or array.size == 0 or first_bad_row(array.reshape(1, -1)) >= 0:
        raise BadInput(argument, got=ranks, want=want)
    if items is not None and array.size != items:
        raise BadInput(argument, got=Verbatim(f"{array.size} ranks"), want=f"{items} ranks, one per item")
    return array.astype(np.int64)
