"""What the four tables share: a checked Polars frame that cannot be changed, a fingerprint, and a way to a file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.data.digest import fingerprint_of, identity_of
from peerveil.data.problems import Source
from peerveil.data.readers.files import Raw, Wish
from peerveil.data.readers.tabular import map_columns, renamed
from peerveil.data.writing import write_frame

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np


class Table:
    """A frozen, checked table. Two tables are equal when they say the same, in whatever order.

    Attributes
    ----------
    frame : polars.DataFrame
        The content. What you do to the frame you get does not change the table.
    fingerprint : str
        SHA-256 of the content in hex: the same for any row order and file format, another one for any
        changed cell or repeated row. Computed on first use.
    identity : str
        SHA-256 of who judged what and how, in hex: what a ledger knows the data by. Further columns, the kind of table
        and the types of columns do not matter. Computed on first use.
    notes : tuple of str
        What the reader left out of the file, in words.
    """

    _required: ClassVar[tuple[str, ...]] = ()
    _optional: ClassVar[dict[str, str]] = {}
    _kinds: ClassVar[dict[str, str]] = {}
    _core: ClassVar[tuple[str, str, str]] = ("", "", "")
    """The columns that say who judged what and how."""

    _frame: pl.DataFrame
    _notes: tuple[str, ...]
    _cache: dict[str, Any]

    @classmethod
    def of(cls, data: Any, argument: str | None = None, *, columns: Mapping[str, str] | None = None) -> Self:
        """A table from whatever holds one: itself, a file name, a Polars or pandas frame, or a mapping of columns.

        Parameters
        ----------
        argument
            What an error calls the data.
        columns
            Our names for columns that a frame or file calls otherwise: ``{"task": "item"}``.
        """
        if isinstance(data, cls):
            if columns is not None:
                want = f"a frame or a file name with columns=; {cls.__name__} have their columns already"
                raise BadInput(argument or cls.__name__.lower(), got=data, want=want)
            return data
        reader: Any = cls
        if isinstance(data, str | os.PathLike):
            table: Self = reader.read(data, columns=columns)
            return table
        if is_frame(data):
            framed: Self = reader.from_frame(data, columns=columns)
            return framed
        kind = cls.__name__
        want = (
            f"{kind}, a file name, or a pandas or Polars frame ({kind}.from_frame(frame, columns=...) renames columns)"
        )
        raise BadInput(argument or kind.lower(), got=data, want=want)

    def _fill(self, frame: pl.DataFrame, notes: Sequence[str] = ()) -> None:
        object.__setattr__(self, "_frame", frame)
        object.__setattr__(self, "_notes", tuple(notes))
        object.__setattr__(self, "_cache", {})

    @classmethod
    def _wrap(cls, frame: pl.DataFrame, notes: Sequence[str] = ()) -> Self:
        table = cls.__new__(cls)
        table._fill(frame, notes)
        return table

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed; build a new one from .frame")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed; build a new one from .frame")

    @property
    def frame(self) -> pl.DataFrame:
        """The content as a Polars frame of your own; ``.to_pandas()`` makes it one of pandas."""
        return self._frame.clone()

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader left out, in words; empty for a table that was taken whole."""
        return self._notes

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the content in hex."""
        if "fingerprint" not in self._cache:
            self._cache["fingerprint"] = self._digest()
        return str(self._cache["fingerprint"])

    @property
    def identity(self) -> str:
        """SHA-256 of who judged what and how, in hex."""
        if "identity" not in self._cache:
            self._cache["identity"] = self._identity()
        return str(self._cache["identity"])

    def _identity(self) -> str:
        who, what, value = self._core
        return identity_of(
            self._frame[who] if who in self._frame.columns else None, self._frame[what], self._frame[value]
        )

    def _digest(self) -> str:
        return fingerprint_of(type(self).__name__, self._frame)

    def __len__(self) -> int:
        return self._frame.height

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table):
            return NotImplemented
        if type(self) is not type(other) or len(self) != len(other):
            return False
        return self is other or self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.fingerprint))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self._frame, self._notes)

    def column(self, name: str) -> np.ndarray[Any, Any]:
        """One column as a read-only NumPy array."""
        if name not in self._frame.columns:
            raise BadInput("name", got=name, want=f"one of {', '.join(self._frame.columns)}")
        key = f"column {name}"
        if key not in self._cache:
            self._cache[key] = read_only(self._frame[name].to_numpy())
        array: np.ndarray[Any, Any] = self._cache[key]
        return array

    def numbered(self, name: str) -> tuple[np.ndarray[Any, Any], pl.Series]:
        """A column as whole numbers from 0, and the values they stand for, sorted.

        Returns
        -------
        codes : read-only int32 array, one a row
        values : the distinct values; ``values[codes[i]]`` is the value in row i
        """
        if name not in self._frame.columns:
            raise BadInput("name", got=name, want=f"one of {', '.join(self._frame.columns)}")
        key = f"numbered {name}"
        if key not in self._cache:
            series = self._frame[name]
            values = series.unique().sort()
            codes = series.rank("dense").cast(pl.Int32) - 1
            self._cache[key] = (read_only(codes.to_numpy()), values)
        codes_, values_ = self._cache[key]
        return codes_, values_.clone()

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write to .csv, .tsv, .jsonl (each also .gz) or .parquet, whole or not at all; returns the path."""
        return write_frame(self._frame, path)

    @classmethod
    def _from_any_frame(cls, frame: object, columns: Mapping[str, str] | None) -> Raw:
        """Columns by our names out of a Polars or pandas-like frame or a mapping of columns."""
        source = Source(cls.__name__, in_memory=True)
        if isinstance(frame, pl.LazyFrame):
            frame = frame.collect()
        if isinstance(frame, Mapping):
            names, get = [str(name) for name in frame], frame.__getitem__
        elif hasattr(frame, "columns") and hasattr(frame, "__getitem__"):
            names, get = [str(name) for name in frame.columns], frame.__getitem__
        else:
            raise BadInput("frame", got=frame, want="a Polars or pandas frame, or a mapping of columns")
        mapping = map_columns(source, names, check_mapping(columns), cls._required, cls._optional, table=cls.__name__)
        named = Source(cls.__name__, in_memory=True, names=tuple(mapping.items()))
        rest = {name: get(name) for name in names if name not in set(mapping.values())}
        taken = {ours: get(theirs) for ours, theirs in mapping.items()}
        return Raw(taken, named, rest, renamed(mapping, columns or {}))


