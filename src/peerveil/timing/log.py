"""A log of posts: how it is read, in which order its posts arrived, and which post answers which.

**The order of arrival where times are equal** is the order of the file, or random where the file cannot say.

:class:`peerveil.timing.FollowUp` delays the *second* of two posts. Which one is second must not be derived from names:
sorted by thread, a post that followed another in the same moment could be taken for the first one and be posted at
once, which is impossible in the harmless case, so that the likelihood ratio would be infinite.

**The order of the file** is taken as that of arrival (from below, if it is newest first throughout). With it, neighbors are
those of the mechanism: c' moves right behind c in the file as well, c and every third post keep their status, and the
mechanism's proof applies as it stands.

**A file that is sorted by actor** cannot say: over all times, or within every moment (:data:`LEAST_STEPS` steps from one
actor to another, all upward or all downward; fewer are chance, and the order of the file stands). Then the order within a
moment is drawn at random, independently of names and contents. *Neighbors there*: both logs are sorted in this way, and a
random one of c and c' came first, each with probability 1/2, in the harmless log and in the sensitive one.
*Proof.* Given which one came first, this is the case above, with ratio at most e^epsilon; the probability of that is 1/2
in both logs, so the ratio of the two averages is at most e^epsilon too. (By names instead of at random, the sensitive
log would always have the same order, and the ratio could be 2 e^epsilon.) Somebody who knows which of the two came
first in the harmless log is *not* covered: only the file could have told us. How a file is sorted is taken as public.

A file that is sorted in another way, by thread for example, looks like arrivals: use logs as they were written.

**Identifiers and second timestamps** reveal the order of arrival whatever the public time says. OpenReview publishes
``tcdate`` (the true moment of creation, in milliseconds) and ``number`` (a serial number) beside a post; HotCRP letters
reviews in order. A delay of the public time is worth nothing while these are public too: :func:`find_leaks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from peerveil.data import Events
from peerveil.data.schema import ORDER_LEAKS, SECOND_CLOCKS
from peerveil.data.table import is_frame

if TYPE_CHECKING:
    from peerveil.core.arrays import Ints
    from peerveil.core.randomness import Randomness

LEAST_STEPS = 7
"""So many steps between actors in equal moments are all upward or all downward by chance in 1.6% of logs."""
FACTS_ABOUT_PEOPLE = "the operator only: these are facts about the people in the log"
ORDER_UNKNOWN = (
    "the log is sorted by actor and does not say which of two comments of the same moment came first, so this is drawn at "
    "random; in both cases the log is sorted in the same way, and either order is taken as equally likely"
)


def read_log(data: Any, argument: str, *, columns: Mapping[str, str] | None = None, group: Any = None) -> Events:
    """Events from a table, frame or file, with the columns that can reveal an order and ``group`` (a name, or a list).

    >>> import polars as pl
    >>> frame = pl.DataFrame({"actor": ["a"], "thread": [1], "time": [1e9], "track": ["theory"], "number": [7]})
    >>> read_log(frame, "events", group="track").extra, read_log(frame, "events").extra
    (('number', 'track'), ('number',))
    """
    events = Events.of(data, argument, columns=columns)
    groups = [group] if isinstance(group, str) else group if isinstance(group, list) else []
    further = [name for name in dict.fromkeys(groups) if name not in events.frame.columns]
    if not further or isinstance(data, Events):
        return events
    # naming one further column must not drop those that can reveal an order
    extra = [*(name for name in events.extra if name in ORDER_LEAKS and name not in further), *further]
    if is_frame(data):
        return Events.from_frame(data, columns=columns, extra=extra)
    return Events.read(data, columns=columns, extra=extra)


def codes(events: Events) -> tuple[Any, Any, Ints]:
    """Actors and threads as whole numbers, and times in microseconds."""
    return events.numbered("actor")[0], events.numbered("thread")[0], np.asarray(events.times, dtype=np.int64)


def groups_of(events: Events, within: Any) -> Any:
    """One value per event: those of a column, if ``within`` is its name."""
    return events.numbered(within)[0] if isinstance(within, str) else within


def file_order(events: Events) -> tuple[Ints, bool]:
    """The events by time, equal times as in the file (as positions in the table), and whether that is how they arrived.

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
    actor_steps = np.diff(actor[np.argsort(rows)].astype(np.int64))
    tied_steps = np.diff(actor[order].astype(np.int64))[tied]
    return order, not (
        _is_sorted(tied_steps, LEAST_STEPS) or (not (oldest_first or newest_first) and _is_sorted(actor_steps))
    )


