"""Steps of the truth room: randomise answers, infer right answers from randomised ones, compare what it costs."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from peerveil.errors import BadInput
from peerveil.guarantee import ONE_ANSWER
from peerveil.judgements.writing import csv_text
from peerveil.study.outcome import Outcome
from peerveil.study.step import REQUIRED, OneOf, Option, Step, epsilon, list_of, one_of, whole
from peerveil.truth import NotRandomised, PrivateDawidSkene, compare_truth, randomize_answers
from peerveil.truth.outcome import CONFIDENCE
from peerveil.truth.randomise import task_guarantee

if TYPE_CHECKING:
    from peerveil.guarantee import Guarantee
    from peerveil.judgements import Labels
    from peerveil.ledger import Account
    from peerveil.randomness import Randomness
    from peerveil.truth import RandomisedAnswers, TruthResult
    from peerveil.truth.outcome import WorkerAbilities

_MODEL = Option("model", one_of("auto", "one-coin", "two-coin", "confusion"), "auto", "how people err")


def _class(value: Any) -> Any:
    return value  # whatever TOML holds: text, whole numbers, true and false


_CLASSES = Option("classes", list_of(_class), REQUIRED, "all possible answers, from a public list")


class _OnDevices(OneOf):
    """Whether answers were randomized on devices; without a "yes" nothing may be inferred as if they were."""

    def __call__(self, value: object) -> str:
        """The word "yes"; a "no" is led to the steps for answers as people gave them."""
        if super().__call__(value) == "no":
            want = (
                '"yes": only answers that were randomized on each person\'s own device. For answers as people gave them, do = '
                '"randomize" randomizes each once before it infers, and do = "label" infers for you alone, not for publication'
            )
            raise BadInput("randomized", got="no", want=want)
        return "yes"


class Infer(Step):
    """Right answers from answers that were randomised on people's devices."""

    room, do = "truth", "infer"
    about = "infer right answers from answers that were randomised on each person's device"
    output = "a label with its probability for every task"
    wants = "labels"
    options: ClassVar = (
        Option(
            "randomized",
            _OnDevices(("yes", "no")),
            REQUIRED,
            '"yes" if each answer was randomized on the person\'s own device before it was collected, otherwise "no"',
        ),
        Option("epsilon", epsilon, REQUIRED, "the epsilon with which each answer was randomised"),
        _CLASSES,
        _MODEL,
    )

    def promise(self, table: Labels) -> None:
        """None to debit: the answers were randomised before they were collected. Impossible answers are refused here."""
        table.codes(self.classes)

    def carry_out(self, table: Labels, randomness: Randomness, account: Account | None) -> Outcome:  # noqa: ARG002
        """Fit."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotRandomised)  # the outcome says it
            estimator = PrivateDawidSkene(epsilon=self.epsilon, model=self.model, classes=self.classes)
            found = estimator.fit(table)
        outcome = _outcome("Which answers are right?", found, estimator.workers_)
        if found.doubt is not None:
            # the doubt holds figures computed from the answers without noise: for whoever runs the study alone
            outcome.private_found.append(f"Nothing of this may be published: {found.doubt}.")
            keep_back(outcome, "Nothing of this may be published: the answers do not look randomized.")
        return outcome


class Label(Step):
    """Right answers from answers that are held as they were given. For whoever holds them."""

    room, do = "truth", "label"
    about = "infer right answers from answers that were not randomised, for you alone"
    output = "nothing: it is computed from private answers without noise"
    publishes = False
    wants = "labels"
    options: ClassVar = (_CLASSES, _MODEL)

    def promise(self, table: Labels) -> None:
        """None: nothing is published."""
        table.codes(self.classes)

    def carry_out(self, table: Labels, randomness: Randomness, account: Account | None) -> Outcome:  # noqa: ARG002
        """Fit, without a channel."""
        estimator = PrivateDawidSkene(epsilon=None, model=self.model, classes=self.classes)
        outcome = _outcome("Which answers are right?", estimator.fit(table), estimator.workers_)
        keep_back(
            outcome,
            "These labels are computed from what people answered, without noise: nothing of it may be published.",
        )
        return outcome


class Compare(Step):
    """What privacy would cost on answers that are held."""

    room, do = "truth", "compare"
    about = "say what each epsilon would cost on these answers, by simulation"
    output = "nothing: it is computed from private answers without noise"
    publishes = False
    wants = "labels"
    options: ClassVar = (
        Option("epsilons", list_of(epsilon), ["0.5", "1", "2", "4"], "which to try"),
        Option("unit", one_of("answer", "person"), "answer", "what epsilon is for"),
        Option("draws", whole(2, 1000), 10, "how often the answers are randomised for each epsilon"),
        _MODEL,
    )

    def promise(self, table: Labels) -> None:
        """None: nothing is published."""

    def carry_out(self, table: Labels, randomness: Randomness, account: Account | None) -> Outcome:  # noqa: ARG002
        """Simulate."""
        found = compare_truth(table, epsilons=self.epsilons, unit=self.unit, model=self.model, draws=self.draws)
        outcome = Outcome("What would privacy cost on these answers?")
        outcome.promise = (
            "Nothing is published by this step, and nothing of it may be: it is computed from private answers."
        )
        outcome.mark = found.mark
        outcome.private_answer = f"{found.summary()}."
        outcome.protect("everybody who answered", "nothing of this step is published")
        outcome.private_found = [f"{found.summary()}."]
        columns = ["epsilon", "tasks with a report", "same label as without privacy", "right label"]
        outcome.table(columns, found.cells(), public=False)
        outcome.picture(found.plot, found.summary(), "Labels that stay what they are without privacy, by epsilon.",
                        public=False)  # fmt: skip
        outcome.file("compare.json", found.to_json(indent=2) + "\n", public=False)
        return outcome


class Randomise(Step):
    """Answers that were not randomised yet: randomise each once, then infer."""

    room, do = "truth", "randomize"
    about = "randomise answers as people's devices would, publish the reports, and infer right answers from them"
    output = "the randomised reports, and a label with its probability for every task"
    wants = "labels"
    spends = True
    options: ClassVar = (
        Option("epsilon", epsilon, REQUIRED, "of one answer, or of everything that a person reports"),
        _CLASSES,
        Option("unit", one_of("answer", "person"), "answer", "what epsilon is for"),
        _MODEL,
    )

    @classmethod
    def suggest(cls, data: str, table: Labels) -> str | None:
        """If the answers are few enough to be listed."""
        classes = table.frame["label"].unique().sort().to_list()
        if len(classes) > 20:
            return None
        listed = ", ".join(_toml(one) for one in classes)
        return f"""# Correct labels from randomized answers. Every answer is randomized once here. Only if {data} was randomized
