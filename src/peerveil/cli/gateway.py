"""``peerveil gateway``: a posting service that hides when people wrote."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from peerveil.cli.base import AsJson, Debug, emit, example, new_group, print_table, stop_with_failed_check
from peerveil.errors import BadInput, Verbatim

if TYPE_CHECKING:
    from collections.abc import Iterator

    from peerveil.gateway import Gateway, Settings

app = new_group("gateway", "A posting service: takes posts, answers at once, shows each at a random later time.")

Where = Annotated[
    str | None,
    typer.Option("--db", help="A SQLite file, or postgresql://user@host/database.", show_default="the configuration's"),
]
Config = Annotated[
    Path | None, typer.Option("--config", help="The configuration file (TOML).", envvar="PEERVEIL_GATEWAY_CONFIG")
]


class Role(StrEnum):
    """What a token is for."""

    author = "author"
    reader = "reader"
    operator = "operator"


class Moved(StrEnum):
    """What happened to the clock."""

    step = "step"
    pause = "pause"


def _settings(config: Path | None, db: str | None) -> Settings:
    from peerveil.database import Address
    from peerveil.gateway import Settings
    from peerveil.gateway.settings import PREFIX

    if db is not None and Address.read(db).has_password:
        want = (
            f"an address without one: everybody on this machine can read it. Use PGPASSWORD, ~/.pgpass or {PREFIX}_DB"
        )
        raise BadInput("--db", got=Verbatim("an address with a password"), want=want)
    return Settings.find(config, db)


@contextmanager
def _opened(config: Path | None, db: str | None) -> Iterator[tuple[Gateway, Settings]]:
    from peerveil.gateway import Gateway

    settings = _settings(config, db)
    with Gateway(settings.db, settings.vault(), watch=settings.watch()) as gateway:
        yield gateway, settings


@app.command("init", epilog=example("peerveil gateway init --config gateway.toml", "$EDITOR gateway.toml"))
def init(
    db: Where = None,
    config: Config = None,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Make the tables and write the spaces of the configuration; safe to run again after a change.

    Without a configuration file one is written for you to edit, and a key beside it if the environment has none.
    """
    from peerveil.gateway import Gateway
    from peerveil.gateway.settings import DEFAULT

    path = DEFAULT if config is None else config
    written = _first_files(path)
    settings = _settings(path, db)
    with Gateway(settings.db, settings.vault(), create=True, watch=settings.watch()) as gateway:
        gateway.configure(settings.spaces)
        names = sorted(gateway.spaces)
        shown = gateway.database.shown
    lines = [*(f"written: {name}" for name in written), f"ready: {shown}", f"spaces: {', '.join(names) or 'none yet'}"]
    lines += [str(space) for space in settings.spaces]
    emit({"db": shown, "spaces": names, "written": written}, as_json, "\n".join(lines))


