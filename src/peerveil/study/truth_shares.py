"""Actions on polls: shares of a population from randomized reports, and how many people they need."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from peerveil.core.errors import Verbatim
from peerveil.study.actions import Action, PlanAction, Setting, common
from peerveil.study.outcome import Outcome, OutcomePart
from peerveil.study.spelling import (
    Classes,
    Epsilon,
    EpsilonOrNone,
    InnerShare,
    Name,
    Range,
    Scale,
    Share,
    Spelling,
    require,
)
from peerveil.study.truth_planning import WHOM, Randomized, require_statement

if TYPE_CHECKING:
    from peerveil.data import Labels
    from peerveil.study.execute import Context, Inputs, StudyFile
    from peerveil.truth.shares import SharesBase, SharesResult

_SHARE_TEXT: Final = r"[^=,;:\n]*[^=,;:\s][^=,;:\n]*:\s*(?:0?\.[0-9]{1,15}|0)\s*"
_MARGIN_TEXT: Final = rf"[^=,;:\n]*[^=,;:\s][^=,;:\n]*={_SHARE_TEXT}(?:;{_SHARE_TEXT})+"


def _margin(value: Any) -> str:
    if not re.fullmatch(_MARGIN_TEXT, value) or len(value) > 4000:
        raise ValueError
    return str(value)


Margin = Annotated[
    str,
    Spelling(
        "a public column and the population's shares by its values, such as age=young:0.4;old:0.6",
        {"type": "string", "maxLength": 4000, "pattern": f"^{_MARGIN_TEXT}$"},
        _margin,
    ),
]


def read_margins(margins: tuple[str, ...]) -> dict[str, dict[str, float]] | None:
    """Known shares by column and value.

    >>> read_margins(("age=young:0.4;old:0.6",))
    {'age': {'young': 0.4, 'old': 0.6}}
    """
    columns: dict[str, dict[str, float]] = {}
    for margin in margins:
        column, _, shares = margin.partition("=")
        pairs = [pair.partition(":") for pair in shares.split(";")]
        columns[column.strip()] = {name.strip(): float(share) for name, _, share in pairs}
    return columns or None


def read_numbers(classes: Any) -> Any:
    """Classes as numbers, if all of them are: reports of a scale do not say what its classes are.

    >>> read_numbers(("1", "2.5")), read_numbers(("low", "high")), read_numbers(5)
    ([1, 2.5], ('low', 'high'), 5)
    """
    if isinstance(classes, int):
        return classes
    try:
        values = [float(name) for name in classes]
    except ValueError:
        return classes
    return [int(value) if value.is_integer() else value for value in values]


class EstimateShares(Action["Labels"]):
    """Shares of a population from reports that were randomized on people's devices."""

    name, title = "truth.shares", "Estimate shares of a population"
    about = (
        "Estimate which share of a population would give each answer, from answers randomized on each person's device."
    )
    details = (
        "FILE is a table with a column label (and, if people sent several reports, worker), or a file of reports that `peerveil "
        "truth randomize` or the collection service wrote, which states its own epsilon and classes. People who chose their own "
        "epsilon have it in a column epsilon. `--group` compares groups, `--second` adds a question, `--on` fits a regression."
    )
    publishes = "the shares with their intervals, and the comparisons that were asked for"
    kinds = ("labels",)
    reads_polls = True
    calls = "peerveil.truth:estimate_shares"
    examples = (
        "poll.csv --randomized --epsilon 1 --classes yes,no",
        "poll.csv --randomized --epsilon 1 --classes yes,no --group region --margin 'age=young:0.4;old:0.6'",
        "poll.csv --randomized --epsilon 2 --classes 1,2,3,4,5 --mean --column label=rating",
        "poll.csv --randomized --epsilon 2 --classes yes,no --on age --answer yes",
        "hours.csv --randomized --epsilon 1 --response number --bounds 0:80 --group region",
        "'poll/*.parquet' --randomized --epsilon 1 --classes yes,no --engine duckdb",
    )

    epsilon: Annotated[
        Epsilon | None,
        common(
            "Epsilon with which each answer was randomized; a file of reports or a column may state it.",
            "Epsilon of the devices",
        ),
    ] = None
    randomized: Randomized = False
    classes: Annotated[Classes | None, common("What people could answer.", "Possible answers")] = None
    response: Annotated[
        Literal["ordered", "number"] | None,
        Setting(
            "How answers were randomized, if not as classes: on a scale of ordered classes, or as numbers between bounds; "
            "reports are then whole numbers.",
            "Scale or number",
        ),
    ] = None
    bounds: Annotated[Scale | None, Setting("With response number: its bounds.", "Bounds of numbers")] = None
    level: Annotated[InnerShare, Setting("How often an interval holds its share.")] = 0.95
    simultaneous: Annotated[bool, Setting("The level is for the intervals of all classes at once.")] = False
    mean: Annotated[bool, Setting("The classes are numbers: estimate their mean, too.")] = False
    task: Annotated[Name | None, Setting("In a table with several tasks: the one to estimate shares for.", "Task")] = (
        None
    )
    group: Annotated[Name | None, common("A public column whose groups are compared.", "Compare groups of")] = None
    reference: Annotated[Name | None, Setting("The group that the others are compared with; by default the first.")] = (
        None
    )
    second: Annotated[Name | None, Setting("The column of a second randomized question, to cross with the first.")] = (
        None
    )
    second_classes: Annotated[
        Classes | None, Setting("Those of the second question, if they differ from those of the first.")
    ] = None
    on: Annotated[
        tuple[Name, ...], Setting("Public columns that explain the answer, in a logistic regression.", "Explain by")
    ] = ()
    answer: Annotated[
        Name | None, Setting("With on: the answer whose odds are explained; by default the last class.")
    ] = None
    weights: Annotated[Name | None, Setting("A column with a weight for each report.")] = None
    margins: Annotated[
        tuple[Margin, ...],
        Setting("Known shares of the population by a public column, from which weights are computed.", "Known shares"),
    ] = ()
    people: Annotated[
        Name | None, Setting("The column that says who sent a report; by default worker, if there is one.")
    ] = None
    engine: Annotated[
        Literal["memory", "duckdb", "spark"],
        Setting("Where reports are counted: in memory, out of core, or on a Spark cluster."),
    ] = "memory"

    def __post_init__(self) -> None:
        want = f"true, if each answer was randomized with epsilon {self.epsilon} on the person's own device"
        require_statement(self.randomized, self.epsilon, want, needs_epsilon=self.response is not None)
        self._require_response()
        for name, needed in (("reference", "group"), ("second_classes", "second"), ("answer", "on")):
            require(
                getattr(self, name) is None or getattr(self, needed),
                name,
                got=getattr(self, name),
                want=f"{needed} beside it",
            )

    def _require_response(self) -> None:
        """Refuse what the response of the answers does not take, and ask for what it needs."""
        is_number, is_ordered = self.response == "number", self.response == "ordered"
        require(is_number or self.bounds is None, "bounds", got=self.bounds, want="response number beside it")
        if self.response is None:
            return
        nothing, levels = Verbatim("nothing"), "nothing: the classes of numbers are levels between the bounds"
        require(self.randomized, "randomized", got=nothing, want="true, with the epsilon of the devices")
        require(is_ordered or self.bounds is not None, "bounds", got=nothing, want="such as 0:100, for response number")
        require(is_ordered or self.classes is None, "classes", got=self.classes, want=levels)
        require(is_number or self.classes is not None, "classes", got=nothing, want="the classes, in their order")
        want = "reports that each name a class; of scales and numbers compare groups instead"
        for name in ("second", "on"):
            require(not getattr(self, name), name, got=getattr(self, name), want=want)

    def in_memory(self, source: StudyFile) -> bool:  # noqa: ARG002
        """It opens the file itself: a poll needs no tasks, and a large one stays in a database."""
        return False

    def guarantee(self, inputs: Inputs[Labels]) -> None:
        """Nothing to debit: the answers were randomized before they were collected. What cannot be counted is refused here."""
        from peerveil.truth.shares_counts import count_by
        from peerveil.truth.shares_read import open_reports
        from peerveil.truth.wire import is_answer_file

        path = inputs.file.path
        if not is_answer_file(path):
            want = "true, if each answer was randomized on the person's own device: nothing protects raw answers"
            require(self.randomized, "randomized", got=Verbatim("nothing"), want=want)
        extra = [name for name in (self.group, self.second, *self.on) if name is not None]
        lists = self.second is None and not self.on
        with open_reports(path, extra=extra, **self._terms(), **self._source(inputs), lists=lists) as (
            source,
            question,
        ):
            count_by(source, question)

    def _terms(self) -> dict[str, Any]:
        from peerveil.core.randomness import NumberResponse, OrderedResponse

        if self.response is None or self.epsilon is None:
            return {"epsilon": self.epsilon, "classes": self.classes}
        if self.bounds is not None:
            return {"response": NumberResponse(self.epsilon, low=self.bounds[0], high=self.bounds[1])}
        return {"response": OrderedResponse(self.epsilon, read_numbers(self.classes))}

    def _source(self, inputs: Inputs[Labels]) -> dict[str, Any]:
        """How the file is read."""
        names = {
            "weights": self.weights,
            "margins": read_margins(self.margins),
            "people": self.people,
            "engine": self.engine,
        }
        return {**names, "task": self.task, "columns": inputs.file.columns}

    def run(self, inputs: Inputs[Labels], context: Context) -> Outcome:  # noqa: ARG002
        """Estimate."""
        import warnings

        from peerveil.truth import NotRandomized, estimate_shares

        path, source = inputs.file.path, self._source(inputs)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotRandomized)
            result = estimate_shares(
                path, level=self.level, simultaneous=self.simultaneous, scores=self.mean, **self._terms(), **source
            )
            more = self._further(path, source)
        outcome = _outcome(result)
        if self.margins or self.weights:
            how = f"the column {self.weights}" if self.weights else "known shares by " + ", ".join(source["margins"])
            beside = "; the cross table is not" if self.second else ""
            outcome.public.findings.append(f"Reports are weighted by {how}{beside}.")
        for name, finding, caption in more:
            part = outcome.public
            part.findings.append(f"{finding.summary()[0].upper()}{finding.summary()[1:]}.")
            part.csv(f"{name}.csv", finding.frame())
            part.json(f"{name}.json", finding)
            frame = finding.frame()
            part.table(frame.columns, frame.rows()[:_MOST_ROWS])
            outcome.figure(finding.plot, f"{caption} {finding.summary()}.", caption, public=True, height=4)
        busiest = max([result, *(finding for _, finding, _ in more)], key=lambda one: one.most)
        if busiest.most > 1:
            outcome.protect(f"all {busiest.most:,} reports of the busiest person", busiest.person_guarantee)
        if result.doubt is not None:
            # the doubt holds figures computed from the answers without noise: for the operator alone
            nothing = "Nothing of this may be published"
            outcome.private.findings.append(f"{nothing}: {result.doubt}.")
            outcome.withhold(f"{nothing}: the answers do not look randomized.", WHOM)
            outcome.mark = result.mark
        return outcome

    def _further(self, path: Any, source: dict[str, Any]) -> list[tuple[str, SharesBase, str]]:
        """The comparison, the cross table and the regression, where they are asked for."""
        from peerveil.truth.shares_cross import cross_table
        from peerveil.truth.shares_groups import compare_groups
        from peerveil.truth.shares_regression import logistic_regression

        findings: list[tuple[str, SharesBase, str]] = []
        terms = {**self._terms(), "level": self.level}
        if self.group is not None:
            settings: dict[str, Any] = {"group": self.group, "reference": self.reference, "scores": self.mean}
            caption = f"Estimates for every group of {self.group}, with intervals."
            findings.append(("groups", compare_groups(path, **settings, **terms, **source), caption))
        if self.second is not None:
            crossed = {name: value for name, value in source.items() if name not in ("weights", "margins")}
            first = (crossed.pop("columns") or {}).get("label", "label")
            settings = {"first": first, "second": self.second, "second_classes": self.second_classes}
            caption = f"Joint shares of {first} and {self.second}."
            findings.append(("cross", cross_table(path, **settings, **terms, **crossed), caption))
        if self.on:
            settings = {"on": list(self.on), "answer": self.answer}
            findings.append(
                ("odds", logistic_regression(path, **settings, **terms, **source), "Odds ratios, with intervals.")
            )
        return findings


