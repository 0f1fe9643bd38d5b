"""The demo: whole, self-contained, and honest about what it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from peerveil import BadInput, Ledger
from peerveil.demo import run_demo
from peerveil.judgements import Reviews
from peerveil.study import Study


def test_the_demo(tmp_path: Path) -> None:
    done = run_demo(tmp_path / "demo", papers=30, reviewers=24, seed=3, samples=4000)
    text = done.report.read_text(encoding="utf-8")
    assert "planted faults were caught" in text
    assert "must not be published" in text
    assert "requested" in done.refusal
    assert "nothing was spent" in done.refusal
    rooms = {one.room for one in Study.read(done.study).steps}
    assert rooms == {"release", "timing", "calibration", "rankings", "truth", "audit"}
    with Ledger.open(done.study.parent / "peerveil-ledger.db") as ledger:
        assert ledger.account("chairs").spent >= 2
        assert ledger.verify().ok
    assert Reviews.read(done.study.parent / "data" / "reviews.csv").fingerprint
    public = (done.result / "public" / "report.html").read_text(encoding="utf-8")
    assert "must not be published" not in public.lower()


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
