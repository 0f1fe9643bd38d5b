"""Runs: drafted, checked, confirmed, executed. Each is a folder with a study file, and the folder that the study wrote.

A draft is checked first (everything is read, nothing is spent), and the page says what would be spent and published. Starting
it is one update from ``ready`` to ``queued`` in the database: of two tabs that start one draft, the second is refused. The
study itself debits each step at most once, however often its process is killed.
"""

import io
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, delete, desc, insert, select, update

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.files import write_text
from peerveil.core.text import on_one_line
from peerveil.study.actions import find_action
from peerveil.web.common import database_time
from peerveil.web.common.errors import Conflict, NotFound
from peerveil.web.console.app import ConsoleApp, new_id
from peerveil.web.console.jobs import enqueue, progress_of
from peerveil.web.console.schema import runs
from peerveil.web.console.studies import study_text
from peerveil.web.console.users import User

STATES: Final = {
    "checking": "being checked",
    "refused": "cannot be run",
    "ready": "ready to start",
    "queued": "about to start",
    "running": "running",
    "done": "done",
    "failed": "failed",
}
"""The states of a run, in words."""
WORKING: Final = ("checking", "queued", "running")
_HIDDEN: Final = ("outcome.json", "journal.json", "lock", "report.json", "study.toml")


@dataclass(frozen=True)
class ConsoleRun:
    """A run of the console."""

    id: str
    owner: str
    title: str
    state: str
    simulated: bool
    shared: bool
    steps: Sequence[Mapping[str, Any]]
    study: str
    check: Mapping[str, Any]
    problem: str
    created: int
    folder: Path

    @property
    def publishes(self) -> bool:
        """Whether anything of it may be published."""
        return any(find_action(step["action"]).publishes for step in self.steps)

    @property
    def out(self) -> Path:
        """The folder that the study writes."""
        return self.folder / "out"

    @property
    def public(self) -> Path:
        """The folder of what may be published; of a simulation nothing may."""
        return self.out / ("simulated" if self.simulated else "public")

    def report(self, *, public: bool) -> Path:
        """The report of a finished run, complete or without its private parts."""
        if not public:
            return self.out / "report.html"
        return self.public / ("simulated-report.html" if self.simulated else "report.html")

    def files(self, *, public: bool) -> dict[str, Path]:
        """Everything that may be published, or what only the owner may see (without what the runner keeps for itself)."""
        folder, hidden = (self.public, ()) if public else (self.out / "private", _HIDDEN)
        paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in hidden)
        return {str(path.relative_to(folder)): path for path in paths}


def _from_row(app: ConsoleApp, row: Any) -> ConsoleRun:
    return ConsoleRun(**row._mapping, folder=app.runs_folder / row.id)


def listed(app: ConsoleApp, user: User, limit: int = 100) -> list[ConsoleRun]:
    """The runs that the user may see, newest first: their own, and shared ones."""
    query = select(runs).order_by(desc(runs.c.created)).limit(limit)
    if not user.sees_all:
        query = query.where((runs.c.owner == user.id) | runs.c.shared)
    return [_from_row(app, row) for row in app.database.rows(query)]


def owns(user: User, run: ConsoleRun) -> bool:
    """Whether the user sees all of a run, not only what may be published."""
    return user.sees_all or (user.may("analyst") and run.owner == user.id)


def find(app: ConsoleApp, user: User, run: str) -> ConsoleRun:
    """A run that the user may see. Of other users' runs only shared ones exist, and of these only the public part."""
    row = app.database.first(select(runs).where(runs.c.id == run))
    result = None if row is None else _from_row(app, row)
    if result is None or not (owns(user, result) or result.shared):
        raise NotFound("there is no such run")
    return result


def find_own(app: ConsoleApp, user: User, run: str) -> ConsoleRun:
    """A run of which the user may see and do everything."""
    result = find(app, user, run)
    if not owns(user, result):
        raise NotFound("there is no such run, or you may see only its public part")
    return result


