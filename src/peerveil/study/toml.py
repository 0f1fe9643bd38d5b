"""Values and steps of a study file, written as text."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from peerveil.study.actions import Action


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
