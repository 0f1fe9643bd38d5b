"""What every command shares: the application, ``--json``, ``--debug``, errors and exit codes."""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from peerveil import __version__
from peerveil.errors import BadInput, PeerveilError
from peerveil.result import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CHECK_FAILED: Final = 1
BAD_INPUT: Final = 2
BUDGET_EXCEEDED: Final = 3
INTERNAL: Final = 70
INTERRUPTED: Final = 130

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel="Everywhere")]
Debug = Annotated[
    bool, typer.Option("--debug", help="On an error, show the whole traceback.", rich_help_panel="Everywhere")
]

_HELP_OPTIONS: Final = {"help_option_names": ["-h", "--help"]}


def new_group(name: str, description: str) -> typer.Typer:
    """A command group such as ``peerveil ledger``."""
    return typer.Typer(
        name=name,
        help=description,
        no_args_is_help=True,
        rich_markup_mode="rich",
        context_settings=_HELP_OPTIONS,
        pretty_exceptions_enable=False,
        add_completion=False,
    )


def example(*lines: str) -> str:
    """The example at the end of a command's help."""
    return "[bold]Example[/bold]\n\n" + "\n\n".join(f"  [green]{line}[/green]" for line in lines)


def emit(data: Any, as_json: bool, text: str | Callable[[], None]) -> None:
    """Print a result: as JSON for programs, as text (or through a function that prints) for people."""
    if as_json:
        typer.echo(json.dumps(plain(data), indent=2, ensure_ascii=False, allow_nan=False))
    elif isinstance(text, str):
        typer.echo(text)
    else:
        text()


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, title: str = "") -> None:
    """A table that fits the terminal, or a plain wide one where there is none. Cells are shown as written."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, title=Text(title) if title else None, title_justify="left", header_style="bold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    console = Console() if sys.stdout.isatty() else Console(width=160)
    with console.capture() as captured:  # a closed pipe is then ours to handle, not Rich's
        console.print(table)
    typer.echo(captured.get(), nl=False)


def check_spending(ledger: str | None, account: str | None, seed: int | None) -> None:
    """Refuse a ledger without an account, an account without a ledger, and a simulation that would be entered."""
    if (ledger is None) is not (account is None):
        raise BadInput("--account", got=account, want="both --ledger and --account, or neither")
    if seed is not None and ledger is not None:
        raise BadInput("--seed", got=seed, want="no seed with a ledger: a simulation can never be entered")


def stop_with_failed_check() -> NoReturn:
    """End the command with the exit code of a failed check."""
    raise typer.Exit(CHECK_FAILED)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"peerveil {__version__}")
        raise typer.Exit


def build_app() -> typer.Typer:
    """The whole application. Groups are imported here, so that ``import peerveil.cli`` stays light."""
    from peerveil.cli import (
        audit,
        calibration,
        data,
        demo,
        gateway,
        ledger,
        rankings,
        release,
        reproduce,
        study,
        timing,
        truth,
    )

    app = new_group("peerveil", "Collect, post, decide, test and release human judgements without exposing the humans.")

    @app.callback(epilog=example("peerveil demo", "peerveil data check reviews.csv", "peerveil audit run"))
    def root(
        version: Annotated[
            bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
        ] = False,
        as_json: AsJson = False,
        debug: Debug = False,
    ) -> None:
        pass

    demo.register(app)
    study.register(app)
    app.add_typer(data.app, rich_help_panel="Data")
    for room in (release, timing, calibration, rankings, truth):
        app.add_typer(room.app, rich_help_panel="Rooms")
    app.add_typer(gateway.app, rich_help_panel="Services")
    app.add_typer(ledger.app, rich_help_panel="Trust")
    app.add_typer(audit.app, rich_help_panel="Trust")
    reproduce.register(app)
    return app


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and end the process with its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug, as_json = "--debug" in given, "--json" in given
    sys.exit(run(given, debug=debug, as_json=as_json))


def run(given: list[str], *, debug: bool, as_json: bool) -> int:
    """Run a command and return its exit code; every error becomes one readable line."""
    try:
        code = build_app()(given, prog_name="peerveil", standalone_mode=False)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except (BrokenPipeError, SystemExit):  # the latter is how Click reports the former; nothing else raises it here
        # the reader of our output went away (as `head` does): not an error, and nothing more can be said
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if debug:
            traceback.print_exception(error)
        message, kind, code = _explained(error)
        _say(message, kind, as_json)
        return code
    return code if isinstance(code, int) else 0


def _explained(error: Exception) -> tuple[str, str, int]:
    """What an error is called, says, and ends the process with."""
    if isinstance(error, typer.Abort):
        return "interrupted", "Interrupted", INTERRUPTED
    if isinstance(error, PeerveilError):
        return str(error), type(error).__name__, _exit_code(error)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}", type(error).__name__, BAD_INPUT
    if hasattr(error, "format_message"):  # wrong usage, as Typer's own copy of Click raises it
        hint = "; try 'peerveil --help'"
        return f"{error.format_message()}{hint}", "UsageError", BAD_INPUT
    shown = str(error) or type(error).__name__
    return f"{shown} (an error in peerveil; --debug shows where)", "InternalError", INTERNAL


def _exit_code(error: PeerveilError) -> int:
    from peerveil.audit import PrivacyViolation
    from peerveil.ledger import BudgetExceeded

    match error:
        case BudgetExceeded():
            return BUDGET_EXCEEDED
        case PrivacyViolation():
            return CHECK_FAILED
        case _:
            return BAD_INPUT


def _say(message: str, kind: str, as_json: bool) -> None:
    text = json.dumps({"error": kind, "message": message}, ensure_ascii=False) if as_json else f"error: {message}"
    typer.echo(text, err=True)
