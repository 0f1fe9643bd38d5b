"""Actions of the truth module that come before a collection: what privacy costs, how many answers are needed, what to try on."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import peerveil
from peerveil.core.errors import Verbatim
from peerveil.study.actions import Action, PlanAction, Setting, common
from peerveil.study.outcome import NOT_PUBLISHED, Outcome, OutcomePart, person_cautions, typical_and_most
from peerveil.study.spelling import Classes, Epsilon, EpsilonOrNone, File, InnerShare, PositivePair, Range, require

if TYPE_CHECKING:
    from peerveil.core.guarantee import Guarantee
    from peerveil.data import Labels
    from peerveil.study.execute import Context, Inputs

NOTHING_PUBLISHED: Final = "Computed from answers as people gave them, without noise: nothing of this may be published."
WHOM: Final = "everybody who answered"
MODELS: Final = (
    "How people err: one ability per worker (one-coin), one per worker and class (two-coin) or a full table of errors per worker "
    "(confusion)"
)
Model = Annotated[
    Literal["auto", "one-coin", "two-coin", "confusion"], Setting(f"{MODELS}; auto chooses from the reports.")
]
Unit = Annotated[
    Literal["answer", "person"],
    common("What epsilon protects: each answer, or all answers of one person together.", "Unit of protection"),
]
Engine = Annotated[
    Literal["auto", "memory", "duckdb", "spark"],
    Setting("Where to compute: in memory, out of core (duckdb), or on a Spark cluster; auto chooses by size."),
]
SeenClasses = Annotated[Classes | None, common("Classes of answers; by default those in the data.", "Possible answers")]
Randomized = Annotated[
    bool,
    common(
        "Each answer was randomized, with this epsilon, on the person's own device before it was collected.",
        "The answers were randomized on devices",
    ),
]
_TO_TRY: Final = common("Privacy budgets (epsilon) to try.", "Epsilons to try")
Seed = Annotated[int, Range(ge=0, le=2**31), Setting("Seed of the simulation.")]


def check_classes_of(table: Labels, classes: Any) -> None:
    """Refuse answers that are in none of the classes, if classes are stated."""
    from peerveil.truth.answers import read_classes

    if classes is not None:
        table.members.codes(read_classes(classes, table.members))


def require_statement(randomized: bool, epsilon: str | None, want: str, *, needs_epsilon: bool = True) -> None:
    """Refuse an epsilon without the statement that answers were randomized with it, and perhaps that without an epsilon."""
    if not randomized:
        got = Verbatim("an epsilon alone, which is no statement")
        require(epsilon is None, "randomized", got=got, want=want)
    elif needs_epsilon:
        require(epsilon is not None, "epsilon", got=Verbatim("nothing"), want="the epsilon of the devices")


def answer_cautions(guarantee: Guarantee, epsilon: str, answers: Any, who: str, did: str) -> list[str]:
    """How strongly everything of one person is protected, where epsilon is for one of several answers."""
    from peerveil.core.guarantee import read_epsilon
    from peerveil.truth.guarantee import sum_of_answers

    guarantee_of = partial(sum_of_answers, guarantee, read_epsilon(epsilon))
    return person_cautions(who, did, typical_and_most(answers), guarantee_of)


class CompareEpsilons(Action["Labels"]):
    """What privacy would cost on answers that are held."""

    name, title = "truth.compare", "Compare epsilons on your answers"
    about = "Show how many labels each epsilon would change on these answers, by simulation."
    operator = "the shares of labels that stay the same and that are correct, at each epsilon"
    kinds = ("labels",)
    calls = "peerveil.truth:compare_truth"
    examples = ("labels.csv --epsilon 1 --epsilon 4", "labels.csv --unit person --epsilon 4 --epsilon 8")

    epsilons: Annotated[tuple[Epsilon, ...], _TO_TRY] = ("0.5", "1", "2", "4")
    unit: Unit = "answer"
    classes: SeenClasses = None
    model: Model = "auto"
    draws: Annotated[
        int, Range(ge=2, le=1000), Setting("How often the answers are randomized for each epsilon.", "Simulations")
    ] = 10
    seed: Seed = 0

    def guarantee(self, inputs: Inputs[Labels]) -> None:
        """None: nothing is published."""
        check_classes_of(inputs.table, self.classes)

    def run(self, inputs: Inputs[Labels], context: Context) -> Outcome:  # noqa: ARG002
        """Simulate."""
        from peerveil.truth.answers import read_classes

        comparison = self.call(inputs.table, classes=read_classes(self.classes, inputs.table))
        outcome = Outcome("What would privacy cost on these answers?", NOTHING_PUBLISHED, comparison.mark)
        outcome.protect(WHOM, NOT_PUBLISHED)
        columns = ["epsilon", "tasks with an answer", "same label as without privacy", "correct label"]
        caption = "Labels that stay the same as without privacy, against epsilon."
        summary, cells = f"{comparison.summary()}.", (columns, comparison.cells())
        outcome.add_result("compare", comparison, summary, caption, public=False, cells=cells)
        return outcome


class PlanCollection(PlanAction[None]):
    """How many answers an accuracy takes."""

    name, title = "truth.plan", "Plan a collection"
    about = "Show how many answers per task an accuracy takes at each epsilon, by simulation."
    publishes = "the plan, which depends on nobody's answers"
    calls = "peerveil.truth:plan_truth"
    examples = (
        "--accuracy 0.9 --epsilon none --epsilon 1 --epsilon 2",
        "--epsilon 2 --classes 4",
        "--like out/truth-infer/private/workers.csv",
    )
    question = "How many answers are needed?"
    caption = "Correct labels against answers per task, for each epsilon."
    costs_nothing = "Computed by simulation: nothing is spent, and nothing is revealed about anybody's answers."

    accuracy: Annotated[InnerShare, common("Share of correct labels to reach.")] = 0.9
    epsilons: Annotated[tuple[EpsilonOrNone, ...], _TO_TRY] = ("0.5", "1", "2", "4")
    classes: Annotated[int, Range(ge=2, le=1000), common("Number of possible answers.", "Number of classes")] = 2
    ability: Annotated[
        PositivePair,
        Setting(
            "Abilities of people, as parameters a and b of a Beta distribution: a/(a+b) of a person's answers are correct on "
            "average, and people differ less the larger a+b is."
        ),
    ] = (4.0, 2.0)
    like: Annotated[File | None, Setting("Instead of ability: people like those in an earlier run's workers.csv.")] = (
        None
    )
    tasks: Annotated[int, Range(ge=1, le=100_000), Setting("Tasks of a simulated crowd.")] = 300
    trials: Annotated[int, Range(ge=1, le=1000), Setting("Simulated crowds per number of answers.", "Simulations")] = 3
    seed: Seed = 0

    def __post_init__(self) -> None:
        require(
            len(set(self.epsilons)) == len(self.epsilons), "epsilons", got=list(self.epsilons), want="each epsilon once"
        )
        require(self.like is None or self.ability == (4, 2), "like", got=str(self.like), want="either like or ability")

    def guarantee(self, inputs: Inputs[None]) -> None:  # noqa: ARG002
        """None: nothing depends on answers. What could not be reached or read is refused here."""
        chance = f"more than chance, which is 1/{self.classes}"
        require(self.accuracy > 1 / self.classes, "accuracy", got=self.accuracy, want=chance)
        self._ability()

    def _ability(self) -> tuple[float, float]:
        return self.ability if self.like is None else peerveil.truth.abilities_like(self.like)

    def run(self, inputs: Inputs[None], context: Context) -> Outcome:  # noqa: ARG002
        """Simulate crowds."""
        a, b = self._ability()
        plan = self.call(but=("like",), ability=(a, b))
        public = self.like is None  # abilities of an earlier run may come from answers that were not randomized
        outcome = self.report(plan, public=public)
        if not public:
            outcome.guarantee_text = "Computed from the abilities of an earlier run, which are for the operator."
            outcome.private.findings.append(
                f"People as able as those of {self.like}: {100 * a / (a + b):.0f}% of their answers are correct on average."
            )
        return outcome


class SimulateCrowd(Action[None]):
    """A synthetic crowd."""

    name, title = "truth.simulate", "Generate a synthetic crowd"
    about = "Generate the answers of a synthetic crowd, with the correct labels, to try things on."
    publishes = "the synthetic answers, which are about nobody"
    calls = "peerveil.truth:simulate_crowd"
    examples = ("--tasks 200 --kind spammers", "--classes yes,no --seed 3")

    tasks: Annotated[int, Range(ge=1, le=1_000_000), common("Number of tasks.")] = 500
    workers: Annotated[int, Range(ge=1, le=100_000), common("Number of workers.")] = 50
    answers: Annotated[int, Range(ge=1, le=100_000), common("Workers who answer each task.", "Answers per task")] = 10
    classes: Annotated[Classes, common("Classes of the answers.", "Possible answers")] = 2
    kind: Annotated[
        Literal["one-coin", "two-coin", "biased", "confusion", "spammers", "experts", "hard-tasks"],
        Setting("What the crowd is like.", "Kind of crowd"),
    ] = "one-coin"
    ability: Annotated[PositivePair, Setting("Abilities of people: parameters of a Beta distribution.")] = (4.0, 2.0)
    seed: Seed = 0

    def guarantee(self, inputs: Inputs[None]) -> None:  # noqa: ARG002
        """None: the answers are synthetic."""
        most = f"at most one answer per worker: {self.workers}"
        require(self.answers <= self.workers, "answers", got=self.answers, want=most)

    def run(self, inputs: Inputs[None], context: Context) -> Outcome:  # noqa: ARG002
        """Draw a crowd."""
        from peerveil.data.labels import check_classes
        from peerveil.truth.answers import read_classes

        names = check_classes(read_classes(self.classes))
        table = self.call(classes=len(names), epsilon=None).named(names)
        part = OutcomePart(
            answer=f"{table}.",
            findings=[f"{table}.", "The answers are not randomized; the column truth holds the correct label."],
            results={"answers": len(table), "tasks": self.tasks, "workers": self.workers},
        )
        part.csv("answers.csv", table.frame)
        reason = "Synthetic data about nobody: nothing is spent, and nothing is revealed."
        return Outcome("A synthetic crowd", reason, public=part)
