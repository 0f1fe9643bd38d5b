"""The engine for answers that need not fit in memory: E-steps as two joins and two sums, on DuckDB or Spark, through Ibis.

An E-step joins the answers with the weights of workers (a small table), sums them by task, turns the sums into posteriors, joins
these with the answers again, and sums them by worker and label. Counts of the size of the crowd come back; the models that read
them are those of the memory engine. So the results are equal on every engine, up to rounding.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial, reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.data import Labels
from peerveil.data.engines import connect, is_table, load_ibis, open_table, quiet
from peerveil.data.labels import check_classes
from peerveil.data.schema import LABELS
from peerveil.truth.answers import ById, EncodedAnswers, encode_known, observed_classes
from peerveil.truth.em import CoinWeights, Counted, EStep, ExpectedCounts, Parameters

if TYPE_CHECKING:
    from ibis.backends import BaseBackend
    from ibis.expr.types import Table, Value

    from peerveil.core.arrays import Floats

_COLUMNS: Final = ("task", "worker", "label")


def is_source(labels: object) -> bool:
    """Whether this is a file name or an Ibis table, not a frame in memory."""
    return isinstance(labels, (str, os.PathLike)) or is_table(labels)


def count_answers(source: object, connection: BaseBackend | None = None) -> int:
    """How many answers there are; of files that only memory can read, 0."""
    if connection is None and not is_table(source):
        return sum(_rows(path) for path in _files(source))
    with open_answer_table(source, "duckdb", connection) as (_, table):
        return int(_polars(table.aggregate(n=table.count())).item())


def open_answers(source: object, connection: BaseBackend | None = None) -> pl.DataFrame:
    """All answers in memory, as a frame."""
    if connection is None and not is_table(source):
        tables = [Labels.of(path, "labels").frame for path in _files(source)]
        frames = [table.select(_kept(table.columns)) for table in tables]
        try:
            return pl.concat(frames)
        except pl.exceptions.PolarsError:
            raise BadInput("labels", got=str(source), want="files with ids and labels of the same kinds") from None
    with open_answer_table(source, "duckdb", connection) as (_, table):
        return _polars(table.select(*_kept(table.columns)))


def _kept(columns: Sequence[str]) -> list[str]:
    """The columns that inference reads: epsilon too, where there is one."""
    return [*_COLUMNS, *(["epsilon"] if "epsilon" in columns else [])]


def _files(source: object) -> list[str]:
    """The files of a name or a pattern, in order; a name without a file stays, for the reader to refuse."""
    path = Path(str(source))
    anchor = Path(path.anchor)
    matches = [] if path.exists() else sorted(anchor.glob(str(path.relative_to(anchor))))
    return [str(match) for match in matches or [path]]


def _rows(path: str) -> int:
    scan = pl.scan_parquet if path.endswith(".parquet") else pl.scan_csv if path.endswith((".csv", ".csv.gz")) else None
    try:
        return 0 if scan is None else int(scan(path, glob=False).select(pl.len()).collect().item())
    except (pl.exceptions.PolarsError, OSError):
        return 0  # the reader says what is wrong


@contextmanager
def open_answer_table(
    source: object, engine: str, connection: BaseBackend | None
) -> Iterator[tuple[BaseBackend, Table]]:
    """A connection and the answers on it as a table; a connection that was opened here is closed afterwards."""
    with ExitStack() as stack:
        if connection is None and not is_table(source):
            connection = connect(engine)
            stack.callback(connection.disconnect)
        if is_source(source):
            # the columns of a single file can be named, which reads it into memory
            schema = None if is_table(source) or "*" in str(source) else LABELS
            opened = open_table(source, _COLUMNS, connection=connection, argument="labels", schema=schema)
            table = stack.enter_context(opened)
        else:
            frame = Labels.of(source, "labels").frame
            table = load_ibis().memtable(frame.select(_kept(frame.columns)).to_arrow())
        yield (table.get_backend() if connection is None else connection), table


class TableEngine:
    """Answers on an Ibis connection.

    Stored tables: ``data`` (task, worker code w, label code r), ``posterior`` (task, p0, p1, ...) and ``gold`` (task, known).
    """

    vote_weights: Floats | None = None

    def __init__(
        self,
        connection: BaseBackend,
        table: Table,
        classes: int | Sequence[Hashable] | None,
        gold: ById[Hashable] | None,
    ) -> None:
        self._connection, self._ibis = connection, load_ibis()
        self._spark = connection.name == "pyspark"
        self._stored: dict[str, Callable[[], object]] = {}  # how each is removed
        epsilons = _by_worker(table, "epsilon") if "epsilon" in table.columns else None
        named = table.mutate(label=table.label.length()) if table.label.type().is_array() else None
        sizes = None if named is None else _by_worker(named, "label")
        if sizes is not None:  # a row for each class that an answer names
            numbered = table.select(*_COLUMNS).mutate(answer=self._ibis.row_number())
            table = self._store("rows", numbered.unnest("label"))
        counts = _polars(table.group_by("worker", "label").aggregate(n=table.count()))
        if counts.height == 0:
            raise BadInput("labels", got=Verbatim("no answers"), want="at least one answer")
        self.classes = known_classes(counts["label"], classes)
        loads = counts.group_by("worker").agg(pl.col("n").sum()).sort("worker")
        self.workers, self.loads = loads["worker"], loads["n"].to_numpy()
        self._epsilons = None if epsilons is None else tuple(epsilons[worker] for worker in self.workers.to_list())
        self._sizes = None if sizes is None else np.array([sizes[worker] for worker in self.workers.to_list()])
        if self._sizes is not None:
            self.loads = self.loads // self._sizes
        coded = table.select(*_COLUMNS, *(["answer"] if sizes is not None else []))
        labels = pl.Series(list(self.classes), dtype=counts["label"].dtype)
        for column, code, values in (("worker", "w", self.workers), ("label", "r", labels)):
            codes = pl.DataFrame({column: values, code: np.arange(len(values), dtype=np.int32)})
            coded = coded.join(self._small_table(codes), column)
        names = ["task", "w", "r", *(["answer"] if sizes is not None else [])]
        self._data = self._store(
            "data", coded.select(*names).order_by(*(["task"] if sizes is None else ["task", "answer"]))
        )
        self._gold, self.has_gold = None, bool(gold)
        if gold:
            kind = _polars(self._data.select("task").limit(1))["task"].dtype
            known = {"task": pl.Series(list(gold), dtype=kind), "known": encode_known(gold, self.classes)}
            self._gold = self._store("gold", self._small_table(pl.DataFrame(known)))

    @classmethod
    @contextmanager
    def open(
        cls,
        labels: object,
        engine: str,
        classes: int | Sequence[Hashable] | None,
        gold: ById[Hashable] | None,
        connection: BaseBackend | None = None,
    ) -> Iterator[TableEngine]:
        """The engine on a file, an Ibis table, or a frame in memory; what it stored is removed afterwards."""
        with open_answer_table(labels, engine, connection) as (backend, table):
            tables = cls(backend, table, classes, gold)
            try:
                yield tables
            finally:
                for remove in tables._stored.values():
                    remove()

    @cached_property
    def answers(self) -> EncodedAnswers:
        """Whole tasks, evenly spaced, with about two million answers."""
        data, total, size = self._data, int(self.loads.sum()), EncodedAnswers.sample_size
        if total > size:
            ids = data.select("task").distinct()
            numbered = ids.mutate(place=self._ibis.row_number().over(self._ibis.window(order_by=ids.task)))
            data = data.semi_join(numbered.filter(numbered.place % math.ceil(total / size) == 0), "task")
        if self._sizes is not None:
            data = data.order_by("task", "answer")
        frame = _polars(data.select("task", "w", "r"))
        table = {"task": frame["task"], "worker": frame["w"].cast(pl.Int64), "label": frame["r"].cast(pl.Int64)}
        answers = EncodedAnswers.of(pl.DataFrame(table), len(self.classes))
        worker = answers.workers.to_numpy()[answers.worker].astype(np.int32)
        rows = answers.start, worker, answers.label
        return EncodedAnswers(
            answers.tasks, self.workers, answers.classes, *rows, sizes=self._sizes, epsilons=self._epsilons
        )

    def start(self, posterior: Floats | None, counted: Counted) -> ExpectedCounts:
        """Initialize the posteriors with vote shares and return their expected counts."""
        assert posterior is None
        shares = {p: (self._data.r == z).cast("float64").mean() for z, p in enumerate(self._columns("p"))}
        self._posterior = self._store("posterior", self._with_gold(self._data.group_by("task").aggregate(**shares)))
        return self._counts(counted)

    def e_step(self, parameters: Parameters, counted: Counted) -> EStep:
        """Update the posteriors; return the log-likelihood and the expected counts."""
        p, s, e = (self._columns(stem) for stem in "pse")
        scores = self._scores(parameters)
        shifted = scores.mutate(best=self._ibis.greatest(*(scores[name] for name in s)))
        weights = shifted.mutate(**{e[z]: (shifted[s[z]] - shifted.best).exp() for z in range(len(s))})
        summed = weights.mutate(total=reduce(add, [weights[name] for name in e]))
        normalizer = summed.best + summed.total.ln()
        shares = {p[z]: summed[e[z]] / summed.total for z in range(len(p))}
        posterior = summed.select("task", *s, normalizer=normalizer, **shares)
        self._posterior = self._store("posterior", self._with_gold(posterior))
        log_likelihood = _polars(self._posterior.aggregate(total=self._posterior.normalizer.sum())).item()
        return EStep(float(log_likelihood), self._counts(counted))

    def correct_moments(self) -> Floats:
        """By worker the expected correct answers, and the sum of c (1 - c), c being the probability that one is correct."""
        names = self._columns("p")
        joined = self._data.join(self._posterior.select("task", *names), "task")
        answers = joined.mutate(correct=self._of_class(joined.r, [joined[name] for name in names]))
        if self._sizes is not None:  # an answer that names several classes is correct if any of them is
            answers = answers.group_by("w", "answer").aggregate(correct=answers.correct.sum())
        c = answers.correct
        frame = _polars(answers.group_by("w").aggregate(correct=c.sum(), uncertainty=(c * (1.0 - c)).sum()))
        moments = np.zeros((2, self.loads.size))
        moments[:, frame["w"].to_numpy()] = frame.select("correct", "uncertainty").to_numpy().T
        return moments

    def posterior(self) -> tuple[pl.Series, Floats]:
        """The tasks' ids, sorted, and their posteriors."""
        frame = _polars(self._posterior.select("task", *self._columns("p"))).sort("task")
        return frame["task"], frame.drop("task").to_numpy()

    def _columns(self, stem: str) -> list[str]:
        """The names of columns with one value per class: p0, p1, ..."""
        return [f"{stem}{z}" for z in range(len(self.classes))]

    def _of_class(self, code: Value, values: Sequence[Value]) -> Value:
        """The value of the class that has this code."""
        return reduce(add, [self._ibis.ifelse(code == z, value, 0.0) for z, value in enumerate(values)])

    def _scores(self, parameters: Parameters) -> Table:
        """Sums of log weights by task, one column per class."""
        weights, workers, k = parameters.weights, self.loads.size, len(self.classes)
        if isinstance(weights, CoinWeights):
            weights = weights if self._sizes is None else weights.of_rows(self._sizes.astype(np.float64))
            table = weights.table(k)
        else:
            table = weights
        columns = dict(zip(self._columns("s"), table.reshape(workers * k, k).T, strict=True))
        w, r = np.divmod(np.arange(workers * k, dtype=np.int32), np.int32(k))
        joined = self._data.join(self._small_table(pl.DataFrame({"w": w, "r": r, **columns})), ["w", "r"])
        scores = joined.group_by("task").aggregate(**{s: joined[s].sum() for s in columns})
        return scores.mutate(**{s: scores[s] + float(parameters.log_prior[z]) for z, s in enumerate(columns)})

    def _counts(self, counted: Counted) -> ExpectedCounts:
        """The expected counts of the stored posteriors."""
        names = self._columns("p")
        p = self._posterior.select("task", *names)
        joined = self._data.join(p, "task")
        frame = _polars(joined.group_by("w", "r").aggregate(**{name: joined[name].sum() for name in names}))
        by_worker = np.zeros((self.loads.size, len(names), len(names)))
        by_worker[frame["w"].to_numpy(), frame["r"].to_numpy()] = frame.select(names).to_numpy()
        by_class = _polars(p.aggregate(**{name: p[name].sum() for name in names})).to_numpy()[0]
        sizes = None if self._sizes is None else self._sizes.astype(np.float64)
        return ExpectedCounts.of_table(by_class.astype(np.float64), by_worker, self.loads.astype(float), counted, sizes)

    def _with_gold(self, posterior: Table) -> Table:
        """Posteriors with known answers put in; their normalizer is the score of the known class."""
        if self._gold is None:
            return posterior
        joined = posterior.left_join(self._gold, "task").drop("task_right")
        unknown = joined.known.isnull()
        changes = {
            p: self._ibis.ifelse(unknown, joined[p], (joined.known == z).cast("float64"))
            for z, p in enumerate(self._columns("p"))
        }
        if "normalizer" in joined.columns:
            score = self._of_class(joined.known, [joined[s] for s in self._columns("s")])
            changes["normalizer"] = self._ibis.ifelse(unknown, joined.normalizer, score)
        return joined.mutate(**changes).drop("known")

    def _small_table(self, frame: pl.DataFrame) -> Table:
        """A table of the size of the crowd, as the connection can join it."""
        if self._spark:
            name = _new_name("small")
            self._connection._session.createDataFrame(frame.to_pandas()).createOrReplaceTempView(name)
            return self._connection.table(name)
        return self._ibis.memtable(frame.to_arrow())

    def _store(self, stem: str, expression: Table) -> Table:
        """Compute once and keep: a temporary table in DuckDB, a cached view in Spark; it replaces the last one of this stem."""
        name, remove_last = _new_name(stem), self._stored.get(stem)
        if self._spark:
            frame = self._connection._session.sql(self._ibis.to_sql(expression, dialect="pyspark")).persist()
            frame.count()
            frame.createOrReplaceTempView(name)
            table, self._stored[stem] = self._connection.table(name), frame.unpersist
        else:  # Ibis 12's own drop_table fails with newer sqlglot
            table = self._connection.create_table(name, expression, temp=True)
            self._stored[stem] = partial(self._connection.raw_sql, f'DROP TABLE IF EXISTS "{name}"')
        if remove_last is not None:
            remove_last()
        return table


