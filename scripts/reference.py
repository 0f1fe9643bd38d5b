"""Generated reference pages: docs/actions.md from the declared actions, docs/api/ from what each package exports."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path

from peerveil.core.files import write_text
from peerveil.study.schema import reference_page

PACKAGES = ("release", "timing", "calibration", "rankings", "truth", "data", "ledger", "audit", "study")
MODULES = PACKAGES[:5]  # each has an adversary to attack its own mechanisms


def api_page(name: str) -> str:
    """One package: its docstring, its exports, and for the five modules the attacks."""
    package = import_module(name)
    lines = [f"# {name}", "", "```{eval-rst}", f".. automodule:: {name}", ""]
    for export in package.__all__:
        value = getattr(package, export)
        home = getattr(value, "__module__", "").split(".")[1:2]
        if inspect.ismodule(value) or export == "__version__" or (name == "peerveil" and home[0] in PACKAGES):
            continue  # said on the page of its package
        kind = "exception" if inspect.isclass(value) and issubclass(value, Exception) else "class"
        kind = kind if inspect.isclass(value) else "function"
        lines += [f".. auto{kind}:: {name}.{export}", *(["   :members:"] if kind == "class" else []), ""]
    if name.rpartition(".")[2] in MODULES:
        lines += [f".. automodule:: {name}.adversary", "   :members:", ""]
    return "\n".join([*lines, "```", ""])


def write_reference(docs: Path) -> None:
    """Write the generated pages, where they changed."""
    names = {"peerveil": "peerveil", **{package: f"peerveil.{package}" for package in PACKAGES}}
    pages = {"actions": reference_page(), **{f"api/{file}": api_page(name) for file, name in names.items()}}
    toctree = "\n".join(["```{toctree}", "", *names, "```", ""])
    pages["api/index"] = (
        f"# Python\n\nEvery public name. `import peerveil` is quick; packages load on first use.\n\n{toctree}"
    )
    for name, text in pages.items():
        page = docs / f"{name}.md"
        if not page.is_file() or page.read_text(encoding="utf-8") != text:
            write_text(page, text)
