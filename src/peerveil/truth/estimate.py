"""The estimators: correct labels and abilities from randomized answers, by any of the models, on any of the engines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim, one_of
from peerveil.core.exact import Number, number, whole
from peerveil.core.guarantee import Guarantee, read_epsilon
from peerveil.data import Labels
from peerveil.data.engines import quiet
from peerveil.truth.answers import ById, EncodedAnswers, decode_classes, history_counts
from peerveil.truth.channels import Channels
from peerveil.truth.choose import AutoModel, Pilot
from peerveil.truth.em import Engine, Limits, Model
from peerveil.truth.gold import calibrate
from peerveil.truth.grid import BIAS, GridModel
from peerveil.truth.guarantee import crowd_doubt, device_guarantee, largest_total, worker_epsilons
from peerveil.truth.memory import MemoryEngine
from peerveil.truth.models import (
    STRENGTH,
    ClassPrior,
    CoinModel,
    ConfusionModel,
    MajorityModel,
    likeliest_class,
    majority_of,
)
from peerveil.truth.result import TruthResult, WorkerAbilities, labels_like
from peerveil.truth.tables import TableEngine, count_answers, is_source, open_answers

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    from ibis.backends import BaseBackend

    from peerveil.core.arrays import Floats

Epsilons: TypeAlias = "Number | ById[Number] | None"
"""One epsilon; or one for each worker, by their ids or (as "column") from the column epsilon; or none."""

MODELS: Final = ("auto", "one-coin", "two-coin", "confusion")
ENGINES: Final = ("auto", "memory", "duckdb", "spark")
_MAX_IN_MEMORY: Final = 50_000_000  # answers; more go to DuckDB


class _Estimator(ABC):
    """What both estimators share; parameters and attributes as of :class:`PrivateDawidSkene`."""

    workers_: WorkerAbilities
    known: ById[Hashable] | None = None
    limits = Limits()

    def __init__(
        self,
        *,
        epsilon: Epsilons,
        classes: int | Sequence[Hashable] | None = None,
        repeated: str = "all",
        gold: object = None,
    ) -> None:
        self.levels: ById[Number] | str | None = None
        self.exact_epsilon: Fraction | None = None
        if isinstance(epsilon, Mapping) or (isinstance(epsilon, str) and epsilon == "column"):
            self.levels = epsilon
        elif epsilon is not None:
            self.exact_epsilon = read_epsilon(epsilon)
        self.classes, self.repeated, self.gold = classes, repeated, gold

    @property
    def epsilon(self) -> float | None:
        """Epsilon as a float; of several the largest, after a fit."""
        return None if self.exact_epsilon is None else float(self.exact_epsilon)

    def _channels(self, engine: Engine) -> Channels:
        """The channels of the workers on an engine."""
        self._by_worker = worker_epsilons(self.levels, engine.workers, engine.answers.epsilons)
        epsilon: float | list[float] | None = self.epsilon
        if self._by_worker is not None:
            self.exact_epsilon, epsilon = max(self._by_worker), [float(level) for level in self._by_worker]
        self._used = Channels.of(epsilon, len(engine.classes), len(engine.workers), engine.answers.sizes)
        return self._used

    @abstractmethod
    def fit(self, labels: object, *, columns: Mapping[str, str] | None = None) -> TruthResult:
        """Infer labels and abilities."""

    def fit_predict(self, labels: object, *, columns: Mapping[str, str] | None = None) -> pl.DataFrame | pd.Series:
        """Labels for a frame with columns task, worker, label: a pandas series (indexed by task) or a Polars frame."""
        return labels_like(labels, self.fit(labels, columns=columns))

    def fit_predict_proba(
        self, labels: object, *, columns: Mapping[str, str] | None = None
    ) -> pl.DataFrame | pd.DataFrame:
        """Probabilities for such a frame: one row per task, one column per class."""
        return labels_like(labels, self.fit(labels, columns=columns), probabilities=True)

    def _fit(
        self, model: Model, name: str, engine: Engine, guarantee: Guarantee | None, start: Floats | None = None
    ) -> TruthResult:
        """Fit a model on an engine."""
        fit = model.fit(engine, self.limits, start)
        result = TruthResult(
            guarantee=device_guarantee(self.exact_epsilon, self._by_worker) if guarantee is None else guarantee,
            tasks=fit.tasks,
            classes=engine.classes,
            labels=decode_classes(likeliest_class(fit.posterior), engine.classes),
            probabilities=fit.posterior,
            abilities=fit.abilities,
            standard_errors=fit.standard_errors,
            loads=engine.loads,
            model=name if fit.evidence is None else fit.evidence.model,
            class_shares=fit.class_shares,
            objective=fit.objective,
            iterations=len(fit.objectives),
            converged=fit.converged,
            epsilon=self.epsilon,
            answer_epsilon=self.exact_epsilon,
            largest_total=largest_total(engine.loads, self._by_worker),
            most_answers=engine.answers.most_sent,
            evidence=fit.evidence,
            details={**fit.details, "objectives": fit.objectives, "known_tasks": tuple(self.known or ())},
        )
        result = result.doubted(crowd_doubt(engine.answers, self._used, self._by_worker or self.exact_epsilon))
        if self.gold is not None:
            result = calibrate(result, self.gold, engine.answers.sample(), self._used.column("contrast")[:, 0])
        self.workers_ = WorkerAbilities.of(engine.workers, result, self._by_worker)
        return result


class PrivateMajority(_Estimator):
    """Count the answers to every task (18). The baseline that everything is measured against.

    Parameters
    ----------
    epsilon, classes, repeated, gold
        As of :class:`PrivateDawidSkene`.

    Attributes
    ----------
    workers_ : WorkerAbilities
        The ids of workers and the ability that all share, after a fit: for the operator, not part of the result.

    Examples
    --------
    >>> result = PrivateMajority(epsilon=1).fit({"task": [1, 1, 1, 2], "worker": [1, 2, 3, 1], "label": [0, 0, 1, 1]})
    >>> result.labels.tolist()
    [0, 1]
    """

    def fit(
        self,
        labels: object,
        *,
        columns: Mapping[str, str] | None = None,
        tasks: Sequence[Hashable] | None = None,
        guarantee: Guarantee | None = None,
    ) -> TruthResult:
        """Labels by majority, probabilities for a crowd of equal abilities."""
        labels = labels if columns is None else Labels.of(labels, "labels", columns=columns)
        engine = MemoryEngine(EncodedAnswers.of(labels, self.classes, tasks=tasks, repeated=self.repeated))
        return self._fit(MajorityModel(self._channels(engine)), "majority", engine, guarantee)


class PrivateDawidSkene(_Estimator):
    """Correct labels and abilities from answers that were randomized on each person's device.

    Parameters
    ----------
    epsilon
        Of the response for one answer; ``None`` if answers were not randomized. If people chose protection levels of their own:
        a mapping of worker to epsilon, or ``"column"`` for the column epsilon of the answers.
    model
        ``"auto"`` (one-coin, or two-coin where the answers show personal biases: :mod:`peerveil.truth.choose`),
        ``"one-coin"``, ``"two-coin"`` (an ability for every class), or ``"confusion"`` (a full matrix for every worker).
    classes
        The classes, or how many there are; by default those among the answers, which are public. Set them if a class may
        never have been answered: the response depends on how many there are.
    class_prior
        The shares of the classes: ``"shrunk"`` (even; a fifth of the way from even to estimated where the answers show
        classes of different sizes, since estimated shares collapse to the largest class at small epsilon), ``"uniform"``,
        ``"estimated"``, or numbers.
    ability_prior
        How many answers the prior on abilities is worth: ``"auto"`` (for one-coin estimated from the answers), a number (for
        two-coin that of the ability in a class), or ``None`` for maximum likelihood.
    start
        ``"majority"``, or probabilities, one row per task.
    history
        Correct and wrong answers of workers in earlier work: a mapping of worker to two numbers, such as
        ``workers_.history()`` of an earlier fit.
    known
        Known correct answers that enter the inference: a mapping of tasks to classes.
    gold
        Correct answers to gold tasks, chosen at random (:func:`peerveil.truth.choose_gold`), which do not enter it: they check
        the labels (``result.gold``) and calibrate confidences and abilities (:mod:`peerveil.truth.gold`). A mapping of tasks to
        answers, or a table with columns task and truth (or label). At least 10; 30 or more are recommended.
    repeated
        What to do with several answers of one worker to one task: ``"all"``, ``"first"``, ``"last"`` or ``"refuse"``.
    iterations, tolerance, must_converge
        Stop when the objective changes by less than ``tolerance`` of its size. If it still does after ``iterations``,
        :class:`EMNotConverged` is raised, unless ``must_converge=False``.

    Attributes
    ----------
    workers_ : WorkerAbilities
        Abilities by the ids of workers, after a fit: for the operator, not part of the result.

    Notes
    -----
    Everything here is computed from randomized answers, which are public: no privacy is spent (post-processing).

    Examples
    --------
    >>> from peerveil.truth import simulate_crowd
    >>> crowd = simulate_crowd(tasks=300, workers=40, answers=8, epsilon=2, seed=1)
    >>> result = PrivateDawidSkene(epsilon=2).fit(crowd.randomized)
    >>> result.model, result.accuracy(crowd.truth)[0] > 0.75
    ('one-coin (auto)', True)
    """

    def __init__(
        self,
        *,
        epsilon: Epsilons,
        model: str = "auto",
        classes: int | Sequence[Hashable] | None = None,
        class_prior: str | Sequence[float] = "shrunk",
        ability_prior: str | float | None = "auto",
        start: str | Floats = "majority",
        history: ById[tuple[float, float]] | None = None,
        known: ById[Hashable] | None = None,
        gold: object = None,
        repeated: str = "all",
        iterations: int = 500,
        tolerance: float = 1e-6,
        must_converge: bool = True,
    ) -> None:
        super().__init__(epsilon=epsilon, classes=classes, repeated=repeated, gold=gold)
        one_of(model, "model", MODELS)
        if isinstance(start, str) and start != "majority":
            raise BadInput("start", got=start, want="'majority', or an array of probabilities")
        if ability_prior not in (None, "auto"):
            number(ability_prior, "ability_prior", 1e-9, 1e6, want="'auto', None, or a positive number of answers")
        if model == "auto" and ability_prior != "auto":
            raise BadInput("ability_prior", got=ability_prior, want="'auto' with model='auto'; name a model to set it")
        change = number(tolerance, "tolerance", 0, 1 - 2**-53, want="a number from 0 to 1")
        self.limits = Limits(whole(iterations, "iterations", 1), change, must_converge)
        self.model, self.class_prior, self.ability_prior = model, class_prior, ability_prior
        self.start = None if isinstance(start, str) else np.asarray(start, dtype=np.float64)
        self.history, self.known = history, known
        self._last: tuple[TruthResult, EncodedAnswers] | None = None

    def fit(
        self,
        labels: object,
        *,
        columns: Mapping[str, str] | None = None,
        engine: str = "auto",
        tasks: Sequence[Hashable] | None = None,
        guarantee: Guarantee | None = None,
        connection: BaseBackend | None = None,
    ) -> TruthResult:
        """Infer labels and abilities; whose abilities they are is then in ``workers_``.

        Parameters
        ----------
        labels
            Labels, a pandas or Polars frame with columns task, worker and label; or a Parquet file (or a pattern such as
            ``answers/*.parquet``) or an Ibis table for the engines that need not fit in memory.
        columns
            Names of the columns task, worker and label in a frame or a single file, where they differ: ``{"task": "item"}``. A
            file is then read into memory.
        engine
            ``"memory"``, ``"duckdb"`` (out of core), ``"spark"``, or ``"auto"``: memory up to 50 million answers.
        tasks
            All tasks, if some may have no answer; such a task gets the shares of the classes.
        guarantee
            The guarantee of the answers; by default local attribute DP with epsilon for one answer, if they were
            randomized before they were collected.
        connection
            An Ibis connection to use, such as one to a Spark cluster.
        """
        labels = labels if columns is None else Labels.of(labels, "labels", columns=columns)
        one_of(engine, "engine", ENGINES)
        stored = not isinstance(labels, Labels) and is_source(labels)
        if engine == "auto":
            engine = "duckdb" if stored and count_answers(labels, connection) > _MAX_IN_MEMORY else "memory"
        if engine == "memory":
            labels = open_answers(labels, connection) if stored else labels
            answers = EncodedAnswers.of(labels, self.classes, tasks=tasks, repeated=self.repeated)
            return self._fit_memory(answers, guarantee, self.start)
        if tasks is not None or self.start is not None or self.repeated != "all":
            needs = "tasks without answers, other starts than majority, and rules for repeated answers"
            raise BadInput("engine", got=engine, want=f"engine='memory' for {needs}")
        self._last = None
        with quiet(), TableEngine.open(labels, engine, self.classes, self.known, connection) as tables:
            return self._infer(tables, guarantee)

    def update(self, labels: object, *, columns: Mapping[str, str] | None = None) -> TruthResult:
        """Add new answers to those of the last fit, and continue from where it ended.

        The result is that of fitting all answers at once (up to the tolerance), in fewer iterations. To forget the old answers
        and keep only what they said about workers, pass ``history=estimator.workers_.history()`` to a new estimator instead.
        """
        if self._last is None:
            got = Verbatim("an estimator without answers in memory")
            raise BadInput("update", got=got, want="fit(..., engine='memory') before it")
        result, old = self._last
        new = Labels.of(labels, "labels", columns=columns)
        new.members.codes(old.classes)  # refuses a new class by row
        try:
            before = old.frame()
            both = pl.concat([before, new.frame.select(before.columns)])
        except pl.exceptions.PolarsError:
            raise BadInput("labels", got=new, want="ids and labels of the same kinds as before") from None
        tasks = [*old.tasks.to_list(), *new.frame["task"].to_list()]
        answers = EncodedAnswers.of(both, old.classes, tasks=tasks, repeated=self.repeated)
        start = answers.vote_shares
        start[answers.task_codes(result.tasks.to_list(), "result")] = result.probabilities
        return self._fit_memory(answers, result.guarantee, start)

    def _fit_memory(self, answers: EncodedAnswers, guarantee: Guarantee | None, start: Floats | None) -> TruthResult:
        result = self._infer(MemoryEngine(answers, answers.known_codes(self.known)), guarantee, start)
        self._last = result, answers
        return result

    def _infer(self, engine: Engine, guarantee: Guarantee | None, start: Floats | None = None) -> TruthResult:
        """Choose what is to be chosen, and fit."""
        channel = self._channels(engine)
        if channel.single is None:
            engine.vote_weights = channel.vote_weights(majority_of(engine.answers, channel)[1])
        history = history_counts(self.history, engine.workers)
        shrunk = isinstance(self.class_prior, str) and self.class_prior == "shrunk"
        needed = self.model == "auto" or shrunk or (self.model, self.ability_prior) == ("one-coin", "auto")
        pilot = Pilot(engine, channel, self.limits, history) if needed else None
        skewed, unpenalized = pilot is not None and pilot.skewed, self.ability_prior is None
        class_prior = ClassPrior.read(self.class_prior, channel.k, skewed=skewed, unpenalized=unpenalized)
        model = self._model(engine, channel, class_prior, history, pilot)
        return self._fit(model, self.model, engine, guarantee, start)

    def _model(
        self, engine: Engine, channel: Channels, class_prior: ClassPrior, history: Floats | None, pilot: Pilot | None, /
    ) -> Model:
        """The model of the settings."""
        prior = None if isinstance(self.ability_prior, str) else self.ability_prior
        unpenalized, common = self.ability_prior is None, (channel, class_prior)
        if self.model == "auto" and pilot is not None:
            return AutoModel(pilot, class_prior, history)
        if self.model == "confusion" or (self.model == "two-coin" and unpenalized):
            return ConfusionModel(*common, engine.loads.size, None if unpenalized else prior or STRENGTH, history)
        if unpenalized:
            return CoinModel(*common)
        strength, mean = (STRENGTH, 0.7) if pilot is None else (pilot.strength, pilot.mean)
        if self.model == "two-coin":
            return GridModel(*common, engine.loads, STRENGTH, prior or BIAS, mean=mean, history=history)
        return GridModel(*common, engine.loads, prior or strength, mean=mean, history=history)
