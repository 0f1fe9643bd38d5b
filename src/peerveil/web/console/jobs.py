"""Background jobs: one process per queue takes one job after another, so that pages always answer at once.

A queue's process holds the lock of its queue while it lives. Whoever gets the lock finds what a killed process left
unfinished and continues it: all jobs can be repeated (a run continues where it was, and debits nothing twice). A job
during which the process dies repeatedly is given up.
"""

from typing import Any, Final

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from peerveil.web.console.app import ConsoleApp
from peerveil.web.console.schema import jobs

QUEUES: Final = {"inspect": "checks", "check": "checks", "simulate": "simulations", "run": "runs"}
"""The queue of each kind of job: short ones share a queue, each kind of long one has its own."""
MAX_ATTEMPTS: Final = 3
"""How often a job is started before it is given up."""


def enqueue(connection: Connection, kind: str, subject: str) -> None:
    """Add a job to its queue, unless it is there already."""
    if progress_of(connection, kind, subject) is None:
        row = {"queue": QUEUES[kind], "kind": kind, "subject": subject, "state": "queued", "attempts": 0}
        connection.execute(insert(jobs).values(**row, progress=0.0, message=""))


def progress_of(connection: Connection, kind: str, subject: str) -> tuple[float, str] | None:
    """The progress of a job (from 0 to 1) and its message; None if there is no such job."""
    query = select(jobs.c.progress, jobs.c.message).where(jobs.c.kind == kind, jobs.c.subject == subject)
    row = connection.execute(query).first()
    return None if row is None else (float(row.progress), str(row.message))


def waiting(app: ConsoleApp, *queues: str, state: str | None = None) -> bool:
    """Whether any job (with ``state``: in that state) is left in some queues."""
    query = select(jobs.c.number).where(jobs.c.queue.in_(queues))
    return app.database.first(query if state is None else query.where(jobs.c.state == state)) is not None


def recover(app: ConsoleApp, queue: str) -> None:
    """Put back what a process that died had started. Only for the holder of the queue's lock."""
    with app.database.writing("open") as connection:
        connection.execute(update(jobs).where(jobs.c.queue == queue).values(state="queued"))


def claim(app: ConsoleApp, queue: str) -> Row[Any] | None:
    """The next job of a queue, a row that is marked as started."""
    if not waiting(app, queue, state="queued"):  # reading is cheaper than a transaction, and usually there is none
        return None
    oldest = select(func.min(jobs.c.number)).where(jobs.c.queue == queue, jobs.c.state == "queued").scalar_subquery()
    started = update(jobs).where(jobs.c.number == oldest).values(state="working", attempts=jobs.c.attempts + 1)
    with app.writing() as connection:
        return connection.execute(started.returning(jobs)).first()


def put_back(app: ConsoleApp, job: Row[Any]) -> None:
    """Leave a job to the next process, as if it had not been started."""
    _change(app, job, state="queued", attempts=job.attempts - 1)


def advance(app: ConsoleApp, job: Row[Any], progress: float, message: str = "") -> None:
    """Record the progress of a job."""
    _change(app, job, progress=min(max(progress, 0.0), 1.0), message=message[:200])


def _change(app: ConsoleApp, job: Row[Any], **values: Any) -> None:
    with app.writing() as connection:
        connection.execute(update(jobs).where(jobs.c.number == job.number).values(**values))


def finish(connection: Connection, job: Row[Any]) -> None:
    """Remove a job, in the transaction that stores its result."""
    connection.execute(delete(jobs).where(jobs.c.number == job.number))
