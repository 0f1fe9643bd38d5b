"""Shares and means compared between groups: every group's own, the differences with intervals, and one test of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, Unpack

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.lazy import chdtrc
from peerveil.data.table import plural
from peerveil.truth.shares import SharesBase, SharesResult, check_level, shares_of
from peerveil.truth.shares_counts import count_by, matching
from peerveil.truth.shares_figures import draw_groups
from peerveil.truth.shares_fit import LinearEstimate, ReportCounts, difference_interval, maximum_likelihood
from peerveil.truth.shares_read import Terms, open_reports

_MOST_GROUPS: Final = 200


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupShares(SharesBase):
    """The shares of every group, and how far they differ.

    Attributes
    ----------
    groups
        The groups, sorted; ``results`` holds each group's shares (:class:`~peerveil.truth.shares.SharesResult`).
    reference
        The group that the others are compared with.
    differences
        One row per other group and class: the group's share less that of the reference, with its interval. Of means,
        one row per other group.
    statistic, freedom, pvalue
        The test that all groups have the same shares.
    """

    group: str
    groups: tuple[Any, ...]
    results: tuple[SharesResult, ...] = field(repr=False)
    classes: tuple[Any, ...]
    reference: Any
    differences: pl.DataFrame = field(repr=False)
    statistic: float
    freedom: int
    pvalue: float
    level: float
    most: int
    epsilon: Fraction | None
    doubt: str | None = None

    @property
    def of_means(self) -> bool:
        """Whether the classes have scores, so that means are compared."""
        return self.results[0].mean is not None

    def frame(self) -> pl.DataFrame:
        """One row per group and class: the share and the ends of its interval; of means, one row per group."""
        if self.of_means:
            rows = [
                (group, one.people, *one.mean) for group, one in zip(self.groups, self.results, strict=True) if one.mean
            ]
            return pl.DataFrame(rows, schema=[self.group, "people", "mean", "lower", "upper"], orient="row")
        frames = [
            one.frame().select(pl.lit(group).alias(self.group), pl.lit(one.people).alias("people"), pl.all())
            for group, one in zip(self.groups, self.results, strict=True)
        ]
        return pl.concat(frames)

    def summary(self) -> str:
        """The largest difference with its interval, and the test, in one line."""
        size = self.differences["difference"].abs()
        row = self.differences.row(int(size.arg_max() or 0), named=True)
        scale, unit = (1, "") if self.of_means else (100, " points")
        what = "mean" if self.of_means else f"share of {row['class']}"
        ends = ", ".join(f"{scale * row[end]:+.3g}" for end in ("lower", "upper"))
        digits = "< 0.001" if self.pvalue < 0.001 else f"= {self.pvalue:.3f}"
        return (
            f"the largest difference is in the {what}: {row[self.group]} {scale * row['difference']:+.3g}{unit} from "
            f"{self.reference} [{ends}]; equal shares in all {plural(len(self.groups), 'group')}: p {digits}"
        )

    draw = draw_groups


def compare_groups(
    reports: Any,
    *,
    group: str,
    reference: Any = None,
    level: float = 0.95,
    scores: Mapping[Any, float] | Sequence[float] | bool | None = None,
    **terms: Unpack[Terms],
) -> GroupShares:
    """Compare the shares of groups, or their means.

    Parameters
    ----------
    group
        The column that says to which group a report belongs. It is public.
    reference
        The group to compare with; by default the first.

    Other parameters are those of :func:`peerveil.truth.shares.estimate_shares`; ``level`` is for each interval by
    itself.

    Notes
    -----
    Differences get Newcombe's interval, from the intervals of both groups. The test is that of homogeneity
    on the *reports*: groups have the same shares if, and only if, they have the same distribution of reports (the
    channel can be inverted), so that its level is that of a chi-squared test without privacy. With weights or several
    reports of a person the statistic is divided by the mean design effect (the first-order correction of Rao and
    Scott). Nobody may be in two groups, or the groups would not be independent.

    Examples
    --------
    >>> table = {"label": [1] * 80 + [0] * 20 + [1] * 50 + [0] * 50, "region": ["north"] * 100 + ["south"] * 100}
    >>> result = compare_groups(table, group="region", epsilon=2, classes=2)
    >>> [round(value, 2) for value in result.differences.filter(pl.col("class") == 1).row(0)[2:]]
    [-0.39, -0.55, -0.22]
    >>> result.pvalue < 0.001
    True
    """
    check_level(level)
    with open_reports(reports, extra=[group], lists=True, **terms) as (source, question):
        counts = count_by(source, question, by=group)
        if source.person is not None and sum(one.people for one in counts.values()) > source.people()["people"][0]:
            want = "groups of different people; to compare answers of the same people, use a cross table"
            raise BadInput("group", got=Verbatim(f"people who are in several groups of {group}"), want=want)
    if None in counts:
        raise BadInput("group", got=Verbatim(f"reports without a value of {group}"), want="a group for every report")
    if not 2 <= len(counts) <= _MOST_GROUPS:
        raise BadInput("group", got=Verbatim(plural(len(counts), "group")), want=f"from 2 to {_MOST_GROUPS} groups")
    if alone := [name for name, one in counts.items() if one.people < 2]:
        got = Verbatim(f"one person in group {alone[0]}")
        raise BadInput("group", got=got, want="at least two people in every group: join small groups")
    groups = tuple(counts)
    reference = groups[0] if reference is None else matching(reference, groups, "reference")
    results = {name: shares_of(one, question, level=level, scores=scores) for name, one in counts.items()}
    statistic, freedom = _homogeneity(list(counts.values()))
    return GroupShares(
        guarantee=question.guarantee,
        group=group,
        groups=groups,
        results=tuple(results.values()),
        classes=question.classes,
        reference=reference,
        differences=_differences(group, results, reference),
        statistic=statistic,
        freedom=freedom,
        pvalue=float(chdtrc(freedom, statistic)) if freedom else 1.0,
        level=float(level),
        most=max(one.most for one in counts.values()),
        epsilon=question.epsilon,
        doubt=next((one.doubt for one in results.values() if one.doubt is not None), None),
    )


def _differences(group: str, results: Mapping[Any, SharesResult], reference: Any) -> pl.DataFrame:
    """Every other group less the reference."""
    base = results[reference]
    rows: list[tuple[Any, ...]] = []
    for name, one in results.items():
        if name == reference:
            continue
        if one.mean is not None and base.mean is not None:
            rows.append((name, *difference_interval(one.mean, base.mean)))
            continue
        rows += [(name, answer, *difference_interval(one.share(answer), base.share(answer))) for answer in one.classes]
    names = [group, *([] if base.mean is not None else ["class"]), "difference", "lower", "upper"]
    return pl.DataFrame(rows, schema=names, orient="row")


def _homogeneity(counts: Sequence[ReportCounts]) -> tuple[float, int]:
    """Pearson's statistic that all groups have the same shares, and its degrees of freedom.

    With one matrix it compares the tables of reports. With several (people chose their epsilon) it compares the groups'
    unbiased estimates with that of all together, each by the inverse of its covariance: the score test of the same
    hypothesis.
    """
    k = counts[0].likelihood.shape[1]
    if all(one.is_complete for one in counts):
        design = _mean_design(counts)
        table = np.stack([one.total * one.reports / one.total.sum() for one in counts])
        table = table[:, table.sum(axis=0) > 0]
        expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
        freedom = (table.shape[0] - 1) * (table.shape[1] - 1)
        return float(((table - expected) ** 2 / expected).sum() / design), freedom
    pooled = _pooled(counts)
    informations, values = [], []
    for one in counts:
        estimate = LinearEstimate.of(one, pooled)
        if one.subsets is not None:  # deviations add up to 0, where the covariance has its inverse
            covariance = one.subsets.covariance(one.subsets.values(pooled, one.mix), pooled, one.mix)
            information = np.linalg.pinv(covariance, rcond=1e-9, hermitian=True)
        else:
            precise = one.likelihood / np.maximum(one.likelihood @ pooled, 1e-12)[:, None]
            information = (one.mix[one.block][:, None] * precise).T @ one.likelihood
        informations.append(information * float(estimate.effective.mean()))
        values.append(estimate.value)
    center = np.linalg.lstsq(
        sum(informations), sum(i @ v for i, v in zip(informations, values, strict=True)), rcond=None
    )[0]
    # deviations add up to 0 over the classes, where the information is the inverse of the covariance
    statistic = sum(float((v - center) @ i @ (v - center)) for i, v in zip(informations, values, strict=True))
    return statistic, (len(counts) - 1) * (k - 1)


def _mean_design(counts: Sequence[ReportCounts]) -> float:
    """The mean design effect over groups and classes: 1 for independent reports of equal weight."""
    ratios = []
    for one in counts:
        shares = maximum_likelihood(one.likelihood, one.total)
        ratios.append(one.reports / float(LinearEstimate.of(one, shares).effective.mean()))
    return float(np.mean(ratios))


def _pooled(counts: Sequence[ReportCounts]) -> np.ndarray:
    likelihood = np.vstack([one.likelihood for one in counts])
    return maximum_likelihood(likelihood, np.concatenate([one.total for one in counts]))
