"""``peerveil new`` and ``peerveil run``: write a study file, and run it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from peerveil.cli.base import (
    PATH,
    Command,
    argument,
    debug_option,
    emit,
    json_option,
    out_option,
    print_table,
)
from peerveil.core.errors import PeerveilError
from peerveil.core.files import check_out

if TYPE_CHECKING:
    from pathlib import Path

    from peerveil.study import Checked

SIMULATED: Final = "SIMULATION: must not be published"


@click.command("new", cls=Command, examples=["peerveil new data > study.toml"])
@argument("data", type=PATH, metavar="DATA", help="A folder with data files, or one file.")
@json_option
@debug_option
def new(data: Path, as_json: bool) -> None:
    """Look at your data and print a commented study file to start from."""
    from peerveil.study import new_study

    text = new_study(data)
    emit({"study": text}, as_json, text.rstrip("\n"))


@click.command(
    "run", cls=Command, examples=["peerveil run study.toml", "peerveil run study.toml --yes --out out/study"]
)
@argument("study", type=PATH, metavar="STUDY", help="A study file, for example from `peerveil new`.")
@click.option("--yes", "-y", is_flag=True, help="Spend without asking.")
@click.option("--check", is_flag=True, help="Only show what would be spent and published.")
@out_option(show_default="out/<name of the study>")
@json_option
@debug_option
def run(study: Path, yes: bool, check: bool, out: Path | None, as_json: bool) -> None:
    """Check a study, ask before spending, run it, and write its results and a report.

    Run again with the same output folder, it continues: steps that are finished are not repeated.
    """
    from peerveil.study import Study, check_study, run_study

    plan = Study.read(study)
    if check:
        _show(check_study(plan), as_json)
        return
    if out is not None:
        check_out(out, force=True)  # run_study itself says which folders it continues

    def confirm(checked: Checked) -> bool:
        if not as_json:
            _show(checked, as_json)
        if yes:
            return True
        if not sys.stdin.isatty():
            raise PeerveilError(
                "nobody can be asked here (there is no terminal), so nothing was spent; add --yes to spend without being asked"
            )
        return click.confirm(f"Spend {_altogether(checked)}?")

    done = run_study(plan, out, confirm=confirm)
    lines = [f"{name}: {outcome.answer}" for name, outcome in done.outcomes.items()]
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


@click.command("schema", cls=Command, examples=["peerveil schema > study.schema.json"])
@debug_option
def schema() -> None:
    """Print a JSON schema of study files, for editors. Every action and setting is in it."""
    from peerveil.study.schema import study_schema

    emit(study_schema(), True, "")


def _show(checked: Checked, as_json: bool) -> None:
    """What would be spent and published."""
    from peerveil.core.exact import printed

    spends = {name: printed(amount, "up") for name, amount in checked.spends.items()}

    def tables() -> None:
        print_table(("step", "what it does", "spends", "publishes"), checked.rows(), title=checked.study.title)
        simulated = f" ({SIMULATED})" if checked.simulated else ""
        click.echo(f"altogether: {_altogether(checked)}{simulated}")

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
    from peerveil.core.exact import printed

    parts = []
    for name, amount in checked.due.items():
        left, budget = checked.remaining[name], checked.study.accounts[name]
        part = f"epsilon {printed(amount, 'up'):g} of the remaining {printed(left, 'down'):g} from {name}"
        if left != budget:
            part += f" (whole budget {printed(budget, 'down'):g}, {printed(budget - left, 'up'):g} spent before)"
        parts.append(part)
    return ", ".join(parts) or "nothing"
