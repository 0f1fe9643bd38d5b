"""The order in which posts arrived and the order in which they appear, where times are equal.

**Arrival**: as the file has them, or at random where the file cannot say.

Status by predecessor (:class:`peerveil.timing.FollowUp`) delays the *second* of two posts. Which one is second must not
be made up from names: sorted by thread, a post that followed another in the same moment could be taken for the first
one and be posted at once, which is impossible in the harmless case, so that the likelihood ratio would be infinite.

**The order of the file** is taken as that of arrival (from below, if it is newest first throughout). With it, neighbors are
those of the mechanism: c' moves right behind c in the file as well, c and every third post keep their status, and the
mechanism's proof applies as it stands.

**A file that is sorted by actor** cannot say: within every moment, or over all times. Then the order within a moment is
drawn at random, independently of names and contents. *Neighbors there*: a random one of c and c' came first, each with
probability 1/2, in the harmless log and in the sensitive one.
*Proof.* Given which one came first, this is the case above, with ratio at most e^epsilon; the probability of that is 1/2
in both logs, so the ratio of the two averages is at most e^epsilon too. (By names instead of at random, the sensitive
log would always have the same order, and the ratio could be 2 e^epsilon.) Somebody who knows which of the two came
first in the harmless log is *not* covered: only the file could have told us. How a file is sorted is taken as public.

A file that is sorted in another way, by thread for example, looks like arrivals: bring logs as they were written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from peerveil.timing.batches import codes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from peerveil.core.randomness import Randomness
    from peerveil.data import Events
    from peerveil.timing.schedule import PostingSchedule

    Whole = NDArray[np.int64]

ORDER_UNKNOWN = (
    "the log is sorted by actor and does not say which of two comments of the same moment came first, so this is drawn at "
    "random; either order is taken as equally likely in both cases"
)


def file_order(events: Events) -> tuple[Whole, bool]:
    """The events by time, equal times as in the file (as positions in the table), and whether that is how they arrived.

    >>> from peerveil.data import Events
    >>> log = Events(actor=["ann", "ann"], thread=["T", "S"], time=[1e9, 1e9])
    >>> order, known = file_order(log)
    >>> log.frame["thread"].gather(order).to_list(), known
    (['T', 'S'], True)
    """
    actor, _, times = codes(events)
    rows = events.rows
    in_file = times[np.argsort(rows)]
    oldest_first, newest_first = (in_file[1:] >= in_file[:-1]).all(), (in_file[1:] <= in_file[:-1]).all()
    order = np.lexsort((-rows if newest_first and not oldest_first else rows, times))
    tied = np.diff(times[order]) == 0
    in_time = oldest_first or newest_first
    whole = np.diff(actor[np.argsort(rows)].astype(np.int64))
    known = not _sorted(np.diff(actor[order].astype(np.int64))[tied]) and (in_time or not _sorted(whole))
    return order, bool(known)


def shuffle_ties(order: Whole, times: Whole, randomness: Randomness) -> Whole:
    """The same order by time, with events of one moment in random order."""
    if not (np.diff(times[order]) == 0).any():
        return order
    return np.lexsort((randomness.permutation(times.size), times))


def _sorted(steps: Whole) -> bool:
    """Whether there are steps from one actor to another, all of them upward or all downward."""
    return bool((steps != 0).any() and ((steps >= 0).all() or (steps <= 0).all()))


def parents_of(events: Events) -> Whole:
    """The row of what each event answers, -1 where it answers nothing."""
    if not events.has_replies:
        return np.full(len(events), -1, dtype=np.int64)
    frame = events.frame
    rows = pl.DataFrame({"id": frame["id"].cast(frame["reply_to"].dtype)}).with_row_index("row")
    found = pl.DataFrame({"id": frame["reply_to"]}).join(rows, on="id", how="left", maintain_order="left")["row"]
    return found.cast(pl.Int64).fill_null(-1).to_numpy().astype(np.int64)


def behind_parents(own: Whole, parent: Whole) -> Whole:
    """The latest own time along the way up to the root, by doubling the step: log2(depth) passes."""
    latest, above = own.copy(), parent.copy()
    while True:
        going = np.flatnonzero(above >= 0)
        if not going.size:
            return latest
        up = above[going]
        latest[going], above[going] = np.maximum(latest[going], latest[up]), above[up]


def posting_order(schedule: PostingSchedule) -> Whole:
    """The order of posting; parents before replies that appear in the same moment.

    Replies that waited for one parent share its moment. Their order is that of their own drawn times, which the
    guarantee covers, and random where these are equal. The order of the rows is that of arrival: it must never break
    a tie, or ids would tell what the delays hide.
    """
    depth = np.zeros(schedule.posted.size, dtype=np.int64)
    above = schedule.parent.copy()
    while (going := np.flatnonzero(above >= 0)).size:
        depth[going] += 1
        above[going] = schedule.parent[above[going]]
    return np.lexsort((schedule.shuffle, schedule.own, depth, schedule.posted))
