"""Counts of agreeing pairs by task, in memory, on DuckDB or on Spark: all that coefficients of agreement need.

Everywhere the same steps: reports become shares u of a person's answers to a task (all 1, unless somebody answered it twice; a
report that shows w classes has a row for each), these are summed by task and class, and tasks that nobody shares are left out.
Tasks with equal counts come back as one row, so that what comes back does not grow with the data.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.data import Labels
from peerveil.data.engines import load_ibis, quiet
from peerveil.data.labels import check_classes
from peerveil.truth.answers import observed_classes
from peerveil.truth.tables import known_classes, open_answer_table

if TYPE_CHECKING:
    from ibis.backends import BaseBackend
    from ibis.expr.types import Table

    from peerveil.core.arrays import Floats, Ints

_TWO_PEOPLE: Final = 1.5  # a number of people, as a sum of fractions, is above this if it is at least two
_LEAST_PEOPLE: Final = 3  # who tell how much people differ
_COLUMNS: Final = ("task", "worker", "label")


class Gradient(NamedTuple):
    """How much a coefficient rises with each sum over tasks that it is computed from, in the order of :func:`features`."""

    tasks: float
    people: float
    pairs: float
    pair_shares: float
    squares: float
    inverse: float
    votes: Floats
    shares: Floats


class Spread(NamedTuple):
    """Sums of squares of what a coefficient owes to each person and to each person's reports on a task, less their means."""

    people: int
    by_person: float
    answers: int
    by_answer: float

    @property
    def variance(self) -> float:
        """What people add to the variance, beyond the chance of single answers; may be below 0 by chance."""
        n, m = self.people, self.answers
        return n / (n - 1) * self.by_person - m / (m - 1) * self.by_answer


Gradients = Callable[["PairCounts"], Mapping[str, Gradient]]


@dataclass(frozen=True, eq=False)
class PairCounts:
    """What agreement is computed from; u is the share of a class among a person's reports on a task.

    Attributes
    ----------
    tasks
        How many tasks each row stands for; only tasks with at least two people count.
    people
        By row: how many people answered the task.
    pairs
        By row: the sum over ordered pairs of different people of sum_c u_c u'_c: how many of these pairs agree.
    inverse_repeats
        By row: the sum over people of 1/r, with r their reports on the task.
    votes
        By row and class: the sum of u over people.
    by_person
        Columns worker, tasks, total and squares: over a person's tasks, the sum of x and of x^2, with x the share of the other
        people whose report is the same.
    loads
        How many reports each person sent, to all tasks.
    size
        How many classes a report shows, the w of equation (P).
    spreads
        By coefficient: what people add to its variance; empty if fewer than three people share tasks.
    """

    classes: tuple[Any, ...]
    tasks: Floats
    people: Floats
    pairs: Floats
    inverse_repeats: Floats
    votes: Floats
    by_person: pl.DataFrame
    loads: Ints
    size: int = 1
    spreads: Mapping[str, Spread] = field(default_factory=dict)

    @property
    def features(self) -> Floats:
        """One row per kind of task: what coefficients are functions of the sums of, in the order of :class:`Gradient`."""
        n, pairs = self.people, self.pairs
        squares = (self.votes**2).sum(axis=1) - pairs  # the sum over people of |u|^2
        columns = [np.ones_like(n), n, pairs / (n - 1), pairs / (n * (n - 1)), squares, self.inverse_repeats / n**2]
        return np.column_stack([*columns, self.votes, self.votes / n[:, None]])

    @classmethod
    def of(
        cls, classes: Sequence[Any], kinds: pl.DataFrame, by_person: pl.DataFrame, loads: pl.Series, size: int = 1
    ) -> PairCounts:
        """The counts from the tables that an engine made; rows in an order that no engine determines."""
        ordered = kinds.sort(kinds.columns)
        names = [f"v{c}" for c in range(len(classes))]
        columns = [ordered[name].to_numpy().astype(np.float64) for name in ("tasks", "people", "pairs", "inverse")]
        tasks, people, pairs, inverse = columns
        votes = ordered.select(names).to_numpy().astype(np.float64)
        return cls(
            tuple(classes), tasks, np.rint(people), pairs, inverse, votes, by_person, loads.to_numpy() // size, size
        )


