"""Counting randomized reports, in memory, on DuckDB or on Spark: everything that estimates of shares need of a table.

Every engine answers the same two questions, sums by report and, where people sent several, sums by pairs of reports of
one person. What is computed from these sums is the same code, so that results are equal on every engine, up to
rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from operator import mul
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.data import Labels
from peerveil.data.engines import load_ibis, quiet
from peerveil.truth.models import Channel
from peerveil.truth.shares_fit import ReportCounts

if TYPE_CHECKING:
    from peerveil.core.arrays import Floats, Ints
    from peerveil.core.guarantee import Guarantee

_MOST_ROWS: Final = 4000  # of reports times epsilons where people sent several: their pairs are counted
_SHOWN: Final = 10
_RAKING_STEPS: Final = 1000
_RAKING_TOLERANCE: Final = 1e-10


@dataclass(frozen=True)
class Question:
    """What was asked, and how reports were made of the answers.

    Attributes
    ----------
    classes
        The possible answers, which are also the possible reports.
    epsilon
        Of every report; ``None`` if a column says it for each.
    guarantee
        What is guaranteed for one report.
    """

    classes: tuple[Any, ...]
    epsilon: Fraction | None
    guarantee: Guarantee

    def matrix(self, epsilon: float | None) -> Floats:
        """The response matrix, ``matrix[answer, report]``."""
        return Channel.of(float(self.epsilon) if self.epsilon is not None else epsilon, len(self.classes)).matrix


@dataclass(frozen=True)
class ReportSource:
    """Reports on an engine: a frame in memory or an Ibis table, with the names of the columns that matter."""

    table: Any
    person: str | None = None
    weight: str | None = None
    epsilon: str | None = None

    @property
    def in_memory(self) -> bool:
        """Whether it is a frame."""
        return isinstance(self.table, pl.DataFrame)

    def require(self, names: Sequence[str], argument: str) -> None:
        """Refuse columns that are missing."""
        for name in names:
            if name not in self.table.columns:
                raise BadInput(argument, got=name, want=f"one of the columns {', '.join(self.table.columns)}")

    def column(self, name: str, most: int) -> pl.Series:
        """The first values of a column, in no order."""
        if isinstance(self.table, pl.DataFrame):
            return self.table[name].head(most)
        return _frame(self.table.select(name).limit(most))[name]

    def only(self, name: str, value: Any) -> ReportSource:
        """The reports with this value in a column (perhaps written as text)."""
        values = self.sums(name)[name].to_list()
        chosen = matching(value, values, name)
        table = self.table
        rows = table.filter(pl.col(name) == chosen) if self.in_memory else table.filter(table[name] == chosen)
        return replace(self, table=rows)

    def sums(self, *keys: str) -> pl.DataFrame:
        """By the values of the columns: reports (_n), the sum of weights (_w), the sum over people of its square (_w2)."""
        people, names = self._by_person(keys), list(keys)
        if isinstance(people, pl.DataFrame):
            weight = pl.col("_w")
            totals = people.group_by(names).agg(_n=pl.col("_n").sum(), _w=weight.sum(), _w2=(weight**2).sum())
        else:
            weight = people["_w"]
            totals = _frame(
                people.group_by(names).aggregate(_n=people["_n"].sum(), _w=weight.sum(), _w2=(weight * weight).sum())
            )
        return totals.with_columns(pl.col("_n").cast(pl.Int64), pl.col("_w", "_w2").cast(pl.Float64)).sort(names)

    def pairs(self, *keys: str, by: Sequence[str] = ()) -> pl.DataFrame:
        """By the values of ``by`` and of the columns twice: the sum over people of the product of their weights (_w)."""
        assert self.person is not None
        people, names = self._by_person((*by, *keys)), [*by, *keys, *(f"{key}_right" for key in keys)]
        if isinstance(people, pl.DataFrame):
            joined = people.join(people, [self.person, *by])
            totals = joined.group_by(names).agg(_w=(pl.col("_w") * pl.col("_w_right")).sum())
        else:
            joined = people.join(people.view(), [self.person, *by], rname="{name}_right")
            totals = _frame(joined.group_by(names).aggregate(_w=(joined["_w"] * joined["_w_right"]).sum()))
        return totals.with_columns(pl.col("_w").cast(pl.Float64)).sort(names)

    def people(self, by: Sequence[str] = ()) -> pl.DataFrame:
        """By the values of the columns: how many people there are (people), and how many reports the busiest sent (most)."""
        names, people = list(by), self._by_person(by)
        if isinstance(people, pl.DataFrame):
            measures = {"people": pl.len(), "most": pl.col("_n").max()}
            totals = people.group_by(names).agg(**measures) if names else people.select(**measures)
        else:
            grouped = people.group_by(names) if names else people
            totals = _frame(grouped.aggregate(people=people.count(), most=people["_n"].max()))
        return totals.with_columns(pl.col("people", "most").cast(pl.Int64))

    def weighted(self, factors: Mapping[str, Mapping[Any, float]]) -> ReportSource:
        """With the product of these factors, by the values of the columns, as weights (times those that it has)."""
        if self.in_memory:
            old = [] if self.weight is None else [pl.col(self.weight).cast(pl.Float64)]
            new = [
                pl.col(name).replace_strict(list(by), list(by.values()), default=None, return_dtype=pl.Float64)
                for name, by in factors.items()
            ]
            return replace(
                self, table=self.table.with_columns(reduce(mul, [*old, *new]).alias("_weight")), weight="_weight"
            )
        old = [] if self.weight is None else [self.table[self.weight].cast("float64")]
        new = [self.table[name].cases(*by.items(), else_=None).cast("float64") for name, by in factors.items()]
        return replace(self, table=self.table.mutate(_weight=reduce(mul, [*old, *new])), weight="_weight")

    def check_weights(self) -> None:
        """Refuse weights that cannot be used."""
        if self.weight is None:
            return
        argument, want = "weights", "a finite number of at least 0 for every report, and one above 0"
        try:
            if isinstance(self.table, pl.DataFrame):
                weights = self.table[self.weight].cast(pl.Float64)
                wrong = weights.is_null() | ~weights.is_finite() | (weights < 0)
                first = self.table[self.weight].filter(wrong).head(1).to_list()
                total = float(weights.sum()) if not first else 1.0
            else:
                weight = self.table[self.weight].try_cast("float64")
                fine = (weight >= 0) & (weight < 1e300)
                bad = _frame(self.table.filter(weight.isnull() | weight.isnan() | ~fine).select(self.weight).limit(1))
                first = bad[self.weight].to_list()
                total = 1.0 if first else float(_frame(self.table.aggregate(w=weight.sum()))["w"][0])
        except (pl.exceptions.PolarsError, TypeError):
            raise BadInput(argument, got=Verbatim(f"values of {self.weight} that are no numbers"), want=want) from None
        if first or not total > 0:
            raise BadInput(argument, got=first[0] if first else Verbatim("weights that are all 0"), want=want)

    def _by_person(self, keys: Sequence[str]) -> Any:
        """One row per person and values of the columns, or per report if nobody is named: _n reports, _w their weights."""
        table, names = self.table, list(keys)
        if self.in_memory:
            weight = pl.lit(1.0) if self.weight is None else pl.col(self.weight).cast(pl.Float64)
            table = table.with_columns(_n=pl.lit(1), _w=weight)
            if self.person is None:
                return table.select(*names, "_n", "_w")
            return table.group_by([self.person, *names]).agg(pl.col("_n").sum(), pl.col("_w").sum())
        unit = load_ibis().literal(1)
        weight = unit.cast("float64") if self.weight is None else table[self.weight].cast("float64")
        table = table.mutate(_n=unit, _w=weight)
        if self.person is None:
            return table.select(*names, "_n", "_w")
        return table.group_by([self.person, *names]).aggregate(_n=table["_n"].sum(), _w=table["_w"].sum())


def matching(value: Any, known: Sequence[Any], argument: str) -> Any:
    """The one of some values that is meant, perhaps written as text."""
    value_meant = next(
        (one for one in known if one == value), next((one for one in known if str(one) == str(value)), None)
    )
    if value_meant is None:
        shown = ", ".join(map(str, known[:_SHOWN])) + (", ..." if len(known) > _SHOWN else "")
        raise BadInput(argument, got=value, want=f"one of {shown}")
    return value_meant


def _frame(expression: Any) -> pl.DataFrame:
    with quiet():
        frame = pl.from_arrow(expression.to_pyarrow())
    assert isinstance(frame, pl.DataFrame)
    return frame


def count_by(source: ReportSource, question: Question, by: str | None = None) -> dict[Any, ReportCounts]:
    """The counts of the reports, for every value of a column (None for all together)."""
    keys = [name for name in (by, source.epsilon, "label") if name is not None]
    if by is not None and by in (*keys[1:], source.person, source.weight):
        raise BadInput(
            "group", got=by, want="a column other than those of the report, the person, the weight and epsilon"
        )
    sums = source.sums(*keys)
    if sums.height == 0:
        raise BadInput("reports", got=Verbatim("nothing"), want="at least one report")
    sums = sums.with_columns(code=codes_of(sums["label"], question.classes))
    epsilons: list[float | None] = [None] if source.epsilon is None else sorted(set(sums[source.epsilon].to_list()))
    place = {value: number for number, value in enumerate(epsilons)}
    k, matrices = len(question.classes), [question.matrix(epsilon) for epsilon in epsilons]
    rows = k * len(epsilons)

    def row(frame: pl.DataFrame, label: str = "label", epsilon: str | None = source.epsilon) -> Ints:
        code = codes_of(frame[label], question.classes).to_numpy()
        block = [0] * frame.height if epsilon is None else [place[value] for value in frame[epsilon].to_list()]
        return np.asarray(np.asarray(block, dtype=np.int64) * k + code)

    crowd = source.people([] if by is None else [by])
    repeated = source.person is not None and int(crowd["most"].max()) > 1  # type: ignore[arg-type]
    if repeated and rows > _MOST_ROWS:
        got = Verbatim(f"{len(epsilons):,} epsilons with {k:,} classes, from people who sent several reports")
        raise BadInput("epsilon", got=got, want="fewer epsilons, or one report per person")
    row_keys = [name for name in (source.epsilon, "label") if name is not None]
    pairs = source.pairs(*row_keys, by=[] if by is None else [by]) if repeated else None
    counts = {}
    for value in [None] if by is None else crowd[by].sort().to_list():
        own = sums if by is None else sums.filter(pl.col(by).eq_missing(value))
        person = crowd if by is None else crowd.filter(pl.col(by).eq_missing(value))
        total, cross = np.zeros(rows), np.zeros(rows)
        place_of = row(own)
        np.add.at(total, place_of, own["_w"].to_numpy())
        np.add.at(cross, place_of, own["_w2"].to_numpy())
        if pairs is not None:
            mine = pairs if by is None else pairs.filter(pl.col(by).eq_missing(value))
            other = None if source.epsilon is None else f"{source.epsilon}_right"
            cross = np.zeros((rows, rows))
            np.add.at(cross, (row(mine), row(mine, "label_right", other)), mine["_w"].to_numpy())
        if total.sum() <= 0:
            raise BadInput("weights", got=Verbatim("weights that are all 0"), want=f"one above 0 in group {value!r}")
        used = [number for number in range(len(epsilons)) if total[number * k : (number + 1) * k].sum() > 0]
        inside = np.concatenate([np.arange(number * k, (number + 1) * k) for number in used])
        counts[value] = ReportCounts(
            likelihood=np.vstack([matrices[number].T for number in used]),
            total=total[inside],
            cross=cross[inside] if cross.ndim == 1 else cross[np.ix_(inside, inside)],
            block=np.repeat(np.arange(len(used)), k),
            reports=int(own["_n"].sum()),
            people=int(person["people"][0]),
            most=int(person["most"][0]),
        )
    return counts


def codes_of(labels: pl.Series, classes: Sequence[Any]) -> pl.Series:
    """Labels as positions among the classes; others are refused."""
    known = Labels(task=[0] * labels.len(), worker=[0] * labels.len(), label=labels)
    return pl.Series(known.codes(list(classes))).cast(pl.Int64)


def rake(source: ReportSource, margins: Mapping[str, Mapping[Any, float]]) -> ReportSource:
    """Weights under which the shares of public columns are those of the population (iterative proportional fitting).

    The weight of a report is a product of factors, one per column. One step sets the factors of one column so that its
    shares are right; the steps are repeated until all are. With one column this is post-stratification.
    """
    want = "the population's shares by the values of public columns, such as {'age': {'young': 0.4, 'old': 0.6}}"
    if not isinstance(margins, Mapping) or not all(
        isinstance(shares, Mapping) and shares for shares in margins.values()
    ):
        raise BadInput("margins", got=margins, want=want)
    names = list(margins)
    cells = source.sums(*names)
    targets = {}
    for name, shares in margins.items():
        values = cells[name].unique().to_list()
        target_shares = np.array([float(share) for share in shares.values()])
        if not np.isfinite(target_shares).all() or (target_shares <= 0).any() or abs(target_shares.sum() - 1) > 1e-6:
            raise BadInput(f"margins[{name!r}]", got=dict(shares), want="shares above 0 that add up to 1")
        if sorted(map(str, values)) != sorted(map(str, shares)):
            got = Verbatim(f"shares of {list(shares)}")
            raise BadInput(
                f"margins[{name!r}]",
                got=got,
                want=f"one for each value that the column has: {sorted(map(str, values))}",
            )
        targets[name] = {
            matching(value, values, name): float(share) / target_shares.sum() for value, share in shares.items()
        }
    factors = {name: dict.fromkeys(target, 1.0) for name, target in targets.items()}
    weight = cells["_w"].to_numpy().astype(float)
    for _ in range(_RAKING_STEPS):
        change = 0.0
        for name, target in targets.items():
            product = weight * np.prod([[factors[n][v] for v in cells[n].to_list()] for n in names], axis=0)
            column = np.array(cells[name].to_list(), dtype=object)
            for value, share in target.items():
                ratio = share * product.sum() / product[column == value].sum()
                change = max(change, abs(ratio - 1))
                factors[name][value] *= ratio
        if change < _RAKING_TOLERANCE:
            scale = weight.sum() / product.sum()  # weights keep their sum
            factors[names[0]] = {value: factor * scale for value, factor in factors[names[0]].items()}
            return source.weighted(factors)
    got = Verbatim("margins that no weights reach together")
    raise BadInput("margins", got=got, want="fewer columns, or values that occur together")
