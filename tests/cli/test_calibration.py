"""``peerveil calibration``: frontier, decide, simulate."""

from __future__ import annotations

import json
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


def test_decide(files: Path) -> None:
    given = ("decide", files / "reviews.csv", "--reviewers", files / "people.csv", "--noise", 0.4)
    text = run(*given, "--adversary-error", 0.4, "--out", files / "out")
    assert "papers accepted" in text
    assert "for the chair alone" in text
    assert "not private" not in text
    data = json.loads(run(*given, "--adversary-error", 0.4, "--out", files / "out", "--seed", 1, "--json"))
    assert data["mark"] == "simulation, not private"
    assert "ann" not in json.dumps(data)


def test_decide_from_history(tmp_path: Path) -> None:
    for year, seed in (("past", 1), ("now", 2)):
        synthetic_conference(papers=40, reviewers=30, seed=seed).reviews.write(tmp_path / f"{year}.csv")
    text = run(
        *("decide", tmp_path / "now.csv", "--history", tmp_path / "past.csv", "--adversary-error", 0.3),
        *("--group-size", 3, "--out", tmp_path / "out"),
    )
    assert "of 40 papers accepted" in text


def test_simulate() -> None:
    data = json.loads(run("simulate", "--draws", 20000, "--share", 0.5, "--json"))
    for part in (data["conference"], data["adversary"]):
        assert abs(part["observed"] - part["promised"]) < 5 * part["standard_error"]
    assert "not private" in run("simulate", "--draws", 1000)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--accept", "1"), "one of the two"),
        (("--accept", "1", "--reviewers", "{people}"), "--noise"),
        (("--accept", "9", "--reviewers", "{people}", "--noise", "0.4"), "accept"),
    ],
)
def test_wrong_use_is_named(arguments: tuple[str, ...], words: str, files: Path) -> None:
    given = [one.format(people=files / "people.csv") for one in arguments]
    with pytest.raises(BadInput, match=words):
        run("frontier", files / "reviews.csv", *given)
