"""The largest table that the console reads: estimated before it is read, from metadata or by counting.

A small file can be a large table: repeated values, gzip and nested lists shrink to almost nothing on disk. The memory for a
table is estimated from its rows, values and bytes (measured: 440 to 590 bytes per row of three columns).
"""

import io
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from peerveil.core.errors import BadInput, Verbatim
from peerveil.data.readers.files import InputFile
from peerveil.web.console.app import ConsoleSettings

_BYTES_PER_ROW: Final = 200  # for checks, sorting and ids
_BYTES_PER_VALUE: Final = 150
_BYTES_PER_BYTE: Final = 2
_BYTES_PER_JSON_BYTE: Final = 15  # documents become Python objects
_BLOCK: Final = 1 << 20


@dataclass
class TableSize:
    """The size of a table: exact, or a lower bound if counting stopped at a limit."""

    rows: int = 0
    values: int = 0
    content: int = 0
    per_byte: int = _BYTES_PER_BYTE

    @property
    def memory(self) -> int:
        """Estimated bytes of memory for reading it."""
        return self.rows * _BYTES_PER_ROW + self.values * _BYTES_PER_VALUE + self.content * self.per_byte


def admit(path: Path, settings: ConsoleSettings) -> None:
    """Refuse a file that is too large; only metadata is read for it, or the file in small pieces."""
    size = TableSize()
    for _ in _measure(InputFile.open(path), size):  # stops as soon as it is too large
        if size.rows > settings.row_limit or size.memory > settings.memory_limit:
            got = f"at least {size.rows:,} rows and {size.values:,} values, about {size.memory / 1e9:,.1f} GB of memory"
            want = (
                f"at most {settings.row_limit:,} rows and {settings.memory_limit / 1e9:,.1f} GB of memory. Start the console "
                "with a larger --row-limit or --memory-limit, or use the command line (timing audit and truth infer take "
                "--engine duckdb, which does not hold the table in memory)"
            )
            raise BadInput("file", got=Verbatim(got), want=want)


def _measure(file: InputFile, size: TableSize) -> Iterator[None]:
    """Fill in the size step by step."""
    if file.head.startswith(b"PAR1"):
        if file.compressed:  # it would have to be decompressed as a whole
            yield from _count(file, size)
        yield from _parquet(file, size)
        return
    first = file.head.lstrip(b"\xef\xbb\xbf \t\r\n").split(b"\n", 1)[0]
    if first[:1] in (b"{", b"["):
        size.per_byte = _BYTES_PER_JSON_BYTE
        yield from _count(file, size, columns=0)
    else:
        yield from _count(file, size, columns=1 + max(first.count(mark) for mark in (b",", b";", b"\t")))


def _count(file: InputFile, size: TableSize, *, columns: int | None = None) -> Iterator[None]:
    """Count decompressed bytes; of a text also the lines."""
    with file.stream() as handle, suppress(EOFError, OSError, zlib.error):  # broken gzip: the reader will say so
        for block in iter(partial(handle.read, _BLOCK), b""):
            size.content += len(block)
            if columns is not None:
                size.rows += block.count(b"\n")
                size.values = size.rows * columns
            yield


def _parquet(file: InputFile, size: TableSize) -> Iterator[None]:
    """From the metadata: rows, and the values of every column, including those in lists; then the lengths of texts."""
    parquet = import_module("pyarrow.parquet")
    source = io.BytesIO(file.data()) if file.compressed else file.path
    try:
        metadata = parquet.read_metadata(source)
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
        size.rows = metadata.num_rows
        size.values = max(sum(chunk.num_values for chunk in chunks), metadata.num_rows * metadata.num_columns)
        size.content = sum(chunk.total_uncompressed_size for chunk in chunks)
        yield
        columns = [metadata.schema.column(number) for number in range(metadata.num_columns)]
        for number, column in enumerate(columns):
            if column.physical_type == "FIXED_LEN_BYTE_ARRAY":
                size.content += column.length * sum(group.column(number).num_values for group in groups)
        texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
        if texts:  # a long text that is repeated is stored once, and stays so here
            opened = parquet.ParquetFile(source, read_dictionary=texts)
            for batch in opened.iter_batches(_BLOCK, columns=texts):
                size.content += sum(_text_bytes(array) for array in batch.columns)
                yield
    except (OSError, ValueError):  # pyarrow's errors are both; the reader will say what is wrong
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
