"""Do two groups, or the same people at two times, rank differently? A test, and which items moved.

**The statistic** is the squared length of the difference of the two groups' mean places, in units in which it is about
chi-square for uniform rankings. Without epsilon, group labels are permuted: the level is exact for any distribution of
rankings.

**With epsilon** two things are published. Nine tenths go to both groups' sums of places, with noise on the permutohedron as in
:mod:`~peerveil.rankings.consensus`: one person stands in one group, so that each group's noise is for the same epsilon. One
tenth goes to the concentration C, the Frobenius norm of the mean of u u' over all people, u a person's centered places scaled to
length at most 1. **Proof.** Replacing u by v moves the mean by (u u' - v v')/n, of norm
sqrt(abs(u)^4 + abs(v)^4 - 2 <u, v>^2)/n <= sqrt(2)/n, and a norm by no more; Laplace noise covers that, and the two add
up to epsilon. ∎ Rounding is far below the noise: a margin of 2^-40 is part of the sensitivity.

**The null** is simulated. If both groups have one distribution, the difference is the noise, whose law is public, plus a sampling
error with covariance S (1/n_a + 1/n_b), S that of one person's places. The trace of S is at most 1 minus the squared
length of the mean u; that of S^2 at most C^2 minus its fourth power (S = M - mu mu', M the mean of u u', and
mu' M mu >= abs(mu)^4).
Among spectra with a given trace and sum of squares, one large eigenvalue and equal others has the longest tail, so that is
what is simulated: the level also holds where people fall into opposed camps. C enters with its noise's 97.5% point.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.core.arrays import Floats
from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import probability
from peerveil.core.guarantee import Guarantee, read_epsilon
from peerveil.core.randomness import PermutohedronNoise, Randomness, laplace_scale
from peerveil.core.result import Result
from peerveil.rankings.ballots import MOST_HELD, Ballots
from peerveil.rankings.intervals import (
    SEED,
    luce_rows,
    modeled_strengths,
    noise_errors,
    normal_errors,
    place_covariance,
    simultaneous,
)
from peerveil.rankings.kernels import places_of
from peerveil.rankings.uniformity import read_level

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.core.exact import Number
    from peerveil.ledger import Account

_FOR_SUMS: Final = Fraction(9, 10)
_DRAWS: Final = 10_000
_NEIGHBORS: Final = (
    "one person's ranking, complete or not, is replaced by any other in one of the two groups; how many people each group has "
    "and how many items there are is public"
)


@dataclass(frozen=True, kw_only=True)
class RankingComparison(Result):
    """Whether two groups rank differently, and which items moved.

    Attributes
    ----------
    statistic : float
        The squared length of the difference of mean places, in units of its deviation for uniform rankings.
    pvalue : float
        How often groups that rank alike give a statistic at least as large.
    reject : bool
        Whether the p-value is at most ``level``.
    differences : dict
        By item: how many places better the second group ranks it than the first, on average.
    intervals : dict
        By item: an interval of that difference; all hold at once with probability ``confidence``.
    """

    statistic: float
    pvalue: float
    reject: bool
    level: float
    confidence: float
    rankings: tuple[int, int]
    differences: dict[Hashable, float]
    intervals: dict[Hashable, tuple[float, float]]

    @property
    def moved(self) -> tuple[Hashable, ...]:
        """Items whose interval does not hold 0, the largest difference first."""
        certain = [item for item, (low, high) in self.intervals.items() if low > 0 or high < 0]
        return tuple(sorted(certain, key=lambda item: -abs(self.differences[item])))

    def summary(self) -> str:
        """The finding in one line."""
        a, b = self.rankings
        p = f"p = {self.pvalue:.2g}" if self.pvalue >= 1e-3 else "p < 0.001"
        verdict = "rank differently" if self.reject else "show no sign of ranking differently"
        moved = ", ".join(map(str, self.moved[:3])) + (", ..." if len(self.moved) > 3 else "")
        return f"{a:,} and {b:,} people {verdict} ({p}, level {self.level:g}); items that moved: {moved or 'none for certain'}"

    def frame(self) -> pl.DataFrame:
        """One row per item, the one that gained most first."""
        order = sorted(self.differences, key=lambda item: -self.differences[item])
        rows = [
            {"item": str(item), "difference": self.differences[item], "lower": self.intervals[item][0],
             "upper": self.intervals[item][1], "moved": item in self.moved}
            for item in order
        ]  # fmt: skip
        return pl.DataFrame(rows)

    def draw(self, ax: Axes) -> None:
        """Differences as dots with intervals."""
        from peerveil.rankings.figures import draw_comparison

        draw_comparison(self, ax)


def compare(
    rankings: Any,
    second: Any,
    *,
    epsilon: Number | None = None,
    level: float = 0.05,
    confidence: float = 0.95,
    columns: Mapping[str, str] | None = None,
    layout: str | None = None,
    unranked: str = "last",
    randomness: Randomness | None = None,
    account: Account | None = None,
) -> RankingComparison:
    """Test whether two groups of people rank the same items differently, and say which items moved.

    Parameters
    ----------
    rankings, second
        The two groups, each as in :func:`~peerveil.rankings.consensus`, of the same items; nobody is in both.
    epsilon : number, optional
        Privacy budget for one person's ranking. Default: ``None``, a permutation test that is not private.
    level : float, optional
        Significance level. Default: 0.05.
    confidence : float, optional
        The probability with which the intervals of all items hold at once. Default: 0.95.
    columns, layout, unranked, randomness, account : optional
        As in :func:`~peerveil.rankings.uniformity_test`, for both groups. An account is debited for each group.

    Examples
    --------
    >>> from peerveil.rankings import Mallows
    >>> before, after = Mallows(6, 0.8), Mallows(6, 0.8, [5, 1, 2, 3, 4, 0])
    >>> groups = before.sample(600, seed=1), after.sample(500, seed=2)
    >>> result = compare(*groups, epsilon=1, randomness=Randomness.simulation(1))
    >>> result.reject, sorted(result.moved)
    (True, [0, 5])
    """
    level = read_level(level)
    probability(confidence, "confidence")
    exact = None if epsilon is None else read_epsilon(epsilon)
    source = Randomness.of(randomness)
    if account is not None and exact is None:
        raise BadInput("account", got=account, want="None: what is not private cannot be entered in a ledger")
    groups = [
        Ballots.of(data, columns=columns, layout=layout, unranked=unranked, identified=account is not None)
        for data in (rankings, second)
    ]
    for name, ballots in zip(("rankings", "second"), groups, strict=True):
        ballots.require_enough()
        if not ballots.held:
            raise BadInput(name, got=Verbatim(f"more than {MOST_HELD:,} ranks"), want="fewer")
    names, m = groups[0].names, groups[0].items
    order = same_items(names, groups[1].names)
    sizes = (groups[0].total, groups[1].total)
    guarantee = compare_guarantee(exact)
    noise = None if exact is None else _noise(m, exact)
    places = [np.concatenate([places_of(ranks, group.last) for ranks, _ in group.blocks()]) for group in groups]
    places[1] = places[1][:, order]
    counts = [np.concatenate([number for _, number in group.blocks()]) for group in groups]
    scale = 12 / (m * (m + 1)) / (1 / sizes[0] + 1 / sizes[1])
    if exact is None or noise is None:
        sums = [number @ rows for number, rows in zip(counts, places, strict=True)]
        means = [total / (2 * size) for total, size in zip(sums, sizes, strict=True)]
        pvalue = _permuted(places, counts, means, source)
        covariances = [
            np.atleast_2d(np.cov(rows / 2, rowvar=False, fweights=w)) for rows, w in zip(places, counts, strict=True)
        ]
        errors = normal_errors(covariances[0] / sizes[0] + covariances[1] / sizes[1], freedom=min(sizes) - 1)
    else:
        for group in groups:
            if account is not None:
                purpose = f"whether two groups rank {m} items differently"
                account.spend(guarantee, purpose=purpose, data=group.data, randomness=source)
        *sums, concentration = published(places, counts, exact, source)
        means = [total / (2 * size) for total, size in zip(sums, sizes, strict=True)]
        highest = float(concentration[0]) + _spread_scale(sum(sizes), exact) * math.log(20)  # its noise's 97.5% point
        pvalue, inflate = _simulated(means, sizes, noise, highest)
        modeled = [_modeled(mean, size, noise) / size for mean, size in zip(means, sizes, strict=True)]
        drawn = [noise_errors(noise, size) for size in sizes]
        errors = normal_errors(inflate * (modeled[0] + modeled[1])) + drawn[0] + drawn[1][::-1]
    difference = means[0] - means[1]
    half = simultaneous(errors, confidence)

    def by_item(values: Any) -> dict[Hashable, Any]:
        return dict(zip(names, values, strict=True))

    return RankingComparison(
        guarantee=guarantee if exact is None else source.stamp(guarantee),
        statistic=float(scale * difference @ difference),
        pvalue=pvalue,
        reject=pvalue <= level,
        level=level,
        confidence=confidence,
        rankings=sizes,
        differences=by_item(difference.tolist()),
        intervals=by_item(zip((difference - half).tolist(), (difference + half).tolist(), strict=True)),
    )


def published(places: list[Any], counts: list[Any], epsilon: Fraction, source: Randomness) -> tuple[Any, Any, Floats]:
    """All that is computed from the data: both groups' noisy sums of doubled places, and the noisy concentration."""
    m, people = places[0].shape[1], sum(int(number.sum()) for number in counts)
    noise = _noise(m, epsilon)
    first, second = (number @ rows + noise.draw(source) for number, rows in zip(counts, places, strict=True))
    scale = _spread_scale(people, epsilon)
    return first, second, source.laplace([_concentration(places, counts, m)], scale=scale)


