"""PrefLib files: ``.soc .soi .toc .toi``, orders with multiplicities.

A header of ``# KEY: value`` lines, then ``count: 7,4,5``, best first, ties as ``{1,2}``. The body is parsed in blocks of
lines with Polars; only lines that break a rule are gone through one by one, to say which rule.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from peerveil.core.arrays import Ints
from peerveil.core.errors import BadInput, Verbatim, show
from peerveil.data.orders import Ranks, RankSet, rank_type, tied_rows
from peerveil.data.problems import MOST_REPORTED, BadTable, Problem

if TYPE_CHECKING:
    from peerveil.data.readers.files import InputFile

KINDS = {"soc": "complete orders without ties", "soi": "orders without ties", "toc": "complete orders", "toi": "orders"}
_ALTERNATIVES, _ORDERS, _VOTERS = "NUMBER ALTERNATIVES", "NUMBER UNIQUE ORDERS", "NUMBER VOTERS"
_BLOCK_BYTES = 4_000_000
_ENTRY = r"(?:[0-9]{1,15}|\{[0-9]{1,15}(?:,[0-9]{1,15})*\})"
_LINE = rf"^[0-9]{{1,15}}:{_ENTRY}(?:,{_ENTRY})*$"
_WHOLE = re.compile("[0-9]{1,15}")
_OPEN, _CLOSE, _NEWLINE = b"{}\n"
_ZERO = np.uint8(ord("0"))


@dataclass(frozen=True)
class Header:
    """What the ``#`` lines say."""

    kind: str
    items: tuple[str, ...]
    numbers: dict[str, int]
    lines: int
    size: int


def read_preflib(file: InputFile) -> RankSet:
    """The whole file."""
    header = read_header(file)
    blocks = list(_blocks(file, header))
    if not blocks:
        raise file.refusal("a header and no orders", "at least one order")
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
    every = (line for block in file.lines(_BLOCK_BYTES) for line in block.splitlines(keepends=True))
    for line in itertools.takewhile(lambda line: line.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"", b"#"), every):
        lines, size = lines + 1, size + len(line)
        try:
            text = line.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = line.decode("latin-1")
        key, _, value = text.strip().lstrip("#").partition(":")
        values[key.strip().upper()] = value.strip()
    kind = values.get("DATA TYPE", file.suffix.lstrip(".")).lower()
    if kind not in KINDS:
        raise file.refusal(show(kind or file.name), f"a data type among {', '.join(KINDS)}")
    numbers: dict[str, int] = {}
    for key in {_ALTERNATIVES, _ORDERS, _VOTERS} & values.keys():
        if not _WHOLE.fullmatch(values[key]):
            raise file.refusal(show(values[key]), f"a whole number after '# {key}:'")
        numbers[key] = int(values[key])
    number = numbers.get(_ALTERNATIVES)
    if number is None:
        want = "'# NUMBER ALTERNATIVES: ...' in the header (files of the old layout: download them again)"
        raise file.refusal("no number of alternatives", want, line=1)
    if not 1 <= number <= 10_000_000:
        raise file.refusal(f"{number}", "a number of alternatives of at least 1")
    positions = tuple(map(str, range(1, number + 1)))
    names = tuple(values.get(f"ALTERNATIVE NAME {position}", "") for position in positions)
    usable = len(set(names)) == number and all(names) and "count" not in names
    return Header(kind, names if usable else positions, numbers, lines, size)


def _blocks(file: InputFile, header: Header) -> Iterator[tuple[Ranks, Ints]]:
    """Ranks and counts, block by block; checks the header's totals at the end."""
    line, totals = header.lines, {_ORDERS: 0, _VOTERS: 0}
    for body in file.lines(max(_BLOCK_BYTES, 4 * len(header.items)), header.size):
        ranks, counts = _parse(file, body, header, line)
        line += body.count(b"\n") + (not body.endswith(b"\n"))
        totals[_ORDERS] += len(ranks)
        totals[_VOTERS] += int(counts.sum())
        if len(ranks):
            yield ranks, counts
    for key, number in totals.items():
        if header.numbers.get(key, number) != number:
            want = f"{header.numbers[key]:,}, as '# {key}' says (cut short?)"
            raise file.refusal(f"{number:,} in the file", want)


