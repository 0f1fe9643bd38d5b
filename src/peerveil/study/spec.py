"""A study file, read and checked as far as it can be without its data.

The keys::

    [study]
    title = "..."            # what the report is called
    ledger = "budget.db"     # optional: a file (beside the study unless absolute) or a PostgreSQL address
    seed = 1                 # optional: simulate instead; everything is marked, nothing can be spent

    [accounts.NAME]
    epsilon = 3              # opened if it does not exist; never changed if it does

    [data.NAME]
    path = "reviews.csv"     # beside the study unless absolute
    kind = "reviews"         # reviews, events, rankings or labels; recognised if left out
    format = "csv"           # recognised if left out
    columns = { paper = "submission" }

    [[steps]]
    room = "release"
    do = "means"
    data = "NAME"
    account = "NAME"
    epsilon = 1
    name = "..."             # optional: what its files are called
"""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass, field
from difflib import get_close_matches
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from peerveil.errors import BadInput, Verbatim
from peerveil.guarantee import read_epsilon
from peerveil.study.problems import Problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    _T = TypeVar("_T")

KINDS: Final = ("reviews", "events", "rankings", "labels")
_LARGEST_FILE: Final = 1_000_000
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,58}[a-z0-9])?")
_NAME_IN_WORDS: Final = "a name of small letters, digits, - and _, 60 at most"


@dataclass(frozen=True)
class DataFile:
    """One ``[data.NAME]``."""

    name: str
    path: Path
    kind: str | None = None
    format: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StepSpec:
    """One ``[[steps]]``: what stands in the file, its settings still unread."""

    number: int
    name: str
    room: str
    do: str
    data: str | None
    account: str | None
    settings: Mapping[str, Any]

    @property
    def place(self) -> str:
        """Where it stands, for error messages."""
        return f"steps[{self.number}]"


@dataclass(frozen=True)
class Study:
    """A study file."""

    title: str
    path: Path
    text: str
    ledger: str
    accounts: Mapping[str, Fraction]
    data: Mapping[str, DataFile]
    steps: tuple[StepSpec, ...]
    seed: int | None = None

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Study:
        """Read a study file; all its problems are named at once, each with its place.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     file = Path(folder) / "study.toml"
        ...     lines = ["[study]", "title = 'Scores'", "[[steps]]", "room = 'audit'", "do = 'house'"]
        ...     _ = file.write_text(chr(10).join(lines))
        ...     study = Study.read(file)
        >>> study.title, study.steps[0].name
        ('Scores', 'audit-house')
        """
        where = regular_file(Path(path), "study")
        if where.stat().st_size > _LARGEST_FILE:
            raise BadInput("study", got=str(where), want=f"a file of at most {_LARGEST_FILE:,} bytes")
        try:
            text = where.read_text(encoding="utf-8")
            content = tomllib.loads(text)
        except UnicodeDecodeError:
            raise BadInput("study", got=str(where), want="a text file in UTF-8") from None
        except (ValueError, RecursionError) as error:  # no TOML, a number of too many digits, or too deeply nested
            raise BadInput(str(where), got=Verbatim(str(error)), want="a TOML file") from None
        from peerveil.study.check import make_steps

        problems = Problems()
        problems.attempt(only, content, ("study", "accounts", "data", "steps"), "the study")
        head, accounts, data = (
            problems.attempt(table, content, key, default={}) for key in ("study", "accounts", "data")
        )
        problems.attempt(only, head, ("title", "ledger", "seed"), "[study]")
        study = cls(
            title=problems.attempt(words, head.get("title"), "study.title", default="study"),
            path=where,
            text=text,
            ledger=problems.attempt(_ledger, head.get("ledger"), where, default=""),
            accounts=_each(accounts, _account, problems),
            data=_each(data, lambda name, entry: _data_file(name, entry, where.parent), problems),
            steps=read_steps(content.get("steps"), content, problems),
            seed=problems.attempt(_seed, head.get("seed")),
        )
        problems.attempt(make_steps, study)  # their settings
        problems.raise_any()
        return study


def regular_file(path: Path, argument: str) -> Path:
    """A path to a file that can be read from beginning to end: no folder, device or pipe."""
    if "\0" in str(path):
        raise BadInput(argument, got=str(path), want="a path without a zero byte")
    try:
        exists = path.exists()
    except (OSError, ValueError):  # a name that is too long, or that no file can have
        exists = False
    if not exists:
        raise BadInput(argument, got=str(path), want="a file that exists")
    if not path.is_file():
        raise BadInput(argument, got=str(path), want="a regular file")
    if not os.access(path, os.R_OK):
        raise BadInput(argument, got=str(path), want="a file that may be read")
    return path


def only(content: Mapping[str, Any], known: Iterable[str], place: str) -> None:
    """Refuse keys that nobody would read; a misspelt key must not be passed over in silence."""
    names, problems = list(known), Problems()
    for key in content:
        if key not in names:
            near = get_close_matches(key, names, n=1)
            hint = f"{near[0]!r}? {place} has" if near else f"one of the keys of {place}:"
            problems.add(BadInput(place, got=key, want=f"{hint} {', '.join(names) or 'no keys'}"))
    problems.raise_any()


