"""Plain tables: CSV, TSV, JSON lines and Parquet.

The good path is one call of Polars with every type given in advance. Only when Polars refuses the file is it read
a second time as text, so that the cell at fault can be named.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.data.columns import PLAIN_INTEGER
from peerveil.data.problems import BadTable, Problem, Source, Suggestion
from peerveil.data.readers.files import InputFile, Raw, Wish, csv_rows, first_records

Locator = Callable[[int], tuple[int, int | None]]
TABULAR = ("csv", "tsv", "jsonl", "parquet")
_SAMPLE = 1_000
_INTEGER = re.compile(PLAIN_INTEGER)
_NUMBER = re.compile(r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$")
# what the columns are called elsewhere: only ever suggested, never taken silently
_OTHER_NAMES = {
    "paper": (
        "submission",
        "paper_id",
        "paper_number",
        "submission_number",
        "submission_no",
        "paper_no",
        "submission_id",
        "pid",
        "forum",
        "item",
        "thread",
    ),
    "reviewer": ("reviewer_id", "member", "pc_member", "reviewer_name", "email", "user", "author", "actor", "worker"),
    "score": (
        "rating",
        "overall",
        "overall_score",
        "overall_rating",
        "recommendation",
        "overall_merit",
        "grade",
        "value",
        "label",
    ),
    "time": (
        "timestamp",
        "posted",
        "posted_at",
        "submitted",
        "date",
        "datetime",
        "created",
        "created_at",
        "cdate",
        "submitted_at",
    ),
    "actor": ("user", "author", "reviewer", "editor", "worker", "username", "member", "sender"),
    "thread": ("page", "paper", "forum", "title", "topic", "submission", "task", "item"),
    "reply_to": ("replyto", "parent", "in_reply_to", "parent_id"),
    "id": ("event", "event_id", "comment_id", "revid", "rcid", "note"),
    "task": ("item", "question", "image", "document", "picture", "sentence", "example", "task_id", "unit", "paper"),
    "worker": ("annotator", "user", "worker_id", "performer", "rater", "reviewer"),
    "label": ("answer", "response", "annotation", "class", "vote", "value", "rating"),
    "truth": ("gold", "true_label", "ground_truth"),
    "ranking": ("voter", "ballot", "ranking_id", "reviewer", "user"),
    "item": ("alternative", "candidate", "paper", "option"),
    "rank": ("position", "place"),
    "count": ("multiplicity", "votes", "n"),
}


def read_tabular(
    file: InputFile,
    format: str,  # noqa: A002
    wish: Wish,
    *,
    table: str,
    required: Sequence[str],
    optional: Mapping[str, str],
    kinds: Mapping[str, str],
) -> Raw:
    """The wanted columns by our names; everything else in ``further``, under its own name.

    ``kinds`` says per wanted column ``id``, ``number``, ``time`` or ``label``, which decides how CSV cells are
    read; ``optional`` names columns that may be absent, with why they matter.
    """
    whole = _jsonl_frame(file) if format == "jsonl" else None
    names = list(whole.columns) if whole is not None else column_names(file, format)
    mapping = map_columns(file.source, names, wish.columns, required, optional, table=table)
    roles = {theirs: kinds.get(ours, "id") for ours, theirs in mapping.items()}
    if whole is not None:
        frame, locate = whole, _jsonl_locator(file)
    elif format == "parquet":
        frame, locate = _parquet_frame(file), _same_row
    else:
        frame, locate = _csv_frame(file, roles, format)
    source = Source(file.name, locate, names=tuple((ours, theirs) for ours, theirs in mapping.items()))
    if not frame.height:
        raise source.refusal(Verbatim("a header and no rows"), "at least one row")
    taken = {ours: frame[theirs] for ours, theirs in mapping.items()}
    rest = {name: frame[name] for name in frame.columns if name not in set(mapping.values())}
    return Raw(taken, source, rest, renamed(mapping, wish.columns), order=tuple(frame.columns))


def map_columns(
    source: Source,
    names: Sequence[str],
    columns: Mapping[str, str],
    required: Sequence[str],
    optional: Mapping[str, str],
    *,
    table: str,
) -> dict[str, str]:
    """Our name for a column to theirs; refuses with the columns found and a suggestion."""
    known = [*required, *optional]
    for ours, theirs in columns.items():
        if ours not in known:
            raise BadInput("columns", got=Verbatim(f"a name for {ours!r}"), want=f"names for {', '.join(known)}")
        if theirs not in names:
            want = f"one of {shown(names)}, since columns= names it for {ours}"
            raise source.refusal(Verbatim(f"no column {theirs!r}"), want)
    mapping = {ours: columns.get(ours, ours) for ours in known}
    present = {ours: theirs for ours, theirs in mapping.items() if theirs in names}
    free = [name for name in names if name not in present.values()]
    for ours in known:  # capitals and signs are no difference: "Paper #" is paper
        alike = [name for name in free if plain_name(name) == ours]
        if ours not in present and ours not in columns and len(alike) == 1:
            present[ours] = alike[0]
            free.remove(alike[0])
    missing = [ours for ours in required if ours not in present]
    if missing:
        one, other = ("one", "it has another name") if len(missing) == 1 else ("one of each", "they have other names")
        found = suggest_columns(names, required, optional, columns)
        likely = {ours: theirs for ours, theirs in found.items() if ours != theirs}
        raise source.refusal(
            Verbatim(f"no column {', '.join(missing)}"),
            f"{one} among {shown(names)}: if {other}",
            suggestion=Suggestion(table, likely | {ours: "..." for ours in missing if ours not in likely}),
        )
    return {ours: present[ours] for ours in known if ours in present}


def renamed(mapping: Mapping[str, str], columns: Mapping[str, str]) -> tuple[str, ...]:
    """A note on every column that was taken under a name which nobody gave."""
    return tuple(
        f"column {theirs!r} was read as {ours}"
        for ours, theirs in mapping.items()
        if theirs != ours and ours not in columns
    )


def plain_name(name: str) -> str:
    """A name without capitals, spaces and signs.

    >>> plain_name("Overall merit"), plain_name("Paper #")
    ('overall_merit', 'paper')
    """
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def suggest_columns(
    names: Sequence[str], required: Sequence[str], optional: Sequence[str] | Mapping[str, str], given: Mapping[str, str]
) -> dict[str, str]:
    """What our columns are probably called: for a person to check, never taken silently.

    >>> suggest_columns(["image", "annotator", "has_bird"], ["task", "worker", "label"], [], {"task": "image"})
    {'task': 'image', 'worker': 'annotator', 'label': 'has_bird'}
    """
    found = dict(given)
    free = [name for name in names if name not in found.values()]
    known = [*required, *optional]
    for certain in (True, False):
        for ours in known:
            if ours in found:
                continue
            plain = {plain_name(name): name for name in reversed(free)}
            others = () if certain else _OTHER_NAMES.get(ours, ())
            theirs = next((plain[other] for other in (ours, *others) if other in plain), None)
            if theirs is None and not certain and ours in required:
                close = get_close_matches(ours, plain, n=1, cutoff=0.7)
                theirs = plain[close[0]] if close else None
            if theirs is not None:
                found[ours] = theirs
                free.remove(theirs)
    left = [ours for ours in required if ours not in found]
    if len(left) == 1 and len(free) == 1 and len(found) >= len(required) - 1:
        found[left[0]] = free[0]
    return {ours: found[ours] for ours in known if ours in found}


def shown(names: Sequence[str]) -> str:
    """Column names for an error message."""
    listed = ", ".join(names[:20])
    return f"{listed}, ... ({len(names)} in all)" if len(names) > 20 else listed or "(none)"


def column_names(file: InputFile, format: str) -> list[str]:  # noqa: A002
    """The names of the columns of a CSV, TSV or Parquet file, without reading the rest."""
    if format == "parquet":
        try:
            return list(pl.read_parquet_schema(io.BytesIO(file.data()) if file.compressed else file.path))
        except (pl.exceptions.PolarsError, OSError) as error:
            raise file.refusal(Verbatim(_short(error)), "a readable Parquet file") from error
    return csv_header(file, separator_of(file, format))


def separator_of(file: InputFile, format: str) -> str:  # noqa: A002
    """Tab for TSV; for CSV the comma, unless the header only has semicolons or tabs."""
    if format == "tsv":
        return "\t"
    first = file.head_text().lstrip("\n\r").split("\n", 1)[0]
    if "," not in first:
        return next((mark for mark in (";", "\t") if mark in first), ",")
    return ","


def csv_header(file: InputFile, separator: str) -> list[str]:
    """The header's names; a repeated or empty one is refused."""
    records = first_records(file.head_text(), separator, 1)
    if not records or not any(cell.strip() for cell in records[0][1]):
        raise file.refusal(Verbatim("no header"), "a first line with the names of the columns", line=1)
    names = records[0][1]
    repeated = sorted({name for name in names if names.count(name) > 1}) if len(names) < 2_000 else []
    if len(set(names)) < len(names):
        twice = repeated or ["some names"]
        raise file.refusal(Verbatim(f"the header names {shown(twice)} twice"), "every column named once", line=1)
    return names


