"""Explore before spending: move a setting, and see accuracy, delay, attack success and cost change at once.

Three functions, the same for every room:

- :func:`simulation_key`: what a simulation depends on, hashed;
- :func:`simulate`: everything that takes time, for all values of all controls, as JSON values to be kept;
- :func:`explore`: what one setting means, from a simulation, as an :class:`Exploration`.

**Nothing private goes in.** A room's ``public_facts`` is the only function that is given a table. Simulation and key are
functions of what it returns, and explorations are functions of simulations. What each room takes for public is said in
:attr:`Exploration.about`.
"""

from __future__ import annotations

import hashlib
import json
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from peerveil.core.errors import BadInput, Verbatim
from peerveil.web.console.explore.exploration import Control, Exploration, Figure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ROOMS: Final = ("release", "timing", "calibration", "rankings", "truth")

VERSION: Final = 2
"""Of the simulations: raise it when one changes, so that kept ones are made anew."""

__all__ = ["ROOMS", "Control", "Exploration", "Figure", "explore", "simulate", "simulation_key"]


def simulation_key(room: str, table: Any | None) -> str:
    """What a room's simulation depends on: public facts alone, hashed with the version of the simulation."""
    return _key(room, _room(room).public_facts(table))


def simulate(room: str, table: Any | None, progress: Callable[[float], None] | None = None) -> dict[str, Any]:
    """Everything that takes time, for all values of all controls, as JSON values.

    Parameters
    ----------
    table
        Judgments, of which only public facts are used; ``None`` for invented ones.
    progress
        Called with the share that is done, from 0 to 1.
    """
    module = _room(room)
    report = progress if progress is not None else _nobody
    facts = module.public_facts(table)
    report(0.0)
    found = module.simulate(facts, report)
    report(1.0)
    return {"room": room, "version": VERSION, "key": _key(room, facts), **found}


def explore(room: str, simulation: Mapping[str, Any], choices: Mapping[str, str]) -> Exploration:
    """What a setting means. What is not chosen is at its default; names that the room does not know are passed over.

    Raises
    ------
    BadInput
        A value that a control does not offer, or the simulation of another room or version.
    """
    module = _room(room)
    if simulation.get("room") != room or simulation.get("version") != VERSION:
        want = f"what simulate({room!r}, ...) of this version returns"
        raise BadInput("simulation", got=Verbatim(f"one of {simulation.get('room')}"), want=want)
    chosen = {
        control.name: control.read(choices.get(control.name, control.default))
        for control in module.controls(simulation)
    }
    found: Exploration = module.explore(simulation, MappingProxyType(chosen))
    return found


def _room(room: str) -> Any:
    if room not in ROOMS:
        raise BadInput("room", got=room, want=f"one of {', '.join(ROOMS)}")
    return import_module(f"peerveil.web.console.explore.{room}")


def _key(room: str, facts: Mapping[str, Any]) -> str:
    text = json.dumps([VERSION, room, facts], sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _nobody(share: float) -> None:
    """Nobody watches."""
