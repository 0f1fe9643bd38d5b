"""From the settings of a form to a study file: every run is one, and nothing else can be run."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from peerveil.core.errors import BadInput
from peerveil.study.actions import Action, Parameter, find_action
from peerveil.study.spelling import Refusals
from peerveil.study.toml import SuggestedStep, toml_value
from peerveil.web.console import files
from peerveil.web.console.app import ConsoleApp
from peerveil.web.console.users import User

LONGEST_VALUE: Final = 10_000


def offered(kind: type[Action[Any]]) -> list[Parameter]:
    """The parameters that a form offers: all but files, since users may not name files of the console's machine."""
    return [parameter for parameter in kind.parameters() if parameter.refers is None or parameter.refers.kind]


def read_settings(kind: type[Action[Any]], texts: Mapping[str, str]) -> dict[str, Any]:
    """The texts of a form as values of a study file; empty fields keep their defaults.

    Errors call settings by their labels, as the form does. Files of the server are not settings of a form: whatever is
    posted for them is ignored.

    >>> kind = find_action("release.publish")
    >>> read_settings(kind, {"epsilon": "1/3", "weight": "rating", "scale": "1, 10", "thresholds": ""})
    {'epsilon': '1/3', 'weight': 'rating', 'scale': [1.0, 10.0]}
    """
    values, refusals = {}, Refusals()
    labels = {parameter.name: parameter.label for parameter in kind.parameters()}
    for parameter in offered(kind):
        text = texts.get(parameter.name, "").strip()
        if len(text) > LONGEST_VALUE:
            refusals.add(BadInput(parameter.label, got=f"{len(text)} characters", want=parameter.want))
        elif text:
            values[parameter.name] = parameter.from_text(text)
    refusals.raise_any()
    return kind.check(values, place=lambda name: labels.get(name, name)).settings()


def form_text(parameter: Parameter, value: Any) -> str:
    """A value of a study file as a form shows it: what :func:`read_settings` reads back.

    >>> parameters = {parameter.name: parameter for parameter in find_action("release.publish").parameters()}
    >>> form_text(parameters["scale"], [1, 10])
    '1:10'
    """
    if value is None or parameter.spelling is None:
        return parameter.text(value)
    try:
        read = parameter.spelling.validate
        return parameter.text([read(item) for item in value] if parameter.many else read(value))
    except ValueError:
        return ""


def study_text(
    app: ConsoleApp, user: User, title: str, steps: Sequence[Mapping[str, Any]], *, seed: int | None = None
) -> str:
    """The study file of a run. Each step has the id of a file under ``data`` (and in settings that name further data)."""
    names: dict[tuple[str, tuple[str, ...]], str] = {}
    sections = []
    for step in steps:
        for file, kinds in _files_of(step):
            if not file:
                raise BadInput("data", got="nothing", want=f"a file of {' or '.join(kinds)}")
            chosen = files.find(app, user, file)
            kind = next((kind for kind in kinds if kind in chosen.tables), None)
            if kind is None:
                raise BadInput("data", got=chosen.name, want=f"a file that can be read as {' or '.join(kinds)}")
            if (file, kinds) not in names:
                names[file, kinds] = name = _name(chosen.name, set(names.values()))
                sections.append(_data_section(name, chosen, "labels" if kind == files.POLL else kind))
    return "\n".join([_head(app, title, steps, seed), *sections, *(_step(step, names) for step in steps)])


def _further_data(step: Mapping[str, Any]) -> Iterator[tuple[Parameter, tuple[str, ...], Any]]:
    """The settings of a step that name further data: the parameter, the kinds of data, and the ids."""
    for parameter in find_action(step["action"]).parameters():
        value = step["settings"].get(parameter.name)
        if parameter.refers is not None and parameter.refers.kind and value is not None:
            yield parameter, (parameter.refers.kind,), value


def kinds_of(action: type[Action[Any]]) -> tuple[str, ...]:
    """What files of an action may be read as."""
    return (*action.kinds, *([files.POLL] if action.reads_polls else []))


def _files_of(step: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The files that a step names, and the kinds that each may be read as."""
    action = find_action(step["action"])
    if action.kinds:
        yield step.get("data", ""), kinds_of(action)
    for parameter, of, value in _further_data(step):
        yield from ((file, of) for file in (value if parameter.many else [value]))


def _head(app: ConsoleApp, title: str, steps: Sequence[Mapping[str, Any]], seed: int | None) -> str:
    ledger = app.settings.ledger
    lines = [
        "# Written by the console; `peerveil run THIS_FILE` repeats it (and spends again).",
        "",
        "[study]",
        f"title = {toml_value(title)}",
        "# the ledger is the one that PEERVEIL_LEDGER names" if "://" in ledger else f"ledger = {toml_value(ledger)}",
    ]
    if seed is not None:
        lines.append(f"seed = {seed}   # a simulation: nothing is spent, everything is marked")
    with app.ledger() as opened:
        budgets = {account.name: account.exact_epsilon for account in opened.accounts()}
    for name in sorted({step["account"] for step in steps if step.get("account")}):
        if name not in budgets:
            raise BadInput("account", got=name, want=f"one of {', '.join(budgets) or 'the accounts: none is open yet'}")
        epsilon = budgets[name]
        exact = int(epsilon) if epsilon.denominator == 1 else str(epsilon)
        lines += ["", f"[accounts.{toml_value(name)}]", f"epsilon = {toml_value(exact)}"]
    return "\n".join([*lines, ""])


def _data_section(name: str, file: files.DataFile, kind: str) -> str:
    lines = [f"[data.{name}]", f"path = {toml_value(str(file.path))}", f'kind = "{kind}"']
    if file.inspection.get("format"):
        lines.append(f"format = {toml_value(file.inspection['format'])}")
    if file.columns and file.kind in ("", kind):
        columns = ", ".join(f"{ours} = {toml_value(theirs)}" for ours, theirs in file.columns.items())
        lines.append(f"columns = {{ {columns} }}")
    return "\n".join([*lines, ""])


def _step(step: Mapping[str, Any], names: Mapping[tuple[str, tuple[str, ...]], str]) -> str:
    kind, settings = find_action(step["action"]), dict(step["settings"])
    for parameter, of, value in _further_data(step):
        settings[parameter.name] = [names[file, of] for file in value] if parameter.many else names[value, of]
    data = names[step["data"], kinds_of(kind)] if kind.kinds else None
    return SuggestedStep("", settings).text(kind, data=data, account=step.get("account") or None)


def _name(file_name: str, taken: set[str]) -> str:
    """A name for a file in a study."""
    letters = "".join(c if c.isascii() and c.isalnum() else " " for c in file_name.split(".")[0].lower())
    base = "-".join(letters.split())[:40].strip("-") or "data"
    name, number = base, 2
    while name in taken:
        name, number = f"{base}-{number}", number + 1
    return name
