"""``peerveil collect``: campaigns whose answers are randomized before they leave people's devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from peerveil.cli.base import (
    PATH,
    CommandGroup,
    argument,
    check_file,
    debug_option,
    emit,
    force_option,
    json_option,
    print_table,
    stop_with,
)
from peerveil.core.errors import BadInput, Verbatim

VARIABLE = "PEERVEIL_COLLECT_DB"
_db_option = click.option(
    "--db",
    envvar=VARIABLE,
    show_envvar=True,
    default="peerveil-collect.db",
    help="Database: a SQLite file, or postgresql://user@host/database.",
)
_campaign_option = click.option("--campaign", required=True, help="Id of the campaign.")

LABELS_EXAMPLE = """\
# A campaign of labels: people answer tasks, each answer randomized on their device.
id = "birds-2026"
title = "Birds of the lake"
question = "Is there a bird in the picture?"
kind = "labels"
classes = ["no", "yes"]
tasks = [{ id = "1", text = "Picture 1" }, { id = "2", text = "Picture 2" }, { id = "3", text = "Picture 3" }]
epsilon = 1        # of one answer; unit = "person" makes it that of everything one person sends
unit = "answer"
answers = 3        # how many answers one person may give
accuracy = 0.9     # the share of right labels that is aimed at
# closes = 2026-12-01T00:00:00Z
"""
RANKINGS_EXAMPLE = """\
# A campaign about rankings: people answer one of a few shared comparisons, by one randomized bit.
id = "drinks-2026"
title = "What do you drink first?"
question = "Think of your own ranking of these drinks."
kind = "rankings"
items = ["tea", "coffee", "milk", "juice", "water", "lemonade"]
method = "pairs"
questions = 3
seed = 7
epsilon = 1
answers = 1
"""


@click.group(cls=CommandGroup)
def collect() -> None:
    """Collect answers that are randomized before they leave people's devices."""


@collect.command("init", examples=["peerveil collect init --db collect.db"])
@_db_option
@json_option
@debug_option
def init(db: str, as_json: bool) -> None:
    """Create the tables of a new database, or update those of an existing one."""
    from peerveil.web.collect import Store

    with Store(db, create=True) as store:
        shown = store.database.shown
    emit(
        {"database": shown},
        as_json,
        f"ready: {shown}\nnext: peerveil collect campaign --example labels > campaign.toml",
    )


@collect.command(
    "campaign",
    examples=[
        "peerveil collect campaign --example labels > campaign.toml",
        "peerveil collect campaign campaign.toml --db collect.db",
        "peerveil collect campaign --db collect.db",
        "peerveil collect campaign --close birds-2026 --db collect.db",
    ],
)
@argument("file", type=PATH, required=False, help="Campaign file to add. Without one, all campaigns are listed.")
@click.option("--close", metavar="CAMPAIGN", help="Close this campaign now. It cannot be opened again.")
@click.option("--example", type=click.Choice(["labels", "rankings"]), help="Print a campaign file to start from.")
@_db_option
@json_option
@debug_option
def campaign(file: Path | None, close: str | None, example: str | None, db: str, as_json: bool) -> None:
    """Add a campaign, close one, or list all of them with the number of participants."""
    if example is not None:
        click.echo(LABELS_EXAMPLE if example == "labels" else RANKINGS_EXAMPLE, nl=False)
        return
    from peerveil.web.collect import Campaign, Store

    if file is not None:
        read = Campaign.read(file)
        with Store(db) as store:
            store.add(read)
        text = f"{read.id}: {read.response}\n{read.guarantee}\nFor a whole person: {read.person_guarantee}"
        emit({"campaign": read.id, "guarantee": str(read.guarantee)}, as_json, text)
        return
    with Store(db) as store:
        if close is not None:
            store.end(store.known(close), now=True)
            emit(
                {"closed": close}, as_json, f"{close} is closed; infer with: peerveil collect infer --campaign {close}"
            )
            return
        rows = store.listed()
    columns = ("campaign", "kind", "state", "invitations", "people", "reports")
    emit(rows, as_json, lambda: print_table(columns, [[row[name] for name in columns] for row in rows]))


@collect.command(
    "token",
    examples=[
        "peerveil collect token --campaign birds-2026 --count 60 --links https://collect.example.org > invitations.txt",
        "peerveil collect token --campaign birds-2026 --role operator",
    ],
)
@_campaign_option
@click.option("--count", type=int, default=1, help="Number of invitations.")
@click.option("--role", type=click.Choice(["person", "operator"]), default="person", help="What the token allows.")
@click.option("--links", metavar="URL", help="Print invitation links to this site instead of tokens.")
@_db_option
@json_option
@debug_option
def token(campaign: str, count: int, role: str, links: str | None, db: str, as_json: bool) -> None:
    """Create invitations, or an operator's token. They are shown once; the database keeps only their hashes."""
    from peerveil.web.collect import Store
    from peerveil.web.collect.store import invitation_links

    if links is not None:
        invitation_links(links, campaign, [])  # before anything is made
    with Store(db) as store:
        made = store.invite(store.known(campaign), count) if role == "person" else [store.appoint(campaign)]
    if links is not None and role == "person":
        made = invitation_links(links, campaign, made)
    emit({"campaign": campaign, "role": role, "tokens": made}, as_json, "\n".join(made))


