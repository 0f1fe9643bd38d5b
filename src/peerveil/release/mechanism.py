"""Publishing the distribution of reviewers' mean weights: noisy counts at public thresholds, and estimates from them.

The only private input is how many reviewers have a mean of at most each threshold; the only randomized step adds whole-number
noise to these counts. All that follows sees the noisy counts and public data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.core.arrays import Floats, Ints
from peerveil.core.errors import BadInput
from peerveil.core.guarantee import Guarantee, read_epsilon
from peerveil.core.randomness import MaxNormNoise, Randomness
from peerveil.core.randomness.max_norm import MOST_COUNTS, read_level
from peerveil.core.result import Result
from peerveil.data import Reviews
from peerveil.release.estimate import CountModel, Estimate, default_thresholds, estimate
from peerveil.release.family import Family, counts_at
from peerveil.release.public import PublicScores, reviewer_means
from peerveil.release.region import feasible_region
from peerveil.release.spread import SpreadStatistic, SpreadTest
from peerveil.release.weights import review_weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.core.exact import Number
    from peerveil.ledger import Account

NOBODY_DIFFERS: Final = "By the public data all reviewers' means are known, whoever wrote what: nothing was spent."
ASSUMES_PUBLIC: Final = (
    "This assumes that the scores of every paper and the number of reviews that each reviewer wrote are public (or will be): "
    "they shape what is published and are not protected. What is protected is who wrote which review."
)
_QUOTED: Final = 0.1  # the summary quotes the shares nearest to it
NEIGHBORS: Final = (
    "two reviewers exchange one review each; what papers received and how many reviews each wrote stays as it is"
)


@dataclass(frozen=True, kw_only=True)
class NoisyCounts:
    """How many reviewers have a mean of at most each threshold, with joint noise.

    **Neighbors**: two reviewers exchange one review each; the weights that papers received, and everybody's load, stay.

    **Sensitivity.** N_k, the number of reviewers whose mean is at most t_k, changes by at most 1, for all k at once,
    whatever the loads, the range of weights and the number of thresholds. **Proof.** A gives up weight x for y >= x,
    and B the reverse. A's mean does not fall, B's does not rise, and nobody else's changes. So N_k falls by 1 if A's
    mean rises above t_k, rises by 1 if B's falls to t_k or below, and otherwise stays: its change is -1, 0 or 1. This
    holds for the computed means too: each is the sum of the reviewer's weights in ascending order, divided by their
    number; A's weights in ascending order do not fall in any place, and rounded addition and division are monotone.
    With several groups of reviewers (membership is public) or several conferences the same holds for all counts of
    all of them at once, since an exchange concerns one A and one B. ∎

    So joint noise with P(z) proportional to exp(-epsilon max abs(z_k)) is epsilon-DP:
    :class:`~peerveil.core.randomness.MaxNormNoise`. The thresholds must not depend on who wrote what.
    """

    thresholds: tuple[float, ...]
    epsilon: Number

    @property
    def noise(self) -> MaxNormNoise:
        """The law of the noise: public."""
        return MaxNormNoise(len(self.thresholds), self.epsilon)

    def guarantee(self) -> Guarantee:
        """Pure DP for one exchange."""
        return means_guarantee(self.epsilon)

    def release(self, means: Floats, randomness: Randomness, count: int = 1) -> Ints:
        """``count`` independent releases of the counts, one per row."""
        private = counts_at(means, np.array(self.thresholds)).astype(np.int64)
        return private + self.noise.draw(randomness, count)


def means_guarantee(epsilon: Number | None) -> Guarantee:
    """The guarantee for one review."""
    return Guarantee.pure_dp(epsilon, unit="who wrote one review", neighbors=NEIGHBORS)


def reviewer_guarantee(guarantee: Guarantee, public: PublicScores) -> Guarantee:
    """The same guarantee for all reviews of the busiest reviewer: as many exchanges as they wrote reviews."""
    return guarantee.group(int(public.loads[-1]), unit="who wrote all reviews of one reviewer")


@dataclass(frozen=True, kw_only=True)
class PublishedMeans(Result):
    """A publishable distribution of reviewers' means.

    Attributes
    ----------
    thresholds, counts : array
        What was drawn: how many reviewers have a mean of at most each threshold, with noise.
    half_width : int
        All true counts are within this distance of ``counts`` with probability ``level``, whatever the truth.
    means : array
        The estimate of the sorted means: this is what to publish.
    lower, upper : array
        A pointwise interval for each of them. It assumes that reviewers' strictness is roughly normal, heavy-tailed or of two
        groups; :attr:`shares` assumes nothing.
    strictness_sd : float
        The standard deviation of reviewers' strictness (of their own part of the weight).
    strictness_interval : tuple of float
        Its interval, if strictness is roughly normal.
    expectation : array
        What public data alone predict. A release this close to it adds little.
    spread : SpreadTest or None
        Whether reviewers differ more than by chance; ``None`` if all means are public anyway.
    reviewer_guarantee : Guarantee
        The same guarantee for all reviews of one reviewer.
    """

    weight: str
    level: float
    thresholds: Floats
    counts: Ints
    half_width: int
    means: Floats
    lower: Floats
    upper: Floats
    strictness_sd: float
    strictness_interval: tuple[float, float]
    expectation: Floats
    spread: SpreadTest | None
    reviewer_guarantee: Guarantee
    noise_sd: float = field(repr=False)

    @property
    def shares(self) -> pl.DataFrame:
        """The share of reviewers below (at most) and above each threshold.

        The intervals hold for all thresholds at once with probability ``level``, whatever the truth: they follow from the law
        of the noise, which is public, and from the order of the counts.
        """
        low, high = count_bounds(self.counts, self.half_width, self.means.size)
        n = self.means.size
        middle = np.clip(np.searchsorted(self.means, self.thresholds, side="right"), low, high)
        return pl.DataFrame(
            {
                "threshold": self.thresholds,
                "below": middle / n,
                "below_lower": low / n,
                "below_upper": high / n,
                "above": 1 - middle / n,
                "above_lower": 1 - high / n,
                "above_upper": 1 - low / n,
            }
        )

    @property
    def headline(self) -> str:
        """The finding in one sentence: about which tenth is lowest and highest."""
        rows, noun, n = self.shares.to_dicts(), NOUNS[self.weight], self.means.size
        if self.spread is None:
            low, mid, high = np.quantile(self.means, [0.1, 0.5, 0.9])
            return f"{n:,} reviewers' {noun}: median {mid:.3g}, from {low:.3g} (10% are below) to {high:.3g} (10% are above)"
        # the intervals hold together, so that any of the shares may be quoted
        first, last = (min(rows, key=lambda row: abs(row[side] - _QUOTED)) for side in ("below", "above"))
        shares = [_share_in_words(self.weight, first, "below", n, f"of {n:,} reviewers ")]
        if last["threshold"] > first["threshold"]:
            shares.append(_share_in_words(self.weight, last, "above", n))
        return " and ".join(shares)

    def summary(self) -> str:
        """The finding in one line: the headline, and how far reviewers differ."""
        if self.spread is None:
            return self.headline
        low, high = self.strictness_interval
        return (
            f"{self.headline}; the standard deviation of {OWN_PART[self.weight]} is about {self.strictness_sd:.2g} points "
            f"({low:.2g} to {high:.2g}, if it is roughly normal)"
        )

    def beyond_public(self) -> str:
        """A plain sentence on whether the release says more than what was public anyway."""
        if self.spread is None:
            return NOBODY_DIFFERS
        own = OWN_PART[self.weight]
        if self.spread.reject:
            return (
                f"This says more than public data alone: {own} differs more than by chance "
                f"(p = {self.spread.pvalue:.2g})."
            )
        noticed = self.spread.noticeable
        smallest = (
            f"a standard deviation of {noticed:.2g} points or more would have been noticed in at least 80% of releases"
            if np.isfinite(noticed)
            else "no difference, however large, would have been noticed reliably"
        )
        return (
            f"This says hardly more than public data alone: no sign that {own} differs more than by chance; {smallest}."
        )

    def __str__(self) -> str:
        return (
            f"{super().__str__()}\nFor a whole reviewer: {self.reviewer_guarantee.short}\n{ASSUMES_PUBLIC}\n"
            f"{self.beyond_public()}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values, with the shares and what they say."""
        return {
            **super().to_dict(),
            "shares": self.shares.to_dicts(),
            "beyond_public": self.beyond_public(),
            "reviewer_guarantee_in_words": str(self.reviewer_guarantee),
        }

    def frame(self) -> pl.DataFrame:
        """What may be published, one row per reviewer in the order of the means, without names."""
        return pl.DataFrame(
            {
                "rank": np.arange(1, self.means.size + 1),
                "published_mean": self.means,
                "lower": self.lower,
                "upper": self.upper,
                "expected_from_public_data": self.expectation,
            }
        )

    def to_csv(self) -> str:
        """:meth:`frame` as CSV text."""
        return self.frame().write_csv()

    def draw(self, ax: Axes) -> None:
        """The published curve with its band beside what chance alone would give."""
        from peerveil.release.figures import draw_published

        draw_published(self, ax)


