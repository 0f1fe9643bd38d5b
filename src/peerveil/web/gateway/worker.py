"""The worker: releases what is due at every moment of the grid, forgets what is no longer needed, calls webhooks.

Several workers may share a PostgreSQL database. A worker that dies loses nothing: what it had claimed is free again.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from peerveil.core.errors import PeerveilError
from peerveil.web.gateway.hooks import Deliveries
from peerveil.web.gateway.release import BATCH
from peerveil.web.gateway.watch import Halted

if TYPE_CHECKING:
    from peerveil.web.common import Journal
    from peerveil.web.gateway.core import Gateway

_CLEAN_EVERY: Final = 5_000_000  # microseconds
_LONGEST_SLEEP: Final = 1.0
_AFTER_TROUBLE: Final = 1.0
_WHILE_HALTED: Final = 5.0


class Worker:
    """Runs in a thread beside a server, or in a process of its own."""

    def __init__(self, gateway: Gateway, journal: Journal, *, batch: int = BATCH) -> None:
        self._gateway = gateway
        self._journal = journal
        self._batch = batch
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._halted = False
        self._cleaned = 0
        self.deliveries = Deliveries(gateway, journal)

    def start(self) -> None:
        """Begin, in threads."""
        self._threads = [
            threading.Thread(target=self.run, name="release", daemon=True),
            threading.Thread(target=self.deliveries.run, args=(self._stop,), name="webhooks", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def alive(self) -> dict[str, bool]:
        """Of each thread whether it runs."""
        return {thread.name: thread.is_alive() for thread in self._threads}

    def stop(self) -> None:
        """Finish the transaction under way, and end."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._threads = []

    def run(self) -> None:
        """Release until stopped."""
        while not self._stop.is_set():
            try:
                pause = self.step()
                self._halted = False
            except Halted as halted:
                if not self._halted:
                    self._journal.write("halted", level="error", state=halted.kind, step_seconds=halted.step / 1e6)
                self._halted = True
                pause = _WHILE_HALTED
            except Exception as error:
                self._journal.error("release_failed" if isinstance(error, PeerveilError) else "release_broken", error)
                pause = _AFTER_TROUBLE
            self._stop.wait(pause)

    def step(self) -> float:
        """Release everything that is due now; the seconds until something may be due again."""
        gateway = self._gateway
        with gateway.recording_halts():
            every = list(gateway.spaces.values())
            with gateway.database.reading("release") as connection:
                now = gateway.watch.now(connection)
                due = gateway.release.due_spaces(connection, every, now)
            for space in due:
                while not self._stop.is_set():
                    with gateway.database.writing("release") as connection:
                        moment = gateway.watch.now(connection)
                        done = gateway.release.release(connection, space, moment, self._batch)
                        gateway.watch.keep(connection, moment)
                    if done.sealed:
                        self._journal.write("cannot_open", level="error", space=space.name, count=done.sealed)
                    if done.claimed < self._batch and not done.freed:
                        break  # nothing more, and no reply has become free
            if now - self._cleaned >= _CLEAN_EVERY or now < self._cleaned:
                self._cleaned = now
                with gateway.database.writing("release") as connection:
                    moment = gateway.watch.now(connection)
                    gateway.release.clean(connection, moment)
                    gateway.watch.keep(connection, moment)
            with gateway.database.reading("release") as connection:
                now = gateway.watch.now(connection)
        if not every:
            return _LONGEST_SLEEP
        until = min(space.grid_ticks - now % space.grid_ticks for space in every)
        return min(until / 1e6, _LONGEST_SLEEP)
