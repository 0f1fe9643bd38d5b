"""From what somebody chose in a page to a study file: every run is one, and nothing else can be run."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any, Final

from peerveil.console import files
from peerveil.errors import BadInput
from peerveil.study.check import all_steps
from peerveil.study.problems import Problems
from peerveil.study.step import REQUIRED, Step

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from fractions import Fraction

    from peerveil.console.house import House
    from peerveil.console.people import Asker
    from peerveil.study.step import Option

LONGEST_VALUE: Final = 10_000


def step_kind(room: str, do: str) -> type[Step]:
    """A step by its name."""
    kind = all_steps().get((room, do))
    if kind is None:
        raise BadInput("do", got=do, want="one of the things that can be done in this room")
    return kind


def read_settings(kind: type[Step], given: Mapping[str, str]) -> dict[str, Any]:
    """Settings as they stand in a form (texts) become values of a study file; empty fields keep their defaults.

    >>> kind = step_kind("release", "means")
    >>> read_settings(kind, {"epsilon": "1/3", "weight": "rating", "scale": "1, 10", "bounds": ""})
    {'epsilon': '1/3', 'weight': 'rating', 'scale': [1, 10]}
    """
    found, problems = {}, Problems()
    for option in kind.options:
        text = given.get(option.name, "").strip()
        if len(text) > LONGEST_VALUE:
            problems.add(BadInput(option.name, got=f"{len(text)} characters", want=option.about))
        elif text:
            value = problems.attempt(_value, option, text)
            found[option.name] = value
        elif option.default is REQUIRED:
            problems.add(BadInput(option.name, got="", want=option.about))
    problems.raise_any()
    return found


def _value(option: Option, text: str) -> Any:
    """The first reading of a text that the option takes: a TOML value, a list of them, or the text itself."""
    parts = [part.strip() for part in text.replace("\n", ",").split(",") if part.strip()]
    readings = [_literal(text), [_literal(part) for part in parts], parts, text]
    refusal: BadInput | None = None
    for value in readings:
        try:
            option.read(value)
        except BadInput as error:
            refusal = error
        else:
            return value
    assert refusal is not None
    raise BadInput(option.name, got=text, want=refusal.want)


def _literal(text: str) -> Any:
    """A TOML value, or the text itself if it is none; dates stay text."""
    try:
        value = tomllib.loads(f"value = {text}")["value"] if "\n" not in text else text
    except (ValueError, RecursionError):  # no TOML, a number of too many digits, or too deeply nested
        return text
    return value if isinstance(value, (bool, int, float, str, list)) else text


def shown(value: Any) -> str:
    """A setting as a form shows it: what :func:`read_settings` reads back."""
    if value is None or value is REQUIRED:
        return ""
    if isinstance(value, (list, tuple)):
        return ", ".join(shown(item) for item in value)
    return (
        ("true" if value else "false")
        if isinstance(value, bool)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )


def offered(option: Option, value: Any) -> str:
    """A setting as a form begins with: always something that the form takes, so that durations have their unit.

    >>> audit = step_kind("timing", "audit")
    >>> [offered(option, option.default) for option in audit.options]
    ['5m', '', '50', '0.5, 1, 2']
    """
    readings = [shown(value)]
    if isinstance(value, (int, float)):
        readings += [f"{value / 60:g}m" if value % 60 == 0 else f"{value:g}s"]
    for text in readings:
        try:
            _value(option, text)
        except BadInput:
            continue
        return text
    return ""


def study_text(
    house: House, asker: Asker, title: str, steps: Sequence[Mapping[str, Any]], *, seed: int | None = None
) -> str:
    """The study file of a run. Each step names a file's id under ``data`` (and under its further settings)."""
    kinds = [step_kind(step["room"], step["do"]) for step in steps]
    names: dict[tuple[str, str], str] = {}
    sections = []
    for step, kind in zip(steps, kinds, strict=True):
        wanted = [(step.get("data"), kind.wants)] if kind.wants else []
        wanted += [(step["settings"].get(setting), of) for setting, of in kind.also.items()]
        for file, of in wanted:
            if not file:
                raise BadInput("data", got="nothing", want=f"a file of {of}")
            if (file, of) in names:
                continue
            found = files.find(house, asker, file)
            if of not in found.tables:
                raise BadInput("data", got=found.name, want=f"a file that can be read as {of}")
            names[file, str(of)] = name = _name(found.name, set(names.values()))
            sections.append(_data_section(name, found, str(of)))
    return "\n".join(
        [
            _head(house, title, steps, seed),
            *sections,
            *(_step(step, kind, names) for step, kind in zip(steps, kinds, strict=True)),
        ]
    )


def _head(house: House, title: str, steps: Sequence[Mapping[str, Any]], seed: int | None) -> str:
    lines = [
        "# Written by the console; `peerveil run THIS_FILE` does the same once more (and spends once more).",
        "",
        "[study]",
    ]
    lines.append(f"title = {_toml(title)}")
    if "://" in house.settings.ledger:
        lines.append("# the ledger is the one that PEERVEIL_LEDGER names")
    else:
        lines.append(f"ledger = {_toml(house.settings.ledger)}")
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
            lines += ["", f"[accounts.{_toml(name)}]", f"epsilon = {_toml(_exact(opened[name]))}"]
    return "\n".join([*lines, ""])


def _exact(value: Fraction) -> int | str:
    return int(value) if value.denominator == 1 else str(value)


def _data_section(name: str, file: files.File, kind: str) -> str:
    lines = [f"[data.{name}]", f"path = {_toml(str(file.path))}", f'kind = "{kind}"']
    if file.look.get("format"):
        lines.append(f"format = {_toml(file.look['format'])}")
    if file.columns and file.kind in ("", kind):
        lines.append(
            "columns = { " + ", ".join(f"{ours} = {_toml(theirs)}" for ours, theirs in file.columns.items()) + " }"
        )
    return "\n".join([*lines, ""])


def _step(step: Mapping[str, Any], kind: type[Step], names: Mapping[tuple[str, str], str]) -> str:
    lines = ["[[steps]]", f'room = "{kind.room}"', f'do = "{kind.do}"']
    if kind.wants:
        lines.append(f'data = "{names[step["data"], kind.wants]}"')
    if step.get("account"):
        lines.append(f"account = {_toml(step['account'])}")
    for name, value in step["settings"].items():
        lines.append(f"{name} = {_toml(names[value, kind.also[name]] if name in kind.also else value)}")
    return "\n".join([*lines, ""])


def _name(shown_name: str, taken: set[str]) -> str:
    letters = "".join(c if c.isascii() and c.isalnum() else "-" for c in shown_name.split(".")[0].lower()).strip("-")
    base = "-".join(part for part in letters.split("-") if part)[:40].strip("-") or "data"
    name, number = base, 2
    while name in taken:
        name, number = f"{base}-{number}", number + 1
    return name


def _toml(value: Any) -> str:
    """A value of a TOML file."""
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, str):
        # JSON's escapes are TOML's, but for the characters above 0xffff and the delete character
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)
