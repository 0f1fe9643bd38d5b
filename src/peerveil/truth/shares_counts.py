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
from peerveil.core.guarantee import read_epsilon
from peerveil.data import Labels
from peerveil.data.engines import load_ibis, quiet
from peerveil.truth.models import Channel
from peerveil.truth.shares_fit import ReportCounts
from peerveil.truth.shares_subsets import SubsetRows

if TYPE_CHECKING:
    from peerveil.core.arrays import Floats, Ints
    from peerveil.core.guarantee import Guarantee

_MOST_ROWS: Final = 4000  # of reports times epsilons where people sent several: their pairs are counted
_MOST_CELLS: Final = 100_000_000  # of distinct lists times classes
_SHOWN: Final = 10


@dataclass(frozen=True)
class Question:
    """What was asked, and how reports were made of the answers.

    Attributes
    ----------
    classes
        The possible answers, which are also the possible reports, or what reports name several of.
    epsilon
        Of every report; ``None`` if a column says it for each.
    guarantee
        What is guaranteed for one report.
    response
        The matrix of a response whose reports are the numbers 0, 1, ... and no classes, by answer and report.
    are_levels
        Whether the classes are levels that numbers were rounded to at random, so that only their mean says something.
    """

    classes: tuple[Any, ...]
    epsilon: Fraction | None
    guarantee: Guarantee
    response: Floats | None = None
    are_levels: bool = False

    @property
    def reports(self) -> Sequence[Any]:
        """The possible reports."""
        return self.classes if self.response is None else range(self.response.shape[1])

    def channel(self, epsilon: float | None, size: int = 1) -> Channel:
        """The channel of reports with this epsilon, if that is not the same for all, which name so many classes."""
        exact = epsilon if self.epsilon is None else self.epsilon
        return Channel.of(None if exact is None else float(read_epsilon(exact)), len(self.classes), size)

    def matrix(self, epsilon: float | None) -> Floats:
        """The response matrix, ``matrix[answer, report]``."""
        return self.channel(epsilon).matrix if self.response is None else self.response


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

    @property
    def has_lists(self) -> bool:
        """Whether reports name several classes."""
        if isinstance(self.table, pl.DataFrame):
            return isinstance(self.table.schema["label"], pl.List)
        return bool(self.table["label"].type().is_array())

    @property
    def members(self) -> ReportSource:
        """A row for each class that a report names."""
        rows = self.table.explode("label") if self.in_memory else self.table.unnest("label")
        return replace(self, table=rows)

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
    crowd = source.people([] if by is None else [by])
    values = [None] if by is None else crowd[by].sort().to_list()
    repeated = source.person is not None and int(crowd["most"].max()) > 1  # type: ignore[arg-type]
    layout = _Layout.of(sums, source, question, repeated=repeated)
    pairs = None
    if repeated:
        row_keys = [name for name in (source.epsilon, "label") if name is not None]
        counted = source.members if source.has_lists else source
        pairs = counted.pairs(*row_keys, by=[] if by is None else [by])
    counts = {}
    for value in values:
        own, person, mine = (
            frame if by is None or frame is None else frame.filter(pl.col(by).eq_missing(value))
            for frame in (sums, crowd, pairs)
        )
        assert own is not None
        assert person is not None
        if own["_w"].sum() <= 0:
            raise BadInput("weights", got=Verbatim("weights that are all 0"), want=f"one above 0 in group {value!r}")
        crowd_of = (int(own["_n"].sum()), int(person["people"][0]), int(person["most"][0]))
        counts[value] = layout.counts(own, mine, crowd_of)
    return counts


