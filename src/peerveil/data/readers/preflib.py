"""PrefLib files: ``.soc .soi .toc .toi``, orders with multiplicities.

A header of ``# KEY: value`` lines, then ``count: 7,4,5``, best first, ties as ``{1,2}``. The body is parsed in
blocks of bytes with NumPy; a block that breaks a rule is gone through line by line to name the line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from peerveil.core.errors import BadInput, Verbatim
from peerveil.data.orders import Counts, Ranks, RankSet, complete_rows, rank_type
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
_BLOCK = 8_000_000
_SMALL = 20_000
_COLON, _COMMA, _OPEN, _CLOSE, _NEWLINE = (ord(mark) for mark in ":,{}\n")
_LINE = re.compile(r"^\s*(\d+)\s*:\s*(.*?)\s*$")
_NAME = re.compile(r"^ALTERNATIVE NAME (\d+)$")
_WANT = "a line such as '12: 3,1,2'"


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
    ranks, counts = [], []
    for block_ranks, block_counts in _blocks(file, header):
        ranks.append(block_ranks)
        counts.append(block_counts)
    if not ranks:
        raise file.refusal(Verbatim("a header and no orders"), "at least one order")
    return RankSet(np.concatenate(ranks), np.concatenate(counts), header.items)


def stream_preflib(file: InputFile, rows: int) -> Iterator[RankSet]:
    """The file in pieces of at most ``rows`` orders."""
    header = read_header(file)
    for ranks, counts in _blocks(file, header):
        for start in range(0, len(ranks), rows):
            yield RankSet(ranks[start : start + rows], counts[start : start + rows], header.items)


def read_header(file: InputFile) -> Header:
    """The ``#`` lines; refuses a file without the number of alternatives."""
    said: dict[str, str] = {}
    names: dict[int, str] = {}
    lines = size = 0
    for block in file.lines(_BLOCK):
        ended = False
        for line in block.splitlines(keepends=True):
            if line.strip() and not line.lstrip(b"\xef\xbb\xbf \t").startswith(b"#"):
                ended = True
                break
            lines, size = lines + 1, size + len(line)
            try:
                text = line.decode("utf-8-sig")
            except UnicodeDecodeError:
                text = line.decode("latin-1")
            key, _, value = text.strip().lstrip("#").partition(":")
            key = key.strip().upper()
            numbered = _NAME.match(key)
            if numbered:
                names[int(numbered[1])] = value.strip()
            else:
                said[key] = value.strip()
        if ended:
            break
    kind = said.get("DATA TYPE", file.suffix.lstrip(".")).lower()
    if kind not in KINDS:
        raise file.refusal(kind or file.name, f"a data type among {', '.join(KINDS)}")
    number = _whole(file, said, "NUMBER ALTERNATIVES")
    if number is None:
        want = "'# NUMBER ALTERNATIVES: ...' in the header (files of the old layout: download them again)"
        raise file.refusal(Verbatim("no number of alternatives"), want, line=1)
    if not 1 <= number <= 10_000_000:
        raise file.refusal(number, "a number of alternatives of at least 1")
    return Header(
        kind,
        _items(number, names),
        _whole(file, said, "NUMBER UNIQUE ORDERS"),
        _whole(file, said, "NUMBER VOTERS"),
        lines,
        size,
    )


def _whole(file: InputFile, said: dict[str, str], key: str) -> int | None:
    if key not in said:
        return None
    if not re.fullmatch(r"\d{1,15}", said[key]):
        raise file.refusal(said[key], f"a whole number after '# {key}:'")
    return int(said[key])


def _items(number: int, names: dict[int, str]) -> tuple[str, ...]:
    """Their names, if every one has its own; else their numbers."""
    listed = tuple(names.get(position, "") for position in range(1, number + 1))
    if len(set(listed)) == number and all(listed) and "count" not in listed:
        return listed
    return tuple(str(position) for position in range(1, number + 1))


