"""Actions of the truth module: randomize answers, infer correct labels from randomized ones, and see what privacy costs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from peerveil.core.errors import Verbatim
from peerveil.study.actions import Action, Setting, common
from peerveil.study.outcome import Outcome, OutcomePart
from peerveil.study.spelling import Classes, Epsilon, EpsilonOrColumn, File, require
from peerveil.study.toml import SuggestedStep
from peerveil.study.truth_agreement import EstimateAgreement, PreviewLabels, PublishLabels
from peerveil.study.truth_gold import ChooseGold, Gold, add_gold, gold_of
from peerveil.study.truth_planning import (
    MODELS,
    NOTHING_PUBLISHED,
    WHOM,
    CompareEpsilons,
    Engine,
    Model,
    PlanCollection,
    Randomized,
    SeenClasses,
    SimulateCrowd,
    Unit,
    answer_cautions,
    check_classes_of,
    require_statement,
)
from peerveil.study.truth_shares import EstimateShares, PlanPoll

if TYPE_CHECKING:
    from peerveil.core.guarantee import Guarantee
    from peerveil.data import Labels
    from peerveil.study.execute import Context, Inputs, StudyFile
    from peerveil.truth import TruthResult
    from peerveil.truth.result import WorkerAbilities

_AS_GIVEN: Final = (
    "For answers as people gave them, truth.randomize randomizes each once and then infers, and truth.label infers for you "
    "alone, not for publication"
)
_WHAT_REPORTS_SHOW: Final = (
    "{} numbers the workers at random. It shows which answers came from one person, on which tasks; it does not name "
    "anybody, and it does not show what they answered."
)
_SUGGESTED_CLASSES: Final = 20

AnyModel = Annotated[
    Literal["auto", "one-coin", "two-coin", "confusion", "majority"],
    Setting(f"{MODELS}, or equal abilities (majority vote); auto chooses from the reports."),
]
ClassPrior = Annotated[
    Literal["shrunk", "uniform", "estimated"],
    Setting(
        "Shares of the classes: even, estimated, or even unless the reports show classes of different sizes (shrunk)."
    ),
]


class RandomizeAnswers(Action["Labels"]):
    """Randomize answers that were not randomized yet, each once, then infer."""

    name, title = "truth.randomize", "Randomize answers, then infer labels"
    about = "Randomize answers as people's devices would, publish the reports, and infer correct labels from them."
    details = (
        "For answers that you hold as people gave them. Each is randomized once; a second draw from the same answers costs its "
        "own epsilon. `peerveil truth compare` shows beforehand what each epsilon costs."
    )
    publishes = "the randomized reports, with random numbers for workers, and a label with its probability per task"
    operator = "the reports and the abilities by worker id"
    kinds = ("labels",)
    spends = True
    calls = "peerveil.truth:randomize_answers"
    examples = (
        "labels.csv --epsilon 1 --classes 0,1",
        "labels.csv --epsilon 4 --classes 0,1 --unit person --ledger budget.db --account study",
    )

    epsilon: Annotated[Epsilon, common("Privacy budget (epsilon) of an answer or a person. Smaller is more private.")]
    classes: Annotated[Classes, common("Classes of the answers, from a public list.", "Possible answers")]
    unit: Unit = "answer"
    model: Model = "auto"
    hide_tasks: Annotated[bool, Setting("Also hide which tasks a person answered; needs a list of all tasks.")] = False
    tasks: Annotated[File | None, Setting("With hide_tasks: a file, the public list of task ids, one per line.")] = None
    gold: Gold = None

    def __post_init__(self) -> None:
        if self.hide_tasks:
            want = "the public list of all tasks: a list taken from the answers would itself reveal something"
            require(self.tasks is not None, "tasks", got=Verbatim("nothing"), want=want)
        else:
            require(self.tasks is None, "tasks", got=str(self.tasks), want="hide_tasks beside it")

    @classmethod
    def suggest(cls, table: Labels) -> SuggestedStep | None:
        """If the answers are few enough to be listed."""
        classes = table.frame["label"].unique().sort().to_list()
        if not 2 <= len(classes) <= _SUGGESTED_CLASSES:
            return None
        return SuggestedStep(
            "Correct labels from randomized answers. Every answer is randomized once here. If the answers were randomized on "
            'people\'s devices already, use action = "truth.infer" with randomized = true and the epsilon of the devices, '
            "without an account.",
            {"epsilon": 1, "classes": classes},
            {"classes": "all possible answers, from a public list (here: as seen; please check)"},
        )

    def guarantee(self, inputs: Inputs[Labels]) -> Guarantee:
        """Local privacy of an answer or of a person."""
        from peerveil.data.labels import check_classes
        from peerveil.truth.answers import full_sheet, missing_class, read_classes
        from peerveil.truth.guarantee import task_guarantee

        table = inputs.table
        classes = check_classes(read_classes(self.classes, table))
        table.codes(classes)
        if self.hide_tasks:
            full_sheet(table, self._tasks(table), missing_class(classes))
        return task_guarantee(table.frame, self.epsilon, self.unit, self.hide_tasks)

    def cautions(self, inputs: Inputs[Labels]) -> list[str]:
        """How strongly everything of one person is protected."""
        if self.unit == "person":
            return []
        tasks = self._tasks(inputs.table)
        answers = inputs.table.frame.group_by("worker").len()["len"] if tasks is None else [len(tasks)]
        return answer_cautions(self.guarantee(inputs), self.epsilon, answers, "person", "reports ({} answers)")

    def _tasks(self, table: Labels) -> list[Any] | None:
        from peerveil.truth.answers import read_tasks

        return None if self.tasks is None else read_tasks(self.tasks, table)

    def run(self, inputs: Inputs[Labels], context: Context) -> Outcome:
        """Debit, randomize, infer."""
        from peerveil.truth.answers import read_classes
        from peerveil.truth.wire import answers_text

        table = inputs.table
        sent, collected = self.call(
            table,
            but=("model", "gold"),
            response="k-ary" if self.model == "confusion" else "auto",
            classes=read_classes(self.classes, table),
            tasks=self._tasks(table),
            randomness=context.randomness,
            account=context.account,
        )
        result, workers = collected.fit(model=self.model, gold=gold_of(inputs))
        outcome = _outcome("Correct labels, from randomized answers", result, workers, inputs)
        part = outcome.public
        reports = "reports.csv" if sent.response.size == 1 else "reports.jsonl"  # a cell of CSV holds no list
        part.findings.append(_WHAT_REPORTS_SHOW.format(reports))
        if sent.unsent:
            tasks = sent.answers.frame["task"].n_unique() + sent.unsent
            part.findings.append(
                f"{sent.unsent:,} of {tasks:,} tasks got no answer: at this epsilon a person sends {sent.most:,} of their "
                "answers."
            )
        part.results |= {"epsilon_of_a_report": sent.response.exact_epsilon, "most_reports_of_a_person": sent.most}
        if sent.response.size == 1:
            part.csv(reports, sent.frame())
        else:
            part.files[reports] = sent.frame().write_ndjson()
        outcome.private.files["reports.jsonl"] = answers_text(collected)
        return outcome


class InferLabels(Action["Labels"]):
    """Correct labels from answers that were randomized on people's devices."""

    name, title = "truth.infer", "Infer labels from randomized answers"
    about = "Infer correct labels from answers that were randomized on each person's device."
    details = (
        "FILE is a table of reports, or a file of reports that `peerveil truth randomize` or the collection service wrote, which "
        "states its own epsilon and classes. Several Parquet files may be given as a pattern such as 'reports/*.parquet'."
    )
    publishes = "a label with its probability for every task, and abilities without names"
    operator = "the abilities by worker id"
    kinds = ("labels",)
    calls = "peerveil.truth:PrivateDawidSkene"
    examples = (
        "reports.csv --randomized --epsilon 1 --classes 0,1",
        "out/truth-randomize/private/reports.jsonl",
        "'reports/*.parquet' --randomized --epsilon 1 --engine duckdb",
    )

    epsilon: Annotated[
        EpsilonOrColumn | None,
        common(
            "Epsilon with which each answer was randomized; a file of reports states it.",
            "Epsilon of the devices",
        ),
    ] = None
    randomized: Randomized = False
    classes: SeenClasses = None
    model: AnyModel = "auto"
    class_prior: ClassPrior = "shrunk"
    engine: Engine = "auto"
    gold: Gold = None

    def __post_init__(self) -> None:
        want = (
            f"true, if each answer was randomized with epsilon {self.epsilon} on the person's own device. {_AS_GIVEN}"
        )
        require_statement(self.randomized, self.epsilon, want)

    def in_memory(self, source: StudyFile) -> bool:
        """Not for a database, nor for a file that states its own terms."""
        from peerveil.truth.wire import is_answer_file

        return _in_memory(source, self.engine) and not is_answer_file(source.path)

    def guarantee(self, inputs: Inputs[Labels]) -> None:
        """Nothing to debit: the answers were randomized before they were collected. Impossible answers are refused here."""
        from peerveil.truth.wire import stated_answers

        terms = {"epsilon": self.epsilon, "classes": self.classes, "model": self.model}
        if inputs.table is None and stated_answers(inputs.file.path, **terms) is not None:
            return
        want = f"the epsilon with which each answer was randomized, and randomized. {_AS_GIVEN}"
        require(self.epsilon is not None, "epsilon", got=Verbatim("nothing"), want=want)
        _answers(inputs, self.classes)

    def run(self, inputs: Inputs[Labels], context: Context) -> Outcome:  # noqa: ARG002
        """Fit."""
        outcome, result = _infer(self, inputs, "Correct labels, from randomized answers", self.epsilon)
        nothing = "Nothing of this may be published"
        if result.doubt is not None:
            # the doubt holds figures computed from the answers without noise: for the operator alone
            outcome.private.findings.append(f"{nothing}: {result.doubt}.")
            outcome.withhold(f"{nothing}: the answers do not look randomized.", WHOM)
        elif result.mark is not None:
            outcome.withhold(f"{nothing}: {result.mark}.", WHOM)
        return outcome


