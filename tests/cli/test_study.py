"""``peerveil new`` and ``peerveil run``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.runner import run

from peerveil.judgements import synthetic_conference


def test_new_then_check_then_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    synthetic_conference(30, 20, seed=4).write("data")
    code, text, _ = run(capsys, "new", "data")
    assert code == 0
    Path("study.toml").write_text(text)
    code, out, _ = run(capsys, "run", "study.toml", "--check", "--json")
    assert code == 0
    assert json.loads(out)["spends"]["main"] >= 1
    assert not Path("out").exists()
    code, _, err = run(capsys, "run", "study.toml")  # nobody can be asked here
    assert code == 2
    assert "--yes" in err
    assert not Path("out").exists()
    code, out, err = run(capsys, "run", "study.toml", "--yes")
    assert code == 0, err
    assert "may be published: out/study/public" in out
    assert Path("out/study/report.html").exists()
    code, out, _ = run(capsys, "run", "study.toml", "--json")
    assert code == 0
    assert "release-means" in json.loads(out)["finished_earlier"]
    code, _, err = run(capsys, "run", "study.toml", "--yes", "--out", "again")
    assert code == 3  # the budget
    assert "nothing was spent" in err


def test_wrong_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "run", tmp_path / "none.toml")
    assert code == 2
    assert "a file that exists" in err
    code, _, err = run(capsys, "new", tmp_path)
    assert code == 2
    assert "empty" in err
