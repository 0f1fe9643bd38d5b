"""The uneven split: the two comments of a pair need not share epsilon equally. Shorter batched delays than Theorem 4.6.

Lemma A.1 asks only that (sup b/u) (sup of b over shifted u) <= e^epsilon. The paper gives both factors e^(epsilon/2) and
concludes that its mechanism is Pareto optimal; Lemma A.5 there assumes that U's density never rises, which an optimal one
does for epsilon > 2 ln 2.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from peerveil.core.errors import BadInput
from peerveil.core.exact import Number, exp_bounds, number, whole
from peerveil.timing.base import DelayMechanism
from peerveil.timing.delays import check_longest
from peerveil.timing.distributions import WHOLE, Steps

if TYPE_CHECKING:
    from peerveil.timing.durations import Duration


class UnevenSplit(DelayMechanism):
    """Symmetric delays with rho1 = sup b/u below rho2 = sup over shifts, rho1 rho2 = e^epsilon.

    Parameters
    ----------
    epsilon, gap, window
        As in :class:`peerveil.timing.ZeroInflatedUniform`.
    weight
        Minimize weight E[B] + (1 - weight) E[U].
    rho, width
        rho1, above 1 and at most e^(epsilon/2), and W in units of the gap, instead of the best ones for ``weight``.

    Notes
    -----
    B is uniform on (g, g + W). U has density b/rho1 there, b/rho2 on (0, g), and the rest of its mass at 0. **Proof.**
    Unshifted, b/u = rho1. Shifted by at most g, (g, g + W) stays within (0, g + W), where b/u is rho1 or rho2, and
    rho1 <= rho2. So the product over c (unshifted) and c' (shifted) is at most rho1 rho2 = e^epsilon, and if c was
    batched in both inputs, rho2 <= e^epsilon. The mass fits if 1/rho1 + g/(W rho2) <= 1. ∎
    At weight 1 the best is rho1 = 2, W = 4 g e^-epsilon.

    >>> round(UnevenSplit(epsilon=4, gap=1).mean_batched, 3), round(UnevenSplit(epsilon=3, gap=1).mean_batched, 3)
    (1.037, 1.1)
    """

    def __init__(
        self,
        *,
        epsilon: Number,
        gap: Duration,
        weight: float = 1.0,
        rho: float | None = None,
        width: float | None = None,
        window: Duration = 0,
    ) -> None:
        super().__init__(epsilon=epsilon, gap=gap, window=window, weight=weight, rho=rho, width=width)
        best = best_split(self.epsilon, number(weight, "weight", 0, 1))
        rho_ = best[0] if rho is None else rho
        if not 1 < rho_ <= math.exp(self.epsilon / 2) * (1 + 1e-12):
            raise BadInput("rho", got=rho, want=f"above 1 and at most e^(epsilon/2) = {math.exp(self.epsilon / 2):.4g}")
        least = narrowest(self.epsilon, rho_)
        width_ = best[1] if width is None and rho is None else least if width is None else width
        if width_ < least * (1 - 1e-9):
            raise BadInput("width", got=width, want=f"at least {least:.6g} gaps for this rho")
        self.rho = float(rho_)
        self.batched, self.unbatched = _build(self.reach_ticks, self.exact_epsilon, self.rho, width_)

    @property
    def width(self) -> float:
        """W in units of the gap (gap + window where the window is above 0)."""
        low, high, _ = self.batched.pieces[0]
        return (high - low) / self.reach_ticks

    batched: Steps
    unbatched: Steps

    @property
    def mean_batched(self) -> float:
        """E[B] = g + W/2."""
        return self.batched.mean

    @property
    def mean_unbatched(self) -> float:
        """E[U] = (g + W/2)/rho1 + g^2/(2 W rho2)."""
        return self.unbatched.mean

    def batch_cost(self, size: int) -> float:
        """Epsilon + (size - 2) ln rho2: the first two comments cost rho1 rho2 = e^epsilon, every further one rho2.

        That is more than the size epsilon/2 of an even split. It is what a short delay costs people with long sittings.

        >>> round(UnevenSplit(epsilon=4, gap=1).batch_cost(5), 2), UnevenSplit(epsilon=4, gap=1).batch_cost(2)
        (13.92, 4.0)
        """
        whole(size, "size", 2)
        return self.epsilon + (size - 2) * (self.epsilon - math.log(self.rho))


def narrowest(epsilon: float, rho: float) -> float:
    """The least W, in gaps, at which the mass of U fits: rho^2 e^-epsilon / (rho - 1)."""
    return rho**2 * math.exp(-epsilon) / (rho - 1)


def best_split(epsilon: float, weight: float) -> tuple[float, float]:
    """The rho1 and W (in gaps) that minimize weight E[B] + (1 - weight) E[U].

    For a given rho1 the weighted mean is a W + c/W, so the best W is sqrt(c/a), or the narrowest; rho1 is searched.

    >>> tuple(round(x, 4) for x in best_split(4, 1.0))
    (2.0, 0.0733)
    """
    top = math.exp(epsilon / 2)
    span = np.array([1e-9, 1.0])
    rho = width = math.nan
    for _ in range(8):  # a grid on 1 + (top - 1) x, refined around its best point
        x = np.linspace(span[0], span[1], 401)
        r = 1 + (top - 1) * x
        least = r**2 * math.exp(-epsilon) / (r - 1)
        a = (weight + (1 - weight) / r) / 2
        c = (1 - weight) * r * math.exp(-epsilon) / 2
        w = np.maximum(np.sqrt(c / a), least)
        cost = weight + (1 - weight) / r + a * w + c / w
        i = int(np.argmin(cost))
        rho, width = float(r[i]), float(w[i])
        span = x[[max(i - 1, 0), min(i + 1, x.size - 1)]]
    return rho, width


def _build(reach: int, epsilon: Fraction, rho: float, width: float) -> tuple[Steps, Steps]:
    """B and U on whole ticks, rounded to the safe side."""
    growth = exp_bounds(epsilon)[0]
    rho1 = min(Fraction(rho), Fraction(math.isqrt(int(growth * 4**60)), 2**60))  # rho1 <= e^(epsilon/2)
    rho2 = growth / rho1
    high = math.ceil(WHOLE / rho1)
    if WHOLE - high <= 0:
        raise BadInput("rho", got=rho, want="a number further above 1")
    # the mass below the gap, reach/(W rho2), must fit into what is left
    ticks = max(math.ceil(Fraction(width) * reach), math.ceil(reach * WHOLE / (rho2 * (WHOLE - high))))
    check_longest(reach + ticks, epsilon)
    low = math.ceil(Fraction(reach * WHOLE, ticks) / rho2)
    end = reach + ticks
    return Steps(((reach, end, WHOLE),)), Steps(((0, reach, low), (reach, end, high)))
