"""Simulations that explorations are answered from: made once by a worker, stored, and read in milliseconds."""

import json
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, delete, select

from peerveil.web.common.database import update_or_insert
from peerveil.web.console import explore
from peerveil.web.console.app import ConsoleApp
from peerveil.web.console.jobs import enqueue, progress_of
from peerveil.web.console.schema import simulations


def subject(module: str, file: str) -> str:
    """The key of a simulation; without a file it is about synthetic data."""
    return f"{module}:{file if explore.MODULES[module].from_file else ''}"


def store(connection: Connection, key: str, content: str) -> None:
    """Store a simulation, or why it failed, as JSON."""
    update_or_insert(connection, simulations, {"key": key}, {"content": content})


def forget_file(connection: Connection, file: str) -> None:
    """Delete what was simulated from a file, since it is no longer true."""
    keys = [subject(name, file) for name, module in explore.MODULES.items() if module.from_file]
    connection.execute(delete(simulations).where(simulations.c.key.in_(keys)))


def discard(app: ConsoleApp, module: str, file: str) -> None:
    """Delete a simulation, so that it is made anew."""
    with app.writing() as connection:
        connection.execute(delete(simulations).where(simulations.c.key == subject(module, file)))


def ready(app: ConsoleApp, module: str, file: str) -> str | None:
    """The text of a simulation; if there is none that this version can show, it is requested, and None is returned."""
    key = subject(module, file)
    row = app.database.first(select(simulations).where(simulations.c.key == key))
    if row is not None:
        content = parsed(row.content)
        if "failed" in content or content.get("version") == explore.VERSION:
            return str(row.content)
        discard(app, module, file)
    with app.writing() as connection:
        enqueue(connection, "simulate", key)
    return None


def progress(app: ConsoleApp, module: str, file: str) -> float:
    """The progress of a simulation, from 0 to 1."""
    with app.database.reading() as connection:
        return (progress_of(connection, "simulate", subject(module, file)) or (0.0, ""))[0]


@lru_cache(maxsize=16)
def parsed(text: str) -> dict[str, Any]:
    """A simulation, parsed once for many settings."""
    return dict(json.loads(text))


@lru_cache(maxsize=512)
def answer(module: str, text: str, choices: tuple[tuple[str, str], ...]) -> explore.Exploration:
    """An exploration, drawn once for each setting."""
    return explore.explore(module, parsed(text), dict(choices))
