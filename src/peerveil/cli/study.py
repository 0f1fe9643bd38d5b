"""``peerveil new`` and ``peerveil run``: a study file, and the whole of it carried out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from peerveil.cli.base import AsJson, Debug, emit, example, print_table
from peerveil.errors import PeerveilError

if TYPE_CHECKING:
    from peerveil.study import Checked

SIMULATED: Final = "SIMULATION: must not be published"


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
                raise PeerveilError(
                    "nobody can be asked here (there is no terminal), so nothing was spent; add --yes to spend without "
                    "being asked"
                )
            return typer.confirm(f"Spend {_altogether(checked)}?")

        done = run_study(plan, out, confirm=confirm)
        lines = [f"{name}: {outcome.answer or outcome.private_answer}" for name, outcome in done.outcomes.items()]
        lines.append(f"written, for you alone: {done.report}")
        if done.public is None:
            lines.insert(0, f"{SIMULATED} (the study has a seed): nothing here is private, nothing was spent")
            lines.append(f"{SIMULATED}: {done.folder / 'simulated'}")
        else:
            lines.append(f"may be published: {done.public}")
        if done.repeated:
            lines.append(f"finished earlier, not repeated: {', '.join(done.repeated)}")
        data = {
            "report": str(done.report),
            "public": None if done.public is None else str(done.public),
            "simulated": str(done.folder / "simulated") if done.public is None else None,
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
        simulated = f" ({SIMULATED})" if checked.simulated else ""
        typer.echo(f"altogether: {_altogether(checked)}{simulated}")

    keys = ("step", "does", "spends", "publishes")
    data = {
        "steps": [dict(zip(keys, row, strict=True)) for row in checked.rows()],
        "spends": spends,
        "remaining": {name: printed(checked.remaining[name], "down") for name in spends},
        "simulated": checked.simulated,
    }
    emit(data, as_json, tables)


def _altogether(checked: Checked) -> str:
    """What would be spent, of what is left."""
    from peerveil.numerics.exact import printed

    parts = []
    for name, amount in checked.due.items():
        left, budget = checked.remaining[name], checked.study.accounts[name]
        part = f"epsilon {printed(amount, 'up'):g} of the remaining {printed(left, 'down'):g} from {name}"
        if left != budget:
            part += f" (whole budget {printed(budget, 'down'):g}, {printed(budget - left, 'up'):g} spent before)"
        parts.append(part)
    return ", ".join(parts) or "nothing"
