"""``peerveil calibration``: frontier, decide, simulate."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from peerveil.cli.calibration import app
from peerveil.errors import BadInput
from peerveil.judgements import synthetic_conference

RUNNER = CliRunner()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    pl.DataFrame({"paper": [1, 2, 3], "reviewer": ["ann", "bo", "cy"], "score": [0.4, 0.1, 0.9]}).write_csv(
        tmp_path / "reviews.csv"
    )
    pl.DataFrame({"reviewer": ["ann", "bo", "cy"], "scale": [1.2, 0.8, 1.0], "bias": [0.3, -0.6, 0.4]}).write_csv(
        tmp_path / "people.csv"
    )
    return tmp_path


def run(*arguments: object) -> str:
    done = RUNNER.invoke(app, [str(one) for one in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def test_frontier(files: Path) -> None:
    given = ("frontier", files / "reviews.csv", "--reviewers", files / "people.csv", "--noise", 0.4, "--accept", 1)
    text = run(*given, "--figure", files / "f.svg")
    assert "from conference error 0.2" in text
    assert "<svg" in (files / "f.svg").read_text()
    data = json.loads(run(*given, "--json"))
    assert data["start"][1] < data["end"][1]
    assert "assignment" in json.loads(run(*given, "--adversary", "assignment", "--json"))["about"]


def test_frontier_of_a_conference(tmp_path: Path) -> None:
    for year, seed in (("past", 1), ("now", 2)):
        synthetic_conference(papers=18, reviewers=15, seed=seed).reviews.write(tmp_path / f"{year}.csv")
    given = ("frontier", tmp_path / "now.csv", "--history", tmp_path / "past.csv", "--accept", 6, "--group-size", 3)
    data = json.loads(run(*given, "--figure", tmp_path / "f.svg", "--json"))
    assert data["groups"] == data["of"] == 6
    assert data["asked"] == sorted(data["asked"])
    assert "<svg" in (tmp_path / "f.svg").read_text()
    with pytest.raises(BadInput, match="group by group"):
        run(*given, "--adversary", "assignment")


def test_decide(files: Path) -> None:
    given = ("decide", files / "reviews.csv", "--reviewers", files / "people.csv", "--noise", 0.4, "--accept", 1)
    text = run(*given, "--adversary-error", 0.4, "--out", files / "out")
    assert "1 of 3 papers accepted" in text
    assert "the best adversary names" in text
    assert "trade-off: asking 0" in text
    assert "for the chair alone" in text
    assert "not private" not in text
    data = json.loads(run(*given, "--adversary-error", 0.4, "--out", files / "out", "--seed", 1, "--json"))
    assert data["mark"] == "simulation, not private"
    assert "ann" not in json.dumps(data)
    for name in ("protection.svg", "tradeoff.svg"):
        path = files / "out" / "chair" / name
        assert "<svg" in path.read_text()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "simulation, not private" in (files / "out" / "chair" / "protection.svg").read_text()
    assert sorted(path.name for path in (files / "out" / "public").iterdir()) == [
        "README",
        "decisions.csv",
        "decisions.json",
    ]
    line = run(*given[:-2], "--accepted", 0.3, "--no-pictures", "--adversary-error", 0.4, "--out", files / "line")
    assert "trade-off" not in line
    assert not (files / "line" / "chair" / "tradeoff.svg").exists()
    for wrong in ((), ("--accept", 1, "--accepted", 0.3)):
        with pytest.raises(BadInput, match="one of the two: a number, or a share"):
            run(*given[:-2], *wrong, "--adversary-error", 0.4, "--out", files / "no")


def test_decide_from_history_carries_what_is_not_known(tmp_path: Path) -> None:
    for year, seed in (("past", 1), ("now", 2)):
        synthetic_conference(papers=24, reviewers=20, seed=seed).reviews.write(tmp_path / f"{year}.csv")
    given = (
        *(
            "decide",
            tmp_path / "now.csv",
            "--history",
            tmp_path / "past.csv",
            "--adversary-error",
            0.3,
            "--no-pictures",
        ),
        *("--group-size", 3, "--accept", 8, "--out", tmp_path / "out"),
    )
    text = run(*given)
    assert "8 of 24 papers accepted" in text
    assert "20 reviewers sit in several groups" in text
    assert "guessed from its own group" in text
    assert "sit in several groups" not in run(*given, "--draws", 1, "--about")


def test_simulate(tmp_path: Path) -> None:
    data = json.loads(run("simulate", "--draws", 20000, "--share", 0.5, "--json", "--figure", tmp_path / "s.svg"))
    for part in (data["conference"], data["adversary"]):
        assert abs(part["observed"] - part["promised"]) < 5 * part["standard_error"]
    assert "<svg" in (tmp_path / "s.svg").read_text()
    assert "not private" in run("simulate", "--draws", 1000)
    three = [part for a, b in ((1, 0.5), (0.7, -0.5), (1.2, 0)) for part in ("--scale", a, "--bias", b)]
    data = json.loads(run("simulate", *three, "--draws", 60, "--json"))
    assert abs(data["adversary"]["observed"] - data["adversary"]["promised"]) < 5 * data["adversary"]["standard_error"]
    with pytest.raises(BadInput, match="as many of one"):
        run("simulate", *three, "--scale", 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--accept", "1"), "one of the two"),
        (("--accept", "1", "--reviewers", "{people}"), "--noise"),
        (("--accept", "1", "--reviewers", "nowhere.csv", "--noise", "0.4"), "no such file"),
        (("--accept", "1", "--reviewers", "{people}", "--noise", "0.4", "--figure", "f.png"), "ends in .svg"),
        (("--accept", "9", "--reviewers", "{people}", "--noise", "0.4"), "accept"),
    ],
)
def test_wrong_use_is_named(arguments: tuple[str, ...], words: str, files: Path) -> None:
    given = [one.format(people=files / "people.csv") for one in arguments]
    with pytest.raises(BadInput, match=words):
        run("frontier", files / "reviews.csv", *given)


def test_a_second_decision_is_refused_or_warned_of(tmp_path: Path) -> None:
    from peerveil.ledger import DataBound, Ledger

    for year, seed in (("past", 1), ("now", 2)):
        synthetic_conference(papers=18, reviewers=15, seed=seed).reviews.write(tmp_path / f"{year}.csv")
    given = ("decide", tmp_path / "now.csv", "--history", tmp_path / "past.csv", "--accept", 6, "--group-size", 3,
             "--adversary-error", 0.4, "--draws", 1, "--no-pictures")  # fmt: skip
    assert "nothing stops a second decision" in run(*given, "--out", tmp_path / "unrecorded")
    with Ledger.open(tmp_path / "l.db") as ledger:
        for name in ("first", "second"):
            ledger.account(name, epsilon=1)
    book = ("--ledger", tmp_path / "l.db", "--account")
    assert "second decision" not in run(*given, "--out", tmp_path / "one", *book, "first")
    frame = pl.read_csv(tmp_path / "now.csv").sample(fraction=1, shuffle=True, seed=0)
    frame.write_csv(tmp_path / "copy.csv")
    again = ("decide", tmp_path / "copy.csv", *given[2:], "--out", tmp_path / "two")
    for account in ("first", "second"):
        with pytest.raises(DataBound, match="decided" if account == "first" else "belong to account 'first'"):
            run(*again, *book, account)
    assert not (tmp_path / "two").exists()
    with pytest.raises(BadInput, match="--account"):
        run(*again, "--ledger", tmp_path / "l.db")
