"""`peerveil.papers` holds only what the reproduce command, the errata or their tests import."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PAPERS = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in (SOURCE / "peerveil" / "papers").rglob("*.py")
    if "reproduce" not in path.parts
}
IMPORTERS = [
    *(SOURCE / "peerveil" / "papers" / "reproduce").rglob("*.py"),
    *(ROOT / "tests" / "papers").rglob("test_*.py"),
    ROOT / "tests" / "test_errata.py",
]


def imported(path: Path) -> set[str]:
    """The modules of `peerveil.papers` that a file imports, and the packages that they are in."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    parts = (name.split(".") for name in names)
    return {".".join(part[:end]) for part in parts for end in range(1, len(part) + 1)} & set(PAPERS)


def reached(importers: Iterable[Path]) -> set[str]:
    found: set[str] = set()
    new = set().union(*(imported(path) for path in importers))
    while new:
        found |= new
        new = set().union(*(imported(PAPERS[name]) for name in new)) - found
    return found


def test_every_module_of_the_papers_is_needed() -> None:
    assert len(PAPERS) > 5
    assert reached(IMPORTERS) == set(PAPERS)


def test_a_module_that_nobody_imports_would_be_found() -> None:
    assert reached([SOURCE / "peerveil" / "papers" / "reproduce" / "rankings.py"]) < set(PAPERS)
