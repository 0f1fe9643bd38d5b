"""Agreement between people, from their randomized answers: Krippendorff's alpha, Fleiss' kappa, and each person with the others.

**Why coefficients of the reports are wrong.** A response with probability ``keep`` for the answer and ``other`` for each
other class sends the answer with probability a = keep - other, and a class at random otherwise. Two people agree far less in
what they sent than in what they think: at epsilon 1 with two classes an alpha of .56 reads as .12. Here every sum over pairs
is corrected for it.

**Correction of a pair.** Let u_c be 1 if a report shows class c, else 0, and q_c = (u_c - other) / a. Given the answer x,
P[u_c = 1] is keep = other + a if c = x, and other if not, so that E[q_c] = 1[c = x]: q is an unbiased estimate of the answer.
Two reports are randomized independently, so sum_c q_c q'_c is an unbiased estimate of 1[x = x']. Every report shows
w = keep + (k - 1) other classes (one, for k-ary response), so that

    sum_c q_c q'_c = (number of classes that both show - d) / a^2   with   d = 2 w other - k other^2,                         (P)

which for k-ary response is (1[report = report'] - (1 - a^2)/k) / a^2. A response that shows several classes needs nothing but its
``keep`` and ``other``.

**Several answers of one person to one task** are no agreement between people. u is then the mean of the person's reports, and
(P) is used between different people only; it stays unbiased, since q is linear in the reports.

**Coefficients.** For the tasks with n >= 2 people, V the sum of their u, N the sum of n and T the number of tasks:

- observed agreement of alpha: the sum over tasks of (|V|^2 - sum |u|^2) / (n - 1), divided by N; of kappa: the mean over
  tasks of (|V|^2 - sum |u|^2) / (n (n - 1)); both corrected by (P).
- chance agreement of alpha: over all pairs of different answers, (|sum V|^2 - sum |u|^2) / (N (N - 1)), corrected by (P).
- chance agreement of kappa: sum_c p_c^2 with p the mean over tasks of V/n. Its debiased form squares the noise of every
  answer with itself, which has expectation (K - 1)/r for r reports of a person to a task, K = (w - d)/a^2: sum of (K - 1)/r /
  (T n)^2 is subtracted.
- coefficient: (observed - chance) / (1 - chance).

Without randomization (a = K = w = 1, other = d = 0) these are the classical coefficients, to the last digit. ∎ (For kappa
with different numbers of people per task, tasks weigh equally; with the same number it is Fleiss' own formula.)

**Intervals** are for *other tasks and other people* like these: estimate plus or minus Student's t times the root of

    V = V_tasks + V_people - V_answers,

the jackknife variance over tasks, and those of leaving out each person, and each person's reports on a task, both linear in the
sums that a coefficient is a function of (Cameron, Gelbach and Miller, 2011). The degrees of freedom are those of the smaller of
both numbers. V_people - V_answers is what the same person's answers to different tasks have in common; below 0 it counts as 0.
95% intervals covered .89 to .96 in ten settings (``python -m benchmarks.truth_agreement``), least with ten people who differ
much; over tasks alone it would be .46 to .92. With two people, who cannot show how much people differ, they are for the same
people.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.core.errors import BadInput, Verbatim, one_of
from peerveil.core.exact import Number, number
from peerveil.core.guarantee import Guarantee, read_epsilon
from peerveil.core.result import Outputs
from peerveil.data import Labels
from peerveil.data.table import plural
from peerveil.truth.agreement_result import Agreement, AnnotatorAgreement, Coefficient
from peerveil.truth.guarantee import NotRandomized, device_guarantee, doubt
from peerveil.truth.models import Channel
from peerveil.truth.pairs import Gradient, PairCounts, count_in_memory, count_in_tables
from peerveil.truth.randomize import CollectedAnswers, RandomizedAnswers, answered_share, effective_epsilon
from peerveil.truth.tables import count_answers, is_source, open_answers

if TYPE_CHECKING:
    from ibis.backends import BaseBackend

    from peerveil.core.arrays import Floats

ENGINES: Final = ("auto", "memory", "duckdb", "spark")
_MAX_IN_MEMORY: Final = 50_000_000  # reports; more go to DuckDB
_CERTAIN: Final = 2.0  # standard errors by which chance agreement must be below 1
_ROUNDING: Final = 1e-12
_STEP: Final = 1e-5  # of a sum, for its slope
_MOST_LOOKED_AT: Final = 1_000_000  # tasks that the doubt whether reports are randomized looks at


def agreement(
    reports: Any,
    *,
    epsilon: Number | None,
    classes: int | Sequence[Hashable] | None = None,
    level: float = 0.95,
    columns: Mapping[str, str] | None = None,
    engine: str = "auto",
    guarantee: Guarantee | None = None,
    connection: BaseBackend | None = None,
) -> Agreement:
    """How far people agree in what they think: Krippendorff's alpha and Fleiss' kappa from randomized answers.

    Parameters
    ----------
    reports
        Labels, a pandas or Polars frame with columns task, worker and label, a file name, a pattern such as
        ``reports/*.parquet``, or an Ibis table. Labels may be lists of equally many classes (a subset response).
    epsilon
        Of the response for one answer; ``None`` if answers were not randomized, which gives the classical coefficients.
    classes
        The classes, or how many there are; by default those among the reports. Set them if a class may never have been reported.
    level
        Of the intervals.
    columns
        Names of the columns task, worker and label, where they differ: ``{"task": "item"}``.
    engine, connection
        ``"memory"``, ``"duckdb"`` (out of core), ``"spark"``, or ``"auto"``: memory up to 50 million reports. And an Ibis
        connection to use.
    guarantee
        The guarantee of the reports; by default local attribute DP for one answer, if they were randomized before they were
        collected.

    Notes
    -----
    Everything here is computed from reports, which are public: no privacy is spent (post-processing). Formulas and proof:
    :mod:`peerveil.truth.coefficients`.

    Examples
    --------
    >>> answers = {"task": [1, 1, 2, 2, 3, 3], "worker": ["a", "b"] * 3, "label": ["x", "x", "y", "y", "x", "y"]}
    >>> raw = agreement(answers, epsilon=None)
    >>> round(raw.alpha, 3), round(raw.kappa, 3)
    (0.444, 0.333)
    """
    settings: Any = {"epsilon": epsilon, "classes": classes, "level": level, "columns": columns}
    return agreement_by_person(reports, **settings, engine=engine, guarantee=guarantee, connection=connection).public


def agreement_by_person(
    reports: Any,
    *,
    epsilon: Number | None,
    classes: int | Sequence[Hashable] | None = None,
    level: float = 0.95,
    columns: Mapping[str, str] | None = None,
    engine: str = "auto",
    guarantee: Guarantee | None = None,
    connection: BaseBackend | None = None,
) -> Outputs[Agreement, AnnotatorAgreement]:
    """:func:`agreement` for everybody, and each person's agreement with the others for the operator."""
    exact = None if epsilon is None else read_epsilon(epsilon)
    number(level, "level", 0.5, 0.9999, want="a confidence level from 0.5 to 0.9999, such as 0.95")
    one_of(engine, "engine", ENGINES)
    source = reports if columns is None else Labels.of(reports, "reports", columns=columns)
    is_stored = not isinstance(source, Labels) and is_source(source)
    if engine == "auto":
        engine = "duckdb" if is_stored and count_answers(source, connection) > _MAX_IN_MEMORY else "memory"

    def gradients(counts: PairCounts) -> dict[str, Gradient]:
        return _gradients(counts, Channel.of(None if exact is None else float(exact), len(counts.classes), counts.size))

    if engine == "memory":
        counts = count_in_memory(open_answers(source, connection) if is_stored else source, classes, gradients)
    else:
        counts = count_in_tables(source, classes, engine, connection, gradients)
    if counts.size > 1 and exact is None:
        raise BadInput("epsilon", got=None, want="the epsilon with which the lists of labels were randomized")
    channel = Channel.of(None if exact is None else float(exact), len(counts.classes), counts.size)
    result = Agreement(
        guarantee=device_guarantee(exact) if guarantee is None else guarantee,
        **_coefficients(counts, channel, level),
        tasks=int(counts.tasks.sum()),
        annotators=counts.loads.size,
        reports=int(counts.loads.sum()),
        classes=counts.classes,
        level=float(level),
        epsilon=None if exact is None else float(exact),
        answer_epsilon=exact,
        most=int(counts.loads.max()),
        is_for_same_people=not counts.spreads,
    )
    if (
        result.guarantee.assumption is not None
        and (reason := doubt(_looked_at(counts), result.epsilon, counts.size)) is not None
    ):
        warnings.warn(reason, NotRandomized, stacklevel=3)
        result = replace(result, doubt=reason)
    return Outputs(result, _by_person(counts, channel))


def agreement_of(
    sent: RandomizedAnswers | CollectedAnswers, *, level: float = 0.95
) -> Outputs[Agreement, AnnotatorAgreement]:
    """The same for answers that state their response and guarantee; "no answer" (hidden tasks) is left out.

    Where tasks are hidden, what remains looks like a response with a smaller epsilon
    (:func:`peerveil.truth.randomize.effective_epsilon`), if people leave out tasks whatever they would have answered.
    """
    response, answers, missing = sent.response, sent.answers, sent.missing
    if isinstance(sent, CollectedAnswers) and sent.levels:
        chosen = sorted({read_epsilon(value) for value in answers.frame["epsilon"].to_list()})
        if len(chosen) > 1:
            got = Verbatim(f"answers with epsilon {', '.join(map(str, chosen))}")
            raise BadInput(
                "answers", got=got, want="one epsilon: the answers of one level, such as the most frequent one"
            )
        response = next(one for one in sent.levels if one.exact_epsilon == chosen[0])
    classes = [c for c in response.labels or range(response.k) if missing is None or c != missing]
    epsilon: Number = response.exact_epsilon
    if missing is not None:
        epsilon = max(effective_epsilon(response.epsilon, answered_share(answers, response, missing)), 1e-6)
        frame = answers.frame.filter(answers.frame["label"] != missing)
        if frame.height == 0:
            raise BadInput("answers", got=Verbatim("no answer of a class"), want="at least one")
        answers = Labels.from_frame(frame)
    public, operator = agreement_by_person(
        answers, epsilon=epsilon, classes=classes, level=level, guarantee=sent.guarantee
    )
    most = int(sent.answers.frame["worker"].value_counts()["count"].max())  # type: ignore[arg-type]
    return Outputs(replace(public, answer_epsilon=response.exact_epsilon, most=most), operator)


def _looked_at(counts: PairCounts) -> Floats:
    """Votes by task, for the doubt; of very many tasks a part with the same composition."""
    share = min(1.0, _MOST_LOOKED_AT / max(1, int(counts.tasks.sum())))
    return np.repeat(counts.votes, np.floor(counts.tasks * share).astype(np.int64), axis=0)


# ---- coefficients from counts ------------------------------------------------------------------------------------------


def _coefficients(counts: PairCounts, channel: Channel, level: float) -> dict[str, Any]:
    """The coefficients with their intervals, and chance agreement."""
    from scipy.special import stdtrit

    tasks = int(counts.tasks.sum())
    if tasks < 2:
        got = Verbatim(f"{plural(tasks, 'task')} that at least two people answered")
        raise BadInput("reports", got=got, want="at least two such tasks: agreement is between people")
    smaller = min([tasks, *(spread.people for spread in counts.spreads.values())])
    quantile = float(stdtrit(smaller - 1, 0.5 + level / 2))
    # of reports that show w classes: as if two agreed by the share of w that both show, (P) with a^2 = w and d = 0
    raw = _statistics(counts, Channel(math.sqrt(channel.size), 0.0, channel.k, channel.size))
    whole, parts = _statistics(counts, channel), _statistics(counts, channel, leave_out=True)
    errors = {name: _jackknife(values, counts.tasks) for name, values in parts.items()}
    if channel.contrast < 1:  # reports vary even where answers do not: that these tasks look alike shows no precision
        errors = {name: error if error > _ROUNDING else float("inf") for name, error in errors.items()}
    for name, spread in counts.spreads.items():
        errors[name] = math.hypot(errors[name], math.sqrt(max(spread.variance, 0.0)))
    for name in ("alpha_chance", "kappa_chance"):
        _refuse_certainty(float(whole[name]), None if channel.contrast == 1 else errors[name])

    def coefficient(name: str) -> Coefficient:
        value, error = float(whole[name]), errors[name]
        lower, upper = (min(1.0, max(-1.0, value + sign * quantile * error)) for sign in (-1, 1))
        return Coefficient(
            value=min(1.0, value), lower=lower, upper=upper, standard_error=error, of_reports=float(raw[name])
        )

    return {
        "krippendorff": coefficient("alpha"),
        "fleiss": coefficient("kappa"),
        "observed": coefficient("alpha_observed"),
        "chance": float(whole["alpha_chance"]),
    }


def _refuse_certainty(chance: float, error: float | None) -> None:
    """Refuse where all answers are equal, or where reports (which have an error) do not show that they are not."""
    if chance + _CERTAIN * (error or 0.0) < 1 - _ROUNDING:
        return
    got, want = "answers of one class only", "answers of at least two classes"
    if error is not None:
        got = f"too few reports for this epsilon: chance agreement is {chance:.2f} with a standard error of {error:.2f}"
        want = "more reports, or a larger epsilon"
    raise BadInput("reports", got=Verbatim(got), want=f"{want}: nobody can agree more than by chance otherwise")


def _statistics(counts: PairCounts, channel: Channel, *, leave_out: bool = False) -> dict[str, Floats]:
    """Both coefficients with their parts: from all tasks, or once for each kind of task with one such task left out."""
    totals = counts.tasks @ counts.features
    return _of_sums(totals - counts.features if leave_out else totals, channel)


def _of_sums(sums: Floats, channel: Channel) -> dict[str, Floats]:
    """Both coefficients with their parts, from the sums of the features of tasks (the last axis)."""
    a, other, d, k = channel.contrast, channel.other, _offset(channel), channel.k
    excess = (_classes_shown(channel) - d) / a**2 - 1  # K - 1: the noise of an answer with itself
    tasks, answers, pairs, pair_shares, squares, inverse = np.moveaxis(sums[..., :6], -1, 0)
    votes, shares = sums[..., 6 : 6 + k], sums[..., 6 + k :]
    with np.errstate(divide="ignore", invalid="ignore"):
        different = (votes**2).sum(axis=-1) - squares
        alpha_observed = (pairs / answers - d) / a**2
        alpha_chance = (different / (answers * (answers - 1)) - d) / a**2
        kappa_observed = (pair_shares / tasks - d) / a**2
        p = (shares / tasks[..., None] - other) / a
        kappa_chance = (p**2).sum(axis=-1) - excess * inverse / tasks**2
        return {
            "alpha": (alpha_observed - alpha_chance) / (1 - alpha_chance),
            "alpha_observed": alpha_observed,
            "alpha_chance": alpha_chance,
            "kappa": (kappa_observed - kappa_chance) / (1 - kappa_chance),
            "kappa_observed": kappa_observed,
            "kappa_chance": kappa_chance,
        }


def _gradients(counts: PairCounts, channel: Channel) -> dict[str, Gradient]:
    """The gradients of the coefficients that have intervals, by central differences."""
    sums, k = counts.tasks @ counts.features, len(counts.classes)
    step = _STEP * np.maximum(np.abs(sums), counts.tasks.sum())
    up, down = (_of_sums(sums + sign * np.diag(step), channel) for sign in (1, -1))
    slopes = {name: (up[name] - down[name]) / (2 * step) for name in ("alpha", "kappa", "alpha_observed")}
    return {
        name: Gradient._make([*slope[:6].tolist(), slope[6 : 6 + k], slope[6 + k :]])
        for name, slope in slopes.items()
        if np.isfinite(slope).all()
    }


def _classes_shown(channel: Channel) -> float:
    """How many classes a report shows: the w of equation (P)."""
    return channel.size if channel.size > 1 else channel.keep + (channel.k - 1) * channel.other


def _offset(channel: Channel) -> float:
    """The d of equation (P)."""
    return 2 * _classes_shown(channel) * channel.other - channel.k * channel.other**2


def _jackknife(values: Floats, tasks: Floats) -> float:
    """The standard error from the values with one task left out; infinite if one of them is not defined."""
    if not np.isfinite(values).all():
        return float("inf")
    t = tasks.sum()
    mean = tasks @ values / t
    return float(np.sqrt((t - 1) / t * (tasks @ (values - mean) ** 2)))


def _by_person(counts: PairCounts, channel: Channel) -> AnnotatorAgreement:
    """Agreement with the others: (P) is linear, so the mean over tasks is corrected as a whole."""
    people = counts.by_person.sort("worker")
    tasks, mean = people["tasks"].to_numpy(), (people["total"] / people["tasks"]).to_numpy()
    spread = np.maximum(people["squares"].to_numpy() / tasks - mean**2, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.sqrt(spread / (tasks - 1)) / channel.contrast**2
    error = np.where(tasks < 2, np.inf, error)  # one task does not determine others
    return AnnotatorAgreement(people["worker"], tasks, (mean - _offset(channel)) / channel.contrast**2, error)
