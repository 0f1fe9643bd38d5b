"""Exploring the calibration room: what hiding the writer costs in wrong decisions, on an invented conference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from peerveil.calibration import Conference, Threshold, fit_miscalibration
from peerveil.calibration.plan import plan_conference
from peerveil.data import synthetic_conference
from peerveil.web.console.explore.drawing import Curve, draw_curves
from peerveil.web.console.explore.exploration import Control, Exploration, Figure
from peerveil.web.console.explore.words import attack, in_hundred

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ASKED: Final = ("0", "0.2", "0.4", "0.5", "0.6", "0.7", "0.8")
ACCEPTED: Final = ("0.1", "0.15", "0.2", "0.25", "0.33", "0.5")
SIZES: Final = ("2", "3", "5")
_ALL: Final = 1.0  # asking for this buys all that the scores leave
_DRAWS: Final = 4  # credible functions of each reviewer
_ENOUGH: Final = 0.9  # of the protection that can be had
_WHAT: Final = "who wrote a review, once the decisions are out"
_ABOUT: Final = (
    "Computed on an invented conference of 120 papers and its invented past, from which strictness was learned: nobody in them "
    "exists. Nothing of your files was used, so expect other numbers, and the same shape. The step also asks for a past "
    "conference of yours."
)


def public_facts(table: object) -> dict[str, Any]:  # noqa: ARG001
    """None: the conference is invented."""
    return {}


def simulate(facts: Mapping[str, Any], progress: Callable[[float], None]) -> dict[str, Any]:  # noqa: ARG001
    """The trade-off of an invented conference, for every share of accepted papers and every size of groups."""
    past, now = (synthetic_conference(120, 90, seed=seed, people_seed=7).reviews for seed in (1, 2))
    fit = fit_miscalibration(past, iterations=600)
    functions = fit.functions(now.frame["reviewer"].unique().sort().to_list(), draws=_DRAWS)
    asked = [float(one) for one in ASKED] + [_ALL]
    found: dict[str, Any] = {}
    settings = [(accepted, size) for accepted in ACCEPTED for size in SIZES]
    for done, (accepted, size) in enumerate(settings):
        progress(done / len(settings))
        line = Threshold.share(float(accepted))
        conference = Conference(now, functions=functions, noise=fit.noise, accept=line, group_size=int(size))
        tradeoff = plan_conference(conference, demands=asked, progress=False)
        found[f"{accepted} {size}"] = {
            "wrong": tradeoff.conference_error.tolist(),
            "right": (1 - tradeoff.adversary_error).tolist(),
        }
    return {"tradeoffs": found, "papers": 120}


def controls(simulation: Mapping[str, Any]) -> tuple[Control, ...]:  # noqa: ARG001
    """What is asked, how many are accepted, and how many committees could have been exchanged."""
    return (
        Control(
            "adversary_error",
            "How often a guess of the writer shall be wrong",
            ASKED,
            "0.5",
            "The share of guesses of a review's writer that shall be wrong. Where the scores alone give the writer away, no "
            "decision can hide it.",
        ),
        Control(
            "accepted", "Share of papers to accept", ACCEPTED, "0.25", "The quota: 0.25 accepts every fourth paper."
        ),
        Control(
            "group_size",
            "Papers whose committees could have been exchanged",
            SIZES,
            "5",
            "The more papers form a group, the more people come into question as writers of a review.",
        ),
    )


def explore(simulation: Mapping[str, Any], chosen: Mapping[str, str]) -> Exploration:
    """What asking for one error of the adversary means."""
    asked, accepted, size = chosen["adversary_error"], chosen["accepted"], chosen["group_size"]
    tradeoff, place = simulation["tradeoffs"][f"{accepted} {size}"], ASKED.index(chosen["adversary_error"])
    wrong, right = tradeoff["wrong"], tradeoff["right"]
    now, then, least = (in_hundred(right[i]) for i in (0, place, -1))
    errors, usual = in_hundred(wrong[place]), in_hundred(wrong[0])
    best = _recommend(right)
    return Exploration(
        room="calibration",
        controls=controls(simulation),
        chosen=chosen,
        headline=f"The best guess of a review's writer is right about {then} times in 100 instead of {now}, and {errors} "
        f"papers in 100 land on the wrong side of the line instead of {usual}.",
        facts=(
            ("Attack success", f"about {then} times in 100 right about {_WHAT}; {now} without protection"),
            ("From scores alone", f"{least} times in 100: no decision can hide more"),
            ("Accuracy", f"{errors} papers in 100 on the wrong side of the line; {usual} without protection"),
            ("Cost", f"{_extra(wrong[place] - wrong[0], simulation['papers'])}; nothing of a budget is spent"),
            ("Delay", "none: all papers are decided in one go, once"),
        ),
        sentences=(
            f"Asking that a guess be wrong {in_hundred(float(asked))} times in 100 costs "
            f"{_extra(wrong[place] - wrong[0], simulation['papers'])}.",
            attack(_WHAT + ",", now, then, most=False)
            + f" From the scores alone it would be right {least} times. These are averages over reviews; each review is "
            "protected as asked, or as far as its own scores allow.",
        ),
        figures=_figures(right, wrong, asked),
        recommended={**chosen, "adversary_error": best},
        reason=_reason(best, right, wrong),
        about=_ABOUT,
        steps=(
            {
                "action": "calibration.decide",
                "adversary_error": float(asked),
                "accepted": float(accepted),
                "group_size": int(size),
            },
        ),
    )


def _extra(more: float, papers: int) -> str:
    """What protection adds to the errors of the conference, in words."""
    if 1000 * more < 0.5:
        return "less than one further wrong decision in 1,000"
    return f"about {1000 * more:.0f} further wrong decisions in 1,000 (this conference has {papers})"


def _recommend(right: list[float]) -> str:
    """The least demand that brings nearly all that can be had."""
    most = right[0] - right[-1]
    enough = [one for one, now in zip(ASKED, right, strict=False) if right[0] - now >= _ENOUGH * most - 1e-12]
    return enough[0] if enough else ASKED[-1]


def _reason(best: str, right: list[float], wrong: list[float]) -> str:
    if right[0] - right[-1] < 0.005:
        return "Here decisions give hardly anything away beyond what the scores do, so asking for more buys nothing."
    place = ASKED.index(best)
    share = 100 * (right[0] - right[place]) / (right[0] - right[-1])
    return (
        f"Asking for {best} brings {share:.0f}% of the protection that can be had here, for "
        f"{_extra(wrong[place] - wrong[0], 120)}; asking for more brings hardly anything."
    )


def _figures(right: list[float], wrong: list[float], asked: str) -> tuple[Figure, ...]:
    count = len(ASKED)
    guesses = draw_curves(
        ASKED,
        asked,
        [
            Curve("after the decisions", tuple(100 * one for one in right[:count]), "leak"),
            Curve("without protection", (100 * right[0],) * count, "truth", dashed=True),
            Curve("from scores alone", (100 * right[-1],) * count, "good", dashed=True),
        ],
        across="asked: how often a guess shall be wrong",
        up="right in 100 guesses",
        high=104,
        alt="How often in 100 the best guess of a review's writer is right, against what is asked.",
    )
    errors = draw_curves(
        ASKED,
        asked,
        [
            Curve("with protection", tuple(100 * one for one in wrong[:count])),
            Curve("without protection", (100 * wrong[0],) * count, "truth", dashed=True),
        ],
        across="asked: how often a guess shall be wrong",
        up="wrong papers in 100",
        alt="How many papers in 100 land on the wrong side of the line, against what is asked.",
    )
    return (
        Figure(guesses, "How often the best guess of a review's writer is right, on average over reviews."),
        Figure(errors, "How many papers land on the wrong side of the line."),
    )
