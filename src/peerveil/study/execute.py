"""One action by itself, as a command runs it: its data are read, its account is debited, its results are written.

What is public and what is not go to different folders. A study (:mod:`peerveil.study.run`) does the same for many actions.
"""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.files import check_out
from peerveil.study.actions import Context, no_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from peerveil.study.actions import Action
    from peerveil.study.outcome import Outcome

Table = TypeVar("Table")


@dataclass(frozen=True)
class Source:
    """A file of data and how to read it: ``[data.NAME]`` of a study, or FILE and its options on the command line.

    Attributes
    ----------
    path : pathlib.Path
        The file; several, with ``*``, where the action opens them itself.
    kind : str, optional
        reviews, events, rankings or labels, if stated.
    format : str, optional
        The file's format; recognized if it is left out.
    columns : mapping, optional
        Our names for columns that the file calls otherwise.
    time_zone : str, optional
        The zone of times that name none (UTC if left out).
    layout : str, optional
        What the cells of a wide table of rankings hold: ``orders`` or ``places``.
    """

    path: Path
    kind: str | None = None
    format: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    time_zone: str | None = None
    layout: str | None = None
    name: str = ""

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

        >>> Source(Path("my log.csv"), columns={"actor": "user"}).as_typed()
        "'my log.csv' --column actor=user"
        """
        options = [part for ours, theirs in self.columns.items() for part in ("--column", f"{ours}={theirs}")]
        options += ["--format", self.format] if self.format else []
        options += ["--time-zone", self.time_zone] if self.time_zone else []
        return shlex.join([str(self.path), *options])

    def refuse(self, settings: Iterable[str], want: str) -> None:
        """Refuse settings that an action which opens the file itself cannot use."""
        for name in settings:
            if getattr(self, name):
                raise BadInput(name, got=getattr(self, name), want=want)

    def check_files(self) -> None:
        """Refuse files that an action could not open itself."""
        from peerveil.data.readers.files import InputFile

        if not self.files():
            raise BadInput(str(self.path), got=Verbatim("no such file"), want="at least one Parquet file")
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
        """The table, with further columns where they are asked for."""
        options: dict[str, Any] = {"columns": dict(self.columns) or None}
        if kind in ("events", "reviews") and self.time_zone is not None:
            options["time_zone"] = self.time_zone
        if kind == "rankings" and self.layout is not None:
            options["layout"] = self.layout
        table: Any = getattr(import_module("peerveil.data"), kind.capitalize())
        if not extra:
            return table.read(self.path, self.format, **options)
        # naming a further column must not drop those that would be kept without
        kept = table.read(self.path, self.format, **options).extra
        return table.read(
            self.path, self.format, extra=[*kept, *(name for name in extra if name not in kept)], **options
        )


@dataclass(frozen=True)
class Inputs(Generic[Table]):
    """What an action is given: its table, further tables by parameter, and the source of the table.

    An action that opens its file itself is given no table.
    """

    table: Table
    source: Source | None = None
    others: Mapping[str, Any] = field(default_factory=dict)


def read_inputs(action: Action[Any], source: Source | None, others: Mapping[str, Sequence[Source]]) -> Inputs[Any]:
    """Read what an action needs; a parameter that names several files gets a list of tables."""
    table = None
    if source is not None and action.in_memory(source):
        table = source.read(kind_of(action, source), action.extra_columns())
    further: dict[str, Any] = {}
    for parameter in action.parameters():
        if parameter.name in others and parameter.refers is not None:
            tables = [one.read(str(parameter.refers.kind)) for one in others[parameter.name]]
            further[parameter.name] = tables if parameter.many else tables[0]
    return Inputs(table, source, further)


def kind_of(action: Action[Any], source: Source) -> str:
    """What a source is read as."""
    if source.kind is not None:
        if source.kind not in action.kinds:
            raise BadInput("kind", got=source.kind, want=" or ".join(action.kinds))
        return source.kind
    if len(action.kinds) == 1:
        return action.kinds[0]
    from peerveil.data import recognize

    kinds = [kind.lower() for kind in recognize(source.path).kinds if kind.lower() in action.kinds]
    if len(kinds) != 1:
        got = Verbatim(f"a file that could hold {' or '.join(kinds) or 'anything'}")
        raise BadInput("kind", got=got, want=f"what to read it as: {', '.join(action.kinds)}")
    return kinds[0]


@dataclass(frozen=True)
class Executed:
    """What an action gave, and where it was written: each path with whether it may be published."""

    outcome: Outcome
    written: list[tuple[Path, bool]]


def execute(
    action: Action[Any],
    source: Source | None,
    out: Path,
    *,
    others: Mapping[str, Sequence[Source]] | None = None,
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
    check_spending(action, ledger, account, seed)
    if action.drawn_once and out.is_dir() and any(out.iterdir()):
        want = "a new or empty folder: this is drawn once, and a second draw from the same data reveals more"
        raise BadInput("--out", got=Verbatim(f"{out}, which is not empty"), want=want)
    check_out(out, force, again="; doing it again costs its own epsilon" if action.spends else "")
    inputs = read_inputs(action, source, others or {})
    action.guarantee(inputs)  # refuses what could not be run
    outcome = _run(action, inputs, ledger, account, seed, progress)
    simulated = seed is not None
    public = out / ("simulated" if simulated else "public")
    parts: list[Any] = [*outcome.files, *outcome.pictures]
    if not all(part.public for part in parts):
        (out / "private").mkdir(parents=True, exist_ok=True, mode=0o700)
    return Executed(outcome, outcome.write(public, out / "private", simulated=simulated))


def _run(
    action: Action[Any],
    inputs: Inputs[Any],
    ledger: str | None,
    account: str | None,
    seed: int | None,
    progress: Callable[[float, str], None],
) -> Outcome:
    from peerveil.core.randomness import Randomness

    randomness = Randomness.secure() if seed is None else Randomness.simulation(seed)
    if ledger is None:
        return action.run(inputs, Context(randomness, None, progress))
    from peerveil.ledger import Ledger

    with Ledger.open(ledger, create=False) as book:
        return action.run(inputs, Context(randomness, book.account(str(account)), progress))


def check_spending(action: Action[Any], ledger: str | None, account: str | None, seed: int | None) -> None:
    """Refuse what would let a release go uncounted: a ledger without an account, or an account without a ledger."""
    if (ledger is None) is not (account is None):
        missing = "--ledger FILE beside it" if ledger is None else "--account NAME beside --ledger"
        raise BadInput("--account", got=account if account is not None else Verbatim("nothing"), want=missing)
    if ledger is not None and not action.spends:
        raise BadInput("--account", got=account, want=f"no account: {action.name} spends nothing")
    if ledger is not None and seed is not None:
        raise BadInput("--seed", got=seed, want="no seed with a ledger: a simulation is never debited")
