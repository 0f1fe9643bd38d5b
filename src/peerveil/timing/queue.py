"""The queue (Algorithm 4): one post per step, in the order of arrival. Another guarantee, on an assumption."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numba import njit

from peerveil.core.guarantee import Guarantee, Notion
from peerveil.timing.durations import TICKS, in_words, read_duration

if TYPE_CHECKING:
    from peerveil.core.randomness import Randomness
    from peerveil.timing.durations import Duration, Flags, Integers

GUARANTEE: Final = (
    "Batching privacy with epsilon 0, on an assumption: if in every step one comment arrives, or a batch, and authors "
    "and threads of all comments are drawn independently from one distribution, then what is posted has the same "
    "distribution with any batches as with none. Real people do not post like that; where the assumption fails, nothing "
    "is guaranteed."
)


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
    differential privacy, so results carry the mark *not private*: read :data:`GUARANTEE`.

    >>> Queue(step=60).guarantee_in_words[:36]
    'Batching privacy with epsilon 0, on '
    """

    window: float = 0.0

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
    def guarantee_in_words(self) -> str:
        """What is guaranteed, and on which assumption."""
        return GUARANTEE

    @property
    def guarantee(self) -> Guarantee:
        """No differential privacy: what the queue guarantees rests on an assumption about people."""
        unit, neighbors = "batches, beyond the queue's own guarantee", "the same comments in batches or one per step"
        return Guarantee(Notion.PURE_DP, epsilon=None, unit=unit, neighbors=neighbors)

    def __repr__(self) -> str:
        return f"Queue(step={self.step:g})"

    def schedule(self, actor: Any, times: Integers, randomness: Randomness) -> tuple[Flags, Integers]:
        """Which comments shared a step with another of their author's, and when each is posted (microseconds)."""
        number = (
            times // self._step_micros
        )  # a public clock: one that began with the first comment would show its arrival
        crowded = np.zeros(times.size, dtype=np.bool_)
        order = np.lexsort((number, actor))
        same = (actor[order][1:] == actor[order][:-1]) & (number[order][1:] == number[order][:-1])
        crowded[order[1:][same]] = True
        crowded[order[:-1][same]] = True
        shuffled = np.lexsort((randomness.permutation(times.size), number))  # within a step the order is random
        steps = _serve(number[shuffled])
        out = np.empty(times.size, dtype=np.int64)
        out[shuffled] = (steps + 1) * self._step_micros
        return crowded, out


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
