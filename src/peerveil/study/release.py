"""Steps of the release room: publish how reviewers score, and see beforehand what an epsilon buys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from peerveil.randomness import Randomness
from peerveil.release import PublicScores, plan_release, publish, review_weights
from peerveil.release.adversary import swap_attack
from peerveil.release.mechanism import ASSUMES_PUBLIC, LaplaceMeans
from peerveil.study.outcome import Outcome
from peerveil.study.step import REQUIRED, Option, Step, epsilon, list_of, one_of, pair_of_numbers, whole

if TYPE_CHECKING:
    from peerveil.guarantee import Guarantee
    from peerveil.judgements import Reviews
    from peerveil.ledger import Account

_WEIGHT = Option(
    "weight", one_of("rating", "miscalibration", "normalised", "subjectivity"), "rating", "what of a review is averaged"
)
_SCALE = Option("scale", pair_of_numbers, None, "the lowest and highest possible score, such as [1, 10]")
_BOUNDS = Option("bounds", one_of("auto", "all", "counting", "chains", "range"), "auto", "how the region is bounded")


class Means(Step):
    """Publish the distribution of reviewers' mean weights."""

    room, do = "release", "means"
    about = "publish the distribution of reviewers' means with differential privacy"
    publishes = "the sorted means of all reviewers, without names, with noise"
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
# `peerveil release plan` shows what each epsilon buys, for nothing.
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
        public = PublicScores.of(table, self.weight, scale=self.scale)
        return LaplaceMeans(self.epsilon).guarantee(public)

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
        outcome = Outcome(f"How do reviewers' mean {self.weight} values spread?")
        outcome.promises(published.guarantee)
        outcome.found = [f"{published.summary()}.", published.beyond_public(), ASSUMES_PUBLIC]
        outcome.picture(
            published.plot,
            f"{published.summary()}. {published.beyond_public()}",
            "What is published (blue) among what the public data allow (grey), with the noisy means it was made from.",
            public=True,
            height=4,
        )
        outcome.attack = [
            f"Whoever knows the author of every review but two is right about these two at most "
            f"{100 / (1 + np.exp(-float(published.guarantee.epsilon or 0))):.1f} times in 100.",
            f"For all reviews of one reviewer: {published.reviewer_guarantee}",
        ]
        public = PublicScores.of(table, self.weight, scale=self.scale)
        if public.reviewers > 1:
            found = swap_attack(public, _rows(table, self.weight, self.scale), self.epsilon, 1000,
                                Randomness.simulation(0))  # fmt: skip
            outcome.private_found.append(f"Measured on this conference: {found}")
        outcome.file(f"means-{self.weight}.csv", published.to_csv(), public=True)
        outcome.file(f"means-{self.weight}.json", published.to_json(indent=2) + "\n", public=True)
        outcome.results = {"weight": self.weight, "estimate": published.estimate, "means": published.means.tolist()}
        return outcome


class Plan(Step):
    """What each epsilon would buy, from public data alone."""

    room, do = "release", "plan"
    about = "show what each epsilon would buy, from public data alone"
    publishes = "nothing that depends on who wrote what"
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
        public = PublicScores.of(table, self.weight, scale=self.scale)
        found = plan_release(public, self.epsilons, bounds=self.bounds, trials=self.trials, weight=self.weight)
        outcome = Outcome(f"How accurate would a release of mean {self.weight} values be?")
        outcome.promise = "Computed from public data alone: nothing is spent, and nothing is told about who wrote what."
        outcome.found = [found.advice()]
        outcome.picture(found.plot, found.advice(), "Expected error against epsilon, by how strongly reviewers differ.",
                        public=True, height=4)  # fmt: skip
        outcome.results = found.to_dict()
        return outcome


def _rows(table: Reviews, weight: str, scale: tuple[float, float] | None) -> Any:
    """Reviewer, weight, paper: what the adversary's world is made of."""
    weights = review_weights(table, weight, scale=scale)
    reviewer, paper = table.numbered("reviewer")[0], table.numbered("paper")[0]
    return np.column_stack([reviewer, weights.values, paper])


STEPS = (Means, Plan)