@collect.command(
    "export",
    examples=[
        "peerveil collect export --campaign birds-2026 --to reports.parquet",
        "peerveil truth infer reports.parquet --randomized --epsilon 1 --classes no,yes",
    ],
)
@_campaign_option
@click.option(
    "--to",
    type=PATH,
    metavar="FILE",
    default=Path("reports.parquet"),
    help="File to write, ending in .csv, .parquet or .jsonl.",
)
@force_option
@_db_option
@json_option
@debug_option
def export(campaign: str, to: Path, force: bool, db: str, as_json: bool) -> None:
    """Write all reports of a campaign, for `peerveil truth infer` or `peerveil rankings aggregate`."""
    from peerveil.core.progress import progress_bar
    from peerveil.web.collect import Store
    from peerveil.web.collect.answers import count_answers
    from peerveil.web.collect.answers import export as write

    check_file(to, force)
    with Store(db) as store:
        known = store.known(campaign)
        total = count_answers(store, known)
        with progress_bar("exporting", total=total) as advance:
            path = write(store, known, to, advance=advance)
        each = known.campaign.each
    classes = ",".join(known.campaign.classes)
    if known.campaign.kind == "rankings":
        then = f"peerveil rankings aggregate {path}"
    elif path.suffix == ".jsonl":
        then = f"peerveil truth infer {path}"
    else:
        then = f"peerveil truth infer {path} --randomized --epsilon {each} --classes {classes}"
    text = f"{total:,} reports\nwritten: {path}\nnext: {then}"
    emit({"reports": total, "written": str(path), "next": then}, as_json, text)


@collect.command(
    "infer",
    examples=[
        "peerveil collect infer --campaign birds-2026 --so-far",
        "peerveil collect infer --campaign birds-2026 --model one-coin",
    ],
)
@_campaign_option
@click.option("--so-far", is_flag=True, help="Print an estimate for the operator while the campaign is open.")
@click.option(
    "--model",
    type=click.Choice(["auto", "one-coin", "two-coin", "confusion"]),
    default="auto",
    help="For labels: the model of people's errors.",
)
@click.option(
    "--engine",
    type=click.Choice(["auto", "memory", "duckdb", "spark"]),
    default="auto",
    help="For labels: where the computation runs.",
)
@click.option("--level", type=float, default=0.05, help="For rankings: significance level of the test.")
@_db_option
@json_option
@debug_option
def infer(campaign: str, so_far: bool, model: str, engine: str, level: float, db: str, as_json: bool) -> None:
    """Infer the result of a closed campaign from its reports, and store it. This may be repeated."""
    from peerveil.core.progress import progress_bar
    from peerveil.web.collect import Store
    from peerveil.web.collect.answers import count_answers
    from peerveil.web.collect.inference import infer as run

    with Store(db) as store:
        known = store.known(campaign)
        with progress_bar("reading reports", total=count_answers(store, known)) as advance:
            result = run(store, known, so_far=so_far, model=model, engine=engine, level=level, advance=advance)
    emit({"campaign": campaign, **result}, as_json, _told(result))


def _told(result: dict[str, Any]) -> str:
    if result["kind"] == "rankings":
        return f"{result['finding']}\n{result['guarantee']}"
    lines = [
        f"{result['tasks_with_reports']:,} of {result['tasks']:,} tasks labeled from {result['reports']:,} reports of "
        f"{result['people']:,} people ({result['model']})",
        f"mean confidence of the labels: {result['mean_confidence']:.3f}. {result['about_confidence']}",
    ]
    if "needed" in result:
        lines.append(result["needed"]["advice"])
    return "\n".join([*lines, result["guarantee"]])


@collect.command(
    "serve",
    examples=[
        "peerveil collect serve --db collect.db --port 8080",
        "peerveil collect serve --db postgresql://collect@db/collect --processes 2",
    ],
)
@_db_option
@click.option("--host", default="127.0.0.1", help="Address to listen on. Put a TLS proxy in front.")
@click.option("--port", type=int, default=8080, help="Port to listen on; 0 for any free port.")
@click.option(
    "--processes",
    type=click.IntRange(1, 64),
    default=1,
    help="Number of server processes; more than one needs PostgreSQL.",
)
@debug_option
def serve(db: str, host: str, port: int, processes: int) -> None:
    """Serve campaigns until stopped: pages for participants and operators, the API, and inference at closing time."""
    import os

    from peerveil.web.collect import Store
    from peerveil.web.collect.service import Inferrer

    try:
        from peerveil.web.collect.service import build_app
    except ImportError as error:
        want = "the services' parts: pip install 'peerveil[services]'"
        raise BadInput("peerveil collect serve", got=Verbatim(f"no {error.name}"), want=want) from None
    from peerveil.web.common import Journal
    from peerveil.web.common.serving import run_processes, this_command
    from peerveil.web.common.serving import serve as run

    journal = Journal("collect")
    os.environ[VARIABLE] = db  # not among the arguments of child processes: it may hold a password
    if processes > 1:
        if "://" not in db or port == 0:
            raise BadInput("--processes", got=processes, want="1 with a SQLite file, or with port 0")
        command = [*this_command(), "collect", "serve", "--host", host, "--port", str(port)]
        stop_with(run_processes([command] * processes, journal))

    def ready(bound: int) -> None:
        shown = f"[{host}]" if ":" in host else host
        click.echo(f"Campaigns are at http://{shown}:{bound} (Ctrl+C stops it); invitations are links to them.")

    with Store(db) as store:
        run(build_app(store, journal, after_close=Inferrer()), host, port, journal, ready=ready)
