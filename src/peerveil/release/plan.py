"""Choosing epsilon by the accuracy it gives. Everything is simulated from public data, so that choosing costs nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.core.arrays import Floats
from peerveil.core.errors import BadInput
from peerveil.core.exact import Number, numbers, printed, whole
from peerveil.core.guarantee import read_epsilon
from peerveil.core.progress import progress_bar
from peerveil.core.randomness import MaxNormNoise
from peerveil.core.result import Plan
from peerveil.release.estimate import CountModel, default_thresholds, point_prior, with_normal_tails
from peerveil.release.family import Family, counts_at
from peerveil.release.mechanism import NOUNS, check_thresholds, points
from peerveil.release.public import PublicScores
from peerveil.release.region import feasible_region
from peerveil.release.spread import SpreadStatistic

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EPSILONS: Final = (0.1, 0.3, 1, 3, 10)
STRENGTHS_PLANNED: Final = (0.0, 0.2, 0.4)
"""The strengths behind the default of ``strictness``: 0, 0.2 and 0.4 standard deviations of the public weights."""
TELLS: Final = 0.95
"""A release tells something if its expected error is at most this share of that of public data alone."""
_SEED: Final = 4_242_421  # the first of the plans' own seeds
_OWN_DRAWS: Final = 10_000  # simulated assignments from here on are the plans': not those that estimates use
_PARTICLES: Final = 60
_REVIEWS: Final = 4_000_000  # simulated in all trials of a setting, as far as ``trials`` allows


@dataclass(frozen=True, slots=True)
class ReleasePlanRow:
    """Expected errors (root mean square, for one reviewer's mean) at one epsilon, if strictness has this standard deviation."""

    epsilon: float
    strictness: float
    published: float
    public: float

    @property
    def tells(self) -> bool:
        """Whether publishing tells something that public data do not."""
        return self.published <= TELLS * self.public


@dataclass(frozen=True, slots=True)
class ReleasePlan(Plan):
    """How accurate a release would be. It was computed from public data alone.

    Attributes
    ----------
    rows : tuple of ReleasePlanRow
        For each strictness and epsilon the expected errors.
    noticeable : dict
        For each epsilon the smallest standard deviation of strictness that would be noticed in 80% of releases.
    """

    weight: str
    reviewers: int
    rows: tuple[ReleasePlanRow, ...]
    noticeable: dict[float, float]

    def __str__(self) -> str:
        lines = [
            self.recommendation,
            f"Expected error of a reviewer's {NOUNS[self.weight]}, by the standard deviation of strictness (in points):",
            f"{'epsilon':>8} {'strictness':>11} {'published':>10} {'public data alone':>18}",
        ]
        lines += [f"{r.epsilon:>8g} {r.strictness:>11.2g} {r.published:>10.3g} {r.public:>18.3g}" for r in self.rows]
        return "\n".join(lines)

    def worthwhile(self, strictness: float) -> float | None:
        """The epsilon tried from which on the release tells something, if strictness has this standard deviation."""
        smallest = None
        for row in sorted(self.rows, key=lambda row: -row.epsilon):
            if row.strictness == strictness:
                if not row.tells:
                    break
                smallest = row.epsilon
        return smallest

    @property
    def recommendation(self) -> str:
        """From which epsilon on the release says more than public scores, and how small a strictness could be noticed."""
        needed = {sd: self.worthwhile(sd) for sd in sorted({row.strictness for row in self.rows}, reverse=True)}
        enough = [
            f"from epsilon {epsilon:g} on if {_premise(sd)}" for sd, epsilon in needed.items() if epsilon is not None
        ]
        never = " or if ".join(_premise(sd) for sd, epsilon in needed.items() if epsilon is None)
        epsilons = sorted({row.epsilon for row in self.rows})
        if not enough:
            tried = f"epsilon {epsilons[0]:g}" if len(epsilons) == 1 else f"any epsilon up to {epsilons[-1]:g}"
            parts = [f"Publishing this tells nothing that public scores do not, with {tried}: if {never}."]
        else:
            parts = [f"A release tells more than public scores {', '.join(enough)}."]
            if never:
                parts.append(f"Publishing this tells nothing that public scores do not if {never}.")
            if any(epsilon not in (None, epsilons[0]) for epsilon in needed.values()):
                parts.append("With a smaller epsilon, publishing this tells nothing that public scores do not.")
        smallest = sorted(self.noticeable.items())
        noticed = [f"{sd:.2g} at epsilon {epsilon:g}" for epsilon, sd in smallest if np.isfinite(sd)]
        unnoticed = [f"{epsilon:g}" for epsilon, sd in smallest if not np.isfinite(sd)]
        if noticed:
            parts.append(
                f"The smallest standard deviation of strictness that would be noticed (in 80% of releases): {', '.join(noticed)}."
            )
        if unnoticed:
            parts.append(
                f"With epsilon {' or '.join(unnoticed)} no strictness, however large, would be noticed reliably."
            )
        return " ".join(parts)

    def table(self) -> pl.DataFrame:
        """Expected errors, one row per strictness and epsilon."""
        return pl.DataFrame([{**asdict(row), "tells_more": row.tells} for row in self.rows])

    def draw(self, ax: Axes) -> None:
        """Expected error against epsilon, one line per strictness."""
        from peerveil.release.figures import draw_plan

        draw_plan(self, ax)


def plan_release(
    reviews: Any,
    *,
    epsilons: Sequence[Number] = EPSILONS,
    weight: str = "miscalibration",
    scale: tuple[float, float] | None = None,
    strictness: Sequence[float] | None = None,
    thresholds: Sequence[float] | None = None,
    trials: int = 100,
    columns: Mapping[str, str] | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> ReleasePlan:
    """What each epsilon gives, for several degrees to which reviewers differ.

    Parameters
    ----------
    reviews : Reviews, DataFrame, path or PublicScores
        Who scored which paper; only the public side of it is used.
    epsilons : list of number, optional
        The privacy parameters to try.
    weight, scale, thresholds, columns : optional
        As in :func:`~peerveil.release.publish`. With a :class:`PublicScores`, which has its weights already, ``weight`` only
        names them.
    strictness : list of float, optional
        Standard deviations of reviewers' strictness that are plausible, in points. Default: 0, 0.2 and 0.4 standard
        deviations of the public weights.
    trials : int, optional
        Simulated releases for each epsilon and strictness, fewer for large conferences. Default: 100. All epsilons are tried on
        the same conferences with the same draws, so that they can be compared.
    seed : int, optional
        Seed of the simulation.
    progress : bool, optional
        Whether to show a progress bar. Default: on a terminal.

    Examples
    --------
    >>> from peerveil.release.public import PublicScores
    >>> rng = np.random.default_rng(1)
    >>> public = PublicScores(rng.beta(2, 2, (60, 2)), loads=[2] * 60)
    >>> plan = plan_release(public, epsilons=[1, 10], strictness=[0, 0.15], trials=20)
    >>> len(plan.rows), plan.rows[3].tells
    (4, True)
    """
    whole(trials, "trials", 2)
    whole(seed, "seed", 0)
    public = _read_public(reviews, weight, scale, columns)
    sizes = [printed(read_epsilon(e, "epsilons"), "up") for e in epsilons]
    family, region, chosen = Family(public), feasible_region(public), check_thresholds(thresholds)
    spreads = _read_strictness(strictness, family)
    trials = int(np.clip(_REVIEWS // public.values.size, min(trials, 10), trials))
    errors: dict[tuple[float, float], list[float]] = {}
    public_errors: dict[float, float] = {}
    noticeable: dict[float, float] = {}
    rng = np.random.default_rng((_SEED, seed))
    with progress_bar("planning", total=len(sizes) * len(spreads) * trials, show=progress) as advance:
        truths = {sd: _truths(family, sd, trials, seed) for sd in spreads}
        for sd, rows in truths.items():
            public_errors[sd] = float(np.sqrt(np.mean((rows - family.expectation) ** 2)))
        luck = rng.random((trials, 1 + 200))
        thresholds_at = {e: default_thresholds(family, e) if chosen is None else chosen for e in sizes}
        family.counts(np.unique(np.concatenate(list(thresholds_at.values()))))  # simulated once for all epsilons
        for epsilon, counted in thresholds_at.items():
            noise = MaxNormNoise(counted.size, epsilon)
            model = CountModel(family, counted, noise)
            noticeable[epsilon] = SpreadStatistic(model).noticeable if public.is_private else float("inf")
            prior = point_prior(family.size, epsilon)
            for sd, rows in truths.items():
                for truth, drawn in zip(rows, luck, strict=True):
                    counts = counts_at(truth, counted) + _noise(noise, drawn)
                    draws = model.sample(counts, prior, _PARTICLES, steps=0)
                    means = region.project(model.curves(with_normal_tails(draws), np.arange(1))[0])
                    errors.setdefault((sd, epsilon), []).append(float(np.mean((means - truth) ** 2)))
                    advance(1)
    table = tuple(
        ReleasePlanRow(epsilon, sd, float(np.sqrt(np.mean(errors[sd, epsilon]))), public_errors[sd])
        for sd in spreads
        for epsilon in sizes
    )
    return ReleasePlan(weight, public.reviewers, table, noticeable)


def _premise(strictness: float) -> str:
    if strictness == 0:
        return "nobody is strict or lenient"
    return f"strictness has a standard deviation of {points(strictness)}"


def _noise(noise: MaxNormNoise, uniforms: Floats) -> Floats:
    """Noise from uniform numbers: the same ones give similar noise at every epsilon."""
    radius = min(int(np.searchsorted(np.cumsum(noise.radii), uniforms[0])), noise.radii.size - 1)
    return np.floor(uniforms[1 : noise.size + 1] * (2 * radius + 1)) - radius


def _truths(family: Family, strictness: float, trials: int, seed: int) -> Floats:
    """Sorted means of simulated conferences whose reviewers differ this much."""
    strength = strictness / family.weight_sd if family.weight_sd else 0.0
    if strength == 0:
        from peerveil.release.expectation import draw_means

        return draw_means(family.public, trials, _SEED + seed)
    first = _OWN_DRAWS + 1000 * seed
    return np.array([family.means("normal", strength, first + trial) for trial in range(trials)])


def _read_strictness(strictness: Sequence[float] | None, family: Family) -> tuple[float, ...]:
    if strictness is None:
        return tuple(sorted({float(f"{share * family.weight_sd:.2g}") for share in STRENGTHS_PLANNED}))
    largest = 0.99 * family.weight_sd
    want = f"standard deviations from 0 to {largest:.3g} (that of all weights is {family.weight_sd:.3g})"
    return tuple(np.unique(numbers(strictness, "strictness", low=0.0, high=largest, want=want)).tolist())


def _read_public(
    reviews: Any, weight: str, scale: tuple[float, float] | None, columns: Mapping[str, str] | None
) -> PublicScores:
    if not isinstance(reviews, PublicScores):
        return PublicScores.of(reviews, weight=weight, scale=scale, columns=columns)
    for name, value in (("scale", scale), ("columns", columns)):
        if value is not None:
            raise BadInput(name, got=value, want="None: PublicScores have their weights already")
    return reviews
