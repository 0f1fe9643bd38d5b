"""Exploring timing: what a delay costs and what it hides, from closed forms and a synthetic log.

An events log consists of who wrote what, so nothing of a log is used here, not even its length.
"""

from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import numpy as np

from peerveil.core.randomness import Randomness
from peerveil.data import synthetic_conference
from peerveil.timing import FollowUp, linkage_attack, optimal_attack, post
from peerveil.timing.durations import in_words, parse_duration
from peerveil.web.console.explore import common
from peerveil.web.console.explore.common import Attack, Chart, Control, Exploration, Progress, Series, Values

GAPS: Final = ("20m", "30m", "45m", "1h", "2h", "4h", "8h")
WINDOWS: Final = ("1m", "5m", "15m")
TOLERATED: Final = ("10", "20", "25", "30", "40")
_PRIOR: Final = Fraction(1, 2)
_DRAWS: Final = 4
_THRESHOLDS: Final = 60  # that the attacker tries
_RECALL: Final = 0.5  # the attacker links as many posts as it takes to find half of the sittings
_PATIENCE_SECONDS: Final = 12 * 3600.0  # the longest delay that is recommended
_ABOUT: Final = (
    "Delays and guarantees are exact, from closed forms. Links between posts were counted on a synthetic log of a conference of "
    "120 papers. Your log was not used: who posted when is private."
)
CONTROLS: Final = (
    common.epsilon_control("Epsilon, for two posts of one person"),
    Control(
        "gap",
        "Gap",
        GAPS,
        "1h",
        "Two posts this far apart must look as if they could have been written together. A longer gap means longer delays. "
        "Choose it from an earlier log, never from the one that is posted.",
    ),
    Control("window", "Sitting", WINDOWS, "5m", "Posts of one person this close were written in one sitting."),
    Control(
        "tolerated",
        "Required error of the attacker (%)",
        TOLERATED,
        "25",
        "The best test must be wrong at least this often, both ways; a coin is wrong 50% of the time. This only changes the "
        "recommendation.",
    ),
)


def simulate(facts: Values, progress: Progress) -> dict[str, Any]:  # noqa: ARG001
    """The precision of links by time on a synthetic log, before and after, for every setting."""
    log = synthetic_conference(papers=120, reviewers=90, seed=1).events
    before = {
        window: linkage_attack(log, window=parse_duration(window, "window")).precision_at(_RECALL) for window in WINDOWS
    }

    def precision(epsilon: str, gap: str, window: str, seed: int) -> float:
        """With the best threshold that finds half of the sittings."""
        mechanism = _mechanism(epsilon, gap, window)
        schedule = post(log, mechanism=mechanism, randomness=Randomness.simulation(seed)).operator
        farthest = mechanism.max_delay + mechanism.window  # no two posts of one sitting appear farther apart
        return linkage_attack(schedule, thresholds=np.geomspace(1.0, farthest, _THRESHOLDS)).precision_at(_RECALL)

    def mean_precisions(window: str, gap: str) -> list[float]:
        return [
            float(np.mean([precision(epsilon, gap, window, seed) for seed in range(_DRAWS)]))
            for epsilon in common.EPSILONS
        ]

    crossover = [
        float(optimal_attack(_mechanism(e, "1h", "5m"), (0, 3600.0), order="known").crossover) for e in common.EPSILONS
    ]
    return {"before": before, "after": common.sweep(progress, mean_precisions, WINDOWS, GAPS), "crossover": crossover}


@lru_cache(maxsize=len(common.EPSILONS) * len(GAPS) * len(WINDOWS))
def _mechanism(epsilon: str, gap: str, window: str) -> FollowUp:
    return FollowUp(epsilon=epsilon, gap=parse_duration(gap, "gap"), window=parse_duration(window, "window"))