def _csv_frame(
    file: InputFile,
    roles: Mapping[str, str],
    format: str,  # noqa: A002
) -> tuple[pl.DataFrame, Locator]:
    separator = separator_of(file, format)
    header = csv_header(file, separator)
    schema = _csv_schema(file, separator, header, roles)
    content = file.data() if file.compressed else file.path
    # the header is ours already: Polars leaves doubled quotation marks in names as they are
    options: dict[str, Any] = {
        "separator": separator,
        "glob": False,
        "infer_schema": False,
        "has_header": False,
        "skip_rows": 1,
    }
    try:
        frame = pl.read_csv(content, schema=schema, **options)
    except (pl.exceptions.PolarsError, OSError):
        frame = _csv_as_text(file, separator, header, options)
    return _without_blank_end(frame), _csv_locator(file, separator)


def _csv_schema(
    file: InputFile, separator: str, header: Sequence[str], roles: Mapping[str, str]
) -> dict[str, pl.DataType]:
    """Types from a sample: ids are numbers only if they are plain whole numbers (007 stays text)."""
    sample = [cells for _, cells in first_records(file.head_text(), separator, _SAMPLE + 1)[1:]]
    if len(file.head) >= 65_536 and len(sample) > 1:
        sample.pop()  # perhaps cut in two
    schema: dict[str, pl.DataType] = {}
    for position, name in enumerate(header):
        cells = [row[position] for row in sample if position < len(row) and row[position] != ""]
        role = roles.get(name, "any")
        whole = bool(cells) and all(_INTEGER.match(cell) for cell in cells)
        numeric = bool(cells) and all(_NUMBER.match(cell) for cell in cells)
        if role == "number" and numeric:
            schema[name] = pl.Float64()
        elif role != "number" and whole:
            schema[name] = pl.Int64()
        elif role in ("time", "any") and numeric and not any(re.match(r"^-?0\d", cell) for cell in cells):
            schema[name] = pl.Float64()
        else:
            schema[name] = pl.String()
    return schema


