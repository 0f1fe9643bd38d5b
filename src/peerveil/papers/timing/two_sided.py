"""Why only one side: Theorem 4.8 as something to run. Parts 1 and 2 stand; part 3 is corrected.

Two-sided privacy would hide a batch *and* the absence of one. A mechanism may only delay, invent nothing, and post
everything in the end. Give it any delay distribution; the functions here return the input and the moment that convict it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerveil.core.errors import BadInput


@dataclass(frozen=True)
class Conviction:
    """An event that is too likely on one input, given its probability on the neighbor.

    Attributes
    ----------
    event : str
        What to look at.
    here, there : float
        Its probability on the two neighbors; (epsilon, delta)-privacy asks here <= e^epsilon there + delta.
    horizon : float
        The moment, in gaps after the batch.
    """

    event: str
    here: float
    there: float
    horizon: float
    delta: float

    def __str__(self) -> str:
        return (
            f"{self.event}: {self.here:.4g} on one input, {self.there:g} on its neighbor; delta allows {self.delta:g}"
        )


def convict(below: Callable[[float], float], part: int, delta: float) -> Conviction:
    """Parts 1 and 2 of Theorem 4.8: the moment from which no epsilon whatsoever saves a mechanism.

    Parameters
    ----------
    below
        The distribution function of a batched comment's delay (in gaps). All comments must be posted in the end, so
        it tends to 1.
    part
        1: the neighbor lacks the comment, so it can never be posted there. 2: the neighbor has it arrive only at the
        horizon, so it cannot be posted before.
    delta
        Below 1.

    Notes
    -----
    **Proof.** On the neighbor, "posted before the horizon" has probability 0: inventing is forbidden. So on the input
    with the batch it may have at most e^epsilon 0 + delta. But it tends to 1 > delta as the horizon grows. ∎

    >>> print(convict(lambda x: 1 - 2.0**-x, 2, 0.5))
    the comment is posted before the horizon: 0.75 on one input, 0 on its neighbor; delta allows 0.5
    """
    if part not in (1, 2):
        raise BadInput("part", got=part, want="1 or 2")
    if not 0 <= delta < 1:
        raise BadInput("delta", got=delta, want="a number from 0 up to, but not including, 1")
    horizon = 1.0
    while below(horizon) <= delta:
        horizon *= 2
        if horizon > 1e18:
            raise BadInput(
                "below", got=below, want="a distribution function that tends to 1: everything must be posted"
            )
    return Conviction("the comment is posted before the horizon", float(below(horizon)), 0.0, horizon, delta)


def late_as_printed(late: ArrayLike, delta: float) -> NDArray[np.float64]:
    """Theorem 4.8 (3) as printed: a delay of at least D gaps has probability at least 1 - 2 delta (D + 1). It is wrong."""
    return np.maximum(0.0, 1 - 2 * delta * (np.asarray(late, dtype=float) + 1))


def late(late: ArrayLike, epsilon: float, delta: float) -> NDArray[np.float64]:
    """Theorem 4.8 (3), corrected: the same bound with the factors e^epsilon that the chain of neighbors picks up.

    From the input in which a comment arrives k gaps later, back to the first one, there are 2k steps, two a gap. One step
    takes the probability p of "posted before k gaps" to at most e^epsilon p + delta, beginning from 0 one step
    short of the last input. So it is at most delta (e^((2k - 1) epsilon) - 1)/(e^epsilon - 1), k = ceil(D).
    """
    k = np.maximum(np.ceil(np.asarray(late, dtype=float)), 1)
    with np.errstate(over="ignore"):
        most: Any = (
            delta * np.expm1((2 * k - 1) * epsilon) / math.expm1(epsilon) if epsilon > 0 else delta * (2 * k - 1)
        )
    return np.asarray(np.maximum(0.0, 1 - most))


@dataclass(frozen=True)
class TruncatedLaplace:
    """Refutes Theorem 4.8 (3): one delay for all comments, Laplace of scale g/epsilon around m, cut to [0, 2m] (in gaps).

    Whoever is batched is irrelevant, so neighbors differ in one comment's arrival by at most a gap. **Two-sided
    (epsilon, delta)-private**: inside [1, 2m] the densities of X and X + 1 differ by at most e^epsilon, and X < 1 has
    probability delta by the choice m = ln(1 + (e^epsilon - 1)/(2 delta))/epsilon. ∎ Yet no delay exceeds 2m gaps.

    >>> round(TruncatedLaplace(1.0, 1e-3).longest, 1)
    13.5
    """

    epsilon: float
    delta: float

    @property
    def longest(self) -> float:
        """The longest delay, in gaps."""
        return 2 * math.log(1 + math.expm1(self.epsilon) / (2 * self.delta)) / self.epsilon

    def density(self, x: ArrayLike) -> NDArray[np.float64]:
        """The density of a delay, in gaps."""
        points, middle = np.asarray(x, dtype=float), self.longest / 2
        height = self.epsilon / 2 / -math.expm1(-self.epsilon * middle)
        inside = (points >= 0) & (points <= 2 * middle)
        return np.where(inside, height * np.exp(-self.epsilon * np.abs(points - middle)), 0.0)

    def spill(self, cells: int = 200_001) -> tuple[float, float]:
        """The delta that a shift of one gap really needs at this epsilon, in both directions, by numerical integration."""
        x = np.linspace(-1, self.longest + 2, cells)
        here, there = self.density(x), self.density(x - 1)
        step = float(x[1] - x[0])
        both = ((here, there), (there, here))
        first, second = (float(np.maximum(a - math.exp(self.epsilon) * b, 0).sum() * step) for a, b in both)
        return first, second

    def late(self, late: ArrayLike) -> NDArray[np.float64]:
        """The probability of a delay of at least D gaps."""
        x: Any = np.linspace(0, self.longest, 200_001)
        mass = np.concatenate([[0.0], np.cumsum((self.density(x)[1:] + self.density(x)[:-1]) / 2 * np.diff(x))])
        return np.asarray(1 - np.interp(np.asarray(late, dtype=float), x, mass / mass[-1], right=1.0))
