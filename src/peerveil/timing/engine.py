"""The same counts where a log does not fit into memory: Ibis on DuckDB, or on Spark, with equal answers.

Everything that the attack and the rates need is window functions and one join of each person's own events, so that a
database does it out of core. Delays are not drawn here: a database has no secure lane. Post first (in pieces, person by
person, since a status depends on one person's events only), keep the posting time as a column, and audit that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput
from peerveil.core.result import Pictured, plain
from peerveil.data import Events
from peerveil.data.engines import is_table, open_table, rows_of
from peerveil.data.table import check_mapping, is_frame
from peerveil.timing.adversary import LinkageAttack
from peerveil.timing.clock import micros
from peerveil.timing.durations import in_words, percent, read_duration

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from peerveil.timing.durations import Duration

_NEEDED: Final = ("actor", "thread", "time")


@dataclass(frozen=True)
class TableAudit(Pictured):
    """What a database counted, for the operator only; names are those of :class:`Batches` and :class:`LinkageAttack`."""

    operator_only: ClassVar[bool] = True

    events: int
    actors: int
    batched: int
    follow_ups: int
    steps: int
    close_steps: int
    mean_delay: float
    max_delay: float
    attack: LinkageAttack
    other_rate: float | None

    @property
    def same_rate(self) -> float:
        """Appendix B's first rate."""
        return self.close_steps / self.steps if self.steps else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values."""
        cut, precision, recall = self.attack.best
        return dict(plain({
            "for": "the operator only: these are facts about the people in the log",
            **{name: getattr(self, name) for name in ("events", "actors", "batched", "follow_ups", "steps", "same_rate",
                                                      "other_rate", "mean_delay", "max_delay")},
            "linkage": {"cut_off": cut, "precision": precision, "recall": recall, "pairs": self.attack.batched},
        }))  # fmt: skip

    def frame(self) -> pl.DataFrame:
        """The attack, one row per cut-off."""
        return self.attack.frame()

    def draw(self, ax: Axes) -> None:
        """Precision and recall of linking posts by time."""
        self.attack.draw(ax)

    def summary(self) -> str:
        """Events, batches and the first rate of Appendix B."""
        waits = f"; posts wait {in_words(self.mean_delay)} on average" if self.max_delay else ""
        return (
            f"{self.events:,} events by {self.actors:,} actors, {percent(self.batched / max(self.events, 1))} of them in "
            f"batches; {percent(self.same_rate)} of one person's consecutive comments on different threads are that close"
            f"{waits}"
        )

    def __str__(self) -> str:
        return f"{self.summary()}\n{self.attack}"


def audit_table(
    source: str | os.PathLike[str] | Any,
    *,
    window: Duration = 300,
    thresholds: ArrayLike = (10, 30, 60, 120, 300, 600, 1800),
    engine: str = "duckdb",
    memory: str | None = None,
    posted: str | None = None,
    baseline: bool = False,
    columns: Mapping[str, str] | None = None,
) -> TableAudit:
    """Count batches, rates and the linkage attack in a database.

    Parameters
    ----------
    source
        A Parquet or CSV file (or a pattern such as ``log/*.parquet``; Spark takes Parquet only) with columns actor, thread
        and time, or an Ibis table, a frame or Events that have them. Times are read as in memory, or refused: see
        :mod:`peerveil.timing.clock`. Times without a zone are UTC.
    window
        Seconds: two comments of one person on different threads this close are a batch.
    thresholds
        Cut-offs of the attack, in seconds.
    engine
        ``"duckdb"``, or ``"spark"``, where ``source`` is a file (see :mod:`peerveil.data.engines`).
    memory
        The most memory to use, such as ``"2GB"``; beyond it, DuckDB works on disk.
    posted
        The column with posting times; without it the attack sees arrival times.
    baseline
        Also count close pairs of different persons. That is a join of everybody with everybody within the window.
    columns
        Our names for columns that the source calls otherwise: ``{"actor": "user"}``.
    """
    micro = read_duration(window, "window", zero=True) // 1000
    limits = np.unique(np.asarray(thresholds, dtype=float))
    cut = [round(1e6 * float(x)) for x in limits]
    names = {**{name: name for name in _NEEDED}, **check_mapping(columns)}
    if set(names) != set(_NEEDED):
        raise BadInput("columns", got=columns, want=f"our names as keys: {', '.join(_NEEDED)}")
    actor, thread, time = (names[name] for name in _NEEDED)
    seen = posted or time
    wanted = [*dict.fromkeys((actor, thread, time, seen))]
    with open_table(_as_source(source), wanted, engine=engine, memory=memory, texts=[time, seen]) as table:
        times = micros(table, time)
        arrived = table.select(
            actor=table[actor], thread=table[thread], time=times, seen=micros(table, seen) if posted else times
        )
        return _audit(arrived, micro, limits, cut, baseline)


def _as_source(source: Any) -> Any:
    """A file or an Ibis table; frames and Events become one."""
    if isinstance(source, Events):
        source = source.frame
    if is_table(source) or not is_frame(source):
        return source
    import ibis

    if isinstance(source, pl.LazyFrame):
        source = source.collect()
    return ibis.memtable(source if hasattr(source, "columns") else pl.DataFrame(source))


def _audit(t: Any, micro: int, limits: Any, cut: list[int], baseline: bool) -> TableAudit:
    import ibis

    # the nearest comment of the same person on another thread lies just outside the run of comments on one thread
    mine = ibis.window(group_by=t.actor, order_by=[t.time, t.thread])
    steps = t.mutate(last_thread=t.thread.lag().over(mine), last_time=t.time.lag().over(mine))
    fresh = (steps.last_thread.isnull() | (steps.last_thread != steps.thread)).cast("int64")
    steps = steps.mutate(fresh=fresh)
    runs = steps.mutate(run=steps.fresh.sum().over(ibis.window(
        group_by=steps.actor, order_by=[steps.time, steps.thread], preceding=None, following=0)))  # fmt: skip
    ends = runs.group_by(["actor", "run"]).aggregate(start=runs.time.min(), stop=runs.time.max())
    order = ibis.window(group_by=ends.actor, order_by=ends.run)
    ends = ends.mutate(before=ends.stop.lag().over(order), after=ends.start.lead().over(order))
    joined = runs.join(ends, ["actor", "run"])
    follow = ((joined.time - joined.before) <= micro).fill_null(False)
    ahead = ((joined.after - joined.time) <= micro).fill_null(False)
    step = joined.last_thread.notnull() & (joined.last_thread != joined.thread)
    sums = joined.aggregate(
        events=joined.count(),
        actors=joined.actor.nunique(),
        follow=follow.cast("int64").sum(),
        batched=(follow | ahead).cast("int64").sum(),
        steps=step.cast("int64").sum(),
        close=(step & ((joined.time - joined.last_time) <= micro)).cast("int64").sum(),
        mean=(joined.seen - joined.time).mean(),
        longest=(joined.seen - joined.time).max(),
    )
    row = rows_of(sums)[0]
    flagged = _pairs_within(t, cut, None) - _pairs_within(t, cut, "thread")
    right = _batched_pairs(t, micro, cut)
    rate = _other_rate(t, micro, int(row["actors"])) if baseline else None
    return TableAudit(
        events=int(row["events"]),
        actors=int(row["actors"]),
        batched=int(row["batched"]),
        follow_ups=int(row["follow"]),
        steps=int(row["steps"]),
        close_steps=int(row["close"]),
        mean_delay=float(row["mean"]) / 1e6,
        max_delay=float(row["longest"]) / 1e6,
        attack=LinkageAttack(limits, flagged, right[:-1], int(right[-1])),
        other_rate=rate,
    )


def _pairs_within(t: Any, cut: list[int], group: str | None) -> Any:
    """Pairs (on one thread, if asked) that were seen within each cut-off: a sliding count, equal moments taken once."""
    import ibis

    keys = [] if group is None else [t[group]]
    counts = t.group_by([*keys, t.seen]).aggregate(n=t.count()) if keys else t.group_by(t.seen).aggregate(n=t.count())
    by = {} if group is None else {"group_by": counts[group]}
    ahead = counts.mutate(**{
        f"w{i}": counts.n.sum().over(ibis.range_window(order_by=counts.seen, preceding=limit, following=0, **by))
        for i, limit in enumerate(cut)
    })  # fmt: skip
    sums = {"tied": (ahead.n * (ahead.n - 1) / 2).sum()}
    sums |= {f"s{i}": (ahead.n * (ahead[f"w{i}"] - ahead.n)).sum() for i in range(len(cut))}
    row = rows_of(ahead.aggregate(**sums))[0]
    return np.array([round(row[f"s{i}"] + row["tied"]) for i in range(len(cut))], dtype=np.int64)


def _batched_pairs(t: Any, micro: int, cut: list[int]) -> Any:
    """Pairs of one person on different threads that arrived within the window, by how close they were seen."""
    import ibis

    numbered = t.mutate(row=ibis.row_number().over(ibis.window(group_by=t.actor, order_by=[t.time, t.thread])))
    other = numbered.view()
    pairs = numbered.join(
        other,
        [numbered.actor == other.actor, numbered.time <= other.time, other.time <= numbered.time + micro],
        rname="{name}_2",
    )
    pairs = pairs.filter((pairs.row < pairs.row_2) & (pairs.thread != pairs.thread_2))
    apart = (pairs.seen - pairs.seen_2).abs()
    sums = {f"s{i}": (apart <= limit).cast("int64").sum() for i, limit in enumerate(cut)}
    row = rows_of(pairs.aggregate(every=pairs.count(), **sums))[0]
    return np.array([*(row[f"s{i}"] or 0 for i in range(len(cut))), row["every"]], dtype=np.int64)


def _other_rate(t: Any, micro: int, people: int) -> float:
    """Appendix B's second rate."""
    if people < 2:
        return 0.0
    moments = t.select("actor", "time").distinct()
    other = moments.view()
    met = moments.join(
        other,
        [moments.actor < other.actor, other.time <= moments.time + micro, other.time >= moments.time - micro],
        rname="{name}_2",
    ).select("actor", "actor_2").distinct()  # fmt: skip
    return int(rows_of(met.aggregate(n=met.count()))[0]["n"]) / (people * (people - 1) / 2)
