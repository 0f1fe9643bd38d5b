"""Actions of the release module: publish how reviewers score, ask a chair's own questions, and plan both beforehand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import peerveil
from peerveil.core.errors import Verbatim
from peerveil.study.actions import Action, PlanAction, Setting, common
from peerveil.study.outcome import Outcome, OutcomePart, guess_percent, person_cautions, typical_and_most
from peerveil.study.spelling import Epsilon, File, InnerShare, OtherReviews, Range, Scale, require
from peerveil.study.toml import SuggestedStep

if TYPE_CHECKING:
    import polars as pl

    from peerveil.data import Reviews
    from peerveil.study.execute import Context, Inputs

_QUESTIONS: Final = {
    "rating": "How high do reviewers score on average?",
    "miscalibration": "How strict are reviewers?",
    "normalized": "How high do reviewers score, each on their own scale?",
    "subjectivity": "How much do reviewers differ from the community?",
}
_WROTE: Final = "wrote ({} reviews)"
_THIS_CONFERENCE: Final = "this conference"
ONE_REVIEW_EACH: Final = (
    "Everybody in this file wrote one review. If names are new for every paper, they are pseudonyms: how strict somebody is "
    "cannot be computed from them, and a release would only repeat the papers' scores."
)
ALL_HOLD: Final = (
    "The intervals of the shares hold for all of them at once with probability {:g}, whatever the truth: they follow from the "
    "public law of the noise."
)
SD_ASSUMES: Final = "The interval of the standard deviation assumes that strictness is roughly normal."
BAND_ASSUMES: Final = (
    "The band of each mean (means-{}.csv) assumes that strictness is roughly normal, heavy-tailed or of two groups, and holds "
    "for one reviewer at a time."
)
Weight = Annotated[
    Literal["miscalibration", "rating", "normalized", "subjectivity"],
    common(
        "What is averaged for each reviewer. Miscalibration is strictness: points above or below what others gave to the same "
        "papers.",
        "What is measured",
    ),
]
DeclaredScale = Annotated[
    Scale | None,
    common("Scores that the review form allows; by default those seen in the data.", "Lowest and highest score"),
]
Thresholds = Annotated[
    tuple[float, ...] | None,
    Setting(
        "Where to count reviewers, in points; by default chosen from public data. Never choose them by looking at who wrote "
        "what. Fewer thresholds get less noise each.",
    ),
]
Level = Annotated[InnerShare, Setting("Probability with which the intervals hold.", "Level of the intervals")]


class _Release(Action["Reviews"]):
    """What publishing and asking have in common."""

    def guarantee(self, inputs: Inputs[Reviews]) -> peerveil.Guarantee:
        """The mechanism's own."""
        from peerveil.release.mechanism import means_guarantee

        self.public(inputs)
        return means_guarantee(self.arguments()["epsilon"])

    def public(self, inputs: Inputs[Reviews]) -> list[peerveil.release.PublicScores]:
        """The public part of every table; building it refuses what could not be released."""
        return [_public(self, table) for table in self.debited(inputs)]

    def loads(self, inputs: Inputs[Reviews]) -> tuple[int, int]:
        """How many reviews a typical reviewer wrote, and the busiest: public."""
        return typical_and_most([load for public in self.public(inputs) for load in public.loads])

    def cautions(self, inputs: Inputs[Reviews]) -> list[str]:
        """How strongly everything of one reviewer is protected; names that say nothing."""
        loads = self.loads(inputs)
        cautions = person_cautions("reviewer", _WROTE, loads, self.guarantee(inputs).group)
        return [ONE_REVIEW_EACH] if loads == (1, 1) else cautions

    def protect(self, outcome: Outcome, guarantee: peerveil.Guarantee, inputs: Inputs[Reviews]) -> None:
        """State what is protected, and what the best guess of somebody who knows nearly everything is worth."""
        outcome.protect_person("who wrote one review", "reviewer", _WROTE, self.loads(inputs), guarantee.group)
        outcome.best_guess("Somebody who knows the author of every review but two guesses these two", guarantee)


