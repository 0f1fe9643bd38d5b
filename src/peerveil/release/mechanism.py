"""Publishing the distribution of reviewers' mean weights.

The only private input is the sorted vector of means; the only randomized step adds Laplace noise to it. All that follows
(projection, shrinkage) sees the noisy vector and public data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import polars as pl

from peerveil.core.arrays import Floats
from peerveil.core.errors import BadInput
from peerveil.core.guarantee import Guarantee
from peerveil.core.randomness import Randomness, laplace_scale
from peerveil.core.result import Result
from peerveil.data import Reviews
from peerveil.release.estimate import SpreadTest, shrink, signal_share, spread_test
from peerveil.release.expectation import PublicPrior, public_prior
from peerveil.release.public import PublicScores, sorted_means
from peerveil.release.region import FeasibleRegion, feasible_region
from peerveil.release.weights import review_weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.core.exact import Number
    from peerveil.ledger import Account


ESTIMATES: Final = ("auto", "shrinkage", "projection", "none")
NOBODY_DIFFERS: Final = "By the public data all reviewers' means are equal, whoever wrote what."
ASSUMES_PUBLIC: Final = (
    "This assumes that the scores of every paper and the number of reviews that each reviewer wrote are public (or will be): "
    "they shape what is published and are not protected. What is protected is who wrote which review."
)

NEIGHBORS = (
    "two reviewers exchange one review each; what papers received and how many reviews each wrote stays as it is"
)


class Perturbation(Protocol):
    """Any other way to perturb the sorted means, with its own guarantee."""

    def guarantee(self, public: PublicScores) -> Guarantee:
        """Its guarantee."""
        ...

    def variance(self, public: PublicScores) -> float:
        """The variance of the noise on each entry (public)."""
        ...

    def perturb(self, means: Floats, public: PublicScores, randomness: Randomness) -> Floats:
        """The noisy vector."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LaplaceMeans:
    """Independent Laplace noise on every sorted mean.

    **Neighbors**: two reviewers exchange one review each; the weights that papers received, and everybody's load, stay.
    **Proof.** The L1 sensitivity of the sorted means to such an exchange is at most
    :func:`swap_sensitivity`, and Laplace noise of scale sensitivity / epsilon is
    epsilon-DP (:func:`peerveil.laplace_scale`). The sensitivity depends on public data only. ∎

    If it is 0 (every reviewer wrote one review), the sorted means are public, and no noise is added.
    """

    epsilon: Number

    def guarantee(self, public: PublicScores) -> Guarantee:  # noqa: ARG002
        """Pure DP for one exchange."""
        return means_guarantee(self.epsilon)

    def scale(self, public: PublicScores) -> float:
        """The scale of the noise; 0 if none is needed."""
        sensitivity = laplace_sensitivity(public)
        return laplace_scale(sensitivity=sensitivity, epsilon=self.epsilon) if sensitivity else 0.0

    def variance(self, public: PublicScores) -> float:
        """Twice the squared scale."""
        return 2.0 * self.scale(public) ** 2

    def perturb(self, means: Floats, public: PublicScores, randomness: Randomness) -> Floats:
        """Add the noise."""
        scale = self.scale(public)
        return randomness.laplace(means, scale=scale) if scale else means.copy()


