"""A chair's own questions: how many reviewers are stricter than so many points, how strict are they overall, do groups differ?

Few counts get little noise each: two per group here, against a dozen for a whole curve. Groups of reviewers
(membership is public) or several conferences are asked at once, with one epsilon
(:class:`~peerveil.release.NoisyCounts`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.core.arrays import Floats, Ints
from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import number
from peerveil.core.randomness import MaxNormNoise, Randomness
from peerveil.core.randomness.max_norm import read_level
from peerveil.core.result import Result
from peerveil.data import Reviews
from peerveil.data.table import is_frame
from peerveil.release.estimate import BAND_PRIOR, CountModel, strictness_of
from peerveil.release.family import Family, counts_at
from peerveil.release.mechanism import NOUNS, count_bounds, means_guarantee
from peerveil.release.public import PublicScores, reviewer_means
from peerveil.release.weights import review_weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.core.exact import Number
    from peerveil.ledger import Account

_TYPICAL: Final = 1.4  # chance SDs: two counts there say most about how far reviewers differ
MOST_GROUPS: Final = 50


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its interval."""

    estimate: float
    lower: float
    upper: float

    def percent(self) -> str:
        """As percentages."""
        return f"{100 * self.estimate:.0f}% (between {100 * self.lower:.0f}% and {100 * self.upper:.0f}%)"


@dataclass(frozen=True, slots=True)
class GroupAnswer:
    """What is known of one group of reviewers."""

    name: str
    reviewers: int
    stricter: Interval
    more_lenient: Interval
    strictness_sd: Interval


@dataclass(frozen=True, slots=True)
class Difference:
    """How much larger the share of strict reviewers is in one group than in another."""

    group: str
    other: str
    stricter: Interval

    @property
    def certain(self) -> bool:
        """Whether the interval excludes 0."""
        return not self.stricter.lower <= 0 <= self.stricter.upper


@dataclass(frozen=True, kw_only=True)
class StrictnessAnswer(Result):
    """Answers to a chair's questions.

    Attributes
    ----------
    groups : tuple of GroupAnswer
        For each group the share of reviewers who are stricter, or more lenient, than asked, and the standard deviation of
        strictness. The shares' intervals hold for all groups at once with probability ``level``, whatever the truth; those of
        the standard deviation assume that strictness is roughly normal.
    differences : tuple of Difference
        Between all pairs of groups; their intervals hold at once with the shares'.
    distance : tuple of float
        By how many points a reviewer must be stricter or more lenient, for each group.
    """

    weight: str
    level: float
    groups: tuple[GroupAnswer, ...]
    differences: tuple[Difference, ...]
    distance: tuple[float, ...]

    def summary(self) -> str:
        """The answers in one sentence per group and difference."""
        lines = []
        for group, distance in zip(self.groups, self.distance, strict=True):
            where, sd = f" in {group.name}" if group.name else "", group.strictness_sd
            lines.append(
                f"{group.stricter.percent()} of {group.reviewers:,} reviewers{where} are at least {distance:.2g} points stricter "
                f"than the average; strictness has a standard deviation of {sd.estimate:.2g} ({sd.lower:.2g} to {sd.upper:.2g}, "
                "if it is roughly normal)."
            )
        for pair in self.differences:
            sure = "differs" if pair.certain else "may be the same"
            lines.append(
                f"The share of strict reviewers in {pair.group} and {pair.other} {sure}: the difference is between "
                f"{100 * pair.stricter.lower:.0f} and {100 * pair.stricter.upper:.0f} percentage points."
            )
        return " ".join(lines)

    def frame(self) -> pl.DataFrame:
        """One row per group."""
        rows = []
        for group, distance in zip(self.groups, self.distance, strict=True):
            row: dict[str, Any] = {"group": group.name, "reviewers": group.reviewers, "points": distance}
            for name in ("stricter", "more_lenient", "strictness_sd"):
                interval = getattr(group, name)
                row |= {name: interval.estimate, f"{name}_lower": interval.lower, f"{name}_upper": interval.upper}
            rows.append(row)
        return pl.DataFrame(rows)

    def draw(self, ax: Axes) -> None:
        """The share of strict reviewers with its interval, for each group."""
        from peerveil.release.figures import draw_answer

        draw_answer(self, ax)


@dataclass(frozen=True, eq=False)
class _Side:
    """One group: its public family, its reviewers' means (private), and where to count."""

    name: str
    family: Family
    means: Floats
    center: float
    distance: float

    @property
    def thresholds(self) -> Floats:
        return np.array([self.center - self.distance, self.center + self.distance])


