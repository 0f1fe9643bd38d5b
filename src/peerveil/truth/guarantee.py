"""What is guaranteed for answers: for one, for a person, on a device; and the doubt whether they were randomized at all."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.guarantee import WORTHLESS, Guarantee, Notion, odds_in_words, read_epsilon
from peerveil.core.result import Result
from peerveil.data.table import plural
from peerveil.truth.channels import Channel, Channels
from peerveil.truth.models import distinct_rows

if TYPE_CHECKING:
    import polars as pl

    from peerveil.core.arrays import Floats, Ints
    from peerveil.core.exact import Number
    from peerveil.truth.answers import EncodedAnswers

LARGEST_Z: Final = 6.0
_MOST_LEVELS: Final = 6  # that a guarantee lists
UNITS: Final = ("answer", "person")
PERSON: Final = {
    "unit": "all answers of one person",
    "neighbors": "one person gives any other answers to the same tasks; which tasks were answered is not hidden",
}
_ONE_ANSWER: Final = (
    "one person gives one other answer and the same answers otherwise; a task answered twice has two answers; which tasks "
    "were answered is not hidden"
)
_HIDDEN: Final = {
    "unit": "one task of one person: the answer, or that there is none",
    "neighbors": "one person gives another answer, or none, to one task and does the same on all others",
}
_HIDDEN_PERSON: Final = {
    "unit": "everything one person did",
    "neighbors": "one person answers any other tasks in any other way; only that they take part is not hidden",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class AnswersResult(Result, ABC):
    """The base of results about answers: what their guarantee comes to for a person."""

    @property
    @abstractmethod
    def _busiest(self) -> tuple[int, Fraction | None]:
        """How many answers the busiest person sent, and the exact epsilon of one; ``None`` if they were not randomized."""

    @property
    def person_guarantee(self) -> Guarantee:
        """What the answers of the busiest person add up to, if the guarantee is for one answer."""
        return self.guarantee_of(self._busiest[0])

    def guarantee_of(self, answers: int) -> Guarantee:
        """The guarantee for a person who sent this many answers."""
        return sum_of_answers(self.guarantee, self._busiest[1], answers)

    @property
    def person_in_words(self) -> str:
        """What the guarantee of one answer comes to for the person with the largest total; empty if it is for a person."""
        return whole_person(self.guarantee, self.person_guarantee, self._busiest[0])

    def __str__(self) -> str:
        return "\n".join(filter(None, [super().__str__(), self.person_in_words]))

    def _guarantees(self) -> dict[str, Any]:
        """The guarantee and the mark as JSON values."""
        return {
            "guarantee": self.guarantee.to_dict(),
            "guarantee_in_words": str(self.guarantee),
            "person_guarantee_in_words": str(self.person_guarantee),
            "mark": self.mark,
        }


def worker_epsilons(levels: Any, workers: pl.Series, column: Sequence[Any] | None) -> tuple[Fraction, ...] | None:
    """The epsilon of every worker, in the order of their ids: from a mapping, or from the ``"column"`` of the answers."""
    if levels is None:
        return None
    if not isinstance(levels, Mapping):
        if column is None:
            raise BadInput(
                "epsilon", got=levels, want="a column epsilon in the answers, an epsilon, or one for each worker"
            )
        return tuple(read_epsilon(level, "column epsilon") for level in column)
    missing = [worker for worker in workers.to_list() if worker not in levels]
    if missing:
        got = Verbatim(f"no epsilon for worker {missing[0]!r}")
        raise BadInput("epsilon", got=got, want="an epsilon for every worker who answered")
    return tuple(read_epsilon(levels[worker], f"epsilon[{worker!r}]") for worker in workers.to_list())


def largest_total(loads: Ints, epsilons: Sequence[Fraction] | None) -> tuple[int, Fraction] | None:
    """The answers and the epsilon of the person whose answers add up to the most, where people chose their epsilons."""
    if epsilons is None:
        return None
    return max(zip(loads.tolist(), epsilons, strict=True), key=lambda pair: (pair[0] * pair[1], pair[1]))


def levels_guarantee(epsilons: Sequence[Fraction]) -> Guarantee:
    """The guarantee of one answer where each person chose an epsilon: the largest, and in words whose is which.

    >>> levels_guarantee([Fraction(1), Fraction(1), Fraction(1, 2)]).unit
    'one answer of one person, at the epsilon that the person chose (1/2: 1 person; 1: 2 persons)'
    """
    counts = sorted(Counter(epsilons).items())
    shown = [f"{level}: {plural(count, 'person')}" for level, count in counts[:_MOST_LEVELS]]
    shown += [f"{len(counts) - _MOST_LEVELS} more up to {counts[-1][0]}"] if len(counts) > _MOST_LEVELS else []
    return Guarantee.local_attribute_dp(
        counts[-1][0],
        unit=f"one answer of one person, at the epsilon that the person chose ({'; '.join(shown)})",
        neighbors=f"{_ONE_ANSWER}; which epsilon a person chose is not hidden",
    )


def device_guarantee(epsilon: Number | None, epsilons: Sequence[Fraction] | None = None) -> Guarantee:
    """The guarantee of answers that somebody else collected: local attribute DP, if they were randomized at all.

    With ``epsilons``, one of every person, ``epsilon`` is the largest of them.

    >>> device_guarantee(1).assumption
    "these answers were randomized at epsilon 1 on each person's device before they were collected"
    """
    guarantee = Guarantee.local_attribute_dp(epsilon, neighbors=_ONE_ANSWER)
    if epsilons is not None:
        chosen = (
            "these answers were randomized at the stated epsilons on each person's device before they were collected"
        )
        return levels_guarantee(epsilons).assuming(chosen)
    if epsilon is None:
        return guarantee
    randomized = f"these answers were randomized at epsilon {guarantee.exact_epsilon}"
    return guarantee.assuming(f"{randomized} on each person's device before they were collected")


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


def task_guarantee(sheet: pl.DataFrame, budget: Number, unit: str, hidden: bool = False) -> Guarantee:
    """The guarantee for one task of one person, or for one person."""
    if unit == "person":
        return Guarantee.local_dp(budget, **(_HIDDEN_PERSON if hidden else PERSON))
    guarantee = Guarantee.local_attribute_dp(budget, **(_HIDDEN if hidden else {}))
    repeats = largest_load(sheet, "task")
    if repeats == 1:
        return guarantee
    # erratum to Definition 3: every repetition is an answer of its own
    return guarantee.group(repeats, unit=f"one task of one person, answered up to {repeats} times")


def largest_load(sheet: pl.DataFrame, *keys: str) -> int:
    """The largest number of rows of one worker (and one value of further columns)."""
    return int(sheet.group_by("worker", *keys).len()["len"].max())  # type: ignore[arg-type]


# ---- do reports look randomized at all? --------------------------------------------------------------------------------


class NotRandomized(UserWarning):
    """Answers agree more than answers that were randomized with their epsilon could."""


def crowd_doubt(
    answers: EncodedAnswers, channels: Channels, epsilon: Fraction | Sequence[Fraction] | None
) -> str | None:
    """:func:`doubt` about a crowd; where people chose their epsilons, about the people of each level, and about all of them."""
    if epsilon is None:
        return None
    if not isinstance(epsilon, Sequence):
        return doubt(answers.votes, float(epsilon), channels.levels[0].size)
    reasons = []
    if channels.largest_size == 1:  # a pair agrees at most as often as if both had the larger epsilon
        reasons.append(doubt(answers.votes, float(max(epsilon))))
    task, k = np.repeat(np.arange(len(answers.tasks)), np.diff(answers.start)), channels.k
    for place, level in enumerate(channels.levels):
        rows = channels.of_worker[answers.worker] == place
        votes = np.bincount(task[rows] * k + answers.label[rows], minlength=len(answers.tasks) * k).reshape(-1, k)
        of_level = float(epsilon[int(np.flatnonzero(channels.of_worker == place)[0])])
        reasons.append(doubt(votes.astype(float), of_level, level.size))
    return next((reason for reason in reasons if reason is not None), None)


def doubt(votes: Floats, epsilon: float | None, size: int = 1) -> str | None:
    """Why reports cannot have been randomized with this epsilon, in words; ``None`` if nothing speaks against it.

    Raw answers of people who know something give themselves away: they agree too often. Whoever passes them for reports gets
    abilities that are wrong, and a guarantee that nobody kept.

    **Bound.** Two reports on a task, each randomized by itself with the response that keeps an answer with probability p and
    sends each of the k - 1 others with q = (1 - p)/(k - 1), agree with probability p^2 + (k - 1) q^2 if the answers are equal
    and 2pq + (k - 2) q^2 if they are not. The first is larger by (p - q)^2. So whatever people think, a pair agrees with
    probability at most A = p^2 + (k - 1) q^2 (for two classes p^2 + (1 - p)^2). Two reports that name w classes each agree by
    the share of these that they have in common: a number from 0 to 1, whose expectation is at most A/w, with p and q the
    probabilities that the answer, and that any other class, is named. What follows needs no more, since e^(s x) <= 1 - x + x
    e^s.

    **Test.** Let U be the share of agreeing pairs among the n reports on a task. U is the mean, over all orders of the reports,
    of the share of agreement among the h = floor(n/2) disjoint pairs of neighbors in that order (Hoeffding 1963, section 5).
    Given the answers, disjoint pairs agree independently, each with probability at most A. By Jensen's inequality E e^(s h U)
    is then at most (1 - A + A e^s)^h for s > 0. Tasks are independent, so for a, the mean of U with weights h, and N the sum of
    the h, Chernoff's bound gives P[a >= x] <= e^(-N KL(x, A)) for x > A. ∎ We call reports doubtful when sqrt(2 N KL(a, A)) >
    6: randomized reports are so less often than once in 60 million.

    The converse does not hold: raw answers that agree little (hard tasks, few reports, large epsilon) go unnoticed.

    Parameters
    ----------
    votes
        How many reports of each class every task has, one row per task.
    size
        How many classes a report names, w above.

    Examples
    --------
    >>> doubt(np.array([[8.0, 0.0], [0.0, 8.0]] * 20), 1.0)[:46]
    'these do not look randomized at epsilon 1: rep'
    >>> doubt(np.array([[5.0, 3.0], [3.0, 5.0]] * 20), 1.0) is None
    True
    """
    if epsilon is None:
        return None
    bound = largest_agreement(epsilon, votes.shape[1], size)
    observed, pairs = agreement(votes, size)
    if observed <= bound or bound >= 1 or math.sqrt(2 * pairs * _divergence(observed, bound)) <= LARGEST_Z:
        return None
    return (
        f"these do not look randomized at epsilon {epsilon:g}: reports on the same task agree in {100 * observed:.1f} of "
        f"100 pairs, and at most {100 * bound:.1f} could be expected. If these are raw answers, nothing protects them and "
        "the abilities are wrong: randomize them first, or say that they are not randomized (epsilon none)"
    )


def largest_agreement(epsilon: float, k: int, size: int = 1) -> float:
    """How often two reports on one task agree at most, whatever people think.

    >>> round(largest_agreement(1.0, 2), 4)  # p = 0.7311: p^2 + (1 - p)^2
    0.6068
    """
    channel = Channel.of(epsilon, k, size)
    return (channel.keep**2 + (k - 1) * channel.other**2) / size


def agreement(votes: Floats, size: int = 1) -> tuple[float, int]:
    """The share of agreeing pairs of reports (a task weighs as many as it has disjoint pairs), and that number of pairs.

    Of reports that name ``size`` classes, the share of these that a pair has in common.

    >>> agreement(np.array([[2.0, 0.0], [1.0, 1.0], [1.0, 0.0]]))
    (0.5, 2)
    """
    rows, tasks = distinct_rows(votes)
    enough = rows.sum(axis=1) >= 2 * size
    rows, tasks = rows[enough], tasks[enough]
    if not rows.size:
        return 0.0, 0
    n = rows.sum(axis=1) / size
    share = (rows * (rows - 1)).sum(axis=1) / (n * (n - 1)) / size
    weight = np.floor(n / 2) * tasks
    return float(share @ weight / weight.sum()), int(weight.sum())


def _divergence(x: float, a: float) -> float:
    """KL(x, a) of two coins."""
    rest = 0.0 if x >= 1 else (1 - x) * math.log((1 - x) / (1 - a))
    return x * math.log(x / a) + rest
