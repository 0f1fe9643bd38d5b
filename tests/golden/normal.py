"""Turn outputs into short text that is the same on every machine, and compare two such texts.

Numbers are written with ten significant digits and compared with a small tolerance, long lists are summarized, figures are
reduced to their labels and the extent of their lines, pages to their structure and text. Paths, the current time and the
version are replaced.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

import peerveil
from peerveil.judgements.table import Table
from peerveil.result import plain

LONGEST_LIST: Final = 10
LONGEST_TEXT: Final = 20_000
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d| UTC)?)?")
_TAGS: Final = {
    "h1",
    "h2",
    "h3",
    "table",
    "tr",
    "p",
    "ul",
    "ol",
    "li",
    "details",
    "summary",
    "form",
    "section",
    "figure",
}


def describe(value: Any, root: Path | None = None) -> str:
    """A value as lines of text."""
    return clean("\n".join(_lines(_reduced(value))), root)


def clean(text: str, root: Path | None = None) -> str:
    """Without paths, the current time, the version, and the lines and widths of tables."""
    if root is not None:
        text = text.replace(str(root.resolve()), "<folder>").replace(str(root), "<folder>")
    now = datetime.now(UTC)
    near = {f"{now + timedelta(days=days):%Y-%m-%d}" for days in (-1, 0, 1)}
    text = _MOMENT.sub(lambda found: "<now>" if found[0][:10] in near else found[0], text)
    text = re.sub(rf"\b{re.escape(peerveil.__version__)}\b", "<version>", text)
    if "/bin/peerveil" in text:  # the search below takes long in long words
        text = re.sub(r"[^\s'\"]*/bin/peerveil\b", "peerveil", text)
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    lines = (line.rstrip() for line in text.splitlines() if not re.fullmatch(r"[\s\u2500-\u257f]+", line))
    return "\n".join(re.sub(r"(?<=\S) {2,}", " ", line) for line in lines)  # tables are as wide as what is in them


def _reduced(value: Any) -> Any:
    """A value as dictionaries, lists, strings and numbers; objects say their type."""
    kind = type(value).__name__
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Fraction():
            return str(value)
        case np.generic():
            return value.item() if value.dtype.kind in "biuf" else str(value)
        case pl.DataFrame():
            return {"rows": value.height, **{name: value[name].to_list() for name in value.columns}}
        case pl.Series():
            return _reduced(value.to_list())
        case Mapping():
            return {str(key): _reduced(item) for key, item in value.items()}
        case np.ndarray() if value.ndim > 1:
            return {"shape": list(value.shape), "values": _reduced(value.ravel())}
        case np.ndarray() | list() | tuple():
            return [_reduced(item) for item in value]
        case set() | frozenset():
            return sorted((_reduced(item) for item in value), key=repr)
        case BaseException():
            return f"{kind}: {value}"
        case Table():
            return {f"<{kind}>": str(value), **_reduced(value.frame)}
        case _ if hasattr(value, "to_dict"):
            return {f"<{kind}>": str(value), **_reduced(value.to_dict())}
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = [field.name for field in dataclasses.fields(value) if not field.name.startswith("_")]
            return {f"<{kind}>": "", **{name: _reduced(getattr(value, name)) for name in fields}}
    return {f"<{kind}>": str(plain(value))}


def _lines(value: Any, indent: str = "") -> Iterator[str]:
    """A reduced value, one key a line; lists of scalars on one line."""
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, (dict, list)) and not _flat(item):
                yield f"{indent}{key}:"
                yield from _lines(item, indent + " ")
            else:
                yield f"{indent}{key}: {_scalar(item)}"
    elif isinstance(value, list) and not _flat(value):
        shown = value if len(value) <= LONGEST_LIST else value[:2]
        for item in shown:
            if _flat(item):
                yield f"{indent}- {_scalar(item)}"
            else:
                yield f"{indent}-"
                yield from _lines(item, indent + "  ")
        if len(shown) < len(value):
            yield f"{indent}... {_summary(value)}"
    else:
        yield f"{indent}{_scalar(value)}"


def _flat(value: Any) -> bool:
    return not isinstance(value, dict) and not (
        isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value)
    )


def _scalar(value: Any) -> str:
    if isinstance(value, list):
        if len(value) <= LONGEST_LIST:
            return f"[{', '.join(_scalar(item) for item in value)}]"
        return f"[{', '.join(_scalar(item) for item in value[:3])}, ... {_summary(value)}]"
    if isinstance(value, float) and not isinstance(value, bool):
        return number(value)
    return str(value)


def number(value: float) -> str:
    """Ten significant digits; what is nothing but rounding error is 0."""
    return "0" if abs(value) < 1e-13 else f"{value:.10g}"


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _summary(value: list[Any]) -> str:
    """How many, and something that changes if any of them changes or moves."""
    leaves = list(_leaves(value))
    numbers = [leaf for leaf in leaves if isinstance(leaf, float) and math.isfinite(leaf)]
    words = "|".join(str(leaf) for leaf in leaves if not isinstance(leaf, float))
    said = [f"{len(value)} in all"]
    if numbers:
        said.append(f"sum {number(math.fsum(numbers))}")
        said.append(f"weighted {number(math.fsum(x * math.cos(i) for i, x in enumerate(numbers)))}")
    if words:
        said.append(f"others {zlib.crc32(clean(words).encode()):08x}")
    return ", ".join(said)


# ---- files --------------------------------------------------------------------------------------------------------


def describe_file(path: Path, root: Path) -> str:
    """What is in a file; of databases, keys and backups only that they exist."""
    match path.suffix:
        case ".json":
            return describe(json.loads(path.read_text(encoding="utf-8")), root)
        case ".jsonl":
            rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            return describe(rows, root)
        case ".csv" | ".tsv":
            rows = list(
                csv.reader(StringIO(path.read_text(encoding="utf-8")), delimiter="," if path.suffix == ".csv" else "\t")
            )
            return describe({name: [_typed(cell) for cell in cells] for name, *cells in zip(*rows, strict=True)}, root)
        case ".parquet":
            return describe(pl.read_parquet(path), root)
        case ".svg":
            return clean(describe_svg(path.read_text(encoding="utf-8")), root)
        case ".html":
            return clean(describe_page(path.read_text(encoding="utf-8")), root)
        case ".toml" | ".txt":
            return clean(path.read_text(encoding="utf-8"), root)
    return "(not compared)"


def _typed(cell: str) -> Any:
    if re.fullmatch(r"-?\d+", cell):
        return int(cell)
    return float(cell) if _NUMBER.fullmatch(cell) else cell


def describe_svg(text: str) -> str:
    """The labels of a figure, how many elements of each kind it has, and the extent of its lines."""
    labels = [
        " ".join(re.sub(r"<[^>]*>", " ", found).split())
        for found in re.findall(r"<text[^>]*>(.*?)</text>", text, re.DOTALL)
    ]
    alt = re.findall(r'aria-label="([^"]*)"', text)
    kinds = Counter(re.findall(r"<(path|use|circle|rect|image|text)\b", text))
    extent = math.fsum(abs(float(found)) for d in re.findall(r'\bd="([^"]*)"', text) for found in _NUMBER.findall(d))
    counts = " ".join(f"{kind} {kinds[kind]}" for kind in sorted(kinds))
    return "\n".join(["figure: " + " ".join(alt), f" labels: {' | '.join(labels)}", f" {counts}, extent {extent:.3g}"])


class _Reader(HTMLParser):
    """The text of a page, a line for each block, without styles and scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.skipped = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("style", "script"):
            self.skipped += 1
        elif tag in _TAGS:
            self.lines.append(f"<{tag}>")
        elif tag in ("td", "th"):
            self.lines.append("|")
        elif tag in ("input", "select", "button", "a"):
            kept = " ".join(
                f"{key}={value}" for key, value in attrs if key in ("name", "type", "value", "href", "action")
            )
            self.lines.append(f"<{tag} {kept}>")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("style", "script"):
            self.skipped -= 1

    def handle_data(self, data: str) -> None:
        if not self.skipped and data.strip():
            self.lines.append(" ".join(data.split()))


def describe_page(text: str) -> str:
    """The structure and the text of a page; figures as :func:`describe_svg` does."""
    figures = re.findall(r"<svg\b.*?</svg>", text, re.DOTALL)
    reader = _Reader()
    reader.feed(re.sub(r"<svg\b.*?</svg>", "<p>(figure)", text, flags=re.DOTALL))
    joined = re.sub(r"\s*\n(?!<(?:h\d|p|tr|li|summary|form)>)", " ", "\n".join(reader.lines))
    return "\n".join([joined, *(describe_svg(figure) for figure in figures)])


# ---- comparing ----------------------------------------------------------------------------------------------------


def same(a: str, b: str) -> bool:
    """Whether two texts say the same: words and whole numbers exactly, other numbers up to rounding error."""
    if a == b:
        return True
    if _NUMBER.sub("#", a) != _NUMBER.sub("#", b):
        return False
    return all(_close(x, y) for x, y in zip(_NUMBER.findall(a), _NUMBER.findall(b), strict=True))


def _close(x: str, y: str) -> bool:
    if x == y:
        return True
    if not ({"."} & set(x + y)) and "e" not in x + y:
        return False
    return math.isclose(float(x), float(y), rel_tol=1e-6, abs_tol=1e-9)
