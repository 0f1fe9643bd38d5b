"""What the four tables share: a checked Polars frame that cannot be changed, a fingerprint, and a way to a file."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any, ClassVar, Self

import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.files import target_path, write_atomically
from peerveil.data.digest import fingerprint_of, identity_of
from peerveil.data.problems import TableSource
from peerveil.data.readers import easychair, hotcrp, mediawiki, openreview
from peerveil.data.readers.files import InputFile
from peerveil.data.readers.recognize import chosen_format
from peerveil.data.readers.tabular import TABULAR, ReadOptions, mapped_table, read_tabular
from peerveil.data.schema import Schema, map_columns, refuse_absent

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from peerveil.data.check import RawTable

_TIME_FORMAT = "%Y-%m-%dT%H:%M:%S%.6fZ"
_PLATFORMS: dict[tuple[str, str], Callable[[InputFile, ReadOptions], RawTable]] = {
    ("openreview", "Reviews"): openreview.read_reviews,
    ("openreview", "Events"): openreview.read_events,
    ("hotcrp", "Reviews"): hotcrp.read_reviews,
    ("hotcrp", "Events"): hotcrp.read_events,
    ("easychair", "Reviews"): easychair.read_reviews,
    ("easychair", "Events"): easychair.read_events,
    ("mediawiki", "Events"): mediawiki.read_events,
}


class Table:
    """A frozen, checked table. Two tables are equal when they say the same, in whatever order."""

    _schema: ClassVar[Schema]
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
        reader: Any = cls
        if isinstance(data, cls):
            if columns is not None:
                want = f"a frame or a file name with columns=; {kind} have their columns already"
                raise BadInput(argument, got=data, want=want)
            return data
        if isinstance(data, str | os.PathLike):
            return reader.read(data, columns=columns)  # type: ignore[no-any-return]
        if is_frame(data):
            return reader.from_frame(data, columns=columns)  # type: ignore[no-any-return]
        want = (
            f"{kind}, a file name, or a pandas or Polars frame ({kind}.from_frame(frame, columns=...) renames columns)"
        )
        raise BadInput(argument, got=data, want=want)

    def _fill(self, content: Any, notes: Sequence[str] = ()) -> None:
        object.__setattr__(self, "_frame", content)
        object.__setattr__(self, "_notes", tuple(notes))
        object.__setattr__(self, "_cache", {})

    @classmethod
    def _wrap(cls, content: Any, notes: Sequence[str] = ()) -> Self:
        table = cls.__new__(cls)
        table._fill(content, notes)
        return table

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed; build a new one from .frame")

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    def _once(self, key: str, compute: Callable[[], Any]) -> Any:
        """What ``compute`` gives, remembered under a key."""
        if key not in self._cache:
            self._cache[key] = compute()
        return self._cache[key]

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
        """SHA-256 of the content in hex: the same for any row order and file format, another for any changed cell."""
        return str(self._once("fingerprint", self._digest))

    @property
    def identity(self) -> str:
        """SHA-256 of who judged what and how, in hex: what a ledger knows the data by.

        Further columns, the kind of table and the types of columns do not matter.
        """
        return str(self._once("identity", self._identity))

    def _identity(self) -> str:
        who, what, value = self._schema.identity
        return identity_of(self._frame.get_column(who, default=None), self._frame[what], self._frame[value])

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

    def _distinct(self, column: str) -> int:
        return self._frame[column].n_unique()

    def _series(self, name: str) -> pl.Series:
        if name not in self._frame.columns:
            raise BadInput("name", got=name, want=f"one of {', '.join(self._frame.columns)}")
        return self._frame[name]

    def column(self, name: str) -> np.ndarray[Any, Any]:
        """One column as a read-only NumPy array."""
        series = self._series(name)
        array: np.ndarray[Any, Any] = self._once(f"column {name}", lambda: read_only(series.to_numpy()))
        return array

    def numbered(self, name: str) -> tuple[np.ndarray[Any, Any], pl.Series]:
        """A column as whole numbers from 0, and the values they stand for, sorted.

        Returns
        -------
        codes : read-only int32 array, one per row
        values : the distinct values; ``values[codes[i]]`` is the value in row i
        """
        series = self._series(name)
        codes, values = self._once(
            f"numbered {name}",
            lambda: (read_only((series.rank("dense").cast(pl.Int32) - 1).to_numpy()), series.unique().sort()),
        )
        return codes, values.clone()

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write to .csv, .tsv, .jsonl (each also .gz) or .parquet, whole or not at all; returns the path."""
        return write_frame(self._frame, path)

    @staticmethod
    def _keeps(name: str, values: Any) -> bool:  # noqa: ARG004
        """Whether a further column is kept when the caller names none."""
        return False

    @classmethod
    def _raw(
        cls,
        data: Any,
        columns: Mapping[str, str] | None,
        further: Sequence[str] | None = None,
        *,
        file_format: str | None = None,
    ) -> RawTable:
        """The columns of a file or a frame by our names, and the further ones to keep."""
        argument = "columns" if cls._schema.further is None else cls._schema.further.name
        options = ReadOptions(check_mapping(columns), check_names(argument, further))
        if isinstance(data, InputFile):
            raw = _read(cls._schema, data, file_format, options)
        else:
            raw = frame_columns(cls._schema, data, options.columns)
        names = options.further
        if names is None:
            names = tuple(name for name, values in raw.further.items() if cls._keeps(name, values))
        refuse_absent(raw.source, names, list(raw.further))
        return replace(raw, further={name: raw.further[name] for name in names})