class LabelAnswers(Action["Labels"]):
    """Correct labels from answers as they were given. For whoever holds them."""

    name, title = "truth.label", "Infer labels from answers as given"
    about = "Infer correct labels from answers that were not randomized, for the operator alone."
    operator = "a label with its probability for every task, and the abilities by worker id"
    kinds = ("labels",)
    calls = "peerveil.truth:PrivateDawidSkene"
    examples = ("labels.csv --classes 0,1", "labels.csv --model majority")

    classes: SeenClasses = None
    model: AnyModel = "auto"
    class_prior: ClassPrior = "shrunk"
    engine: Engine = "auto"
    gold: Gold = None

    def in_memory(self, source: StudyFile) -> bool:
        """Not for a database."""
        return _in_memory(source, self.engine)

    def guarantee(self, inputs: Inputs[Labels]) -> None:
        """None: nothing is published."""
        _answers(inputs, self.classes)

    def run(self, inputs: Inputs[Labels], context: Context) -> Outcome:  # noqa: ARG002
        """Fit, without a response."""
        outcome, _ = _infer(self, inputs, "Correct labels, from answers as given", None)
        outcome.withhold(NOTHING_PUBLISHED, WHOM)
        return outcome


def _in_memory(source: StudyFile, engine: str) -> bool:
    """Databases read several files, and single ones whose columns have our names, by themselves."""
    return not source.several and (engine in ("auto", "memory") or bool(source.columns))


