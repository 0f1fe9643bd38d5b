"""What the estimators return: a public result, and abilities by worker for the operator."""

from __future__ import annotations

import importlib
import warnings
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.guarantee import NOT_PRIVATE_MARK
from peerveil.core.result import plain
from peerveil.data import Labels
from peerveil.data.table import plural, write_frame
from peerveil.truth.figures import draw_abilities
from peerveil.truth.guarantee import AnswersResult, NotRandomized

if TYPE_CHECKING:
    from peerveil.core.arrays import Floats, Ints
    from peerveil.truth.choose import Evidence
    from peerveil.truth.gold import GoldCheck

CONFIDENCE: Final = (
    "Confidences assume that people err independently of each other. Where people share errors, confidences are too high; "
    "only gold tasks, whose correct answers are known, show how many labels are correct."
)
ABILITIES: Final = (
    "Abilities have no interval: reports alone do not show which errors people share, so that one would be too narrow; gold "
    "tasks give one."
)
GOLD_ABILITIES: Final = "Intervals of abilities (95%) allow for wrong labels, and for workers who make the same errors."
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
class TruthResult(AnswersResult):
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
        Of the abilities, as the model implies them: too small where people share errors, so that no interval is made of them.
    ability_intervals
        The lower and upper end of each ability's interval, with gold tasks; ``None`` without.
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
    gold
        How the labels did on gold tasks (:class:`peerveil.truth.gold.GoldCheck`), on which probabilities and abilities are then
        calibrated; ``None`` without them.
    largest_total
        Where people chose their epsilons: the answers and the epsilon of the person whose answers add up to the most.
    doubt
        Why the answers do not look randomized with this epsilon, in words; ``None`` if they do, or if peerveil randomized
        them (:func:`peerveil.truth.guarantee.doubt`).
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
    largest_total: tuple[int, Fraction] | None = None
    evidence: Evidence | None = None
    doubt: str | None = None
    gold: GoldCheck | None = None
    ability_intervals: Floats | None = field(default=None, repr=False)
    details: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def mark(self) -> str | None:
        """The words that must stand beside this result: "not private" too where the answers were not randomized."""
        return super().mark or (None if self.doubt is None else NOT_PRIVATE_MARK)

    @property
    def confidence(self) -> Floats:
        """The probability of every task's label: calibrated on gold tasks, or else if people err independently."""
        return np.asarray(self.probabilities.max(axis=1))

    @property
    def about_confidence(self) -> str:
        """What the confidences assume, in a sentence that stands wherever they are shown."""
        return CONFIDENCE if self.gold is None else self.gold.about_confidence

    @property
    def about_abilities(self) -> str:
        """What the errors of abilities assume."""
        return ABILITIES if self.gold is None else GOLD_ABILITIES

    @property
    def confidence_in_words(self) -> str:
        """What a confidence is called: with gold tasks it is calibrated."""
        independent = "a confidence of at least 90%, if people err independently"
        return independent if self.gold is None else "a calibrated confidence of at least 90%"

    @property
    def most(self) -> int:
        """How many answers the busiest person sent."""
        return int(self.loads.max(initial=1)) if self.most_answers is None else self.most_answers

    @property
    def _busiest(self) -> tuple[int, Fraction | None]:
        return (self.most, self.answer_epsilon) if self.largest_total is None else self.largest_total

    @property
    def typical(self) -> int:
        """How many answers a typical person sent; where tasks are hidden, everybody sends one for each."""
        return int(np.median(self.loads)) if self.most_answers is None else self.most_answers

    def doubted(self, reason: str | None) -> TruthResult:
        """The same result, with a warning where its guarantee rests on an assumption that the answers contradict."""
        if reason is None or self.guarantee.assumption is None:
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
        balanced = float(np.mean([np.mean(part) for part in hits.values()]))
        return float(np.mean([hit for part in hits.values() for hit in part])), balanced

    def summary(self) -> str:
        """The finding in one line."""
        sure = int((self.confidence >= 0.9).sum())
        model = _MODELS_IN_WORDS.get(self.model, f"between {_ONE_COIN} and one for each class, chosen from the answers")
        return (
            f"{plural(len(self.tasks), 'task')} labeled from {plural(int(self.loads.sum()), 'answer')} of "
            f"{plural(self.loads.size, 'worker')} ({model}); {sure:,} with {self.confidence_in_words}; "
            f"median ability {float(np.median(self.abilities)):.2f}"
        )

    def __str__(self) -> str:
        lines = [] if self.doubt is None else [f"warning: {self.doubt}"]
        check = [] if self.gold is None else [f"{self.gold.summary()}.", *self.gold.cautions]
        return "\n".join([*lines, super().__str__(), *check, self.about_confidence, self.about_abilities])

    def to_dict(self) -> dict[str, Any]:
        """Everything about tasks, as JSON values."""
        names = ("classes", "model", "class_shares", "objective", "iterations", "converged", "epsilon", "probabilities")
        return {
            **{name: plain(getattr(self, name)) for name in names},
            "tasks": plain(self.frame()),
            "workers": self.loads.size,
            "answers": int(self.loads.sum()),
            "doubt": self.doubt,
            "about_confidence": self.about_confidence,
            "gold": None if self.gold is None else self.gold.to_dict(),
            "personal_biases": None if self.evidence is None else self.evidence.probabilities,
            **self._guarantees(),
        }

    def write(self, path: str | Path, *, private: bool = False) -> Path:
        """Write the table of tasks (with one column per class) to CSV, JSON lines or Parquet.

        A private file can be read by its owner alone.
        """
        return write_frame(self.frame(probabilities=True), path, private=private)

    draw = draw_abilities


