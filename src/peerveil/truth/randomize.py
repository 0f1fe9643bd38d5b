"""The mechanism of the truth room: randomized answers, on the person's side.

Three promises, from weak to strong; each says what it does not hide:

- *per answer* (local attribute DP): every answer is randomized with epsilon by itself. All k answers of a person add up to
  k epsilon, and which tasks were answered is not hidden.
- *per person* (local DP): everything that a person reports costs epsilon together. The budget is split over the answers, or
  over a random few of them, whichever leaves more (:func:`answers_per_person`).
- *hiding which tasks*: "no answer" is one more class, reported for every task alike, so that a report does not tell whether
  there was an answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import whole
from peerveil.core.guarantee import Guarantee, read_epsilon
from peerveil.core.randomness import Randomness, Response
from peerveil.core.result import Outputs, Result
from peerveil.data import Labels
from peerveil.data.labels import check_classes
from peerveil.data.table import plural
from peerveil.truth.abilities import Channel
from peerveil.truth.result import sum_of_answers, whole_person

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

    from peerveil.core.exact import Number
    from peerveil.ledger import Account
    from peerveil.truth.result import TruthResult, WorkerAbilities

PERSON: Final = {
    "unit": "all answers of one person",
    "neighbors": "one person gives any other answers to the same tasks; which tasks were answered is not hidden",
}
_HIDDEN: Final = {
    "unit": "one task of one person: the answer, or that there is none",
    "neighbors": "one person gives another answer, or none, to one task and does the same on all others",
}
_HIDDEN_PERSON: Final = {
    "unit": "everything one person did",
    "neighbors": "one person answers any other tasks in any other way; only that they take part is not hidden",
}


def randomize(
    values: Any, *, epsilon: Number, classes: int | Sequence[Any], randomness: Randomness | None = None
) -> Any:
    """Randomize every answer by itself; what comes back is of the same kind.

    Parameters
    ----------
    values
        Answers: a NumPy array, a list, or a Polars or pandas series.
    epsilon
        Of each answer: whatever is sent is at most e^epsilon times as likely for one answer as for another.
    classes
        The list of classes, or a count k for the answers 0 to k - 1. It is always given: a list that was read off private
        answers would tell about them.
    randomness
        The secure lane unless given.

    Notes
    -----
    **Neighbors**: one person gives another answer to one task, and the same answers to all others. **Proof** of local
    attribute DP with epsilon: reports are independent, so that the likelihood ratio of all reports of a person is that of the one
    report which differs, and this is at most e^epsilon (:class:`peerveil.Response`, on whole numbers). ∎ Two reports of one
    answer cost twice epsilon: never randomize an answer again.

    Examples
    --------
    >>> randomize(["cat", "dog", "cat"], epsilon=1, classes=["cat", "dog"], randomness=Randomness.simulation(1))
    ['cat', 'dog', 'cat']
    >>> randomize(np.array([0, 1, 2, 2]), epsilon=3, classes=3).dtype
    dtype('int64')
    """
    response = Response(epsilon, classes)
    lane = Randomness.secure() if randomness is None else randomness
    if isinstance(values, pl.Series):
        if values.null_count():
            raise BadInput(
                "values", got=Verbatim(f"{values.null_count()} missing answers"), want="an answer in every row"
            )
        sent = lane.respond(values.to_numpy() if values.dtype != pl.String else np.array(values.to_list()), response)
        return pl.Series(values.name, sent, dtype=values.dtype)
    if type(values).__module__.split(".")[0] == "pandas":
        if values.isna().any():
            raise BadInput(
                "values", got=Verbatim(f"{int(values.isna().sum())} missing answers"), want="an answer in every row"
            )
        return type(values)(lane.respond(np.array(values.tolist()), response), index=values.index, name=values.name)
    sent = lane.respond(values, response)
    if isinstance(values, np.ndarray):
        return sent
    return type(values)(sent.tolist()) if isinstance(values, (list, tuple)) else sent.tolist()


def answers_per_person(*, epsilon: Number, answers: int, classes: int) -> int:
    """Into how many reports a person's budget is best split: m of their answers at epsilon/m each.

    What m reports tell together is m I(epsilon/m), with I the mutual information of an evenly spread answer and its report. For
    small epsilon I grows with its square, so that one answer with the whole budget tells most; for large epsilon one answer can
    tell no more than ln k, and the budget goes further when it is split.

    >>> [answers_per_person(epsilon=e, answers=40, classes=2) for e in (1, 4, 8, 20)]
    [1, 2, 3, 8]
    """
    budget = float(read_epsilon(epsilon))
    whole(answers, "answers", 1, want="how many answers a person gives at most, at least 1")
    told = [m * _information(budget / m, classes) for m in range(1, int(answers) + 1)]
    return int(np.argmax(told)) + 1


def _information(epsilon: float, k: int) -> float:
    """Nats that a report tells about an evenly spread answer."""
    channel = Channel.of(epsilon, k)
    keep, other = channel.keep, channel.other
    return math.log(k) + keep * math.log(keep) + ((k - 1) * other * math.log(other) if other > 0 else 0.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class RandomizedAnswers(Result):
    """EncodedAnswers that may be published, with what is promised for them.

    Attributes
    ----------
    answers
        What was sent on which task. Workers have random numbers in place of their ids, and rows are in an order without
        the ids.
    response
        The response that made every single report.
    unit
        ``"answer"`` or ``"person"``.
    missing
        The class that stands for "no answer", where it is hidden which tasks were answered.
    most
        How many reports the person sent who sent most.
    unsent
        How many tasks had answers (or, with hidden tasks, stand on the list) and got no report.
    """

    answers: Labels = field(repr=False)
    response: Response
    unit: str
    missing: Any
    most: int
    unsent: int = 0

    @property
    def person_guarantee(self) -> Guarantee:
        """The guarantee for the person who sent most reports."""
        return self.guarantee_of(self.most)

    def guarantee_of(self, answers: int) -> Guarantee:
        """The guarantee for a person who sent this many reports."""
        return sum_of_answers(self.guarantee, self.response.exact_epsilon, answers)

    def frame(self) -> pl.DataFrame:
        """The reports as a Polars table: task, worker (a random number) and label."""
        return self.answers.frame

    def summary(self) -> str:
        """The finding in one line."""
        hidden = ", which tasks were answered is hidden" if self.missing is not None else ""
        return f"{plural(len(self.answers), 'report')}, epsilon {self.response.exact_epsilon} each{hidden}"

    def __str__(self) -> str:
        lines = [super().__str__(), whole_person(self.guarantee, self.person_guarantee, self.most)]
        if self.unit == "person":
            tasks = self.answers.frame["task"].n_unique() + self.unsent
            lost = f"{self.unsent:,} of {tasks:,} tasks got no report; at" if self.unsent else "At"
            sends = "1 answer" if self.most == 1 else f"{self.most:,} answers"
            lines.append(f"{lost} this epsilon a person sends {sends}.")
        return "\n".join(line for line in lines if line)

    def to_dict(self) -> dict[str, Any]:
        """The settings and the guarantee, without the reports."""
        return {
            "answers": len(self.answers),
            "most_answers_of_a_person": self.most,
            "tasks_without_answer": self.unsent,
            "epsilon_of_an_answer": str(self.response.exact_epsilon),
            "classes": list(self.response.labels or range(self.response.k)),
            "unit": self.unit,
            "missing": self.missing,
            "guarantee": self.guarantee.to_dict(),
            "guarantee_in_words": str(self.guarantee),
            "person_guarantee_in_words": str(self.person_guarantee),
            "mark": self.mark,
        }

    def draw(self, ax: Axes) -> None:
        """Shares of the classes among the reports, and estimated among the answers."""
        from peerveil.truth.figures import draw_reports

        draw_reports(self, ax)

    def fit(self, *, model: str = "auto", **settings: Any) -> TruthResult:
        """Infer the truth from these reports, with the response that made them and the promise that was given."""
        return (
            CollectedAnswers(self.answers, self.response, self.missing, self.guarantee)
            .fit(model=model, **settings)
            .public
        )


@dataclass(frozen=True)
class CollectedAnswers:
    """EncodedAnswers with the ids of workers, and the terms under which they were made: for the operator."""

    answers: Labels
    response: Response
    missing: Any
    guarantee: Guarantee

    def fit(self, *, model: str = "auto", **settings: Any) -> Outputs[TruthResult, WorkerAbilities]:
        """Infer the truth: a result for everybody, and the abilities by the ids of workers for the operator.

        Parameters
        ----------
        settings
            Those of :class:`PrivateDawidSkene`.
        """
        from peerveil.truth.estimate import PrivateDawidSkene

        response, missing = self.response, self.missing
        classes: list[Any] = list(response.labels or range(response.k))
        if missing is None:
            estimator = PrivateDawidSkene(epsilon=response.exact_epsilon, model=model, classes=classes, **settings)
            result = estimator.fit(self.answers, guarantee=self.guarantee)
            return Outputs(result, estimator.workers_)
        share = answered_share(self.answers, response, missing)
        kept = self.answers.frame.filter(pl.col("label") != missing)
        if kept.height == 0:
            raise BadInput("reports", got=Verbatim("no report of a class"), want="at least one")
        each = max(effective_epsilon(response.epsilon, share), 1e-6)
        listed = [c for c in classes if c != missing]
        estimator = PrivateDawidSkene(epsilon=each, model=model, classes=listed, **settings)
        result = estimator.fit(Labels.from_frame(kept), guarantee=self.guarantee)
        # "no answer" was reported too, with the epsilon of the response
        most = int(np.bincount(self.answers.numbered("worker")[0]).max())
        result = replace(result, answer_epsilon=response.exact_epsilon, most_answers=most)
        return Outputs(result, estimator.workers_)


def randomize_answers(
    labels: Any,
    *,
    epsilon: Number,
    classes: int | Sequence[Any],
    unit: str = "answer",
    hide_tasks: bool = False,
    tasks: Sequence[Any] | None = None,
    most: int | None = None,
    columns: Mapping[str, str] | None = None,
    randomness: Randomness | None = None,
    account: Account | None = None,
) -> Outputs[RandomizedAnswers, CollectedAnswers]:
    """Randomize a table of answers, each person's by itself, as their devices would.

    Returns the reports twice: with random numbers for workers (``public``), and with their ids (``operator``).

    Parameters
    ----------
    labels
        Who answered what: Labels, a pandas or Polars frame with columns task, worker and label, or a file name.
    epsilon
        Of one answer (``unit="answer"``) or of everything a person reports (``unit="person"``).
    hide_tasks
        Report "no answer" too, so that it stays unknown which tasks a person answered. Every person reports on every task of
        ``tasks`` (or, per person, on a few random ones).
    tasks
        With ``hide_tasks``: all tasks, from a public list.
    most
        With ``unit="person"``: how many answers a person gives at most, by public rule; as in the table if left out (then
        that number is taken to be public).
    columns
        What a frame or file calls task, worker and label, where it has other names: ``{"task": "item"}``.
    account
        An account of a ledger, debited before anything is drawn.

    Notes
    -----
    **Per answer.** As in :func:`randomize`; where somebody answered a task r times, changing what they think of it changes r
    reports, and the promise is r epsilon.

    **Per person.** Neighbors: any two answer sheets on the same tasks. Proof: which answers are reported is drawn without
    looking at them; given that, at most m reports depend on the sheet, each with a likelihood ratio of at most e^(epsilon/m); the
    product is at most e^epsilon. ∎ **Hidden tasks.** "No answer" is an answer like any other to the response, and how many
    reports a person sends does not depend on how many answers they gave; the same two proofs hold with it. ∎

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
    if unit not in ("answer", "person"):
        raise BadInput("unit", got=unit, want="'answer' or 'person'")
    budget = read_epsilon(epsilon)
    listed = check_classes(classes)
    labels.codes(listed)  # an impossible answer is refused by its row before anything is drawn
    lane = Randomness.secure() if randomness is None else randomness
    missing: Any = None
    sheet = labels.frame.select("task", "worker", "label")
    if hide_tasks:
        missing = missing_class(listed)
        sheet = full_sheet(labels, tasks, missing)
        listed = [*listed, missing]
    elif tasks is not None:
        raise BadInput("tasks", got=tasks, want="hide_tasks=True with a list of all tasks")
    largest_load = int(sheet.group_by("worker").len()["len"].max())
    reports_each = 1
    if unit == "person":
        largest = largest_load if most is None else most
        if largest_load > largest:
            raise BadInput("most", got=most, want=f"at least {largest_load}: somebody gave so many answers")
        reports_each = answers_per_person(epsilon=budget, answers=largest, classes=len(listed))
    response = Response(budget / reports_each, listed)
    promised = task_guarantee(sheet, budget, unit, hide_tasks)
    asked = sheet["task"].n_unique()
    if account is not None:
        account.spend(promised, purpose=f"randomized answers, per {unit}", data=labels, randomness=lane)
    if unit == "person":
        sheet = _few(sheet, reports_each, lane)
    sent = randomize(sheet["label"], epsilon=response.exact_epsilon, classes=listed, randomness=lane)
    collected = CollectedAnswers(
        Labels.from_frame(sheet.with_columns(label=sent)), response, missing, lane.stamp(promised)
    )
    public = RandomizedAnswers(
        guarantee=collected.guarantee,
        answers=_anonymous(collected.answers, lane),
        response=response,
        unit=unit,
        missing=missing,
        most=int(sheet.group_by("worker").len()["len"].max()),
        unsent=asked - sheet["task"].n_unique(),
    )
    return Outputs(public, collected)


