"""Sittings that span communities: what is missed where each community recognizes its own follow-ups.

The guarantee is about one history. If every community of a platform (a venue, a forum's category, a file of its own) is
delayed by itself, a post that follows one of the same person *in another community* counts as alone there, waits as little as
any lone post, and nothing is guaranteed about it. Give all communities one log, or one gateway.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl

from peerveil.core.result import Pictured
from peerveil.timing.batches import in_place, nearest_elsewhere
from peerveil.timing.durations import Duration, percent, read_duration
from peerveil.timing.log import codes, read_log

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Communities(Pictured):
    """Result of :func:`missed_follow_ups`, for the operator only: one entry per community, that of most missed first."""

    operator_only: ClassVar[bool] = True

    community: tuple[str, ...]
    follow_ups: tuple[int, ...]
    """Posts that follow one of the same person on another thread of any community."""
    missed: tuple[int, ...]
    """Those of them that no post in their own community shows to be follow-ups."""

    @property
    def share(self) -> float:
        """Of all follow-ups, the share that is missed; 0 if there are none."""
        return sum(self.missed) / max(sum(self.follow_ups), 1)

    def frame(self) -> pl.DataFrame:
        """One row per community."""
        counts = {"community": self.community, "follow_ups": self.follow_ups, "missed": self.missed}
        types = {"community": pl.String, "follow_ups": pl.Int64, "missed": pl.Int64}
        share = pl.col("missed") / pl.max_horizontal("follow_ups", 1)
        return pl.DataFrame(counts, schema=types).with_columns(missed_share=share)

    def draw(self, ax: Axes) -> None:
        """Missed follow-ups of the communities that miss most."""
        top = self.frame().head(12)
        ax.barh(top["community"].to_list(), 100 * top["missed_share"].to_numpy(), color="#c98a00")
        ax.invert_yaxis()
        ax.set(xlabel="follow-ups missed if this community is delayed by itself (%)")

    def summary(self) -> str:
        """How many follow-ups would be missed."""
        text = (
            f"if each of {len(self.community):,} communities were delayed by itself, {percent(self.share)} of "
            f"{sum(self.follow_ups):,} follow-ups ({sum(self.missed):,}) would be missed: they follow a post in another "
            "community, and would wait as little as posts that stand alone"
        )
        if not sum(self.missed):
            return text
        return f"{text}; most in {self.community[0]}: {self.missed[0]:,} of {self.follow_ups[0]:,}"


def missed_follow_ups(
    events: Any, *, community: str, window: Duration = 300, columns: Mapping[str, str] | None = None
) -> Communities:
    """Count the follow-ups that each community would miss if it knew its own posts only.

    Parameters
    ----------
    events, columns
        The log of all communities together, as in :func:`find_batches`.
    community
        The column that says where a post was written.
    window
        Seconds: posts of one person on different threads this close are one sitting.

    >>> log = pl.DataFrame(
    ...     {
    ...         "actor": ["ann"] * 4,
    ...         "thread": list("ABCD"),
    ...         "time": [1e9, 1e9 + 60, 1e9 + 90, 2e9],
    ...         "venue": ["x", "y", "y", "x"],
    ...     }
    ... )
    >>> missed_follow_ups(log, community="venue").frame().rows()
    [('y', 2, 1, 0.5), ('x', 0, 0, 0.0)]
    """
    log = read_log(events, "events", columns=columns, group=community)
    micros = read_duration(window, "window", zero=True) // 1000
    where, names = log.numbered(community)
    actor, thread, times = codes(log)
    follows = _follows(actor, thread, times, micros)
    alone = actor.astype(np.int64) * len(names) + where
    missed = follows & ~_follows(alone, thread, times, micros)
    every, lost = (np.bincount(where[flags], minlength=len(names)) for flags in (follows, missed))
    order = np.lexsort((-every, -lost))
    texts = names.cast(pl.String).to_list()
    return Communities(tuple(texts[i] for i in order), tuple(every[order].tolist()), tuple(lost[order].tolist()))


def _follows(actor: Any, thread: Any, times: Any, micros: int) -> Any:
    """Which posts follow one of the same person on another thread within the window, in the order of the log."""
    order, before, _ = nearest_elsewhere(actor, thread, times)
    return in_place(before <= micros, order)
