"""Plain tables: CSV, TSV, JSON lines and Parquet.

The good path is one call of Polars with every type given in advance. Only when Polars refuses the file is it read
a second time as text, so that the cell at fault can be named.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import polars as pl

from peerveil.core.errors import BadInput, Verbatim, show
from peerveil.data.problems import Place, ProblemLog, TableSource
from peerveil.data.readers.files import HEAD_BYTES, InputFile, csv_rows, first_records
from peerveil.data.schema import PLAIN_INTEGER, RawTable, TableSchema, listed, map_columns, raw_table

TABULAR = ("csv", "tsv", "jsonl", "parquet")
_SAMPLE_ROWS = 1_000
_INTEGER = re.compile(PLAIN_INTEGER)
_NUMBER = re.compile(r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$")
_LEADING_ZERO = re.compile(r"^-?0\d")


def read_tabular(file: InputFile, format_: str, schema: TableSchema, columns: Mapping[str, str]) -> RawTable:
    """The columns of the schema by our names; everything else in ``further``, under its own name."""
    refuse_text_settings(file, format_)
    if format_ == "jsonl":
        frame = _jsonl_frame(file)
    elif format_ == "parquet":
        frame = _parquet(file, partial(pl.read_parquet, glob=False))
    else:
        frame = _csv_frame(file, separator_of(file, format_), schema, columns)
    source = TableSource(file.name, partial(_places, file, format_))
    raw = raw_table(schema, source, {column.name: column for column in frame}, columns)
    if not frame.height:
        raise file.refusal("a header and no rows" if file.header else "only blank lines", "at least one row")
    return raw


def refuse_text_settings(file: InputFile, format_: str) -> None:
    """Refuse what only CSV and TSV have."""
    if format_ in ("csv", "tsv"):
        return
    for name, is_set in (("header", not file.header), ("separator", file.separator is not None)):
        if is_set:
            want = f"no {name} for {format_}: only CSV and TSV have one"
            raise BadInput(name, got=Verbatim(str(getattr(file, name))), want=want)


def _places(file: InputFile, format_: str) -> list[Place]:
    """The lines of the rows. The file is only gone through once something is wrong."""
    if format_ == "parquet":
        return []
    if format_ == "jsonl":
        lines = [number for number, line in enumerate(file.text().split("\n"), start=1) if line.strip()]
    else:
        lines = [line for line, _ in csv_rows(file.text(), separator_of(file, format_))][file.header :]
    return list(enumerate(lines, start=1))


def column_names(file: InputFile, format_: str) -> list[str]:
    """The names of the columns, or of those in the first line of JSON lines, without reading the rest."""
    if format_ == "parquet":
        return list(_parquet(file, pl.read_parquet_schema))
    return list(first_object(file) or ()) if format_ == "jsonl" else csv_header(file, separator_of(file, format_))


def first_object(file: InputFile) -> dict[str, object] | None:
    """The JSON object on the first line; None if there is none, which is for the reader to name."""
    try:
        value = json.loads(file.head_text().lstrip().split("\n", 1)[0])
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def separator_of(file: InputFile, format_: str) -> str:
    """As given; else a tab for TSV, and for CSV the comma, unless the first line only has semicolons or tabs."""
    if file.separator is not None:
        return file.separator
    if format_ == "tsv":
        return "\t"
    first = file.head_text().lstrip("\n\r").split("\n", 1)[0]
    return next((mark for mark in ",;\t" if mark in first), ",")


def csv_header(file: InputFile, separator: str) -> list[str]:
    """The header's names; a repeated or empty one is refused. Without a header, 1 to the number of cells."""
    records = first_records(file.head_text(), separator, 1)
    if not file.header:
        return [str(number) for number in range(1, len(records[0][1]) + 1)] if records else []
    if not records or not any(cell.strip() for cell in records[0][1]):
        raise file.refusal("no header", "a first line with the names of the columns", line=1)
    names = records[0][1]
    if len(set(names)) < len(names):
        repeated = sorted({name for name in names if names.count(name) > 1}) if len(names) < 2_000 else ["some names"]
        raise file.refusal(f"the header names {listed(repeated)} twice", "every column named once", line=1)
    return names


