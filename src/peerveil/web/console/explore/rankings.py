"""Exploring the rankings room: how often a signal would be found, from how many rankings of how many items there are."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.core.errors import BadInput
from peerveil.data import Rankings
from peerveil.rankings import power_of
from peerveil.rankings.plan import pair_bias
from peerveil.rankings.uniformity import TAKE_PARTIAL
from peerveil.web.console.explore.drawing import Curve, attack_figure, draw_curves
from peerveil.web.console.explore.exploration import Control, Exploration, Figure
from peerveil.web.console.explore.smoothing import rising
from peerveil.web.console.explore.words import (
    EPSILON_HELP,
    EPSILONS,
    SMOOTHED,
    attack,
    in_hundred,
    right_at_most,
    times,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LEVELS: Final = ("0.01", "0.05", "0.1")
AGREEMENT: Final = ("51", "52", "55", "60")
_INVENTED: Final = (200, 10)  # rankings, items
_TRIALS: Final = 24
_QUICK: Final = 50_000  # rankings times squared items, beyond which only the quickest test is simulated
_MOST: Final = 100_000  # ranks in one simulated data set
_WANTED: Final = 0.8
_WHAT: Final = "one person's ranking"


def public_facts(table: Rankings | None) -> dict[str, Any]:
    """How many rankings there are, of how many items, and whether all are complete."""
    if table is None:
        return {"built_in": True, "rankings": _INVENTED[0], "items": _INVENTED[1], "complete": True}
    if not isinstance(table, Rankings):
        raise BadInput("table", got=table, want="a table of rankings")
    if table.total < 2 or len(table.items) < 2:
        raise BadInput("table", got=repr(table), want="at least 2 rankings of at least 2 items")
    return {
        "built_in": False,
        "rankings": int(table.total),
        "items": len(table.items),
        "complete": bool(table.is_complete),
    }


def simulate(facts: Mapping[str, Any], progress: Callable[[float], None]) -> dict[str, Any]:
    """Power for every epsilon, level and agreement."""
    items = facts["items"]
    people = min(facts["rankings"], max(2, _MOST // items))
    method = "auto" if facts["complete"] and people * items**2 <= _QUICK else "rank-norm"
    found: dict[str, list[float]] = {}
    settings = [(level, agreement) for level in LEVELS for agreement in AGREEMENT]
    for done, (level, agreement) in enumerate(settings):
        progress(done / len(settings))
        spread = spread_of(items, int(agreement) / 100)
        found[f"{level} {agreement}"] = rising(
            [
                power_of(
                    method,
                    rankings=people,
                    items=items,
                    spread=spread,
                    epsilon=epsilon,
                    level=float(level),
                    trials=_TRIALS,
                ).power
                for epsilon in EPSILONS
            ]
        )
    return {**facts, "simulated": people, "power": found}


def spread_of(items: int, agreement: float) -> float:
    """The spread of a Mallows model under which this share of the pairs of items stands in the common order.

    >>> round(spread_of(2, 2 / 3), 6)  # 1/(1 + spread) = 2/3
    0.5
    """
    gaps = np.arange(1, items)
    weights = (items - gaps) / (items * (items - 1) / 2)
    low, high = 1e-6, 1 - 1e-9
    for _ in range(60):
        middle = (low + high) / 2
        share = float(weights @ (1 + pair_bias(middle, gaps))) / 2
        low, high = (middle, high) if share > agreement else (low, middle)
    return (low + high) / 2


def controls(simulation: Mapping[str, Any]) -> tuple[Control, ...]:  # noqa: ARG001
    """Epsilon, level, and how strongly people agree."""
    return (
        Control("epsilon", "Epsilon, for one person's ranking", EPSILONS, "1", EPSILON_HELP),
        Control(
            "level",
            "Level",
            LEVELS,
            "0.05",
            "How often rankings made by pure chance may be taken for a signal: 0.05 is 5 times in 100.",
        ),
        Control(
            "agreement",
            "How strongly people agree",
            AGREEMENT,
            "55",
            "Of 100 pairs of items, so many stand in a person's ranking as most people would have them; 50 is chance. An "
            "assumption: nobody looks at the rankings for it.",
        ),
    )


def explore(simulation: Mapping[str, Any], chosen: Mapping[str, str]) -> Exploration:
    """What one epsilon and one level mean."""
    epsilon, level, agreement = chosen["epsilon"], chosen["level"], chosen["agreement"]
    power, place = simulation["power"][f"{level} {agreement}"], EPSILONS.index(chosen["epsilon"])
    today = Fraction(1, 10)
    right = right_at_most(epsilon, today)
    found, alarms = in_hundred(power[place]), in_hundred(float(level))
    people, items = simulation["rankings"], simulation["items"]
    best, reason = _recommend(power, agreement)
    step: dict[str, Any] = {"action": "rankings.test", "epsilon": epsilon, "level": float(level)}
    if not simulation["complete"]:
        step["method"] = TAKE_PARTIAL[0]
    return Exploration(
        room="rankings",
        controls=controls(simulation),
        chosen=chosen,
        headline=f"If {people:,} people agree on {agreement} in 100 pairs of items, the test notices it {found} times in 100, "
        f"and an attacker who is right 10 times in 100 about somebody's ranking is right at most {right} times.",
        facts=(
            ("Signal found", f"{found} times in 100, if people agree on {agreement} in 100 pairs of items"),
            ("False alarms", f"{times(alarms)} in 100, if there is no signal at all"),
            ("Attack success", f"at most {right} times in 100 right about {_WHAT}; 10 times without the test"),
            ("Cost", f"epsilon {epsilon} of the account, spent once"),
            ("Delay", "none: one test, one answer"),
        ),
        sentences=(
            f"With {people:,} rankings of {items:,} items and epsilon {epsilon} the signal is found {found} times in 100; "
            f"chance alone is taken for a signal {times(alarms)} in 100.",
            attack(_WHAT, "10", right) + " This holds even if the attacker knows everybody else's ranking.",
        ),
        figures=(_power_figure(simulation, chosen), attack_figure(epsilon, today, _WHAT)),
        recommended={**chosen, "epsilon": best},
        reason=reason,
        about=_about(simulation) + SMOOTHED,
        steps=(step,),
    )


def _recommend(power: list[float], agreement: str) -> tuple[str, str]:
    enough = [one for one, found in zip(EPSILONS, power, strict=True) if found >= _WANTED]
    if enough:
        return enough[0], (
            f"Epsilon {enough[0]} is the smallest offered that finds an agreement on {agreement} in 100 pairs at least 80 "
            "times in 100."
        )
    return EPSILONS[-1], (
        f"No epsilon offered finds an agreement on {agreement} in 100 pairs 80 times in 100: ask more people, or look only for "
        "stronger agreement. The largest offered comes closest."
    )


def _power_figure(simulation: Mapping[str, Any], chosen: Mapping[str, str]) -> Figure:
    level, agreement, count = chosen["level"], chosen["agreement"], len(EPSILONS)
    curves = [
        Curve(
            f"agreement {one} in 100",
            tuple(100 * share for share in simulation["power"][f"{level} {one}"]),
            "private" if one == agreement else "good",
            dashed=one != agreement,
        )
        for one in AGREEMENT
    ]
    curves.append(Curve("no signal at all", (100 * float(level),) * count, "truth", dashed=True))
    drawing = draw_curves(
        EPSILONS,
        chosen["epsilon"],
        curves,
        across="epsilon",
        up="found in 100 tests",
        high=104,
        alt=f"How often in 100 a signal is found at level {level}, against epsilon, for several strengths of agreement.",
    )
    return Figure(drawing, "How often the test finds that people agree, by how strongly they do.")


def _about(simulation: Mapping[str, Any]) -> str:
    people, items, simulated = simulation["rankings"], simulation["items"], simulation["simulated"]
    if simulation["built_in"]:
        return (
            f"Computed for {people:,} invented rankings of {items} items: nobody behind them exists. With a file of rankings "
            "it is computed for as many as that has."
        )
    text = (
        f"Computed from invented rankings, as many as the file has: {people:,} rankings of {items:,} items. These two numbers"
        f"{'' if simulation['complete'] else ', and that some rankings are incomplete,'} are taken for public; the rankings "
        "themselves were not looked at."
    )
    if simulated < people:
        text += f" Only {simulated:,} rankings were simulated: with all of them the test finds more."
    if not simulation["complete"]:
        text += " The invented rankings are complete: with incomplete ones the test finds less."
    return text