@dataclass(frozen=True, eq=False)
class WorkerAbilities:
    """Abilities by the ids of workers: for the operator alone, and apart from the :class:`TruthResult`, which may be published.

    Estimators have it as ``workers_`` after a fit.
    """

    workers: pl.Series
    """The workers' ids, sorted; everything else is in this order."""
    loads: Ints
    abilities: Floats
    standard_errors: Floats
    prior_strength: float
    """How many answers the prior on an ability is worth."""
    epsilons: tuple[Fraction, ...] | None = None
    """With which epsilon each worker's answers were randomized, where people chose."""
    intervals: Floats | None = None
    """The lower and upper end of each ability's interval, with gold tasks."""

    @classmethod
    def of(
        cls, workers: pl.Series, result: TruthResult, epsilons: tuple[Fraction, ...] | None = None
    ) -> WorkerAbilities:
        """The abilities of a result, with the ids that they belong to."""
        strength = float(result.details.get("prior_strength", 0.0))
        known = (result.loads, result.abilities, result.standard_errors, strength)
        return cls(workers, *known, epsilons, result.ability_intervals)

    def frame(self) -> pl.DataFrame:
        """A Polars table: worker, answers, ability, standard error, and with gold tasks the interval as lower and upper."""
        columns = {"answers": self.loads, "ability": self.abilities, "standard_error": self.standard_errors}
        ends = {} if self.intervals is None else {"lower": self.intervals[:, 0], "upper": self.intervals[:, 1]}
        chosen = {} if self.epsilons is None else {"epsilon": [str(level) for level in self.epsilons]}
        return pl.DataFrame({"worker": self.workers, **columns, **ends, **chosen})

    def history(self) -> dict[Any, tuple[float, float]]:
        """What is now known of each worker, as correct and wrong answers that would say as much: a prior for later work.

        A Beta distribution with the ability's mean and standard error, minus what the prior alone would give.
        """
        variance = np.maximum(self.standard_errors**2, 1e-9)
        mean = np.clip(self.abilities, 1e-3, 1 - 1e-3)
        size = np.clip(mean * (1 - mean) / variance - 1 - self.prior_strength, 0.0, None)
        pairs = np.column_stack([mean * size, (1 - mean) * size]).tolist()
        return {worker: (correct, wrong) for worker, (correct, wrong) in zip(self.workers, pairs, strict=True)}


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
        numbered = result.tasks.dtype == pl.Int64  # an index of many numbers is far cheaper from an array
        index = pandas.Index(result.tasks.to_numpy() if numbered else result.tasks.to_list(), name="task")
        if probabilities:
            return pandas.DataFrame(result.probabilities, index=index, columns=list(result.classes))
        return pandas.Series(result.labels, index=index, name="agg_label")
    columns = dict(zip(map(str, result.classes), result.probabilities.T, strict=True))
    return pl.DataFrame({"task": result.tasks, **(columns if probabilities else {"label": result.labels})})
