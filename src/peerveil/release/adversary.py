"""What published means say about who wrote a review, against what e^epsilon allows.

The adversary of the guarantee knows everything but one thing: all that is public, and the author of every review but
two, of which one of two people wrote one and the other the other. Two worlds are left, one exchange apart. They see the
published vector and guess. Whatever is computed from that vector later (projection, shrinkage, figures) can only help
them less, so they are given the vector itself.

- :func:`swap_odds`: how much likelier a published vector is in one world than in the other;
- :func:`swap_attack`: how often that adversary is right on a conference, over random exchanges and on the one that
  shows most, against e^epsilon / (1 + e^epsilon);
- :func:`posterior_over_assignments` and :func:`sampled_posterior`: an adversary who knows less, and asks who wrote a
  review given all assignments that are still possible;
- :func:`claims`: whole publish functions, sound and deliberately broken, for the audit's registry.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerveil.audit.attack import GuessingAttack
from peerveil.audit.check import Neighbors
from peerveil.audit.claims import Claim, register
from peerveil.core.arrays import Floats
from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import Number, whole
from peerveil.core.guarantee import read_epsilon
from peerveil.core.randomness import Randomness, laplace_scale
from peerveil.release.expectation import public_prior
from peerveil.release.mechanism import LaplaceMeans, estimate_means, laplace_sensitivity, means_guarantee
from peerveil.release.posterior import Posterior, posterior_over_assignments, sampled_posterior
from peerveil.release.public import Assignment, PublicScores
from peerveil.release.region import feasible_region

if TYPE_CHECKING:
    Rows = Sequence[tuple[float, float, float]]
    Publish = Callable[[Assignment, int, Randomness], ArrayLike]

__all__ = [
    "Assignment",
    "Posterior",
    "SwapAttack",
    "claims",
    "posterior_over_assignments",
    "sampled_posterior",
    "swap_attack",
    "swap_odds",
]
_CELLS: Final = 1_000_000  # numbers held at once
_ROUNDING: Final = 1e-12  # relative to the weights: smaller moves are roundings of equal means
_EPSILON: Final = 1  # what the audited mechanisms claim


def swap_odds(noisy: ArrayLike, theta_a: ArrayLike, theta_b: ArrayLike, scale: float) -> float:
    """The log-odds of world a against world b, given means published with independent Laplace noise.

    With equal prior odds, ln P(a | noisy)/P(b | noisy) is sum(abs(noisy - theta_b) - abs(noisy - theta_a)) / scale. By
    the triangle inequality it is at most the L1 distance of the two vectors over the scale: at most epsilon.

    >>> swap_odds([0.125, 0.75], [0.0, 1.0], [0.5, 0.5], scale=1.0)  # 0.125 favors a, 0.75 neither
    0.25
    """
    vectors = [np.asarray(v, dtype=np.float64) for v in (noisy, theta_a, theta_b)]
    for name, vector in zip(("noisy", "theta_a", "theta_b"), vectors, strict=True):
        if vector.ndim != 1 or vector.shape != vectors[0].shape or not np.isfinite(vector).all():
            raise BadInput(name, got=vector, want="three vectors of finite numbers, equally long")
    if not (math.isfinite(scale) and scale > 0):
        raise BadInput("scale", got=scale, want="a finite number above 0")
    r, a, b = vectors
    return float(math.fsum(np.abs(r - b) - np.abs(r - a)) / scale)


@dataclass(frozen=True, slots=True)
class SwapAttack(GuessingAttack):
    """How well the adversary who knows all but one exchange did.

    Attributes
    ----------
    right : float
        How often they were right over random exchanges, a guess without evidence counting one half.
    worst_right : float
        How often on the one exchange, among those tried, that changes the sorted means most (by Euclidean distance:
        a change spread over many entries drowns in their noise).
    largest : float
        The largest log-odds (of either sign) that they ever had.
    reach : float
        The largest log-odds possible for any exchange that was tried: L1 distance over scale.
    """

    epsilon: float
    trials: int
    right: float
    worst_right: float
    largest: float
    reach: float
    simulated: bool

    def __str__(self) -> str:
        mark = f" [{self.mark}]" if self.mark else ""
        return (
            f"An adversary who knows all but which of two people wrote which of two reviews is right "
            f"{100 * self.right:.1f}% of the time ({100 * self.worst_right:.1f}% on the exchange that shows most, "
            f"standard error {100 * self.error:.1f}%); epsilon {self.epsilon:g} allows {self.allowed}%. "
            f"Largest log-odds {self.largest:.3g} of {self.reach:.3g} possible in {self.trials:,} exchanges; epsilon "
            f"allows {self.epsilon:g}.{mark}"
        )


def swap_attack(
    public: PublicScores,
    rows: ArrayLike,
    *,
    epsilon: Number,
    trials: int = 1000,
    randomness: Randomness | None = None,
) -> SwapAttack:
    """Attack the Laplace release of sorted means on random exchanges of a known conference.

    Each trial draws an exchange and one of the two worlds, publishes, and lets the adversary choose the likelier world.
    Entries that are equal in both worlds carry no information (their noise has the same density in both), so no noise is drawn
    for them.

    Parameters
    ----------
    public, rows
        As in :class:`Assignment`.
    epsilon
        The privacy of the release for one exchange.
    randomness
        The secure source by default; for more than a few thousand reviewers the simulation source is faster.

    Examples
    --------
    >>> rows = [[0, 0.0, 0], [0, 0.2, 1], [1, 0.9, 0], [1, 1.0, 1]]
    >>> attack = swap_attack(Assignment.of(rows).public, rows, epsilon=1, randomness=Randomness.simulation(1))
    >>> 0.5 < attack.right < attack.bound + 5 * attack.error, attack.largest <= 1
    (True, True)
    """
    assignment = Assignment(public, np.asarray(rows, dtype=np.float64))
    claimed, trials = read_epsilon(epsilon), whole(trials, "trials", 1)
    if public.reviewers < 2:
        raise BadInput("public", got=Verbatim("one reviewer"), want="at least two: one has nobody to exchange with")
    randomness = Randomness.secure() if randomness is None else randomness
    scale = LaplaceMeans(epsilon=claimed).scale(public) or 1.0  # without a scale nothing moves
    chunk = max(1, _CELLS // public.reviewers)
    sizes = [min(chunk, trials - start) for start in range(0, trials, chunk)]
    evidence: list[Floats] = []
    worst, reach = np.zeros((1, public.reviewers)), 0.0
    for size in sizes:
        moved = _moves(assignment, *_random_exchanges(assignment, size, randomness))
        evidence.append(_evidence(moved, scale, randomness))
        reach = max(reach, float(np.abs(moved).sum(axis=1).max()))
        squares = (moved**2).sum(axis=1)
        if squares.max() > (worst**2).sum():
            worst = moved[[int(squares.argmax())]]
    odds = np.concatenate(evidence)
    worst_odds = np.concatenate([_evidence(np.repeat(worst, size, axis=0), scale, randomness) for size in sizes])
    return SwapAttack(
        epsilon=float(claimed),
        trials=trials,
        right=_rate(odds),
        worst_right=_rate(worst_odds),
        largest=float(max(np.abs(odds).max(), np.abs(worst_odds).max())),
        reach=reach / scale,
        simulated=not randomness.is_secure,
    )


def _random_exchanges(
    assignment: Assignment, count: int, randomness: Randomness
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Uniformly random exchanges, by rejection. One always exists: two people who share a paper can exchange that."""
    pairs = np.empty((2, 0), dtype=np.int64)
    while pairs.shape[1] < count:
        drawn = randomness.integers(0, assignment.weight.size, (2, 2 * count + 16))
        pairs = np.concatenate([pairs, drawn[:, assignment.may_exchange(*drawn)]], axis=1)
    return pairs[0, :count], pairs[1, :count]