_MOST_ROWS: Final = 100


def _outcome(result: SharesResult) -> Outcome:
    """The shares with their figure, for everybody."""
    from peerveil.data.table import plural
    from peerveil.truth.shares import HONEST, INTERVALS

    what = "with a" if result.are_levels else "shares with"
    ends = "interval" if result.are_levels else "intervals"
    honest = "The level is for all intervals at once." if result.simultaneous else INTERVALS
    part = OutcomePart(
        f"Estimated {what} {100 * result.level:g}% {ends}: {result.summary()}.",
        [
            f"Estimated from {plural(result.reports, 'report')} of {plural(result.people, 'person', 'people')}.",
            *([] if result.are_levels else [honest]),
            HONEST,
        ],
        {
            "people": result.people,
            "reports": result.reports,
            "shares": {} if result.are_levels else {str(name): list(result.share(name)) for name in result.classes},
            "mean": None if result.mean is None else list(result.mean),
        },
    )
    if result.are_levels and result.mean is not None:
        part.table(["", "mean", "from", "to"], [["all", *(f"{value:.4g}" for value in result.mean)]])
    else:
        shares = [[str(name), *(f"{100 * value:.1f}%" for value in result.share(name))] for name in result.classes]
        part.table(["answer", "share", "from", "to"], shares[:_MOST_ROWS])
    part.csv("shares.csv", result.frame())
    part.json("shares.json", result)
    question = "What is the mean?" if result.are_levels else "Which share would give each answer?"
    outcome = Outcome.guaranteed(question, result.guarantee, public=part)
    outcome.mark = result.mark
    caption = f"The estimated share of each answer, with {100 * result.level:g}% intervals."
    if result.are_levels:
        caption = f"The estimated mean, with its {100 * result.level:g}% interval, between the bounds."
    height = 1.9 if result.are_levels else min(1.6 + 0.32 * len(result.classes), 8)
    outcome.figure(result.plot, f"{caption} {result.summary()}.", caption, public=True, height=height)
    outcome.protect("one answer", result.guarantee)
    outcome.attack = [
        "Somebody who sees every report learns about one answer at most what the guarantee states; the shares are computed from "
        "the reports alone and reveal no more."
    ]
    return outcome


