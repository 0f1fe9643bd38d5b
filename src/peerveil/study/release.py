"""Actions of the release module: publish how reviewers score, and see beforehand what an epsilon gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import peerveil
from peerveil.study.actions import Action, PlanAction, Setting, common
from peerveil.study.outcome import Outcome, OutcomePart, guess_percent, person_cautions, typical_and_most
from peerveil.study.spelling import Epsilon, Range, Scale
from peerveil.study.toml import SuggestedStep

if TYPE_CHECKING:
    from peerveil.data import Reviews
    from peerveil.study.execute import Context, Inputs

# the question, what is measured, and which way is which
_WORDS: Final = {
    "rating": ("How high do reviewers score on average?", "mean score", ""),
    "miscalibration": (
        "How strict are reviewers?",
        "strictness",
        " (points above or below what others gave to the same papers; negative is stricter)",
    ),
    "normalized": ("How high do reviewers score, each on their own scale?", "mean normalized score", ""),
    "subjectivity": ("How much do reviewers differ from the community?", "mean subjectivity", ""),
}
_WROTE: Final = "wrote ({} reviews)"
ONE_REVIEW_EACH: Final = (
    "Everybody in this file wrote one review. If names are new for every paper, they are pseudonyms: how strict somebody is "
    "cannot be computed from them, and a release would only repeat the papers' scores."
)
Weight = Annotated[
    Literal["rating", "miscalibration", "normalized", "subjectivity"],
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
Bounds = Annotated[
    Literal["counting", "range"],
    Setting(
        "Which means are possible given public data: by counting scores, which is tighter, or by their range alone.",
        "Range of the means",
    ),
]


class PublishMeans(Action["Reviews"]):
    """Publish the distribution of reviewers' means."""

    name, title = "release.publish", "Publish the distribution"
    about = "Publish the distribution of reviewer scores with differential privacy."
    details = (
        "Assumes that the scores of every paper and the number of reviews by each reviewer are public. `peerveil release plan` "
        "shows how accurate each epsilon would be, from public data alone."
    )
    publishes = "the sorted means of all reviewers, without names, with noise"
    kinds = ("reviews",)
    spends = True
    calls = "peerveil.release:publish"
    examples = (
        "reviews.csv --epsilon 1 --scale 1:10",
        "reviews.csv --weight miscalibration --epsilon 1 --ledger budget.db --account iclr-2026",
    )

    epsilon: Annotated[Epsilon, common("Privacy budget (epsilon) of this release. Smaller is more private.")]
    weight: Weight = "rating"
    scale: DeclaredScale = None
    bounds: Bounds = "counting"
    estimate: Annotated[
        Literal["auto", "projection", "shrinkage", "none"],
        Setting(
            "Post-processing of the noisy means; auto is shrinkage, none publishes them as drawn.", "Post-processing"
        ),
    ] = "auto"
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
            f"`peerveil release plan FILE --weight miscalibration --scale {low:g}:{high:g}` shows the accuracy of each epsilon.",
            {"epsilon": 1, "weight": "miscalibration", "scale": [low, high]},
            {
                "weight": "strictness (below 0 is stricter); or rating, normalized, subjectivity",
                "scale": "lowest and highest score that the form allows (here: as seen; please check)",
            },
        )

    def guarantee(self, inputs: Inputs[Reviews]) -> peerveil.Guarantee:
        """The mechanism's own."""
        from peerveil.release import LaplaceMeans

        return LaplaceMeans(epsilon=self.epsilon).guarantee(_public(self, inputs.table))

    def cautions(self, inputs: Inputs[Reviews]) -> list[str]:
        """How strongly everything of one reviewer is protected; names that say nothing."""
        loads = typical_and_most(_public(self, inputs.table).loads)
        cautions = person_cautions("reviewer", _WROTE, loads, self.guarantee(inputs).group)
        return [ONE_REVIEW_EACH] if loads == (1, 1) else cautions

    def run(self, inputs: Inputs[Reviews], context: Context) -> Outcome:
        """Publish once."""
        import numpy as np

        from peerveil.release.figures import draw_release
        from peerveil.release.mechanism import ASSUMES_PUBLIC

        table = inputs.table
        published: peerveil.release.PublishedMeans = self.call(
            table, but=("attack",), randomness=context.randomness, account=context.account
        )
        question, noun, sign = _WORDS[self.weight]
        low, high = np.quantile(published.means, [0.1, 0.9])
        summary, beyond_public = f"{published.summary()}.", published.beyond_public()
        part = OutcomePart(
            f"For 80% of reviewers their {noun} is between {low:.3g} and {high:.3g}{sign}. {beyond_public}",
            [summary, beyond_public, ASSUMES_PUBLIC],
            {"weight": self.weight, "estimate": published.estimate, "means": published.means.tolist()},
            files={f"means-{self.weight}.csv": published.to_csv()},
        )
        part.json(f"means-{self.weight}.json", published)
        outcome = Outcome.guaranteed(question, published.guarantee, public=part)
        outcome.figure(
            lambda left, right: draw_release(published, left, right),
            f"{summary} {beyond_public}",
            "Left: how many reviewers lie where, as published. Right: the same sorted from the lowest to the highest (blue), "
            "within what the public data allow (gray), and what chance would give (dashed).",
            public=True,
            columns=2,
        )
        loads = typical_and_most(_public(self, table).loads)  # public
        outcome.protect_person("who wrote one review", "reviewer", _WROTE, loads, published.guarantee.group)
        outcome.best_guess(
            "Somebody who knows the author of every review but two guesses these two", published.guarantee
        )
        outcome.attack.append(f"For all reviews of one reviewer: {published.reviewer_guarantee.short}")
        if self.attack:
            outcome.private.findings += self._measured_attack(published, table)
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
        randomness = peerveil.Randomness.simulation(0)
        attack = swap_attack(public, rows, epsilon=self.epsilon, trials=1000, randomness=randomness)
        return [
            f"Measured on these data: an attacker who knows everything except which of two people wrote which of two reviews "
            f"is correct {100 * attack.right:.1f}% of the time ({100 * attack.worst_right:.1f}% on the exchange that shows "
            f"most, give or take {200 * attack.error:.1f}); the guarantee allows {guess_percent(published.guarantee)}%."
        ]


