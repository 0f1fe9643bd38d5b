"""Gold tasks: tasks whose correct answers an expert gives, to check inferred labels and to calibrate their confidences.

Reports alone cannot tell how many labels are correct: errors that people share look like agreement. Gold tasks can. They are
chosen at random (:func:`choose_gold`), and their answers never enter inference, so that they show how it does on all others.

**Accuracy.** Of n gold tasks, x are labeled correctly. The interval is Wilson's: the accuracies A with
|x/n - A| <= z sqrt(A (1 - A) / n).

**Calibration**: :mod:`peerveil.truth.gold_fit`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import whole
from peerveil.core.lazy import chdtrc
from peerveil.core.result import Pictured
from peerveil.data import Labels
from peerveil.truth.figures import draw_reliability
from peerveil.truth.gold_fit import calibrated_confidences, label_odds, spread_over_classes

if TYPE_CHECKING:
    from peerveil.core.arrays import Floats, Ints
    from peerveil.truth.answers import EncodedAnswers
    from peerveil.truth.result import TruthResult

ENOUGH: Final = 30  # gold tasks that are recommended
LEAST: Final = 10  # below these nothing is calibrated
LEVEL: Final = 0.95
_TINY: Final = 1e-12
_UNLIKELY: Final = 1e-4
_LEAST_EXPECTED: Final = 3.0  # gold tasks of a class in a test


@dataclass(frozen=True, eq=False)
class GoldCheck(Pictured):
    """How inferred labels did on gold tasks, whose answers had no part in inferring them.

    It holds neither the gold tasks nor their answers.

    Attributes
    ----------
    right
        Whether the label of each gold task is correct.
    model_confidence
        The confidence of each of these labels before calibration.
    confidence
        The calibrated one.
    mean_model_confidence, mean_confidence
        The means over all tasks.
    slope
        The exponent of the odds of a label (b above, its posterior mean): 1 leaves confidences as they are.
    classes
        How many classes the gold answers have.
    likeness
        How probable labels as unlike those of all tasks are (Pearson's test) if gold tasks are chosen at random.
    """

    right: np.ndarray[Any, np.dtype[np.bool_]]
    model_confidence: Floats
    confidence: Floats
    mean_model_confidence: float
    mean_confidence: float
    slope: float
    classes: int
    likeness: float = 1.0

    @property
    def tasks(self) -> int:
        """The number of gold tasks."""
        return int(self.right.size)

    @property
    def correct(self) -> int:
        """How many of them are labeled correctly."""
        return int(self.right.sum())

    @property
    def accuracy(self) -> float:
        """The share of gold tasks that are labeled correctly."""
        return self.correct / self.tasks

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% interval of the share of correct labels among all tasks, if the gold tasks were chosen at random."""
        return wilson(self.correct, self.tasks)

    def summary(self) -> str:
        """The finding in one line."""
        low, high = self.interval
        return (
            f"{self.correct:,} of {self.tasks:,} gold tasks are labeled correctly: {100 * self.accuracy:.0f}% (95% interval "
            f"{100 * low:.0f}% to {100 * high:.0f}%, if the gold tasks were chosen at random)"
        )

    @property
    def about_confidence(self) -> str:
        """What the calibrated confidences mean."""
        before, after = (f"{100 * mean:.0f}%" for mean in (self.mean_model_confidence, self.mean_confidence))
        return (
            f"Confidences are calibrated on {self.tasks:,} gold tasks, which had no part in inferring labels: the mean "
            f"confidence of all labels went from {before} to {after}."
        )

    @property
    def cautions(self) -> list[str]:
        """What these gold tasks cannot show, in sentences."""
        low, high = self.interval
        lines = []
        if self.tasks < ENOUGH:
            width = f"{100 * (high - low):.0f} points wide"
            lines.append(f"With {self.tasks} gold tasks the interval is {width}; {ENOUGH} or more are recommended.")
        if self.likeness < _UNLIKELY:
            lines.append(
                "Labels of the gold tasks are of other classes than those of all tasks, as if they were not chosen at random: "
                "then neither the interval nor calibrated values hold for all tasks."
            )
        if self.classes == 1:
            lines.append("All gold answers are the same class, so they say nothing about tasks of other classes.")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """The check as JSON values."""
        low, high = self.interval
        names = ("tasks", "correct", "accuracy", "mean_model_confidence", "mean_confidence", "slope", "likeness")
        return {**{name: getattr(self, name) for name in names}, "low": low, "high": high, "level": LEVEL}

    draw = draw_reliability


def wilson(correct: int, tasks: int, level: float = LEVEL) -> tuple[float, float]:
    """Wilson's interval of a share.

    >>> low, high = wilson(24, 30)
    >>> round(low, 3), round(high, 3)
    (0.627, 0.905)
    >>> wilson(30, 30)[1]
    1.0
    """
    z = statistics.NormalDist().inv_cdf(0.5 + level / 2)
    share, widen = correct / tasks, z * z / tasks
    middle = (share + widen / 2) / (1 + widen)
    half = z / (1 + widen) * math.sqrt(share * (1 - share) / tasks + widen / (4 * tasks))
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return (0.0 if correct == 0 else low), (1.0 if correct == tasks else high)


def choose_gold(
    tasks: Sequence[Hashable] | pl.Series | Labels, *, number: int = ENOUGH, seed: int | None = None
) -> list[Any]:
    """Choose gold tasks at random, all equally likely, without looking at answers.

    A larger number with the same seed adds tasks to those of a smaller one.

    Parameters
    ----------
    tasks
        The ids of all tasks, or answers to them.
    number
        How many: with 30 the 95% interval of an accuracy of 80% is 28 points wide, with 100 it is 16.
    seed
        Of the draw; by default one that nobody knows, so that nobody can find out which tasks are checked.

    Examples
    --------
    >>> choose_gold(range(1, 1001), number=10, seed=1) == choose_gold(range(1, 1001), number=100, seed=1)[:10]
    True
    """
    column = tasks.frame["task"] if isinstance(tasks, Labels) else pl.Series("task", tasks)
    ids = column.unique().sort()
    size = whole(number, "number", LEAST, want=f"a whole number of at least {LEAST}; {ENOUGH} is recommended")
    if size > ids.len():
        raise BadInput("number", got=number, want=f"at most the number of tasks: {ids.len():,}")
    order = np.random.default_rng(None if seed is None else whole(seed, "seed", 0)).permutation(ids.len())
    return ids.gather(order[:size]).to_list()


def read_gold(gold: Any, argument: str = "gold") -> dict[Any, Any]:
    """Correct answers by task: from a truth column, or else from the labels of an expert. Two answers to a task are refused."""
    frame = gold.frame if isinstance(gold, Labels) else gold
    if type(frame).__name__ == "DataFrame":
        frame = frame if isinstance(frame, pl.DataFrame) else pl.from_pandas(frame)
        column = "truth" if "truth" in frame.columns else "label"
        if not {"task", column} <= set(frame.columns):
            got = Verbatim(f"a frame with columns {', '.join(frame.columns)}")
            raise BadInput(argument, got=got, want="columns task and truth, or task and label")
        pairs = frame.select("task", column).drop_nulls().unique(maintain_order=True).rows()
    else:
        from peerveil.truth.result import correct_answers

        pairs = list(correct_answers(gold).items())
    answers: dict[Any, Any] = {}
    for task, answer in pairs:
        first = answers.setdefault(task, answer)
        if first is not answer and first != answer:
            got = Verbatim(f"{answers[task]!r} and {answer!r} for task {task!r}")
            raise BadInput(argument, got=got, want="one correct answer for each gold task")
    return answers


def calibrate(result: TruthResult, gold: Any, answers: EncodedAnswers, contrast: Floats) -> TruthResult:
    """The result with calibrated probabilities and abilities, and the check.

    **Abilities.** A worker's reports are correct with a mean probability p under the model's posteriors and p' under the
    calibrated ones; the ability moves by (p' - p) over the contrast of the channel. To its error comes, in squares: that of the
    accuracy of the labels, as far as the ability rests on them; and r / sqrt(3), with r the share of wrong labels. Reports do
    not show whether a worker made the same error as the label or the answer was correct, so that a share of correct answers
    can be anywhere within r of the share that agrees with the labels; r / sqrt(3) is the standard deviation of an even spread
    over that range. Two such errors hold more than 95% of the abilities where workers do not differ in this.

    A worker's own reports on gold tasks then count, too: estimate a with variance V, of which the model's own error e^2, and the
    share D that these reports show, with variance s^2, become (1 - w) a + w D, with the w from 0 to 1 for which the variance is
    smallest if e and s are wholly correlated (both rest on these reports): (1 - w)^2 V + w^2 s^2 + 2 w (1 - w) e s.

    Parameters
    ----------
    result, answers
        What was inferred without the gold answers, and the answers that it was inferred from, or whole tasks of these.
    contrast
        Of the channel, or of each worker's: how much of an answer is retained in its report.
    """
    codes = _gold_codes(result, read_gold(gold))
    where = np.array([place for place, _ in codes])
    correct = np.array([code for _, code in codes])
    k, model = len(result.classes), result.probabilities
    positions = {value: code for code, value in enumerate(result.classes)}
    label = np.array([positions[value] for value in result.labels.tolist()], dtype=np.int64)
    own, odds = label_odds(model, label)
    right = label[where] == correct
    calibrated, slope = calibrated_confidences(odds, label, odds[where], label[where], right)
    confidence = np.maximum(calibrated, 1 / k)
    probabilities = spread_over_classes(model, label, confidence)
    check = GoldCheck(
        right=right,
        model_confidence=own[where],
        confidence=confidence[where],
        mean_model_confidence=float(own.mean()),
        mean_confidence=float(confidence.mean()),
        slope=slope,
        classes=len(set(correct.tolist())),
        likeness=_likeness(np.bincount(label[where], minlength=k), np.bincount(label, minlength=k)),
    )
    truth = np.full(label.size, -1)
    truth[where] = correct
    abilities, intervals = _calibrated_abilities(result, answers, probabilities, check, contrast, truth)
    return replace(result, probabilities=probabilities, abilities=abilities, ability_intervals=intervals, gold=check)


def _likeness(gold: Ints, tasks: Ints) -> float:
    """Pearson's test that the labels of gold tasks are a random part of all labels; rare classes are taken together.

    >>> _likeness(np.array([15, 15]), np.array([500, 500])), _likeness(np.array([15, 15]), np.array([950, 50])) < 1e-9
    (1.0, True)
    """
    expected = tasks * (gold.sum() / tasks.sum())
    usual = expected >= _LEAST_EXPECTED
    pairs = [*zip(gold[usual], expected[usual], strict=True), (gold[~usual].sum(), expected[~usual].sum())]
    cells = [(count, mean) for count, mean in pairs if mean > 0]
    statistic = sum((count - mean) ** 2 / max(mean, _LEAST_EXPECTED) for count, mean in cells)
    return float(chdtrc(len(cells) - 1, statistic)) if len(cells) > 1 else 1.0


def _calibrated_abilities(
    result: TruthResult, answers: EncodedAnswers, probabilities: Floats, check: GoldCheck, contrast: Floats, truth: Ints
) -> tuple[Floats, Floats]:
    """Abilities and their intervals under calibrated probabilities and reports on gold tasks (whose ``truth`` is not -1)."""
    k, workers = len(result.classes), result.abilities.size
    place = result.tasks.search_sorted(answers.tasks).to_numpy()  # of each task of the answers in the result
    task = place[np.repeat(np.arange(len(answers.tasks)), np.diff(answers.start))]
    change = (probabilities - result.probabilities)[task, answers.label]
    sent = answers.loads  # a report that names several classes is correct if one of them is
    moved = np.bincount(answers.worker, change, minlength=workers)
    overall = moved.sum() / max(int(sent.sum()), 1)  # for workers without answers in a sample
    shift = np.where(sent > 0, moved / np.maximum(sent, 1), overall) / contrast
    abilities = np.clip(result.abilities + shift, 0.0, 1.0)
    share = (check.correct + 1) / (check.tasks + 2)
    error_of_accuracy = math.sqrt(share * (1 - share) / (check.tasks + 2))
    rests_on_labels = np.abs(k * abilities - 1) / (k - 1)
    of_labels = np.hypot(rests_on_labels * error_of_accuracy, (1 - share) / math.sqrt(3))
    own, total = result.standard_errors, np.hypot(result.standard_errors, of_labels)
    # the reports on gold tasks; one of a subset response has a row for each class that it names
    known = truth[task] >= 0
    named = np.bincount(answers.worker, minlength=workers) / np.maximum(sent, 1)
    gold = np.bincount(answers.worker[known], minlength=workers) / np.maximum(named, 1)
    hits = np.bincount(answers.worker[known & (answers.label == truth[task])], minlength=workers)
    other = (named - contrast) / k  # P(a class is named that is not the answer)
    expected = np.clip(other + contrast * abilities, 1e-6, 1 - 1e-6)
    some = np.maximum(gold, 1)
    shown, error = (hits / some - other) / contrast, np.sqrt(expected * (1 - expected) / some) / contrast
    shared = own * error
    w = np.clip((total**2 - shared) / np.maximum(total**2 + error**2 - 2 * shared, _TINY), 0, 1) * (gold > 0)
    variance = (1 - w) ** 2 * total**2 + w**2 * error**2 + 2 * w * (1 - w) * shared
    final, half = np.clip((1 - w) * abilities + w * shown, 0.0, 1.0), 2 * np.sqrt(variance)
    return final, np.clip(np.column_stack([final - half, final + half]), 0.0, 1.0)


def _gold_codes(result: TruthResult, gold: dict[Any, Any]) -> list[tuple[int, int]]:
    """The place of every gold task in the result, and the code of its answer; ids and classes may be written as text."""
    if len(gold) < LEAST:
        want = f"at least {LEAST}; {ENOUGH} or more are recommended (`peerveil truth choose-gold` chooses them)"
        raise BadInput("gold", got=Verbatim(f"{len(gold)} gold tasks"), want=want)
    tasks = {task: place for place, task in enumerate(result.tasks.to_list())}
    classes = {value: code for code, value in enumerate(result.classes)}
    task_of_text = {str(task): place for task, place in tasks.items()}
    class_of_text = {str(value): code for value, code in classes.items()}
    known = {str(task) for task in result.details.get("known_tasks", ())}
    codes: dict[int, int] = {}
    for task, answer in gold.items():
        place = tasks.get(task, task_of_text.get(str(task)))
        code = classes.get(answer, class_of_text.get(str(answer)))
        if place is None:
            raise BadInput("gold", got=task, want=f"tasks that have answers, such as {result.tasks[0]!r}")
        if code is None:
            raise BadInput(f"gold[{task!r}]", got=answer, want=f"one of the classes {list(result.classes)}")
        if str(task) in known:
            want = "other tasks than in known=: an answer that entered inference cannot check it"
            raise BadInput("gold", got=task, want=want)
        if codes.setdefault(place, code) != code:  # task 1 and task "1"
            raise BadInput("gold", got=Verbatim(f"two answers for task {task!r}"), want="one correct answer for each")
    return list(codes.items())
