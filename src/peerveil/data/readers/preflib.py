"""PrefLib files: ``.soc .soi .toc .toi``, orders with multiplicities.

A header of ``# KEY: value`` lines, then ``count: 7,4,5``, best first, ties as ``{1,2}``. The body is parsed in
blocks of bytes with NumPy; a block that breaks a rule is gone through line by line to name the line.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from peerveil.core.errors import BadInput, Verbatim
from peerveil.data.orders import Counts, Ranks, RankSet, rank_type, tied_rows
from peerveil.data.problems import BadTable, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from peerveil.data.readers.files import InputFile

KINDS = {
    "soc": "complete orders without ties",
    "soi": "orders without ties",
    "toc": "complete orders",
    "toi": "orders",
}
_BLOCK_BYTES = 8_000_000
_SMALL_BYTES = 20_000
_COLON, _COMMA, _OPEN, _CLOSE, _NEWLINE = (ord(mark) for mark in ":,{}\n")
_MARKS = (_COLON, _COMMA, _NEWLINE)
_LINE = re.compile(r"^\s*(\d+)\s*:\s*(.*?)\s*$")


@dataclass(frozen=True)
class Header:
    """What the ``#`` lines say."""

    kind: str
    items: tuple[str, ...]
    orders: int | None
    voters: int | None
    lines: int
    size: int


def read_preflib(file: InputFile) -> RankSet:
    """The whole file."""
    header = read_header(file)
    blocks = list(_blocks(file, header))
    if not blocks:
        raise file.refusal(Verbatim("a header and no orders"), "at least one order")
    ranks, counts = zip(*blocks, strict=True)
    return RankSet(np.concatenate(ranks), np.concatenate(counts), header.items)


def stream_preflib(file: InputFile, rows: int) -> Iterator[RankSet]:
    """The file in pieces of at most ``rows`` orders."""
    header = read_header(file)
    for ranks, counts in _blocks(file, header):
        for start in range(0, len(ranks), rows):
            yield RankSet(ranks[start : start + rows], counts[start : start + rows], header.items)


def read_header(file: InputFile) -> Header:
    """The ``#`` lines; refuses a file without the number of alternatives."""
    values: dict[str, str] = {}
    lines = size = 0
    for line in itertools.takewhile(_is_header, _lines(file)):
        lines, size = lines + 1, size + len(line)
        try:
            text = line.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = line.decode("latin-1")
        key, _, value = text.strip().lstrip("#").partition(":")
        values[key.strip().upper()] = value.strip()
    kind = values.get("DATA TYPE", file.suffix.lstrip(".")).lower()
    if kind not in KINDS:
        raise file.refusal(kind or file.name, f"a data type among {', '.join(KINDS)}")
    number, orders, voters = (
        _whole(file, values, key) for key in ("NUMBER ALTERNATIVES", "NUMBER UNIQUE ORDERS", "NUMBER VOTERS")
    )
    if number is None:
        want = "'# NUMBER ALTERNATIVES: ...' in the header (files of the old layout: download them again)"
        raise file.refusal(Verbatim("no number of alternatives"), want, line=1)
    if not 1 <= number <= 10_000_000:
        raise file.refusal(number, "a number of alternatives of at least 1")
    numbers = tuple(str(position) for position in range(1, number + 1))
    names = tuple(values.get(f"ALTERNATIVE NAME {position}", "") for position in numbers)
    usable = len(set(names)) == number and all(names) and "count" not in names
    return Header(kind, names if usable else numbers, orders, voters, lines, size)


def _lines(file: InputFile) -> Iterator[bytes]:
    for block in file.lines(_BLOCK_BYTES):
        yield from block.splitlines(keepends=True)


def _is_header(line: bytes) -> bool:
    return not line.strip() or line.lstrip(b"\xef\xbb\xbf \t").startswith(b"#")


def _whole(file: InputFile, values: dict[str, str], key: str) -> int | None:
    if key in values and not re.fullmatch(r"\d{1,15}", values[key]):
        raise file.refusal(values[key], f"a whole number after '# {key}:'")
    return int(values[key]) if key in values else None


