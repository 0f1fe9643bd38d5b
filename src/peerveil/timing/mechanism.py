"""What every delay mechanism has: a pair of distributions, a rule for who is batched, a guarantee, an exact check.

**Neighbors** (corrected; the paper's Definitions 3.1 and 5.2 let a comment leave an existing batch of two, whose other
half then changes its status too, and the likelihood ratio is infinite). Comments c and c' are one person's, on
different threads. In the harmless input c' stands alone, more than beta and at most the gap after c. In the sensitive
input c' was written in the same sitting as c, within beta of it. No third comment's status differs.

**Why independent delays suffice** (Theorem 4.2, Lemma A.1). Delays are drawn independently, so the likelihood of a whole
output is a product over comments, and only comments whose status or arrival differs contribute a ratio other than 1.
Subclasses say which these are, and bound the product.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import numpy as np

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import whole
from peerveil.core.guarantee import Guarantee, read_epsilon
from peerveil.core.randomness import Randomness
from peerveil.timing.batches import nearest_elsewhere
from peerveil.timing.durations import TICKS, in_words, read_duration

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import ArrayLike, NDArray

    from peerveil.core.exact import Number
    from peerveil.timing.delays import Delay
    from peerveil.timing.durations import Duration


MOST: Final = 100
"""The largest epsilon: far beyond use, and far from where floats overflow."""


class DelayMechanism(ABC):
    """A pair of delay distributions, for batched and for other comments, with what it guarantees.

    Attributes
    ----------
    batched, unbatched : Delay
        The two distributions, B and U in the paper.
    """

    by_predecessor: ClassVar[bool] = False
    """Whether a comment's status depends on the past alone."""

    batched: Delay
    unbatched: Delay

    def __init__(self, *, epsilon: Number, gap: Duration, beta: Duration = 0) -> None:
        self._epsilon = read_epsilon(epsilon)
        if self._epsilon > MOST:
            raise BadInput("epsilon", got=epsilon, want=f"at most {MOST}; beyond 10 hardly anything is promised anyway")
        self._gap = read_duration(gap, "gap")
        self._beta = read_duration(beta, "beta", zero=True)
        if self._beta >= self._gap:
            raise BadInput("beta", got=beta, want=f"less than the gap ({in_words(self._gap / TICKS)})")

    # ---- parameters ---------------------------------------------------------------------------------------------

    @property
    def epsilon(self) -> float:
        """The guarantee for a pair of comments."""
        return float(self._epsilon)

    @property
    def exact_epsilon(self) -> Fraction:
        """The same, exactly."""
        return self._epsilon

    @property
    def gap(self) -> float:
        """How far apart (in seconds) two comments may be in the harmless case and still be covered."""
        return self._gap / TICKS

    @property
    def beta(self) -> float:
        """How far apart (in seconds) comments of one sitting may be."""
        return self._beta / TICKS

    @property
    def loss(self) -> Fraction:
        """The epsilon of one comment, for which the two distributions are indistinguishable: half, or all of it."""
        return self._epsilon if self.by_predecessor else self._epsilon / 2

    @property
    def reach(self) -> int:
        """The largest shift, in ticks, that the distributions must hide: the gap, and beta where looked both ways."""
        return self._gap if self.by_predecessor else self._gap + self._beta

    @property
    def hold(self) -> float:
        """How long (in seconds) a comment must wait before its status is known."""
        return 0.0 if self.by_predecessor else self.beta

    # ---- delays -------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def mean_batched(self) -> float:
        """The expected delay E[B] of a batched comment (for status by predecessor: a follow-up), without the hold."""

    @property
    @abstractmethod
    def mean_unbatched(self) -> float:
        """The expected delay E[U] of any other comment, without the hold."""

    @property
    def max_delay(self) -> float:
        """The longest delay, without the hold; infinity if there is none."""
        return max(self.batched.maximum, self.unbatched.maximum)

    def draw_ticks(self, batched: ArrayLike, randomness: Randomness) -> NDArray[np.int64]:
        """Independent delays in whole nanoseconds, one for each entry of ``batched``."""
        flags = np.asarray(batched)
        if flags.dtype != np.bool_:
            raise BadInput("batched", got=Verbatim(f"an array of {flags.dtype}"), want="True or False, or an array")
        flat = flags.ravel()
        out = np.empty(flat.size, dtype=np.int64)
        where = np.flatnonzero(flat)
        out[where] = self.batched.draw_ticks(where.size, randomness)
        where = np.flatnonzero(~flat)
        out[where] = self.unbatched.draw_ticks(where.size, randomness)
        return out.reshape(flags.shape)

    def draw(self, batched: ArrayLike, randomness: Randomness | None = None) -> NDArray[np.float64]:
        """Independent delays in seconds, one for each entry of ``batched``; from the secure lane unless told.

        Draw once and keep what was drawn: a second draw for the same comment is a second look at it.
        """
        source = Randomness.secure() if randomness is None else randomness
        if not isinstance(source, Randomness):
            raise BadInput("randomness", got=source, want="Randomness.secure() or Randomness.simulation(seed)")
        return self.draw_ticks(batched, source) / TICKS

    # ---- status -------------------------------------------------------------------------------------------------

    def status(self, actor: Any, thread: Any, times: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which comments get the long delay. Times in microseconds, sorted."""
        order, before, after = nearest_elsewhere(actor, thread, times)
        window = self._beta // 1000
        out = np.empty(times.size, dtype=np.bool_)
        out[order] = before <= window if self.by_predecessor else (before <= window) | (after <= window)
        return out

    # ---- promise ------------------------------------------------------------------------------------------------

    @property
    def neighbors(self) -> str:
        """The neighbors in one sentence."""
        close = "to the same moment as it" if self._beta == 0 else f"to within beta ({in_words(self.beta)}) of it"
        return (
            "of two comments of one person on different threads the later one, which stood alone "
            f"{'' if self._beta == 0 else 'more than beta and '}at most the gap after the earlier, moves {close}, and "
            "no third comment begins or ceases to be batched"
        )

    @property
    def guarantee(self) -> Guarantee:
        """What is promised."""
        return Guarantee.one_sided_dp(
            self._epsilon,
            gap=self.gap,
            unit="whether two comments of one person were written together",
            neighbors=self.neighbors,
        )

    def batch_cost(self, size: int) -> float:
        """The epsilon at which a whole batch of this size is told from as many lone comments."""
        number = check_size(size)
        return self.epsilon * ((number - 1) if self.by_predecessor else number / 2)

    @abstractmethod
    def with_beta(self, beta: Duration) -> Self:
        """The same mechanism for sittings of another width."""

    @abstractmethod
    def with_gap(self, gap: Duration) -> Self:
        """The same mechanism for another gap."""

    def _same(self) -> tuple[Any, ...]:
        return (type(self), self._epsilon, self._gap, self._beta, self.batched, self.unbatched)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DelayMechanism) and self._same() == other._same()

    def __hash__(self) -> int:
        return hash(self._same())

    def __repr__(self) -> str:
        beta = f", beta={self.beta:g}" if self._beta else ""
        return f"{type(self).__name__}(epsilon={self.epsilon:g}, gap={self.gap:g}{beta})"

    def __str__(self) -> str:
        return (
            f"{self!r}: batched {in_words(self.mean_batched)}, others {in_words(self.mean_unbatched)} on average, "
            f"at most {in_words(self.max_delay)}" + (f", after a hold of {in_words(self.hold)}" if self.hold else "")
        )


def check_size(size: int) -> int:
    """The size of a batch."""
    whole(size, "size", 2)
    return int(size)
