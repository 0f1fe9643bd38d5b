"""The mechanism of the truth module: randomized answers, on the person's side.

Three guarantees, from weak to strong:

- *per answer* (local attribute DP): every answer is randomized with epsilon by itself. All k answers of a person add up to
  k epsilon, and which tasks were answered is not hidden.
- *per person* (local DP): everything that a person sends costs epsilon together. The budget is split over the answers, or
  over a random few of them, whichever leaves more information (:func:`answers_per_person`).
- *hiding which tasks*: "no answer" is one more class, sent for every task alike, so that nobody learns whether there was an
  answer.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim, one_of
from peerveil.core.exact import Number, whole
from peerveil.core.guarantee import Guarantee, read_epsilon
from peerveil.core.randomness import Randomness, Response, SubsetResponse, best_response
from peerveil.core.randomness.subsets import subset_size
from peerveil.core.result import Outputs
from peerveil.data import Labels
from peerveil.data.labels import check_classes
from peerveil.data.table import plural
from peerveil.truth.answers import full_sheet, missing_class
from peerveil.truth.channels import Channel
from peerveil.truth.figures import draw_classes
from peerveil.truth.guarantee import UNITS, AnswersResult, largest_load, task_guarantee
from peerveil.truth.result import TruthResult, WorkerAbilities, is_pandas

if TYPE_CHECKING:
    from peerveil.ledger import Account

RESPONSES: Final = ("auto", "k-ary")


def randomize(
    values: Any, *, epsilon: Number, classes: int | Sequence[Hashable], randomness: Randomness | None = None
) -> Any:
    """Randomize every answer by itself; what is returned is of the same kind.

    Parameters
    ----------
    values
        Answers: a NumPy array, a list, or a Polars or pandas series.
    epsilon
        Of each answer: whatever is sent is at most e^epsilon times as likely for one answer as for another.
    classes
        The list of classes, or a count k for the answers 0 to k - 1. It is required: a list that was read off private
        answers would tell about them.
    randomness
        Secure by default.

    Notes
    -----
    **Neighbors**: one person gives another answer to one task, and the same answers to all others. **Proof** of local
    attribute DP with epsilon: answers are randomized independently, so that the likelihood ratio of all that a person sends is
    that of the one answer which differs, and this is at most e^epsilon (:class:`peerveil.Response`, on whole numbers). ∎
    Randomizing an answer twice costs twice epsilon: never randomize an answer again.

    Examples
    --------
    >>> randomize(["cat", "dog", "cat"], epsilon=1, classes=["cat", "dog"], randomness=Randomness.simulation(1))
    ['cat', 'dog', 'cat']
    >>> randomize(np.array([0, 1, 2, 2]), epsilon=3, classes=3).dtype
    dtype('int64')
    """
    response, array, missing = Response(epsilon, classes), values, 0
    if isinstance(values, pl.Series):
        missing = values.null_count()
        array = np.array(values.to_list()) if values.dtype == pl.String else values.to_numpy()
    elif is_pandas(values):
        missing, array = int(values.isna().sum()), np.array(values.to_list())
    if missing:
        raise BadInput("values", got=Verbatim(f"{missing} missing answers"), want="an answer in every row")
    sent = (randomness or Randomness.secure()).respond(array, response)
    if isinstance(values, pl.Series):
        return pl.Series(values.name, sent, dtype=values.dtype)
    if is_pandas(values):
        return type(values)(sent, index=values.index, name=values.name)
    if isinstance(values, np.ndarray):
        return sent
    return tuple(sent.tolist()) if isinstance(values, tuple) else sent.tolist()


def answers_per_person(*, epsilon: Number, answers: int, classes: int) -> int:
    """Over how many answers a person's budget is best split: m of their answers at epsilon/m each.

    The information in m answers is m I(epsilon/m), with I the mutual information of an evenly spread answer and the randomized
    one. For small epsilon I grows with its square, so that one answer with the whole budget is best; for large epsilon one
    answer contains at most ln k, and the budget goes further when it is split.

    >>> [answers_per_person(epsilon=e, answers=40, classes=2) for e in (1, 4, 8, 20)]
    [1, 2, 3, 8]
    """
    budget = float(read_epsilon(epsilon))
    whole(answers, "answers", 1, want="how many answers a person gives at most, at least 1")
    return max(range(1, int(answers) + 1), key=lambda m: m * _information(budget / m, classes))


def _information(epsilon: float, k: int) -> float:
    """Mutual information of an evenly spread answer and the randomized one, in nats; of a subset of w classes
    p ln(p k/w) + (1 - p) ln((1 - p) k/(k - w)).
    """
    w = subset_size(epsilon, k)
    keep = Channel.of(epsilon, k, w).keep
    return keep * math.log(keep * k / w) + ((1 - keep) * math.log((1 - keep) * k / (k - w)) if keep < 1 else 0.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class RandomizedAnswers(AnswersResult):
    """Randomized answers that may be published, with their guarantee.

    Attributes
    ----------
    answers
        What was sent for which task. Workers have random numbers in place of their ids, and rows are in an order without
        the ids.
    response
        The response that randomized every single answer.
    unit
        ``"answer"`` or ``"person"``.
    missing
        The class that stands for "no answer", where it is hidden which tasks were answered.
    most
        How many answers the busiest person sent.
    unsent
        How many tasks had answers (or, with hidden tasks, stand on the list) of which none was sent.
    """

    answers: Labels = field(repr=False)
    response: Response | SubsetResponse
    unit: str
    missing: Any
    most: int
    unsent: int = 0

    @property
    def _busiest(self) -> tuple[int, Fraction]:
        return self.most, self.response.exact_epsilon

    def frame(self) -> pl.DataFrame:
        """The answers as a Polars table: task, worker (a random number) and label (of a subset response a list)."""
        return self.answers.frame

    def summary(self) -> str:
        """The finding in one line."""
        hidden = ", which tasks were answered is hidden" if self.missing is not None else ""
        size, k = self.response.size, self.response.k
        several = f" of {size} of the {k} classes" if size > 1 else ""
        return f"{plural(len(self.answers), 'randomized answer')}{several}, epsilon {self.response.exact_epsilon} each{hidden}"

    def __str__(self) -> str:
        if self.unit == "answer":
            return super().__str__()
        tasks = self.answers.frame["task"].n_unique() + self.unsent
        unsent = f", and {self.unsent:,} of {tasks:,} tasks get none" if self.unsent else ""
        return f"{super().__str__()}\nAt this epsilon a person sends {plural(self.most, 'answer')}{unsent}."

    def to_dict(self) -> dict[str, Any]:
        """The settings and the guarantee, without the answers."""
        return {
            "answers": len(self.answers),
            "most_answers_of_a_person": self.most,
            "tasks_without_answer": self.unsent,
            "epsilon_of_an_answer": str(self.response.exact_epsilon),
            "classes": list(self.response.labels or range(self.response.k)),
            "classes_of_an_answer": self.response.size,
            "unit": self.unit,
            "missing": self.missing,
            **self._guarantees(),
        }

    draw = draw_classes

    def fit(self, *, model: str = "auto", **settings: Any) -> TruthResult:
        """Infer labels from these answers, with the response that randomized them and their guarantee."""
        collected = CollectedAnswers(self.answers, self.response, self.missing, self.guarantee)
        return collected.fit(model=model, **settings).public


@dataclass(frozen=True)
class CollectedAnswers:
    """Randomized answers with the ids of workers, and the terms under which they were sent: for the operator.

    If persons chose among protection levels, ``levels`` are their responses by rising epsilon, ``response`` is the last of
    them, and the column epsilon of ``answers`` says which level each answer has.
    """

    answers: Labels
    response: Response | SubsetResponse
    missing: Any
    guarantee: Guarantee
    levels: tuple[Response | SubsetResponse, ...] = ()

    def fit(self, *, model: str = "auto", **settings: Any) -> Outputs[TruthResult, WorkerAbilities]:
        """Infer labels: a result for everybody, and the abilities by the ids of workers for the operator.

        Parameters
        ----------
        settings
            Those of :class:`PrivateDawidSkene`.
        """
        from peerveil.truth.estimate import PrivateDawidSkene

        response, missing, answers = self.response, self.missing, self.answers
        epsilon: Number = response.exact_epsilon
        classes = [c for c in response.labels or range(response.k) if missing is None or c != missing]
        if missing is not None and isinstance(response, Response):
            epsilon = max(effective_epsilon(response.epsilon, answered_share(answers, response, missing)), 1e-6)
            frame = answers.frame.filter(pl.col("label") != missing)
            if frame.height == 0:
                raise BadInput("answers", got=Verbatim("no answer of a class"), want="at least one")
            answers = Labels.from_frame(frame)
        if self.levels:
            epsilon = "column"
        estimator = PrivateDawidSkene(epsilon=epsilon, model=model, classes=classes, **settings)
        result = estimator.fit(answers, guarantee=self.guarantee)
        if missing is not None:  # "no answer" was sent too, with the epsilon of the response
            most = int(np.bincount(self.answers.numbered("worker")[0]).max())
            result = replace(result, answer_epsilon=response.exact_epsilon, most_answers=most)
        return Outputs(result, estimator.workers_)


def randomize_answers(
    labels: Any,
    *,
    epsilon: Number,
    classes: int | Sequence[Hashable],
    unit: str = "answer",
    hide_tasks: bool = False,
    tasks: Sequence[Hashable] | None = None,
    most: int | None = None,
    response: str = "auto",
    columns: Mapping[str, str] | None = None,
    randomness: Randomness | None = None,
    account: Account | None = None,
) -> Outputs[RandomizedAnswers, CollectedAnswers]:
    """Randomize a table of answers, each person's by itself, as their devices would.

    Returns the randomized answers twice: with random numbers for workers (``public``), and with their ids (``operator``).

    Parameters
    ----------
    labels
        Who answered what: Labels, a pandas or Polars frame with columns task, worker and label, or a file name.
    epsilon
        Of one answer (``unit="answer"``) or of everything a person sends (``unit="person"``).
    response
        ``"auto"``: for many classes and small epsilon an answer names several of them
        (:func:`~peerveil.core.randomness.best_response`), unless tasks are hidden; or ``"k-ary"``: it names one.
    hide_tasks
        Send "no answer" too, so that it stays unknown which tasks a person answered. Every person sends an answer to every task
        of ``tasks`` (or, per person, to a few random ones).
    tasks
        With ``hide_tasks``: all tasks, from a public list.
    most
        With ``unit="person"``: how many answers a person gives at most, by public rule; by default as in the table (then
        that number is taken to be public).
    columns
        Names of the columns task, worker and label in a frame or file, where they differ: ``{"task": "item"}``.
    account
        An account of a ledger, debited before anything is drawn.

    Notes
    -----
    **Per answer.** As in :func:`randomize`; where somebody answered a task r times, changing their opinion on it changes r
    answers, and the guarantee is r epsilon.

    **Per person.** Neighbors: any two answer sheets on the same tasks. Proof: which answers are sent is drawn without looking
    at them; given that, at most m sent answers depend on the sheet, each with a likelihood ratio of at most e^(epsilon/m); the
    product is at most e^epsilon. ∎ **Hidden tasks.** "No answer" is an answer like any other to the response, and how many
    answers a person sends does not depend on how many they gave; the same two proofs hold with it. ∎

    Examples
    --------
    >>> answers = Labels(task=[1, 2, 1], worker=["ann", "ann", "bo"], label=[0, 1, 1])
    >>> randomness = Randomness.simulation(1)
    >>> sent, collected = randomize_answers(answers, epsilon=1, classes=2, unit="person", randomness=randomness)
    >>> len(sent.answers), sent.guarantee.epsilon, sent.response.exact_epsilon
    (2, 1.0, Fraction(1, 1))
    >>> sent.answers.frame["worker"].to_list(), collected.answers.frame["worker"].to_list()
    ([1, 2], ['ann', 'bo'])
    """
    labels = Labels.of(labels, "labels", columns=columns)
    one_of(unit, "unit", UNITS)
    one_of(response, "response", RESPONSES)
    budget, class_list = read_epsilon(epsilon), check_classes(classes)
    labels.codes(class_list)  # an impossible answer is refused by its row before anything is drawn
    randomness = randomness or Randomness.secure()
    missing, sheet = None, labels.frame.select("task", "worker", "label")
    if hide_tasks:
        missing = missing_class(class_list)
        sheet = full_sheet(labels, tasks, missing)
        class_list = [*class_list, missing]
    elif tasks is not None:
        raise BadInput("tasks", got=tasks, want="hide_tasks=True with a list of all tasks")
    answers_each = 1
    if unit == "person":
        busiest = largest_load(sheet)
        if most is not None and busiest > most:
            raise BadInput("most", got=most, want=f"at least {busiest}: somebody gave so many answers")
        answers_each = answers_per_person(epsilon=budget, answers=most or busiest, classes=len(class_list))
    form = Response if hide_tasks or response == "k-ary" else best_response
    used = form(budget / answers_each, class_list)
    guarantee = task_guarantee(sheet, budget, unit, hide_tasks)
    task_count = sheet["task"].n_unique()
    if account is not None:
        account.spend(guarantee, purpose=f"randomized answers, per {unit}", data=labels, randomness=randomness)
    if unit == "person":
        sheet = _random_few(sheet, answers_each, randomness)
    answers = Labels.from_frame(sheet.with_columns(label=_respond(sheet["label"], used, randomness)))
    collected = CollectedAnswers(answers, used, missing, randomness.stamp(guarantee))
    public = RandomizedAnswers(
        guarantee=collected.guarantee,
        answers=_anonymous(answers, randomness),
        response=used,
        unit=unit,
        missing=missing,
        most=largest_load(sheet),
        unsent=task_count - sheet["task"].n_unique(),
    )
    return Outputs(public, collected)


def _anonymous(answers: Labels, randomness: Randomness) -> Labels:
    """The answers with random numbers from 1 in place of the ids of workers, sorted by task and number."""
    workers = answers.frame["worker"].unique().sort()
    numbers = pl.Series(randomness.permutation(workers.len()) + 1, dtype=pl.Int64)
    renamed = answers.frame.with_columns(pl.col("worker").replace_strict(workers, numbers))
    label = pl.col("label").list.eval(pl.element().cast(pl.String)).list.join(",") if answers.has_subsets else "label"
    return Labels.from_frame(renamed.sort("task", "worker", label))


def _respond(labels: pl.Series, response: Response | SubsetResponse, randomness: Randomness) -> pl.Series:
    """What is sent for every label: a label, or a list of them."""
    values = np.array(labels.to_list()) if labels.dtype == pl.String else labels.to_numpy()
    sent = randomness.respond(values, response)
    dtype = labels.dtype if sent.ndim == 1 else pl.List(labels.dtype)
    return pl.Series(labels.name, sent.tolist() if sent.ndim > 1 else sent, dtype=dtype)


def _random_few(sheet: pl.DataFrame, most: int, randomness: Randomness) -> pl.DataFrame:
    """A random few of each person's rows, chosen without looking at the answers."""
    order = randomness.permutation(sheet.height)
    shuffled = sheet.select(pl.all().gather(order)).with_columns(place=pl.int_range(pl.len()).over("worker"))
    return shuffled.filter(pl.col("place") < most).drop("place")


def answered_share(answers: Labels, response: Response | SubsetResponse, missing: Any) -> float:
    """An unbiased estimate of the share of tasks that people answered, from answers that hide it.

    A share f of randomized answers is "no answer", in expectation (1 - s) keep + s other, with s the share of answers; solved
    for s, and clipped to (0, 1].
    """
    shown = float((answers.frame["label"] == missing).sum()) / len(answers)
    share = (response.keep - shown) / (response.keep - response.other)
    return float(np.clip(share, 1 / max(len(answers), 1), 1.0))


def effective_epsilon(epsilon: float, share: float) -> float:
    """The epsilon of the response that hidden tasks look like, once "no answer" is left out.

    With s the share of answers, a randomized answer of class r has probability s keep + (1 - s) other if r is the answer, and
    other if it is not: odds of 1 + s (e^epsilon - 1).

    >>> effective_epsilon(1.0, 1.0)
    1.0
    """
    return math.log1p(share * math.expm1(epsilon))