def _noise(items: int, epsilon: Fraction) -> PermutohedronNoise:
    return PermutohedronNoise(items, epsilon * _FOR_SUMS)


def _spread_scale(people: int, epsilon: Fraction) -> float:
    """Of the concentration's noise: sqrt(2) over the number of people, rounded up, and a margin for rounding."""
    root = Fraction(math.isqrt(2 * 2**80) + 1, 2**40)
    return laplace_scale(sensitivity=root / people + Fraction(1, 2**40), epsilon=epsilon * (1 - _FOR_SUMS))


def same_items(first: tuple[Hashable, ...], second: tuple[Hashable, ...]) -> list[int]:
    """Where the first group's items stand in the second; refuses other items."""
    if set(first) != set(second):
        got, need = (", ".join(map(str, items[:8])) for items in (second, first))
        raise BadInput("second", got=Verbatim(f"the items {got}"), want=f"those of the first group: {need}")
    return [second.index(item) for item in first]


def compare_guarantee(epsilon: Number | None) -> Guarantee:
    """The guarantee of :func:`compare`."""
    return Guarantee.pure_dp(epsilon, unit="one person's ranking", neighbors=_NEIGHBORS)


def _permuted(places: list[Any], counts: list[Any], means: list[Floats], source: Randomness) -> float:
    """The p-value by permuting who is in which group."""
    sizes = [int(number.sum()) for number in counts]
    rows = np.concatenate([np.repeat(rows, number, axis=0) for rows, number in zip(places, counts, strict=True)]) / 2
    rows -= rows.mean(axis=0)
    rng = np.random.default_rng(int(source.integers(0, 2**31 - 1, 1)[0]))
    observed = float(((means[0] - means[1]) ** 2).sum())
    smaller = min(sizes)
    draws = int(min(_DRAWS, max(999, 2e8 / rows.size)))
    factor = (
        1 / sizes[0] + 1 / sizes[1]
    )  # sums are centered: the difference of means is the smaller group's sum times this
    hits = 0
    for _ in range(draws):
        drawn = rows[rng.permutation(len(rows))[:smaller]].sum(axis=0) * factor
        hits += bool(drawn @ drawn >= observed * (1 - 1e-12))
    return (1 + hits) / (draws + 1)


