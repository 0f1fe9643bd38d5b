"""Shares of a population: estimates by hand, intervals by published examples, the same on every engine, errors that help."""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from benchmarks.truth_shares import measure, question_of, randomized
from tests.cli.runner import run

from peerveil import BadInput, Randomness
from peerveil.data import Labels
from peerveil.data.engines import connect
from peerveil.truth import NotRandomized, estimate_shares, plan_shares, randomize, randomize_answers
from peerveil.truth.models import Channel
from peerveil.truth.shares import shares_of
from peerveil.truth.shares_cross import cross_table
from peerveil.truth.shares_fit import ReportCounts, difference_interval, maximum_likelihood
from peerveil.truth.shares_groups import compare_groups
from peerveil.truth.shares_regression import fit_logistic, logistic_regression

ibis_warning = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # Ibis 12 on DuckDB 2


def poll(n: int = 1500, seed: int = 1) -> pl.DataFrame:
    """A poll at epsilon 1: votes, a second question, groups, ages, weights, and two reports of some people."""
    rng = np.random.default_rng(seed)
    region = rng.choice(["north", "south"], n)
    yes = (rng.random(n) < np.where(region == "north", 0.6, 0.3)).astype(int)
    other = np.where(rng.random(n) < 0.6, yes, rng.integers(0, 2, n))
    columns = {"label": randomized(rng, yes, 1, 2), "other": randomized(rng, other, 1, 2), "region": region}
    return pl.DataFrame({**columns, "age": rng.integers(18, 80, n), "weight": rng.exponential(size=n).round(3)})


# ---- estimates and intervals by hand -----------------------------------------------------------------------------------


def test_a_poll_with_30_percent_yes_says_about_30_percent() -> None:
    answers = ["yes"] * 300 + ["no"] * 700
    sent = randomize(answers, epsilon=1, classes=["yes", "no"], randomness=Randomness.simulation(7))
    share = estimate_shares(sent, epsilon=1, classes=["yes", "no"]).share("yes")
    assert share.lower < 0.3 < share.upper
    assert abs(share.value - 0.3) < 5 * math.sqrt(0.44 * 0.56 / 1000) / 0.4621


def test_method_of_moments_by_hand() -> None:
    """(f - other) / (keep - other) for each class, where that lies in the simplex."""
    keep, other = math.e / (math.e + 2), 1 / (math.e + 2)
    result = estimate_shares([0] * 50 + [1] * 30 + [2] * 20, epsilon=1, classes=3)
    by_hand = [(f - other) / (keep - other) for f in (0.5, 0.3, 0.2)]
    assert result.unlimited == pytest.approx(by_hand)
    assert result.unlimited[2] < 0
    assert result.shares.sum() == pytest.approx(1)
    # with class 2 at 0 the others keep the proportions of their report frequencies: q = c f, q2 = other
    c = (1 - other) / 0.8
    assert result.shares == pytest.approx([(c * f - other) / (keep - other) for f in (0.5, 0.3)] + [0])


@pytest.mark.parametrize(("k", "epsilon", "n"), [(2, 0.5, 40), (5, 0.5, 60), (12, 2, 90), (6, 30, 50)])
def test_maximum_likelihood_is_that_of_em(k: int, epsilon: float, n: int) -> None:
    rng = np.random.default_rng(k)
    matrices = [Channel.of(epsilon, k).matrix, Channel.of(epsilon / 2, k).matrix]
    counts = ReportCounts.of(
        matrices, [rng.multinomial(n, rng.dirichlet(np.ones(k)) @ m).astype(np.float64) for m in matrices]
    )
    shares = maximum_likelihood(counts.likelihood, counts.total)
    weight, em = counts.total / counts.total.sum(), np.full(k, 1 / k)
    for _ in range(3000):
        em = em * (counts.likelihood.T @ (weight / (counts.likelihood @ em)))

    def value(p: Any) -> float:
        return float(weight @ np.log(counts.likelihood @ p))

    assert shares.min() >= 0
    assert shares.sum() == pytest.approx(1)
    assert value(shares) >= value(em) - 1e-9


