"""Assignments that could have been, by how much reviewers differ: the public family behind every estimate.

It is made from public data alone: the weights that papers received and the number of reviews by each reviewer. In the
family, reviewer j has a leniency b_j with mean 0 and variance 1, and every review a mood s b_j + sqrt(1 - s^2) e with
a standard normal e of its own. The public weights go to the reviews in the order of their moods. The *strength* s is
between 0 and 1, and s^2 is the share of the variance of weights that is the reviewer (an intraclass correlation): s
times the standard deviation of the weights is the standard deviation of reviewers' strictness. At strength 0 the
reviewer does not matter; there the family uses valid random assignments, where nobody reviews a paper twice
(:mod:`peerveil.release.expectation`).
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np

from peerveil.core.arrays import Floats, Ints
from peerveil.core.lazy import njit
from peerveil.release.expectation import draw_means
from peerveil.release.public import PublicScores

Shape = Literal["normal", "heavy tails", "some strict", "some lenient"]
SHAPES: Final[tuple[Shape, ...]] = ("normal", "heavy tails", "some strict", "some lenient")
"""Distributions of leniency: normal; Student's t with 3 degrees of freedom; a fifth stricter, or more lenient, than the rest."""
HEAVY_TAILS: Final = 1  # its place there
STRENGTHS: Final = (0.08, 0.16, 0.24, 0.32, 0.4, 0.48, 0.56, 0.64, 0.72, 0.8, 0.9)
_SEED: Final = 2021  # public: whoever repeats the computation gets the same family
_CHANCE_SEED: Final = 77
_WORK: Final = 1_500_000  # reviews simulated for each shape and strength
_CHANCE_WORK: Final = 8_000_000
_REMEMBERED: Final = 10_000_000  # means of simulated assignments that are kept, since plans repeat them
_FEWEST, _MOST, _MOST_BY_CHANCE = 8, 200, 600


@dataclass(frozen=True, eq=False)
class Family:
    """Simulated means of reviewers for one conference, or for some of its reviewers.

    Attributes
    ----------
    public : PublicScores
        The public side of the conference.
    members : array or None
        Which reviewers (in the order of ``public.loads``) are meant; all by default.
    """

    public: PublicScores
    members: Ints | None = None
    _known: dict[tuple[Shape, float, int], Floats] = field(default_factory=dict, repr=False)

    @property
    def size(self) -> int:
        """How many reviewers are meant."""
        return self.public.reviewers if self.members is None else self.members.size

    @cached_property
    def draws(self) -> int:
        """How many assignments are drawn for each shape and strength."""
        return int(np.clip(_WORK // self.public.values.size, _FEWEST, _MOST))

    @cached_property
    def weight_sd(self) -> float:
        """The standard deviation of the public weights."""
        return float(self.public.values.std())

    @cached_property
    def by_chance(self) -> Floats:
        """Sorted means of random valid assignments, one row per draw."""
        count = int(np.clip(_CHANCE_WORK // self.public.values.size, 2 * _FEWEST, _MOST_BY_CHANCE))
        rows = draw_means(self.public, count, _CHANCE_SEED, ordered=self.members is None)
        return rows if self.members is None else np.sort(rows[:, self.members], axis=1)

    @cached_property
    def expectation(self) -> Floats:
        """What public data alone predict: the mean of :attr:`by_chance`."""
        return np.asarray(self.by_chance.mean(axis=0))

    def means(self, shape: Shape, strength: float, draw: int) -> Floats:
        """The sorted means in one simulated assignment; the same moods for every strength."""
        key = shape, strength, draw
        if key not in self._known:
            self._known[key] = np.sort(self._deal(shape, (strength,), draw)[0])
            while len(self._known) > max(1, _REMEMBERED // self.size):
                del self._known[next(iter(self._known))]
        return self._known[key]

    def counts(self, thresholds: Floats) -> dict[tuple[Shape, float], Floats]:
        """For each shape and strength how many means are at most each threshold, one row per draw.

        The last counts are remembered: to count at many thresholds, in several parts, first ask for all of them at once.
        """
        at, tables = self.__dict__.get("_counted", (thresholds[:0], {}))
        if not np.isin(thresholds, at).all():
            at, tables = thresholds, self._simulate_counts(thresholds)
            self.__dict__["_counted"] = at, tables
        places = np.searchsorted(at, thresholds)
        return {part: table[:, places] for part, table in tables.items()}

    def _simulate_counts(self, thresholds: Floats) -> dict[tuple[Shape, float], Floats]:
        tables = {(shape, s): np.empty((self.draws, thresholds.size)) for shape in SHAPES for s in STRENGTHS}
        for shape in SHAPES:
            for draw in range(self.draws):
                for strength, values in zip(STRENGTHS, self._deal(shape, STRENGTHS, draw), strict=True):
                    tables[shape, strength][draw] = counts_at(values, thresholds)
        return tables

    def _deal(self, shape: Shape, strengths: tuple[float, ...], draw: int) -> Floats:
        """Everybody's mean at several strengths, from the same leniencies and moods."""
        rng = np.random.default_rng((_SEED, SHAPES.index(shape), draw))
        leniency = _LENIENCY[shape](rng, self.public.reviewers)
        own = rng.standard_normal(self.public.values.size)
        means = _deal(leniency, own, self.public.loads, self._sorted, np.array(strengths))
        return np.asarray(means if self.members is None else means[:, self.members])

    @cached_property
    def _sorted(self) -> Floats:
        return np.sort(self.public.values)


def _one_fifth(sign: float) -> Any:
    return lambda rng, n: sign * ((rng.random(n) < 0.2) - 0.2) / 0.4


_LENIENCY: Final[dict[str, Any]] = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "heavy tails": lambda rng, n: rng.standard_t(3, n) / np.sqrt(3),
    "some strict": _one_fifth(-1.0),
    "some lenient": _one_fifth(1.0),
}


def counts_at(means: Floats, thresholds: Floats) -> Floats:
    """How many means are at most each threshold; the means need not be sorted."""
    cells = np.bincount(np.searchsorted(thresholds, means, side="left"), minlength=thresholds.size + 1)
    return np.cumsum(cells)[:-1].astype(np.float64)


@njit(cache=True, nogil=True)
def _deal(leniency: Any, own: Any, loads: Any, weights: Any, strengths: Any) -> Any:
    """Means of reviewers when the sorted weights go to reviews in the order of their moods (by counting sort)."""
    total, buckets, widest = own.size, 4 * own.size, 5.0
    means = np.empty((strengths.size, loads.size))
    key = np.empty(total, dtype=np.int64)
    for place in range(strengths.size):
        strength = strengths[place]
        rest = np.sqrt(1.0 - strength * strength)
        start = np.zeros(buckets + 1, dtype=np.int64)
        review = 0
        for j in range(loads.size):
            for _ in range(loads[j]):
                mood = strength * leniency[j] + rest * own[review]
                bucket = int((min(max(mood, -widest), widest) / widest + 1.0) * 0.5 * (buckets - 1))
                key[review] = bucket
                start[bucket + 1] += 1
                review += 1
        for bucket in range(buckets):
            start[bucket + 1] += start[bucket]
        review = 0
        for j in range(loads.size):
            added = 0.0
            for _ in range(loads[j]):
                added += weights[start[key[review]]]
                start[key[review]] += 1
                review += 1
            means[place, j] = added / loads[j]
    return means
