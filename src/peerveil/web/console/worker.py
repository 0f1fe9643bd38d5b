"""The worker processes of a console: one for file inspection and checks, one for simulations, one for runs.

``python -m peerveil.web.console.worker QUEUE``, started by the server, with the console's settings in the environment. A worker
ends when the server is gone, after its current job.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any, Final

from pydantic import TypeAdapter
from sqlalchemy import Connection, Row

from peerveil.core.errors import PeerveilError
from peerveil.core.exact import printed
from peerveil.ledger import BudgetExceeded
from peerveil.study import Study, check_study, run_study
from peerveil.web.common import Journal
from peerveil.web.common.serving import end_processes
from peerveil.web.console import explore, files, jobs, simulations
from peerveil.web.console.app import ConsoleApp, ConsoleSettings
from peerveil.web.console.limits import admit
from peerveil.web.console.runs import set_state

VARIABLE: Final = "PEERVEIL_CONSOLE_SETTINGS"
_SETTINGS: Final = TypeAdapter(ConsoleSettings)
_PAUSE_SECONDS: Final = 0.15
_FIRST: Final = {"runs": ("runs", "checks"), "simulations": ("simulations",)}
"""Queues whose jobs start a process: a check is usually followed by a run."""
StoreResult = Callable[[Connection], None]
INTERNAL: Final = "an internal error ({}); the server's journal has the details"


class Stopped(BaseException):
    """The server is stopping; the current job continues when it is started again."""


class JobWorker:
    """Does the jobs of a queue, one after another."""

    def __init__(self, app: ConsoleApp, queue: str, journal: Journal) -> None:
        self.app, self.queue, self.journal = app, queue, journal

    def work(self) -> bool:
        """Do the next job; whether there was one."""
        job = jobs.claim(self.app, self.queue)
        if job is None:
            return False
        try:
            store = self._outcome(job)
            with self.app.writing() as connection:
                store(connection)
                jobs.finish(connection, job)
        except Stopped:
            jobs.put_back(self.app, job)
            raise
        return True

    def _outcome(self, job: Row[Any]) -> StoreResult:
        """Do a job; what stores its result, or why there is none."""
        try:
            if job.attempts <= jobs.MAX_ATTEMPTS:
                result: StoreResult = getattr(self, f"_{job.kind}")(job)
                return result
            reason = f"its process died {jobs.MAX_ATTEMPTS} times; perhaps memory ran out"
        except BudgetExceeded as error:
            reason = _over_budget(error)
        except PeerveilError as error:
            reason = str(error)
        except Exception as error:  # whatever it was: the page must say so, and the queue must continue
            self.journal.error("job", error, reason=job.kind)
            reason = INTERNAL.format(type(error).__name__)
        if job.kind == "inspect":
            return partial(files.store_inspection, file=job.subject, inspection={"refused": reason})
        if job.kind == "simulate":
            return partial(simulations.store, key=job.subject, content=json.dumps({"failed": reason}))
        return partial(set_state, run=job.subject, state="refused" if job.kind == "check" else "failed", problem=reason)

    def _file(self, name: str) -> files.DataFile | None:
        """A file that is not too large, unless it was removed meanwhile."""
        file = files.by_id(self.app, name)
        if file is not None:
            admit(file.path, self.app.settings)
        return file

    def _inspect(self, job: Row[Any]) -> StoreResult:
        file = self._file(job.subject)
        inspection = {} if file is None else files.inspect(file)
        return partial(files.store_inspection, file=job.subject, inspection=inspection)

    def _check(self, job: Row[Any]) -> StoreResult:
        checked = check_study(self._study(job))
        costs = {
            name: {"amount": printed(amount, "up"), "remaining": printed(checked.remaining[name], "down")}
            for name, amount in checked.spends.items()
        }
        steps = [
            {
                **dict(zip(("name", "does", "spends", "output"), row, strict=True)),
                "guarantee": "" if step.guarantee is None else str(step.guarantee),
                "short": "" if step.guarantee is None else step.guarantee.short,
                "cautions": step.action.cautions(step.inputs),
            }
            for row, step in zip(checked.rows(), checked.planned, strict=True)
        ]
        return partial(set_state, run=job.subject, state="ready", check={"spends": costs, "steps": steps}, problem="")

    def _study(self, job: Row[Any]) -> Study:
        """The study of a run. Its ledger is the console's, which the file omits where the address has a password."""
        study = Study.read(self.app.runs_folder / job.subject / "study.toml")
        for file in study.data.values():  # one that stays where it is may have grown since it was inspected
            admit(file.path, self.app.settings)
        return replace(study, ledger=self.app.settings.ledger)

    def _run(self, job: Row[Any]) -> StoreResult:
        def on_step(done: int, total: int, name: str) -> None:
            jobs.advance(self.app, job, done / max(total, 1), name)

        with self.app.writing() as connection:
            set_state(connection, job.subject, "running")
        run_study(self._study(job), self.app.runs_folder / job.subject / "out", progress=False, on_step=on_step)
        return partial(set_state, run=job.subject, state="done", problem="")

    def _simulate(self, job: Row[Any]) -> StoreResult:
        module, _, source = job.subject.partition(":")
        file = self._file(source) if source else None
        table = None if file is None else file.read(explore.MODULES[module].kind)
        simulation = explore.simulate(module, table, lambda share: jobs.advance(self.app, job, share))
        return partial(simulations.store, key=job.subject, content=json.dumps(simulation, allow_nan=False))


