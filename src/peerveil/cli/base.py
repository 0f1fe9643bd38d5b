"""What every command shares: help pages, options, output, errors and exit codes.

Commands are plain click. The application knows the name and the one-line help of each command and imports its file when it is
called; a command imports what does its work inside its body. So help is fast, and a missing extra matters only where it is used.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

import click

from peerveil import __version__
from peerveil.core.errors import BadInput, PeerveilError, Verbatim
from peerveil.core.lazy import import_lazily

CHECK_FAILED: Final = 1
BAD_INPUT: Final = 2
BUDGET_EXCEEDED: Final = 3
INTERNAL: Final = 70
INTERRUPTED: Final = 130

Sections: TypeAlias = Mapping[str, Mapping[str, str]]
"""The one-line help of every command of a group, by section and name."""
_COMMON: Final = {"--json", "--debug", "--help"}  # listed last, in a section of their own


class Argument(click.Argument):
    """A positional argument with help, which click has only since version 8.5."""

    def __init__(self, *arguments: Any, help: str = "", **settings: Any) -> None:  # noqa: A002
        super().__init__(*arguments, **settings)
        self.help: str = help
        self._default = settings.get("default")

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:  # noqa: ARG002
        """The name, and the help with environment variable and default."""
        name = self.human_readable_name
        notes = [f"env var: {self.envvar}"] if self.envvar else []
        notes += [f"default: {self._default}"] if self._default else []
        return name if self.required else f"[{name}]", self.help + (f"  [{'; '.join(notes)}]" if notes else "")


class Command(click.Command):
    """A command whose help has sections for arguments, options and common options, and ends with examples.

    Every command has ``--debug``, and whatever takes ``as_json`` also has ``--json``; groups of commands have neither.
    """

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.examples = examples
        takes_json = self.callback is not None and "as_json" in inspect.signature(self.callback).parameters
        self.params += [JSON_OPTION] if takes_json else []
        self.params += [DEBUG_OPTION] if takes_json or not isinstance(self, click.Group) else []

    def get_help_option_names(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """In every context the same: click keeps the option that it makes first."""
        return ["-h", "--help"]

    def format_arguments(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Nothing: arguments are written with the options (called since click 8.5)."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write all parameters, in sections."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], "Common options": []}
        for parameter in self.get_params(ctx):
            title = "Common options" if _COMMON.intersection(parameter.opts) else "Options"
            if record := parameter.get_help_record(ctx):
                sections["Arguments" if isinstance(parameter, click.Argument) else title].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the examples, each on one line, so that it can be copied."""
        if self.examples:
            with formatter.section("Example"):
                for line in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")


class CommandGroup(Command, click.Group):
    """A group of commands, such as ``peerveil ledger``. Called without a command, it prints its help: exit code 2."""

    command_class = Command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Print the help if there are no arguments; else parse as click does."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            ctx.exit(BAD_INPUT)
        return super().parse_args(ctx, args)

    def listed(self) -> Sections:
        """The one-line help of every command, by section and name."""
        return {"Commands": {name: command.get_short_help_str(200) for name, command in self.commands.items()}}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names in the order in which they were declared."""
        return [name for section in self.listed().values() for name in section]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each command's name and help, in sections, then the options."""
        width = max(len(name) for name in self.list_commands(ctx))
        for title, section in self.listed().items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", text) for name, text in section.items()])
        super().format_options(ctx, formatter)


