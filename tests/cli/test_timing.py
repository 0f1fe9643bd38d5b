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
from peerveil.judgements import synthetic_conference

LOG = Path(__file__).parents[1] / "timing" / "data" / "wikipedia_edits_2015_09_12.csv.gz"


@pytest.fixture
def events(tmp_path: Path) -> Path:
    return synthetic_conference(papers=80, reviewers=50, seed=4).events.write(tmp_path / "events.csv")


def test_audit(events: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "timing", "audit", events, "--out", tmp_path / "audit.html", "--percentile", 10)
    assert code == 0
    assert "Delay every post once" in out
    assert "number" in out  # the serial number leaks the order
    page = tmp_path / "audit.html"
    assert "<svg " in page.read_text()
    assert "Release replies causally (the default), so that none appears before what it answers." in page.read_text()
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert "not for this log" in out
    assert "round them to days" in out
    code, out, _ = run(capsys, "timing", "audit", events, "--json", "--epsilon", "0.5", "--gap", "2h")
    data = json.loads(out)
    assert code == 0
    assert [one["epsilon"] for one in data["protected"]] == [0.5]
    assert data["protected"][0]["early_replies_with_causal_release"] == 0


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
    mine = pl.read_csv("mine.csv")
    assert mine.columns == ["row", "id", "thread", "public_id", "time"]
    assert pl.read_csv("my log.csv")[(mine["row"] - 1).to_list()]["paper"].to_list() == mine["thread"].to_list()
    assert stat.S_IMODE(Path("mine.csv").stat().st_mode) == 0o600
    assert stat.S_IMODE(Path("public.csv").stat().st_mode) != 0o600
    code, out, _ = run(capsys, "timing", "audit", "my log.csv", *columns, "--gap", "2h")
    assert "not for this log" not in out


def test_audit_in_a_database(events: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from peerveil.judgements import Events
    from peerveil.timing import find_batches

    log = Events.read(events)
    path = log.write(tmp_path / "log.parquet")
    arguments = ("timing", "audit", path, "--engine", "duckdb", "--memory", "300MB")
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert f"{len(log):,} events" in out
    assert "For the operator only" in out
    data = json.loads(run(capsys, *arguments, "--json")[1])
    assert data["batched"] == int(find_batches(log, window=300).batched.sum())
    for more, word in ((("--gap", "2h"), "draws no delays"), (("--posted", "shown"), "shown")):
        code, _, err = run(capsys, *arguments, *more)
        assert code == base.BAD_INPUT
        assert word in err
    code, _, err = run(capsys, "timing", "audit", events, "--memory", "1GB")
    assert code == base.BAD_INPUT
    assert "--engine" in err


def test_audit_of_the_real_log_within_wikis(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(
        capsys, "timing", "audit", LOG, "--column", "actor=user", "--column", "thread=page", "--within", "wiki"
    )
    assert code == 0
    assert "20,025 events" in out


def test_choose(events: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "timing", "choose", events, "--crossover", 0.25, "--epsilon", 0.8)
    assert code == 0
    assert "FollowUp" in out
    code, out, _ = run(capsys, "timing", "choose", events, "--json")
    assert json.loads(out)["covered"] == pytest.approx(0.5, abs=0.02)
    code, _, err = run(capsys, "timing", "choose", events, "--crossover", 0.4, "--epsilon", 0.8)
    assert code == base.BAD_INPUT
    assert "no gap does more" in err


def test_a_gap_for_each_group(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = ("--column", "actor=user", "--column", "thread=page")
    target = tmp_path / "gaps.csv"
    code, out, err = run(capsys, "timing", "choose", LOG, *columns, "--per", "wiki", "--out", target)
    assert code == 0, err
    assert "the 10 shortest and the 10 longest" in out
    wikis = pl.read_csv(target)
    assert wikis.columns == ["wiki", "gap"]
    assert wikis["gap"].n_unique() > 10
    code, out, err = run(
        capsys, "timing", "post", LOG, *columns, "--gap", "1h", "--gaps", target, "--out", tmp_path / "p.csv"
    )
    assert code == 0, err
    assert "One-sided privacy with epsilon 1 and gap" in out
    for arguments, word in (
        (("choose", LOG, *columns, "--out", target), "--per"),
        (("post", LOG, *columns, "--gap", "1h", "--gaps", LOG, "--out", tmp_path / "q.csv"), "--gaps"),
        (("post", LOG, *columns, "--gap", "1h", "--gaps", tmp_path / "no.csv", "--out", tmp_path / "q.csv"), "--gaps"),
    ):
        code, _, err = run(capsys, "timing", *arguments)
        assert code == base.BAD_INPUT
        assert word in err


@pytest.mark.parametrize("mechanism", ["follow-up", "zero-inflated", "uniform", "exponential", "staircase", "queue"])
def test_post(mechanism: str, events: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "posted.csv"
    arguments = ("timing", "post", events, "--gap", "2h", "--mechanism", mechanism, "--out", target,
                 "--schedule", tmp_path / "mine.csv")  # fmt: skip
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    public, text = pl.read_csv(target), out.split("For the operator only:")
    assert public.columns == ["id", "thread", "author", "time", "reply_to"]
    assert "mean" not in text[0]  # what delays were is not public
    assert "delay mean" in text[1]
    mine = pl.read_csv(tmp_path / "mine.csv")
    assert sorted(mine["public_id"]) == public["id"].to_list()
    assert set(mine["id"]) == set(pl.read_csv(events)["id"])
    assert ("One-sided privacy" in out) is (mechanism != "queue")
    code, _, err = run(capsys, *arguments)
    assert code == base.BAD_INPUT  # never drawn again
    assert "drawn once" in err


def test_what_is_missing_or_unclear_is_said(events: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, word in (
        (("post", events, "--out", tmp_path / "a.csv"), "--gap"),
        (("post", events, "--out", tmp_path / "a.csv", "--gap", "45"), "with its unit"),
        (("post", events, "--out", tmp_path / "a.txt", "--gap", "45m"), "--out"),
        (("post", events, "--out", tmp_path / "a.csv", "--gap", "45m", "--schedule", tmp_path / "a.txt"), "--schedule"),
        (
            ("post", events, "--out", tmp_path / "a.csv", "--gap", "45m", "--schedule", tmp_path / "a.csv"),
            "another file",
        ),
        (("audit", events, "--window", "soon"), "--window"),
        (("audit", events, "--column", "actor"), "--column"),
        (("audit", tmp_path / "nothing.csv"), "nothing.csv"),
    ):
        code, _, err = run(capsys, "timing", *arguments)
        assert code == base.BAD_INPUT
        assert word in err
