"""The files of a console: uploaded (a copy is stored) or named (they stay where they are), and what they contain."""

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import polars as pl
from sqlalchemy import Connection, delete, desc, insert, select, update

from peerveil import data
from peerveil.core.errors import BadInput, PeerveilError, Verbatim
from peerveil.core.files import regular_file
from peerveil.core.text import on_one_line
from peerveil.data.schema import LABELS, SCHEMAS, Column
from peerveil.data.table import plural
from peerveil.study.actions import KINDS
from peerveil.study.new import likely_kinds
from peerveil.study.release import ONE_REVIEW_EACH
from peerveil.timing.exposure import NO_NAME_TWICE
from peerveil.web.common import database_time
from peerveil.web.common.errors import NotFound
from peerveil.web.console import simulations
from peerveil.web.console.app import ConsoleApp, new_id
from peerveil.web.console.jobs import enqueue
from peerveil.web.console.schema import files
from peerveil.web.console.users import User

COLUMNS: Final[Mapping[str, tuple[Column, ...]]] = {kind: SCHEMAS[kind.capitalize()].columns for kind in KINDS}
"""The columns that a file's own can be mapped to."""
POLL: Final = "poll"
"""What labels without tasks are in an inspection: only shares can be estimated from them."""


@dataclass(frozen=True)
class DataFile:
    """A file of a console; ``copied`` if the console has its own copy."""

    id: str
    owner: str
    name: str
    path: Path
    copied: bool
    size: int
    state: str
    kind: str
    columns: Mapping[str, str]
    inspection: Mapping[str, Any]
    created: int

    @property
    def tables(self) -> dict[str, dict[str, Any]]:
        """What it can be read as: rows, a summary and notes for each kind."""
        return dict(self.inspection.get("tables", {}))

    def read(self, kind: str) -> Any:
        """The file as a table."""
        table: Any = getattr(data, kind.capitalize())
        options = {"columns": dict(self.columns)} if self.columns and self.kind in ("", kind) else {}
        return table.read(self.path, format=self.inspection.get("format"), **options)


def _from_row(row: Any) -> DataFile:
    """A file from its row in the database."""
    return DataFile(**{**row._mapping, "path": Path(row.path)})


def by_id(app: ConsoleApp, file: str) -> DataFile | None:
    """A file, whoever owns it."""
    row = app.database.first(select(files).where(files.c.id == file))
    return None if row is None else _from_row(row)


def find(app: ConsoleApp, user: User, file: str) -> DataFile:
    """A file that the user may use; other users' files are as if they did not exist."""
    result = by_id(app, file)
    if result is None or not (user.sees_all or result.owner == user.id):
        raise NotFound("there is no such file")
    return result


def listed(app: ConsoleApp, user: User, kind: str | None = None) -> list[DataFile]:
    """The files that the user may use, newest first; with ``kind``, those that can be read as it."""
    query = select(files).order_by(desc(files.c.created))
    if not user.sees_all:
        query = query.where(files.c.owner == user.id)
    return [file for file in map(_from_row, app.database.rows(query)) if kind is None or kind in file.tables]


def upload(app: ConsoleApp, user: User, name: str, content: IO[bytes]) -> str:
    """Store a copy of an uploaded file, readable by this user of the machine alone; its id."""
    shown = Path(name.replace("\\", "/")).name.strip() or "upload"
    if not on_one_line(shown):
        raise BadInput("file", got=Verbatim("a name with control characters"), want="a name on one line")
    file = new_id()
    folder = app.files_folder / file
    target = folder / safe_name(shown)
    try:
        folder.mkdir(mode=0o700)
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as handle:
            shutil.copyfileobj(content, handle, 1 << 20)
        if target.stat().st_size == 0:
            raise BadInput("file", got=Verbatim("an empty file"), want="a file with at least one row")
        return _add(app, user, file, shown, target, copied=True)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise BadInput("file", got=shown, want=f"space for a copy ({error.strerror})") from None
        raise


