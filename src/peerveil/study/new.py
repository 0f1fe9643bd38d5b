"""``peerveil new``: look at a folder of data, and write a commented study to begin with."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from peerveil import data
from peerveil.core.errors import BadInput, PeerveilError
from peerveil.core.exact import printed
from peerveil.data.readers.files import InputFile
from peerveil.data.readers.recognize import nearest
from peerveil.data.readers.tabular import column_names
from peerveil.study.actions import all_actions
from peerveil.study.execute import Inputs
from peerveil.study.toml import toml_step, toml_value

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
    >>> from peerveil.data import synthetic_conference
    >>> with TemporaryDirectory() as folder:
    ...     _ = synthetic_conference(30, 20).write(folder)
    ...     text = new_study(folder)
    >>> "[data.reviews]" in text, 'action = "release.publish"' in text
    (True, True)
    """
    source = Path(folder)
    if not source.exists():
        raise BadInput("data", got=str(source), want="a folder of data, or a file")
    files = sorted(path for path in source.iterdir() if path.is_file()) if source.is_dir() else [source]
    if len(files) > _MOST_FILES:
        raise BadInput("data", got=f"{len(files)} files", want=f"a folder with at most {_MOST_FILES}")
    names: set[str] = set()
    sections, steps, passed, unnamed = [], [], [], []
    budget = Fraction(0)
    for path in files:
        found = _look(path)
        if isinstance(found, str):
            passed.append(f"{_one_line(path.name)}: {found}")
            continue
        if isinstance(found, Unnamed):
            unnamed.append(found.section(_name(path, "", names), path))
            continue
        for one in found:
            name = _name(path, one.kind if len(found) > 1 else "", names)
            sections.append(
                f"[data.{name}]              # {_one_line(str(one.table))}\npath = {toml_value(str(path))}\n"
                f'kind = "{one.kind}"\nformat = "{one.format}"\n{_named(one.columns)}'
            )
            for text, debit in _suggested(name, one):
                steps.append(text)
                budget += debit
    if not sections and not unnamed:
        looked = "; ".join(passed[:3])
        raise BadInput("data", got=str(source), want=f"at least one file that can be read ({looked or 'it is empty'})")
    head = _HEAD.format(
        folder=_one_line(str(source)),
        title=toml_value(f"Study of {source.resolve().name}"),
        budget=f"{printed(budget or Fraction(1), 'up'):g}",
    )
    left = ["# Left out:\n" + "".join(f"# {line}\n" for line in passed)] if passed else []
    return "\n".join([head, *sections, *(f"{section}\n" for section in unnamed), *left, *steps])


def _guessed(path: Path, format_: str) -> list[Found] | Unnamed | str:
    """A table whose columns have other names, read by what they are probably called."""
    guess = nearest(path)
    if guess is None:
        return Unnamed(tuple(column_names(InputFile.open(path), format_)) if format_ != "jsonl" else ())
    kind, columns = guess
    reader: Any = getattr(data, kind)
    try:
        table = reader.read(path, columns=columns)
    except PeerveilError as error:
        return f"looks like {kind.lower()}, but: {_one_line(str(error))}"
    return [Found(kind.lower(), format_, table, columns)]


@dataclass(frozen=True)
class Unnamed:
    """A plain table whose columns have names that nothing can be guessed from."""

    columns: tuple[str, ...]

    def section(self, name: str, path: Path) -> str:
        """A commented section to begin with."""
        seen = _one_line(", ".join(self.columns)) or "unknown"
        return "\n".join(
            f"# {line}"
            for line in (
                f"{_one_line(path.name)}: its columns are {seen}. Say what is what, and remove the signs in front:",
                f"[data.{name}]",
                f"path = {toml_value(str(path))}",
                'kind = "reviews"   # or events, rankings, labels',
                'columns = { paper = "...", score = "..." }',
            )
        )


def _suggested(name: str, data: Found) -> list[tuple[str, Fraction]]:
    """The steps that actions suggest for a table, as text, and what each would debit."""
    steps = []
    for kind in all_actions().values():
        suggestion = kind.suggest(data.table) if data.kind in kind.kinds else None
        if suggestion is None:
            continue
        debit = Fraction(0)
        if kind.spends and not suggestion.commented:
            with suppress(BadInput):  # what the data do not allow is for the check to say
                guarantee = kind.check(suggestion.settings, strict=True).guarantee(Inputs(data.table))
                if guarantee is not None and guarantee.notion.adds_up:
                    debit = guarantee.exact_epsilon or Fraction(0)
        text = toml_step(
            kind,
            suggestion.settings,
            data=name,
            account="main" if kind.spends else None,
            why=suggestion.why,
            remarks=suggestion.remarks,
            commented=suggestion.commented,
        )
        steps.append((text, debit))
    return steps


def likely_kinds(name: str, kinds: tuple[str, ...]) -> tuple[str, ...]:
    """What a file is probably to be read as, of all it could be: a wide table of ranks has only its name to tell.

    >>> likely_kinds("votes-2026.csv", ("Reviews", "Events", "Rankings", "Labels"))
    ('Rankings',)
    """
    if len(kinds) == 4 and any(word in name.lower() for word in ("rank", "vote", "ballot", "order")):
        return ("Rankings",)
    return kinds


def _look(path: Path) -> list[Found] | Unnamed | str:
    """What a file can be read as, or why it is left out."""
    if path.name.startswith((".", "truth_")) or path.suffix.lower() in _NOT_DATA:
        return "not a table of judgments"
    if not str(path).isprintable():
        return "give it a name on one line first"
    try:
        seen = data.recognize(path)
    except PeerveilError as error:
        return _one_line(str(error))
    kinds = likely_kinds(path.name, seen.kinds)
    if len(kinds) in (0, 4):
        return _guessed(path, seen.format)
    tables, why = [], ""
    for kind in kinds:
        reader: Any = getattr(data, kind)
        try:
            tables.append(Found(kind.lower(), seen.format, reader.read(path), {}))
        except PeerveilError as error:
            why = _one_line(str(error))
    return tables or why


def _named(columns: dict[str, str]) -> str:
    if not columns:
        return ""
    pairs = ", ".join(f"{ours} = {toml_value(theirs)}" for ours, theirs in columns.items())
    return f"columns = {{ {pairs} }}   # guessed from the header: please check\n"


def _name(path: Path, kind: str, taken: set[str]) -> str:
    letters = "".join(c if c.isascii() and c.isalnum() else "-" for c in path.name.split(".")[0].lower()).strip("-")
    base = "-".join(part for part in (letters[:40] or "data", kind if kind != letters else "") if part)
    name, number = base, 2
    while name in taken:
        name, number = f"{base}-{number}", number + 1
    taken.add(name)
    return name


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:160]
