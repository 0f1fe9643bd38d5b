"""What would I lose on my own answers? Randomize them many times in simulation, and look at what comes out.

Whoever holds answers that are not randomized can see beforehand what each epsilon would cost: how often the labels inferred from
reports are those inferred from the answers themselves, and how often they are right where that is known. The figures are computed
from private answers without noise. They help to choose, and are not for publication.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput
from peerveil.core.exact import printed, whole
from peerveil.core.guarantee import Guarantee, read_epsilon
from peerveil.core.progress import progress_bar
from peerveil.core.randomness import Randomness
from peerveil.core.result import Result
from peerveil.data import Labels
from peerveil.truth.estimate import PrivateDawidSkene
from peerveil.truth.randomize import randomize_answers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

    from peerveil.core.exact import Number

EPSILONS: Final = ("0.5", "1", "2", "4")
_DRAW: Final = 1_000_003  # seeds of different epsilons do not meet


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """What one epsilon leaves.

    Attributes
    ----------
    answers
        How many answers are sent in a draw.
    covered
        The share of tasks that get a report at all.
    agreement, accuracy
        The share of tasks with the label of the unrandomized answers, and of those with a known right answer the share that
        is labeled right; means over the draws, each with its standard error. A task without report gets a guess.
    """

    epsilon: float
    answers: int
    covered: float
    agreement: float
    agreement_error: float
    accuracy: float | None
    accuracy_error: float | None


@dataclass(frozen=True, kw_only=True)
class TruthComparison(Result):
    """What randomizing would have cost on a table of answers; computed from private data, not for publication.

    Attributes
    ----------
    rows
        One for each epsilon.
    base_accuracy
        How many labels of the unrandomized answers are right, where that is known.
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
        several = " to ".join([parts[0], parts[-1]] if len(parts) > 1 else parts)
        return (
            f"Of {self.tasks:,} labels {several} stay what they are without privacy, with epsilon for one {self.unit}, over "
            f"{self.draws} simulated draws; computed from private answers, not for publication"
        )

    def cells(self) -> list[list[str]]:
        """The rows as words, the last one without privacy: epsilon, tasks with a report, same label, right label."""
        cells = [
            [
                f"{row.epsilon:g}",
                f"{100 * row.covered:.1f}%",
                _share(row.agreement, row.agreement_error),
                _share(row.accuracy, row.accuracy_error),
            ]
            for row in self.rows
        ]
        return [*cells, ["none", "100.0%", "100.0%", _share(self.base_accuracy, None)]]

    def frame(self) -> pl.DataFrame:
        """The rows as a Polars frame; ``.to_pandas()`` makes it one of pandas."""
        names = ComparisonRow.__slots__
        return pl.DataFrame({name: [getattr(row, name) for row in self.rows] for name in names})

    def __str__(self) -> str:
        head = ["epsilon", "tasks with report", "same label", "right label"]
        lines = [
            f"{e:>8} {covered:>18} {same:>15} {right:>15}".rstrip() for e, covered, same, right in [head, *self.cells()]
        ]
        return "\n".join([*lines, super().__str__()])

    def draw(self, ax: Axes) -> None:
        """Agreement (and accuracy) against epsilon."""
        from peerveil.truth.figures import draw_comparison

        draw_comparison(self, ax)


def compare_truth(
    labels: Any,
    *,
    epsilons: Sequence[Number] = EPSILONS,
    unit: str = "answer",
    classes: int | Sequence[Any] | None = None,
    model: str = "auto",
    draws: int = 10,
    columns: Mapping[str, str] | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> TruthComparison:
    """What each epsilon would cost on answers that are not randomized yet, by simulation.

    Parameters
    ----------
    labels
        The answers: Labels, a pandas or Polars frame with columns task, worker and label, or a file name. A column truth with
        right answers is used where there is one.
    unit
        What epsilon is for: ``"answer"`` or ``"person"`` (:func:`randomize_answers`).
    classes
        The classes; as in the answers if left out, since nothing here is published.
    draws
        How often the answers are randomized for each epsilon, at least 2.
    columns
        What a frame or file calls task, worker, label and truth, where it has other names.

    Examples
    --------
    >>> from peerveil.truth import simulate_crowd
    >>> answers = simulate_crowd(tasks=100, workers=20, answers=6, epsilon=None, seed=1).answers
    >>> found = compare_truth(answers, epsilons=[1, 6], draws=3)
    >>> found.rows[0].agreement < found.rows[1].agreement, found.mark
    (True, 'not private')
    """
    table = Labels.of(labels, "labels", columns=columns)
    whole(draws, "draws", 2, want="a whole number, at least 2: one draw has no standard error")
    wanted = [printed(read_epsilon(e, "epsilons"), "up") for e in epsilons]
    if not wanted:
        raise BadInput("epsilons", got=epsilons, want="at least one epsilon")
    if unit not in ("answer", "person"):
        raise BadInput("unit", got=unit, want="'answer' or 'person'")
    listed = table.frame["label"].unique().sort().to_list() if classes is None else classes
    base = PrivateDawidSkene(epsilon=None, model=model, classes=listed).fit(table)
    tasks = base.tasks.to_list()
    truth = table.truths() if table.has_truth else None
    rows = []
    with progress_bar("comparing", total=len(wanted) * int(draws), show=progress) as advance:
        for place, epsilon in enumerate(wanted):
            same, right, covered, sent_number = [], [], [], 0
            for draw in range(int(draws)):
                lane = Randomness.simulation(seed + draw + _DRAW * place)
                sent, collected = randomize_answers(table, epsilon=epsilon, classes=listed, unit=unit, randomness=lane)
                estimator = PrivateDawidSkene(epsilon=sent.response.exact_epsilon, model=model, classes=listed)
                found = estimator.fit(collected.answers, tasks=tasks, guarantee=sent.guarantee)
                same.append(float((found.labels == base.labels).mean()))
                covered.append(1 - sent.unsent / len(tasks))
                sent_number = len(sent.answers)
                if truth is not None:
                    right.append(found.accuracy(truth)[0])
                advance(1)
            rows.append(ComparisonRow(epsilon, sent_number, float(np.mean(covered)), *_mean(same), *_mean(right)))
    return TruthComparison(
        guarantee=Guarantee.local_attribute_dp(None),
        rows=tuple(rows),
        unit=unit,
        draws=int(draws),
        tasks=len(tasks),
        model=model,
        base_accuracy=None if truth is None else base.accuracy(truth)[0],
    )


def _mean(values: list[float]) -> tuple[Any, Any]:
    """The mean and its standard error; nothing of nothing."""
    if not values:
        return None, None
    return float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values)))


def _share(value: float | None, error: float | None) -> str:
    if value is None:
        return "not known"
    return f"{100 * value:.1f}%" if error is None else f"{100 * value:.1f}% ± {100 * error:.1f}"
