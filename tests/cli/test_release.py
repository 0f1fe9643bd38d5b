"""``peerveil release`` and ``peerveil reproduce``."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from tests.cli.runner import run

from peerveil import Ledger
from peerveil.cli import base
from peerveil.data import Reviews, synthetic_conference


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    return synthetic_conference(papers=40, reviewers=30, seed=2).reviews.write(tmp_path / "reviews.csv")


def test_means(reviews: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    book = tmp_path / "budget.db"
    with Ledger.open(book) as ledger:
        ledger.account("conference", epsilon=1)
    paid = ["--ledger", book, "--account", "conference"]
    common = ["release", "publish", reviews, "--weight", "miscalibration", "--epsilon", 1, "--scale", "1:10"]
    code, out, _ = run(capsys, *common, *paid, "--out", tmp_path / "out")
    assert code == 0
    assert "Differential privacy with epsilon 1 for who wrote one review" in out
    assert "For all reviews of one reviewer:" in out
    text = (tmp_path / "out" / "public" / "means-miscalibration.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    assert len(rows) == 30
    means = [float(row["published_mean"]) for row in rows]
    assert means == sorted(means)
    assert all(float(row["lower"]) <= float(row["upper"]) for row in rows)
    shares = list(csv.DictReader((tmp_path / "out" / "public" / "shares.csv").read_text(encoding="utf-8").splitlines()))
    assert all(float(row["below_lower"]) <= float(row["below"]) <= float(row["below_upper"]) for row in shares)
    assert out.index("public data alone") < out.index("of 30 reviewers")  # first that nothing new is said
    assert "whatever the truth" in out
    data = json.loads((tmp_path / "out" / "public" / "means-miscalibration.json").read_text(encoding="utf-8"))
    assert data["mark"] is None
    assert data["guarantee"]["epsilon"] == "1"
    assert "<svg" in (tmp_path / "out" / "public" / "figure-1.svg").read_text(encoding="utf-8")
    code, _, err = run(capsys, *common, *paid, "--out", tmp_path / "again")
    assert code == base.BUDGET_EXCEEDED
    assert "requested 1, remaining 0" in err
    assert not (tmp_path / "again").exists()


def test_a_published_release_is_never_replaced_silently(
    reviews: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    book, out = tmp_path / "budget.db", tmp_path / "out"
    with Ledger.open(book) as ledger:
        ledger.account("conference", epsilon=3)
    command = ["release", "publish", reviews, "--epsilon", 1, "--ledger", book, "--account", "conference", "--out", out]
    assert run(capsys, *command)[0] == 0
    first = {path.name: path.read_bytes() for path in (out / "public").iterdir()}
    code, _, err = run(capsys, *command)
    assert code == base.BAD_INPUT
    assert "--force to replace files in it; doing it again costs its own epsilon" in err
    assert {path.name: path.read_bytes() for path in (out / "public").iterdir()} == first
    (out / "public" / "means-miscalibration.csv").unlink()  # the other files are left: still a release
    assert run(capsys, *command)[0] == base.BAD_INPUT
    with Ledger.open(book) as ledger:
        assert ledger.account("conference").spent == 1
        assert run(capsys, *command, "--force")[0] == 0
        assert ledger.account("conference").spent == 2


def test_a_simulation_is_marked_and_never_entered(
    reviews: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    simulated = ["release", "publish", reviews, "--epsilon", 1, "--seed", 3, "--out", tmp_path / "out"]
    code, out, _ = run(capsys, *simulated, "--json")
    assert code == 0
    assert json.loads(out)["mark"] == "simulation, not private"
    assert not (tmp_path / "out" / "public").exists()
    figure = tmp_path / "out" / "simulated" / "simulated-figure-1.svg"
    assert "simulation, not private" in figure.read_text(encoding="utf-8")
    code, _, err = run(capsys, *simulated, "--force", "--ledger", tmp_path / "b.db", "--account", "x")
    assert code == base.BAD_INPUT
    assert "a simulation is never debited" in err


def test_own_thresholds(reviews: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [
        "release",
        "publish",
        reviews,
        "--epsilon",
        1,
        "--threshold",
        -1,
        "--threshold",
        1,
        "--level",
        0.9,
        "--seed",
        1,
    ]
    code, out, _ = run(capsys, *command, "--out", tmp_path / "out", "--json")
    assert code == 0
    assert [row["threshold"] for row in json.loads(out)["results"]["shares"]] == [-1, 1]
    code, _, err = run(capsys, *command, "--threshold", 1, "--out", tmp_path / "again")
    assert code == base.BAD_INPUT
    assert "thresholds: got" in err


def test_ask(reviews: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = Reviews.read(reviews)
    people = table.frame["reviewer"].unique(maintain_order=True).to_list()
    lines = [f"{person},{'senior' if place % 2 else 'junior'}" for place, person in enumerate(people)]
    groups = tmp_path / "groups.csv"
    groups.write_text("\n".join(["reviewer,group", *lines]), encoding="utf-8")
    asked = ["release", "ask", reviews, "--epsilon", 1, "--scale", "1:10", "--groups", groups, "--stricter-than", 1]
    code, out, _ = run(capsys, *asked, "--out", tmp_path / "out", "--json")
    assert code == 0
    answered = json.loads(out)
    assert [group["group"] for group in answered["results"]["groups"]] == ["junior", "senior"]
    assert sum(group["reviewers"] for group in answered["results"]["groups"]) == 30
    assert {path.name for path in (tmp_path / "out" / "public").iterdir()} == {
        "answer.csv", "answer.json", "differences.csv", "figure-1.svg"
    }  # fmt: skip
    groups.write_text("\n".join(["reviewer,group", *lines[1:]]), encoding="utf-8")
    code, _, err = run(capsys, *asked, "--out", tmp_path / "again")
    assert code == base.BAD_INPUT
    assert "no group for 1 of 30 reviewers" in err
    groups.write_text("person,group\n", encoding="utf-8")
    assert run(capsys, *asked, "--out", tmp_path / "again")[0] == base.BAD_INPUT


def test_conferences_that_are_compared_are_all_debited_or_none(
    reviews: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    past = synthetic_conference(papers=40, reviewers=30, seed=5).reviews.write(tmp_path / "past.csv")
    book = tmp_path / "budget.db"
    with Ledger.open(book) as ledger:
        account, other = ledger.account("conference", epsilon=3), ledger.account("other", epsilon=3)
        paid = ["--epsilon", 1, "--ledger", book, "--account", "conference"]
        compared = ["release", "ask", reviews, "--compare", past, *paid]
        code, out, _ = run(capsys, *compared, "--out", tmp_path / "out")
        assert code == 0
        assert "this conference:" in out
        assert "past:" in out
        assert account.spent == 2
        code, _, err = run(capsys, *compared, "--out", tmp_path / "again")
        assert code == base.BUDGET_EXCEEDED
        assert "requested 2, remaining 1" in err
        assert account.spent == 2
        paid[-1] = "other"
        fresh = synthetic_conference(papers=40, reviewers=30, seed=6).reviews.write(tmp_path / "fresh.csv")
        assert run(capsys, "release", "ask", fresh, "--compare", past, *paid, "--out", tmp_path / "again")[0] != 0
        assert other.spent == 0
    code, _, err = run(
        capsys, "release", "ask", reviews, "--compare", reviews, "--epsilon", 1, "--out", tmp_path / "again"
    )
    assert code == base.BAD_INPUT
    assert "the same reviews twice" in err


def test_plan(reviews: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "release",
        "plan",
        reviews,
        "--epsilon",
        "1",
        "--epsilon",
        100,
        "--trials",
        3,
        "--out",
        tmp_path / "out",
    ]
    code, out, _ = run(capsys, *arguments, "--json")
    assert code == 0
    assert len(json.loads(out)["results"]["rows"]) == 6
    assert "public scores" in json.loads(out)["answer"]
    assert {path.name for path in (tmp_path / "out" / "public").iterdir()} == {"plan.csv", "plan.json", "figure-1.svg"}


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--epsilon", "0"], "epsilon: got '0'"),
        (["--epsilon", "1", "--scale", "1-10"], "--scale: got '1-10'"),
        (["--epsilon", "1", "--scale", "1:5"], "scale"),
        (["--epsilon", "1", "--weight", "x"], "weight: got 'x'"),
        (["--epsilon", "1", "--account", "x"], "--account: got 'x'"),
        (["--epsilon", "1", "--ledger", "nowhere.db"], "--account: got nothing"),
        (["--epsilon", "1", "--ledger", "nowhere.db", "--account", "x"], "nowhere.db"),
    ],
)
def test_bad_input_writes_nothing(
    reviews: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], extra: list[str], message: str
) -> None:
    code, _, err = run(capsys, "release", "publish", reviews, "--out", tmp_path / "out", *extra)
    assert code == base.BAD_INPUT
    assert message in err
    assert not (tmp_path / "out").exists()


def test_reproduce(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "reproduce", "--list")
    assert code == 0
    assert "release/figure-2a" in out
    assert "weights from beta(1, 1)" in out
    code, out, _ = run(capsys, "reproduce", "release/proposition-4.1", "--quick", "--json", "--out", tmp_path / "one")
    assert code == 0
    assert json.loads(out)[0]["rows"][0]["paper"] == "2.06896 / 2"
    code, out, _ = run(capsys, "reproduce", "release/figure-2g", "--quick", "--out", tmp_path / "three")
    assert code == 0
    assert "agrees" in out
    assert (tmp_path / "three" / "release" / "figure-2g.svg").exists()
    code, out, _ = run(capsys, "reproduce", "release/less-noise", "--quick", "--json", "--out", tmp_path / "two")
    assert code == 0
    assert len(json.loads(out)[0]["rows"]) == 8
    code, _, err = run(capsys, "reproduce", "release/figure-9")
    assert code == base.BAD_INPUT
    assert "release/figure-2a" in err


def test_nothing_is_spent_where_nothing_can_be_written(
    reviews: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    book = tmp_path / "budget.db"
    with Ledger.open(book) as ledger:
        ledger.account("conference", epsilon=3)
    (tmp_path / "file").write_text("not a folder")
    paid = ["--ledger", book, "--account", "conference", "--out", tmp_path / "file" / "deeper"]
    code, _, err = run(capsys, "release", "publish", reviews, "--epsilon", 1, *paid)
    assert code == base.BAD_INPUT
    assert "--out: got" in err
    with Ledger.open(book) as ledger:
        assert ledger.account("conference").spent == 0