def _parse(file: InputFile, body: bytes, header: Header, before: int) -> tuple[Ranks, Ints]:
    """The orders in a block of lines, all at once; ``before`` is how many lines come before it."""
    text = body.translate(None, b" \t\r").decode("utf-8", errors="replace")
    lines = pl.Series([text]).str.split("\n").explode()
    numbers = (lines != "").arg_true()
    fits = lines.gather(numbers).str.contains(_LINE)
    orders = "".join((lines.gather(numbers.filter(fits)) + "\n").str.join()).encode()
    data = np.frombuffer(orders, dtype=np.uint8)
    opened = np.zeros(0, dtype=np.int8)
    if b"{" in orders:
        opened = np.cumsum((data == _OPEN).astype(np.int8) - (data == _CLOSE), dtype=np.int8)
        digits_and_marks = (data != _OPEN) & (data != _CLOSE)
        data, opened = data[digits_and_marks], opened[digits_and_marks]
    marks = np.flatnonzero((data - _ZERO) >= 10)
    first = np.append(True, data[marks[:-1]] == _NEWLINE)[: len(marks)]
    values = _numbers(data, marks)
    line = np.cumsum(first) - 1
    counts, listed, width = values[first], np.bincount(line) - 1, len(header.items)
    bad = (counts < 1) | (header.kind.endswith("c") and listed < width)
    place = np.arange(len(values))
    if len(opened):  # what stands after a mark within braces shares the place of what stands before it
        shared = np.append(False, opened[marks[:-1]] > 0)
        place = np.cumsum(~shared)
        bad[line[shared]] |= header.kind.startswith("s")
    known = ~first & (values >= 1) & (values <= width)
    ranks = np.full((len(counts), width), -1, dtype=rank_type(width))
    ranks.reshape(-1)[(line * width + values - 1)[known]] = (place - place[first][line] - 1)[known]
    if np.count_nonzero(ranks >= 0) < listed.sum():  # an item stands twice, or is none
        bad |= (ranks >= 0).sum(axis=1) < listed
    wrong = sorted([*numbers.filter(~fits), *numbers.filter(fits).filter(pl.Series(bad, dtype=pl.Boolean))])
    if wrong:
        written = body.decode("utf-8", errors="replace").split("\n")
        problems = [
            Problem(file.name, *_fault(written[number], header), line=before + number + 1)
            for number in wrong[:MOST_REPORTED]
        ]
        raise BadTable(problems, len(wrong))
    return ranks, counts


def _numbers(data: np.ndarray[Any, np.dtype[np.uint8]], marks: Ints) -> Ints:
    """The numbers that end just before each mark."""
    lengths = np.diff(marks, prepend=-1) - 1
    values: Ints = (data[marks - 1] - _ZERO).astype(np.int64)
    for place in range(1, int(lengths.max(initial=0))):
        has = np.flatnonzero(lengths > place)
        values[has] += (data[marks[has] - 1 - place] - _ZERO).astype(np.int64) * 10**place
    return values


def _fault(line: str, header: Header) -> tuple[object, str]:
    """What a bad line holds, and what would be right."""
    width = len(header.items)
    count, _, body = re.sub(r"[ \t\r]", "", line).partition(":")
    entries = re.findall(r"\{[^{}]*\}|[^,{}]+", body)
    if not _WHOLE.fullmatch(count) or int(count) < 1 or not entries or ",".join(entries) != body:
        return line.strip(), "a line such as '12: 3,1,2'"
    names = [name for entry in entries for name in entry.strip("{}").split(",")]
    for position, name in enumerate(names):
        if not _WHOLE.fullmatch(name) or not 1 <= int(name) <= width:
            return name, f"an alternative from 1 to {width}"
        if int(name) in map(int, names[:position]):
            return Verbatim(f"alternative {name} twice"), "every alternative at most once"
    got = f"{len(names)} of {width} alternatives" if header.kind.endswith("c") and len(names) < width else "a tie"
    return Verbatim(got), f"{KINDS[header.kind]}, as the type .{header.kind} says"


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
        ranked = sorted((rank, position) for position, rank in enumerate(row.tolist(), start=1) if rank >= 0)
        groups = [[str(position) for _, position in tied] for _, tied in itertools.groupby(ranked, key=itemgetter(0))]
        shown = [group[0] if len(group) == 1 else "{" + ",".join(group) + "}" for group in groups]
        lines.append(f"{count}: {','.join(shown)}")
    return "\n".join(lines) + "\n"