def _by_worker(table: Table, column: str) -> dict[Hashable, Any]:
    """The value that a column has in all rows of a worker."""
    frame = _polars(table.group_by("worker").aggregate(low=table[column].min(), high=table[column].max()))
    several = frame.filter(pl.col("low") != pl.col("high"))
    if several.height:
        worker, low, high = several.row(0)
        what = "one epsilon in all answers" if column == "epsilon" else "equally many labels in all lists"
        argument, got = (
            "epsilon" if column == "epsilon" else "labels",
            Verbatim(f"{low} and {high} from worker {worker!r}"),
        )
        raise BadInput(argument, got=got, want=f"{what} of a worker")
    return dict(frame.select("worker", "low").iter_rows())


def _new_name(stem: str) -> str:
    return f"peerveil_{stem}_{uuid4().hex}"


def known_classes(labels: pl.Series, classes: int | Sequence[Hashable] | None) -> tuple[Hashable, ...]:
    """The classes; an answer that is none of them is refused."""
    if classes is None:
        return tuple(observed_classes(labels))
    class_list = check_classes(classes)
    if unknown := [value for value in labels.unique().sort().to_list() if value not in class_list]:
        raise BadInput("labels", got=unknown[0], want=f"one of the {len(class_list)} classes in every answer")
    return tuple(class_list)


def _polars(expression: Table) -> pl.DataFrame:
    with quiet():
        frame = pl.from_arrow(expression.to_pyarrow())
    assert isinstance(frame, pl.DataFrame)
    return frame
