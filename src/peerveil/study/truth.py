"""Actions of the truth module: randomize answers, infer correct labels from randomized ones, and see what privacy costs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from annotated_types import Ge, Gt, Le, Lt

from peerveil.errors import BadInput, Verbatim
from peerveil.study.actions import Action, Setting, Suggestion
from peerveil.study.spelling import Classes, Epsilon, EpsilonOrNone, File, PositivePair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from peerveil.guarantee import Guarantee
    from peerveil.judgements import Labels
    from peerveil.result import Outputs
    from peerveil.study.actions import Context
    from peerveil.study.execute import Inputs, Source
    from peerveil.study.outcome import Outcome
    from peerveil.truth import RandomisedAnswers, TruthResult
    from peerveil.truth.outcome import WorkerAbilities

    Fitted = Outputs[TruthResult, WorkerAbilities]

_AS_GIVEN: Final = (
    "For answers as people gave them, truth.randomize randomizes each once and then infers, and truth.label infers for you "
    "alone, not for publication"
)
_NOTHING_PUBLISHED: Final = (
    "Computed from answers as people gave them, without noise: nothing of this may be published."
)
_SUGGESTED_CLASSES: Final = 20
_TRUE_WORDS: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}

_MODELS: Final = (
    "How people err: one ability per worker (one-coin), one per worker and class (two-coin) or a full table of errors per worker "
    "(confusion)"
)
Model = Annotated[
    Literal["auto", "one-coin", "two-coin", "confusion"], Setting(f"{_MODELS}; auto chooses from the reports.")
]
AnyModel = Annotated[
    Literal["auto", "one-coin", "two-coin", "confusion", "majority"],
    Setting(f"{_MODELS}, or equal abilities (majority vote); auto chooses from the reports."),
]
Unit = Annotated[
    Literal["answer", "person"],
    Setting(
        "What epsilon protects: each answer, or all answers of one person together.", "Unit of protection", common=True
    ),
]
AllClasses = Annotated[Classes, Setting("Classes of the answers, from a public list.", "Possible answers", common=True)]
SeenClasses = Annotated[
    Classes | None, Setting("Classes of the answers; by default those in the data.", "Possible answers", common=True)
]
ClassPrior = Annotated[
    Literal["shrunk", "uniform", "estimated"],
    Setting(
        "Shares of the classes: even, estimated, or even unless the reports show classes of different sizes (shrunk)."
    ),
]
Engine = Annotated[
    Literal["auto", "memory", "duckdb", "spark"],
    Setting("Where to compute: in memory, out of core (duckdb), or on a Spark cluster; auto chooses by size."),
]
Seed = Annotated[int, Ge(0), Le(2**31), Setting("Seed of the simulation.")]


class Randomize(Action["Labels"]):
    """Randomize answers that were not randomized yet, each once, then infer."""

    name, title = "truth.randomize", "Randomize answers, then infer labels"
    about = "Randomize answers as people's devices would, publish the reports, and infer correct labels from them."
    details = (
        "For answers that you hold as people gave them. Each is randomized once; a second draw from the same answers costs its "
        "own epsilon. `peerveil truth compare` shows beforehand what each epsilon costs."
    )
    publishes = (
        "the randomized reports, with random numbers for workers, and a label with its probability for every task"
    )
    operator = "the reports and the abilities by worker id"
    kinds = ("labels",)
    spends = True
    calls = "peerveil.truth.randomize_answers"
    examples = (
        "labels.csv --epsilon 1 --classes 0,1",
        "labels.csv --epsilon 4 --classes 0,1 --unit person --ledger budget.db --account study",
    )

    epsilon: Annotated[
        Epsilon, Setting("Privacy budget (epsilon) of one answer or one person. Smaller is more private.", common=True)
    ]
    classes: AllClasses
    unit: Unit = "answer"
    model: Model = "auto"
    hide_tasks: Annotated[bool, Setting("Also hide which tasks a person answered; needs the list of all tasks.")] = (
        False
    )
    tasks: Annotated[
        File | None, Setting("With hide_tasks: a file with all task ids, one per line, from a public list.")
    ] = None

    def __post_init__(self) -> None:
        if self.hide_tasks and self.tasks is None:
            want = "the public list of all tasks: a list taken from the answers would itself reveal something"
            raise BadInput("tasks", got=Verbatim("nothing"), want=want)
        if self.tasks is not None and not self.hide_tasks:
            raise BadInput("tasks", got=str(self.tasks), want="hide_tasks beside it")

    @classmethod
    def suggest(cls, table: Labels) -> Suggestion | None:
        """If the answers are few enough to be listed."""
        classes = table.frame["label"].unique().sort().to_list()
        if not 2 <= len(classes) <= _SUGGESTED_CLASSES:
            return None
        return Suggestion(
            "Correct labels from randomized answers. Every answer is randomized once here. If the answers were randomized on "
            'people\'s devices already, use action = "truth.infer" with randomized = true and the epsilon of the devices, '
            "without an account.",
            {"epsilon": 1, "classes": classes},
            {"classes": "all possible answers, from a public list (here: as seen; please check)"},
        )

    def guarantee(self, inputs: Inputs[Labels]) -> Guarantee:
        """Local privacy of an answer or of a person."""
        from peerveil.judgements.labels import check_classes
        from peerveil.truth.randomise import full_sheet, missing_class, task_guarantee

        table = inputs.table
        classes = check_classes(_typed(self.classes, table))
        table.codes(classes)
        if self.hide_tasks:
            full_sheet(table, self._tasks(table), missing_class(classes))
        return task_guarantee(table.frame, self.epsilon, self.unit, self.hide_tasks)

    def cautions(self, inputs: Inputs[Labels]) -> list[str]:
        """How strongly everything of one person is protected."""
        from peerveil.guarantee import read_epsilon
        from peerveil.truth.outcome import sum_of_reports

        if self.unit == "person":
            return []
        typical, most = _loads(inputs.table)
        if self.hide_tasks:
            typical = most = len(self._tasks(inputs.table))
        guarantee, epsilon = self.guarantee(inputs), read_epsilon(self.epsilon)
        whole = [sum_of_reports(guarantee, epsilon, load).verdict for load in (typical, most)]
        sentences = [f"Everything that a typical person reports ({typical} answers) is {whole[0]}."]
        return sentences + [f"Everything that the busiest reports ({most} answers) is {whole[1]}."] * (typical < most)

    def _tasks(self, table: Labels) -> list[Any]:
        """The ids in the file of tasks, of the same kind as in the answers."""
        from peerveil.judgements.readers.files import InputFile

        assert self.tasks is not None
        lines = InputFile.open(self.tasks).path.read_text(encoding="utf-8").splitlines()
        ids = [line.strip() for line in lines if line.strip()]
        if str(table.frame["task"].dtype) != "Int64":
            return ids
        try:
            return [int(task) for task in ids]
        except ValueError:
            raise BadInput("tasks", got=ids[:3], want="whole numbers, as in the answers") from None

    def run(self, inputs: Inputs[Labels], context: Context) -> Outcome:
        """Debit, randomize, infer."""
        import numpy as np

        from peerveil.judgements.writing import csv_text
        from peerveil.truth import randomize_answers
        from peerveil.truth.wire import reports_text

        table = inputs.table
        sent, collected = randomize_answers(
            table,
            epsilon=self.epsilon,
            classes=_typed(self.classes, table),
            unit=self.unit,
            hide_tasks=self.hide_tasks,
            tasks=self._tasks(table) if self.hide_tasks else None,
            randomness=context.randomness,
            account=context.account,
        )
        result, workers = collected.fit(model=self.model)
        outcome = _outcome("Correct labels, from randomized answers", result, workers)
        outcome.promises(sent.guarantee)
        outcome.protects = []
        _protections(outcome, sent, np.bincount(collected.reports.numbered("worker")[0]))
        outcome.attack.append(f"For a whole person: {sent.person_guarantee.short}")
        outcome.found.append(
            "reports.csv numbers the workers at random. It shows which reports came from one person, on which tasks; it does "
            "not name anybody, and it does not show what they answered."
        )
        if sent.unreported:
            asked = sent.reports.frame["task"].n_unique() + sent.unreported
            outcome.found.append(
                f"{sent.unreported:,} of {asked:,} tasks got no report: at this epsilon a person sends {sent.most:,} of their "
                "answers."
            )
        _score(outcome, result, table)
        outcome.results |= {
            "epsilon_of_a_report": str(sent.response.exact_epsilon),
            "most_reports_of_a_person": sent.most,
        }
        outcome.file("reports.csv", csv_text(sent.frame()), public=True)
        outcome.file("reports.jsonl", reports_text(collected), public=False)
        return outcome


class Infer(Action["Labels"]):
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
    calls = "peerveil.truth.PrivateDawidSkene"
    examples = (
        "reports.csv --randomized --epsilon 1 --classes 0,1",
        "out/truth-randomize/private/reports.jsonl",
        "'reports/*.parquet' --randomized --epsilon 1 --engine duckdb",
    )

    epsilon: Annotated[
        Epsilon | None,
        Setting(
            "Epsilon with which each answer was randomized; a file of reports states it.",
            "Epsilon of the devices",
            common=True,
        ),
    ] = None
    randomized: Annotated[
        bool,
        Setting(
            "Each answer was randomized, with this epsilon, on the person's own device before it was collected.",
            "The answers were randomized on devices",
            common=True,
        ),
    ] = False
    classes: SeenClasses = None
    model: AnyModel = "auto"
    class_prior: ClassPrior = "shrunk"
    engine: Engine = "auto"

    def __post_init__(self) -> None:
        if self.epsilon is not None and not self.randomized:
            want = f"true, if each answer was randomized with epsilon {self.epsilon} on the person's own device. {_AS_GIVEN}"
            raise BadInput("randomized", got=Verbatim("an epsilon alone, which is no statement"), want=want)
        if self.randomized and self.epsilon is None:
            raise BadInput("epsilon", got=Verbatim("nothing"), want="the epsilon of the devices")

    def in_memory(self, source: Source) -> bool:
        """Not for a database, nor for a file that states its own terms."""
        return _in_memory(source, self.engine) and not _states_terms(source)

    def guarantee(self, inputs: Inputs[Labels]) -> None:
        """Nothing to debit: the answers were randomized before they were collected. Impossible answers are refused here."""
        if not _states_terms(inputs.source):
            if self.epsilon is None:
                want = f"the epsilon with which each answer was randomized, and randomized. {_AS_GIVEN}"
                raise BadInput("epsilon", got=Verbatim("nothing"), want=want)
            _check_answers(inputs, self.classes)
            return
        from peerveil.truth import read_reports

        for name in ("epsilon", "classes"):
            if getattr(self, name) is not None:
                raise BadInput(name, got=getattr(self, name), want="nothing: the file of reports states it")
        assert inputs.source is not None
        if read_reports(inputs.source.path).missing is not None and self.model == "majority":
            want = "another model for reports that hide which tasks were answered"
            raise BadInput("model", got=self.model, want=want)

    def run(self, inputs: Inputs[Labels], context: Context) -> Outcome:  # noqa: ARG002
        """Fit."""
        result, workers = self._fit_file(inputs) if _states_terms(inputs.source) else _fit(self, inputs, self.epsilon)
        outcome = _outcome("Correct labels, from randomized answers", result, workers)
        if self.epsilon is not None:
            _name_classes(outcome, self.classes, result)
            _score(outcome, result, inputs.table)
        if result.doubt is not None:
            # the doubt holds figures computed from the answers without noise: for the operator alone
            outcome.private_found.append(f"Nothing of this may be published: {result.doubt}.")
            keep_back(outcome, "Nothing of this may be published: the answers do not look randomized.")
        elif result.mark is not None:
            keep_back(outcome, f"Nothing of this may be published: {result.mark}.")
        return outcome

    def _fit_file(self, inputs: Inputs[Labels]) -> Fitted:
        """Infer from a file of reports, under the terms that it states."""
        from peerveil.result import Outputs
        from peerveil.truth import PrivateMajority, read_reports

        assert inputs.source is not None
        collected = read_reports(inputs.source.path)
        if self.model != "majority":
            return collected.fit(model=self.model, class_prior=self.class_prior)
        response = collected.response
        majority = PrivateMajority(epsilon=response.exact_epsilon, classes=list(response.labels or range(response.k)))
        return Outputs(majority.fit(collected.reports, guarantee=collected.guarantee), majority.workers_)


class Label(Action["Labels"]):
    """Correct labels from answers as they were given. For whoever holds them."""

    name, title = "truth.label", "Infer labels from answers as given"
    about = "Infer correct labels from answers that were not randomized, for the operator alone."
    operator = "a label with its probability for every task, and the abilities by worker id"
    kinds = ("labels",)
    calls = "peerveil.truth.PrivateDawidSkene"
    examples = ("labels.csv --classes 0,1", "labels.csv --model majority")

    classes: SeenClasses = None
    model: AnyModel = "auto"
    class_prior: ClassPrior = "shrunk"
    engine: Engine = "auto"

    def in_memory(self, source: Source) -> bool:
        """Not for a database."""
        return _in_memory(source, self.engine)

    def guarantee(self, inputs: Inputs[Labels]) -> None:
        """None: nothing is published."""
        _check_answers(inputs, self.classes)

    def run(self, inputs: Inputs[Labels], context: Context) -> Outcome:  # noqa: ARG002
        """Fit, without a response."""
        result, workers = _fit(self, inputs, None)
        outcome = _outcome("Correct labels, from answers as given", result, workers)
        _name_classes(outcome, self.classes, result)
        _score(outcome, result, inputs.table)
        keep_back(outcome, _NOTHING_PUBLISHED)
        return outcome


class Compare(Action["Labels"]):
    """What privacy would cost on answers that are held."""

    name, title = "truth.compare", "Compare epsilons on your answers"
    about = "Show how many labels each epsilon would change on these answers, by simulation."
    operator = "the shares of labels that stay the same and that are correct, at each epsilon"
    kinds = ("labels",)
    calls = "peerveil.truth.compare_truth"
    examples = ("labels.csv --epsilon 1 --epsilon 4", "labels.csv --unit person --epsilon 4 --epsilon 8")

    epsilons: Annotated[
        tuple[Epsilon, ...], Setting("Privacy budgets (epsilon) to try.", "Epsilons to try", common=True)
    ] = (
        "0.5",
        "1",
        "2",
        "4",
    )
    unit: Unit = "answer"
    classes: SeenClasses = None
    model: Model = "auto"
    draws: Annotated[
        int, Ge(2), Le(1000), Setting("How often the answers are randomized for each epsilon.", "Simulations")
    ] = 10
    seed: Seed = 0

    def guarantee(self, inputs: Inputs[Labels]) -> None:
        """None: nothing is published."""
        _check_answers(inputs, self.classes)

    def run(self, inputs: Inputs[Labels], context: Context) -> Outcome:  # noqa: ARG002
        """Simulate."""
        from peerveil.study.outcome import Outcome
        from peerveil.truth import compare_truth

        comparison = compare_truth(
            inputs.table,
            epsilons=self.epsilons,
            unit=self.unit,
            classes=_typed(self.classes, inputs.table),
            model=self.model,
            draws=self.draws,
            seed=self.seed,
        )
        outcome = Outcome("What would privacy cost on these answers?")
        outcome.promise = _NOTHING_PUBLISHED
        outcome.mark = comparison.mark
        outcome.private_answer = f"{comparison.summary()}."
        outcome.private_found = [f"{comparison.summary()}."]
        outcome.private_results = comparison.to_dict()
        outcome.protect("everybody who answered", "nothing of this step is published")
        columns = ["epsilon", "tasks with a report", "same label as without privacy", "correct label"]
        outcome.table(columns, comparison.cells(), public=False)
        outcome.picture(
            comparison.plot,
            comparison.summary(),
            "Labels that stay the same as without privacy, against epsilon.",
            public=False,
        )
        outcome.file("compare.csv", comparison.frame().write_csv(), public=False)
        outcome.file("compare.json", comparison.to_json(indent=2) + "\n", public=False)
        return outcome


class Plan(Action[None]):
    """How many answers an accuracy takes."""

    name, title = "truth.plan", "Plan a collection"
    about = "Show how many answers per task an accuracy takes at each epsilon, by simulation."
    publishes = "the plan, which depends on nobody's answers"
    calls = "peerveil.truth.plan_truth"
    examples = (
        "--accuracy 0.9 --epsilon none --epsilon 1 --epsilon 2",
        "--epsilon 2 --classes 4",
        "--like out/truth-infer/private/workers.csv",
    )

    accuracy: Annotated[float, Gt(0), Lt(1), Setting("Share of correct labels to reach.", common=True)] = 0.9
    epsilons: Annotated[
        tuple[EpsilonOrNone, ...], Setting("Privacy budgets (epsilon) to try.", "Epsilons to try", common=True)
    ] = (
        "0.5",
        "1",
        "2",
        "4",
    )
    classes: Annotated[
        int, Ge(2), Le(1000), Setting("Number of possible answers.", "Number of classes", common=True)
    ] = 2
    ability: Annotated[
        PositivePair,
        Setting(
            "Abilities of people, as the two numbers a and b of a Beta distribution: a/(a+b) of a person's answers are correct "
            "on average, and people differ less the larger a+b is."
        ),
    ] = (4.0, 2.0)
    like: Annotated[
        File | None, Setting("Instead of ability: people as able as those in workers.csv of an earlier run.")
    ] = None
    tasks: Annotated[int, Ge(1), Le(100_000), Setting("Tasks of a simulated crowd.")] = 300
    trials: Annotated[int, Ge(1), Le(1000), Setting("Simulated crowds for each number of answers.", "Simulations")] = 3
    seed: Seed = 0

    def __post_init__(self) -> None:
        if len(set(self.epsilons)) < len(self.epsilons):
            raise BadInput("epsilons", got=list(self.epsilons), want="each epsilon once")
        if self.like is not None and self.ability != (4.0, 2.0):
            raise BadInput("like", got=str(self.like), want="either like or ability")

    def guarantee(self, inputs: Inputs[None]) -> None:  # noqa: ARG002
        """None: nothing depends on answers. What could not be reached or read is refused here."""
        if self.accuracy <= 1 / self.classes:
            raise BadInput("accuracy", got=self.accuracy, want=f"more than chance, which is 1/{self.classes}")
        self._ability()

    def _ability(self) -> tuple[float, float]:
        if self.like is None:
            return self.ability
        from peerveil.truth import abilities_like

        return abilities_like(self.like)

    def run(self, inputs: Inputs[None], context: Context) -> Outcome:  # noqa: ARG002
        """Simulate crowds."""
        from peerveil.study.outcome import Outcome
        from peerveil.truth import plan_truth

        a, b = self._ability()
        plan = plan_truth(
            accuracy=self.accuracy,
            epsilons=self.epsilons,
            classes=self.classes,
            ability=(a, b),
            tasks=self.tasks,
            trials=self.trials,
            seed=self.seed,
        )
        outcome = Outcome("How many answers are needed?")
        outcome.promise = "Computed by simulation: nothing is spent, and nothing is revealed about anybody's answers."
        public = self.like is None  # abilities of an earlier run may come from answers that were not randomized
        outcome.plan(plan, "Correct labels against answers per task, for each epsilon.", public=public)
        if not public:
            outcome.promise = "Computed from the abilities of an earlier run, which are for the operator."
            outcome.private_found.append(
                f"People as able as those of {self.like}: {100 * a / (a + b):.0f}% of their answers are correct on average."
            )
        return outcome


class Simulate(Action[None]):
    """A synthetic crowd."""

    name, title = "truth.simulate", "Generate a synthetic crowd"
    about = "Generate the answers of a synthetic crowd, with the correct labels, to try things on."
    publishes = "the synthetic answers, which are about nobody"
    calls = "peerveil.truth.simulate_crowd"
    examples = ("--tasks 200 --kind spammers", "--classes yes,no --seed 3")

    tasks: Annotated[int, Ge(1), Le(1_000_000), Setting("Number of tasks.", common=True)] = 500
    workers: Annotated[int, Ge(1), Le(100_000), Setting("Number of workers.", common=True)] = 50
    answers: Annotated[
        int, Ge(1), Le(100_000), Setting("Workers who answer each task.", "Answers per task", common=True)
    ] = 10
    classes: Annotated[Classes, Setting("Classes of the answers.", "Possible answers", common=True)] = 2
    kind: Annotated[
        Literal["one-coin", "two-coin", "biased", "confusion", "spammers", "experts", "hard-tasks"],
        Setting("What the crowd is like.", "Kind of crowd"),
    ] = "one-coin"
    ability: Annotated[PositivePair, Setting("Abilities of people, as the two numbers of a Beta distribution.")] = (
        4.0,
        2.0,
    )
    seed: Seed = 0

    def guarantee(self, inputs: Inputs[None]) -> None:  # noqa: ARG002
        """None: the answers are synthetic."""
        if self.answers > self.workers:
            raise BadInput("answers", got=self.answers, want=f"at most one answer per worker: {self.workers}")

    def run(self, inputs: Inputs[None], context: Context) -> Outcome:  # noqa: ARG002
        """Draw a crowd."""
        import polars as pl

        from peerveil.judgements import Labels
        from peerveil.judgements.labels import check_classes
        from peerveil.judgements.writing import csv_text
        from peerveil.study.outcome import Outcome
        from peerveil.truth import simulate_crowd

        names = check_classes(_numbers(self.classes))
        crowd = simulate_crowd(
            tasks=self.tasks,
            workers=self.workers,
            answers=self.answers,
            classes=len(names),
            kind=self.kind,
            ability=self.ability,
            epsilon=None,
            seed=self.seed,
        )
        frame = crowd.answers.frame
        labels = pl.Series("label", [names[code] for code in frame["label"].to_list()])
        correct = pl.Series("truth", [names[crowd.truth[task]] for task in frame["task"].to_list()])
        table = Labels.from_frame(frame.with_columns(labels, correct))
        outcome = Outcome("A synthetic crowd")
        outcome.promise = "Synthetic data about nobody: nothing is spent, and nothing is revealed."
        outcome.answer = f"{table}."
        outcome.found = [f"{table}.", "The answers are not randomized; the column truth holds the correct label."]
        outcome.results = {"answers": len(table), "tasks": self.tasks, "workers": self.workers}
        outcome.file("answers.csv", csv_text(table.frame), public=True)
        return outcome


# ---- data ------------------------------------------------------------------------------------------------------------


def _in_memory(source: Source, engine: str) -> bool:
    """Databases read several files, and single ones whose columns have our names, by themselves."""
    return not source.several and (engine in ("auto", "memory") or bool(source.columns))


def _states_terms(source: Source | None) -> bool:
    """Whether the source is a file of reports."""
    from peerveil.truth.wire import is_report_file

    return source is not None and not source.several and is_report_file(source.path)


def _check_answers(inputs: Inputs[Labels], classes: Any) -> None:
    """Refuse answers that are none of the classes, and files that a database could not read."""
    if inputs.table is not None:
        if classes is not None:
            inputs.table.codes(_typed(classes, inputs.table))
        return
    source = inputs.source
    assert source is not None
    if source.columns:
        want = "nothing for several files: name their columns task, worker and label"
        raise BadInput("columns", got=dict(source.columns), want=want)
    if not source.files():
        raise BadInput(str(source.path), got=Verbatim("no such file"), want="at least one Parquet file")
    from peerveil.judgements.readers.files import InputFile

    for path in source.files():
        InputFile.open(path)


def _numbers(classes: Any) -> int | list[Any]:
    """Classes that were written as text, as whole numbers if all of them are."""
    if isinstance(classes, int):
        return classes
    texts = [str(one) for one in classes if not isinstance(one, bool)]
    if len(texts) == len(classes) and all(text.lstrip("-").isdecimal() for text in texts):
        return [int(text) for text in texts]
    return list(classes)


def _typed(classes: Any, table: Labels) -> Any:
    """Classes of the kind that the table holds: a command line and a form know texts only."""
    dtype = str(table.frame["label"].dtype)
    if classes is None or isinstance(classes, int):
        return classes
    if dtype == "Boolean":
        return [_TRUE_WORDS.get(str(one).lower(), one) for one in classes]
    return _numbers(classes) if dtype == "Int64" else list(classes)


def _loads(table: Labels) -> tuple[int, int]:
    """How many answers a typical and the busiest person gave."""
    import numpy as np

    loads = np.bincount(table.numbered("worker")[0])
    return int(np.median(loads)), int(loads.max())


# ---- inference and what is made of it --------------------------------------------------------------------------------


def _fit(action: Infer | Label, inputs: Inputs[Labels], epsilon: str | None) -> Fitted:
    """Infer from a table, or from files that a database reads."""
    import warnings

    from peerveil.result import Outputs
    from peerveil.truth import NotRandomised, PrivateDawidSkene, PrivateMajority
    from peerveil.truth.tables import open_reports

    labels: Any = inputs.table
    if labels is None:
        assert inputs.source is not None
        labels = str(inputs.source.path)
    classes = None if action.classes is None else _numbers(action.classes)
    if inputs.table is not None:
        classes = _typed(action.classes, inputs.table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotRandomised)  # the outcome says it
        if action.model == "majority":
            majority = PrivateMajority(epsilon=epsilon, classes=classes)
            result = majority.fit(open_reports(labels) if isinstance(labels, str) else labels)
            return Outputs(result, majority.workers_)
        estimator = PrivateDawidSkene(
            epsilon=epsilon, model=action.model, classes=classes, class_prior=action.class_prior
        )
        return Outputs(estimator.fit(labels, engine=action.engine), estimator.workers_)


def _outcome(question: str, result: TruthResult, workers: WorkerAbilities) -> Outcome:
    """Labels for everybody, abilities by worker for the operator."""
    import numpy as np

    from peerveil.judgements.writing import csv_text
    from peerveil.study.outcome import Outcome
    from peerveil.truth.outcome import CONFIDENCE

    outcome = Outcome(question)
    outcome.promises(result.guarantee)
    outcome.mark = result.mark
    tasks, reports, people = len(result.tasks), int(result.loads.sum()), result.loads.size
    confidence, ability = float(result.confidence.mean()), float(np.median(result.abilities))
    outcome.found = [
        f"{_count(tasks, 'task')} labeled from {_count(reports, 'report')} of {_count(people, 'worker')}. The mean confidence of "
        f"the labels is {100 * confidence:.0f}%, the median estimated ability {ability:.2f}.",
        CONFIDENCE,
    ]
    if result.evidence is not None:
        outcome.found.append(result.evidence.in_words)
    sure = int((result.confidence >= 0.9).sum())
    outcome.answer = (
        f"{sure:,} of {_count(tasks, 'label')} have a confidence of at least 90%; the list is in labels.csv. Confidences are too "
        "high where people share errors."
    )
    if result.doubt is None:
        _protections(outcome, result, result.loads)
    else:
        outcome.protect("one answer", f"not protected: {result.doubt}")
    outcome.attack = [
        "Somebody who sees the reports of everybody learns about one answer at most what the guarantee states; labels and "
        "abilities are computed from the reports and reveal no more."
    ]
    outcome.picture(
        result.plot,
        f"Abilities with intervals. {result.summary()}.",
        "Estimated abilities, from the lowest to the highest, with intervals of two standard errors.",
        public=True,
    )
    outcome.file("labels.csv", csv_text(result.frame(probabilities=True)), public=True)
    outcome.file("truth.json", result.to_json(indent=2) + "\n", public=True)
    outcome.file("workers.csv", csv_text(workers.frame()), public=False)
    outcome.results = {
        "tasks": tasks,
        "workers": people,
        "reports": reports,
        "model": result.model,
        "classes": list(result.classes),
        "mean_confidence": confidence,
        "median_ability": ability,
    }
    return outcome


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _name_classes(outcome: Outcome, classes: Any, result: TruthResult) -> None:
    """Which classes were taken from the data."""
    if classes is None:
        seen = ", ".join(map(str, result.classes))
        outcome.private_found.append(
            f"Classes seen: {seen}. If others are possible, set classes to all of them: the result depends on it."
        )


def _score(outcome: Outcome, result: TruthResult, table: Labels | None) -> None:
    """How many labels are correct, where that is known: for the operator."""
    if table is None or not table.has_truth:
        return
    accuracy, balanced = result.accuracy(table.truths())
    outcome.private_found.append(
        f"Of the tasks whose correct label is known, {100 * accuracy:.1f}% are labeled correctly (balanced over classes: "
        f"{100 * balanced:.1f}%)."
    )
    outcome.private_results |= {"accuracy": accuracy, "balanced_accuracy": balanced}


def keep_back(outcome: Outcome, why: str) -> None:
    """Nothing of an outcome is public after all."""
    outcome.private_answer, outcome.answer = outcome.answer, ""
    outcome.private_found = [why, *outcome.found, *outcome.private_found]
    outcome.private_results = {**outcome.results, **outcome.private_results}
    outcome.found, outcome.results, outcome.attack = [], {}, []
    outcome.promise = outcome.promise_short = why
    outcome.guarantee = None
    outcome.protects = [["everybody who answered", "nothing of this step is published"]]
    outcome.pictures = [replace(picture, public=False) for picture in outcome.pictures]
    outcome.tables = [replace(table, public=False) for table in outcome.tables]
    outcome.files = [replace(file, public=False) for file in outcome.files]


def _protections(outcome: Outcome, public: TruthResult | RandomisedAnswers, loads: Sequence[int] | Any) -> None:
    """One answer, and everything that one person answered; how many tasks each answered is not hidden."""
    import numpy as np

    from peerveil.guarantee import ONE_ANSWER

    guarantee, person = public.guarantee, public.person_guarantee
    if guarantee.unit == person.unit:
        outcome.protect("everything one person reports", person)
        return
    typical, most = int(np.median(loads)), public.most
    if most > max(loads):  # where tasks are hidden, everybody reports on all of them
        typical = most
    outcome.protect("one answer" if guarantee.unit == ONE_ANSWER else guarantee.unit, guarantee)
    if 1 < typical < most:
        outcome.protect(f"everything a typical person answered ({typical} answers)", public.guarantee_of(typical))
    busiest = "any" if typical == most else "the busiest"
    outcome.protect(f"everything {busiest} person answered ({most} answers)", person)


ACTIONS: Final[tuple[type[Action[Any]], ...]] = (Randomize, Infer, Label, Compare, Plan, Simulate)
