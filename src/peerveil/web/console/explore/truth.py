"""Exploring the truth room: how many labels come out right, by epsilon, from crowds as large as the one that is asked."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from peerveil.core.errors import BadInput
from peerveil.core.guarantee import ONE_ANSWER
from peerveil.core.randomness import Randomness
from peerveil.data import Labels
from peerveil.truth import PrivateDawidSkene, randomize_answers, simulate_crowd
from peerveil.web.console.explore.drawing import Curve, attack_figure, draw_curves
from peerveil.web.console.explore.exploration import Control, Exploration, Figure
from peerveil.web.console.explore.smoothing import rising
from peerveil.web.console.explore.words import EPSILON_HELP, EPSILONS, SMOOTHED, attack, in_hundred, right_at_most

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

UNITS: Final = ("answer", "person")
ABILITIES: Final = ("60", "70", "80")
ANSWERS: Final = ("3", "5", "10", "20")
CLASSES: Final = ("2", "4")
_INVENTED: Final = {"tasks": 300, "people": 50, "answers": 1500}
_TASKS: Final = 300  # of a simulated crowd
_SEED: Final = 11
_STRENGTH: Final = (
    6.0  # how much people differ: the sum of the two numbers of the Beta distribution, as usual crowds have it
)
_NEAR: Final = 0.05  # labels that may be lost to privacy


def public_facts(table: Labels | None) -> dict[str, Any]:
    """How many tasks, people and answers there are; neither the answers, nor who gave them, nor which answers occur."""
    if table is None:
        return {"built_in": True, **_INVENTED}
    if not isinstance(table, Labels):
        raise BadInput("table", got=table, want="a table of labels")
    tasks, people = (int(table.frame[name].n_unique()) for name in ("task", "worker"))
    return {"built_in": False, "tasks": tasks, "people": people, "answers": len(table)}


def simulate(facts: Mapping[str, Any], progress: Callable[[float], None]) -> dict[str, Any]:
    """The share of right labels for every setting, and without privacy."""
    tasks = max(1, min(facts["tasks"], _TASKS))
    load = max(1, min(round(facts["answers"] / facts["people"]), tasks))
    settings = [(ability, answers, classes) for ability in ABILITIES for answers in ANSWERS for classes in CLASSES]
    right: dict[str, list[float]] = {}
    plain: dict[str, float] = {}
    for done, (ability, answers, classes) in enumerate(settings):
        progress(done / len(settings))
        n, k, skill = int(answers), int(classes), int(ability) / 100
        workers = max(n, math.ceil(tasks * n / load))
        crowd = simulate_crowd(
            tasks=tasks,
            workers=workers,
            answers=n,
            classes=k,
            ability=(_STRENGTH * skill, _STRENGTH * (1 - skill)),
            epsilon=None,
            seed=_SEED,
        )
        plain[f"{ability} {answers} {classes}"] = _accuracy(crowd, None, k)
        for unit in UNITS:
            found = [_accuracy(crowd, (epsilon, unit), k) for epsilon in EPSILONS]
            right[f"{unit} {ability} {answers} {classes}"] = rising(found)
    usual = facts["answers"] / facts["tasks"]
    default = min(ANSWERS, key=lambda one: abs(math.log(int(one) / usual)))
    return {**facts, "load": load, "default": default, "right": right, "plain": plain}


def _accuracy(crowd: Any, randomized: tuple[str, str] | None, classes: int) -> float:
    """The share of right labels: of one crowd, with one model, since it is a one-coin crowd."""
    tasks = list(crowd.truth)
    if randomized is None:
        found = PrivateDawidSkene(epsilon=None, model="one-coin", classes=classes).fit(crowd.answers, tasks=tasks)
        return float(found.accuracy(crowd.truth)[0])
    epsilon, unit = randomized
    lane = Randomness.simulation(_SEED)
    sent, collected = randomize_answers(crowd.answers, epsilon=epsilon, classes=classes, unit=unit, randomness=lane)
    estimator = PrivateDawidSkene(epsilon=sent.response.exact_epsilon, model="one-coin", classes=classes)
    found = estimator.fit(collected.answers, tasks=tasks, guarantee=sent.guarantee)
    return float(found.accuracy(crowd.truth)[0])


def controls(simulation: Mapping[str, Any]) -> tuple[Control, ...]:
    """Epsilon and its unit; how able people are, how many answer a task, and how many answers are possible."""
    return (
        Control("epsilon", "Epsilon", EPSILONS, "1", EPSILON_HELP),
        Control(
            "unit",
            "What epsilon is for",
            UNITS,
            "answer",
            "answer: each answer by itself; person: everything that one person answers, together, which is far stronger.",
            "choice",
        ),
        Control(
            "ability",
            "How able people are",
            ABILITIES,
            "70",
            "How many of 100 answers are right. An assumption: nobody looks at the answers for it.",
        ),
        Control("answers", "Answers a task", ANSWERS, simulation["default"], "How many people answer each task."),
        Control("classes", "Possible answers", CLASSES, "2", "How many answers there are to choose from."),
    )


def explore(simulation: Mapping[str, Any], chosen: Mapping[str, str]) -> Exploration:
    """What randomizing answers with one epsilon means."""
    epsilon, unit, place = chosen["epsilon"], chosen["unit"], EPSILONS.index(chosen["epsilon"])
    rest = f"{chosen['ability']} {chosen['answers']} {chosen['classes']}"
    right, plain = simulation["right"][f"{unit} {rest}"], simulation["plain"][rest]
    what, today = _attacked(unit, int(chosen["classes"]))
    now, then = in_hundred(float(today)), right_at_most(epsilon, today)
    labels, usual = in_hundred(right[place]), in_hundred(plain)
    best, reason = _recommend(right, plain, chosen)
    return Exploration(
        room="truth",
        controls=controls(simulation),
        chosen=chosen,
        headline=f"{labels} in 100 labels come out right instead of {usual}, and a guess of {what} is right at most {then} "
        f"times in 100 instead of {now}.",
        facts=(
            ("Accuracy", f"{labels} in 100 labels right; {usual} without randomizing"),
            ("Attack success", f"at most {then} times in 100 right about {what}; {now} without any report"),
            ("To make up for it", _more(simulation, chosen)),
            ("Cost", _cost(epsilon, unit, simulation["load"])),
            ("Delay", "none: answers are randomized as they are given"),
        ),
        sentences=(
            f"With epsilon {epsilon} for one {unit} and {chosen['answers']} answers a task, {labels} in 100 labels come out "
            f"right; without randomizing it would be {usual}.",
            attack(what, now, then) + " Without randomizing, whoever collects the answers knows every one of them.",
        ),
        figures=(_accuracy_figure(simulation, chosen), attack_figure(epsilon, today, what)),
        recommended={**chosen, "epsilon": best},
        reason=reason,
        about=_about(simulation) + SMOOTHED,
        steps=({"action": "truth.randomize", "epsilon": epsilon, "unit": unit},),
    )


def _attacked(unit: str, classes: int) -> tuple[str, Fraction]:
    if unit == "answer":
        return ONE_ANSWER, Fraction(1, classes)
    return "everything that one person answered", Fraction(1, 10)


def _cost(epsilon: str, unit: str, load: int) -> str:
    if unit == "person":
        return f"epsilon {epsilon} for everything that one person reports; not every answer is sent"
    total = float(load * Fraction(epsilon))
    return f"epsilon {epsilon} for each answer; a person with {load} answers spends {total:g} in all"


def _more(simulation: Mapping[str, Any], chosen: Mapping[str, str]) -> str:
    """How many answers a task give with privacy what the chosen number gives without."""
    place = EPSILONS.index(chosen["epsilon"])
    plain = simulation["plain"][f"{chosen['ability']} {chosen['answers']} {chosen['classes']}"]
    for answers in ANSWERS[ANSWERS.index(chosen["answers"]) :]:
        key = f"{chosen['unit']} {chosen['ability']} {answers} {chosen['classes']}"
        if simulation["right"][key][place] >= plain - _NEAR:
            if answers == chosen["answers"]:
                return "nothing: nearly as many labels are right as without randomizing"
            return f"about {answers} answers a task give nearly what {chosen['answers']} give without randomizing"
    return f"more than {ANSWERS[-1]} answers a task would be needed"


def _recommend(right: list[float], plain: float, chosen: Mapping[str, str]) -> tuple[str, str]:
    near = [one for one, share in zip(EPSILONS, right, strict=True) if share >= plain - _NEAR]
    if near:
        return near[0], (
            f"Epsilon {near[0]} is the smallest offered that loses at most 5 in 100 labels to privacy, with "
            f"{chosen['answers']} answers a task."
        )
    return EPSILONS[-1], (
        "No epsilon offered comes within 5 in 100 labels of what there is without randomizing: ask more people a task. The "
        "largest offered comes closest."
    )


def _accuracy_figure(simulation: Mapping[str, Any], chosen: Mapping[str, str]) -> Figure:
    unit, count = chosen["unit"], len(EPSILONS)
    rest = f"{chosen['ability']} {chosen['answers']} {chosen['classes']}"
    other = next(one for one in UNITS if one != unit)
    guess = 100 / int(chosen["classes"])
    drawing = draw_curves(
        EPSILONS,
        chosen["epsilon"],
        [
            Curve(f"epsilon for one {unit}", tuple(100 * share for share in simulation["right"][f"{unit} {rest}"])),
            Curve(f"epsilon for one {other}", tuple(100 * share for share in simulation["right"][f"{other} {rest}"]), "good",
                  dashed=True),
            Curve("without randomizing", (100 * simulation["plain"][rest],) * count, "truth", dashed=True),
            Curve("blind guesses", (guess,) * count, "accent", dashed=True),
        ],
        across="epsilon",
        up="right in 100 labels",
        high=104,
        alt="How many of 100 labels come out right, against epsilon, for one answer and for one person.",
    )  # fmt: skip
    return Figure(drawing, f"How many labels come out right, with {chosen['answers']} answers a task.")


def _about(simulation: Mapping[str, Any]) -> str:
    size = f"{simulation['tasks']:,} tasks, {simulation['people']:,} people and {simulation['answers']:,} answers"
    crowds = (
        f"invented crowds of at most {_TASKS} tasks, in which everybody errs evenly and gives {simulation['load']} answers; "
        "real ones may do worse"
    )
    if simulation["built_in"]:
        return f"Computed from {crowds}. With a file of answers it is computed for its numbers of tasks, people and answers."
    return (
        f"Computed from {crowds}. Of the file only these numbers were used, which are taken for public: {size}. The answers "
        "themselves were not looked at."
    )
