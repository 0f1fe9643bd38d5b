"""One action by itself, as a command runs it: its data are read, its account is debited, its results are written.

What is public and what is not go to different folders. A study (:mod:`peerveil.study.run`) does the same for many actions.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal

import peerveil
from peerveil.core.errors import Verbatim
from peerveil.core.files import check_out
from peerveil.study.actions import Action, Declared, Kind, Setting, Table
from peerveil.study.spelling import Columns, DataPath, Name, require

if TYPE_CHECKING:
    from peerveil.core.guarantee import Guarantee
    from peerveil.ledger import Account
    from peerveil.study.outcome import Outcome


class StudyFile(Declared):
    """A file of data and how to read it: ``[data.NAME]`` of a study, or FILE and its options on the command line."""

    path: Annotated[DataPath, Setting("The file, beside the study unless the path is absolute.")]
    kind: Annotated[Kind | None, Setting("What it holds; recognized if left out.")] = None
    format: Annotated[Name | None, Setting("The file's format; recognized if left out.")] = None
    columns: Annotated[Columns | None, Setting("Our columns and their names in the file.")] = None
    header: Annotated[
        bool,
        Setting("Whether the first line of CSV or TSV names the columns; without, they are called 1, 2, 3 and so on."),
    ] = True
    separator: Annotated[
        Name | None, Setting("What stands between the cells of CSV or TSV, such as ; or tab; recognized if left out.")
    ] = None
    time_zone: Annotated[Name | None, Setting("The zone of times that name none; UTC if left out.")] = None
    layout: Annotated[
        Literal["orders", "places"] | None, Setting("What the cells of a wide table of rankings hold.")
    ] = None

    @property
    def several(self) -> bool:
        """Whether the path stands for several files."""
        return "*" in str(self.path)

    def files(self) -> list[Path]:
        """The files, sorted."""
        anchor = Path(self.path.anchor)
        return sorted(anchor.glob(str(self.path.relative_to(anchor)))) if self.several else [self.path]

    def as_typed(self) -> str:
        """The file with the options that it is read with, as they stand on a command line.

        >>> StudyFile(path=Path("my log.csv"), columns={"actor": "user"}).as_typed()
        "'my log.csv' --column actor=user"
        """
        options = [part for ours, theirs in (self.columns or {}).items() for part in ("--column", f"{ours}={theirs}")]
        options += ["--format", self.format] if self.format else []
        options += [] if self.header else ["--no-header"]
        options += ["--separator", self.separator] if self.separator else []
        options += ["--time-zone", self.time_zone] if self.time_zone else []
        return shlex.join([str(self.path), *options])

    def refuse(self, settings: Iterable[str], want: str) -> None:
        """Refuse settings that an action which opens the file itself cannot use."""
        for name in settings:
            value = getattr(self, name)
            require(value == getattr(type(self), name), name, got=value, want=want)

    def check_files(self) -> None:
        """Refuse files that an action could not open itself."""
        from peerveil.data.readers.files import InputFile

        require(self.files(), str(self.path), got=Verbatim("no such file"), want="at least one Parquet file")
        for path in self.files():
            InputFile.open(path)

    def digest(self) -> str:
        """SHA-256 of what the files hold."""
        digests = []
        for path in self.files():
            with path.open("rb") as handle:
                digests.append(hashlib.file_digest(handle, "sha256").hexdigest())
        return digests[0] if len(digests) == 1 else hashlib.sha256(" ".join(digests).encode()).hexdigest()

    def read(self, kind: str, extra: tuple[str, ...] = ()) -> Any:
        """The table, with further columns where they are needed."""
        options: dict[str, Any] = {
            "columns": self.columns or None,
            "header": self.header,
            "separator": self.separator,
        }
        if kind in ("events", "reviews") and self.time_zone is not None:
            options["time_zone"] = self.time_zone
        if kind == "rankings" and self.layout is not None:
            options["layout"] = self.layout
        table: Any = getattr(peerveil.data, kind.capitalize())
        if extra:  # naming a further column must not drop those that are read without
            options["extra"] = [*dict.fromkeys((*table.read(self.path, self.format, **options).extra, *extra))]
        return table.read(self.path, self.format, **options)


@dataclass(frozen=True)
class Inputs(Generic[Table]):
    """What an action is given: its table, further tables by parameter, and the file of the table.

    An action that opens its file itself is given no table.
    """

    table: Table
    source: StudyFile | None = None
    others: Mapping[str, Any] = field(default_factory=dict)

    @property
    def file(self) -> StudyFile:
        """The file, of an action that reads data."""
        assert self.source is not None
        return self.source

    @property
    def notes(self) -> list[str]:
        """What readers noted about the tables, such as columns that were taken under other names."""
        tables = [table for table in (self.table, *chain(*self.others.values())) if table is not None]
        return list(dict.fromkeys(note for table in tables for note in table.notes))


def no_progress(share: float, text: str = "") -> None:
    """Show nothing."""


@dataclass(frozen=True)
class Context:
    """What a run is given beside its data: the source of noise, the account to debit, and where to show progress."""

    randomness: peerveil.Randomness
    account: Account | None = None
    progress: Callable[[float, str], None] = field(default=no_progress)


def read_inputs(
    action: Action[Any],
    source: StudyFile | None,
    others: Mapping[str, Sequence[StudyFile]],
    read: Callable[[StudyFile, str, tuple[str, ...]], Any] = StudyFile.read,
) -> Inputs[Any]:
    """Read what an action needs, through ``read``; a parameter that names files gets a list of tables."""
    further = {
        parameter.name: [read(file, parameter.named_data, ()) for file in others.get(parameter.name, ())]
        for parameter in action.parameters()
        if parameter.named_data
    }
    if source is None:
        return Inputs(None, source, further)
    if not action.in_memory(source):
        source.refuse(
            ("header", "separator"), "a header, and cells that are recognized: the file is not read in memory"
        )
        return Inputs(None, source, further)
    return Inputs(read(source, kind_of(action, source), action.extra_columns()), source, further)


def kind_of(action: Action[Any], source: StudyFile) -> str:
    """What a file is read as."""
    if source.kind is not None:
        require(source.kind in action.kinds, "kind", got=source.kind, want=" or ".join(action.kinds))
        return source.kind
    if len(action.kinds) == 1:
        return action.kinds[0]
    recognized = peerveil.data.recognize(source.path, header=source.header, separator=source.separator)
    kinds = [kind.lower() for kind in recognized.kinds if kind.lower() in action.kinds]
    got = Verbatim(f"a file that could hold {' or '.join(kinds) or 'anything'}")
    require(len(kinds) == 1, "kind", got=got, want=f"what to read it as: {', '.join(action.kinds)}")
    return kinds[0]


def reason_of(action: Action[Any], guarantee: Guarantee | None) -> str:
    """Why a guarantee has another epsilon than the action was set to; empty if it has the same.

    >>> from peerveil.study.actions import find_action
    >>> action = find_action("truth.randomize").check({"epsilon": 1, "classes": [0, 1]})
    >>> reason_of(action, peerveil.Guarantee.local_attribute_dp(1).group(2, unit="one task, answered twice"))
    '2 times epsilon 1, for one task, answered twice'
    """
    from peerveil.core.guarantee import read_epsilon

    setting = getattr(action, "epsilon", None)
    if guarantee is None or guarantee.exact_epsilon is None or setting in (None, "none"):
        return ""
    times = guarantee.exact_epsilon / read_epsilon(setting)
    return "" if times == 1 else f"{times} times epsilon {setting}, for {guarantee.unit}"


@dataclass(frozen=True)
class Executed:
    """What an action gave, where it was written (each path with whether it may be published), and how its data were read."""

    outcome: Outcome
    written: list[tuple[Path, bool]]
    notes: list[str]


def execute(
    action: Action[Any],
    source: StudyFile | None,
    out: Path,
    *,
    others: Mapping[str, Sequence[StudyFile]] | None = None,
    ledger: str | None = None,
    account: str | None = None,
    seed: int | None = None,
    force: bool = False,
    progress: Callable[[float, str], None] = no_progress,
) -> Executed:
    """Run an action into a folder: ``public/`` may be published, ``private/`` must not.

    Nothing is read before the folder and the account are known to be usable, and nothing is spent before the data are known
    to allow the action.
    """
    from peerveil.core.randomness import Randomness

    check_spending(action, ledger, account, seed)
    is_drawn = action.drawn_once and out.is_dir() and any(out.iterdir())
    once = "a new or empty folder: this is drawn once, and a second draw from the same data reveals more"
    require(not is_drawn, "--out", got=Verbatim(f"{out}, which is not empty"), want=once)
    check_out(out, force, again="; doing it again costs its own epsilon" if action.spends else "")
    inputs = read_inputs(action, source, others or {})
    guarantee = action.guarantee(inputs)  # refuses what could not be run
    randomness = Randomness.secure() if seed is None else Randomness.simulation(seed)
    with nullcontext() if ledger is None else peerveil.Ledger.open(ledger, create=False) as opened:
        debited = None if opened is None else opened.account(str(account))
        if opened is not None and guarantee is not None:
            _require_covered(opened, str(account), action.debited(inputs), guarantee)
        try:
            outcome = action.run(inputs, Context(randomness, debited, progress))
        except peerveil.BudgetExceeded as error:
            raise error.because(reason_of(action, guarantee)) from None
    public = out / ("public" if seed is None else "simulated")
    return Executed(outcome, outcome.write(public, out / "private", simulated=seed is not None), inputs.notes)


def _require_covered(ledger: peerveil.Ledger, account: str, tables: list[Any], guarantee: Guarantee) -> None:
    """Refuse before the first of several debits what would be refused at a later one."""
    if len(tables) < 2:
        return
    requested, remaining = (
        len(tables) * (guarantee.exact_epsilon or Fraction(0)),
        ledger.account(account).exact_remaining,
    )
    if requested > remaining:
        raise peerveil.BudgetExceeded(account, requested=requested, remaining=remaining)
    for table in tables:
        ledger.require_free(account, table)


def check_spending(action: Action[Any], ledger: str | None, account: str | None, seed: int | None) -> None:
    """Refuse what would let a release go uncounted: a ledger without an account, or an account without a ledger."""
    missing = "--ledger FILE beside it" if ledger is None else "--account NAME beside --ledger"
    named = Verbatim("nothing") if account is None else account
    require((ledger is None) is (account is None), "--account", got=named, want=missing)
    if ledger is not None:
        require(action.spends, "--account", got=account, want=f"no account: {action.name} spends nothing")
        require(seed is None, "--seed", got=seed, want="no seed with a ledger: a simulation is never debited")
