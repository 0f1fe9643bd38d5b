"""Runs: drafted, checked, confirmed, carried out. Each is a folder with a study file, and the folder that the study wrote.

A draft is checked first (everything is read, nothing spent), and the page says what would be spent and published. Starting
it is one step from ``ready`` to ``queued`` in the database: of two tabs that start one draft, one is told that it is
under way. The study itself debits each step at most once, however often its process is killed.
"""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import delete, desc, insert, select, update

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.files import write_text
from peerveil.core.text import on_one_line
from peerveil.study.actions import find_action
from peerveil.web.common import database_time
from peerveil.web.common.errors import Conflict, NotFound
from peerveil.web.console.drafting import study_text
from peerveil.web.console.house import new_id
from peerveil.web.console.jobs import enqueue, progress_of
from peerveil.web.console.schema import runs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from peerveil.web.console.house import House
    from peerveil.web.console.people import Asker

STATES: Final = {
    "checking": "being checked",
    "refused": "cannot be run",
    "ready": "waits for you",
    "queued": "about to start",
    "running": "under way",
    "done": "done",
    "failed": "failed",
}
"""What can be said of a run."""
WORKING: Final = ("checking", "queued", "running")


@dataclass(frozen=True)
class Run:
    """One run."""

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
    made: int
    ended: int
    folder: Path

    @property
    def publishes(self) -> bool:
        """Whether anything of it may be published."""
        return any(find_action(step["action"]).publishes for step in self.steps)

    @property
    def out(self) -> Path:
        """What the study writes."""
        return self.folder / "out"

    @property
    def public(self) -> Path:
        """What may be published; of a simulation nothing may."""
        return self.out / ("simulated" if self.simulated else "public")

    def report(self, *, public: bool) -> Path:
        """The page of a finished run, whole or without its private parts."""
        if not public:
            return self.out / "report.html"
        return self.public / ("simulated-report.html" if self.simulated else "report.html")

    def public_files(self) -> list[Path]:
        """Everything that may be published, sorted."""
        return sorted(path for path in self.public.rglob("*") if path.is_file()) if self.public.is_dir() else []

    def private_files(self) -> list[Path]:
        """What is for whoever ran the study alone (the journal and kept outcomes left out)."""
        private = self.out / "private"
        hidden = {"outcome.json", "journal.json", "lock", "report.json", "study.toml"}
        return sorted(path for path in private.rglob("*") if path.is_file() and path.name not in hidden)


def _run(house: House, row: Any) -> Run:
    values = {
        name: getattr(row, name) for name in ("id", "owner", "title", "state", "study", "problem", "made", "ended")
    }
    content, check = json.loads(row.content), json.loads(row.check or "{}")
    return Run(
        **values,
        simulated=bool(row.simulated),
        shared=bool(row.shared),
        steps=content["steps"],
        check=check,
        folder=house.runs / row.id,
    )


def listed(house: House, asker: Asker, most: int = 100) -> list[Run]:
    """The runs that somebody may see, the newest first: their own, and those that were shown to everybody."""
    query = select(runs).order_by(desc(runs.c.made)).limit(most)
    if not asker.sees_all:
        query = query.where((runs.c.owner == asker.id) | (runs.c.shared == 1))
    with house.database.reading() as connection:
        return [_run(house, row) for row in connection.execute(query)]


def owns(asker: Asker, run: Run) -> bool:
    """Whether somebody sees the whole of a run, not only what may be published."""
    return asker.sees_all or (asker.may("analyst") and run.owner == asker.id)


def find(house: House, asker: Asker, run: str) -> Run:
    """One run. Of other people's runs only those that were shown are there, and of these only the public part."""
    with house.database.reading() as connection:
        row = connection.execute(select(runs).where(runs.c.id == run)).first()
    found = None if row is None else _run(house, row)
    if found is None or not (owns(asker, found) or found.shared):
        raise NotFound("there is no such run")
    return found


def own(house: House, asker: Asker, run: str) -> Run:
    """One run of which everything may be seen and done."""
    found = find(house, asker, run)
    if not owns(asker, found):
        raise NotFound("there is no such run, or only its public part is yours to see")
    return found


def draft(
    house: House, asker: Asker, title: str, steps: Sequence[Mapping[str, Any]], *, simulated: bool = False
) -> str:
    """Write a study for some steps, and have it checked; the run's id. Nothing is spent."""
    named = " ".join(title.split()) or "A study from the console"
    if len(named) > 120 or not on_one_line(named):
        raise BadInput("title", got=Verbatim("another title"), want="a title of at most 120 characters on one line")
    made = new_id()
    text = study_text(house, asker, named, steps, seed=int(made[:6], 16) if simulated else None)
    write_text(house.runs / made / "study.toml", text, private=True)
    with house.database.writing("take") as connection:
        now = database_time(connection)
        content = json.dumps({"steps": list(steps)}, ensure_ascii=False)
        row = {"id": made, "owner": asker.id, "title": named, "state": "checking", "simulated": int(simulated)}
        connection.execute(
            insert(runs).values(**row, shared=0, content=content, study=text, check="", problem="", made=now, ended=0)
        )
        house.note(connection, asker.id, "drafted a run", made)
        enqueue(connection, "check", made)
    return made