def _first_files(path: Path) -> list[str]:
    """A configuration and a key to begin with."""
    from peerveil.files import write_text
    from peerveil.gateway.settings import EXAMPLE
    from peerveil.services.vault import VARIABLE, Vault

    written = []
    if not path.exists():
        write_text(path, EXAMPLE)
        written.append(str(path))
    settings = _settings(path, None)
    if not os.environ.get(VARIABLE) and settings.key_file and not Path(settings.key_file).exists():
        key = Path(settings.key_file)
        with os.fdopen(os.open(key, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as handle:
            handle.write(Vault.new_key() + "\n")
        written.append(str(key))
    return written


@app.command("serve", epilog=example("peerveil gateway serve --config gateway.toml"))
def serve(
    db: Where = None,
    config: Config = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="The port; 0 takes a free one and logs it.")] = None,
    processes: Annotated[int | None, typer.Option(help="Server processes; more than one needs PostgreSQL.")] = None,
    worker: Annotated[bool, typer.Option(help="Also release posts; --no-worker leaves it to 'work'.")] = True,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Take posts and answer questions, until stopped. Releases posts too, unless told otherwise."""
    from peerveil.gateway import Gateway, create_app
    from peerveil.gateway.settings import PREFIX
    from peerveil.services import Journal
    from peerveil.services.serving import run_processes, this_command
    from peerveil.services.serving import serve as run

    settings = _settings(config, db)
    journal = Journal("gateway")
    many = settings.processes if processes is None else processes
    with Gateway(settings.db, settings.vault(), create=True, watch=settings.watch()) as gateway:
        gateway.configure(settings.spaces)
        if many > 1 and gateway.database.is_sqlite:
            raise BadInput("--processes", got=many, want="1 with SQLite, or a PostgreSQL address")
        address, number = host or settings.host, settings.port if port is None else port
        if many == 1:
            run(create_app(gateway, journal, worker=worker), address, number, journal)
            return
    if number == 0:
        raise BadInput("--port", got=0, want="a fixed port for several processes")
    shared = ["gateway", "serve", "--processes", "1", "--host", address, "--port", str(number)]
    shared += [] if config is None else ["--config", str(config)]
    commands = [[*this_command(), *shared, "--worker" if worker and k == 0 else "--no-worker"] for k in range(many)]
    # the address may hold a password, and everybody on the machine can read the arguments of a process
    code = run_processes(commands, journal, {f"{PREFIX}_DB": settings.db})
    if code:
        raise typer.Exit(code)


@app.command("work", epilog=example("peerveil gateway work --config gateway.toml"))
def work(
    db: Where = None,
    config: Config = None,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Release posts when they are due, and call webhooks, until stopped. Several may run on PostgreSQL."""
    import threading

    from peerveil.gateway import Worker
    from peerveil.gateway.pulse import Pulse
    from peerveil.services import Journal
    from peerveil.services.journal import quiet_libraries

    journal = Journal("gateway-worker")
    quiet_libraries(journal)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with _opened(config, db) as (gateway, _):
        worker = Worker(gateway, journal)
        worker.start()
        pulse = Pulse(gateway, journal, worker.alive)
        pulse.start()
        journal.write("working")
        while not stop.wait(1.0) and not pulse.dead():
            pass
        dead = pulse.dead()
        pulse.stop()
        worker.stop()
        journal.write("stopped")
    if dead:  # whoever supervises this process starts it again
        raise typer.Exit(1)


@app.command("token", epilog=example("peerveil gateway token --space forum --role author --actor user-17"))
def token(
    space: Annotated[str, typer.Option(help="The space it is for; * for an operator of all.")],
    role: Annotated[Role, typer.Option(help="What it may do.")],
    actor: Annotated[str, typer.Option(help="For authors: the person's account on your platform.")] = "",
    db: Where = None,
    config: Config = None,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Make a token. It is shown once; the database keeps only its hash."""
    with _opened(config, db) as (gateway, _):
        made = gateway.issue_token(role=role.value, space=space, actor=actor)
    emit({"token": made, "role": role.value, "space": space}, as_json, made)


@app.command("doctor", epilog=example("peerveil gateway doctor --config gateway.toml"))
def doctor(
    db: Where = None,
    config: Config = None,
    confirm_clock: Annotated[
        Moved | None,
        typer.Option(help="After a halt: 'step' if the clock was moved, 'pause' if time has really passed."),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Look at everything, and say what to do; exit code 1 if something is wrong."""
    from peerveil.gateway import examine

    with _opened(config, db) as (gateway, _):
        if confirm_clock is not None:
            moved = gateway.confirm_clock(confirm_clock.value)
            typer.echo(f"confirmed: what is held was moved by {moved / 1e6:,.0f} s", err=True)
        found = examine(gateway)
    rows = [("ok" if one.ok else "WRONG", one.what, one.found, "" if one.ok else one.do) for one in found]
    emit(
        [{"what": one.what, "ok": one.ok, "found": one.found, "do": one.do} for one in found],
        as_json,
        lambda: print_table(("", "what", "found", "what to do"), rows),
    )
    if any(one.fails and not one.ok for one in found):
        stop_with_failed_check()


@app.command("backup", epilog=example("peerveil gateway backup --to gateway-monday.backup"))
def backup(
    to: Annotated[Path, typer.Option(help="The file to write. Posts in it stay sealed.")],
    db: Where = None,
    config: Config = None,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Write everything to one file, while the gateway goes on. Keep the key elsewhere."""
    from peerveil.gateway import backup as copy

    with _opened(config, db) as (gateway, _):
        copy(gateway, to)
    emit({"written": str(to)}, as_json, f"written: {to}")


@app.command("restore", epilog=example("peerveil gateway restore gateway-monday.backup --db new.db"))
def restore(
    backup_file: Annotated[Path, typer.Argument(metavar="BACKUP", help="A file that 'backup' has written.")],
    db: Where = None,
    config: Config = None,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Fill a new database from a backup, of either kind. A gateway in use is never overwritten.

    What was released after the backup is released again, under the same public ids; readers begin the feed anew.
    """
    from peerveil.database import Address
    from peerveil.gateway import restore as fill

    settings = _settings(config, db)
    fill(settings.db, settings.vault(), backup_file)
    shown = Address.read(settings.db).shown
    emit({"restored": shown}, as_json, f"restored: {shown}")


@app.command("page", epilog=example("peerveil gateway page --out operator.html"))
def page(
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("gateway.html"),
    db: Where = None,
    config: Config = None,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Write the operator's page: releases, lateness, delays against theory, the promise. Also at /operator."""
    from peerveil.gateway import operator_page

    with _opened(config, db) as (gateway, _):
        operator_page(gateway, sorted(gateway.spaces)).write(out)
    emit({"written": str(out)}, as_json, f"written: {out}")


@app.command(
    "reveal",
    epilog=example(
        "peerveil gateway reveal --receipt RECEIPT --reason 'a threat, case 12'",
        "peerveil gateway reveal --approve 1",
        "peerveil gateway reveal --log",
    ),
)
def reveal(
    receipt: Annotated[str | None, typer.Option(help="First step: the receipt of the post.")] = None,
    reason: Annotated[str, typer.Option(help="First step: why it must be read.")] = "",
    approve: Annotated[int | None, typer.Option(help="Second step, by another operator: the request's number.")] = None,
    log: Annotated[bool, typer.Option("--log", help="Show all requests and approvals instead.")] = False,
    db: Where = None,
    config: Config = None,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Read one held post: one operator asks, another approves, both are written down. There is no other way.

    Your operator's token is taken from the environment variable PEERVEIL_TOKEN, or asked for: never from the command line,
    which everybody on the machine can read.
    """
    from peerveil.gateway import approve_reveal, read_audit, request_reveal

    if (receipt is not None) + (approve is not None) + log != 1:
        raise BadInput("--receipt", got=receipt, want="either --receipt with --reason, or --approve, or --log")
    with _opened(config, db) as (gateway, _):
        token_ = os.environ.get("PEERVEIL_TOKEN") or typer.prompt("Operator's token", hide_input=True, err=True)
        operator = gateway.tokens.check(f"Bearer {token_}")
        if log:
            rows = read_audit(gateway, operator)
            columns = ("number", "at", "action", "request", "name", "receipt", "reason")
            emit(rows, as_json, lambda: print_table(columns, [[str(row[name]) for name in columns] for row in rows]))
            return
        if approve is None:
            assert receipt is not None
            number = request_reveal(gateway, operator, receipt, reason)
            emit({"request": number}, as_json, f"request {number} is written down; another operator must approve it")
            return
        found = approve_reveal(gateway, operator, approve)
    emit(found, as_json, f"{found['space']}, {found['thread']}:\n{found['content']}")