class PublishMeans(_Release):
    """Publish the distribution of reviewers' means."""

    name, title = "release.publish", "Publish the distribution"
    about = "Publish the distribution of reviewer strictness or scores with differential privacy."
    details = (
        "Assumes that the scores of every paper and the number of reviews by each reviewer are public. `peerveil release plan` "
        "shows from which epsilon on this tells more than public scores, from public data alone."
    )
    publishes = "shares of reviewers below thresholds, and the sorted means of all reviewers, without names, with noise"
    kinds = ("reviews",)
    spends = True
    calls = "peerveil.release:publish"
    examples = (
        "reviews.csv --epsilon 1 --scale 1:10",
        "reviews.csv --epsilon 1 --threshold -1 --threshold 1",
        "reviews.csv --weight rating --epsilon 1 --ledger budget.db --account iclr-2026",
    )

    epsilon: Annotated[Epsilon, common("Privacy budget (epsilon) of this release. Smaller is more private.")]
    weight: Weight = "miscalibration"
    scale: DeclaredScale = None
    thresholds: Thresholds = None
    level: Level = 0.95
    attack: Annotated[
        bool,
        Setting(
            "Also measure the best attack on one exchange of reviews in these data, for the operator.",
            "Measure the attack",
        ),
    ] = False

    @classmethod
    def suggest(cls, table: Reviews) -> SuggestedStep | None:
        """How strict reviewers are, if the file says who they are."""
        if not table.has_reviewers:
            return None
        low, high = float(table.scores.min()), float(table.scores.max())
        return SuggestedStep(
            "How strict are reviewers? Published with differential privacy. Assumes that papers' scores and the number of "
            "reviews by each reviewer are public: they are not protected. "
            f"`peerveil release plan FILE --weight miscalibration --scale {low:g}:{high:g}` says from which epsilon on this "
            "tells more than public scores.",
            {"epsilon": 1, "weight": "miscalibration", "scale": [low, high]},
            {
                "weight": "strictness (below 0 is stricter); or rating, normalized, subjectivity",
                "scale": "lowest and highest score that the form allows (here: as seen; please check)",
            },
        )

    def guarantee(self, inputs: Inputs[Reviews]) -> peerveil.Guarantee:
        """The mechanism's own."""
        _check_thresholds(self.thresholds)
        return super().guarantee(inputs)

    def run(self, inputs: Inputs[Reviews], context: Context) -> Outcome:
        """Publish once."""
        from peerveil.release.figures import draw_release
        from peerveil.release.mechanism import ASSUMES_PUBLIC

        published: peerveil.release.PublishedMeans = self.call(
            inputs.table, but=("attack",), randomness=context.randomness, account=context.account
        )
        summary, beyond_public = f"{published.summary()}.", published.beyond_public()
        assumptions = [ALL_HOLD.format(self.level), SD_ASSUMES, BAND_ASSUMES.format(self.weight)]
        says_more = published.spread is not None and published.spread.reject
        part = OutcomePart(
            f"{published.headline}." if says_more else f"{beyond_public} Published: {published.headline}.",
            [summary, beyond_public, *(assumptions if published.spread else ()), ASSUMES_PUBLIC],
            {
                "weight": self.weight,
                "level": self.level,
                "shares": published.shares.to_dicts(),
                "strictness_sd": published.strictness_sd,
                "strictness_interval": list(published.strictness_interval),
                "means": published.means.tolist(),
            },
        )
        part.csv("shares.csv", published.shares)
        part.csv(f"means-{self.weight}.csv", published.frame())
        part.json(f"means-{self.weight}.json", published)
        part.table(_SHARE_COLUMNS, _cells(published.shares))
        outcome = Outcome.guaranteed(_QUESTIONS[self.weight], published.guarantee, public=part)
        outcome.figure(
            lambda left, right: draw_release(published, left, right),
            f"{summary} {beyond_public}",
            f"Left: the share of reviewers at or below each threshold; the intervals hold together with probability "
            f"{self.level:g}, whatever the truth. Right: the means sorted from the lowest to the highest (blue) with the band of "
            "each, which assumes a family, beside what chance alone would give (dashed).",
            public=True,
            columns=2,
        )
        self.protect(outcome, published.guarantee, inputs)
        outcome.attack.append(f"For all reviews of one reviewer: {published.reviewer_guarantee.short}")
        if self.attack:
            outcome.private.findings += self._measured_attack(published, inputs.table)
        return outcome

    def _measured_attack(self, published: peerveil.release.PublishedMeans, table: Reviews) -> list[str]:
        """How often the best attack on one exchange of reviews succeeds on these data, for the operator."""
        import numpy as np

        from peerveil.release.adversary import swap_attack

        public = _public(self, table)
        if public.reviewers < 2:
            return []
        values = peerveil.release.review_weights(table, weight=self.weight, scale=self.scale).values
        rows = np.column_stack([table.numbered("reviewer")[0], values, table.numbered("paper")[0]])
        attack = swap_attack(
            public,
            rows,
            epsilon=self.epsilon,
            thresholds=published.thresholds.tolist(),
            trials=1000,
            randomness=peerveil.Randomness.simulation(0),
        )
        return [
            f"Measured on these data: an attacker who knows everything except which of two people wrote which of two reviews "
            f"is correct {100 * attack.right:.1f}% of the time ({100 * attack.worst_right:.1f}% on the exchange that shows "
            f"most, give or take {200 * attack.error:.1f}); the guarantee allows {guess_percent(published.guarantee)}%."
        ]


