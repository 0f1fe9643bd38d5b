"""Whatever the README and the docs show is run: Python examples as doctests, commands as commands."""

from __future__ import annotations

import doctest
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from textwrap import dedent

import pytest

from peerveil.cli import base
from peerveil.judgements import Reviews
from peerveil.study.release import Means

ROOT = Path(__file__).parents[1]
DOCS = sorted(path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts)
PAGES = [ROOT / "README.md", *DOCS]


def name_of(path: Path) -> str:
    """A page's name as the table of contents has it, such as guides/chair."""
    return str(path.relative_to(ROOT / "docs").with_suffix("")) if path in DOCS else path.name


@pytest.fixture(scope="session")
def real_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `python examples/real/prepare.py mine --papers 600` lays out, for the tutorials."""
    folder = tmp_path_factory.mktemp("real") / "mine"
    command = [sys.executable, str(ROOT / "examples" / "real" / "prepare.py"), str(folder), "--papers", "600"]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def lay_out(page: str, folder: Path, request: pytest.FixtureRequest) -> None:
    """Tutorials find the real data in their folder, as their first line says."""
    if page.startswith("tutorials/"):
        shutil.copytree(request.getfixturevalue("real_data"), folder / "mine")


def blocks(path: Path, language: str) -> list[tuple[int, str]]:
    text = path.read_text(encoding="utf-8")
    found = re.finditer(rf"^( *)```{language}\n(.*?)^\1```", text, flags=re.MULTILINE | re.DOTALL)
    return [(text[: match.start()].count("\n") + 1, dedent(match[2])) for match in found]


WITH_EXAMPLES = [path for path in PAGES if blocks(path, "pycon")]


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=name_of)
def test_examples(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """All examples of a page run one after another, in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    lay_out(name_of(path), tmp_path, request)
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
            found += [(name_of(path), shlex.split(line, comments=True)[1:]) for line in lines]
    return found


@pytest.mark.parametrize("page", dict.fromkeys(name for name, _ in commands()))
def test_commands_in_the_docs_run(
    page: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    """In the order in which they stand, in one folder a page."""
    monkeypatch.chdir(tmp_path)
    lay_out(page, tmp_path, request)
    for name, arguments in commands():
        if name == page:
            code = base.run(arguments, debug=True, as_json=False)
            assert code == 0, (name, arguments, capsys.readouterr())


def test_every_command_is_documented() -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for group in base.build_app().registered_groups:
        assert group.typer_instance is not None
        for command in group.typer_instance.registered_commands:
            assert f"peerveil {group.typer_instance.info.name} {command.name}" in text
    for own in base.build_app().registered_commands:
        assert f"peerveil {own.name}" in text


def test_every_page_is_reachable() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for path in DOCS:
        assert path.stem == "index" or f"\n{name_of(path)}\n" in index, path.name


def test_pages_plan_the_weight_that_they_release() -> None:
    """A plan of ratings says nothing about a release of miscalibration."""

    def weight(arguments: list[str]) -> str:
        return arguments[arguments.index("--weight") + 1] if "--weight" in arguments else "rating"

    planned = [(page, weight(line)) for page, line in commands() if line[:2] == ["release", "plan"]]
    assert {page for page, _ in planned} >= {"release", "guides/chair", "tutorials/release"}
    draft = Means.suggest("reviews", Reviews(paper=[1, 1], reviewer=["ann", "bo"], score=[3, 4]))
    assert draft is not None
    drafted = tomllib.loads(draft)["steps"][0]["weight"]
    assert f"release plan FILE --weight {drafted} " in draft
    for page, plan in planned:
        released = {weight(line) for other, line in commands() if other == page and line[:2] == ["release", "means"]}
        assert plan in (released or {drafted}), page
