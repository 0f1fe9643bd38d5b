"""``peerveil collect``: campaigns whose answers are randomised before they leave people's devices."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from peerveil.cli.base import AsJson, Debug, emit, example, new_group, print_table
from peerveil.errors import BadInput, Verbatim

app = new_group("collect", "Collect answers that are randomised before they leave people's devices.")

VARIABLE = "PEERVEIL_COLLECT_DB"
Where = Annotated[
    str,
    typer.Option(
        "--db", envvar=VARIABLE, help="A SQLite file, or the address of a PostgreSQL database (postgresql://...)."
    ),
]
Which = Annotated[str, typer.Option("--campaign", help="The campaign's id.")]
DEFAULT = "peerveil-collect.db"

LABELS_EXAMPLE = """\
# A campaign of labels: people answer tasks, each answer randomised on their device.
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
# A campaign about rankings: people answer one of a few shared comparisons, by one randomised bit.
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


@app.command("init", epilog=example("peerveil collect init --db collect.db"))
def init(db: Where = DEFAULT, as_json: AsJson = False, debug: Debug = False) -> None:  # noqa: ARG001
    """Make the tables of a new database, or bring old ones up to date."""
    from peerveil.collect import Store

    with Store(db, create=True) as store:
        shown = store.database.shown
    emit(
        {"database": shown},
        as_json,
        f"ready: {shown}\nnext: peerveil collect campaign --example labels > campaign.toml",
    )


