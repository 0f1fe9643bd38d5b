"""The mechanisms: delays of follow-ups (the default), zero-inflated, uniform, exponential, staircase; and the queue."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from peerveil.core.arrays import Flags, Ints
from peerveil.core.errors import BadInput, one_of
from peerveil.core.exact import Number, at_least, exp_bounds, number
from peerveil.core.guarantee import Guarantee, Notion
from peerveil.core.lazy import njit
from peerveil.timing.base import ONE_HISTORY, DelayMechanism
from peerveil.timing.batches import in_place
from peerveil.timing.distributions import WHOLE, Stairs, Steps, Tail
from peerveil.timing.durations import LONGEST_SECONDS, TICKS, Duration, in_words, read_duration

if TYPE_CHECKING:
    from peerveil.core.randomness import Randomness


class ZeroInflatedUniform(DelayMechanism):
    """Algorithm 2: batched comments wait uniformly on (g, g + W), others not at all, or uniformly on (0, g + W).

    Parameters
    ----------
    epsilon
        The guarantee for a pair of comments; each comment gets half of it.
    gap
        Seconds (or a timedelta): how far apart two comments may be in the harmless case.
    window
        Seconds: how far apart comments of one sitting may be. Above 0 the noise is built for gap + window, and
        :func:`peerveil.timing.post` holds every comment for the window until its status is known (Algorithm 3).
    weight
        Minimize weight E[B] + (1 - weight) E[U]; from 0 to 1, where 1 is plain uniform delay.
    eta
        The share of other comments that wait at all, instead of the best one for ``weight``.

    Notes
    -----
    **Theorem 4.3 (4).** With l = epsilon/2, q = e^-l and q < eta <= 1, let W = g / (eta e^l - 1), so that
    g + W = g eta / (eta - q). Then b = 1/W on (g, g + W) and u >= eta/(g + W) on (0, g + W), and since a shift of at
    most g keeps (g, g + W) within (0, g + W), b(t)/u(t - t0) = (g + W)/(eta W) = e^l. On ticks the same holds with W
    rounded up. **Privacy** (Theorem 4.2): c and c' are the only comments whose delays differ; c is shifted by nothing,
    c' by at most g + window. Each contributes a ratio of at most e^l, together e^epsilon. If c was batched already in
    the harmless input, only c' contributes. ∎

    **Means.** E[B] = g/2 (1 + eta/(eta - q)) and E[U] = g/2 eta^2/(eta - q), g standing for gap + window. (The paper
    prints E[B] with eta in place of 1; its own optimal eta minimizes this one.) The derivative of the weighted mean
    vanishes at eta = q (1 + sqrt(1 + w/(q (1 - w)))).

    Examples
    --------
    >>> mechanism = ZeroInflatedUniform(epsilon=4, gap=600, weight=0.25)
    >>> round(mechanism.eta, 4), round(mechanism.mean_batched), round(mechanism.mean_unbatched)
    (0.3872, 761, 179)
    """

    def __init__(
        self, *, epsilon: Number, gap: Duration, window: Duration = 0, weight: float = 1.0, eta: float | None = None
    ) -> None:
        super().__init__(epsilon=epsilon, gap=gap, window=window, weight=weight, eta=eta)
        self.weight = number(weight, "weight", 0, 1)
        share = best_eta(float(self.loss), self.weight) if eta is None else eta
        self.batched, self.unbatched, eta_units = _zero_inflated(self, share)
        self.eta = eta_units / WHOLE

    @property
    def mean_batched(self) -> float:
        """E[B] = g/2 (1 + eta / (eta - e^-l))."""
        return self.reach / 2 * (1 + self.eta / (self.eta - math.exp(-self.loss)))

    @property
    def mean_unbatched(self) -> float:
        """E[U] = g/2 eta^2 / (eta - e^-l)."""
        return self.reach / 2 * self.eta**2 / (self.eta - math.exp(-self.loss))


class Uniform(ZeroInflatedUniform):
    """Uniform delays, Theorem 4.3 (3): :class:`ZeroInflatedUniform` with eta = 1.

    >>> Uniform(epsilon=1, gap=60).eta
    1.0
    """

    def __init__(self, *, epsilon: Number, gap: Duration, window: Duration = 0) -> None:
        super().__init__(epsilon=epsilon, gap=gap, window=window, eta=1.0)
        self._options = {}


class FollowUp(ZeroInflatedUniform):
    """Delay a follow-up by B: a comment whose author commented on another thread within the window *before* it.

    Every other comment is delayed by U. The whole epsilon goes into one delay, nothing is held, and the noise is built
    for the gap alone. The default.

    Parameters
    ----------
    epsilon
        The guarantee for a pair of comments.
    gap, window
        Seconds (or timedeltas): how far apart the two may be in the harmless case, and within one sitting.
    weight, eta
        As in :class:`peerveil.timing.ZeroInflatedUniform`, for weight E[B] + (1 - weight) E[U].

    Notes
    -----
    **Neighbors, and they are ordered.** In the harmless input c' stands alone, later than c by more than the window and
    at most the gap. In the sensitive input it comes *after* c, within the window. Which of the two came first is the
    same in both, and no other comment's status differs.

    **Proof.** c has the same arrival and, as its status depends on the past alone, the same status in both inputs, so
    its delay has the same distribution. The same holds for every third comment. c' waits B from t'' in [t, t + window]
    or U from t' in (t + window, t + g], a shift of 0 < t' - t'' <= g. The distributions are (epsilon, g)-one-sided
    indistinguishable (Theorem 4.3 (4) with l = epsilon), so the ratio is at most e^epsilon. ∎

    **What ordered neighbors cost.** Proposition 5.1 holds with F(g) where the adversary's belief about the order of
    the two comments is the same under both hypotheses. If somebody knew the order within batches but not without, only
    the half of F on one side would count, a factor of up to 2: :func:`peerveil.timing.optimal_attack` shows all cases.

    **Equal times.** Which of two comments of one moment came first is read from the file, or drawn:
    :mod:`peerveil.timing.log` says when, and what is then guaranteed.

    A whole batch of b comments is linked at (b - 1) epsilon, against b epsilon/2 under the symmetric mechanisms.

    Examples
    --------
    >>> mechanism = FollowUp(epsilon="0.5", gap=11 * 60, window=5 * 60)
    >>> round(mechanism.mean_batched / 60, 1), round(mechanism.mean_unbatched / 60, 1), mechanism.hold
    (19.5, 14.0, 0.0)
    """

    follow_ups_only: ClassVar[bool] = True

    @property
    def neighbors(self) -> str:
        """The neighbors in one sentence; they are ordered."""
        apart, close = "", "to the same moment, right behind it"
        if self.window:
            apart, close = "more than the window and ", f"to within the window ({in_words(self.window)}) after it"
        return (
            "these are ordered: the second of two comments of one person on different threads, which followed the "
            f"first alone by {apart}at most the gap, moves {close}; which of the two came first is the same in both, "
            "and no other comment begins or ceases to follow another; whoever knows the order within sittings but not "
            f"otherwise can see up to twice this ratio; {ONE_HISTORY}"
        )


class Exponential(DelayMechanism):
    """Theorem 4.3 (1): U is exponential with mean g/l, B = g + U, with l = epsilon/2. There is no longest delay.

    For comparison: best for two-sided privacy, not here (Figure 3).

    **Proof.** On a grid of microseconds, P[B = g + k] and P[U = g + k - s] are proportional to a^k and a^(k + g - s)
    with a = exp(-1/scale), so for a shift 0 <= s <= g their ratio is at most e^(g/scale) <= e^l, as scale >= g/l.
    Two comments as in :class:`peerveil.timing.ZeroInflatedUniform`. ∎

    >>> Exponential(epsilon=1, gap=60).mean_batched, Exponential(epsilon=1, gap=60).max_delay
    (180.0, inf)
    """

    def __init__(self, *, epsilon: Number, gap: Duration, window: Duration = 0) -> None:
        super().__init__(epsilon=epsilon, gap=gap, window=window)
        reach_micros = -(-self.reach_ticks // 1000)
        scale = at_least(reach_micros / self.loss)
        check_longest(30 * scale * 1000, self.exact_epsilon)
        self.batched, self.unbatched = Tail(1000 * reach_micros, scale), Tail(0, scale)

    @property
    def mean_batched(self) -> float:
        """E[B] = g (1 + 1/l)."""
        return self.reach * float(1 + 1 / self.loss)

    @property
    def mean_unbatched(self) -> float:
        """E[U] = g/l."""
        return self.reach * float(1 / self.loss)


class Staircase(DelayMechanism):
    """Theorem 4.3 (2): U is the absolute value of the staircase of width g, B = g + U. There is no longest delay.

    For comparison, as :class:`Exponential`.

    **Proof.** The density falls by e^-l, l = epsilon/2, once in every stretch of length g, so it falls by at most e^-l
    over any shift 0 <= s <= g: P[B = g + k] / P[U = g + k - s] = f(k) / f(k + g - s) <= e^l, on ticks as well. Two
    comments as in :class:`peerveil.timing.ZeroInflatedUniform`. ∎ The share of a period on the higher tread is
    1/(1 + e^(l/2)), which makes the mean smallest.

    >>> round(Staircase(epsilon=1, gap=60).mean_unbatched, 3)
    118.759
    """

    def __init__(self, *, epsilon: Number, gap: Duration, window: Duration = 0) -> None:
        super().__init__(epsilon=epsilon, gap=gap, window=window)
        step = self.reach_ticks
        check_longest(30 * step / self.loss, self.exact_epsilon)
        tread = max(1, round(step / (1 + math.exp(float(self.loss) / 2))))
        self.batched, self.unbatched = Stairs(step, step, tread, self.loss), Stairs(0, step, tread, self.loss)

    @property
    def mean_batched(self) -> float:
        """E[B] = g (1 + e^(l/2) / (e^l - 1))."""
        return self.reach + self.mean_unbatched

    @property
    def mean_unbatched(self) -> float:
        """E[U] = g e^(l/2) / (e^l - 1)."""
        return self.reach * math.exp(float(self.loss) / 2) / math.expm1(float(self.loss))


MECHANISMS: Final[Mapping[str, type[DelayMechanism]]] = {
    "follow-up": FollowUp,
    "zero-inflated": ZeroInflatedUniform,
    "uniform": Uniform,
    "exponential": Exponential,
    "staircase": Staircase,
}
WEIGHTED: Final = ("follow-up", "zero-inflated")
"""Those that can minimize a weighted mean of the delays of batched and of other comments."""


def named_mechanism(
    name: str, *, epsilon: Number, gap: Duration, window: Duration, weight: float = 1.0
) -> DelayMechanism:
    """A delay mechanism by its name; ``weight`` is for those that are :data:`WEIGHTED`.

    >>> named_mechanism("uniform", epsilon=1, gap=600, window=300)
    Uniform(epsilon=1, gap=600, window=300)
    """
    options = {"weight": weight} if name in WEIGHTED else {}
    return MECHANISMS[one_of(name, "mechanism", MECHANISMS)](epsilon=epsilon, gap=gap, window=window, **options)


def best_eta(loss: float, weight: float) -> float:
    """The eta of Algorithm 2, for weight 1 as well.

    >>> best_eta(2.0, 1.0), round(best_eta(2.0, 0.0), 4)
    (1.0, 0.2707)
    """
    q = math.exp(-loss)
    return 1.0 if weight == 1 else min(1.0, q * (1 + math.sqrt(1 + weight / (q * (1 - weight)))))


def _zero_inflated(mechanism: DelayMechanism, eta: float) -> tuple[Steps, Steps, int]:
    """B, U and eta in units of 2^-53, on whole ticks, rounded to the safe side."""
    reach, loss = mechanism.reach_ticks, mechanism.loss
    eta = number(eta, "eta", 1e-300, 1, want="a number above e^-loss, at most 1")
    eta_units = min(WHOLE, math.ceil(Fraction(*eta.as_integer_ratio()) * WHOLE))
    margin = Fraction(eta_units, WHOLE) * exp_bounds(loss)[0] - 1
    if margin <= 0:
        raise BadInput("eta", got=eta, want=f"a number above e^-loss = {math.exp(-loss):.6g}, at most 1")
    width = math.ceil(reach / margin)  # W >= g / (eta e^l - 1)
    end = reach + width
    check_longest(end, mechanism.exact_epsilon)
    return Steps(((reach, end, WHOLE),)), Steps(((0, end, eta_units),)), eta_units


def check_longest(ticks: float | Fraction, epsilon: Fraction) -> None:
    """Refuse delays that take years."""
    if ticks > LONGEST_SECONDS * TICKS:
        raise BadInput("epsilon", got=float(epsilon), want="an epsilon and a gap whose delays stay below ten years")


class Queue:
    """Algorithm 4: of what arrives in a step, one is posted and the rest queue up behind what was there before.

    Parameters
    ----------
    step
        Seconds (or a timedelta): the clock of the queue, in whole steps since 1970. One comment is posted at the end of
        each step.

    Notes
    -----
    The order of arrival is kept between steps; within a step it is random. **Proposition C.2.** Given i.i.d. arrivals,
    the comment that leaves in a step was drawn from the common distribution, independently of all that left before,
    whether or not there were batches. So the output's distribution does not depend on them. ∎ **Delay**: at most as
    many steps as there were extra comments so far (Proposition C.3), and no mechanism can do with less (C.4).

    In a step in which nothing arrives the queue goes on emptying (the paper's model has no such step). This is no
    differential privacy, so results carry the mark *not private*: read ``guarantee_in_words``.

    >>> Queue(step=60).guarantee_in_words[:36]
    'Batching privacy with epsilon 0, on '
    """

    window: ClassVar[float] = 0.0
    guarantee_in_words: ClassVar[str] = (
        "Batching privacy with epsilon 0, on an assumption: if in every step one comment arrives, or a batch, and authors "
        "and threads of all comments are drawn independently from one distribution, then what is posted has the same "
        "distribution with any batches as with none. Real people do not post like that; where the assumption fails, nothing "
        "is guaranteed."
    )
    """What is guaranteed, and on which assumption."""

    def __init__(self, *, step: Duration) -> None:
        self._step_micros = max(1, read_duration(step, "step") // 1000)

    @property
    def step(self) -> float:
        """Seconds."""
        return self._step_micros * 1000 / TICKS

    @property
    def pace(self) -> str:
        """How posts appear, in words."""
        return f"one appears every {in_words(self.step)}, in the order of arrival"

    @property
    def guarantee(self) -> Guarantee:
        """No differential privacy: what the queue guarantees rests on an assumption about people."""
        unit, neighbors = "batches, beyond the queue's own guarantee", "the same comments in batches or one per step"
        return Guarantee(Notion.PURE_DP, epsilon=None, unit=unit, neighbors=neighbors)

    def __repr__(self) -> str:
        return f"Queue(step={self.step:g})"

    def schedule(self, actor: Any, times: Ints, randomness: Randomness) -> tuple[Flags, Ints]:
        """Which comments shared a step with another of their author's, and when each is posted (microseconds)."""
        # a public clock: one that began with the first comment would show its arrival
        number = times // self._step_micros
        order = np.lexsort((number, actor))
        same = (np.diff(actor[order]) == 0) & (np.diff(number[order]) == 0)
        crowded = in_place(np.append(same, False) | np.append(False, same), order)
        shuffled = np.lexsort((randomness.permutation(times.size), number))  # within a step the order is random
        return crowded, in_place((_serve(number[shuffled]) + 1) * self._step_micros, shuffled)


@njit(cache=True)
def _serve(number):  # type: ignore[no-untyped-def]  # pragma: no cover
    """One per step: a comment leaves in its own step or in the one after the comment before it, whichever is later."""
    out = np.empty_like(number)
    free = number[0]
    for i in range(number.size):
        free = max(free, number[i])
        out[i] = free
        free += 1
    return out
