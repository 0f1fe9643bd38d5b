"""The stored outputs: one text file for each group of cases, ``=== name`` before each of them."""

from __future__ import annotations

import difflib
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from tests.golden import commands, functions, steps
from tests.golden.normal import same

FOLDER: Final = Path(__file__).parent / "outputs"
REWRITE: Final = "python -m tests.golden --write"
_HEAD: Final = "=== "

GROUPS: Final[dict[str, Callable[[Path], Iterable[tuple[str, str]]]]] = {
    "commands": lambda _: commands.surface(),
    **{f"command-{name}": lambda root, name=name: commands.run_group(name, root) for name in commands.GROUPS},  # type: ignore[misc]
    "study-steps": steps.run_steps,
    **{f"module-{name}": lambda root, name=name: functions.run_module(name, root) for name in functions.MODULES},  # type: ignore[misc]
}


def outputs(group: str) -> dict[str, str]:
    """Run the cases of a group."""
    with tempfile.TemporaryDirectory(prefix="pv-golden-") as folder:
        return dict(GROUPS[group](Path(folder).resolve()))


def stored(group: str) -> dict[str, str]:
    """What the cases of a group gave when they were last written down."""
    path = FOLDER / f"{group}.txt"
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        if line.startswith(_HEAD):
            lines = found.setdefault(line.removeprefix(_HEAD), [])
        else:
            lines.append(line)
    return {name: "\n".join(content) for name, content in found.items()}


def write(group: str, now: dict[str, str]) -> list[str]:
    """Write a group down; the names of the cases that changed."""
    before = stored(group)
    changed = [name for name in {**before, **now} if name not in now or not same(before.get(name, ""), now[name])]
    if changed:
        FOLDER.mkdir(exist_ok=True)
        text = "".join(f"{_HEAD}{name}\n{content}\n" for name, content in now.items())
        (FOLDER / f"{group}.txt").write_text(text, encoding="utf-8")
    return changed


def differences(group: str, now: dict[str, str], most: int = 40) -> str:
    """What changed since it was written down, as a short diff; empty if nothing did."""
    before = stored(group)
    lines: list[str] = []
    for name in {**before, **now}:
        if name not in now or not same(before.get(name, ""), now[name]):
            pair = before.get(name, "").splitlines(), now.get(name, "").splitlines()
            close = list(difflib.unified_diff(*pair, "stored", "now", lineterm="", n=1))
            lines += [f"{_HEAD}{name}", *(line[:200] for line in close[2:])]
    more = [f"... and {len(lines) - most} more lines"] if len(lines) > most else []
    return "\n".join([*lines[:most], *more])
