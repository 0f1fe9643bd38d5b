"""Coverage and width of intervals of shares: ``python -m benchmarks.truth_shares [REPETITIONS]`` (500 by default).

In 20 settings, reports are drawn from their distribution under known shares. A row says how often the 95% intervals
held the true share (over all classes, and of the class where it happened least), and how wide they were against the
Cramér–Rao limit of the channel, over the classes with shares from .1 to .9. Further rows do the same for what is built
on shares.

``python -m benchmarks.truth_shares rrreg minarets.csv`` compares the logistic regression with the published example of
the R package RRreg (Heck and Moshagen 2018, Journal of Statistical Software 85(2), section 4.3); in R:
``write.csv(RRreg::minarets, "minarets.csv")``.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from peerveil import Randomness
from peerveil.core.arrays import Floats
from peerveil.core.randomness import NumberResponse, OrderedResponse, SubsetResponse
from peerveil.truth.guarantee import device_guarantee
from peerveil.truth.models import Channel
from peerveil.truth.shares import SharesResult, estimate_shares, shares_of
from peerveil.truth.shares_counts import Question
from peerveil.truth.shares_cross import cross_table
from peerveil.truth.shares_fit import ReportCounts
from peerveil.truth.shares_groups import compare_groups
from peerveil.truth.shares_regression import fit_logistic, logistic_regression

Z = 1.959964
SETTINGS: list[tuple[int, float, int, str]] = [
    (50, 0.5, 2, "even"), (50, 1, 2, "rare"), (50, 2, 3, "steep"), (50, 4, 5, "steep"), (50, 4, 20, "steep"),
    (200, 0.5, 2, "steep"), (200, 1, 5, "steep"), (200, 2, 2, "rare"), (200, 4, 10, "one"), (200, 1, 20, "even"),
    (1000, 0.5, 2, "steep"), (1000, 1, 2, "even"), (1000, 1, 10, "steep"), (1000, 2, 5, "one"), (1000, 4, 20, "steep"),
    (10000, 0.5, 20, "steep"), (10000, 0.5, 2, "rare"), (10000, 1, 5, "steep"), (10000, 2, 20, "steep"), (10000, 4, 3, "rare"),
]  # fmt: skip
"""People, epsilon, classes, and what the shares are like."""


def shares_like(kind: str, k: int) -> Floats:
    """True shares: all equal, falling by half (with a floor), one rare class, or everybody in the first class."""
    weights = {
        "even": np.ones(k),
        "steep": 0.5 ** np.arange(k) + 0.02,
        "rare": np.r_[np.ones(k - 1) * 0.98 / (k - 1), 0.02],
        "one": np.r_[1.0, np.zeros(k - 1)],
    }[kind]
    return np.asarray(weights / weights.sum())


def question_of(epsilon: float, k: int) -> Question:
    """A question with the classes 0 to k - 1."""
    return Question(tuple(range(k)), device_guarantee(epsilon).exact_epsilon, device_guarantee(epsilon))


def limit(n: int, epsilon: float, shares: Floats) -> Floats:
    """The width of an interval of 95% at the Cramér–Rao limit, for every class: 2 z sqrt(f (1 - f) / n) / (keep - other)."""
    channel = Channel.of(epsilon, len(shares))
    frequency = shares @ channel.matrix
    return np.asarray(2 * Z * np.sqrt(frequency * (1 - frequency) / n) / channel.contrast)


def measure(
    n: int, epsilon: float, k: int, kind: str, repetitions: int, seed: int, believed: float | None = None
) -> dict[str, Any]:
    """Coverage and width in one setting; ``believed`` is the epsilon that the estimate is told."""
    rng, truth = np.random.default_rng(seed), shares_like(kind, k)
    matrix, asked = Channel.of(epsilon, k).matrix, question_of(believed or epsilon, k)
    held, width = np.zeros(k), np.zeros(k)
    for counts in rng.multinomial(n, truth @ matrix, size=repetitions):
        result: SharesResult = shares_of(ReportCounts.of([asked.matrix(None)], [counts]), asked, level=0.95)
        held += (result.lower <= truth + 1e-9) & (truth - 1e-9 <= result.upper)
        width += result.upper - result.lower
    middle = (truth >= 0.1) & (truth <= 0.9)
    ratio = (width / repetitions / limit(n, epsilon, truth))[middle]
    return {
        "people": n, "epsilon": epsilon, "classes": k, "shares": kind,
        "coverage": held.mean() / repetitions, "least": held.min() / repetitions,
        "width/limit": float(ratio.max()) if middle.any() else None,
    }  # fmt: skip


SUBSETS: list[tuple[int, float, int, str]] = [(300, 1, 10, "steep"), (2000, 0.5, 20, "steep"), (1000, 2, 6, "rare")]
"""Settings with reports that name several classes."""


def measure_subsets(n: int, epsilon: float, k: int, kind: str, repetitions: int, seed: int) -> dict[str, Any]:
    """Coverage and width in one setting of a subset response; the limit is that of a binary report for each class."""
    rng, truth, randomness = np.random.default_rng(seed), shares_like(kind, k), Randomness.simulation(seed)
    response = SubsetResponse(epsilon, k)
    held, width = np.zeros(k), np.zeros(k)
    for _ in range(repetitions):
        reports = randomness.respond(rng.choice(k, n, p=truth), response)
        result = estimate_shares(pl.Series(reports.tolist()), epsilon=epsilon, classes=k)
        held += (result.lower <= truth + 1e-9) & (truth - 1e-9 <= result.upper)
        width += result.upper - result.lower
    frequency = response.other + (response.keep - response.other) * truth
    binary = 2 * Z * np.sqrt(frequency * (1 - frequency) / n) / (response.keep - response.other)
    middle = (truth >= 0.1) & (truth <= 0.9)
    return {
        "people": n, "epsilon": epsilon, "classes": k, "named": response.size, "shares": kind,
        "coverage": held.mean() / repetitions, "least": held.min() / repetitions,
        "width/limit": float((width / repetitions / binary)[middle].max()),
    }  # fmt: skip


def measure_numbers(n: int, epsilon: float, repetitions: int, seed: int) -> dict[str, float]:
    """Coverage of the mean of numbers from 0 to 10 and of a scale of 5, and of the shares of the scale."""
    rng, randomness = np.random.default_rng(seed), Randomness.simulation(seed)
    number, scale = NumberResponse(epsilon, low=0, high=10), OrderedResponse(epsilon, classes=5)
    truth = np.array([0.1, 0.2, 0.4, 0.2, 0.1])
    held = np.zeros(3)
    for _ in range(repetitions):
        of_numbers = estimate_shares(randomness.respond(10 * rng.beta(2, 5, n), number), response=number).mean
        rated = estimate_shares(randomness.respond(rng.choice(5, n, p=truth), scale), response=scale, scores=True)
        assert of_numbers is not None
        assert rated.mean is not None
        inside = (rated.lower <= truth) & (truth <= rated.upper)
        held += [
            of_numbers.lower <= 20 / 7 <= of_numbers.upper, rated.mean.lower <= 2 <= rated.mean.upper, inside.mean(),
        ]  # fmt: skip
    names = ("mean of numbers", "mean of an ordered scale", "shares of an ordered scale")
    return dict(zip(names, (held / repetitions).tolist(), strict=True))


def _hold(
    draw: Callable[[np.random.Generator], list[tuple[float, float, float]]], repetitions: int, seed: int
) -> float:
    """How often intervals hold: ``draw`` gives truths with the ends of their intervals."""
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = np.array([row for _ in range(repetitions) for row in draw(rng)])
    return float(((rows[:, 1] <= rows[:, 0] + 1e-9) & (rows[:, 0] - 1e-9 <= rows[:, 2])).mean())


def randomized(rng: np.random.Generator, answers: Any, epsilon: Any, k: int) -> Any:
    """k-ary response, by its definition."""
    answers = np.asarray(answers)
    odds = np.exp(np.broadcast_to(epsilon, answers.shape))
    keep = rng.random(answers.shape) < odds / (odds + k - 1)
    return np.where(keep, answers, (answers + rng.integers(1, k, answers.shape)) % k)


def further(repetitions: int) -> dict[str, float]:
    """Coverage of what is built on shares, epsilon 1 to 2; tests: how often a true hypothesis is rejected at 5%."""

    def mean(rng: np.random.Generator) -> list[tuple[float, float, float]]:
        answers = rng.choice(5, 800, p=[0.4, 0.3, 0.15, 0.1, 0.05])
        found = estimate_shares(randomized(rng, answers, 1, 5), epsilon=1, classes=5, scores=True).mean
        assert found is not None
        return [(1.1, found.lower, found.upper)]

    def own(rng: np.random.Generator) -> list[tuple[float, float, float]]:
        epsilon = rng.choice([0.5, 1.0, 3.0], 1000)
        label = randomized(rng, rng.choice(3, 1000, p=[0.6, 0.3, 0.1]), epsilon, 3)
        result = estimate_shares({"label": label, "epsilon": epsilon}, classes=3)
        return list(zip([0.6, 0.3, 0.1], result.lower, result.upper, strict=True))

    def clustered(rng: np.random.Generator) -> list[tuple[float, float, float]]:
        person = np.repeat(np.arange(150), rng.integers(1, 15, 150))
        leaning = rng.beta(1, 2, 150)
        label = randomized(rng, (rng.random(person.size) < leaning[person]).astype(int), 2, 2)
        result = estimate_shares(label, epsilon=2, classes=2, people=person)
        return [(1 / 3, float(result.lower[1]), float(result.upper[1]))]

    def weighted(rng: np.random.Generator) -> list[tuple[float, float, float]]:
        young = rng.random(1500) < 0.2  # half of the population
        label = randomized(rng, (rng.random(1500) < np.where(young, 0.6, 0.2)).astype(int), 1, 2)
        table = pl.DataFrame({"label": label, "age": np.where(young, "young", "old")})
        result = estimate_shares(table, epsilon=1, classes=2, margins={"age": {"young": 0.5, "old": 0.5}})
        return [(0.4, float(result.lower[1]), float(result.upper[1]))]

    def difference(rng: np.random.Generator) -> list[tuple[float, float, float]]:
        group = rng.choice(["a", "b"], 800)
        label = randomized(rng, (rng.random(800) < np.where(group == "a", 0.05, 0.2)).astype(int), 1, 2)
        table = compare_groups(pl.DataFrame({"label": label, "g": group}), group="g", epsilon=1, classes=2)
        return [(0.15, *table.differences.filter(pl.col("class") == 1).row(0)[3:])]

    def correlation(rng: np.random.Generator) -> list[tuple[float, float, float]]:
        first = (rng.random(2000) < 0.4).astype(int)
        second = np.where(rng.random(2000) < 0.5, first, (rng.random(2000) < 0.4).astype(int))  # correlation 1/2
        table = {"a": randomized(rng, first, 2, 2), "b": randomized(rng, second, 2, 2)}
        found = cross_table(table, first="a", second="b", epsilon=2, classes=2).association
        return [(0.5, found.lower, found.upper)]

    def cramer(rng: np.random.Generator) -> list[tuple[float, float, float]]:
        first = rng.integers(0, 3, 3000)
        second = np.where(rng.random(3000) < 0.5, first, rng.integers(0, 3, 3000))  # V = 1/2
        table = {"a": randomized(rng, first, 2, 3), "b": randomized(rng, second, 2, 3)}
        found = cross_table(table, first="a", second="b", epsilon=2, classes=3).association
        return [(0.5, found.lower, found.upper)]

    def odds(rng: np.random.Generator) -> list[tuple[float, float, float]]:
        x = rng.normal(size=2000).round(1)
        label = randomized(rng, (rng.random(2000) < 1 / (1 + np.exp(1 - 0.8 * x))).astype(int), 2, 2)
        found = logistic_regression({"label": label, "x": x}, on=["x"], epsilon=2, classes=2)
        return [(-1.0, found.lower[0], found.upper[0]), (0.8, found.lower[1], found.upper[1])]

    def equal(rng: np.random.Generator) -> list[tuple[float, float, float]]:
        table = {"label": randomized(rng, rng.choice(3, 600, p=[0.5, 0.4, 0.1]), 1, 3), "g": rng.integers(0, 4, 600)}
        return [(compare_groups(table, group="g", epsilon=1, classes=3).pvalue, -1, 0.05)]

    def equal_own(rng: np.random.Generator) -> list[tuple[float, float, float]]:
        epsilon = rng.choice([1.0, 3.0], 800)
        label = randomized(rng, rng.choice(3, 800, p=[0.5, 0.4, 0.1]), epsilon, 3)
        table = {"label": label, "epsilon": epsilon, "g": rng.integers(0, 4, 800)}
        return [(compare_groups(table, group="g", classes=3).pvalue, -1, 0.05)]

    def independent(rng: np.random.Generator) -> list[tuple[float, float, float]]:
        table = {name: randomized(rng, rng.choice(3, 600, p=[0.5, 0.4, 0.1]), 1, 3) for name in "ab"}
        return [(cross_table(table, first="a", second="b", epsilon=1, classes=3).pvalue, -1, 0.05)]

    coverage = {
        "mean of a scale": mean, "people's own epsilons": own, "several reports per person": clustered,
        "margins known": weighted, "difference of groups": difference, "correlation": correlation, "Cramér's V": cramer,
        "log odds": odds, "rejected: equal groups": equal, "rejected: equal groups, own epsilons": equal_own,
        "rejected: independence": independent,
    }  # fmt: skip
    return {name: _hold(draw, repetitions, 100 + seed) for seed, (name, draw) in enumerate(coverage.items())}


def rrreg(path: str) -> pl.DataFrame:
    """RRreg's second published regression (carriers say yes with probability t, which is estimated too; others with 1 - p)."""
    from scipy.optimize import minimize_scalar

    data = pl.read_csv(path, infer_schema_length=None)
    yes, condition, design, left = (data[name].to_numpy() for name in ("rrt", "condition", "RRdesign", "leftRight.c"))
    columns = np.column_stack([np.ones(data.height), design, left, design * left])
    chance = np.select([condition == 1, condition == 2], [2 / 12, 10 / 12], 1.0)
    one = np.ones(data.height)

    def fit(t: float) -> Any:
        return fit_logistic(columns, yes.astype(float), np.where(condition == 0, 1.0, t), 1 - chance, one, one)

    t = float(
        minimize_scalar(
            lambda t: -fit(t).log_likelihood, bounds=(0.5, 0.8), method="bounded", options={"xatol": 1e-9}
        ).x
    )
    best = fit(t)
    names = ["log likelihood", "t", "intercept", "RRdesign", "leftRight.c", "RRdesign:leftRight.c"]
    published = [-1051.466, 0.65300, 0.76516, 1.05568, 0.47765, 0.09676]
    return pl.DataFrame({"": names, "published": published, "peerveil": [best.log_likelihood, t, *best.coefficients]})


def main(arguments: list[str]) -> None:
    """Print the tables."""
    pl.Config.set_tbl_rows(40).set_tbl_hide_dataframe_shape(True).set_float_precision(5 if "rrreg" in arguments else 3)
    if arguments[:1] == ["rrreg"]:
        print(rrreg(arguments[1]))
        return
    repetitions = int(arguments[0]) if arguments else 500
    print(pl.DataFrame([measure(*setting, repetitions, seed) for seed, setting in enumerate(SETTINGS)]))
    print(pl.DataFrame([measure_subsets(*setting, repetitions, seed) for seed, setting in enumerate(SUBSETS)]))
    found = further(repetitions) | {
        f"{name}, epsilon {epsilon}": share
        for epsilon in (1, 4)
        for name, share in measure_numbers(500, epsilon, repetitions, 1).items()
    }
    print(pl.DataFrame({"95% intervals of": list(found), "share": list(found.values())}))


if __name__ == "__main__":
    main(sys.argv[1:])
