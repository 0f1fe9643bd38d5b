"""``peerveil ledger``: accounts, what was spent, what remains."""

from __future__ import annotations

from pathlib import Path

import click

import peerveil
from peerveil.cli.base import (
    CHECK_FAILED,
    CommandGroup,
    account_option,
    argument,
    emit,
    force_option,
    out_option,
    print_table,
    stop_with,
)
from peerveil.core.files import check_out, write_text

_ledger_argument = argument(
    "ledger",
    envvar="PEERVEIL_LEDGER",
    default="peerveil-ledger.db",
    help="A SQLite file, or postgresql://user@host/database.",
)


@click.group(cls=CommandGroup)
def ledger() -> None:
    """Keep privacy budgets: accounts, what was spent on which data, what remains."""


@ledger.command(
    "add-account", examples=["peerveil ledger add-account peerveil-ledger.db --account iclr-2026 --epsilon 1"]
)
@_ledger_argument
@account_option(required=True)
@click.option(
    "--epsilon",
    required=True,
    help="Total privacy budget (epsilon) of the account, for example 1, 0.5 or 1/3. It cannot be changed later.",
)
def add_account(ledger: str, account: str, epsilon: str, as_json: bool) -> None:
    """Add an account with a privacy budget. The ledger is created if it does not exist.

    Adding an account again with the same budget changes nothing; another budget is an error.
    """
    with peerveil.Ledger.open(ledger) as book:
        opened = book.account(account, epsilon=epsilon)
        emit(opened.to_dict(), as_json, str(opened.statement()))


@ledger.command("show", examples=["peerveil ledger show peerveil-ledger.db --account iclr-2026"])
@_ledger_argument
@account_option(show_default="all accounts")
def show(ledger: str, account: str | None, as_json: bool) -> None:
    """Show accounts, their entries, and what remains."""
    with peerveil.Ledger.open(ledger, create=False) as book:
        accounts = book.accounts() if account is None else [book.account(account)]

        def tables() -> None:
            if not accounts:
                click.echo("no accounts yet: peerveil ledger add-account ... makes one")
            for shown in accounts:
                rows = [
                    (row["entry"], row["when"], row["purpose"], row["epsilon"], row["debited"], row["remaining"])
                    for row in book.table(shown.name)
                ]
                if rows:
                    columns = ("#", "when", "purpose", "epsilon", "debited", "then remaining")
                    print_table(columns, rows, title=f"account {shown.name!r}")
                click.echo(f"{shown.statement()}\n")

        emit([shown.to_dict() for shown in accounts], as_json, tables)


@ledger.command("verify", examples=["peerveil ledger verify peerveil-ledger.db"])
@_ledger_argument
def verify(ledger: str, as_json: bool) -> None:
    """Check that no entry was changed, removed or added outside the ledger; exit code 1 if one was."""
    with peerveil.Ledger.open(ledger, create=False) as book:
        verdict = book.verify()
    emit({"ok": verdict.ok, "found": str(verdict)}, as_json, str(verdict))
    if not verdict.ok:
        stop_with(CHECK_FAILED)


@ledger.command(
    "export",
    examples=[
        "peerveil ledger export peerveil-ledger.db > ledger.json",
        "peerveil ledger export peerveil-ledger.db --out out/ledger",
    ],
)
@_ledger_argument
@out_option(show_default="JSON to standard output")
@force_option
def export(ledger: str, out: Path | None, force: bool, as_json: bool) -> None:
    """Write the whole ledger as JSON (exact, can be verified) and CSV (a table). The secret key is never exported.

    Without --out, the JSON is printed.
    """
    if out is not None:
        check_out(out, force)
    with peerveil.Ledger.open(ledger, create=False) as book:
        text, table = book.to_json(indent=2), book.to_csv()
    if out is None:
        click.echo(text)
        return
    written = [write_text(out / "ledger.json", text), write_text(out / "ledger.csv", table)]
    emit({"written": written}, as_json, "\n".join(f"written: {path}" for path in written))
