"""What the estimators return: a public result, and abilities by worker for the operator."""

from __future__ import annotations

import importlib
import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.guarantee import NOT_PRIVATE_MARK, WORTHLESS, Guarantee, Notion, odds_in_words, read_epsilon
from peerveil.core.result import Result, plain
from peerveil.data import Labels
from peerveil.data.table import plural
from peerveil.truth.doubt import NotRandomized, doubt

if TYPE_CHECKING:
    from fractions import Fraction
    from pathlib import Path

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from peerveil.core.arrays import Floats, Ints
    from peerveil.core.exact import Number
    from peerveil.truth.choose import Evidence

CONFIDENCE: Final = (
    "Confidences assume that people err independently of each other. Where people share errors, confidences are too high; "
    "only reference answers show how many labels are correct."
)
_ONE_ANSWER: Final = (
    "one person gives one other answer and the same answers otherwise; a task answered twice has two answers; which tasks "
    "were answered is not hidden"
)
_ONE_COIN, _TWO_COIN = "one ability for each worker", "an ability for each worker and class"
_MODELS_IN_WORDS: Final = {
    "one-coin": _ONE_COIN,
    "two-coin": _TWO_COIN,
    "one-coin (auto)": f"{_ONE_COIN}, chosen from the answers",
    "two-coin (auto)": f"{_TWO_COIN}, chosen from the answers",
    "confusion": "a table of errors for each worker",
    "majority": "majority vote",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class TruthResult(Result):
    """Labels, abilities and confidence, with the guarantee of the answers that they were computed from.

    It holds no ids of workers, so that it can be printed, pickled, saved and published. Which ability belongs to whom is known
    to the estimator alone: :class:`WorkerAbilities`.

    Attributes
    ----------
    tasks
        The tasks' ids, sorted; everything about tasks is in this order.
    labels
        The likeliest class of every task.
    probabilities
        One row per task, one column per class (in the order of ``classes``).
    abilities
        The probability that a worker's own answer, before it was randomized, is correct; one number per worker.
    standard_errors
        Of the abilities.
    loads
        How many answers each worker sent.
    model
        Which model was fitted, and for the default how much two-coin weighs (``evidence``).
    class_shares
        The shares of the classes that the labels were computed with.
    objective
        What EM maximized, in ``iterations`` steps.
    answer_epsilon
        The exact epsilon of one answer; ``None`` if answers were not randomized.
    most_answers
        How many answers the busiest person sent, if that is more than the result uses.
    doubt
        Why the answers do not look randomized with this epsilon, in words (:mod:`peerveil.truth.doubt`); ``None`` if they do,
        or if peerveil randomized them.
    """

    tasks: pl.Series
    classes: tuple[Any, ...]
    labels: NDArray[Any]
    probabilities: Floats
    abilities: Floats = field(repr=False)
    standard_errors: Floats = field(repr=False)
    loads: Ints = field(repr=False)
    model: str
    class_shares: Floats
    objective: float
    iterations: int
    converged: bool
    epsilon: float | None
    answer_epsilon: Fraction | None = None
    most_answers: int | None = None
    evidence: Evidence | None = None
    doubt: str | None = None
    details: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def mark(self) -> str | None:
        """The words that must stand beside this result: "not private" too where the answers were not randomized."""
        return super().mark or (None if self.doubt is None else NOT_PRIVATE_MARK)

    @property
    def confidence(self) -> Floats:
        """The probability of every task's label."""
        return np.asarray(self.probabilities.max(axis=1))

    @property
    def most(self) -> int:
        """How many answers the busiest person sent."""
        return int(self.loads.max(initial=1)) if self.most_answers is None else self.most_answers

    @property
    def typical(self) -> int:
        """How many answers a typical person sent; where tasks are hidden, everybody sends one for each."""
        return int(np.median(self.loads)) if self.most_answers is None else self.most_answers

    @property
    def person_guarantee(self) -> Guarantee:
        """What the answers of the busiest person add up to, if the guarantee is for one answer."""
        return self.guarantee_of(self.most)

    def guarantee_of(self, answers: int) -> Guarantee:
        """The guarantee for a person who sent this many answers."""
        return sum_of_answers(self.guarantee, self.answer_epsilon, answers)

    def doubted(self, votes: Floats) -> TruthResult:
        """The same result, with a warning where its guarantee rests on an assumption that the answers contradict."""
        reason = None if self.guarantee.assumption is None else doubt(votes, self.epsilon)
        if reason is None:
            return self
        warnings.warn(reason, NotRandomized, stacklevel=6)
        return replace(self, doubt=reason)

    def frame(self, *, probabilities: bool = False) -> pl.DataFrame:
        """A Polars table of tasks: task, label, confidence, and with ``probabilities`` one column per class (``p_yes``)."""
        shares = {f"p_{c}": self.probabilities[:, i] for i, c in enumerate(self.classes)} if probabilities else {}
        return pl.DataFrame({"task": self.tasks, "label": self.labels, "confidence": self.confidence, **shares})

    def accuracy(self, truth: Any) -> tuple[float, float]:
        """Accuracy and balanced accuracy against correct answers.

        Parameters
        ----------
        truth
            A mapping of tasks to correct answers, a pandas series indexed by task, a frame with columns task and truth, or
            Labels with correct answers. Tasks that have no label here are left out.
        """
        known = correct_answers(truth)
        labels = dict(zip(self.tasks.to_list(), self.labels.tolist(), strict=True))
        hits: dict[Any, list[bool]] = {}
        for task, correct in known.items():
            if task in labels:
                hits.setdefault(correct, []).append(labels[task] == correct)
        if not hits:
            got = Verbatim(f"correct answers to {len(known):,} other tasks")
            raise BadInput("truth", got=got, want=f"answers to tasks of this result, such as {self.tasks[0]!r}")
        return float(np.mean([hit for part in hits.values() for hit in part])), float(
            np.mean([np.mean(part) for part in hits.values()])
        )

    def summary(self) -> str:
        """The finding in one line."""
        sure = int((self.confidence >= 0.9).sum())
        model = _MODELS_IN_WORDS.get(self.model, f"between {_ONE_COIN} and one for each class, chosen from the answers")
        return (
            f"{plural(len(self.tasks), 'task')} labeled from {plural(int(self.loads.sum()), 'answer')} of "
            f"{plural(self.loads.size, 'worker')} ({model}); {sure:,} with a confidence of at least "
            f"90%; median ability {float(np.median(self.abilities)):.2f}"
        )

    def __str__(self) -> str:
        lines = [super().__str__(), whole_person(self.guarantee, self.person_guarantee, self.most), CONFIDENCE]
        if self.doubt is not None:
            lines.insert(0, f"warning: {self.doubt}")
        return "\n".join(line for line in lines if line)

    def to_dict(self) -> dict[str, Any]:
        """Everything about tasks, as JSON values."""
        names = ("classes", "model", "class_shares", "objective", "iterations", "converged", "epsilon", "probabilities")
        return {
            **{name: plain(getattr(self, name)) for name in names},
            "tasks": plain(self.frame()),
            "workers": self.loads.size,
            "answers": int(self.loads.sum()),
            "doubt": self.doubt,
            "personal_biases": None if self.evidence is None else self.evidence.probabilities,
            "guarantee": self.guarantee.to_dict(),
            "guarantee_in_words": str(self.guarantee),
            "person_guarantee_in_words": str(self.person_guarantee),
            "mark": self.mark,
        }

    def write(self, path: str | Path, *, private: bool = False) -> Path:
        """Write the table of tasks (with one column per class) to CSV, JSON lines or Parquet.

        A private file can be read by its owner alone.
        """
        from peerveil.data.table import write_frame

        return write_frame(self.frame(probabilities=True), path, private=private)

    def draw(self, ax: Axes) -> None:
        """Abilities with intervals of two standard errors, from the lowest to the highest, without names."""
        from peerveil.truth.figures import draw_abilities

        draw_abilities(self, ax)


@dataclass(frozen=True, eq=False)
class WorkerAbilities:
    """Abilities by the ids of workers: for the operator alone, and apart from the :class:`TruthResult`, which may be published.

    Estimators have it as ``workers_`` after a fit.

    Attributes
    ----------
    workers
        The workers' ids, sorted; everything else is in this order.
    prior_strength
        How many answers the prior on an ability is worth.
    """

    workers: pl.Series
    loads: Ints
    abilities: Floats
    standard_errors: Floats
    prior_strength: float

    @classmethod
    def of(cls, workers: pl.Series, result: TruthResult) -> WorkerAbilities:
        """The abilities of a result, with the ids that they belong to."""
        strength = float(result.details.get("prior_strength", 0.0))
        return cls(workers, result.loads, result.abilities, result.standard_errors, strength)

    def frame(self) -> pl.DataFrame:
        """A Polars table: worker, answers, ability, standard error; ``.to_pandas()`` makes it one of pandas."""
        columns = {"answers": self.loads, "ability": self.abilities, "standard_error": self.standard_errors}
        return pl.DataFrame({"worker": self.workers, **columns})

    def history(self) -> dict[Any, tuple[float, float]]:
        """What is now known of each worker, as correct and wrong answers that would say as much: a prior for later work.

        A Beta distribution with the ability's mean and standard error, minus what the prior alone would give.
        """
        variance = np.maximum(self.standard_errors**2, 1e-9)
        mean = np.clip(self.abilities, 1e-3, 1 - 1e-3)
        size = np.clip(mean * (1 - mean) / variance - 1 - self.prior_strength, 0.0, None)
        pairs = np.column_stack([mean * size, (1 - mean) * size]).tolist()
        return {worker: (correct, wrong) for worker, (correct, wrong) in zip(self.workers, pairs, strict=True)}


def device_guarantee(epsilon: Number | None) -> Guarantee:
    """The guarantee of answers that somebody else collected: local attribute DP, if they were randomized at all.

    >>> device_guarantee(1).assumption
    "these answers were randomized at epsilon 1 on each person's device before they were collected"
    """
    guarantee = Guarantee.local_attribute_dp(epsilon, neighbors=_ONE_ANSWER)
    if guarantee.exact_epsilon is None:
        return guarantee
    return guarantee.assuming(
        f"these answers were randomized at epsilon {guarantee.exact_epsilon} on each person's device before they were collected"
    )


def stated_guarantee(epsilon: Number | None, guarantee: Guarantee | None) -> Guarantee:
    """The guarantee that a result carries: the stated one, or that of a device."""
    if guarantee is None:
        return device_guarantee(epsilon)
    if not isinstance(guarantee, Guarantee):
        raise BadInput("guarantee", got=guarantee, want="a Guarantee")
    return guarantee


def sum_of_answers(guarantee: Guarantee, epsilon: Fraction | None, answers: int) -> Guarantee:
    """The guarantee for a person who sent this many answers with this epsilon each: their sum.

    ``guarantee`` is that of one task, which may cover several answers already; it is returned unchanged if it is
    for a whole person or if nothing was randomized.

    >>> twice = Guarantee.local_attribute_dp(1).group(2)  # somebody answered a task twice
    >>> sum_of_answers(twice, read_epsilon(1), 5).epsilon
    5.0
    """
    if guarantee.notion is not Notion.LOCAL_ATTRIBUTE_DP or epsilon is None or answers <= 1:
        return guarantee
    single = guarantee
    if guarantee.exact_epsilon != epsilon:  # of several answers to one task
        single = Guarantee.local_attribute_dp(epsilon)
        single = single.as_simulated() if guarantee.simulated else single
        single = single if guarantee.assumption is None else single.assuming(guarantee.assumption)
    return single.group(answers, unit=f"all {answers:,} answers of one person")


def whole_person(single: Guarantee, whole: Guarantee, most: int) -> str:
    """What the guarantee of one answer comes to for a person, in one line; empty if it is for a person already.

    >>> answer = Guarantee.local_attribute_dp(2)
    >>> print(whole_person(answer, answer.group(94), 94))  # doctest: +NORMALIZE_WHITESPACE
    All 94 answers of the busiest person add up to epsilon 188: no meaningful guarantee for a whole person.
    For one, randomize with --unit person (unit='person').
    """
    total = whole.exact_epsilon
    if whole == single or total is None:
        return ""
    if total > WORTHLESS:
        meaning = "no meaningful guarantee for a whole person. For one, randomize with --unit person (unit='person')"
    else:
        limit = odds_in_words(read_epsilon(total))[1]
        meaning = f"a 50:50 guess between two sheets of answers is at most {limit}% correct"
    return f"All {most:,} answers of the busiest person add up to epsilon {total}: {meaning}."


def correct_answers(truth: Any) -> dict[Any, Any]:
    """Correct answers by task, from whatever holds them."""
    want = (
        "correct answers by task: a mapping, a pandas series indexed by task, a frame with columns task and truth, or Labels "
        "with a truth column (for a list in the order of result.tasks: dict(zip(result.tasks, answers)))"
    )
    if isinstance(truth, Labels):
        truth = truth.truths()
    if isinstance(truth, pl.DataFrame) or type(truth).__name__ == "DataFrame":
        names = [str(name) for name in truth.columns]
        if not {"task", "truth"} <= set(names):
            raise BadInput("truth", got=Verbatim(f"a frame with columns {', '.join(names)}"), want=want)
        return dict(zip(truth["task"].to_list(), truth["truth"].to_list(), strict=True))
    try:
        return dict(truth.to_dict() if is_pandas(truth) else truth)
    except (TypeError, ValueError):
        raise BadInput("truth", got=truth, want=want) from None


def is_pandas(value: object) -> bool:
    """Whether this is a frame or series of pandas, which need not be installed."""
    return type(value).__module__.partition(".")[0] == "pandas"


def labels_like(frame: object, result: TruthResult, *, probabilities: bool = False) -> Any:
    """Labels in the same kind of frame: pandas gives a series (or frame) indexed by task, anything else Polars."""
    if is_pandas(frame):
        pandas = importlib.import_module("pandas")
        index = pandas.Index(result.tasks.to_list(), name="task")
        if probabilities:
            return pandas.DataFrame(result.probabilities, index=index, columns=list(result.classes))
        return pandas.Series(result.labels, index=index, name="agg_label")
    if probabilities:
        columns = {str(c): result.probabilities[:, i] for i, c in enumerate(result.classes)}
        return pl.DataFrame({"task": result.tasks, **columns})
    return result.frame().select("task", "label")
