"""Choosing epsilon before anything is spent: plans by simulated crowds, and comparisons on answers that one holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, one_of
from peerveil.core.exact import Number, number, printed, whole
from peerveil.core.guarantee import Guarantee, read_epsilon
from peerveil.core.progress import progress_bar
from peerveil.core.randomness import Randomness
from peerveil.core.result import Plan, Result
from peerveil.data import Labels
from peerveil.truth.estimate import PrivateDawidSkene, PrivateMajority
from peerveil.truth.figures import draw_comparison, draw_plan
from peerveil.truth.guarantee import UNITS
from peerveil.truth.randomize import randomize_answers
from peerveil.truth.simulate import simulate_crowd

EPSILONS: Final = ("0.5", "1", "2", "4")
ANSWERS: Final = (3, 5, 9, 15, 25, 45, 80)
_ANSWERS_OF_A_WORKER: Final = 60
_HALVINGS: Final = 5  # at most so many between two neighbors of ANSWERS
_SEED_STEP: Final = 1_000_003  # between epsilons, so that their seeds do not meet


@dataclass(frozen=True, slots=True)
class TruthPlanRow:
    """Accuracy with a number of answers per task at one epsilon (``None``: no privacy), with its standard error."""

    epsilon: float | None
    answers: int
    accuracy: float
    majority: float
    error: float


@dataclass(frozen=True, slots=True)
class TruthPlan(Plan):
    """What each epsilon costs in answers.

    Attributes
    ----------
    needed
        For each epsilon (``None``: no privacy) the smallest number of answers per task that reached the accuracy, to about a
        twentieth; ``None`` if none that was tried did.
    """

    accuracy: float
    classes: int
    ability: tuple[float, float]
    rows: tuple[TruthPlanRow, ...]
    needed: dict[float | None, int | None]

    @property
    def recommendation(self) -> str:
        """How many answers per task each epsilon takes."""
        more = f"more than {max(row.answers for row in self.rows)}"
        parts = [
            f"{'no privacy' if epsilon is None else f'epsilon {epsilon:g}'}: {more if answers is None else answers}"
            for epsilon, answers in self.needed.items()
        ]
        return f"Answers per task for {100 * self.accuracy:g}% correct labels: " + "; ".join(parts) + "."

    def __str__(self) -> str:
        head = f"{'epsilon':>8} {'answers':>8} {'accuracy':>9} {'majority':>9}"
        lines = [
            f"{'none' if row.epsilon is None else f'{row.epsilon:g}':>8} {row.answers:>8} {row.accuracy:>9.3f} "
            f"{row.majority:>9.3f}"
            for row in self.rows
        ]
        return "\n".join([head, *lines, self.recommendation])

    def table(self) -> pl.DataFrame:
        """One row per epsilon (null: no privacy) and number of answers per task that was tried."""
        return _frame(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return {**Plan.to_dict(self), "needed": {str(e).lower(): n for e, n in self.needed.items()}}

    draw = draw_plan


def _frame(rows: Sequence[TruthPlanRow | ComparisonRow]) -> pl.DataFrame:
    return pl.DataFrame(map(asdict, rows), schema_overrides={"epsilon": pl.Float64}, infer_schema_length=None)


def plan_truth(
    *,
    accuracy: float = 0.9,
    epsilons: Sequence[Number | None] = EPSILONS,
    classes: int = 2,
    ability: tuple[float, float] = (4.0, 2.0),
    answers: Sequence[int] = ANSWERS,
    tasks: int = 300,
    trials: int = 3,
    seed: int = 0,
    progress: bool | None = None,
) -> TruthPlan:
    """How many answers per task an accuracy takes, by simulation of a one-coin crowd.

    Parameters
    ----------
    accuracy
        The share of correct labels to reach.
    epsilons
        Which to try; ``None`` (or ``"none"``) is no privacy, for comparison.
    ability
        The Beta distribution of abilities: with a and b, a/(a + b) of a person's answers are correct on average, and
        people differ less the larger a + b is. (4, 2) has mean 2/3, a typical real crowd;
        :func:`peerveil.truth.abilities_like` takes them from an earlier run.
    answers
        Which numbers of answers per task to try, rising. Between the first that is enough and the one before it, the search
        goes on by halving.
    tasks, trials
        The size of a simulated crowd (everybody answers about 60 tasks), and how many.

    Examples
    --------
    >>> plan = plan_truth(accuracy=0.8, epsilons=[1, 4], answers=(5, 15, 45), tasks=150, trials=2)
    >>> plan.needed[4.0] < plan.needed[1.0]
    True
    """
    whole(classes, "classes", 2)
    number(accuracy, "accuracy", 1 / classes + 1e-9, 1 - 1e-9, want=f"a share between chance (1/{classes}) and 1")
    whole(trials, "trials", 1)
    numbers = [int(n) for n in answers]
    if not numbers or numbers != sorted(set(numbers)) or numbers[0] < 1:
        raise BadInput("answers", got=answers, want="rising numbers of answers per task")
    exact = [read_epsilon_or_none(e) for e in epsilons]
    if not exact or len(set(exact)) < len(exact):
        raise BadInput("epsilons", got=epsilons, want="at least one epsilon, and each once")
    rows: list[TruthPlanRow] = []
    needed: dict[float | None, int | None] = {}
    steps = (len(numbers) + _HALVINGS) * trials
    with progress_bar("planning", total=len(exact) * steps, show=progress) as advance:
        for epsilon in exact:
            tried: list[TruthPlanRow] = []

            def reached(n: int, epsilon: float | None = epsilon, tried: list[TruthPlanRow] = tried) -> bool:
                crowd = {"classes": classes, "ability": ability, "tasks": tasks, "answers": n, "epsilon": epsilon}
                tried.append(_plan_row([{**crowd, "seed": seed + trial} for trial in range(trials)], advance))
                return tried[-1].accuracy >= accuracy

            enough = next((n for n in numbers if reached(n)), None)
            low = max((row.answers for row in tried if row.answers != enough), default=0)
            while enough is not None and low > 0 and enough - low > max(1, enough // 20):
                middle = (low + enough) // 2
                low, enough = (low, middle) if reached(middle) else (middle, enough)
            needed[epsilon] = enough
            rows += sorted(tried, key=lambda row: row.answers)
            advance(max(0, steps - len(tried) * trials))
    return TruthPlan(float(accuracy), int(classes), ability, tuple(rows), needed)


def read_epsilon_or_none(epsilon: Number | None) -> float | None:
    """One of several epsilons, as a float; None (or "none") for no privacy."""
    if epsilon is None or (isinstance(epsilon, str) and epsilon.strip().lower() == "none"):
        return None
    return printed(read_epsilon(epsilon, "epsilons"), "up")


def _plan_row(crowds: list[dict[str, Any]], advance: Callable[[int], None]) -> TruthPlanRow:
    """Accuracy over simulated crowds, which differ in their seeds."""
    scores, tasks, answers, epsilon = [], *(crowds[0][name] for name in ("tasks", "answers", "epsilon"))
    for settings in crowds:
        crowd = simulate_crowd(**settings, workers=max(answers, tasks * answers // _ANSWERS_OF_A_WORKER))
        estimators = [kind(epsilon=epsilon, classes=crowd.classes) for kind in (PrivateDawidSkene, PrivateMajority)]
        fits = [estimator.fit(crowd.randomized, guarantee=crowd.guarantee) for estimator in estimators]
        scores.append([fit.accuracy(crowd.truth)[0] for fit in fits])
        advance(1)
    accuracy, majority = (float(mean) for mean in np.mean(scores, axis=0))
    error = float(np.sqrt(accuracy * (1 - accuracy) / (tasks * len(crowds))))
    return TruthPlanRow(epsilon, answers, accuracy, majority, error)


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """What one epsilon leaves; shares are means over the draws, with standard errors. A task without answers gets a guess."""

    epsilon: float
    answers: int
    """How many answers are sent in a draw."""
    covered: float
    """The share of tasks of which any answer is sent."""
    agreement: float
    """The share of tasks with the label of the unrandomized answers."""
    agreement_error: float
    accuracy: float | None
    """Of tasks with a known correct answer, the share that is labeled correctly."""
    accuracy_error: float | None


@dataclass(frozen=True, kw_only=True)
class TruthComparison(Result):
    """What randomizing would have cost on a table of answers; computed from private data, not for publication.

    Attributes
    ----------
    rows
        One for each epsilon.
    base_accuracy
        The share of correct labels from the unrandomized answers, where that is known.
    """

    rows: tuple[ComparisonRow, ...]
    unit: str
    draws: int
    tasks: int
    model: str
    base_accuracy: float | None

    def summary(self) -> str:
        """The finding in one line."""
        parts = [f"{100 * row.agreement:.1f}% (epsilon {row.epsilon:g})" for row in self.rows]
        shares = " to ".join(dict.fromkeys([parts[0], parts[-1]]))
        return (
            f"Of {self.tasks:,} labels {shares} stay as they are without privacy, with epsilon for one {self.unit}, over "
            f"{self.draws} simulated draws; computed from private answers, not for publication"
        )

    def cells(self) -> list[list[str]]:
        """The rows as words, the last one without privacy: epsilon, tasks with answers, same label, correct label."""
        cells = [
            [
                f"{row.epsilon:g}",
                f"{100 * row.covered:.1f}%",
                _percent(row.agreement, row.agreement_error),
                _percent(row.accuracy, row.accuracy_error),
            ]
            for row in self.rows
        ]
        return [*cells, ["none", "100.0%", "100.0%", _percent(self.base_accuracy, None)]]

    def frame(self) -> pl.DataFrame:
        """The rows as a Polars frame; ``.to_pandas()`` makes it one of pandas."""
        return _frame(self.rows)

    def __str__(self) -> str:
        head = ["epsilon", "tasks with answers", "same label", "correct label"]
        lines = [
            f"{epsilon:>8} {covered:>18} {same:>15} {correct:>15}".rstrip()
            for epsilon, covered, same, correct in [head, *self.cells()]
        ]
        return "\n".join([*lines, super().__str__()])

    draw = draw_comparison


def compare_truth(
    labels: Any,
    *,
    epsilons: Sequence[Number] = EPSILONS,
    unit: str = "answer",
    classes: int | Sequence[Hashable] | None = None,
    model: str = "auto",
    draws: int = 10,
    columns: Mapping[str, str] | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> TruthComparison:
    """What each epsilon would cost on answers that are not randomized yet, by simulation.

    It is computed from private answers without noise, to help choose: not for publication.

    Parameters
    ----------
    labels
        The answers: Labels, a pandas or Polars frame with columns task, worker and label, or a file name. A column truth with
        correct answers is used where there is one.
    unit
        What epsilon is for: ``"answer"`` or ``"person"`` (:func:`randomize_answers`).
    classes
        The classes; by default those in the answers, since nothing here is published.
    draws
        How often the answers are randomized for each epsilon, at least 2.
    columns
        Names of the columns task, worker, label and truth in a frame or file, where they differ.

    Examples
    --------
    >>> from peerveil.truth import simulate_crowd
    >>> answers = simulate_crowd(tasks=100, workers=20, answers=6, epsilon=None, seed=1).answers
    >>> comparison = compare_truth(answers, epsilons=[1, 6], draws=3)
    >>> comparison.rows[0].agreement < comparison.rows[1].agreement, comparison.mark
    (True, 'not private')
    """
    table = Labels.of(labels, "labels", columns=columns)
    whole(draws, "draws", 2, want="a whole number, at least 2: one draw has no standard error")
    exact = [printed(read_epsilon(e, "epsilons"), "up") for e in epsilons]
    if not exact:
        raise BadInput("epsilons", got=epsilons, want="at least one epsilon")
    one_of(unit, "unit", UNITS)
    class_list = table.frame["label"].unique().sort().to_list() if classes is None else classes
    response = "k-ary" if model == "confusion" else "auto"  # tables of errors need one class in each answer
    base = PrivateDawidSkene(epsilon=None, model=model, classes=class_list).fit(table)
    tasks = base.tasks.to_list()
    correct = table.truths() if table.has_truth else None
    rows = []
    with progress_bar("comparing", total=len(exact) * int(draws), show=progress) as advance:
        for place, epsilon in enumerate(exact):
            agreement, accuracy, covered = [], [], []
            for draw in range(int(draws)):
                randomness = Randomness.simulation(seed + draw + _SEED_STEP * place)
                sent, collected = randomize_answers(
                    table, epsilon=epsilon, classes=class_list, unit=unit, response=response, randomness=randomness
                )
                estimator = PrivateDawidSkene(epsilon=sent.response.exact_epsilon, model=model, classes=class_list)
                result = estimator.fit(collected.answers, tasks=tasks, guarantee=sent.guarantee)
                agreement.append(float((result.labels == base.labels).mean()))
                covered.append(1 - sent.unsent / len(tasks))
                if correct is not None:
                    accuracy.append(result.accuracy(correct)[0])
                advance(1)
            share = float(np.mean(covered))
            rows.append(ComparisonRow(epsilon, len(sent.answers), share, *_mean(agreement), *_mean(accuracy)))
    return TruthComparison(
        guarantee=Guarantee.local_attribute_dp(None),
        rows=tuple(rows),
        unit=unit,
        draws=int(draws),
        tasks=len(tasks),
        model=model,
        base_accuracy=None if correct is None else base.accuracy(correct)[0],
    )


def _mean(values: list[float]) -> tuple[Any, Any]:
    """The mean and its standard error; nothing of nothing."""
    if not values:
        return None, None
    return float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values)))


def _percent(value: float | None, error: float | None) -> str:
    if value is None:
        return "not known"
    return f"{100 * value:.1f}%" if error is None else f"{100 * value:.1f}% ± {100 * error:.1f}"
