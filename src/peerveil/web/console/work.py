"""The processes beside the server: one for looking, checking and simulating, one for runs.

``python -m peerveil.web.console.work LANE``, started by the server, with the console's settings in the environment. A worker
ends when the server is gone, after the job it is at.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import select

from peerveil.core.errors import PeerveilError
from peerveil.ledger import BudgetExceeded
from peerveil.web.common import Journal, database_time
from peerveil.web.console import files, jobs, simulations
from peerveil.web.console.house import House, Settings
from peerveil.web.console.limits import admit
from peerveil.web.console.runs import set_state
from peerveil.web.console.schema import files as files_table

if TYPE_CHECKING:
    from peerveil.study import Study
    from peerveil.web.console.jobs import Job

VARIABLE: Final = "PEERVEIL_CONSOLE_SETTINGS"
_PAUSE: Final = 0.15
INTERNAL: Final = "an error in peerveil itself ({}); the server's journal has the place"


def environment(settings: Settings) -> dict[str, str]:
    """The environment of a worker; addresses of databases may hold passwords, so they are not arguments."""
    plain = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(settings).items()}
    return {**os.environ, VARIABLE: json.dumps(plain)}


def settings_from(text: str) -> Settings:
    """What :func:`environment` wrote."""
    plain = json.loads(text)
    for name in ("folder", "data_folder"):
        plain[name] = None if plain[name] is None else Path(plain[name])
    return Settings(**plain)


class Stopped(BaseException):
    """The server is going down; what is under way goes on when it is up again."""


class Worker:
    """Takes the jobs of a lane, one after another."""

    def __init__(self, house: House, lane: str, journal: Journal) -> None:
        self.house, self.lane, self.journal = house, lane, journal

    def work(self) -> bool:
        """Do the next job; whether there was one."""
        job = jobs.claim(self.house, self.lane)
        if job is None:
            return False
        try:
            if job.attempts > jobs.MOST_ATTEMPTS:
                self._give_up(job, f"the process that did it died {jobs.MOST_ATTEMPTS} times; perhaps memory ran out")
            else:
                getattr(self, f"_{job.kind}")(job)
        except Stopped:
            jobs.put_back(self.house, job)
            raise
        except BudgetExceeded as refusal:
            self._give_up(job, _kindly(refusal))
        except PeerveilError as error:
            self._give_up(job, str(error))
        except Exception as error:  # whatever it was: the page must say so, and the lane must go on
            self.journal.error("job", error, reason=job.kind)
            self._give_up(job, INTERNAL.format(type(error).__name__))
        return True

    def _give_up(self, job: Job, why: str) -> None:
        with self.house.database.writing("take") as connection:
            if job.kind == "look":
                files.seen(connection, job.subject, "bad", {"refused": why})
            elif job.kind in ("check", "run"):
                state = "refused" if job.kind == "check" else "failed"
                set_state(connection, job.subject, state, problem=why, ended=database_time(connection))
            elif job.kind == "simulate":
                simulations.keep(connection, job.subject, {"failed": why})
            jobs.finish(connection, job)

    def _look(self, job: Job) -> None:
        with self.house.database.reading() as connection:
            row = connection.execute(select(files_table).where(files_table.c.id == job.subject)).first()
        look = {}
        if row is not None:
            file = files.from_row(row)
            admit(file.path, self.house.settings)
            look = files.look_at(file)
        with self.house.database.writing("take") as connection:
            files.seen(connection, job.subject, "good" if look.get("tables") else "bad", look)
            jobs.finish(connection, job)

    def _check(self, job: Job) -> None:
        from peerveil.core.exact import printed
        from peerveil.study import check_study

        checked = check_study(self._study(job))
        spends = {
            name: {"amount": printed(amount, "up"), "remaining": printed(checked.remaining[name], "down")}
            for name, amount in checked.spends.items()
        }
        promises = [str(one.guarantee) if one.guarantee is not None else "" for one in checked.planned]
        short = [one.guarantee.short if one.guarantee is not None else "" for one in checked.planned]
        cautions = [one.action.cautions(one.inputs) for one in checked.planned]
        found = {
            "rows": checked.rows(),
            "spends": spends,
            "promises": promises,
            "short": short,
            "cautions": cautions,
        }
        with self.house.database.writing("take") as connection:
            set_state(connection, job.subject, "ready", check=json.dumps(found, ensure_ascii=False), problem="")
            jobs.finish(connection, job)

    def _study(self, job: Job) -> Study:
        """The study of a run. Its ledger is the console's, which the file does not name where that holds a password."""
        from peerveil.study import Study

        study = Study.read(self.house.runs / job.subject / "study.toml")
        for file in study.data.values():  # one that was pointed to may have grown since it was looked at
            admit(file.path, self.house.settings)
        return replace(study, ledger=self.house.settings.ledger)

    def _run(self, job: Job) -> None:
        from peerveil.study import run_study

        with self.house.database.writing("take") as connection:
            set_state(connection, job.subject, "running")
        folder = self.house.runs / job.subject

        def told(done: int, total: int, name: str) -> None:
            jobs.say(self.house, job, done / max(total, 1), name)

        run_study(self._study(job), folder / "out", progress=False, on_step=told)
        with self.house.database.writing("take") as connection:
            set_state(connection, job.subject, "done", ended=database_time(connection), problem="")
            jobs.finish(connection, job)

    def _simulate(self, job: Job) -> None:
        room, _, file = job.subject.partition(":")
        table = None
        if file:
            with self.house.database.reading() as connection:
                row = connection.execute(select(files_table).where(files_table.c.id == file)).first()
            if row is not None:
                admit(Path(row.path), self.house.settings)
                table = files.from_row(row).read(simulations.KINDS[room])
        made = simulations.make(room, table, lambda share: jobs.say(self.house, job, share))
        with self.house.database.writing("take") as connection:
            simulations.keep(connection, job.subject, made)
            jobs.finish(connection, job)


def _kindly(refusal: BudgetExceeded) -> str:
    return (
        f"The account {refusal.account!r} has {refusal.remaining:g} left, and this would take {refusal.requested:g}. Nothing "
        "was spent. A budget is never refilled: what was published stays published, and every further release adds to "
        f"what it gives away. You can choose an epsilon of at most {refusal.remaining:g}, leave a step out, or try it as a "
        "simulation, which costs nothing."
    )


def main(lane: str) -> int:
    """Work until the server is gone."""
    journal = Journal("console")
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the server, which then says so
    parent = os.getppid()
    os.nice(10 if lane == "simulations" else 0)
    settings = settings_from(os.environ[VARIABLE])
    try:
        with House(settings) as house, (settings.folder / f"{lane}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # a worker of an earlier server finishes its job first
            jobs.recover(house, lane)
            worker = Worker(house, lane, journal)
            while os.getppid() == parent:
                if not worker.work():
                    time.sleep(_PAUSE)
    except Stopped:
        pass
    return 0


def _stop(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough
    raise Stopped


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
