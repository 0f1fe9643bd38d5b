"""Commands made from the declarations of :mod:`peerveil.study.actions`: options, help, checks and output of every action.

Options take text, so that a value is checked once, by its declaration, and refused in one style.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from peerveil.cli import base
from peerveil.study.actions import actions_of
from peerveil.study.execute import Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from peerveil.study.actions import Action, Parameter
    from peerveil.study.execute import Executed
    from peerveil.study.outcome import TableOf

NOT_COUNTED: Final = (
    "note: no ledger was named, so this release is not counted; every further release from the same data reveals more "
    "(--ledger FILE --account NAME; `peerveil ledger add-account` makes one)"
)


def module_group(module: str, about: str) -> base.CommandGroup:
    """The commands of a module."""
    group = base.CommandGroup(module, help=f"{about}.")
    add_actions(group, module)
    return group


def add_actions(group: click.Group, module: str) -> None:
    """Add the commands of a module's actions to a group."""
    for kind in actions_of(module).values():
        group.add_command(command(kind))


def command(kind: type[Action[Any]]) -> base.Command:
    """The command of an action."""

    def run(**given: Any) -> None:
        _run(kind, given)

    for decorator in reversed(_common(kind)):
        run = decorator(run)
    publishes = f"May be published: {kind.publishes}." if kind.publishes else "Nothing of this may be published."
    operator = f" For the operator only: {kind.operator}." if kind.operator else ""
    return base.Command(
        kind.verb(),
        params=[*_file(kind), *map(_option, kind.parameters()), *reversed(run.__click_params__)],  # type: ignore[attr-defined]
        callback=run,
        short_help=kind.about,
        help="\n\n".join(part for part in (kind.about, kind.details, f"{publishes}{operator}") if part),
        examples=[f"peerveil {kind.module()} {kind.verb()} {arguments}".strip() for arguments in kind.examples],
    )


def _file(kind: type[Action[Any]]) -> list[click.Parameter]:
    """The argument of an action that reads data."""
    if not kind.kinds:
        return []
    text = f"{' or '.join(kind.kinds).capitalize()}: CSV, Parquet, JSON lines, or an export of a platform."
    return [base.Argument(["file"], metavar="FILE", help=text)]


def _option(parameter: Parameter) -> click.Option:
    """One parameter as an option. It takes text, which the declaration checks."""
    want = "" if parameter.is_flag or parameter.choices else f" {parameter.want[0].upper()}{parameter.want[1:]}."
    default = "" if parameter.default in (None, ()) else f" [default: {parameter.text(parameter.default)}]"
    state = " [required]" if parameter.required else default
    return click.Option(
        [f"{parameter.flag}/--no-{parameter.flag[2:]}" if parameter.is_flag else parameter.flag, parameter.name],
        default=None,
        multiple=parameter.many,
        is_flag=parameter.is_flag,
        show_default=False,
        metavar=None if parameter.is_flag else f"[{'|'.join(parameter.choices)}]" if parameter.choices else "VALUE",
        help=f"{parameter.setting.help}{want}{' Repeatable.' if parameter.many else ''}{state}",
        shell_complete=lambda _context, _option, typed: [word for word in parameter.choices if word.startswith(typed)],
    )


def _common(kind: type[Action[Any]]) -> list[Any]:
    """The options that mean the same in every command and that this one has."""
    own_seed = any(parameter.name == "seed" for parameter in kind.parameters())
    kinds = click.option(
        "--kind", type=click.Choice(list(kind.kinds)), show_default="recognized", help="What to read the file as."
    )
    layouts = click.option(
        "--layout",
        type=click.Choice(["orders", "places"]),
        show_default="seen from the file",
        help="What the cells of a wide table hold: orders (items; one column per place) or places (one column per item).",
    )
    options = (
        (kinds, len(kind.kinds) > 1),
        (base.column_option, bool(kind.kinds)),
        (base.format_option, bool(kind.kinds)),
        (base.time_zone_option, bool({"events", "reviews"} & set(kind.kinds))),
        (layouts, "rankings" in kind.kinds),
        (base.ledger_option, kind.spends),
        (base.account_option(), kind.spends),
        (base.seed_option, kind.spends and not own_seed),
        (base.out_option(f"out/{kind.module()}-{kind.verb()}"), True),
        (base.force_option, True),
        (base.json_option, True),
        (base.debug_option, True),
    )
    return [option for option, is_wanted in options if is_wanted]


