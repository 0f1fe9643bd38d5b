"""Actions of the rankings module on randomized reports: the consensus first, then the test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

import peerveil
from peerveil.study.actions import Action, common
from peerveil.study.outcome import Outcome, OutcomePart
from peerveil.study.rankings_consensus import BUDGET, Level, add_items, consensus_outcome, protect_ranking, test_outcome
from peerveil.study.spelling import Epsilon, Range

if TYPE_CHECKING:
    from peerveil.data import Rankings
    from peerveil.rankings.aggregate import AnswerCounts
    from peerveil.study.execute import Context, Inputs, StudyFile

_READER: Final = "Whoever reads the reports guesses between two possible rankings of one person"


class RandomizeRankings(Action["Rankings"]):
    """Local reports of a table of rankings."""

    name, title = "rankings.randomize", "Randomize rankings"
    about = "Turn rankings into one randomized report per person, as each person's device would."
    details = (
        "Each report is the randomized answer to one of a few public questions about the ranking, or (--ask name, for the "
        "consensus) the name of one item. The reports are written in random order, after a line that states the protocol; "
        "`peerveil rankings aggregate` reads them."
    )
    publishes = "one randomized report per person, in random order"
    operator = "the names of the items as they were read"
    kinds = ("rankings",)
    spends = True
    calls = "peerveil.rankings:randomize_rankings"
    examples = (
        "rankings.csv --epsilon 1 --ask name",
        "rankings.csv --epsilon 0.5 --public-seed 7",
        "rankings.csv --epsilon 1 --ask pairs --questions 2",
    )

    epsilon: Annotated[Epsilon, BUDGET]
    ask: Annotated[
        Literal["items", "pairs", "name"],
        common(
            "What people are asked: whether an item is in the upper half, which of two items comes first, or to name one of "
            "their first or last items, which gives a consensus.",
            "Questions about",
        ),
    ] = "items"
    questions: Annotated[int, Range(ge=1), common("How many questions all people share.", "Number of questions")] = 3
    public_seed: Annotated[int, Range(ge=0, lt=2**53), common("Fixes the shared questions; publish it beforehand.")] = 0

    def guarantee(self, inputs: Inputs[Rankings]) -> peerveil.Guarantee:
        """That of one report."""
        inputs.table.require_complete("a report")
        settings = {"ask": self.ask, "questions": self.questions, "seed": self.public_seed}
        return peerveil.rankings.LocalProtocol(len(inputs.table.items), epsilon=self.epsilon, **settings).guarantee  # type: ignore[arg-type]

    def run(self, inputs: Inputs[Rankings], context: Context) -> Outcome:
        """Randomize once."""
        from peerveil.data.table import plural
        from peerveil.rankings.local import FILE_NAME

        randomized = self.call(inputs.table, randomness=context.randomness, account=context.account)
        protocol = randomized.protocol
        reports, questions = len(randomized.rankings), plural(protocol.questions, "shared question")
        answer = f"{reports:,} randomized rankings, one per person and in random order, on {questions}."
        results = {"reports": reports, "protocol": protocol, **randomized.to_dict()["questions"]}
        part = OutcomePart(answer, [answer], results, files={FILE_NAME: randomized.text()})
        question = "What would people report who never hand over their rankings?"
        outcome = Outcome.guaranteed(question, randomized.guarantee, public=part)
        caption = "The share of randomized answers that say yes, by question; chance alone would give one half."
        if protocol.ask == "name":
            caption = (
                "How often an item is named as one of the first, among all its names; chance alone would give one half."
            )
        outcome.figure(randomized.plot, f"{randomized.summary()}. {caption}", caption, public=True)
        protect_ranking(outcome, randomized.guarantee, _READER)
        add_items(outcome, inputs.table)
        return outcome


class AggregateRankings(Action[None]):
    """The consensus and the test from local reports alone."""

    name, title = "rankings.aggregate", "Read reports"
    about = "Find the consensus, and test whether rankings differ from chance, from randomized reports alone."
    details = (
        "FILE is what `peerveil rankings randomize` or `peerveil collect export` writes: a line that states the protocol and one "
        "line of JSON per report, or a CSV or Parquet table of reports. A consensus needs reports that name items, or questions "
        "about every item; others allow the test alone. Nothing private is left in the reports, so nothing is spent."
    )
    publishes = "the consensus, the statistic, its p-value and the decision (nothing if the reports were simulated)"
    kinds = ("rankings",)
    calls = "peerveil.rankings:aggregate_rankings"
    examples = ("out/rankings-randomize/public/reports.jsonl", "collected.parquet --level 0.01")

    level: Level = 0.05

    def in_memory(self, source: StudyFile) -> bool:  # noqa: ARG002
        """No: reports are not rankings, and may be many."""
        return False

    def _count(self, inputs: Inputs[None]) -> AnswerCounts:
        from peerveil.rankings.aggregate import count_answers

        inputs.file.refuse(("format", "columns", "layout"), "nothing: a file of reports states everything itself")
        return count_answers(inputs.file.path, None)

    def guarantee(self, inputs: Inputs[None]) -> None:
        """None: the reports are private already. A file that cannot be read is refused."""
        self._count(inputs)

    def run(self, inputs: Inputs[None], context: Context) -> Outcome:  # noqa: ARG002
        """Find the consensus, if the questions identify one, and test."""
        from peerveil.rankings.local_consensus import identified

        counted = self._count(inputs)
        test = peerveil.rankings.aggregate_rankings(counted, level=self.level)
        public = test.mark is None
        outcome = test_outcome(test, "aggregate.json", public=public)
        if identified([counted]):
            ordered = consensus_outcome(peerveil.rankings.local_consensus(counted), public=public)
            part, more = ordered.part(public), outcome.part(public)
            part.answer = f"{part.answer} {more.answer}"
            setattr(ordered, "public" if public else "private", part + more)
            outcome = ordered
        else:
            why = "These questions leave the order of the items open: they allow the test alone."
            outcome.part(public).findings.append(f"{why} Ask people to name items for a consensus.")
        protect_ranking(outcome, test.guarantee, _READER)
        return outcome