@dataclass(frozen=True, eq=False)
class _Layout:
    """Which rows counts have: a block for each epsilon, with a row for each report, or for each list that came."""

    question: Question
    epsilon: str | None
    epsilons: list[float | None]
    sizes: Ints | None  # by epsilon: how many classes a report names

    @classmethod
    def of(cls, sums: pl.DataFrame, source: ReportSource, question: Question, *, repeated: bool) -> _Layout:
        """The layout of the reports; those that cannot be counted are refused."""
        name, labels = source.epsilon, sums["label"]
        epsilons: list[float | None] = [None] if name is None else sorted(set(sums[name].to_list()))
        layout = cls(question, name, epsilons, _sizes(sums, name, question) if source.has_lists else None)
        codes_of(labels, question)  # refuses what is no report
        rows = len(question.reports) * len(epsilons)
        if repeated and rows > _MOST_ROWS:
            got = Verbatim(
                f"{len(epsilons):,} epsilons with {rows // len(epsilons):,} classes, from people who sent several"
            )
            raise BadInput("epsilon", got=got, want="fewer epsilons, or one report per person")
        if source.has_lists and sums.height * len(question.classes) > _MOST_CELLS:
            got = Verbatim(f"{sums.height:,} different lists of {len(question.classes):,} classes")
            raise BadInput("reports", got=got, want=f"at most {_MOST_CELLS // len(question.classes):,}: a random part")
        return layout

    def counts(self, sums: pl.DataFrame, pairs: pl.DataFrame | None, crowd: tuple[int, int, int]) -> ReportCounts:
        """The counts of some of the reports."""
        block = self._blocks(sums, self.epsilon)
        used = np.unique(block[sums["_w"].to_numpy() > 0])
        m = len(self.question.reports)
        inside = (used[:, None] * m + np.arange(m)).ravel()
        rows = m * len(self.epsilons)
        cross = None
        if pairs is not None:
            cross, other = np.zeros((rows, rows)), None if self.epsilon is None else f"{self.epsilon}_right"
            at = self._rows(pairs, "label", self.epsilon), self._rows(pairs, "label_right", other)
            np.add.at(cross, at, pairs["_w"].to_numpy())
            cross = cross[np.ix_(inside, inside)]
        if self.sizes is not None:
            weighs = np.isin(block, used)
            return self._of_lists(sums.filter(weighs), cross, used, np.searchsorted(used, block[weighs]), crowd)
        total, squares = np.zeros(rows), np.zeros(rows)
        at_row = self._rows(sums, "label", self.epsilon)
        np.add.at(total, at_row, sums["_w"].to_numpy())
        np.add.at(squares, at_row, sums["_w2"].to_numpy())
        return ReportCounts(
            np.vstack([self.question.matrix(self.epsilons[number]).T for number in used]),
            total[inside],
            squares[inside] if cross is None else cross,
            np.repeat(np.arange(len(used)), m),
            *crowd,
        )

    def _of_lists(
        self, sums: pl.DataFrame, cross: Floats | None, used: Ints, block: Ints, crowd: tuple[int, int, int]
    ) -> ReportCounts:
        """The counts of lists: one row for each that came."""
        assert self.sizes is not None
        channels = tuple(self.question.channel(self.epsilons[number], int(self.sizes[number])) for number in used)
        shown = np.zeros((sums.height, len(self.question.classes)), dtype=bool)
        size = np.array([channel.size for channel in channels])
        shown[np.repeat(np.arange(sums.height), size[block]), codes_of(sums["label"].explode(), self.question)] = True
        subsets = SubsetRows(channels, block, shown)
        if cross is not None:  # the weight of a report is shared among the classes that it names
            share = 1 / np.repeat(size, len(self.question.classes))
            cross = cross * np.outer(share, share)
        total, squares = (sums[name].to_numpy().astype(np.float64) for name in ("_w", "_w2"))
        cross = squares if cross is None else cross
        return ReportCounts(subsets.likelihood, total, cross, block, *crowd, subsets=subsets)

    def _blocks(self, frame: pl.DataFrame, epsilon: str | None) -> Ints:
        place = {value: number for number, value in enumerate(self.epsilons)}
        listed = [0] * frame.height if epsilon is None else [place[value] for value in frame[epsilon].to_list()]
        return np.asarray(listed, dtype=np.int64)

    def _rows(self, frame: pl.DataFrame, label: str, epsilon: str | None) -> Ints:
        codes = codes_of(frame[label], self.question).to_numpy()
        return np.asarray(self._blocks(frame, epsilon) * len(self.question.reports) + codes)


def _sizes(sums: pl.DataFrame, epsilon: str | None, question: Question) -> Ints:
    """By epsilon: how many classes a report names, always the same number and fewer than there are."""
    size = pl.col("label").list.len().cast(pl.Int64)
    level = (pl.lit(0) if epsilon is None else pl.col(epsilon)).alias("_level")
    by = sums.group_by(level).agg(low=size.min(), high=size.max()).sort("_level")
    several = by.filter(pl.col("low") < pl.col("high"))
    if several.height:
        got = Verbatim(f"lists of {several['low'][0]} to {several['high'][0]} labels")
        raise BadInput("labels", got=got, want="equally many labels in every list with the same epsilon")
    if int(by["high"].max()) >= len(question.classes):  # type: ignore[arg-type]
        got = Verbatim(f"lists of {max(by['high'].to_list())} labels, with {len(question.classes)} classes")
        raise BadInput("labels", got=got, want="fewer labels in a list than there are classes")
    return by["high"].to_numpy()


def codes_of(labels: pl.Series, question: Question) -> pl.Series:
    """Reports as positions among those that are possible, or of the classes that they name; others are refused."""
    if question.response is not None:
        most = len(question.reports) - 1
        outside = labels if labels.dtype == pl.String else labels.filter(~labels.is_in(list(question.reports)))
        if outside.len():
            want = f"whole numbers from 0 to {most}, which this response sends (with these classes or bounds, and this epsilon)"
            raise BadInput("reports", got=outside[0], want=want)
    known = Labels(task=[0] * labels.len(), worker=[0] * labels.len(), label=labels)
    return pl.Series(known.members.codes(list(question.reports))).cast(pl.Int64)