def count_in_memory(
    reports: Any, classes: int | Sequence[Hashable] | None, gradients: Gradients | None = None
) -> PairCounts:
    """The counts of a table in memory.

    >>> table = {"task": [1, 1, 1, 2], "worker": ["a", "b", "b", "a"], "label": [0, 0, 1, 0]}
    >>> counts = count_in_memory(table, 2)  # b answered task 1 twice; nobody else answered task 2
    >>> counts.people.tolist(), counts.pairs.tolist(), counts.votes.tolist(), counts.loads.tolist()
    ([2.0], [1.0], [[1.5, 0.5]], [2, 2])
    """
    table = Labels.of(reports, "reports")
    size = 1
    if table.has_subsets:
        lengths = table.frame["label"].list.len().unique().sort().to_list()
        table = table.members
        size = _one_size(lengths[0], lengths[-1])
    class_list = observed_classes(table.frame["label"]) if classes is None else check_classes(classes)
    code = pl.Series("label", table.codes(class_list))  # refuses what is none of the classes
    _refuse_all(size, len(class_list))
    frame = table.frame.select("task", "worker").with_columns(code)
    shares = (
        frame.lazy()
        .group_by(_COLUMNS)
        .agg(m=pl.len().cast(pl.Float64))
        .with_columns(r=pl.col("m").sum().over("task", "worker") / size)
        .with_columns(u=pl.col("m") / pl.col("r"))
        .with_columns(v=pl.col("u").sum().over("task", "label"), n=pl.col("u").sum().over("task") / size)
        .filter(pl.col("n") > _TWO_PEOPLE)
        .with_columns(x=pl.col("u") * (pl.col("v") - pl.col("u")))
        .collect()
    )
    u, m, r, n, x, label = map(pl.col, ("u", "m", "r", "n", "x", "label"))
    votes = {f"v{c}": u.filter(label == c).sum() for c in range(len(class_list))}
    by_task = shares.group_by("task").agg(people=n.max(), pairs=x.sum(), inverse=(m / r**2).sum() / size, **votes)
    kinds = by_task.drop("task").group_by("people", "pairs", "inverse", *votes).agg(tasks=pl.len())
    by_answer = shares.group_by("task", "worker").agg(x=(x / (n - 1)).sum())
    by_person = by_answer.group_by("worker").agg(tasks=pl.len(), total=x.sum(), squares=(x**2).sum())
    counts = PairCounts.of(class_list, kinds, by_person, frame["worker"].value_counts()["count"], size)

    def spreads(by: Mapping[str, Gradient]) -> Mapping[str, Spread]:
        def of_class(values: Floats) -> Any:
            return pl.lit(pl.Series(values)).gather(label)

        sums = {name: (u * of_class(values)).sum() for name, values in _by_class(by)}
        ordered = shares.lazy().sort(_COLUMNS)  # sums of floats depend on their order
        answers = ordered.group_by("task", "worker", maintain_order=True)
        rows = answers.agg(x=x.sum(), q=(u**2).sum(), r=r.first(), n=n.first(), **sums)
        rows = rows.with_columns((pl.col(name) if name != "r" else 1 / r).sum().over("task").alias(f"{name}_all")
                                 for name in ("x", "q", "r", *sums))  # fmt: skip
        influences = {f"h{i}": _influence(pl.col, by[name], i, _when) for i, name in enumerate(by)}
        each = rows.select("worker", **influences).collect()
        people = each.group_by("worker", maintain_order=True).agg(pl.col(*influences).sum())
        return {
            name: Spread(people.height, _squares(people[h]), each.height, _squares(each[h]))
            for name, h in zip(by, influences, strict=True)
        }

    return _with_spreads(counts, gradients, spreads)


