"""Count the files of peerveil whose functions run from a command to its result; what runs during imports is left out.

    python scripts/trace_files.py -- release publish reviews.csv --epsilon 1 --out out
    python scripts/trace_files.py --study study.toml --out folder     # the way that the console runs a study

The fewer, the easier the path is to read. Prints the files in the order in which they are first called, and their number.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import peerveil

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

SOURCE = Path(peerveil.__file__).resolve().parent


class Trace:
    """Which files of the package have a function that ran."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self._judged: dict[CodeType, str | None] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """See ``sys.setprofile``."""
        if event != "call":
            return
        code = frame.f_code
        if code not in self._judged:
            self._judged[code] = self._file(code)
        file = self._judged[code]
        if file is not None and file not in self.files and not _importing(frame):
            self.files.append(file)

    def _file(self, code: CodeType) -> str | None:
        """The file of a function of ours; classes and modules only run while they are imported."""
        path = Path(code.co_filename)
        if not path.is_relative_to(SOURCE) or code.co_name == "<module>":
            return None
        return path.relative_to(SOURCE).as_posix()


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "<module>" and _is_ours(frame):
            return True
        frame = frame.f_back
    return False


def _is_ours(frame: FrameType) -> bool:
    return Path(frame.f_code.co_filename).is_relative_to(SOURCE)


def traced(action: Callable[[], Any]) -> tuple[list[str], Any]:
    """The files whose functions ran during an action, in order of their first call, and what it returned."""
    trace = Trace()
    before = sys.getprofile()
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        result = action()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return trace.files, result


def trace_command(arguments: list[str]) -> tuple[list[str], int]:
    """The files that a command of ``peerveil`` goes through, and its exit code."""
    from peerveil.cli import base

    return traced(lambda: base.run(arguments, debug=False, as_json="--json" in arguments))


def trace_study(study: Path, out: Path) -> list[str]:
    """The files that the run of a study goes through, as the console runs it."""
    from peerveil.study import run_study

    return traced(lambda: run_study(study, out, confirm=lambda _: True, progress=False))[0]


def main() -> int:
    """Trace what the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", type=Path, help="run this study instead of a command")
    parser.add_argument("--out", type=Path, help="with --study: the folder to write to")
    parser.add_argument("command", nargs="*", help="after --: a command of peerveil and its arguments")
    given = parser.parse_args()
    code = 0
    if given.study is not None:
        files = trace_study(given.study, given.out or Path(tempfile.mkdtemp(prefix="pv-trace-")) / "out")
    elif given.command:
        files, code = trace_command(given.command)
    else:
        parser.error("a command after --, or --study")
    print("\n".join(files), file=sys.stderr)
    print(f"{len(files)} files", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