class PlanPoll(PlanAction[None]):
    """How many people a poll needs."""

    name, title = "truth.plan-shares", "Plan a poll"
    about = "Show how many people an interval of a given width takes at each epsilon."
    publishes = "the plan, which depends on nobody's answers"
    calls = "peerveil.truth:plan_shares"
    examples = ("--margin 0.03", "--margin 0.05 --epsilon none --epsilon 1 --classes 5 --share 0.2")
    question = "How many people are needed?"
    caption = "Half the width of the interval against the number of people, for each epsilon."
    costs_nothing = (
        "Computed from the randomization alone: nothing is spent, and nothing is revealed about anybody's answers."
    )

    margin: Annotated[
        float, Range(ge=1e-6, le=0.5), common("Half the width of the interval: 0.03 is plus or minus 3 points.")
    ] = 0.03
    epsilons: Annotated[tuple[EpsilonOrNone, ...], common("Privacy budgets (epsilon) to try.", "Epsilons to try")] = (
        "none",
        "0.5",
        "1",
        "2",
        "4",
    )
    classes: Annotated[int, Range(ge=2, le=1000), common("Number of possible answers.", "Number of classes")] = 2
    share: Annotated[Share, Setting("The share that is estimated; a half needs the most people with two classes.")] = (
        0.5
    )
    level: Annotated[InnerShare, Setting("How often the interval holds the share.")] = 0.95

    def __post_init__(self) -> None:
        require(
            len(set(self.epsilons)) == len(self.epsilons), "epsilons", got=list(self.epsilons), want="each epsilon once"
        )
