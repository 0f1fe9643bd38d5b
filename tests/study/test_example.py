"""The example study of real data runs as it stands, on the data that the repository holds."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from peerveil.study import Study, check_study, run_study

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "real"


def prepared(folder: Path) -> Path:
    """The example with the first papers only."""
    command = [sys.executable, str(EXAMPLE / "prepare.py"), str(folder), "--papers", "600"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "gap from the first 6 hours of edits: 10.4 minutes" in done.stdout
    return folder / "study.toml"


def test_it_is_checked_and_asks_for_what_its_accounts_hold(tmp_path: Path) -> None:
    checked = check_study(Study.read(prepared(tmp_path)))
    assert {planned.action.module() for planned in checked.planned} == {
        "release",
        "timing",
        "calibration",
        "rankings",
        "truth",
        "audit",
    }
    assert all(amount <= checked.study.accounts[name] for name, amount in checked.spends.items())
    assert checked.spends["reviewers"] == 1


def test_it_names_every_file_of_the_repository_once() -> None:
    content = tomllib.loads((EXAMPLE / "study.toml").read_text(encoding="utf-8"))
    named = [entry["path"] for entry in content["data"].values() if "crowd" in entry["path"]]
    held = {f"data/{path.name}" for path in (ROOT / "src/peerveil/papers/reproduce/data").glob("crowd_*.csv.gz")}
    assert sorted(named) == sorted(held)


@pytest.mark.slow
def test_it_runs_to_its_end_and_its_report_holds_every_step(tmp_path: Path) -> None:
    file = prepared(tmp_path)
    done = run_study(file, tmp_path / "result")
    content = tomllib.loads(file.read_text(encoding="utf-8"))
    names = [step["name"] for step in content["steps"]]
    assert list(done.outcomes) == names
    results = json.loads((done.folder / "public" / "results.json").read_text(encoding="utf-8"))
    found = {step["name"]: step for step in results["steps"]}
    assert found["criteria"]["results"]["reject"] is True  # presentation is marked higher than contribution
    assert found["delayed-edits"]["results"]["posts"] > 10_000
    page = done.report.read_text(encoding="utf-8")
    assert page.count("<svg ") >= len(names)
    for name in ("adult-content2", "bluebirds", "zencrowd-us"):
        said = " ".join(str(line) for line in done.outcomes[name].private.findings)
        assert "are labeled correctly" in said
