"""The perturbation of section 3.2 and Appendix C: Laplace noise on every sorted mean, with the sensitivity that the paper lacks.

The product publishes noisy counts instead (:class:`peerveil.release.NoisyCounts`): their sensitivity is 1 whatever the loads
and the scale, where noise on a sorted vector pays for the range of the weights in each of its n entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np

from peerveil.core.randomness import Randomness, laplace_scale
from peerveil.release.mechanism import means_guarantee

if TYPE_CHECKING:
    from peerveil.core.arrays import Floats
    from peerveil.core.exact import Number
    from peerveil.core.guarantee import Guarantee
    from peerveil.release import PublicScores

SCALE_AS_PRINTED: Final = 1
"""Appendix C: Laplace noise of variance 2, whatever the weights and the loads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaplaceMeans:
    """Independent Laplace noise on every sorted mean.

    **Neighbors**: two reviewers exchange one review each; the weights that papers received, and everybody's load, stay.
    **Proof.** The L1 sensitivity of the sorted means to such an exchange is at most :func:`swap_sensitivity`, and Laplace
    noise of scale sensitivity / epsilon is epsilon-DP (:func:`peerveil.laplace_scale`). The sensitivity depends on
    public data only. ∎

    If it is 0 (every reviewer wrote one review), the sorted means are public, and no noise is added.
    """

    epsilon: Number

    def guarantee(self) -> Guarantee:
        """Pure DP for one exchange."""
        return means_guarantee(self.epsilon)

    def scale(self, public: PublicScores) -> float:
        """The scale of the noise; 0 if none is needed."""
        sensitivity = laplace_sensitivity(public)
        return laplace_scale(sensitivity=sensitivity, epsilon=self.epsilon) if sensitivity else 0.0

    def perturb(self, means: Floats, public: PublicScores, randomness: Randomness) -> Floats:
        """Add the noise."""
        scale = self.scale(public)
        return randomness.laplace(means, scale=scale) if scale else means.copy()


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

    >>> from peerveil.release import PublicScores
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


def laplace_sensitivity(public: PublicScores) -> Fraction:
    """:func:`swap_sensitivity` with a margin for the rounding of the means.

    A mean of l weights that is computed in floats errs by at most l 2^-53 max|w| (one rounding an addition, one for the
    division, each relative to at most l max|w| / l). Over all N reviews that is N 2^-53 max|w| for each of the two
    worlds, so that the computed vectors differ by at most 2 N 2^-53 max|w| more than the exact ones.
    """
    exact = swap_sensitivity(public)
    largest = Fraction(float(np.abs(public.values).max()))
    return exact + 2 * public.values.size * largest / 2**53 if exact else exact