def _answers(inputs: Inputs[Labels], classes: Any = None) -> Labels | Path:
    """The table, or the files that inference opens itself; what is in none of the classes or cannot be opened is refused."""
    if inputs.table is not None:
        check_classes_of(inputs.table, classes)
        return inputs.table
    if inputs.file.several:
        inputs.file.refuse(["columns"], "nothing for several files: name their columns task, worker and label")
    inputs.file.check_files()
    return inputs.file.path


def _infer(
    action: InferLabels | LabelAnswers, inputs: Inputs[Labels], question: str, epsilon: str | None
) -> tuple[Outcome, TruthResult]:
    """Infer labels from answers that were randomized with this epsilon, or not at all."""
    from peerveil.truth.source import fit_source

    settings = action.arguments(but=("epsilon", "randomized", "gold"))
    result, workers = fit_source(_answers(inputs), epsilon=epsilon, gold=gold_of(inputs), **settings)
    outcome = _outcome(question, result, workers, inputs)
    if action.classes is None and (epsilon is not None or isinstance(action, LabelAnswers)):
        outcome.private.findings.insert(
            0,
            f"Classes seen: {', '.join(map(str, result.classes))}. If others are possible, set classes to all of them: the "
            "result depends on it.",
        )
    return outcome, result


def _outcome(question: str, result: TruthResult, workers: WorkerAbilities, inputs: Inputs[Labels]) -> Outcome:
    """Labels for everybody, abilities by worker for the operator."""
    import numpy as np

    from peerveil.core.guarantee import ONE_ANSWER
    from peerveil.data.table import plural

    table = inputs.table
    tasks, answers, people = len(result.tasks), int(result.loads.sum()), result.loads.size
    confidence, ability = float(result.confidence.mean()), float(np.median(result.abilities))
    part = OutcomePart(
        f"{int((result.confidence >= 0.9).sum()):,} of {plural(tasks, 'label')} have {result.confidence_in_words}; the list is "
        "in labels.csv.",
        [
            f"{plural(tasks, 'task')} labeled from {plural(answers, 'answer')} of {plural(people, 'worker')}. The mean "
            f"confidence of the labels is {100 * confidence:.0f}%, the median estimated ability {ability:.2f}.",
            result.about_confidence,
            result.about_abilities,
            *([] if result.evidence is None else [result.evidence.in_words]),
        ],
        {
            "tasks": tasks,
            "workers": people,
            "reports": answers,
            "model": result.model,
            "classes": list(result.classes),
            "mean_confidence": confidence,
            "median_ability": ability,
        },
    )
    part.csv("labels.csv", result.frame(probabilities=True))
    part.json("truth.json", result)
    outcome = Outcome.guaranteed(question, result.guarantee, public=part)
    outcome.mark, private = result.mark, outcome.private
    private.csv("workers.csv", workers.frame())
    intervals = "" if result.gold is None else ", with 95% intervals"
    caption = f"Estimated abilities, from the lowest to the highest{intervals}."
    add_gold(outcome, result, gold_of(inputs))
    outcome.figure(result.plot, f"{caption} {result.summary()}.", caption, public=True)
    unit = result.guarantee.unit
    if unit == result.person_guarantee.unit:
        outcome.protect("everything one person reports", result.person_guarantee)
    elif result.largest_total is not None:  # people chose their epsilons
        outcome.protect("one answer", result.guarantee)
        largest = f"everything the person with the largest total answered ({result.largest_total[0]:,} answers)"
        outcome.protect(largest, result.person_guarantee)
    else:  # how many tasks each answered is not hidden
        item, loads = "one answer" if unit == ONE_ANSWER else unit, (result.typical, result.most)
        outcome.protect_person(item, "person", "answered ({} answers)", loads, result.guarantee_of)
    outcome.attack = [
        "Somebody who sees the answers that everybody sent learns about one answer at most what the guarantee states; labels and "
        "abilities are computed from them and reveal no more."
    ]
    if result.person_in_words:
        outcome.attack.append(result.person_in_words)
    if table is not None and table.has_truth:
        accuracy, balanced = result.accuracy(table.truths())
        private.findings.append(
            f"Of the tasks whose correct label is known, {100 * accuracy:.1f}% are labeled correctly (balanced over classes: "
            f"{100 * balanced:.1f}%)."
        )
        private.results |= {"accuracy": accuracy, "balanced_accuracy": balanced}
    return outcome


ACTIONS: Final[tuple[type[Action[Any]], ...]] = (
    RandomizeAnswers, InferLabels, LabelAnswers, ChooseGold, EstimateShares, EstimateAgreement, PublishLabels, PreviewLabels,
    CompareEpsilons, PlanCollection, PlanPoll, SimulateCrowd,
)  # fmt: skip
