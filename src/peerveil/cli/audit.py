"""``peerveil audit``: privacy guarantees against measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from peerveil.cli.actions import add_actions
from peerveil.cli.base import CommandGroup, emit, print_table
from peerveil.study.audit import SERVICES

if TYPE_CHECKING:
    from peerveil.audit.claims import AnyClaim


@click.group(cls=CommandGroup)
def audit() -> None:
    """Test privacy guarantees by sampling, and show that broken mechanisms are detected."""


add_actions(audit, "audit")
SERVICES.extend(f"peerveil.web.{service}.adversary" for service in ("gateway", "collect"))


@audit.command("list", examples=["peerveil audit list", "peerveil audit list --json"])
def list_(as_json: bool) -> None:
    """List every audited claim: its name, the mechanisms that it covers and what is claimed. Nothing is sampled."""
    from peerveil.audit.claims import registered
    from peerveil.audit.randomness import response_losses
    from peerveil.study.audit import load_claims

    load_claims()
    claims, broken = registered(broken=False), registered(broken=True)

    def tables() -> None:
        columns = ("name", "module", "claimed", "what is wrong")
        covered = [(*_row(claim)[:3], ", ".join(claim.covers)) for claim in claims]
        print_table((*columns[:3], "covers"), covered, title="Guarantees")
        title = "Deliberately broken mechanisms, which the audit must detect"
        print_table(columns, [_row(claim) for claim in broken], title=title)
        pairs = len(list(response_losses()))
        click.echo(f"Randomized response is also checked exactly, for {pairs} pairs of epsilon and class count.")

    rows = [
        {
            "name": claim.name,
            "module": _row(claim)[1],
            "covers": list(claim.covers),
            "claimed": claim.guarantee.to_dict(),
            "fault": claim.fault,
        }
        for claim in [*claims, *broken]
    ]
    emit(rows, as_json, tables)


def _row(claim: AnyClaim) -> tuple[str, str, str, str | None]:
    """Name, module, what is claimed, and what is wrong."""
    guarantee = claim.guarantee
    value = f"error {guarantee.error:.3g}" if guarantee.epsilon is None else f"epsilon {guarantee.epsilon:g}"
    claimed = f"{guarantee.notion.value}, {value}, for {guarantee.unit}"
    return claim.name, claim.covers[0].partition(".")[0], claimed, claim.fault
