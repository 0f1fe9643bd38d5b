"""The set of sorted mean vectors that the public data allow (a convex set that contains them all).

Bounds on the sorted means by counting: five simple arguments, in almost linear time.

Write e_1 <= e_2 <= ... for the cheapest weights that i reviewers can hold
together (at most min(k_p, i) of paper p, and, for equal loads, at least k_p - (n - i), since the others can hold only
n - i of them). Whatever i reviewers really hold, their t-th smallest weight is at least e_t: the admissible sets of
fixed size are the bases of a matroid, whose greedy basis is the smallest in every place. The loads are l_1 <= l_2 <= ...
and L_i is the sum of the i smallest. M_q is the sum of the q smallest paper minima, and M_q(p) the same without paper p.

1. *Prefix sums.* theta_1 + ... + theta_i >= S_i, where S_i adds up the means of consecutive blocks of e, as long as the
   loads, in ascending order. **Proof.** Giving the cheapest weights to the smallest loads minimizes a sum of means
   (rearrangement), and larger loads only move each block to later, larger weights. ∎
2. *Average.* theta_i is at least the mean of the i lowest means, S_i / i; and at least the mean of the L_i cheapest
   weights, since a weighted mean of the i lowest means is one of all their weights.
3. *Depth.* Among the weights of the i lowest reviewers, the top i(r-1) + 1 are at least e at place L_i - i(r-1), and some
   reviewer holds r of them: theta_i >= (r e + M_(l-r)) / l for that reviewer's load l >= r, whichever it is.
4. *Paper.* Either all of the i lowest reviewers reviewed p, and one of them gave at least its i-th smallest weight x:
   theta_i >= (x + M_(l-1)(p)) / l; or one did not, and theta_i >= M_l(p) / l. The weaker of the possible cases holds, for
   every p.
5. *Forced holders.* The q largest weights of p belong to q different reviewers, so theta_(n-q+1) >= (x + M_(l-1)(p)) / l,
   x the q-th largest weight of p.

Upper bounds are the same for the negated weights, from the other end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import ArrayLike

from peerveil.core.arrays import Floats, Ints
from peerveil.core.errors import BadInput, Verbatim
from peerveil.release.projection import Projection, box_sorted

if TYPE_CHECKING:
    from peerveil.release.public import PublicScores


BOUNDS: Final = ("counting", "range")
_SLACK: Final = 1e-12  # bounds are widened by this share of the range, to cover rounding
_TOLERANCE: Final = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class FeasibleRegion:
    """Sorted vectors within boxes, with bounded sums.

    Attributes
    ----------
    bounds : str
        How it was made: ``"counting"`` or ``"range"``.
    lower, upper
        Boxes for each sorted mean.
    lowest_sums, highest_sums
        Bounds on the sums of the i lowest and of the i highest means; ``None`` where there are none.
    total
        The sum of all means, where it is public.
    """

    bounds: str
    lower: Floats
    upper: Floats
    lowest_sums: Floats | None
    highest_sums: Floats | None
    total: float | None

    def __len__(self) -> int:
        return self.lower.size

    def contains(self, theta: ArrayLike) -> bool:
        """Whether a vector is in the region, up to rounding."""
        t = self._vector(theta, "theta")
        rounding = _TOLERANCE * max(1.0, float(self.upper[-1] - self.lower[0]))
        shortfalls = [-np.diff(t), self.lower - t, t - self.upper]
        if self.lowest_sums is not None:
            shortfalls.append((self.lowest_sums - np.cumsum(t)) / t.size)
        if self.highest_sums is not None:
            shortfalls.append((np.cumsum(t[::-1]) - self.highest_sums) / t.size)
        if self.total is not None:
            shortfalls.append(np.abs(t.sum(keepdims=True) - self.total) / t.size)
        return bool((np.concatenate(shortfalls) <= rounding).all())

    def project(self, noisy: ArrayLike) -> Floats:
        """The closest point of the region: never farther from any feasible truth than ``noisy`` is.

        The projection on a convex set is non-expansive, and the truth is its own projection (Proposition 4.2). It is
        proved optimal before it is returned (:mod:`peerveil.release.projection`).
        """
        values = self._vector(noisy, "noisy")
        sums = self.lowest_sums
        if sums is None and self.total is not None:  # only the total is known: every other sum is free
            sums = np.cumsum(self.lower)
            sums[-1] = self.total
        if sums is None:
            return np.asarray(box_sorted(values, self.lower, self.upper))
        known = self.total is not None
        return Projection(self.lower, self.upper, sums, self.highest_sums, total_known=known).of(values)

    def _vector(self, values: ArrayLike, argument: str) -> Floats:
        array = np.asarray(values)
        if array.dtype.kind not in "iuf" or array.shape != self.lower.shape:
            got = Verbatim(f"an array of {array.dtype}, shape {array.shape}")
            raise BadInput(argument, got=got, want=f"{len(self)} numbers, one per reviewer")
        array = array.astype(np.float64)
        if not np.isfinite(array).all():
            raise BadInput(argument, got=Verbatim("NaN or infinity"), want="finite numbers")
        return array


def feasible_region(public: PublicScores, *, bounds: str = "counting") -> FeasibleRegion:
    """The region that the public data allow.

    Parameters
    ----------
    public : PublicScores
        The public side of the conference.
    bounds : str, optional
        ``"counting"`` (default): as tight as the counting arguments of :func:`counting_bounds` allow.
        ``"range"``: only the range of the weights.

    Examples
    --------
    >>> from peerveil.release.public import PublicScores
    >>> public = PublicScores([[0, 0, 0], [0, 0, 0], [0, 0, 0], [1, 2, 3]], loads=[3, 3, 3, 3])  # Appendix B
    >>> feasible_region(public).project([5, -1, 2, 0]).round(6).tolist()
    [0.0, 0.333333, 0.666667, 1.0]
    """
    if bounds not in BOUNDS:
        raise BadInput("bounds", got=bounds, want=f"one of {', '.join(BOUNDS)}")
    n = public.reviewers
    low, high = public.bounds
    lower, upper = np.full(n, low), np.full(n, high)
    lowest = highest = None
    slack = _SLACK * max(float(np.abs(public.values).max()), 1e-300)
    if bounds == "counting":
        below, above, lowest, highest = counting_bounds(public)
        lower, upper = np.maximum(lower, below), np.minimum(upper, above)
        lowest, highest = lowest - slack * np.arange(1, n + 1), highest + slack * np.arange(1, n + 1)
        if public.total is not None:
            lowest[-1], highest = public.total, None
    lower = np.maximum.accumulate(lower) - slack
    upper = np.minimum.accumulate(upper[::-1])[::-1] + slack
    return FeasibleRegion(bounds, lower, np.maximum(upper, lower), lowest, highest, public.total)


def counting_bounds(public: PublicScores) -> tuple[Floats, Floats, Floats, Floats]:
    """All five arguments, for unequal loads and papers with different numbers of reviews.

    Returns
    -------
    lower, upper
        theta_i is between them.
    lowest_sums
        theta_1 + ... + theta_i >= lowest_sums[i - 1].
    highest_sums
        theta_(n-i+1) + ... + theta_n <= highest_sums[i - 1].
    """
    below = _Below(public.values, public.offsets, public.loads)
    above = _Below(_negated(public.values, public.offsets), public.offsets, public.loads)
    return below.boxes(), -above.boxes()[::-1], below.sums(), -above.sums()


def _negated(values: Floats, offsets: Ints) -> Floats:
    """The negated weights, again ascending within each paper."""
    paper = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    place = np.arange(values.size) - offsets[paper]
    return -values[offsets[paper + 1] - 1 - place]


class _Below:
    """Everything that bounds the means from below; ``values`` ascend within each paper."""

    def __init__(self, values: Floats, offsets: Ints, loads: Ints) -> None:
        self.values, self.offsets, self.loads = values, offsets, loads
        self.sizes = np.diff(offsets)
        self.n, self.m, self.deepest = loads.size, self.sizes.size, int(self.sizes.max())
        order = np.argsort(values, kind="stable")
        self.sorted = values[order]
        # of each weight in ascending order: its place within its paper, and that paper's number of reviews
        self.place = (np.arange(values.size) - np.repeat(offsets[:-1], self.sizes))[order]
        self.size_of = np.repeat(self.sizes, self.sizes)[order]
        self.held = np.concatenate([[0], np.cumsum(loads)])  # L_0 .. L_n
        self.uniform = bool(loads[0] == loads[-1])
        self.kinds = np.unique(loads)
        self.minima = values[offsets[:-1]]
        self.order = np.argsort(self.minima, kind="stable")
        self.rank = np.empty(self.m, dtype=np.int64)
        self.rank[self.order] = np.arange(self.m)
        self.cheapest = np.concatenate([[0.0], np.cumsum(self.minima[self.order])])  # M_0 .. M_m

    # ---- the cheapest weights ------------------------------------------------------------------------------------

    def special(self) -> list[int]:
        """The i for which the papers restrict what i reviewers can hold: the first and the last few."""
        first = range(1, min(self.deepest, self.n + 1))
        return sorted({*first, *(range(max(1, self.n - self.deepest + 1), self.n + 1) if self.uniform else ())})

    def cheap(self, i: int) -> Floats:
        """e: the cheapest weights that i reviewers can hold, at least L_i of them."""
        admissible = self.place < i  # at most min(k_p, i) of paper p, the cheapest ones
        if not self.uniform:
            return self.sorted[admissible]
        forced = self.place < self.size_of - (self.n - i)  # at least k_p - (n - i) of paper p
        free = admissible & ~forced
        missing = int(self.held[i]) - int(np.count_nonzero(forced))
        return self.sorted[forced | (free & (np.cumsum(free) <= missing))]

    # ---- the arguments -------------------------------------------------------------------------------------------

    def sums(self) -> Floats:
        """Argument 1."""
        result = np.cumsum(self._block_means(self.sorted, self.n))
        for i in self.special():
            result[i - 1] = self._block_means(self.cheap(i), i).sum()
        return result

    def _block_means(self, cheap: Floats, count: int) -> Floats:
        ends = np.concatenate([[0.0], np.cumsum(cheap)])[self.held[: count + 1]]
        return np.asarray(np.diff(ends) / self.loads[:count])

    def boxes(self) -> Floats:
        """Arguments 2 to 5 together; non-decreasing."""
        i = np.arange(1, self.n + 1)
        sums = self.sums()
        spent = np.concatenate([[0.0], np.cumsum(self.sorted)])
        best = np.maximum(sums / i, spent[self.held[1:]] / self.held[1:])
        best = np.maximum(best, self._depth(self.sorted, i))
        for j in self.special():
            cheap = self.cheap(j)
            here = max(cheap[: self.held[j]].mean(), float(self._depth(cheap, np.array([j]))[0]), sums[j - 1] / j)
            best[j - 1] = max(best[j - 1], here)
        return np.maximum.accumulate(np.maximum.reduce([best, self._paper(), self._forced()]))

    def _depth(self, cheap: Floats, i: Ints) -> Floats:
        """Argument 3, for several i that share the same cheapest weights."""
        best = np.full(i.size, -np.inf)
        for r in range(1, int(self.kinds[-1]) + 1):
            place = self.held[i] - i * (r - 1)
            e = np.where(place >= 1, cheap[np.maximum(place, 1) - 1], -np.inf)
            loads = self.kinds[self.kinds >= r]
            weakest = np.min([(r * e + self.cheapest[load - r]) / load for load in loads], axis=0)
            best = np.maximum(best, weakest)
        return best

    def _without(self, q: int) -> Floats:
        """M_q(p) for every paper p: the q smallest minima of the other papers (infinite if there are not so many)."""
        if q > self.m - 1:
            return np.full(self.m, np.inf)
        return np.asarray(np.where(self.rank < q, self.cheapest[min(q + 1, self.m)] - self.minima, self.cheapest[q]))

    def _with(self, x: Floats) -> Floats:
        """For every paper: the least mean of a reviewer who gave it at least x, whatever their load."""
        return np.asarray(np.min([(x + self._without(int(load) - 1)) / load for load in self.kinds], axis=0))

    def _paper(self) -> Floats:
        """Argument 4."""
        avoided = np.min([self._without(int(load)) / load for load in self.kinds], axis=0)
        best = np.full(self.n, avoided.max())  # i > k_p for every p: somebody did not review p
        for i in range(1, min(self.deepest, self.n) + 1):
            reviewed = self.sizes >= i
            x = self.values[np.minimum(self.offsets[:-1] + i - 1, self.offsets[1:] - 1)]
            bound = np.where(reviewed, np.minimum(self._with(x), avoided), avoided)
            best[i - 1] = bound.max()
        # where nobody can avoid any paper (all loads are m), "avoided" is infinite and only the first case remains
        return np.where(np.isfinite(best), best, -np.inf)

    def _forced(self) -> Floats:
        """Argument 5."""
        best = np.full(self.n, -np.inf)
        for q in range(1, self.deepest + 1):
            x = self.values[np.maximum(self.offsets[1:] - q, self.offsets[:-1])]
            bound = np.where(self.sizes >= q, self._with(x), -np.inf)
            best[self.n - q] = bound.max()
        return best
