"""The demo: whole, self-contained, and honest about what it shows."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.cli.runner import run

from peerveil import BadInput, Ledger
from peerveil.cli.study import own_name
from peerveil.data import Reviews, synthetic_conference
from peerveil.study import Study
from peerveil.study.demo import Demo, run_demo


def test_the_demo(tmp_path: Path) -> None:
    done = run_demo(tmp_path / "demo", papers=30, reviewers=24, seed=3, samples=400)
    text = done.report.read_text(encoding="utf-8")
    assert "deliberately broken mechanisms were detected" in text
    assert "must not be published" in text
    assert "requested" in done.refusal
    assert "nothing was spent" in done.refusal
    modules = {step.action.module() for step in Study.read(done.study).steps}
    assert modules == {"release", "timing", "calibration", "rankings", "truth", "audit"}
    with Ledger.open(done.study.parent / "peerveil-ledger.db") as ledger:
        assert ledger.account("chairs").spent >= 2
        assert ledger.verify().ok
    assert Reviews.read(done.study.parent / "data" / "reviews.csv").fingerprint
    public = (done.result / "public" / "report.html").read_text(encoding="utf-8")
    assert "must not be published" not in public.lower()


@pytest.mark.slow
def test_the_hints_at_the_end_work_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "peerveil.study.demo.run_demo", lambda out, **_: Demo(out / "r", out / "study/s.toml", out, "refused")
    )
    synthetic_conference(20, 12, seed=1).write("out/demo/study/data")
    with Ledger.open("out/demo/study/peerveil-ledger.db") as ledger:
        ledger.account("chairs", epsilon=1)
    code, text, _ = run(capsys, "demo")
    assert code == 0
    assert "about a minute" in text
    hints = [line.split(":", 1)[-1] for line in text.splitlines() if own_name() in line]
    assert len(hints) == 3
    for hint in hints[:2]:  # the third asks before it spends
        subprocess.run(hint, shell=True, check=True, capture_output=True)
    assert "[[steps]]" in Path("study.toml").read_text()
    assert run(capsys, "run", "study.toml", "--check")[0] == 0


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("mine", encoding="utf-8")
    with pytest.raises(BadInput, match="--out"):
        run_demo(tmp_path / "demo", papers=30, reviewers=24)
    assert (tmp_path / "demo").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("papers", [0, 30])
def test_somebody_elses_folder_and_budget_are_left_alone(tmp_path: Path, papers: int) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        ledger.account("real", epsilon=1)
    before = (tmp_path / "ledger.db").read_bytes()
    with pytest.raises(BadInput, match="^--out|^papers"):
        run_demo(tmp_path, papers=papers, reviewers=24)
    assert (tmp_path / "ledger.db").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.db"]