def _is_sorted(steps: Ints, least: int = 1) -> bool:
    """Whether there are enough steps from one actor to another, all of them upward or all downward."""
    return bool((steps != 0).sum() >= least and ((steps >= 0).all() or (steps <= 0).all()))


def shuffle_ties(order: Ints, times: Ints, randomness: Randomness) -> Ints:
    """The same order by time, with events of one moment in random order."""
    if not (np.diff(times[order]) == 0).any():
        return order
    return np.lexsort((randomness.permutation(times.size), times))


def parents_of(events: Events) -> Ints:
    """The row of what each event answers, -1 where it answers nothing."""
    frame = events.frame
    if not events.has_replies:
        return np.full(len(events), -1, dtype=np.int64)
    rows = pl.DataFrame({"id": frame["id"].cast(frame["reply_to"].dtype)}).with_row_index("row")
    parents = pl.DataFrame({"id": frame["reply_to"]}).join(rows, on="id", how="left", maintain_order="left")["row"]
    return parents.cast(pl.Int64).fill_null(-1).to_numpy().astype(np.int64)


# ---- what else reveals the order of arrival ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Leak:
    """A column that reveals the order in which events arrived."""

    column: str
    kind: str
    """``"second clock"`` or ``"serial number"``."""
    agreement: float
    """Of neighboring events of a thread (of the log, if that reveals more), the share in the same order as the column."""
    scope: str
    """``"thread"`` or ``"log"``: where the order is revealed."""

    @property
    def advice(self) -> str:
        """What to do about it."""
        what = "publish the posting time instead" if self.kind == "second clock" else "number posts when they appear"
        return f"leave {self.column!r} out of what is public, or {what}"

    def __str__(self) -> str:
        return (
            f"{self.column} ({self.kind}) follows the order of arrival in {100 * self.agreement:.3g}% of neighboring "
            f"events of a {self.scope}: {self.advice}"
        )


def find_leaks(events: Any, *, least: float = 0.8, columns: Mapping[str, str] | None = None) -> list[Leak]:
    """Columns of the log that follow the order of arrival in at least this share of cases.

    >>> from peerveil.data import Events
    >>> log = Events(actor=list("abab"), thread=[1, 1, 2, 2], time=[1e9, 2e9, 3e9, 4e9], extra={"number": [1, 2, 1, 2]})
    >>> [(leak.column, leak.agreement, leak.scope) for leak in find_leaks(log)]
    [('number', 1.0, 'thread')]
    """
    log = Events.of(events, "events", columns=columns)
    _, thread, times = codes(log)
    leaks = []
    for name in [*(name for name in log.extra if name in ORDER_LEAKS), *_own_ids(log)]:
        values = _as_numbers(log.frame[name])
        if values is None:
            continue
        by_thread = _agreement(values, times, np.argsort(thread, kind="stable"), thread)
        overall = _agreement(values, times, np.arange(times.size), None)
        scope, share = max(("log", overall), ("thread", by_thread), key=lambda pair: pair[1])
        if share >= least:
            leaks.append(Leak(name, "second clock" if name in SECOND_CLOCKS else "serial number", share, scope))
    return leaks


def _own_ids(log: Events) -> list[str]:
    """The ids themselves, if they are numbers of the log's own and not ours."""
    ids = log.frame["id"]
    return ["id"] if ids.dtype.is_integer() and (ids.sort() != pl.int_range(len(log), eager=True)).any() else []


def _as_numbers(series: pl.Series) -> Any:
    """A column as numbers that sort as it does; letters A, B, ..., Z, AA as people count them."""
    if series.dtype.is_temporal():
        series = series.cast(pl.Int64)
    elif series.dtype == pl.String:
        numbers = series.cast(pl.Int64, strict=False)
        if numbers.null_count() > series.null_count():
            letters = series.str.to_uppercase()
            numbers = (letters.str.len_chars() * 1_000_000_000 + letters.rank("dense")).cast(pl.Int64)
        series = numbers
    elif not series.dtype.is_numeric():
        return None
    return series.cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _agreement(values: Any, times: Any, order: Any, thread: Any) -> float:
    """The share of neighbors (in one thread) in the same order by the column as by arrival; 0 if there are none."""
    values = values[order]
    chosen = (np.diff(times[order]) > 0) & ~np.isnan(values[1:]) & ~np.isnan(values[:-1])
    if thread is not None:
        chosen &= np.diff(thread[order]) == 0
    return float(np.mean((np.diff(values) > 0)[chosen])) if chosen.any() else 0.0
