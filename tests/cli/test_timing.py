"""``peerveil timing`` on the command line."""

from __future__ import annotations

import json
import shlex
import stat
from pathlib import Path

import polars as pl
import pytest
from tests.cli.runner import run

from peerveil.cli import base
from peerveil.data import Events, synthetic_conference
from peerveil.ledger import Ledger
from peerveil.timing import choose_gap, find_batches
from peerveil.timing.durations import rounded_up, typed

LOG = Path(__file__).parents[1] / "timing" / "data" / "wikipedia_edits_2015_09_12.csv.gz"
COLUMNS = ("--column", "actor=user", "--column", "thread=page")


@pytest.fixture
def events(tmp_path: Path) -> Path:
    return synthetic_conference(papers=80, reviewers=50, seed=4).events.write(tmp_path / "events.csv")


def test_audit(events: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "timing", "audit", events, "--out", tmp_path / "audit", "--percentile", 10)
    assert code == 0
    assert "Delay every post once" in out
    assert "number" in out  # the serial number leaks the order
    assert "not for this one" in out
    assert "round them to days" in out
    assert out.index("For the operator only") < out.index("To find half of the true pairs")
    assert not (tmp_path / "audit" / "public").exists()
    page = tmp_path / "audit" / "private" / "audit.html"
    assert "<svg " in page.read_text()
    assert "Post replies causally (the default), so that none appears before what it answers." in page.read_text()
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    again = ("timing", "audit", events, "--json", "--epsilon", "0.5", "--gap", "2h", "--out", tmp_path / "two")
    code, out, _ = run(capsys, *again)
    data = json.loads(out)
    assert code == 0
    assert data["results"] == {}
    assert data["may_be_published"] == []
    (protected,) = data["operator_only"]["results"]["protected"]
    assert protected["epsilon"] == 0.5
    assert protected["early_replies_with_causal_release"] == 0


def test_the_command_that_an_audit_prints_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = synthetic_conference(papers=80, reviewers=50, seed=4).events.frame
    frame = frame.select(who="actor", paper="thread", when="time")
    monkeypatch.chdir(tmp_path)
    Path("my log.csv").write_text(frame.sample(fraction=1, shuffle=True, seed=1).write_csv())
    columns = ("--column", "actor=who", "--column", "thread=paper", "--column", "time=when")
    code, out, err = run(capsys, "timing", "audit", "my log.csv", *columns, "--percentile", 10)
    assert code == 0, err
    (printed,) = (line for line in out.splitlines() if line.startswith("$ peerveil timing post "))
    code, out, err = run(capsys, *shlex.split(printed)[2:])
    assert code == 0, err
    schedule, public = Path("delayed-posts/private/schedule.csv"), Path("delayed-posts/public/posted.csv")
    mine = pl.read_csv(schedule)
    assert mine.columns == ["row", "id", "thread", "public_id", "time"]
    assert pl.read_csv("my log.csv")[(mine["row"] - 1).to_list()]["paper"].to_list() == mine["thread"].to_list()
    assert stat.S_IMODE(schedule.stat().st_mode) == 0o600
    assert stat.S_IMODE(public.stat().st_mode) != 0o600
    code, out, _ = run(capsys, "timing", "audit", "my log.csv", *columns, "--gap", "2h", "--out", "given")
    assert "not for this one" not in out