def test_the_published_example_of_rrreg() -> None:
    """RRreg's vignette, Warner's design with p = .2 (odds of 4): 606 of 1,000 say yes; 0.323333, standard error 0.025766.

    There "yes" has probability .2 for carriers, so that carriers are kept as "no" here. RRreg divides by n - 1.
    """
    result = estimate_shares([1] * 394 + [0] * 606, epsilon=str(round(math.log(4), 12)), classes=2)
    assert result.shares[1] == pytest.approx(0.323333, abs=1e-6)
    assert result.standard_errors[1] * math.sqrt(1000 / 999) == pytest.approx(0.025766, abs=1e-6)


def test_newcombes_published_difference() -> None:
    """56 of 70 against 48 of 80: .2000 (.0524, .3339), Newcombe (1998), table II, method 10."""

    def wilson(x: int, n: int, z: float = 1.959964) -> tuple[float, float, float]:
        f = x / n
        middle, half = f + z * z / (2 * n), z * math.sqrt(f * (1 - f) / n + z * z / (4 * n * n))
        return f, (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)

    assert difference_interval(wilson(56, 70), wilson(48, 80)) == pytest.approx((0.2, 0.0524, 0.3339), abs=1e-4)


def test_an_interval_holds_the_estimate_and_is_never_empty() -> None:
    rng = np.random.default_rng(3)
    asked = question_of(0.5, 8)
    for counts in rng.multinomial(30, np.full(8, 1 / 8), size=50):
        result = shares_of(ReportCounts.of([asked.matrix(None)], [counts]), asked, level=0.9)
        assert (result.lower <= result.shares).all()
        assert (result.shares <= result.upper).all()
        assert (result.upper > result.lower).all()
        assert result.lower.min() >= 0
        assert result.upper.max() <= 1


def test_simultaneous_intervals_are_wider() -> None:
    reports = [0] * 40 + [1] * 30 + [2] * 30
    one, all_ = (estimate_shares(reports, epsilon=3, classes=3, simultaneous=flag) for flag in (False, True))
    assert (all_.upper - all_.lower > one.upper - one.lower).all()


# ---- a fast version of the coverage test, and what must fail it -----------------------------------------------------------


def test_intervals_hold_and_a_wrong_channel_is_noticed() -> None:
    """300 repetitions: five standard errors below .95 is .887. Told epsilon 2 where it is 1, the intervals hold nothing."""
    assert measure(1000, 1, 3, "steep", 300, seed=1)["coverage"] > 0.887
    assert measure(1000, 1, 3, "steep", 300, seed=1, believed=2)["coverage"] < 0.5


# ---- weights, people, epsilons -----------------------------------------------------------------------------------------


def test_integer_weights_count_like_copies_in_the_estimate_but_not_in_the_interval() -> None:
    reports, weights = [1] * 60 + [0] * 40, [3] * 60 + [1] * 40
    weighted = estimate_shares(reports, epsilon=2, classes=2, weights=weights)
    copies = estimate_shares(np.repeat(reports, weights), epsilon=2, classes=2)
    assert weighted.shares == pytest.approx(copies.shares)
    assert weighted.people == 100
    assert np.ptp([weighted.lower[1], weighted.upper[1]]) > 1.2 * np.ptp([copies.lower[1], copies.upper[1]])


def test_known_margins_are_reached_and_given_as_weights() -> None:
    frame = poll()
    weights = frame.select(pl.when(pl.col("region") == "north").then(0.8).otherwise(0.2) / pl.len().over("region"))
    by_hand = estimate_shares(frame, epsilon=1, classes=2, weights=weights.to_series() * frame.height)
    margins = {"region": {"north": 0.8, "south": 0.2}}
    raked = estimate_shares(frame, epsilon=1, classes=2, margins=margins)
    assert raked.shares == pytest.approx(by_hand.shares)
    assert raked.lower == pytest.approx(by_hand.lower)