class LazyGroup(CommandGroup):
    """A group that builds a command when it is called, by ``load``; its help needs only the names and helps in ``sections``."""

    def __init__(
        self, *arguments: Any, sections: Sections, load: Callable[[str], click.Command], **settings: Any
    ) -> None:
        super().__init__(*arguments, **settings)
        self.sections, self._load = sections, load

    def listed(self) -> Sections:
        """The sections as they were given."""
        return self.sections

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Build a command."""
        return self._load(cmd_name) if cmd_name in self.list_commands(ctx) else None


# ---- options, each declared once -------------------------------------------------------------------------------------

PATH: Final = click.Path(readable=False, path_type=Path)
# what files can be read as (peerveil.data.readers, which is not imported for help)
FORMATS: Final = (
    "csv",
    "tsv",
    "jsonl",
    "parquet",
    "openreview",
    "hotcrp",
    "easychair",
    "preflib",
    "mediawiki",
    "mturk",
    "toloka",
)


def _wants_json(ctx: click.Context, _: click.Parameter, value: bool) -> bool:
    """``peerveil --json ledger show`` is the same as ``peerveil ledger show --json``."""
    return value or bool(ctx.find_root().params.get("as_json"))


JSON_OPTION = click.Option(["--json", "as_json"], is_flag=True, callback=_wants_json, help="Print the result as JSON.")
DEBUG_OPTION = click.Option(["--debug"], is_flag=True, expose_value=False, help="Show the traceback of an error.")
force_option = click.option("--force", is_flag=True, help="Replace existing files.")
seed_option = click.option(
    "--seed", type=int, help="Use a fixed seed for a repeatable simulation. The result is marked as not private."
)
ledger_option = click.option(
    "--ledger",
    envvar="PEERVEIL_LEDGER",
    show_envvar=True,
    help="Ledger to debit: a SQLite file, or postgresql://user@host/database.",
)
column_option = click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="OURS=THEIRS",
    callback=lambda _context, _option, given: columns_named(given),
    help="Map one of our columns to its name in the file, for example paper='Paper #'. Repeatable.",
)
format_option = click.option(
    "--format", "format_", type=click.Choice(FORMATS), show_default="recognized", help="File format."
)
time_zone_option = click.option(
    "--time-zone", metavar="ZONE", show_default="UTC", help="Zone of times that have none, for example Europe/Zurich."
)


# what takes further settings of click, such as a default
argument: Final = partial(click.argument, cls=Argument)
out_option: Final = partial(click.option, "--out", type=PATH, metavar="FOLDER", help="Folder to write to.")
account_option: Final = partial(click.option, "--account", help="Account in the ledger.")
data_seed_option: Final = partial(
    click.option, "--seed", type=int, help="Seed of the synthetic data. The same seed gives the same data."
)
kind_option: Final = partial(click.option, "--kind", show_default="recognized", help="Table to read the file as.")


def columns_named(given: Sequence[str]) -> dict[str, str] | None:
    """The columns of ``--column ours=theirs``, given any number of times; ``None`` if it was not given."""
    named = {}
    for text in given:
        ours, _, theirs = (part.strip() for part in text.partition("="))
        if not ours or not theirs:
            raise BadInput("--column", got=text, want="ours=theirs, such as paper=submission")
        named[ours] = theirs
    return named or None


def check_file(path: Path, force: bool, *, name: str = "--to") -> None:
    """Refuse to replace a file without ``--force``."""
    if path.exists() and not force:
        got = Verbatim(f"a file that exists ({path})")
        raise BadInput(name, got=got, want="a new name, or --force to replace the file")


# ---- output ----------------------------------------------------------------------------------------------------------


def emit(data: Any, as_json: bool, text: str | Callable[[], None]) -> None:
    """Print a result: as JSON for programs, as text (or through a function that prints) for people."""
    if as_json:
        from peerveil.core.result import plain

        click.echo(json.dumps(plain(data), indent=2, ensure_ascii=False, allow_nan=False))
    elif isinstance(text, str):
        click.echo(text)
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
    click.echo(captured.get(), nl=False)


def stop_with(code: int) -> NoReturn:
    """End the command with an exit code."""
    raise click.exceptions.Exit(code)


# ---- the application -------------------------------------------------------------------------------------------------

_MODULES: Final = {
    "release": "Publish the distribution of reviewer scores with differential privacy",
    "timing": "Measure what posting times reveal about people, and delay posts to hide it",
    "calibration": "Correct decisions for reviewer strictness without revealing reviewers",
    "rankings": "Test whether rankings differ from chance, with differential privacy",
    "truth": "Infer correct labels from randomized answers",
}
_SECTIONS: Final = {
    "Start here": {
        "demo": "Analyze a synthetic conference from start to finish and write a report",
        "new": "Look at your data and print a commented study file to start from",
        "run": "Check a study, ask before spending, run it, and write its results and a report",
        "schema": "Print a JSON schema of study files, for editors",
    },
    "Data": {"data": "Check data files, and make synthetic ones"},
    "Modules": _MODULES,
    "Services": {
        "console": "Use all modules in a browser",
        "gateway": "Run a posting service that publishes each post after a random delay",
        "collect": "Collect answers that are randomized before they leave people's devices",
    },
    "Trust": {
        "ledger": "Keep privacy budgets: accounts, what was spent on which data, what remains",
        "audit": "Test privacy guarantees by sampling, and show that broken mechanisms are detected",
        "reproduce": "Reproduce the figures and tables of the papers, next to our own methods",
    },
}
# every other command has a file of its own name
_FILES: Final = dict.fromkeys(("demo", "new", "run", "schema"), "study")


def build_app() -> LazyGroup:
    """The whole application; no command is imported before it is called."""

    def load(name: str) -> click.Command:
        if name in _MODULES:
            from peerveil.cli.actions import module_group

            return module_group(name, _MODULES[name])
        command: click.Command = getattr(import_module(f"peerveil.cli.{_FILES.get(name, name)}"), name)
        return command

    @click.version_option(__version__, message="peerveil %(version)s", help="Show the version.")
    def root(as_json: bool) -> None:
        pass

    return click.command(
        "peerveil",
        cls=LazyGroup,
        sections=_SECTIONS,
        load=load,
        help="Collect, post, decide, test and release human judgments without exposing the people who made them.",
        examples=("peerveil demo", "peerveil data check reviews.csv", "peerveil audit run"),
        context_settings={"max_content_width": 100, "show_default": True},
    )(root)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and end the process with its exit code."""
    command_line = list(sys.argv[1:] if arguments is None else arguments)
    import_lazily("polars")
    if os.environ.get("_PEERVEIL_COMPLETE"):  # a shell asks for completions; see docs/cli.md
        build_app().main(command_line, prog_name="peerveil")
    sys.exit(run(command_line, debug="--debug" in command_line, as_json="--json" in command_line))


