"""Shares and agreement from reports that name several classes, and from scales and bounded numbers: exact, and simulated."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from benchmarks.truth_shares import SUBSETS, measure_numbers, measure_subsets
from tests.cli.runner import run

from peerveil import BadInput, Randomness
from peerveil.core.randomness import NumberResponse, OrderedResponse, SubsetResponse
from peerveil.data.engines import connect
from peerveil.truth import PrivateDawidSkene, agreement, estimate_shares, randomize_answers, simulate_crowd
from peerveil.truth.channels import Channel
from peerveil.truth.coefficients import _statistics, agreement_by_person, agreement_of
from peerveil.truth.pairs import count_in_memory
from peerveil.truth.shares_cross import cross_table
from peerveil.truth.shares_groups import compare_groups
from peerveil.truth.shares_regression import logistic_regression
from peerveil.truth.shares_subsets import SubsetRows
from peerveil.truth.wire import Client, collect, invitation, write_answers

pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # Ibis 12 on DuckDB 2


def sent(k: int, answers: Any, epsilon: float = 1, seed: int = 1) -> Any:
    """Reports of a subset response."""
    return Randomness.simulation(seed).respond(np.asarray(answers), SubsetResponse(epsilon, k)).tolist()


def test_shares_by_hand() -> None:
    """(f - other)/(keep - other), with f how often a class is named; the interval is Wilson's of f, solved for the share."""
    reports = [[0, 1]] * 50 + [[0, 2]] * 40 + [[1, 2]] * 30
    channel = Channel.of(1.0, 3, 2)
    result = estimate_shares(reports, epsilon=1, classes=3)
    by_hand = [(f - channel.other) / channel.contrast for f in (90 / 120, 80 / 120, 70 / 120)]
    assert result.unlimited == pytest.approx(by_hand)
    assert result.shares == pytest.approx(
        by_hand
    )  # inside the simplex, where the response has as many reports as classes
    from scipy.stats import t

    z, n, f = float(t.ppf(0.975, 119)), 120, 90 / 120
    middle, half = f + z**2 / (2 * n), z * math.sqrt(f * (1 - f) / n + z**2 / (4 * n**2))
    ends = [((middle + sign * half) / (1 + z**2 / n) - channel.other) / channel.contrast for sign in (-1, 1)]
    assert [result.lower[0], result.upper[0]] == pytest.approx(ends, abs=1e-9)


def test_likeliest_shares_are_those_of_expectation_maximization() -> None:
    """By plain EM on the exact probabilities of every set."""
    response, k = SubsetResponse(1, 5, size=2), 5
    reports = Randomness.simulation(3).respond(np.repeat([0, 1, 2], [200, 150, 50]), response)
    rows = np.array([[float(response.probability(row, a)) for a in range(k)] for row in reports.tolist()])
    shares = np.full(k, 0.2)
    for _ in range(3000):
        posterior = rows * shares
        shares = (posterior / posterior.sum(axis=1, keepdims=True)).mean(axis=0)
    np.testing.assert_allclose(estimate_shares(reports, epsilon=1, classes=k).shares, shares, atol=1e-4)


@pytest.mark.parametrize(("k", "size"), [(3, 2), (6, 3), (5, 1)])
def test_moments_are_those_of_all_sets(k: int, size: int) -> None:
    rng, channel = np.random.default_rng(1), Channel.of(1.0, k, size)
    sets = np.array([[c in members for c in range(k)] for members in itertools.combinations(range(k), size)])
    rows = SubsetRows((channel,), np.zeros(len(sets), dtype=np.int64), sets)
    probability = rows.likelihood / rows.likelihood.sum(axis=0)
    values, shares = rng.normal(size=(2, k)), rng.dirichlet(np.ones(k))
    estimates = rows.of_reports(values)
    first, second = rows.moments(values)
    np.testing.assert_allclose(first[0], estimates @ probability, atol=1e-12)
    np.testing.assert_allclose(second[0], estimates**2 @ probability, atol=1e-12)
    mixed = probability @ shares
    covariance = (estimates * mixed) @ estimates.T - np.outer(estimates @ mixed, estimates @ mixed)
    np.testing.assert_allclose(rows.covariance(values, shares, np.ones(1)), covariance, atol=1e-12)
    unbiased = rows.of_reports(rows.values(shares, np.ones(1))) @ probability
    np.testing.assert_allclose(unbiased, np.eye(k), atol=1e-12)