# on people's devices already: use do = "infer", randomized = "yes" and the epsilon of the devices, without account.
[[steps]]
room = "truth"
do = "randomize"
data = "{data}"
account = "main"
epsilon = 1
classes = [{listed}]         # all possible answers, from a public list (here: as seen; please check)
"""

    def promise(self, table: Labels) -> Guarantee:
        """Local privacy, of an answer or of a person."""
        table.codes(self.classes)
        return task_guarantee(table.frame, self.epsilon, self.unit)

    def carry_out(self, table: Labels, randomness: Randomness, account: Account | None) -> Outcome:
        """Debit, randomise, infer."""
        sent, collected = randomize_answers(
            table, epsilon=self.epsilon, classes=self.classes, unit=self.unit, randomness=randomness, account=account
        )
        result, workers = collected.fit(model=self.model)
        outcome = _outcome("Which answers are right, if nobody can be held to theirs?", result, workers)
        outcome.promises(sent.guarantee)
        outcome.protects = []
        _protections(outcome, sent, np.bincount(table.numbered("worker")[0]))
        outcome.attack.append(f"For a whole person: {sent.person_guarantee.short}")
        outcome.found.append(
            "reports.csv numbers the workers at random. It shows which reports came from one person, on which tasks; it does "
            "not name anybody, and it does not show what they answered."
        )
        if table.has_truth:
            right, balanced = result.accuracy(table.truths())
            outcome.private_found.append(
                f"Of the tasks whose right answer is known, {100 * right:.1f}% are labelled right (balanced over classes: "
                f"{100 * balanced:.1f}%)."
            )
        outcome.file("reports.csv", csv_text(sent.frame()), public=True)
        outcome.file("reports_with_ids.csv", csv_text(collected.reports.frame), public=False)
        return outcome


def _outcome(asked: str, found: TruthResult, workers: WorkerAbilities) -> Outcome:
    outcome = Outcome(asked)
    outcome.promises(found.guarantee)
    outcome.mark = found.mark
    outcome.found = [
        f"{len(found.tasks):,} tasks were labelled from {int(found.loads.sum()):,} reports of {found.loads.size:,} people. The "
        f"mean confidence of the labels is {100 * float(found.confidence.mean()):.0f}%, the median estimated ability "
        f"{float(np.median(found.abilities)):.2f}.",
        CONFIDENCE,
    ]
    sure = int((found.confidence >= 0.9).sum())
    outcome.answer = (
        f"{sure:,} of {len(found.tasks):,} labels have a confidence of at least 90%; the list is in labels.csv. "
        "Confidences are too high where people share errors."
    )
    if found.doubt is None:
        _protections(outcome, found, found.loads)
    else:
        outcome.protect("one answer", f"not protected: {found.doubt}")
    outcome.attack = ["Whoever sees the reports of everybody learns about one answer at most what the promise above says; "
                      "labels and abilities are computed from the reports and tell no more."]  # fmt: skip
    outcome.picture(found.plot, f"Abilities with intervals. {found.summary()}.",
                    "Estimated abilities, from the lowest to the highest, with intervals of two standard errors.",
                    public=True)  # fmt: skip
    outcome.file("labels.csv", csv_text(found.frame()), public=True)
    outcome.file("workers.csv", csv_text(workers.frame()), public=False)
    outcome.results = {"tasks": len(found.tasks), "workers": found.loads.size, "model": found.model}
    return outcome


def keep_back(outcome: Outcome, why: str) -> None:
    """Nothing of an outcome is public after all."""
    outcome.private_answer, outcome.answer = outcome.answer, ""
    outcome.private_found = [why, *outcome.found, *outcome.private_found]
    outcome.found, outcome.results, outcome.attack = [], {}, []
    outcome.promise = outcome.promise_short = why
    outcome.guarantee = None
    outcome.protects = [["everybody who answered", "nothing of this step is published"]]
    outcome.pictures = [replace(one, public=False) for one in outcome.pictures]
    outcome.tables = [replace(one, public=False) for one in outcome.tables]
    outcome.files = [replace(one, public=False) for one in outcome.files]


def _protections(outcome: Outcome, found: TruthResult | RandomisedAnswers, loads: Any) -> None:
    """One answer, and everything that one person answered; how many tasks each answered is not hidden."""
    promise, person = found.guarantee, found.person_guarantee
    if promise.unit == person.unit:
        outcome.protect("everything one person reports", person)
        return
    typical, most = int(np.median(loads)), int(np.max(loads))
    outcome.protect("one answer" if promise.unit == ONE_ANSWER else promise.unit, promise)
    if 1 < typical < most:
        outcome.protect(f"everything a typical person answered ({typical} answers)", found.guarantee_of(typical))
    outcome.protect(
        f"everything {'any' if typical == most else 'the busiest'} person answered ({most} answers)", person
    )


def _toml(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)


STEPS = (Infer, Randomise, Label, Compare)
