"""Exploring truth: how many labels are correct, by epsilon, from synthetic crowds as large as the real one."""

import math
from fractions import Fraction
from typing import Any, Final

from peerveil.core.guarantee import ONE_ANSWER
from peerveil.core.randomness import Randomness
from peerveil.data import Labels
from peerveil.truth import PrivateDawidSkene, randomize_answers, simulate_crowd
from peerveil.web.console.explore import common
from peerveil.web.console.explore.common import Attack, Chart, Control, Exploration, Progress, Series, Values

UNITS: Final = ("answer", "person")
ABILITIES: Final = ("60", "70", "80")
ANSWERS: Final = ("3", "5", "10", "20")
CLASSES: Final = ("2", "4")
_TASKS: Final = 300  # of a simulated crowd
_SEED: Final = 11
_STRENGTH: Final = 6.0  # how much people differ: the sum of the Beta distribution's parameters, as in usual crowds
_LOSS: Final = 0.05  # share of labels that may be lost to privacy
CONTROLS: Final = (
    common.epsilon_control("Epsilon"),
    Control(
        "unit",
        "What epsilon protects",
        UNITS,
        "answer",
        "answer: each answer by itself; person: all answers of one person together, which is far stronger.",
        "choice",
    ),
    Control(
        "ability",
        "Correct answers (%)",
        ABILITIES,
        "70",
        "How able people are. This is an assumption: the answers are not read for it.",
    ),
    Control("answers", "Answers per task", ANSWERS, ANSWERS[0], "How many people answer each task."),
    Control("classes", "Possible answers", CLASSES, "2", "How many answers there are to choose from."),
)


def public_facts(table: Labels | None) -> dict[str, Any]:
    """How many tasks, people and answers there are; neither the answers, nor who gave them, nor which answers occur."""
    if table is None:
        return {"built_in": True, "tasks": 300, "people": 50, "answers": 1500}
    table = Labels.of(table, "table")
    tasks, people = (int(table.frame[name].n_unique()) for name in ("task", "worker"))
    return {"built_in": False, "tasks": tasks, "people": people, "answers": len(table)}


def simulate(facts: Values, progress: Progress) -> dict[str, Any]:
    """The share of correct labels for every setting, and without privacy."""
    tasks = max(1, min(facts["tasks"], _TASKS))
    load = max(1, min(round(facts["answers"] / facts["people"]), tasks))

    def accuracies(ability: str, answers: str, classes: str) -> dict[str, Any]:
        skill = int(ability) / 100
        crowd = simulate_crowd(
            tasks=tasks,
            workers=max(int(answers), math.ceil(tasks * int(answers) / load)),
            answers=int(answers),
            classes=int(classes),
            ability=(_STRENGTH * skill, _STRENGTH * (1 - skill)),
            epsilon=None,
            seed=_SEED,
        )
        by_unit = {
            unit: common.rising([_accuracy(crowd, int(classes), epsilon, unit) for epsilon in common.EPSILONS])
            for unit in UNITS
        }
        return {"plain": _accuracy(crowd, int(classes)), **by_unit}

    usual = facts["answers"] / facts["tasks"]
    default = min(ANSWERS, key=lambda value: abs(math.log(int(value) / usual)))
    correct = common.sweep(progress, accuracies, ABILITIES, ANSWERS, CLASSES)
    return {**facts, "load": load, "controls": {"answers": {"default": default}}, "correct": correct}


def _accuracy(crowd: Any, classes: int, epsilon: str | None = None, unit: str = "answer") -> float:
    """The share of correct labels in one crowd; with the one-coin model, since the crowd follows it."""
    tasks = list(crowd.truth)
    if epsilon is None:
        result = PrivateDawidSkene(epsilon=None, model="one-coin", classes=classes).fit(crowd.answers, tasks=tasks)
        return float(result.accuracy(crowd.truth)[0])
    randomness = Randomness.simulation(_SEED)
    sent, collected = randomize_answers(
        crowd.answers, epsilon=epsilon, classes=classes, unit=unit, randomness=randomness
    )
    estimator = PrivateDawidSkene(epsilon=sent.response.exact_epsilon, model="one-coin", classes=classes)
    result = estimator.fit(collected.answers, tasks=tasks, guarantee=sent.guarantee)
    return float(result.accuracy(crowd.truth)[0])