NOUNS: Final = {
    "rating": "mean score",
    "miscalibration": "strictness",
    "normalized": "mean normalized score",
    "subjectivity": "mean subjectivity",
}
"""What a weight measures, in words."""
OWN_PART: Final = {
    "rating": "reviewers' own part of their scores",
    "miscalibration": "reviewers' strictness",
    "normalized": "reviewers' own part of their normalized scores",
    "subjectivity": "reviewers' subjectivity",
}
"""What differs between reviewers other than by chance, in words."""


def points(number: float) -> str:
    """A number of points.

    >>> points(1), points(0.25)
    ('1 point', '0.25 points')
    """
    return f"{number:.3g} {'point' if number == 1 else 'points'}"


def percent(share: float, reviewers: int, end: str = "") -> str:
    """A share of reviewers, with as many digits as the noise leaves; a lower or upper end is rounded outward.

    >>> percent(1 / 8, 80), percent(1 / 8, 20_000), percent(1 / 8, 80, "lower"), percent(1 / 8, 80, "upper")
    ('12%', '12.50%', '12%', '13%')
    """
    digits = (reviewers >= 1000) + (reviewers >= 10_000)
    rounded = {"lower": np.floor, "upper": np.ceil}.get(end, np.round)(round(100 * share, 9) * 10**digits)
    return f"{rounded / 10**digits:.{digits}f}%"


