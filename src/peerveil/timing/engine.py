"""The audit of a log larger than memory: the same counts through Ibis, on DuckDB or Spark.

Everything that the attack and the rates need is window functions and one join of each person's own events, so that a
database does it out of core. Delays are not drawn here: a database has no secure randomness. Post first (in pieces, person
by person, since a status depends on one person's events only), keep the posting time as a column, and audit that.

**Times** are read by the rules of :mod:`peerveil.data.times`. Every kind of time that is read in memory is read here to the
same microsecond, or refused with the name of its column: timestamps of any unit, dates, numbers since 1970 (seconds to
nanoseconds, by their size), and texts. Times without a zone are UTC. Only texts of one layout are accepted, so that no
database guesses: ``2026-03-01T09:30:00.25+02:00`` (or a space for the ``T``; seconds, fraction and zone may be left out, the
zone in all rows or in none), ``2026-03-01``, and numbers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from peerveil.core.arrays import Floats, Ints
from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.result import Pictured, plain
from peerveil.data import Events
from peerveil.data.engines import builtin, is_table, load_ibis, open_table, rows_of
from peerveil.data.schema import EVENTS
from peerveil.data.table import check_mapping, is_frame
from peerveil.data.times import in_calendar, unit_of
from peerveil.timing.adversary import LinkageAttack
from peerveil.timing.durations import Duration, in_words, percent, read_duration
from peerveil.timing.log import FACTS_ABOUT_PEOPLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_NEEDED: Final = ("actor", "thread", "time")
_DAY: Final = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK: Final = "[T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?"
_NO_SECONDS: Final = "(?<=[T ][0-9]{2}:[0-9]{2})(?=[Z+-])"
_LAYOUTS: Final = {
    "int64": "^-?[0-9]+$",
    "float64": "^-?[0-9]+([.][0-9]*)?([eE][+]?[0-9]+)?$",
    "timestamp": f"^{_DAY}({_CLOCK})?$",
    "timestamp('UTC')": f"^{_DAY}{_CLOCK}(Z|[+-][0-9]{{2}}(:?[0-9]{{2}})?)$",
}
_WANT: Final = (
    "timestamps, dates, numbers since 1970, or texts such as 2026-03-01T09:30:00Z that all say their zone or all leave it "
    "out (without an engine, in memory, more layouts are read)"
)


@dataclass(frozen=True)
class TableAudit(Pictured):
    """Counts of a database, for the operator only; names are those of :class:`Batches` and :class:`LinkageAttack`."""

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
        counts = {name: plain(value) for name, value in vars(self).items() if name not in ("attack", "close_steps")}
        linkage = {**self.attack.at_half._asdict(), "pairs": self.attack.batched}
        return {"for": FACTS_ABOUT_PEOPLE, **counts, "same_rate": self.same_rate, "linkage": linkage}

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
        and time, or an Ibis table, a frame or Events that have them.
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
    window_micros = read_duration(window, "window", zero=True) // 1000
    limits = np.unique(np.asarray(thresholds, dtype=float))
    mapping = check_mapping(columns)
    names = {**{name: name for name in _NEEDED}, **mapping}
    if set(names) != set(_NEEDED):
        raise BadInput("columns", got=columns, want=f"our names as keys: {', '.join(_NEEDED)}")
    actor, thread, time = (names[name] for name in _NEEDED)
    public = posted or time
    needed = [*dict.fromkeys((actor, thread, time, public))]
    with open_table(
        _as_source(source), needed, engine=engine, memory=memory, texts=[time, public], schema=EVENTS, mapping=mapping
    ) as table:
        times = micros(table, time)
        public_times = micros(table, posted) if posted else times
        log = table.select(actor=table[actor], thread=table[thread], time=times, public=public_times)
        return _audit(log, window_micros, limits, baseline)


def _as_source(source: Any) -> Any:
    """A file or an Ibis table; frames and Events become one."""
    if isinstance(source, Events):
        source = source.frame
    if is_table(source) or not is_frame(source):
        return source
    return load_ibis().memtable(pl.DataFrame(source) if isinstance(source, Mapping) else source)


def _audit(log: Any, window: int, limits: Floats, baseline: bool) -> TableAudit:
    # the nearest comment of the same person on another thread comes just outside the run of comments on one thread
    # rows that say the same are counted as one: a database puts them in another order in every pass
    moments = log.group_by(["actor", "thread", "time"]).aggregate(n=log.count())
    own = {"group_by": "actor", "order_by": ["time", "thread"]}
    steps = moments.mutate(last_thread=moments.thread.lag().over(**own), last_time=moments.time.lag().over(**own))
    steps = steps.mutate(fresh=(steps.last_thread.isnull() | (steps.last_thread != steps.thread)).cast("int64"))
    runs = steps.mutate(run=steps.fresh.sum().over(rows=(None, 0), **own))
    ends = runs.group_by(["actor", "run"]).aggregate(start=runs.time.min(), stop=runs.time.max())
    by_run = {"group_by": "actor", "order_by": "run"}
    ends = ends.mutate(before=ends.stop.lag().over(**by_run), after=ends.start.lead().over(**by_run))
    joined = runs.join(ends, ["actor", "run"])
    follow_up = ((joined.time - joined.before) <= window).fill_null(False)
    batched = follow_up | ((joined.after - joined.time) <= window).fill_null(False)
    step = joined.last_thread.notnull() & (joined.last_thread != joined.thread)
    counts = {
        "batched": batched.cast("int64") * joined.n,
        "follow_ups": follow_up.cast("int64") * joined.n,
        "steps": step.cast("int64"),
        "close_steps": (step & ((joined.time - joined.last_time) <= window)).fill_null(False).cast("int64"),
    }
    sums = {name: values.sum() for name, values in counts.items()}
    row = rows_of(joined.aggregate(actors=joined.actor.nunique(), **sums))[0]
    delay = log.public - log.time
    row |= rows_of(log.aggregate(events=log.count(), mean_delay=delay.mean(), max_delay=delay.max()))[0]
    cut = [round(1e6 * float(limit)) for limit in limits]
    flagged = _pairs_within(log, cut, None) - _pairs_within(log, cut, "thread")
    right = _batched_pairs(log, window, cut)
    return TableAudit(
        **{name: int(row[name]) for name in ("events", "actors", *counts)},
        mean_delay=float(row["mean_delay"]) / 1e6,
        max_delay=float(row["max_delay"]) / 1e6,
        attack=LinkageAttack(limits, flagged, right[:-1], int(right[-1])),
        other_rate=_other_rate(log, window, int(row["actors"])) if baseline else None,
    )


def _pairs_within(log: Any, cut: list[int], group: str | None) -> Ints:
    """Pairs (on one thread, if a group is named) that appeared within each cut-off: a sliding count by moment."""
    by = [] if group is None else [group]
    counts = log.group_by([*by, "public"]).aggregate(n=log.count())
    near = {
        f"w{i}": counts.n.sum().over(range=(-limit, 0), group_by=by, order_by="public") for i, limit in enumerate(cut)
    }
    ahead = counts.mutate(**near)
    sums = {"tied": (ahead.n * (ahead.n - 1) / 2).sum()}
    sums |= {f"s{i}": (ahead.n * (ahead[f"w{i}"] - ahead.n)).sum() for i in range(len(cut))}
    row = rows_of(ahead.aggregate(**sums))[0]
    return np.array([round(row[f"s{i}"] + row["tied"]) for i in range(len(cut))], dtype=np.int64)


def _batched_pairs(log: Any, window: int, cut: list[int]) -> Ints:
    """Pairs of one person on different threads that arrived within the window, by how close they appeared."""
    first = log.mutate(row=load_ibis().row_number().over(group_by=log.actor, order_by=[log.time, log.thread]))
    later = first.view()
    same_sitting = [first.actor == later.actor, first.time <= later.time, later.time <= first.time + window]
    pairs = first.join(later, same_sitting, rname="{name}_2")
    pairs = pairs.filter((pairs.row < pairs.row_2) & (pairs.thread != pairs.thread_2))
    apart = (pairs.public - pairs.public_2).abs()
    sums = {f"s{i}": (apart <= limit).cast("int64").sum() for i, limit in enumerate(cut)}
    row = rows_of(pairs.aggregate(every=pairs.count(), **sums))[0]
    return np.array([*(row[f"s{i}"] or 0 for i in range(len(cut))), row["every"]], dtype=np.int64)


def _other_rate(log: Any, window: int, people: int) -> float:
    """Appendix B's second rate."""
    if people < 2:
        return 0.0
    moments = log.select("actor", "time").distinct()
    other = moments.view()
    close = [moments.actor < other.actor, other.time <= moments.time + window, other.time >= moments.time - window]
    met = moments.join(other, close, rname="{name}_2").select("actor", "actor_2").distinct()
    return int(rows_of(met.aggregate(n=met.count()))[0]["n"]) / (people * (people - 1) / 2)