def test_engines_agree_with_weights_and_several_reports_of_a_person(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    names = [f"c{i}" for i in range(10)]
    answers = rng.choice(10, 400, p=[0.4, 0.3, *[0.3 / 8] * 8])
    table = pl.DataFrame(
        {
            "label": [[names[c] for c in row] for row in sent(10, answers)],
            "worker": np.repeat(np.arange(200), 2),
            "w": rng.exponential(size=400),
        }
    )
    table.write_parquet(tmp_path / "poll.parquet")
    settings: dict[str, Any] = {"epsilon": 1, "classes": names, "weights": "w", "people": "worker"}
    memory = estimate_shares(table, **settings)
    tables = estimate_shares(tmp_path / "poll.parquet", engine="duckdb", **settings)
    for name in ("shares", "lower", "upper"):
        np.testing.assert_allclose(getattr(memory, name), getattr(tables, name), atol=1e-9)
    assert memory.effective == pytest.approx(tables.effective)
    assert (memory.people, memory.most) == (200, 2)
    twice = pl.concat([table.select("label", worker=pl.int_range(400))] * 2)  # everybody sends the same report twice
    once = estimate_shares(table.select("label"), epsilon=1, classes=names)
    assert estimate_shares(twice, epsilon=1, classes=names, people="worker").effective == pytest.approx(400, rel=0.02)
    assert once.effective == 400


def test_people_who_chose_their_levels() -> None:
    """At epsilon 1/2 reports name four of ten classes, at 4 one: both count, each with its own channel."""
    terms = invitation(epsilon=["1/2", 4], classes=10)
    lines = [
        Client(terms, worker=f"w{i}", epsilon="1/2" if i % 2 else 4).randomize("t", 0 if i % 4 < 2 else 1)
        for i in range(60)
    ]
    collected = collect(terms, lines)
    result = estimate_shares(collected)
    assert result.reports == 60
    assert result.epsilon is None
    assert result.shares[:2].sum() > 0.6  # half of the reports are nearly the answers themselves
    with pytest.raises(BadInput, match="one epsilon"):
        agreement_of(collected)


@pytest.mark.parametrize(
    ("reports", "said"),
    [
        ([[0, 1], [2]], "lists of 1 to 2 labels"),
        ([[0, 1, 2]], "lists of 3 labels, with 3 classes"),
        ([[0, 5]], "got 5"),
        ([[0, 0]], "different labels"),
    ],
)
def test_lists_that_no_response_sends_are_refused(reports: Any, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        estimate_shares(reports, epsilon=1, classes=3)


def test_cross_tables_and_regression_say_what_to_do() -> None:
    table = {"label": sent(10, [0, 1] * 20), "x": [0.0, 1.0] * 20}
    settings: dict[str, Any] = {"epsilon": 1, "classes": 10}
    with pytest.raises(BadInput, match="response='k-ary'"):
        cross_table(table, first="label", second="x", **settings)
    with pytest.raises(BadInput, match="response='k-ary'"):
        logistic_regression(table, on=["x"], **settings)
    labels = {"task": [0] * 200, "worker": range(200), "label": [0, 1] * 100}
    single = randomize_answers(labels, **settings, response="k-ary", randomness=Randomness.simulation(1)).public.answers
    x = {"label": single.frame["label"], "x": [0.0, 1.0] * 100}
    assert logistic_regression(x, on=["x"], answer=0, **settings).names[0] == "intercept"


@pytest.mark.slow
def test_the_test_of_equal_groups_holds_its_level() -> None:
    """Of 200 true hypotheses a tenth rejects at 10%, five standard errors: at most .206."""
    rng, rejected = np.random.default_rng(5), 0
    for seed in range(200):
        reports = sent(5, rng.choice(5, 300, p=[0.4, 0.3, 0.1, 0.1, 0.1]), 0.5, seed)
        table = pl.DataFrame({"label": reports, "g": rng.integers(0, 2, 300)})
        rejected += compare_groups(table, group="g", epsilon=0.5, classes=5).pvalue < 0.1
    assert 0 < rejected / 200 < 0.206


def test_expected_agreement_is_exact_for_two_of_three_classes() -> None:
    """Over all pairs of reports, with their probabilities, observed agreement has the truth as its mean."""
    response, channel = SubsetResponse(1, 3, size=2), Channel.of(1.0, 3, 2)
    sets = list(itertools.combinations(range(3), 2))
    for answers in ((0, 0), (0, 1)):
        mean = 0.0
        for reports in itertools.product(sets, repeat=2):
            probability = math.prod(float(response.probability(s, a)) for s, a in zip(reports, answers, strict=True))
            counts = count_in_memory({"task": [0, 0], "worker": [0, 1], "label": [list(s) for s in reports]}, 3)
            mean += probability * float(_statistics(counts, channel)["alpha_observed"])
        assert mean == pytest.approx(float(answers[0] == answers[1]), abs=1e-6)


def test_agreement_of_ten_classes_is_that_of_the_answers(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    truth = rng.integers(0, 10, 1500)
    task, worker = np.repeat(np.arange(1500), 6), np.tile(np.arange(6), 1500)
    answers = np.where(rng.random(9000) < 0.7, truth[task], rng.integers(0, 10, 9000))
    plain = agreement({"task": task, "worker": worker, "label": answers}, epsilon=None)
    table = pl.DataFrame({"task": task, "worker": worker, "label": sent(10, answers)})
    result = agreement(table, epsilon=1, classes=10)
    for name in ("krippendorff", "fleiss"):
        found, real = getattr(result, name), getattr(plain, name)
        assert abs(found.value - real.value) < 5 * found.standard_error
        assert found.standard_error < 0.2
        assert found.of_reports < 0.5 * real.value
    assert result.reports == 9000
    table.write_parquet(tmp_path / "reports.parquet")
    tables = agreement(tmp_path / "reports.parquet", epsilon=1, classes=10, engine="duckdb")
    assert tables.alpha == pytest.approx(result.alpha, abs=1e-12)
    assert tables.kappa == pytest.approx(result.kappa, abs=1e-12)
    with pytest.raises(BadInput, match="the epsilon with which the lists"):
        agreement(table, epsilon=None, classes=10)


def test_a_file_of_reports_through_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = {"task": [i // 6 for i in range(120)], "worker": [i % 6 for i in range(120)], "label": [0, 1, 2] * 40}
    collected = randomize_answers(labels, epsilon=1, classes=10, randomness=Randomness.simulation(1)).operator
    path = str(write_answers(collected, tmp_path / "reports.jsonl"))
    assert run(capsys, "truth", "shares", path, "--out", tmp_path / "shares")[0] == 0
    assert agreement_of(collected).public.reports == 120
    found = pl.read_csv(tmp_path / "shares" / "public" / "shares.csv")
    assert found["share"].to_list() == pytest.approx(estimate_shares(collected).shares.tolist())


def test_scales_and_numbers_are_unbiased() -> None:
    """The mean over all reports, weighted with their exact probabilities, is the answer."""
    scale = OrderedResponse(1, classes=[1, 2, 3, 4, 5])
    result = estimate_shares(np.arange(scale.reports), response=scale, scores=True)
    assert result.classes == (1, 2, 3, 4, 5)
    rng, n = np.random.default_rng(1), 200_000
    answers = rng.choice(5, n, p=[0.1, 0.2, 0.4, 0.2, 0.1]) + 1
    reports = Randomness.simulation(1).respond(answers, scale)
    found = estimate_shares(reports, response=scale, scores=True)
    assert np.abs(found.shares - np.bincount(answers)[1:] / n).max() < 5 * found.standard_errors.max()
    numbers = rng.beta(2, 5, n) * 10
    for epsilon in (1, 4):
        response = NumberResponse(epsilon, low=0, high=10)
        mean = estimate_shares(Randomness.simulation(2).respond(numbers, response), response=response).mean
        assert mean is not None
        assert abs(mean.value - numbers.mean()) < 5 * (mean.upper - mean.lower) / 2 / 1.96
        assert mean.upper - mean.lower < 0.2
    with pytest.raises(BadInput, match="the response states it"):
        estimate_shares([0, 1], response=scale, epsilon=1)
    with pytest.raises(BadInput, match="OrderedResponse or a NumberResponse"):
        estimate_shares([0, 1], response=1)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(3))
def test_intervals_from_lists_hold(number: int) -> None:
    row = measure_subsets(*SUBSETS[number], 500, seed=number)
    assert 0.93 <= row["coverage"] <= 0.99


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1, 4])
def test_intervals_of_means_of_numbers_and_scales_hold(epsilon: float) -> None:
    """300 repetitions, five standard errors: at least .887."""
    assert all(share > 0.887 for share in measure_numbers(500, epsilon, 300, seed=1).values())


# ---- every engine --------------------------------------------------------------------------------------------------------


def lists_of_a_crowd() -> pl.DataFrame:
    """Reports of 3 of 10 named classes, of people with weights in two regions."""
    crowd = simulate_crowd(tasks=30, workers=12, answers=6, classes=10, epsilon=1, seed=3)
    names = [f"c{i}" for i in range(10)]
    frame = crowd.randomized.frame
    lists = [[names[code] for code in row] for row in frame["label"].to_list()]
    worker = frame["worker"]
    weight, region = 1.0 + worker % 3, pl.Series(["north", "south"]).gather(worker % 2)
    return frame.with_columns(label=pl.Series(lists), weight=weight, region=region)


def of_lists(source: Any, model: str, **where: Any) -> list[Any]:
    """Inference, shares and agreement as numbers."""
    terms: dict[str, Any] = {"epsilon": 1, "classes": [f"c{i}" for i in range(10)]}
    fit = PrivateDawidSkene(**terms, model=model, tolerance=1e-3).fit(source, **where)
    people, operator = agreement_by_person(source, **terms, **where)
    share = estimate_shares(source, weights="weight", **terms, **where)
    groups = compare_groups(source, group="region", **terms, **where)
    coefficients = [[one.value, one.standard_error] for one in (people.krippendorff, people.fleiss, people.observed)]
    return [
        fit.probabilities,
        fit.abilities,
        fit.standard_errors,
        fit.loads,
        share.shares,
        share.lower,
        share.upper,
        [groups.statistic, *groups.differences["difference"]],
        coefficients,
        operator.agreement,
        operator.standard_errors,
    ]


def of_a_scale(source: Any, **where: Any) -> list[Any]:
    """Shares and means from reports of ordered classes and of numbers."""
    scale = OrderedResponse(1, [1, 2, 3, 4, 5])
    results = [estimate_shares(source, columns={"label": "scale"}, response=scale, scores=True, **where)]
    results.append(
        estimate_shares(source, columns={"label": "hours"}, response=NumberResponse(1, low=0, high=80), **where)
    )
    settings: dict[str, Any] = {"columns": {"label": "scale"}, "response": scale, "scores": True}
    groups = compare_groups(source, group="region", **settings, **where)
    return [*(array for one in results for array in (one.shares, one.lower, one.mean)), groups.frame()["lower"]]


def scale_and_hours() -> pl.DataFrame:
    rng, lane = np.random.default_rng(1), Randomness.simulation(2)
    answers, hours, region = rng.integers(1, 6, 300), rng.uniform(10, 60, 300), rng.choice(["north", "south"], 300)
    scale = lane.respond(answers, OrderedResponse(1, [1, 2, 3, 4, 5]))
    return pl.DataFrame(
        {"scale": scale, "hours": lane.respond(hours, NumberResponse(1, low=0, high=80)), "region": region}
    )


def alike(one: list[Any], other: list[Any]) -> None:
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-8, atol=1e-10)


def test_duckdb_reads_lists_and_scales_as_memory_does(tmp_path: Path) -> None:
    lists, scales = lists_of_a_crowd(), scale_and_hours()
    lists.write_parquet(tmp_path / "lists.parquet")
    scales.write_parquet(tmp_path / "scales.parquet")
    alike(of_lists(lists, "one-coin"), of_lists(tmp_path / "lists.parquet", "one-coin", engine="duckdb"))
    alike(of_a_scale(scales), of_a_scale(tmp_path / "scales.parquet", engine="duckdb"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # PySpark warns of the pandas it finds
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("model", ["one-coin", "two-coin"])
def test_spark_reads_lists_and_scales_as_memory_does(model: str, tmp_path: Path) -> None:
    lists, scales = lists_of_a_crowd(), scale_and_hours()
    lists.write_parquet(tmp_path / "lists.parquet")
    scales.write_parquet(tmp_path / "scales.parquet")
    where: dict[str, Any] = {"engine": "spark", "connection": connect("spark")}
    alike(of_lists(lists, model), of_lists(tmp_path / "lists.parquet", model, **where))
    alike(of_a_scale(scales), of_a_scale(tmp_path / "scales.parquet", **where))


# ---- scales and numbers as an action -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--response number --bounds 0:80", "Estimated with a 95% interval: mean"),
        ("--response ordered --classes 1,2,3,4,5 --mean --column label=scale", "; mean "),
        ("--response number", "--bounds: got nothing, need such as 0:100"),
        ("--response ordered", "--classes: got nothing, need the classes, in their order"),
        ("--response number --bounds 0:80 --classes 3", "levels between the bounds"),
        ("--response number --bounds 0:80 --on region", "compare groups instead"),
        ("--bounds 0:80 --classes 3", "need response number beside it"),
        ("--response ordered --classes 1,2,3 --column label=scale", "reports: got "),
    ],
)
def test_the_command_reads_scales_and_numbers(
    options: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, folder = tmp_path / "poll.csv", tmp_path / "out"
    scale_and_hours().rename({"hours": "label"}).write_csv(path)
    given = ["truth", "shares", str(path), "--randomized", "--epsilon", "1", "--group", "region", *options.split()]
    code, text, error = run(capsys, *given, "--out", str(folder))
    assert (code == 0) == said.startswith(("Estimated", "; mean"))
    assert said in text + error
    if code == 0:
        mean = pl.read_csv(folder / "public" / "groups.csv")["mean"]
        responses = {"label": NumberResponse(1, low=0, high=80), "scale": OrderedResponse(1, [1, 2, 3, 4, 5])}
        name = "scale" if "ordered" in options else "label"
        settings: dict[str, Any] = {"columns": {"label": name}, "response": responses[name], "scores": True}
        groups = compare_groups(path, group="region", **settings)
        np.testing.assert_allclose(mean, groups.frame()["mean"])
