"""Which format a file is in, by its content first and its suffix second."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from operator import itemgetter
from typing import Final, NamedTuple

from peerveil.core.errors import BadInput
from peerveil.data.readers.easychair import EASYCHAIR, easychair_events, easychair_reviews
from peerveil.data.readers.files import InputFile, first_records
from peerveil.data.readers.hotcrp import HOTCRP_LONG, HOTCRP_WEB, hotcrp_events, hotcrp_reviews, is_hotcrp_web
from peerveil.data.readers.mediawiki import mediawiki_events
from peerveil.data.readers.mturk import MTURK, mturk_labels
from peerveil.data.readers.openreview import openreview_events, openreview_reviews
from peerveil.data.readers.rank_tables import people_columns, place_columns
from peerveil.data.readers.tabular import TABULAR, column_names, first_object, separator_of
from peerveil.data.readers.toloka import TOLOKA, toloka_labels
from peerveil.data.schema import SCHEMAS, RawTable, ReadOptions, match_columns, plain_name, suggest_columns

EVERY: Final = tuple(SCHEMAS)
READERS: Final[dict[str, dict[str, Callable[[InputFile, ReadOptions], RawTable]]]] = {
    "openreview": {"Reviews": openreview_reviews, "Events": openreview_events},
    "hotcrp": {"Reviews": hotcrp_reviews, "Events": hotcrp_events},
    "easychair": {"Reviews": easychair_reviews, "Events": easychair_events},
    "mediawiki": {"Events": mediawiki_events},
    "mturk": {"Labels": mturk_labels},
    "toloka": {"Labels": toloka_labels},
}
CHOOSABLE: Final = {"Labels": ("label", "task", "truth")}
"""What ``columns=`` may name in a platform's export, by kind of table; for all others score and time."""
PREFLIB_SUFFIXES: Final = (".soc", ".soi", ".toc", ".toi")


class Format(NamedTuple):
    """A format in words, and the tables that it can be read as."""

    words: str
    kinds: tuple[str, ...] = EVERY


FORMATS: Final = {
    "csv": Format("CSV with a header"),
    "tsv": Format("tab-separated text with a header"),
    "jsonl": Format("JSON lines, one object per line"),
    "parquet": Format("Parquet"),
    "openreview": Format("OpenReview notes (API 1 or 2) as JSON or JSON lines", tuple(READERS["openreview"])),
    "hotcrp": Format("HotCRP's review CSV, or batch/reviewcsv.php -c -x", tuple(READERS["hotcrp"])),
    "easychair": Format("EasyChair's review.csv", tuple(READERS["easychair"])),
    "preflib": Format("PrefLib .soc .soi .toc .toi", ("Rankings",)),
    "mediawiki": Format("MediaWiki recent changes as JSON", tuple(READERS["mediawiki"])),
    "mturk": Format("MTurk's batch results as CSV", tuple(READERS["mturk"])),
    "toloka": Format("Toloka's assignments as TSV", tuple(READERS["toloka"])),
}
_ACCEPTED: Final = "one of the formats " + "; ".join(f"{name}: {entry.words}" for name, entry in FORMATS.items())


class Recognized(NamedTuple):
    """The format of a file, the tables that it can be read as, and how that was recognized."""

    format: str
    kinds: tuple[str, ...]
    why: str


def recognize(path: str | os.PathLike[str], *, header: bool = True, separator: str | None = None) -> Recognized:
    """Detect a file's format from its content and its suffix.

    ``header=False`` says that CSV or TSV has no line of names, and ``separator`` what stands between its cells.

    ``kinds`` names the tables whose columns are there; for a plain table none of whose columns fit, it names all
    four, since ``columns=`` can name the columns.
    """
    return recognize_file(InputFile.open(path, header=header, separator=separator))


def recognize_file(file: InputFile) -> Recognized:
    """The same for a file that is already open."""
    head = file.head
    if head[:4] == b"PAR1" or file.suffix == ".parquet":
        return _table(file, "parquet", "it begins with PAR1" if head[:4] == b"PAR1" else "its suffix")
    if head[:4] == b"PK\x03\x04":
        want = "a table: in your spreadsheet program, choose Save as, CSV"
        raise file.refusal("a zip archive, such as an Excel workbook", want)
    if file.suffix in PREFLIB_SUFFIXES:
        return _platform("preflib", f"its suffix is {file.suffix}")
    start = file.head_text().lstrip()
    if not start:
        raise file.refusal("only blank lines", "at least one row")
    if re.match(r"#\s*(FILE NAME|TITLE|DATA TYPE|NUMBER ALTERNATIVES)\s*:", start):
        return _platform("preflib", "it begins with PrefLib's '# KEY: value' lines")
    return _json(file, start) if start[0] in "{[" else _text(file)


