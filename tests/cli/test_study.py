"""``peerveil new`` and ``peerveil run``."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.cli.runner import run
from tests.study.helpers import means, write_study

from peerveil.data import synthetic_conference


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
    assert "add --yes" in err
    assert "nothing was spent" in err
    assert not Path("out").exists()
    code, out, err = run(capsys, "run", "study.toml", "--yes")
    assert code == 0, err
    assert "may be published: out/study/public" in out
    assert re.search(r"altogether: epsilon \d of the remaining \d from main", out)
    assert Path("out/study/report.html").exists()
    code, out, _ = run(capsys, "run", "study.toml", "--json")
    assert code == 0
    assert "release-publish" in json.loads(out)["finished_earlier"]
    code, _, err = run(capsys, "run", "study.toml", "--yes", "--out", "again")
    assert code == 3  # the budget
    assert "nothing was spent" in err


def test_a_simulation_is_never_called_publishable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file = write_study(tmp_path, means(1), extra="seed = 1")
    code, out, _ = run(capsys, "run", file)
    assert code == 0
    assert out.startswith("SIMULATION: must not be published")
    assert "SIMULATION: must not be published: out/study/simulated" in out
    assert "may be published" not in out
    code, out, _ = run(capsys, "run", file, "--json")
    assert json.loads(out)["public"] is None
    assert "must not be published" in run(capsys, "run", file, "--check")[1]


def test_what_is_left_of_an_account_is_said_before_it_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file = write_study(tmp_path, means(1), budget=3)
    assert run(capsys, "run", file, "--yes", "--out", "first")[0] == 0
    assert run(capsys, "run", file, "--yes", "--out", "second")[0] == 0
    code, out, _ = run(capsys, "run", file, "--yes", "--out", "third")
    assert code == 0
    assert "epsilon 1 of the remaining 1 from chairs (whole budget 3, 2 spent before)" in out


def test_wrong_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "run", tmp_path / "none.toml")
    assert code == 2
    assert "a file that exists" in err
    code, _, err = run(capsys, "new", tmp_path)
    assert code == 2
    assert "empty" in err
