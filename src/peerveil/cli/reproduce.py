"""``peerveil reproduce``: figures and tables of the papers, made anew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from peerveil.cli.base import AsJson, Debug, emit, example, print_table
from peerveil.errors import BadInput


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command(
        "reproduce",
        epilog=example(
            "peerveil reproduce --list", "peerveil reproduce release/figure-2a", "peerveil reproduce release"
        ),
        rich_help_panel="Trust",
    )
    def reproduce(
        what: Annotated[str, typer.Argument(help="A room, or room/figure; everything if left out.")] = "",
        list_: Annotated[bool, typer.Option("--list", help="Only list what there is.")] = False,
        quick: Annotated[bool, typer.Option(help="Few trials: a look, not a reproduction.")] = False,
        out: Annotated[Path, typer.Option(help="The folder for the figures.")] = Path("out/reproduce"),
        as_json: AsJson = False,
        debug: Debug = False,  # noqa: ARG001
    ) -> None:
        """Make figures and tables of the papers anew, with our methods beside theirs."""
        from peerveil.report import house_style
        from peerveil.reproduce import experiments

        known = experiments()
        chosen = [name for name in known if not what or name == what or name.startswith(f"{what.rstrip('/')}/")]
        if not chosen:
            raise BadInput("what", got=what, want=f"a room or one of {', '.join(known)}")
        if list_:
            emit(chosen, as_json, "\n".join(chosen))
            return
        done = []
        for name in chosen:
            with house_style():
                result = known[name](quick, None)
            picture = _write(result, out)
            done.append({**result.to_dict(), "figure": str(picture) if picture else None})
            if not as_json:
                rows = [(row.what, row.paper, row.ours, row.verdict) for row in result.rows]
                print_table(("what", "paper", "ours", "verdict"), rows, title=f"{result.name}: {result.title}")
                typer.echo(result.note + (f"\nfigure: {picture}\n" if picture else "\n"))
        if as_json:
            emit(done, as_json, "")


def _write(result: object, out: Path) -> Path | None:
    from peerveil.files import write_text
    from peerveil.report import house_style, svg
    from peerveil.reproduce import Reproduction

    if not isinstance(result, Reproduction) or result.axes is None:
        return None
    with house_style():
        picture = svg(result.axes, f"{result.title}. {result.note}")
    alone = picture.replace("<svg ", '<svg style="color: #1b1f24; background: #ffffff" ', 1)
    return write_text(out / f"{result.name}.svg", alone)
