"""Steps of the release room: publish how reviewers score, and see beforehand what an epsilon buys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from peerveil.guarantee import odds_in_words
from peerveil.randomness import Randomness
from peerveil.release import PublicScores, plan_release, publish, review_weights
from peerveil.release.adversary import swap_attack
from peerveil.release.figures import draw_release
from peerveil.release.mechanism import ASSUMES_PUBLIC, LaplaceMeans
from peerveil.study.outcome import Outcome
from peerveil.study.step import REQUIRED, Option, Step, epsilon, list_of, one_of, pair_of_numbers, whole

if TYPE_CHECKING:
    from peerveil.guarantee import Guarantee
    from peerveil.judgements import Reviews
    from peerveil.ledger import Account
    from peerveil.release import PublishedMeans

# what is asked, what it is called in a sentence, and which way is which
_WORDS: Final = {
    "rating": ("How high do reviewers score on average?", "mean score", ""),
    "miscalibration": (
        "How strict are reviewers?",
        "strictness",
        " (points above or below what others gave to the same papers; negative is stricter)",
    ),
    "normalised": ("How high do reviewers score, each on their own scale?", "mean normalised score", ""),
    "subjectivity": ("How much do reviewers go their own way?", "mean subjectivity", ""),
}
ONE_REVIEW_EACH: Final = (
    "Everybody in this file wrote one review. If names are new for every paper, they are pseudonyms: how strict somebody is "
    "cannot be told from them, and a release would only repeat the papers' scores."
)
_WEIGHT = Option(
    "weight", one_of("rating", "miscalibration", "normalised", "subjectivity"), "rating", "what of a review is averaged"
)
_SCALE = Option("scale", pair_of_numbers, None, "the lowest and highest possible score, such as [1, 10]")
_BOUNDS = Option("bounds", one_of("counting", "range"), "counting", "how the feasible region is bounded")


class Means(Step):
    """Publish the distribution of reviewers' mean weights."""

    room, do = "release", "means"
    about = "publish the distribution of reviewers' means with differential privacy"
    output = "the sorted means of all reviewers, without names, with noise"
    wants = "reviews"
    spends = True
    options: ClassVar = (
        Option("epsilon", epsilon, REQUIRED, "the privacy of one exchange of reviews"),
        _WEIGHT,
        _SCALE,
        _BOUNDS,
        Option(
            "estimate", one_of("auto", "projection", "shrinkage", "none"), "auto", "what is made of the noisy means"
        ),
    )

    @classmethod
    def suggest(cls, data: str, table: Reviews) -> str | None:
        """How strict reviewers are, if the file says who they are."""
        if not table.has_reviewers:
            return None
        low, high = (float(f(table.column("score"))) for f in (np.min, np.max))
        return f"""# How strict are reviewers? Published with differential privacy; {data} stays where it is.
# It assumes that papers' scores and how many reviews each reviewer wrote are public: they are not protected.
# `peerveil release plan FILE --weight miscalibration --scale {low:g}:{high:g}` shows what each epsilon buys, for nothing.
[[steps]]
room = "release"
do = "means"
data = "{data}"
account = "main"
epsilon = 1
weight = "miscalibration"    # how strict (below 0), beside the paper's other reviewers; or rating, normalised, subjectivity
scale = [{low:g}, {high:g}]              # the lowest and highest score that the form allows (here: as seen; please check)
"""

    def promise(self, table: Reviews) -> Guarantee:
        """The mechanism's own."""
        public = PublicScores.of(table, weight=self.weight, scale=self.scale)
        return LaplaceMeans(epsilon=self.epsilon).guarantee(public)

    def cautions(self, table: Reviews) -> list[str]:
        """How well everything of one reviewer is protected; names that say nothing."""
        public = PublicScores.of(table, weight=self.weight, scale=self.scale)
        promise, typical, most = self.promise(table), int(np.median(public.loads)), int(public.loads.max())
        if most == 1:
            return [ONE_REVIEW_EACH]
        said = [f"Everything that a typical reviewer wrote ({typical} reviews) is {promise.group(typical).verdict}."]
        if typical < most:
            said.append(f"Everything that the busiest wrote ({most} reviews) is {promise.group(most).verdict}.")
        return said

    def carry_out(self, table: Reviews, randomness: Randomness, account: Account | None) -> Outcome:
        """Publish, and attack what was published."""
        published = publish(
            table,
            epsilon=self.epsilon,
            weight=self.weight,
            bounds=self.bounds,
            estimate=self.estimate,
            scale=self.scale,
            account=account,
            randomness=randomness,
        )
        public = PublicScores.of(table, weight=self.weight, scale=self.scale)
        asked, noun, sign = _WORDS[self.weight]
        noun = f"their {noun}"
        low, high = (f"{value:.3g}" for value in np.quantile(published.means, [0.1, 0.9]))
        outcome = Outcome(asked)
        outcome.promises(published.guarantee)
        outcome.answer = (
            f"For 80 of 100 reviewers {noun} lies between {low} and {high}{sign}. {published.beyond_public()}"
        )
        outcome.found = [
            f"{published.means.size:,} reviewers. For half of them {noun} is below {np.median(published.means):.2g}, for 10 in "
            f"100 below {low}, for 10 in 100 above {high}{sign}.",
            published.beyond_public(),
            ASSUMES_PUBLIC,
        ]
        _protections(outcome, published, public)
        outcome.picture(
            lambda left, right: draw_release(published, left, right),
            f"{published.summary()}. {published.beyond_public()}",
            "Left: how many reviewers lie where, as published. Right: the same sorted from the lowest to the highest (blue), "
            "within what the public data allow (grey), and what chance would give (dashed).",
            public=True,
            height=3.6,
            columns=2,
        )
        outcome.attack = [
            f"Whoever knows the author of every review but two is right about these two at most {_allowed(published)} times "
            "in 100.",
            f"For all reviews of one reviewer: {published.reviewer_guarantee.short}",
        ]
        if public.reviewers > 1:
            found = swap_attack(public, _rows(table, self.weight, self.scale), epsilon=self.epsilon,
                                randomness=Randomness.simulation(0))  # fmt: skip
            outcome.private_found.append(
                f"Measured on this conference: an attacker who knows all but which of two people wrote which of two reviews "
                f"is right {100 * found.right:.1f} times in 100 ({100 * found.worst_right:.1f} on the exchange that shows "
                f"most, give or take {200 * found.error:.1f}); the promise allows {_allowed(published)}."
            )
        outcome.file(f"means-{self.weight}.csv", published.to_csv(), public=True)
        outcome.file(f"means-{self.weight}.json", published.to_json(indent=2) + "\n", public=True)
        outcome.results = {"weight": self.weight, "estimate": published.estimate, "means": published.means.tolist()}
        return outcome