def _moves(assignment: Assignment, i: NDArray[np.int64], j: NDArray[np.int64]) -> Floats:
    """For each exchange the sorted means before minus those after."""
    a, b = assignment.reviewer[i], assignment.reviewer[j]
    loads = np.bincount(assignment.reviewer)
    means = np.bincount(assignment.reviewer, assignment.weight) / loads
    gain = assignment.weight[j] - assignment.weight[i]
    after = np.repeat(means[None], i.size, axis=0)
    rows = np.arange(i.size)
    after[rows, a] += gain / loads[a]
    after[rows, b] -= gain / loads[b]
    moved = np.sort(means) - np.sort(after, axis=1)
    return np.where(np.abs(moved) > _ROUNDING * np.abs(assignment.weight).max(), moved, 0.0)


def _evidence(moved: Floats, scale: float, randomness: Randomness) -> Floats:
    """The log-odds of the true world against the other, one per row; each world is the true one half of the time."""
    sign = np.where(randomness.uniform(len(moved)) < 0.5, -1.0, 1.0)
    row, column = np.nonzero(moved)
    if not row.size:
        return np.zeros(len(moved))
    noise = randomness.laplace(np.zeros(row.size), scale=scale)
    shift = sign[row] * moved[row, column]
    return np.bincount(row, weights=np.abs(noise + shift) - np.abs(noise), minlength=len(moved)) / scale


def _rate(odds: Floats) -> float:
    return float(((odds > 0) + 0.5 * (odds == 0)).mean())


# ---- the whole publish function under audit ---------------------------------------------------------------------------


