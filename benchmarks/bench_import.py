"""What it costs to begin: ``import peerveil`` and ``peerveil --help``, in processes of their own."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.timing import Row, best_of

LIMIT = 0.5  # seconds, for the import


def bench() -> list[Row]:
    def run(code: str) -> None:
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)

    help_ = "from peerveil.cli.base import run; run(['--help'], debug=False, as_json=False)"
    bare, ours, shown, peer = best_of(
        7,
        lambda: run("pass"),
        lambda: run("import peerveil"),
        lambda: run(help_),
        lambda: run("import numpy"),
    )
    alone = ours - bare
    if alone > LIMIT:
        raise SystemExit(f"import peerveil takes {alone:.2f} s; the limit is {LIMIT} s")
    return [
        Row("import peerveil, Python's own start left out", alone, LIMIT, "s", "peer: the limit of 0.5 s"),
        Row("import peerveil", ours, peer, "s", "peer: import numpy"),
        Row("peerveil --help", shown, None, "s", ""),
    ]