def _concentration(places: list[Any], counts: list[Any], m: int) -> float:
    """The norm of the mean of u u' over all people."""
    unit = math.sqrt(m * (m * m - 1) / 3)  # the length of a complete ranking's doubled centered places
    total = np.zeros((m, m))
    for rows, number in zip(places, counts, strict=True):
        u = (rows - (m - 1)) / unit
        total += u.T @ (u * number[:, None])
    return float(np.linalg.norm(total)) / sum(int(number.sum()) for number in counts)


def _modeled(mean: Floats, size: int, noise: PermutohedronNoise) -> Floats:
    """The covariance of one person's places in Plackett and Luce's model with this noisy mean."""
    return place_covariance(luce_rows(modeled_strengths(mean, (noise.sd / (2 * size)) ** 2), 5_000))


def _simulated(
    means: list[Floats], sizes: tuple[int, int], noise: PermutohedronNoise, concentration: float
) -> tuple[float, float]:
    """The p-value under the simulated null, and by how much people vary more than Plackett and Luce's model says."""
    m = means[0].size
    rng = np.random.default_rng(SEED)
    pooled = (sizes[0] * means[0] + sizes[1] * means[1]) / sum(sizes)
    modeled = _modeled(pooled, sum(sizes), noise)
    length = float(((pooled - (m - 1) / 2) ** 2).sum())
    noise_length = m * (noise.sd / 2) ** 2 * 2 / sum(sizes) ** 2
    unit = m * (m * m - 1) / 12
    mean_square = max(length - noise_length, 0.0) / unit  # the squared length of the mean u, without the noise in it
    trace = max(1 - mean_square, 1e-6)
    squares = min(max(concentration**2 - mean_square**2, trace**2 / (m - 1)), trace**2)
    # one eigenvalue b + a and m - 2 of b: (m - 1) b + a = trace, (m - 2) b^2 + (b + a)^2 = squares
    root = math.sqrt(max((m - 2) / (m - 1) * (squares - trace**2 / (m - 1)), 0.0))
    largest = trace / (m - 1) + root
    others = (trace - largest) / (m - 2) if m > 2 else 0.0
    axes = np.linalg.qr(np.column_stack([np.ones(m), rng.standard_normal((m, m - 1))]))[0][:, 1:]
    spectrum = np.sqrt(unit * np.array([largest, *[max(others, 0.0)] * (m - 2)]) * (1 / sizes[0] + 1 / sizes[1]))
    drawn = (rng.standard_normal((_DRAWS, m - 1)) * spectrum) @ axes.T
    for size, sign in zip(sizes, (1, -1), strict=True):
        drawn += sign * noise.simulate(rng, _DRAWS) / (2 * size)
    difference = means[0] - means[1]
    hits = int(((drawn**2).sum(axis=1) >= difference @ difference).sum())
    expected = float((modeled**2).sum()) / unit**2
    return (1 + hits) / (_DRAWS + 1), max(1.0, math.sqrt(squares / max(expected, 1e-12)))
