"""Real processes: killed in every step, and two studies that spend one account at once."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import pytest
from tests.study.helpers import AUDIT, means, write_study

from peerveil import Ledger

RUN = "import sys; from peerveil.study import run_study; run_study(sys.argv[1], sys.argv[2])"


def start(file: Path, out: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", RUN, str(file), str(out)], stderr=subprocess.PIPE)


def finish(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    said = process.communicate()[1].decode()
    return process.returncode, said


def entries(folder: Path) -> list[str | None]:
    with Ledger.open(folder / "peerveil-ledger.db") as book:
        assert book.verify().ok
        return [entry.key for entry in book.account("chairs").entries()]


@pytest.mark.slow
def test_kill_minus_nine_in_every_step(tmp_path: Path) -> None:
    """Each study is killed again and again at random moments; in the end every step was debited exactly once."""
    moments = random.Random(7)
    kills = 0
    for turn in range(6):
        folder = tmp_path / str(turn)
        folder.mkdir()
        steps = [means(1, more='name = "one"'), AUDIT, means(1, "miscalibration", 'name = "two"'),
                 means(1, more='name = "three"')]  # fmt: skip
        file = write_study(folder, *steps, budget=3)
        for _ in range(6):
            process = start(file, folder / "out")
            time.sleep(moments.uniform(0.5, 3.5))
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                kills += 1
            finish(process)
        code, said = finish(start(file, folder / "out"))
        assert code == 0, said
        run = json.loads((folder / "out" / "private" / "journal.json").read_text())["run"]
        assert entries(folder) == [f"{run}/{name}" for name in ("one", "two", "three")]
        assert (folder / "out" / "report.html").exists()
    assert kills > 10


@pytest.mark.slow
def test_two_studies_that_spend_one_account_at_once(tmp_path: Path) -> None:
    """There is enough for one of the two; both pass the check, the ledger lets one of them spend."""
    first = write_study(tmp_path, means(2), budget=3)
    second = write_study(tmp_path, means(2, "miscalibration"), budget=3, name="second.toml")
    with Ledger.open(tmp_path / "peerveil-ledger.db") as book:
        book.account("chairs", epsilon=3)
    ended = [finish(process) for process in [start(first, tmp_path / "a"), start(second, tmp_path / "b")]]
    assert sorted(code for code, _ in ended) == [0, 1]
    assert any("BudgetExceeded" in said for _, said in ended)
    assert len(entries(tmp_path)) == 1
    with Ledger.open(tmp_path / "peerveil-ledger.db") as book:
        assert book.account("chairs").exact_spent == Fraction(2)