def _run(kind: type[Action[Any]], given: dict[str, Any]) -> None:
    """Check the settings, run the action and show what came of it."""
    from peerveil.study.execute import execute

    texts = {parameter.name: _given(parameter, given[parameter.name]) for parameter in kind.parameters()}
    flags = {parameter.name: parameter.flag for parameter in kind.parameters()}
    action = kind.check(
        {name: value for name, value in texts.items() if value is not None},
        place=lambda name: flags.get(name, f"--{name}"),
    )
    source = None
    columns = given.get("columns") or {}
    if kind.kinds:
        reading: dict[str, Any] = {name: given.get(name) for name in ("kind", "time_zone", "layout")}
        source = Source(Path(given["file"]), format=given["format_"], columns=columns, **reading)
    others = {
        parameter.name: [
            Source(Path(path), columns=columns)
            for path in (getattr(action, parameter.name) if parameter.many else [getattr(action, parameter.name)])
        ]
        for parameter in kind.parameters()
        if parameter.refers is not None and parameter.refers.kind is not None and getattr(action, parameter.name)
    }
    own = {name: given.get(name) for name in ("ledger", "account", "seed") if name not in flags}
    with ExitStack() as stack:
        progress = _progress(kind, stack)
        done = execute(action, source, given["out"], others=others, force=given["force"], progress=progress, **own)
    counted = not kind.spends or own.get("ledger") is not None or own.get("seed") is not None
    base.emit(_data(kind, done), given["as_json"], lambda: _show(done, counted))
    if done.outcome.failed:
        base.stop_with(base.CHECK_FAILED)


def _progress(kind: type[Action[Any]], stack: ExitStack) -> Callable[[float, str], None]:
    """A bar on the terminal, once the action says that it is at work."""
    bars: list[Callable[[float, str], None]] = []

    def progress(share: float, text: str = "") -> None:
        from peerveil.core.progress import progress_callback

        if not bars:
            bars.append(stack.enter_context(progress_callback(kind.title)))
        bars[0](share, text)

    return progress


def _given(parameter: Parameter, value: Any) -> Any:
    """An option's text; None if it was not given."""
    if parameter.many:
        return parameter.from_text(",".join(value)) if value else None
    return value


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
    """The result for people, part by part: what may be published, its guarantee, what only the operator may see."""
    outcome = done.outcome
    mark = f" [{outcome.mark}]" if outcome.mark else ""
    private = [outcome.private_answer] if outcome.private_answer else []
    for line in outcome.private_found:
        private += [line] if isinstance(line, str) else line.paragraphs()
    public = [f"{outcome.answer}{mark}\n"] if outcome.answer else []
    public += [text for text in outcome.found if text != outcome.answer]
    label = "" if outcome.guarantee is None else "Guarantee: "
    protection = [f"{label}{outcome.promise_short or outcome.promise}"] if outcome.promise else []
    protection += ["What an attacker could still do: " + " ".join(outcome.attack)] if outcome.attack else []
    _show_part("", public, [table for table in outcome.tables if table.public])
    if public:
        _show_part("", protection, [])
    title = "For the operator only, not for publication:"
    _show_part(title, list(dict.fromkeys(private)), [table for table in outcome.tables if not table.public])
    if not public:
        _show_part("", protection, [])
    for path, is_public in done.written:
        click.echo(f"written{'' if is_public else ', not for publication'}: {path}")
    if not counted:
        click.echo(NOT_COUNTED)


def _show_part(title: str, lines: list[str], tables: list[TableOf]) -> None:
    """Lines and tables with a blank line below, if there are any."""
    if not lines and not tables:
        return
    for text in [title, *lines] if title else lines:
        click.echo(text)
    for table in tables:
        base.print_table(table.columns, table.rows)
    click.echo("")
