"""``peerveil console``: all modules in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from peerveil.cli.base import PATH, CommandGroup
from peerveil.study.spelling import require


@click.group(cls=CommandGroup)
def console() -> None:
    """Use all modules in a browser."""


@console.command("serve", examples=["peerveil console serve", "peerveil console serve --port 9000 --folder iclr-2026"])
@click.option("--host", default="127.0.0.1", help="Address to listen on. Any address but this machine's needs sign-in.")
@click.option("--port", type=click.IntRange(0, 65_535), default=8000, help="Port to listen on; 0 for any free port.")
@click.option(
    "--db",
    envvar="PEERVEIL_CONSOLE_DB",
    show_envvar=True,
    show_default="console.db in the folder",
    help="Database of the console: a SQLite file, or postgresql://user@host/database.",
)
@click.option(
    "--folder", type=PATH, default=Path("peerveil-console"), help="Folder for uploaded files, runs and the ledger."
)
@click.option("--sign-in", is_flag=True, help="Require sign-in, even on this machine.")
@click.option("--https", is_flag=True, help="A TLS proxy is in front: send cookies over HTTPS only.")
@click.option("--data-folder", type=PATH, help="Files in this folder can be chosen instead of uploaded.")
@click.option("--upload-limit", type=click.IntRange(1, 100_000), default=200, help="Largest upload, in megabytes.")
@click.option("--row-limit", type=click.IntRange(1), default=5_000_000, help="Largest number of rows in a table.")
@click.option(
    "--memory-limit",
    type=click.IntRange(1),
    default=4_000,
    help="Largest estimated memory for reading a table, in megabytes.",
)
@click.option(
    "--gateway",
    envvar="PEERVEIL_GATEWAY_DB",
    show_envvar=True,
    help="Database of a gateway, to show its operator's page.",
)
@click.option(
    "--collect",
    envvar="PEERVEIL_COLLECT_DB",
    show_envvar=True,
    show_default="collect.db in the folder",
    help="Database of the answers that are collected.",
)
def serve(
    host: str,
    port: int,
    db: str | None,
    folder: Path,
    sign_in: bool,
    upload_limit: int,
    memory_limit: int,
    **options: Any,
) -> None:
    """Serve the console, by default on this machine for one person, until stopped."""
    from peerveil.core.optional import need

    need("services")
    from peerveil.web.common import Journal
    from peerveil.web.console import ConsoleSettings
    from peerveil.web.console.server import is_local, run_console

    data: Path | None = options["data_folder"]
    require(data is None or data.is_dir(), "--data-folder", got=str(data), want="a folder that exists")
    settings = ConsoleSettings.make(
        folder,
        db,
        sign_in=sign_in or not is_local(host),
        upload_limit=upload_limit * 1_000_000,
        memory_limit=memory_limit * 1_000_000,
        **options,
    )
    run_console(settings, host, port, Journal("console"), say=click.echo)