def micros(table: Any, name: str) -> Any:
    """A column of times as whole microseconds since 1970."""
    column = table[name]
    kind = column.type()
    if kind.is_string():
        column = _from_text(table, name)
        kind = column.type()
    if kind.is_integer() or kind.is_floating() or kind.is_decimal():
        return _from_numbers(table, column, name)
    backend = table.get_backend().name
    if kind.is_date():
        column = column.cast("timestamp")
    elif backend == "duckdb" and (str(kind).startswith("timestamp(9") or "TIMESTAMPTZ_NS" in str(kind)):
        return _thousandth(builtin("epoch_ns")(column))  # epoch_us would round what is finer than a microsecond
    elif not kind.is_timestamp():
        raise BadInput(name, got=Verbatim(f"a column of {kind}"), want=_WANT)
    if backend == "pyspark":
        return builtin("unix_micros")(column.cast("timestamp('UTC')"))
    if backend == "duckdb":
        return builtin("epoch_us")(column)
    return column.truncate("s").epoch_seconds().cast("int64") * 1_000_000 + column.microsecond()


def _from_text(table: Any, name: str) -> Any:
    """Texts as what all of them are: whole numbers, numbers, times without a zone, or times with one."""
    column = table[name]
    counts = {kind: column.re_search(layout).cast("int64").sum() for kind, layout in _LAYOUTS.items()}
    row = rows_of(table.aggregate(every=column.count(), **{f"n{i}": n for i, n in enumerate(counts.values())}))[0]
    if table.get_backend().name == "pyspark":  # which reads no zone behind minutes
        column = column.re_replace(_NO_SECONDS, ":00")
    for place, kind in enumerate(counts):
        if row[f"n{place}"] == row["every"]:
            times = column.try_cast(kind)
            if not rows_of(table.aggregate(n=times.isnull().cast("int64").sum()))[0]["n"]:
                return times
    example = rows_of(table.aggregate(low=column.min(), high=column.max()))[0]
    got = Verbatim(f"texts such as {example['low']!r} and {example['high']!r}")
    raise BadInput(name, got=got, want=_WANT)


