"""The demo: whole, self-contained, and honest about what it shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from peerveil import BadInput, Ledger
from peerveil.demo import run_demo, waits
from peerveil.judgements import Reviews, synthetic_conference


def test_the_demo(tmp_path: Path) -> None:
    page = run_demo(tmp_path / "demo", papers=60, reviewers=40, seed=3)
    text = page.read_text(encoding="utf-8")
    assert text.count("<svg ") == 4
    assert "6 of 6 planted faults caught" in text
    assert "8 of 8 honest claims stand" in text
    assert "requested 2, remaining 1, 1 too much" in text
    with Ledger.open(tmp_path / "demo" / "ledger.db") as ledger:
        assert ledger.account("synthetic-conference").spent == 2
    assert Reviews.read(tmp_path / "demo" / "data" / "reviews.csv").fingerprint
    assert run_demo(tmp_path / "demo", papers=60, reviewers=40, seed=3) == page  # a second run starts anew


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("mine", encoding="utf-8")
    with pytest.raises(BadInput, match="--out"):
        run_demo(tmp_path / "demo")
    assert (tmp_path / "demo").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("papers", [0, 60])
def test_somebody_elses_folder_and_budget_are_left_alone(tmp_path: Path, papers: int) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        ledger.account("real", epsilon=1)
    before = (tmp_path / "ledger.db").read_bytes()
    with pytest.raises(BadInput, match="^--out|^papers"):
        run_demo(tmp_path, papers=papers, reviewers=40)
    assert (tmp_path / "ledger.db").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.db"]


def test_the_leak_is_there() -> None:
    events = synthetic_conference(600, 450, 4, seed=2026).events
    same, other = waits(events, np.random.default_rng(0))
    assert np.mean(same <= 300) == pytest.approx(0.3, abs=0.05)
    assert np.mean(other <= 300) < 0.01