def _blocks(file: InputFile, header: Header) -> Iterator[tuple[Ranks, Counts]]:
    """Ranks and counts, block by block; checks the header's totals at the end."""
    line, orders, voters, skip = header.lines, 0, 0, header.size
    for block in file.lines(max(_BLOCK, 4 * len(header.items))):
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
    for promised, found, what in (
        (header.orders, orders, "NUMBER UNIQUE ORDERS"),
        (header.voters, voters, "NUMBER VOTERS"),
    ):
        if promised is not None and promised != found:
            raise file.refusal(Verbatim(f"{found:,} in the file"), f"{promised:,}, as '# {what}' says (cut short?)")


def _read(file: InputFile, body: bytes, header: Header, before: int) -> tuple[Ranks, Counts]:
    """A block; halved until what breaks a rule is small enough to go through line by line."""
    parsed = _parse(body, header)
    if parsed is not None:
        return parsed
    cut = body.find(b"\n", len(body) // 2) + 1
    if len(body) < _SMALL or not 0 < cut < len(body):
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
    digit = (data - np.uint8(48)) < 10
    # every mark must follow a digit, so that each number is followed by exactly one mark
    ends = np.flatnonzero(~digit)
    if not len(ends) or ends[0] == 0 or (np.diff(ends) == 1).any():
        return None
    marks = data[ends]
    if not ((marks == _COLON) | (marks == _COMMA) | (marks == _NEWLINE)).all():
        return None
    last = marks == _NEWLINE
    first = np.empty(len(ends), dtype=np.bool_)
    first[0], first[1:] = True, last[:-1]
    if not np.array_equal(marks == _COLON, first):
        return None
    values = _numbers(data, ends)
    if values is None:
        return None
    counts = values[first]
    items = values[~first] - 1
    if (counts < 1).any() or (items < 0).any() or (items >= len(header.items)).any():
        return None
    line = (np.cumsum(first) - 1)[~first]
    if rank_of is None:
        position = np.arange(len(ends))
        rank = (position - position[first][np.cumsum(first) - 1])[~first] - 1
    else:
        at = rank_of[ends - 1]
        rank = (at - at[first][np.cumsum(first) - 1])[~first]
    ranks = np.full((len(counts), len(header.items)), -1, dtype=rank_type(len(header.items)))
    ranks[line, items] = rank
    if int((ranks >= 0).sum()) != len(items) or not _fits(ranks, header.kind, len(items)):
        return None
    return ranks, counts


def _braces_ok(data: np.ndarray[Any, Any], opened: np.ndarray[Any, Any]) -> bool:
    """Braces come in pairs, never nested, never across lines, around whole entries."""
    if opened.min() < 0 or opened.max() > 1 or opened[data == _NEWLINE].any():
        return False
    starts, stops = np.flatnonzero(data == _OPEN), np.flatnonzero(data == _CLOSE)
    before, after = data[starts - 1], data[stops + 1]
    inside_start, inside_stop = data[starts + 1], data[stops - 1]
    return bool(
        starts[0] > 0
        and np.isin(before, (_COMMA, _COLON)).all()
        and np.isin(after, (_COMMA, _NEWLINE)).all()
        and ((inside_start - np.uint8(48)) < 10).all()
        and ((inside_stop - np.uint8(48)) < 10).all()
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


def _fits(ranks: Ranks, kind: str, entries: int) -> bool:
    """Whether a block keeps the promise of its data type."""
    if kind in ("soc", "toc") and entries != ranks.size:
        return False
    if kind == "soc":
        return bool(complete_rows(ranks).all())
    if kind == "soi":
        return bool((ranks.max(axis=1) + 1 == (ranks >= 0).sum(axis=1)).all())
    return True


def _line_by_line(file: InputFile, body: bytes, header: Header, before: int) -> tuple[Ranks, Counts]:
    """The slow way: finds the bad lines, or reads what is only unusually spaced."""
    problems: list[Problem] = []
    rows: list[np.ndarray[Any, Any]] = []
    counts: list[int] = []
    total = 0
    for number, raw in enumerate(body.split(b"\n"), start=before + 1):
        text = raw.decode("utf-8", errors="replace").strip()
        if not text:
            continue
        row, count, wrong = _one_line(text, header)
        if wrong is None:
            rows.append(row)
            counts.append(count)
        else:
            total += 1
            if len(problems) < 20:
                problems.append(Problem(file.name, *wrong, line=number))
    if problems:
        raise BadTable(problems, total)
    width = len(header.items)
    ranks: Ranks = np.full((len(rows), width), -1, dtype=rank_type(width))
    for position, row in enumerate(rows):
        ranks[position] = row
    return ranks, np.array(counts, dtype=np.int64)


def _one_line(text: str, header: Header) -> tuple[np.ndarray[Any, Any], int, tuple[object, str] | None]:
    width = len(header.items)
    row = np.full(width, -1, dtype=rank_type(width))
    match = _LINE.match(text)
    if match is None or len(match[1]) > 15 or int(match[1]) < 1:
        return row, 0, (text, _WANT)
    entries = re.findall(r"\{[^{}]*\}|[^,{}]+", match[2].replace(" ", "").replace("\t", ""))
    if ",".join(entries) != match[2].replace(" ", "").replace("\t", ""):
        return row, 0, (text, _WANT)
    for rank, entry in enumerate(entries):
        for name in entry.strip("{}").split(","):
            if not name.isdecimal() or len(name) > 15 or not 1 <= int(name) <= width:
                return row, 0, (name, f"an alternative from 1 to {width}")
            if row[int(name) - 1] >= 0:
                return row, 0, (Verbatim(f"alternative {name} twice"), "every alternative at most once")
            row[int(name) - 1] = rank
    ranked = int((row >= 0).sum())
    want = f"{KINDS[header.kind]}, as a .{header.kind} file promises"
    if header.kind in ("soc", "toc") and ranked < width:
        return row, 0, (Verbatim(f"{ranked} of {width} alternatives"), want)
    if header.kind in ("soc", "soi") and int(row.max()) + 1 < ranked:
        return row, 0, (Verbatim("a tie"), want)
    if not ranked:
        return row, 0, (Verbatim("an empty order"), "at least one alternative")
    return row, int(match[1]), None


def preflib_text(content: RankSet, name: str, kind: str) -> str:
    """Rankings as the text of a PrefLib file.

    >>> print(preflib_text(RankSet(np.array([[1, 0, 1]]), np.array([4]), ("a", "b", "c")), "x.toc", "toc")[-12:])
    <BLANKLINE>
    4: 2,{1,3}
    <BLANKLINE>
    """
    complete = bool((content.ranks >= 0).all())
    strict = bool((content.ranks.max(axis=1) + 1 == (content.ranks >= 0).sum(axis=1)).all())
    if (kind.endswith("c") and not complete) or (kind.startswith("s") and not strict):
        raise BadInput("path", got=name, want=f"rankings that are {KINDS[kind]} for a .{kind} file, or .toi")
    broken = next((item for item in content.items if item != item.strip() or "\n" in item or "\r" in item), None)
    if broken is not None:
        raise BadInput("items", got=broken, want="names without line breaks or outer spaces in a PrefLib file")
    lines = [f"# FILE NAME: {name}", f"# DATA TYPE: {kind}", f"# NUMBER ALTERNATIVES: {len(content.items)}"]
    lines.append(f"# NUMBER VOTERS: {int(content.counts.sum())}")
    lines.append(f"# NUMBER UNIQUE ORDERS: {len(content.ranks)}")
    lines += [f"# ALTERNATIVE NAME {position}: {item}" for position, item in enumerate(content.items, start=1)]
    for row, count in zip(content.ranks, content.counts.tolist(), strict=True):
        places: dict[int, list[str]] = {}
        for position, rank in enumerate(row.tolist(), start=1):
            if rank >= 0:
                places.setdefault(rank, []).append(str(position))
        groups = [places[rank] for rank in sorted(places)]
        shown = [group[0] if len(group) == 1 else "{" + ",".join(group) + "}" for group in groups]
        lines.append(f"{count}: {','.join(shown)}")
    return "\n".join(lines) + "\n"