class AskStrictness(_Release):
    """Answer a chair's own questions."""

    name, title = "release.ask", "Ask how many are strict"
    about = "Answer how many reviewers are strict, how far they differ, and whether groups or years differ."
    details = (
        "A chair's own questions need few counts, which get little noise: at epsilon 1 within 5 reviewers for one group. "
        "Groups of reviewers and several conferences are asked together with one epsilon. Assumes that the scores of every "
        "paper, the number of reviews by each reviewer and the groups are public."
    )
    publishes = "for each group the share of strict and of lenient reviewers and the spread of strictness, with noise"
    kinds = ("reviews",)
    spends = True
    calls = "peerveil.release:ask"
    examples = (
        "reviews.csv --epsilon 1 --stricter-than 1 --scale 1:10",
        "reviews.csv --epsilon 1 --groups seniority.csv --ledger budget.db --account iclr-2026",
        "reviews.csv --epsilon 1 --compare last-year.csv",
    )

    epsilon: Annotated[Epsilon, common("Privacy budget (epsilon) of all answers together. Smaller is more private.")]
    stricter_than: Annotated[
        float | None,
        Range(ge=1e-6, le=1e6),
        common(
            "By how many points below average somebody counts as strict (and above it as lenient); by default where counts say "
            "most about how far reviewers differ.",
            "Strict means stricter by (points)",
        ),
    ] = None
    groups: Annotated[
        File | None,
        common("The group of each reviewer, which is public: a table with reviewer and group.", "Groups of reviewers"),
    ] = None
    compare: Annotated[
        tuple[OtherReviews, ...],
        common(
            "Reviews of other conferences, such as last year's, to compare with. Each is debited this epsilon.",
            "Other conference",
        ),
    ] = ()
    weight: Weight = "miscalibration"
    scale: DeclaredScale = None
    level: Level = 0.95

    def debited(self, inputs: Inputs[Reviews]) -> list[Reviews]:
        """The conference and those it is compared with."""
        return [inputs.table, *inputs.others.get("compare", ())]

    def guarantee(self, inputs: Inputs[Reviews]) -> peerveil.Guarantee:
        """The mechanism's own."""
        tables = self.debited(inputs)
        got = Verbatim("the same reviews twice")
        is_new = len({table.identity for table in tables}) == len(tables)
        require(is_new, "compare", got=got, want="conferences that are not the same")
        if self.groups is not None:
            from peerveil.release.ask import read_groups

            read_groups(self.groups)
        return super().guarantee(inputs)

    def conferences(self, inputs: Inputs[Reviews]) -> Any:
        """The table, or all tables by name."""
        if not self.compare:
            return inputs.table
        stems = [Path(name).stem for name in self.compare]
        are_different = len({_THIS_CONFERENCE, *stems}) == len(stems) + 1
        names = stems if are_different else [f"conference {number}" for number in range(2, len(stems) + 2)]
        return dict(zip((_THIS_CONFERENCE, *names), self.debited(inputs), strict=True))

    def run(self, inputs: Inputs[Reviews], context: Context) -> Outcome:
        """Answer once."""
        from peerveil.release.mechanism import ASSUMES_PUBLIC

        answer: peerveil.release.StrictnessAnswer = self.call(
            self.conferences(inputs), but=("compare",), randomness=context.randomness, account=context.account
        )
        summary = answer.summary()
        part = OutcomePart(
            summary,
            [summary, ALL_HOLD.format(self.level), SD_ASSUMES, ASSUMES_PUBLIC],
            {"weight": self.weight, "level": self.level, "groups": answer.frame().to_dicts()},
        )
        part.csv("answer.csv", answer.frame())
        part.json("answer.json", answer)
        if answer.differences:
            part.csv("differences.csv", answer.comparison())
        part.table(list(_GROUP_COLUMNS.values()), _cells(answer.frame().select(*_GROUP_COLUMNS)))
        outcome = Outcome.guaranteed("How many reviewers are strict?", answer.guarantee, public=part)
        outcome.figure(
            answer.plot,
            summary,
            "The share of strict reviewers with intervals that hold together, whatever the truth, beside what chance alone would "
            "give (bars across).",
            public=True,
            height=max(2.0, 1.4 + 0.4 * len(answer.groups)),
        )
        self.protect(outcome, answer.guarantee, inputs)
        return outcome


