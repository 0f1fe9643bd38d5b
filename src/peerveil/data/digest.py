"""A fingerprint of what a table says, whatever file or row order it came in.

Rows are sorted, columns are taken in order of their names, and every value goes into one SHA-256 in a fixed
encoding. A changed cell or a repeated row changes the fingerprint; another row order, file format or column order
does not.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from typing import cast

import numpy as np
import polars as pl

_BLOCK_ROWS = 1_000_000
_NETSTRING = pl.concat_str(  # a list as one text that no other list has
    pl.element().cast(pl.String).str.len_bytes().cast(pl.String), pl.lit(":"), pl.element().cast(pl.String)
)
_TAGS = {"String": "text", "Float64": "number", "Boolean": "boolean", "Datetime": "time"}


def fingerprint_of(kind: str, frame: pl.DataFrame) -> str:
    """SHA-256, in hex, of a table's content.

    >>> a = fingerprint_of("Labels", pl.DataFrame({"task": [1, 2], "label": ["x", None]}))
    >>> b = fingerprint_of("Labels", pl.DataFrame({"label": [None, "x"], "task": [2, 1]}))
    >>> a == b, len(a)
    (True, 64)
    """
    names = sorted(frame.columns)
    ordered = _sorted(frame.select(names).with_columns(pl.col(pl.List).list.eval(_NETSTRING).list.join("")))
    digest = hashlib.sha256(_text(f"peerveil {kind} 1") + _count(frame.height) + _count(len(names)))
    for name in names:
        series = ordered[name]
        digest.update(_text(name) + _text(_TAGS.get(series.dtype.base_type().__name__, "whole")))
        for block in _blocks(series):
            digest.update(block)
    return digest.hexdigest()


def identity_of(who: pl.Series | None, what: pl.Series, value: pl.Series) -> str:
    """SHA-256, in hex, of who judged what and how, whatever the kind of table or the type of a column.

    Further columns do not matter, nor whether whole numbers were stored as text or as numbers: a file has one identity
    as reviews and as labels, as CSV and as Parquet.

    >>> first = identity_of(pl.Series(["a", "b"]), pl.Series([1, 2]), pl.Series([3.0, 4.5]))
    >>> first == identity_of(pl.Series(["b", "a"]), pl.Series(["2", "1"]), pl.Series(["4.5", "3"]))
    True
    """
    people = pl.Series([None] * len(what), dtype=pl.String) if who is None else _plain(who)
    return fingerprint_of("data", pl.DataFrame({"who": people, "what": _plain(what), "value": _plain(value)}))


def _plain(series: pl.Series) -> pl.Series:
    """Values as numbers wherever all of them are, as whole ones if possible; as text otherwise."""
    if isinstance(series.dtype, pl.Datetime):
        return series.dt.cast_time_unit("us").to_physical()
    if isinstance(series.dtype, pl.List):
        return series.list.eval(_NETSTRING).list.join("")
    if series.dtype in (pl.Boolean, pl.Categorical) or isinstance(series.dtype, pl.Enum):
        series = series.cast(pl.String)
    if series.dtype == pl.String:
        # as people re-export them: spaces around, letter case and the form of accents are no difference
        series = series.str.normalize("NFC").str.strip_chars().str.to_lowercase()
        number = series.cast(pl.Int64, strict=False)
        if number.null_count() == series.null_count() and (number.cast(pl.String) == series).all():
            return number
        number = series.cast(pl.Float64, strict=False)
        if number.null_count() > series.null_count() or not number.drop_nulls().is_finite().all():
            return series
        series = number
    if series.dtype.is_float():
        whole = series.cast(pl.Int64, strict=False)
        exact = whole.null_count() == series.null_count() and (whole.cast(pl.Float64) == series).all()
        return whole if exact else series.cast(pl.Float64)
    return series.cast(pl.Int64)


def _sorted(frame: pl.DataFrame) -> pl.DataFrame:
    """Rows in the order of their columns; whole numbers that fit into one key are sorted as that key, faster."""
    whole = all(series.dtype == pl.Int64 and not series.null_count() for series in frame.get_columns())
    lows = [cast("int", series.min()) for series in frame.get_columns()] if whole and frame.height else []
    widths = [cast("int", frame[name].max()) - low + 1 for name, low in zip(frame.columns, lows, strict=False)]
    if not widths or math.prod(widths) >= 2**62:
        return frame.sort(frame.columns, nulls_last=False)
    shifted = [series.to_numpy() - low for series, low in zip(frame.get_columns(), lows, strict=True)]
    key = np.ravel_multi_index(shifted, widths)
    key.sort()
    parts = zip(frame.columns, np.unravel_index(key, widths), lows, strict=True)
    return pl.DataFrame([pl.Series(name, part + low) for name, part, low in parts])


def _blocks(series: pl.Series) -> Iterator[bytes]:
    for start in range(0, len(series), _BLOCK_ROWS):
        piece = series.slice(start, _BLOCK_ROWS)
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


def _text(text: str) -> bytes:
    return _count(len(text.encode())) + text.encode()


def _count(number: int) -> bytes:
    return number.to_bytes(8, "little")
