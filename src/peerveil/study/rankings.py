"""Actions of the rankings module: the test whether rankings differ from chance, plans, and local reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import peerveil
from peerveil.study.actions import Action, PlanAction, Setting, common
from peerveil.study.rankings_consensus import (
    BUDGET,
    GUESS,
    CompareRankings,
    Level,
    RankConsensus,
    Unranked,
    WeightCap,
    add_items,
    protect_ranking,
    test_outcome,
)
from peerveil.study.rankings_local import AggregateRankings, RandomizeRankings
from peerveil.study.spelling import Epsilon, EpsilonOrNone, InnerShare, Range, require
from peerveil.study.toml import SuggestedStep

if TYPE_CHECKING:
    from peerveil.data import Rankings
    from peerveil.study.execute import Context, Inputs
    from peerveil.study.outcome import Outcome

_NEED_EPSILON: Final = ("rank-norm", "clipped-norm", "clipped-batches", "local", "local-pairs")


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
        outcome = test_outcome(test, "test.json", public=private)
        if private:
            protect_ranking(outcome, test.guarantee, GUESS)
        add_items(outcome, inputs.table)
        return outcome


class PlanRankings(PlanAction[None]):
    """How many people are needed."""

    name, title = "rankings.plan", "Plan the number of people"
    about = "Find how many people are needed to detect a signal of a given strength, or to tell the first items."
    details = (
        "The signal is a Mallows model: each person's ranking scatters around a common one. A spread near 0 means that all "
        "agree, 1 is pure chance. With first, the consensus is planned: openly, with central and with local privacy. By "
        "simulation; no data are read."
    )
    publishes = "the plan, which depends on no data"
    calls = "peerveil.rankings:plan_rankings"
    examples = (
        "--items 30 --spread 0.95 --epsilon 1",
        "--items 10 --spread 0.9 --epsilon 1 --first 3",
        "--items 20 --spread 0.9 --method friedman --method pairs-norm",
    )
    question = "How many people are needed?"
    caption = (
        "Power, or the probability that the first items are right, by the number of people; dotted what is wanted."
    )
    costs_nothing = "Computed by simulation, without any data: nothing is spent."

    items: Annotated[int, Range(ge=2, le=10_000_000), common("How many items are ranked.", "Number of items")]
    spread: Annotated[InnerShare, common("Spread of the signal to detect; 1 would be chance.")]
    epsilon: Annotated[
        Epsilon | None, common("Privacy budget (epsilon) for one person's ranking; by default without privacy.")
    ] = None
    first: Annotated[
        int | None, Range(ge=1), common("Plan to tell this many first items; by default to detect any signal.")
    ] = None
    level: Level = 0.05
    power: Annotated[InnerShare, common("The probability with which this is to succeed.")] = 0.8
    methods: Annotated[
        tuple[
            Literal[
                "auto",
                "friedman",
                "rank-norm",
                "clipped-norm",
                "clipped-batches",
                "pairs-norm",
                "local",
                "local-pairs",
                "open",
                "central",
            ],
            ...,
        ]
        | None,
        Setting(
            "Tests to compare, by default auto and local with an epsilon, friedman without; with first open, central and local.",
            "Tests",
        ),
    ] = None
    trials: Annotated[
        int, Range(ge=2, le=100_000), Setting("Simulated data sets for each number of people.", "Simulations")
    ] = 100
    seed: Annotated[int, Range(ge=0), Setting("Seed of the simulation.")] = 0

    def __post_init__(self) -> None:
        require(self.power > self.level, "power", got=self.power, want=f"more than the level ({self.level:g})")
        if self.first is not None:
            require(self.first < self.items, "first", got=self.first, want=f"fewer than the {self.items} items")
        for method in self.methods or ():
            fits = method == "local" or (method in ("open", "central")) == (self.first is not None)
            want = "open, central or local with first, and tests without"
            require(fits, "methods", got=method, want=want)
            if self.epsilon is None:
                require(method != "central", "epsilon", got=None, want="a number above 0 for central")
                require(method not in _NEED_EPSILON, "epsilon", got=None, want=f"a number above 0 for {method}")
            else:
                require(method != "friedman", "methods", got=method, want="a private test: friedman takes no epsilon")

    def plan(self, inputs: Inputs[None], context: Context) -> peerveil.rankings.PowerCurve:  # noqa: ARG002
        """Simulate, without a progress bar of its own."""
        return peerveil.rankings.plan_rankings(**self.arguments(), progress=False)


ACTIONS: Final[tuple[type[Action[Any]], ...]] = (
    RankConsensus,
    CompareRankings,
    RankingsTest,
    PlanRankings,
    RandomizeRankings,
    AggregateRankings,
)
