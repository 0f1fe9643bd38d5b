"""Actions of the calibration module: decide without naming the reviewer, and see beforehand what that costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import peerveil
from peerveil.core.errors import Verbatim
from peerveil.study.actions import Action, PlanAction, Setting, common
from peerveil.study.calibration_model import DecisionModel, GroupedModel
from peerveil.study.calibration_scores import CalibrateScores
from peerveil.study.calibration_simulate import SimulateDecisions
from peerveil.study.outcome import Outcome, OutcomePart
from peerveil.study.spelling import Epsilon, Range, Share, require
from peerveil.study.toml import SuggestedStep

if TYPE_CHECKING:
    from peerveil.core.guarantee import Guarantee
    from peerveil.data import Reviews
    from peerveil.study.execute import Context, Inputs

_NOTHING: Final = Verbatim("nothing")


class DecideConference(GroupedModel):
    """Decide a conference once."""

    name, title = "calibration.decide", "Decide a conference"
    about = "Accept papers, correcting for strict reviewers without revealing who reviewed what."
    details = (
        "Three guarantees: with neither `adversary_error` nor `epsilon`, groups of papers are decided by their scores alone, "
        "which gives nothing away to anybody who knows the groups; with an adversary error, the best guess of a writer is wrong "
        "that often; with an epsilon, decisions are differentially private and debited (`peerveil calibration leak` compares). "
        "Decide once: two decisions of the same reviews reveal more about who wrote what than one. With an account the decision "
        "is recorded, and a second one is refused."
    )
    publishes = "which papers are accepted"
    operator = "how well each review is protected, with its writer"
    spends = once = recorded = drawn_once = True
    calls = "peerveil.calibration:Conference"
    examples = (
        "reviews.csv --history past.csv --accept 40 --group-size 2 --exchange single",
        "reviews.csv --reviewers truth_reviewers.csv --noise 0.5 --accepted 0.25 --adversary-error 0.5 --capped",
    )

    adversary_error: Annotated[
        Share | None,
        common(
            "How often the best guess of a review's writer shall be wrong: 0.5 is half of the time. Refused if the scores of "
            "some review make it impossible. By default decisions are made from the scores alone.",
            "How often a guess of the writer shall be wrong",
        ),
    ] = None
    capped: Annotated[
        bool,
        Setting(
            "Where the scores of a review leave less than the adversary error, protect it as far as they allow, instead of "
            "refusing.",
            "As far as the scores allow",
        ),
    ] = False
    epsilon: Annotated[
        Epsilon | None,
        Setting(
            "Instead: privacy budget (epsilon) for an exchange of two reviews between their writers; accepts exactly the number "
            "of papers.",
            "Epsilon",
        ),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        want = "no adversary_error beside it: one guarantee for one decision"
        require(self.epsilon is None or self.adversary_error is None, "epsilon", got=self.epsilon, want=want)
        want = "a number of papers to accept, exactly, with an epsilon"
        require(self.epsilon is None or (self.accept is not None and self.exactly), "accept", got=_NOTHING, want=want)

    @classmethod
    def suggest(cls, table: Reviews) -> SuggestedStep | None:
        """A commented step: it needs a past conference."""
        if not table.has_reviewers:
            return None
        return SuggestedStep(
            "Which papers should be accepted, correcting for strict reviewers? Needs a past conference under [data].",
            {"history": ["past"], "accepted": 0.25, "group_size": 2, "exchange": "single"},
            {"group_size": "from the scores alone: which of two papers a review belongs to stays a secret"},
            commented=True,
        )

    def guarantee(self, inputs: Inputs[Reviews]) -> Guarantee | None:
        """The epsilon; without one there is nothing to debit, and the guarantee is recorded once it is known."""
        conference = self.conference(inputs)
        if self.adversary_error is not None and not self.capped:
            conference.require_possible(self.adversary_error)
        return None if self.epsilon is None else conference.lottery(self.epsilon).guarantee

    def cautions(self, inputs: Inputs[Reviews]) -> list[str]:
        """That it is done once, how much the past tells, and what the guarantee does not cover."""
        once = (
            "Decide once: two decisions of the same reviews reveal more about who wrote what than one. The account records "
            "this decision and refuses a second one."
        )
        not_covered = self.conference(inputs).not_covered if self.epsilon is None else []
        return [once, *self._known_from_past(inputs), *not_covered]

    def _known_from_past(self, inputs: Inputs[Reviews]) -> list[str]:
        from peerveil.calibration.fit import history_in_words

        return [history_in_words(inputs.table, inputs.others["history"])] if self.history else []

    def run(self, inputs: Inputs[Reviews], context: Context) -> Outcome:
        """Decide once."""
        context.progress(0.0, "fitting reviewers' strictness" if self.history else "deciding")
        conference = self.conference(inputs)
        context.progress(0.5, "deciding")
        own = {name: getattr(self, name) for name in ("adversary_error", "epsilon", "per_decision", "capped")}
        decision, sheet = conference.decide(
            **own, randomness=context.randomness, account=context.account, progress=False
        )
        figures, fit = decision.figures(), self.fit(inputs)
        answer = f"{figures['accepted']} of {figures['papers']} papers are accepted (decisions.csv)"
        findings: list[Any] = [f"{decision.protection}.", "What the scores alone reveal, no decision can hide."]
        if decision.conference_error is not None:
            answer += (
                f"; {decision.conference_error:.1%} of the decisions are expected to be wrong, {decision.plain_error:.1%} by the "
                "plain mean"
            )
            findings.append("The guarantee is about the review that is easiest to guess.")
        public = OutcomePart(f"{answer}.", findings, figures)
        public.csv("decisions.csv", decision.frame())
        public.json("decisions.json", decision)
        question = "Which papers should be accepted, correcting for strict reviewers?"
        outcome = Outcome.guaranteed(question, decision.guarantee, public=public)
        outcome.protect("the writer of one review", decision.guarantee)
        outcome.protect("all reviews by one person", "not guaranteed: each review by itself")
        if self.epsilon is None:
            after = (
                ""
                if self.per_decision or self.adversary_error is None
                else " chooses the review after the decisions, or"
            )
            outcome.attack = [
                f"The guarantee is about one review at a time: an attacker who{after} knows more can do better."
            ]
        history = [] if fit is None else [f"Fitted from the history: {fit.summary()}."]
        outcome.private = OutcomePart(
            findings=[f"{sheet.summary()}.", *self.cautions(inputs)[1:], *history],
            results=sheet.figures(),
        )
        outcome.private.csv("sheet.csv", sheet.frame())
        caption = "How often the best adversary is wrong about a review's writer, against what the scores alone leave."
        if self.epsilon is not None:
            caption = "How likely every paper was accepted, against its plain mean."
        outcome.figure(sheet.plot, caption, caption, public=False)
        return outcome


class PlanDecisions(GroupedModel, PlanAction["Reviews"]):
    """Whether calibration would help, and what protection costs."""

    name, title = "calibration.plan", "Plan decisions"
    about = "Show whether calibration would help here and, with known strictness, what it costs to protect who reviewed what."
    details = (
        "Nothing is decided or spent. From this year's scores alone it shows the expected gain of calibration. With a history or "
        "a table of strictness it shows what protection costs: up to six reviews, each by another reviewer, are solved exactly, "
        "as one panel; otherwise papers are put into groups, as `peerveil calibration decide` does."
    )
    operator = "what calibration gains or protection costs: it is computed from scores and reviewers, which you hold"
    calls = "peerveil.calibration:plan_decisions"
    from_scores = True
    examples = (
        "reviews.csv --accepted 0.25",
        "reviews.csv --history past.csv --accept 40",
        "reviews.csv --reviewers truth_reviewers.csv --noise 0.5 --accepted 0.25 --demand 0 --demand 0.5 --demand 1",
    )
    question = "Would calibration help, and what does it cost to protect who reviewed what?"
    caption = "The expected gain of calibration, or what protection costs."
    costs_nothing = "Nothing is decided or spent."

    adversary: Annotated[
        Literal["paper", "assignment"],
        Setting(
            "Whom to protect against: somebody who guesses the writer of one review, or (one panel) of all reviews."
        ),
    ] = "paper"
    demands: Annotated[
        tuple[Share, ...],
        common(
            "For a conference: how often the best guess of a review's writer shall be wrong, values to try.",
            "Errors of the guess to try",
        ),
    ] = (0.0, 0.2, 0.35, 0.5, 0.65, 0.8, 1.0)
    most_groups: Annotated[
        int, Range(ge=1, le=1_000_000), Setting("For a conference: groups to try, evenly chosen.", "Groups to try")
    ] = 100

    def guarantee(self, inputs: Inputs[Reviews]) -> None:
        """None: who reviewed what is not used."""
        from peerveil.calibration.calibrate import check_scores
        from peerveil.calibration.plan import check_adversary

        if self.history or self.reviewers:
            self.conference(inputs)
            check_adversary(inputs.table, self.adversary)
        else:
            check_scores(inputs.table, accept=self.places)

    def plan(self, inputs: Inputs[Reviews], context: Context) -> peerveil.core.result.Plan:
        """Try several demands."""
        if not (self.history or self.reviewers):
            context.progress(0.0, "calibrating")
            return peerveil.calibration.plan_decisions(inputs.table, accept=self.places)
        context.progress(0.0, "fitting reviewers' strictness" if self.history else "deciding")
        model = self.model(inputs)
        context.progress(0.5, "trying demands")
        own = {name: getattr(self, name) for name in ("adversary", "demands", "most_groups", "per_decision")}
        return peerveil.calibration.plan_decisions(inputs.table, **own, **model, progress=False)


class LeakOfDecisions(DecisionModel, PlanAction["Reviews"]):
    """What decisions would give away."""

    name, title = "calibration.leak", "Gain and leak of decisions"
    about = "Show what each way to decide would gain, and what it would reveal about who wrote which review."
    details = (
        "Conferences are simulated on this assignment with these reviewers; the scores themselves are not used, and nothing is "
        "decided or spent. Compared are the plain mean, open calibration, announced groups decided by their scores alone, the "
        "panels of `peerveil calibration decide --adversary-error`, its differential privacy, and committees balanced before "
        "review. Leak is how often an attacker who knows everything else guesses right which of two reviewers wrote which of two "
        "reviews."
    )
    operator = "gain and leak: computed from who reviews what and reviewers' strictness, which you hold"
    calls = "peerveil.calibration:plan_leak"
    examples = (
        "reviews.csv --history past.csv --accept 40",
        "reviews.csv --reviewers truth_reviewers.csv --noise 0.5 --accept 40 --epsilon 4 --epsilon 8 --conferences 50",
    )
    question = "What would calibrated decisions gain, and what would they give away?"
    caption = "Gain over the plain mean against what decisions add to what the scores give away; up and left is better."
    costs_nothing = "Nothing is decided or spent."

    group_sizes: Annotated[
        tuple[int, ...],
        Setting("Sizes of announced groups to try; panels and the attack use the first.", "Sizes of groups"),
    ] = (2, 3)
    epsilons: Annotated[tuple[Epsilon, ...], Setting("Privacy budgets (epsilon) to try.", "Epsilons")] = (
        "4",
        "8",
        "16",
    )
    demands: Annotated[
        tuple[Share, ...],
        Setting("Adversary errors of panels to try, as far as the scores allow.", "Errors of the guess"),
    ] = (0.3,)
    conferences: Annotated[
        int, Range(ge=1, le=10_000), common("How many conferences to simulate.", "Simulated conferences")
    ] = 20
    seed: Annotated[int, Range(ge=0), Setting("The same seed gives the same conferences.")] = 0

    def guarantee(self, inputs: Inputs[Reviews]) -> None:
        """None: nothing is decided."""
        self.model(inputs)

    def plan(self, inputs: Inputs[Reviews], context: Context) -> peerveil.core.result.Plan:
        """Simulate."""
        context.progress(0.0, "fitting reviewers' strictness" if self.history else "simulating")
        model = self.model(inputs)
        context.progress(0.3, "simulating conferences")
        own = {name: getattr(self, name) for name in ("group_sizes", "epsilons", "demands", "conferences", "seed")}
        return peerveil.calibration.plan_leak(inputs.table, **own, **model, progress=False)

    def report(self, plan: Any, **options: Any) -> Outcome:
        """Gains in points of the best papers, guesses in percent."""
        columns = ["option", "gain (points)", "right guesses", "near the line", "certain", "certain near the line"]
        rows = [
            (
                one.name,
                f"{100 * one.gain:+.1f} ± {100 * one.gain_error:.1f}",
                *(f"{share:.1%}" for share in one.guesses),
            )
            for one in plan.options
        ]
        return super().report(plan, cells=(columns, rows), **options)


ACTIONS: Final[tuple[type[Action[Any]], ...]] = (
    CalibrateScores,
    PlanDecisions,
    LeakOfDecisions,
    DecideConference,
    SimulateDecisions,
)
