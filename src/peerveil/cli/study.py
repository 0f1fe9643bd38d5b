"""``peerveil new``, ``run``, ``schema`` and ``demo``: write a study file, run it, or run one about a synthetic conference."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

import click

from peerveil import study as study_package  # imports its parts on first use
from peerveil.cli.base import PATH, Command, argument, data_seed_option, emit, out_option, print_table
from peerveil.core.errors import PeerveilError
from peerveil.core.files import check_out

SIMULATED: Final = "SIMULATION: must not be published"


@click.command("new", cls=Command, examples=["peerveil new data > study.toml"])
@argument("data", type=PATH, metavar="DATA", help="A folder with data files, or one file.")
def new(data: Path, as_json: bool) -> None:
    """Look at your data and print a commented study file to start from."""
    text = study_package.new_study(data)
    emit({"study": text}, as_json, text.rstrip("\n"))


@click.command(
    "run", cls=Command, examples=["peerveil run study.toml", "peerveil run study.toml --yes --out out/study"]
)
@argument("study", type=PATH, metavar="STUDY", help="A study file, for example from `peerveil new`.")
@click.option("--yes", "-y", is_flag=True, help="Spend without asking.")
@click.option("--check", is_flag=True, help="Only show what would be spent and published.")
@out_option(show_default="out/<name of the study>")
def run(study: Path, yes: bool, check: bool, out: Path | None, as_json: bool) -> None:
    """Check a study, ask before spending, run it, and write its results and a report.

    Run again with the same output folder, it continues: steps that are finished are not repeated.
    """
    plan = study_package.Study.read(study)
    if check:
        _show(study_package.check_study(plan), as_json)
        return
    if out is not None:
        check_out(out, force=True)  # run_study itself says which folders it continues

    def confirm(checked: study_package.Checked) -> bool:
        if not as_json:
            _show(checked, as_json)
        if yes:
            return True
        if not sys.stdin.isatty():
            raise PeerveilError(
                "nobody can be asked here (there is no terminal), so nothing was spent; add --yes to spend without being asked"
            )
        return click.confirm(f"Spend {_altogether(checked)}?")

    done = study_package.run_study(plan, out, confirm=confirm)
    simulated = done.folder / "simulated" if done.public is None else None
    warning = f"{SIMULATED} (the study has a seed): nothing here is private, nothing was spent"
    lines = [
        *([warning] if simulated else []),
        *(f"{name}: {outcome.answer}" for name, outcome in done.outcomes.items()),
        f"written, for you alone: {done.report}",
        f"{SIMULATED}: {simulated}" if simulated else f"may be published: {done.public}",
        *([f"finished earlier, not repeated: {', '.join(done.repeated)}"] if done.repeated else []),
    ]
    data = {
        "report": done.report,
        "public": done.public,
        "simulated": simulated,
        "private": done.folder / "private",
        "finished_earlier": done.repeated,
    }
    emit(data, as_json, "\n".join(lines))


@click.command("schema", cls=Command, examples=["peerveil schema > study.schema.json"])
def schema() -> None:
    """Print a JSON schema of study files, for editors. Every action and setting is in it."""
    from peerveil.study.schema import study_schema

    emit(study_schema(), True, "")


def _show(checked: study_package.Checked, as_json: bool) -> None:
    """What would be spent and published."""
    from peerveil.core.exact import printed

    spends = {name: printed(amount, "up") for name, amount in checked.spends.items()}

    def tables() -> None:
        print_table(("step", "what it does", "spends", "publishes"), checked.rows(), title=checked.study.title)
        simulated = f" ({SIMULATED})" if checked.simulated else ""
        for note in checked.notes:
            click.echo(f"note: {note}")
        click.echo(f"altogether: {_altogether(checked)}{simulated}")

    keys = ("step", "does", "spends", "publishes")
    data = {
        "steps": [dict(zip(keys, row, strict=True)) for row in checked.rows()],
        "spends": spends,
        "remaining": {name: printed(checked.remaining[name], "down") for name in spends},
        "simulated": checked.simulated,
        "notes": checked.notes,
    }
    emit(data, as_json, tables)


def _altogether(checked: study_package.Checked) -> str:
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


@click.command("demo", cls=Command, examples=["peerveil demo --out out/demo"])
@click.option("--papers", type=int, default=600, help="Number of papers of the synthetic conference.")
@click.option("--reviewers", type=int, default=1800, help="Number of reviewers of the synthetic conference.")
@data_seed_option(default=2026)
@out_option(default="out/demo")
def demo(papers: int, reviewers: int, seed: int, out: Path, as_json: bool) -> None:
    """Analyze a synthetic conference from start to finish and write a report.

    The output folder must be new, empty, or from an earlier demo, which is then replaced.
    """
    from peerveil.study.demo import run_demo

    check_out(out, force=True)  # run_demo itself refuses a folder that holds anything but an earlier demo

    def say(number: int, total: int, text: str) -> None:
        click.echo(f"[{number + 1}/{total + 1}] {text[0].upper()}{text[1:].rstrip('.')}")

    if not as_json:
        click.echo(f"A conference of {papers:,} papers goes through every module; this takes about a minute.")
    done = run_demo(out, papers=papers, reviewers=reviewers, seed=seed, on_step=None if as_json else say)
    name, home = own_name(), done.study.parent
    lines = (
        "",
        f"open:       {done.report} (the findings, for you alone)",
        f"publish:    {done.result / 'public'} (report, tables and figures without private parts)",
        f"spent:      {done.spent}; see {name} ledger show {shlex.quote(str(home / 'peerveil-ledger.db'))}",
        f"refused:    a second run: {done.refusal}",
        f"your data:  {name} new {shlex.quote(str(home / 'data'))} > study.toml && {name} run study.toml",
    )
    paths = {name: str(getattr(done, name)) for name in ("report", "study", "result", "spent")}
    emit({**paths, "refused": done.refusal}, as_json, "\n".join(lines))


def own_name() -> str:
    """How this program can be called from here: by its name where that finds it, else by its path."""
    beside = Path(sys.executable).with_name("peerveil")
    known = shutil.which("peerveil")
    if not beside.exists() or (known is not None and Path(known).resolve() == beside.resolve()):
        return "peerveil"
    path = beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside
    return shlex.quote(str(path))
