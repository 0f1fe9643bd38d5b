"""Actions of the rankings module: the test whether rankings differ from chance, plans, and local reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import peerveil
from peerveil.study.actions import Action, PlanAction, Setting, common
from peerveil.study.outcome import Outcome, OutcomePart
from peerveil.study.rankings_consensus import (
    BUDGET,
    GUESS,
    CompareRankings,
    RankConsensus,
    Unranked,
    WeightCap,
    add_items,
    protect_ranking,
)
from peerveil.study.spelling import Epsilon, EpsilonOrNone, InnerShare, Range, require
from peerveil.study.toml import SuggestedStep

if TYPE_CHECKING:
    from peerveil.data import Rankings
    from peerveil.study.execute import Context, Inputs, StudyFile

_READER: Final = "Whoever reads the reports guesses between two possible rankings of one person"
_NEED_EPSILON: Final = ("rank-norm", "clipped-norm", "clipped-batches", "local", "local-pairs")

Level = Annotated[
    InnerShare, common("The probability that rankings made by pure chance are called different.", "Significance level")
]


class RankingsTest(Action["Rankings"]):
    """Do rankings differ from chance?"""

    name, title = "rankings.test", "Test rankings"
    about = "Test whether rankings differ from chance, with a p-value that may be published."
    details = (
        "auto takes the private test that finds the weakest signal for this number of rankings and items, and Friedman's test "
        "without an epsilon. Every test takes rankings that leave items out or have ties: what a person leaves open is decided "
        "at random."
    )
    publishes = "the noisy statistic, its p-value and the decision (nothing without an epsilon)"
    operator = "the names of the items as they were read"
    kinds = ("rankings",)
    spends = True
    calls = "peerveil.rankings:uniformity_test"
    examples = (
        "rankings.csv --epsilon 0.5",
        "rankings.csv --epsilon 0.5 --ledger budget.db --account survey-2026",
        "rankings.csv --epsilon none --method friedman",
    )

    epsilon: Annotated[EpsilonOrNone, BUDGET]
    method: Annotated[
        Literal["auto", "friedman", "rank-norm", "clipped-norm", "clipped-batches", "pairs-norm"],
        Setting("The test to use; auto chooses it.", "Test"),
    ] = "auto"
    level: Level = 0.05
    unranked: Unranked = "last"
    weight_cap: WeightCap = None

    def __post_init__(self) -> None:
        if self.weight_cap is not None:
            from peerveil.rankings.uniformity import TAKE_WEIGHTS

            want = f"one of {', '.join(TAKE_WEIGHTS)} with weight_cap"
            require(self.method in TAKE_WEIGHTS, "method", got=self.method, want=want)
        if self.epsilon == "none":
            require(self.method not in _NEED_EPSILON, "epsilon", got="none", want=f"a number above 0 for {self.method}")
        else:
            require(
                self.method != "friedman", "epsilon", got=self.epsilon, want="'none' for friedman, which is not private"
            )

    @classmethod
    def suggest(cls, table: Rankings) -> SuggestedStep:  # noqa: ARG003
        """For every table of rankings."""
        return SuggestedStep("Do these rankings differ from chance? The p-value may be published.", {"epsilon": 1})

    def guarantee(self, inputs: Inputs[Rankings]) -> peerveil.Guarantee | None:
        """The test's own; none without an epsilon."""
        from peerveil.rankings.ballots import Ballots
        from peerveil.rankings.uniformity import ranking_guarantee

        Ballots.of(inputs.table).require_enough()
        return None if self.epsilon == "none" else ranking_guarantee(self.epsilon, weighted=self.weight_cap is not None)

    def run(self, inputs: Inputs[Rankings], context: Context) -> Outcome:
        """Test once."""
        private = self.epsilon != "none"
        test = self.call(
            inputs.table,
            epsilon=self.epsilon if private else None,
            randomness=context.randomness,
            account=context.account if private else None,
        )
        outcome = _test_outcome(test, "test.json", public=private)
        if private:
            protect_ranking(outcome, test.guarantee, GUESS)
        add_items(outcome, inputs.table)
        return outcome


