"""Whatever the README and the docs show is run: Python examples as doctests, commands as commands."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest

from peerveil.cli import base

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(path: Path, language: str) -> list[tuple[int, str]]:
    text = path.read_text(encoding="utf-8")
    found = re.finditer(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    return [(text[: match.start()].count("\n") + 1, match[1]) for match in found]


WITH_EXAMPLES = [path for path in PAGES if blocks(path, "pycon")]


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.name)
def test_examples(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All examples of a page run one after another, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    names: dict[str, object] = {}
    for line, source in blocks(path, "pycon"):
        test = parser.get_doctest(source + "\n", names, path.name, str(path), line)
        runner.run(test, clear_globs=False)
        names = test.globs
    assert runner.tries > 0
    assert runner.failures == 0


def test_the_pages_with_examples() -> None:
    names = {path.name for path in WITH_EXAMPLES}
    assert {"README.md", "guarantees.md", "randomness.md", "audit.md", "ledger.md", "judgements.md"} <= names


def commands() -> list[tuple[str, list[str]]]:
    found = []
    for path in PAGES:
        for _, block in blocks(path, "console"):
            lines = [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ peerveil ")]
            found += [(path.name, shlex.split(line, comments=True)[1:]) for line in lines]
    return found


def test_commands_in_the_docs_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the order in which they stand, page by page, in one folder a page."""
    pages = commands()
    assert len(pages) >= 8
    for page in dict.fromkeys(name for name, _ in pages):
        folder = tmp_path / page
        folder.mkdir()
        monkeypatch.chdir(folder)
        for name, arguments in pages:
            if name == page:
                code = base.run(arguments, debug=True, as_json=False)
                assert code == 0, (name, arguments, capsys.readouterr())


def test_every_command_is_documented() -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for group in base.build_app().registered_groups:
        assert group.typer_instance is not None
        for command in group.typer_instance.registered_commands:
            assert f"peerveil {group.typer_instance.info.name} {command.name}" in text
    assert "peerveil demo" in text


def test_every_page_is_reachable() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for path in (ROOT / "docs").glob("*.md"):
        assert path.stem == "index" or f"\n{path.stem}\n" in index, path.name
