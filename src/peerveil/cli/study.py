"""``peerveil new`` and ``peerveil run``: a study file, and the whole of it carried out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from peerveil.cli.base import AsJson, Debug, emit, example, print_table
from peerveil.errors import BadInput

if TYPE_CHECKING:
    from peerveil.study import Checked


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""

    @app.command("new", epilog=example("peerveil new data > study.toml"), rich_help_panel="Start here")
    def new(
        data: Annotated[Path, typer.Argument(metavar="DATA_DIR", help="A folder of data, or one file.")],
        as_json: AsJson = False,
        debug: Debug = False,  # noqa: ARG001
    ) -> None:
        """Look at your data and print a commented study to begin with."""
        from peerveil.study import new_study

        text = new_study(data)
        emit({"study": text}, as_json, text.rstrip("\n"))

    @app.command(
        "run",
        epilog=example("peerveil run study.toml", "peerveil run study.toml --yes --out results"),
        rich_help_panel="Start here",
    )
    def run(
        study: Annotated[Path, typer.Argument(metavar="STUDY", help="A study file, as `peerveil new` writes it.")],
        out: Annotated[
            Path | None, typer.Option(help="The folder to write to.", show_default="out/<name of the study>")
        ] = None,
        yes: Annotated[bool, typer.Option("--yes", "-y", help="Spend without asking.")] = False,
        check: Annotated[
            bool, typer.Option("--check", help="Only check: say what would be spent and published.")
        ] = False,
        as_json: AsJson = False,
        debug: Debug = False,  # noqa: ARG001
    ) -> None:
        """Check a study, ask, run it, and write a folder with what may be published and a report."""
        from peerveil.study import Study, check_study, run_study

        plan = Study.read(study)
        if check:
            _show(check_study(plan), as_json)
            return

        def confirm(checked: Checked) -> bool:
            if not as_json:
                _show(checked, as_json)
            if yes:
                return True
            if not sys.stdin.isatty():
                raise BadInput(
                    "--yes", got=None, want="--yes, to spend without being asked (there is no terminal here)"
                )
            return typer.confirm("Spend this?")

        done = run_study(plan, out, confirm=confirm)
        found = [
            f"{name}: {' '.join(outcome.found[:1] or outcome.private_found[:1])}"
            for name, outcome in done.outcomes.items()
        ]
        lines = [*found, f"written: {done.report}", f"may be published: {done.folder / 'public'}"]
        if done.repeated:
            lines.append(f"finished earlier, not repeated: {', '.join(done.repeated)}")
        data = {
            "report": str(done.report),
            "public": str(done.folder / "public"),
            "private": str(done.folder / "private"),
            "finished_earlier": list(done.repeated),
        }
        emit(data, as_json, "\n".join(lines))


def _show(checked: Checked, as_json: bool) -> None:
    """What would be spent and published."""
    from peerveil.numerics.exact import printed

    spends = {name: printed(amount, "up") for name, amount in checked.spends.items()}

    def tables() -> None:
        print_table(("step", "what it does", "spends", "publishes"), checked.rows(), title=checked.study.title)
        total = ", ".join(f"epsilon {amount:g} from {name}" for name, amount in spends.items()) or "nothing"
        typer.echo(f"altogether: {total}" + (" (a simulation)" if checked.simulated else ""))

    keys = ("step", "does", "spends", "publishes")
    emit({"steps": [dict(zip(keys, row, strict=True)) for row in checked.rows()], "spends": spends}, as_json, tables)
