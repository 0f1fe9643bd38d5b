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

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerveil.audit.attack import GuessingAttack
from peerveil.audit.check import Neighbors
from peerveil.audit.claims import Claim, register
from peerveil.core.arrays import Floats, Ints
from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import Number, numbers, whole
from peerveil.core.guarantee import read_epsilon
from peerveil.core.randomness import MaxNormNoise, Randomness
from peerveil.release.ask import group_counts
from peerveil.release.estimate import CountModel, default_thresholds, estimate
from peerveil.release.family import Family, counts_at
from peerveil.release.mechanism import NoisyCounts, check_thresholds, means_guarantee
from peerveil.release.posterior import Posterior, posterior_over_assignments, sampled_posterior
from peerveil.release.public import Assignment, PublicScores, reviewer_means
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
_EPSILON: Final = 1  # what the audited mechanisms claim


def swap_odds(noisy: ArrayLike, counts_a: ArrayLike, counts_b: ArrayLike, *, epsilon: Number) -> float:
    """The log-odds of world a against world b, given published counts.

    With equal prior odds, ln P(a | noisy)/P(b | noisy) is epsilon (max abs(noisy - b) - max abs(noisy - a)). By the triangle
    inequality it is at most epsilon max abs(a - b): at most epsilon for neighbors.

    >>> swap_odds([3, 9], [2, 9], [3, 10], epsilon=1)  # both are off by one
    0.0
    """
    size = float(read_epsilon(epsilon))
    vectors = [
        numbers(values, name, dimensions=(1,), want="finite numbers")
        for name, values in (("noisy", noisy), ("counts_a", counts_a), ("counts_b", counts_b))
    ]
    if len({vector.size for vector in vectors}) > 1:
        raise BadInput("noisy", got=noisy, want="three vectors of the same length")
    return size * float(_odds(*(vector[None] for vector in vectors))[0])


def _odds(noisy: Floats, a: Floats, b: Floats) -> Floats:
    return np.asarray(np.abs(noisy - b).max(axis=-1) - np.abs(noisy - a).max(axis=-1))


@dataclass(frozen=True, slots=True)
class SwapAttack(GuessingAttack):
    """How well the adversary who knows all but one exchange did.

    Attributes
    ----------
    right : float
        How often they were right over random exchanges, a guess without evidence counting one half.
    worst_right : float
        How often on the one exchange, among those tried, that moves most counts.
    largest : float
        The largest log-odds (of either sign) that they ever had.
    reach : float
        The largest log-odds possible for any exchange that was tried: epsilon times the largest change of a count.
    moved : float
        The share of exchanges that changed any count at all.
    """

    epsilon: float
    trials: int
    right: float
    worst_right: float
    largest: float
    reach: float
    moved: float
    simulated: bool

    def __str__(self) -> str:
        mark = f" [{self.mark}]" if self.mark else ""
        return (
            f"An adversary who knows all but which of two people wrote which of two reviews is right "
            f"{100 * self.right:.1f}% of the time ({100 * self.worst_right:.1f}% on the exchange that shows most, "
            f"standard error {100 * self.error:.1f}%); epsilon {self.epsilon:g} allows {self.allowed}%. "
            f"{100 * self.moved:.0f}% of {self.trials:,} exchanges changed a count; largest log-odds {self.largest:.3g} of "
            f"{self.reach:.3g} possible; epsilon allows {self.epsilon:g}.{mark}"
        )


