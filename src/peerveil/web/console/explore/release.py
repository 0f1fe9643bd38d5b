"""Exploring the release room: what an epsilon buys for reviewers' means, from the public side of the conference."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.core.errors import BadInput
from peerveil.data import Reviews, synthetic_conference
from peerveil.release import PublicScores, plan_release
from peerveil.release.weights import WEIGHTS
from peerveil.web.console.explore.drawing import Curve, attack_figure, draw_curves
from peerveil.web.console.explore.exploration import Control, Exploration, Figure
from peerveil.web.console.explore.smoothing import falling
from peerveil.web.console.explore.words import EPSILON_HELP, EPSILONS, SMOOTHED, attack, right_at_most

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_TRIALS: Final = 10
_MODERATE, _STRONG = 0.5, 1.0  # how strongly reviewers differ
_LARGEST: Final = 2.0  # beyond it, summaries call people weakly protected at best: never recommended
_FAR: Final = 2.0  # means three times as wide as by chance: beyond that a percentage says little
_NOUNS: Final = {
    "rating": "mean score",
    "miscalibration": "strictness",
    "normalized": "mean normalized score",
    "subjectivity": "mean subjectivity",
}
_WHAT: Final = "which of two people wrote which of two reviews"
_BUILT_IN: Final = (
    "Computed from an invented conference of 200 papers: nobody in it exists. With a file of reviews it is computed from "
    "that file's public side."
)
_FROM_FILE: Final = (
    "Computed from what is taken for public in this file: the scores that each paper received ({papers:,} papers, "
    "{reviews:,} reviews), without who gave them, and how many reviews each of {reviewers:,} people wrote. Who wrote what was "
    "not looked at.{criteria} The scale from {low:g} to {high:g} is what was seen: please check it against the form."
)
_CRITERIA: Final = (
    " Normalized scores and subjectivity also take the scores on criteria for public: do not publish these two if the "
    "criteria are not."
)


def public_facts(table: Reviews | None) -> dict[str, Any]:
    """Scores by paper and loads, in an order that tells nothing: papers are sorted by what they received."""
    reviews = synthetic_conference(seed=0).reviews if table is None else Reviews.of(table, "reviews")
    reviews.require_reviewers("exploring a release of reviewers' means")
    low, high = (float(f(reviews.scores)) for f in (np.min, np.max))
    scale = (low, high) if low < high else None
    sides = {name: PublicScores.of(reviews, weight=name, scale=scale) for name in WEIGHTS[:2]}
    for name in WEIGHTS[2:] if reviews.criteria else ():
        with suppress(BadInput):  # criteria that say nothing of the paper, such as confidence alone
            sides[name] = PublicScores.of(reviews, weight=name, scale=scale)
    return {
        "built_in": table is None,
        "scale": [low, high],
        "loads": sides["rating"].loads.tolist(),
        "weights": {
            name: {"papers": sorted(part.tolist() for part in side.paper_weights), "bounds": list(side.bounds)}
            for name, side in sides.items()
        },
    }


def simulate(facts: Mapping[str, Any], progress: Callable[[float], None]) -> dict[str, Any]:
    """A plan for every weight."""
    plans = {}
    for done, (name, side) in enumerate(facts["weights"].items()):
        progress(done / len(facts["weights"]))
        public = PublicScores(side["papers"], facts["loads"], bounds=tuple(side["bounds"]))
        plan = plan_release(
            public, epsilons=EPSILONS, weight=name, leniency=(_MODERATE, _STRONG), trials=_TRIALS, progress=False
        )
        plans[name] = {
            "published": {f"{d:g}": falling(_column(plan.rows, d, "shrinkage")) for d in (_MODERATE, _STRONG)},
            "public": {f"{d:g}": _column(plan.rows, d, "expectation") for d in (_MODERATE, _STRONG)},
            "worthwhile": {f"{d:g}": None if e is None else _nearest(e) for d, e in plan.worthwhile.items()},
            "noticed": {_nearest(e): float(share) for e, share in plan.noticed.items()},
            "advice": replace(plan, noticed={}).recommendation,
        }
    loads = np.array(facts["loads"])
    return {
        "built_in": facts["built_in"],
        "scale": facts["scale"],
        "papers": len(facts["weights"]["rating"]["papers"]),
        "reviews": int(loads.sum()),
        "reviewers": int(loads.size),
        "typical": int(np.median(loads)),
        "plans": plans,
    }


def controls(simulation: Mapping[str, Any]) -> tuple[Control, ...]:
    """Epsilon, and which weight."""
    return (
        Control("epsilon", "Epsilon, for who wrote one review", EPSILONS, "1", EPSILON_HELP),
        Control(
            "weight",
            "What of a review is averaged",
            tuple(simulation["plans"]),
            "miscalibration",
            "miscalibration: how strict, beside the paper's other reviewers; rating: the score; normalized and subjectivity: "
            "by the scores on criteria.",
            "choice",
        ),
    )


def explore(simulation: Mapping[str, Any], chosen: Mapping[str, str]) -> Exploration:
    """What one epsilon means for one weight."""
    epsilon, weight = chosen["epsilon"], chosen["weight"]
    plan, place, noun = simulation["plans"][weight], EPSILONS.index(chosen["epsilon"]), _NOUNS[chosen["weight"]]
    half = Fraction(1, 2)
    right = right_at_most(epsilon, half)
    published, public = (plan[side][f"{_MODERATE:g}"] for side in ("published", "public"))
    off, without = published[place], public[place]
    gain = 1 - off / without if without > 0 else 0.0
    typical = simulation["typical"]
    facts = [
        ("Attack success", f"at most {right} times in 100 right about {_WHAT}; 50 times without the release"),
        ("Accuracy", f"a reviewer's {noun} is off by about {off:.2g} points; {without:.2g} by public data alone"),
        ("Cost", f"epsilon {epsilon} of the account, spent once"),
        ("Delay", "none: the release is made in one go"),
    ]
    if typical > 1:
        whole = str(typical * Fraction(epsilon))
        facts.insert(1, (
            f"Everything a typical person wrote ({typical} reviews)",
            f"at most {right_at_most(whole, half)} times in 100 right, between two cases",
        ))  # fmt: skip
    if epsilon in plan["noticed"]:
        facts.append(("What can be noticed", _noticed(plan["noticed"][epsilon])))
    sentences = (
        f"With epsilon {epsilon} a published {noun} is off by about {off:.2g} points if reviewers differ moderately, "
        f"{_against(gain)}.",
        attack(_WHAT, "50", right) + " This attacker knows the author of every other review.",
    )
    if gain >= 0.2:
        headline = f"Readers learn clearly more about reviewers' {noun} than public data tell"
    elif gain >= 0.02:
        headline = f"Readers learn a little more about reviewers' {noun} than public data tell"
    else:
        headline = f"Readers learn hardly more about reviewers' {noun} than public data tell"
    best, reason = _recommend(plan)
    return Exploration(
        room="release",
        controls=controls(simulation),
        chosen=chosen,
        headline=f"{headline}, and a guess between two writers is right at most {right} times in 100 instead of 50.",
        facts=tuple(facts),
        sentences=sentences,
        figures=_figures(plan, epsilon, noun),
        recommended={"epsilon": best, "weight": weight},
        reason=reason,
        about=_about(simulation) + SMOOTHED,
        steps=(_step(simulation, epsilon, weight),),
    )


def _step(simulation: Mapping[str, Any], epsilon: str, weight: str) -> dict[str, Any]:
    step: dict[str, Any] = {"action": "release.publish", "epsilon": epsilon, "weight": weight}
    low, high = simulation["scale"]
    return {**step, "scale": [low, high]} if low < high else step


def _noticed(wider: float) -> str:
    if wider > _FAR:
        return "hardly anything: reviewers' means would have to be more than three times as wide as by chance"
    return f"that reviewers differ at all, if it spreads their means wider by at least {100 * wider:.0f}%"


def _against(gain: float) -> str:
    if gain < 0.02:
        return "no better than a guess from public data alone"
    return f"{100 * gain:.0f}% less than by public data alone"


def _recommend(plan: Mapping[str, Any]) -> tuple[str, str]:
    for degree, how in ((_MODERATE, "moderately"), (_STRONG, "strongly")):
        found = plan["worthwhile"].get(f"{degree:g}")
        if found is not None and float(found) > _LARGEST:
            return "1", (
                f"Only from epsilon {found} on would it say clearly more than public data, if reviewers differ {how}; above "
                f"{_LARGEST:g} hardly anybody is protected. We would not publish this."
            )
        if found is not None:
            return found, (
                f"Epsilon {found} is the smallest tried that says clearly more than public data if reviewers differ {how}. "
                f"{plan['advice']}"
            )
    return (
        "1",
        f"No epsilon up to 10 says clearly more than public data here: we would not publish this. {plan['advice']}",
    )


def _figures(plan: Mapping[str, Any], epsilon: str, noun: str) -> tuple[Figure, ...]:
    moderate, strong = f"{_MODERATE:g}", f"{_STRONG:g}"
    curves = [
        Curve("published,\nif they differ moderately", tuple(plan["published"][moderate])),
        Curve("public data alone", tuple(plan["public"][moderate]), dashed=True),
        Curve("published,\nif they differ strongly", tuple(plan["published"][strong]), "good"),
        Curve("public data alone", tuple(plan["public"][strong]), "good", dashed=True),
    ]
    errors = draw_curves(
        EPSILONS,
        epsilon,
        curves,
        across="epsilon",
        up=f"error of {noun}",
        alt=f"Expected error of a reviewer's {noun} against epsilon, published and by public data alone.",
    )
    return (
        Figure(errors, f"How far off a reviewer's {noun} is, in points. Lower is more exact."),
        attack_figure(epsilon, Fraction(1, 2), _WHAT),
    )


def _about(simulation: Mapping[str, Any]) -> str:
    if simulation["built_in"]:
        return _BUILT_IN
    low, high = simulation["scale"]
    criteria = _CRITERIA if len(simulation["plans"]) > 2 else ""
    return _FROM_FILE.format(**{**simulation, "low": low, "high": high, "criteria": criteria})


def _column(rows: Any, degree: float, name: str) -> list[float]:
    return [float(getattr(row, name)) for row in sorted(rows, key=lambda r: r.epsilon) if row.leniency == degree]


def _nearest(epsilon: float) -> str:
    """The slider's own spelling of an epsilon."""
    return min(EPSILONS, key=lambda one: abs(float(one) - epsilon))
