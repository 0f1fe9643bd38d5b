"""``peerveil gateway``: a posting service that hides when people wrote."""

from __future__ import annotations

import os
from pathlib import Path

import click

from peerveil.cli.base import (
    CHECK_FAILED,
    PATH,
    CommandGroup,
    argument,
    check_file,
    emit,
    force_option,
    out_option,
    print_table,
    stop_with,
)
from peerveil.cli.gateway_options import CONFIGURED, configured, opened, read_settings, require_spaces, with_gateway
from peerveil.cli.gateway_tokens import commands as tokens
from peerveil.core.files import check_out, write_text
from peerveil.study.spelling import require
from peerveil.web import gateway as service  # imports its parts on first use


@click.group(cls=CommandGroup)
def gateway() -> None:
    """Run a posting service that publishes each post after a random delay."""


@gateway.command("init", examples=["peerveil gateway init --config gateway.toml", "$EDITOR gateway.toml"])
@configured
def init(db: str | None, config: Path | None, as_json: bool) -> None:
    """Create the database and the spaces of the configuration; run it again after a change.

    If there is no configuration file, one is written for you to edit, and a key next to it unless the environment has one.
    """
    from peerveil.core.optional import need
    from peerveil.web.gateway.settings import DEFAULT

    need("services")  # before a file is written
    path = DEFAULT if config is None else config
    written = _first_files(path, db)
    settings = read_settings(path, db)
    with opened(settings, create=True) as gateway:
        names, shown = sorted(gateway.spaces), gateway.database.shown
    lines = [*(f"written: {name}" for name in written), f"ready: {shown}", f"spaces: {', '.join(names) or 'none yet'}"]
    lines += [str(space) for space in settings.spaces]
    emit({"db": shown, "spaces": names, "written": written}, as_json, "\n".join(lines))


def _first_files(path: Path, db: str | None) -> list[str]:
    """A configuration and a key to begin with; the configuration names the database that was given."""
    from peerveil.web.common.vault import VARIABLE, Vault
    from peerveil.web.gateway.keys import write_keys
    from peerveil.web.gateway.settings import example

    if not path.exists():
        read_settings(None, db)  # refuses what cannot be, before a file is written
    written = []
    if not path.exists():
        write_text(path, example() if db is None else example(db if ":" in db else str(Path(db).absolute())))
        written.append(str(path))
    key = read_settings(path, None).key_file
    if not os.environ.get(VARIABLE) and key and not Path(key).exists():
        write_keys(key, [Vault.new_key()])
        written.append(str(key))
    return written


@gateway.command("serve", examples=["peerveil gateway serve --config gateway.toml"])
@configured
@click.option("--host", show_default=CONFIGURED, help="Address to listen on.")
@click.option(
    "--port", type=int, show_default=CONFIGURED, help="Port to listen on; 0 for any free port, which is logged."
)
@click.option(
    "--processes",
    type=int,
    show_default=CONFIGURED,
    help="Number of server processes; more than one needs PostgreSQL.",
)
@click.option(
    "--worker/--no-worker",
    default=True,
    help="Also publish posts when they are due, or leave that to `peerveil gateway work`.",
)
@click.option(
    "--demo",
    is_flag=True,
    help="Show how it works, with an empty database that is removed at the end: minutes are seconds. Not private.",
)
def serve(
    db: str | None,
    config: Path | None,
    host: str | None,
    port: int | None,
    processes: int | None,
    worker: bool,
    demo: bool,
) -> None:
    """Accept and publish posts until stopped."""
    from peerveil.web.common import Journal, serving
    from peerveil.web.gateway.demo import serve_demo
    from peerveil.web.gateway.pace import serve_paced
    from peerveil.web.gateway.settings import PREFIX

    serving.collect_seldom()
    if demo:
        require(
            db is None and processes in (None, 1), "--demo", got=True, want="neither --db nor --processes beside it"
        )
        serve_demo(config, host, port, click.echo)
        return
    settings, journal = read_settings(config, db), Journal("gateway")
    many = settings.processes if processes is None else processes
    address, number = host or settings.host, settings.port if port is None else port
    with opened(settings, create=True) as gateway:
        require_spaces(gateway)
        is_shared = not gateway.database.is_sqlite
        require(many == 1 or is_shared, "--processes", got=many, want="1 with SQLite, or a PostgreSQL address")
        if many == 1:
            gateway.leader.may_lead = worker
            serve_paced(service.create_app(gateway, journal, worker=worker), address, number, journal)
            return
    require(number, "--port", got=0, want="a fixed port for several processes")
    shared = ["gateway", "serve", "--processes", "1", "--host", address, "--port", str(number)]
    shared += [] if config is None else ["--config", str(config)]
    commands = [
        [*serving.this_command(), *shared, "--worker" if worker and k == 0 else "--no-worker"] for k in range(many)
    ]
    # the address may hold a password, and everybody on the machine can read the arguments of a process
    stop_with(serving.run_processes(commands, journal, {f"{PREFIX}_DB": settings.db}))


