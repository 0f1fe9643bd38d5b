"""Whatever the README and the docs show is run: Python examples as doctests, commands as commands."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import tomllib
from contextlib import redirect_stdout
from functools import cache, partial
from io import StringIO
from pathlib import Path
from textwrap import dedent

import click
import pytest
from tests.cli.runner import every_command, members
from tests.web.common.process import Served

from peerveil.cli import base
from peerveil.data import Reviews
from peerveil.study import demo
from peerveil.study.actions import find_action
from peerveil.study.release import PublishMeans
from peerveil.study.schema import reference_page

ROOT = Path(__file__).parents[1]
GENERATED = {"_build", "api", "reproduction"}  # folders that docs/conf.py writes
GENERATED_PAGES = {"actions.md", "http.md", "words.md"}
DOCS = sorted(
    path
    for path in (ROOT / "docs").rglob("*.md")
    if path.name not in GENERATED_PAGES and not GENERATED & set(path.relative_to(ROOT / "docs").parts)
)
PAGES = [ROOT / "README.md", *DOCS]


def name_of(path: Path) -> str:
    """A page's name as the table of contents has it, such as howto/spark."""
    return str(path.relative_to(ROOT / "docs").with_suffix("")) if path in DOCS else path.name


def blocks(path: Path, language: str) -> list[tuple[int, str]]:
    text = path.read_text(encoding="utf-8")
    found = re.finditer(rf"^( *)```{language}\n(.*?)^\1```", text, flags=re.MULTILINE | re.DOTALL)
    return [(text[: match.start()].count("\n") + 1, dedent(match[2])) for match in found]


def test_pages_are_short() -> None:
    """Readers have limited time: a page that grows takes its words from elsewhere. Generated pages do not count."""
    words = {name_of(path): len(path.read_text(encoding="utf-8").split()) for path in PAGES}
    assert len(words) > 30
    assert {page: count for page, count in words.items() if count > 1_500} == {}
    assert sum(words.values()) <= 25_000


WITH_EXAMPLES = [path for path in PAGES if blocks(path, "pycon")]


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=name_of)
def test_examples(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All examples of a page run one after another, in a folder of their own."""
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
    assert {"README.md", "guarantees.md", "randomness.md", "audit.md", "ledger.md", "data.md"} <= names


FIRST_PAGES = [ROOT / "README.md"]
SERVICES = ("console serve", "gateway serve", "collect serve")


@cache
def application() -> click.Group:
    """All commands; building them takes longer than looking one up."""
    return base.build_app()


def needs_arguments(words: list[str]) -> bool:
    """Whether a command cannot run as it stands: a group, or one that asks for more. Unknown commands fail."""
    command: click.Command = application()
    for k, word in enumerate(words):
        if not isinstance(command, click.Group):
            return not words[k:] and needs_more(command)
        known = members(command)
        assert word in known, f"no command {' '.join(words)!r}"
        command = known[word]
    return isinstance(command, click.Group) or needs_more(command)


def needs_more(command: click.Command) -> bool:
    return any(parameter.required for parameter in command.params)


@cache
def commands(path: Path) -> list[str]:
    """What a page tells to run, in its order: lines of console blocks; on the first pages also commands in the text."""
    text = path.read_text(encoding="utf-8")
    found = [(line, entry) for line, block in blocks(path, "console") for entry in block.splitlines()]
    listed = [(line, entry.removeprefix("$ ")) for line, entry in found if entry.startswith("$ peerveil ")]
    if path in FIRST_PAGES:
        prose = re.sub(
            r"^( *)```.*?^\1```", lambda block: "\n" * block[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL
        )
        for match in re.finditer(r"`(peerveil [^`]+)`", prose):
            command = " ".join(match[1].split())
            if not needs_arguments(shlex.split(command)[1:]):
                listed.append((prose[: match.start()].count("\n") + 1, command))
    return [command for _, command in sorted(listed, key=lambda entry: entry[0])]


def run_printed(command: str, folder: Path, terminal: int) -> None:
    """Run a command as a page prints it: services until they answer, questions answered with yes."""
    arguments = shlex.split(command, comments=True)[1:]
    if " ".join(arguments) in SERVICES:
        Served([*arguments, "--port", "0"], folder, folder, {}).stop()
        return
    out = None
    if ">" in arguments:
        place = arguments.index(">")
        out, arguments = folder / arguments[place + 1], arguments[:place]
    os.write(terminal, b"y\n")
    printed = StringIO()
    with redirect_stdout(printed):
        code = base.run(arguments, debug=True, as_json=False)
    assert code == 0, (command, printed.getvalue())
    if out is not None:
        out.write_text(printed.getvalue(), encoding="utf-8")


@pytest.mark.parametrize("path", [path for path in PAGES if commands(path)], ids=name_of)
def test_commands_run_as_printed(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order in which they stand, in one empty folder per page. (Tutorials are run by the build of the docs.)"""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("PEERVEIL_")]:
        monkeypatch.delenv(name)
    # the demo's audit takes most of its time, and is no matter of how its command is printed
    monkeypatch.setattr(demo, "run_demo", partial(demo.run_demo, samples=200))
    ours, theirs = os.openpty()
    with os.fdopen(theirs, encoding="utf-8") as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        for command in commands(path):
            run_printed(command, tmp_path, ours)
    os.close(ours)