def neighbors() -> tuple[Neighbors, ...]:
    """Assignments one exchange apart, at which the sensitivity is reached or nearly so, with loads of every kind."""

    def pair(name: str, rows: Rows, i: int, j: int) -> Neighbors:
        assignment = Assignment.of(rows)
        return Neighbors(name, assignment, assignment.exchange(i, j))

    def load_one(load: int) -> Rows:
        # a review of weight R/l against one of weight R by somebody whose others are 0: R(1 - 1/l^2), the worst
        return [(0, 1 / load, 0), (1, 1, 1)] + [(1, 0, 2 + extra) for extra in range(load - 1)]

    low_high: Rows = [(0, 0, 0), (0, 0, 1), (1, 1, 2), (1, 1, 3)]
    shared = [(0, 0.1, 0), (1, 0.8, 0), (1, 0.9, 1), (2, 0.4, 1), (2, 0.6, 2), (0, 0.0, 2)]
    unequal: list[tuple[float, float, float]] = [(0, -1, 0), (0, -1, 1)]
    unequal += [(1, 1, p) for p in range(3)] + [(2, 0, p) for p in range(4)]
    return (
        pair("loads 2 and 2, lowest against highest", low_high, 0, 2),
        pair("loads 2, 2 and 2, a shared paper", shared, 0, 1),
        pair("loads 1 and 2", load_one(2), 0, 1),
        pair("loads 1 and 5", load_one(5), 0, 1),
        pair("loads 2, 3 and 4, weights of both signs", unequal, 0, 2),
    )


def laplace_means(
    assignment: Assignment, count: int, randomness: Randomness, *, share: Fraction = Fraction(1)
) -> Floats:
    """``count`` noisy sorted means for epsilon 1; a ``share`` below 1 of the sensitivity is a fault."""
    scale = laplace_scale(sensitivity=share * laplace_sensitivity(assignment.public), epsilon=_EPSILON)
    return randomness.laplace(np.tile(assignment.means, (count, 1)), scale=scale)


def _largest_loads(assignment: Assignment, count: int, randomness: Randomness) -> Floats:
    public = assignment.public
    spread = Fraction(float(public.values.max())) - Fraction(float(public.values.min()))
    sensitivity = spread * sum(Fraction(1, int(load)) for load in public.loads[-2:])
    scale = laplace_scale(sensitivity=sensitivity, epsilon=_EPSILON)
    return randomness.laplace(np.tile(assignment.means, (count, 1)), scale=scale)


def published_means(assignment: Assignment, count: int, randomness: Randomness) -> Floats:
    """``count`` whole releases for epsilon 1: noise, shrinkage and projection, as :func:`~peerveil.release.publish` does."""
    public, mechanism = assignment.public, LaplaceMeans(epsilon=_EPSILON)
    region, prior, variance = feasible_region(public), public_prior(public), mechanism.variance(public)
    noisy = mechanism.perturb(np.tile(assignment.means, (count, 1)), public, randomness)
    return np.array([estimate_means(row, variance, region, "shrinkage", prior) for row in noisy])


def publish_claim(
    publish: Publish,
    *,
    name: str,
    covers: tuple[str, ...] = ("release.publish", "release.LaplaceMeans"),
    pairs: tuple[Neighbors, ...] | None = None,
    samples: int = 20_000,
    fault: str | None = None,
) -> Claim:
    """A publish function for epsilon 1 over conferences that differ by one exchange.

    Parameters
    ----------
    publish
        ``publish(assignment, count, randomness)`` returns ``count`` independent outputs for epsilon 1.
    """
    return Claim(
        name=name,
        covers=covers,
        mechanism=publish,
        pairs=pairs or neighbors(),
        guarantee=means_guarantee(_EPSILON),
        samples=samples,
        fault=fault,
    )


@register
def claims() -> Iterator[Claim]:
    """The Laplace mechanism on sorted means, the whole of publish, and two with a sensitivity that is too small."""
    yield publish_claim(
        laplace_means, name="sorted means, Laplace, epsilon 1", covers=("release.LaplaceMeans",), samples=6_000
    )
    yield publish_claim(
        published_means, name="publish, the whole function, epsilon 1", pairs=neighbors()[:3], samples=2_000
    )
    yield publish_claim(
        partial(laplace_means, share=Fraction(1, 2)),
        name="sorted means, one reviewer counted",
        pairs=neighbors()[:1],
        fault="the sensitivity is R/l, as if an exchange moved one mean; it moves two",
    )
    lopsided = Assignment.of(
        [(0, 0, 0), (0, 0, 1), (1, 1, 2), (1, 1, 3)] + [(reviewer, 0.5, p) for reviewer in (2, 3) for p in range(6)]
    )
    yield publish_claim(
        _largest_loads,
        name="sorted means, largest loads",
        pairs=(Neighbors("loads 2, 2, 6 and 6", lopsided, lopsided.exchange(0, 2)),),
        fault="the sensitivity is computed with the two largest loads; the two smallest move most",
    )
