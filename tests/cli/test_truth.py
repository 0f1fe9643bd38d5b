"""``peerveil truth``."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import polars as pl
import pytest
from tests.cli.runner import run

from peerveil import Ledger
from peerveil.cli import base
from peerveil.judgements import Labels
from peerveil.truth import simulate_crowd


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    crowd = simulate_crowd(60, 12, 5, epsilon=None, seed=2)
    frame = crowd.answers.frame.with_columns(truth=pl.Series([crowd.truth[t] for t in crowd.answers.frame["task"]]))
    return Labels.from_frame(frame).write(tmp_path / "answers.csv")


def test_randomize_and_infer(answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    code, text, _ = run(capsys, "truth", "randomize", answers, "--epsilon", "3", "--classes", "2", "--out", out)
    assert code == 0
    assert "Local differential privacy with epsilon 3 for one answer of one person" in text
    assert "For a whole person" in text
    code, text, _ = run(capsys, "truth", "infer", out / "reports.jsonl", "--out", out, "--json")
    assert code == 0
    data = json.loads(text)
    assert data["mark"] is None
    assert data["guarantee"]["epsilon"] == "3"
    assert len(data["tasks"]) == 60
    rows = list(csv.DictReader((out / "public" / "labels.csv").read_text(encoding="utf-8").splitlines()))
    assert {"task", "label", "confidence", "p_0", "p_1"} == set(rows[0])
    assert (out / "private" / "workers.csv").exists()
    assert "<svg" in (out / "public" / "abilities.svg").read_text(encoding="utf-8")
    code, _, err = run(capsys, "truth", "infer", out / "reports.jsonl", "--epsilon", "3")
    assert code == base.BAD_INPUT
    assert "the file of reports says it" in err


def test_infer_a_table_and_score_it(answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for model in ("auto", "majority", "confusion"):
        code, text, _ = run(
            capsys, "truth", "infer", answers, "--epsilon", "none", "--model", model, "--out", tmp_path / model
        )
        assert code == 0
        assert "Against known answers: accuracy" in text
        assert "not private" in text


def test_a_simulation_is_marked(answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["truth", "randomize", answers, "--epsilon", 2, "--classes", "0,1", "--seed", 1, "--out", tmp_path / "out"]
    code, _, _ = run(capsys, *common)
    assert code == 0
    code, text, _ = run(
        capsys, "truth", "infer", tmp_path / "out" / "reports.jsonl", "--out", tmp_path / "out", "--json"
    )
    assert code == 0
    assert json.loads(text)["mark"] == "simulation, not private"
    assert "simulation, not private" in (tmp_path / "out" / "private" / "abilities.svg").read_text(encoding="utf-8")
    code, _, err = run(capsys, *common, "--force", "--ledger", tmp_path / "b.db", "--account", "x")
    assert code == base.BAD_INPUT
    assert "can never be entered" in err


def test_per_person_hidden_and_paid(answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    book = tmp_path / "budget.db"
    with Ledger.open(book) as ledger:
        ledger.account("study", epsilon=4)
    tasks = tmp_path / "tasks.txt"
    tasks.write_text("\n".join(str(t) for t in range(60)), encoding="utf-8")
    common = [
        "truth",
        "randomize",
        answers,
        "--epsilon",
        4,
        "--classes",
        2,
        "--unit",
        "person",
        "--hide-tasks",
        "--tasks",
        tasks,
    ]
    paid = ["--ledger", book, "--account", "study"]
    code, text, _ = run(capsys, *common, *paid, "--out", tmp_path / "out")
    assert code == 0
    assert "everything one person did" in text
    code, _, err = run(capsys, *common, *paid, "--out", tmp_path / "again")
    assert code == base.BUDGET_EXCEEDED
    assert not (tmp_path / "again").exists()
    assert "requested 4, remaining 0" in err


def test_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "truth",
        "plan",
        "--accuracy",
        0.7,
        "--epsilons",
        "1,4",
        "--tasks",
        60,
        "--trials",
        1,
        "--out",
        tmp_path,
    ]
    code, text, _ = run(capsys, *arguments, "--json")
    assert code == 0
    data = json.loads(text)
    assert set(data["needed"]) == {"1.0", "4.0"}
    assert (tmp_path / "plan.svg").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["randomize", "A", "--epsilon", "0", "--classes", "2"], "epsilon: got '0'"),
        (["randomize", "A", "--epsilon", "1", "--classes", "x"], "--classes: got 'x'"),
        (["randomize", "A", "--epsilon", "1", "--classes", "5,6"], "need one of the 2 classes: 5, 6"),
        (["randomize", "A", "--epsilon", "1", "--classes", "yes,"], "need a class before and after every comma"),
        (
            ["infer", "*.parquet", "--randomized", "--epsilon", "1", "--column", "task=item"],
            "need nothing for several files",
        ),
        (["plan", "--classes", "1"], "classes: got 1, need a whole number, at least 2"),
        (["randomize", "A", "--epsilon", "1", "--classes", "2", "--unit", "crowd"], "unit: got 'crowd'"),
        (["randomize", "A", "--epsilon", "1", "--classes", "2", "--hide-tasks"], "public list"),
        (["randomize", "A", "--epsilon", "1", "--classes", "2", "--account", "x"], "--account"),
        (["infer", "A"], "--epsilon: got None"),
        (["infer", "A", "--epsilon", "2"], "--epsilon: got 2 alone, need --randomized beside it, if each answer was"),
        (["infer", "A", "--epsilon", "none", "--randomized"], "--randomized: got --epsilon none, need the epsilon of"),
        (["infer", "A", "--epsilon", "1", "--model", "magic"], "auto, one-coin, two-coin, confusion, majority"),
        (["infer", "nowhere.csv"], "nowhere.csv: got no such file"),
        (["compare", "A", "--draws", "1"], "draws: got 1"),
        (["compare", "A", "--epsilons", "0"], "epsilons: got '0'"),
        (["compare", "A", "--unit", "crowd"], "unit: got 'crowd'"),
        (["plan", "--like", "A"], "need a table of workers"),
        (["plan", "--like", "A", "--ability", "3,1"], "either --like or --ability"),
        (["plan", "--ability", "0,1"], "--ability: got '0,1'"),
        (["infer", "A", "--randomized", "--epsilon", "1", "--column", "task"], "--column"),
        (["infer", "A", "--randomized", "--epsilon", "1", "--engine", "abacus"], "engine: got 'abacus'"),
        (["infer", "nowhere.csv", "--epsilon", "1"], "nowhere.csv"),
        (["plan", "--ability", "4"], "--ability"),
        (["plan", "--accuracy", "1.5"], "accuracy"),
    ],
)
def test_bad_input_writes_nothing(
    answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    given = [str(answers) if a == "A" else a for a in arguments]
    code, _, err = run(capsys, "truth", *given, "--out", tmp_path / "out")
    assert code == base.BAD_INPUT
    assert message in err
    assert not (tmp_path / "out").exists()


def test_nothing_is_written_over(answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = answers.read_bytes()
    code, _, err = run(capsys, "truth", "simulate", answers)
    assert code == base.BAD_INPUT
    assert "a file that exists, need a new name, or --force to replace it" in err
    assert answers.read_bytes() == before
    common = ["truth", "randomize", answers, "--epsilon", "1/2", "--classes", "2", "--out", tmp_path / "out"]
    assert run(capsys, *common)[0] == 0
    first = (tmp_path / "out" / "reports.jsonl").read_bytes()
    code, _, err = run(capsys, *common)
    assert code == base.BAD_INPUT
    assert "a second draw from the same answers costs another epsilon 1/2" in err
    assert (tmp_path / "out" / "reports.jsonl").read_bytes() == first
    assert run(capsys, *common, "--force")[0] == 0
    assert (tmp_path / "out" / "reports.jsonl").read_bytes() != first
    (tmp_path / "private").mkdir()
    mine = answers.rename(tmp_path / "private" / "labels.csv")
    code, _, err = run(capsys, "truth", "infer", mine, "--epsilon", "none", "--out", tmp_path)
    assert code == base.BAD_INPUT
    assert "labels.csv there is what is read" in err
    assert mine.read_bytes() == before
    assert run(capsys, "truth", "simulate", mine, "--force", "--tasks", 5)[0] == 0
    assert mine.read_bytes() != before


def test_raw_answers_are_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = simulate_crowd(100, 12, 6, ability=(20, 1), epsilon=None, seed=2).answers.write(tmp_path / "answers.csv")
    code, text, err = run(capsys, "truth", "infer", file, "--randomized", "--epsilon", "1", "--out", tmp_path / "out")
    assert code == 0
    assert text.startswith("warning: these do not look randomised at epsilon 1")
    assert "If these answers were randomised at epsilon 1 on each person's device" in text
    assert text.count("differential privacy") == 1
    assert err == ""
    for word in ("(auto)", "one-coin", "Personal biases", "0.0%"):
        assert word not in text
    code, text, _ = run(
        capsys, "truth", "infer", file, "--randomized", "--epsilon", "1", "--out", tmp_path / "out", "--json"
    )
    assert json.loads(text)["guarantee"]["assumption"].startswith("these answers were randomised at epsilon 1")


def test_words_for_classes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = Labels(task=[1, 1, 2, 2], worker=[1, 2, 1, 2], label=["yes", "yes", "no", "yes"])
    file = table.write(tmp_path / "words.csv")
    common = ["truth", "randomize", file, "--epsilon", 1, "--out", tmp_path / "out", "--classes"]
    code, _, err = run(capsys, *common, 2)
    assert code == base.BAD_INPUT
    assert "--classes no,yes" in err
    assert "2 means the labels 0 and 1" in err
    assert not (tmp_path / "out").exists()
    assert run(capsys, *common, "yes,no")[0] == 0


def test_few_reports_promise_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One report; a word that is no class; a crowd too small to tell anything about biases."""
    common = ["--epsilon", 1, "--out", tmp_path / "out"]
    one = Labels(task=[1], worker=[1], label=["yes"]).write(tmp_path / "one.csv")
    assert "cannot be seen from equal reports" in run(capsys, "truth", "infer", one, "--randomized", *common)[2]
    code, text, _ = run(capsys, "truth", "infer", one, "--randomized", *common, "--classes", "yes,no")
    assert code == 0
    assert text.startswith("1 task labelled from 1 report of 1 worker ")
    assert "Classes seen" not in text
    odd = Labels(task=[1, 1, 2], worker=[1, 2, 1], label=["yes", "no", "mabye"]).write(tmp_path / "odd.csv")
    code, text, _ = run(capsys, "truth", "infer", odd, "--randomized", *common)
    assert code == 0
    assert "Classes seen: mabye, no, yes." in text
    assert "The reports do not tell whether people lean to different answers" in text
    _, text, _ = run(capsys, "truth", "randomize", one, *common, "--classes", "yes,no")
    assert text.startswith("1 report, epsilon 1 each")


