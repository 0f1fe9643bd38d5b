"""Noise scales that never fall short of what an epsilon asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from peerveil.errors import BadInput
from peerveil.guarantee import read_epsilon
from peerveil.numerics.exact import at_least, safe_sensitivity

if TYPE_CHECKING:
    from peerveil.numerics.exact import Number

_LARGEST_SCALE: Final = 10**300


def laplace_scale(*, sensitivity: Number, epsilon: Number) -> float:
    """The smallest float scale at which Laplace noise is epsilon-DP for an L1 sensitivity.

    Proof. Adding noise with density (or mass) proportional to exp(-abs(z)/b) to two vectors at L1 distance at most s
    changes any likelihood by a factor of at most exp(s/b). The float returned is, as a rational number, at least
    s/epsilon, so s/b <= epsilon. ``s`` is at least the sensitivity given, whether a float was meant as printed or as
    stored. ∎

    >>> laplace_scale(sensitivity=1, epsilon=0.1)
    10.0
    >>> from fractions import Fraction
    >>> scale = laplace_scale(sensitivity=1, epsilon=0.3)
    >>> scale, 1 / Fraction(scale) <= Fraction("0.3")
    (3.3333333333333335, True)
    """
    needed = safe_sensitivity(sensitivity) / read_epsilon(epsilon)
    if needed > _LARGEST_SCALE:
        raise BadInput("sensitivity", got=sensitivity, want="a scale (sensitivity / epsilon) of at most 1e300")
    return at_least(needed)