def _read(schema: Schema, file: InputFile, file_format: str | None, options: ReadOptions) -> RawTable:
    """The columns of a file for one kind of table, not yet checked."""
    chosen = chosen_format(file, file_format, schema.table)
    if chosen in TABULAR:
        return read_tabular(file, chosen, schema, options)
    fixed = [name for name in options.columns if name not in ("score", "time")]
    if fixed:
        want = f"names for score or time only: the platform's export fixes the rest of {schema.table}"
        raise BadInput("columns", got=Verbatim(f"a name for {fixed[0]!r}"), want=want)
    return _PLATFORMS[chosen, schema.table](file, options)


def _rebuild(kind: type[Table], content: Any, notes: tuple[str, ...]) -> Table:
    return kind._wrap(content, notes)


def frame_columns(schema: Schema, frame: Any, columns: Mapping[str, str]) -> RawTable:
    """The columns of a Polars or pandas-like frame, or of a mapping of columns, by our names."""
    if not is_frame(frame):
        raise BadInput("frame", got=frame, want="a Polars or pandas frame, or a mapping of columns")
    frame = frame.collect() if isinstance(frame, pl.LazyFrame) else frame
    names = [str(name) for name in (frame if isinstance(frame, Mapping) else frame.columns)]
    mapping = map_columns(schema, TableSource(schema.table, in_memory=True), names, columns)
    source = TableSource(schema.table, in_memory=True, names=tuple(mapping.items()))
    return mapped_table(source, names, frame.__getitem__, mapping, columns)


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


# ---- writing ---------------------------------------------------------------------------------------------------------


def write_frame(frame: pl.DataFrame, path: str | os.PathLike[str], *, private: bool = False) -> Path:
    """Write a frame in the format that the path's suffix names; a private one is readable by its owner alone."""
    target = target_path(path)
    *_, first, last = "", "", *(suffix.lower() for suffix in target.suffixes)
    compressed = last == ".gz"
    write = _WRITERS.get(first if compressed else last)
    if write is None or (first, last) == (".parquet", ".gz"):
        want = "a file name ending in .csv, .tsv, .jsonl (each also with .gz) or .parquet"
        raise BadInput("path", got=str(target), want=want)

    def fill(handle: IO[bytes]) -> None:
        if not compressed:
            write(frame, handle)
            return
        buffer = io.BytesIO()
        write(frame, buffer)
        # no file name and no time inside: equal tables give equal files
        with gzip.GzipFile(fileobj=handle, mode="wb", filename="", mtime=0) as packed:
            packed.write(buffer.getbuffer())

    return write_atomically(target, fill, private=private)


def csv_text(frame: pl.DataFrame) -> str:
    """A frame as CSV, exactly as :func:`write_frame` writes it to a file.

    >>> csv_text(pl.DataFrame({"paper": [1], "accepted": [True]})).split()
    ['paper,accepted', '1,true']
    """
    buffer = io.BytesIO()
    _write_csv(frame, buffer)
    return buffer.getvalue().decode()


def _write_csv(frame: pl.DataFrame, handle: IO[bytes], separator: str = ",") -> None:
    frame.write_csv(handle, separator=separator, datetime_format=_TIME_FORMAT, quote_style="necessary")


def _write_json_lines(frame: pl.DataFrame, handle: IO[bytes]) -> None:
    times = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.Datetime)]
    frame.with_columns(pl.col(times).dt.strftime(_TIME_FORMAT)).write_ndjson(handle)


_WRITERS: dict[str, Callable[[pl.DataFrame, IO[bytes]], None]] = {
    ".csv": _write_csv,
    ".tsv": lambda frame, handle: _write_csv(frame, handle, "\t"),
    ".jsonl": _write_json_lines,
    ".ndjson": _write_json_lines,
    ".parquet": lambda frame, handle: frame.write_parquet(handle),
}