class PlanRankings(PlanAction[None]):
    """How many people are needed."""

    name, title = "rankings.plan", "Plan the number of people"
    about = "Find how many people each test needs to detect a signal of a given strength."
    details = (
        "The signal is a Mallows model: each person's ranking scatters around a common one. A spread near 0 means that all "
        "agree, 1 is pure chance. By simulation; no data are read."
    )
    publishes = "the plan, which depends on no data"
    calls = "peerveil.rankings:plan_rankings"
    examples = ("--items 30 --spread 0.95 --epsilon 1", "--items 20 --spread 0.9 --method friedman --method pairs-norm")
    question = "How many people are needed?"
    caption = "Power against the number of people, one line per test; the dotted line is the power wanted."
    costs_nothing = "Computed by simulation, without any data: nothing is spent."

    items: Annotated[int, Range(ge=2, le=10_000_000), common("How many items are ranked.", "Number of items")]
    spread: Annotated[InnerShare, common("Spread of the signal to detect; 1 would be chance.")]
    epsilon: Annotated[
        Epsilon | None, common("Privacy budget (epsilon) for one person's ranking; by default without privacy.")
    ] = None
    level: Level = 0.05
    power: Annotated[InnerShare, common("The probability with which the signal is to be detected.")] = 0.8
    methods: Annotated[
        tuple[
            Literal[
                "auto", "friedman", "rank-norm", "clipped-norm", "clipped-batches", "pairs-norm", "local", "local-pairs"
            ],
            ...,
        ]
        | None,
        Setting("Tests to compare; by default auto and local with an epsilon, friedman without.", "Tests"),
    ] = None
    trials: Annotated[
        int, Range(ge=2, le=100_000), Setting("Simulated data sets for each number of people.", "Simulations")
    ] = 100
    seed: Annotated[int, Range(ge=0), Setting("Seed of the simulation.")] = 0

    def __post_init__(self) -> None:
        require(self.power > self.level, "power", got=self.power, want=f"more than the level ({self.level:g})")
        for method in self.methods or ():
            if self.epsilon is None:
                require(method not in _NEED_EPSILON, "epsilon", got=None, want=f"a number above 0 for {method}")
            else:
                require(method != "friedman", "methods", got=method, want="a private test: friedman takes no epsilon")

    def plan(self, inputs: Inputs[None], context: Context) -> peerveil.rankings.PowerCurve:  # noqa: ARG002
        """Simulate, without a progress bar of its own."""
        return peerveil.rankings.plan_rankings(**self.arguments(), progress=False)


class RandomizeRankings(Action["Rankings"]):
    """Local reports of a table of rankings."""

    name, title = "rankings.randomize", "Randomize rankings"
    about = "Turn rankings into one randomized report per person, as each person's device would."
    details = (
        "Each report is the randomized answer to one of a few public questions about the ranking. The reports are written in "
        "random order, after a line that states the protocol; `peerveil rankings aggregate` tests from them."
    )
    publishes = "one randomized report per person, in random order"
    operator = "the names of the items as they were read"
    kinds = ("rankings",)
    spends = True
    calls = "peerveil.rankings:randomize_rankings"
    examples = ("rankings.csv --epsilon 0.5 --public-seed 7", "rankings.csv --epsilon 1 --ask pairs --questions 2")

    epsilon: Annotated[Epsilon, BUDGET]
    ask: Annotated[
        Literal["items", "pairs"],
        common(
            "What the questions are about: whether an item is in the upper half, or which of two items comes first.",
            "Questions about",
        ),
    ] = "items"
    questions: Annotated[int, Range(ge=1), common("How many questions all people share.", "Number of questions")] = 3
    public_seed: Annotated[int, Range(ge=0, lt=2**53), common("Fixes the shared questions; publish it beforehand.")] = 0

    def guarantee(self, inputs: Inputs[Rankings]) -> peerveil.Guarantee:
        """That of one report."""
        inputs.table.require_complete("a report")
        settings = {"ask": self.ask, "questions": self.questions, "seed": self.public_seed}
        return peerveil.rankings.LocalProtocol(len(inputs.table.items), epsilon=self.epsilon, **settings).guarantee  # type: ignore[arg-type]

    def run(self, inputs: Inputs[Rankings], context: Context) -> Outcome:
        """Randomize once."""
        from peerveil.data.table import plural
        from peerveil.rankings.local import FILE_NAME

        randomized = self.call(inputs.table, randomness=context.randomness, account=context.account)
        protocol, (answers, yes) = randomized.protocol, randomized.counts()
        reports, questions = len(randomized.rankings), plural(protocol.questions, "shared question")
        answer = f"{reports:,} randomized rankings, one per person and in random order, on {questions}."
        results = {"reports": reports, "protocol": protocol, "answers": answers, "yes": yes}
        part = OutcomePart(answer, [answer], results, files={FILE_NAME: randomized.text()})
        question = "What would people report who never hand over their rankings?"
        outcome = Outcome.guaranteed(question, randomized.guarantee, public=part)
        caption = "The share of randomized answers that say yes, by question; chance alone would give one half."
        outcome.figure(randomized.plot, f"{randomized.summary()}. {caption}", caption, public=True)
        protect_ranking(outcome, randomized.guarantee, _READER)
        add_items(outcome, inputs.table)
        return outcome


