"""``peerveil calibration``: decide, plan, simulate."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

from peerveil.cli.actions import command
from peerveil.core.errors import BadInput
from peerveil.data import synthetic_conference
from peerveil.study.actions import actions_of


@pytest.fixture
def files(tmp_path: Path) -> Path:
    pl.DataFrame({"paper": [1, 2, 3], "reviewer": ["ann", "bo", "cy"], "score": [0.4, 0.1, 0.9]}).write_csv(
        tmp_path / "reviews.csv"
    )
    pl.DataFrame({"reviewer": ["ann", "bo", "cy"], "scale": [1.2, 0.8, 1.0], "bias": [0.3, -0.6, 0.4]}).write_csv(
        tmp_path / "people.csv"
    )
    return tmp_path


def write_years(folder: Path, papers: int = 18, reviewers: int = 15) -> None:
    for year, seed in (("past", 1), ("now", 2)):
        synthetic_conference(papers, reviewers, seed=seed).reviews.write(folder / f"{year}.csv")


def run(verb: str, *arguments: object) -> str:
    done = CliRunner().invoke(command(actions_of("calibration")[verb]), [str(one) for one in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def known(files: Path) -> tuple[object, ...]:
    return files / "reviews.csv", "--reviewers", files / "people.csv", "--noise", 0.4


def test_a_few_papers_are_planned_exactly(files: Path) -> None:
    data = json.loads(run("plan", *known(files), "--accept", 1, "--out", files / "plan", "--json"))
    assert data["may_be_published"] == []
    assert {Path(path).name for path in data["written"]} == {"plan.csv", "plan.json", "figure-1.svg"}
    private = data["operator_only"]
    assert private["answer"] == private["results"]["recommendation"]
    assert private["results"]["points"][0][1] < private["results"]["points"][-1][1]
    given = (*known(files), "--accepted", 0.3, "--adversary", "assignment", "--out", files / "all", "--json")
    assert "assignment" in json.loads(run("plan", *given))["operator_only"]["results"]["what"]


def test_a_conference_is_planned_by_groups(tmp_path: Path) -> None:
    write_years(tmp_path)
    given = (tmp_path / "now.csv", "--history", tmp_path / "past.csv", "--accept", 6, "--group-size", 3, "--draws", 1)
    data = json.loads(run("plan", *given, "--demand", 0, "--demand", 1, "--out", tmp_path / "plan", "--json"))[
        "operator_only"
    ]
    assert data["results"]["groups"] == data["results"]["of"] == 6
    assert data["results"]["demands"] == [0, 1]
    with pytest.raises(BadInput, match="group by group"):
        run("plan", *given, "--adversary", "assignment", "--out", tmp_path / "other")


def test_what_is_published_is_apart_from_what_is_not(files: Path) -> None:
    given = (*known(files), "--accept", 1, "--adversary-error", 0.4)
    text = run("decide", *given, "--out", files / "out")
    assert "1 of 3 papers are accepted" in text
    assert "the best adversary names" in text.split("For the operator only")[1]
    assert "not private" not in text
    assert sorted(path.name for path in (files / "out" / "public").iterdir()) == ["decisions.csv", "decisions.json"]
    private = list((files / "out" / "private").iterdir())
    assert sorted(path.name for path in private) == ["figure-1.svg", "sheet.csv"]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in private)
    with pytest.raises(BadInput, match="drawn once"):  # a second decision would reveal more, so --force does not help
        run("decide", *given, "--force", "--out", files / "out")


def test_a_simulated_decision_is_marked(files: Path) -> None:
    given = (*known(files), "--accept", 1, "--adversary-error", 0.4, "--seed", 1, "--out", files / "out", "--json")
    data = json.loads(run("decide", *given))
    assert data["mark"] == "simulation, not private"
    assert data["may_be_published"] == []
    assert "ann" not in json.dumps(data)
    assert "simulation, not private" in (files / "out" / "private" / "figure-1.svg").read_text()


def test_what_is_not_known_from_the_history_is_carried_along(tmp_path: Path) -> None:
    write_years(tmp_path, 24, 20)
    given = (tmp_path / "now.csv", "--history", tmp_path / "past.csv", "--adversary-error", 0.3, "--capped", "--group-size",
             3, "--accept", 8)  # fmt: skip
    text = run("decide", *given, "--out", tmp_path / "one")
    assert "8 of 24 papers" in text
    assert "20 reviewers sit in several groups" in text
    assert "guessed from its own group" in text
    assert "sit in several groups" not in run("decide", *given, "--draws", 1, "--no-exactly", "--out", tmp_path / "two")


def test_simulations_meet_their_guarantee(tmp_path: Path) -> None:
    data = json.loads(run("simulate", "--draws", 20000, "--share", 0.5, "--json", "--out", tmp_path / "pairs"))
    assert data["mark"] == "simulation, not private"
    three = [part for function in ("1:0.5", "0.7:-0.5", "1.2:0") for part in ("--function", function)]
    panels = json.loads(run("simulate", *three, "--draws", 60, "--json", "--out", tmp_path / "panels"))
    for results in (data["results"], panels["results"]):
        for part in (results["conference"], results["adversary"]):
            assert abs(part["observed"] - part["guaranteed"]) < 5 * part["standard_error"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--accept", "1", "--reviewers", "{people}", "--history", "{people}"), "a history and reviewers"),
        (("--accept", "1", "--reviewers", "{people}"), "--noise: got nothing"),
        (("--reviewers", "{people}", "--noise", "0.4"), "--accept: got nothing"),
        (("--accept", "1", "--accepted", "0.3", "--reviewers", "{people}", "--noise", "0.4"), "a number and a share"),
        (("--accept", "1", "--reviewers", "nowhere.csv", "--noise", "0.4"), "no such file"),
        (("--accept", "9", "--reviewers", "{people}", "--noise", "0.4"), "accept"),
        (("--accept", "1", "--reviewers", "{few}", "--noise", "0.4"), "no row for 2 of 3 reviewers"),
        (("--accept", "1", "--history", "{reviews}"), "the reviews that are to be decided"),
        (("--accept", "1", "--history", "{strangers}"), "reviews by other people"),
    ],
)
@pytest.mark.parametrize("verb", ["plan", "decide"])
def test_wrong_use_is_named(verb: str, arguments: tuple[str, ...], words: str, files: Path) -> None:
    pl.read_csv(files / "people.csv").head(1).write_csv(files / "few.csv")
    pl.DataFrame({"paper": [1, 2], "reviewer": ["x", "y"], "score": [1, 2]}).write_csv(files / "strangers.csv")
    names: dict[str, Any] = {path.stem: path for path in files.iterdir()}
    given = [one.format(**names) for one in arguments]
    more = ("--adversary-error", 0.4) if verb == "decide" else ()
    with pytest.raises(BadInput, match=words):
        run(verb, files / "reviews.csv", *given, *more, "--out", files / "out")
    assert not (files / "out").exists()


def test_this_years_scores_are_calibrated_and_planned(tmp_path: Path) -> None:
    write_years(tmp_path, 40, 30)
    given = (tmp_path / "now.csv", "--accepted", 0.25)
    data = json.loads(run("calibrate", *given, "--history", tmp_path / "past.csv", "--out", tmp_path / "out", "--json"))
    assert data["may_be_published"] == []
    names = {"scores.csv", "reviewers.csv", "more_reviews.csv", "methods.csv", "figure-1.svg"}
    assert {Path(path).name for path in data["written"]} == names
    assert all(stat.S_IMODE(Path(path).stat().st_mode) == 0o600 for path in data["written"])
    scores = pl.read_csv(tmp_path / "out/private/scores.csv")
    assert int(scores["accepted"].sum()) == 10
    assert data["operator_only"]["results"]["accept"] == 10
    plan = json.loads(run("plan", *given, "--out", tmp_path / "plan", "--json"))["operator_only"]["results"]
    assert plan["lower"] <= plan["gain"] <= plan["upper"]
    assert ("would not change this conference" in plan["recommendation"]) == (plan["gain"] < 0.01)
    # deciding in private needs to know strictness beforehand, and says what works without
    with pytest.raises(BadInput, match="This year's scores alone are enough for calibration calibrate"):
        run("decide", *given, "--adversary-error", 0.4, "--out", tmp_path / "no")


def test_what_cannot_be_calibrated_is_refused_before_anything_runs(files: Path) -> None:
    for verb in ("calibrate", "plan"):
        with pytest.raises(BadInput, match="one review of every paper"):
            run(verb, files / "reviews.csv", "--accept", 1, "--out", files / "out")
    with pytest.raises(BadInput, match="a number and a share"):
        run("calibrate", files / "reviews.csv", "--accept", 1, "--accepted", 0.3, "--out", files / "out")
    assert not (files / "out").exists()


def test_a_panel_needs_two_reviewers(tmp_path: Path) -> None:
    for function, words in (("1:0", "at least two reviewers"), ("0:1", "a scale above 0 and a bias")):
        with pytest.raises(BadInput, match=words):
            run("simulate", "--function", function, "--out", tmp_path / "out")


def test_a_second_decision_is_refused_or_warned_of(tmp_path: Path) -> None:
    from peerveil.ledger import DataBound, Ledger

    write_years(tmp_path)
    given = ("--history", tmp_path / "past.csv", "--accept", 6, "--adversary-error", 0.4, "--capped", "--draws", 1)
    assert "no ledger was named" in run("decide", tmp_path / "now.csv", *given, "--out", tmp_path / "unrecorded")
    with Ledger.open(tmp_path / "l.db") as ledger:
        for name in ("first", "second"):
            ledger.account(name, epsilon=1)
    book = ("--ledger", tmp_path / "l.db", "--account")
    text = run("decide", tmp_path / "now.csv", *given, "--out", tmp_path / "one", *book, "first")
    assert "no ledger was named" not in text
    frame = pl.read_csv(tmp_path / "now.csv").sample(fraction=1, shuffle=True, seed=0)
    frame.write_csv(tmp_path / "copy.csv")
    again = (tmp_path / "copy.csv", *given, "--out", tmp_path / "two")
    for account in ("first", "second"):
        with pytest.raises(DataBound, match="decided" if account == "first" else "belong to account 'first'"):
            run("decide", *again, *book, account)
    assert not (tmp_path / "two").exists()
    with pytest.raises(BadInput, match="--account"):
        run("decide", *again, "--ledger", tmp_path / "l.db")
