"""``peerveil gateway token`` and ``tokens``: issue, list and revoke."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from peerveil.cli.base import PATH, CommandGroup, argument, emit, print_table
from peerveil.cli.gateway_options import with_gateway
from peerveil.core.errors import BadInput
from peerveil.core.files import regular_file
from peerveil.study.spelling import require

if TYPE_CHECKING:
    from peerveil.web import gateway as service

commands = CommandGroup()


@commands.command("token", examples=["peerveil gateway token --space forum --role author --actor user-17"])
@click.option("--space", required=True, help="Space that the token is for; '*' for an operator of all spaces.")
@click.option(
    "--role",
    type=click.Choice(["author", "reader", "operator", "platform"]),
    required=True,
    help="What the token allows. A platform posts for its users.",
)
@click.option("--actor", help="For authors: the person's account on your platform.")
@click.option("--actors", type=PATH, metavar="FILE", help="For many authors: a file with one account per line.")
@with_gateway
def token(
    gateway: service.Gateway, space: str, role: str, actor: str | None, actors: Path | None, as_json: bool
) -> None:
    """Create a token. It is shown once; the database keeps only its hash.

    With --actors, one token per author, all together: accounts and tokens are written as CSV.
    """
    require(actors is None or actor is None, "--actors", got=str(actors), want="either --actor or --actors")
    if actors is None:
        token = gateway.issue_token(role=role, space=space, actor=actor or "")
        emit({"token": token, "role": role, "space": space}, as_json, token)
        return
    names = [line for line in _read_lines(actors, "--actors") if line]
    require(names, "--actors", got=str(actors), want="a file with one account per line")
    rows = list(zip(names, gateway.issue_tokens(role=role, space=space, actors=names), strict=True))
    data = [{"actor": name, "token": token, "role": role, "space": space} for name, token in rows]
    emit(data, as_json, lambda: _print_csv([("actor", "token"), *rows]))


def _print_csv(rows: list[tuple[str, str]]) -> None:
    csv.writer(sys.stdout).writerows(rows)


def _read_lines(path: Path, argument: str) -> list[str]:
    try:
        return [line.strip() for line in regular_file(path, argument).read_text(encoding="utf-8-sig").splitlines()]
    except UnicodeDecodeError:
        raise BadInput(argument, got=str(path), want="a text file in UTF-8") from None


@commands.group("tokens", cls=CommandGroup)
def tokens() -> None:
    """List and revoke tokens."""


@tokens.command("list", examples=["peerveil gateway tokens list"])
@with_gateway
def tokens_list(gateway: service.Gateway, as_json: bool) -> None:
    """List tokens by id, with role, space and account. The tokens themselves are not kept."""
    rows = gateway.tokens.read_all()
    columns = ("id", "role", "space", "actor", "state")
    data = [dict(zip(columns, (row.id, row.role, row.scope, row.actor, row.state), strict=True)) for row in rows]
    emit(data, as_json, lambda: print_table(columns, [list(row.values()) for row in data]))


@tokens.command("revoke", examples=["peerveil gateway tokens revoke 26a1b2c3d4e5f607"])
@argument("token_id", metavar="ID", help="Id of the token, as `tokens list` shows it.")
@with_gateway
def tokens_revoke(gateway: service.Gateway, token_id: str, as_json: bool) -> None:
    """Make a token worthless. Running servers know within half a minute."""
    require(gateway.revoke_token(token_id), "ID", got=token_id, want="an id that `peerveil gateway tokens list` shows")
    emit({"revoked": token_id}, as_json, f"revoked {token_id}")