def _csv_frame(file: InputFile, separator: str, schema: TableSchema, columns: Mapping[str, str]) -> pl.DataFrame:
    header = csv_header(file, separator)
    mapping = map_columns(schema, TableSource(file.name), header, columns, numbered=not file.header)
    kinds = {theirs: schema[ours].kind for ours, theirs in mapping.items()}
    # the header is ours already: Polars leaves doubled quotation marks in names as they are
    skip = int(file.header)
    read = partial(pl.read_csv, separator=separator, glob=False, infer_schema=False, has_header=False, skip_rows=skip)
    try:
        types = _csv_types(file, separator, header, kinds)
        frame = read(file.data() if file.compressed else file.path, schema=types)
    except (pl.exceptions.PolarsError, OSError):
        frame = _csv_as_text(file, separator, header, read)
    height = frame.height
    while height and all(value is None for value in frame.row(height - 1)):
        height -= 1  # blank lines at the end
    return frame.head(height)


def _csv_types(file: InputFile, separator: str, header: list[str], kinds: Mapping[str, str]) -> pl.Schema:
    """Types from a sample: ids are numbers only if they are plain whole numbers (007 stays text)."""
    sample = [cells for _, cells in first_records(file.head_text(), separator, _SAMPLE_ROWS + 1)[file.header :]]
    if len(file.head) >= HEAD_BYTES and len(sample) > 1:
        sample.pop()  # perhaps cut in two
    types = pl.Schema()
    for position, name in enumerate(header):
        cells = [row[position] for row in sample if position < len(row) and row[position] != ""]
        kind = kinds.get(name, "any")
        numeric = bool(cells) and all(_NUMBER.match(cell) for cell in cells)
        if kind != "number" and cells and all(_INTEGER.match(cell) for cell in cells):
            types[name] = pl.Int64()
        elif numeric and (kind == "number" or (kind in ("time", "any") and not any(map(_LEADING_ZERO.match, cells)))):
            types[name] = pl.Float64()
        else:
            types[name] = pl.String()
    return types


def _csv_as_text(file: InputFile, separator: str, header: list[str], read: Callable[..., pl.DataFrame]) -> pl.DataFrame:
    """The second try: every cell as text; if even that fails, say which line is to blame."""
    text = file.text()
    lines = list(csv_rows(text, separator))
    ragged = [row for row, (_, cells) in enumerate(lines) if len(cells) > len(header)]
    log = ProblemLog(TableSource(file.name, lambda: [(row, line) for row, (line, _) in enumerate(lines)]))
    want = f"at most {len(header)}, as in the {'header' if file.header else 'first line'}"
    log.add(None, ragged, got=lambda row: Verbatim(f"{len(lines[row][1])} cells"), want=want)
    log.raise_any()
    try:
        return read(text.encode(), schema=dict.fromkeys(header, pl.String()))
    except pl.exceptions.PolarsError as error:
        got = "a quotation mark that is never closed" if '"' in text and "\n" in text else _short(error)
        raise file.refusal(got, "well-formed CSV") from error


def _jsonl_frame(file: InputFile) -> pl.DataFrame:
    data = file.data()
    try:
        return pl.read_ndjson(io.BytesIO(data), infer_schema_length=None)
    except pl.exceptions.PolarsError:
        text = file.decoded(data)
    records = []
    for line, value in file.json_lines(text):
        if not isinstance(value, dict):
            raise file.refusal(show(value), "one object per line, with the names of the columns", line=line)
        records.append(value)
    names = list(dict.fromkeys(name for record in records for name in record))
    return pl.DataFrame([mixed_series(name, [record.get(name) for record in records]) for name in names])


def mixed_series(name: str, values: list[Any]) -> pl.Series:
    """A column of values of several kinds: numbers stay numbers, else everything becomes text; empty text is null."""
    values = [None if value == "" else value for value in values]
    kinds = {type(value) for value in values if value is not None}
    try:
        if kinds <= {int, float} or len(kinds) == 1:
            return pl.Series(name, values, strict=False)
    except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError):
        pass
    return pl.Series(name, [None if value is None else str(value) for value in values], dtype=pl.String)


def _parquet(file: InputFile, read: Callable[[Any], Any]) -> Any:
    try:
        return read(io.BytesIO(file.data()) if file.compressed else file.path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise file.refusal(_short(error), "a readable Parquet file") from error


def _short(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0][:120] or type(error).__name__
