"""Printed forms that are wrong, or that promise less than the paper says (docs/errata.md)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerveil.core.errors import BadInput
from peerveil.core.guarantee import Guarantee
from peerveil.timing.base import DelayMechanism
from peerveil.timing.batches import check_suspects
from peerveil.timing.durations import Duration, read_duration

if TYPE_CHECKING:
    from peerveil.timing import ZeroInflatedUniform


class WithoutRoom(DelayMechanism):
    """The mechanism of the paper's tables and attacks: hold every comment for the window, but build the noise for the gap alone.

    Section 5.2 asks for noise built for gap + window. The guarantee says what is left without it.

    Parameters
    ----------
    inner
        A symmetric mechanism without a window, whose noise is used.
    window
        Seconds: how long comments are held, and how far apart comments of one sitting may be.

    Examples
    --------
    >>> from peerveil.timing import Uniform, exact_check
    >>> (
    ...     exact_check(Uniform(epsilon=1, gap=660, window=300)).passed,
    ...     exact_check(WithoutRoom(Uniform(epsilon=1, gap=660), 300)).passed,
    ... )
    (True, False)
    """

    def __init__(self, inner: DelayMechanism, window: Duration) -> None:
        if inner.follow_ups_only or inner.window:
            raise BadInput(
                "inner", got=inner, want="a symmetric mechanism without a window, such as Uniform(epsilon=1, gap=660)"
            )
        super().__init__(epsilon=inner.exact_epsilon, gap=inner.gap)
        self.window_ticks = read_duration(window, "window", zero=True)  # the paper also runs a window above the gap
        self.inner, self.batched, self.unbatched = inner, inner.batched, inner.unbatched

    @property
    def mean_batched(self) -> float:
        """E[B] of the inner mechanism."""
        return self.inner.mean_batched

    @property
    def mean_unbatched(self) -> float:
        """E[U] of the inner mechanism."""
        return self.inner.mean_unbatched

    @property
    def guarantee(self) -> Guarantee:
        """What is promised: the noise hides shifts of the gap only."""
        return Guarantee.one_sided_dp(
            self.exact_epsilon, gap=self.gap, unit=self.inner.guarantee.unit,
            neighbors="as printed in the paper's tables, without the margin for the window that the guarantee needs: comments "
            "of one sitting are taken to have arrived in the very same moment",
        )  # fmt: skip

    def replace(self, *, gap: Duration | None = None, window: Duration | None = None) -> Self:  # type: ignore[override]
        """The same with another gap or window."""
        inner = self.inner if gap is None else self.inner.replace(gap=gap)
        return type(self)(inner, self.window if window is None else window)


def mean_batched_as_printed(mechanism: ZeroInflatedUniform) -> float:
    """Theorem 4.3 (4) as printed, which is wrong: E[B] = g/2 (eta + eta / (eta - e^-l))."""
    eta = mechanism.eta
    return mechanism.reach / 2 * (eta + eta / (eta - math.exp(-mechanism.loss)))


def posterior_apart(same_rate: float, other_rate: float, suspects: ArrayLike) -> NDArray[np.float64]:
    """Figure 2: the best guess of K suspects after learning that two comments did *not* arrive together."""
    number = check_suspects(suspects)
    apart, elsewhere = 1 - same_rate, 1 - other_rate
    return np.asarray(np.maximum(apart, elsewhere) / (apart + elsewhere * (number - 1)))
