"""What the four tables share: a checked Polars frame that cannot be changed, a fingerprint, and a way to a file."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any, ClassVar, Self, cast

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.files import target_path, write_atomically
from peerveil.data.check import check_columns
from peerveil.data.digest import fingerprint_of, identity_of
from peerveil.data.problems import TableSource
from peerveil.data.readers.files import InputFile
from peerveil.data.readers.recognize import CHOOSABLE, READERS, chosen_format
from peerveil.data.readers.tabular import TABULAR, read_tabular, refuse_text_settings
from peerveil.data.schema import RawTable, ReadOptions, TableSchema, raw_table, refuse_absent

_TIME_FORMAT = "%Y-%m-%dT%H:%M:%S%.6fZ"
_CSV: dict[str, Any] = {"datetime_format": _TIME_FORMAT, "quote_style": "necessary"}


class Table:
    """A frozen, checked table. Two tables are equal when they say the same, in whatever order."""

    _schema: ClassVar[TableSchema]
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
        kind, argument = cls.__name__, argument or cls.__name__.lower()
        if isinstance(data, cls):
            if columns is not None:
                want = f"a frame or a file name with columns=; {kind} have their columns already"
                raise BadInput(argument, got=data, want=want)
            return data
        if isinstance(data, str | os.PathLike):
            return cls.read(data, columns=columns)
        if is_frame(data):
            return cls.from_frame(data, columns=columns)
        want = (
            f"{kind}, a file name, or a pandas or Polars frame ({kind}.from_frame(frame, columns=...) renames columns)"
        )
        raise BadInput(argument, got=data, want=want)

    @classmethod
    def from_frame(cls, frame: Any, columns: Mapping[str, str] | None = None, **options: Any) -> Self:
        """From a Polars or pandas frame, or a mapping of columns.

        ``columns`` says what our columns are called there; the other options are those of :meth:`read`.

        >>> from peerveil.data import Labels
        >>> Labels.from_frame({"item": [1], "worker": [2], "label": [True]}, columns={"task": "item"})
        Labels(rows=1, tasks=1, workers=1)
        """
        if not is_frame(frame):
            raise BadInput("frame", got=frame, want="a Polars or pandas frame, or a mapping of columns")
        frame = frame.collect() if isinstance(frame, pl.LazyFrame) else frame
        content = {str(name): frame[name] for name in (frame if isinstance(frame, Mapping) else frame.columns)}
        wanted = cls._wanted(columns, options)
        raw = raw_table(cls._schema, TableSource(cls.__name__, in_memory=True), content, wanted.columns)
        return cls._of_raw(raw, wanted, options)

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        format: str | None = None,  # noqa: A002
        *,
        columns: Mapping[str, str] | None = None,
        header: bool = True,
        separator: str | None = None,
        **options: Any,
    ) -> Self:
        """Read a file: CSV, TSV, JSON lines, Parquet, or a platform's export that holds such a table.

        The format is recognized unless it is given. ``columns`` says what our columns are called in the file. CSV and TSV
        may have no header (``header=False``: columns are called 1, 2, 3, ...) and any ``separator``. The other
        options are named after parameters of the class, which says what they mean: a list of names for further columns
        (``criteria``, ``extra``), and all that is not a column (``time_zone``, ``now``, ``unknown_replies``, ``layout``).
        """
        file = InputFile.open(path, header=header, separator=separator)
        return cls._of_file(file, chosen_format(file, format, cls.__name__), cls._wanted(columns, options), options)

    @classmethod
    def _of_file(cls, file: InputFile, chosen: str, wanted: ReadOptions, options: dict[str, Any]) -> Self:
        """A table from a file whose format is known."""
        if chosen in TABULAR:
            return cls._of_raw(read_tabular(file, chosen, cls._schema, wanted.columns), wanted, options)
        refuse_text_settings(file, chosen)
        free = CHOOSABLE.get(cls.__name__, ("score", "time"))
        fixed = [name for name in wanted.columns if name not in free]
        if fixed:
            want = f"names for {' or '.join(free)} only: the platform's export fixes the rest of {cls.__name__}"
            raise BadInput("columns", got=Verbatim(f"a name for {fixed[0]!r}"), want=want)
        return cls._of_raw(READERS[chosen][cls.__name__](file, wanted), wanted, options)

    @classmethod
    def _wanted(cls, columns: Mapping[str, str] | None, options: dict[str, Any]) -> ReadOptions:
        """The options that say which columns to take; the others remain."""
        argument = cls._schema.argument
        return ReadOptions(check_mapping(columns), check_names(argument, options.pop(argument, None)))

    @classmethod
    def _of_raw(cls, raw: RawTable, wanted: ReadOptions, options: Mapping[str, Any]) -> Self:
        names = wanted.further
        if names is None:
            names = tuple(name for name, values in raw.further.items() if cls._keeps(name, values))
        refuse_absent(raw.source, names, list(raw.further))
        return cls._wrap(*cls._checked(replace(raw, further={name: raw.further[name] for name in names}), **options))

    @classmethod
    def _checked(cls, raw: RawTable, time_zone: str | None = None) -> tuple[Any, Sequence[str]]:
        """The content in the declared kinds, columns in the schema's order, and notes."""
        columns, log = check_columns(cls._schema, raw, time_zone)
        log.raise_any()
        order = (*cls._schema.names, *raw.further)
        return pl.DataFrame([columns[name] for name in order if name in columns]), raw.notes

    @classmethod
    def _keeps(cls, name: str, values: Any) -> bool:  # noqa: ARG003
        """Whether a further column is kept when the caller names none."""
        return cls._schema.may_be_wide

    def _fill(self, content: Any, notes: Sequence[str] = ()) -> None:
        vars(self).update(_frame=content, _notes=tuple(notes), _cache={})

    @classmethod
    def _wrap(cls, content: Any, notes: Sequence[str] = ()) -> Self:
        table = cls.__new__(cls)
        table._fill(content, notes)
        return table

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed; build a new one from .frame")

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    @property
    def frame(self) -> pl.DataFrame:
        """The content as a Polars frame of your own; ``.to_pandas()`` makes it one of pandas."""
        return self._frame.clone()

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader left out, in words; empty for a table that was taken whole."""
        return self._notes

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the content in hex: the same for any row order and file format, another for any changed cell."""
        return fingerprint_of(type(self).__name__, self._frame)

    @cached_property
    def identity(self) -> str:
        """SHA-256 of who judged what and how, in hex: what a ledger knows the data by.

        Further columns, the kind of table and the types of columns do not matter.
        """
        who, what, value = self._schema.identity
        return identity_of(self._frame.get_column(who, default=None), self._frame[what], self._frame[value])

    def __len__(self) -> int:
        return self._frame.height

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table):
            return NotImplemented
        return type(self) is type(other) and (self is other or self.fingerprint == other.fingerprint)

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.fingerprint))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self)._wrap, (self._frame, self._notes)

    def __repr__(self) -> str:
        """The number of rows, and of the people and things in them; the names of further columns."""
        numbers = [f"rows={len(self)}", *(f"{name}s={self._distinct(name)}" for name in self._counted)]
        further = [f"{self._schema.argument}={list(self._further)!r}"] if self._further else []
        return f"{type(self).__name__}({', '.join(numbers + further)})"

    @property
    def headline(self) -> str:
        """The table in one line, without notes on how it was read."""
        return repr(self)

    def __str__(self) -> str:
        return "\n".join([self.headline, *self.notes])

    @property
    def _counted(self) -> list[str]:
        """The columns that say who judged and what."""
        return [name for name in self._schema.names if name in self._schema.identity[:2] and name in self._frame]

    @property
    def _further(self) -> tuple[str, ...]:
        return tuple(name for name in self._frame.columns if name not in self._schema.names)

    def _distinct(self, column: str) -> int:
        return self._frame[column].n_unique()

    def _plural(self, column: str) -> str:
        return plural(self._distinct(column), column)

    def _series(self, name: str) -> pl.Series:
        if name not in self._frame.columns:
            raise BadInput("name", got=name, want=f"one of {', '.join(self._frame.columns)}")
        return self._frame[name]

    def column(self, name: str) -> np.ndarray[Any, Any]:
        """One column as a read-only NumPy array."""
        key = f"column {name}"
        if key not in self._cache:
            self._cache[key] = read_only(self._series(name).to_numpy())
        return self._cache[key]  # type: ignore[no-any-return]

    def numbered(self, name: str) -> tuple[np.ndarray[Any, Any], pl.Series]:
        """A column as whole numbers from 0, and the values they stand for, sorted.

        Returns
        -------
        codes : read-only int32 array, one per row
        values : the distinct values; ``values[codes[i]]`` is the value in row i
        """
        key = f"numbered {name}"
        if key not in self._cache:
            series = self._series(name)
            codes = (series.rank("dense").cast(pl.Int32) - 1).to_numpy()
            self._cache[key] = read_only(codes), series.unique().sort()
        codes, values = self._cache[key]
        return codes, values.clone()

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write to .csv, .tsv, .jsonl (each also .gz) or .parquet, whole or not at all; returns the path."""
        return write_frame(self._frame, path)


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
    if not isinstance(columns, Mapping) or not all(isinstance(name, str) for pair in columns.items() for name in pair):
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


def plural(count: int, noun: str, plural_noun: str = "") -> str:
    """A count with its noun.

    >>> plural(1, "review"), plural(12_000, "review"), plural(2, "class", "classes")
    ('1 review', '12,000 reviews', '2 classes')
    """
    return f"{count:,} {noun if count == 1 else plural_noun or f'{noun}s'}"


def write_frame(frame: pl.DataFrame, path: str | os.PathLike[str], *, private: bool = False) -> Path:
    """Write a frame in the format that the path's suffix names; a private one is readable by its owner alone."""
    target = target_path(path)
    *_, first, last = "", "", *(suffix.lower() for suffix in target.suffixes)
    compressed = last == ".gz"
    name = first if compressed else last
    write = _WRITERS.get(name)
    if name in (".csv", ".tsv") and any(isinstance(dtype, pl.List) for dtype in frame.schema.values()):
        raise BadInput(
            "path", got=str(target), want="a file name ending in .jsonl or .parquet: a cell of CSV holds no list"
        )
    if write is None or (first, last) == (".parquet", ".gz"):
        want = "a file name ending in .csv, .tsv, .jsonl (each also with .gz) or .parquet"
        raise BadInput("path", got=str(target), want=want)

    def fill(handle: IO[bytes]) -> None:
        # no file name and no time inside: equal tables give equal files
        packed = gzip.GzipFile(fileobj=handle, mode="wb", filename="", mtime=0) if compressed else nullcontext(handle)
        with packed as stream:
            write(frame, cast("IO[bytes]", stream))

    return write_atomically(target, fill, private=private)


def csv_text(frame: pl.DataFrame) -> str:
    """A frame as CSV, exactly as :func:`write_frame` writes it to a file.

    >>> csv_text(pl.DataFrame({"paper": [1], "accepted": [True]})).split()
    ['paper,accepted', '1,true']
    """
    return str(frame.write_csv(**_CSV))


def _write_json_lines(frame: pl.DataFrame, handle: IO[bytes]) -> None:
    times = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.Datetime)]
    frame.with_columns(pl.col(times).dt.strftime(_TIME_FORMAT)).write_ndjson(handle)


_WRITERS: dict[str, Callable[[pl.DataFrame, IO[bytes]], None]] = {
    ".csv": lambda frame, handle: frame.write_csv(handle, **_CSV),
    ".tsv": lambda frame, handle: frame.write_csv(handle, separator="\t", **_CSV),
    ".jsonl": _write_json_lines,
    ".ndjson": _write_json_lines,
    ".parquet": lambda frame, handle: frame.write_parquet(handle),
}
