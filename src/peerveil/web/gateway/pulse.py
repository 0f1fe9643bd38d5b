"""Signs of life: each process writes every few seconds which of its background threads run, and ``doctor`` reads it.

A thread that has died is named by ``/healthz`` of its own process at once, and by ``peerveil gateway doctor`` from any
machine. A process that was killed falls silent, and doctor says so unless another one does the same work.
"""

from __future__ import annotations

import secrets
import threading
from typing import TYPE_CHECKING, Final

from sqlalchemy import delete, select
from sqlalchemy.dialects import postgresql, sqlite

from peerveil.web.common.clock import SECOND
from peerveil.web.gateway.tables import beats

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy import Connection

    from peerveil.web.common import Journal
    from peerveil.web.gateway.core import Gateway

EVERY: Final = 5.0
SILENT: Final = 60 * SECOND
"""Microseconds without a sign of life after which a part counts as dead."""
_KEPT: Final = 3600 * SECOND
PARTS: Final = {"release": "peerveil gateway serve, or work", "webhooks": "peerveil gateway serve, or work",
                "intake": "peerveil gateway serve"}  # fmt: skip
"""What runs in the background, and how it is started."""


class Pulse:
    """Writes the signs of life of one process. ``parts`` says of each part whether its thread is alive."""

    def __init__(self, gateway: Gateway, journal: Journal, parts: Callable[[], Mapping[str, bool]]) -> None:
        self._gateway = gateway
        self._journal = journal
        self._parts = parts
        self._process = secrets.token_hex(8)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)
        self._known_dead: set[str] = set()

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """Say that this process ends on purpose. Call it while the threads still run."""
        self._stop.set()
        self._thread.join()

    def dead(self) -> list[str]:
        """The parts of this process that should run and do not."""
        parts = {**self._parts(), "pulse": self._thread.is_alive()}
        return sorted(name for name, alive in parts.items() if not alive)

    def _run(self) -> None:
        while True:
            stopping = self._stop.is_set()
            try:
                self._beat(stopping)
            except Exception as error:  # the database is away: others see that we are silent
                self._journal.error("pulse_failed", error)
            if stopping:
                return
            self._stop.wait(EVERY)

    def _beat(self, stopping: bool) -> None:
        parts = self._parts()
        for name in sorted(name for name, alive in parts.items() if not alive and name not in self._known_dead):
            self._known_dead.add(name)
            self._journal.write("part_dead", level="error", reason=name)
        with self._gateway.database.writing("beat") as connection:
            now = self._gateway.watch.source(connection)
            insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
            row = insert(beats)
            row = row.on_conflict_do_update(
                index_elements=["part", "process"], set_={"state": row.excluded.state, "at": row.excluded.at}
            )
            states = {
                name: ("stopped" if stopping else "running") if alive else "dead" for name, alive in parts.items()
            }
            values = [
                {"part": name, "process": self._process, "state": state, "at": now} for name, state in states.items()
            ]
            connection.execute(row, values)
            connection.execute(delete(beats).where(beats.c.at < now - _KEPT))


def signs_of_life(connection: Connection, now: int) -> dict[str, tuple[str, int]]:
    """For each part that ever ran: ``running``, ``stopped``, ``dead`` or ``silent``, and the microseconds since."""
    found: dict[str, tuple[str, int]] = {}
    for part in PARTS:
        rows = connection.execute(select(beats).where(beats.c.part == part).order_by(beats.c.at.desc())).all()
        fresh = [row for row in rows if now - row.at <= SILENT and row.state != "stopped"]
        newest = next((row for row in fresh if row.state == "dead"), fresh[0] if fresh else rows[0] if rows else None)
        if newest is not None:
            silent = newest.state != "stopped" and now - newest.at > SILENT
            found[part] = ("silent" if silent else newest.state, max(0, now - newest.at))
    return found
