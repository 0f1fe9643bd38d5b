"""What the commands of ``peerveil gateway`` share: the options that name a gateway, and opening it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click

from peerveil.cli.base import PATH
from peerveil.core.errors import Verbatim
from peerveil.study.spelling import require
from peerveil.web import gateway as service  # imports its parts on first use

CONFIGURED: Final = "from the configuration"
_UPGRADED: Final = (
    "upgraded from version {} of the tables. Now destroy all backups, replicas and archived logs from before: they link people "
    "to their posts, even without the key"
)


def configured(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--db`` and ``--config`` to a command."""
    database = "Database: a SQLite file, or postgresql://user@host/database."
    config = click.option(
        "--config",
        type=PATH,
        envvar="PEERVEIL_GATEWAY_CONFIG",
        show_envvar=True,
        show_default="gateway.toml",
        help="Configuration file (TOML).",
    )
    return click.option("--db", show_default=CONFIGURED, help=database)(config(command))


def with_gateway(command: Callable[..., None]) -> Callable[..., None]:
    """Add the same options to a command that takes the opened gateway in their place."""

    @wraps(command)
    def run(db: str | None, config: Path | None, **options: Any) -> None:
        with opened(read_settings(config, db)) as gateway:
            command(gateway, **options)

    return configured(run)


def read_settings(config: Path | None, db: str | None) -> service.GatewaySettings:
    """The settings of the file, the environment and the command line."""
    from peerveil.storage import Address
    from peerveil.web.gateway.settings import PREFIX

    want = f"an address without one: everybody on this machine can read it. Use PGPASSWORD, ~/.pgpass or {PREFIX}_DB"
    require(
        db is None or not Address.read(db).has_password, "--db", got=Verbatim("an address with a password"), want=want
    )
    return service.GatewaySettings.find(config, db)


def require_spaces(gateway: service.Gateway) -> None:
    """Refuse to serve nothing: a configuration was forgotten."""
    want = "at least one space in gateway.toml: run `peerveil gateway init`, which writes an example"
    require(gateway.spaces, "spaces", got=Verbatim("none"), want=want)


@contextmanager
def opened(settings: service.GatewaySettings, *, create: bool = False) -> Iterator[service.Gateway]:
    """The gateway; with ``create``, its database and spaces are made as configured."""
    with service.Gateway(settings.db, settings.vault(), create=create, watch=settings.watch()) as gateway:
        gateway.relay_host = settings.relay_host
        if gateway.database.upgraded_from is not None:
            click.echo(_UPGRADED.format(gateway.database.upgraded_from), err=True)
        if create:
            settings.configure(gateway)
        yield gateway
