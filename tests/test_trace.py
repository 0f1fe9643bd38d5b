"""How many files a reader has to open to follow a command: never more than when the rebuild began."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from scripts.trace_files import SOURCE, trace_command, trace_study, traced
from tests.study.helpers import means, write_study

from peerveil.core.guarantee import read_epsilon
from peerveil.data import synthetic_conference

MOST = {
    "release publish data/reviews.csv --epsilon 2 --scale 1:10 --out means": 36,
    "timing plan data/events.csv --percentile 25 --out plan": 37,
    "truth randomize data/labels.csv --epsilon 1 --classes 2 --out sent": 42,
    "truth label data/labels.csv --model one-coin --out inferred": 40,
    "calibration simulate --draws 100": 17,
}
MOST_OF_A_STUDY = 63


def test_a_trace_names_the_files_whose_functions_run_and_no_others() -> None:
    files, epsilon = traced(lambda: read_epsilon("1/3"))
    assert epsilon * 3 == 1
    assert set(files) == {"core/guarantee/value.py", "core/exact.py"}


def test_what_runs_during_an_import_is_not_counted(tmp_path: Path) -> None:
    """A group of commands declares its options with functions of another file while it is imported."""
    spec = spec_from_file_location("imported_anew", SOURCE / "cli" / "data.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    assert traced(lambda: spec.loader.exec_module(module))[0] == []  # type: ignore[union-attr]
    assert traced(lambda: module.check_out(tmp_path, force=False))[0] == ["core/files.py"]


@pytest.mark.parametrize("command", MOST)
def test_a_command_runs_through_no_more_files_than_before(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synthetic_conference(24, 16, seed=4).write(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PEERVEIL_LEDGER", raising=False)
    with redirect_stdout(io.StringIO()):
        files, code = trace_command(command.split())
    assert code == 0
    assert len(files) <= MOST[command], files


def test_a_study_runs_through_no_more_files_than_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way that both ``peerveil run`` and the console take: ``run_study``."""
    monkeypatch.delenv("PEERVEIL_LEDGER", raising=False)
    files = trace_study(write_study(tmp_path, means()), tmp_path / "out")
    assert len(files) <= MOST_OF_A_STUDY, files
