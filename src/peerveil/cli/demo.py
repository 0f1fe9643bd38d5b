"""``peerveil demo``: everything that exists, end to end, on synthetic data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from peerveil.cli.base import AsJson, Debug, emit, example


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

        done = run_demo(out, papers=papers, reviewers=reviewers, seed=seed)
        lines = (
            f"written: {done.report}",
            f"look at it in a browser; what may be published is in {done.result / 'public'}",
            f"a second release was refused: {done.refusal}",
            f"next: peerveil ledger show {done.study.parent / 'peerveil-ledger.db'}",
            f"      change {done.study}, then: peerveil run {done.study} --out out/mine",
            "      peerveil new YOUR_DATA_FOLDER > study.toml",
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
