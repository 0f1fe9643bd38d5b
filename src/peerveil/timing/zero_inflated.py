"""Zero-inflated uniform delays (Algorithm 2), and plain uniform ones: no delay at all for a share of comments."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Self

import numpy as np

from peerveil.core.errors import BadInput
from peerveil.core.exact import exp_bounds
from peerveil.timing.delays import WHOLE, Steps
from peerveil.timing.durations import LONGEST, TICKS
from peerveil.timing.mechanism import DelayMechanism

if TYPE_CHECKING:
    from peerveil.core.exact import Number
    from peerveil.timing.durations import Duration


class ZeroInflated(DelayMechanism):
    """What :class:`ZeroInflatedUniform` and :class:`~peerveil.timing.FollowUp` share: delays, eta and exact means.

    With l the loss of one comment and g the reach of its noise, E[B] = g/2 (1 + eta/(eta - e^-l)) and
    E[U] = g/2 eta^2/(eta - e^-l) (Theorem 4.3 (4), corrected).
    """

    def __init__(self, *, epsilon: Number, gap: Duration, beta: Duration, weight: float, eta: float | None) -> None:
        super().__init__(epsilon=epsilon, gap=gap, beta=beta)
        self._weight, self._given_eta = read_weight(weight), eta
        eta_ = best_eta(float(self.loss), self._weight) if eta is None else eta
        self.batched, self.unbatched, self._whole_eta = build(self.reach, self.loss, eta_, self._epsilon)

    @property
    def eta(self) -> float:
        """The share of other comments that wait at all."""
        return self._whole_eta / WHOLE

    @property
    def weight(self) -> float:
        """The weight of batched comments in the mean that was minimized."""
        return self._weight

    @property
    def mean_batched(self) -> float:
        """E[B] = g/2 (1 + eta / (eta - e^-l))."""
        return self.reach / TICKS / 2 * (1 + self.eta / (self.eta - math.exp(-self.loss)))

    @property
    def mean_unbatched(self) -> float:
        """E[U] = g/2 eta^2 / (eta - e^-l)."""
        return self.reach / TICKS / 2 * self.eta**2 / (self.eta - math.exp(-self.loss))


class ZeroInflatedUniform(ZeroInflated):
    """Algorithm 2: batched comments wait uniformly on (g, g + W), others not at all, or uniformly on (0, g + W).

    Parameters
    ----------
    epsilon
        The guarantee for a pair of comments; each comment gets half of it.
    gap
        Seconds (or a timedelta): how far apart two comments may be in the harmless case.
    weight
        Minimize weight E[B] + (1 - weight) E[U]; from 0 to 1, where 1 is plain uniform delay.
    eta
        The share of other comments that wait at all, instead of the best one for ``weight``.
    beta
        Seconds: how far apart comments of one sitting may be. Above 0 the noise is built for gap + beta, and
        :func:`peerveil.timing.post` holds every comment for beta until its status is known (Algorithm 3).

    Notes
    -----
    **Theorem 4.3 (4).** With l = epsilon/2, q = e^-l and q < eta <= 1, let W = g / (eta e^l - 1), so that
    g + W = g eta / (eta - q). Then b = 1/W on (g, g + W) and u >= eta/(g + W) on (0, g + W), and since a shift of at
    most g keeps (g, g + W) within (0, g + W), b(t)/u(t - t0) = (g + W)/(eta W) = e^l. On ticks the same holds with W
    rounded up. **Privacy** (Theorem 4.2): c and c' are the only comments whose delays differ; c is shifted by nothing,
    c' by at most g + beta. Each contributes a ratio of at most e^l, together e^epsilon. If c was batched already in
    the harmless input, only c' contributes. ∎

    **Means.** E[B] = g/2 (1 + eta/(eta - q)) and E[U] = g/2 eta^2/(eta - q), g standing for gap + beta. (The paper
    prints E[B] with eta in place of 1; its own optimal eta minimizes this one.) The derivative of the weighted mean
    vanishes at eta = q (1 + sqrt(1 + w/(q (1 - w)))).

    Examples
    --------
    >>> mechanism = ZeroInflatedUniform(epsilon=4, gap=600, weight=0.25)
    >>> round(mechanism.eta, 4), round(mechanism.mean_batched), round(mechanism.mean_unbatched)
    (0.3872, 761, 179)
    """

    def __init__(
        self,
        *,
        epsilon: Number,
        gap: Duration,
        weight: float = 1.0,
        eta: float | None = None,
        beta: Duration = 0,
    ) -> None:
        super().__init__(epsilon=epsilon, gap=gap, beta=beta, weight=weight, eta=eta)

    def with_beta(self, beta: Duration) -> Self:
        """The same for sittings of another width."""
        return type(self)(epsilon=self._epsilon, gap=self.gap, weight=self._weight, eta=self._given_eta, beta=beta)

    def with_gap(self, gap: Duration) -> Self:
        """The same for another gap."""
        return type(self)(epsilon=self._epsilon, gap=gap, weight=self._weight, eta=self._given_eta, beta=self.beta)


class Uniform(ZeroInflatedUniform):
    """Uniform delays, Theorem 4.3 (3): :class:`ZeroInflatedUniform` with eta = 1.

    >>> Uniform(epsilon=1, gap=60).eta
    1.0
    """

    def __init__(self, *, epsilon: Number, gap: Duration, beta: Duration = 0) -> None:
        super().__init__(epsilon=epsilon, gap=gap, weight=1.0, eta=1.0, beta=beta)

    def with_beta(self, beta: Duration) -> Self:
        """The same for sittings of another width."""
        return type(self)(epsilon=self._epsilon, gap=self.gap, beta=beta)

    def with_gap(self, gap: Duration) -> Self:
        """The same for another gap."""
        return type(self)(epsilon=self._epsilon, gap=gap, beta=self.beta)


def best_eta(loss: float, weight: float) -> float:
    """The eta of Algorithm 2, for weight 1 as well.

    >>> best_eta(2.0, 1.0), round(best_eta(2.0, 0.0), 4)
    (1.0, 0.2707)
    """
    q = math.exp(-loss)
    if weight == 1:
        return 1.0
    return min(1.0, q * (1 + math.sqrt(1 + weight / (q * (1 - weight)))))


def build(reach: int, loss: Fraction, eta: float, epsilon: Fraction) -> tuple[Steps, Steps, int]:
    """B, U and eta in units of 2^-53, on whole ticks, rounded to the safe side."""
    growth = exp_bounds(loss)[0]
    if isinstance(eta, bool) or not isinstance(eta, (int, float, np.floating)) or not 0 < eta <= 1:
        raise BadInput("eta", got=eta, want="a number above e^-loss, at most 1")
    whole = min(WHOLE, math.ceil(Fraction(*float(eta).as_integer_ratio()) * WHOLE))
    margin = Fraction(whole, WHOLE) * growth - 1
    if margin <= 0:
        raise BadInput("eta", got=eta, want=f"a number above e^-loss = {math.exp(-loss):.6g}, at most 1")
    width = math.ceil(reach / margin)  # W >= g / (eta e^l - 1)
    if reach + width > LONGEST * TICKS:
        raise BadInput("epsilon", got=float(epsilon), want="an epsilon and a gap whose delays stay below ten years")
    end = reach + width
    return Steps(((reach, end, WHOLE),)), Steps(((0, end, whole),)), whole


def read_weight(weight: float) -> float:
    """A weight from 0 to 1."""
    number = isinstance(weight, (int, float, np.integer, np.floating)) and not isinstance(weight, bool)
    if not number or not 0 <= weight <= 1:
        raise BadInput("weight", got=weight, want="a number from 0 to 1")
    return float(weight)
