"""The files of a console: uploaded (a copy is kept) or pointed to (they stay where they are), and what was seen in them."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import polars as pl
from sqlalchemy import delete, desc, insert, select, update

from peerveil import data
from peerveil.core.errors import BadInput, PeerveilError, Verbatim
from peerveil.core.files import regular_file
from peerveil.core.text import on_one_line
from peerveil.study.actions import KINDS
from peerveil.study.new import likely_kinds
from peerveil.study.release import ONE_REVIEW_EACH
from peerveil.timing.exposure import NO_NAME_TWICE
from peerveil.web.common import database_time
from peerveil.web.common.errors import NotFound
from peerveil.web.console import simulations
from peerveil.web.console.house import new_id
from peerveil.web.console.jobs import enqueue
from peerveil.web.console.schema import files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

    from peerveil.web.console.house import House
    from peerveil.web.console.people import Asker

PLATFORMS: Final = {
    "csv": "a table (CSV)",
    "tsv": "a table (tab-separated)",
    "jsonl": "JSON lines",
    "parquet": "Parquet",
    "openreview": "an OpenReview export",
    "hotcrp": "a HotCRP export",
    "easychair": "an EasyChair export",
    "preflib": "a PrefLib file",
    "mediawiki": "MediaWiki recent changes",
}
"""Formats in words."""

COLUMNS: Final = {
    "reviews": {"paper": "which paper", "reviewer": "who reviewed", "score": "the score", "time": "when"},
    "events": {"actor": "who posted", "thread": "in which thread", "time": "when", "id": "which post"},
    "labels": {"task": "which task", "worker": "who answered", "label": "the answer", "truth": "the right one"},
    "rankings": {"ranking": "whose ranking", "item": "what was ranked", "rank": "at which rank"},
}
"""Our columns, and what they hold."""
OPTIONAL: Final = {("reviews", "time"), ("events", "id"), ("labels", "truth")}
"""Columns that a file need not have."""


@dataclass(frozen=True)
class File:
    """One file."""

    id: str
    owner: str
    name: str
    path: Path
    kept: bool
    size: int
    state: str
    kind: str
    columns: Mapping[str, str]
    look: Mapping[str, Any]

    @property
    def tables(self) -> dict[str, dict[str, Any]]:
        """What it can be read as: rows, a summary and notes for each kind."""
        return dict(self.look.get("tables", {}))

    def read(self, kind: str) -> Any:
        """The file as a table."""
        table: Any = getattr(data, kind.capitalize())
        options = {"columns": dict(self.columns)} if self.columns and self.kind in ("", kind) else {}
        return table.read(self.path, format=self.look.get("format"), **options)


def from_row(row: Any) -> File:
    """A file as its row has it."""
    values = {name: getattr(row, name) for name in ("id", "owner", "name", "size", "state", "kind")}
    columns, look = json.loads(row.columns), json.loads(row.look or "{}")
    return File(**values, path=Path(row.path), kept=bool(row.kept), columns=columns, look=look)


def listed(house: House, asker: Asker, kind: str | None = None) -> list[File]:
    """The files that somebody may use, the newest first; with ``kind``, those that can be read as it."""
    query = select(files).order_by(desc(files.c.made))
    if not asker.sees_all:
        query = query.where(files.c.owner == asker.id)
    with house.database.reading() as connection:
        found = [from_row(row) for row in connection.execute(query)]
    return [file for file in found if kind is None or kind in file.tables]


def find(house: House, asker: Asker, file: str) -> File:
    """One file; somebody else's is as if it were not there."""
    with house.database.reading() as connection:
        row = connection.execute(select(files).where(files.c.id == file)).first()
    if row is None or not (asker.sees_all or row.owner == asker.id):
        raise NotFound("there is no such file")
    return from_row(row)


def upload(house: House, asker: Asker, name: str, content: IO[bytes]) -> str:
    """Keep a copy of an uploaded file, readable by this user of the machine alone; its id."""
    shown = Path(name.replace("\\", "/")).name.strip() or "upload"
    if not on_one_line(shown):
        raise BadInput("file", got=Verbatim("a name with control characters"), want="a name on one line")
    made = new_id()
    folder = house.files / made
    target = folder / safe_name(shown)
    try:
        folder.mkdir(mode=0o700)
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as handle:
            shutil.copyfileobj(content, handle, 1 << 20)
        size = target.stat().st_size
        if size == 0:
            raise BadInput("file", got=Verbatim("an empty file"), want="a file with at least one row")
        _add(house, asker, made, shown, target, kept=True, size=size)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise BadInput("file", got=shown, want=f"room to keep a copy ({error.strerror})") from None
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return made


def point_to(house: House, asker: Asker, path: str) -> str:
    """Take a file that lies on this machine; it stays where it is. Its id."""
    settings = house.settings
    if settings.data_folder is None and not asker.alone:
        want = "an upload: this console was not started with --data-folder, so files of the machine cannot be named"
        raise BadInput("path", got=Verbatim("a path"), want=want)
    where = Path(path.strip()).expanduser()
    if settings.data_folder is not None:
        allowed = settings.data_folder.resolve()
        where = (allowed / where).resolve()
        if not where.is_relative_to(allowed):
            raise BadInput("path", got=path, want=f"a file inside {allowed}")
    elif not where.is_absolute():
        where = where.absolute()
    if not path.strip():
        raise BadInput("path", got=path, want="the path of a file on this machine")
    found = regular_file(where, "path").resolve()
    made = new_id()
    _add(house, asker, made, found.name, found, kept=False, size=found.stat().st_size)
    return made


