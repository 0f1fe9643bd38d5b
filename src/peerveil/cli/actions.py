"""Commands made from the declarations of :mod:`peerveil.study.actions`: options, help, checks and output of every action.

Options take text, so that a value is checked once, by its declaration, and refused in one style.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from peerveil.cli.base import CHECK_FAILED, emit, print_table
from peerveil.cli.options import (
    ACCOUNT,
    COLUMN,
    DEBUG,
    FORCE,
    FORMAT,
    JSON,
    KIND,
    LAYOUT,
    LEDGER,
    SEED,
    TIME_ZONE,
    out_option,
)
from peerveil.errors import BadInput
from peerveil.study.actions import Action, Parameter, actions_of
from peerveil.study.inputs import Source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from peerveil.study.execute import Executed

NOT_COUNTED: Final = (
    "note: no ledger was named, so this release is not counted; every further release from the same data reveals more "
    "(--ledger FILE --account NAME; `peerveil ledger add-account` makes one)"
)


class ModuleGroup(click.Group):
    """The commands of one module, each made when it is asked for."""

    def __init__(self, module: str, help: str, **more: Any) -> None:  # noqa: A002
        super().__init__(module, help=help, no_args_is_help=True, **more)
        self.module = module

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Actions in the order of their declaration, then hand-written commands."""
        return [*actions_of(self.module), *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of an action, or a hand-written one."""
        kind = actions_of(self.module).get(cmd_name)
        return super().get_command(ctx, cmd_name) if kind is None else command(kind)


def command(kind: type[Action[Any]]) -> click.Command:
    """The command of an action."""
    parameters: list[click.Parameter] = []
    if kind.kinds:
        parameters.append(click.Argument(["file"], metavar="FILE"))
    parameters += [_option(parameter) for parameter in kind.parameters()]
    parameters += [option for option, is_wanted in _common(kind) if is_wanted]
    reads = (
        f"\n\nFILE holds {' or '.join(kind.kinds)}: CSV, Parquet, JSON lines or an export of a platform."
        if kind.kinds
        else ""
    )
    publishes = f"May be published: {kind.publishes}." if kind.publishes else "Nothing of this may be published."
    operator = f" For the operator only: {kind.operator}." if kind.operator else ""
    examples = "\n".join(f"  peerveil {kind.module()} {kind.verb()} {arguments}" for arguments in kind.examples)
    return click.Command(
        kind.verb(),
        params=parameters,
        callback=lambda **given: _run(kind, given),
        short_help=kind.about,
        help="\n\n".join(part for part in (kind.about, kind.details, f"{publishes}{operator}") if part) + reads,
        epilog=f"\b\nExamples:\n{examples}" if examples else None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def _option(parameter: Parameter) -> click.Option:
    """One parameter as an option."""
    names = [f"{parameter.flag}/--no-{parameter.flag[2:]}" if parameter.is_flag else parameter.flag, parameter.name]
    want = "" if parameter.is_flag else f" {parameter.want[0].upper()}{parameter.want[1:]}."
    state = " [required]" if parameter.required else ""
    if not parameter.required and parameter.default not in (None, ()):
        state = f" [default: {parameter.text(parameter.default)}]"
    return click.Option(
        names,
        default=None,
        multiple=parameter.many,
        is_flag=parameter.is_flag,
        metavar=None if parameter.is_flag else "|".join(parameter.choices) or "VALUE",
        help=f"{parameter.setting.help}{want}{' Repeatable.' if parameter.many else ''}{state}",
        shell_complete=lambda _context, _option, typed: [word for word in parameter.choices if word.startswith(typed)],
    )


def _common(kind: type[Action[Any]]) -> list[tuple[click.Option, bool]]:
    """The options that mean the same in every command, and whether this one has them."""
    own_seed = any(parameter.name == "seed" for parameter in kind.parameters())
    return [
        (KIND(kind.kinds), len(kind.kinds) > 1),
        (COLUMN(), bool(kind.kinds)),
        (FORMAT(), bool(kind.kinds)),
        (TIME_ZONE(), "events" in kind.kinds),
        (LAYOUT(), "rankings" in kind.kinds),
        (LEDGER(), kind.spends),
        (ACCOUNT(), kind.spends),
        (SEED(), kind.spends and not own_seed),
        (out_option(f"out/{kind.module()}-{kind.verb()}"), True),
        (FORCE(), True),
        (JSON(), True),
        (DEBUG(), True),
    ]


def _run(kind: type[Action[Any]], given: dict[str, Any]) -> None:
    """Check the settings, run the action and show what came of it."""
    from peerveil.progress import progress_callback
    from peerveil.study.execute import execute

    texts = {parameter.name: _given(parameter, given[parameter.name]) for parameter in kind.parameters()}
    flags = {parameter.name: parameter.flag for parameter in kind.parameters()}
    action = kind.check(
        {name: value for name, value in texts.items() if value is not None},
        place=lambda name: flags.get(name, f"--{name}"),
    )
    source = None
    reading: dict[str, Any] = {"columns": _columns(given.get("column") or ())}
    if kind.kinds:
        reading |= {name: given.get(name) for name in ("format", "time_zone", "layout")}
        source = Source(Path(given["file"]), given.get("kind"), **reading)
    others = {
        parameter.name: [
            Source(Path(path), columns=reading["columns"])
            for path in (getattr(action, parameter.name) if parameter.many else [getattr(action, parameter.name)])
        ]
        for parameter in kind.parameters()
        if parameter.refers is not None and parameter.refers.kind is not None and getattr(action, parameter.name)
    }
    own = {name: given.get(name) for name in ("ledger", "account", "seed") if name not in flags}
    with progress_callback(kind.about) as progress:
        done = execute(action, source, given["out"], others=others, force=given["force"], progress=progress, **own)
    counted = not kind.spends or own.get("ledger") is not None or own.get("seed") is not None
    emit(_data(kind, done), given["as_json"], lambda: _show(done, counted))
    if done.outcome.failed:
        raise click.exceptions.Exit(CHECK_FAILED)


def _given(parameter: Parameter, value: Any) -> Any:
    """An option's text; None if it was not given."""
    if parameter.many:
        return parameter.from_text(",".join(value)) if value else None
    return value


def _columns(given: Sequence[str]) -> dict[str, str]:
    """What ``--column ours=theirs``, given any number of times, says."""
    columns = {}
    for text in given:
        ours, separator, theirs = text.partition("=")
        if not separator or not ours.strip() or not theirs.strip():
            raise BadInput("--column", got=text, want="ours=theirs, such as paper=submission")
        columns[ours.strip()] = theirs.strip()
    return columns


def _data(kind: type[Action[Any]], done: Executed) -> dict[str, Any]:
    """The result for programs."""
    outcome = done.outcome
    return {
        "action": kind.name,
        "answer": outcome.answer,
        "found": outcome.found,
        "results": outcome.results,
        "guarantee": outcome.guarantee,
        "guarantee_in_words": outcome.promise,
        "mark": outcome.mark,
        "operator_only": {
            "answer": outcome.private_answer,
            "found": [line if isinstance(line, str) else " ".join(line.paragraphs()) for line in outcome.private_found],
            "results": outcome.private_results,
        },
        "written": [str(path) for path, _ in done.written],
        "may_be_published": [str(path) for path, is_public in done.written if is_public],
    }


def _show(done: Executed, counted: bool) -> None:
    """The result for people: the answer first."""
    outcome = done.outcome
    mark = f" [{outcome.mark}]" if outcome.mark else ""
    if outcome.answer:
        click.echo(f"{outcome.answer}{mark}\n")
    for text in outcome.found:
        if text != outcome.answer:
            click.echo(text)
    for table in outcome.tables:
        print_table(table.columns, table.rows)
    if outcome.promise:
        click.echo(f"\nGuarantee: {outcome.promise_short or outcome.promise}")
    if outcome.attack:
        click.echo("What an attacker could still do: " + " ".join(outcome.attack))
    private = [outcome.private_answer] if outcome.private_answer else []
    for line in outcome.private_found:
        private += [line] if isinstance(line, str) else line.paragraphs()
    if private:
        click.echo("\nFor the operator only, not for publication:")
        click.echo("\n".join(dict.fromkeys(private)))
    click.echo("")
    for path, is_public in done.written:
        click.echo(f"written{'' if is_public else ', not for publication'}: {path}")
    if not counted:
        click.echo(NOT_COUNTED)
