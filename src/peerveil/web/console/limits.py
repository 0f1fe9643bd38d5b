"""How large a table may be that the console reads: known before it is read, from metadata or by counting.

A small file can be a large table: repeated values, gzip and nested lists shrink to almost nothing on disk. What a table
takes in memory is estimated from its rows, values and bytes (measured: 440 to 590 bytes per row of three columns).
"""

from __future__ import annotations

import io
import zlib
from dataclasses import dataclass
from importlib import import_module
from typing import IO, TYPE_CHECKING, Any, Final

from peerveil.core.errors import BadInput, Verbatim
from peerveil.data.readers.files import InputFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from peerveil.web.console.house import Settings

_PER_ROW: Final = 200  # bytes, for checks, sorting and ids
_PER_VALUE: Final = 150
_PER_BYTE: Final = 2
_JSON: Final = 15  # per byte: documents become Python objects
_BLOCK: Final = 1 << 20
_ROWS: Final = 1 << 20


@dataclass
class Extent:
    """How large a table is: exactly, or at least so large if counting stopped at a limit."""

    rows: int = 0
    values: int = 0
    content: int = 0
    per_byte: int = _PER_BYTE

    @property
    def memory(self) -> int:
        """Bytes that it would take to read, about."""
        return self.rows * _PER_ROW + self.values * _PER_VALUE + self.content * self.per_byte


def admit(path: Path, settings: Settings) -> None:
    """Refuse a file that is too large to be read; all that is read for it is metadata, or the file in small pieces."""
    file = InputFile.open(path)
    extent = Extent()
    for _ in _measure(file, extent):  # stops as soon as it is too large
        if extent.rows > settings.row_limit or extent.memory > settings.memory_limit:
            _refuse(extent, settings)


def _refuse(extent: Extent, settings: Settings) -> None:
    came = f"at least {extent.rows:,} rows and {extent.values:,} values, about {extent.memory / 1e9:,.1f} GB of memory"
    want = (
        f"at most {settings.row_limit:,} rows and {settings.memory_limit / 1e9:,.1f} GB of memory. Start the console with a "
        "larger --row-limit or --memory-limit, or use the command line (timing audit and truth infer take --engine duckdb, "
        "which does not hold the table in memory)"
    )
    raise BadInput("file", got=Verbatim(came), want=want)


def _measure(file: InputFile, extent: Extent) -> Iterator[None]:
    """Fill in the extent step by step."""
    if file.head.startswith(b"PAR1"):
        if file.compressed:  # it would have to be unpacked as a whole
            yield from _count(file, extent)
        yield from _parquet(file, extent)
        return
    first = file.head.lstrip(b"\xef\xbb\xbf \t\r\n").split(b"\n", 1)[0]
    if first[:1] in (b"{", b"["):
        extent.per_byte = _JSON
        yield from _count(file, extent, columns=0)
    else:
        yield from _count(file, extent, columns=1 + max(first.count(mark) for mark in (b",", b";", b"\t")))


def _count(file: InputFile, extent: Extent, *, columns: int | None = None) -> Iterator[None]:
    """Decompressed bytes; of a text also the lines."""
    with file.stream() as handle:
        while block := _next(handle):
            extent.content += len(block)
            if columns is not None:
                extent.rows += block.count(b"\n")
                extent.values = extent.rows * columns
            yield


def _next(handle: IO[bytes]) -> bytes:
    try:
        return handle.read(_BLOCK)
    except (EOFError, OSError, zlib.error):  # broken gzip: the reader will say so
        return b""


def _parquet(file: InputFile, extent: Extent) -> Iterator[None]:
    """From the metadata: rows, and the values of every column, those inside lists too; then the lengths of texts."""
    parquet = import_module("pyarrow.parquet")
    source = io.BytesIO(file.data()) if file.compressed else file.path
    try:
        metadata = parquet.read_metadata(source)
    except (OSError, ValueError):  # pyarrow's errors are both; the reader will say what is wrong
        return
    extent.rows = metadata.num_rows
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    extent.values = max(sum(chunk.num_values for chunk in chunks), metadata.num_rows * metadata.num_columns)
    extent.content = sum(chunk.total_uncompressed_size for chunk in chunks)
    yield
    columns = [metadata.schema.column(number) for number in range(metadata.num_columns)]
    for number, column in enumerate(columns):
        if column.physical_type == "FIXED_LEN_BYTE_ARRAY":
            extent.content += column.length * sum(group.column(number).num_values for group in groups)
    texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
    if not texts:
        return
    try:  # a long text that is repeated is stored once, and is kept so here
        opened = parquet.ParquetFile(source, read_dictionary=texts)
        for batch in opened.iter_batches(_ROWS, columns=texts):
            extent.content += sum(_text_bytes(array) for array in batch.columns)
            yield
    except (OSError, ValueError):
        return


def _text_bytes(array: Any) -> int:
    """The length of all texts of an Arrow array, repeated ones counted each time."""
    arrow, compute = import_module("pyarrow"), import_module("pyarrow.compute")
    if arrow.types.is_dictionary(array.type):
        lengths = compute.binary_length(array.dictionary)
        return int(compute.sum(lengths.take(array.indices)).as_py() or 0)
    if arrow.types.is_struct(array.type):
        return sum(_text_bytes(part) for part in array.flatten())
    if arrow.types.is_map(array.type):
        return _text_bytes(array.keys) + _text_bytes(array.items)
    if arrow.types.is_nested(array.type):
        return _text_bytes(array.flatten())
    return int(array.nbytes)
