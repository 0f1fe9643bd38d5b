"""``peerveil demo``: a synthetic conference, analyzed from start to finish."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import click

from peerveil.cli.base import Command, data_seed_option, debug_option, emit, json_option, out_option
from peerveil.core.files import check_out


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


@click.command("demo", cls=Command, examples=["peerveil demo --out out/demo"])
@click.option("--papers", type=int, default=600, help="Number of papers of the synthetic conference.")
@click.option("--reviewers", type=int, default=1800, help="Number of reviewers of the synthetic conference.")
@data_seed_option(2026)
@out_option("out/demo")
@json_option
@debug_option
def demo(papers: int, reviewers: int, seed: int, out: Path, as_json: bool) -> None:
    """Analyze a synthetic conference from start to finish and write a report.

    The output folder must be new, empty, or from an earlier demo, which is then replaced.
    """
    from peerveil.study.demo import run_demo

    check_out(out, force=True)  # run_demo itself refuses a folder that holds anything but an earlier demo
    if not as_json:
        click.echo("A synthetic conference goes through every module; this takes about a minute.")
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
