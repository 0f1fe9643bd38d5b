"""Exploring a release: what an epsilon buys for reviewers' means, from the public side of the conference."""

from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

import numpy as np

from peerveil.core.errors import BadInput
from peerveil.data import Reviews, synthetic_conference
from peerveil.release import PublicScores, plan_release
from peerveil.release.weights import WEIGHTS
from peerveil.web.console.explore import common
from peerveil.web.console.explore.common import Attack, Chart, Control, Exploration, Progress, Series, Values

_TRIALS: Final = 20
_DEGREES: Final = ("moderately", "strongly")  # how far reviewers differ: 0.2 and 0.4 SDs of all weights, as plans do
_LARGEST: Final = 2.0  # summaries call people weakly protected at best above it: never recommended
_NOUNS: Final = {
    "rating": "mean score",
    "miscalibration": "strictness",
    "normalized": "mean normalized score",
    "subjectivity": "mean subjectivity",
}
_PRIOR: Final = Fraction(1, 2)
_TARGET: Final = "which of two people wrote which of two reviews"
_BUILT_IN: Final = (
    "Computed from a synthetic conference of 200 papers. With a file of reviews, that file's public side is used."
)
_FROM_FILE: Final = (
    "Computed from what counts as public in this file: the scores of each paper ({papers:,} papers, {reviews:,} reviews), "
    "without who gave them, and the number of reviews of each of {reviewers:,} people. Who wrote what was not read.{criteria} "
    "The scale from {low:g} to {high:g} is what the file contains: please check it against the review form."
)
_CRITERIA: Final = (
    " Normalized scores and subjectivity also treat the scores on criteria as public: do not publish these two if the criteria "
    "are not."
)
_GAINS: Final = ((0.2, "clearly more"), (0.02, "a little more"), (-np.inf, "hardly more"))
CONTROLS: Final = (
    common.epsilon_control("Epsilon, for the author of one review"),
    Control(
        "weight",
        "What is averaged per reviewer",
        WEIGHTS,
        "miscalibration",
        "miscalibration: strictness relative to the paper's other reviewers; rating: the score; normalized and subjectivity: "
        "based on the scores on criteria.",
        "choice",
    ),
)


def public_facts(table: Reviews | None) -> dict[str, Any]:
    """Scores by paper and review counts, in an order that reveals nothing: papers are sorted by their scores."""
    reviews = synthetic_conference(seed=0).reviews if table is None else Reviews.of(table, "reviews")
    reviews.require_reviewers("exploring a release of reviewers' means")
    low, high = (float(f(reviews.scores)) for f in (np.min, np.max))
    scale = (low, high) if low < high else None
    sides = {name: PublicScores.of(reviews, weight=name, scale=scale) for name in WEIGHTS[:2]}
    for name in WEIGHTS[2:] if reviews.criteria else ():
        with suppress(BadInput):  # criteria that do not rate the paper, such as confidence alone
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


