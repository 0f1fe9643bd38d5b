"""What the cases of public functions share: a tiny conference, a crowd, a ledger, made on first use."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from peerveil import Guarantee, Randomness, calibration, judgements, ledger, rankings, release, truth
from peerveil.calibration import Affine


def lane(seed: int = 1) -> Randomness:
    return Randomness.simulation(seed)


class Data:
    """What the cases share, made on first use."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @cached_property
    def conference(self) -> Any:
        return judgements.synthetic_conference(24, 16, ranked_items=4, seed=4, people_seed=4)

    @cached_property
    def public(self) -> Any:
        return release.PublicScores.of(self.conference.reviews, weight="rating", scale=(1, 10))

    @cached_property
    def pair(self) -> Any:
        return calibration.Pair((0.6, 0.5), (Affine(1, 0.5), Affine(1, -0.5)), 0.5)

    @cached_property
    def panel(self) -> Any:
        people = [Affine(1.2, 0.3), Affine(0.8, -0.6), Affine(1.0, 0.4), Affine(0.9, 0.0)]
        return calibration.Panel([0.4, 0.1, 0.9, -0.2], people, noise=0.4, accept=2)

    @cached_property
    def small(self) -> Any:
        """Twelve papers, each of one reviewer."""
        rng = np.random.default_rng(1)
        people = {j: Affine(float(np.exp(0.3 * rng.normal())), float(0.5 * rng.normal())) for j in range(12)}
        table = judgements.Reviews(paper=np.arange(12), reviewer=np.arange(12), score=rng.normal(size=12))
        return calibration.Conference(
            table, functions=people, noise=0.3, accept=calibration.Threshold.share(0.3), group_size=3
        )

    @cached_property
    def past(self) -> Any:
        return judgements.synthetic_conference(40, 16, seed=5, people_seed=4).reviews

    @cached_property
    def fit(self) -> Any:
        return calibration.fit_miscalibration(self.past, iterations=600, progress=False)

    @cached_property
    def known(self) -> Any:
        self.conference.write(self.root / "conference")
        return calibration.read_miscalibration(self.root / "conference" / "truth_reviewers.csv")

    @cached_property
    def votes(self) -> Any:
        return rankings.Mallows(6, 0.8).sample(40, seed=1)

    @cached_property
    def crowd(self) -> Any:
        return truth.simulate_crowd(tasks=20, workers=6, answers=4, epsilon=2, seed=3)

    @cached_property
    def sent(self) -> Any:
        return truth.randomize_answers(self.crowd.answers, epsilon=2, classes=2, randomness=lane())

    @cached_property
    def estimator(self) -> Any:
        return truth.PrivateDawidSkene(epsilon=2, model="one-coin")

    @cached_property
    def fitted(self) -> Any:
        return self.estimator.fit(self.crowd.reports)

    @cached_property
    def book(self) -> Any:
        book = ledger.Ledger.open(str(self.root / "budget.db"))
        account = book.account("chairs", epsilon=1)
        for share in ("0.25", "1/3"):
            account.spend(promise(share), purpose=f"a share of {share}", data="reviews", randomness=Randomness.secure())
        return book


def promise(epsilon: Any = 1) -> Guarantee:
    return Guarantee.pure_dp(epsilon, unit="one review", neighbours="one review has another score")
