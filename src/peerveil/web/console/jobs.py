"""Work that waits: one process a lane takes one job after another, so that pages answer at once whatever is computed.

A lane's process holds the lock of its lane while it lives. Whoever gets the lock finds what a killed process left
under way and takes it up again: all jobs can be repeated (a run goes on where it was, and debits nothing twice). A job
under which the process dies again and again is given up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import delete, insert, select, update

from peerveil.web.console.schema import jobs

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from peerveil.web.console.house import House

LANES: Final = {"look": "desk", "check": "desk", "simulate": "simulations", "run": "runs"}
"""Which lane does what: quick work at the desk, all that is long in a lane of its own."""

MOST_ATTEMPTS: Final = 3
"""How often a job is begun before it is given up."""


@dataclass(frozen=True)
class Job:
    """Something to do."""

    number: int
    kind: str
    subject: str
    attempts: int


def enqueue(connection: Connection, kind: str, subject: str) -> None:
    """Put a job into its lane, unless it stands there already."""
    same = (jobs.c.kind == kind) & (jobs.c.subject == subject)
    if connection.execute(select(jobs.c.number).where(same)).first() is None:
        row = {"lane": LANES[kind], "kind": kind, "subject": subject, "state": "queued", "attempts": 0}
        connection.execute(insert(jobs).values(**row, progress=0.0, saying=""))


def progress_of(connection: Connection, kind: str, subject: str) -> tuple[float, str] | None:
    """How far a job is (from 0 to 1) and what it says; None if there is no such job."""
    query = select(jobs.c.progress, jobs.c.saying).where(jobs.c.kind == kind, jobs.c.subject == subject)
    row = connection.execute(query).first()
    return None if row is None else (float(row.progress), str(row.saying))


def waiting(house: House, lane: str) -> bool:
    """Whether anything is left to do in a lane."""
    with house.database.reading() as connection:
        return connection.execute(select(jobs.c.number).where(jobs.c.lane == lane)).first() is not None


def recover(house: House, lane: str) -> None:
    """Put back what a process that is gone had begun. Only for whoever holds the lane's lock."""
    with house.database.writing("open") as connection:
        connection.execute(update(jobs).where(jobs.c.lane == lane).values(state="queued"))


def claim(house: House, lane: str) -> Job | None:
    """The next job of a lane, marked as under way."""
    ready = (jobs.c.lane == lane) & (jobs.c.state == "queued")
    with house.database.reading() as connection:
        if connection.execute(select(jobs.c.number).where(ready)).first() is None:
            return None
    with house.database.writing("take") as connection:
        row = connection.execute(select(jobs).where(ready).order_by(jobs.c.number)).first()
        if row is None:
            return None
        begun = update(jobs).where(jobs.c.number == row.number).values(state="working", attempts=row.attempts + 1)
        connection.execute(begun)
    return Job(row.number, row.kind, row.subject, row.attempts + 1)


def put_back(house: House, job: Job) -> None:
    """Leave a job to the next process, as if it had not been begun."""
    with house.database.writing("take") as connection:
        begun = update(jobs).where(jobs.c.number == job.number)
        connection.execute(begun.values(state="queued", attempts=job.attempts - 1))


def say(house: House, job: Job, progress: float, saying: str = "") -> None:
    """How far it is."""
    with house.database.writing("take") as connection:
        values = {"progress": min(max(progress, 0.0), 1.0), "saying": saying[:200]}
        connection.execute(update(jobs).where(jobs.c.number == job.number).values(**values))


def finish(connection: Connection, job: Job) -> None:
    """Take a job out of its lane, in the transaction that keeps what came of it."""
    connection.execute(delete(jobs).where(jobs.c.number == job.number))
