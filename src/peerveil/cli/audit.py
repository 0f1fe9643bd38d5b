"""``peerveil audit``: privacy guarantees against measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from peerveil.cli.actions import add_actions
from peerveil.cli.base import CommandGroup, debug_option, emit, json_option, print_table

if TYPE_CHECKING:
    from peerveil.audit.cases import Case


@click.group(cls=CommandGroup)
def audit() -> None:
    """Test privacy guarantees by sampling, and show that broken mechanisms are detected."""


add_actions(audit, "audit")


@audit.command("list", examples=["peerveil audit list", "peerveil audit list --json"])
@json_option
@debug_option
def list_(as_json: bool) -> None:
    """List every audit case: its name, its module and what is claimed. Nothing is sampled."""
    from peerveil.audit.cases import response_losses
    from peerveil.study.audit import audit_cases, broken_cases

    honest, broken = audit_cases(), broken_cases()

    def claim(case: Case) -> str:
        return f"{case.guarantee.notion.value}, epsilon {case.guarantee.epsilon:g}, for {case.guarantee.unit}"

    def tables() -> None:
        columns = ("name", "module", "claimed")
        rows = [(case.name, module, claim(case)) for module, case in honest]
        print_table(columns, rows, title="Guarantees")
        print_table(
            (*columns, "what is wrong"),
            [(case.name, module, claim(case), case.fault) for module, case in broken],
            title="Deliberately broken mechanisms, which the audit must detect",
        )
        pairs = len(list(response_losses()))
        click.echo(f"Randomized response is also checked exactly, for {pairs} pairs of epsilon and class count.")

    rows = [
        {"name": case.name, "module": module, "claimed": case.guarantee.to_dict(), "fault": case.fault}
        for module, case in [*honest, *broken]
    ]
    emit(rows, as_json, tables)
