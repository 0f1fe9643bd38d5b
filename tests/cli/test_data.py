"""``peerveil data`` on files whose columns have other names."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from tests.cli.runner import run


def test_only_the_nearest_kind_is_shown_with_the_command_that_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("Paper #,Reviewer,Grade\n1,ann,3\n1,bob,4\n")
    code, out, _ = run(capsys, "data", "check", path)
    assert code == 2
    assert "rankings" not in out
    command = shlex.split(out.strip().splitlines()[-1])
    assert command[:3] == ["peerveil", "data", "check"]
    again, out, _ = run(capsys, *command[1:])
    assert again == 0
    assert "2 reviews of 1 paper" in out


def test_a_usual_name_is_taken_and_noted_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("paper,reviewer,rating\n1,ann,3\n1,bob,4\n")
    code, out, _ = run(capsys, "data", "check", path)
    assert code == 0
    assert out.splitlines() == [
        "reviews: 2 reviews of 1 paper by 2 reviewers; scores 3 to 4, mean 3.5",
        "  can be used by release and calibration; no criteria: release with --weight normalized or subjectivity needs them",
        "  note: column 'rating' was read as score",
    ]
    code, out, _ = run(capsys, "data", "describe", path, "--out", tmp_path / "out")
    assert code == 0
    assert "\nnote: column 'rating' was read as score\n" in out


def test_check_says_what_a_table_cannot_be_used_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("paper,score,clarity\n1,3,2\n1,4,3\n")
    code, out, _ = run(capsys, "data", "check", path)
    assert code == 0
    assert "no reviewers: release and calibration need them" in out
    for command in (["plan"], ["publish", "--epsilon", "1"]):
        code, _, err = run(capsys, "release", *command, path, "--out", tmp_path / "out")
        assert (code, "without reviewers" in err) == (2, True)
    path.write_text("paper,reviewer,score\n1,ann,3\n1,bo,4\n2,ann,1\n2,bo,2\n")
    for weight in ("rating", "miscalibration", "normalized", "subjectivity"):
        given = ["release", "plan", path, "--weight", weight, "--scale", "0:5", "--out", tmp_path / weight]
        assert run(capsys, *given)[0] == (2 if weight in ("normalized", "subjectivity") else 0)
    path.write_text("tea,milk,juice\n1,2,3\n1,2,\n")
    code, out, _ = run(capsys, "data", "check", path, "--kind", "rankings")
    assert "can be used by rankings; items left out or tied: rankings randomize needs complete rankings" in out


def test_release_takes_columns_and_says_that_nobody_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "scores.csv"
    rows = [f"{paper},{reviewer},{paper + reviewer}" for paper in range(4) for reviewer in range(3)]
    path.write_text("\n".join(["Paper #,Reviewer,Grade", *rows]) + "\n")
    given = ["release", "publish", path, "--epsilon", "1", "--scale", "0:10", "--out", tmp_path / "out"]
    code, _, err = run(capsys, *given)
    assert code == 2
    assert "--column paper='Paper #'" in err
    code, out, _ = run(capsys, *given, "--column", "score=Grade")
    assert code == 0
    assert "no ledger was named" in out
    assert "are not protected" in out
    code, _, err = run(capsys, *given, "--column", "score", "--force")
    assert code == 2
    assert "ours=theirs" in err


def test_new_writes_a_study_for_files_with_other_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{paper},r{reviewer},{1 + (paper + reviewer) % 9}" for paper in range(6) for reviewer in range(3)]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "scores.csv").write_text("\n".join(["Paper #,Reviewer,Overall merit", *rows]) + "\n")
    code, out, _ = run(capsys, "new", tmp_path / "data")
    assert code == 0
    assert 'score = "Overall merit"' in out
    assert "please check" in out
    study = tmp_path / "study.toml"
    study.write_text(out)
    code, out, _ = run(capsys, "run", study, "--check")
    assert code == 0, out
