"""Generated reference pages: actions from their declarations, Python from exports, HTTP from the services, words from reports."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

from peerveil.core.files import write_text
from peerveil.report.page import WORDS
from peerveil.study.schema import reference_page
from peerveil.web.collect.service import build_app
from peerveil.web.common.journal import Journal
from peerveil.web.gateway.app import create_app

MODULES = (
    "release",
    "timing",
    "calibration",
    "rankings",
    "truth",
)  # each has an adversary to attack its own mechanisms
PACKAGES = (*MODULES, "truth.wire", "data", "ledger", "audit", "study", "web.gateway", "web.collect")


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


def http_page() -> str:
    """The requests that gateway and collect answer, by their OpenAPI descriptions. No request is made: the stores are mocks."""
    journal = Journal("reference")
    apps = {"Gateway": create_app(MagicMock(), journal, worker=False), "Collect": build_app(MagicMock(), journal)}
    lines = [
        "# HTTP",
        "",
        "What the services answer. A running service shows request and answer bodies in full at `/docs`.",
    ]
    for title, app in apps.items():
        lines += ["", f"## {title}", "", "| request | does | success |", "|---|---|---|"]
        for path, methods in sorted(app.openapi()["paths"].items()):
            lines += [_request(method, path, said) for method, said in methods.items()]
    return "\n".join([*lines, ""])


def _request(method: str, path: str, said: dict[str, Any]) -> str:
    return f"| `{method.upper()} {path}` | {said.get('summary', '')} | {next(iter(said['responses']))} |"


def words_page() -> str:
    """The list that every report ends with; the glossary includes it."""
    return "".join(f"- **{word}**: {meaning}\n" for word, meaning in sorted(WORDS.items()))


def write_reference(docs: Path) -> None:
    """Write the generated pages, where they changed."""
    names = {"peerveil": "peerveil", **{package: f"peerveil.{package}" for package in PACKAGES}}
    pages = {
        "actions": reference_page(),
        "http": http_page(),
        "words": words_page(),
        **{f"api/{file}": api_page(name) for file, name in names.items()},
    }
    toctree = "\n".join(["```{toctree}", "", *names, "```", ""])
    pages["api/index"] = (
        f"# Python\n\nEvery public name. `import peerveil` is quick; packages load on first use.\n\n{toctree}"
    )
    for name, text in pages.items():
        page = docs / f"{name}.md"
        if not page.is_file() or page.read_text(encoding="utf-8") != text:
            write_text(page, text)