@gateway.command("work", examples=["peerveil gateway work --config gateway.toml"])
@with_gateway
def work(gateway: service.Gateway) -> None:
    """Publish posts when they are due, and call webhooks, until stopped. With PostgreSQL, several can run at once."""
    import threading

    from peerveil.web.common import Journal, serving
    from peerveil.web.common.journal import quiet_libraries
    from peerveil.web.gateway.health import Heartbeat

    require_spaces(gateway)
    serving.collect_seldom()
    journal, stop = Journal("gateway-worker"), threading.Event()
    quiet_libraries(journal)
    serving.on_signal(stop.set)
    worker = service.GatewayWorker(gateway, journal)
    gateway.group.start()
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


@gateway.command("doctor", examples=["peerveil gateway doctor --config gateway.toml"])
@click.option(
    "--confirm-clock",
    type=click.Choice(["step", "pause"]),
    help="After a halt: 'step' if the clock was changed, 'pause' if the time has really passed.",
)
@click.option(
    "--confirm-restore",
    type=click.Choice(["release", "discard"]),
    help="In a restored copy: publish held posts when they are due, or withdraw them all.",
)
@with_gateway
def doctor(gateway: service.Gateway, confirm_clock: str | None, confirm_restore: str | None, as_json: bool) -> None:
    """Check the whole gateway and show what to do; exit code 1 if something is wrong."""
    if confirm_restore is not None:
        discarded = gateway.confirm_restore(confirm_restore)
        click.echo(f"confirmed: {discarded} held posts were withdrawn", err=True)
    if confirm_clock is not None:
        moved = gateway.confirm_clock(confirm_clock)
        click.echo(f"confirmed: what is held was moved by {moved / 1e6:,.0f} s", err=True)
    checks = service.examine(gateway)
    rows = [(check.state, check.what, check.found, "" if check.ok else check.do) for check in checks]
    names = ("what", "ok", "state", "found", "do")
    data = [{name: getattr(check, name) for name in names} for check in checks]
    emit(data, as_json, lambda: print_table(("", "what", "found", "what to do"), rows))
    if any(check.fails and not check.ok for check in checks):
        stop_with(CHECK_FAILED)


@gateway.command("backup", examples=["peerveil gateway backup --to gateway-monday.backup"])
@click.option("--to", type=PATH, required=True, metavar="FILE", help="File to write. Posts in it stay encrypted.")
@force_option
@configured
def backup(to: Path, force: bool, db: str | None, config: Path | None, as_json: bool) -> None:
    """Write everything to one file while the gateway is running. Keep the key in another place."""
    check_file(to, force)
    with opened(read_settings(config, db)) as gateway:
        service.backup(gateway, to)
    emit({"written": str(to)}, as_json, f"written: {to}")


@gateway.command("restore", examples=["peerveil gateway restore gateway-monday.backup --db new.db"])
@argument("backup_file", type=PATH, metavar="BACKUP", help="A file from `peerveil gateway backup`.")
@configured
def restore(backup_file: Path, db: str | None, config: Path | None, as_json: bool) -> None:
    """Fill a new database from a backup of a SQLite or PostgreSQL gateway. A gateway in use is never overwritten.

    Posts that were published after the backup are published again, under the same public ids; readers restart the feed.
    The copy publishes nothing until `peerveil gateway doctor --confirm-restore`: posts withdrawn after the backup are held again.
    """
    from peerveil.storage import Address

    settings = read_settings(config, db)
    service.restore(settings.db, settings.vault(), backup_file)
    shown = Address.read(settings.db).shown
    emit({"restored": shown}, as_json, f"restored: {shown}; it waits for peerveil gateway doctor --confirm-restore")


@gateway.command("page", examples=["peerveil gateway page --out out/gateway"])
@out_option(default="out/gateway")
@force_option
@configured
def page(out: Path, force: bool, db: str | None, config: Path | None, as_json: bool) -> None:
    """Write the operator's page (operator.html): published posts, lateness, delays, the guarantee.

    A running gateway shows the same page at /operator.
    """
    check_out(out, force)
    with opened(read_settings(config, db)) as gateway:
        path = service.operator_page(gateway, sorted(gateway.spaces)).write(out / "operator.html")
    emit({"written": str(path)}, as_json, f"written: {path}")