def _share_in_words(weight: str, row: dict[str, float], side: str, reviewers: int, whom: str = "") -> str:
    """One share with its interval; strict and lenient reviewers are called so."""
    at, (share, low, high) = (
        row["threshold"],
        (percent(row[side + end], reviewers, end[1:]) for end in ("", "_lower", "_upper")),
    )
    interval = f"({low} to {high})"
    if weight == "miscalibration" and side == "below" and at < 0:
        return f"{share} {whom}{interval} are at least {points(-at)} stricter than others on the same papers"
    if weight == "miscalibration" and side == "above" and at > 0:
        return f"{share} {whom}{interval} more than {points(at)} more lenient"
    relation = "at most" if side == "below" else "above"
    return f"{share} {whom}{interval} have a {NOUNS[weight]} {relation} {at:.3g}".replace("  ", " ")


def count_bounds(counts: Ints, half_width: int, reviewers: int) -> tuple[Ints, Ints]:
    """Joint bounds of the true counts, which do not fall from one threshold to the next."""
    low = np.maximum.accumulate(np.clip(counts - half_width, 0, reviewers))
    high = np.minimum.accumulate(np.clip(counts + half_width, 0, reviewers)[::-1])[::-1]
    return low, np.maximum(low, high)


def publish(
    reviews: Any,
    *,
    epsilon: Number,
    weight: str = "miscalibration",
    scale: tuple[float, float] | None = None,
    columns: Mapping[str, str] | None = None,
    thresholds: Sequence[float] | None = None,
    level: float = 0.95,
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
        ``"miscalibration"`` (default: strictness), ``"rating"``, ``"normalized"`` or ``"subjectivity"``.
    scale : tuple of float, optional
        The declared lowest and highest score; a score outside is refused. Default: the range of the scores.
    columns : mapping, optional
        Our names for columns that the table calls otherwise: ``{"paper": "submission"}``.
    thresholds : list of float, optional
        Where to count reviewers, in the unit of the weight: few thresholds get less noise each. They must not be
        chosen by looking at who wrote what. Default: chosen from public data.
    level : float, optional
        The coverage of the intervals. Default: 0.95.
    randomness : Randomness, optional
        Default: the secure source.
    account : Account, optional
        An account of a ledger, debited before the noise is drawn.

    Examples
    --------
    >>> from peerveil.data import synthetic_conference
    >>> reviews = synthetic_conference(papers=60, reviewers=40, seed=1).reviews
    >>> published = publish(reviews, epsilon=2, randomness=Randomness.simulation(1))
    >>> published.means.size, published.mark
    (40, 'simulation, not private')
    >>> stricter = publish(reviews, epsilon=1, thresholds=[-1], randomness=Randomness.simulation(1))
    >>> stricter.shares.columns[:4]
    ['threshold', 'below', 'below_lower', 'below_upper']
    """
    read_level(level)
    randomness = Randomness.of(randomness)
    guarantee = means_guarantee(read_epsilon(epsilon))
    reviews = Reviews.of(reviews, "reviews", columns=columns)
    # all that is public comes first: if it fails, nothing is spent
    public = PublicScores.of(reviews, weight=weight, scale=scale)
    family, region = Family(public), feasible_region(public)
    chosen = check_thresholds(thresholds)
    if chosen is None:
        chosen = default_thresholds(family, float(guarantee.epsilon or 0))
    mechanism = NoisyCounts(thresholds=tuple(chosen.tolist()), epsilon=epsilon)
    model = CountModel(family, chosen, mechanism.noise)
    statistic = SpreadStatistic(model) if public.is_private else None
    means = reviewer_means(review_weights(reviews, weight=weight, scale=scale).values, reviews.numbered("reviewer")[0])
    if statistic is None:
        counts, half_width = counts_at(means, chosen).astype(np.int64), 0
        sure = np.sort(means)
        guess = Estimate(sure, sure, sure, 0.0, (0.0, 0.0))
    else:
        if account is not None:
            account.spend(guarantee, purpose=f"reviewers' mean {weight}", data=reviews, randomness=randomness)
        counts, half_width = mechanism.release(means, randomness)[0], mechanism.noise.half_width(level)
        guess = estimate(model, counts.astype(np.float64), level=level)
    return PublishedMeans(
        guarantee=randomness.stamp(guarantee),
        reviewer_guarantee=randomness.stamp(reviewer_guarantee(guarantee, public)),
        weight=weight,
        level=level,
        thresholds=chosen,
        counts=counts,
        half_width=half_width,
        means=guess.means if statistic is None else region.project(guess.means),
        lower=guess.lower,
        upper=guess.upper,
        strictness_sd=guess.strictness_sd,
        strictness_interval=guess.strictness_interval,
        expectation=family.expectation,
        spread=None if statistic is None else statistic.test(counts.astype(np.float64)),
        noise_sd=float(np.sqrt(mechanism.noise.variance)) if statistic else 0.0,
    )


def check_thresholds(thresholds: Sequence[float] | None, argument: str = "thresholds") -> Floats | None:
    """Thresholds in ascending order, or None."""
    if thresholds is None:
        return None
    want = f"1 to {MOST_COUNTS} different finite numbers"
    try:
        values = np.asarray(list(thresholds), dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput(argument, got=thresholds, want=want) from None
    ascending = np.unique(values)
    valid = values.ndim == 1 and 1 <= values.size <= MOST_COUNTS and ascending.size == values.size
    if not (valid and np.isfinite(values).all()):
        raise BadInput(argument, got=thresholds, want=want)
    return ascending
