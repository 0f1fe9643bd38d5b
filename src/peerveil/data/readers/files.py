"""Opening what may not be there, may be compressed, and may not be text at all."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, cast

from peerveil.core.errors import BadInput
from peerveil.data.problems import BadTable, TableSource

HEAD_BYTES = 65_536


@dataclass(frozen=True)
class InputFile:
    """A file to be read: its name, its first bytes, and all of it on request, decompressed."""

    path: Path
    header: bool = True
    """Whether the first line of CSV or TSV names the columns; without it their names are 1, 2, 3 and so on."""
    separator: str | None = None
    """What stands between the cells of CSV or TSV; seen from the first line if None."""

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, header: bool = True, separator: str | None = None) -> InputFile:
        """Refuse what is not a readable, non-empty file."""
        if not isinstance(path, str | os.PathLike):
            raise BadInput("path", got=path, want="a file name")
        if not isinstance(header, bool):
            raise BadInput("header", got=header, want="True, or False for a file without a header")
        file = cls(Path(path), header, None if separator is None else check_separator(separator))
        if "\0" in str(path):
            raise file.refusal("a zero byte in the name", "an existing file")
        if not file.head:
            raise file.refusal("an empty file", "at least one row")
        return file

    @property
    def name(self) -> str:
        """The file's name without its folder."""
        return self.path.name

    @property
    def suffix(self) -> str:
        """The suffix in lower case, ``.gz`` left out."""
        return Path(self.name.lower().removesuffix(".gz")).suffix

    @cached_property
    def compressed(self) -> bool:
        """Whether the content is gzip, whatever the name says."""
        with self.stream(packed=True) as handle:
            return handle.read(2) == b"\x1f\x8b"

    @cached_property
    def head(self) -> bytes:
        """The first 64 kB of the content."""
        with self.stream() as handle:
            return handle.read(HEAD_BYTES)

    def refusal(self, got: str, want: str, **place: Any) -> BadTable:
        """The error that refuses the file."""
        return TableSource(self.name).refusal(got, want, **place)

    @contextmanager
    def stream(self, *, packed: bool = False) -> Iterator[IO[bytes]]:
        """The content as a stream, decompressed unless it is to stay packed; refused when it cannot be read."""
        try:
            with self.path.open("rb") if packed or not self.compressed else gzip.open(self.path) as handle:
                yield cast("IO[bytes]", handle)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise self.refusal(f"broken gzip data ({error})", "a whole gzip file") from error
        except FileNotFoundError as error:
            raise self.refusal(f"no such file ({self.path})", "an existing file") from error
        except IsADirectoryError as error:
            raise self.refusal("a folder", "a file") from error
        except OSError as error:
            raise self.refusal(error.strerror or str(error), "an existing file that can be read") from error

    def data(self) -> bytes:
        """The whole decompressed content."""
        with self.stream() as handle:
            return handle.read()

    def lines(self, size: int, start: int = 0) -> Iterator[bytes]:
        """Blocks of whole lines of about ``size`` bytes each, from a byte on."""
        rest = b""
        with self.stream() as handle:
            handle.seek(start)
            while block := handle.read(size):
                cut = block.rfind(b"\n") + 1
                if cut:
                    yield rest + block[:cut]
                rest = block[cut:] if cut else rest + block
        if rest:
            yield rest

    def text(self) -> str:
        """The whole content as UTF-8 text; a byte that is not is named by line."""
        return self.decoded(self.data())

    def decoded(self, data: bytes) -> str:
        """Bytes as text; refused unless they are UTF-8."""
        want = "UTF-8 text (save the file again as UTF-8)"
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise self.refusal("UTF-16 text", want, line=1)
        if b"\x00" in data:
            line = data.count(b"\n", 0, data.index(b"\x00")) + 1
            raise self.refusal("binary data (a zero byte)", "UTF-8 text", line=line)
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            if len(data) == HEAD_BYTES and error.start >= len(error.object) - 4:
                return data.decode("utf-8-sig", errors="ignore")  # a character cut in two at the end of the head
            got = f"the byte 0x{error.object[error.start]:02x}, which is not UTF-8"
            raise self.refusal(got, want, line=error.object.count(b"\n", 0, error.start) + 1) from error

    def head_text(self) -> str:
        """The first 64 kB as text."""
        return self.decoded(self.head)

    def json(self) -> Any:
        """The whole content as JSON: one document, or a list of the lines of JSON lines."""
        text = self.text()
        try:
            return self._parsed(text)
        except BadTable:
            if text.lstrip().startswith("{") and "\n" in text.strip():
                return [value for _, value in self.json_lines(text)]
            raise

    def json_lines(self, text: str) -> Iterator[tuple[int, Any]]:
        """Line number (from 1) and value of every line that is not blank."""
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                yield number, self._parsed(line, number)

    def _parsed(self, text: str, line: int | None = None) -> Any:
        """A JSON document; ``line`` is where it stands if it is one of many."""
        try:
            return json.loads(text)
        except RecursionError:
            raise self.refusal("JSON nested too deeply", "JSON of an ordinary depth", line=line) from None
        except json.JSONDecodeError as error:
            got = f"broken JSON ({error.msg} at character {error.colno})"
            raise self.refusal(got, "whole, valid JSON", line=line or error.lineno) from error
        except ValueError as error:
            raise self.refusal(f"JSON that cannot be read ({error})", "whole, valid JSON", line=line) from error


def check_separator(separator: object) -> str:
    r"""The sign between cells; a tab may be written as ``tab``.

    >>> check_separator(";"), check_separator("tab")
    (';', '\t')
    """
    sign = "\t" if separator in ("tab", "\\t") else str(separator)
    if len(sign) != 1 or not sign.isascii() or sign.isalnum() or sign in '"\n\r\0':
        raise BadInput(
            "separator", got=separator, want="one sign such as ; or | or tab, no letter, digit or quotation mark"
        )
    return sign


def csv_rows(text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """First line (from 1) and cells of every CSV record. Slow: for headers, samples and after failures."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    before = 0
    limit = csv.field_size_limit(2**31 - 1)
    try:
        for record in reader:
            yield before + 1, record
            before = reader.line_num
    except csv.Error:
        return
    finally:
        csv.field_size_limit(limit)


def first_records(text: str, separator: str, count: int) -> list[tuple[int, list[str]]]:
    """The first records of a CSV text."""
    return list(itertools.islice(csv_rows(text, separator), count))
