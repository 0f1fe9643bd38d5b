"""Commands made from the declarations of :mod:`peerveil.study.actions`: options, help, checks and output of every action.

Options take text, so that a value is checked once, by its declaration, and refused in one style.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any, Final

import click

from peerveil.cli import base
from peerveil.study.actions import Action, Parameter, PlanAction, actions_of
from peerveil.study.execute import Executed, StudyFile, execute

_TEXT_SETTINGS: Final = ("header", "separator")
NOT_COUNTED: Final = (
    "note: no ledger was named, so this release is not counted; every further release from the same data reveals more "
    "(--ledger FILE --account NAME; `peerveil ledger add-account` makes one)"
)


def module_group(module: str, about: str) -> base.LazyGroup:
    """The commands of a module; each is built when it is called."""
    kinds = actions_of(module)
    sections = {"Commands": {verb: kind.about for verb, kind in kinds.items()}}
    return base.LazyGroup(module, help=f"{about}.", sections=sections, load=lambda verb: command(kinds[verb]))


def add_actions(group: click.Group, module: str) -> None:
    """Add the commands of a module's actions to a group."""
    for kind in actions_of(module).values():
        group.add_command(command(kind))


def command(kind: type[Action[Any]]) -> base.Command:
    """The command of an action."""

    def run(as_json: bool, **options: Any) -> None:
        _run(kind, options, as_json)

    for decorator in reversed(_common(kind)):
        run = decorator(run)
    text = f"{' or '.join(kind.kinds).capitalize()}: CSV, Parquet, JSON lines, or an export of a platform."
    file = [base.Argument(["file"], metavar="FILE", help=text)] if kind.kinds else []
    return base.Command(
        kind.verb(),
        params=[*file, *map(_option, kind.parameters()), *reversed(run.__click_params__)],  # type: ignore[attr-defined]
        callback=run,
        short_help=kind.about,
        help="\n\n".join(part for part in (kind.about, kind.details, " ".join(kind.facts())) if part),
        examples=kind.command_lines(),
    )


def _option(parameter: Parameter) -> click.Option:
    """One parameter as an option. It takes text, which the declaration checks."""
    want = "" if parameter.is_flag or parameter.choices else f" {parameter.want_sentence}"
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


def text_options(run: Any) -> Any:
    """The options of CSV and TSV files, from their declaration."""
    parameters = {parameter.name: parameter for parameter in StudyFile.parameters()}
    run.__click_params__ = [
        *getattr(run, "__click_params__", ()),
        *(_option(parameters[name]) for name in reversed(_TEXT_SETTINGS)),
    ]
    return run