@gateway.group("webhooks", cls=CommandGroup)
def webhooks() -> None:
    """See how receivers of webhooks do, and send dead letters again."""


@webhooks.command("list", examples=["peerveil gateway webhooks list"])
@with_gateway
def webhooks_list(gateway: service.Gateway, as_json: bool) -> None:
    """List webhooks: published items that wait, failures, and dead letters (items that were given up after three days)."""
    from peerveil.web.gateway.webhooks import read_webhooks

    with gateway.database.reading() as connection:
        states = read_webhooks(connection, gateway.watch.source(connection))
    columns = ("webhook", "receiver", "waiting", "attempts that failed", "last failure", "dead letters")
    rows = [(one.name, one.host, one.waiting, one.attempts, one.problem, one.dead) for one in states]
    emit([vars(one) for one in states], as_json, lambda: print_table(columns, rows))


@webhooks.command(
    "replay", examples=["peerveil gateway webhooks replay", "peerveil gateway webhooks replay forum-1a2b3c4d"]
)
@argument("webhook", required=False, help="One webhook, as `webhooks list` names it; by default all.")
@with_gateway
def webhooks_replay(gateway: service.Gateway, webhook: str | None, as_json: bool) -> None:
    """Send dead letters again, once, when the receiver works. What is refused again stays a dead letter."""
    from peerveil.web.gateway.webhooks import replay

    with gateway.database.writing("replay") as connection:
        count = replay(connection, webhook)
    emit({"items": count}, as_json, f"{count:,} items will be sent again")


@gateway.group("key", cls=CommandGroup)
def key() -> None:
    """Make a key, change it, and remove the old one."""


@key.command("new", examples=["peerveil gateway key new"])
def key_new(as_json: bool) -> None:
    """Print a new key, for PEERVEIL_KEY: alone for a new gateway, or in front of the old key, with a comma."""
    from peerveil.web.common.vault import Vault

    text = Vault.new_key()
    emit({"key": text}, as_json, text)


@key.command("rotate", examples=["peerveil gateway key rotate", "peerveil gateway key rotate --drop k1a2b3c"])
@click.option("--drop", metavar="NAME", help="Remove an old key instead, if nothing is sealed with it any more.")
@configured
def key_rotate(drop: str | None, db: str | None, config: Path | None, as_json: bool) -> None:
    """Put a new key in front of the old one in the key file. Servers and workers use it from their next start on.

    Restart them. `peerveil gateway doctor` then says when nothing is sealed with the old key any more: remove it with --drop.
    """
    from peerveil.web.gateway.keys import add_key, drop_key, require_key_file

    settings = read_settings(config, db)
    path = require_key_file(settings.key_file)
    with opened(settings) as gateway:  # a key that does not open the gateway is not built upon
        if drop is None:
            name = add_key(path)
            emit(
                {"key": name, "file": str(path)}, as_json, f"new key {name} in {path}; now restart servers and workers"
            )
            return
        with gateway.database.reading() as connection:
            drop_key(connection, path, drop)
    emit({"dropped": drop, "file": str(path)}, as_json, f"removed {drop} from {path}")


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
@with_gateway
def reveal(
    gateway: service.Gateway, receipt: str | None, reason: str | None, approve: int | None, log: bool, as_json: bool
) -> None:
    """Read one post before it is published: one operator asks, another approves, and both are recorded.

    Your operator's token is read from the environment variable PEERVEIL_TOKEN, or asked for. It is never given on the command
    line, which everybody on the machine can read.
    """
    chosen = (receipt is not None) + (approve is not None) + log
    require(chosen == 1, "--receipt", got=receipt, want="either --receipt with --reason, or --approve, or --log")
    token = os.environ.get("PEERVEIL_TOKEN") or click.prompt("Operator's token", hide_input=True, err=True)
    operator = gateway.tokens.check(f"Bearer {token}")
    if log:
        rows = service.read_audit(gateway, operator)
        columns = ("number", "at", "action", "request", "name", "receipt", "reason")
        emit(rows, as_json, lambda: print_table(columns, [[str(row[name]) for name in columns] for row in rows]))
    elif receipt is not None:
        number = service.request_reveal(gateway, operator, receipt, reason or "")
        emit({"request": number}, as_json, f"request {number} is written down; another operator must approve it")
    elif approve is not None:
        post = service.approve_reveal(gateway, operator, approve)
        emit(post, as_json, f"{post['space']}, {post['thread']}:\n{post['content']}")


for _command in tokens.commands.values():
    gateway.add_command(_command)