def draft(
    app: ConsoleApp, user: User, title: str, steps: Sequence[Mapping[str, Any]], *, simulated: bool = False
) -> str:
    """Write a study for some steps, and have it checked; the run's id. Nothing is spent."""
    title = " ".join(title.split()) or "A study from the console"
    if len(title) > 120 or not on_one_line(title):
        raise BadInput("title", got=Verbatim("another title"), want="a title of at most 120 characters on one line")
    run = new_id()
    text = study_text(app, user, title, steps, seed=int(run[:6], 16) if simulated else None)
    write_text(app.runs_folder / run / "study.toml", text, private=True)
    row = {"id": run, "owner": user.id, "title": title, "simulated": simulated, "steps": list(steps), "study": text}
    fresh = {"state": "checking", "shared": False, "check": {}, "problem": ""}
    with app.logged(user.id, "drafted a run", run) as connection:
        connection.execute(insert(runs).values(**row, **fresh, created=database_time(connection)))
        enqueue(connection, "check", run)
    return run


class Transition(NamedTuple):
    """What a user can do with a run: from which states, to which one, by which job."""

    sources: tuple[str, ...]
    target: str
    job: str
    activity: str


TRANSITIONS: Final = {
    "start": Transition(("ready",), "queued", "run", "started a run"),
    "check": Transition(("ready", "refused"), "checking", "check", "checked a run again"),
    "resume": Transition(("failed",), "queued", "run", "resumed a run"),
}
"""A second start of the same draft is refused; a run that failed continues, and what it paid for is not paid again."""


def advance(app: ConsoleApp, user: User, run: str, name: str) -> None:
    """Start, check again or resume a run."""
    current, transition = find_own(app, user, run), TRANSITIONS[name]
    with app.logged(user.id, transition.activity, run) as connection:
        allowed = update(runs).where(runs.c.id == run, runs.c.state.in_(transition.sources))
        if connection.execute(allowed.values(state=transition.target, problem="")).rowcount != 1:
            raise Conflict(f"this run is {STATES[current.state]}: nothing was done")
        enqueue(connection, transition.job, run)


def discard(app: ConsoleApp, user: User, run: str) -> None:
    """Delete a draft. What was executed stays."""
    current = find_own(app, user, run)
    with app.logged(user.id, "deleted a draft", run) as connection:
        draft = delete(runs).where(runs.c.id == run, runs.c.state.in_(("ready", "refused")))
        if connection.execute(draft).rowcount != 1:
            raise Conflict(f"this run is {STATES[current.state]}: only drafts can be deleted")
    shutil.rmtree(current.folder, ignore_errors=True)


def share(app: ConsoleApp, user: User, run: str, *, shared: bool) -> None:
    """Let readers and other analysts see what may be published of a run, or no longer."""
    current = find_own(app, user, run)
    if current.simulated or current.state != "done":
        raise Conflict("only finished runs that are no simulations can be shared")
    action = "shared a run with readers" if shared else "hid a run from readers"
    with app.logged(user.id, action, run) as connection:
        connection.execute(update(runs).where(runs.c.id == run).values(shared=shared))


def progress(app: ConsoleApp, run: ConsoleRun) -> tuple[float, str]:
    """The progress of a run, and its message."""
    kind = "check" if run.state == "checking" else "run"
    with app.database.reading() as connection:
        return progress_of(connection, kind, run.id) or (0.0, "")


def earlier(app: ConsoleApp, user: User, run: ConsoleRun) -> list[ConsoleRun]:
    """Finished runs that released the same from the same files: another release reveals more about the same people."""
    released = {(step["action"], step["data"]) for step in run.steps if find_action(step["action"]).spends}
    return [
        other
        for other in listed(app, user, 1000)
        if other.state == "done"
        and not other.simulated
        and released & {(step["action"], step["data"]) for step in other.steps}
    ]


def combined_study(app: ConsoleApp, user: User) -> str:
    """All finished runs of a user, in the order in which they were drafted, as one study file.

    Runs whose files were removed since cannot be repeated; a comment names them.
    """
    steps: list[Mapping[str, Any]] = []
    removed = []
    for run in reversed(listed(app, user, limit=10_000)):
        if run.state != "done" or run.simulated or not owns(user, run):
            continue
        try:
            study_text(app, user, run.title, run.steps)
        except (BadInput, NotFound):
            removed.append(f"# Not included, since its data were removed: {run.title}")
        else:
            steps += run.steps
    if not steps:
        raise NotFound("no finished run could be repeated")
    return "\n".join([study_text(app, user, "All runs of the console", steps), *removed])


def public_zip(run: ConsoleRun) -> bytes:
    """Everything that may be published, in one file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in run.files(public=True).items():
            archive.write(path, name)
    return buffer.getvalue()


def set_state(connection: Connection, run: str, state: str, **values: Any) -> None:
    """For workers: the new state of a run."""
    connection.execute(update(runs).where(runs.c.id == run).values(state=state, **values))
