"""``peerveil reproduce``: figures and tables of the papers, made anew."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from peerveil.cli.base import AsJson, Debug, emit, example, print_table
from peerveil.errors import BadInput

if TYPE_CHECKING:
    from peerveil.reproduce import Reproduction


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command(
        "reproduce",
        epilog=example(
            "peerveil reproduce --list",
            "peerveil reproduce release/figure-2a",
            "peerveil reproduce release",
            "peerveil reproduce all",
        ),
        rich_help_panel="Trust",
    )
    def reproduce(
        what: Annotated[str, typer.Argument(help="A room, or room/figure; everything for 'all' or if left out.")] = "",
        list_: Annotated[bool, typer.Option("--list", help="Only list what there is.")] = False,
        quick: Annotated[bool, typer.Option(help="Few trials: a look, not a reproduction.")] = False,
        out: Annotated[Path, typer.Option(help="The folder for figures and results.")] = Path("out/reproduce"),
        as_json: AsJson = False,
        debug: Debug = False,  # noqa: ARG001
    ) -> None:
        """Make figures and tables of the papers anew, with our methods beside theirs.

        All of it takes about half an hour on two cores. Each result is written as soon as it is there; a page with all of
        them side by side at the end.
        """
        from peerveil.report import house_style
        from peerveil.reproduce import experiments
        from peerveil.reproduce.page import COLUMNS, SUMMARY_COLUMNS, summary_rows, write_page

        known = experiments()
        asked = "" if what == "all" else what.rstrip("/")
        chosen = [name for name in known if not asked or name == asked or name.startswith(f"{asked}/")]
        if not chosen:
            raise BadInput("what", got=what, want=f"'all', a room or one of {', '.join(known)}")
        if list_:
            emit(chosen, as_json, "\n".join(chosen))
            return
        done, written = [], []
        for name in chosen:
            began = time.perf_counter()
            with house_style():
                result = known[name](quick, None)
            done.append((result, time.perf_counter() - began))
            written.append(_write(result, out, done[-1][1], quick))
            if not as_json:
                rows = [(row.what, row.paper, row.ours, row.text) for row in result.rows]
                print_table(COLUMNS, rows, title=f"{result.name}: {result.title}")
                typer.echo(result.note + (f"\nfigure: {written[-1]['figure']}\n" if written[-1]["figure"] else "\n"))
        page = write_page(done, quick=quick).write(out / "index.html") if len(done) > 1 else None
        if as_json:
            emit(written, as_json, "")
        elif page is not None:
            print_table(SUMMARY_COLUMNS, summary_rows(done), title="agreement, row by row")
            typer.echo(f"side by side: {page}")


def _write(result: Reproduction, out: Path, seconds: float, quick: bool) -> dict[str, object]:
    """Write the figure and the rows, and return the rows with the figure's place."""
    from peerveil.files import write_text
    from peerveil.reproduce.page import figure_of

    picture = figure_of(result)
    place = None if picture is None else write_text(out / f"{result.name}.svg", picture.alone())
    data = {
        **result.to_dict(),
        "figure": None if place is None else str(place),
        "seconds": round(seconds, 1),
        "quick": quick,
    }
    write_text(out / f"{result.name}.json", json.dumps(data, indent=2, ensure_ascii=False) + "\n")
    return data