def add_path(app: ConsoleApp, user: User, path: str) -> str:
    """Add a file of this machine, which stays where it is; its id."""
    allowed = app.settings.data_folder
    if allowed is None and not user.is_local:
        want = "an upload: this console was not started with --data-folder, so files of the machine cannot be named"
        raise BadInput("path", got=Verbatim("a path"), want=want)
    if not path.strip():
        raise BadInput("path", got=path, want="the path of a file on this machine")
    where = Path(path.strip()).expanduser().absolute()
    if allowed is not None:
        allowed = allowed.resolve()
        where = (allowed / Path(path.strip()).expanduser()).resolve()
        if not where.is_relative_to(allowed):
            raise BadInput("path", got=path, want=f"a file inside {allowed}")
    target = regular_file(where, "path").resolve()
    return _add(app, user, new_id(), target.name, target, copied=False)


def add_synthetic(app: ConsoleApp, user: User, *, papers: int = 200, reviewers: int = 150) -> None:
    """Add a synthetic conference to try everything on: this year's four tables and last year's reviews."""
    for seed, name, kinds in ((0, "synthetic", KINDS), (1, "synthetic last year", ("reviews",))):
        conference = data.synthetic_conference(papers, reviewers, seed=seed, people_seed=7)
        for kind in kinds:
            file = new_id()
            path = app.files_folder / file / f"{kind}.csv"
            path.parent.mkdir(mode=0o700)
            getattr(conference, kind).write(path)
            _add(app, user, file, f"{name}: {kind}", path, copied=True)


def _add(app: ConsoleApp, user: User, file: str, name: str, path: Path, *, copied: bool) -> str:
    row = {"id": file, "owner": user.id, "name": name[:120], "path": str(path), "size": path.stat().st_size}
    fresh = {"state": "reading", "kind": "", "columns": {}, "inspection": {}}
    with app.logged(user.id, "added a file", name) as connection:
        connection.execute(insert(files).values(**row, **fresh, copied=copied, created=database_time(connection)))
        enqueue(connection, "inspect", file)
    return file


def map_columns(app: ConsoleApp, user: User, file: str, kind: str, columns: Mapping[str, str]) -> None:
    """Set what a file contains and what its columns are called; it is then inspected again."""
    find(app, user, file)
    if kind not in ("", *KINDS):
        raise BadInput("kind", got=kind, want=f"one of {', '.join(KINDS)}")
    named = {ours: theirs for ours, theirs in columns.items() if theirs}
    with app.logged(user.id, "mapped the columns of a file", file) as connection:
        connection.execute(update(files).where(files.c.id == file).values(kind=kind, columns=named, state="reading"))
        enqueue(connection, "inspect", file)


def remove(app: ConsoleApp, user: User, file: str) -> None:
    """Remove a file; the console's own copy is deleted, a named file stays where it is."""
    removed = find(app, user, file)
    with app.logged(user.id, "removed a file", removed.name) as connection:
        connection.execute(delete(files).where(files.c.id == file))
        simulations.forget_file(connection, file)
    if removed.copied:
        shutil.rmtree(app.files_folder / removed.id, ignore_errors=True)