def text_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of them that were given."""
    return {name: options[name] for name in _TEXT_SETTINGS if options.get(name) is not None}


def _common(kind: type[Action[Any]]) -> list[Any]:
    """The options that mean the same in every command and that this one has."""
    own_seed = any(parameter.name == "seed" for parameter in kind.parameters())
    layouts = click.option(
        "--layout",
        type=click.Choice(["orders", "places"]),
        show_default="seen from the file",
        help="What the cells of a wide table hold: orders (items; one column per place) or places (one column per item).",
    )
    options = (
        (base.kind_option(type=click.Choice(kind.kinds)), len(kind.kinds) > 1),
        (base.column_option, bool(kind.kinds)),
        (base.format_option, bool(kind.kinds)),
        (text_options, bool(kind.kinds)),
        (base.time_zone_option, bool({"events", "reviews"} & set(kind.kinds))),
        (layouts, "rankings" in kind.kinds),
        (base.ledger_option, kind.spends),
        (base.account_option(), kind.spends),
        (base.seed_option, kind.spends and not own_seed),
        (base.out_option(default=_folder(kind)), True),
        (base.force_option, True),
    )
    return [option for option, is_wanted in options if is_wanted]


def _folder(kind: type[Action[Any]]) -> str:
    """Where its results go unless --out says otherwise."""
    return f"out/{kind.module()}-{kind.verb()}"


def _run(kind: type[Action[Any]], options: dict[str, Any], as_json: bool) -> None:
    """Check the settings, run the action and show its outcome."""
    flags = {parameter.name: parameter.flag for parameter in kind.parameters()}
    action = kind.check(texts_of(kind, options), place=lambda name: flags.get(name, f"--{name}"))
    reading: dict[str, Any] = {name: options.get(name) for name in ("kind", "columns", "time_zone", "layout")}
    source = None
    if kind.kinds:
        reading |= text_settings(options)
        source = StudyFile(path=Path(options["file"]), format=options["format_"], **reading)
    others = {
        parameter.name: [StudyFile(path=Path(path), columns=reading["columns"]) for path in parameter.values(action)]
        for parameter in kind.parameters()
        if parameter.named_data
    }
    own = {name: options.get(name) for name in ("ledger", "account", "seed") if name not in flags}
    with ExitStack() as stack:
        progress = _progress(kind, stack)
        # a plan costs nothing and may be repeated: what an earlier one left in its default folder is replaced
        force = options["force"] or (issubclass(kind, PlanAction) and options["out"] == Path(_folder(kind)))
        done = execute(action, source, options["out"], others=others, force=force, progress=progress, **own)
    is_counted = not kind.spends or own.get("ledger") is not None or own.get("seed") is not None
    base.emit(_data(kind, done), as_json, lambda: _show(done, is_counted))
    if done.outcome.failed:
        base.stop_with(base.CHECK_FAILED)


def texts_of(kind: type[Action[Any]], options: Mapping[str, Any]) -> dict[str, Any]:
    """The text of every option that was given."""
    return {
        parameter.name: parameter.from_text(",".join(value)) if parameter.many else value
        for parameter in kind.parameters()
        if (value := options[parameter.name]) not in (None, ())
    }


def _progress(kind: type[Action[Any]], stack: ExitStack) -> Callable[[float, str], None]:
    """A bar on the terminal, once the action says that it is at work."""
    from peerveil.core.progress import progress_callback

    bar = cache(lambda: stack.enter_context(progress_callback(kind.title)))
    return lambda share, text: bar()(share, text)


def _data(kind: type[Action[Any]], done: Executed) -> dict[str, Any]:
    """The result for programs."""
    outcome, private = done.outcome, done.outcome.private
    return {
        "action": kind.name,
        "answer": outcome.public.answer,
        **outcome.public_results(),
        "operator_only": {
            "answer": private.answer,
            "found": [line if isinstance(line, str) else " ".join(line.paragraphs()) for line in private.findings],
            "results": private.results,
        },
        "notes": done.notes,
        "written": [str(path) for path, _ in done.written],
        "may_be_published": [str(path) for path, is_public in done.written if is_public],
    }


def _show(done: Executed, is_counted: bool) -> None:
    """The result for people, part by part: what may be published, its guarantee, what only the operator may see."""
    outcome = done.outcome
    mark = f" [{outcome.mark}]" if outcome.mark else ""
    public = [f"{outcome.public.answer}{mark}\n"] if outcome.public.answer else []
    public += [str(line) for line in outcome.public.findings if line != outcome.public.answer]
    private = [outcome.private.answer] if outcome.private.answer else []
    for line in outcome.private.findings:
        private += [line] if isinstance(line, str) else line.paragraphs()
    if private or outcome.private.tables:
        private = ["For the operator only, not for publication:", *dict.fromkeys(private)]
    label = "" if outcome.guarantee is None else "Guarantee: "
    text = outcome.guarantee_short or outcome.guarantee_text
    protection = [f"{label}{text}"] if text else []
    protection += ["What an attacker could still do: " + " ".join(outcome.attack)] if outcome.attack else []
    parts = [(public, outcome.public.tables), (protection, []), (private, outcome.private.tables)]
    for lines, tables in parts if public else (parts[2], parts[1]):
        for text in lines:
            click.echo(text)
        for table in tables:
            base.print_table(table.columns, table.rows)
        if lines or tables:
            click.echo("")
    for note in done.notes:
        click.echo(f"note: {note}")
    for path, is_public in done.written:
        click.echo(f"written{'' if is_public else ', not for publication'}: {path}")
    if not is_counted:
        click.echo(NOT_COUNTED)
