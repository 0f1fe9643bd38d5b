"""``peerveil rankings``, and its figures in ``peerveil reproduce``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.runner import run

from peerveil import Ledger
from peerveil.cli import base
from peerveil.data import Rankings
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
    assert out.startswith("Yes, the rankings differ from chance (p-value ")
    assert "200 rankings of 8 items differ from chance" in out
    assert "Read 200 rankings of the items 0, 1, 2, 3, 4, 5, 6, 7." in out
    assert "Differential privacy with epsilon 0.75 for one person's ranking" in out
    data = json.loads((tmp_path / "out" / "public" / "test.json").read_text(encoding="utf-8"))
    assert data["mark"] is None
    assert data["reject"] is True
    assert "<svg" in (tmp_path / "out" / "public" / "figure-1.svg").read_text(encoding="utf-8")
    code, _, err = run(capsys, *common, "--out", tmp_path / "again")
    assert code == base.BUDGET_EXCEEDED
    assert "requested 0.75, remaining 0.25" in err
    assert not (tmp_path / "again").exists()


def test_without_an_epsilon_nothing_may_be_published(
    votes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wide = Rankings.read(votes).write(tmp_path / "votes.csv")
    for number, file in enumerate((votes, wide)):
        place = tmp_path / str(number)
        code, out, _ = run(capsys, "rankings", "test", file, "--epsilon", "none", "--json", "--out", place)
        assert code == 0
        data = json.loads(out)
        assert (data["answer"], data["results"], data["may_be_published"]) == ("", {}, [])
        results = data["operator_only"]["results"]
        assert (results["method"], data["mark"], results["rankings"]) == ("friedman", "not private", 200)
        assert [path.name for path in place.iterdir()] == ["private"]


def test_reports_and_their_aggregate(votes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    book = tmp_path / "budget.db"
    with Ledger.open(book) as ledger:
        account = ledger.account("survey", epsilon=3)
        spend = ["--ledger", book, "--account", "survey"]
        common = ["rankings", "randomize", votes, "--epsilon", 3]
        code, out, _ = run(capsys, *common, *spend, "--public-seed", 5, "--out", tmp_path / "sent")
        assert code == 0
        assert "200 randomized rankings" in out
        assert account.remaining == 0
    reports = tmp_path / "sent" / "public" / "reports.jsonl"
    assert len(reports.read_text(encoding="utf-8").splitlines()) == 201
    code, out, _ = run(capsys, "rankings", "aggregate", reports, "--out", tmp_path / "found", "--json")
    assert code == 0
    data = json.loads(out)
    assert (data["results"]["rankings"], data["mark"], data["results"]["method"]) == (200, None, "local")
    assert json.loads((tmp_path / "found" / "public" / "aggregate.json").read_text())["settings"]["seed"] == 5
    code, _, err = run(capsys, *common, "--out", tmp_path / "sent")
    assert code == base.BAD_INPUT
    assert "doing it again costs its own epsilon" in err
    broken = tmp_path / "broken.jsonl"
    lines = reports.read_text(encoding="utf-8").splitlines()
    broken.write_text("\n".join([*lines[:50], "nonsense", *lines[50:]]), encoding="utf-8")
    for file, message in ((broken, "broken.jsonl, line 51: got 'nonsense"), (votes, "line 1")):
        code, _, err = run(capsys, "rankings", "aggregate", file, "--out", tmp_path / "no")
        assert code == base.BAD_INPUT
        assert message in err
    code, _, err = run(capsys, "rankings", "aggregate", reports, "--column", "item=x", "--out", tmp_path / "no")
    assert code == base.BAD_INPUT
    assert "states everything itself" in err
    assert not (tmp_path / "no").exists()


def test_simulated_reports_give_nothing_to_publish(
    votes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "rankings", "randomize", votes, "--epsilon", 3, "--seed", 5, "--out", tmp_path / "sent")[0] == 0
    reports = tmp_path / "sent" / "simulated" / "simulated-reports.jsonl"
    code, out, _ = run(capsys, "rankings", "aggregate", reports, "--out", tmp_path / "found", "--json")
    data = json.loads(out)
    assert (code, data["mark"], data["may_be_published"]) == (0, "simulation, not private", [])


def test_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["rankings", "plan", "--items", 60, "--spread", 0.9, "--epsilon", 2, "--method", "rank-norm"]
    code, out, _ = run(capsys, *arguments, "--method", "local", "--trials", 5, "--out", tmp_path / "out", "--json")
    assert code == 0
    data = json.loads(out)
    assert data["results"]["needed"]["rank-norm"] < 200
    assert data["answer"].startswith("Recommended: rank-norm with ")
    assert {path.name for path in (tmp_path / "out" / "public").iterdir()} == {"plan.csv", "plan.json", "figure-1.svg"}


def test_a_survey_in_the_ordinary_layout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "survey.csv"
    common = ["rankings", "test", file, "--epsilon", "none"]
    file.write_text("voter,rank1,rank2,rank3\n" + "1,tea,milk,juice\n2,milk,tea,juice\n" * 20, encoding="utf-8")
    code, out, _ = run(capsys, *common, "--out", tmp_path / "out")
    assert code == 0
    assert "Read 40 rankings of the items juice, milk, tea." in out
    file.write_text("voter,rank1,rank2,rank3\n" + "1,3,1,2\n2,1,2,3\n" * 20, encoding="utf-8")
    code, _, err = run(capsys, *common, "--out", tmp_path / "again")
    assert code == base.BAD_INPUT
    assert "--layout orders" in err
    assert not (tmp_path / "again").exists()
    for layout, names in (("orders", ["1", "2", "3"]), ("places", ["rank1", "rank2", "rank3"])):
        code, out, _ = run(capsys, *common, "--layout", layout, "--out", tmp_path / layout, "--json")
        assert json.loads(out)["operator_only"]["results"]["item_names"] == names


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ([], "--epsilon: got nothing"),
        (["--epsilon", "0"], "--epsilon: got '0'"),
        (["--epsilon", "1", "--method", "magic"], "--method: got 'magic'"),
        (["--epsilon", "none", "--method", "rank-norm"], "--epsilon: got 'none'"),
        (["--epsilon", "1", "--method", "friedman"], "friedman, which is not private"),
        (["--epsilon", "1", "--level", "2"], "--level: got '2'"),
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
    names = [line for line in out.splitlines() if "rankings/" in line]
    assert len(names) == 15
    code, out, _ = run(capsys, "reproduce", "rankings/figure-1a", "--quick", "--out", tmp_path)
    assert code == 0
    assert "agrees" in out
    assert (tmp_path / "rankings" / "figure-1a.svg").exists()