@dataclass(frozen=True, kw_only=True)
class PublishedMeans(Result):
    """A publishable distribution of reviewers' means.

    Attributes
    ----------
    means
        The estimate of the sorted means: this is what to publish.
    noisy
        The noisy vector that it was computed from; it may be published too.
    expectation
        What public data alone predict. A release this close to it adds little.
    reviewer_guarantee
        The same guarantee for all reviews of one reviewer.
    spread
        Whether reviewers differ more than by chance, as far as the noise allows to say; ``None`` if no assignment could
        make their means differ.
    region
        The sorted means that public data allow.
    """

    weight: str
    estimate: str
    means: Floats
    noisy: Floats
    expectation: Floats
    noise_variance: float
    reviewer_guarantee: Guarantee
    spread: SpreadTest | None
    region: FeasibleRegion = field(repr=False)

    def summary(self) -> str:
        """The finding in one line."""
        low, mid, high = np.quantile(self.means, [0.1, 0.5, 0.9])
        return (
            f"{self.means.size:,} reviewers' mean {self.weight}: median {mid:.3g}, "
            f"from {low:.3g} (10% are below) to {high:.3g} (10% are above)"
        )

    def beyond_public(self) -> str:
        """A plain sentence on what the release says beyond what was public anyway."""
        if self.spread is None:
            return NOBODY_DIFFERS
        away = float(np.sqrt(np.mean((self.means - self.expectation) ** 2)))
        drowned = away < 0.02 * (float(np.std(self.expectation)) or 1.0)
        hardly = "It says hardly more than the public data alone: at this epsilon the noise drowns the rest."
        return f"{hardly} {self.spread}" if drowned else str(self.spread)

    def __str__(self) -> str:
        return (
            f"{super().__str__()}\nFor a whole reviewer: {self.reviewer_guarantee.short}\n{ASSUMES_PUBLIC}\n"
            f"{self.beyond_public()}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything but the region's sums, as JSON values."""
        data = super().to_dict()
        data["region"] = {
            "bounds": self.region.bounds,
            "lower": self.region.lower.tolist(),
            "upper": self.region.upper.tolist(),
        }
        data["beyond_public"] = self.beyond_public()
        data["reviewer_guarantee_in_words"] = str(self.reviewer_guarantee)
        return data

    def frame(self) -> pl.DataFrame:
        """What may be published, one row per reviewer in the order of the means, without names."""
        return pl.DataFrame(
            {
                "rank": np.arange(1, self.means.size + 1),
                "published_mean": self.means,
                "noisy_mean": self.noisy,
                "expected_from_public_data": self.expectation,
                # bounds of nine decimals are enough, rounded so that what was between them still is
                "lower": np.floor(self.region.lower * 1e9) / 1e9,
                "upper": np.ceil(self.region.upper * 1e9) / 1e9,
            }
        )

    def to_csv(self) -> str:
        """:meth:`frame` as CSV text."""
        return self.frame().write_csv()

    def draw(self, ax: Axes) -> None:
        """The published curve, the region, the public expectation and the noisy input."""
        from peerveil.release.figures import draw_published

        draw_published(self, ax)


def publish(
    reviews: Any,
    *,
    epsilon: Number | None = None,
    weight: str = "rating",
    scale: tuple[float, float] | None = None,
    bounds: str = "counting",
    estimate: str = "auto",
    columns: Mapping[str, str] | None = None,
    mechanism: Perturbation | None = None,
    randomness: Randomness | None = None,
    account: Account | None = None,
) -> PublishedMeans:
    """Publish the distribution of reviewers' mean weights with differential privacy.

    Parameters
    ----------
    reviews : Reviews, DataFrame or path
        Who scored which paper.
    epsilon : number or str
        Privacy parameter for one exchange of reviews: ``1``, ``0.5`` or ``"1/3"``. Smaller is more private.
    weight : str, optional
        ``"rating"`` (default), ``"miscalibration"``, ``"normalized"`` or ``"subjectivity"``.
    scale : tuple of float, optional
        The declared lowest and highest score. Default: the range of the scores.
    bounds : str, optional
        Which feasible region to use: ``"counting"`` (default) or ``"range"``, see :func:`feasible_region`.
    estimate : str, optional
        ``"projection"`` can never hurt; ``"shrinkage"`` (default, ``"auto"``) is far more accurate on average; ``"none"``
        publishes the noisy vector.
    columns : mapping, optional
        Our names for columns that the table calls otherwise: ``{"paper": "submission"}``.
    mechanism : Perturbation, optional
        Another perturbation than Laplace noise, with its own guarantee; then ``epsilon`` is left out.
    randomness : Randomness, optional
        Default: the secure source.
    account : Account, optional
        An account of a ledger, debited before the noise is drawn.

    Examples
    --------
    >>> from peerveil.data import synthetic_conference
    >>> reviews = synthetic_conference(papers=60, reviewers=40, seed=1).reviews
    >>> published = publish(reviews, epsilon=2, weight="miscalibration", randomness=Randomness.simulation(1))
    >>> published.means.size, published.mark
    (40, 'simulation, not private')
    """
    if estimate not in ESTIMATES:
        raise BadInput("estimate", got=estimate, want=f"one of {', '.join(ESTIMATES)}")
    if (epsilon is None) is (mechanism is None):
        raise BadInput("epsilon", got=epsilon, want="a number above 0, or mechanism= with a guarantee of its own")
    if mechanism is None:
        assert epsilon is not None
        mechanism = LaplaceMeans(epsilon=epsilon)
    randomness = Randomness.secure() if randomness is None else randomness
    reviews = Reviews.of(reviews, "reviews", columns=columns)
    public = PublicScores.of(reviews, weight=weight, scale=scale)
    guarantee = mechanism.guarantee(public)
    # all that is public comes first: if it fails, nothing is spent
    region = feasible_region(public, bounds=bounds)
    prior = public_prior(public)
    private = bool(laplace_sensitivity(public))
    weights = review_weights(reviews, weight=weight, scale=scale)
    reviewer, _ = reviews.numbered("reviewer")
    exact = sorted_means(weights.values, reviewer)
    if account is not None and private:
        account.spend(guarantee, purpose=f"reviewers' mean {weight}", data=reviews, randomness=randomness)
    noisy = mechanism.perturb(exact, public, randomness)
    variance = mechanism.variance(public)
    chosen = "shrinkage" if estimate == "auto" else estimate
    return PublishedMeans(
        guarantee=randomness.stamp(guarantee),
        reviewer_guarantee=randomness.stamp(reviewer_guarantee(guarantee, public)),
        weight=weight,
        estimate=chosen,
        means=estimate_means(noisy, variance, region, chosen, prior),
        noisy=noisy,
        expectation=prior.means[0].mean(axis=0),
        noise_variance=variance,
        spread=spread_test(noisy, variance, prior.means[0]),
        region=region,
    )


def estimate_means(noisy: Floats, variance: float, region: FeasibleRegion, estimate: str, prior: PublicPrior) -> Floats:
    """The estimate from the noisy vector and public data."""
    if estimate == "none":
        return noisy
    projected = region.project(noisy)
    if estimate == "projection" or variance == 0:
        return projected
    shrunken = region.project(shrink(noisy, variance, prior, region.lower, region.upper))
    share = signal_share(variance, prior)
    return (1 - share) * shrunken + share * projected


# ---- how far the sorted means can move: the paper adds noise without a sensitivity (erratum) --------------------------


def swap_sensitivity(public: PublicScores) -> Fraction:
    """The L1 sensitivity of the sorted means to an exchange of one review between two reviewers.

    With R the range of the public weights it is the largest, over pairs of loads that occur, of

    - R (1/a + 1/b) for loads a, b >= 2;
    - R (1 - 1/l^2) for loads 1 and l >= 2;
    - 0 for loads 1 and 1.

    **Proof.** Let reviewer A give up weight x for y = x + d, and B the reverse, 0 <= d <= R. A's mean rises by d/a and
    B's falls by d/b; nobody else's changes. The L1 distance of two sorted vectors is the least cost of matching their
    entries, so it is at most d/a + d/b <= R(1/a + 1/b), the first case (it is reached: A's other weights lowest, B's
    highest). If both loads are 1, the two means change places, and the sorted vector stays. If a = 1 and b = l, match
    A's new mean y with B's old mean v and A's old mean x with B's new mean u = v - d/l instead, if that is cheaper:
    with t = u - x the cost is abs(t) + abs(d - d/l - t), which is d(1 - 1/l) for 0 <= t <= d - d/l, and grows by twice the
    distance of t from that interval. Since u = (x + s)/l with a sum s of l - 1 weights, x - u is at most
    (1 - 1/l)(x - min), and likewise above, so t leaves the interval by at most (1 - 1/l)(R - d). The distance is
    therefore at most min(d(1 + 1/l), (1 - 1/l)(2R - d)), which is largest at d = R(1 - 1/l): R(1 - 1/l^2). ∎

    >>> from peerveil.release.public import PublicScores
    >>> float(swap_sensitivity(PublicScores([[0, 1], [0, 1]], loads=[2, 2])))
    1.0
    >>> float(swap_sensitivity(PublicScores([[0, 1], [0, 1]], loads=[1, 1, 1, 1])))
    0.0
    """
    spread = Fraction(float(public.values.max())) - Fraction(float(public.values.min()))
    loads = public.loads
    worst = Fraction(0)
    several = loads[loads >= 2]
    if several.size >= 2:
        worst = Fraction(1, int(several[0])) + Fraction(1, int(several[1]))
    if several.size and several.size < loads.size:
        worst = max(worst, 1 - Fraction(1, int(several[-1]) ** 2))
    return spread * worst


def means_guarantee(epsilon: Number | None) -> Guarantee:
    """The guarantee for one review."""
    return Guarantee.pure_dp(epsilon, unit="who wrote one review", neighbors=NEIGHBORS)


def reviewer_guarantee(guarantee: Guarantee, public: PublicScores) -> Guarantee:
    """The same guarantee for all reviews of the busiest reviewer: as many exchanges as they wrote reviews."""
    return guarantee.group(int(public.loads[-1]), unit="who wrote all reviews of one reviewer")


def laplace_sensitivity(public: PublicScores) -> Fraction:
    """:func:`swap_sensitivity` with a margin for the rounding of the means.

    A mean of l weights that is computed in floats errs by at most l 2^-53 max|w| (one rounding an addition, one for the
    division, each relative to at most l max|w| / l). Over all N reviews that is N 2^-53 max|w| for each of the two
    worlds, so that the computed vectors differ by at most 2 N 2^-53 max|w| more than the exact ones.
    """
    exact = swap_sensitivity(public)
    largest = Fraction(float(np.abs(public.values).max()))
    return exact + 2 * public.values.size * largest / 2**53 if exact else exact