@app.command(
    "campaign",
    epilog=example(
        "peerveil collect campaign --example labels > campaign.toml",
        "peerveil collect campaign campaign.toml --db collect.db",
        "peerveil collect campaign --db collect.db",
        "peerveil collect campaign --close birds-2026 --db collect.db",
    ),
)
def campaign(
    file: Annotated[Path | None, typer.Argument(help="A campaign's file to add; without one, all are listed.")] = None,
    close: Annotated[str | None, typer.Option(help="Close this campaign for good, now.")] = None,
    example_: Annotated[
        str | None, typer.Option("--example", help="Print a file to begin with: labels or rankings.")
    ] = None,
    db: Where = DEFAULT,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Add a campaign, close one, or list all with how many people took part."""
    if example_ is not None:
        if example_ not in ("labels", "rankings"):
            raise BadInput("--example", got=example_, want="labels or rankings")
        typer.echo(LABELS_EXAMPLE if example_ == "labels" else RANKINGS_EXAMPLE, nl=False)
        return
    from peerveil.collect import Campaign, Store

    if file is not None:
        read = Campaign.read(file)
        with Store(db) as store:
            store.add(read)
        said = f"{read.id}: {read.response}\n{read.guarantee}\nFor a whole person: {read.person_guarantee}"
        emit({"campaign": read.id, "guarantee": str(read.guarantee)}, as_json, said)
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


@app.command(
    "token",
    epilog=example(
        "peerveil collect token --campaign birds-2026 --count 60 --links https://collect.example.org > invitations.txt",
        "peerveil collect token --campaign birds-2026 --role operator",
    ),
)
def token(
    campaign: Which,
    count: Annotated[int, typer.Option(help="How many invitations.")] = 1,
    role: Annotated[str, typer.Option(help="person or operator.")] = "person",
    links: Annotated[str | None, typer.Option(help="Print links to this site instead of bare tokens.")] = None,
    db: Where = DEFAULT,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Make invitations, or an operator's token. They are shown once: the database keeps only their hashes."""
    from peerveil.collect import Store
    from peerveil.collect.invitations import invitation_links

    if role not in ("person", "operator"):
        raise BadInput("--role", got=role, want="person or operator")
    if links is not None:
        invitation_links(links, campaign, [])  # before anything is made
    with Store(db) as store:
        made = store.invite(store.known(campaign), count) if role == "person" else [store.appoint(campaign)]
    if links is not None and role == "person":
        made = invitation_links(links, campaign, made)
    emit({"campaign": campaign, "role": role, "tokens": made}, as_json, "\n".join(made))


@app.command(
    "export",
    epilog=example(
        "peerveil collect export --campaign birds-2026 --to reports.parquet",
        "peerveil truth infer reports.parquet --randomized --epsilon 1 --classes no,yes",
    ),
)
def export(
    campaign: Which,
    to: Annotated[Path, typer.Option(help="The file: .csv, .parquet or .jsonl.")] = Path("reports.parquet"),
    db: Where = DEFAULT,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Write all reports of a campaign, for 'peerveil truth infer' or 'peerveil rankings aggregate'."""
    from peerveil.collect import Store
    from peerveil.collect.exporting import count_reports
    from peerveil.collect.exporting import export as write
    from peerveil.progress import progress_bar

    with Store(db) as store:
        known = store.known(campaign)
        total = count_reports(store, known)
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


@app.command(
    "infer",
    epilog=example(
        "peerveil collect infer --campaign birds-2026 --so-far",
        "peerveil collect infer --campaign birds-2026 --model one-coin",
    ),
)
def infer(
    campaign: Which,
    so_far: Annotated[bool, typer.Option(help="An estimate for the operator while the campaign is open.")] = False,
    model: Annotated[str, typer.Option(help="auto, one-coin, two-coin or confusion.")] = "auto",
    engine: Annotated[str, typer.Option(help="auto, memory, duckdb or spark.")] = "auto",
    level: Annotated[float, typer.Option(help="Rankings: how often chance may be called a signal.")] = 0.05,
    db: Where = DEFAULT,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Infer from all reports of a closed campaign and store the result; may be done again without collecting again."""
    from peerveil.collect import Store
    from peerveil.collect.exporting import count_reports
    from peerveil.collect.inference import infer as run
    from peerveil.progress import progress_bar

    with Store(db) as store:
        known = store.known(campaign)
        with progress_bar("reading reports", total=count_reports(store, known)) as advance:
            found = run(store, known, so_far=so_far, model=model, engine=engine, level=level, advance=advance)
    emit({"campaign": campaign, **found}, as_json, _told(found))


def _told(found: dict[str, Any]) -> str:
    if found["kind"] == "rankings":
        return f"{found['finding']}\n{found['guarantee']}"
    lines = [
        f"{found['tasks_with_reports']:,} of {found['tasks']:,} tasks labelled from {found['reports']:,} reports of "
        f"{found['people']:,} people ({found['model']})",
        f"mean confidence of the labels: {found['mean_confidence']:.3f}. {found['about_confidence']}",
    ]
    if "needed" in found:
        lines.append(found["needed"]["advice"])
    return "\n".join([*lines, found["guarantee"]])


@app.command(
    "serve",
    epilog=example(
        "peerveil collect serve --db collect.db --port 8080",
        "peerveil collect serve --db postgresql://collect@db/collect --processes 2",
    ),
)
def serve(
    db: Where = DEFAULT,
    host: Annotated[str, typer.Option(help="The address to listen on; put a server with TLS in front.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes any.")] = 8080,
    processes: Annotated[int, typer.Option(min=1, max=64, help="How many server processes (PostgreSQL).")] = 1,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Serve campaigns: the person's page, the clients' interface, the operator's page, and inference at closing time."""
    import os

    from peerveil.collect import Store
    from peerveil.collect.background import Inferrer

    try:
        from peerveil.collect.service import build_app
    except ImportError as error:
        want = "the services' parts: pip install 'peerveil[services]'"
        raise BadInput("peerveil collect serve", got=Verbatim(f"no {error.name}"), want=want) from None
    from peerveil.services import Journal
    from peerveil.services.serving import run_processes, this_command
    from peerveil.services.serving import serve as run

    journal = Journal("collect")
    os.environ[VARIABLE] = db  # not among the arguments of child processes: it may hold a password
    if processes > 1:
        if "://" not in db or port == 0:
            raise BadInput("--processes", got=processes, want="1 with a SQLite file, or with port 0")
        one = [*this_command(), "collect", "serve", "--host", host, "--port", str(port)]
        raise typer.Exit(run_processes([one] * processes, journal))

    def ready(bound: int) -> None:
        shown = f"[{host}]" if ":" in host else host
        typer.echo(f"Campaigns are at http://{shown}:{bound} (Ctrl+C stops it); invitations are links to them.")

    with Store(db) as store:
        run(build_app(store, journal, after_close=Inferrer()), host, port, journal, ready=ready)
