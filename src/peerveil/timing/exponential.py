"""Exponential delays, the one-sided Laplace: for comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from peerveil.errors import BadInput
from peerveil.numerics.exact import at_least
from peerveil.timing.delays import Tail
from peerveil.timing.durations import LONGEST, TICKS
from peerveil.timing.mechanism import DelayMechanism

if TYPE_CHECKING:
    from peerveil.numerics.exact import Number
    from peerveil.timing.durations import Duration


class Exponential(DelayMechanism):
    """Theorem 4.3 (1): U is exponential with mean g/l, B = g + U, with l = epsilon/2. There is no longest delay.

    **Proof.** On a grid of microseconds, P[B = g + k] and P[U = g + k - s] are proportional to a^k and a^(k + g - s)
    with a = exp(-1/scale), so for a shift 0 <= s <= g their ratio is at most e^(g/scale) <= e^l, as scale >= g/l.
    Two comments as in :class:`peerveil.timing.ZeroInflatedUniform`. ∎

    >>> Exponential(1, gap=60).mean_batched, Exponential(1, gap=60).max_delay
    (180.0, inf)
    """

    def __init__(self, epsilon: Number, gap: Duration, *, beta: Duration = 0) -> None:
        super().__init__(epsilon, gap, beta)
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
        return type(self)(self._epsilon, self.gap, beta=beta)

    def with_gap(self, gap: Duration) -> Self:
        """The same for another gap."""
        return type(self)(self._epsilon, gap, beta=self.beta)
