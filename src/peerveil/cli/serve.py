"""``peerveil serve``: the console, the five rooms in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from peerveil.cli.base import Debug, example
from peerveil.errors import BadInput

EPILOG = example("peerveil serve", "peerveil serve --port 9000 --folder iclr-2026")


def serve(
    host: Annotated[
        str, typer.Option(help="The address to listen on; others than this machine's need people to sign in.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes any free one.", min=0, max=65_535)] = 8000,
    db: Annotated[
        str | None,
        typer.Option(
            help="Where the console keeps its tables: a SQLite file, or postgresql://user@host/database.",
            envvar="PEERVEIL_CONSOLE_DB",
            show_default="console.db in the folder",
        ),
    ] = None,
    folder: Annotated[Path, typer.Option(help="Where files, runs and the ledger are kept.")] = Path("peerveil-console"),
    sign_in: Annotated[bool, typer.Option("--sign-in", help="Have everybody sign in, even on this machine.")] = False,
    https: Annotated[
        bool, typer.Option("--https", help="A server with TLS stands in front: send cookies over it only.")
    ] = False,
    data_folder: Annotated[
        Path | None, typer.Option(help="Files in this folder may be named instead of uploaded.", show_default=False)
    ] = None,
    upload_limit: Annotated[int, typer.Option(help="The largest upload, in megabytes.", min=1, max=100_000)] = 200,
    row_limit: Annotated[int, typer.Option(help="The most rows that a table may have.", min=1)] = 5_000_000,
    memory_limit: Annotated[
        int, typer.Option(help="The most memory that reading a table may take, in megabytes, by estimate.", min=1)
    ] = 4_000,
    gateway: Annotated[
        str | None,
        typer.Option(
            help="The gateway's database, for its operator's page.", envvar="PEERVEIL_GATEWAY_DB", show_default=False
        ),
    ] = None,
    collect: Annotated[
        str | None,
        typer.Option(
            help="The collection's database.", envvar="PEERVEIL_COLLECT_DB", show_default="collect.db in the folder"
        ),
    ] = None,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Open the five rooms in a browser: on this machine, for one person, unless you say otherwise."""
    from peerveil.extras import need

    need("services")
    from peerveil.console import Settings
    from peerveil.console.web import is_local, run_console
    from peerveil.services import Journal

    if data_folder is not None and not data_folder.is_dir():
        raise BadInput("--data-folder", got=str(data_folder), want="a folder that exists")
    settings = Settings.make(
        folder,
        db,
        sign_in=sign_in or not is_local(host),
        https=https,
        data_folder=data_folder,
        upload_limit=upload_limit * 1_000_000,
        row_limit=row_limit,
        memory_limit=memory_limit * 1_000_000,
        gateway=gateway,
        collect=collect,
    )
    run_console(settings, host, port, Journal("console"), say=typer.echo)
