"""Opening randomized reports: arrays, tables, files and databases, with the question that they answer."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypedDict, Unpack

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim, one_of
from peerveil.core.guarantee import read_epsilon
from peerveil.core.randomness.ordered import NumberResponse, OrderedResponse
from peerveil.data import Labels
from peerveil.data.engines import connect, is_table, load_ibis, open_table, quiet
from peerveil.data.labels import check_classes
from peerveil.data.readers.files import InputFile
from peerveil.data.readers.recognize import recognize_file
from peerveil.data.readers.tabular import TABULAR
from peerveil.data.schema import LABELS, Column, TableSchema
from peerveil.data.table import Table, is_frame
from peerveil.truth.answers import read_classes
from peerveil.truth.guarantee import device_guarantee
from peerveil.truth.randomize import CollectedAnswers, RandomizedAnswers
from peerveil.truth.shares_counts import Question, ReportSource, matching
from peerveil.truth.wire import stated_answers

if TYPE_CHECKING:
    from ibis.backends import BaseBackend

    from peerveil.core.exact import Number

ENGINES: Final = ("memory", "duckdb", "spark")
_RAKING_STEPS: Final = 1000
_RAKING_TOLERANCE: Final = 1e-10
REPORTS: Final = TableSchema(
    "Reports",
    (
        Column("label", "label", "a report", "what was sent", other_names=LABELS["label"].other_names),
        Column(
            "worker", "id", "a person's id in every row, or in none", "who sent it", required=False, empty_is_absent=True,
            other_names=LABELS["worker"].other_names,
        ),
        LABELS["epsilon"],
    ),
    identity=("worker", "label", "label"),
    further=Column("extra", "any", "a value", "further column, kept as it came", gaps=True),
)  # fmt: skip


class Reports(Table):
    """Randomized reports to one question: what was sent, perhaps by whom, and further columns."""

    _schema: ClassVar[TableSchema] = REPORTS

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        format: str | None = None,  # noqa: A002
        *,
        columns: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Reports:
        """Read a CSV, TSV, JSON lines or Parquet file."""
        file = InputFile.open(path)
        chosen = format or recognize_file(file).format
        if chosen not in TABULAR:
            raise BadInput(file.name, got=Verbatim(chosen), want=f"a table of reports: {', '.join(TABULAR)}")
        return cls._of_file(file, chosen, cls._wanted(columns, options), options)


class Terms(TypedDict, total=False):
    """How reports are opened: the parameters that all estimates share, as of :func:`peerveil.truth.shares.estimate_shares`."""

    epsilon: Number | None
    classes: int | Sequence[Hashable] | None
    weights: Any
    margins: Mapping[str, Mapping[Any, float]] | None
    people: Any
    columns: Mapping[str, str] | None
    task: Any
    engine: str
    connection: BaseBackend | None
    response: OrderedResponse | NumberResponse | None


@contextmanager
def open_reports(
    reports: Any, *, extra: Sequence[str] = (), lists: bool = False, **terms: Unpack[Terms]
) -> Iterator[tuple[ReportSource, Question]]:
    """Reports on an engine, and the question that they answer; what was opened is closed afterwards.

    Reports that name several classes are refused unless ``lists``.
    """
    epsilon, classes, response = terms.get("epsilon"), terms.get("classes"), terms.get("response")
    weights, people, columns = terms.get("weights"), terms.get("people"), terms.get("columns")
    margins, task = terms.get("margins"), terms.get("task")
    engine, connection = terms.get("engine", "memory"), terms.get("connection")
    one_of(engine, "engine", ENGINES)
    stated = stated_answers(reports, epsilon=epsilon, classes=classes)
    reports = reports if stated is None else stated
    if isinstance(reports, RandomizedAnswers | CollectedAnswers):
        for name, value in (("epsilon", epsilon), ("classes", classes), ("response", response)):
            if value is not None:
                raise BadInput(name, got=value, want="nothing: these randomized answers state it")
        given, guarantee = reports.response, reports.guarantee
        chosen = isinstance(reports, CollectedAnswers) and reports.levels
        reports, classes = reports.answers, given.labels or given.k
        question = Question(tuple(check_classes(classes)), None if chosen else given.exact_epsilon, guarantee)
    elif response is not None:
        question = _question_of(response, epsilon, classes)
    else:
        question = _question(epsilon, classes)
    names = [*extra, *(margins or ()), *([] if task is None else ["task"])]
    with ExitStack() as stack, quiet():
        if engine == "memory" and not is_table(reports) and connection is None:
            source = _in_memory(reports, names, weights, people, columns)
        else:
            source = stack.enter_context(_on_engine(reports, names, weights, people, columns, engine, connection))
        if question.epsilon is None and source.epsilon is None:
            want = "the epsilon with which each report was randomized on the person's own device (or a column epsilon)"
            raise BadInput("epsilon", got=Verbatim("nothing"), want=want)
        source = replace(source, epsilon=None if question.epsilon is not None else source.epsilon)
        source = source if task is None else source.only("task", task)
        source.check_weights()
        if source.has_lists and not lists:
            want = (
                "one label in every report, as peerveil.truth.randomize sends, or randomize_answers(response='k-ary')"
            )
            raise BadInput("labels", got=Verbatim("lists of labels, from a subset response"), want=want)
        if response is None:
            question = replace(question, classes=tuple(_typed(question.classes, source.column("label", most=1))))
        if source.epsilon is not None:
            question = replace(question, guarantee=device_guarantee(largest_epsilon(source)))
        yield (rake(source, margins) if margins else source), question


def _question(epsilon: Number | None, classes: Any) -> Question:
    if classes is None:
        want = "the list of possible answers: a list that is read off the reports may lack some"
        raise BadInput("classes", got=Verbatim("nothing"), want=want)
    names = check_classes(classes)
    if len(names) < 2:
        raise BadInput("classes", got=classes, want="at least two classes")
    exact = None if epsilon is None else read_epsilon(epsilon)
    return Question(tuple(names), exact, device_guarantee(exact))


def _question_of(
    response: OrderedResponse | NumberResponse, epsilon: Number | None, classes: int | Sequence[Hashable] | None
) -> Question:
    """The question of a response whose reports are numbers, not classes; classes of numbers are the levels."""
    for name, value in (("epsilon", epsilon), ("classes", classes)):
        if value is not None:
            raise BadInput(name, got=value, want="nothing: the response states it")
    if isinstance(response, NumberResponse):
        levels: Sequence[Any] = np.linspace(response.low, response.high, response.levels).tolist()
    elif isinstance(response, OrderedResponse):
        levels = response.labels or range(response.k)
    else:
        want = "an OrderedResponse or a NumberResponse; other reports are read without it, with epsilon and classes"
        raise BadInput("response", got=response, want=want)
    exact = response.exact_epsilon
    are_levels = isinstance(response, NumberResponse)
    return Question(tuple(levels), exact, device_guarantee(exact), response.matrix(), are_levels)


def _typed(classes: Sequence[Any], labels: pl.Series) -> list[Any]:
    """Classes that were perhaps written as text, of the kind of the labels."""
    known = Labels(task=[0] * labels.len(), worker=[0] * labels.len(), label=labels)
    return list(read_classes(list(classes), known.members))


def largest_epsilon(source: ReportSource) -> Fraction:
    """The largest epsilon in a column: what is guaranteed for everybody."""
    assert source.epsilon is not None
    values = source.sums(source.epsilon)[source.epsilon].to_list()
    return max(read_epsilon(value) for value in values)


def _in_memory(reports: Any, names: Sequence[str], weights: Any, people: Any, columns: Any) -> ReportSource:
    """Reports as a frame: a table with a column label, a file, or the reports alone."""
    if isinstance(reports, Labels):
        table, person = reports.frame, people if isinstance(people, str) else None
    elif isinstance(reports, (str, os.PathLike)) or (is_frame(reports) and not _is_series(reports)):
        columns = dict(columns or {}) | ({"worker": people} if isinstance(people, str) else {})
        person = "worker" if isinstance(people, str) else None
        extra = list(dict.fromkeys([*names, *([weights] if isinstance(weights, str) else [])]))
        extra = [name for name in extra if name not in REPORTS.names]
        read = Reports.read if isinstance(reports, (str, os.PathLike)) else Reports.from_frame
        table = read(reports, columns=columns or None, extra=extra).frame
    else:
        table, person = Reports.from_frame({"label": _column(reports, "reports")}).frame, None
    weight = weights if isinstance(weights, str) else None
    if weights is not None and weight is None:
        table, weight = table.with_columns(_weights=_per_report(weights, "weights", table.height)), "_weights"
    if people is not None and not isinstance(people, str):
        table, person = table.with_columns(_people=_per_report(people, "people", table.height)), "_people"
    source = _described(table, person, weight)
    source.require(names, "columns")
    return source


def _per_report(values: Any, argument: str, reports: int) -> pl.Series:
    """Values as a series with one for each report."""
    series = _column(values, argument)
    if len(series) != reports:
        raise BadInput(argument, got=Verbatim(f"{len(series):,} values"), want=f"{reports:,}, one per report")
    return series


def _described(table: Any, person: str | None, weight: str | None) -> ReportSource:
    """The table with its roles; by default people are those of the column worker."""
    person = person or ("worker" if "worker" in table.columns else None)
    source = ReportSource(table, person, weight, "epsilon" if "epsilon" in table.columns else None)
    source.require([name for name in (weight,) if name is not None], "weights")
    source.require([name for name in (person,) if name is not None], "people")
    return source


def _is_series(value: Any) -> bool:
    return isinstance(value, pl.Series) or (hasattr(value, "index") and hasattr(value, "dtype"))


def _column(values: Any, argument: str) -> pl.Series:
    """Values as a series without gaps."""
    try:
        array = (
            values.to_list()
            if hasattr(values, "to_list")
            else values.tolist()
            if hasattr(values, "tolist")
            else list(values)
        )
        series = pl.Series(argument, array, strict=True)
    except (TypeError, pl.exceptions.PolarsError):
        raise BadInput(argument, got=values, want="a list, array or series with one value per report") from None
    if series.len() == 0:
        raise BadInput(argument, got=Verbatim("nothing"), want="at least one report")
    if series.null_count():
        raise BadInput(
            argument, got=Verbatim(f"{series.null_count():,} missing values"), want="a value for every report"
        )
    return series


@contextmanager
def _on_engine(
    reports: Any,
    names: Sequence[str],
    weights: Any,
    people: Any,
    columns: Mapping[str, str] | None,
    engine: str,
    connection: BaseBackend | None,
) -> Iterator[ReportSource]:
    """Reports as an Ibis table: of a file, a pattern, an Ibis table, or what is in memory."""
    for argument, value in (("weights", weights), ("people", people)):
        if value is not None and not isinstance(value, str):
            raise BadInput(argument, got=value, want="the name of a column, or engine='memory'")
    with ExitStack() as stack:
        if connection is None and not is_table(reports):
            connection = connect(engine)
            stack.callback(connection.disconnect)
        ours = {"label": "label", **(columns or {})}
        if isinstance(reports, str) or hasattr(reports, "__fspath__") or is_table(reports):
            needed = [ours["label"], *names, *(value for value in (weights, people) if value is not None)]
            opened = open_table(reports, needed, connection=connection, argument="reports", mapping=columns)
            table = stack.enter_context(opened)
            table = table.rename(
                {name: theirs for name, theirs in ours.items() if theirs != name and theirs in table.columns}
            )
        else:
            source = _in_memory(reports, names, weights, people, columns)
            frame = source.table
            if engine == "spark":
                name = f"peerveil_reports_{id(frame)}"
                connection._session.createDataFrame(frame.to_pandas()).createOrReplaceTempView(name)  # type: ignore[union-attr]
                table = connection.table(name)  # type: ignore[union-attr]
            else:
                table = load_ibis().memtable(frame.to_arrow())
            yield replace(source, table=table)
            return
        if table.label.type().is_array():
            table = table.mutate(label=table.label.sort())  # the order in which classes were named is not used
        yield _described(table, people, weights)


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
