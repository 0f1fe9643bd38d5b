"""The estimators: truth and abilities from randomised answers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.errors import BadInput
from peerveil.guarantee import Guarantee, read_epsilon
from peerveil.judgements import Labels
from peerveil.truth.abilities import BIAS, STRENGTH, Channel, GridModel
from peerveil.truth.choose import Evidence, Start, begin, fit_auto, sample
from peerveil.truth.confusion import CoinModel, ConfusionModel
from peerveil.truth.loop import ClassPrior, Fit, MemoryEngine, iterate
from peerveil.truth.majority import majority_posterior, pick
from peerveil.truth.outcome import TruthResult, device_promise
from peerveil.truth.paper import fit_as_printed
from peerveil.truth.reports import Reports
from peerveil.truth.spectral import spectral_start

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from peerveil.numerics.exact import Number

    Floats = NDArray[np.float64]

MODELS: Final = ("auto", "as-printed", "one-coin", "two-coin", "confusion")
ENGINES: Final = ("auto", "memory", "duckdb", "spark")
_IN_MEMORY: Final = 50_000_000  # reports; more go to DuckDB
_CLASS_PSEUDO: Final = 5.0
_SHRINK: Final = 0.2  # how far class shares are estimated


class PrivateMajority:
    """Count the reports of every task (18). The baseline that everything is measured against.

    Parameters
    ----------
    epsilon
        Of the response that made the reports; ``None`` if they were not randomised.
    classes
        The classes, or how many there are; read off the reports (which are public) if left out.

    Examples
    --------
    >>> result = PrivateMajority(epsilon=1).fit({"task": [1, 1, 1, 2], "worker": [1, 2, 3, 1], "label": [0, 0, 1, 1]})
    >>> result.labels.tolist()
    [0, 1]
    """

    def __init__(
        self, epsilon: Number | None, *, classes: int | Sequence[Any] | None = None, repeated: str = "all"
    ) -> None:
        self.exact_epsilon = None if epsilon is None else read_epsilon(epsilon)
        self.classes, self.repeated = classes, repeated

    @property
    def epsilon(self) -> float | None:
        """Epsilon as a float."""
        return None if self.exact_epsilon is None else float(self.exact_epsilon)

    def fit(
        self,
        labels: Any,
        *,
        tasks: Sequence[Any] | None = None,
        guarantee: Guarantee | None = None,
        columns: Mapping[str, str] | None = None,
    ) -> TruthResult:
        """Labels by majority, probabilities for a crowd of equal abilities."""
        labels = labels if columns is None else Labels.of(labels, columns=columns)
        reports = Reports.of(labels, self.classes, tasks=tasks, repeated=self.repeated)
        channel = Channel.of(self.epsilon, reports.k)
        posterior, ability = majority_posterior(reports.votes, channel)
        workers = len(reports.workers)
        shown = channel.other + channel.contrast * ability
        error = math.sqrt(shown * (1 - shown) / max(len(reports), 1)) / channel.contrast
        return TruthResult(
            guarantee=promise(self.exact_epsilon, guarantee),
            tasks=reports.tasks,
            classes=reports.classes,
            labels=as_classes(pick(posterior), reports.classes),
            probabilities=posterior,
            workers=reports.workers,
            abilities=np.full(workers, ability),
            standard_errors=np.full(workers, error),
            loads=reports.loads,
            model="majority",
            class_shares=np.full(reports.k, 1 / reports.k),
            objective=0.0,
            iterations=0,
            converged=True,
            epsilon=self.epsilon,
            reports=reports,
        ).doubted(reports.votes)

    def fit_predict(self, frame: Any) -> Any:
        """Labels as a pandas series or Polars frame, like the frame that came."""
        return like(frame, self.fit(frame))


class PrivateDawidSkene:
    """Right answers and abilities from reports that were randomised on each person's device.

    Parameters
    ----------
    epsilon
        Of the response for one answer; ``None`` if answers were not randomised.
    model
        ``"auto"`` (one-coin, or two-coin where the reports speak for personal biases: :mod:`peerveil.truth.choose`),
        ``"one-coin"``, ``"two-coin"`` (an ability for every true class), ``"confusion"`` (a full matrix for every worker), or
        ``"as-printed"`` (the paper's Algorithm 1, two classes).
    classes
        The classes, or how many there are; read off the reports (which are public) if left out. Give them if a class may
        never have been reported: the response depends on how many there are.
    class_prior
        The shares of the classes: ``"shrunk"`` (even; a fifth of the way from even to estimated where the reports speak for
        classes of different sizes, since estimated shares collapse to the largest class at small epsilon), ``"uniform"``,
        ``"estimated"``, or numbers.
    ability_prior
        How many answers the prior on abilities is worth: ``"auto"`` (for one-coin what the reports speak for), a number (for
        two-coin that of the ability in a class), or ``None`` for maximum likelihood.
    start
        ``"majority"``, ``"spectral"``, or probabilities, one row a task.
    history
        Right and wrong answers of workers in earlier work: a mapping of worker to two numbers, such as
        :meth:`TruthResult.history`.
    gold
        Known answers: a mapping of tasks to classes.
    lambda_
        For ``"as-printed"``: ``"rule"``, ``"theorem"`` or a number (:func:`peerveil.truth.paper.choose_lambda`).
    repeated
        What to do with several reports of one worker on one task: ``"all"``, ``"first"``, ``"last"`` or ``"refuse"``.
    iterations, tolerance, must_converge
        Stop when the objective changes by less than ``tolerance`` of its size. If it still does after ``iterations``,
        :class:`NotConverged` is raised, unless ``must_converge=False``.

    Notes
    -----
    Everything here is computed from reports, which are public: no privacy is spent (post-processing).

    Examples
    --------
    >>> from peerveil.truth import simulate_crowd
    >>> crowd = simulate_crowd(tasks=300, workers=40, answers=8, epsilon=2, seed=1)
    >>> result = PrivateDawidSkene(epsilon=2).fit(crowd.reports)
    >>> result.model, result.accuracy(crowd.truth)[0] > 0.75
    ('one-coin (auto)', True)
    """

    def __init__(
        self,
        epsilon: Number | None,
        model: str = "auto",
        *,
        classes: int | Sequence[Any] | None = None,
        class_prior: str | Sequence[float] = "shrunk",
        ability_prior: str | float | None = "auto",
        start: str | Floats = "majority",
        history: Mapping[Any, tuple[float, float]] | None = None,
        gold: Mapping[Any, Any] | None = None,
        lambda_: str | float = "rule",
        repeated: str = "all",
        iterations: int = 500,
        tolerance: float = 1e-6,
        must_converge: bool = True,
    ) -> None:
        self.exact_epsilon = None if epsilon is None else read_epsilon(epsilon)
        if model not in MODELS:
            raise BadInput("model", got=model, want=f"one of {', '.join(MODELS)}")
        if isinstance(iterations, bool) or not isinstance(iterations, (int, np.integer)) or iterations < 1:
            raise BadInput("iterations", got=iterations, want="a whole number, at least 1")
        if not (isinstance(tolerance, (int, float)) and 0 <= tolerance < 1):
            raise BadInput("tolerance", got=tolerance, want="a number from 0 to 1")
        if isinstance(start, str) and start not in ("majority", "spectral"):
            raise BadInput("start", got=start, want="'majority', 'spectral', or an array of probabilities")
        if not (
            ability_prior is None
            or ability_prior == "auto"
            or (isinstance(ability_prior, (int, float)) and 0 < ability_prior < 1e6)
        ):
            raise BadInput("ability_prior", got=ability_prior, want="'auto', None, or a positive number of answers")
        if model == "auto" and ability_prior != "auto":
            raise BadInput("ability_prior", got=ability_prior, want="'auto' with model='auto'; name a model to set it")
        self.model, self.classes, self.class_prior = model, classes, class_prior
        self.ability_prior, self.start, self.history, self.gold = ability_prior, start, history, gold
        self.lambda_, self.repeated = lambda_, repeated
        self.settings: dict[str, Any] = {
            "iterations": int(iterations),
            "tolerance": float(tolerance),
            "must_converge": must_converge,
        }

    @property
    def epsilon(self) -> float | None:
        """Epsilon as a float."""
        return None if self.exact_epsilon is None else float(self.exact_epsilon)

    def fit(
        self,
        labels: Any,
        engine: str = "auto",
        *,
        tasks: Sequence[Any] | None = None,
        guarantee: Guarantee | None = None,
        connection: Any = None,
        columns: Mapping[str, str] | None = None,
    ) -> TruthResult:
        """Infer labels and abilities.

        Parameters
        ----------
        labels
            Labels, a pandas or Polars frame with columns task, worker and label; or a Parquet file (or a pattern such as
            ``reports/*.parquet``) or an Ibis table for the engines that need not fit in memory.
        engine
            ``"memory"``, ``"duckdb"`` (out of core), ``"spark"``, or ``"auto"``: memory up to 50 million reports.
        tasks
            All tasks, if some may have no report; such a task gets the shares of the classes.
        guarantee
            What was promised for the reports; by default local attribute DP with epsilon for one answer, if they were
            randomised before they were collected.
        connection
            An Ibis connection to use, such as one to a Spark cluster.
        columns
            What a frame calls task, worker and label, where it has other names: ``{"task": "item"}``.
        """
        labels = labels if columns is None else Labels.of(labels, columns=columns)
        if engine not in ENGINES:
            raise BadInput("engine", got=engine, want=f"one of {', '.join(ENGINES)}")
        promised = promise(self.exact_epsilon, guarantee)
        from peerveil.engines import quiet
        from peerveil.truth.tables import TableEngine, is_source, open_reports, size_of

        if is_source(labels):
            if engine == "auto":
                engine = "duckdb" if size_of(labels, connection) > _IN_MEMORY else "memory"
            if engine == "memory":
                labels = open_reports(labels, connection)
        elif engine == "auto":
            engine = "memory"
        if engine == "memory":
            return self._fit_memory(labels, tasks, promised, None)
        if (
            tasks is not None
            or isinstance(self.start, np.ndarray)
            or self.start == "spectral"
            or self.repeated != "all"
        ):
            want = (
                "engine='memory' for tasks without reports, other starts than majority, and rules for repeated reports"
            )
            raise BadInput("engine", got=engine, want=want)
        with quiet(), TableEngine.open(labels, engine, self.classes, self.gold, connection) as tables:
            return self._run(tables, tables.sample(), tables, promised, None, None)

    def fit_predict(self, frame: Any) -> Any:
        """Labels for a frame with columns task, worker, label: a pandas series (indexed by task) or a Polars frame."""
        return like(frame, self.fit(frame))

    def fit_predict_proba(self, frame: Any) -> Any:
        """Probabilities for such a frame: one row a task, one column a class."""
        return like(frame, self.fit(frame), probabilities=True)

    def update(self, result: TruthResult, labels: Any) -> TruthResult:
        """Add new reports to those of an earlier result, and go on from where it ended.

        The answer is that of fitting all reports at once (up to the tolerance), in fewer iterations. To forget the old reports
        and keep only what they said about workers, give ``history=result.history()`` to a new estimator instead.
        """
        if not isinstance(result, TruthResult) or result.reports is None:
            raise BadInput("result", got=result, want="a result that was fitted in memory")
        old = result.reports
        before = pl.DataFrame(
            {
                "task": old.tasks.gather(np.repeat(np.arange(len(old.tasks)), np.diff(old.start))),
                "worker": old.workers.gather(old.worker),
                "label": as_classes(old.label, old.classes),
            }
        )
        added = Labels.of(labels)
        added.codes(old.classes)  # refuses a new class by row
        try:
            both = pl.concat([before, added.frame.select("task", "worker", "label")])
        except pl.exceptions.PolarsError:
            raise BadInput("labels", got=added, want="ids and labels of the same kinds as before") from None
        return self._fit_memory(both, old.tasks.to_list(), result.guarantee, result, classes=old.classes)

    # ---- inside ---------------------------------------------------------------------------------------------------

    def _fit_memory(
        self,
        labels: Any,
        tasks: Sequence[Any] | None,
        promised: Guarantee,
        warm: TruthResult | None,
        classes: Sequence[Any] | None = None,
    ) -> TruthResult:
        chosen = self.classes if classes is None else list(classes)
        if warm is not None:
            table = Labels.from_frame(labels)
            tasks = list({*(tasks or []), *table.frame["task"].unique().to_list()})
            labels = table
        reports = Reports.of(labels, chosen, tasks=tasks, repeated=self.repeated)
        start = self._start(reports, warm)
        return self._run(MemoryEngine(reports, self._gold(reports)), reports, reports, promised, start, reports)

    def _run(
        self, engine: Any, looked_at: Reports, ids: Any, promised: Guarantee, start: Floats | None, kept: Reports | None
    ) -> TruthResult:
        k = engine.k
        channel = Channel.of(self.epsilon, k)
        history = self._history(ids)
        found: Evidence | None = None
        if self.model == "as-printed":
            tasks = getattr(engine, "tasks", None) or len(engine.reports.tasks)
            fit = fit_as_printed(engine, channel, self.lambda_, tasks, start, self.settings)
            return self._result(fit, found, engine, ids, promised, kept).doubted(looked_at.votes)
        first = small = None
        shrunk = isinstance(self.class_prior, str) and self.class_prior == "shrunk"
        if self.model == "auto" or shrunk or (self.model, self.ability_prior) == ("one-coin", "auto"):
            # choices look at reports only, so that they are equal on every engine
            small = MemoryEngine(sample(looked_at))
            first = begin(small, channel, self.settings, history)
        prior = self._class_prior(channel, first is not None and first.skewed)
        if self.model == "auto" and first is not None and small is not None:
            fit, found = fit_auto(engine, small, first, channel, prior, self.settings, start=start, history=history)
        else:
            model = self._model(engine.loads(), channel, history, first)
            fit = iterate(engine, model, prior, start=start, **self.settings)
        return self._result(fit, found, engine, ids, promised, kept).doubted(looked_at.votes)

    def _model(
        self, loads: NDArray[np.int64], channel: Channel, history: Floats | None, first: Start | None
    ) -> GridModel | CoinModel | ConfusionModel:
        """The model that was asked for; ``first`` knows how strong a prior the reports speak for."""
        prior = self.ability_prior
        if self.model == "confusion" or (self.model == "two-coin" and prior is None):
            pair = None if prior is None else _pair(STRENGTH if prior == "auto" else float(prior))
            return ConfusionModel(channel, loads.size, pair, history)
        if prior is None:
            return CoinModel(channel)
        found, mean = (STRENGTH, 0.7) if first is None else (first.strength, first.mean)
        if self.model == "two-coin":
            bias = BIAS if prior == "auto" else float(prior)
            return GridModel(channel, loads, STRENGTH, bias, mean=mean, history=history)
        strength = found if prior == "auto" else float(prior)
        return GridModel(channel, loads, strength, mean=mean, history=history)

    def _class_prior(self, channel: Channel, skewed: bool) -> ClassPrior:
        k = channel.k
        if isinstance(self.class_prior, str):
            if self.class_prior == "shrunk":
                return ClassPrior(None, k, shrink=_SHRINK) if skewed else ClassPrior(np.full(k, 1 / k), k)
            if self.class_prior == "uniform":
                return ClassPrior(np.full(k, 1 / k), k, 0.0)
            if self.class_prior == "estimated":
                return ClassPrior(None, k, 0.0 if self.ability_prior is None else _CLASS_PSEUDO)
        else:
            shares = np.asarray(self.class_prior, dtype=np.float64)
            if shares.shape == (k,) and (shares > 0).all() and abs(float(shares.sum()) - 1) < 1e-6:
                return ClassPrior(shares, k, 0.0)
        raise BadInput(
            "class_prior",
            got=self.class_prior,
            want=f"'shrunk', 'uniform', 'estimated', or {k} shares that add up to 1",
        )

    def _start(self, reports: Reports, warm: TruthResult | None) -> Floats | None:
        if warm is not None:
            start = np.full((len(reports.tasks), reports.k), 1 / reports.k)
            total = reports.votes.sum(axis=1, keepdims=True)
            np.divide(reports.votes, total, out=start, where=total > 0)
            start[reports.codes_of_tasks(warm.tasks.to_list(), "result")] = warm.probabilities
            return start
        if isinstance(self.start, str):
            return spectral_start(reports) if self.start == "spectral" else None
        given = np.asarray(self.start, dtype=np.float64)
        shape = (len(reports.tasks), reports.k)
        if given.shape != shape or not np.isfinite(given).all() or (given < 0).any():
            raise BadInput("start", got=given, want=f"probabilities of shape {shape}")
        return given

    def _gold(self, reports: Reports) -> NDArray[np.int32] | None:
        if self.gold is None:
            return None
        gold = np.full(len(reports.tasks), -1, dtype=np.int32)
        places = reports.codes_of_tasks(list(self.gold), "gold")
        gold[places] = gold_codes(self.gold, reports.classes)
        return gold

    def _history(self, ids: Any) -> Floats | None:
        if self.history is None:
            return None
        past = np.zeros((len(ids.workers), 2))
        lookup = {worker: i for i, worker in enumerate(ids.workers.to_list())}
        for worker, pair in self.history.items():
            try:
                right, wrong = (float(x) for x in pair)
            except (TypeError, ValueError):
                raise BadInput(f"history[{worker!r}]", got=pair, want="right and wrong answers, two numbers") from None
            if not (math.isfinite(right) and math.isfinite(wrong) and right >= 0 and wrong >= 0):
                raise BadInput(f"history[{worker!r}]", got=pair, want="two finite numbers, not negative")
            if worker in lookup:
                past[lookup[worker]] = right, wrong
        return past

    def _result(
        self, fit: Fit, found: Evidence | None, engine: Any, ids: Any, promised: Guarantee, kept: Reports | None
    ) -> TruthResult:
        name = self.model if found is None else _named(found)
        return TruthResult(
            guarantee=promised,
            tasks=ids.tasks_series() if hasattr(ids, "tasks_series") else ids.tasks,
            classes=tuple(ids.classes),
            labels=as_classes(pick(fit.posterior), tuple(ids.classes)),
            probabilities=fit.posterior,
            workers=ids.workers,
            abilities=fit.summary.ability,
            standard_errors=fit.summary.error,
            loads=engine.loads(),
            model=name,
            class_shares=fit.shares,
            objective=fit.objective,
            iterations=fit.iterations,
            converged=fit.converged,
            epsilon=self.epsilon,
            evidence=found,
            details={**fit.summary.details, "objectives": fit.history},
            reports=kept,
        )


def promise(epsilon: Any, guarantee: Guarantee | None) -> Guarantee:
    """The guarantee that a result carries: the one given, or local attribute DP for one answer if it was randomised."""
    if guarantee is None:
        return device_promise(epsilon)
    if not isinstance(guarantee, Guarantee):
        raise BadInput("guarantee", got=guarantee, want="a Guarantee")
    return guarantee


def as_classes(codes: NDArray[Any], classes: Sequence[Any]) -> NDArray[Any]:
    """Codes as the classes that they stand for."""
    return np.asarray(np.array(list(classes))[codes])


def gold_codes(gold: Mapping[Any, Any], classes: Sequence[Any]) -> NDArray[np.int32]:
    """Known answers as codes."""
    lookup = {c: i for i, c in enumerate(classes)}
    codes = []
    for task, answer in gold.items():
        value = answer.item() if isinstance(answer, np.generic) else answer
        if value not in lookup:
            raise BadInput(f"gold[{task!r}]", got=answer, want=f"one of the classes {list(classes)}")
        codes.append(lookup[value])
    return np.array(codes, dtype=np.int32)


def like(frame: Any, result: TruthResult, *, probabilities: bool = False) -> Any:
    """Labels in the kind of frame that came: pandas gives a series (or frame) indexed by task, anything else Polars."""
    if type(frame).__module__.split(".")[0] == "pandas":
        import importlib

        pandas = importlib.import_module("pandas")
        index = pandas.Index(result.tasks.to_list(), name="task")
        if probabilities:
            return pandas.DataFrame(result.probabilities, index=index, columns=list(result.classes))
        return pandas.Series(result.labels, index=index, name="agg_label")
    if probabilities:
        columns = {str(c): result.probabilities[:, i] for i, c in enumerate(result.classes)}
        return pl.DataFrame({"task": result.tasks, **columns})
    return result.frame().select("task", "label")


def _named(found: Evidence) -> str:
    if found.weight == 0:
        return "one-coin (auto)"
    return "two-coin (auto)" if found.weight == 1 else f"{found.weight:.2f} two-coin, else one-coin (auto)"


def _pair(total: float) -> tuple[float, float]:
    return 2 * total / 3, total / 3