def test_several_reports_of_a_person_are_no_more_than_one_person() -> None:
    """Everybody sends the same report five times: the interval is that of one report each."""
    label = np.array([1] * 30 + [0] * 50)
    once = estimate_shares(label, epsilon=2, classes=2)
    people = np.repeat(np.arange(80), 5)
    often = estimate_shares(np.repeat(label, 5), epsilon=2, classes=2, people=people)
    assert often.shares == pytest.approx(once.shares)
    assert often.effective == pytest.approx(80, rel=0.02)
    assert often.most == 5
    assert often.person_guarantee.epsilon == 10


def test_own_epsilons_use_every_channel() -> None:
    """Reports at epsilon 5 tell more than those at 0.1, which are almost noise: the estimate follows the first."""
    label, epsilon = [1] * 90 + [0] * 10 + [1] * 50 + [0] * 50, [5.0] * 100 + [0.1] * 100
    both = estimate_shares({"label": label, "epsilon": epsilon}, classes=2)
    first = estimate_shares(label[:100], epsilon=5, classes=2)
    assert both.shares == pytest.approx(first.shares, abs=0.01)
    assert both.guarantee.epsilon == 5


def test_the_mean_of_a_scale() -> None:
    result = estimate_shares([1] * 20 + [2] * 30 + [3] * 50, epsilon=8, classes=[1, 2, 3], scores=True)
    assert result.mean is not None
    assert result.mean.value == pytest.approx(2.3, abs=0.01)
    assert result.mean.lower < 2.3 < result.mean.upper
    doubled = estimate_shares([1] * 20 + [2] * 30 + [3] * 50, epsilon=8, classes=[1, 2, 3], scores={1: 2, 2: 4, 3: 6})
    assert doubled.mean == pytest.approx([2 * value for value in result.mean])


# ---- groups, cross tables, regression ------------------------------------------------------------------------------------


def test_groups_differ_where_they_do() -> None:
    result = compare_groups(poll(), group="region", epsilon=1, classes=2, reference="south")
    row = result.differences.filter(pl.col("class") == 1).row(0, named=True)
    assert row["lower"] < 0.3 < row["upper"]
    assert result.pvalue < 1e-4
    means = compare_groups(poll(), group="region", epsilon=1, classes=2, scores=True)
    assert means.differences.columns == ["region", "difference", "lower", "upper"]


def test_joint_shares_of_two_questions_by_hand() -> None:
    """Both channels inverted: C1^-T F C2^-1."""
    frame = poll(4000)
    result = cross_table(frame, first="label", second="other", epsilon=1, classes=2)
    reports = np.zeros((2, 2))
    np.add.at(reports, (frame["label"].to_numpy(), frame["other"].to_numpy()), 1 / 4000)
    inverse = np.linalg.inv(Channel.of(1.0, 2).matrix)
    assert result.shares == pytest.approx(inverse.T @ reports @ inverse)
    assert result.association.lower < 0.6 < result.association.upper
    assert result.pvalue < 1e-4
    assert result.person_guarantee.epsilon == 2


def test_logistic_regression_agrees_with_a_general_optimizer() -> None:
    """The same likelihood by SciPy, standard errors from a numerical Hessian."""
    from scipy.optimize import minimize

    rng = np.random.default_rng(5)
    x = rng.normal(size=(900, 2))
    label = randomized(rng, (rng.random(900) < 1 / (1 + np.exp(1 - x @ [1.0, -0.5]))).astype(int), 2, 2)
    table = pl.DataFrame({"label": label, "a": x[:, 0], "b": x[:, 1]})
    result = logistic_regression(table, on=["a", "b"], epsilon=2, classes=2)
    design, keep = np.column_stack([np.ones(900), x]), math.exp(2) / (math.exp(2) + 1)

    def loss(b: Any) -> float:
        chance = 1 - keep + (2 * keep - 1) / (1 + np.exp(-design @ b))
        return -float(np.log(np.where(label == 1, chance, 1 - chance)).sum())

    best = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-7}).x
    steps, h = np.eye(3) * 1e-3, 1e-3
    hessian = [
        [
            (loss(best + s + t) - loss(best + s - t) - loss(best - s + t) + loss(best - s - t)) / (4 * h * h)
            for t in steps
        ]
        for s in steps
    ]
    assert result.coefficients == pytest.approx(best, abs=1e-4)
    assert result.standard_errors == pytest.approx(np.sqrt(np.diag(np.linalg.inv(hessian))), rel=1e-3)
    assert result.log_likelihood == pytest.approx(-loss(best))