def test_audit_in_a_database(events: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = Events.read(events)
    path = log.write(tmp_path / "log.parquet")
    log.frame.rename({"actor": "user"}).write_parquet(tmp_path / "renamed.parquet")
    arguments = ("--engine", "duckdb", "--memory", "300MB")
    code, out, _ = run(capsys, "timing", "audit", path, *arguments, "--out", tmp_path / "one")
    assert code == 0
    assert f"{len(log):,} events" in out
    assert "For the operator only" in out
    for number, given in enumerate(((path,), (tmp_path / "renamed.parquet", "--column", "actor=user"))):
        out = run(capsys, "timing", "audit", *given, *arguments, "--json", "--out", tmp_path / f"json-{number}")[1]
        counted = json.loads(out)["operator_only"]["results"]["batched"]
        assert counted == int(find_batches(log, window=300).batched.sum())
    for more, word in (
        (("--gap", "2h"), "draws no delays"),
        (("--posted", "shown"), "shown"),
        (("--time-zone", "Europe/Zurich"), "times without a zone as UTC"),
    ):
        code, _, err = run(capsys, "timing", "audit", path, *arguments, *more, "--out", tmp_path / "refused")
        assert code == base.BAD_INPUT
        assert word in err
    code, _, err = run(capsys, "timing", "audit", events, "--memory", "1GB", "--out", tmp_path / "refused")
    assert code == base.BAD_INPUT
    assert "engine duckdb or spark with it" in err


def test_audit_of_the_real_log_within_wikis(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "timing", "audit", LOG, *COLUMNS, "--within", "wiki", "--out", tmp_path / "out")
    assert code == 0
    assert "20,025 events" in out


def test_plan(events: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("timing", "plan", events, "--crossover", 0.25, "--epsilon", 0.8, "--out", tmp_path / "one")
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert "Recommended: FollowUp with epsilon 0.8" in out
    gap = choose_gap(Events.read(events), crossover=0.25, epsilon="0.8", window=300)
    assert f"--gap {typed(rounded_up(gap))}." in out
    code, out, _ = run(capsys, "timing", "plan", events, "--json", "--out", tmp_path / "two")
    assert json.loads(out)["operator_only"]["results"]["covered"] == pytest.approx(0.5, abs=0.02)
    assert pl.read_csv(tmp_path / "two" / "private" / "plan.csv")["mechanism"][0] == "FollowUp"
    for more, word in (
        (("--crossover", 0.4, "--epsilon", 0.8), "no gap does more"),
        (("--crossover", 0.2, "--percentile", 50), "either a percentile or a crossover"),
        (("--percentile", 0), "above 0"),
    ):
        code, _, err = run(capsys, "timing", "plan", events, *more, "--out", tmp_path / "three")
        assert code == base.BAD_INPUT
        assert word in err


def test_a_gap_for_each_group(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "timing", "plan", LOG, *COLUMNS, "--per", "wiki", "--out", tmp_path / "plan")
    assert code == 0, err
    assert "values of wiki have gaps from" in out
    gaps = tmp_path / "plan" / "private" / "gaps.csv"
    wikis = pl.read_csv(gaps)
    assert wikis.columns == ["wiki", "gap"]
    assert wikis["gap"].n_unique() > 10
    post = ("timing", "post", LOG, *COLUMNS, "--gap", "1h")
    code, out, err = run(capsys, *post, "--gaps", gaps, "--out", tmp_path / "p")
    assert code == 0, err
    assert "One-sided privacy with epsilon 1 and gap" in out
    (tmp_path / "others.csv").write_text("wiki,gap\nnowhere,4000\n")
    (tmp_path / "words.csv").write_text("wiki,gap\nde,long\n")
    for path in (LOG, tmp_path / "no.csv", tmp_path / "others.csv", tmp_path / "words.csv"):
        code, _, err = run(capsys, *post, "--gaps", path, "--out", tmp_path / "q")
        assert code == base.BAD_INPUT
        assert "gaps: got" in err


def test_groups_with_names_that_look_like_numbers_keep_their_gaps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = synthetic_conference(papers=30, reviewers=20, seed=1).events.frame
    frame = frame.with_columns(track=pl.format("0{}", pl.int_range(pl.len()) % 2))
    frame.write_parquet(tmp_path / "log.parquet")
    (tmp_path / "gaps.csv").write_text("track,gap\n00,7200\n01,10800\n")
    arguments = ("--gap", "4h", "--gaps", tmp_path / "gaps.csv", "--json", "--out", tmp_path / "out")
    code, out, err = run(capsys, "timing", "post", tmp_path / "log.parquet", *arguments)
    assert code == 0, err
    assert json.loads(out)["guarantee"]["gap"] == "7200"


@pytest.mark.parametrize("mechanism", ["follow-up", "zero-inflated", "uniform", "exponential", "staircase", "queue"])
def test_post(mechanism: str, events: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("timing", "post", events, "--gap", "2h", "--mechanism", mechanism, "--out", tmp_path / "out")
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    public, text = pl.read_csv(tmp_path / "out" / "public" / "posted.csv"), out.split("For the operator only")
    assert public.columns == ["id", "thread", "author", "time", "reply_to"]
    assert "delay mean" not in text[0]  # what delays were is not public
    assert "delay mean" in text[1]
    mine = pl.read_csv(tmp_path / "out" / "private" / "schedule.csv")
    assert sorted(mine["public_id"]) == public["id"].to_list()
    assert set(mine["id"]) == set(pl.read_csv(events)["id"])
    assert ("One-sided privacy" in out) is (mechanism != "queue")
    assert ("without an upper limit" in out) is (mechanism in ("exponential", "staircase"))
    assert "no ledger was named" in out
    code, _, err = run(capsys, *arguments)
    assert code == base.BAD_INPUT
    assert "a second draw from the same data reveals more" in err


def test_posting_is_entered_in_the_ledger(events: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = tmp_path / "budget.db"
    with Ledger.open(ledger) as book:
        book.account("forum", epsilon=1)
    paid = ("timing", "post", events, "--gap", "2h", "--ledger", ledger, "--account", "forum")
    code, out, err = run(capsys, *paid, "--out", tmp_path / "one")
    assert code == 0, err
    assert "no ledger was named" not in out
    code, _, err = run(capsys, *paid, "--mechanism", "queue", "--out", tmp_path / "two")
    assert code == base.BAD_INPUT
    assert "a release without privacy" in err
    assert not (tmp_path / "two").exists()
    with Ledger.open(ledger) as book:
        (entry,) = book.account("forum").entries()
    assert entry.purpose == "delayed posts"
    assert entry.guarantee.gap == 7200


def test_what_is_missing_or_unclear_is_said(events: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, word in (
        (("post", events), "--gap"),
        (("post", events, "--gap", "45"), "with its unit"),
        (("post", events, "--gap", "2m"), "more than the window"),
        (("post", events, "--gap", "45m", "--weight", "0.5", "--mechanism", "uniform"), "--weight"),
        (("post", events, "--gap", "45m", "--mechanism", "slow"), "--mechanism"),
        (("post", events, "--mechanism", "queue", "--gaps", events), "--gaps"),
        (("audit", events, "--window", "soon"), "--window"),
        (("audit", events, "--gap", "1m"), "--gap"),
        (("audit", events, "--column", "actor"), "--column"),
        (("audit", tmp_path / "nothing.csv"), "nothing.csv"),
    ):
        code, _, err = run(capsys, "timing", *arguments, "--out", tmp_path / "out")
        assert code == base.BAD_INPUT, arguments
        assert word in err
    code, _, err = run(capsys, "timing", "post", events, "--gap", "45m", "--out", tmp_path / "a.csv")
    assert code == base.BAD_INPUT
    assert "need a folder" in err
