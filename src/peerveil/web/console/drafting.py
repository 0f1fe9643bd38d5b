"""From what somebody chose in a page to a study file: every run is one, and nothing else can be run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from peerveil.core.errors import BadInput
from peerveil.study.actions import find_action
from peerveil.study.refusals import Refusals
from peerveil.study.toml import toml_step, toml_value
from peerveil.web.console import files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from fractions import Fraction

    from peerveil.study.actions import Action, Parameter
    from peerveil.web.console.house import House
    from peerveil.web.console.people import Asker

LONGEST_VALUE: Final = 10_000


def offered(kind: type[Action[Any]]) -> list[Parameter]:
    """The parameters that a form offers: all but files, since users of a console may not name files of its machine."""
    return [parameter for parameter in kind.parameters() if parameter.refers is None or parameter.refers.kind]


def read_settings(kind: type[Action[Any]], given: Mapping[str, str]) -> dict[str, Any]:
    """Settings as they stand in a form (texts) become values of a study file; empty fields keep their defaults.

    Refusals call settings by their labels, as the form does. Files of the server are not settings of a form: whatever is
    posted for them is ignored.

    >>> kind = find_action("release.publish")
    >>> read_settings(kind, {"epsilon": "1/3", "weight": "rating", "scale": "1, 10", "bounds": ""})
    {'epsilon': '1/3', 'scale': [1.0, 10.0]}
    """
    texts, problems = {}, Refusals()
    labels = {parameter.name: parameter.label for parameter in kind.parameters()}
    for parameter in offered(kind):
        text = given.get(parameter.name, "").strip()
        if len(text) > LONGEST_VALUE:
            problems.add(BadInput(parameter.label, got=f"{len(text)} characters", want=parameter.want))
        elif text:
            texts[parameter.name] = parameter.from_text(text)
    problems.raise_any()
    return kind.check(texts, place=lambda name: labels.get(name, name)).settings()


def shown(parameter: Parameter, value: Any) -> str:
    """A value of a study file as a form shows it: what :func:`read_settings` reads back.

    >>> gap = next(parameter for parameter in find_action("release.publish").parameters() if parameter.name == "scale")
    >>> shown(gap, [1, 10])
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
    house: House, asker: Asker, title: str, steps: Sequence[Mapping[str, Any]], *, seed: int | None = None
) -> str:
    """The study file of a run. Each step names a file's id under ``data`` (and under its further settings)."""
    kinds = [find_action(step["action"]) for step in steps]
    names: dict[tuple[str, tuple[str, ...]], str] = {}
    sections = []
    for step, kind in zip(steps, kinds, strict=True):
        for file, of in _files_of(step, kind):
            if not file:
                raise BadInput("data", got="nothing", want=f"a file of {' or '.join(of)}")
            chosen = files.find(house, asker, file)
            as_kind = next((one for one in of if one in chosen.tables), None)
            if as_kind is None:
                raise BadInput("data", got=chosen.name, want=f"a file that can be read as {' or '.join(of)}")
            if (file, of) not in names:
                names[file, of] = name = _name(chosen.name, set(names.values()))
                sections.append(_data_section(name, chosen, as_kind))
    return "\n".join(
        [
            _head(house, title, steps, seed),
            *sections,
            *(_step(step, kind, names) for step, kind in zip(steps, kinds, strict=True)),
        ]
    )


def _files_of(step: Mapping[str, Any], kind: type[Action[Any]]) -> list[tuple[str, tuple[str, ...]]]:
    """The files that a step names, and the kinds that each may be read as."""
    named: list[tuple[str, tuple[str, ...]]] = [(step.get("data", ""), kind.kinds)] if kind.kinds else []
    for parameter in kind.parameters():
        value = step["settings"].get(parameter.name)
        if parameter.refers is not None and parameter.refers.kind and value is not None:
            named += [(file, (parameter.refers.kind,)) for file in (value if parameter.many else [value])]
    return named


def _head(house: House, title: str, steps: Sequence[Mapping[str, Any]], seed: int | None) -> str:
    lines = [
        "# Written by the console; `peerveil run THIS_FILE` does the same once more (and spends once more).",
        "",
        "[study]",
    ]
    lines.append(f"title = {toml_value(title)}")
    if "://" in house.settings.ledger:
        lines.append("# the ledger is the one that PEERVEIL_LEDGER names")
    else:
        lines.append(f"ledger = {toml_value(house.settings.ledger)}")
    if seed is not None:
        lines.append(f"seed = {seed}   # a simulation: nothing is spent, everything is marked")
    accounts = sorted({step["account"] for step in steps if step.get("account")})
    if accounts:
        with house.ledger() as book:
            opened = {account.name: account.exact_epsilon for account in book.accounts()}
        for name in accounts:
            if name not in opened:
                raise BadInput(
                    "account", got=name, want=f"one of {', '.join(opened) or 'the accounts: none is open yet'}"
                )
            lines += ["", f"[accounts.{toml_value(name)}]", f"epsilon = {toml_value(_exact(opened[name]))}"]
    return "\n".join([*lines, ""])


def _exact(value: Fraction) -> int | str:
    return int(value) if value.denominator == 1 else str(value)


def _data_section(name: str, file: files.File, kind: str) -> str:
    lines = [f"[data.{name}]", f"path = {toml_value(str(file.path))}", f'kind = "{kind}"']
    if file.look.get("format"):
        lines.append(f"format = {toml_value(file.look['format'])}")
    if file.columns and file.kind in ("", kind):
        lines.append(
            "columns = { " + ", ".join(f"{ours} = {toml_value(theirs)}" for ours, theirs in file.columns.items()) + " }"
        )
    return "\n".join([*lines, ""])


def _step(step: Mapping[str, Any], kind: type[Action[Any]], names: Mapping[tuple[str, tuple[str, ...]], str]) -> str:
    settings = dict(step["settings"])
    for parameter in kind.parameters():
        value = settings.get(parameter.name)
        if parameter.refers is not None and parameter.refers.kind and value is not None:
            of = (parameter.refers.kind,)
            settings[parameter.name] = [names[one, of] for one in value] if parameter.many else names[value, of]
    data = names[step["data"], kind.kinds] if kind.kinds else None
    return toml_step(kind, settings, data=data, account=step.get("account") or None)


def _name(shown_name: str, taken: set[str]) -> str:
    letters = "".join(c if c.isascii() and c.isalnum() else "-" for c in shown_name.split(".")[0].lower()).strip("-")
    base = "-".join(part for part in letters.split("-") if part)[:40].strip("-") or "data"
    name, number = base, 2
    while name in taken:
        name, number = f"{base}-{number}", number + 1
    return name
