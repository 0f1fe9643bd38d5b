"""``peerveil gateway``: a posting service that hides when people wrote."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from peerveil.cli.base import (
    CHECK_FAILED,
    PATH,
    CommandGroup,
    argument,
    check_file,
    debug_option,
    emit,
    force_option,
    json_option,
    out_option,
    print_table,
    stop_with,
)
from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.files import check_out

if TYPE_CHECKING:
    from collections.abc import Iterator

    from peerveil.web.gateway import Gateway, GatewaySettings

_db_option = click.option(
    "--db",
    show_default="from the configuration",
    help="Database: a SQLite file, or postgresql://user@host/database.",
)
_config_option = click.option(
    "--config",
    type=PATH,
    envvar="PEERVEIL_GATEWAY_CONFIG",
    show_envvar=True,
    show_default="gateway.toml",
    help="Configuration file (TOML).",
)


@click.group(cls=CommandGroup)
def gateway() -> None:
    """Run a posting service that publishes each post after a random delay."""


def _settings(config: Path | None, db: str | None) -> GatewaySettings:
    from peerveil.storage import Address
    from peerveil.web.gateway import GatewaySettings
    from peerveil.web.gateway.settings import PREFIX

    if db is not None and Address.read(db).has_password:
        want = (
            f"an address without one: everybody on this machine can read it. Use PGPASSWORD, ~/.pgpass or {PREFIX}_DB"
        )
        raise BadInput("--db", got=Verbatim("an address with a password"), want=want)
    return GatewaySettings.find(config, db)


@contextmanager
def _opened(config: Path | None, db: str | None) -> Iterator[tuple[Gateway, GatewaySettings]]:
    from peerveil.web.gateway import Gateway

    settings = _settings(config, db)
    with Gateway(settings.db, settings.vault(), watch=settings.watch()) as gateway:
        yield gateway, settings


@gateway.command("init", examples=["peerveil gateway init --config gateway.toml", "$EDITOR gateway.toml"])
@_db_option
@_config_option
@json_option
@debug_option
def init(db: str | None, config: Path | None, as_json: bool) -> None:
    """Create the database and the spaces of the configuration; run it again after a change.

    If there is no configuration file, one is written for you to edit, and a key next to it unless the environment has one.
    """
    from peerveil.web.gateway import Gateway
    from peerveil.web.gateway.settings import DEFAULT

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
    from peerveil.core.files import write_text
    from peerveil.web.common.vault import VARIABLE, Vault
    from peerveil.web.gateway.settings import EXAMPLE

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


@gateway.command("serve", examples=["peerveil gateway serve --config gateway.toml"])
@_db_option
@_config_option
@click.option("--host", show_default="from the configuration", help="Address to listen on.")
@click.option(
    "--port",
    type=int,
    show_default="from the configuration",
    help="Port to listen on; 0 for any free port, which is logged.",
)
@click.option(
    "--processes",
    type=int,
    show_default="from the configuration",
    help="Number of server processes; more than one needs PostgreSQL.",
)
@click.option(
    "--worker/--no-worker",
    default=True,
    help="Also publish posts when they are due, or leave that to `peerveil gateway work`.",
)
@debug_option
def serve(
    db: str | None, config: Path | None, host: str | None, port: int | None, processes: int | None, worker: bool
) -> None:
    """Accept and publish posts until stopped."""
    from peerveil.web.common import Journal
    from peerveil.web.common.serving import run_processes, this_command
    from peerveil.web.common.serving import serve as run
    from peerveil.web.gateway import Gateway, create_app
    from peerveil.web.gateway.settings import PREFIX

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
        stop_with(code)


@gateway.command("work", examples=["peerveil gateway work --config gateway.toml"])
@_db_option
@_config_option
@debug_option
def work(db: str | None, config: Path | None) -> None:
    """Publish posts when they are due, and call webhooks, until stopped. With PostgreSQL, several can run at once."""
    import threading

    from peerveil.web.common import Journal
    from peerveil.web.common.journal import quiet_libraries
    from peerveil.web.common.serving import on_signal
    from peerveil.web.gateway import GatewayWorker
    from peerveil.web.gateway.health import Heartbeat

    journal = Journal("gateway-worker")
    quiet_libraries(journal)
    stop = threading.Event()
    on_signal(stop.set)
    with _opened(config, db) as (gateway, _):
        worker = GatewayWorker(gateway, journal)
        worker.start()
        heartbeat = Heartbeat(gateway, journal, worker.alive)
        heartbeat.start()
        journal.write("working")
        while not stop.wait(1.0) and all(heartbeat.alive().values()):
            pass
        healthy = all(heartbeat.alive().values())
        heartbeat.stop()
        worker.stop()
        journal.write("stopped")
    if not healthy:  # whoever supervises this process starts it again
        stop_with(CHECK_FAILED)


@gateway.command("token", examples=["peerveil gateway token --space forum --role author --actor user-17"])
@click.option("--space", required=True, help="Space that the token is for; '*' for an operator of all spaces.")
@click.option(
    "--role", type=click.Choice(["author", "reader", "operator"]), required=True, help="What the token allows."
)
@click.option("--actor", help="For authors: the person's account on your platform.")
@_db_option
@_config_option
@json_option
@debug_option
def token(space: str, role: str, actor: str | None, db: str | None, config: Path | None, as_json: bool) -> None:
    """Create a token. It is shown once; the database keeps only its hash."""
    with _opened(config, db) as (gateway, _):
        token = gateway.issue_token(role=role, space=space, actor=actor or "")
    emit({"token": token, "role": role, "space": space}, as_json, token)


@gateway.command("doctor", examples=["peerveil gateway doctor --config gateway.toml"])
@_db_option
@_config_option
@click.option(
    "--confirm-clock",
    type=click.Choice(["step", "pause"]),
    help="After a halt: 'step' if the clock was changed, 'pause' if the time has really passed.",
)
@json_option
@debug_option
def doctor(db: str | None, config: Path | None, confirm_clock: str | None, as_json: bool) -> None:
    """Check the whole gateway and show what to do; exit code 1 if something is wrong."""
    from peerveil.web.gateway import examine

    with _opened(config, db) as (gateway, _):
        if confirm_clock is not None:
            moved = gateway.confirm_clock(confirm_clock)
            click.echo(f"confirmed: what is held was moved by {moved / 1e6:,.0f} s", err=True)
        checks = examine(gateway)
    rows = [("ok" if check.ok else "WRONG", check.what, check.found, "" if check.ok else check.do) for check in checks]
    emit(
        [{"what": check.what, "ok": check.ok, "found": check.found, "do": check.do} for check in checks],
        as_json,
        lambda: print_table(("", "what", "found", "what to do"), rows),
    )
    if any(check.fails and not check.ok for check in checks):
        stop_with(CHECK_FAILED)


@gateway.command("backup", examples=["peerveil gateway backup --to gateway-monday.backup"])
@click.option("--to", type=PATH, required=True, metavar="FILE", help="File to write. Posts in it stay encrypted.")
@force_option
@_db_option
@_config_option
@json_option
@debug_option
def backup(to: Path, force: bool, db: str | None, config: Path | None, as_json: bool) -> None:
    """Write everything to one file while the gateway is running. Keep the key in another place."""
    from peerveil.web.gateway import backup as copy

    check_file(to, force)
    with _opened(config, db) as (gateway, _):
        copy(gateway, to)
    emit({"written": str(to)}, as_json, f"written: {to}")


@gateway.command("restore", examples=["peerveil gateway restore gateway-monday.backup --db new.db"])
@argument("backup_file", type=PATH, metavar="BACKUP", help="A file from `peerveil gateway backup`.")
@_db_option
@_config_option
@json_option
@debug_option
def restore(backup_file: Path, db: str | None, config: Path | None, as_json: bool) -> None:
    """Fill a new database from a backup of a SQLite or PostgreSQL gateway. A gateway in use is never overwritten.

    Posts that were published after the backup are published again, under the same public ids; readers restart the feed.
    """
    from peerveil.storage import Address
    from peerveil.web.gateway import restore as fill

    settings = _settings(config, db)
    fill(settings.db, settings.vault(), backup_file)
    shown = Address.read(settings.db).shown
    emit({"restored": shown}, as_json, f"restored: {shown}")


@gateway.command("page", examples=["peerveil gateway page --out out/gateway"])
@out_option("out/gateway")
@force_option
@_db_option
@_config_option
@json_option
@debug_option
def page(out: Path, force: bool, db: str | None, config: Path | None, as_json: bool) -> None:
    """Write the operator's page (operator.html): published posts, lateness, delays, the guarantee.

    A running gateway shows the same page at /operator.
    """
    from peerveil.web.gateway import operator_page

    check_out(out, force)
    with _opened(config, db) as (gateway, _):
        path = operator_page(gateway, sorted(gateway.spaces)).write(out / "operator.html")
    emit({"written": str(path)}, as_json, f"written: {path}")


@gateway.command(
    "reveal",
    examples=[
        "peerveil gateway reveal --receipt RECEIPT --reason 'a threat, case 12'",
        "peerveil gateway reveal --approve 1",
        "peerveil gateway reveal --log",
    ],
)
@click.option("--receipt", help="First step: the receipt of the post.")
@click.option("--reason", help="First step: why the post must be read.")
@click.option("--approve", type=int, help="Second step, by another operator: the number of the request.")
@click.option("--log", is_flag=True, help="Show all requests and approvals instead.")
@_db_option
@_config_option
@json_option
@debug_option
def reveal(
    receipt: str | None,
    reason: str | None,
    approve: int | None,
    log: bool,
    db: str | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """Read one post before it is published: one operator asks, another approves, and both are recorded.

    Your operator's token is read from the environment variable PEERVEIL_TOKEN, or asked for. It is never given on the command
    line, which everybody on the machine can read.
    """
    from peerveil.web.gateway import approve_reveal, read_audit, request_reveal

    if (receipt is not None) + (approve is not None) + log != 1:
        raise BadInput("--receipt", got=receipt, want="either --receipt with --reason, or --approve, or --log")
    with _opened(config, db) as (gateway, _):
        token_ = os.environ.get("PEERVEIL_TOKEN") or click.prompt("Operator's token", hide_input=True, err=True)
        operator = gateway.tokens.check(f"Bearer {token_}")
        if log:
            rows = read_audit(gateway, operator)
            columns = ("number", "at", "action", "request", "name", "receipt", "reason")
            emit(rows, as_json, lambda: print_table(columns, [[str(row[name]) for name in columns] for row in rows]))
            return
        if approve is None:
            assert receipt is not None
            number = request_reveal(gateway, operator, receipt, reason or "")
            emit({"request": number}, as_json, f"request {number} is written down; another operator must approve it")
            return
        post = approve_reveal(gateway, operator, approve)
    emit(post, as_json, f"{post['space']}, {post['thread']}:\n{post['content']}")
