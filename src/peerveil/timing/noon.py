"""The rule of HotCRP, as a baseline: shown times are moved to noon of their day, and posts appear at once.

What it still reveals: which posts were written on one day, and, where posts are listed by when they were written, their
order. Whoever looks while posts appear sees the moments themselves, as without any protection. No guarantee comes with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.core.arrays import Floats
from peerveil.timing.adversary import LinkageAttack, joined_codes
from peerveil.timing.batches import count_joint, count_within
from peerveil.timing.durations import percent
from peerveil.timing.log import codes, groups_of

if TYPE_CHECKING:
    from peerveil.data import Events

DAY_MICROS: Final = 86_400_000_000


@dataclass(frozen=True)
class NoonBaseline:
    """What times moved to noon still reveal in a log."""

    attack: LinkageAttack
    """Posts of one day are taken to be one person's."""
    same_day_together: float
    """Of consecutive posts of one sitting, the share that is shown with the same day."""
    same_day_covered: float
    """The same of a person's posts that stand alone, at most the gap apart."""
    same_day_all: float
    """The same of all of a person's posts that stand alone."""

    @property
    def crossover(self) -> float:
        """The error of the best test of the days alone, for lone posts up to the gap apart."""
        return crossover_of(self.same_day_together, self.same_day_covered)

    @property
    def crossover_all(self) -> float:
        """The same for all lone posts of the log."""
        return crossover_of(self.same_day_together, self.same_day_all)

    def in_words(self) -> str:
        """What is still revealed."""
        _, precision, recall = self.attack.at_half
        return (
            f"Times moved to noon, as HotCRP shows them, still reveal the day and, in a list, the order: {percent(recall)} of "
            f"the pairs written in one sitting share a day, and {percent(precision)} of all pairs of one day are such. Posts "
            "appear at once, so whoever watches sees as much as without protection."
        )


def noon_baseline(log: Events, *, window: float, gap: float, within: Any = None) -> NoonBaseline:
    """Attack a log whose times are moved to noon (UTC); ``within`` as in :func:`linkage_attack`.

    >>> from peerveil.data import Events
    >>> hours = 86_400 * 10_000 + 3600 * np.array([1, 1.01, 5, 30])
    >>> noon = noon_baseline(Events(actor=list("aaba"), thread=[1, 2, 3, 4], time=hours), window=300, gap=200_000)
    >>> noon.attack.flagged.tolist(), noon.attack.right.tolist(), noon.same_day_together, noon.same_day_covered
    ([3], [1], 1.0, 0.0)
    """
    actor, thread, times = codes(log)
    values = groups_of(log, within)
    group = np.zeros(times.size, dtype=np.int64) if values is None else np.unique(values, return_inverse=True)[1]
    day, cut = times // DAY_MICROS, np.zeros(1)

    def pairs(key: Any) -> Any:
        order = np.argsort(key, kind="stable")
        return np.asarray(count_within(key[order], day[order].astype(np.float64), cut))

    def written(key: Any) -> Any:
        order = np.argsort(key, kind="stable")
        reach = round(window * 1e6)
        return np.asarray(count_joint(key[order], times[order], day[order].astype(np.float64), reach, cut))

    owner = joined_codes(group, actor)
    flagged = pairs(group) - pairs(joined_codes(group, thread))
    right = written(owner) - written(joined_codes(owner, thread))
    waits, same = _steps(actor, thread, times)
    alone, near = waits > window, (waits > window) & (waits <= gap)
    return NoonBaseline(
        LinkageAttack(cut, flagged, right[:-1], int(right[-1])),
        float(same[~alone].mean()) if (~alone).any() else 1.0,
        *(float(same[chosen].mean()) if chosen.any() else 0.0 for chosen in (near, alone)),
    )


def _steps(actor: Any, thread: Any, times: Any) -> tuple[Floats, Any]:
    """Seconds between a person's consecutive posts on different threads, and whether both are on one day."""
    order = np.argsort(actor, kind="stable")
    chosen = (np.diff(actor[order]) == 0) & (np.diff(thread[order]) != 0)
    same = np.diff((times // DAY_MICROS)[order]) == 0
    return np.diff(times[order])[chosen] / 1e6, same[chosen]


def crossover_of(power: float, alarm: float) -> float:
    """Where both errors are equal, on the curve from (0, 0) over (alarm, power) to (1, 1).

    >>> crossover_of(1.0, 0.0), crossover_of(1.0, 1.0), round(crossover_of(1.0, 0.25), 3)
    (0.0, 0.5, 0.2)
    """
    if power < alarm:
        power, alarm = 1 - power, 1 - alarm
    if power + alarm >= 1:  # on the first piece: x = 1 - x power / alarm
        return alarm / (alarm + power) if power else 0.5
    slope = (1 - power) / (1 - alarm)
    return (1 - power + slope * alarm) / (1 + slope)