def run(command_line: list[str], *, debug: bool, as_json: bool) -> int:
    """Run a command and return its exit code; every error becomes one readable line."""
    try:
        code = build_app().main(command_line, prog_name="peerveil", standalone_mode=False)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except (BrokenPipeError, SystemExit):  # the latter is how click reports the former; nothing else raises it here
        # the reader of our output went away (as `head` does): not an error, and nothing more can be said
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if debug:
            traceback.print_exception(error)
        message, kind, code = _explained(error)
        as_data = json.dumps({"error": kind, "message": message}, ensure_ascii=False)
        click.echo(as_data if as_json else f"error: {message}", err=True)
        return code
    return code if isinstance(code, int) else 0


def _explained(error: Exception) -> tuple[str, str, int]:
    """The message, name and exit code of an error."""
    if isinstance(error, click.Abort):
        return "interrupted", "Interrupted", INTERRUPTED
    if isinstance(error, click.ClickException):
        path = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "peerveil"
        message = " ".join(error.format_message().split()).removesuffix(".")
        return f"{message}; try '{path} --help'", "UsageError", BAD_INPUT
    if isinstance(error, PeerveilError):
        codes = {
            ("peerveil.ledger", "BudgetExceeded"): BUDGET_EXCEEDED,
            ("peerveil.audit", "PrivacyViolation"): CHECK_FAILED,
        }
        for (module, name), code in codes.items():  # what was not imported did not raise
            if module in sys.modules and isinstance(error, getattr(sys.modules[module], name)):
                return str(error), type(error).__name__, code
        return str(error), type(error).__name__, BAD_INPUT
    if isinstance(error, ModuleNotFoundError) and not str(error.name).startswith("peerveil"):
        from peerveil.core.optional import extra_with

        if missing := extra_with(str(error.name)):
            return str(missing), "MissingExtra", BAD_INPUT
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}", type(error).__name__, BAD_INPUT
    shown = str(error) or type(error).__name__
    return f"{shown} (an error in peerveil; --debug shows where)", "InternalError", INTERNAL