def table(content: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A table of the file, empty if it is not there."""
    found = content.get(key, {})
    if not isinstance(found, dict):
        raise BadInput(key, got=found, want=f"a table, written [{key}]")
    return found


def words(value: object, place: str, longest: int = 200) -> str:
    """A text on one line."""
    if not isinstance(value, str) or not value.strip() or len(value) > longest or not value.isprintable():
        raise BadInput(place, got=value, want=f"a text on one line, of 1 to {longest} characters")
    return value.strip()


def _ledger(value: object, study: Path) -> str:
    if value is None:
        value = os.environ.get("PEERVEIL_LEDGER") or "peerveil-ledger.db"
    name = words(value, "study.ledger", 500)
    return name if "://" in name else str(study.parent / name)


def _seed(value: object) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise BadInput("study.seed", got=value, want="a whole number, 0 or more")
    return value


def _each(content: Mapping[str, Any], read: Callable[[str, Any], _T], problems: Problems) -> dict[str, _T]:
    """Every entry of a table that can be read."""
    found = {}
    for name, entry in content.items():
        one = problems.attempt(read, name, entry)
        if one is not None:
            found[name] = one
    return found


def _account(name: str, entry: object) -> Fraction:
    place = f"accounts.{name}"
    if not isinstance(entry, dict):
        raise BadInput(place, got=entry, want=f"a table, written [{place}]")
    problems = Problems()
    problems.attempt(only, entry, ("epsilon",), f"[{place}]")
    budget = Fraction(0)
    try:
        if "epsilon" not in entry:
            raise BadInput("epsilon", got=None, want="the account's whole budget")
        budget = read_epsilon(entry["epsilon"])
    except BadInput as error:
        problems.add(BadInput(f"{place}.epsilon", got=error.got, want=error.want))
    problems.raise_any()
    return budget


def _data_file(name: str, entry: object, folder: Path) -> DataFile:
    place = f"data.{name}"
    if not isinstance(entry, dict):
        raise BadInput(place, got=entry, want=f"a table, written [{place}]")
    problems = Problems()
    problems.attempt(only, entry, ("path", "kind", "format", "columns"), f"[{place}]")
    kind, format_, columns = entry.get("kind"), entry.get("format"), entry.get("columns", {})
    if kind is not None and kind not in KINDS:
        problems.add(BadInput(f"{place}.kind", got=kind, want=f"one of {', '.join(KINDS)}"))
    if not isinstance(columns, dict) or not all(isinstance(value, str) for value in columns.values()):
        problems.add(BadInput(f"{place}.columns", got=columns, want='a table such as { paper = "submission" }'))
    if format_ is not None:
        format_ = problems.attempt(words, format_, f"{place}.format")
    path = problems.attempt(_path, entry.get("path"), folder, f"{place}.path")
    problems.raise_any()
    return DataFile(name=name, path=path, kind=kind, format=format_, columns=columns)


def _path(value: object, folder: Path, place: str) -> Path:
    return regular_file(folder / words(value, place, 4000), place)


def read_steps(content: object, whole: Mapping[str, Any], problems: Problems) -> tuple[StepSpec, ...]:
    """The steps of a file whose other tables are ``whole``; what is wrong with them is noted."""
    if not isinstance(content, list) or not content:
        problems.add(BadInput("steps", got=content, want="at least one step, written [[steps]]"))
        return ()
    found: list[StepSpec] = []
    for number, entry in enumerate(content, start=1):
        one = problems.attempt(_step, number, entry, whole, [step.name for step in found], problems)
        if one is not None:
            found.append(one)
    return tuple(found)


def _step(number: int, entry: object, whole: Mapping[str, Any], taken: list[str], problems: Problems) -> StepSpec:
    """One step. Names that nothing bears are kept in it, so that each is complained of once."""
    place = f"steps[{number}]"
    if not isinstance(entry, dict):
        raise BadInput(place, got=entry, want="a table, written [[steps]]")
    rest = dict(entry)
    room, do = (problems.attempt(words, rest.pop(key, None), f"{place}.{key}", 40) for key in ("room", "do"))
    data, account = rest.pop("data", None), rest.pop("account", None)
    for value, section in ((data, "data"), (account, "accounts")):
        names = whole.get(section, {})
        problems.attempt(
            _known, value, names if isinstance(names, dict) else {}, f"{place}.{section.rstrip('s')}", section
        )
    name = rest.pop("name", None)
    if name is None:
        name = f"{room}-{do}"
        if not _NAME.fullmatch(name):
            name = f"step-{number}"  # there is no such step; the check will say so
        if name in taken:
            name = f"{name}-{number}"
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        problems.add(BadInput(f"{place}.name", got=name, want=_NAME_IN_WORDS))
        name = f"step-{number}"
    if name in taken:
        problems.add(BadInput(f"{place}.name", got=name, want="a name that no other step has"))
    if room is None or do is None:
        raise problems.found[-1]  # what it does is not known: its settings cannot be read
    return StepSpec(number, name, room, do, data, account, rest)


def _known(value: object, names: Mapping[str, Any], place: str, section: str) -> None:
    if value is not None and (not isinstance(value, str) or value not in names):
        shown = ", ".join(names) or f"none: there is no [{section}.NAME] in the file"
        raise BadInput(place, got=value, want=f"one of the names under [{section}] ({shown})")
