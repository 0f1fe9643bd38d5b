"""Values and steps of a study file, written as text."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from peerveil.study.actions import Action


class SuggestedStep(NamedTuple):
    """What ``peerveil new`` proposes for a table: settings with remarks, and why, in a sentence or two."""

    why: str
    settings: Mapping[str, Any]
    remarks: Mapping[str, str] = {}
    commented: bool = False
    """Whether it has to be completed first, and is written as a comment."""


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


def toml_step(
    kind: type[Action[Any]],
    settings: Mapping[str, Any],
    *,
    data: str | None = None,
    account: str | None = None,
    why: str = "",
    remarks: Mapping[str, str] | None = None,
    commented: bool = False,
) -> str:
    """One ``[[steps]]``, with remarks behind its keys and a comment in front; as a comment if ``commented``."""
    comment = [f"# {line}" for line in textwrap.wrap(why, 116)]
    lines = ["[[steps]]", f"action = {toml_value(kind.name)}"]
    lines += [f"data = {toml_value(data)}"] if data else []
    lines += [f"account = {toml_value(account)}"] if account else []
    for name, value in settings.items():
        written = f"{name} = {toml_value(value)}"
        remark = (remarks or {}).get(name)
        lines.append(f"{written:<28} # {remark}" if remark else written)
    if commented:
        lines = [f"# {line}" for line in lines]
    return "\n".join([*comment, *lines, ""])
