"""Actions of the calibration module: decide without naming the reviewer, and see beforehand what that costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import peerveil
from peerveil.core.errors import Verbatim
from peerveil.study.actions import Action, PlanAction, Setting, common
from peerveil.study.outcome import Outcome, OutcomePart
from peerveil.study.spelling import File, InnerShare, Range, ReviewsName, ScaleAndBias, Share, require
from peerveil.study.toml import SuggestedStep

if TYPE_CHECKING:
    from peerveil.calibration.fit import MiscalibrationFit
    from peerveil.data import Reviews
    from peerveil.study.execute import Context, Inputs

_NOTHING: Final = Verbatim("nothing")


class _Decisions(Action["Reviews"]):
    """What planning and deciding have in common: how many papers to accept, and how reviewers score."""

    kinds = ("reviews",)

    accept: Annotated[
        int | None, Range(ge=0, le=1_000_000), common("How many papers to accept.", "Papers to accept")
    ] = None
    accepted: Annotated[
        InnerShare | None,
        common(
            "Instead of a number: the share of all papers expected above the line, such as 0.25.",
            "Share of papers to accept",
        ),
    ] = None
    history: Annotated[
        tuple[ReviewsName, ...],
        common(
            "Reviews of past conferences, from which each reviewer's strictness (scale and bias) is fitted; the same people "
            "need the same names there.",
            "Past conference",
        ),
    ] = ()
    reviewers: Annotated[
        File | None,
        Setting(
            "Instead of a history: a table with reviewer, scale and bias, where score = scale * quality + bias.",
            "Known strictness",
        ),
    ] = None
    noise: Annotated[
        float | None,
        Range(ge=0),
        Setting("Standard deviation of scores; by default fitted with the history.", "Noise of scores"),
    ] = None
    draws: Annotated[
        int,
        Range(ge=1, le=50),
        Setting(
            "With a history: how many credible functions of each reviewer to average over; 1 takes the mean.",
            "Draws per reviewer",
        ),
    ] = 8
    iterations: Annotated[
        int,
        Range(ge=60, le=1_000_000),
        Setting("With a history: iterations of each of four chains.", "Iterations of the fit"),
    ] = 1500
    group_size: Annotated[
        int,
        Range(ge=2, le=6),
        common(
            "Papers whose committees could have been exchanged. Larger groups hide a writer among more people, and take "
            "longer."
        ),
    ] = 5
    exactly: Annotated[
        bool,
        Setting(
            "Accept exactly the number of papers; otherwise about as many, with fewer wrong decisions.", "Exact number"
        ),
    ] = True
    exchange: Annotated[
        Literal["committees", "reviews"],
        Setting("What could have been exchanged: whole committees, or also reviews within a committee (small groups)."),
    ] = "committees"

    def __post_init__(self) -> None:
        got = _NOTHING if self.accept is None else Verbatim("a number and a share")
        want = "a number of papers, or instead accepted: a share of all papers"
        require((self.accept is None) != (self.accepted is None), "accept", got=got, want=want)
        got = Verbatim("a history and reviewers") if self.history else _NOTHING
        want = "past conferences, or instead reviewers: a table of strictness"
        require(bool(self.history) != (self.reviewers is not None), "history", got=got, want=want)
        want = "the standard deviation of scores; it is fitted only with a history"
        require(self.reviewers is None or self.noise is not None, "noise", got=_NOTHING, want=want)

    def fit(self, inputs: Inputs[Reviews]) -> MiscalibrationFit | None:
        """Strictness learned from the past, once per run; None if it was given as a table."""
        if not self.history:
            return None
        fit: MiscalibrationFit | None
        fitted, fit = self.__dict__.get("_fit", (None, None))
        if fitted is not inputs:
            from peerveil.calibration.fit import fit_miscalibration, known_reviewers

            past = inputs.others["history"]
            known_reviewers(inputs.table, past)
            fit = fit_miscalibration(past, iterations=self.iterations, progress=False)
            object.__setattr__(self, "_fit", (inputs, fit))
        return fit

    def model(self, inputs: Inputs[Reviews]) -> dict[str, Any]:
        """How reviewers score, and how papers are accepted: the arguments of :class:`peerveil.calibration.Conference`."""
        inputs.table.require_reviewers("calibration")
        people = inputs.table.frame["reviewer"].unique().to_list()
        fit, noise = self.fit(inputs), self.noise
        functions: dict[Any, Any]
        if fit is None:
            assert self.reviewers is not None
            functions = peerveil.calibration.read_miscalibration(self.reviewers, reviewers=people)
        else:
            functions, noise = fit.functions(people, draws=self.draws), fit.noise if noise is None else noise
        accept = self.accept if self.accepted is None else peerveil.calibration.Threshold.share(self.accepted)
        settings = {name: getattr(self, name) for name in ("group_size", "exactly", "exchange")}
        return {"functions": functions, "noise": noise, "accept": accept, **settings}

    def conference(self, inputs: Inputs[Reviews]) -> peerveil.calibration.Conference:
        """The conference; building it refuses what could not be decided."""
        return peerveil.calibration.Conference(inputs.table, **self.model(inputs))


class DecideConference(_Decisions):
    """Decide a conference once."""

    name, title = "calibration.decide", "Decide a conference"
    about = "Accept papers, correcting for strict reviewers without revealing who reviewed what."
    details = (
        "Decide once: two decisions of the same reviews reveal more about who wrote what than one. With an account the decision "
        "is recorded, and a second one is refused. `peerveil calibration plan` shows what protection costs."
    )
    publishes = "which papers are accepted"
    operator = "how well each review is protected, with its writer"
    spends = once = recorded = drawn_once = True
    calls = "peerveil.calibration:Conference"
    examples = (
        "reviews.csv --history past.csv --accept 40 --adversary-error 0.5",
        "reviews.csv --reviewers truth_reviewers.csv --noise 0.5 --accepted 0.25 --adversary-error 0.5",
    )

    adversary_error: Annotated[
        Share,
        common(
            "How often the best guess of a review's writer shall be wrong, as far as the scores allow: 0.5 is half of the time.",
            "How often a guess of the writer shall be wrong",
        ),
    ]

    @classmethod
    def suggest(cls, table: Reviews) -> SuggestedStep | None:
        """A commented step: it needs a past conference."""
        if not table.has_reviewers:
            return None
        return SuggestedStep(
            "Which papers should be accepted, correcting for strict reviewers? Needs a past conference under [data].",
            {"history": ["past"], "adversary_error": 0.5, "accepted": 0.25},
            {"adversary_error": "the best guess of a review's writer is wrong at least this often"},
            commented=True,
        )

    def guarantee(self, inputs: Inputs[Reviews]) -> None:
        """None to debit: the guarantee is recorded once it is known."""
        self.conference(inputs)

    def cautions(self, inputs: Inputs[Reviews]) -> list[str]:
        """That it is done once, how much the past tells, and what the guarantee does not cover."""
        once = (
            "Decide once: two decisions of the same reviews reveal more about who wrote what than one. The account records "
            "this decision and refuses a second one."
        )
        return [once, *self._known_from_past(inputs), *self.conference(inputs).not_covered]

    def _known_from_past(self, inputs: Inputs[Reviews]) -> list[str]:
        from peerveil.calibration.fit import history_in_words

        return [history_in_words(inputs.table, inputs.others["history"])] if self.history else []

    def run(self, inputs: Inputs[Reviews], context: Context) -> Outcome:
        """Decide once."""
        context.progress(0.0, "fitting reviewers' strictness" if self.history else "deciding")
        conference = self.conference(inputs)
        context.progress(0.5, "deciding")
        decision, sheet = conference.decide(
            adversary_error=self.adversary_error, randomness=context.randomness, account=context.account, progress=False
        )
        figures, fit = decision.figures(), self.fit(inputs)
        public = OutcomePart(
            f"{figures['accepted']} of {figures['papers']} papers are accepted (decisions.csv); {decision.conference_error:.1%} "
            "of the decisions are expected to be wrong.",
            [
                f"{decision.protection}.",
                f"The expected share of papers on the wrong side of the line is {decision.conference_error:.3f}.",
                "The guarantee is about the review that is easiest to guess. What the scores alone reveal, no decision can hide.",
            ],
            figures,
        )
        public.csv("decisions.csv", decision.frame())
        public.json("decisions.json", decision)
        question = "Which papers should be accepted, correcting for strict reviewers?"
        outcome = Outcome.guaranteed(question, decision.guarantee, public=public)
        outcome.protect("the writer of one review", decision.guarantee)
        outcome.protect("all reviews by one person", "not guaranteed: each review by itself")
        outcome.attack = [
            "The guarantee is about one review, chosen before the decisions are known: an attacker who chooses the review "
            "afterwards, or knows more, can do better."
        ]
        history = [] if fit is None else [f"Fitted from the history: {fit.summary()}."]
        outcome.private = OutcomePart(
            findings=[f"{sheet.summary()}.", *conference.not_covered, *self._known_from_past(inputs), *history],
            results=sheet.figures(),
        )
        outcome.private.csv("sheet.csv", sheet.frame())
        caption = "How often the best adversary is wrong about a review's writer, against what the scores alone leave."
        outcome.figure(sheet.plot, caption, caption, public=False)
        return outcome


class PlanDecisions(_Decisions, PlanAction["Reviews"]):
    """What protection costs."""

    name, title = "calibration.plan", "Plan decisions"
    about = "Show how many wrong decisions it costs to protect who reviewed what."
    details = (
        "Nothing is decided or spent. Up to six reviews, each by another reviewer, are solved exactly, as one panel; otherwise "
        "papers are put into groups, as `peerveil calibration decide` does."
    )
    operator = "what protection costs: it is computed from scores and reviewers' strictness, which you hold"
    calls = "peerveil.calibration:plan_decisions"
    examples = (
        "reviews.csv --history past.csv --accept 40",
        "reviews.csv --reviewers truth_reviewers.csv --noise 0.5 --accepted 0.25 --demand 0 --demand 0.5 --demand 1",
    )
    question = "What does it cost to protect who reviewed what?"
    caption = "How often the adversary is wrong, against the share of wrong decisions."
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
        from peerveil.calibration.plan import check_adversary

        self.conference(inputs)
        check_adversary(inputs.table, self.adversary)

    def plan(self, inputs: Inputs[Reviews], context: Context) -> peerveil.core.result.Plan:
        """Try several demands."""
        context.progress(0.0, "fitting reviewers' strictness" if self.history else "deciding")
        model = self.model(inputs)
        context.progress(0.5, "trying demands")
        own = {name: getattr(self, name) for name in ("adversary", "demands", "most_groups")}
        return peerveil.calibration.plan_decisions(inputs.table, **own, **model, progress=False)


class SimulateDecisions(Action[None]):
    """Guaranteed against observed errors."""

    name, title = "calibration.simulate", "Simulate decisions"
    about = "Simulate decisions on synthetic papers against the best adversary: guaranteed and observed errors."
    publishes = "guaranteed and observed errors; no data are read"
    examples = (
        "--function 1:0.5 --function 0.7:-0.5 --noise 0.4 --share 0.6 --draws 20000",
        "--function 1:0.5 --function 0.7:-0.5 --function 1.2:0 --accept 1 --adversary-error 0.5 --draws 200",
    )

    functions: Annotated[
        tuple[ScaleAndBias, ...],
        common(
            "How each reviewer scores: score = scale * quality + bias. Two reviewers are pairs, more are panels.",
            "Reviewers",
        ),
    ] = ((1.0, 0.5), (0.7, -0.5))
    noise: Annotated[float, Range(ge=0), common("Standard deviation of scores.", "Noise of scores")] = 0.4
    share: Annotated[
        Share,
        Setting("Pairs: how much of the possible protection to use, from none (0) to all (1).", "Share of protection"),
    ] = 0.5
    accept: Annotated[int, Range(ge=0, le=20), Setting("Panels: how many papers to accept.", "Papers to accept")] = 1
    adversary_error: Annotated[
        Share, Setting("Panels: how often the best guess of a review's writer shall be wrong.", "Error of the guess")
    ] = 0.5
    draws: Annotated[
        int | None,
        Range(ge=1, le=10_000_000),
        Setting("How many pairs or panels to simulate; by default 100,000 pairs or 1,000 panels.", "Simulations"),
    ] = None
    seed: Annotated[int, Range(ge=0), Setting("The same seed gives the same papers.")] = 0

    def __post_init__(self) -> None:
        count = len(self.functions)
        require(count >= 2, "functions", got=Verbatim(f"{count}"), want="at least two reviewers")

    def run(self, inputs: Inputs[None], context: Context) -> Outcome:  # noqa: ARG002
        """Simulate pairs or panels."""
        from peerveil.calibration.simulate import simulate_decisions

        people = [peerveil.calibration.Affine(scale, bias) for scale, bias in self.functions]
        if len(people) > 2:
            context.progress(0.0, "simulating panels")
        simulation = simulate_decisions(people, **self.arguments(but=("functions",)))
        failed = simulation.farthest >= 5
        answer = (
            f"Guaranteed and observed errors {'DISAGREE' if failed else 'agree'} over {simulation.draws:,} draws (at most "
            f"{simulation.farthest:.1f} standard errors apart)."
        )
        part = OutcomePart(answer, [f"{simulation.conference}.", f"{simulation.adversary}."], simulation.to_dict())
        reason = "No data are read: papers and reviewers are synthetic."
        outcome = Outcome("Do guaranteed and observed errors agree?", reason, simulation.mark, part, failed=failed)
        caption = "Guaranteed errors (lines) and observed ones (points, with five standard errors)."
        outcome.figure(simulation.plot, simulation.summary(), caption, public=True)
        return outcome


ACTIONS: Final[tuple[type[Action[Any]], ...]] = (DecideConference, PlanDecisions, SimulateDecisions)
