"""Exploring the timing room: what a delay costs, and what it hides, from closed forms and an invented log.

Who wrote what is all that an events log holds, so nothing of a log is used here, not even its length.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.core.randomness import Randomness
from peerveil.data import synthetic_conference
from peerveil.timing import FollowUp, linkage_attack, optimal_attack, post
from peerveil.timing.durations import in_words, parse_duration
from peerveil.web.console.explore.drawing import Curve, draw_curves
from peerveil.web.console.explore.exploration import Control, Exploration, Figure
from peerveil.web.console.explore.words import EPSILON_HELP, EPSILONS, attack, chance, in_hundred, right_at_most

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

GAPS: Final = ("20m", "30m", "45m", "1h", "2h", "4h", "8h")
WINDOWS: Final = ("1m", "5m", "15m")
TOLERATED: Final = ("10", "20", "25", "30", "40")
_DRAWS: Final = 4
_CUTS: Final = 60  # cut-offs that the attacker tries
_FOUND: Final = 0.5  # the attacker links as many posts as it takes to find half of the sittings
_PATIENCE: Final = 12 * 3600.0  # nobody should wait longer, where we recommend
_ABOUT: Final = (
    "Delays and promises are exact, from closed forms. Links between posts were counted on an invented log of a conference of "
    "120 papers: nobody in it exists. Nothing of your log was used: who posted when is private."
)


def public_facts(table: object) -> dict[str, Any]:  # noqa: ARG001
    """None: in a log everything is private, even its length."""
    return {}


def simulate(facts: Mapping[str, Any], progress: Callable[[float], None]) -> dict[str, Any]:  # noqa: ARG001
    """How many links by time are right on an invented log, before and after, for every setting."""
    log = synthetic_conference(papers=120, reviewers=90, seed=1).events
    before, after = {}, {}
    for window in WINDOWS:
        seconds = parse_duration(window, "window")
        before[window] = linkage_attack(log, window=seconds).precision_at(_FOUND)
        for number, gap in enumerate(GAPS):
            progress((WINDOWS.index(window) + number / len(GAPS)) / len(WINDOWS))
            after[f"{window} {gap}"] = [
                float(np.mean([_linked(log, epsilon, gap, window, seed) for seed in range(_DRAWS)]))
                for epsilon in EPSILONS
            ]
    crossover = [
        float(optimal_attack(_mechanism(e, "1h", "5m"), (0, 3600.0), order="known").crossover) for e in EPSILONS
    ]
    return {"before": before, "after": after, "crossover": crossover}


def _linked(log: Any, epsilon: str, gap: str, window: str, seed: int) -> float:
    """How many links are right, for the best cut-off that finds half of the sittings."""
    mechanism = _mechanism(epsilon, gap, window)
    schedule = post(log, mechanism=mechanism, randomness=Randomness.simulation(seed)).operator
    farthest = mechanism.max_delay + mechanism.window  # no two posts of one sitting appear farther apart
    return linkage_attack(schedule, thresholds=np.geomspace(1.0, farthest, _CUTS)).precision_at(_FOUND)


@lru_cache(maxsize=len(EPSILONS) * len(GAPS) * len(WINDOWS))
def _mechanism(epsilon: str, gap: str, window: str) -> FollowUp:
    return FollowUp(epsilon=epsilon, gap=parse_duration(gap, "gap"), window=parse_duration(window, "window"))


def controls(simulation: Mapping[str, Any]) -> tuple[Control, ...]:  # noqa: ARG001
    """Epsilon, gap, window, and the error that the attacker shall be left with."""
    return (
        Control("epsilon", "Epsilon, for two posts of one person", EPSILONS, "1", EPSILON_HELP),
        Control(
            "gap",
            "Gap",
            GAPS,
            "1h",
            "Two posts this far apart must look as if they could have been written together. The longer, the longer posts "
            "wait. Choose it from an earlier log, never from the one that is posted.",
        ),
        Control("window", "One sitting", WINDOWS, "5m", "Posts of one person this close were written in one sitting."),
        Control(
            "tolerated",
            "Errors the attacker must be left with",
            TOLERATED,
            "25",
            "In 100 tries, the best test shall be wrong at least so often, both ways. It only moves the recommendation; a coin "
            "is wrong 50 times.",
        ),
    )


def explore(simulation: Mapping[str, Any], chosen: Mapping[str, str]) -> Exploration:
    """What one delay means."""
    epsilon, gap, window = chosen["epsilon"], chosen["gap"], chosen["window"]
    mechanism, place = _mechanism(epsilon, gap, window), EPSILONS.index(epsilon)
    before, after = simulation["before"][window], simulation["after"][f"{window} {gap}"]
    right = right_at_most(epsilon, Fraction(1, 2))
    wrong = in_hundred(simulation["crossover"][place])
    waits = [_mechanism(one, gap, window) for one in EPSILONS]
    follow, other, longest = (
        in_words(seconds) for seconds in (mechanism.mean_batched, mechanism.mean_unbatched, mechanism.max_delay)
    )
    best, reason = _recommend(chosen)
    return Exploration(
        room="timing",
        controls=controls(simulation),
        chosen=chosen,
        headline=f"Posts wait {other} on average and never longer than {longest}; of the posts that an attacker links by time, "
        f"{in_hundred(after[place])} in 100 belong together instead of {in_hundred(before)}.",
        facts=(
            ("Delay of a post that follows another", f"{follow} on average"),
            ("Delay of any other post", f"{other} on average"),
            ("Longest delay", f"{longest}; a reply may wait longer for what it answers"),
            (
                "Attack success",
                f"{in_hundred(after[place])} in 100 links by time are right, {in_hundred(before)} today; whoever points at one "
                f"pair is right at most {right} times in 100",
            ),
            ("Cross-over error", f"the best test on one pair is wrong about {wrong} times in 100, both ways; a coin 50 times"),
            ("Cost", f"recorded with epsilon {epsilon} for each pair of posts; such promises do not add up to a budget"),
        ),
        sentences=(
            f"With epsilon {epsilon} and a gap of {gap} a post that follows another within {window} waits {follow} on average, "
            f"any other {other}, and accuracy is not touched: every post appears as it was written.",
            attack("which posts were written together, by how close they appear,", in_hundred(before), in_hundred(after[place]),
                   most=False),
            "The promise itself: if half of the pairs that an attacker looks at were written in one sitting, whoever points at "
            f"one is right at most {right} times in 100. It covers each pair by itself, where lone posts stand up to {gap} "
            "apart; whoever knows the order of posts within sittings but not otherwise can see up to twice the ratio.",
        ),
        figures=_figures(waits, epsilon, gap, before, after),
        recommended={**chosen, **best},
        reason=reason,
        about=_ABOUT,
        steps=(
            {"action": "timing.post", "epsilon": epsilon, "gap": gap, "window": window},
            {"action": "timing.audit", "window": window, "gap": gap, "epsilons": [epsilon]},
        ),
    )  # fmt: skip


def _recommend(chosen: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """The weakest promise that leaves the attacker the errors, and the longest gap for which nobody waits too long."""
    tolerated = int(chosen["tolerated"]) / 100
    enough = [one for one in EPSILONS if 1 - chance(one, Fraction(1, 2)) >= tolerated]
    epsilon = enough[-1] if enough else EPSILONS[0]
    patient = [gap for gap in GAPS if _mechanism(epsilon, gap, chosen["window"]).max_delay <= _PATIENCE]
    gap = patient[-1] if patient else GAPS[0]
    longest = in_words(_mechanism(epsilon, gap, chosen["window"]).max_delay)
    return {"epsilon": epsilon, "gap": gap}, (
        f"Epsilon {epsilon} is the largest offered under which every test that is wrong equally often both ways is wrong at "
        f"least {chosen['tolerated']} times in 100 (for posts within the gap), and {gap} is "
        + (f"the longest gap with which nobody waits longer than 12 hours (here {longest})." if patient
           else f"the shortest gap offered (nobody waits longer than {longest}).")
    )  # fmt: skip


def _figures(waits: list[FollowUp], epsilon: str, gap: str, before: float, after: list[float]) -> tuple[Figure, ...]:
    longest = max(one.max_delay for one in waits)
    unit, name = (3600.0, "hours") if longest >= 5400 else (60.0, "minutes")
    delays = draw_curves(
        EPSILONS,
        epsilon,
        [
            Curve("longest delay", tuple(one.max_delay / unit for one in waits), "truth", dashed=True),
            Curve(
                "a post that follows\nanother, on average", tuple(one.mean_batched / unit for one in waits), "accent"
            ),
            Curve("any other post,\non average", tuple(one.mean_unbatched / unit for one in waits)),
        ],
        across="epsilon",
        up=f"delay in {name}",
        alt=f"Delays in {name} against epsilon, for a gap of {gap}.",
    )
    links = draw_curves(
        EPSILONS,
        epsilon,
        [
            Curve("links by time,\nwith delays", tuple(100 * share for share in after), "leak"),
            Curve(
                "who points at one\npair, at most",
                tuple(100 * chance(one, Fraction(1, 2)) for one in EPSILONS),
                "accent",
            ),
            Curve("links by time, today", (100 * before,) * len(EPSILONS), "truth", dashed=True),
        ],
        across="epsilon",
        up="right in 100 links",
        high=104,
        alt="How many of 100 links between posts by time are right, against epsilon, with delays and today.",
    )
    return (
        Figure(delays, f"How long posts wait, for a gap of {gap}."),
        Figure(links, "Of the posts that an attacker links because they appear close together, how many belong together, on an "
               "invented log (as many are linked as it takes to find half of the sittings); and what the promise allows to "
               "anybody who points at one pair, if half of the pairs belong together."),
    )  # fmt: skip
