"""The estimator: truth and abilities from randomized answers, by any of the models, on any of the engines."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import whole
from peerveil.core.guarantee import read_epsilon
from peerveil.data import Labels
from peerveil.truth.abilities import BIAS, STRENGTH, Channel, GridModel
from peerveil.truth.answers import EncodedAnswers
from peerveil.truth.choose import Evidence, Start, begin, fit_auto, sample
from peerveil.truth.confusion import CoinModel, ConfusionModel
from peerveil.truth.given import given_gold, given_history, given_shares, given_start
from peerveil.truth.loop import Fit, MemoryEngine, iterate
from peerveil.truth.majority import pick
from peerveil.truth.result import TruthResult, WorkerAbilities, as_classes, like, promise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from peerveil.core.exact import Number
    from peerveil.core.guarantee import Guarantee

    Floats = NDArray[np.float64]

MODELS: Final = ("auto", "one-coin", "two-coin", "confusion")
ENGINES: Final = ("auto", "memory", "duckdb", "spark")
_IN_MEMORY: Final = 50_000_000  # reports; more go to DuckDB


class PrivateDawidSkene:
    """Right answers and abilities from reports that were randomized on each person's device.

    Parameters
    ----------
    epsilon
        Of the response for one answer; ``None`` if answers were not randomized.
    model
        ``"auto"`` (one-coin, or two-coin where the reports speak for personal biases: :mod:`peerveil.truth.choose`),
        ``"one-coin"``, ``"two-coin"`` (an ability for every true class), or ``"confusion"`` (a full matrix for every worker).
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
        ``"majority"``, or probabilities, one row per task.
    history
        Right and wrong answers of workers in earlier work: a mapping of worker to two numbers, such as
        ``workers_.history()`` of an earlier fit.
    gold
        Known answers: a mapping of tasks to classes.
    repeated
        What to do with several reports of one worker on one task: ``"all"``, ``"first"``, ``"last"`` or ``"refuse"``.
    iterations, tolerance, must_converge
        Stop when the objective changes by less than ``tolerance`` of its size. If it still does after ``iterations``,
        :class:`EMNotConverged` is raised, unless ``must_converge=False``.

    Attributes
    ----------
    workers_ : WorkerAbilities
        Abilities by the ids of workers, after a fit: for the operator, not part of the result.

    Notes
    -----
    Everything here is computed from reports, which are public: no privacy is spent (post-processing).

    Examples
    --------
    >>> from peerveil.truth import simulate_crowd
    >>> crowd = simulate_crowd(tasks=300, workers=40, answers=8, epsilon=2, seed=1)
    >>> result = PrivateDawidSkene(epsilon=2).fit(crowd.randomized)
    >>> result.model, result.accuracy(crowd.truth)[0] > 0.75
    ('one-coin (auto)', True)
    """

    workers_: WorkerAbilities

    def __init__(
        self,
        *,
        epsilon: Number | None,
        model: str = "auto",
        classes: int | Sequence[Any] | None = None,
        class_prior: str | Sequence[float] = "shrunk",
        ability_prior: str | float | None = "auto",
        start: str | Floats = "majority",
        history: Mapping[Any, tuple[float, float]] | None = None,
        gold: Mapping[Any, Any] | None = None,
        repeated: str = "all",
        iterations: int = 500,
        tolerance: float = 1e-6,
        must_converge: bool = True,
    ) -> None:
        self.exact_epsilon = None if epsilon is None else read_epsilon(epsilon)
        if model not in MODELS:
            raise BadInput("model", got=model, want=f"one of {', '.join(MODELS)}")
        whole(iterations, "iterations", 1)
        if not (isinstance(tolerance, (int, float)) and 0 <= tolerance < 1):
            raise BadInput("tolerance", got=tolerance, want="a number from 0 to 1")
        if isinstance(start, str) and start != "majority":
            raise BadInput("start", got=start, want="'majority', or an array of probabilities")
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
        self.repeated = repeated
        self.settings: dict[str, Any] = {
            "iterations": int(iterations),
            "tolerance": float(tolerance),
            "must_converge": must_converge,
        }
        self._last: tuple[TruthResult, EncodedAnswers] | None = None

    @property
    def epsilon(self) -> float | None:
        """Epsilon as a float."""
        return None if self.exact_epsilon is None else float(self.exact_epsilon)

    def fit(
        self,
        labels: Any,
        *,
        columns: Mapping[str, str] | None = None,
        engine: str = "auto",
        tasks: Sequence[Any] | None = None,
        guarantee: Guarantee | None = None,
        connection: Any = None,
    ) -> TruthResult:
        """Infer labels and abilities; whose abilities they are is then in ``workers_``.

        Parameters
        ----------
        labels
            Labels, a pandas or Polars frame with columns task, worker and label; or a Parquet file (or a pattern such as
            ``reports/*.parquet``) or an Ibis table for the engines that need not fit in memory.
        columns
            What a frame calls task, worker and label, where it has other names: ``{"task": "item"}``.
        engine
            ``"memory"``, ``"duckdb"`` (out of core), ``"spark"``, or ``"auto"``: memory up to 50 million reports.
        tasks
            All tasks, if some may have no report; such a task gets the shares of the classes.
        guarantee
            What was promised for the reports; by default local attribute DP with epsilon for one answer, if they were
            randomized before they were collected.
        connection
            An Ibis connection to use, such as one to a Spark cluster.
        """
        labels = labels if columns is None else Labels.of(labels, "labels", columns=columns)
        if engine not in ENGINES:
            raise BadInput("engine", got=engine, want=f"one of {', '.join(ENGINES)}")
        promised = promise(self.exact_epsilon, guarantee)
        from peerveil.data.engines import quiet
        from peerveil.truth.tables import TableEngine, is_source, open_answers, size_of

        if is_source(labels):
            if engine == "auto":
                engine = "duckdb" if size_of(labels, connection) > _IN_MEMORY else "memory"
            if engine == "memory":
                labels = open_answers(labels, connection)
        elif engine == "auto":
            engine = "memory"
        if engine == "memory":
            return self._fit_memory(labels, tasks, promised, None)
        if tasks is not None or isinstance(self.start, np.ndarray) or self.repeated != "all":
            want = (
                "engine='memory' for tasks without reports, other starts than majority, and rules for repeated reports"
            )
            raise BadInput("engine", got=engine, want=want)
        with quiet(), TableEngine.open(labels, engine, self.classes, self.gold, connection) as tables:
            self._last = None
            return self._run(tables, tables.sample(), tables, promised, None)

    def fit_predict(self, labels: Any, *, columns: Mapping[str, str] | None = None) -> Any:
        """Labels for a frame with columns task, worker, label: a pandas series (indexed by task) or a Polars frame."""
        return like(labels, self.fit(labels, columns=columns))

    def fit_predict_proba(self, labels: Any, *, columns: Mapping[str, str] | None = None) -> Any:
        """Probabilities for such a frame: one row per task, one column per class."""
        return like(labels, self.fit(labels, columns=columns), probabilities=True)

    def update(self, labels: Any, *, columns: Mapping[str, str] | None = None) -> TruthResult:
        """Add new reports to those of the last fit, and continue from where it ended.

        The answer is that of fitting all reports at once (up to the tolerance), in fewer iterations. To forget the old reports
        and keep only what they said about workers, give ``history=estimator.workers_.history()`` to a new estimator instead.
        """
        if self._last is None:
            got = Verbatim("an estimator without reports in memory")
            raise BadInput("update", got=got, want="fit(..., engine='memory') before it")
        result, old = self._last
        before = pl.DataFrame(
            {
                "task": old.tasks.gather(np.repeat(np.arange(len(old.tasks)), np.diff(old.start))),
                "worker": old.workers.gather(old.worker),
                "label": as_classes(old.label, old.classes),
            }
        )
        added = Labels.of(labels, "labels", columns=columns)
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
        reports = EncodedAnswers.of(labels, chosen, tasks=tasks, repeated=self.repeated)
        start = given_start(self.start, reports, warm)
        result = self._run(MemoryEngine(reports, given_gold(self.gold, reports)), reports, reports, promised, start)
        if self.repeated != "all" and not isinstance(labels, EncodedAnswers):
            sent = Labels.of(labels).frame["worker"].value_counts()["count"].max()  # what is not used was sent too
            result = replace(result, most_answers=int(cast(int, sent)))
        self._last = result, reports
        return result

    def _run(
        self, engine: Any, looked_at: EncodedAnswers, ids: Any, promised: Guarantee, start: Floats | None
    ) -> TruthResult:
        k = engine.k
        channel = Channel.of(self.epsilon, k)
        history = given_history(self.history, ids.workers)
        found: Evidence | None = None
        first = small = None
        shrunk = isinstance(self.class_prior, str) and self.class_prior == "shrunk"
        if self.model == "auto" or shrunk or (self.model, self.ability_prior) == ("one-coin", "auto"):
            # choices look at reports only, so that they are equal on every engine
            small = MemoryEngine(sample(looked_at))
            first = begin(small, channel, self.settings, history)
        skewed = first is not None and first.skewed
        prior = given_shares(self.class_prior, k, skewed=skewed, likeliest=self.ability_prior is None)
        if self.model == "auto" and first is not None and small is not None:
            fit, found = fit_auto(engine, small, first, channel, prior, self.settings, start=start, history=history)
        else:
            model = self._model(engine.loads(), channel, history, first)
            fit = iterate(engine, model, prior, start=start, **self.settings)
        result = self._result(fit, found, engine, ids, promised)
        self.workers_ = WorkerAbilities.of(ids.workers, result)
        return result.doubted(looked_at.votes)

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

    def _result(self, fit: Fit, found: Evidence | None, engine: Any, ids: Any, promised: Guarantee) -> TruthResult:
        name = self.model if found is None else _named(found)
        return TruthResult(
            guarantee=promised,
            tasks=ids.tasks_series() if hasattr(ids, "tasks_series") else ids.tasks,
            classes=tuple(ids.classes),
            labels=as_classes(pick(fit.posterior), tuple(ids.classes)),
            probabilities=fit.posterior,
            abilities=fit.summary.ability,
            standard_errors=fit.summary.error,
            loads=engine.loads(),
            model=name,
            class_shares=fit.shares,
            objective=fit.objective,
            iterations=fit.iterations,
            converged=fit.converged,
            epsilon=self.epsilon,
            answer_epsilon=self.exact_epsilon,
            evidence=found,
            details={**fit.summary.details, "objectives": fit.history},
        )


def _named(found: Evidence) -> str:
    if found.weight == 0:
        return "one-coin (auto)"
    return "two-coin (auto)" if found.weight == 1 else f"{found.weight:.2f} two-coin, else one-coin (auto)"


def _pair(total: float) -> tuple[float, float]:
    return 2 * total / 3, total / 3