def start(house: House, asker: Asker, run: str) -> None:
    """Start a draft that was checked. A second start of the same draft is refused."""
    found = own(house, asker, run)
    with house.database.writing("take") as connection:
        begun = update(runs).where(runs.c.id == run, runs.c.state == "ready").values(state="queued")
        if connection.execute(begun).rowcount != 1:
            raise Conflict(f"this run is {STATES[found.state]}: it cannot be started again")
        house.note(connection, asker.id, "started a run", run)
        enqueue(connection, "run", run)


def show(house: House, asker: Asker, run: str, *, shared: bool) -> None:
    """Let readers and other analysts see what may be published of a run, or no longer."""
    found = own(house, asker, run)
    if found.simulated or found.state != "done":
        raise Conflict("only what is done, and no simulation, can be shown")
    with house.database.writing("take") as connection:
        connection.execute(update(runs).where(runs.c.id == run).values(shared=int(shared)))
        house.note(connection, asker.id, "showed a run to readers" if shared else "hid a run from readers", run)


def check_again(house: House, asker: Asker, run: str) -> None:
    """Check a draft once more, for instance after an account was filled or a file mended."""
    found = own(house, asker, run)
    with house.database.writing("take") as connection:
        again = update(runs).where(runs.c.id == run, runs.c.state.in_(("ready", "refused"))).values(state="checking")
        if connection.execute(again).rowcount != 1:
            raise Conflict(f"this run is {STATES[found.state]}")
        enqueue(connection, "check", run)


def resume(house: House, asker: Asker, run: str) -> None:
    """Go on with a run that failed half way; what it paid for already is not paid again."""
    found = own(house, asker, run)
    with house.database.writing("take") as connection:
        again = update(runs).where(runs.c.id == run, runs.c.state == "failed").values(state="queued", problem="")
        if connection.execute(again).rowcount != 1:
            raise Conflict(f"this run is {STATES[found.state]}")
        house.note(connection, asker.id, "resumed a run", run)
        enqueue(connection, "run", run)


def drop(house: House, asker: Asker, run: str) -> None:
    """Throw away a draft. What was carried out stays."""
    found = own(house, asker, run)
    with house.database.writing("take") as connection:
        gone = delete(runs).where(runs.c.id == run, runs.c.state.in_(("ready", "refused")))
        if connection.execute(gone).rowcount != 1:
            raise Conflict(f"this run is {STATES[found.state]}: only drafts can be thrown away")
        house.note(connection, asker.id, "threw a draft away", run)
    shutil.rmtree(found.folder, ignore_errors=True)


def progress(house: House, run: Run) -> tuple[float, str]:
    """How far a run is."""
    kind = "check" if run.state == "checking" else "run"
    with house.database.reading() as connection:
        return progress_of(connection, kind, run.id) or (0.0, "")


def done_before(house: House, asker: Asker, run: Run) -> list[Run]:
    """Finished runs that released the same from the same files: a further release tells more about the same people."""
    released = {(step["action"], step["data"]) for step in run.steps if find_action(step["action"]).spends}
    return [
        other
        for other in listed(house, asker, 1000)
        if other.state == "done"
        and not other.simulated
        and released & {(step["action"], step["data"]) for step in other.steps}
    ]


def everything_done(house: House, asker: Asker) -> str:
    """All finished runs of somebody, in the order in which they were made, as one study file.

    Runs whose files were removed since cannot be repeated; a comment names them.
    """
    steps: list[Mapping[str, Any]] = []
    gone = []
    for run in reversed(listed(house, asker, most=10_000)):
        if run.state != "done" or run.simulated or not owns(asker, run):
            continue
        try:
            study_text(house, asker, run.title, run.steps)
        except (BadInput, NotFound):
            gone.append(f"# Not here, since its data were removed: {run.title}")
        else:
            steps += run.steps
    if not steps:
        raise NotFound("nothing was carried out yet that could be repeated")
    return "\n".join([study_text(house, asker, "Everything that was done in the console", steps), *gone])


def public_zip(run: Run) -> bytes:
    """Everything that may be published, in one file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in run.public_files():
            archive.write(path, path.relative_to(run.public))
    return buffer.getvalue()


def set_state(connection: Any, run: str, state: str, **values: Any) -> None:
    """For workers: what became of a run."""
    connection.execute(update(runs).where(runs.c.id == run).values(state=state, **values))
