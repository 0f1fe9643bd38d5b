"""The schedule of a posting, which is the operator's alone: when each post appears, and under which public id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl

from peerveil.core.arrays import Flags, Floats, Ints
from peerveil.core.result import Pictured, plain
from peerveil.timing.durations import in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, repr=False, eq=False)
class PostingSchedule(Pictured):
    """What only the operator may see: which post appears when, under which public id, and how long it waits.

    Arrays have one entry per event, in the order of the log; times are in microseconds.

    Attributes
    ----------
    actor, thread : arrays of int
        Who posted where, as numbers.
    arrival, posted : arrays of int
        When a post arrived, and when it appears.
    own : array of int
        When it would appear if replies were not put behind their parents.
    parent : array of int
        The row of the post that it answers, -1 if there is none.
    shuffle : array of int
        A random order, for posts that nothing else distinguishes.
    batched, adopted : arrays of bool
        Whether it got the long delay, and whether its author uses the mechanism.
    window : float
        Seconds that the mechanism takes for one sitting.
    gap : array of float or None
        The gap of each event in seconds, where they differ.
    threads, ids, rows : series
        The names of the threads; the id of each event in the log, and its row in the input, counted from 1.
    """

    operator_only: ClassVar[bool] = True

    actor: Any
    thread: Any
    arrival: Ints
    posted: Ints
    own: Ints
    parent: Ints
    shuffle: Ints
    batched: Flags
    adopted: Flags
    window: float
    gap: Floats | None
    threads: pl.Series
    ids: pl.Series
    rows: pl.Series

    def __len__(self) -> int:
        return int(self.posted.size)

    @property
    def delay(self) -> Floats:
        """Seconds from arrival to posting."""
        return (self.posted - self.arrival) / 1e6

    @property
    def early_replies(self) -> tuple[int, int]:
        """Replies that would appear before what they answer: by their own times, and as posted."""
        above = np.maximum(self.parent, 0)
        arrived = (self.parent >= 0) & (self.arrival >= self.arrival[above])  # clock errors in the log are not ours
        own, posted = (int((arrived & (times < times[above])).sum()) for times in (self.own, self.posted))
        return own, posted

    @property
    def overtaken(self) -> float:
        """The share of posts in a thread that appear before the post that arrived just before them there."""
        order = np.argsort(self.thread, kind="stable")
        same = self.thread[order][1:] == self.thread[order][:-1]
        later = self.posted[order]
        return float(np.mean((later[1:] < later[:-1])[same])) if same.any() else 0.0

    def frame(self) -> pl.DataFrame:
        """Which post gets which public id, and when to let it appear: columns row, id, thread, public_id and time.

        Where the input has no ids, ``id`` is our own number, and the row is what to look for. This is the only link
        between the two ids: keep it as safe as the log, and do not draw again.
        """
        return pl.DataFrame(
            {
                "row": self.rows,
                "id": self.ids,
                "thread": self.threads.gather(self.thread),
                "public_id": self._place() + 1,
                "time": pl.Series(self.posted).cast(pl.Datetime("us", "UTC")),
            }
        ).sort("public_id")

    def public_posts(self) -> pl.DataFrame:
        """What the public sees: columns id, thread, author, time and reply_to, in the order of posting.

        Ids are numbered in that order; authors are numbered within each thread by first appearance and mean nothing
        across threads. No other column of the log is passed on, since serial numbers and second timestamps would tell
        the order of arrival. Posts of one moment stand in the order of their own drawn times, never of their arrival.
        """
        place = self._place()
        order = np.argsort(place)
        parent = self.parent[order]
        return pl.DataFrame(
            {
                "id": np.arange(1, len(self) + 1),
                "thread": self.threads.gather(self.thread[order]),
                "author": _authors(self.thread[order].astype(np.int64), self.actor[order].astype(np.int64)),
                "time": pl.Series(self.posted[order]).cast(pl.Datetime("us", "UTC")),
                "reply_to": pl.Series(place[np.maximum(parent, 0)] + 1).set(pl.Series(parent < 0), None),
            }
        )

    def _place(self) -> Ints:
        """The place of each event in the order of posting, from 0; parents before replies of the same moment.

        Replies that waited for one parent share its moment. Their order is that of their own drawn times, which the
        guarantee covers, and random where these are equal. The order of the rows is that of arrival: it must never
        break a tie, or ids would reveal what the delays hide.
        """
        depth = np.zeros(len(self), dtype=np.int64)
        above = self.parent.copy()
        while (rows := np.flatnonzero(above >= 0)).size:
            depth[rows] += 1
            above[rows] = self.parent[above[rows]]
        return np.argsort(np.lexsort((self.shuffle, self.own, depth, self.posted)))

    def _waits(self) -> dict[str, float]:
        """Mean, median and longest delay in seconds, and early replies."""
        early, early_as_posted = self.early_replies
        return {
            "mean_delay": float(self.delay.mean()),
            "median_delay": float(np.median(self.delay)),
            "max_delay": float(self.delay.max()),
            "early_replies": early,
            "early_replies_as_posted": early_as_posted,
        }

    def summary(self) -> str:
        """How long posts wait, in one line. Not public: a mean tells how many comments came in batches."""
        mean, median, longest, early, early_as_posted = self._waits().values()
        return (
            f"delay mean {in_words(mean)}, median {in_words(median)}, longest {in_words(longest)}; replies before what they "
            f"answer: {early:,} as drawn, {early_as_posted:,} as posted"
        )

    def to_dict(self) -> dict[str, Any]:
        """Delays in seconds, early replies and the schedule, as JSON values."""
        note = {"for": "the operator only: this links public ids to the log"}
        return dict(plain({**note, **self._waits(), "schedule": self.frame()}))

    def draw(self, ax: Axes) -> None:
        """Delays of posts that got the long delay, and of all others."""
        hours = self.delay / 3600
        ax.hist([hours[self.batched], hours[~self.batched]], bins=40, stacked=True, color=["#c98a00", "#2b7bba"],
                label=["follow-ups and batches", "others"])  # fmt: skip
        ax.set(xlabel="hours from arrival to posting", ylabel="posts")
        ax.legend()


def behind_parents(own: Ints, parent: Ints) -> Ints:
    """The latest own time along the way up to the root, by doubling the step: log2(depth) passes."""
    latest, above = own.copy(), parent.copy()
    while (rows := np.flatnonzero(above >= 0)).size:
        up = above[rows]
        latest[rows], above[rows] = np.maximum(latest[rows], latest[up]), above[up]
    return latest


def _authors(thread: Ints, actor: Ints) -> Ints:
    """Authors numbered within each thread by first appearance."""
    _, first, which = np.unique(thread * (int(actor.max()) + 1) + actor, return_index=True, return_inverse=True)
    order = np.lexsort((first, thread[first]))
    home = thread[first][order]
    number = np.arange(first.size) - np.searchsorted(home, home) + 1
    return np.asarray(number[np.argsort(order)][which])
