"""``peerveil new``: look at a folder of data, and write a commented study to begin with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from peerveil import judgements
from peerveil.errors import BadInput, PeerveilError
from peerveil.judgements.readers.recognise import nearest
from peerveil.study.check import all_steps

if TYPE_CHECKING:
    import os

_MOST_FILES: Final = 200
_NOT_DATA: Final = {".md", ".toml", ".db", ".html", ".svg", ".png", ".jpg", ".jpeg", ".pdf", ".log", ".py", ".ipynb"}
_HEAD: Final = """# A study: data, accounts, steps. Written by `peerveil new {folder}` after looking at the data; change it as you
# like. `peerveil run THIS_FILE` checks everything first, says what would be spent and published, and asks before it spends.

[study]
title = {title}
# ledger = "peerveil-ledger.db"   # where spending is kept; beside this file unless you say otherwise
# seed = 1                        # simulate instead: nothing is spent, everything is marked

# What all steps together may spend on these data, for good.
[accounts.main]
epsilon = {budget}
"""


class Found(NamedTuple):
    """A table in a file: its kind and format, and what its columns are called where that had to be guessed."""

    kind: str
    format: str
    table: Any
    columns: dict[str, str]


def new_study(folder: str | os.PathLike[str]) -> str:
    """The text of a study for the data in a folder (or for one file).

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from peerveil.judgements import synthetic_conference
    >>> with TemporaryDirectory() as folder:
    ...     _ = synthetic_conference(30, 20).write(folder)
    ...     text = new_study(folder)
    >>> "[data.reviews]" in text, 'room = "release"' in text
    (True, True)
    """
    source = Path(folder)
    if not source.exists():
        raise BadInput("data", got=str(source), want="a folder of data, or a file")
    files = sorted(path for path in source.iterdir() if path.is_file()) if source.is_dir() else [source]
    if len(files) > _MOST_FILES:
        raise BadInput("data", got=f"{len(files)} files", want=f"a folder with at most {_MOST_FILES}")
    names: set[str] = set()
    sections, steps, passed = [], [], []
    for path in files:
        found = _look(path)
        if isinstance(found, str):
            passed.append(f"# {_one_line(path.name)}: {found}")
            continue
        for one in found:
            name = _name(path, one.kind if len(found) > 1 else "", names)
            sections.append(
                f"[data.{name}]              # {_one_line(str(one.table))}\npath = {_quoted(str(path))}\n"
                f'kind = "{one.kind}"\nformat = "{one.format}"\n{_named(one.columns)}'
            )
            steps += [text for step in all_steps().values() if step.wants == one.kind
                      and (text := step.suggest(name, one.table)) is not None]  # fmt: skip
    if not sections:
        looked = "; ".join(line.removeprefix("# ") for line in passed[:3])
        raise BadInput("data", got=str(source), want=f"at least one file that can be read ({looked or 'it is empty'})")
    lines = "\n".join(steps).split("\n")
    spent = sum(line.startswith("account = ") for line in lines)
    head = _HEAD.format(
        folder=_one_line(str(source)), title=_quoted(f"Study of {source.resolve().name}"), budget=max(1, spent)
    )
    left = ["# Left out:\n" + "\n".join(passed) + "\n"] if passed else []
    return "\n".join([head, *sections, *left, *steps])


def _guessed(path: Path, format_: str) -> list[Found] | str:
    """A table whose columns have other names, read by what they are probably called."""
    guess = nearest(path)
    if guess is None:
        return "could be anything: name it under [data] yourself, with kind and columns"
    kind, columns = guess
    reader: Any = getattr(judgements, kind)
    try:
        table = reader.read(path, columns=columns)
    except PeerveilError as error:
        return f"looks like {kind.lower()}, but: {_one_line(str(error))}"
    return [Found(kind.lower(), format_, table, columns)]


def _look(path: Path) -> list[Found] | str:
    """What a file can be read as, or why it is left out."""
    if path.name.startswith((".", "truth_")) or path.suffix.lower() in _NOT_DATA:
        return "not a table of judgements"
    if not str(path).isprintable():
        return "give it a name on one line first"
    try:
        seen = judgements.recognise(path)
    except PeerveilError as error:
        return _one_line(str(error))
    kinds = seen.kinds
    if len(kinds) == 4 and any(word in path.name.lower() for word in ("rank", "vote", "ballot", "order")):
        kinds = ("Rankings",)  # a wide table of ranks has no column names of its own
    if len(kinds) in (0, 4):
        return _guessed(path, seen.format)
    tables, why = [], ""
    for kind in kinds:
        reader: Any = getattr(judgements, kind)
        try:
            tables.append(Found(kind.lower(), seen.format, reader.read(path), {}))
        except PeerveilError as error:
            why = _one_line(str(error))
    return tables or why


def _named(columns: dict[str, str]) -> str:
    if not columns:
        return ""
    pairs = ", ".join(f"{ours} = {_quoted(theirs)}" for ours, theirs in columns.items())
    return f"columns = {{ {pairs} }}   # guessed from the header: please check\n"


def _name(path: Path, kind: str, taken: set[str]) -> str:
    letters = "".join(c if c.isascii() and c.isalnum() else "-" for c in path.name.split(".")[0].lower()).strip("-")
    base = "-".join(part for part in (letters[:40] or "data", kind if kind != letters else "") if part)
    name, number = base, 2
    while name in taken:
        name, number = f"{base}-{number}", number + 1
    taken.add(name)
    return name


def _quoted(text: str) -> str:
    """A TOML string."""
    return json.dumps(text, ensure_ascii=False)


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:160]
