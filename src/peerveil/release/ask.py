"""A chair's own questions: how many reviewers are stricter than so many points, how strict are they overall, do groups differ?

Few counts get little noise each: two per group here, against a dozen for a whole curve. Groups of reviewers
(membership is public) or several conferences are asked at once, with one epsilon
(:class:`~peerveil.release.NoisyCounts`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.core.arrays import Floats, Ints
from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import number
from peerveil.core.guarantee import read_epsilon
from peerveil.core.randomness import MaxNormNoise, Randomness
from peerveil.core.randomness.max_norm import read_level
from peerveil.core.result import Result
from peerveil.data import Reviews
from peerveil.data.table import is_frame
from peerveil.release.estimate import BAND_PRIOR, CountModel, strictness_of
from peerveil.release.family import Family, counts_at
from peerveil.release.mechanism import NOUNS, OWN_PART, count_bounds, means_guarantee, percent, points
from peerveil.release.public import PublicScores, reviewer_means
from peerveil.release.weights import review_weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.core.exact import Number
    from peerveil.ledger import Account

BELOW: Final = dict.fromkeys(NOUNS, "below") | {"miscalibration": "stricter than"}
_TYPICAL: Final = 1.4  # chance SDs: two counts there say most about how far reviewers differ
MOST_GROUPS: Final = 50


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its interval."""

    estimate: float
    lower: float
    upper: float

    def percent(self, reviewers: int) -> str:
        """As percentages of so many reviewers."""
        lower, upper = percent(self.lower, reviewers, "lower"), percent(self.upper, reviewers, "upper")
        return f"{percent(self.estimate, reviewers)} ({lower} to {upper})"


