"""What an estimator of the truth room hands out."""

from __future__ import annotations

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
    from collections.abc import Sequence
    from fractions import Fraction
    from pathlib import Path

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from peerveil.truth.choose import Evidence

    Floats = NDArray[np.float64]

CONFIDENCE: Final = (
    "Confidences assume that people err independently of each other. Where people share errors, confidences are too high; "
    "only reference answers show how many labels are correct."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class TruthResult(Result):
    """Labels, abilities and confidence, with the guarantee of the reports that they were computed from.

    It holds no ids of workers, so that it can be printed, pickled, saved and published. Which ability belongs to whom is known
    to the estimator alone: :class:`WorkerAbilities`.

    Attributes
    ----------
    tasks
        The tasks' ids, sorted; everything about tasks is in this order.
    labels
        The likeliest class of every task.
    probabilities
        One row a task, one column a class (in the order of ``classes``).
    abilities
        The probability that a worker's own answer, before it was randomized, is the true class; one number per worker.
    standard_errors
        Of the abilities.
    model
        Which model made them, and for the default how much two-coin weighs (``evidence``).
    class_shares
        The shares of the classes that the labels were computed with.
    objective
        What the iteration climbed; ``iterations`` steps.
    loads
        How many reports each worker sent.
    answer_epsilon
        The exact epsilon of one report; ``None`` if answers were not randomized.
    most_answers
        How many reports the person sent who sent most, if that is more than the result uses.
    doubt
        Why the reports do not look randomized with this epsilon, in words (:mod:`peerveil.truth.doubt`); ``None`` if they do,
        or if peerveil randomized them.
    """

    tasks: pl.Series
    classes: tuple[Any, ...]
    labels: NDArray[Any]
    probabilities: Floats
    abilities: Floats = field(repr=False)
    standard_errors: Floats = field(repr=False)
    loads: NDArray[np.int64] = field(repr=False)
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
        """The words that must stand beside this result: "not private" too where the reports were not randomized."""
        return super().mark or (None if self.doubt is None else NOT_PRIVATE_MARK)

    @property
    def confidence(self) -> Floats:
        """The probability of every task's label."""
        return np.asarray(self.probabilities.max(axis=1))

    @property
    def most(self) -> int:
        """How many reports the person sent who sent most."""
        return int(self.loads.max(initial=1)) if self.most_answers is None else self.most_answers

    @property
    def typical(self) -> int:
        """How many reports a typical person sent; where tasks are hidden, everybody reports on all of them."""
        return int(np.median(self.loads)) if self.most_answers is None else self.most_answers

    @property
    def person_guarantee(self) -> Guarantee:
        """What the reports of the busiest worker add up to, if the guarantee is for one answer."""
        return self.guarantee_of(self.most)

    def guarantee_of(self, answers: int) -> Guarantee:
        """The guarantee for a person who sent this many reports."""
        return sum_of_answers(self.guarantee, self.answer_epsilon, answers)

    def doubted(self, votes: Floats) -> TruthResult:
        """The same result, with a warning where its promise rests on an assumption that the reports speak against."""
        found = None if self.guarantee.assumption is None else doubt(votes, self.epsilon)
        if found is None:
            return self
        warnings.warn(found, NotRandomized, stacklevel=5)
        return replace(self, doubt=found)

    def frame(self, *, probabilities: bool = False) -> pl.DataFrame:
        """A Polars table of tasks: task, label, confidence, and with ``probabilities`` one column per class (``p_yes``)."""
        shares = {f"p_{c}": self.probabilities[:, i] for i, c in enumerate(self.classes)} if probabilities else {}
        return pl.DataFrame({"task": self.tasks, "label": self.labels, "confidence": self.confidence, **shares})

    def accuracy(self, truth: Any) -> tuple[float, float]:
        """Accuracy and balanced accuracy against right answers.

        Parameters
        ----------
        truth
            A mapping of tasks to right answers, a pandas series indexed by task, a frame with columns task and truth, or
            Labels with right answers. Tasks that have no label here are left out.
        """
        known = right_answers(truth)
        given = dict(zip(self.tasks.to_list(), self.labels.tolist(), strict=True))
        pairs = [(right, given[task] == right) for task, right in known.items() if task in given]
        if not pairs:
            got = Verbatim(f"right answers to {len(known):,} other tasks")
            raise BadInput("truth", got=got, want=f"answers to tasks of this result, such as {self.tasks[0]!r}")
        by_class: dict[Any, list[bool]] = {}
        for right, hit in pairs:
            by_class.setdefault(right, []).append(hit)
        return float(np.mean([hit for _, hit in pairs])), float(np.mean([np.mean(v) for v in by_class.values()]))

    def summary(self) -> str:
        """The finding in one line."""
        sure = int((self.confidence >= 0.9).sum())
        return (
            f"{plural(len(self.tasks), 'task')} labeled from {plural(int(self.loads.sum()), 'report')} of "
            f"{plural(self.loads.size, 'worker')} ({model_in_words(self.model)}); {sure:,} with a confidence of at least "
            f"90%; median ability {float(np.median(self.abilities)):.2f}"
        )

    def __str__(self) -> str:
        lines = [super().__str__(), whole_person(self.guarantee, self.person_guarantee, self.most), CONFIDENCE]
        if self.doubt is not None:
            lines.insert(0, f"warning: {self.doubt}")
        return "\n".join(line for line in lines if line)

    def to_dict(self) -> dict[str, Any]:
        """Everything about tasks, as JSON values."""
        names = ("classes", "model", "class_shares", "objective", "iterations", "converged", "epsilon")
        return {
            **{name: plain(getattr(self, name)) for name in names},
            "tasks": plain(self.frame()),
            "workers": self.loads.size,
            "answers": int(self.loads.sum()),
            "probabilities": plain(self.probabilities),
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
    loads: NDArray[np.int64]
    abilities: Floats
    standard_errors: Floats
    prior_strength: float

    @classmethod
    def of(cls, workers: pl.Series, result: TruthResult) -> WorkerAbilities:
        """The abilities of a result, with the ids that they belong to."""
        strength = float(result.details.get("prior_strength", 0.0))
        return cls(workers, result.loads, result.abilities, result.standard_errors, strength)

    def frame(self) -> pl.DataFrame:
        """A Polars table: worker, reports, ability, standard error; ``.to_pandas()`` makes it one of pandas."""
        return pl.DataFrame(
            {
                "worker": self.workers,
                "answers": self.loads,
                "ability": self.abilities,
                "standard_error": self.standard_errors,
            }
        )

    def history(self) -> dict[Any, tuple[float, float]]:
        """What is now known of each worker, as right and wrong answers that would say as much: a prior for later work.

        A Beta distribution with the ability's mean and standard error, minus what the prior alone would give.
        """
        spread = np.maximum(self.standard_errors**2, 1e-9)
        mean = np.clip(self.abilities, 1e-3, 1 - 1e-3)
        size = np.clip(mean * (1 - mean) / spread - 1 - self.prior_strength, 0.0, None)
        return {
            worker: (float(m * n), float((1 - m) * n))
            for worker, m, n in zip(self.workers.to_list(), mean, size, strict=True)
        }


_ONE_ANSWER: Final = (
    "one person gives one other answer and the same answers otherwise; a task answered twice has two answers; which tasks "
    "were answered is not hidden"
)


def device_guarantee(epsilon: Any) -> Guarantee:
    """What is promised for reports that somebody else collected: local attribute DP, if they were randomized at all.

    >>> device_guarantee(1).assumption
    "these answers were randomized at epsilon 1 on each person's device before they were collected"
    """
    promised = Guarantee.local_attribute_dp(epsilon, neighbors=_ONE_ANSWER)
    if promised.exact_epsilon is None:
        return promised
    return promised.assuming(
        f"these answers were randomized at epsilon {promised.exact_epsilon} on each person's device before they were collected"
    )


def promise(epsilon: Any, guarantee: Guarantee | None) -> Guarantee:
    """The guarantee that a result carries: the one given, or local attribute DP for one answer if it was randomized."""
    if guarantee is None:
        return device_guarantee(epsilon)
    if not isinstance(guarantee, Guarantee):
        raise BadInput("guarantee", got=guarantee, want="a Guarantee")
    return guarantee


def sum_of_answers(promised: Guarantee, epsilon: Fraction | None, reports: int) -> Guarantee:
    """The guarantee for a person who sent this many reports with this epsilon each: their sum.

    ``promised`` is what was promised for one task, which may cover several reports already; it is returned unchanged if it is
    for a whole person or if nothing was randomized.

    >>> twice = Guarantee.local_attribute_dp(1).group(2)  # somebody answered a task twice
    >>> sum_of_answers(twice, read_epsilon(1), 5).epsilon
    5.0
    """
    if promised.notion is not Notion.LOCAL_ATTRIBUTE_DP or epsilon is None or reports <= 1:
        return promised
    one = promised
    if promised.exact_epsilon != epsilon:  # of several reports on one task
        one = Guarantee.local_attribute_dp(epsilon)
        one = one.as_simulated() if promised.simulated else one
        one = one if promised.assumption is None else one.assuming(promised.assumption)
    return one.group(reports, unit=f"all {reports:,} reports of one person")


def model_in_words(name: str) -> str:
    """What a model is, for people who do not know its name.

    >>> model_in_words("one-coin (auto)"), model_in_words("majority")
    ('one ability for each worker, chosen from the reports', 'majority vote')
    """
    one, two = "one ability for each worker", "an ability for each worker and class"
    known = {
        "one-coin": one,
        "two-coin": two,
        "one-coin (auto)": f"{one}, chosen from the reports",
        "two-coin (auto)": f"{two}, chosen from the reports",
        "confusion": "a table of errors for each worker",
        "majority": "majority vote",
    }
    between = "between one ability for each worker and one for each class, chosen from the reports"
    return known.get(name, between)


def whole_person(one: Guarantee, whole: Guarantee, most: int) -> str:
    """What the promise for one answer comes to for a person, in one line; empty if it is for a person already.

    >>> answer = Guarantee.local_attribute_dp(2)
    >>> print(whole_person(answer, answer.group(94), 94))  # doctest: +NORMALIZE_WHITESPACE
    For a whole person: no promise worth the name. Somebody gave 94 answers, which add up to epsilon 188;
    for a promise to persons, randomize with --unit person (unit='person').
    """
    if whole == one or whole.exact_epsilon is None:
        return ""
    total = whole.exact_epsilon
    if total > WORTHLESS:
        return (
            f"For a whole person: no promise worth the name. Somebody gave {most:,} answers, which add up to epsilon {total}; "
            "for a promise to persons, randomize with --unit person (unit='person')."
        )
    _, guess = odds_in_words(read_epsilon(total))
    return (
        f"For a whole person: somebody gave {most:,} answers, which add up to epsilon {total}; a 50:50 guess between two "
        f"sheets of answers is right at most {guess} times in 100."
    )


def right_answers(truth: Any) -> dict[Any, Any]:
    """Right answers by task, from whatever holds them."""
    want = (
        "right answers by task: a mapping, a pandas series indexed by task, a frame with columns task and truth, or Labels with "
        "a truth column (for a list in the order of result.tasks: dict(zip(result.tasks, answers)))"
    )
    if isinstance(truth, Labels):
        truth = truth.truths()
    if hasattr(truth, "columns") and hasattr(truth, "__getitem__"):
        names = [str(name) for name in truth.columns]
        if not {"task", "truth"} <= set(names):
            raise BadInput("truth", got=Verbatim(f"a frame with columns {', '.join(names)}"), want=want)
        return dict(zip(_listed(truth["task"]), _listed(truth["truth"]), strict=True))
    if hasattr(truth, "index") and hasattr(truth, "to_dict"):  # a pandas series
        return dict(truth.to_dict())
    try:
        return dict(truth)
    except (TypeError, ValueError):
        raise BadInput("truth", got=truth, want=want) from None


def as_classes(codes: NDArray[Any], classes: Sequence[Any]) -> NDArray[Any]:
    """Codes as the classes that they stand for."""
    return np.asarray(np.array(list(classes))[codes])


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


def _listed(values: Any) -> list[Any]:
    return list(values.tolist() if hasattr(values, "tolist") else values.to_list())