def shown_commands(path: Path) -> list[list[str]]:
    """The commands of a page that are shown with arguments, run or not."""
    text = path.read_text(encoding="utf-8")
    lines = re.findall(r"^ *(?:\$ )?(peerveil [a-z].*)$|`(peerveil [a-z][^`]*)`", text, flags=re.MULTILINE)
    words = [shlex.split("".join(line).partition(" > ")[0], comments=True)[1:] for line in lines]
    return [line for line in words if any(word.startswith("--") for word in line) and not line[-1].startswith("--")]


@pytest.mark.parametrize("path", [path for path in PAGES if shown_commands(path)], ids=name_of)
def test_commands_that_are_shown_are_accepted(path: Path) -> None:
    for words in shown_commands(path):
        command: click.Command = application()
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            name, *words = words
            command = members(command)[name]
        if any(not word.startswith("-") for word in words[:1]) or not needs_more(command):
            command.make_context("shown", words)


@pytest.mark.parametrize("path", [path for path in PAGES if blocks(path, "toml")], ids=name_of)
def test_steps_that_are_shown_are_accepted(path: Path) -> None:
    for _, text in blocks(path, "toml"):
        for step in tomllib.loads(text).get("steps", []):
            kind = find_action(step["action"])
            kind.check({name: step[name] for name in step.keys() - {"action", "name", "data", "account"}}, strict=True)


def test_a_command_that_does_not_exist_is_noticed() -> None:
    assert needs_arguments(["data", "check"])
    assert needs_arguments(["collect"])
    assert not needs_arguments(["data", "check", "reviews.csv"])
    with pytest.raises(AssertionError, match="no command"):
        needs_arguments(["release", "mean", "reviews.csv"])


def test_every_command_is_documented() -> None:
    """By hand on the page of the command line; actions on the page that is generated from their declarations."""
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") + reference_page()
    for name in every_command():
        assert f"peerveil {name}" in text


def test_pages_plan_the_weight_that_they_release() -> None:
    """A plan of ratings says nothing about a release of miscalibration."""

    def weight(arguments: list[str]) -> str:
        return arguments[arguments.index("--weight") + 1] if "--weight" in arguments else "miscalibration"

    cells = [
        (path, line)
        for path in PAGES
        for _, block in blocks(path, "{code-cell} ipython3")
        for line in block.splitlines()
    ]
    lines = [*cells, *((path, line) for path in PAGES for line in commands(path))]
    listed = [
        (name_of(path), shlex.split(line, comments=True)[1:]) for path, line in lines if line.startswith("peerveil ")
    ]
    planned = [(page, weight(line)) for page, line in listed if line[:2] == ["release", "plan"]]
    assert {page for page, _ in planned} >= {"release", "tutorials/chair"}
    draft = PublishMeans.suggest(Reviews(paper=[1, 1], reviewer=["ann", "bo"], score=[3, 4]))
    assert draft is not None
    drafted = draft.settings["weight"]
    assert f"release plan FILE --weight {drafted} " in draft.why
    for page, plan in planned:
        released = {weight(line) for other, line in listed if other == page and line[:2] == ["release", "publish"]}
        assert plan in (released or {drafted}), page
