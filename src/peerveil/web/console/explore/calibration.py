"""Exploring calibration: what hiding the authors of reviews costs in wrong decisions, on a synthetic conference."""

from typing import Any, Final

from peerveil.calibration import Conference, Threshold, fit_miscalibration
from peerveil.calibration.plan import plan_conference
from peerveil.data import synthetic_conference
from peerveil.web.console.explore import common
from peerveil.web.console.explore.common import Attack, Chart, Control, Exploration, Progress, Series, Values

ERRORS: Final = ("0", "0.2", "0.4", "0.5", "0.6", "0.7", "0.8")
"""The adversary errors to choose from."""
ACCEPTED: Final = ("0.1", "0.15", "0.2", "0.25", "0.33", "0.5")
SIZES: Final = ("2", "3", "5")
_PAPERS: Final = 120
_DRAWS: Final = 4  # credible functions of each reviewer
_ENOUGH: Final = 0.9  # of the possible protection
_ABOUT: Final = (
    f"Computed on a synthetic conference of {_PAPERS} papers and its synthetic past, from which reviewer bias was learned. Your "
    "files were not used, so expect other numbers with the same pattern. The step also needs a past conference of yours."
)
CONTROLS: Final = (
    Control(
        "adversary_error",
        "Required adversary error",
        ERRORS,
        "0.5",
        "The share of guesses of a review's author that must be wrong. Where the scores alone reveal the author, no decision "
        "can hide it.",
    ),
    Control("accepted", "Share of papers to accept", ACCEPTED, "0.25", "The quota: 0.25 accepts one paper in four."),
    Control(
        "group_size",
        "Papers per group",
        SIZES,
        "5",
        "Papers whose committees could have been exchanged. Larger groups give each review more possible authors.",
    ),
)


def simulate(facts: Values, progress: Progress) -> dict[str, Any]:  # noqa: ARG001
    """The trade-off of a synthetic conference, for every quota and group size; the last demand is all that can be had."""
    past, now = (synthetic_conference(_PAPERS, 90, seed=seed, people_seed=7).reviews for seed in (1, 2))
    fit = fit_miscalibration(past, iterations=600)
    functions = fit.functions(now.frame["reviewer"].unique().sort().to_list(), draws=_DRAWS)
    demands = [*map(float, ERRORS), 1.0]

    def tradeoff(accepted: str, size: str) -> dict[str, list[float]]:
        line = Threshold.share(float(accepted))
        conference = Conference(now, functions=functions, noise=fit.noise, accept=line, group_size=int(size))
        plan = plan_conference(conference, demands=demands, progress=False)
        return {"wrong": plan.conference_error.tolist(), "guessed": (1 - plan.adversary_error).tolist()}

    return {"tradeoffs": common.sweep(progress, tradeoff, ACCEPTED, SIZES)}


def explore(simulation: Values, chosen: Values) -> Exploration:
    """What requiring one adversary error means."""
    demand, accepted, size = chosen["adversary_error"], chosen["accepted"], chosen["group_size"]
    tradeoff, place, count = simulation["tradeoffs"][f"{accepted} {size}"], ERRORS.index(demand), len(ERRORS)
    wrong, guessed = tradeoff["wrong"], tradeoff["guessed"]
    before, after, least = (common.percent(guessed[i]) for i in (0, place, -1))
    errors, usual = common.percent(wrong[place]), common.percent(wrong[0])
    cost = _extra(wrong[place] - wrong[0])
    settings = {"adversary_error": float(demand), "accepted": float(accepted), "group_size": int(size)}
    best, reason = _recommend(guessed, wrong)
    return Exploration(
        headline=f"The best guess of a review's author is correct {after} of the time instead of {before}, and {errors} of "
        f"papers get a wrong decision instead of {usual}.",
        attack=Attack(
            "who wrote a review, from the decisions",
            before,
            after,
            guaranteed=False,
            note=f"From the scores alone the attacker would be correct {least} of the time. These are averages over reviews; "
            "each review is protected as required, or as far as its own scores allow.",
        ),
        facts=(
            ("From scores alone", f"{least} correct: no decision can hide more"),
            ("Accuracy", f"{errors} of papers get a wrong decision; {usual} without protection"),
            ("Cost", f"{cost}; no budget is spent"),
            ("Delay", "none: all papers are decided at once"),
        ),
        charts=(
            Chart.of(
                "How often the best guess of a review's author is correct, on average over reviews.",
                "correct guesses (%)",
                Series("from the decisions", guessed[:count], "leak"),
                Series("without protection", guessed[0], "truth", dashed=True),
                Series("from scores alone", guessed[-1], "good", dashed=True),
            ),
            Chart.of(
                "Papers with a wrong decision, in percent.",
                "wrong decisions (%)",
                Series("with protection", [100 * share for share in wrong[:count]]),
                Series("without protection", 100 * wrong[0], "truth", dashed=True),
                percent=False,
            ),
        ),
        recommended={"adversary_error": best},
        reason=reason,
        about=_ABOUT,
        steps=({"action": "calibration.decide", **settings},),
    )


def _extra(share: float) -> str:
    """What protection adds to the wrong decisions, in words."""
    if 1000 * share < 0.5:
        return "less than one additional wrong decision per 1,000 papers"
    return f"about {1000 * share:.0f} additional wrong decisions per 1,000 papers (this conference has {_PAPERS})"


def _recommend(guessed: list[float], wrong: list[float]) -> tuple[str, str]:
    """The smallest demand that brings nearly all the protection that is possible."""
    possible = guessed[0] - guessed[-1]
    gains = [guessed[0] - share for share in guessed[: len(ERRORS)]]
    place = next((i for i, gain in enumerate(gains) if gain >= _ENOUGH * possible - 1e-12), len(ERRORS) - 1)
    if possible < 0.005:
        return ERRORS[place], "Here decisions reveal hardly more than the scores do, so a larger error gains nothing."
    return ERRORS[place], (
        f"An error of {ERRORS[place]} brings {100 * gains[place] / possible:.0f}% of the possible protection, for "
        f"{_extra(wrong[place] - wrong[0])}. A larger one gains hardly anything."
    )
