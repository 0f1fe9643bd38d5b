"""Exploring rankings: how often agreement would be detected, from how many rankings of how many items there are."""

from fractions import Fraction
from typing import Any, Final

import numpy as np

from peerveil.core.errors import BadInput
from peerveil.data import Rankings
from peerveil.rankings import power_of
from peerveil.rankings.plan import pair_bias
from peerveil.web.console.explore import common
from peerveil.web.console.explore.common import Attack, Chart, Control, Exploration, Progress, Series, Values

LEVELS: Final = ("0.01", "0.05", "0.1")
AGREEMENTS: Final = ("51", "52", "55", "60")
_PRIOR: Final = Fraction(1, 10)  # an attacker's guess today
_TRIALS: Final = 24
_QUICK: Final = 50_000  # rankings times squared items, beyond which only the quickest test is simulated
_MOST: Final = 100_000  # ranks in one simulated data set
_POWER: Final = 0.8
_TARGET: Final = "one person's ranking"
CONTROLS: Final = (
    common.epsilon_control("Epsilon, for one person's ranking"),
    Control(
        "level", "Level", LEVELS, "0.05", "How often purely random rankings may be mistaken for agreement: 0.05 is 5%."
    ),
    Control(
        "agreement",
        "Agreement (%)",
        AGREEMENTS,
        "55",
        "The percentage of item pairs that a person ranks as most people do; 50 is chance. This is an assumption: the rankings "
        "are not read for it.",
    ),
)


def public_facts(table: Rankings | None) -> dict[str, Any]:
    """How many rankings there are, of how many items, and whether all are complete."""
    if table is None:
        return {"built_in": True, "rankings": 200, "items": 10, "complete": True}
    table = Rankings.of(table, "table")
    if table.total < 2 or len(table.items) < 2:
        raise BadInput("table", got=repr(table), want="at least 2 rankings of at least 2 items")
    counts = {"rankings": int(table.total), "items": len(table.items), "complete": bool(table.is_complete)}
    return {"built_in": False, **counts}


def simulate(facts: Values, progress: Progress) -> dict[str, Any]:
    """Power for every epsilon, level and agreement."""
    items = facts["items"]
    people = min(facts["rankings"], max(2, _MOST // items))
    method = "auto" if facts["complete"] and people * items**2 <= _QUICK else "rank-norm"

    def power(level: str, agreement: str) -> list[float]:
        setting: dict[str, Any] = {"spread": spread_of(items, int(agreement) / 100), "level": float(level)}
        plans = [
            power_of(method, rankings=people, items=items, epsilon=epsilon, trials=_TRIALS, **setting)
            for epsilon in common.EPSILONS
        ]
        return common.rising([plan.power for plan in plans])

    return {**facts, "simulated": people, "power": common.sweep(progress, power, LEVELS, AGREEMENTS)}


def spread_of(items: int, agreement: float) -> float:
    """The spread of a Mallows model under which this share of item pairs is in the common order.

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


def explore(simulation: Values, chosen: Values) -> Exploration:
    """What one epsilon and one level mean."""
    epsilon, level, agreement = chosen["epsilon"], chosen["level"], chosen["agreement"]
    powers = simulation["power"]
    after, power = common.success_percent(epsilon, _PRIOR), powers[f"{level} {agreement}"]
    detected, alarms = common.percent(power[common.EPSILONS.index(epsilon)]), common.percent(float(level))
    people = simulation["rankings"]
    best = common.first_epsilon(share >= _POWER for share in power)
    return Exploration(
        headline=f"If {people:,} people agree on {agreement}% of item pairs, the test detects it {detected} of the time, and "
        f"an attacker who is correct 10% of the time about somebody's ranking is correct at most {after} of the time.",
        attack=Attack(_TARGET, "10%", after, note="This holds even if the attacker knows everybody else's ranking."),
        facts=(
            ("Power", f"{detected}, if people agree on {agreement}% of item pairs"),
            ("False alarms", f"{alarms}, if rankings are purely random"),
            ("Cost", f"epsilon {epsilon} of the account, spent once"),
            ("Delay", "none: one test, one result"),
        ),
        charts=(
            Chart.of(
                "How often the test detects that people agree, by how strongly they do.",
                "detected (%)",
                *(
                    Series(
                        f"agreement {value}%",
                        powers[f"{level} {value}"],
                        "private" if value == agreement else "good",
                        dashed=value != agreement,
                    )
                    for value in AGREEMENTS
                ),
                Series("random rankings", float(level), "truth", dashed=True),
            ),
            common.success_chart(_PRIOR, _TARGET),
        ),
        recommended={"epsilon": best or common.EPSILONS[-1]},
        reason=f"Epsilon {best} is the smallest offered that detects {agreement}% agreement with a power of at least 80%."
        if best
        else f"No epsilon offered detects {agreement}% agreement with a power of 80%: ask more people, or test for stronger "
        "agreement only. The largest offered comes closest.",
        about=_about(simulation) + common.SMOOTHED,
        steps=({"action": "rankings.test", "epsilon": epsilon, "level": float(level)},),
    )


def _about(simulation: Values) -> str:
    people, items, complete = simulation["rankings"], simulation["items"], simulation["complete"]
    if simulation["built_in"]:
        return f"Computed for {people:,} synthetic rankings of {items} items. With a file of rankings, its own numbers are used."
    text = (
        f"Computed from synthetic rankings, as many as the file has: {people:,} rankings of {items:,} items. These two numbers"
        f"{'' if complete else ', and that some rankings are incomplete,'} count as public; the rankings themselves were not "
        "read."
    )
    if simulation["simulated"] < people:
        text += f" Only {simulation['simulated']:,} rankings were simulated: with all of them the power is higher."
    if not complete:
        text += " The synthetic rankings are complete: with incomplete ones the power is lower."
    return text
