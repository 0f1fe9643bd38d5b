"""Values and steps of a study file, written as text."""

from __future__ import annotations

import json
import textwrap
import tomllib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from peerveil.study.actions import Action

_LONGEST_VALUE: Final = 60  # characters of a setting in an error


def toml_value(value: Any) -> str:
    """A value as TOML.

    >>> toml_value(["1/3", 2, True])
    '["1/3", 2, true]'
    """
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    if isinstance(value, str):
        # JSON's escapes are TOML's, but for the characters above 0xffff and the delete character
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def changed_settings(before: str, after: str) -> list[str]:
    r"""The settings that differ between two studies, each with its values; the address of a ledger may hold a password.

    >>> changed_settings("[accounts.main]\nepsilon = 1", "[accounts.main]\nepsilon = 2\n[data.log]\npath = 'a.csv'")
    ['accounts.main.epsilon (was 1, is 2)', 'data.log.path (new)']
    """
    old, new = (_flattened(tomllib.loads(text)) for text in (before, after))
    changes = []
    for place in dict.fromkeys([*old, *new]):
        if place not in new or place not in old:
            changes.append(f"{place} ({'removed' if place in old else 'new'})")
        elif old[place] != new[place]:
            values = "" if place == "study.ledger" else f" (was {_short(old[place])}, is {_short(new[place])})"
            changes.append(place + values)
    return changes


def _flattened(value: Any, place: str = "") -> dict[str, Any]:
    """Every setting by its place, such as ``steps[1].epsilon``; steps are counted from 1."""
    if isinstance(value, dict):
        parts = {f"{place}.{key}" if place else key: part for key, part in value.items()}
    elif isinstance(value, list) and any(isinstance(part, dict) for part in value):
        parts = {f"{place}[{number}]": part for number, part in enumerate(value, start=1)}
    else:
        return {place: value}
    return {name: setting for key, part in parts.items() for name, setting in _flattened(part, key).items()}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "..."


class SuggestedStep(NamedTuple):
    """What ``peerveil new`` proposes for a table: settings with remarks, and why, in a sentence or two."""

    why: str
    settings: Mapping[str, Any]
    remarks: Mapping[str, str] = {}
    commented: bool = False
    """Whether it has to be completed first, and is written as a comment."""

    def text(self, kind: type[Action[Any]], *, data: str | None = None, account: str | None = None) -> str:
        """One ``[[steps]]`` of this action, with remarks behind its keys and a comment in front."""
        named = {"action": kind.name, "data": data, "account": account}
        keys = {name: value for name, value in named.items() if value is not None} | dict(self.settings)
        written = {name: f"{name} = {toml_value(value)}" for name, value in keys.items()}
        remarked = {name: f"{written[name]:<28} # {remark}" for name, remark in self.remarks.items()}
        lines = ["[[steps]]", *(written | remarked).values()]
        comment = [f"# {line}" for line in textwrap.wrap(self.why, 116)]
        return "\n".join([*comment, *(f"# {line}" if self.commented else line for line in lines), ""])
