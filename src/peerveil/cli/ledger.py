"""``peerveil ledger``: accounts, what was spent, what remains."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from peerveil.cli.base import (
    AsJson,
    Debug,
    Force,
    check_new,
    emit,
    example,
    new_group,
    print_table,
    stop_with_failed_check,
)
from peerveil.errors import BadInput

app = new_group("ledger", "Privacy budgets: accounts, what was spent on which data, what remains.")

Where = Annotated[
    str,
    typer.Argument(
        envvar="PEERVEIL_LEDGER",
        help="A SQLite file, or the address of a PostgreSQL database (postgresql://...).",
        show_default=True,
    ),
]
DEFAULT = "peerveil-ledger.db"


@app.command("open", epilog=example("peerveil ledger open peerveil-ledger.db --account iclr-2026 --epsilon 1"))
def open_account(
    account: Annotated[str, typer.Option(help="The account's name.")],
    epsilon: Annotated[str, typer.Option(help="Its whole budget, for all time: 1, 0.5 or 1/3.")],
    ledger: Where = DEFAULT,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Open an account with a budget. Opening it again with another budget is an error."""
    from peerveil.ledger import Ledger

    with Ledger.open(ledger) as book:
        opened = book.account(account, epsilon=epsilon)
        emit(opened.to_dict(), as_json, str(opened.statement()))


@app.command("show", epilog=example("peerveil ledger show peerveil-ledger.db --account iclr-2026"))
def show(
    ledger: Where = DEFAULT,
    account: Annotated[str | None, typer.Option(help="Only this account.")] = None,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Show accounts, every entry, and what remains."""
    from peerveil.ledger import Ledger

    with Ledger.open(ledger, create=False) as book:
        chosen = book.accounts() if account is None else [book.account(account)]

        def tables() -> None:
            if not chosen:
                typer.echo("no accounts yet: peerveil ledger open ... makes one")
            for one in chosen:
                rows = [
                    (row["entry"], row["when"], row["purpose"], row["epsilon"], row["debited"], row["remaining"])
                    for row in book.table(one.name)
                ]
                if rows:
                    columns = ("#", "when", "purpose", "epsilon", "debited", "then remaining")
                    print_table(columns, rows, title=f"account {one.name!r}")
                typer.echo(f"{one.statement()}\n")

        emit([one.to_dict() for one in chosen], as_json, tables)


@app.command("verify", epilog=example("peerveil ledger verify peerveil-ledger.db"))
def verify(
    ledger: Where = DEFAULT,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Check that no entry was changed, removed or added behind the ledger's back; exit code 1 if one was."""
    from peerveil.ledger import Ledger

    with Ledger.open(ledger, create=False) as book:
        found = book.verify()
    emit({"ok": found.ok, "found": str(found)}, as_json, str(found))
    if not found.ok:
        stop_with_failed_check()


@app.command("export", epilog=example("peerveil ledger export peerveil-ledger.db --to ledger.csv"))
def export(
    ledger: Where = DEFAULT,
    to: Annotated[Path | None, typer.Option(help="A .json or .csv file; standard output if left out.")] = None,
    force: Force = False,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Write the whole ledger as JSON (exact, can be verified) or CSV (a table). The secret key is never exported."""
    from peerveil.files import write_text
    from peerveil.ledger import Ledger

    if to is not None and to.suffix not in {".json", ".csv"}:
        raise BadInput("--to", got=str(to), want="a file that ends in .json or .csv")
    check_new(to, force, name="--to")
    with Ledger.open(ledger, create=False) as book:
        table = to is not None and to.suffix == ".csv"
        text = book.to_csv() if table else book.to_json(indent=2)
    if to is None:
        typer.echo(text)
    else:
        write_text(to, text)
        emit({"written": str(to)}, as_json, f"written: {to}")
