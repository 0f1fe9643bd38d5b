"""What every delay mechanism has: a pair of distributions, a rule for who is batched, and a guarantee.

**Neighbors** (corrected; the paper's Definitions 3.1 and 5.2 let a comment leave an existing batch of two, whose other
half then changes its status too, and the likelihood ratio is infinite). Comments c and c' are one person's, on
different threads. In the harmless input c' stands alone, more than the window and at most the gap after c. In the
sensitive input c' was written in the same sitting as c, within the window. No third comment's status differs.

**Why independent delays suffice** (Theorem 4.2, Lemma A.1). Delays are drawn independently, so the likelihood of a whole
output is a product over comments, and only comments whose status or arrival differs contribute a ratio other than 1.
Subclasses say which these are, and bound the product.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import ArrayLike

from peerveil.core.arrays import Flags, Floats, Ints
from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import Number, whole
from peerveil.core.guarantee import Guarantee, read_epsilon
from peerveil.core.randomness import Randomness
from peerveil.timing.batches import in_place, nearest_elsewhere
from peerveil.timing.durations import TICKS, Duration, in_words, read_duration

if TYPE_CHECKING:
    from peerveil.timing.distributions import Delay

MOST_EPSILON: Final = 100
"""The largest epsilon: far beyond use, and far from where floats overflow."""


ONE_HISTORY: Final = (
    "both comments belong to one history, which is one log with all of its communities; s sittings that the same two "
    "pseudonyms share cost s times epsilon"
)
"""What a guarantee says about several logs, and about several sittings (:mod:`peerveil.timing.sittings`)."""


class DelayMechanism(ABC):
    """A pair of delay distributions, ``batched`` and ``unbatched`` (B and U in the paper), with its guarantee.

    ``epsilon`` is for a pair of comments; ``gap`` is how far apart (in seconds) two comments may be in the harmless case and
    still be covered. ``gap_ticks`` and ``window_ticks`` are the gap and the width of one sitting, exactly.
    """

    follow_ups_only: ClassVar[bool] = False
    """Whether only follow-ups get the long delay, so that a comment's status depends on the past alone."""

    batched: Delay
    unbatched: Delay

    def __init__(self, *, epsilon: Number, gap: Duration, window: Duration = 0, **options: Any) -> None:
        self.exact_epsilon = read_epsilon(epsilon)
        if self.exact_epsilon > MOST_EPSILON:
            want = f"at most {MOST_EPSILON}; an epsilon above 10 guarantees very little"
            raise BadInput("epsilon", got=epsilon, want=want)
        self.epsilon = float(self.exact_epsilon)
        self.gap_ticks = read_duration(gap, "gap")
        self.gap = self.gap_ticks / TICKS
        self.window_ticks = read_duration(window, "window", zero=True)
        if self.window_ticks >= self.gap_ticks:
            raise BadInput("window", got=window, want=f"less than the gap ({in_words(self.gap)})")
        self._options = options

    @property
    def window(self) -> float:
        """How far apart (in seconds) comments of one sitting may be."""
        return self.window_ticks / TICKS

    @property
    def loss(self) -> Fraction:
        """The epsilon of one comment, for which the two distributions are indistinguishable: half, or all of it."""
        return self.exact_epsilon if self.follow_ups_only else self.exact_epsilon / 2

    @property
    def reach_ticks(self) -> int:
        """The largest shift that the distributions must hide: the gap, and the window if status looks both ways."""
        return self.gap_ticks if self.follow_ups_only else self.gap_ticks + self.window_ticks

    @property
    def reach(self) -> float:
        """The same in seconds."""
        return self.reach_ticks / TICKS

    @property
    def hold(self) -> float:
        """How long (in seconds) a comment must wait before its status is known."""
        return 0.0 if self.follow_ups_only else self.window

    def replace(self, **changes: Any) -> Self:
        """The same mechanism with other parameters: ``replace(gap=600)``."""
        own = {"epsilon": self.exact_epsilon, "gap": self.gap, "window": self.window, **self._options}
        return type(self)(**{**own, **changes})

    @property
    @abstractmethod
    def mean_batched(self) -> float:
        """The expected delay E[B] of a batched comment (of a follow-up, if only these count), without the hold."""

    @property
    @abstractmethod
    def mean_unbatched(self) -> float:
        """The expected delay E[U] of any other comment, without the hold."""

    @property
    def max_delay(self) -> float:
        """The longest delay, without the hold; infinity if there is none."""
        return max(self.batched.maximum, self.unbatched.maximum)

    def draw_ticks(self, batched: ArrayLike, randomness: Randomness) -> Ints:
        """Independent delays in whole nanoseconds, one for each entry of ``batched``."""
        flags = np.asarray(batched)
        if flags.dtype != np.bool_:
            raise BadInput("batched", got=Verbatim(f"an array of {flags.dtype}"), want="True or False, or an array")
        ticks = np.empty(flags.size, dtype=np.int64)
        for delay, chosen in ((self.batched, flags.ravel()), (self.unbatched, ~flags.ravel())):
            ticks[chosen] = delay.draw_ticks(int(chosen.sum()), randomness)
        return ticks.reshape(flags.shape)

    def draw(self, batched: ArrayLike, randomness: Randomness | None = None) -> Floats:
        """Independent delays in seconds, one for each entry of ``batched``; by default from secure randomness.

        Draw once and keep the result: a second draw for the same comment reveals more about it.
        """
        return self.draw_ticks(batched, Randomness.of(randomness)) / TICKS

    def status(self, actor: Any, thread: Any, times: Ints) -> Flags:
        """Which comments get the long delay. Times in microseconds, sorted."""
        order, before, after = nearest_elsewhere(actor, thread, times)
        nearest = before if self.follow_ups_only else np.minimum(before, after)
        return np.asarray(in_place(nearest <= self.window_ticks // 1000, order))

    @property
    def neighbors(self) -> str:
        """The neighbors in one sentence."""
        close = f"to within the window ({in_words(self.window)}) of it" if self.window else "to the same moment as it"
        return (
            "of two comments of one person on different threads the later one, which stood alone "
            f"{'more than the window and ' if self.window else ''}at most the gap after the earlier, moves {close}, and "
            f"no third comment begins or ceases to be batched; {ONE_HISTORY}"
        )

    @property
    def guarantee(self) -> Guarantee:
        """What is guaranteed."""
        unit = "whether two comments of one person were written together"
        return Guarantee.one_sided_dp(self.exact_epsilon, gap=self.gap, unit=unit, neighbors=self.neighbors)

    def batch_cost(self, size: int) -> float:
        """The epsilon at which a whole batch of this size is distinguished from as many lone comments."""
        whole(size, "size", 2)
        return self.epsilon * ((size - 1) if self.follow_ups_only else size / 2)

    def _identity(self) -> tuple[Any, ...]:
        return (type(self), self.exact_epsilon, self.gap_ticks, self.window_ticks, self.batched, self.unbatched)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DelayMechanism) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        window = f", window={self.window:g}" if self.window else ""
        return f"{type(self).__name__}(epsilon={self.epsilon:g}, gap={self.gap:g}{window})"

    def __str__(self) -> str:
        return (
            f"{self!r}: batched {in_words(self.mean_batched)}, others {in_words(self.mean_unbatched)} on average, "
            f"at most {in_words(self.max_delay)}" + (f", after a hold of {in_words(self.hold)}" if self.hold else "")
        )


def check_mechanism(mechanism: object) -> None:
    """Refuse what is no delay mechanism."""
    if not isinstance(mechanism, DelayMechanism):
        raise BadInput("mechanism", got=mechanism, want="a mechanism such as FollowUp(epsilon=1, gap=600, window=300)")
