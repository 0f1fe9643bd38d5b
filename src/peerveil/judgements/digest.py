"""A fingerprint of what a table says, whatever file or row order it came in.

Rows are sorted, columns are taken in order of their names, and every value goes into one SHA-256 in a fixed
encoding. A changed cell or a repeated row changes the fingerprint; another row order, file format or column order
does not.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, cast

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLOCK = 1_000_000


def fingerprint_of(kind: str, frame: pl.DataFrame) -> str:
    """SHA-256, in hex, of a table's content.

    >>> a = fingerprint_of("Labels", pl.DataFrame({"task": [1, 2], "label": ["x", None]}))
    >>> b = fingerprint_of("Labels", pl.DataFrame({"label": [None, "x"], "task": [2, 1]}))
    >>> a == b, len(a)
    (True, 64)
    """
    names = sorted(frame.columns)
    ordered = _sorted(frame.select(names))
    digest = hashlib.sha256(_text(f"peerveil {kind} 1") + _count(frame.height) + _count(len(names)))
    for name in names:
        series = ordered[name]
        digest.update(_text(name) + _text(_tag(series.dtype)))
        for block in _blocks(series):
            digest.update(block)
    return digest.hexdigest()


def _sorted(frame: pl.DataFrame) -> pl.DataFrame:
    """Rows in the order of their columns; whole numbers that fit into one key are sorted as that key, faster."""
    ranges = []
    for series in frame.get_columns():
        if series.dtype != pl.Int64 or series.null_count() or not len(series):
            return frame.sort(frame.columns, nulls_last=False)
        low, high = cast("int", series.min()), cast("int", series.max())
        ranges.append((low, high - low + 1))
    if math.prod(width for _, width in ranges) >= 2**62:
        return frame.sort(frame.columns, nulls_last=False)
    key = np.zeros(frame.height, dtype=np.int64)
    for series, (low, width) in zip(frame.get_columns(), ranges, strict=True):
        key *= width
        key += series.to_numpy() - low
    key.sort()
    parts = []
    for name, (low, width) in zip(reversed(frame.columns), reversed(ranges), strict=True):
        key, rest = np.divmod(key, width)
        parts.append(pl.Series(name, rest + low))
    return pl.DataFrame(parts[::-1])


def _blocks(series: pl.Series) -> Iterator[bytes]:
    for start in range(0, len(series), _BLOCK):
        piece = series.slice(start, _BLOCK)
        missing = piece.is_null().to_numpy()
        yield np.packbits(missing).tobytes()
        if piece.dtype == pl.String:
            filled = piece.fill_null("")
            yield filled.str.len_bytes().cast(pl.Int64).to_numpy().astype("<i8").tobytes()
            yield str(filled.str.join("")[0]).encode()
        elif piece.dtype == pl.Float64:
            # adding zero turns -0.0 into 0.0: they are the same score
            yield (piece.fill_null(0.0).to_numpy() + 0.0).astype("<f8").tobytes()
        else:
            yield piece.to_physical().cast(pl.Int64).fill_null(0).to_numpy().astype("<i8").tobytes()


def _tag(dtype: pl.DataType) -> str:
    if dtype == pl.String:
        return "text"
    if dtype == pl.Float64:
        return "number"
    if dtype == pl.Boolean:
        return "boolean"
    if isinstance(dtype, pl.Datetime):
        return "time"
    return "whole"


def _text(text: str) -> bytes:
    data = text.encode()
    return _count(len(data)) + data


def _count(number: int) -> bytes:
    return number.to_bytes(8, "little")
