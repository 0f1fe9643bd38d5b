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
        reviewers: Annotated[int, typer.Option(help="Reviewers of the synthetic conference.")] = 450,
        seed: Annotated[int, typer.Option(help="Another seed makes another conference.")] = 2026,
        as_json: AsJson = False,
        debug: Debug = False,  # noqa: ARG001
    ) -> None:
        """Do the main job on a synthetic conference, and write a page to look at."""
        from peerveil.demo import run_demo

        page = run_demo(out, papers=papers, reviewers=reviewers, seed=seed)
        lines = (
            f"written: {page}",
            f"look at it in a browser; the tables are in {out / 'data'}, the budget in {out / 'ledger.db'}",
            f"next: peerveil ledger show {out / 'ledger.db'}   peerveil data check {out / 'data' / 'reviews.csv'}",
        )
        emit(
            {"report": str(page), "data": str(out / "data"), "ledger": str(out / "ledger.db")},
            as_json,
            "\n".join(lines),
        )
