"""The adversary: knows scores, functions, noise and the strategy, sees the decision, and guesses who reviewed what.

It is given a :class:`Strategy`, which holds nothing private. Its guess is the maximum a posteriori one, the best that
there is; ties are broken by a coin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from peerveil.core.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from peerveil.calibration.strategy import Strategy
    from peerveil.core.randomness import Randomness

    Floats = NDArray[np.float64]
    Whole = NDArray[np.int64]


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

    def attack(self, decisions: Whole, *, randomness: Randomness) -> Whole:
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
