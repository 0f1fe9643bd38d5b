"""``peerveil data``: what a file is, whether it can be used, and synthetic data to try things on."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

import peerveil
from peerveil.cli.actions import add_actions, text_options, text_settings
from peerveil.cli.base import (
    BAD_INPUT,
    PATH,
    CommandGroup,
    argument,
    column_option,
    data_seed_option,
    emit,
    force_option,
    format_option,
    kind_option,
    stop_with,
    time_zone_option,
)
from peerveil.core.files import check_out
from peerveil.study.actions import KINDS
from peerveil.study.data import usable_by
from peerveil.study.execute import StudyFile

_file_argument = argument("file", type=PATH, help="CSV, Parquet, JSON lines, or a platform's export.")


@click.group(cls=CommandGroup)
def data() -> None:
    """Check data files, and make synthetic ones."""


add_actions(data, "data")


@data.command("recognize", examples=["peerveil data recognize export.json"])
@_file_argument
def recognize(file: Path, as_json: bool) -> None:
    """Show the format of a file and the tables that can be read from it."""
    recognized = peerveil.data.recognize(file)
    names = [kind.lower() for kind in recognized.kinds]
    result = {"format": recognized.format, "kinds": names, "why": recognized.why}
    kinds = ", ".join(names) or "no table by itself; map its columns with `peerveil data check --column`"
    emit(result, as_json, f"{file}: {recognized.format} ({recognized.why})\ncan be read as: {kinds}")


@data.command(
    "check",
    examples=[
        "peerveil data check reviews.csv",
        "peerveil data check scores.csv --kind reviews --column paper=submission --column score=rating",
    ],
)
@_file_argument
@kind_option(type=click.Choice(KINDS))
@format_option
@text_options
@column_option
@time_zone_option
def check(file: Path, kind: str | None, format_: str | None, as_json: bool, **reading: Any) -> None:
    """Read a file as peerveil would, and show what it holds, or every problem with its row and column."""
    text = text_settings(reading)
    options = {name: reading[name] for name in ("columns", "time_zone")}
    kinds, advice = _kinds(file, **text) if kind is None else ([kind], "")
    source, tables, problems = StudyFile(path=file, format=format_, **options, **text), {}, {}
    for name in kinds:
        try:
            tables[name] = source.read(name)
        except peerveil.data.BadTable as error:
            problems[name] = error
    facts: dict[str, dict[str, Any]] = {
        name: {
            "rows": len(table),
            "summary": table.headline,
            "usable_by": usable_by(table),
            "fingerprint": table.fingerprint,
            "notes": list(table.notes),
        }
        for name, table in tables.items()
    }
    refused = {
        name: [{"where": p.where, "row": p.row, "column": p.column, "message": str(p)} for p in error.problems]
        for name, error in problems.items()
    }
    lines = []
    for name, fact in facts.items():
        lines += [
            f"{name}: {fact['summary']}",
            f"  {fact['usable_by']}",
            *(f"  note: {note}" for note in fact["notes"]),
        ]
    lines += [f"{name}: cannot be read\n{error}" for name, error in problems.items()]
    if advice and not tables:
        lines.append(advice)
    emit({"tables": facts, "problems": refused}, as_json, "\n".join(lines))
    if not tables:
        stop_with(BAD_INPUT)


@data.command("synthetic", examples=["peerveil data synthetic out/conference --papers 600 --reviewers 1800"])
@argument("folder", type=PATH, help="Folder to write reviews, events, rankings, labels and the true values to.")
@click.option("--papers", type=int, default=200, help="Number of papers.")
@click.option("--reviewers", type=int, default=150, help="Number of reviewers.")
@click.option("--reviews-per-paper", type=int, default=3, help="Number of reviews of each paper.")
@data_seed_option(default=0)
@click.option(
    "--people-seed",
    type=int,
    help="Seed of the reviewers. Conferences with the same one have the same reviewers, equally strict.",
)
@click.option(
    "--format", "format_", type=click.Choice(["csv", "tsv", "jsonl", "parquet"]), default="csv", help="File format."
)
@force_option
def synthetic(folder: Path, format_: str, force: bool, as_json: bool, **settings: Any) -> None:
    """Make a synthetic conference: all four tables, consistent with one another, and the true values behind them."""
    check_out(folder, force, name="FOLDER")
    conference = peerveil.data.synthetic_conference(**settings)
    written = conference.write(folder, format=format_)
    emit({"folder": str(written), "summary": str(conference)}, as_json, f"{conference}\nwritten: {written}")


def _kinds(file: Path, **text: Any) -> tuple[list[str], str]:
    """What to read a file as; where its columns fit nothing, only the nearest kind, and the command that may work."""
    from peerveil.data.problems import column_options
    from peerveil.data.readers.recognize import EVERY, nearest, recognize

    kinds = recognize(file, **text).kinds
    guess = nearest(file) if kinds == EVERY and text.get("header", True) else None
    if guess is None:
        return [name.lower() for name in kinds], ""
    kind, columns = guess
    options = column_options({ours: theirs for ours, theirs in columns.items() if ours != theirs})
    command = f"peerveil data check {shlex.quote(str(file))} --kind {kind.lower()} {options}"
    return [kind.lower()], f"if these are {kind.lower()}, try:\n  {command}"