def _platform(format_: str, why: str) -> Recognized:
    return Recognized(format_, FORMATS[format_].kinds, why)


def _json(file: InputFile, start: str) -> Recognized:
    keys = set(re.findall(r'"(\w+)"\s*:', start))
    if "recentchanges" in keys or {"timestamp", "title", "user"} <= keys:
        return _platform("mediawiki", "it has MediaWiki's title, user and timestamp")
    if "forum" in keys and keys & {"content", "signatures", "invitation", "invitations"}:
        version = "API 2" if "invitations" in keys else "API 1"
        return _platform("openreview", f"it has the keys of OpenReview notes, {version}")
    if start[0] == "{" and (file.suffix in (".jsonl", ".ndjson") or first_object(file) is not None):
        return _table(file, "jsonl", "every line is a JSON object")
    raise file.refusal("JSON that is neither notes, recent changes nor one object per line", _ACCEPTED)


def _text(file: InputFile) -> Recognized:
    format_ = "tsv" if file.suffix in (".tsv", ".tab") else "csv"
    separator = separator_of(file, format_)
    records = first_records(file.head_text(), separator, 1)
    names = records[0][1] if records else []
    if not file.header:
        return Recognized(format_, EVERY, "it was said to have no header")
    if {name.strip().lower() for name in names}.issuperset(EASYCHAIR):
        return _platform("easychair", "it has the columns submission # and member #")
    if set(names).issuperset(HOTCRP_LONG):
        return _platform("hotcrp", "it has the columns of batch/reviewcsv.php -c -x")
    if set(names) >= HOTCRP_WEB and is_hotcrp_web(names):
        return Recognized("hotcrp", ("Reviews",), "it has the columns of HotCRP's review CSV")
    if set(names).issuperset(MTURK):
        return _platform("mturk", "it has the columns HITId, AssignmentId and WorkerId")
    if set(names).issuperset(TOLOKA):
        return _platform("toloka", "it has the column ASSIGNMENT:worker_id")
    if file.suffix in (".csv", ".tsv", ".tab", ".txt"):
        return _table(file, format_, f"its suffix is {file.suffix}")
    if len(names) > 1:
        return _table(file, "tsv" if separator == "\t" else "csv", "its first line looks like a header")
    raise file.refusal("text that is not a table", _ACCEPTED)


def _table(file: InputFile, format_: str, why: str) -> Recognized:
    ordered = column_names(file, format_)
    names = {plain_name(name) for name in ordered}
    fitting = tuple(kind for kind, schema in SCHEMAS.items() if names.issuperset(schema.required))
    if not fitting:
        matches = {kind: match_columns(schema, ordered, {}) for kind, schema in SCHEMAS.items()}
        fitting = tuple(kind for kind, match in matches.items() if match.keys() >= set(SCHEMAS[kind].required))
    if not fitting:
        rest = [name for name in ordered if name not in ("count", *people_columns(ordered))]
        fitting = ("Rankings",) if place_columns(rest) else EVERY
    return Recognized(format_, fitting, why)


def nearest(path: str | os.PathLike[str]) -> tuple[str, dict[str, str]] | None:
    """The kind of table that a plain table is most like, and what its columns are probably called there.

    ``None`` where fewer than two columns of any kind can be guessed. A person should check it.
    """
    file = InputFile.open(path)
    recognized = recognize_file(file)
    if recognized.format not in TABULAR:
        return None
    names = column_names(file, recognized.format)
    guesses: list[tuple[float, str, dict[str, str]]] = []
    for kind, schema in ((kind, SCHEMAS[kind]) for kind in recognized.kinds):
        guess = suggest_columns(schema, names, {})
        required = sum(ours in guess for ours in schema.required)
        exact = sum(plain_name(theirs) == ours for ours, theirs in guess.items())
        if required >= 2:
            guesses.append((required / len(schema.required) + exact / 10, kind, guess))
    return max(guesses, key=itemgetter(0))[1:] if guesses else None


def chosen_format(file: InputFile, format_: str | None, kind: str) -> str:
    """The format that the caller names, or the one that is recognized; refuses what cannot become ``kind``."""
    able = [name for name, entry in FORMATS.items() if kind in entry.kinds]
    if format_ is None:
        recognized = recognize_file(file)
        if recognized.format not in able:
            want = f"a file that holds {kind}: {', '.join(able)}"
            raise file.refusal(f"{recognized.format} ({recognized.why})", want)
        return recognized.format
    if format_ not in able:
        raise BadInput("format", got=format_, want=f"one of {', '.join(able)} for {kind}, or None to recognize it")
    return format_
