"""``peerveil truth``."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.cli.runner import run

from peerveil import Ledger
from peerveil.cli import base
from peerveil.data import Labels
from peerveil.truth import simulate_crowd


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    crowd = simulate_crowd(tasks=60, workers=12, answers=5, epsilon=None, seed=2)
    frame = crowd.answers.frame.with_columns(truth=pl.Series([crowd.truth[t] for t in crowd.answers.frame["task"]]))
    return Labels.from_frame(frame).write(tmp_path / "answers.csv")


def test_randomize_and_infer(answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sent, out = tmp_path / "sent", tmp_path / "out"
    code, text, _ = run(capsys, "truth", "randomize", answers, "--epsilon", "3", "--classes", "2", "--out", sent)
    assert code == 0
    assert "Local differential privacy with epsilon 3 for one answer of one person" in text
    assert "answers of the busiest person add up to epsilon" in text
    assert "no ledger was named" in text
    assert {path.name for path in (sent / "private").iterdir()} == {"reports.jsonl", "workers.csv"}
    code, text, _ = run(capsys, "truth", "infer", sent / "private" / "reports.jsonl", "--out", out, "--json")
    assert code == 0
    data = json.loads(text)
    assert data["mark"] is None
    assert data["guarantee"]["epsilon"] == "3"
    assert data["results"]["tasks"] == 60
    rows = list(csv.DictReader((out / "public" / "labels.csv").read_text(encoding="utf-8").splitlines()))
    assert {"task", "label", "confidence", "p_0", "p_1"} == set(rows[0])
    for name in ("labels.csv", "truth.json"):  # randomize infers too, from the same reports
        assert (sent / "public" / name).read_text() == (out / "public" / name).read_text()
    assert (sent / "private" / "workers.csv").read_text() == (out / "private" / "workers.csv").read_text()
    assert "<svg" in (out / "public" / "figure-1.svg").read_text(encoding="utf-8")
    for option in (("--epsilon", "3", "--randomized"), ("--classes", "0,1")):
        code, _, err = run(
            capsys, "truth", "infer", sent / "private" / "reports.jsonl", *option, "--out", tmp_path / "no"
        )
        assert code == base.BAD_INPUT
        assert "the file of randomized answers states it" in err


def test_published_reports_give_the_same_labels(
    answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sent, out = tmp_path / "sent", tmp_path / "out"
    assert run(capsys, "truth", "randomize", answers, "--epsilon", 3, "--classes", 2, "--out", sent)[0] == 0
    reports = sent / "public" / "reports.csv"
    assert run(capsys, "truth", "infer", reports, "--randomized", "--epsilon", 3, "--classes", 2, "--out", out)[0] == 0
    ours, theirs = (pl.read_csv(folder / "public" / "labels.csv") for folder in (sent, out))
    assert ours["label"].to_list() == theirs["label"].to_list()
    assert (ours["confidence"] - theirs["confidence"]).abs().max() < 1e-6  # type: ignore[operator]


def test_labels_of_answers_as_given_are_private(
    answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for model in ("auto", "majority", "confusion"):
        code, text, _ = run(capsys, "truth", "label", answers, "--model", model, "--out", tmp_path / model)
        assert code == 0
        assert "are labeled correctly (balanced over classes" in text
        assert "nothing of this may be published" in text
        assert "Classes seen: 0, 1." in text
        assert not (tmp_path / model / "public").exists()
        assert "not private" in (tmp_path / model / "private" / "figure-1.svg").read_text(encoding="utf-8")


def test_a_simulation_is_marked(answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sent = tmp_path / "sent"
    common = ["truth", "randomize", answers, "--epsilon", 2, "--classes", "0,1", "--seed", 1, "--out", sent]
    assert run(capsys, *common)[0] == 0
    assert not (sent / "public").exists()
    code, text, _ = run(
        capsys, "truth", "infer", sent / "private" / "reports.jsonl", "--out", tmp_path / "out", "--json"
    )
    assert code == 0
    data = json.loads(text)
    assert data["mark"] == "simulation, not private"
    assert data["may_be_published"] == []
    assert "simulation, not private" in (tmp_path / "out" / "private" / "figure-1.svg").read_text(encoding="utf-8")
    code, _, err = run(capsys, *common, "--force", "--ledger", tmp_path / "b.db", "--account", "x")
    assert code == base.BAD_INPUT
    assert "a simulation is never debited" in err


def test_per_person_hidden_and_paid(answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    book = tmp_path / "budget.db"
    with Ledger.open(book) as ledger:
        ledger.account("study", epsilon=4)
    tasks = tmp_path / "tasks.txt"
    tasks.write_text("\n".join(str(t) for t in range(60)), encoding="utf-8")
    common = ["truth", "randomize", answers, "--epsilon", 4, "--classes", 2, "--unit", "person", "--hide-tasks"]
    paid = ["--tasks", tasks, "--ledger", book, "--account", "study"]
    code, text, _ = run(capsys, *common, *paid, "--out", tmp_path / "out")
    assert code == 0
    assert "everything one person did" in text
    code, _, err = run(capsys, *common, *paid, "--out", tmp_path / "again")
    assert code == base.BUDGET_EXCEEDED
    assert not (tmp_path / "again").exists()
    assert "requested 4, remaining 0" in err


def test_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["truth", "plan", "--accuracy", 0.7, "--tasks", 60, "--trials", 1]
    code, text, _ = run(capsys, *common, "--epsilon", 1, "--epsilon", 4, "--out", tmp_path / "out", "--json")
    assert code == 0
    data = json.loads(text)
    assert set(data["results"]["needed"]) == {"1.0", "4.0"}
    assert data["answer"].startswith("Answers per task for 70% correct labels")
    assert {path.name for path in (tmp_path / "out" / "public").iterdir()} == {"plan.csv", "plan.json", "figure-1.svg"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["randomize", "A", "--epsilon", "0", "--classes", "2"], "--epsilon: got '0'"),
        (["randomize", "A", "--epsilon", "1", "--classes", "x"], "--classes: got 'x'"),
        (["randomize", "A", "--epsilon", "1", "--classes", "5,6"], "need one of the 2 classes: 5, 6"),
        (["randomize", "A", "--epsilon", "1", "--classes", "yes,"], "--classes: got 'yes,', need all possible answers"),
        (["randomize", "A", "--epsilon", "1", "--classes", "2", "--unit", "crowd"], "--unit: got 'crowd'"),
        (
            ["randomize", "A", "--epsilon", "1", "--classes", "2", "--hide-tasks"],
            "--tasks: got nothing, need the public",
        ),
        (["randomize", "A", "--epsilon", "1", "--classes", "2", "--tasks", "A"], "need hide_tasks beside it"),
        (["randomize", "A", "--epsilon", "1", "--classes", "2", "--account", "x"], "--account"),
        (["infer", "A"], "epsilon: got nothing, need the epsilon with which each answer was randomized"),
        (["infer", "A", "--epsilon", "2"], "--randomized: got an epsilon alone, which is no statement"),
        (["infer", "A", "--randomized"], "--epsilon: got nothing, need the epsilon of the devices"),
        (["infer", "A", "--epsilon", "1", "--model", "magic"], "auto, one-coin, two-coin, confusion, majority"),
        (["infer", "A", "--randomized", "--epsilon", "1", "--column", "task"], "--column"),
        (["infer", "A", "--randomized", "--epsilon", "1", "--engine", "abacus"], "--engine: got 'abacus'"),
        (["infer", "A", "--randomized", "--epsilon", "1", "--classes", "7,8"], "need one of the 2 classes: 7, 8"),
        (["infer", "*.parquet", "--randomized", "--epsilon", "1"], "no such file"),
        (["infer", "a*", "--randomized", "--epsilon", "1", "--column", "task=item"], "need nothing for several files"),
        (["infer", "nowhere.csv", "--randomized", "--epsilon", "1"], "no such file (nowhere.csv)"),
        (["infer", "nowhere.parquet", "--randomized", "--epsilon", "1", "--engine", "duckdb"], "no such file"),
        (["label", "nowhere.csv"], "no such file (nowhere.csv)"),
        (["compare", "A", "--draws", "1"], "--draws: got '1'"),
        (["compare", "A", "--epsilon", "0"], "--epsilon: got"),
        (["compare", "A", "--unit", "crowd"], "--unit: got 'crowd'"),
        (["plan", "--classes", "1"], "--classes: got '1', need a whole number from 2"),
        (["plan", "--like", "A"], "need a table of workers"),
        (["plan", "--like", "A", "--ability", "3,1"], "need either like or ability"),
        (["plan", "--ability", "0,1"], "--ability: got '0,1'"),
        (["plan", "--ability", "4"], "--ability"),
        (["plan", "--accuracy", "1.5"], "--accuracy"),
        (["plan", "--accuracy", "0.2", "--classes", "3"], "accuracy: got 0.2, need more than chance"),
        (["simulate", "--answers", "60"], "need at most one answer per worker: 50"),
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
    out = tmp_path / "out"
    common = ["truth", "randomize", answers, "--epsilon", "1/2", "--classes", "2", "--out", out]
    assert run(capsys, *common)[0] == 0
    first = (out / "private" / "reports.jsonl").read_bytes()
    code, _, err = run(capsys, *common)
    assert code == base.BAD_INPUT
    assert "doing it again costs its own epsilon" in err
    assert (out / "private" / "reports.jsonl").read_bytes() == first
    assert run(capsys, *common, "--force")[0] == 0
    assert (out / "private" / "reports.jsonl").read_bytes() != first


def test_a_synthetic_crowd(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["truth", "simulate", "--tasks", 30, "--workers", 9, "--answers", 4, "--kind", "spammers"]
    assert run(capsys, *common, "--classes", "yes,no", "--out", tmp_path / "a")[0] == 0
    table = Labels.read(tmp_path / "a" / "public" / "answers.csv")
    assert (len(table), table.has_truth) == (120, True)
    assert set(table.frame["label"]) == {"yes", "no"}
    assert run(capsys, *common, "--classes", "3", "--out", tmp_path / "b")[0] == 0
    assert set(Labels.read(tmp_path / "b" / "public" / "answers.csv").frame["label"]) == {0, 1, 2}


def test_raw_answers_are_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = simulate_crowd(tasks=100, workers=12, answers=6, ability=(20, 1), epsilon=None, seed=2).answers.write(
        tmp_path / "answers.csv"
    )
    common = ["truth", "infer", file, "--randomized", "--epsilon", "1", "--out", tmp_path / "out"]
    code, text, err = run(capsys, *common)
    assert (code, err) == (0, "")
    assert "Nothing of this may be published: the answers do not look randomized" in text
    assert "these do not look randomized at epsilon 1" in text
    assert not (tmp_path / "out" / "public").exists()
    code, text, _ = run(capsys, *common, "--force", "--json")
    data = json.loads(text)
    assert (data["guarantee"], data["mark"], data["results"]) == (None, "not private", {})
    assert data["operator_only"]["results"]["tasks"] == 100


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


@pytest.mark.parametrize("labels", [[True, True, False, True], [3, 3, 5, 3], ["3", "a", "3", "3"]])
def test_classes_are_of_the_kind_that_the_table_holds(
    labels: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = Labels(task=[1, 1, 2, 2], worker=[1, 2, 1, 2], label=labels).write(tmp_path / "answers.parquet")
    classes = ",".join(sorted({str(label) for label in labels}))
    common = ["truth", "randomize", file, "--epsilon", 20, "--classes", classes, "--out", tmp_path / "out"]
    assert run(capsys, *common)[0] == 0


def test_few_reports_show_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One report; a word that is no class; a crowd too small to tell anything about biases."""
    common = ["--epsilon", 1, "--randomized", "--out", tmp_path / "out", "--force"]
    one = Labels(task=[1], worker=[1], label=["yes"]).write(tmp_path / "one.csv")
    assert "cannot be seen from equal answers" in run(capsys, "truth", "infer", one, *common)[2]
    code, text, _ = run(capsys, "truth", "infer", one, *common, "--classes", "yes,no")
    assert code == 0
    assert "1 task labeled from 1 answer of 1 worker." in text
    assert "Classes seen" not in text
    odd = Labels(task=[1, 1, 2], worker=[1, 2, 1], label=["yes", "no", "mabye"]).write(tmp_path / "odd.csv")
    code, text, _ = run(capsys, "truth", "infer", odd, *common)
    assert code == 0
    assert "Classes seen: mabye, no, yes." in text
    assert "The answers do not show whether people lean to different answers" in text


