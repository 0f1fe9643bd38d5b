"""``peerveil new``: look at a folder of data, and write a commented study to begin with."""

from __future__ import annotations

import os
from contextlib import suppress
from fractions import Fraction
from itertools import chain, count
from pathlib import Path
from typing import Any, Final, NamedTuple

from peerveil import data
from peerveil.core.errors import BadInput, PeerveilError
from peerveil.core.exact import printed
from peerveil.data.readers.files import InputFile
from peerveil.data.readers.recognize import nearest
from peerveil.data.readers.tabular import TABULAR, column_names
from peerveil.data.schema import SCHEMAS, match_columns, plain_name, suggest_columns
from peerveil.study.actions import all_actions
from peerveil.study.check import debit_of
from peerveil.study.execute import Inputs, StudyFile
from peerveil.study.spelling import require
from peerveil.study.toml import toml_value

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


class FoundTable(NamedTuple):
    """A table in a file: its kind and format, and what its columns are called where that had to be guessed."""

    kind: str
    format: str
    table: Any
    columns: dict[str, str]

    def section(self, name: str, path: Path) -> str:
        """Its ``[data.NAME]``."""
        pairs = ", ".join(f"{ours} = {toml_value(theirs)}" for ours, theirs in self.columns.items())
        guessed = f"columns = {{ {pairs} }}   # guessed from the header: please check\n" if pairs else ""
        return (
            f"[data.{name}]              # {_one_line(str(self.table))}\npath = {toml_value(str(path))}\n"
            f'kind = "{self.kind}"\nformat = "{self.format}"\n{guessed}'
        )


def new_study(folder: str | os.PathLike[str]) -> str:
    """The text of a study for the data in a folder (or for one file).

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from peerveil.data import synthetic_conference
    >>> with TemporaryDirectory() as folder:
    ...     _ = synthetic_conference(30, 20).write(folder)
    ...     text = new_study(folder)
    >>> "[data.reviews]" in text, 'action = "release.publish"' in text
    (True, True)
    """
    source = Path(folder)
    require(source.exists(), "data", got=str(source), want="a folder of data, or a file")
    files = sorted(path for path in source.iterdir() if path.is_file()) if source.is_dir() else [source]
    require(len(files) <= _MOST_FILES, "data", got=f"{len(files)} files", want=f"a folder with at most {_MOST_FILES}")
    names: set[str] = set()
    sections, unnamed, left_out, steps = [], [], [], []
    for path in files:
        try:
            tables = _tables(path)
            if not tables:
                unnamed.append(_unnamed_section(_name(path, "", names), path))
        except PeerveilError as error:
            tables = []
            left_out.append(f"{_one_line(path.name)}: {_one_line(str(error))}")
        for found in tables:
            name = _name(path, found.kind if len(tables) > 1 else "", names)
            sections.append(found.section(name, path))
            steps += _suggested(name, found)
    readable = f"at least one file that can be read ({'; '.join(left_out[:3]) or 'it is empty'})"
    require(sections or unnamed, "data", got=str(source), want=readable)
    budget = sum((debit for _, debit in steps), Fraction(0))
    head = _HEAD.format(
        folder=_one_line(str(source)),
        title=toml_value(f"Study of {source.resolve().name}"),
        budget=f"{printed(budget or Fraction(1), 'up'):g}",
    )
    listed = ["# Left out:\n" + "".join(f"# {line}\n" for line in left_out)] if left_out else []
    return "\n".join([head, *sections, *unnamed, *listed, *(text for text, _ in steps)])


def _tables(path: Path) -> list[FoundTable]:
    """What a file can be read as; nothing if its columns have names that nothing can be guessed from."""
    if path.name.startswith((".", "truth_")) or path.suffix.lower() in _NOT_DATA:
        raise PeerveilError("not a table of judgments")
    if not str(path).isprintable():
        raise PeerveilError("give it a name on one line first")
    recognized = data.recognize(path)
    kinds, guess = likely_kinds(path.name, recognized.kinds), None
    if len(kinds) in (0, 4):
        guess = nearest(path)
        if guess is None:
            return []
        kinds = (guess[0],)
    tables, reason = [], ""
    for kind in kinds:
        columns = _other_names(path, kind, recognized.format) if guess is None else guess[1]
        try:
            table = StudyFile(path=path, columns=columns or None).read(kind.lower())
            tables.append(FoundTable(kind.lower(), recognized.format, table, columns))
        except PeerveilError as error:
            reason = f"looks like {kind.lower()}, but: {error}" if columns else str(error)
    if not tables:
        raise PeerveilError(reason)
    return tables


def _other_names(path: Path, kind: str, format_: str) -> dict[str, str]:
    """What the columns of a recognized table are called, if any that it needs has another name than ours."""
    if format_ not in TABULAR:
        return {}
    schema, names = SCHEMAS[kind], column_names(InputFile.open(path), format_)
    columns = suggest_columns(schema, names, match_columns(schema, names, {}))
    is_ours = all(plain_name(columns.get(ours, ours)) == ours for ours in schema.required)
    return {} if is_ours else columns


def _unnamed_section(name: str, path: Path) -> str:
    """A commented section to begin with."""
    format_ = data.recognize(path).format
    columns = () if format_ == "jsonl" else column_names(InputFile.open(path), format_)
    listed = _one_line(", ".join(columns)) or "unknown"
    return (
        f"# {_one_line(path.name)}: its columns are {listed}. State which is which, and remove the signs in front:\n"
        f"# [data.{name}]\n"
        f"# path = {toml_value(str(path))}\n"
        '# kind = "reviews"   # or events, rankings, labels\n'
        '# columns = { paper = "...", score = "..." }\n'
    )


def _suggested(name: str, found: FoundTable) -> list[tuple[str, Fraction]]:
    """The steps that actions suggest for a table, as text, and what each would debit."""
    steps = []
    for kind in all_actions().values():
        if found.kind not in kind.kinds or (suggestion := kind.suggest(found.table)) is None:
            continue
        guarantee = None
        if kind.spends and not suggestion.commented:
            with suppress(BadInput):  # what the data do not allow is for the check to say
                guarantee = kind.check(suggestion.settings, strict=True).guarantee(Inputs(found.table))
        account = "main" if kind.spends else None
        steps.append((suggestion.text(kind, data=name, account=account), debit_of(guarantee)))
    return steps


def likely_kinds(name: str, kinds: tuple[str, ...]) -> tuple[str, ...]:
    """What a file is probably to be read as, of all it could be: a wide table of ranks has only its name to tell.

    >>> likely_kinds("votes-2026.csv", ("Reviews", "Events", "Rankings", "Labels"))
    ('Rankings',)
    """
    is_named = any(word in name.lower() for word in ("rank", "vote", "ballot", "order"))
    return ("Rankings",) if len(kinds) == 4 and is_named else kinds


def _name(path: Path, kind: str, taken: set[str]) -> str:
    letters = "".join(c if c.isascii() and c.isalnum() else "-" for c in path.name.split(".")[0].lower()).strip("-")
    base = "-".join(part for part in (letters[:40] or "data", kind if kind != letters else "") if part)
    name = next(name for name in chain([base], (f"{base}-{number}" for number in count(2))) if name not in taken)
    taken.add(name)
    return name


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:160]
