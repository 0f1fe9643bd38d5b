"""One configuration file and the environment: unknown names refused, types checked, secrets only from the environment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from peerveil.core.errors import BadInput, unknown
from peerveil.core.files import read_toml

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


def read_config(
    path: str | os.PathLike[str] | None,
    *,
    prefix: str,
    options: Mapping[str, type],
    tables: Collection[str] = (),
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The options and tables of a TOML file; ``PREFIX_NAME`` in the environment wins over ``name`` in the file.

    >>> read_config(None, prefix="PEERVEIL_GATEWAY", options={"port": int}, environment={"PEERVEIL_GATEWAY_PORT": "80"})
    {'port': 80}
    """
    found: dict[str, Any] = {}
    if path is not None:
        found = read_toml(path, "--config")[1]
        check_names(found, [*options, *tables], str(path))
    for name, kind in options.items():
        given = (os.environ if environment is None else environment).get(f"{prefix}_{name.upper()}")
        if given is not None:
            found[name] = _from_text(given, kind, f"{prefix}_{name.upper()}")
        elif name in found:
            right = (int, float) if kind is float else kind
            if not isinstance(found[name], right) or (isinstance(found[name], bool) and kind is not bool):
                raise BadInput(f"{path}: {name}", got=found[name], want=f"a value of type {kind.__name__}")
    for name in tables:
        if name in found and not isinstance(found[name], dict):
            raise BadInput(f"{path}: {name}", got=found[name], want=f"a table [{name}.something]")
    return found


def check_names(found: Mapping[str, Any], known: Collection[str], where: str) -> None:
    """Refuse names that mean nothing, and say which one was perhaps meant."""
    for name in found:
        if name not in known:
            raise unknown(where, name, sorted(known), "options")


def _from_text(text: str, kind: type, name: str) -> Any:
    if kind is bool:
        if text.lower() in {"1", "true", "yes", "on"}:
            return True
        if text.lower() in {"0", "false", "no", "off"}:
            return False
        raise BadInput(name, got=text, want="true or false")
    try:
        return kind(text)
    except ValueError:
        raise BadInput(name, got=text, want=f"a value of type {kind.__name__}") from None
