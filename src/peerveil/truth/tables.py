"""EncodedAnswers that do not fit in memory: the same iteration as two joins and two sums, on DuckDB or Spark, through Ibis.

A pass joins the reports with the weights of workers (a small table), sums them by task, turns the sums into posteriors, joins
these with the reports again, and sums them by worker and label. What comes back is a tally of the size of the crowd; the models
that look at it are those of the memory engine, line for line. So the answers are equal on every engine, up to rounding.
"""

from __future__ import annotations

import math
import os
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.data.engines import connect, is_table, open_table, quiet
from peerveil.data.labels import check_classes
from peerveil.truth.answers import EncodedAnswers, seen_classes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from peerveil.truth.abilities import Summary

    Floats = NDArray[np.float64]

_COLUMNS: Final = ("task", "worker", "label")
_SAMPLE: Final = 2_000_000


def is_source(labels: Any) -> bool:
    """Whether this is a file name or an Ibis table, not a frame in memory."""
    return isinstance(labels, (str, os.PathLike)) or is_table(labels)


def size_of(source: Any, connection: Any = None) -> int:
    """How many reports there are."""
    with _opened(source, "duckdb", connection) as (_, table):
        return int(_arrow(table.count()).as_py())


def open_answers(source: Any, connection: Any = None) -> pl.DataFrame:
    """Everything in memory, as a frame."""
    with _opened(source, "duckdb", connection) as (_, table):
        return _polars(table.select(*_COLUMNS))


@contextmanager
def _opened(source: Any, engine: str, connection: Any) -> Iterator[tuple[Any, Any]]:
    """A connection and the table of reports on it; a connection that was made for it is closed afterwards."""
    own = connection is None and not is_table(source)
    opened = connect(engine) if own else connection
    try:
        with open_table(source, _COLUMNS, connection=opened, argument="labels") as table:
            yield (table.get_backend() if opened is None else opened), table
    finally:
        if own:
            opened.disconnect()


