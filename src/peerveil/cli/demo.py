"""``peerveil demo``: everything that exists, end to end, on synthetic data."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from peerveil.cli.base import AsJson, Debug, emit, example


def own_name() -> str:
    """How this program can be called from here: by its name where that finds it, else by its path."""
    beside = Path(sys.executable).with_name("peerveil")
    known = shutil.which("peerveil")
    if not beside.exists() or (known is not None and Path(known).resolve() == beside.resolve()):
        return "peerveil"
    try:
        return shlex.quote(str(beside.relative_to(Path.cwd())))
    except ValueError:
        return shlex.quote(str(beside))


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command("demo", epilog=example("peerveil demo --out out/demo"), rich_help_panel="Start here")
    def demo(
        out: Annotated[Path, typer.Option(help="The folder to write to.")] = Path("out/demo"),
        papers: Annotated[int, typer.Option(help="Papers of the synthetic conference.")] = 600,
        reviewers: Annotated[int, typer.Option(help="Reviewers of the synthetic conference.")] = 1800,
        seed: Annotated[int, typer.Option(help="Another seed makes another conference.")] = 2026,
        as_json: AsJson = False,
        debug: Debug = False,  # noqa: ARG001
    ) -> None:
        """Do the main job on a synthetic conference, and write a page to look at."""
        from peerveil.demo import run_demo

        if not as_json:
            typer.echo("A made-up conference goes through every room; this takes about a minute.")
        done = run_demo(out, papers=papers, reviewers=reviewers, seed=seed)
        name, home = own_name(), done.study.parent
        lines = (
            f"written: {done.report}",
            f"look at it in a browser; what may be published is in {done.result / 'public'}",
            f"a second release was refused: {done.refusal}",
            f"next, what was spent:    {name} ledger show {shlex.quote(str(home / 'peerveil-ledger.db'))}",
            f"      a study of your own: {name} new {shlex.quote(str(home / 'data'))} > study.toml   # or your data's folder",
            f"                           {name} run study.toml",
        )
        emit(
            {
                "report": str(done.report),
                "study": str(done.study),
                "result": str(done.result),
                "refused": done.refusal,
            },
            as_json,
            "\n".join(lines),
        )