def _from_numbers(table: Any, column: Any, name: str) -> Any:
    """Numbers since 1970 in the unit that their size says, one for the whole column."""
    floats = column.cast("float64")
    integer = column.type().is_integer()
    if not integer:
        wrong = rows_of(table.aggregate(n=(floats.isnan() | floats.isinf()).cast("int64").sum()))[0]["n"]
        if wrong:
            raise BadInput(name, got=Verbatim(f"{wrong:,} rows that are no finite number"), want=_WANT)
    ends = {"low": floats.min(), "high": floats.max(), "least": floats.abs().min(), "most": floats.abs().max()}
    low, high, least, most = (float(end or 0) for end in rows_of(table.aggregate(**ends))[0].values())
    step = unit_of(most)
    if unit_of(least) != step:
        got = Verbatim(f"numbers of the sizes {least:.6g} and {most:.6g}")
        raise BadInput(name, got=got, want="one unit for the whole column (seconds, milliseconds, ...)")
    if not all(in_calendar(end * step) for end in (low, high)):
        raise BadInput(name, got=low, want="times between the years 1 and 9999")
    if not integer:
        return (floats * step + 0.5).floor().cast("int64")
    return column.cast("int64") * int(step) if step >= 1 else _thousandth(column.cast("int64"))


def _thousandth(nanos: Any) -> Any:
    """Nanoseconds as microseconds, rounded down; what is divided is a multiple, so that floats give it exactly."""
    return ((nanos - (nanos % 1000 + 1000) % 1000) / 1000).round().cast("int64")