def safe_name(name: str) -> str:
    """A name without a meaning to any file system; suffixes stay.

    >>> safe_name("../../etc/pass wd.csv")
    'etc_pass_wd.csv'
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", name).lstrip("._-")
    return plain[-80:].lstrip("._-") or "file"


# ---- what a file contains --------------------------------------------------------------------------------------------


def inspect(file: DataFile) -> dict[str, Any]:
    """Read a file as peerveil would: its format, every table in it, problems by row, and columns that need a mapping."""
    from peerveil.data.readers.files import InputFile, first_records
    from peerveil.data.readers.recognize import EVERY, nearest, recognize
    from peerveil.data.readers.tabular import TABULAR, column_names, separator_of
    from peerveil.truth.wire import is_answer_file

    detected = recognize(file.path)
    result: dict[str, Any] = {"format": detected.format, "why": detected.why, "tables": {}, "problems": {}, "guess": {}}
    if (detected.format in TABULAR and detected.format != "jsonl") or detected.format in ("mturk", "toloka"):
        opened = InputFile.open(file.path)
        written = (
            detected.format if detected.format in TABULAR else "tsv" if opened.suffix in (".tsv", ".tab") else "csv"
        )
        result["columns"] = list(column_names(opened, written))
        if detected.format != "parquet":
            rows = first_records(opened.head_text(), separator_of(opened, written), 4)[1:]
            result["sample"] = [[cell[:40] for cell in cells[:12]] for _, cells in rows]
    likely = likely_kinds(file.name, detected.kinds)
    kinds = [file.kind] if file.kind else [kind.lower() for kind in likely]
    if not file.kind and likely == EVERY:
        guess = nearest(file.path)
        if (guess is None or guess[0] != "Labels") and LABELS["label"].name in result.get("columns", ()):
            guess = "Labels", {}
        kinds = [] if guess is None else [guess[0].lower()]
        result["guess"] = {} if guess is None else {"kind": kinds[0], "columns": guess[1]}
    if is_answer_file(file.path):
        line = (
            "randomized answers that state their own epsilon and classes: use `peerveil truth infer` or `truth shares`"
        )
        return {**result, "problems": {"labels": {"lines": [f"{file.name}: {line}"], "total": 1}}}
    for kind in kinds:
        reader: Any = getattr(data, kind.capitalize())
        try:
            table = reader.read(file.path, columns=dict(file.columns) or None)
        except data.BadTable as error:
            if kind == "labels" and (poll := _poll(file)) is not None:
                result["tables"][POLL] = poll
                continue
            lines = [problem.sentence("choose the columns below") for problem in error.problems]
            result["problems"][kind] = {"lines": lines, "total": error.total}
        except PeerveilError as error:
            result["problems"][kind] = {"lines": [str(error)], "total": 1}
        else:
            content = {"rows": len(table), "summary": table.headline, "notes": list(table.notes)}
            result["tables"][kind] = content | _form_values(table, kind)
    return result


def _poll(file: DataFile) -> dict[str, Any] | None:
    """What a file contains as reports to one question, without tasks; None if it has tasks or no reports."""
    from peerveil.truth.shares_read import REPORTS, Reports

    columns = {ours: theirs for ours, theirs in file.columns.items() if ours in REPORTS.names}
    if "task" in file.columns:
        return None
    try:
        reports = Reports.read(file.path, columns=columns or None)
    except PeerveilError:
        return None
    summary = f"{plural(len(reports), 'report')} without tasks, so that shares can be estimated"
    return {"rows": len(reports), "summary": summary, "notes": list(reports.notes)}


def _form_values(table: Any, kind: str) -> dict[str, Any]:
    """Values that forms are filled in with (score range, possible answers), and what a table cannot be used for."""
    frame = table.frame
    if kind == "reviews":
        scores = table.column("score")
        values = {"scale": [float(scores.min()), float(scores.max())], "papers": int(frame["paper"].n_unique())}
        if not table.has_reviewers:
            return {**values, "warnings": ["The authors of the reviews are missing: no module can use this table."]}
        one_each = 1 < len(table) == int(frame["reviewer"].n_unique())
        return {**values, "warnings": [ONE_REVIEW_EACH] if one_each else []}
    if kind == "events":
        threads = frame.group_by("actor").agg(pl.col("thread").n_unique())["thread"]
        return {"warnings": [] if bool((threads > 1).any()) else [NO_NAME_TWICE]}
    if kind == "labels":
        classes = frame["label"].unique().sort().to_list()
        return {"classes": classes if len(classes) <= 50 else []}
    return {}


def store_inspection(connection: Connection, file: str, inspection: Mapping[str, Any]) -> None:
    """Store what a file contains. Whatever was simulated from the file before is deleted."""
    simulations.forget_file(connection, file)
    state = "readable" if inspection.get("tables") else "unreadable"
    connection.execute(update(files).where(files.c.id == file).values(state=state, inspection=inspection))
