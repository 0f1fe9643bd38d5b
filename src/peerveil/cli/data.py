"""``peerveil data``: what a file is, whether it can be used, and synthetic data to try things on."""

from __future__ import annotations

import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from peerveil.cli.base import BAD_INPUT, AsJson, Column, Debug, Force, columns_named, emit, example, new_group
from peerveil.errors import BadInput, Verbatim

app = new_group("data", "Your files: what they are, whether they can be used; and synthetic ones to try things on.")

File = Annotated[Path, typer.Argument(help="CSV, Parquet, JSON lines, or an export of a platform.")]


class Kind(StrEnum):
    """The tables that peerveil reads."""

    reviews = "reviews"
    events = "events"
    rankings = "rankings"
    labels = "labels"


@app.command("recognise", epilog=example("peerveil data recognise export.json"))
def recognise_file(
    file: File,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Say what a file is and which tables can be read from it."""
    from peerveil.judgements import recognise

    found = recognise(file)
    data = {"format": found.format, "kinds": [kind.lower() for kind in found.kinds], "why": found.why}
    kinds = ", ".join(data["kinds"]) or "no table by itself; map its columns with `peerveil data check --column`"
    emit(data, as_json, f"{file}: {found.format} ({found.why})\ncan be read as: {kinds}")


@app.command(
    "check",
    epilog=example(
        "peerveil data check reviews.csv",
        "peerveil data check scores.csv --kind reviews --column paper=submission --column score=rating",
    ),
)
def check(
    file: File,
    kind: Annotated[Kind | None, typer.Option(help="What to read it as.", show_default="recognised")] = None,
    format_: Annotated[
        str | None, typer.Option("--format", help="The file's format.", show_default="recognised")
    ] = None,
    column: Column = None,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Read a file as peerveil would, and show what was found, or every problem with its row and column."""
    from peerveil import judgements

    columns, advice = columns_named(column), ""
    if kind is None:
        kinds, advice = _kinds(file)
    else:
        kinds = [kind.value]
    tables, problems = {}, {}
    for name in kinds:
        table: Any = getattr(judgements, name.capitalize())
        try:
            tables[name] = table.read(file, format=format_, columns=columns)
        except judgements.BadTable as error:
            problems[name] = error
    data = {
        "tables": {
            name: {
                "rows": len(table),
                "summary": str(table),
                "fingerprint": table.fingerprint,
                "notes": list(table.notes),
            }
            for name, table in tables.items()
        },
        "problems": {
            name: [{"where": p.where, "row": p.row, "column": p.column, "message": str(p)} for p in error.problems]
            for name, error in problems.items()
        },
    }
    lines = [f"{name}: {table}" for name, table in tables.items()]
    lines += [f"  note: {note}" for table in tables.values() for note in table.notes]
    lines += [f"{name}: cannot be read\n{error}" for name, error in problems.items()]
    if advice and not tables:
        lines.append(advice)
    emit(data, as_json, "\n".join(lines))
    if not tables:
        raise typer.Exit(BAD_INPUT)


@app.command("synthetic", epilog=example("peerveil data synthetic out/conference --papers 600 --reviewers 1800"))
def synthetic(
    folder: Annotated[Path, typer.Argument(help="Where to write reviews, events, rankings, labels and the truth.")],
    papers: Annotated[int, typer.Option(help="How many papers.")] = 200,
    reviewers: Annotated[int, typer.Option(help="How many reviewers.")] = 150,
    reviews_per_paper: Annotated[int, typer.Option(help="Reviews of each paper.")] = 3,
    seed: Annotated[int, typer.Option(help="The same seed gives the same conference.")] = 0,
    people_seed: Annotated[
        int | None, typer.Option(help="Conferences with the same one have the same reviewers, equally strict.")
    ] = None,
    format_: Annotated[str, typer.Option("--format", help="csv, tsv, jsonl or parquet.")] = "csv",
    force: Force = False,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Invent a conference: all four tables, consistent with one another, with the truth behind them."""
    if not force and folder.is_dir() and any(folder.iterdir()):
        want = "a new or empty folder, or --force to replace files of the same names"
        raise BadInput("folder", got=Verbatim(f"a folder with files in it ({folder})"), want=want)
    from peerveil.judgements import synthetic_conference

    conference = synthetic_conference(papers, reviewers, reviews_per_paper, seed=seed, people_seed=people_seed)
    written = conference.write(folder, format=format_)
    emit({"folder": str(written), "summary": str(conference)}, as_json, f"{conference}\nwritten: {written}")


def _kinds(file: Path) -> tuple[list[str], str]:
    """What to read a file as; where its columns fit nothing, only the nearest kind, and the command that may work."""
    from peerveil.judgements.problems import column_options
    from peerveil.judgements.readers.recognise import EVERY, nearest, recognise

    found = recognise(file)
    if not found.kinds:
        raise BadInput("--kind", got=None, want=f"reviews, events, rankings or labels: {file} could be any of them")
    if found.kinds != EVERY:
        return [name.lower() for name in found.kinds], ""
    guess = nearest(file)
    if guess is None:
        return [name.lower() for name in EVERY], ""
    kind, columns = guess
    options = column_options({ours: theirs for ours, theirs in columns.items() if ours != theirs})
    command = f"peerveil data check {shlex.quote(str(file))} --kind {kind.lower()} {options}"
    return [kind.lower()], f"if these are {kind.lower()}, try:\n  {command}"