def count_in_tables(
    source: Any,
    classes: int | Sequence[Hashable] | None,
    engine: str,
    connection: BaseBackend | None = None,
    gradients: Gradients | None = None,
) -> PairCounts:
    """The counts of files or an Ibis table, made by the database."""
    with quiet(), open_answer_table(source, engine, connection) as (_, table):
        size = 1
        if table.label.type().is_array():
            length = table.label.length()
            low, high = _polars(table.aggregate(low=length.min(), high=length.max())).row(0)
            size, table = _one_size(low, high), table.unnest("label")
        loads = _polars(table.group_by("worker", "label").aggregate(n=table.count()))
        if loads.height == 0:
            raise BadInput("reports", got=Verbatim("no reports"), want="at least one report")
        class_list = known_classes(loads["label"], classes)
        _refuse_all(size, len(class_list))
        shares = _shares(table, size)
        kind = _polars(_by_task(shares, class_list, size))
        by_answer = shares.group_by("task", "worker").aggregate(x=(shares.x / (shares.n - 1)).sum())
        by_person = by_answer.group_by("worker").aggregate(
            tasks=by_answer.count(), total=by_answer.x.sum(), squares=(by_answer.x * by_answer.x).sum()
        )
        sent = loads.group_by("worker").agg(pl.col("n").sum())["n"]
        counts = PairCounts.of(class_list, kind, _polars(by_person), sent, size)
        return _with_spreads(counts, gradients, lambda by: _spreads(shares, class_list, by))


def _with_spreads(
    counts: PairCounts, gradients: Gradients | None, spreads: Callable[[Mapping[str, Gradient]], Mapping[str, Spread]]
) -> PairCounts:
    """The counts with what people add to the variance, if there are enough people."""
    if gradients is None or counts.by_person.height < _LEAST_PEOPLE:
        return counts
    by = gradients(counts)  # empty where a coefficient is not defined
    return replace(counts, spreads=spreads(by)) if by else counts


def _by_class(by: Mapping[str, Gradient]) -> list[tuple[str, Floats]]:
    """The parts of gradients that depend on the class, with a name for each."""
    return [
        (f"{part}{i}", getattr(gradient, part))
        for i, gradient in enumerate(by.values())
        for part in ("votes", "shares")
        if getattr(gradient, part).any()
    ]


def _influence(column: Callable[[str], Any], gradient: Gradient, i: int, where: Callable[[Any, Any, Any], Any]) -> Any:
    """How much less a coefficient would be without a person's reports on a task, as far as it is linear in the sums.

    Without them the task has n - 1 people, pairs P - 2 x, with x what the person shares in, and the votes of the others; a
    task of two people is no longer there. The same expression for Polars and Ibis.
    """
    n, x, q, pairs, squares, inverse, r = (column(name) for name in ("n", "x", "q", "x_all", "q_all", "r_all", "r"))
    zero = n * 0.0
    votes, all_votes = (column(f"votes{i}{end}") if gradient.votes.any() else zero for end in ("", "_all"))
    shares, all_shares = (column(f"shares{i}{end}") if gradient.shares.any() else zero for end in ("", "_all"))
    g, left, m = gradient, pairs - 2 * x, where(n > _TWO_PEOPLE + 1, n - 1, 2.0)  # m: no division by 0 below
    task = (
        g.tasks + g.people * n + g.pairs * pairs / (n - 1) + g.pair_shares * pairs / (n * (n - 1))
        + g.squares * squares + g.inverse * inverse / (n * n) + all_votes + all_shares / n
    )  # fmt: skip
    rest = (
        g.tasks + g.people * m + g.pairs * left / (m - 1) + g.pair_shares * left / (m * (m - 1))
        + g.squares * (squares - q) + g.inverse * (inverse - 1 / r) / (m * m)
        + (all_votes - votes) + (all_shares - shares) / m
    )  # fmt: skip
    return task - where(n > _TWO_PEOPLE + 1, rest, 0.0)


def _when(condition: pl.Expr, yes: Any, no: Any) -> pl.Expr:
    return pl.when(condition).then(yes).otherwise(no)


