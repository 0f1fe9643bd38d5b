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
    header = false           # CSV or TSV without a line of names: columns are called 1, 2, 3, ...
    separator = ";"          # CSV or TSV: what stands between cells; recognized if left out
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
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

from peerveil.core.errors import BadInput
from peerveil.core.files import read_toml, regular_file, require_table, table
from peerveil.core.guarantee import read_epsilon
from peerveil.study.actions import Action, Declared, Setting, find_action
from peerveil.study.execute import StudyFile
from peerveil.study.spelling import (
    EPSILON_SCHEMA,
    Address,
    Range,
    Refusals,
    Spelling,
    Title,
    only,
    require,
)

Settings = TypeVar("Settings", bound=Declared)
Budget = Annotated[Fraction, Spelling("a number above 0, such as 1, 0.5 or '1/3'", EPSILON_SCHEMA, read_epsilon)]
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,58}[a-z0-9])?")
_NAME_IN_WORDS: Final = "a name of small letters, digits, - and _, 60 at most"


class StudyHead(Declared):
    """``[study]``."""

    title: Annotated[Title, Setting("What the report is called.")]
    ledger: Annotated[
        Address | None, Setting("Where spending is recorded: a file, or the address of a PostgreSQL database.")
    ] = None
    seed: Annotated[int | None, Range(ge=0), Setting("Simulate: nothing is spent, everything is marked.")] = None


class AccountBudget(Declared):
    """``[accounts.NAME]``."""

    epsilon: Annotated[Budget, Setting("The account's whole budget.")]


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
    data: Mapping[str, StudyFile]
    steps: tuple[StepSpec, ...]
    seed: int | None = None

    @property
    def ledger_exists(self) -> bool:
        """Whether the file of its ledger is there; a database is only known once it is opened."""
        return "://" in self.ledger or Path(self.ledger).exists()

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
        where, refusals = Path(path), Refusals()
        text, content = read_toml(where, "study")
        refusals.attempt(only, content, ("study", "accounts", "data", "steps"), "the study")
        head = refusals.attempt(_read_table, StudyHead, content.get("study", {}), "study", default=StudyHead(title="-"))
        accounts = _read_entries(AccountBudget, content, "accounts", refusals)
        data = _read_entries(StudyFile, content, "data", refusals)
        paths = {
            name: refusals.attempt(regular_file, where.parent / file.path, f"data.{name}.path")
            for name, file in data.items()
        }
        ledger = head.ledger or os.environ.get("PEERVEIL_LEDGER") or "peerveil-ledger.db"
        study = cls(
            title=head.title,
            path=where,
            text=text,
            ledger=ledger if "://" in ledger else str(where.parent / ledger),
            accounts={name: account.epsilon for name, account in accounts.items()},
            data={name: replace(file, path=paths[name]) for name, file in data.items()},
            steps=_read_steps(content, refusals, where.parent, head.seed is not None),
            seed=head.seed,
        )
        refusals.raise_any()
        return study


def _read_table(kind: type[Settings], entry: object, place: str) -> Settings:
    return kind.check(require_table(entry, place), strict=True, place=lambda key: f"{place}.{key}")


def _read_entries(
    kind: type[Settings], content: Mapping[str, Any], section: str, refusals: Refusals
) -> dict[str, Settings]:
    """Every entry of a section that can be read."""
    entries: Mapping[str, Any] = refusals.attempt(table, content, section, default={})
    tables = {name: refusals.attempt(_read_table, kind, entry, f"{section}.{name}") for name, entry in entries.items()}
    return {name: settings for name, settings in tables.items() if settings is not None}


# ---- steps -----------------------------------------------------------------------------------------------------------


def _read_steps(content: dict[str, Any], refusals: Refusals, folder: Path, simulated: bool) -> tuple[StepSpec, ...]:
    """The steps; what is wrong with them is noted."""
    entries = content.get("steps")
    if not isinstance(entries, list) or not entries:
        refusals.add(BadInput("steps", got=entries, want="at least one step, written [[steps]]"))
        return ()
    names: list[str] = []
    steps = [
        refusals.attempt(_read_step, number, names, entry, content, refusals, folder, simulated)
        for number, entry in enumerate(entries, start=1)
    ]
    return tuple(step for step in steps if step is not None)


def _read_step(
    number: int,
    names: list[str],
    entry: Any,
    content: dict[str, Any],
    refusals: Refusals,
    folder: Path,
    simulated: bool,
) -> StepSpec:
    """One step: its action with its settings checked, and the names that it refers to. Its name is added to ``names``."""
    place = f"steps[{number}]"
    require(isinstance(entry, dict), place, got=entry, want="a table, written [[steps]]")
    names.append(refusals.attempt(_step_name, entry, number, names, default=f"step-{number}"))
    data, account = entry.get("data"), entry.get("account")
    refusals.attempt(_require_name, data, content, f"{place}.data", "data")
    refusals.attempt(_require_name, account, content, f"{place}.account", "accounts")
    try:
        kind = find_action(entry.get("action"))
    except BadInput as error:
        raise BadInput(f"{place}.action", got=error.got, want=error.want) from None
    for key, value, wanted, missing, needless in (
        ("data", data, bool(kind.kinds), f"the name of {' or '.join(kind.kinds)} under [data]",
         f"nothing: {kind.name} reads no data"),
        ("account", account, kind.spends, "the account to debit, a name under [accounts]",
         f"no account: {kind.name} spends nothing"),
    ):  # fmt: skip
        if (value is None) is wanted and not (key == "account" and wanted and simulated):
            refusals.add(BadInput(f"{place}.{key}", got=value, want=missing if wanted else needless))
    settings = {key: value for key, value in entry.items() if key not in ("action", "data", "account", "name")}
    action = kind.check(settings, strict=True, place=lambda key: f"{place}.{key}")
    paths: dict[str, Path] = {}
    for parameter in kind.parameters():  # files are beside the study, names of further data under [data]
        for value in parameter.values(action) if parameter.refers is not None else ():
            where = f"{place}.{parameter.name}"
            if parameter.named_data:
                refusals.attempt(_require_name, value, content, where, "data")
            else:
                paths[parameter.name] = refusals.attempt(regular_file, folder / value, where)
    return StepSpec(number, names[-1], replace(action, **paths), data, account)


def _step_name(entry: Mapping[str, Any], number: int, taken: list[str]) -> str:
    """What a step's files are called: its own name, or that of its action."""
    place, name = f"steps[{number}].name", entry.get("name")
    if name is None:
        name = str(entry.get("action")).replace(".", "-")
        name = name if _NAME.fullmatch(name) else f"step-{number}"  # there is no such action, and the check says so
        return f"{name}-{number}" if name in taken else name
    require(isinstance(name, str) and _NAME.fullmatch(name), place, got=name, want=_NAME_IN_WORDS)
    require(name not in taken, place, got=name, want="a name that no other step has")
    return str(name)


def _require_name(value: object, content: Mapping[str, Any], place: str, section: str) -> None:
    """Refuse a name that does not stand under ``[section]``."""
    entries = content.get(section)
    names = entries if isinstance(entries, dict) else {}
    listed = ", ".join(names) or f"none: there is no [{section}.NAME] in the file"
    is_known = value is None or (isinstance(value, str) and value in names)
    require(is_known, place, got=value, want=f"one of the names under [{section}] ({listed})")
