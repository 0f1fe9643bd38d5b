"""``peerveil collect``: campaigns whose answers are randomized before they leave people's devices."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from peerveil.cli.base import PATH, CommandGroup, argument, check_file, emit, force_option, print_table, stop_with
from peerveil.study.spelling import require

if TYPE_CHECKING:
    from peerveil.web.collect import Store

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


def _opened(db: str, *, create: bool = False) -> Store:
    from peerveil.web.collect import Store

    return Store(db, create=create)


@contextmanager
def _counting(db: str, campaign: str, doing: str) -> Iterator[tuple[Store, Any, int, Callable[[int], None]]]:
    """A campaign in its store, the number of its reports, and what advances a bar over them."""
    from peerveil.core.progress import progress_bar
    from peerveil.web.collect.answers import count_answers

    with _opened(db) as store:
        known = store.known(campaign)
        total = count_answers(store, known)
        with progress_bar(doing, total=total) as advance:
            yield store, known, total, advance


@collect.command("init", examples=["peerveil collect init --db collect.db"])
@_db_option
def init(db: str, as_json: bool) -> None:
    """Create the tables of a new database, or update those of an existing one."""
    with _opened(db, create=True) as store:
        shown = store.database.shown
    text = f"ready: {shown}\nnext: peerveil collect campaign --example labels > campaign.toml"
    emit({"database": shown}, as_json, text)


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
def campaign(file: Path | None, close: str | None, example: str | None, db: str, as_json: bool) -> None:
    """Add a campaign, close one, or list all of them with the number of participants."""
    if example is not None:
        click.echo(LABELS_EXAMPLE if example == "labels" else RANKINGS_EXAMPLE, nl=False)
        return
    from peerveil.web.collect import Campaign

    read = None if file is None else Campaign.read(file)
    with _opened(db) as store:
        if read is not None:
            store.add(read)
            text = f"{read.id}: {read.response}\n{read.guarantee}\nFor a whole person: {read.person_guarantee}"
            emit({"campaign": read.id, "guarantee": str(read.guarantee)}, as_json, text)
        elif close is not None:
            store.end(store.known(close), now=True)
            text = f"{close} is closed; infer with: peerveil collect infer --campaign {close}"
            emit({"closed": close}, as_json, text)
        else:
            rows, columns = store.listed(), ("campaign", "kind", "state", "invitations", "people", "reports")
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
def token(campaign: str, count: int, role: str, links: str | None, db: str, as_json: bool) -> None:
    """Create invitations, or an operator's token. They are shown once; the database keeps only their hashes."""
    from peerveil.web.collect.store import invitation_links

    if links is not None:
        invitation_links(links, campaign, [])  # before anything is made
    with _opened(db) as store:
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
def export(campaign: str, to: Path, force: bool, db: str, as_json: bool) -> None:
    """Write all reports of a campaign, for `peerveil truth infer` or `peerveil rankings aggregate`."""
    from peerveil.web import collect as service

    check_file(to, force)
    with _counting(db, campaign, "exporting") as (store, known, total, advance):
        path = service.export(store, known, to, advance=advance)
        then = f"peerveil {'rankings aggregate' if known.campaign.kind == 'rankings' else 'truth infer'} {path}"
        if known.campaign.kind != "rankings" and path.suffix != ".jsonl":
            then += f" --randomized --epsilon {known.campaign.each} --classes {','.join(known.campaign.classes)}"
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
def infer(campaign: str, so_far: bool, model: str, engine: str, level: float, db: str, as_json: bool) -> None:
    """Infer the result of a closed campaign from its reports, and store it. This may be repeated."""
    from peerveil.web import collect as service

    with _counting(db, campaign, "reading reports") as (store, known, _, advance):
        result = service.infer(store, known, so_far=so_far, model=model, engine=engine, level=level, advance=advance)
    emit({"campaign": campaign, **result}, as_json, _told(result))


def _told(result: dict[str, Any]) -> str:
    if result["kind"] == "rankings":
        return f"{result['finding']}\n{result['guarantee']}"
    needed = [result["needed"]["advice"]] if "needed" in result else []
    lines = [
        f"{result['tasks_with_reports']:,} of {result['tasks']:,} tasks labeled from {result['reports']:,} reports of "
        f"{result['people']:,} people ({result['model']})",
        f"mean confidence of the labels, if people err independently: {result['mean_confidence']:.3f}. "
        f"{result['about_confidence']}",
    ]
    return "\n".join([*lines, *needed, result["guarantee"]])


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
def serve(db: str, host: str, port: int, processes: int) -> None:
    """Serve campaigns until stopped: pages for participants and operators, the API, and inference at closing time."""
    from peerveil.core.optional import need

    need("services")
    from peerveil.web.collect.service import Inferrer, build_app
    from peerveil.web.common import Journal, serving

    journal = Journal("collect")
    os.environ[VARIABLE] = db  # not among the arguments of child processes: it may hold a password
    if processes > 1:
        require("://" in db and port != 0, "--processes", got=processes, want="1 with a SQLite file, or with port 0")
        command = [*serving.this_command(), "collect", "serve", "--host", host, "--port", str(port)]
        stop_with(serving.run_processes([command] * processes, journal))

    def ready(bound: int) -> None:
        shown = f"[{host}]" if ":" in host else host
        click.echo(f"Campaigns are at http://{shown}:{bound} (Ctrl+C stops it); invitations are links to them.")

    with _opened(db) as store:
        serving.serve(build_app(store, journal, after_close=Inferrer()), host, port, journal, ready=ready)
