"""Choosing epsilon by the accuracy it buys. Everything is simulated from public data, so that choosing costs nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput
from peerveil.core.exact import Number, printed, whole
from peerveil.core.guarantee import read_epsilon
from peerveil.core.progress import progress_bar
from peerveil.core.result import Plan
from peerveil.release.estimate import blind_guess, spread_test
from peerveil.release.expectation import draw_means, public_prior
from peerveil.release.mechanism import LaplaceMeans, estimate_means
from peerveil.release.public import PublicScores
from peerveil.release.region import feasible_region

if TYPE_CHECKING:
    from matplotlib.axes import Axes


EPSILONS: Final = (0.1, 0.3, 1, 3, 10)
DEGREES: Final = (0.0, 0.5, 1.0)
_SEED: Final = 4_242_421  # the first of the plans' own seeds: not those of the public prior


@dataclass(frozen=True, slots=True)
class ReleasePlanRow:
    """Expected errors (root mean square, for one reviewer's mean) at one epsilon and one degree of leniency."""

    epsilon: float
    leniency: float
    noisy: float
    projection: float
    shrinkage: float
    expectation: float


@dataclass(frozen=True, slots=True)
class ReleasePlan(Plan):
    """How accurate a release would be. It was computed from public data alone.

    Attributes
    ----------
    worthwhile
        For each degree of leniency the smallest epsilon tried at which the release is at least a fifth more accurate
        than the public expectation; ``None`` if there is none.
    noticed
        For each epsilon how much wider than by chance the means must be spread to be distinguished from chance.
    """

    weight: str
    reviewers: int
    rows: tuple[ReleasePlanRow, ...]
    worthwhile: dict[float, float | None]
    noticed: dict[float, float]

    def __str__(self) -> str:
        lines = [
            self.recommendation,
            f"Expected error of a reviewer's mean {self.weight}, by how strongly reviewers differ (0: not at all, 1: half of",
            "what makes scores of one paper differ is the reviewer):",
            f"{'epsilon':>8} {'differ by':>10} {'published':>10} {'public data alone':>18} {'noise alone':>12}",
        ]
        lines += [
            f"{r.epsilon:>8g} {r.leniency:>10g} {r.shrinkage:>10.3g} {r.expectation:>18.3g} {r.noisy:>12.3g}"
            for r in self.rows
        ]
        return "\n".join(lines)

    @property
    def recommendation(self) -> str:
        """From which epsilon the release says more than the public data, and what could be noticed."""
        parts = []
        for degree, epsilon in self.worthwhile.items():
            who = "nobody is strict or lenient" if degree == 0 else f"reviewers differ with strength {degree:g}"
            enough = f"from epsilon {epsilon:g} on" if epsilon is not None else "at no epsilon that was tried"
            parts.append(f"if {who}, {enough}")
        worthwhile = "A release says clearly more than the public data alone: " + "; ".join(parts) + "."
        noticed = ", ".join(f"{share:.0%} at epsilon {epsilon:g}" for epsilon, share in self.noticed.items())
        if not noticed:
            return worthwhile
        return f"{worthwhile} That reviewers differ at all is noticed if it spreads their means wider by {noticed}."

    def table(self) -> pl.DataFrame:
        """Expected errors, one row per epsilon and degree of leniency."""
        return pl.DataFrame([asdict(row) for row in self.rows])

    def draw(self, ax: Axes) -> None:
        """Expected error against epsilon, one line per degree of leniency."""
        from peerveil.release.figures import draw_plan

        draw_plan(self, ax)


def plan_release(
    reviews: Any,
    *,
    epsilons: Sequence[Number] = EPSILONS,
    weight: str = "rating",
    scale: tuple[float, float] | None = None,
    bounds: str = "counting",
    leniency: Sequence[float] = DEGREES,
    trials: int = 20,
    columns: Mapping[str, str] | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> ReleasePlan:
    """What each epsilon buys, for several degrees to which reviewers differ.

    Parameters
    ----------
    reviews : Reviews, DataFrame, path or PublicScores
        Who scored which paper; only the public side of it is used.
    epsilons : list of number, optional
        The privacy parameters to try.
    weight, scale, columns : optional
        As in :func:`~peerveil.release.publish`. With a :class:`PublicScores`, which has its weights already, ``weight`` only
        names them.
    bounds : str, optional
        Which feasible region to use: ``"counting"`` (default) or ``"range"``.
    leniency : list of float, optional
        How strongly reviewers differ: 0 not at all, 1 half of the variance, 2 four fifths.
    trials : int, optional
        Simulated releases for each epsilon and leniency. Default: 20.
    seed : int, optional
        Seed of the simulation.
    progress : bool, optional
        Whether to show a progress bar. Default: on a terminal.

    Examples
    --------
    >>> from peerveil.release.public import PublicScores
    >>> rng = np.random.default_rng(1)
    >>> public = PublicScores(rng.beta(2, 2, (30, 2)), loads=[2] * 30)
    >>> plan = plan_release(public, epsilons=[1, 100], leniency=[0, 1], trials=10)
    >>> len(plan.rows), plan.rows[0].shrinkage < plan.rows[0].projection
    (4, True)
    """
    whole(trials, "trials", 2)
    whole(seed, "seed", 0)
    public = _read_public(reviews, weight, scale, columns)
    sizes = [printed(read_epsilon(e, "epsilons"), "up") for e in epsilons]
    region, prior = feasible_region(public, bounds=bounds), public_prior(public)
    expectation, blind = prior.means[0].mean(axis=0), blind_guess(prior)
    rng = np.random.default_rng(_SEED + seed)
    rows: list[ReleasePlanRow] = []
    blind_errors: dict[float, float] = {}
    with progress_bar("planning", total=len(sizes) * len(leniency) * trials, show=progress) as advance:
        for degree in leniency:
            if not (isinstance(degree, (int, float)) and 0 <= degree < 100):
                raise BadInput("leniency", got=degree, want="numbers from 0 (no differences) to 100")
            true_means = draw_means(public, np.full(trials, float(degree)), _SEED + seed)
            blind_errors[float(degree)] = float(np.sqrt(np.mean((true_means - blind) ** 2)))
            for epsilon in sizes:
                mechanism = LaplaceMeans(epsilon=epsilon)
                noise_scale, variance = mechanism.scale(public), mechanism.variance(public)
                errors = np.zeros(4)
                for means in true_means:
                    noisy = means + rng.laplace(scale=noise_scale, size=means.size) if noise_scale else means
                    estimates = [estimate_means(noisy, variance, region, e, prior) for e in ("projection", "shrinkage")]
                    errors += [float(np.mean((guess - means) ** 2)) for guess in (noisy, *estimates, expectation)]
                    advance(1)
                rows.append(ReleasePlanRow(epsilon, float(degree), *np.sqrt(errors / trials).tolist()))
    tests = {e: spread_test(expectation, LaplaceMeans(epsilon=e).variance(public), prior.means[0]) for e in sizes}
    noticed = {epsilon: test.detectable for epsilon, test in tests.items() if test is not None}
    return ReleasePlan(weight, public.reviewers, tuple(rows), _worthwhile(rows, blind_errors), noticed)


def _read_public(
    reviews: Any, weight: str, scale: tuple[float, float] | None, columns: Mapping[str, str] | None
) -> PublicScores:
    if not isinstance(reviews, PublicScores):
        return PublicScores.of(reviews, weight=weight, scale=scale, columns=columns)
    for name, value in (("scale", scale), ("columns", columns)):
        if value is not None:
            raise BadInput(name, got=value, want="None: PublicScores have their weights already")
    return reviews


def _worthwhile(rows: list[ReleasePlanRow], blind_errors: dict[float, float]) -> dict[float, float | None]:
    """For each leniency the smallest epsilon that clearly beats both guesses that need no release."""
    smallest: dict[float, float | None] = {}
    for degree in sorted(blind_errors):
        own = sorted((row for row in rows if row.leniency == degree), key=lambda row: row.epsilon)
        enough = (row.epsilon for row in own if row.shrinkage <= 0.8 * min(row.expectation, blind_errors[degree]))
        smallest[degree] = next(enough, None)
    return smallest
