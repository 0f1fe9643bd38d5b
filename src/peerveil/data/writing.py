"""Tables to files: CSV, TSV, JSON lines or Parquet, whole or not at all."""

from __future__ import annotations

import gzip
import io
from typing import IO, TYPE_CHECKING

import polars as pl

from peerveil.core.errors import BadInput
from peerveil.core.files import target_path, write_atomically

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from pathlib import Path

_TIMES = "%Y-%m-%dT%H:%M:%S%.6fZ"
WRITABLE = ".csv, .tsv, .jsonl (each also with .gz) or .parquet"


def write_frame(frame: pl.DataFrame, path: str | os.PathLike[str], *, private: bool = False) -> Path:
    """Write a frame in the format that the path's suffix names; a private one is readable by its owner alone."""
    target = target_path(path)
    suffixes = [suffix.lower() for suffix in target.suffixes[-2:]]
    compressed = suffixes[-1:] == [".gz"]
    suffix = (suffixes[:-1] if compressed else suffixes)[-1:]
    writer = _WRITERS.get(suffix[0] if suffix else "")
    if writer is None or (compressed and suffix == [".parquet"]):
        raise BadInput("path", got=str(target), want=f"a file name ending in {WRITABLE}")

    def fill(handle: IO[bytes]) -> None:
        if compressed:
            buffer = io.BytesIO()
            writer(frame, buffer)
            # no file name and no time inside: equal tables give equal files
            with gzip.GzipFile(fileobj=handle, mode="wb", filename="", mtime=0) as packed:
                packed.write(buffer.getbuffer())
        else:
            writer(frame, handle)

    return write_atomically(target, fill, private=private)


def csv_text(frame: pl.DataFrame) -> str:
    """A frame as CSV, exactly as :func:`write_frame` writes it to a file.

    >>> csv_text(pl.DataFrame({"paper": [1], "accepted": [True]})).split()
    ['paper,accepted', '1,true']
    """
    buffer = io.BytesIO()
    _csv(frame, buffer)
    return buffer.getvalue().decode()


def _csv(frame: pl.DataFrame, handle: IO[bytes]) -> None:
    frame.write_csv(handle, datetime_format=_TIMES, quote_style="necessary")


def _tsv(frame: pl.DataFrame, handle: IO[bytes]) -> None:
    frame.write_csv(handle, separator="\t", datetime_format=_TIMES, quote_style="necessary")


def _jsonl(frame: pl.DataFrame, handle: IO[bytes]) -> None:
    times = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.Datetime)]
    frame.with_columns(pl.col(times).dt.strftime(_TIMES)).write_ndjson(handle)


def _parquet(frame: pl.DataFrame, handle: IO[bytes]) -> None:
    frame.write_parquet(handle)


_WRITERS: dict[str, Callable[[pl.DataFrame, IO[bytes]], None]] = {
    ".csv": _csv,
    ".tsv": _tsv,
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".parquet": _parquet,
}
