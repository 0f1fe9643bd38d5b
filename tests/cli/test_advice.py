"""What a text advises exists: the commands and options that it names, and the parameters that an error names."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.cli.runner import every_command

import peerveil

SOURCE = Path(peerveil.__file__).parent
FILES = sorted(path for path in SOURCE.rglob("*.py") if "papers" not in path.parts)
COMMAND = re.compile(r"`peerveil ([a-z][^`]*)`")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z](?![\w-])")
PARAMETER = re.compile(r"(?<![\w.<{\[-])([a-z_]+)=(?![=>])")
STYLE = re.compile(r"(--[a-z]+)(?=\s*:)|var\((--[a-z]+)")  # properties of style sheets look like options
OTHERS = {"--https"}
NO_PARAMETERS = {
    "ours": "the form of --column",
    "paper": "an example of --column",
    "layout": "an option of Rankings.read and from_frame, which hand it on",
}
WANTED = ("want", "wanted", "advice", "hint", "message", "needs", "why", "reason", "remedy")


def texts(path: Path) -> Iterator[str]:
    """Every text of a file but its docstrings; the parts of a formatted one are joined."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    formatted = [node for node in nodes if isinstance(node, ast.JoinedStr)]
    apart = {id(part) for node in formatted for part in node.values}
    apart |= {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for text in formatted:
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in text.values)
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in apart:
            yield node.value


@cache
def options() -> dict[str, set[str]]:
    """The options of every command."""
    return {
        name: {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}
        | {"--help", "--debug"}
        for name, command in every_command().items()
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_options_and_commands_exist(path: Path) -> None:
    every = set().union(*options().values()) | OTHERS
    for text in texts(path):
        styles = {name for pair in STYLE.findall(text) for name in pair}
        for option in set(OPTION.findall(text)) - styles:
            assert option in every, f"{option} in: {text}"
        for line in COMMAND.findall(text):
            words = line.split()
            name = next((" ".join(words[:n]) for n in (3, 2, 1) if " ".join(words[:n]) in options()), None)
            groups = {known.rpartition(" ")[0] for known in options()}
            assert name is not None or line in groups, f"no command: {line}"
            for option in OPTION.findall(line):
                assert option in options()[str(name)], f"{option} of {name} in: {text}"


def raised_texts(path: Path) -> Iterator[str]:
    """The texts of a file's errors: what is raised, what an error says is needed, and advice."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        is_wanted = (isinstance(node, ast.keyword) and node.arg in ("want", "hint", "advice")) or (
            isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in WANTED
        )
        if isinstance(node, ast.Raise) or is_wanted:
            for child in ast.walk(node):
                if isinstance(child, ast.Constant) and isinstance(child.value, str):
                    yield child.value


@cache
def parameters(place: str) -> set[str]:
    """The parameters of everything public in a module: functions, constructors and methods."""
    module, names = importlib.import_module(f"peerveil.{place}"), set[str]()
    public = [getattr(module, name) for name in getattr(module, "__all__", dir(module))]
    for entry in public:
        members = (
            [member for name, member in vars(entry).items() if not name.startswith("_")]
            if inspect.isclass(entry)
            else []
        )
        for function in (entry, *(getattr(member, "__func__", member) for member in members)):
            if callable(function):
                try:
                    names |= set(inspect.signature(function).parameters)
                except (TypeError, ValueError):
                    continue
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_parameters_that_an_error_names_exist(path: Path) -> None:
    package, *rest = path.relative_to(SOURCE).with_suffix("").parts
    public = f"core.{rest[0]}" if package == "core" else package  # core has no face of its own
    for text in raised_texts(path):
        for name in PARAMETER.findall(text):
            assert name in parameters(public) | NO_PARAMETERS.keys(), f"{name}= in: {text}"


def test_what_does_not_exist_would_be_noticed(tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    file.write_text('''def f(x):
    """A docstring may name --anything."""
    raise BadInput("x", got=x, want=f"{x} --colum or colums={{'a': 'b'}}, see `peerveil data chek`")
''')
    assert [OPTION.findall(text) for text in texts(file)] == [["--colum"], []]
    assert [COMMAND.findall(text) for text in texts(file)] == [["data chek"], []]
    assert "colums" in [name for text in raised_texts(file) for name in PARAMETER.findall(text)]
    assert "colums" not in parameters("data")
    assert sum(len(OPTION.findall(text)) for path in FILES for text in texts(path)) > 100
    assert sum(len(PARAMETER.findall(text)) for path in FILES for text in raised_texts(path)) > 20
