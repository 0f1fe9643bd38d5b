"""What every command shares: the application, ``--json``, ``--debug``, errors and exit codes."""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from peerveil import __version__
from peerveil.errors import BadInput, PeerveilError, Verbatim
from peerveil.result import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes

CHECK_FAILED: Final = 1
BAD_INPUT: Final = 2
BUDGET_EXCEEDED: Final = 3
INTERNAL: Final = 70
INTERRUPTED: Final = 130

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel="Everywhere")]
Debug = Annotated[
    bool, typer.Option("--debug", help="On an error, show the whole traceback.", rich_help_panel="Everywhere")
]

Column = Annotated[
    list[str] | None,
    typer.Option(
        "--column", help="A column of ours and its name in the file, such as paper='Paper #'; as often as needed."
    ),
]
NOT_COUNTED: Final = (
    "no ledger was named, so nobody counts this: every further release adds to what is given away "
    "(--ledger FILE --account NAME; `peerveil ledger open` makes one)"
)
Force = Annotated[bool, typer.Option("--force", help="Replace a file that exists.")]

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


def columns_named(given: Sequence[str] | None) -> dict[str, str] | None:
    """What ``--column ours=theirs``, given any number of times, says; ``None`` if it was not given."""
    if not given:
        return None
    named = {}
    for text in given:
        ours, separator, theirs = text.partition("=")
        if not separator or not ours.strip() or not theirs.strip():
            raise BadInput("--column", got=text, want="ours=theirs, such as paper=submission")
        named[ours.strip()] = theirs.strip()
    return named


def check_spending(ledger: str | None, account: str | None, seed: int | None) -> None:
    """Refuse a ledger without an account, an account without a ledger, and a simulation that would be entered."""
    if (ledger is None) is not (account is None):
        raise BadInput("--account", got=account, want="both --ledger and --account, or neither")
    if seed is not None and ledger is not None:
        raise BadInput("--seed", got=seed, want="no seed with a ledger: a simulation can never be entered")


def check_new(path: Path | None, force: bool, *, name: str = "", cost: str = "") -> None:
    """Refuse to write over a file, unless told; ``cost`` says what doing it again costs beside the file."""
    if path is not None and path.exists() and not force:
        want = f"a new name, or --force to replace it{cost}"
        raise BadInput(
            name or str(path), got=Verbatim(f"a file that exists ({path})" if name else "a file that exists"), want=want
        )


def check_folder(out: Path) -> None:
    """Refuse a folder that cannot be written to, before anything is spent."""
    place = next(path for path in (out, *out.parents) if path.exists())
    if not place.is_dir() or not os.access(place, os.W_OK):
        raise BadInput("--out", got=str(out), want="a folder that can be written to")


def check_keeps(source: str | Path, *written: Path) -> None:
    """Refuse to write results over the file that they are computed from."""
    for path in written:
        if path.resolve() == Path(source).resolve():
            raise BadInput("--out", got=str(path.parent), want=f"another folder: {path.name} there is what is read")


def write_picture(plot: Callable[[Axes], Axes], path: Path, words: str, *, private: bool = False) -> Path:
    """A picture in a file of its own: on white, in dark ink."""
    from peerveil.files import write_text
    from peerveil.report import new_axes, safe_svg

    picture = safe_svg(lambda: plot(new_axes(height=4)[0]), words)
    return write_text(path, picture.alone(), private=private)


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
        collect,
        data,
        demo,
        gateway,
        ledger,
        rankings,
        release,
        reproduce,
        serve,
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
    app.command("serve", epilog=serve.EPILOG, rich_help_panel="Start here")(serve.serve)
    app.add_typer(data.app, rich_help_panel="Data")
    for room in (release, timing, calibration, rankings, truth):
        app.add_typer(room.app, rich_help_panel="Rooms")
    app.add_typer(gateway.app, rich_help_panel="Services")
    app.add_typer(collect.app, rich_help_panel="Services")
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
        if (
            type(error).__name__ == "NoArgsIsHelpError"
        ):  # a group without a command: its help is printed, and that says it all
            return BAD_INPUT
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
    if isinstance(error, ModuleNotFoundError) and not str(error.name).startswith("peerveil"):
        from peerveil.extras import MissingExtra, missing_parts

        for extra in ("services", "spark"):
            if gone := missing_parts(extra):
                return str(MissingExtra(extra, gone)), "MissingExtra", BAD_INPUT
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
