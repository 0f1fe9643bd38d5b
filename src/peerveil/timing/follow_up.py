"""Status by predecessor: the whole epsilon for one comment, no hold, no gap + beta. The default."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

from peerveil.timing.durations import in_words
from peerveil.timing.zero_inflated import ZeroInflated

if TYPE_CHECKING:
    from peerveil.core.exact import Number
    from peerveil.timing.durations import Duration


class FollowUp(ZeroInflated):
    """Delay a comment by B if the same person commented on another thread within beta *before* it, else by U.

    Parameters
    ----------
    epsilon
        The guarantee for a pair of comments, all of which goes into one delay.
    gap, beta
        Seconds (or timedeltas): how far apart the two may be in the harmless case, and within one sitting.
    weight, eta
        As in :class:`peerveil.timing.ZeroInflatedUniform`, for weight E[B] + (1 - weight) E[U].

    Notes
    -----
    **Neighbors, and they are ordered.** In the harmless input c' stands alone, later than c by more than beta and at
    most the gap. In the sensitive input it comes *after* c, within beta. Which of the two came first is the same in
    both, and no other comment's status differs.

    **Proof.** c has the same arrival and, as its status depends on the past alone, the same status in both inputs, so
    its delay has the same distribution. The same holds for every third comment. c' waits B from t'' in [t, t + beta]
    or U from t' in (t + beta, t + g], a shift of 0 < t' - t'' <= g. The distributions are (epsilon, g)-one-sided
    indistinguishable (Theorem 4.3 (4) with l = epsilon), so the ratio is at most e^epsilon. ∎

    **What ordered neighbors cost.** Proposition 5.1 holds with F(g) where the adversary's belief about the order of
    the two comments is the same under both hypotheses. If somebody knew the order within batches but not without, only
    the half of F on one side would count, a factor of up to 2:
    :func:`peerveil.timing.optimal_attack` shows all cases.

    **Equal times.** Which of two comments of one moment came first is read from the file, or drawn:
    :mod:`peerveil.timing.order` says when, and what is then promised.

    A whole batch of b comments is linked at (b - 1) epsilon, against b epsilon/2 under the symmetric mechanisms.

    Examples
    --------
    >>> mechanism = FollowUp(epsilon="0.5", gap=11 * 60, beta=5 * 60)
    >>> round(mechanism.mean_batched / 60, 1), round(mechanism.mean_unbatched / 60, 1), mechanism.hold
    (19.5, 14.0, 0.0)
    """

    by_predecessor: ClassVar[bool] = True

    def __init__(
        self, *, epsilon: Number, gap: Duration, beta: Duration = 0, weight: float = 1.0, eta: float | None = None
    ) -> None:
        super().__init__(epsilon=epsilon, gap=gap, beta=beta, weight=weight, eta=eta)

    @property
    def neighbors(self) -> str:
        """The neighbors in one sentence; they are ordered."""
        close = "to the same moment, right behind it" if not self._beta else f"to within beta ({in_words(self.beta)})"
        return (
            "these are ordered: the second of two comments of one person on different threads, which followed the "
            f"first alone by {'' if not self._beta else 'more than beta and '}at most the gap, moves {close}"
            f"{'' if not self._beta else ' after it'}; which of the two came first is the same in both, and no other "
            "comment begins or ceases to follow another; whoever knows the order within sittings but not otherwise can "
            "see up to twice this ratio"
        )

    def with_beta(self, beta: Duration) -> Self:
        """The same for sittings of another width."""
        return type(self)(epsilon=self._epsilon, gap=self.gap, beta=beta, weight=self._weight, eta=self._given_eta)

    def with_gap(self, gap: Duration) -> Self:
        """The same for another gap."""
        return type(self)(epsilon=self._epsilon, gap=gap, beta=self.beta, weight=self._weight, eta=self._given_eta)