def _over_budget(error: BudgetExceeded) -> str:
    return (
        f"The account {error.account!r} has {error.remaining:g} left, and this would spend {error.requested:g}. Nothing was "
        "spent. A budget is never refilled: what was published stays published, and every further release reveals more. "
        f"Choose an epsilon of at most {error.remaining:g}, omit a step, or run a simulation, which costs nothing."
    )


# ---- processes -------------------------------------------------------------------------------------------------------


class WorkerProcesses(threading.Thread):
    """The processes of all queues: started when there is work, and again when one dies.

    The process for checks is started at once, since the first thing that users do is to upload a file.
    """

    def __init__(self, app: ConsoleApp, journal: Journal) -> None:
        super().__init__(daemon=True)
        self._app, self._journal = app, journal
        self._stopping = threading.Event()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def run(self) -> None:
        """Watch over all queues; called by :meth:`start`."""
        pause_seconds = 0.0
        while not self._stopping.wait(pause_seconds):
            pause_seconds = 0.5
            try:
                for queue in sorted(set(jobs.QUEUES.values())):
                    self._ensure(queue)
            except (PeerveilError, OSError) as error:  # the database is away, or no process can be started: try again
                self._journal.error("workers", error)
                pause_seconds = 5.0

    def _ensure(self, queue: str) -> None:
        """Start a queue's process, if it is needed and not running."""
        process = self._processes.get(queue)
        if process is not None and process.poll() is None:
            return
        if queue in _FIRST and not jobs.waiting(self._app, *_FIRST[queue]):
            return
        if process is not None:
            self._journal.write("worker", level="warning", reason=queue, status=process.returncode)
        command = [sys.executable, "-m", "peerveil.web.console.worker", queue]
        # addresses of databases may contain passwords, so the settings are not arguments
        settings = {VARIABLE: _SETTINGS.dump_json(self._app.settings).decode()}
        self._processes[queue] = subprocess.Popen(  # noqa: S603
            command, env={**os.environ, **settings}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )

    def stop(self) -> None:
        """End all processes; a current run continues when the console is started again."""
        self._stopping.set()
        self.join(5)
        end_processes(self._processes.values(), 5)


def main(queue: str) -> int:
    """Work until the server is gone."""
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the server, which then stops its workers
    parent = os.getppid()
    os.nice(10 if queue == "simulations" else 0)
    settings = _SETTINGS.validate_json(os.environ[VARIABLE])
    try:
        with closing(ConsoleApp(settings)) as app, (settings.folder / f"{queue}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # a worker of an earlier server finishes its job first
            jobs.recover(app, queue)
            worker = JobWorker(app, queue, Journal("console"))
            while os.getppid() == parent:
                if not worker.work():
                    time.sleep(_PAUSE_SECONDS)
    except Stopped:
        pass
    return 0


def _stop(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough
    raise Stopped


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