class PlanRelease(PlanAction["Reviews"]):
    """What each epsilon would give, from public data alone."""

    name, title = "release.plan", "Plan a release"
    about = "Show how accurate a release would be at each epsilon, from public data alone."
    details = "Only public data are used, so planning costs nothing and reveals nothing about who wrote what."
    publishes = "the plan, which does not depend on who wrote what"
    kinds = ("reviews",)
    calls = "peerveil.release:plan_release"
    examples = ("reviews.csv --weight miscalibration --scale 1:10", "reviews.csv --epsilon 0.5 --epsilon 1 --epsilon 2")
    question = "How accurate would a release be?"
    caption = "Expected error against epsilon, by how strongly reviewers differ."
    costs_nothing = "Computed from public data alone: nothing is spent, and nothing is revealed about who wrote what."

    epsilons: Annotated[tuple[Epsilon, ...], common("Privacy budgets (epsilon) to try.", "Epsilons to try")] = (
        "0.1",
        "0.3",
        "1",
        "3",
        "10",
    )
    weight: Weight = "rating"
    scale: DeclaredScale = None
    bounds: Bounds = "counting"
    trials: Annotated[int, Range(ge=2, le=1000), Setting("Simulated releases for each epsilon.", "Simulations")] = 20

    def guarantee(self, inputs: Inputs[Reviews]) -> None:
        """None: only public data are used."""
        _public(self, inputs.table)


def _public(action: PublishMeans | PlanRelease, table: Reviews) -> peerveil.release.PublicScores:
    """The public part of the scores; building it refuses what could not be published."""
    return peerveil.release.PublicScores.of(table, weight=action.weight, scale=action.scale)


ACTIONS: Final[tuple[type[Action[Any]], ...]] = (PublishMeans, PlanRelease)