def ask(
    reviews: Any,
    *,
    epsilon: Number,
    stricter_than: float | None = None,
    groups: Mapping[Any, str] | None = None,
    weight: str = "miscalibration",
    scale: tuple[float, float] | None = None,
    columns: Mapping[str, str] | None = None,
    level: float = 0.95,
    randomness: Randomness | None = None,
    account: Account | None = None,
) -> StrictnessAnswer:
    """How many reviewers are strict, how strict they are overall, and whether groups or years differ.

    Parameters
    ----------
    reviews : Reviews, DataFrame, path, or mapping of names to them
        Who scored which paper. Several conferences, such as two years, are compared: ``{"2025": first, "2026": second}``.
    epsilon : number or str
        Privacy parameter for one exchange of reviews, for all answers together.
    stricter_than : float, optional
        How many points below the average counts as strict (and above it as lenient). Default: 1.4 standard deviations of what
        chance alone would give, where two counts say most about how far reviewers differ.
    groups : mapping, optional
        The group of each reviewer, which is public: ``{"ann": "junior", "bo": "senior"}``.
    weight, scale, columns, level, randomness, account : optional
        As in :func:`~peerveil.release.publish`.

    Examples
    --------
    >>> from peerveil.data import synthetic_conference
    >>> reviews = synthetic_conference(papers=120, reviewers=80, seed=1).reviews
    >>> answer = ask(reviews, epsilon=1, stricter_than=1, randomness=Randomness.simulation(1))
    >>> strict = answer.groups[0].stricter
    >>> strict.lower <= strict.estimate <= strict.upper
    True
    """
    read_level(level)
    randomness, guarantee = Randomness.of(randomness), means_guarantee(epsilon)
    tables = _read_tables(reviews, columns)
    distance = None if stricter_than is None else number(stricter_than, "stricter_than", 1e-6, 1e6)
    sides = [side for name, table in tables.items() for side in _sides(name, table, groups, weight, scale, distance)]
    if len(sides) > MOST_GROUPS:
        raise BadInput("groups", got=Verbatim(f"{len(sides)} groups"), want=f"at most {MOST_GROUPS}")
    noise = MaxNormNoise(2 * len(sides), epsilon)
    models = [CountModel(side.family, side.thresholds, noise) for side in sides]
    if account is not None:  # one debit per conference: each is protected with this epsilon
        for table in tables.values():
            purpose = f"how {NOUNS[weight]} is distributed"
            account.spend(guarantee, purpose=purpose, data=table, randomness=randomness)
    counts = group_counts([(side.means, side.thresholds) for side in sides], epsilon, randomness).reshape(-1, 2)
    half_width = noise.half_width(level)
    answers = [
        _answer(side, model, row, half_width, level) for side, model, row in zip(sides, models, counts, strict=True)
    ]
    return StrictnessAnswer(
        guarantee=randomness.stamp(guarantee),
        weight=weight,
        level=level,
        groups=tuple(answers),
        differences=tuple(_difference(a, b) for a, b in combinations(answers, 2)),
        distance=tuple(side.distance for side in sides),
    )


def group_counts(
    groups: Sequence[tuple[Floats, Floats]], epsilon: Number, randomness: Randomness, count: int = 1
) -> Ints:
    """``count`` releases of the counts of all groups, each given by its means and thresholds: one row each, with joint noise.

    This is the only step of :func:`ask` that sees who wrote what. It is epsilon-DP: an exchange concerns one A and one
    B, so the counts of all groups change by at most 1 (:class:`~peerveil.release.NoisyCounts`).
    """
    private = np.concatenate([counts_at(means, thresholds) for means, thresholds in groups]).astype(np.int64)
    return private + MaxNormNoise(private.size, epsilon).draw(randomness, count)


def _read_tables(reviews: Any, columns: Mapping[str, str] | None) -> dict[str, Reviews]:
    if not (
        isinstance(reviews, Mapping)
        and all(isinstance(table, Reviews | str | os.PathLike) or is_frame(table) for table in reviews.values())
    ):
        return {"": Reviews.of(reviews, "reviews", columns=columns)}
    return {str(name): Reviews.of(table, f"reviews[{name!r}]", columns=columns) for name, table in reviews.items()}


def _sides(
    name: str, table: Reviews, groups: Mapping[Any, str] | None, weight: str, scale: Any, distance: float | None
) -> list[_Side]:
    """The groups of one conference, in the order of their names."""
    public = PublicScores.of(table, weight=weight, scale=scale)
    if not public.is_private:
        raise BadInput(
            "reviews", got=Verbatim("reviewers whose means are public"), want="reviewers with several reviews each"
        )
    reviewer, ids = table.numbered("reviewer")
    means = reviewer_means(review_weights(table, weight=weight, scale=scale).values, reviewer)
    by_load = np.argsort(np.bincount(reviewer), kind="stable")  # the order of public.loads
    means = means[by_load]
    center, chance = float(public.values.mean()), Family(public)
    asked = float(_TYPICAL * chance.expectation.std()) if distance is None else distance
    if groups is None:
        return [_Side(name, chance, means, center, asked)]
    labels = _labels(groups, ids.to_list())[by_load]
    return [
        _Side(
            f"{name} {label}".strip(),
            Family(public, np.flatnonzero(labels == label)),
            means[labels == label],
            center,
            asked,
        )
        for label in np.unique(labels)
    ]


def _labels(groups: Mapping[Any, str], ids: list[Any]) -> np.ndarray[Any, Any]:
    if not isinstance(groups, Mapping) or not all(isinstance(value, str) for value in groups.values()):
        raise BadInput("groups", got=groups, want="a mapping of reviewers to the names of their groups")
    missing = [value for value in ids if value not in groups]
    if missing:
        raise BadInput(
            "groups", got=Verbatim(f"no group for reviewer {missing[0]!r}"), want="a group for every reviewer"
        )
    return np.array([groups[value] for value in ids])


def _answer(side: _Side, model: CountModel, counts: Ints, half_width: int, level: float) -> GroupAnswer:
    n = side.family.size
    low, high = count_bounds(counts, half_width, n)
    draws = model.sample(counts.astype(np.float64), BAND_PRIOR)
    below, above = (np.clip(draws.counts.mean(axis=0), low, high) / n).tolist()
    sd = strictness_of(draws, model.family.weight_sd, level)
    return GroupAnswer(
        side.name,
        n,
        Interval(below, float(low[0] / n), float(high[0] / n)),
        Interval(1 - above, float(1 - high[1] / n), float(1 - low[1] / n)),
        Interval(*sd),
    )


def _difference(first: GroupAnswer, second: GroupAnswer) -> Difference:
    a, b = first.stricter, second.stricter
    return Difference(first.name, second.name, Interval(a.estimate - b.estimate, a.lower - b.upper, a.upper - b.lower))