def _rebuild(kind: type[Table], frame: pl.DataFrame, notes: tuple[str, ...]) -> Table:
    return kind._wrap(frame, notes)


def is_frame(data: object) -> bool:
    """Whether data is a table of columns: a Polars or pandas frame, or a mapping."""
    return isinstance(data, Mapping | pl.LazyFrame) or (hasattr(data, "columns") and hasattr(data, "__getitem__"))


def read_only(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def check_mapping(columns: Mapping[str, str] | None) -> dict[str, str]:
    """The argument ``columns``: our name to the name in the file."""
    if columns is None:
        return {}
    if not isinstance(columns, Mapping) or not all(
        isinstance(key, str) and isinstance(value, str) for key, value in columns.items()
    ):
        raise BadInput("columns", got=columns, want="a mapping such as {'score': 'rating'}")
    return dict(columns)


def check_names(argument: str, names: Sequence[str] | None) -> tuple[str, ...] | None:
    """A list of column names, or None for the default."""
    if names is None:
        return None
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise BadInput(argument, got=names, want="a list of column names")
    if len(set(names)) < len(names):
        raise BadInput(argument, got=names, want="every name once")
    return tuple(names)


def make_wish(
    columns: Mapping[str, str] | None, argument: str, further: Sequence[str] | None, layout: str | None = None
) -> Wish:
    """What to ask a reader for."""
    return Wish(check_mapping(columns), check_names(argument, further), layout)


def same_length(kind: str, columns: Mapping[str, Sequence[Any] | pl.Series]) -> int:
    """The common length of all columns, at least 1."""
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise BadInput(kind, got=Verbatim(f"columns of different lengths ({listed})"), want="one length")
    length = next(iter(lengths.values()), 0)
    if length == 0:
        raise BadInput(kind, got=Verbatim("no rows"), want="at least one row")
    return length


def plural(count: int, noun: str) -> str:
    """A count with its noun.

    >>> plural(1, "review"), plural(12_000, "review")
    ('1 review', '12,000 reviews')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
