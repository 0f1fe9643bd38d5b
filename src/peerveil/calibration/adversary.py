"""The adversary: knows scores, functions, noise and the strategy, sees the decision, and guesses who reviewed what.

It is given a :class:`Strategy`, which holds nothing private. Its guess is the maximum a posteriori one, the best that
there is; ties are broken by a coin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from peerveil.audit.check import Neighbors, repeated
from peerveil.audit.claims import AnyClaim, Claim, GuessClaim, register
from peerveil.calibration.affine import AffineScores
from peerveil.calibration.conference import Conference
from peerveil.calibration.functions import Affine
from peerveil.calibration.losses import Threshold
from peerveil.calibration.pair import Pair
from peerveil.calibration.panel import Panel
from peerveil.calibration.quota import QuotaLottery
from peerveil.calibration.strategy import AssignmentResponse, Strategy, respond_assignment
from peerveil.core.errors import BadInput
from peerveil.data import Reviews

if TYPE_CHECKING:
    from peerveil.core.arrays import Floats, Ints
    from peerveil.core.randomness import Randomness


@dataclass(frozen=True, slots=True)
class MapAdversary:
    """The best guesser against a strategy.

    Examples
    --------
    >>> from peerveil.calibration import Affine, Pair
    >>> pair = Pair((0.6, 0.5), (Affine(1, 0.5), Affine(1, -0.5)), noise=0.5)
    >>> careless = MapAdversary(pair.strategy(adversary_error=0.0))
    >>> careless.guess((0,)), careless.guess((1,)), careless.error  # the decision gives it away
    ((1, 0), (0, 1), 0.0)
    """

    strategy: Strategy

    @property
    def error(self) -> float:
        """How often the best guess is wrong, exactly; for reviews, that of the review guessed best."""
        return self.strategy.adversary_error

    def posterior(self, accepted: Sequence[int]) -> Floats:
        """The probability of every candidate assignment after a decision."""
        decision = tuple(sorted(int(paper) for paper in accepted))
        if decision not in self.strategy.decisions:
            raise BadInput("accepted", got=accepted, want="one of the strategy's decisions")
        joint = self.strategy.posterior * self.strategy.table[:, self.strategy.decisions.index(decision)]
        if not joint.sum() > 0:
            raise BadInput("accepted", got=accepted, want="a decision that the strategy can take")
        return np.asarray(joint / joint.sum(), dtype=np.float64)

    def guess(self, accepted: Sequence[int]) -> tuple[int, ...]:
        """The likeliest assignment; against the adversary of one review, the likeliest writer of each review."""
        share = self.posterior(accepted)
        if self.strategy.adversary == "assignment":
            return self.strategy.assignments[int(share.argmax())]
        who = np.array(self.strategy.assignments)
        return tuple(int(np.bincount(column, weights=share).argmax()) for column in who.T)

    def attack(self, decisions: Ints, *, randomness: Randomness) -> Ints:
        """Guesses for many decisions (numbers of columns): one row per decision, one column per review.

        For the whole assignment the single column is the number of the guessed candidate.
        """
        who = np.array(self.strategy.assignments)
        columns = who.T if self.strategy.adversary == "paper" else np.arange(len(who))[None, :]
        joint = self.strategy.posterior[:, None] * self.strategy.table
        guesses = np.empty((len(decisions), len(columns)), dtype=np.int64)
        for place, column in enumerate(columns):
            sums = np.zeros((int(column.max()) + 1, joint.shape[1]))
            np.add.at(sums, column, joint)
            ranks = (sums >= sums.max(axis=0) * (1 - 1e-12)).cumsum(axis=0)
            # of the equally likely ones the k-th is taken, k by a coin
            k = (randomness.uniform(len(decisions)) * ranks[-1][decisions]).astype(np.int64) + 1
            guesses[:, place] = (ranks[:, decisions] >= k).argmax(axis=0)
        return guesses


def _correct_guesses(strategy: Strategy, count: int, randomness: Randomness) -> int:
    """Rounds in which the adversary names the assignment (or, review by review, the writer of the first one)."""
    true = randomness.choose(strategy.posterior, count)
    accepted = (strategy.decide(int(assignment), randomness=randomness).accepted for assignment in true)
    columns = np.array([strategy.decisions.index(decision) for decision in accepted])
    guesses = MapAdversary(strategy).attack(columns, randomness=randomness)
    secret = true if strategy.adversary == "assignment" else np.array(strategy.assignments)[true, 0]
    return int((guesses[:, 0] == secret).sum())


def _lottery(epsilon: str) -> Callable[[Ints, Randomness], tuple[int, ...]]:
    """The lottery of two papers and one place; its input is who wrote the two reviews."""
    model = AffineScores(np.array([0, 1]), np.array([0, 1]), np.ones(2), np.array([0.5, -0.5]), 0.5)

    def draw(writer: Ints, randomness: Randomness) -> tuple[int, ...]:
        lottery = QuotaLottery(replace(model, writer=writer), np.array([0.1, 0.0]), 1, epsilon)
        return tuple(lottery.draw(randomness).tolist())

    return draw


def _decision(response: AssignmentResponse, assignment: int, randomness: Randomness) -> tuple[int, ...]:
    return response.decide(assignment, randomness=randomness).accepted


@register
def claims() -> Iterator[AnyClaim]:
    """Decisions for pairs, panels and conferences against the best guess; randomized assignments, the lottery of a quota."""
    pair = Pair((0.6, 0.5), (Affine(1, 0.5), Affine(1, -0.5)), noise=0.5)
    people = [Affine(1.2, 0.3), Affine(0.8, -0.6), Affine(1.0, 0.4), Affine(0.9, 0.0)]
    panel = Panel([0.4, 0.1, 0.9, -0.2], people, noise=0.4, accept=2)
    of_pair, of_panel = pair.strategy(adversary_error=0.3), panel.strategy(adversary_error=0.55)
    table = Reviews(paper=range(4), reviewer=range(4), score=[0.4, 0.1, 0.9, -0.2])
    conference = Conference(
        table, functions=dict(enumerate(people)), noise=0.4, accept=Threshold.share(0.5), group_size=4
    )
    (group,) = conference.groups()
    of_group = group.panel.strategy(adversary_error=0.5, capped=True, per_decision=True)
    for name, covers, strategy in (
        ("a pair", "Pair", of_pair),
        ("a panel of 4", "Strategy", of_panel),
        ("a conference", "Conference", of_group),
    ):
        yield GuessClaim(
            name=f"decisions of {name}, adversary error {strategy.guarantee.error:.3g}",
            covers=(f"calibration.{covers}",),
            attack=partial(_correct_guesses, strategy),
            guarantee=strategy.guarantee,
        )
    yield GuessClaim(
        name="decisions of a pair by the assignment alone",
        covers=("calibration.Pair",),
        attack=partial(_correct_guesses, pair.strategy(adversary_error=0.0)),
        guarantee=of_pair.guarantee,
        fault="the better decision is always taken, whoever it names",
    )
    response = partial(
        Claim,
        covers=("calibration.respond_assignment",),
        pairs=(Neighbors("either assignment", 0, 1),),
        guarantee=respond_assignment(pair, epsilon=1).guarantee,
        samples=20_000,
    )
    yield response(
        name="a randomized assignment, epsilon 1",
        mechanism=repeated(partial(_decision, respond_assignment(pair, epsilon=1))),
    )
    yield response(
        name="a randomized assignment, epsilon 1.5",
        mechanism=repeated(partial(_decision, respond_assignment(pair, epsilon="1.5"))),
        fault="the response belongs to epsilon 1.5, the claim is 1",
    )
    lottery = partial(
        Claim,
        covers=("calibration.Conference",),
        pairs=(Neighbors("two reviewers exchange their reviews", np.array([0, 1]), np.array([1, 0])),),
        guarantee=QuotaLottery(AffineScores.of(table, dict(enumerate(people)), 0.4), table.scores, 2, 1).guarantee,
        samples=4_000,
    )
    yield lottery(name="a lottery for a quota, epsilon 1", mechanism=repeated(_lottery("1")))
    yield lottery(
        name="a lottery for a quota, epsilon 4",
        mechanism=repeated(_lottery("4")),
        fault="strictness counts as much as epsilon 4 allows, the claim is 1",
    )
