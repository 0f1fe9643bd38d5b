"""Actions of the truth module on labels per annotator: agreement between people, and a data set that may be published."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Annotated

from peerveil.study.actions import Action, Setting, common
from peerveil.study.outcome import NOT_PUBLISHED, Outcome, OutcomePart, public_name
from peerveil.study.spelling import Classes, Epsilon, InnerShare, Range, require
from peerveil.study.truth_planning import (
    NOTHING_PUBLISHED,
    WHOM,
    Engine,
    Seed,
    SeenClasses,
    Unit,
    answer_cautions,
    check_classes_of,
    require_statement,
)

if TYPE_CHECKING:
    from peerveil.core.guarantee import Guarantee
    from peerveil.core.result import Outputs
    from peerveil.data import Labels
    from peerveil.study.execute import Context, Inputs, StudyFile
    from peerveil.truth.agreement_result import Agreement, AnnotatorAgreement

_CAPTION = "Agreement with its intervals, corrected for the randomization, and what the reports alone would show."


class EstimateAgreement(Action["Labels"]):
    """Agreement between people."""

    name, title = "truth.agreement", "Agreement between people"
    about = (
        "Estimate how far people agree (Krippendorff's alpha, Fleiss' kappa) from randomized answers, with intervals."
    )
    details = (
        "FILE is a table of reports, or a file of reports that `peerveil truth randomize` or the collection service wrote, which "
        "states its own epsilon and classes. Coefficients that are computed from reports as if they were answers are far too "
        "low; these are corrected. Without an epsilon the answers are taken as given, for the operator alone."
    )
    publishes = "the coefficients with their intervals, if the answers were randomized"
    operator = "each person's agreement with the others, by worker id"
    kinds = ("labels",)
    calls = "peerveil.truth.coefficients:agreement_by_person"
    examples = (
        "reports.csv --randomized --epsilon 1 --classes 0,1",
        "out/truth-randomize/private/reports.jsonl",
        "answers.csv --level 0.9",
    )

    epsilon: Annotated[
        Epsilon | None,
        common("Epsilon with which each answer was randomized; a file of reports states it.", "Epsilon of the devices"),
    ] = None
    randomized: Annotated[
        bool,
        common(
            "Each answer was randomized with this epsilon before it was collected.",
            "The answers were randomized",
        ),
    ] = False
    classes: SeenClasses = None
    level: Annotated[InnerShare, Setting("Confidence level of the intervals.")] = 0.95
    engine: Engine = "auto"

    def __post_init__(self) -> None:
        require(0.5 <= self.level <= 0.9999, "level", got=self.level, want="a level from 0.5 to 0.9999, such as 0.95")
        want = f"true, if each answer was randomized with epsilon {self.epsilon}; for answers as given, no epsilon"
        require_statement(self.randomized, self.epsilon, want)

    def in_memory(self, source: StudyFile) -> bool:
        """Not for a database, nor for a file that states its own terms."""
        from peerveil.truth.wire import is_answer_file

        in_memory = not source.several and (self.engine in ("auto", "memory") or bool(source.columns))
        return in_memory and not is_answer_file(source.path)

    def guarantee(self, inputs: Inputs[Labels]) -> None:
        """Nothing to debit. Impossible answers, and terms that the file states itself, are refused here."""
        from peerveil.truth.wire import stated_answers

        if inputs.table is not None:
            check_classes_of(inputs.table, self.classes)
        elif stated_answers(inputs.file.path, epsilon=self.epsilon, classes=self.classes) is None:
            inputs.file.check_files()

    def run(self, inputs: Inputs[Labels], context: Context) -> Outcome:  # noqa: ARG002
        """Estimate."""
        result, people = self._measured(inputs)
        part = OutcomePart(f"{result.summary()}.", [f"{result.summary()}.", result.about_intervals], result.to_dict())
        part.json("agreement.json", result)
        outcome = Outcome.guaranteed("How far do people agree?", result.guarantee, public=part)
        outcome.mark = result.mark
        outcome.private.csv("annotators.csv", people.frame())
        outcome.figure(result.plot, f"{_CAPTION} {result.summary()}.", _CAPTION, public=True, height=2.8)
        outcome.protect(result.guarantee.unit, result.guarantee)
        if result.person_guarantee != result.guarantee:
            outcome.protect(f"everything the busiest person answered ({result.most} answers)", result.person_guarantee)
        outcome.attack = ["Agreement is computed from the randomized answers and reveals no more than they do."]
        if result.doubt is not None:
            outcome.private.findings.append(f"Nothing of this may be published: {result.doubt}.")
            outcome.withhold("Nothing of this may be published: the answers do not look randomized.", WHOM)
        elif result.mark is not None and result.epsilon is None:
            outcome.withhold(NOTHING_PUBLISHED, WHOM)
        elif result.mark is not None:
            outcome.withhold(f"Nothing of this may be published: {result.mark}.", WHOM)
        return outcome

    def _measured(self, inputs: Inputs[Labels]) -> Outputs[Agreement, AnnotatorAgreement]:
        """Of a table, or of a file that states its terms; a doubt is part of the result, so that it needs no warning."""
        from peerveil.truth import NotRandomized
        from peerveil.truth.answers import read_classes
        from peerveil.truth.coefficients import agreement_of
        from peerveil.truth.wire import is_answer_file, read_answers

        source = inputs.file.path if inputs.table is None else inputs.table
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotRandomized)
            if inputs.table is None and is_answer_file(inputs.file.path):
                return agreement_of(read_answers(inputs.file.path), level=self.level)
            outputs: Outputs[Agreement, AnnotatorAgreement] = self.call(
                source, but=("randomized",), classes=read_classes(self.classes, inputs.table)
            )
            return outputs


class PublishLabels(Action["Labels"]):
    """A data set of labels per annotator."""

    name, title = "truth.publish-labels", "Publish labels per annotator"
    about = "Randomize each annotator's labels and write them for publication, with a data card and agreement."
    details = (
        "For answers that you hold as people gave them. Only the columns task, worker and label are used; annotators are "
        "numbered at random. `peerveil truth preview-labels` shows beforehand what each epsilon leaves. Publish one draw only: "
        "a second one costs its own epsilon."
    )
    publishes = (
        "the randomized labels, a data card with code that estimates from them, and agreement between annotators"
    )
    kinds = ("labels",)
    spends = True
    calls = "peerveil.truth:publish_labels"
    examples = (
        "answers.csv --epsilon 1 --classes yes,no --out published",
        "answers.csv --epsilon 4 --classes 5 --unit person --ledger budget.db --account study",
    )

    epsilon: Annotated[Epsilon, common("Privacy budget (epsilon) of an answer or a person. Smaller is more private.")]
    classes: Annotated[Classes, common("Classes of the answers, from a public list.", "Possible answers")]
    unit: Unit = "answer"

    def guarantee(self, inputs: Inputs[Labels]) -> Guarantee:
        """Local privacy of an answer or of a person."""
        from peerveil.data.labels import check_classes
        from peerveil.truth.answers import read_classes
        from peerveil.truth.guarantee import task_guarantee

        inputs.table.codes(check_classes(read_classes(self.classes, inputs.table)))
        return task_guarantee(inputs.table.frame, self.epsilon, self.unit)

    def cautions(self, inputs: Inputs[Labels]) -> list[str]:
        """How strongly everything of one person is protected."""
        if self.unit == "person":
            return []
        loads = inputs.table.frame.group_by("worker").len()["len"]
        return answer_cautions(self.guarantee(inputs), self.epsilon, loads, "annotator", "answered ({} answers)")

    def run(self, inputs: Inputs[Labels], context: Context) -> Outcome:
        """Debit, randomize, describe."""
        from peerveil.truth.answers import read_classes
        from peerveil.truth.card import PLACEHOLDERS

        published = self.call(
            inputs.table,
            classes=read_classes(self.classes, inputs.table),
            randomness=context.randomness,
            account=context.account,
        )
        sent, answer = published.sent, f"{published.summary()}."
        fill = ", ".join(PLACEHOLDERS)
        alone = f" {published.tasks_of_one:,} of the tasks have the label of a single annotator."
        findings = [answer, published.agreement_sentence + alone, f"Before you publish, fill in {fill} in README.md."]
        results = published.to_dict() | {"epsilon_of_a_label": sent.response.exact_epsilon}
        part = OutcomePart(answer, findings, results)
        # the card names the file as it will be called, marked if this is a simulation
        file = public_name("labels.csv", not context.randomness.is_secure)
        texts = published.contents(file)
        part.files |= {"labels.csv": texts.pop(file), **texts}
        outcome = Outcome.guaranteed("Labels per annotator, for publication", published.guarantee, public=part)
        caption = _CAPTION if published.agreement is not None else "Shares of the classes."
        outcome.figure(published.plot, f"{caption} {answer}", caption, public=True, height=2.8)
        outcome.protect(published.guarantee.unit, published.guarantee)
        if published.person_guarantee != published.guarantee:
            most = f"everything the busiest annotator answered ({sent.most} answers)"
            outcome.protect(most, published.person_guarantee)
        outcome.attack = [
            "Labels of one number come from one annotator: whoever knows which tasks somebody answered may find the number, and "
            "then learns about each answer at most what the guarantee states."
        ]
        return outcome


class PreviewLabels(Action["Labels"]):
    """What published labels would still show."""

    name, title = "truth.preview-labels", "Preview published labels"
    about = "Show what survives in published labels at each epsilon, by simulation, before anything is spent."
    operator = "the shares of inferred labels that stay the same and that are correct, and agreement, at each epsilon"
    kinds = ("labels",)
    calls = "peerveil.truth.publish:preview_labels"
    examples = ("answers.csv --epsilon 1 --epsilon 2", "answers.csv --unit person --epsilon 4 --epsilon 8")

    epsilons: Annotated[tuple[Epsilon, ...], common("Privacy budgets (epsilon) to try.", "Epsilons to try")] = (
        "0.5",
        "1",
        "2",
        "4",
    )
    unit: Unit = "answer"
    classes: SeenClasses = None
    draws: Annotated[
        int, Range(ge=2, le=1000), Setting("How often the answers are randomized for each epsilon.", "Simulations")
    ] = 5
    seed: Seed = 0

    def guarantee(self, inputs: Inputs[Labels]) -> None:
        """None: nothing is published."""
        check_classes_of(inputs.table, self.classes)

    def run(self, inputs: Inputs[Labels], context: Context) -> Outcome:  # noqa: ARG002
        """Simulate."""
        from peerveil.truth.answers import read_classes

        preview = self.call(inputs.table, classes=read_classes(self.classes, inputs.table))
        outcome = Outcome("What would survive in published labels?", NOTHING_PUBLISHED, preview.mark)
        outcome.protect(WHOM, NOT_PUBLISHED)
        columns = ["epsilon", "labels", "same label", "correct label", "alpha", "interval width", "busiest annotator"]
        caption = "Labels that stay the same and alpha with its typical interval, against epsilon."
        summary, cells = f"{preview.summary()}.", (columns, preview.cells())
        outcome.add_result("preview", preview, summary, caption, public=False, cells=cells)
        return outcome
