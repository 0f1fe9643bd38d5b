"""What it costs to begin, in processor time of a process of its own: imports, every command's help, and small commands.

The peer is `python -c pass`. Python's bytecode is compiled first, as an installer does it.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile

import click

from benchmarks.timing import Row
from peerveil.cli.base import build_app

IMPORT_LIMIT, HELP_LIMIT, START_LIMIT = 0.05, 0.25, 0.7  # seconds
RUN = "import sys; from peerveil.cli import main; main(sys.argv[1:])"
SMALL = (
    ("collect", "init", "--db", "collect.db"),
    ("collect", "campaign", "--db", "collect.db"),
    ("gateway", "init"),
    ("gateway", "token", "--space", "forum", "--role", "author", "--actor", "a"),
    ("gateway", "doctor"),
    ("gateway", "key", "rotate"),
    ("gateway", "webhooks", "list"),
    ("gateway", "backup", "--to", "gateway.backup", "--force"),
    ("data", "synthetic", "conference", "--papers", "40", "--reviewers", "30", "--force"),
    ("data", "check", "conference/reviews.csv"),
    ("new", "conference"),
    ("audit", "list"),
    ("reproduce", "--list"),
)


def bench() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        bare = processor_time(["-c", "pass"], folder)
        numpy = processor_time(["-c", "import numpy"], folder)
        ours = processor_time(["-c", "import peerveil"], folder)
        rows = [
            Row("import peerveil", ours, numpy, "s", "peer: import numpy"),
            limited("import peerveil", ours, bare, IMPORT_LIMIT),
        ]
        helps = {name: processor_time(["-c", RUN, *name.split(), "--help"], folder, 2) for name in commands()}
        slowest = max(helps, key=helps.__getitem__)
        rows.append(
            limited(f"the slowest of {len(helps)} helps (peerveil {slowest})", helps[slowest], bare, HELP_LIMIT)
        )
        for line in SMALL:
            seconds = processor_time(["-c", RUN, *line], folder)
            rows.append(limited(f"peerveil {' '.join(line[:2])}", seconds, bare, START_LIMIT))
    return rows


def commands() -> list[str]:
    """Every command and group, such as ``truth infer``."""
    app = build_app()
    context, names = click.Context(app), [""]
    for group in app.list_commands(context):
        command = app.get_command(context, group)
        names.append(group)
        if isinstance(command, click.Group):
            names += [f"{group} {name}" for name in command.list_commands(context)]
    return names


def limited(what: str, seconds: float, bare: float, limit: float) -> Row:
    note = f"peer: python -c pass; at most {limit:g} s: {'yes' if seconds <= limit else 'NO'}"
    return Row(what, seconds, bare, "s", note)


def processor_time(arguments: list[str], folder: str, times: int = 3) -> float:
    """The least of several runs, after one that compiles what is not yet compiled."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    best = float("inf")
    for number in range(times + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if number:
            best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best