_SHARE_COLUMNS: Final = ("threshold", "at or below (%)", "lowest", "highest", "above (%)", "lowest", "highest")
_GROUP_COLUMNS: Final = {
    "group": "group",
    "reviewers": "reviewers",
    "points": "by points",
    "stricter": "stricter (%)",
    "stricter_lower": "lowest",
    "stricter_upper": "highest",
    "stricter_by_chance": "by chance (%)",
    "more_lenient": "more lenient (%)",
    "strictness_sd": "SD of strictness",
}
_PARTS: Final = ("", "_lower", "_upper", "_by_chance")
_SHARES: Final = {share + part for share in ("below", "above", "stricter", "more_lenient") for part in _PARTS}


def _cells(frame: pl.DataFrame) -> list[list[Any]]:
    """Rows of a table with shares in percent, as people read them."""
    return [
        [f"{100 * value:.3g}" if name in _SHARES else value for name, value in row.items()] for row in frame.to_dicts()
    ]


class PlanRelease(PlanAction["Reviews"]):
    """What each epsilon would give, from public data alone."""

    name, title = "release.plan", "Plan a release"
    about = "Show from which epsilon on a release would tell more than public scores, from public data alone."
    details = "Only public data are used, so planning costs nothing and reveals nothing about who wrote what."
    publishes = "the plan, which does not depend on who wrote what"
    kinds = ("reviews",)
    calls = "peerveil.release:plan_release"
    examples = (
        "reviews.csv --scale 1:10",
        "reviews.csv --epsilon 0.5 --epsilon 1 --epsilon 2 --strictness 0 --strictness 0.5",
    )
    question = "Would a release tell more than public scores?"
    caption = "Expected error against epsilon, by how far reviewers differ; dashed: from public data alone."
    costs_nothing = "Computed from public data alone: nothing is spent, and nothing is revealed about who wrote what."

    epsilons: Annotated[tuple[Epsilon, ...], common("Privacy budgets (epsilon) to try.", "Epsilons to try")] = (
        "0.1",
        "0.3",
        "1",
        "3",
        "10",
    )
    weight: Weight = "miscalibration"
    scale: DeclaredScale = None
    strictness: Annotated[
        tuple[Annotated[float, Range(ge=0)], ...] | None,
        common(
            "Standard deviations of reviewers' strictness that you think plausible, in points; by default 0, 0.2 and 0.4 "
            "standard deviations of the public scores.",
            "Plausible strictness",
        ),
    ] = None
    thresholds: Thresholds = None
    trials: Annotated[
        int, Range(ge=2, le=1000), Setting("Simulated releases for each epsilon and strictness.", "Simulations")
    ] = 100

    def guarantee(self, inputs: Inputs[Reviews]) -> None:
        """None: only public data are used."""
        _check_thresholds(self.thresholds)
        _public(self, inputs.table)


def _public(action: Action[Reviews], table: Reviews) -> peerveil.release.PublicScores:
    """The public part of the scores; building it refuses what could not be published."""
    arguments = action.arguments()
    return peerveil.release.PublicScores.of(table, weight=arguments["weight"], scale=arguments["scale"])


def _check_thresholds(thresholds: tuple[float, ...] | None) -> None:
    from peerveil.release.mechanism import check_thresholds

    check_thresholds(thresholds)


ACTIONS: Final[tuple[type[Action[Any]], ...]] = (PublishMeans, AskStrictness, PlanRelease)