def simulate(facts: Values, progress: Progress) -> dict[str, Any]:
    """A plan for every weight."""

    def plan_of(weight: str) -> dict[str, Any]:
        side = facts["weights"][weight]
        public = PublicScores(side["papers"], facts["loads"], bounds=tuple(side["bounds"]))
        plan = plan_release(public, epsilons=common.EPSILONS, weight=weight, trials=_TRIALS, progress=False)
        spreads = sorted({row.strictness for row in plan.rows})
        degrees = dict(zip(_DEGREES, (spreads[len(spreads) // 2], spreads[-1]), strict=True))
        rows = {
            name: sorted((row for row in plan.rows if row.strictness == sd), key=lambda row: row.epsilon)
            for name, sd in degrees.items()
        }
        worthwhile = {name: plan.worthwhile(sd) for name, sd in degrees.items()}
        return {
            "spread": degrees,
            "published": {name: common.falling([row.published for row in rows[name]]) for name in rows},
            "public": {name: [row.public for row in rows[name]] for name in rows},
            "worthwhile": {name: None if e is None else _nearest(e) for name, e in worthwhile.items()},
            "noticeable": {_nearest(e): sd for e, sd in plan.noticeable.items() if np.isfinite(sd)},
            "advice": replace(plan, noticeable={}).recommendation,
        }

    loads = np.array(facts["loads"])
    return {
        "built_in": facts["built_in"],
        "scale": facts["scale"],
        "papers": len(facts["weights"]["rating"]["papers"]),
        "reviews": int(loads.sum()),
        "reviewers": int(loads.size),
        "typical": int(np.median(loads)),
        "controls": {"weight": {"values": list(facts["weights"])}},
        "plans": common.sweep(progress, plan_of, facts["weights"]),
    }


def _nearest(epsilon: float) -> str:
    """The slider's own spelling of an epsilon."""
    return min(common.EPSILONS, key=lambda value: abs(float(value) - epsilon))


def explore(simulation: Values, chosen: Values) -> Exploration:
    """What one epsilon means for one weight."""
    epsilon, weight = chosen["epsilon"], chosen["weight"]
    plan, place, noun = simulation["plans"][weight], common.EPSILONS.index(epsilon), _NOUNS[weight]
    after = common.success_percent(epsilon, _PRIOR)
    error, expected = (plan[side][_DEGREES[0]][place] for side in ("published", "public"))
    gain = 1 - error / expected if expected > 0 else 0.0
    learned = next(words for least, words in _GAINS if gain >= least)
    typical, (low, high) = simulation["typical"], simulation["scale"]
    facts = [
        ("Accuracy", f"a reviewer's {noun} is off by about {error:.2g} points; {expected:.2g} from public data alone"),
        ("What would be noticed", _noticeable(plan["noticeable"].get(epsilon))),
        ("Cost", f"epsilon {epsilon} of the account, spent once"),
        ("Delay", "none: everything is released at once"),
    ]
    if typical > 1:
        total = common.success_percent(str(typical * Fraction(epsilon)), _PRIOR)
        facts.insert(0, (f"All {typical} reviews of a typical person", f"at most {total} correct, between two cases"))
    scale = {"scale": [low, high]} if low < high else {}
    best, reason = _recommend(plan)
    return Exploration(
        headline=f"Readers learn {learned} about reviewers' {noun} than from public data, and a guess between two authors is "
        f"correct at most {after} of the time instead of 50%.",
        attack=Attack(_TARGET, "50%", after, note="This attacker knows the author of every other review."),
        facts=tuple(facts),
        charts=(_error_chart(plan, noun), common.success_chart(_PRIOR, _TARGET)),
        recommended={"epsilon": best},
        reason=reason,
        about=(_BUILT_IN if simulation["built_in"] else _about_file(simulation)) + common.SMOOTHED,
        steps=({"action": "release.publish", "epsilon": epsilon, "weight": weight, **scale},),
    )


def _noticeable(spread: float | None) -> str:
    if spread is None:
        return "no difference between reviewers, however large"
    return f"that reviewers differ at all, if their strictness has a standard deviation of {spread:.2g} points or more"


def _recommend(plan: Values) -> tuple[str, str]:
    for how in _DEGREES:
        epsilon = plan["worthwhile"][how]
        differ = f"reviewers differ {how} (standard deviation {plan['spread'][how]:.2g} points)"
        if epsilon is not None and float(epsilon) > _LARGEST:
            return "1", (
                f"Publishing is not recommended: only from epsilon {epsilon} on would it tell more than public scores, if "
                f"{differ}, and above {_LARGEST:g} hardly anybody is protected."
            )
        if epsilon is not None:
            return epsilon, (
                f"Epsilon {epsilon} is the smallest tried that tells more than public scores if {differ}. {plan['advice']}"
            )
    return "1", f"Publishing is not recommended. {plan['advice']}"


def _error_chart(plan: Values, noun: str) -> Chart:
    return Chart.of(
        f"How far off a reviewer's {noun} is, in points. Lower is more accurate.",
        f"error of {noun}",
        Series("published,\nif they differ moderately", plan["published"]["moderately"]),
        Series("public data alone", plan["public"]["moderately"], dashed=True),
        Series("published,\nif they differ strongly", plan["published"]["strongly"], "good"),
        Series("public data alone", plan["public"]["strongly"], "good", dashed=True),
        percent=False,
    )


def _about_file(simulation: Values) -> str:
    low, high = simulation["scale"]
    criteria = _CRITERIA if len(simulation["plans"]) > 2 else ""
    return _FROM_FILE.format(**{**simulation, "low": low, "high": high, "criteria": criteria})