def _anonymous(reports: Labels, lane: Randomness) -> Labels:
    """The reports with random numbers from 1 in place of the ids of workers, sorted by task and number."""
    workers = reports.frame["worker"].unique().sort()
    numbers = pl.Series(lane.permutation(workers.len()) + 1, dtype=pl.Int64)
    renamed = reports.frame.with_columns(pl.col("worker").replace_strict(workers, numbers))
    return Labels.from_frame(renamed.sort("task", "worker", "label"))


def task_guarantee(sheet: pl.DataFrame, budget: Number, unit: str, hidden: bool = False) -> Guarantee:
    """The guarantee for one task of one person, or for one person."""
    if unit == "person":
        return Guarantee.local_dp(budget, **(_HIDDEN_PERSON if hidden else PERSON))
    one = Guarantee.local_attribute_dp(budget, **(_HIDDEN if hidden else {}))
    repeats = int(sheet.group_by("task", "worker").len()["len"].max())  # type: ignore[arg-type]
    # erratum to Definition 3: every repetition is a report of its own
    return one if repeats == 1 else one.group(repeats, unit=f"one task of one person, answered up to {repeats} times")


def missing_class(classes: list[Any]) -> Any:
    """A class for "no answer" that is none of the others."""
    if isinstance(classes[0], bool):
        raise BadInput(
            "classes", got=classes, want="numbers or texts with hide_tasks: true and false leave no third value"
        )
    if isinstance(classes[0], int):
        return min(classes) - 1
    marker = "no answer"
    while marker in classes:
        marker = f"({marker})"
    return marker


