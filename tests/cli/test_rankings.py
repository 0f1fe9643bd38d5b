"""``peerveil rankings``, and its figures in ``peerveil reproduce``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.runner import run

from peerveil import Ledger
from peerveil.cli import base
from peerveil.judgements import Rankings
from peerveil.rankings import Mallows


@pytest.fixture
def votes(tmp_path: Path) -> Path:
    return Rankings(Mallows(8, 0.6).sample(200, seed=1)).write(tmp_path / "votes.soc")


def test_test(votes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    book = tmp_path / "budget.db"
    with Ledger.open(book) as ledger:
        ledger.account("survey", epsilon=1)
    common = ["rankings", "test", votes, "--epsilon", "0.75", "--ledger", book, "--account", "survey"]
    code, out, _ = run(capsys, *common, "--out", tmp_path / "out")
    assert code == 0
    assert "200 rankings of 8 items differ from chance" in out
    assert "read 200 rankings of the items 0, 1, 2, 3, 4, 5, 6, 7\n" in out
    assert "Differential privacy with epsilon 0.75 for one person's ranking" in out
    data = json.loads((tmp_path / "out" / "test-rank-norm.json").read_text(encoding="utf-8"))
    assert data["mark"] is None
    assert data["reject"] is True
    assert "<svg" in (tmp_path / "out" / "test-rank-norm.svg").read_text(encoding="utf-8")
    code, _, err = run(capsys, *common, "--out", tmp_path / "again")
    assert code == base.BUDGET_EXCEEDED
    assert "requested 0.75, remaining 0.25" in err
    assert not (tmp_path / "again").exists()


def test_wide_and_long_tables(votes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wide = Rankings.read(votes).write(tmp_path / "votes.csv")
    for file in (votes, wide):
        code, out, _ = run(capsys, "rankings", "test", file, "--json", "--out", tmp_path / "out")
        assert code == 0
        data = json.loads(out)
        assert (data["method"], data["mark"], data["rankings"]) == ("friedman", "not private", 200)


def test_reports_and_their_aggregate(votes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reports = tmp_path / "reports.jsonl"
    code, out, _ = run(capsys, "rankings", "report", votes, "--epsilon", 3, "--public-seed", 5, "--to", reports)
    assert code == 0
    assert "200 reports" in out
    assert len(reports.read_text(encoding="utf-8").splitlines()) == 201
    code, out, _ = run(capsys, "rankings", "aggregate", reports, "--out", tmp_path / "out", "--json")
    assert code == 0
    data = json.loads(out)
    assert (data["rankings"], data["mark"], data["settings"]["seed"]) == (200, None, 5)
    assert (tmp_path / "out" / "aggregate.svg").exists()
    again = ["rankings", "report", votes, "--epsilon", 3, "--seed", 5, "--to", reports]
    code, _, err = run(capsys, *again)
    assert code == base.BAD_INPUT
    assert "costs another epsilon 3" in err
    assert run(capsys, *again, "--force")[0] == 0
    code, out, _ = run(capsys, "rankings", "aggregate", reports, "--out", tmp_path / "out", "--json")
    assert json.loads(out)["mark"] == "simulation, not private"
    broken = tmp_path / "broken.jsonl"
    lines = reports.read_text(encoding="utf-8").splitlines()
    broken.write_text("\n".join([*lines[:50], "nonsense", *lines[50:]]), encoding="utf-8")
    code, _, err = run(capsys, "rankings", "aggregate", broken)
    assert code == base.BAD_INPUT
    assert "broken.jsonl, line 51: got 'nonsense" in err
    code, _, err = run(capsys, "rankings", "aggregate", votes)
    assert code == base.BAD_INPUT
    assert "line 1" in err


def test_power(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["rankings", "power", "--items", 60, "--spread", 0.9, "--epsilon", 2, "--methods", "rank-norm"]
    code, out, _ = run(capsys, *arguments, "--trials", 5, "--out", tmp_path / "out", "--json")
    assert code == 0
    assert json.loads(out)["needed"]["rank-norm"] < 200
    assert (tmp_path / "out" / "power.svg").exists()


def test_a_survey_in_the_ordinary_layout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "survey.csv"
    file.write_text("voter,rank1,rank2,rank3\n" + "1,tea,milk,juice\n2,milk,tea,juice\n" * 20, encoding="utf-8")
    code, out, _ = run(capsys, "rankings", "test", file, "--out", tmp_path / "out")
    assert code == 0
    assert out.startswith("read 40 rankings of the items juice, milk, tea\n")
    file.write_text("voter,rank1,rank2,rank3\n" + "1,3,1,2\n2,1,2,3\n" * 20, encoding="utf-8")
    code, _, err = run(capsys, "rankings", "test", file, "--out", tmp_path / "again")
    assert code == base.BAD_INPUT
    assert "--layout orders" in err
    assert not (tmp_path / "again").exists()
    code, out, _ = run(capsys, "rankings", "test", file, "--layout", "orders", "--out", tmp_path / "again", "--json")
    assert json.loads(out)["item_names"] == ["1", "2", "3"]
    code, out, _ = run(capsys, "rankings", "test", file, "--layout", "places", "--out", tmp_path / "again", "--json")
    assert json.loads(out)["item_names"] == ["rank1", "rank2", "rank3"]


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--epsilon", "0"], "epsilon: got '0'"),
        (["--method", "magic"], "method: got 'magic'"),
        (["--method", "rank-norm"], "epsilon: got None"),
        (["--level", "2"], "level: got 2"),
        (["--epsilon", "1", "--account", "x"], "--account: got 'x'"),
        (["--epsilon", "1", "--ledger", "nowhere.db", "--account", "x"], "nowhere.db --account NAME"),
    ],
)
def test_bad_input_writes_nothing(
    votes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], extra: list[str], message: str
) -> None:
    code, _, err = run(capsys, "rankings", "test", votes, "--out", tmp_path / "out", *extra)
    assert code == base.BAD_INPUT
    assert message in err
    assert not (tmp_path / "out").exists()


def test_reproduce(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "reproduce", "--list")
    names = [line for line in out.splitlines() if line.startswith("rankings/")]
    assert len(names) == 11
    code, out, _ = run(capsys, "reproduce", "rankings/figure-1a", "--quick", "--out", tmp_path)
    assert code == 0
    assert "agrees" in out
    assert (tmp_path / "rankings" / "figure-1a.svg").exists()
