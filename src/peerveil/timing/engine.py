"""The same counts where a log does not fit into memory: Ibis on DuckDB, or on Spark, with equal answers.

Everything that the attack and the rates need is window functions and one join of each person's own events, so that a
database does it out of core. Delays are not drawn here: a database has no secure lane. Post first (in pieces, person by
person, since a status depends on one person's events only), keep the posting time as a column, and audit that.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from peerveil.errors import BadInput
from peerveil.timing.adversary import LinkageAttack
from peerveil.timing.durations import read_duration

if TYPE_CHECKING:
    import os

    from numpy.typing import ArrayLike

    from peerveil.timing.durations import Duration


@dataclass(frozen=True)
class TableAudit:
    """What a database counted; the names mean what they mean in :class:`Batches` and :class:`LinkageAttack`."""

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


def audit_table(
    source: str | os.PathLike[str] | Any,
    window: Duration = 300,
    *,
    thresholds: ArrayLike = (10, 30, 60, 120, 300, 600, 1800),
    engine: str = "duckdb",
    memory: str | None = None,
    posted: str | None = None,
    baseline: bool = False,
) -> TableAudit:
    """Count batches, rates and the linkage attack in a database.

    Parameters
    ----------
    source
        A Parquet file (or a pattern such as ``log/*.parquet``) with columns actor, thread and time, the last one as a
        timestamp or whole microseconds (on Spark the latter); or an Ibis table that has them. Equal times are taken in the
        order of the column id, if there is one.
    window
        Seconds: two comments of one person on different threads this close are a batch.
    thresholds
        Cut-offs of the attack, in seconds.
    engine
        ``"duckdb"``, or ``"spark"`` (a local session is started) where ``source`` is a file.
    memory
        For DuckDB: the most memory to use, such as ``"2GB"``; beyond it, it works on disk.
    posted
        The column with posting times; without it the attack sees arrival times.
    baseline
        Also count close pairs of different persons. That is a join of everybody with everybody within the window.
    """
    if engine not in ("duckdb", "spark"):
        raise BadInput("engine", got=engine, want="'duckdb' or 'spark'")
    ibis = _ibis()
    micro = read_duration(window, "window", zero=True) // 1000
    limits = np.unique(np.asarray(thresholds, dtype=float))
    cut = [round(1e6 * float(x)) for x in limits]
    connection, table = _open(ibis, source, engine, memory)
    try:
        return _audit(ibis, table, micro, limits, cut, posted, baseline)
    finally:
        if connection is not None:
            connection.disconnect()


def _audit(
    ibis: Any, table: Any, micro: int, limits: Any, cut: list[int], posted: str | None, baseline: bool
) -> TableAudit:
    # equal times in the order of ids, where the log has them, as Events holds them
    tie = table["id"] if "id" in table.columns else table["thread"]
    time, seen = (_micro(table, name) for name in ("time", posted or "time"))
    t = table.select(actor="actor", thread="thread", time=time, seen=seen, tie=tie)
    # the nearest comment of the same person on another thread lies just outside the run of comments on one thread
    mine = ibis.window(group_by=t.actor, order_by=[t.time, t.tie])
    steps = t.mutate(last_thread=t.thread.lag().over(mine), last_time=t.time.lag().over(mine))
    fresh = (steps.last_thread.isnull() | (steps.last_thread != steps.thread)).cast("int64")
    steps = steps.mutate(fresh=fresh)
    runs = steps.mutate(run=steps.fresh.sum().over(ibis.window(
        group_by=steps.actor, order_by=[steps.time, steps.tie], preceding=None, following=0)))  # fmt: skip
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
    row = sums.to_pyarrow().to_pylist()[0]
    flagged = _pairs_within(ibis, t, cut, None) - _pairs_within(ibis, t, cut, "thread")
    right = _batched_pairs(ibis, t, micro, cut)
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


def _pairs_within(ibis: Any, t: Any, cut: list[int], group: str | None) -> Any:
    """Pairs (on one thread, if asked) that were seen within each cut-off: a sliding count, equal moments taken once."""
    keys = [] if group is None else [t[group]]
    counts = t.group_by([*keys, t.seen]).aggregate(n=t.count()) if keys else t.group_by(t.seen).aggregate(n=t.count())
    by = {} if group is None else {"group_by": counts[group]}
    ahead = counts.mutate(**{
        f"w{i}": counts.n.sum().over(ibis.range_window(order_by=counts.seen, preceding=limit, following=0, **by))
        for i, limit in enumerate(cut)
    })  # fmt: skip
    sums = {"tied": (ahead.n * (ahead.n - 1) / 2).sum()}
    sums |= {f"s{i}": (ahead.n * (ahead[f"w{i}"] - ahead.n)).sum() for i in range(len(cut))}
    row = ahead.aggregate(**sums).to_pyarrow().to_pylist()[0]
    return np.array([round(row[f"s{i}"] + row["tied"]) for i in range(len(cut))], dtype=np.int64)


def _batched_pairs(ibis: Any, t: Any, micro: int, cut: list[int]) -> Any:
    """Pairs of one person on different threads that arrived within the window, by how close they were seen."""
    numbered = t.mutate(row=ibis.row_number().over(ibis.window(order_by=[t.actor, t.time, t.tie])))
    other = numbered.view()
    pairs = numbered.join(
        other,
        [numbered.actor == other.actor, numbered.time <= other.time, other.time <= numbered.time + micro],
        rname="{name}_2",
    )
    pairs = pairs.filter((pairs.row < pairs.row_2) & (pairs.thread != pairs.thread_2))
    apart = (pairs.seen - pairs.seen_2).abs()
    sums = {f"s{i}": (apart <= limit).cast("int64").sum() for i, limit in enumerate(cut)}
    row = pairs.aggregate(every=pairs.count(), **sums).to_pyarrow().to_pylist()[0]
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
    return int(met.count().to_pyarrow().as_py()) / (people * (people - 1) / 2)


def _micro(table: Any, name: str) -> Any:
    """Whole microseconds since 1970."""
    if name not in table.columns:
        raise BadInput("posted", got=name, want=f"one of the columns {', '.join(table.columns)}")
    column = table[name]
    if column.type().is_integer():
        return column
    if table.get_backend().name == "pyspark":  # it cannot take microseconds out of a timestamp
        raise BadInput(name, got=str(column.type()), want="whole microseconds since 1970 on Spark")
    return column.truncate("s").epoch_seconds().cast("int64") * 1_000_000 + column.microsecond()


def _ibis() -> Any:
    try:
        return import_module("ibis")
    except ImportError:
        raise BadInput(
            "engine", got="no Ibis", want="pip install 'ibis-framework[duckdb]' for logs beyond memory"
        ) from None


def _open(ibis: Any, source: Any, engine: str, memory: str | None) -> tuple[Any, Any]:
    if hasattr(source, "columns") and hasattr(source, "to_pyarrow"):
        return None, _with_columns(source)
    if engine == "duckdb":
        connection = ibis.duckdb.connect(**({"memory_limit": memory} if memory else {}))
        connection.raw_sql("SET TimeZone = 'UTC'")
    else:
        try:
            builder = import_module("pyspark.sql").SparkSession.builder
        except ImportError:
            raise BadInput("engine", got=engine, want="pip install pyspark (and Java) for the Spark engine") from None
        session = builder.appName("peerveil").config("spark.sql.session.timeZone", "UTC").getOrCreate()
        connection = ibis.pyspark.connect(session)
    return connection, _with_columns(connection.read_parquet(str(source)))


def _with_columns(table: Any) -> Any:
    missing = [name for name in ("actor", "thread", "time") if name not in table.columns]
    if missing:
        raise BadInput("source", got=list(table.columns), want=f"columns actor, thread and time; {missing} missing")
    return table