def test_files_for_databases(answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Majority reads several files, and --column holds on every engine."""
    frame = pl.read_csv(answers).drop("truth")
    frame.write_parquet(tmp_path / "a1.parquet")
    common = ["--randomized", "--epsilon", 1, "--out", tmp_path / "out"]
    code, text, _ = run(capsys, "truth", "infer", tmp_path / "a*.parquet", "--model", "majority", *common)
    assert code == 0
    assert text.startswith("60 tasks labelled from 300 reports")
    frame.rename({"task": "item"}).write_parquet(tmp_path / "b.parquet")
    code, _, err = run(
        capsys, "truth", "infer", tmp_path / "b.parquet", "--engine", "duckdb", "--column", "task=item", *common
    )
    assert (code, err) == (0, "")


def test_compare(answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["truth", "compare", answers, "--epsilons", "1,6", "--draws", 3, "--out", tmp_path / "out"]
    code, text, _ = run(capsys, *common)
    assert code == 0
    assert "not for publication" in text
    assert "right label" in text
    assert "±" in text
    picture = (tmp_path / "out" / "compare.svg").read_text(encoding="utf-8")
    assert "not private" in picture
    data = json.loads((tmp_path / "out" / "compare.json").read_text(encoding="utf-8"))
    assert [row["epsilon"] for row in data["rows"]] == [1.0, 6.0]
    assert data["mark"] == "not private"
    code, text, _ = run(capsys, *common, "--unit", "person", "--json")
    assert code == 0
    person = json.loads(text)["rows"]
    assert person[0]["covered"] < 1 == data["rows"][0]["covered"]
    assert person[0]["agreement"] < data["rows"][0]["agreement"]


def test_plan_like_an_earlier_crowd(answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "truth", "infer", answers, "--epsilon", "none", "--out", tmp_path)[0] == 0
    common = [
        "truth",
        "plan",
        "--accuracy",
        0.75,
        "--epsilons",
        "none,3",
        "--tasks",
        60,
        "--trials",
        1,
        "--out",
        tmp_path,
    ]
    code, text, _ = run(capsys, *common, "--like", tmp_path / "private" / "workers.csv")
    assert code == 0
    assert "people like those of" in text
    assert "no privacy: " in text
    code, text, _ = run(capsys, *common, "--like", tmp_path / "private" / "workers.csv", "--json")
    assert set(json.loads(text)["needed"]) == {"none", "3.0"}


def test_reproduce(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("truth/bounds", "truth/theorem-4", "truth/set-bluebirds"):
        code, text, _ = run(capsys, "reproduce", name, "--quick", "--out", tmp_path)
        assert code == 0
        assert (tmp_path / f"{name}.svg").exists()
        assert "ABOVE" not in text
