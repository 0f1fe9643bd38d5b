"""Running a command as a user would, and looking at what it printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from peerveil.cli import base

if TYPE_CHECKING:
    import pytest


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    given = [str(a) for a in arguments]
    code = base.run(given, debug="--debug" in given, as_json="--json" in given)
    out, err = capsys.readouterr()
    return code, out, err


def every_command() -> dict[str, click.Command]:
    """All commands of the application by their names, such as ``ledger show``."""
    commands: dict[str, click.Command] = {}

    def walk(command: click.Command, path: tuple[str, ...]) -> None:
        if not isinstance(command, click.Group):
            commands[" ".join(path)] = command
            return
        for name, child in members(command).items():
            walk(child, (*path, name))

    walk(base.build_app(), ())
    return commands


def members(group: click.Group) -> dict[str, click.Command]:
    """The commands of a group by their names."""
    context = click.Context(group)
    found = {name: group.get_command(context, name) for name in group.list_commands(context)}
    return {name: command for name, command in found.items() if command is not None}
