"""Staircase delays (Geng and Viswanath), best for two-sided privacy and not here: for comparison."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Self

from peerveil.errors import BadInput
from peerveil.timing.delays import Stairs
from peerveil.timing.durations import LONGEST, TICKS
from peerveil.timing.mechanism import DelayMechanism

if TYPE_CHECKING:
    from peerveil.numerics.exact import Number
    from peerveil.timing.durations import Duration


class Staircase(DelayMechanism):
    """Theorem 4.3 (2): U is the absolute value of the staircase of width g, B = g + U. There is no longest delay.

    **Proof.** The density falls by e^-l, l = epsilon/2, once in every stretch of length g, so it falls by at most e^-l
    over any shift 0 <= s <= g: P[B = g + k] / P[U = g + k - s] = f(k) / f(k + g - s) <= e^l, on ticks as well. Two
    comments as in :class:`peerveil.timing.ZeroInflatedUniform`. ∎ The share of a period on the higher tread is
    1/(1 + e^(l/2)), which makes the mean smallest.

    >>> round(Staircase(1, gap=60).mean_unbatched, 3)
    118.759
    """

    def __init__(self, epsilon: Number, gap: Duration, *, beta: Duration = 0) -> None:
        super().__init__(epsilon, gap, beta)
        if 30 * self.reach / self.loss > LONGEST * TICKS:
            raise BadInput("epsilon", got=float(epsilon), want="an epsilon and a gap whose delays stay below ten years")
        tread = max(1, round(self.reach / (1 + math.exp(float(self.loss) / 2))))
        self.batched = Stairs(self.reach, self.reach, tread, self.loss)
        self.unbatched = Stairs(0, self.reach, tread, self.loss)

    @property
    def mean_batched(self) -> float:
        """E[B] = g (1 + e^(l/2) / (e^l - 1))."""
        return self.reach / TICKS + self.mean_unbatched

    @property
    def mean_unbatched(self) -> float:
        """E[U] = g e^(l/2) / (e^l - 1)."""
        return self.reach / TICKS * math.exp(float(self.loss) / 2) / math.expm1(float(self.loss))

    def with_beta(self, beta: Duration) -> Self:
        """The same for sittings of another width."""
        return type(self)(self._epsilon, self.gap, beta=beta)

    def with_gap(self, gap: Duration) -> Self:
        """The same for another gap."""
        return type(self)(self._epsilon, gap, beta=self.beta)
