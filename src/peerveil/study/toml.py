"""Study files: read with their problems named, and values and steps written as text."""

from __future__ import annotations

import json
import textwrap
import tomllib
from typing import TYPE_CHECKING, Any

from peerveil.errors import BadInput, Verbatim

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from peerveil.study.actions import Action

_LARGEST_FILE = 1_000_000


def read_toml(path: Path, argument: str) -> tuple[str, dict[str, Any]]:
    """The text of a TOML file and what it says; anything else is refused."""
    if path.stat().st_size > _LARGEST_FILE:
        raise BadInput(argument, got=str(path), want=f"a file of at most {_LARGEST_FILE:,} bytes")
    try:
        text = path.read_text(encoding="utf-8")
        return text, tomllib.loads(text)
    except UnicodeDecodeError:
        raise BadInput(argument, got=str(path), want="a text file in UTF-8") from None
    except (ValueError, RecursionError) as error:  # no TOML, a number of too many digits, or too deeply nested
        raise BadInput(str(path), got=Verbatim(str(error)), want="a TOML file") from None


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
