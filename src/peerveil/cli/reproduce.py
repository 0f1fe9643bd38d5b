"""``peerveil reproduce``: figures and tables of the papers."""

from __future__ import annotations

import json
import time
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import click

from peerveil.cli.base import Command, argument, emit, force_option, out_option, print_table
from peerveil.core.errors import Verbatim
from peerveil.core.files import check_out, write_text
from peerveil.study.spelling import require

if TYPE_CHECKING:
    from peerveil.papers.reproduce import Reproduction


@click.command(
    "reproduce",
    cls=Command,
    examples=[
        "peerveil reproduce --list",
        "peerveil reproduce release/figure-2a",
        "peerveil reproduce release",
        "peerveil reproduce all",
    ],
)
@argument("what", default="all", help="A module, module/figure, or 'all'.")
@click.option("--list", "list_", is_flag=True, help="Only list what can be reproduced.")
@click.option("--quick", is_flag=True, help="Use few trials, for a first look.")
@out_option(default="out/reproduce")
@force_option
def reproduce(what: str, list_: bool, quick: bool, out: Path, force: bool, as_json: bool) -> None:
    """Reproduce the figures and tables of the papers, next to our own methods.

    All of them take about half an hour on two cores. Each result is written as soon as it is ready; several of them are also
    shown side by side on one page. Results can be added to an earlier folder.
    """
    from peerveil.papers import reproduce as papers
    from peerveil.papers.reproduce import experiments
    from peerveil.papers.reproduce.page import COLUMNS, SUMMARY_COLUMNS, summary_rows, write_page
    from peerveil.report import figure_style

    known = experiments()
    prefix = "" if what == "all" else what.rstrip("/")
    chosen = [name for name in known if not prefix or name == prefix or name.startswith(f"{prefix}/")]
    require(chosen, "what", got=what, want=f"'all', a module or one of {', '.join(known)}")
    if list_:
        index = json.loads((files(papers) / "data" / "index.json").read_text(encoding="utf-8"))
        rows = [(name, *index.get(name, ("", None))) for name in chosen]
        shown = [(name, title, "" if seconds is None else f"{seconds:g} s") for name, title, seconds in rows]
        listed = [dict(zip(("name", "title", "seconds"), row, strict=True)) for row in rows]
        emit(listed, as_json, lambda: print_table(("name", "shows", "took"), shown))
        return
    check_out(out, force=True)
    names = [*(f"{name}.json" for name in chosen), *(["index.html"] if len(chosen) > 1 else [])]
    existing = next((name for name in names if (out / name).exists()), None)
    got = Verbatim(f"a folder that holds {existing} ({out})")
    require(existing is None or force, "--out", got=got, want="another folder, or --force to replace results in it")
    results, written = [], []
    for name in chosen:
        began = time.perf_counter()
        with figure_style():
            result = known[name](quick, None)
        results.append((result, time.perf_counter() - began))
        written.append(_write(result, out, results[-1][1], quick))
        if not as_json:
            rows = [(row.what, row.paper, row.ours, row.text) for row in result.rows]
            print_table(COLUMNS, rows, title=f"{result.name}: {result.title}")
            click.echo(result.note + (f"\nfigure: {written[-1]['figure']}\n" if written[-1]["figure"] else "\n"))
    page = write_page(results, quick=quick).write(out / "index.html") if len(results) > 1 else None
    if as_json:
        emit(written, as_json, "")
    elif page is not None:
        print_table(SUMMARY_COLUMNS, summary_rows(results), title="agreement, row by row")
        click.echo(f"side by side: {page}")


def _write(result: Reproduction, out: Path, seconds: float, quick: bool) -> dict[str, object]:
    """Write the figure and the rows, and return the rows with the figure's place."""
    from peerveil.papers.reproduce.page import figure_of

    picture = figure_of(result)
    figure = None if picture is None else str(write_text(out / f"{result.name}.svg", picture.alone()))
    data = {**result.to_dict(), "figure": figure, "seconds": round(seconds, 1), "quick": quick}
    write_text(out / f"{result.name}.json", json.dumps(data, indent=2, ensure_ascii=False) + "\n")
    return data
