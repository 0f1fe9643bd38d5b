"""Delays without a longest one, for comparison: exponential (the one-sided Laplace) and staircase (Geng and Viswanath).

Both are best for two-sided privacy and not here: Figure 3 shows what they cost against uniform delays.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Self

from peerveil.core.errors import BadInput
from peerveil.core.exact import at_least
from peerveil.timing.delays import Stairs, Tail
from peerveil.timing.durations import LONGEST, TICKS
from peerveil.timing.mechanism import DelayMechanism

if TYPE_CHECKING:
    from peerveil.core.exact import Number
    from peerveil.timing.durations import Duration


class Exponential(DelayMechanism):
    """Theorem 4.3 (1): U is exponential with mean g/l, B = g + U, with l = epsilon/2. There is no longest delay.

    **Proof.** On a grid of microseconds, P[B = g + k] and P[U = g + k - s] are proportional to a^k and a^(k + g - s)
    with a = exp(-1/scale), so for a shift 0 <= s <= g their ratio is at most e^(g/scale) <= e^l, as scale >= g/l.
    Two comments as in :class:`peerveil.timing.ZeroInflatedUniform`. ∎

    >>> Exponential(epsilon=1, gap=60).mean_batched, Exponential(epsilon=1, gap=60).max_delay
    (180.0, inf)
    """

    def __init__(self, *, epsilon: Number, gap: Duration, beta: Duration = 0) -> None:
        super().__init__(epsilon=epsilon, gap=gap, beta=beta)
        reach = -(-self.reach // 1000)  # microseconds, rounded up
        scale = at_least(reach / self.loss)
        if 30 * scale > LONGEST * 1e6:
            raise BadInput("epsilon", got=float(epsilon), want="an epsilon and a gap whose delays stay below ten years")
        self.batched, self.unbatched = Tail(1000 * reach, scale), Tail(0, scale)

    @property
    def mean_batched(self) -> float:
        """E[B] = g (1 + 1/l)."""
        return self.reach / TICKS * float(1 + 1 / self.loss)

    @property
    def mean_unbatched(self) -> float:
        """E[U] = g/l."""
        return self.reach / TICKS * float(1 / self.loss)

    def with_beta(self, beta: Duration) -> Self:
        """The same for sittings of another width."""
        return type(self)(epsilon=self._epsilon, gap=self.gap, beta=beta)

    def with_gap(self, gap: Duration) -> Self:
        """The same for another gap."""
        return type(self)(epsilon=self._epsilon, gap=gap, beta=self.beta)


class Staircase(DelayMechanism):
    """Theorem 4.3 (2): U is the absolute value of the staircase of width g, B = g + U. There is no longest delay.

    **Proof.** The density falls by e^-l, l = epsilon/2, once in every stretch of length g, so it falls by at most e^-l
    over any shift 0 <= s <= g: P[B = g + k] / P[U = g + k - s] = f(k) / f(k + g - s) <= e^l, on ticks as well. Two
    comments as in :class:`peerveil.timing.ZeroInflatedUniform`. ∎ The share of a period on the higher tread is
    1/(1 + e^(l/2)), which makes the mean smallest.

    >>> round(Staircase(epsilon=1, gap=60).mean_unbatched, 3)
    118.759
    """

    def __init__(self, *, epsilon: Number, gap: Duration, beta: Duration = 0) -> None:
        super().__init__(epsilon=epsilon, gap=gap, beta=beta)
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
        return type(self)(epsilon=self._epsilon, gap=self.gap, beta=beta)

    def with_gap(self, gap: Duration) -> Self:
        """The same for another gap."""
        return type(self)(epsilon=self._epsilon, gap=gap, beta=self.beta)