def _blocks(file: InputFile, header: Header) -> Iterator[tuple[Ranks, Counts]]:
    """Ranks and counts, block by block; checks the header's totals at the end."""
    line, orders, voters, skip = header.lines, 0, 0, header.size
    for block in file.lines(max(_BLOCK_BYTES, 4 * len(header.items))):
        if skip >= len(block):
            skip -= len(block)
            continue
        body = block[skip:]
        skip = 0
        ranks, counts = _read(file, body, header, line)
        line += body.count(b"\n") + (not body.endswith(b"\n"))
        orders, voters = orders + len(ranks), voters + int(counts.sum())
        if len(ranks):
            yield ranks, counts
    for stated, number, key in (
        (header.orders, orders, "NUMBER UNIQUE ORDERS"),
        (header.voters, voters, "NUMBER VOTERS"),
    ):
        if stated not in (None, number):
            raise file.refusal(Verbatim(f"{number:,} in the file"), f"{stated:,}, as '# {key}' says (cut short?)")


def _read(file: InputFile, body: bytes, header: Header, before: int) -> tuple[Ranks, Counts]:
    """A block; halved until what breaks a rule is small enough to go through line by line."""
    parsed = _parse(body, header)
    if parsed is not None:
        return parsed
    cut = body.find(b"\n", len(body) // 2) + 1
    if len(body) < _SMALL_BYTES or not 0 < cut < len(body):
        return _line_by_line(file, body, header, before)
    first = _read(file, body[:cut], header, before)
    second = _read(file, body[cut:], header, before + body.count(b"\n", 0, cut))
    return np.concatenate([first[0], second[0]]), np.concatenate([first[1], second[1]])


def _parse(body: bytes, header: Header) -> tuple[Ranks, Counts] | None:
    """A block with NumPy; None if any line breaks a rule, so that the slow way can say which."""
    data = np.frombuffer(body.translate(None, b" \t\r").strip(b"\n") + b"\n", dtype=np.uint8)
    rank_of: np.ndarray[Any, Any] | None = None
    if b"{" in body or b"}" in body:
        opened = np.cumsum((data == _OPEN).astype(np.int8) - (data == _CLOSE).astype(np.int8), dtype=np.int32)
        if not _braces_ok(data, opened):
            return None
        rank_of = np.cumsum((data == _COMMA) & (opened == 0), dtype=np.int32)
        keep = (data != _OPEN) & (data != _CLOSE)
        data, rank_of = data[keep], rank_of[keep]
    # every mark must follow a digit, so that each number is followed by exactly one mark
    ends = np.flatnonzero((data - np.uint8(48)) >= 10)
    marks = data[ends]
    if not len(ends) or ends[0] == 0 or (np.diff(ends) == 1).any() or not np.isin(marks, _MARKS).all():
        return None
    first = np.append(True, marks[:-1] == _NEWLINE)
    values = _numbers(data, ends)
    if values is None or not np.array_equal(marks == _COLON, first):
        return None
    counts = values[first]
    items = values[~first] - 1
    width = len(header.items)
    if (counts < 1).any() or (items < 0).any() or (items >= width).any():
        return None
    line = np.cumsum(first) - 1
    place = np.arange(-1, len(ends) - 1) if rank_of is None else rank_of[ends - 1]
    start = np.arange(len(ends))[first] if rank_of is None else place[first]
    ranks = np.full((len(counts), width), -1, dtype=rank_type(width))
    ranks[line[~first], items] = (place - start[line])[~first]
    ranked = int((ranks >= 0).sum())
    incomplete = header.kind.endswith("c") and ranked < ranks.size
    tied = header.kind.startswith("s") and tied_rows(ranks).any()
    return None if ranked != len(items) or incomplete or tied else (ranks, counts)


def _braces_ok(data: np.ndarray[Any, Any], opened: np.ndarray[Any, Any]) -> bool:
    """Braces come in pairs, never nested, never across lines, around whole entries."""
    if opened.min() < 0 or opened.max() > 1 or opened[data == _NEWLINE].any():
        return False
    starts, stops = np.flatnonzero(data == _OPEN), np.flatnonzero(data == _CLOSE)
    inside = np.append(data[starts + 1], data[stops - 1])
    return bool(
        starts[0] > 0
        and np.isin(data[starts - 1], (_COMMA, _COLON)).all()
        and np.isin(data[stops + 1], (_COMMA, _NEWLINE)).all()
        and ((inside - np.uint8(48)) < 10).all()
    )


def _numbers(data: np.ndarray[Any, Any], ends: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.int64]] | None:
    """The numbers that end just before each mark."""
    lengths = np.diff(ends, prepend=-1) - 1
    longest = int(lengths.max())
    if longest > 15:
        return None
    values: np.ndarray[Any, np.dtype[np.int64]] = (data[ends - 1] - np.uint8(48)).astype(np.int64)
    for place in range(1, longest):
        has = np.flatnonzero(lengths > place)
        values[has] += (data[ends[has] - 1 - place] - np.uint8(48)).astype(np.int64) * 10**place
    return values