@dataclass(frozen=True, slots=True)
class GroupAnswer:
    """What is known of one group of reviewers."""

    name: str
    reviewers: int
    stricter: Interval
    more_lenient: Interval
    strictness_sd: Interval
    stricter_by_chance: float


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
        For each group the share of reviewers who are stricter, or more lenient, than asked, the standard deviation of
        strictness, and the share who would be stricter by chance alone. The shares' intervals hold for all groups at once with
        probability ``level``, whatever the truth; those of the standard deviation assume that strictness is roughly normal.
    differences : tuple of Difference
        Between all pairs of groups; their intervals hold at once with the shares'.
    distance : float
        By how many points a reviewer must be stricter or more lenient.
    """

    weight: str
    level: float
    groups: tuple[GroupAnswer, ...]
    differences: tuple[Difference, ...]
    distance: float

    def summary(self) -> str:
        """The answers: one sentence per group, and what is certain of their differences."""
        lines = [self._sentence(group) for group in self.groups]
        certain = [pair for pair in self.differences if pair.certain]
        for pair in self.differences if len(self.differences) == 1 else certain:
            low, high = 100 * pair.stricter.lower, 100 * pair.stricter.upper
            sure = "differs" if pair.certain else "may be the same"
            lines.append(
                f"The share of strict reviewers {sure}: in {pair.group} minus in {pair.other}, it is between {low:.0f} and "
                f"{high:.0f} percentage points."
            )
        if len(self.differences) > 1 and not certain:
            lines.append("The share of strict reviewers may be the same in all groups.")
        return " ".join(lines)

    def _sentence(self, group: GroupAnswer) -> str:
        name, sd, n = f"{group.name}: " if group.name else "", group.strictness_sd, group.reviewers
        return (
            f"{name}{group.stricter.percent(n)} of {n:,} reviewers are at least {points(self.distance)} {BELOW[self.weight]} "
            f"average, where chance alone gives {percent(group.stricter_by_chance, n)}; the standard deviation of "
            f"{OWN_PART[self.weight]} is about {sd.estimate:.2g} points ({sd.lower:.2g} to {sd.upper:.2g}, if it is roughly "
            "normal)."
        )

    def frame(self) -> pl.DataFrame:
        """One row per group."""
        rows = []
        for group in self.groups:
            row: dict[str, Any] = {"group": group.name, "reviewers": group.reviewers, "points": self.distance}
            for name in ("stricter", "more_lenient", "strictness_sd"):
                interval = getattr(group, name)
                row |= {name: interval.estimate, f"{name}_lower": interval.lower, f"{name}_upper": interval.upper}
            rows.append({**row, "stricter_by_chance": group.stricter_by_chance})
        return pl.DataFrame(rows)

    def comparison(self) -> pl.DataFrame:
        """One row per pair of groups: how much larger the share of strict reviewers is in the first."""
        names = ("difference", "difference_lower", "difference_upper")
        return pl.DataFrame(
            [
                {"group": pair.group, "other": pair.other, **dict(zip(names, astuple(pair.stricter), strict=True))}
                for pair in self.differences
            ]
        )

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
    groups: Any = None,
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
        chance alone would give (on average over conferences), where two counts say most about how far reviewers differ.
    groups : mapping, DataFrame or path, optional
        The group of each reviewer, which is public: ``{"ann": "junior", "bo": "senior"}``, or a table with the columns
        reviewer and group.
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
    randomness, guarantee = Randomness.of(randomness), means_guarantee(read_epsilon(epsilon))
    tables, membership = _read_tables(reviews, columns), None if groups is None else read_groups(groups)
    chance = {name: Family(_private_scores(table, weight, scale)) for name, table in tables.items()}
    distance = (
        _typical_distance(chance.values())
        if stricter_than is None
        else number(stricter_than, "stricter_than", 1e-6, 1e6)
    )
    sides = [
        side
        for name, table in tables.items()
        for side in _sides(name, table, chance[name], membership, weight, scale, distance)
    ]
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
        distance=distance,
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


def _private_scores(table: Reviews, weight: str, scale: Any) -> PublicScores:
    public = PublicScores.of(table, weight=weight, scale=scale)
    if not public.is_private:
        raise BadInput(
            "reviews", got=Verbatim("reviewers whose means are public"), want="reviewers with several reviews each"
        )
    return public


def _typical_distance(families: Iterable[Family]) -> float:
    return float(f"{_TYPICAL * np.mean([family.expectation.std() for family in families]):.2g}")


def _sides(
    name: str,
    table: Reviews,
    chance: Family,
    groups: Mapping[str, str] | None,
    weight: str,
    scale: Any,
    distance: float,
) -> list[_Side]:
    """The groups of one conference, in the order of their names."""
    public = chance.public
    reviewer, ids = table.numbered("reviewer")
    means = reviewer_means(review_weights(table, weight=weight, scale=scale).values, reviewer)
    by_load = np.argsort(np.bincount(reviewer), kind="stable")  # the order of public.loads
    means, center = means[by_load], float(public.values.mean())
    if groups is None:
        return [_Side(name, chance, means, center, distance)]
    labels = _labels(groups, ids.to_list())[by_load]
    return [
        _Side(
            f"{name} {label}".strip(),
            Family(public, np.flatnonzero(labels == label)),
            means[labels == label],
            center,
            distance,
        )
        for label in np.unique(labels)
    ]


def read_groups(groups: Any) -> dict[str, str]:
    """The group of each reviewer, from a mapping, or from a table with the columns reviewer and group."""
    want = "reviewers and the names of their groups: a mapping, or a table with the columns reviewer and group"
    if isinstance(groups, str | os.PathLike):
        if not Path(groups).is_file():
            raise BadInput("groups", got=Verbatim(f"no file {groups}"), want=want)
        path = Path(groups)
        try:
            groups = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path, infer_schema=False)
        except pl.exceptions.PolarsError as error:
            raise BadInput("groups", got=Verbatim(f"{path}, which cannot be read"), want=want) from error
    if is_frame(groups) and not isinstance(groups, Mapping):
        if not {"reviewer", "group"} <= set(groups.columns):
            raise BadInput("groups", got=list(groups.columns), want=want)
        rows = list(zip(groups["reviewer"], groups["group"], strict=True))
    elif isinstance(groups, Mapping):
        rows = list(groups.items())
    else:
        raise BadInput("groups", got=groups, want=want)
    for _, label in rows:
        if not isinstance(label, str) or not label.strip():
            raise BadInput("groups", got=label, want=want)
    labels = {str(reviewer): label.strip() for reviewer, label in rows}
    if len(labels) < len(rows):
        raise BadInput("groups", got=Verbatim("a reviewer twice"), want="every reviewer once")
    return labels


def _labels(groups: Mapping[str, str], ids: list[Any]) -> np.ndarray[Any, Any]:
    missing = sum(str(value) not in groups for value in ids)
    if missing:
        got = Verbatim(f"no group for {missing} of {len(ids)} reviewers")
        raise BadInput("groups", got=got, want="a group for every reviewer of the data")
    return np.array([groups[str(value)] for value in ids])


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
        float(counts_at(side.family.expectation, side.thresholds)[0] / n),
    )


def _difference(first: GroupAnswer, second: GroupAnswer) -> Difference:
    a, b = first.stricter, second.stricter
    return Difference(first.name, second.name, Interval(a.estimate - b.estimate, a.lower - b.upper, a.upper - b.lower))