def _csv_as_text(file: InputFile, separator: str, header: Sequence[str], options: Mapping[str, Any]) -> pl.DataFrame:
    """The second try: every cell as text; if even that fails, say which line is to blame."""
    data = file.data()
    file.check_text(data)
    text = data.decode("utf-8-sig")
    ragged = [
        Problem(
            file.name,
            Verbatim(f"{len(cells)} cells"),
            f"at most {len(header)}, as in the header",
            row=row,
            line=line,
        )
        for row, (line, cells) in enumerate(csv_rows(text, separator))
        if len(cells) > len(header)
    ]
    if ragged:
        raise BadTable(ragged, len(ragged))
    try:
        return pl.read_csv(data, schema=dict.fromkeys(header, pl.String()), **options)
    except pl.exceptions.PolarsError as error:
        line = data.count(b"\n") if b'"' in data else None
        got = Verbatim("a quotation mark that is never closed" if line else _short(error))
        raise file.refusal(got, "well-formed CSV") from error


def _without_blank_end(frame: pl.DataFrame) -> pl.DataFrame:
    """Leave out blank lines at the end of a file."""
    height = frame.height
    while height and all(value is None for value in frame.row(height - 1)):
        height -= 1
    return frame if height == frame.height else frame.head(height)


def _csv_locator(file: InputFile, separator: str) -> Locator:
    starts: list[int] = []

    def locate(position: int) -> tuple[int, int | None]:
        if not starts:
            starts.extend(line for line, _ in csv_rows(file.text(), separator))
        line = starts[position + 1] if position + 1 < len(starts) else None
        return position + 1, line

    return locate


def _jsonl_frame(file: InputFile) -> pl.DataFrame:
    data = file.data()
    try:
        return pl.read_ndjson(io.BytesIO(data), infer_schema_length=None)
    except pl.exceptions.PolarsError:
        file.check_text(data)
    records = []
    for line, value in file.json_lines(data.decode("utf-8-sig")):
        if not isinstance(value, dict):
            raise file.refusal(value, "an object with the names of the columns, one a line", line=line)
        records.append(value)
    if not records:
        raise file.refusal(Verbatim("no rows"), "at least one row")
    names = list(dict.fromkeys(name for record in records for name in record))
    return pl.DataFrame([_mixed(name, [record.get(name) for record in records]) for name in names])


def _mixed(name: str, values: list[Any]) -> pl.Series:
    """A column of JSON values of several kinds: numbers stay numbers, else everything becomes text."""
    kinds = {type(value) for value in values if value is not None}
    try:
        if kinds <= {int, float} or len(kinds) == 1:
            return pl.Series(name, values, strict=False)
    except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError):
        pass
    return pl.Series(name, [value if value is None or isinstance(value, str) else str(value) for value in values])


def _jsonl_locator(file: InputFile) -> Locator:
    starts: list[int] = []

    def locate(position: int) -> tuple[int, int | None]:
        if not starts:
            lines = file.text().split("\n")
            starts.extend(number for number, line in enumerate(lines, start=1) if line.strip())
        return position + 1, starts[position] if position < len(starts) else None

    return locate


def _same_row(position: int) -> tuple[int, int | None]:
    return position + 1, None


def _parquet_frame(file: InputFile) -> pl.DataFrame:
    try:
        return pl.read_parquet(io.BytesIO(file.data()) if file.compressed else file.path, glob=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise file.refusal(Verbatim(_short(error)), "a readable Parquet file") from error


def _short(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0][:120] or type(error).__name__