def _line_by_line(file: InputFile, body: bytes, header: Header, before: int) -> tuple[Ranks, Counts]:
    """The slow way: finds the bad lines, or reads what is only unusually spaced."""
    problems: list[Problem] = []
    orders: list[tuple[Ranks, int]] = []
    for number, line in enumerate(body.split(b"\n"), start=before + 1):
        text = line.decode("utf-8", errors="replace").strip()
        if not text:
            continue
        try:
            orders.append(_order(text, header))
        except BadInput as error:
            problems.append(Problem(file.name, error.got, error.want, line=number))
    if problems:
        raise BadTable(problems)
    ranks: Ranks = np.array([row for row, _ in orders], dtype=rank_type(len(header.items)))
    return ranks.reshape(-1, len(header.items)), np.array([count for _, count in orders], dtype=np.int64)


def _order(text: str, header: Header) -> tuple[Ranks, int]:
    """The ranks and the count on one line."""
    width = len(header.items)
    row: Ranks = np.full(width, -1, dtype=rank_type(width))
    match = _LINE.match(text)
    body = re.sub(r"[ \t]", "", match[2]) if match else ""
    entries = re.findall(r"\{[^{}]*\}|[^,{}]+", body)
    if match is None or len(match[1]) > 15 or int(match[1]) < 1 or ",".join(entries) != body:
        raise BadInput("line", got=text, want="a line such as '12: 3,1,2'")
    for rank, entry in enumerate(entries):
        for name in entry.strip("{}").split(","):
            if not name.isdecimal() or len(name) > 15 or not 1 <= int(name) <= width:
                raise BadInput("line", got=name, want=f"an alternative from 1 to {width}")
            if row[int(name) - 1] >= 0:
                raise BadInput("line", got=Verbatim(f"alternative {name} twice"), want="every alternative at most once")
            row[int(name) - 1] = rank
    ranked = int((row >= 0).sum())
    want = f"{KINDS[header.kind]}, as the type .{header.kind} says"
    if header.kind.endswith("c") and ranked < width:
        raise BadInput("line", got=Verbatim(f"{ranked} of {width} alternatives"), want=want)
    if header.kind.startswith("s") and int(row.max()) + 1 < ranked:
        raise BadInput("line", got=Verbatim("a tie"), want=want)
    if not ranked:
        raise BadInput("line", got=Verbatim("an empty order"), want="at least one alternative")
    return row, int(match[1])


def preflib_text(content: RankSet, name: str, kind: str) -> str:
    """Rankings as the text of a PrefLib file.

    >>> print(preflib_text(RankSet(np.array([[1, 0, 1]]), np.array([4]), ("a", "b", "c")), "x.toc", "toc")[-12:])
    <BLANKLINE>
    4: 2,{1,3}
    <BLANKLINE>
    """
    incomplete, tied = bool((content.ranks < 0).any()), bool(tied_rows(content.ranks).any())
    if (kind.endswith("c") and incomplete) or (kind.startswith("s") and tied):
        raise BadInput("path", got=name, want=f"rankings that are {KINDS[kind]} for a .{kind} file, or .toi")
    broken = next((item for item in content.items if item != item.strip() or "\n" in item or "\r" in item), None)
    if broken is not None:
        raise BadInput("items", got=broken, want="names without line breaks or outer spaces in a PrefLib file")
    lines = [
        f"# FILE NAME: {name}",
        f"# DATA TYPE: {kind}",
        f"# NUMBER ALTERNATIVES: {len(content.items)}",
        f"# NUMBER VOTERS: {int(content.counts.sum())}",
        f"# NUMBER UNIQUE ORDERS: {len(content.ranks)}",
        *(f"# ALTERNATIVE NAME {position}: {item}" for position, item in enumerate(content.items, start=1)),
    ]
    for row, count in zip(content.ranks, content.counts.tolist(), strict=True):
        places: dict[int, list[str]] = {}
        for position, rank in enumerate(row.tolist(), start=1):
            if rank >= 0:
                places.setdefault(rank, []).append(str(position))
        groups = [places[rank] for rank in sorted(places)]
        shown = [group[0] if len(group) == 1 else "{" + ",".join(group) + "}" for group in groups]
        lines.append(f"{count}: {','.join(shown)}")
    return "\n".join(lines) + "\n"