class AggregateRankings(Action[None]):
    """The test from local reports alone."""

    name, title = "rankings.aggregate", "Test from reports"
    about = "Test whether rankings differ from chance, from randomized reports alone."
    details = (
        "FILE is what `peerveil rankings randomize` or `peerveil collect export` writes: a line that states the protocol and one "
        "line of JSON per report, or a CSV or Parquet table of reports. Nothing private is left in it, so nothing is spent."
    )
    publishes = "the statistic, its p-value and the decision (nothing if the reports were simulated)"
    kinds = ("rankings",)
    calls = "peerveil.rankings:aggregate_rankings"
    examples = ("out/rankings-randomize/public/reports.jsonl", "collected.parquet --level 0.01")

    level: Level = 0.05

    def in_memory(self, source: StudyFile) -> bool:  # noqa: ARG002
        """No: reports are not rankings, and may be many."""
        return False

    def _test(self, inputs: Inputs[None]) -> peerveil.rankings.UniformityTest:
        inputs.file.refuse(("format", "columns", "layout"), "nothing: a file of reports states everything itself")
        return peerveil.rankings.aggregate_rankings(inputs.file.path, level=self.level)

    def guarantee(self, inputs: Inputs[None]) -> None:
        """None: the reports are private already. A file that cannot be read is refused."""
        self._test(inputs)

    def run(self, inputs: Inputs[None], context: Context) -> Outcome:  # noqa: ARG002
        """Test."""
        test = self._test(inputs)
        outcome = _test_outcome(test, "aggregate.json", public=test.mark is None)
        protect_ranking(outcome, test.guarantee, _READER)
        return outcome


def _test_outcome(test: peerveil.rankings.UniformityTest, name: str, *, public: bool) -> Outcome:
    """A test's answer, figures and files."""
    pvalue = f"p-value {test.pvalue:.2g}" if test.pvalue >= 1e-6 else "p-value below 0.000001"
    verdict = "Yes, the rankings" if test.reject else "No evidence that the rankings"
    summary = f"{test.summary()[0].upper()}{test.summary()[1:]}."
    fields = ("reject", "pvalue", "statistic", "critical", "level", "method", "rankings", "items")
    part = OutcomePart(
        f"{verdict} differ from chance ({pvalue}, level {test.level:g}).",
        [summary],
        {field: getattr(test, field) for field in fields},
    )
    part.json(name, test)
    parts = {"public" if public else "private": part}
    outcome = Outcome.guaranteed("Do the rankings differ from chance?", test.guarantee, **parts)
    caption = "The statistic under pure chance (curve), the critical value, and the observed statistic."
    outcome.figure(test.plot, f"{caption} {summary}", caption, public=public)
    return outcome


ACTIONS: Final[tuple[type[Action[Any]], ...]] = (
    RankConsensus,
    CompareRankings,
    RankingsTest,
    PlanRankings,
    RandomizeRankings,
    AggregateRankings,
)
