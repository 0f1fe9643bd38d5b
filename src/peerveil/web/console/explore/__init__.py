"""Explore before spending: change a setting, and see accuracy, delay, attack success and cost change at once.

- :func:`simulate`: everything that takes time, for all values of all controls, as JSON values to be stored;
- :func:`explore`: what one setting means, from a simulation, as an :class:`Exploration`.

Each module is a file with its ``CONTROLS`` and the functions ``simulate(facts, progress)`` and ``explore(simulation, chosen)``;
where public facts of a file are used, also ``public_facts(table)``. A simulation may change values or defaults of controls.

**Nothing private goes in.** ``public_facts`` is the only function that receives a table. Simulations are functions of what it
returns, and explorations are functions of simulations. :attr:`Exploration.about` says what counts as public.
"""

from dataclasses import replace
from importlib import import_module
from typing import Any, Final, NamedTuple

from peerveil.core.errors import BadInput, Verbatim, one_of
from peerveil.web.console.explore.common import Control, Exploration, Progress, Values, draw

VERSION: Final = 4
"""Of the simulations: increase it when one changes, so that stored ones are made anew."""

__all__ = ["MODULES", "Control", "Exploration", "Module", "explore", "public_facts", "simulate"]


class Module(NamedTuple):
    """A module as pages present it; ``from_file`` if its exploration uses public facts of a file, not only synthetic data."""

    title: str
    about: str
    kind: str
    from_file: bool


MODULES: Final = {
    "release": Module("Release", "Publish reviewer statistics with differential privacy.", "reviews", True),
    "timing": Module("Timing", "Measure what posting times reveal, and delay posts to hide it.", "events", False),
    "calibration": Module(
        "Calibration",
        "Accept papers corrected for reviewer bias, without revealing authors of reviews.",
        "reviews",
        False,
    ),
    "rankings": Module("Rankings", "Test whether rankings agree, with a private p-value.", "rankings", True),
    "truth": Module("Truth", "Infer correct labels from randomized answers.", "labels", True),
}
"""The five modules."""


def simulate(module: str, table: Any | None, progress: Progress = float) -> dict[str, Any]:
    """Everything that takes time, for all values of all controls, as JSON values.

    Parameters
    ----------
    table
        Data, of which only public facts are used; ``None`` for synthetic data.
    progress
        Called with the completed share, from 0 to 1.
    """
    results = _explorer(module).simulate(public_facts(module, table), progress)
    return {"module": module, "version": VERSION, **results}


def public_facts(module: str, table: Any | None) -> Values:
    """All of a table that a simulation depends on; nothing, where only synthetic data are used."""
    facts: Values = _explorer(module).public_facts(table) if MODULES[module].from_file else {}
    return facts


def explore(module: str, simulation: Values, choices: Values) -> Exploration:
    """What a setting means. Controls without a choice are at their defaults; unknown names are ignored.

    Raises
    ------
    BadInput
        A value that a control does not offer, or the simulation of another module or version.
    """
    explorer = _explorer(module)
    if (simulation.get("module"), simulation.get("version")) != (module, VERSION):
        want = f"what simulate({module!r}, ...) of this version returns"
        raise BadInput("simulation", got=Verbatim(f"one of {simulation.get('module')}"), want=want)
    changes = simulation.get("controls", {})
    controls = tuple(replace(control, **changes.get(control.name, {})) for control in explorer.CONTROLS)
    chosen = {c.name: one_of(choices.get(c.name, c.default), c.name, c.values) for c in controls}
    answer: Exploration = explorer.explore(simulation, chosen)
    return replace(
        answer,
        module=module,
        controls=controls,
        chosen=chosen,
        recommended={**chosen, **answer.recommended},
        figures=tuple(draw(chart, controls[0], chosen[controls[0].name]) for chart in answer.charts),
    )


def _explorer(module: str) -> Any:
    return import_module(f"peerveil.web.console.explore.{one_of(module, 'module', MODULES)}")
