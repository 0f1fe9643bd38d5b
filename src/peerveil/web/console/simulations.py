"""Simulations that explorations are answered from: made once by a worker, kept, and read in a moment."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import delete, insert, select

from peerveil.web.console.jobs import enqueue, progress_of
from peerveil.web.console.schema import simulations

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy import Connection

    from peerveil.web.console.explore import Exploration
    from peerveil.web.console.house import House

KINDS: Final = {
    "release": "reviews",
    "timing": "events",
    "calibration": "reviews",
    "rankings": "rankings",
    "truth": "labels",
}
"""What each room reads."""
FROM_FILES: Final = ("release", "rankings", "truth")
"""Rooms whose exploration takes public facts of a file; the others only ever look at invented data."""


def subject(room: str, file: str) -> str:
    """What a simulation is kept under; without a file it is about invented data."""
    return f"{room}:{file if room in FROM_FILES else ''}"


def make(room: str, table: Any, progress: Callable[[float], None]) -> dict[str, Any]:
    """Simulate, from the public side of a table or from invented data."""
    from peerveil.web.console.explore import simulate, simulation_key

    return {"key": simulation_key(room, table), "simulation": simulate(room, table, progress)}


def keep(connection: Connection, of: str, content: Mapping[str, Any]) -> None:
    """Keep one for good."""
    connection.execute(delete(simulations).where(simulations.c.key == of))
    text = json.dumps(content, allow_nan=False)
    connection.execute(insert(simulations).values(key=of, room=of.partition(":")[0], content=text))


def forget(connection: Connection, file: str) -> None:
    """Whatever was simulated from a file is no longer true."""
    connection.execute(delete(simulations).where(simulations.c.key.in_([f"{room}:{file}" for room in FROM_FILES])))


def ready(house: House, room: str, file: str) -> str | None:
    """The text of a simulation; if there is none yet, it is asked for, and None is returned."""
    of = subject(room, file)
    with house.database.reading() as connection:
        found = connection.execute(select(simulations.c.content).where(simulations.c.key == of)).scalar_one_or_none()
    if found is not None and not _current(found):
        again(house, room, file)
        found = None
    if found is None:
        with house.database.writing("take") as connection:
            enqueue(connection, "simulate", of)
    return found


def _current(text: str) -> bool:
    """Whether a simulation is one that this version of peerveil can show."""
    from peerveil.web.console.explore import VERSION

    found = parsed(text)
    return "failed" in found or found["simulation"].get("version") == VERSION


def again(house: House, room: str, file: str) -> None:
    """Throw a failed simulation away, so that it is made anew."""
    with house.database.writing("take") as connection:
        connection.execute(delete(simulations).where(simulations.c.key == subject(room, file)))


def progress(house: House, room: str, file: str) -> float:
    """How far it is, from 0 to 1."""
    with house.database.reading() as connection:
        found = progress_of(connection, "simulate", subject(room, file))
    return 0.0 if found is None else found[0]


@lru_cache(maxsize=16)
def parsed(text: str) -> dict[str, Any]:
    """A simulation, read once for many questions."""
    return dict(json.loads(text))


@lru_cache(maxsize=512)
def answer(room: str, text: str, choices: tuple[tuple[str, str], ...]) -> Exploration:
    """An exploration, drawn once for each setting."""
    from peerveil.web.console.explore import explore

    return explore(room, parsed(text)["simulation"], dict(choices))
