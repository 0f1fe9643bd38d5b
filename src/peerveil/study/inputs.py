"""Where an action's data come from, and the tables that it is given."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from peerveil.errors import BadInput, Verbatim

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from peerveil.study.actions import Action

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

    def digest(self) -> str:
        """SHA-256 of what the files hold."""
        digests = []
        for path in self.files():
            with path.open("rb") as handle:
                digests.append(hashlib.file_digest(handle, "sha256").hexdigest())
        return digests[0] if len(digests) == 1 else hashlib.sha256(" ".join(digests).encode()).hexdigest()

    def read(self, kind: str, extra: tuple[str, ...] = ()) -> Any:
        """The table, with further columns where they are asked for."""
        from peerveil import judgements

        options: dict[str, Any] = {"columns": dict(self.columns) or None}
        if kind in ("events", "reviews") and self.time_zone is not None:
            options["time_zone"] = self.time_zone
        if kind == "rankings" and self.layout is not None:
            options["layout"] = self.layout
        table: Any = getattr(judgements, kind.capitalize())
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
    from peerveil.judgements import recognise

    kinds = [kind.lower() for kind in recognise(source.path).kinds if kind.lower() in action.kinds]
    if len(kinds) != 1:
        got = Verbatim(f"a file that could hold {' or '.join(kinds) or 'anything'}")
        raise BadInput("kind", got=got, want=f"what to read it as: {', '.join(action.kinds)}")
    return kinds[0]