def _squares(values: pl.Series) -> float:
    """The sum of squares of the deviations from the mean."""
    array = values.to_numpy().astype(np.float64)
    return float(((array - array.mean()) ** 2).sum())


def _spreads(shares: Table, classes: Sequence[Any], by: Mapping[str, Gradient]) -> Mapping[str, Spread]:
    """What people add to the variance, by the database."""
    ibis = load_ibis()
    sums = {
        name: (shares.u * shares.label.cases(*zip(classes, values.tolist(), strict=True), else_=0.0)).sum()
        for name, values in _by_class(by)
    }
    rows = shares.group_by(["task", "worker"]).aggregate(
        x=shares.x.sum(), q=(shares.u * shares.u).sum(), r=shares.r.max(), n=shares.n.max(), **sums
    )
    task = ibis.window(group_by="task")
    totals = {
        f"{name}_all": (rows[name] if name != "r" else 1 / rows.r).sum().over(task) for name in ("x", "q", "r", *sums)
    }
    rows = rows.mutate(**totals)
    each = rows.select(
        "worker", **{f"h{i}": _influence(rows.__getitem__, by[name], i, ibis.ifelse) for i, name in enumerate(by)}
    )
    people = _polars(each.group_by("worker").aggregate(**{f"h{i}": each[f"h{i}"].sum() for i in range(len(by))}))
    moments = {f"{kind}{i}": value.sum() for i in range(len(by)) for kind, value in
               (("first", each[f"h{i}"]), ("second", each[f"h{i}"] * each[f"h{i}"]))}  # fmt: skip
    row = _polars(each.aggregate(answers=each.count(), **moments)).row(0, named=True)
    count = row["answers"]
    return {
        name: Spread(
            people.height, _squares(people[f"h{i}"]), count, float(row[f"second{i}"] - row[f"first{i}"] ** 2 / count)
        )
        for i, name in enumerate(by)
    }


def _one_size(low: int | None, high: int | None) -> int:
    """How many classes every report shows; no reports are refused elsewhere."""
    if low != high:
        got = Verbatim(f"lists of {low} to {high} labels")
        raise BadInput("labels", got=got, want="equally many labels in every list: agreement has one epsilon for all")
    return high or 1


def _refuse_all(size: int, k: int) -> None:
    """Refuse reports that show every class."""
    if size > 1 and size >= k:
        got = Verbatim(f"lists of {size} labels, with {k} classes")
        raise BadInput("labels", got=got, want="fewer labels in a list than there are classes")


def _shares(table: Table, size: int) -> Table:
    """The shares of each person's answers to each task, with the sums over the task; tasks of one person left out."""
    ibis = load_ibis()
    counts = table.group_by(list(_COLUMNS)).aggregate(m=table.count().cast("float64"))
    counts = counts.mutate(r=counts.m.sum().over(ibis.window(group_by=["task", "worker"])) / size)
    shares = counts.mutate(u=counts.m / counts.r)
    by_class, by_task = ibis.window(group_by=["task", "label"]), ibis.window(group_by="task")
    shares = shares.mutate(v=shares.u.sum().over(by_class), n=shares.u.sum().over(by_task) / size)
    shares = shares.filter(shares.n > _TWO_PEOPLE)
    return shares.mutate(x=shares.u * (shares.v - shares.u))


def _by_task(shares: Table, classes: Sequence[Any], size: int) -> Table:
    """Tasks with equal counts as one row."""
    ibis = load_ibis()
    votes = {f"v{c}": ibis.ifelse(shares.label == value, shares.u, 0.0).sum() for c, value in enumerate(classes)}
    tasks = shares.group_by("task").aggregate(
        people=shares.n.max(), pairs=shares.x.sum(), inverse=(shares.m / (shares.r * shares.r)).sum() / size, **votes
    )
    return tasks.group_by(["people", "pairs", "inverse", *votes]).aggregate(tasks=tasks.count())


def _polars(expression: Table) -> pl.DataFrame:
    """What an Ibis expression gives, in memory."""
    frame = pl.from_arrow(expression.to_pyarrow())
    assert isinstance(frame, pl.DataFrame)
    return frame