class TableEngine:
    """EncodedAnswers on an Ibis connection."""

    def __init__(self, connection: Any, table: Any, classes: Any, gold: Mapping[Any, Any] | None) -> None:
        self.connection, self.ibis = connection, import_module("ibis")
        self._spark = connection.name == "pyspark"
        self._names: list[str] = []
        counted = _polars(table.group_by("worker", "label").aggregate(n=table.count()))
        if counted.height == 0:
            raise BadInput("labels", got=Verbatim("no reports"), want="at least one report")
        self.classes = _listed(counted["label"], classes)
        self.k = len(self.classes)
        self.workers = counted["worker"].unique().sort()
        self._worker_code = pl.DataFrame({"worker": self.workers, "w": np.arange(self.workers.len(), dtype=np.int32)})
        self._label_code = pl.DataFrame(
            {
                "label": pl.Series(list(self.classes), dtype=counted["label"].dtype),
                "r": np.arange(self.k, dtype=np.int32),
            }
        )
        counted = counted.join(self._worker_code, on="worker").join(self._label_code, on="label")
        self._loads = np.zeros(self.workers.len(), dtype=np.int64)
        np.add.at(self._loads, counted["w"].to_numpy(), counted["n"].to_numpy())
        self.data = self._store("data", self._coded(table))
        self.tasks = int(_arrow(self.data.task.nunique()).as_py())
        self._gold = self._gold_table(gold)
        self._posterior: Any = None

    @classmethod
    @contextmanager
    def open(
        cls, labels: Any, engine: str, classes: Any, gold: Mapping[Any, Any] | None, connection: Any = None
    ) -> Iterator[TableEngine]:
        """The engine on a file, an Ibis table, or a frame in memory; what it stored is removed afterwards."""
        if is_source(labels):
            with _opened(labels, engine, connection) as (opened, table):
                yield from _closing(cls(opened, table, classes, gold))
            return
        from peerveil.data import Labels

        own = connection is None
        opened = connect(engine) if own else connection
        try:
            table = import_module("ibis").memtable(Labels.of(labels, "labels").frame.select(*_COLUMNS).to_arrow())
            yield from _closing(cls(opened, table, classes, gold))
        finally:
            if own:
                opened.disconnect()

    # ---- what an engine does ----------------------------------------------------------------------------------------

    @property
    def has_gold(self) -> bool:
        """Whether some answers are known."""
        return self._gold is not None

    def loads(self) -> NDArray[np.int64]:
        """How many reports each worker sent."""
        return self._loads

    def begin(self, start: Floats | None) -> None:
        """Posteriors are the shares of votes."""
        assert start is None
        d = self.data
        shares = {f"p{z}": (d.r == z).cast("float64").mean() for z in range(self.k)}
        self._posterior = self._store("posterior", self._with_gold(d.group_by("task").aggregate(**shares)))

    def first_tally(self, coin: bool) -> tuple[Floats, Floats]:
        """Tallies of the posteriors as they stand."""
        self._coin = coin
        return self._tally()

    def step(self, summary: Summary, log_prior: Floats) -> tuple[float, Floats, Floats]:
        """One pass: weights to posteriors, posteriors to tallies."""
        scores = self._scores(summary, log_prior)
        best = self.ibis.greatest(*(scores[f"s{z}"] for z in range(self.k)))
        shifted = scores.mutate(best=best)
        raised = shifted.mutate(**{f"e{z}": (shifted[f"s{z}"] - shifted.best).exp() for z in range(self.k)})
        total = sum((raised[f"e{z}"] for z in range(1, self.k)), raised.e0)
        summed = raised.mutate(total=total)
        posterior = summed.select(
            "task",
            *(f"s{z}" for z in range(self.k)),
            normalizer=summed.best + summed.total.ln(),
            **{f"p{z}": summed[f"e{z}"] / summed.total for z in range(self.k)},
        )
        self._posterior = self._store("posterior", self._with_gold(posterior))
        normalizer = float(_arrow(self._posterior.normalizer.sum()).as_py())
        return (normalizer, *self._tally())

    def doubt(self) -> tuple[Floats, Floats]:
        """For every worker the expected hits, and the sum of c (1 - c)."""
        shown = self._shown()
        frame = _polars(shown.group_by("w").aggregate(h=shown.shown.sum(), d=(shown.shown * (1.0 - shown.shown)).sum()))
        hits, doubt = np.zeros(self._loads.size), np.zeros(self._loads.size)
        hits[frame["w"].to_numpy()], doubt[frame["w"].to_numpy()] = frame["h"].to_numpy(), frame["d"].to_numpy()
        return hits, doubt

    def _shown(self) -> Any:
        """Every report with the probability that it shows the true class."""
        p = self._posterior.select("task", *(f"p{z}" for z in range(self.k)))
        joined = self.data.join(p, "task")
        shown = sum(
            (self.ibis.ifelse(joined.r == z, joined[f"p{z}"], 0.0) for z in range(1, self.k)),
            self.ibis.ifelse(joined.r == 0, joined.p0, 0.0),
        )
        return joined.select("w", shown=shown)

    def posterior(self) -> Floats:
        """The posteriors, in the order of the tasks' ids."""
        return self._fetched().drop("task").to_numpy()

    def tasks_series(self) -> pl.Series:
        """The tasks' ids, sorted."""
        return self._fetched()["task"]

    def sample(self) -> EncodedAnswers:
        """Whole tasks with about two million reports: what the choice of a model looks at."""
        total = int(self._loads.sum())
        d = self.data
        if total > _SAMPLE:
            stride = math.ceil(total / _SAMPLE)
            ids = d.select("task").distinct()
            place = self.ibis.row_number().over(self.ibis.window(order_by=ids.task))
            numbered = ids.mutate(place=place)
            d = d.semi_join(numbered.filter(numbered.place % stride == 0), "task")
        frame = _polars(d.select("task", "w", "r"))
        table = {"task": frame["task"], "worker": frame["w"].cast(pl.Int64), "label": frame["r"].cast(pl.Int64)}
        found = EncodedAnswers.of(pl.DataFrame(table), self.k)
        if total <= _SAMPLE:
            return found
        worker = found.workers.to_numpy()[found.worker].astype(np.int32)
        return EncodedAnswers(found.tasks, self.workers, found.classes, found.start, worker, found.label)

    # ---- inside -------------------------------------------------------------------------------------------------------

    def _scores(self, summary: Summary, log_prior: Floats) -> Any:
        """Sums of log weights by task, one column a class."""
        workers, k, d = self._loads.size, self.k, self.data
        if summary.table is None:
            assert summary.right is not None
            assert summary.wrong is not None
            frame = pl.DataFrame(
                {"w": np.arange(workers, dtype=np.int32), "gain": summary.right - summary.wrong, "wrong": summary.wrong}
            )
            joined = d.join(self._small(frame), "w")
            sums = {
                f"s{z}": joined.wrong.sum() + self.ibis.ifelse(joined.r == z, joined.gain, 0.0).sum() for z in range(k)
            }
        else:
            flat = summary.table.reshape(workers * k, k)
            frame = pl.DataFrame(
                {
                    "w": np.repeat(np.arange(workers, dtype=np.int32), k),
                    "r": np.tile(np.arange(k, dtype=np.int32), workers),
                    **{f"l{z}": flat[:, z] for z in range(k)},
                }
            )
            joined = d.join(self._small(frame), ["w", "r"])
            sums = {f"s{z}": joined[f"l{z}"].sum() for z in range(k)}
        found = joined.group_by("task").aggregate(**sums)
        return found.mutate(**{f"s{z}": found[f"s{z}"] + float(log_prior[z]) for z in range(k)})

    def _tally(self) -> tuple[Floats, Floats]:
        workers, k = self._loads.size, self.k
        p = self._posterior.select("task", *(f"p{z}" for z in range(k)))
        if self._coin:
            shown = self._shown()
            frame = _polars(shown.group_by("w").aggregate(h=shown.shown.sum()))
            tally = np.zeros(workers)
            tally[frame["w"].to_numpy()] = frame["h"].to_numpy()
        else:
            joined = self.data.join(p, "task")
            sums = {f"p{z}": joined[f"p{z}"].sum() for z in range(k)}
            frame = _polars(joined.group_by("w", "r").aggregate(**sums))
            tally = np.zeros((workers, k, k))
            rows = frame.select(*(f"p{z}" for z in range(k))).to_numpy()
            tally[frame["w"].to_numpy(), frame["r"].to_numpy()] = rows
        mass = _arrow(p.aggregate(**{f"p{z}": p[f"p{z}"].sum() for z in range(k)})).to_pylist()[0]
        return tally, np.array([mass[f"p{z}"] for z in range(k)], dtype=np.float64)

    def _coded(self, table: Any) -> Any:
        workers, labels = self._small(self._worker_code), self._small(self._label_code)
        joined = table.select(*_COLUMNS).join(workers, "worker").join(labels, "label")
        return joined.select("task", "w", "r").order_by("task")

    def _gold_table(self, gold: Mapping[Any, Any] | None) -> Any:
        if not gold:
            return None
        from peerveil.truth.given import gold_codes

        kind = _polars(self.data.select("task").limit(1))["task"].dtype
        codes = gold_codes(gold, self.classes)
        frame = pl.DataFrame({"task": pl.Series(list(gold), dtype=kind), "known": codes})
        return self._store("gold", self._small(frame))

    def _with_gold(self, posterior: Any) -> Any:
        """Posteriors with known answers put in; their normalizer is the score of the known class."""
        if self._gold is None:
            return posterior
        joined = posterior.left_join(self._gold, "task").drop("task_right")
        changes = {
            f"p{z}": self.ibis.ifelse(joined.known.isnull(), joined[f"p{z}"], (joined.known == z).cast("float64"))
            for z in range(self.k)
        }
        if "normalizer" in joined.columns:
            own = sum((self.ibis.ifelse(joined.known == z, joined[f"s{z}"], 0.0) for z in range(1, self.k)),
                      self.ibis.ifelse(joined.known == 0, joined.s0, 0.0))  # fmt: skip
            changes["normalizer"] = self.ibis.ifelse(joined.known.isnull(), joined.normalizer, own)
        return joined.mutate(**changes).drop("known")

    def _fetched(self) -> pl.DataFrame:
        columns = ["task", *(f"p{z}" for z in range(self.k))]
        return _polars(self._posterior.select(*columns)).sort("task")

    def _small(self, frame: pl.DataFrame) -> Any:
        """A table of the size of the crowd, as the connection can join it."""
        if self._spark:
            name = self._fresh("small")
            self.connection._session.createDataFrame(frame.to_pandas()).createOrReplaceTempView(name)
            return self.connection.table(name)
        return self.ibis.memtable(frame.to_arrow())

    def _fresh(self, stem: str) -> str:
        name = f"peerveil_{stem}_{os.getpid()}_{len(self._names)}"
        self._names.append(name)
        return name

    def _store(self, stem: str, expression: Any) -> Any:
        """Compute once and keep: a temporary table in DuckDB, a cached view in Spark. The old one of this name goes."""
        name = self._fresh(stem)
        if self._spark:
            frame = self.connection._session.sql(self.ibis.to_sql(expression, dialect="pyspark")).persist()
            frame.count()
            frame.createOrReplaceTempView(name)
            old = getattr(self, f"_spark_{stem}", None)
            setattr(self, f"_spark_{stem}", frame)
            if old is not None:
                old.unpersist()
            return self.connection.table(name)
        table = self.connection.create_table(name, expression, temp=True)
        old_name = getattr(self, f"_name_{stem}", None)
        setattr(self, f"_name_{stem}", name)
        if old_name is not None:
            self._drop(old_name)
        return table

    def close(self) -> None:
        """Remove what was stored."""
        for stem in ("data", "posterior", "gold"):
            if self._spark:
                frame = getattr(self, f"_spark_{stem}", None)
                if frame is not None:
                    frame.unpersist()
            else:
                name = getattr(self, f"_name_{stem}", None)
                if name is not None:
                    self._drop(name)

    def _drop(self, name: str) -> None:
        self.connection.raw_sql(f'DROP TABLE IF EXISTS "{name}"')  # Ibis 12's own drop_table fails with newer sqlglot


def _closing(engine: TableEngine) -> Iterator[TableEngine]:
    try:
        yield engine
    finally:
        engine.close()


def _listed(seen: pl.Series, classes: int | Sequence[Any] | None) -> tuple[Any, ...]:
    """The classes; a report that shows none of them is refused."""
    if classes is None:
        return tuple(seen_classes(seen))
    found = seen.unique().sort().to_list()
    listed = check_classes(classes)
    strange = [value for value in found if value not in listed]
    if strange:
        raise BadInput("labels", got=strange[0], want=f"one of the {len(listed)} classes in every report")
    return tuple(listed)


def _polars(expression: Any) -> pl.DataFrame:
    frame = pl.from_arrow(_arrow(expression))
    assert isinstance(frame, pl.DataFrame)
    return frame


def _arrow(expression: Any) -> Any:
    """What an expression gives, as Arrow."""
    with quiet():
        return expression.to_pyarrow()