def swap_attack(
    public: PublicScores,
    rows: ArrayLike,
    *,
    epsilon: Number,
    thresholds: Sequence[float] | None = None,
    trials: int = 1000,
    randomness: Randomness | None = None,
) -> SwapAttack:
    """Attack the release of counts on random exchanges of a known conference.

    Each trial draws an exchange and one of the two worlds, publishes, and lets the adversary choose the likelier world.

    Parameters
    ----------
    public, rows
        As in :class:`Assignment`.
    epsilon
        The privacy of the release for one exchange.
    thresholds
        Where reviewers were counted; by default as :func:`~peerveil.release.publish` chooses.

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
    randomness = Randomness.of(randomness)
    chosen = check_thresholds(thresholds)
    at = default_thresholds(Family(public), float(claimed)) if chosen is None else chosen
    noise = MaxNormNoise(at.size, claimed)
    changes = _changes(assignment, at, *_random_exchanges(assignment, trials, randomness))
    worst = changes[[int(np.abs(changes).sum(axis=1).argmax())]]
    odds, worst_odds = (
        float(claimed) * _evidence(delta, noise, randomness) for delta in (changes, np.repeat(worst, trials, axis=0))
    )
    return SwapAttack(
        epsilon=float(claimed),
        trials=trials,
        right=_rate(odds),
        worst_right=_rate(worst_odds),
        largest=float(max(np.abs(odds).max(), np.abs(worst_odds).max())),
        reach=float(claimed) * float(np.abs(changes).max()),
        moved=float(changes.any(axis=1).mean()),
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


def _changes(assignment: Assignment, thresholds: Floats, i: NDArray[np.int64], j: NDArray[np.int64]) -> Floats:
    """For each exchange the counts after minus those before."""
    moved = np.empty((i.size, thresholds.size))
    reviewer, weight = assignment.reviewer, assignment.weight
    for place, (first, second) in enumerate(zip(i.tolist(), j.tolist(), strict=True)):
        swapped = reviewer.copy()
        swapped[[first, second]] = swapped[[second, first]]
        people = np.sort(reviewer[[first, second]])
        both = np.isin(swapped, people)
        old, new = (reviewer_means(weight[both], np.searchsorted(people, who[both])) for who in (reviewer, swapped))
        moved[place] = counts_at(new, thresholds) - counts_at(old, thresholds)
    return moved


def _evidence(changes: Floats, noise: MaxNormNoise, randomness: Randomness) -> Floats:
    """Max abs(y - N_false) - max abs(y - N_true), one per row; each world is the true one half of the time."""
    drawn = noise.draw(randomness, len(changes)).astype(np.float64)
    sign = np.where(randomness.uniform(len(changes)) < 0.5, -1.0, 1.0)[:, None]
    return _odds(drawn, np.zeros_like(drawn), sign * changes)


def _rate(odds: Floats) -> float:
    return float(((odds > 0) + 0.5 * (odds == 0)).mean())


# ---- the mechanism under audit ----------------------------------------------------------------------------------------


def neighbors() -> tuple[Neighbors, ...]:
    """Assignments one exchange apart that move counts at several thresholds, with loads of every kind."""

    def pair(name: str, rows: Rows, i: int, j: int) -> Neighbors:
        assignment = Assignment.of(rows)
        return Neighbors(name, assignment, assignment.exchange(i, j))

    low_high: Rows = [(0, 0, 0), (0, 0, 1), (1, 1, 2), (1, 1, 3)]
    shared = [(0, 0.1, 0), (1, 0.8, 0), (1, 0.9, 1), (2, 0.4, 1), (2, 0.6, 2), (0, 0.0, 2)]
    unequal: list[tuple[float, float, float]] = [(0, -1, 0), (0, -1, 1)]
    unequal += [(1, 1, p) for p in range(3)] + [(2, 0, p) for p in range(4)]
    load_one: Rows = [(0, 0.2, 0), (1, 1, 1)] + [(1, 0, 2 + extra) for extra in range(4)]
    return (
        pair("loads 2 and 2, lowest against highest", low_high, 0, 2),
        pair("loads 2, 2 and 2, a shared paper", shared, 0, 1),
        pair("loads 1 and 5", load_one, 0, 1),
        pair("loads 2, 3 and 4, weights of both signs", unequal, 0, 2),
    )


def _rounding_neighbors() -> Neighbors:
    """Two people exchange reviews of equal weight: no mean changes, but sums in the order of rows round differently."""
    reviewers, weights = (1, 0, 0, 0, 1, 1, 0, 1), (0.3, 0.1, 0.6, 0.2, 0.3, 0.3, 0.1, 0.1)
    assignment = Assignment.of(np.column_stack([reviewers, weights, np.arange(8)]))
    return Neighbors("equal reviews exchanged", assignment, assignment.exchange(1, 7))


def group_neighbors() -> tuple[Neighbors, ...]:
    """An exchange between two groups that moves the counts of both, and one that is within a group."""
    across = Assignment.of([(0, 0, 0), (0, 0.8, 1), (1, 1, 2), (1, 0.2, 3)])
    within = Assignment.of([(0, 0, 0), (0, 0.8, 1), (1, 0.5, 2), (1, 0.5, 3), (2, 1, 2), (2, 0.2, 3)])
    return (
        Neighbors("two groups, one reviewer of each", across, across.exchange(0, 2)),
        Neighbors("two reviewers of one group", within, within.exchange(0, 4)),
    )


_AT: Final = (0.15, 0.45, 0.85)
_ASKED: Final = (0.45, 0.55)


def noisy_counts(assignment: Assignment, count: int, randomness: Randomness, *, epsilon: Number = _EPSILON) -> Ints:
    """``count`` releases for epsilon 1; a larger ``epsilon`` is a fault."""
    return NoisyCounts(thresholds=_AT, epsilon=epsilon).release(assignment.means, randomness, count)


def published_means(assignment: Assignment, count: int, randomness: Randomness) -> Floats:
    """``count`` whole releases for epsilon 1, up to the estimated means, as :func:`~peerveil.release.publish` makes them.

    One threshold gives few different outputs: all that follows from the same count is computed once.
    """
    mechanism, means = _publisher(assignment.public)
    return np.array([means(int(row[0])) for row in mechanism.release(assignment.means, randomness, count)])


@lru_cache(maxsize=8)
def _publisher(public: PublicScores) -> tuple[NoisyCounts, Callable[[int], Floats]]:
    """The mechanism, and what is published for each noisy count: both see public data only."""
    family, region = Family(public), feasible_region(public)
    at = default_thresholds(family, _EPSILON, 1)
    mechanism = NoisyCounts(thresholds=tuple(at.tolist()), epsilon=_EPSILON)
    model = CountModel(family, at, mechanism.noise)
    return mechanism, cache(lambda noisy: region.project(estimate(model, np.array([float(noisy)]), level=0.95).means))


def asked_groups(assignment: Assignment, count: int, randomness: Randomness) -> Ints:
    """``count`` releases for epsilon 1 as :func:`~peerveil.release.ask` draws them: every second reviewer is in a group."""
    return group_counts(_groups(assignment), _EPSILON, randomness, count)


def _groups(assignment: Assignment) -> list[tuple[Floats, Floats]]:
    means, at = reviewer_means(assignment.weight, assignment.reviewer), np.array(_ASKED)
    return [(means[0::2], at), (means[1::2], at)]


def _one_noise_per_group(assignment: Assignment, count: int, randomness: Randomness) -> Ints:
    parts = [group_counts([group], _EPSILON, randomness, count) for group in _groups(assignment)]
    return np.concatenate(parts, axis=1)


def _in_row_order(assignment: Assignment, count: int, randomness: Randomness) -> Ints:
    means = np.bincount(assignment.reviewer, weights=assignment.weight) / np.bincount(assignment.reviewer)
    below = int((means <= np.nextafter(0.25, 0)).sum())
    return below + MaxNormNoise(1, _EPSILON).draw(randomness, count)


def _private_thresholds(assignment: Assignment, count: int, randomness: Randomness) -> Floats:
    at = np.unique(np.quantile(assignment.means, [0.25, 0.75]))
    released = NoisyCounts(thresholds=tuple(at.tolist()), epsilon=_EPSILON).release(assignment.means, randomness, count)
    return np.column_stack([np.tile(at[:1], (count, 1)), released[:, :1]])


def count_claim(mechanism: Publish, name: str, **options: Any) -> Claim:
    """A release for epsilon 1 over conferences that differ by one exchange."""
    settings = {"covers": ("release.NoisyCounts",), "pairs": neighbors(), "samples": 20_000, **options}
    return Claim(name=name, mechanism=mechanism, guarantee=means_guarantee(_EPSILON), **settings)


@register
def claims() -> Iterator[Claim]:
    """The counts, the whole of publish, and deliberately broken releases."""
    yield count_claim(noisy_counts, "counts of reviewers, epsilon 1")
    yield count_claim(
        published_means,
        "publish, the whole function, epsilon 1",
        covers=("release.publish",),
        pairs=neighbors()[:2],
    )
    yield count_claim(
        asked_groups, "ask, two groups of reviewers, epsilon 1", covers=("release.ask",), pairs=group_neighbors()
    )
    yield count_claim(
        partial(noisy_counts, epsilon=2),
        "counts, noise of half size",
        fault="the noise is made for epsilon 2",
    )
    yield count_claim(
        _in_row_order,
        "counts, means added in the order of rows",
        pairs=(_rounding_neighbors(),),
        fault="an exchange of equal reviews moves a count by 2: sums round differently in another order",
    )
    yield count_claim(
        _private_thresholds,
        "counts, thresholds from the private means",
        fault="thresholds are quantiles of the private means",
    )
    yield count_claim(
        _one_noise_per_group,
        "ask, noise for every group on its own",
        covers=("release.ask",),
        pairs=group_neighbors(),
        fault="an exchange between two groups is protected by twice epsilon only",
    )