def invent(house: House, asker: Asker, *, papers: int = 200, reviewers: int = 150) -> list[str]:
    """A synthetic conference to try everything on: this year's four tables and last year's reviews."""
    made = []
    for seed, name, kinds in ((0, "invented", KINDS), (1, "invented last year", ("reviews",))):
        conference = data.synthetic_conference(papers, reviewers, seed=seed, people_seed=7)
        for kind in kinds:
            file = new_id()
            folder = house.files / file
            folder.mkdir(mode=0o700)
            path = folder / f"{kind}.csv"
            getattr(conference, kind).write(path)
            shown = f"{name}: {kind}"
            _add(house, asker, file, shown, path, kept=True, size=path.stat().st_size)
            made.append(file)
    return made


def map_columns(house: House, asker: Asker, file: str, kind: str, columns: Mapping[str, str]) -> None:
    """Say what a file is and what its columns are called; it is then looked at anew."""
    find(house, asker, file)
    if kind not in ("", *KINDS):
        raise BadInput("kind", got=kind, want=f"one of {', '.join(KINDS)}")
    named = {ours: theirs for ours, theirs in columns.items() if theirs}
    with house.database.writing("take") as connection:
        values = {"kind": kind, "columns": json.dumps(named), "state": "looking"}
        connection.execute(update(files).where(files.c.id == file).values(**values))
        house.note(connection, asker.id, "said what is what in a file", file)
        enqueue(connection, "look", file)


def remove(house: House, asker: Asker, file: str) -> None:
    """Forget a file; the console's own copy is deleted, a file that was pointed to stays where it is."""
    found = find(house, asker, file)
    with house.database.writing("take") as connection:
        connection.execute(delete(files).where(files.c.id == file))
        simulations.forget(connection, file)
        house.note(connection, asker.id, "removed a file", found.name)
    if found.kept:
        shutil.rmtree(house.files / found.id, ignore_errors=True)


def safe_name(name: str) -> str:
    """A name that means nothing to any file system but itself; suffixes stay.

    >>> safe_name("../../etc/pass wd.csv")
    'etc_pass_wd.csv'
    """
    kept = re.sub(r"[^A-Za-z0-9._-]+", "_", name).lstrip("._-")
    return kept[-80:].lstrip("._-") or "file"


def look_at(file: File) -> dict[str, Any]:
    """Read a file as peerveil would: the format, every table in it, problems by row, the columns if they must be named."""
    from peerveil.data.readers.files import InputFile, first_records
    from peerveil.data.readers.recognize import EVERY, nearest, recognize
    from peerveil.data.readers.tabular import TABULAR, column_names, separator_of

    seen = recognize(file.path)
    found: dict[str, Any] = {"format": seen.format, "why": seen.why, "tables": {}, "problems": {}, "guess": {}}
    if seen.format in TABULAR and seen.format != "jsonl":
        opened = InputFile.open(file.path)
        found["columns"] = list(column_names(opened, seen.format))
        if seen.format != "parquet":
            rows = first_records(opened.head_text(), separator_of(opened, seen.format), 4)[1:]
            found["sample"] = [[cell[:40] for cell in cells[:12]] for _, cells in rows]
    likely = likely_kinds(file.name, seen.kinds)
    kinds = [file.kind] if file.kind else [kind.lower() for kind in likely]
    if not file.kind and likely == EVERY:
        guess = nearest(file.path)
        kinds = [] if guess is None else [guess[0].lower()]
        found["guess"] = {} if guess is None else {"kind": kinds[0], "columns": guess[1]}
    for kind in kinds:
        table: Any = getattr(data, kind.capitalize())
        try:
            read = table.read(file.path, columns=dict(file.columns) or None)
        except data.BadTable as error:
            lines = [problem.sentence("choose the columns below") for problem in error.problems]
            found["problems"][kind] = {"lines": lines, "total": error.total}
        except PeerveilError as error:
            found["problems"][kind] = {"lines": [str(error)], "total": 1}
        else:
            found["tables"][kind] = {"rows": len(read), "summary": str(read), "notes": list(read.notes)} | _public(
                read, kind
            )
    return found


def _public(table: Any, kind: str) -> dict[str, Any]:
    """What forms are filled in with (the range of scores, the possible answers), and what a table cannot be used for."""
    if kind == "reviews":
        scores = table.column("score")
        found = {"scale": [float(scores.min()), float(scores.max())], "papers": int(table.frame["paper"].n_unique())}
        if not table.has_reviewers:
            return {**found, "warnings": ["It does not say who wrote the reviews: no room can work with it."]}
        alone = int(table.frame["reviewer"].n_unique()) == len(table)
        return {**found, "warnings": [ONE_REVIEW_EACH] if alone and len(table) > 1 else []}
    if kind == "events":
        threads = table.frame.group_by("actor").agg(pl.col("thread").n_unique())["thread"]
        return {"warnings": [] if bool((threads > 1).any()) else [NO_NAME_TWICE]}
    if kind == "labels":
        classes = table.frame["label"].unique().sort().to_list()
        return {"classes": classes if len(classes) <= 50 else []}
    return {}


def _add(house: House, asker: Asker, file: str, name: str, path: Path, *, kept: bool, size: int) -> None:
    with house.database.writing("take") as connection:
        row = {"id": file, "owner": asker.id, "name": name[:120], "path": str(path), "kept": int(kept), "size": size}
        now = database_time(connection)
        connection.execute(insert(files).values(**row, state="looking", kind="", columns="{}", look="", made=now))
        house.note(connection, asker.id, "added a file", name)
        enqueue(connection, "look", file)


def seen(connection: Connection, file: str, state: str, look: Mapping[str, Any]) -> None:
    """Keep what was seen. Whatever was simulated from the file before is forgotten."""
    simulations.forget(connection, file)
    values = {"state": state, "look": json.dumps(look, ensure_ascii=False)}
    connection.execute(update(files).where(files.c.id == file).values(**values))