def explore(simulation: Values, chosen: Values) -> Exploration:
    """What one delay means."""
    epsilon, gap, window = chosen["epsilon"], chosen["gap"], chosen["window"]
    mechanism, place = _mechanism(epsilon, gap, window), common.EPSILONS.index(epsilon)
    precision_before, precisions = simulation["before"][window], simulation["after"][f"{window} {gap}"]
    before, after = common.percent(precision_before), common.percent(precisions[place])
    bound, error = common.success_percent(epsilon, _PRIOR), common.percent(simulation["crossover"][place])
    follow, other, longest = (
        in_words(seconds) for seconds in (mechanism.mean_batched, mechanism.mean_unbatched, mechanism.max_delay)
    )
    recommended, reason = _recommend(chosen)
    return Exploration(
        headline=f"Posts appear unchanged, and wait {other} on average and never longer than {longest}; {after} of the "
        f"links that an attacker draws by time are correct instead of {before}.",
        attack=Attack(
            "which posts were written together, from how close they appear",
            before,
            after,
            guaranteed=False,
            note="The guarantee itself: if half of the pairs that an attacker considers were written in one sitting, a guess "
            f"about one pair is correct at most {bound} of the time. It covers each pair by itself, for single posts up to "
            f"{gap} apart; an attacker who knows the order of posts within sittings but not otherwise can see up to twice the "
            "ratio.",
        ),
        facts=(
            ("Delay of a post that follows another", f"{follow} on average"),
            ("Delay of any other post", f"{other} on average"),
            ("Longest delay", f"{longest}; a reply may wait longer for the post that it answers"),
            (
                "Cross-over error",
                f"the best test on one pair is wrong about {error} of the time, both ways; a coin 50%",
            ),
            ("Cost", f"recorded with epsilon {epsilon} per pair of posts; such guarantees do not add up to a budget"),
        ),
        charts=(
            _delay_chart([_mechanism(value, gap, window) for value in common.EPSILONS], gap),
            Chart.of(
                "How many of the links that an attacker draws between posts close in time are correct, on a synthetic log (as "
                "many links as it takes to find half of the sittings); and the guaranteed bound for a guess about one pair, if "
                "half of the pairs were written together.",
                "correct links (%)",
                Series("links by time,\nwith delays", precisions, "leak"),
                Series("guess about one\npair, at most", common.success_curve(_PRIOR), "accent"),
                Series("links by time, today", precision_before, "truth", dashed=True),
            ),
        ),
        recommended=recommended,
        reason=reason,
        about=_ABOUT,
        steps=(
            {"action": "timing.post", "epsilon": epsilon, "gap": gap, "window": window},
            {"action": "timing.audit", "window": window, "gap": gap, "epsilons": [epsilon]},
        ),
    )


def _recommend(chosen: Values) -> tuple[dict[str, str], str]:
    """The weakest guarantee that leaves the attacker the required error, and the longest gap with acceptable delays."""
    required, window = int(chosen["tolerated"]) / 100, chosen["window"]
    enough = [value for value in common.EPSILONS if 1 - float(common.success_bound(value, _PRIOR)) >= required]
    epsilon = enough[-1] if enough else common.EPSILONS[0]
    patient = [gap for gap in GAPS if _mechanism(epsilon, gap, window).max_delay <= _PATIENCE_SECONDS]
    gap = patient[-1] if patient else GAPS[0]
    longest = in_words(_mechanism(epsilon, gap, window).max_delay)
    which = "the longest gap with delays of at most 12 hours" if patient else "the shortest gap offered"
    return {"epsilon": epsilon, "gap": gap}, (
        f"Epsilon {epsilon} is the largest offered under which every test that is wrong equally often both ways is wrong at "
        f"least {chosen['tolerated']}% of the time (for posts within the gap). {gap} is {which} (here at most {longest})."
    )


def _delay_chart(mechanisms: list[FollowUp], gap: str) -> Chart:
    hours = max(mechanism.max_delay for mechanism in mechanisms) >= 5400
    seconds, unit = (3600.0, "hours") if hours else (60.0, "minutes")
    return Chart.of(
        f"How long posts wait, for a gap of {gap}.",
        f"delay in {unit}",
        Series("longest delay", [each.max_delay / seconds for each in mechanisms], "truth", dashed=True),
        Series(
            "a post that follows\nanother, on average",
            [each.mean_batched / seconds for each in mechanisms],
            "accent",
        ),
        Series("any other post,\non average", [each.mean_unbatched / seconds for each in mechanisms]),
        percent=False,
    )
