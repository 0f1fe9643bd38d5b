"""How far the sorted means can move when two reviewers exchange one review.

The paper adds noise without a sensitivity (erratum): it has to be fixed for stated neighbours first.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from peerveil.guarantee import Guarantee

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from peerveil.numerics.exact import Number
    from peerveil.release.public import PublicScores

NEIGHBOURS = (
    "two reviewers exchange one review each; what papers received and how many reviews each wrote stays as it is"
)


def swap_sensitivity(public: PublicScores) -> Fraction:
    """The L1 sensitivity of the sorted means to an exchange of one review between two reviewers.

    With R the range of the public weights it is the largest, over pairs of loads that occur, of

    - R (1/a + 1/b) for loads a, b >= 2;
    - R (1 - 1/l^2) for loads 1 and l >= 2;
    - 0 for loads 1 and 1.

    **Proof.** Let reviewer A give up weight x for y = x + d, and B the reverse, 0 <= d <= R. A's mean rises by d/a and
    B's falls by d/b; nobody else's changes. The L1 distance of two sorted vectors is the least cost of matching their
    entries, so it is at most d/a + d/b <= R(1/a + 1/b), the first case (it is reached: A's other weights lowest, B's
    highest). If both loads are 1, the two means change places, and the sorted vector stays. If a = 1 and b = l, match
    A's new mean y with B's old mean v and A's old mean x with B's new mean u = v - d/l instead, if that is cheaper:
    with t = u - x the cost is abs(t) + abs(d - d/l - t), which is d(1 - 1/l) for 0 <= t <= d - d/l, and grows by twice the
    distance of t from that interval. Since u = (x + s)/l with a sum s of l - 1 weights, x - u is at most
    (1 - 1/l)(x - min), and likewise above, so t leaves the interval by at most (1 - 1/l)(R - d). The distance is
    therefore at most min(d(1 + 1/l), (1 - 1/l)(2R - d)), which is largest at d = R(1 - 1/l): R(1 - 1/l^2). ∎

    >>> from peerveil.release.public import PublicScores
    >>> float(swap_sensitivity(PublicScores([[0, 1], [0, 1]], loads=[2, 2])))
    1.0
    >>> float(swap_sensitivity(PublicScores([[0, 1], [0, 1]], loads=[1, 1, 1, 1])))
    0.0
    """
    spread = Fraction(float(public.values.max())) - Fraction(float(public.values.min()))
    loads = public.loads
    worst = Fraction(0)
    several = loads[loads >= 2]
    if several.size >= 2:
        worst = Fraction(1, int(several[0])) + Fraction(1, int(several[1]))
    if several.size and several.size < loads.size:
        worst = max(worst, 1 - Fraction(1, int(several[-1]) ** 2))
    return spread * worst


def means_guarantee(epsilon: Number | None) -> Guarantee:
    """What is promised of one review."""
    return Guarantee.pure_dp(epsilon, unit="who wrote one review", neighbours=NEIGHBOURS)


def reviewer_guarantee(guarantee: Guarantee, public: PublicScores) -> Guarantee:
    """The same promise for all reviews of the busiest reviewer: as many exchanges as they wrote reviews."""
    return guarantee.group(int(public.loads[-1]), unit="who wrote all reviews of one reviewer")


def laplace_sensitivity(public: PublicScores) -> Fraction:
    """:func:`swap_sensitivity` with a margin for the rounding of the means.

    A mean of l weights that is computed in floats errs by at most l 2^-53 max|w| (one rounding an addition, one for the
    division, each relative to at most l max|w| / l). Over all N reviews that is N 2^-53 max|w| for each of the two
    worlds, so that the computed vectors differ by at most 2 N 2^-53 max|w| more than the exact ones.
    """
    exact = swap_sensitivity(public)
    largest = Fraction(float(np.abs(public.values).max()))
    return exact + 2 * public.values.size * largest / 2**53 if exact else exact


def sorted_means(weights: NDArray[np.float64], reviewer: NDArray[np.int64]) -> NDArray[np.float64]:
    """The private vector itself: each reviewer's mean weight, in ascending order.

    A reviewer's weights are added in ascending order, never in the order of rows, so that equal data give equal bits:
    the vector is a function of who gave which weights, and the neighbors above are all that can move it.
    """
    order = np.lexsort((weights, reviewer))
    return np.sort(np.bincount(reviewer[order], weights=weights[order]) / np.bincount(reviewer))