def full_sheet(labels: Labels, tasks: Sequence[Any] | None, missing: Any) -> pl.DataFrame:
    """A row for every worker and task, with the marker where there is no answer."""
    if tasks is None:
        raise BadInput("tasks", got=tasks, want="the public list of all tasks: without it, the list itself would tell")
    if labels.repeated:
        raise BadInput(
            "labels",
            got=Verbatim("repeated answers"),
            want="one answer a task and person, to hide whether there is one",
        )
    frame = labels.frame.select("task", "worker", "label")
    try:
        everything = pl.Series("task", list(tasks), dtype=frame["task"].dtype).unique()
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        raise BadInput("tasks", got=tasks, want="ids of the same kind as in the answers") from None
    strange = frame["task"].filter(~frame["task"].is_in(everything.implode()))
    if strange.len():
        raise BadInput("tasks", got=Verbatim(f"a list without {strange[0]!r}"), want="every task that was answered")
    grid = pl.DataFrame({"worker": frame["worker"].unique().sort()}).join(everything.sort().to_frame(), how="cross")
    return grid.join(frame, on=["task", "worker"], how="left").with_columns(pl.col("label").fill_null(missing))


def _few(sheet: pl.DataFrame, most: int, lane: Randomness) -> pl.DataFrame:
    """A random few of each person's rows, chosen without looking at the answers."""
    order = lane.permutation(sheet.height)
    shuffled = sheet.select(pl.all().gather(order)).with_columns(place=pl.int_range(pl.len()).over("worker"))
    return shuffled.filter(pl.col("place") < most).drop("place")


def answered_share(reports: Labels, response: Response, missing: Any) -> float:
    """An unbiased estimate of how many tasks people answered, from reports that hide it.

    A share f of reports shows "no answer" in expectation (1 - s) keep + s other, with s the share of answers; solved for s, and
    clipped to (0, 1].
    """
    shown = float((reports.frame["label"] == missing).sum()) / len(reports)
    share = (response.keep - shown) / (response.keep - response.other)
    return float(np.clip(share, 1 / max(len(reports), 1), 1.0))


def effective_epsilon(epsilon: float, share: float) -> float:
    """The epsilon of the response that reports with hidden tasks look like, once "no answer" is left out.

    With s the share of answers, a report of class r has probability s keep + (1 - s) other if r is the answer, and other if it
    is not: odds of 1 + s (e^epsilon - 1).

    >>> effective_epsilon(1.0, 1.0)
    1.0
    """
    return math.log1p(share * math.expm1(epsilon))