def test_files_for_databases(answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Majority reads several files, classes may be named without a table, and --column holds on every engine."""
    frame = pl.read_csv(answers).drop("truth")
    frame.write_parquet(tmp_path / "a1.parquet")
    common = ["--randomized", "--epsilon", 1, "--out", tmp_path / "out", "--force"]
    for more in (["--model", "majority"], ["--model", "one-coin", "--classes", "0,1"]):
        code, text, _ = run(capsys, "truth", "infer", tmp_path / "a*.parquet", *more, *common)
        assert code == 0
        assert "60 tasks labeled from 300 answers" in text
    code, _, err = run(capsys, "truth", "label", tmp_path / "a1.parquet", "--engine", "duckdb", "--model", "one-coin",
                       "--out", tmp_path / "labels")  # fmt: skip
    assert (code, err) == (0, "")
    frame.rename({"task": "item"}).write_parquet(tmp_path / "b.parquet")
    code, _, err = run(
        capsys, "truth", "infer", tmp_path / "b.parquet", "--engine", "duckdb", "--column", "task=item", *common
    )
    assert (code, err) == (0, "")


def test_compare(answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["truth", "compare", answers, "--epsilon", 1, "--epsilon", 6, "--draws", 3]
    code, text, _ = run(capsys, *common, "--out", tmp_path / "out")
    assert code == 0
    assert "not for publication" in text
    assert "correct label" in text
    assert "±" in text
    private = tmp_path / "out" / "private"
    assert "not private" in (private / "figure-1.svg").read_text(encoding="utf-8")
    data = json.loads((private / "compare.json").read_text(encoding="utf-8"))
    assert [row["epsilon"] for row in data["rows"]] == [1.0, 6.0]
    assert data["mark"] == "not private"
    code, text, _ = run(capsys, *common, "--unit", "person", "--json", "--out", tmp_path / "person")
    assert code == 0
    person = json.loads(text)["operator_only"]["results"]["rows"]
    assert person[0]["covered"] < 1 == data["rows"][0]["covered"]
    assert person[0]["agreement"] < data["rows"][0]["agreement"]


def test_plan_like_an_earlier_crowd(answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "truth", "label", answers, "--out", tmp_path / "label")[0] == 0
    common = ["truth", "plan", "--accuracy", 0.75, "--epsilon", "none", "--epsilon", 3, "--tasks", 60, "--trials", 1]
    like = ["--like", tmp_path / "label" / "private" / "workers.csv"]
    code, text, _ = run(capsys, *common, *like, "--out", tmp_path / "plan")
    assert code == 0
    assert "People as able as those of" in text
    assert "no privacy: " in text
    assert not (tmp_path / "plan" / "public").exists()  # those abilities come from answers that were not randomized
    code, text, _ = run(capsys, *common, *like, "--json", "--out", tmp_path / "again")
    assert set(json.loads(text)["operator_only"]["results"]["needed"]) == {"none", "3.0"}


def test_reproduce(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("truth/bounds", "truth/theorem-4", "truth/set-bluebirds"):
        code, text, _ = run(capsys, "reproduce", name, "--quick", "--out", tmp_path)
        assert code == 0
        assert (tmp_path / f"{name}.svg").exists()
        assert "ABOVE" not in text