def explore(simulation: Values, chosen: Values) -> Exploration:
    """What randomizing answers with one epsilon means."""
    epsilon, unit, answers, classes = (chosen[name] for name in ("epsilon", "unit", "answers", "classes"))
    correct = simulation["correct"][f"{chosen['ability']} {answers} {classes}"]
    labels, usual = common.percent(correct[unit][common.EPSILONS.index(epsilon)]), common.percent(correct["plain"])
    one_answer = unit == "answer"
    target = ONE_ANSWER if one_answer else "all answers of one person"
    prior = Fraction(1, int(classes)) if one_answer else Fraction(1, 10)
    before, after = common.percent(float(prior)), common.success_percent(epsilon, prior)
    best = common.first_epsilon(share >= correct["plain"] - _LOSS for share in correct[unit])
    other = UNITS[1] if one_answer else UNITS[0]
    return Exploration(
        headline=f"{labels} of labels are correct instead of {usual}, and a guess of {target} is correct at most {after} of "
        f"the time instead of {before}.",
        attack=Attack(
            target, before, after, note="Without randomizing, whoever collects the answers knows all of them."
        ),
        facts=(
            ("Accuracy", f"{labels} of labels correct; {usual} without randomizing"),
            ("To compensate", _compensation(simulation, chosen)),
            ("Cost", _cost(epsilon, unit, simulation["load"])),
            ("Delay", "none: answers are randomized as they are given"),
        ),
        charts=(
            Chart.of(
                f"How many labels are correct, with {answers} answers per task.",
                "correct labels (%)",
                Series(f"epsilon per {unit}", correct[unit]),
                Series(f"epsilon per {other}", correct[other], "good", dashed=True),
                Series("without randomizing", correct["plain"], "truth", dashed=True),
                Series("random guesses", 1 / int(classes), "accent", dashed=True),
            ),
            common.success_chart(prior, target),
        ),
        recommended={"epsilon": best or common.EPSILONS[-1]},
        reason=f"Epsilon {best} is the smallest offered that loses at most 5% of labels to privacy, with {answers} answers per "
        "task."
        if best
        else "No epsilon offered comes within 5% of the labels that are correct without randomizing: ask more people per "
        "task. The largest offered comes closest.",
        about=_about(simulation) + common.SMOOTHED,
        steps=({"action": "truth.randomize", "epsilon": epsilon, "unit": unit},),
    )


def _cost(epsilon: str, unit: str, load: int) -> str:
    if unit == "person":
        return f"epsilon {epsilon} for all answers of one person; not every answer is sent"
    total = float(load * Fraction(epsilon))
    return f"epsilon {epsilon} per answer; a person with {load} answers spends {total:g} in total"


def _compensation(simulation: Values, chosen: Values) -> str:
    """How many answers per task give with privacy what the chosen number gives without."""
    place, answers = common.EPSILONS.index(chosen["epsilon"]), chosen["answers"]
    correct = {value: simulation["correct"][f"{chosen['ability']} {value} {chosen['classes']}"] for value in ANSWERS}
    for value in ANSWERS[ANSWERS.index(answers) :]:
        if correct[value][chosen["unit"]][place] >= correct[answers]["plain"] - _LOSS:
            if value == answers:
                return "nothing: nearly as many labels are correct as without randomizing"
            return f"about {value} answers per task give nearly what {answers} give without randomizing"
    return f"more than {ANSWERS[-1]} answers per task would be needed"


def _about(simulation: Values) -> str:
    crowds = (
        f"synthetic crowds of at most {_TASKS} tasks, in which everybody errs evenly and gives {simulation['load']} answers; "
        "real crowds may do worse"
    )
    if simulation["built_in"]:
        return f"Computed from {crowds}. With a file of answers, its numbers of tasks, people and answers are used."
    size = f"{simulation['tasks']:,} tasks, {simulation['people']:,} people and {simulation['answers']:,} answers"
    return (
        f"Computed from {crowds}. Of the file only these numbers were used, which count as public: {size}. The answers "
        "themselves were not read."
    )