class Plan(Step):
    """What each epsilon would buy, from public data alone."""

    room, do = "release", "plan"
    about = "show what each epsilon would buy, from public data alone"
    output = "nothing that depends on who wrote what"
    publishes = False
    wants = "reviews"
    options: ClassVar = (
        Option("epsilons", list_of(epsilon), ["0.1", "1", "10", "100"], "which to try"),
        _WEIGHT,
        _SCALE,
        _BOUNDS,
        Option("trials", whole(2, 1000), 10, "simulated releases for each epsilon"),
    )

    def promise(self, table: Reviews) -> None:
        """None: only public data are used."""

    def carry_out(self, table: Reviews, randomness: Randomness, account: Account | None) -> Outcome:  # noqa: ARG002
        """Simulate releases of invented conferences with the same public side."""
        found = plan_release(
            table, epsilons=self.epsilons, weight=self.weight, scale=self.scale, bounds=self.bounds, trials=self.trials
        )
        outcome = Outcome(f"How accurately could reviewers' {_WORDS[self.weight][1]} be published?")
        outcome.answer = found.recommendation
        outcome.promise = "Computed from public data alone: nothing is spent, and nothing is told about who wrote what."
        outcome.found = [found.recommendation]
        outcome.picture(found.plot, found.recommendation, "Expected error against epsilon, by how strongly reviewers differ.",
                        public=True, height=4)  # fmt: skip
        outcome.results = found.to_dict()
        return outcome


def _allowed(published: PublishedMeans) -> str:
    """How often in 100 a 50:50 guess may be right: rounded up, as in the promise itself."""
    epsilon = published.guarantee.exact_epsilon
    assert epsilon is not None
    return odds_in_words(epsilon)[1]


def _protections(outcome: Outcome, published: PublishedMeans, public: PublicScores) -> None:
    """One review, and everything that one reviewer wrote: a typical one, and the busiest. Loads are public."""
    typical, most = int(np.median(public.loads)), int(public.loads.max())
    outcome.protect("who wrote one review", published.guarantee)
    if typical < most:
        outcome.protect(f"everything a typical reviewer wrote ({typical} reviews)", published.guarantee.group(typical))
    busiest = "any" if typical == most else "the busiest"
    outcome.protect(f"everything {busiest} reviewer wrote ({most} reviews)", published.reviewer_guarantee)


def _rows(table: Reviews, weight: str, scale: tuple[float, float] | None) -> Any:
    """Reviewer, weight, paper: what the adversary's world is made of."""
    weights = review_weights(table, weight=weight, scale=scale)
    reviewer, paper = table.numbered("reviewer")[0], table.numbered("paper")[0]
    return np.column_stack([reviewer, weights.values, paper])


STEPS = (Means, Plan)
