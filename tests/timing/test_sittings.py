"""Several shared sittings, communities, HotCRP's rule, and logs without a header."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.cli.runner import run

from peerveil import BadInput, Randomness
from peerveil.data import Events
from peerveil.timing import FollowUp, Uniform, audit_log, plan_delays
from peerveil.timing.check import exact_check
from peerveil.timing.communities import missed_follow_ups
from peerveil.timing.distributions import Steps
from peerveil.timing.noon import noon_baseline
from peerveil.timing.sittings import Escalation, compare_policies, ranked_first

MECHANISM = FollowUp(epsilon=1, gap=2700, window=300)
NEAR = (300.0, 2700.0)


def test_the_simulated_ranking_agrees_with_the_closed_form_and_stays_under_the_bound() -> None:
    """With plain uniform delays every other suspect keeps up with probability 1/e per sitting; ties are broken at random."""
    trials = 20_000
    measured = ranked_first(MECHANISM, NEAR, trials=trials)
    for sittings, share in enumerate(measured, start=1):
        keeps_up = math.exp(-sittings)
        expected = (1 - (1 - keeps_up) ** 10) / (10 * keeps_up)  # E[1 / (1 + Binomial(9, e^-s))]
        assert abs(share - expected) < 5 * 0.5 / math.sqrt(trials) + 0.005  # cells of the grid
        assert expected <= math.exp(sittings) / 10 + 1e-12
    # deliberately broken: a follow-up's delay cut by half can fall short of every other suspect's
    broken = MECHANISM.replace()
    broken.batched = MECHANISM.batched.scaled(0.5)
    assert ranked_first(broken, NEAR)[0] > math.exp(1) / 10 + 5 * 0.5 / math.sqrt(2000)


def test_pauses_beyond_the_gap_are_worse_and_a_budget_helps() -> None:
    far = np.geomspace(300, 86_400, 200)
    policies = compare_policies(MECHANISM, far, trials=1000)
    always, half, budget, halved, *_, warned = policies
    assert always.history_first[1] > always.covered_first[1] + 0.1
    assert always.total_epsilon == 5
    assert budget.total_epsilon == pytest.approx(1)
    assert budget.covered_first[-1] < 0.35 < half.covered_first[-1] < always.covered_first[-1]
    assert always.mean_batched < halved.mean_batched < budget.mean_batched
    assert warned.covered_first[-1] < always.covered_first[-1] - 0.2
    with pytest.raises(BadInput, match="mechanism"):
        compare_policies(Uniform(epsilon=1, gap=600), NEAR)  # type: ignore[arg-type]


def test_a_level_of_earlier_posts_keeps_epsilon_and_one_of_earlier_follow_ups_does_not() -> None:
    policy = Escalation(MECHANISM, gap_factor=2)
    for earlier in range(8):
        assert exact_check(policy.at(earlier)).passed
    # a third post after c and c': its level is the same in both inputs, or, by follow-ups, another one
    first, second = policy.at(0).unbatched, policy.at(2).unbatched
    assert isinstance(first, Steps)
    assert isinstance(second, Steps)
    assert second.maximum > first.maximum  # a delay that the harmless input cannot give: the ratio is infinite
    assert policy.budget(4) == 2
    for wrong in ({"every": 0}, {"epsilon_factor": 2}, {"gap_factor": "1/2"}, {"levels": 0}):
        with pytest.raises(BadInput, match=next(iter(wrong))):
            Escalation(MECHANISM, **wrong)


def spanning_log() -> pl.DataFrame:
    """Ten people, each with a sitting in one venue and one that spans two."""
    rows = [(f"p{k}", f"{k}-{part}", 1e9 + 1e6 * k + at, venue) for k in range(10)
            for part, at, venue in ((0, 0, "x"), (1, 60, "x"), (2, 9e4, "x"), (3, 9e4 + 60, "y"))]  # fmt: skip
    return pl.DataFrame(rows, schema=["actor", "thread", "time", "venue"], orient="row")


def test_the_audit_shows_sittings_that_span_communities_and_what_is_outside_the_gap_first() -> None:
    audit = audit_log(spanning_log(), community="venue", gap=3600, epsilons=(1,), randomness=Randomness.simulation(1))
    assert audit.communities is not None
    assert audit.communities.frame().rows() == [("y", 10, 10, 1.0), ("x", 10, 0, 0.0)]
    assert audit.communities.share == 0.5
    assert "50% of 20 follow-ups (10) would be missed" in audit.recommendation
    # of 30 steps 10 are longer than the gap, and these are all that are no sittings
    assert audit.outside == pytest.approx(1 / 3)
    assert audit.outside_alone == 1.0
    assert str(audit).index("come later than the gap") < str(audit).index("epsilon 1")
    assert "Several sittings add up" in audit.recommendation
    assert "one log with all of its communities" in str(MECHANISM.guarantee)
    assert "cost s times epsilon" in str(MECHANISM.guarantee)
    plan = plan_delays(spanning_log(), percentile=50)
    assert plan.recommendation.startswith("Outside the guarantee: 0%")
    assert len(plan.policies) == 6
    with pytest.raises(BadInput, match="place"):
        missed_follow_ups(spanning_log(), community="place")


def test_times_moved_to_noon_agree_with_listed_pairs() -> None:
    rng = np.random.default_rng(2)
    log = Events(actor=rng.integers(0, 6, 90), thread=rng.integers(0, 5, 90), time=1e9 + rng.integers(0, 300_000, 90))
    noon = noon_baseline(log, window=3600, gap=7200)
    rows = list(zip(log.column("actor"), log.column("thread"), log.times, strict=True))
    pairs = [(a, b) for i, a in enumerate(rows) for b in rows[:i] if a[1] != b[1]]
    day = 86_400_000_000
    one_day = [(a, b) for a, b in pairs if a[2] // day == b[2] // day]
    true = [(a, b) for a, b in pairs if a[0] == b[0] and a[2] - b[2] <= 3_600_000_000]
    assert noon.attack.flagged.tolist() == [len(one_day)]
    assert noon.attack.batched == len(true)
    assert noon.attack.right.tolist() == [sum(pair in one_day for pair in true)]
    table = audit_log(log, gap=7200, epsilons=(1,), randomness=Randomness.simulation(1)).frame()
    assert table["protection"].to_list() == ["none", "noon", "delays"]


@pytest.mark.parametrize("separator", [";", "tab"])
def test_a_log_without_a_header_is_read_as_with_one(
    separator: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = spanning_log().select("actor", "time", "thread", "venue")
    sign = "\t" if separator == "tab" else separator
    frame.write_csv(tmp_path / "named.csv", separator=sign)
    frame.write_csv(tmp_path / "log.txt", separator=sign, include_header=False)
    numbers = ("--no-header", "--column", "actor=1", "--column", "time=2", "--column", "thread=3")
    read: list[Any] = []
    for name, *options in (("named.csv",), ("log.txt", *numbers)):
        arguments = ("data", "check", tmp_path / name, "--kind", "events", "--separator", separator, *options)
        read.append(json.loads(run(capsys, *arguments, "--json")[1])["tables"]["events"])
    named, numbered = read
    assert numbered["rows"] == 40
    assert numbered["fingerprint"] == named["fingerprint"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--no-header", "--column", "actor=7"), "no column '7', need for actor a number from 1 to 4"),
        (("--no-header",), "the number of each, from 1 to 4, since the file has no header"),
        (("--no-header", "--column", "actor=user"), "without a header, columns are numbered"),
        (("--column", "actor=1"), "--no-header"),
        (("--separator", "ab"), "one sign such as"),
        (("--no-header", "--engine", "duckdb"), "the file is not read in memory"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_log_without_a_header_is_named(
    options: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spanning_log().write_csv(tmp_path / "log.csv", include_header=False)
    code, _, error = run(capsys, "timing", "audit", tmp_path / "log.csv", *options)
    assert code != 0
    assert message in " ".join(error.split())


def test_only_text_has_a_header_and_a_separator(tmp_path: Path) -> None:
    spanning_log().write_parquet(tmp_path / "log.parquet")
    for option in ({"header": False}, {"separator": ";"}):
        with pytest.raises(BadInput, match="only CSV and TSV"):
            Events.read(tmp_path / "log.parquet", **option)
