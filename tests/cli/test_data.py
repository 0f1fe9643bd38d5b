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
    path.write_text("Paper #,Reviewer,Overall merit\n1,ann,3\n1,bob,4\n")
    code, out, _ = run(capsys, "data", "check", path)
    assert code == 2
    assert "rankings" not in out
    command = shlex.split(out.strip().splitlines()[-1])
    assert command[:3] == ["peerveil", "data", "check"]
    again, out, _ = run(capsys, *command[1:])
    assert again == 0
    assert "2 reviews of 1 paper" in out


def test_release_takes_columns_and_says_that_nobody_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "scores.csv"
    rows = [f"{paper},{reviewer},{paper + reviewer}" for paper in range(4) for reviewer in range(3)]
    path.write_text("\n".join(["Paper #,Reviewer,Overall merit", *rows]) + "\n")
    given = ["release", "publish", path, "--epsilon", "1", "--scale", "0:10", "--out", tmp_path / "out"]
    code, _, err = run(capsys, *given)
    assert code == 2
    assert "--column paper='Paper #'" in err
    code, out, _ = run(capsys, *given, "--column", "score=Overall merit")
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
