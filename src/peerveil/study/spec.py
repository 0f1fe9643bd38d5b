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
    kind = "reviews"         # reviews, events, rankings or labels; recognized if left out
    format = "csv"           # recognized if left out
    columns = { paper = "submission" }
    time_zone = "UTC"        # of times that name none
    layout = "places"        # rankings only: what the cells of a wide table hold, orders or places

    [[steps]]
    action = "release.publish"
    data = "NAME"
    account = "NAME"
    epsilon = 1
    name = "..."             # optional: what its files are called
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from peerveil.core.errors import BadInput, Verbatim, unknown
from peerveil.core.files import read_toml, regular_file
from peerveil.core.guarantee import read_epsilon
from peerveil.study.actions import KINDS, find_action
from peerveil.study.execute import Source
from peerveil.study.refusals import Refusals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from peerveil.study.actions import Action

    _T = TypeVar("_T")

_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,58}[a-z0-9])?")
_NAME_IN_WORDS: Final = "a name of small letters, digits, - and _, 60 at most"


@dataclass(frozen=True)
class StepSpec:
    """One ``[[steps]]``: an action, what it works on and what pays for it."""

    number: int
    name: str
    action: Action[Any]
    data: str | None
    account: str | None

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
    data: Mapping[str, Source]
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
        ...     lines = ["[study]", "title = 'Scores'", "[[steps]]", "action = 'audit.run'"]
        ...     _ = file.write_text(chr(10).join(lines))
        ...     study = Study.read(file)
        >>> study.title, study.steps[0].name
        ('Scores', 'audit-run')
        """
        where = Path(path)
        text, content = read_toml(where, "study")
        problems = Refusals()
        problems.attempt(only, content, ("study", "accounts", "data", "steps"), "the study")
        head, accounts, data = (
            problems.attempt(table, content, key, default={}) for key in ("study", "accounts", "data")
        )
        problems.attempt(only, head, ("title", "ledger", "seed"), "[study]")
        seed = problems.attempt(_seed, head.get("seed"))
        study = cls(
            title=problems.attempt(words, head.get("title"), "study.title", default="study"),
            path=where,
            text=text,
            ledger=problems.attempt(_ledger, head.get("ledger"), where, default=""),
            accounts=_each(accounts, _account, problems),
            data=_each(data, lambda name, entry: _data_file(name, entry, where.parent), problems),
            steps=read_steps(content.get("steps"), content, problems, folder=where.parent, simulated=seed is not None),
            seed=seed,
        )
        problems.raise_any()
        return study


def only(content: Mapping[str, Any], known: Iterable[str], place: str) -> None:
    """Refuse keys that nobody would read; a misspelt key must not be passed over in silence."""
    names, problems = list(known), Refusals()
    for key in content:
        if key not in names:
            problems.add(unknown(place, key, names, "keys"))
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


def _each(content: Mapping[str, Any], read: Callable[[str, Any], _T], problems: Refusals) -> dict[str, _T]:
    """Every entry of a table that can be read."""
    values = {name: problems.attempt(read, name, entry) for name, entry in content.items()}
    return {name: value for name, value in values.items() if value is not None}


def _account(name: str, entry: object) -> Fraction:
    place = f"accounts.{name}"
    if not isinstance(entry, dict):
        raise BadInput(place, got=entry, want=f"a table, written [{place}]")
    problems = Refusals()
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


def _data_file(name: str, entry: object, folder: Path) -> Source:
    place = f"data.{name}"
    if not isinstance(entry, dict):
        raise BadInput(place, got=entry, want=f"a table, written [{place}]")
    problems = Refusals()
    problems.attempt(only, entry, ("path", "kind", "format", "columns", "time_zone", "layout"), f"[{place}]")
    kind, columns = entry.get("kind"), entry.get("columns", {})
    if kind is not None and kind not in KINDS:
        problems.add(BadInput(f"{place}.kind", got=kind, want=f"one of {', '.join(KINDS)}"))
    if not isinstance(columns, dict) or not all(isinstance(value, str) for value in columns.values()):
        problems.add(BadInput(f"{place}.columns", got=columns, want='a table such as { paper = "submission" }'))
    options = {
        key: problems.attempt(words, entry[key], f"{place}.{key}")
        for key in ("format", "time_zone", "layout")
        if key in entry
    }
    path = problems.attempt(_path, entry.get("path"), folder, f"{place}.path")
    problems.raise_any()
    return Source(path=path, kind=kind, columns=columns, name=name, **options)


def _path(value: object, folder: Path, place: str) -> Path:
    return regular_file(folder / words(value, place, 4000), place)


def read_steps(
    content: object, whole: Mapping[str, Any], problems: Refusals, *, folder: Path, simulated: bool = False
) -> tuple[StepSpec, ...]:
    """The steps of a file whose other tables are ``whole``; what is wrong with them is noted."""
    if not isinstance(content, list) or not content:
        problems.add(BadInput("steps", got=content, want="at least one step, written [[steps]]"))
        return ()
    steps: list[StepSpec] = []
    names: list[str] = []
    for number, entry in enumerate(content, start=1):
        place = f"steps[{number}]"
        if not isinstance(entry, dict):
            problems.add(BadInput(place, got=entry, want="a table, written [[steps]]"))
            continue
        name = _step_name(entry, number, names, problems)
        names.append(name)
        step = problems.attempt(_step, number, name, entry, whole, problems, folder, simulated)
        if step is not None:
            steps.append(step)
    return tuple(steps)


def _step(
    number: int,
    name: str,
    entry: Mapping[str, Any],
    whole: Mapping[str, Any],
    problems: Refusals,
    folder: Path,
    simulated: bool,
) -> StepSpec:
    """One step: its action with its settings checked, and the names that it refers to."""
    place = f"steps[{number}]"
    settings = {key: value for key, value in entry.items() if key not in ("action", "data", "account", "name")}
    data, account = entry.get("data"), entry.get("account")
    for value, section in ((data, "data"), (account, "accounts")):
        problems.attempt(_known, value, whole, f"{place}.{section.rstrip('s')}", section)
    if "room" in entry and "do" in entry and "action" not in entry:
        got = Verbatim(f"room = {entry['room']!r}, do = {entry['do']!r}")
        raise BadInput(place, got=got, want='action = "module.verb", such as action = "release.publish"')
    try:
        kind = find_action(entry.get("action"))
    except BadInput as error:
        raise BadInput(f"{place}.action", got=error.got, want=error.want) from None
    action = problems.attempt(lambda: kind.check(settings, strict=True, place=lambda key: f"{place}.{key}"))
    problems.attempt(_needs, kind, data, account, place, simulated)
    if action is None:
        raise problems.found[-1]
    return StepSpec(number, name, _located(action, whole, place, folder, problems), data, account)


def _located(
    action: Action[Any], whole: Mapping[str, Any], place: str, folder: Path, problems: Refusals
) -> Action[Any]:
    """The action with the files that it opens beside the study; names of further data must stand under [data]."""
    paths: dict[str, Path] = {}
    for parameter in action.parameters():
        value = getattr(action, parameter.name)
        if parameter.refers is None or value is None:
            continue
        own = f"{place}.{parameter.name}"
        if parameter.refers.kind is None:
            paths[parameter.name] = problems.attempt(regular_file, folder / value, own)
        else:
            for name in value if parameter.many else (value,):
                problems.attempt(_known, name, whole, own, "data")
    return replace(action, **paths)  # type: ignore[type-var]


def _needs(kind: type[Action[Any]], data: object, account: object, place: str, simulated: bool) -> None:
    """Data and account are named where they are needed, and only there: what is spent must be counted."""
    problems = Refusals()
    if kind.kinds and data is None:
        problems.add(BadInput(f"{place}.data", got=None, want=f"the name of {' or '.join(kind.kinds)} under [data]"))
    if not kind.kinds and data is not None:
        problems.add(BadInput(f"{place}.data", got=data, want=f"nothing: {kind.name} reads no data"))
    if kind.spends and account is None and not simulated:
        problems.add(BadInput(f"{place}.account", got=None, want="the account to debit, a name under [accounts]"))
    if not kind.spends and account is not None:
        problems.add(BadInput(f"{place}.account", got=account, want=f"no account: {kind.name} spends nothing"))
    problems.raise_any()


def _step_name(entry: Mapping[str, Any], number: int, taken: list[str], problems: Refusals) -> str:
    """What a step's files are called: its own name, or that of its action."""
    name = entry.get("name")
    if name is None:
        name = str(entry.get("action")).replace(".", "-")
        if not _NAME.fullmatch(name):
            name = f"step-{number}"  # there is no such action, and the check says so
        return f"{name}-{number}" if name in taken else name
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        problems.add(BadInput(f"steps[{number}].name", got=name, want=_NAME_IN_WORDS))
        return f"step-{number}"
    if name in taken:
        problems.add(BadInput(f"steps[{number}].name", got=name, want="a name that no other step has"))
    return name


def _known(value: object, whole: Mapping[str, Any], place: str, section: str) -> None:
    names = whole.get(section, {})
    names = names if isinstance(names, dict) else {}
    if value is not None and (not isinstance(value, str) or value not in names):
        shown = ", ".join(names) or f"none: there is no [{section}.NAME] in the file"
        raise BadInput(place, got=value, want=f"one of the names under [{section}] ({shown})")
