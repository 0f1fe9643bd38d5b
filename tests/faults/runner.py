"""Copy the source, put one fault into it, and run the tests that should notice."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.faults.catalog import Fault

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = ROOT / "src"


def occurrences(fault: Fault) -> int:
    """How often the text that the fault replaces stands in its file."""
    return (SOURCE / "peerveil" / fault.file).read_text(encoding="utf-8").count(fault.before) if fault.before else 0


def run_tests(tests: tuple[str, ...], fault: Fault | None = None) -> subprocess.CompletedProcess[str]:
    """Run tests on a copy of the source, with or without a fault."""
    with tempfile.TemporaryDirectory(prefix="pv-fault-") as folder:
        copy = Path(folder) / "src"
        shutil.copytree(SOURCE, copy)  # with times of change, so that compiled kernels are found again
        if fault is not None:
            file = copy / "peerveil" / fault.file
            text = file.read_text(encoding="utf-8")
            assert text.count(fault.before) == 1, fault.name
            file.write_text(text.replace(fault.before, fault.after), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", *tests]
        own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        return subprocess.run(
            command, cwd=ROOT, env={**own, "PYTHONPATH": str(copy)}, capture_output=True, text=True, check=False
        )


def caught_by(done: subprocess.CompletedProcess[str]) -> str | None:
    """The test that failed; ``None`` if none did."""
    failed = [line.split(" ")[1] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return failed[0] if done.returncode == 1 and failed else None