def test_regression_without_noise_in_two_groups_is_the_log_odds() -> None:
    design = np.column_stack([np.ones(4), [0, 0, 1, 1]])
    yes, weight = np.array([1.0, 0, 1, 0]), np.array([30.0, 70, 55, 45])
    fit = fit_logistic(design, yes, np.ones(4), np.zeros(4), weight, weight)
    assert fit.coefficients == pytest.approx([math.log(30 / 70), math.log(55 / 45) - math.log(30 / 70)], abs=1e-6)
    assert np.sqrt(np.diag(fit.covariance))[0] == pytest.approx(math.sqrt(1 / 30 + 1 / 70), rel=1e-5)


# ---- engines ---------------------------------------------------------------------------------------------------------------


def everything(source: Any, **where: Any) -> list[Any]:
    """All kinds of results as numbers."""
    kind: dict[str, Any] = {"epsilon": 1, "classes": 2, **where}
    weighted = estimate_shares(source, weights="weight", people="person", **kind)
    raked = estimate_shares(source, margins={"region": {"north": 0.3, "south": 0.7}}, **kind)
    groups = compare_groups(source, group="region", **kind)
    crossed = cross_table(source, first="label", second="other", **kind)
    fit = logistic_regression(source, on=["region", "age"], **kind)
    shares = [array for one in (weighted, raked) for array in (one.shares, one.lower, one.upper)]
    return [
        *shares,
        [groups.statistic],
        groups.frame()["lower"],
        crossed.lower,
        [*crossed.association],
        fit.coefficients,
        fit.lower,
    ]


