"""Files to columns: which format a file is in, by its content first and its suffix second, and the reader of each format."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from peerveil.core.errors import BadInput, Verbatim
from peerveil.data.readers import easychair, hotcrp, mediawiki, openreview
from peerveil.data.readers.files import InputFile, Raw, Wish, first_records
from peerveil.data.readers.preflib import read_preflib, stream_preflib
from peerveil.data.readers.ranklayouts import people_columns, place_columns
from peerveil.data.readers.ranktables import read_rank_table
from peerveil.data.readers.tabular import (
    TABULAR,
    column_names,
    plain_name,
    read_tabular,
    separator_of,
    suggest_columns,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from peerveil.data.orders import RankSet
    from peerveil.data.problems import BadTable
    from peerveil.data.table import Table

EVERY = ("Reviews", "Events", "Rankings", "Labels")
# format -> (what it can become, in words)
FORMATS: dict[str, tuple[tuple[str, ...], str]] = {
    "csv": (EVERY, "CSV with a header"),
    "tsv": (EVERY, "tab-separated text with a header"),
    "jsonl": (EVERY, "JSON lines, an object a line"),
    "parquet": (EVERY, "Parquet"),
    "openreview": (("Reviews", "Events"), "OpenReview notes (API 1 or 2) as JSON or JSON lines"),
    "hotcrp": (("Reviews", "Events"), "HotCRP's review CSV, or batch/reviewcsv.php -c -x"),
    "easychair": (("Reviews", "Events"), "EasyChair's review.csv"),
    "preflib": (("Rankings",), "PrefLib .soc .soi .toc .toi"),
    "mediawiki": (("Events",), "MediaWiki recent changes as JSON"),
}
_COLUMNS = {
    "Reviews": {"paper", "score"},
    "Events": {"actor", "thread", "time"},
    "Labels": {"task", "worker", "label"},
    "Rankings": {"ranking", "item", "rank"},
}

_FURTHER = {"Reviews": ("reviewer", "time"), "Events": ("reply_to", "id"), "Labels": ("truth",), "Rankings": ("count",)}


class Recognized(NamedTuple):
    """What a file is: the format, what it can be read as, and how that was seen."""

    format: str
    kinds: tuple[str, ...]
    why: str


def recognize(path: str | os.PathLike[str]) -> Recognized:
    """Tell a file's format from its content and its suffix.

    ``kinds`` names the tables whose columns are there; for a plain table none of whose columns fit, it names all
    four, since ``columns=`` can say what is what.
    """
    return recognize_file(InputFile.open(path))


def recognize_file(file: InputFile) -> Recognized:
    """The same for a file that is already open."""
    head = file.head
    if head[:4] == b"PAR1" or file.suffix == ".parquet":
        return _table(file, "parquet", "it begins with PAR1" if head[:4] == b"PAR1" else "its suffix")
    if head[:4] == b"PK\x03\x04":
        raise file.refusal(
            Verbatim("a zip archive, such as an Excel workbook"),
            "a table: in your spreadsheet program, choose Save as, CSV",
        )
    if file.suffix in (".soc", ".soi", ".toc", ".toi"):
        return Recognized("preflib", FORMATS["preflib"][0], f"its suffix is {file.suffix}")
    text = file.head_text()
    start = text.lstrip()
    if not start:
        raise file.refusal(Verbatim("only blank lines"), "at least one row")
    if re.match(r"#\s*(FILE NAME|TITLE|DATA TYPE|NUMBER ALTERNATIVES)\s*:", start):
        return Recognized("preflib", FORMATS["preflib"][0], "it begins with PrefLib's '# KEY: value' lines")
    if start[0] in "{[":
        return _json(file, start)
    return _text(file)


def _json(file: InputFile, start: str) -> Recognized:
    keys = set(re.findall(r'"(\w+)"\s*:', start))
    if "recentchanges" in keys or {"timestamp", "title", "user"} <= keys:
        return Recognized("mediawiki", FORMATS["mediawiki"][0], "it has MediaWiki's title, user and timestamp")
    if "forum" in keys and keys & {"content", "signatures", "invitation", "invitations"}:
        version = "API 2" if "invitations" in keys else "API 1"
        return Recognized("openreview", FORMATS["openreview"][0], f"it has the keys of OpenReview notes, {version}")
    if start[0] == "{" and (file.suffix in (".jsonl", ".ndjson") or _is_line(start)):
        return _table(file, "jsonl", "every line is a JSON object")
    raise _unknown(file, "JSON that is neither notes, recent changes nor one object a line")


def _first_keys(file: InputFile) -> list[str]:
    """The keys of the first line; a line that cannot be read is for the reader to name."""
    line = file.head_text().lstrip().split("\n", 1)[0]
    return list(json.loads(line)) if _is_line(line) else []


def _is_line(start: str) -> bool:
    try:
        return isinstance(json.loads(start.split("\n", 1)[0]), dict)
    except (ValueError, RecursionError):
        return False


def _text(file: InputFile) -> Recognized:
    format_ = "tsv" if file.suffix in (".tsv", ".tab") else "csv"
    separator = separator_of(file, format_)
    records = first_records(file.head_text(), separator, 1)
    names = records[0][1] if records else []
    header = set(names)
    if {name.strip().lower() for name in names} >= easychair.HEADER:
        return Recognized("easychair", FORMATS["easychair"][0], "it has the columns submission # and member #")
    if header >= hotcrp.LONG:
        return Recognized("hotcrp", ("Reviews", "Events"), "it has the columns of batch/reviewcsv.php -c -x")
    if header >= hotcrp.WEB and hotcrp.is_web(names):
        return Recognized("hotcrp", ("Reviews",), "it has the columns of HotCRP's review CSV")
    if file.suffix in (".csv", ".tsv", ".tab", ".txt"):
        return _table(file, format_, f"its suffix is {file.suffix}")
    if len(names) > 1:
        return _table(file, "tsv" if separator == "\t" else "csv", "its first line looks like a header")
    raise _unknown(file, "text that is not a table")


def _table(file: InputFile, format_: str, why: str) -> Recognized:
    ordered = _first_keys(file) if format_ == "jsonl" else column_names(file, format_)
    names = {plain_name(name) for name in ordered}
    fitting = tuple(kind for kind in EVERY if _COLUMNS[kind] <= names)
    if not fitting:
        rest = [name for name in ordered if name not in ("count", *people_columns(ordered))]
        fitting = ("Rankings",) if place_columns(rest) else ()
    return Recognized(format_, fitting or EVERY, why)


def nearest(path: str | os.PathLike[str]) -> tuple[str, dict[str, str]] | None:
    """The kind of table that a plain table is most like, and what its columns are probably called there.

    ``None`` where fewer than two columns of any kind can be guessed. A person should check it.
    """
    file = InputFile.open(path)
    format_ = recognize_file(file).format
    if format_ not in TABULAR:
        return None
    names = sorted(_first_keys(file)) if format_ == "jsonl" else column_names(file, format_)
    best: tuple[float, str, dict[str, str]] | None = None
    for kind in EVERY:
        required = sorted(_COLUMNS[kind])
        found = suggest_columns(names, required, _FURTHER[kind], {})
        share = sum(ours in found for ours in required) / len(required)
        share += sum(0.1 for ours, theirs in found.items() if plain_name(theirs) == ours)
        if sum(ours in found for ours in required) >= 2 and (best is None or share > best[0]):
            best = share, kind, found
    return None if best is None else best[1:]


def _unknown(file: InputFile, got: str) -> BadTable:
    accepted = "; ".join(f"{name}: {words}" for name, (_, words) in FORMATS.items())
    return file.refusal(Verbatim(got), f"one of the formats {accepted}")


# ---- reading -----------------------------------------------------------------------------------------------------

_PLATFORMS: dict[tuple[str, str], Callable[[InputFile, Wish], Raw]] = {
    ("openreview", "Reviews"): openreview.read_reviews,
    ("openreview", "Events"): openreview.read_events,
    ("hotcrp", "Reviews"): hotcrp.read_reviews,
    ("hotcrp", "Events"): hotcrp.read_events,
    ("easychair", "Reviews"): easychair.read_reviews,
    ("easychair", "Events"): easychair.read_events,
    ("mediawiki", "Events"): mediawiki.read_events,
}


def read_raw(kind: type[Table], path: str | os.PathLike[str], format: str | None, wish: Wish) -> Raw:  # noqa: A002
    """The columns of a file for one kind of table, not yet checked."""
    file = InputFile.open(path)
    chosen = _format(file, format, kind.__name__)
    if chosen in TABULAR:
        return read_tabular(
            file,
            chosen,
            wish,
            table=kind.__name__,
            required=kind._required,
            optional=kind._optional,
            kinds=kind._kinds,
        )
    reader = _PLATFORMS[chosen, kind.__name__]
    _known_options(kind, wish)
    return reader(file, wish)


def _known_options(kind: type[Table], wish: Wish) -> None:
    unknown = [name for name in wish.columns if name not in ("score", "time")]
    if unknown:
        want = f"names for score or time only: the platform's export fixes the rest of {kind.__name__}"
        raise BadInput("columns", got=Verbatim(f"a name for {unknown[0]!r}"), want=want)


def read_rankings(path: str | os.PathLike[str], format: str | None, wish: Wish) -> tuple[RankSet, tuple[str, ...]]:  # noqa: A002
    """Ranks, counts and items of a file."""
    file = InputFile.open(path)
    chosen = _format(file, format, "Rankings")
    if chosen in TABULAR:
        return read_rank_table(file, chosen, wish)
    if wish.layout is not None:
        raise BadInput("layout", got=wish.layout, want="nothing for PrefLib, which says what is what")
    return read_preflib(file), ()


def stream_rankings(path: str | os.PathLike[str], rows: int) -> Iterator[RankSet]:
    """A PrefLib file in pieces."""
    file = InputFile.open(path)
    if _format(file, None, "Rankings") != "preflib":
        raise file.refusal(Verbatim("a file that is not PrefLib"), "a .soc, .soi, .toc or .toi file")
    return stream_preflib(file, rows)


def _format(file: InputFile, format: str | None, kind: str) -> str:  # noqa: A002
    """The format that was asked for, or the one that is recognized; refuses what cannot become ``kind``."""
    able = [name for name, (kinds, _) in FORMATS.items() if kind in kinds]
    if format is None:
        found = recognize_file(file)
        if kind not in found.kinds and found.format not in able:
            got = Verbatim(f"{found.format} ({found.why})")
            raise file.refusal(got, f"a file that holds {kind}: {', '.join(able)}")
        return found.format
    if format not in able:
        raise BadInput("format", got=format, want=f"one of {', '.join(able)} for {kind}, or None to recognize it")
    return format