def with_people() -> pl.DataFrame:
    frame = poll(400)
    return frame.with_columns(person=pl.int_range(pl.len()) // 2)


def same(one: list[Any], other: list[Any]) -> None:
    for a, b in zip(one, other, strict=True):
        assert np.asarray(a) == pytest.approx(np.asarray(b), rel=1e-9, abs=1e-12)


@ibis_warning
def test_duckdb_counts_as_memory_does(tmp_path: Path) -> None:
    path = tmp_path / "poll.parquet"
    with_people().write_parquet(path)
    memory = everything(with_people())
    same(memory, everything(path))
    connection = connect("duckdb")
    try:
        same(memory, everything(path, engine="duckdb", connection=connection))
        same(memory, everything(with_people(), engine="duckdb"))
    finally:
        connection.disconnect()


@ibis_warning
@pytest.mark.parametrize("weights", [[1.0, -1.0], [1.0, math.nan], ["a", "b"], [0.0, 0.0]])
def test_bad_weights_are_refused_by_a_database_too(weights: list[Any], tmp_path: Path) -> None:
    pl.DataFrame({"label": [0, 1], "w": weights}).write_parquet(tmp_path / "poll.parquet")
    for engine in ("memory", "duckdb"):
        with pytest.raises(BadInput, match="weights: got"):
            estimate_shares(tmp_path / "poll.parquet", epsilon=1, classes=2, weights="w", engine=engine)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # PySpark warns of the pandas it finds
@pytest.mark.usefixtures("spark")
def test_spark_counts_as_memory_does(tmp_path: Path) -> None:
    path = tmp_path / "poll.parquet"
    with_people().write_parquet(path)
    connection = connect("spark")
    same(everything(with_people()), everything(path, engine="spark", connection=connection))


# ---- hostile input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reports", "settings", "message"),
    [
        ([], {}, "reports: got nothing, need at least one report"),
        ([1, None], {}, "missing values"),
        ([1.5, 0.0], {}, "label"),
        ([0, 1, 7], {}, "one of the 2 classes"),
        ([0, 1], {"classes": 1}, "at least two classes"),
        ([0, 1], {"classes": None}, "the list of possible answers"),
        ([0, 1], {"classes": [0, 0]}, "distinct"),
        ([0, 1], {"epsilon": 0}, "epsilon"),
        ([0, 1], {"epsilon": -1}, "epsilon"),
        ([0, 1], {"epsilon": math.inf}, "epsilon"),
        ([0, 1], {"epsilon": math.nan}, "epsilon"),
        ([0, 1], {"epsilon": None}, "epsilon: got nothing"),
        ([0, 1], {"level": 0}, "level"),
        ([0, 1], {"level": 1}, "level"),
        ([0, 1], {"weights": [1, -1]}, "weights: got -1"),
        ([0, 1], {"weights": [0, 0]}, "weights"),
        ([0, 1], {"weights": [1, math.nan]}, "weights"),
        ([0, 1], {"weights": [1]}, "one per report"),
        ([0, 1], {"scores": [1, 1]}, "scores"),
        ([0, 1], {"scores": [1, math.inf]}, "scores"),
        ([0, 1], {"engine": "abacus"}, "'duckdb' or 'spark'"),
        ({"label": [0, 1], "x": [1, 2]}, {"margins": {"x": {"1": 0.5, "3": 0.5}}}, "one for each value"),
        ({"label": [0, 1], "x": [1, 2]}, {"margins": {"x": {1: 0.5, 2: 0.6}}}, "add up to 1"),
        ({"nothing": [0, 1]}, {}, "label"),
        ({"label": [0, 1], "epsilon": [1, -1]}, {"epsilon": None}, "epsilon"),
        ("no such file.csv", {}, "no such file"),
    ],
)
def test_bad_reports_are_refused(reports: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        estimate_shares(reports, **{"epsilon": 1, "classes": 2, **settings})


def test_one_report_tells_almost_nothing() -> None:
    result = estimate_shares([1], epsilon=1, classes=2)
    assert result.lower[1] == 0
    assert result.upper[1] == 1


def test_comparisons_refuse_what_they_cannot_compare() -> None:
    frame = poll(60)
    one: dict[str, Any] = {"epsilon": 1, "classes": 2}
    with pytest.raises(BadInput, match="from 2 to"):
        compare_groups(frame.with_columns(region=pl.lit("north")), group="region", **one)
    with pytest.raises(BadInput, match="people who are in several groups"):
        compare_groups(frame.with_columns(worker=pl.lit(1)), group="region", **one)
    with pytest.raises(BadInput, match="group"):
        compare_groups(frame, group="label", **one)
    with pytest.raises(BadInput, match="reference"):
        compare_groups(frame, group="region", reference="east", **one)
    with pytest.raises(BadInput, match="one person in group 0"):
        compare_groups(frame.with_columns(region=pl.int_range(60)), group="region", **one)
    with pytest.raises(BadInput, match="one row per person"):
        cross_table(frame.with_columns(worker=pl.lit(1)), first="label", second="other", **one)
    with pytest.raises(BadInput, match="another column"):
        cross_table(frame, first="label", second="label", **one)
    with pytest.raises(BadInput, match="one report per person"):
        logistic_regression(frame.with_columns(worker=pl.lit(1)), on=["age"], **one)
    with pytest.raises(BadInput, match="which the columns before it determine"):
        logistic_regression(frame.with_columns(twice=2 * pl.col("age")), on=["age", "twice"], **one)


def test_a_share_of_zero_or_all_has_no_odds_ratio() -> None:
    table = {"label": [1] * 50 + [0] * 50, "x": [1] * 50 + [0] * 50}
    with pytest.raises(BadInput, match=r"0% or 100% for some values of x.*compare-groups|x, so that"):
        logistic_regression(table, on=["x"], epsilon=1, classes=2)


def test_raw_answers_that_could_not_be_reports_are_noticed() -> None:
    with pytest.warns(NotRandomized, match="do not look randomized at epsilon 1"):
        result = estimate_shares([1] * 990 + [0] * 10, epsilon=1, classes=2)
    assert result.mark == "not private"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert estimate_shares([1] * 760 + [0] * 240, epsilon=1, classes=2).mark is None


# ---- results, randomized answers, actions ------------------------------------------------------------------------------------


def test_results_print_plot_and_save(tmp_path: Path) -> None:
    frame, one = poll(300), {"epsilon": 1, "classes": 2}
    results: list[Any] = [
        estimate_shares(frame, **one),  # type: ignore[arg-type]
        compare_groups(frame, group="region", **one),  # type: ignore[arg-type]
        cross_table(frame, first="label", second="other", **one),  # type: ignore[arg-type]
        logistic_regression(frame, on=["age", "region"], **one),  # type: ignore[arg-type]
    ]
    for number, result in enumerate(results):
        assert "If these answers were randomized at epsilon 1" in str(result)
        assert result.plot().has_data()
        assert json.loads(result.to_json())["guarantee_in_words"]
        assert {path.name for path in result.save(tmp_path / str(number))} == {"result.json", "figure.svg", "table.csv"}


def test_randomized_answers_state_their_terms_and_guarantee() -> None:
    labels = Labels(task=[1] * 50, worker=list(range(50)), label=["yes"] * 20 + ["no"] * 30)
    sent, _ = randomize_answers(labels, epsilon=2, classes=["yes", "no"], randomness=Randomness.simulation(1))
    result = estimate_shares(sent)
    assert result.guarantee == sent.guarantee
    assert result.mark == "simulation, not private"
    assert result.classes == ("yes", "no")
    with pytest.raises(BadInput, match="these randomized answers state it"):
        estimate_shares(sent, epsilon=2)


def test_the_plan_is_what_the_intervals_reach() -> None:
    plan = plan_shares(margin=0.05, epsilons=[1, 3], share=0.3)
    for row in plan.rows:
        channel = Channel.of(row.epsilon, 2)
        yes = round(row.people * (channel.other + 0.3 * channel.contrast))
        share = estimate_shares([1] * yes + [0] * (row.people - yes), epsilon=row.epsilon, classes=2).share(1)
        assert (share.upper - share.lower) / 2 == pytest.approx(0.05, rel=0.02)


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = poll(600).rename({"label": "vote"})
    frame.write_csv(tmp_path / "poll.csv")
    given = ("truth", "shares", tmp_path / "poll.csv", "--epsilon", "1", "--classes", "0,1", "--column", "label=vote")
    code, _, err = run(capsys, *given, "--out", tmp_path / "no")
    assert code != 0
    assert "randomized" in err
    code, text, _ = run(
        capsys, *given, "--randomized", "--group", "region", "--second", "other", "--on", "age", "--mean",
        "--margin", "region=north:0.4;south:0.6", "--out", tmp_path / "out", "--json",
    )  # fmt: skip
    assert code == 0
    data = json.loads(text)
    assert data["results"]["people"] == 600
    assert sum(share[0] for share in data["results"]["shares"].values()) == pytest.approx(1)
    names = {path.name for path in (tmp_path / "out" / "public").iterdir()}
    assert names >= {"shares.csv", "groups.csv", "cross.csv", "odds.csv", "figure-1.svg", "figure-4.svg"}
    code, text, _ = run(
        capsys, "truth", "plan-shares", "--margin", "0.03", "--epsilon", "1", "--out", tmp_path / "plan"
    )
    assert code == 0
    assert "epsilon 1: 4,997" in text
