"""Gold tasks as an action and a setting: choose tasks for an expert to answer; check and calibrate inferred labels on them."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Annotated, Any, Final

from peerveil.study.actions import Action, Setting, common
from peerveil.study.outcome import NOT_PUBLISHED, Outcome, OutcomePart
from peerveil.study.spelling import GoldAnswers, Range, require

if TYPE_CHECKING:
    from peerveil.data import Labels
    from peerveil.study.execute import Context, Inputs, StudyFile
    from peerveil.truth import TruthResult

Gold = Annotated[
    GoldAnswers | None,
    common(
        "Correct answers to gold tasks that were chosen at random, at least 10 and better 30: they state how many labels are "
        "correct, and calibrate confidences and abilities. They are not protected.",
        "Gold tasks",
    ),
]
_SHOWN: Final = (10, 30, 100, 300)  # numbers of gold tasks in the table
_ACCURACIES: Final = (0.7, 0.8, 0.9)


def gold_of(inputs: Inputs[Labels]) -> Labels | None:
    """The table of gold answers, if the step names one."""
    tables = inputs.others.get("gold", ())
    return tables[0] if tables else None


def add_gold(outcome: Outcome, result: TruthResult, gold: Labels | None) -> None:
    """State how the labels did on gold tasks: accuracy and calibration for everybody, each task for the operator."""
    import polars as pl

    from peerveil.truth.gold import read_gold

    check = result.gold
    if check is None or gold is None:
        return
    part, sure = outcome.public, int((result.confidence >= 0.9).sum())
    labels = f"{sure:,} of {len(result.tasks):,} labels have {result.confidence_in_words}; the list is in labels.csv."
    part.answer = f"{check.summary()}. {labels}"
    part.findings[:0] = check.cautions
    part.results["gold"] = check.to_dict()
    caption = (
        "Share of correct labels against confidence on the gold tasks, in groups of equal size with 95% intervals: on the line, "
        "confidences are what they say."
    )
    outcome.figure(check.plot, f"{caption} {check.summary()}.", caption, public=True)
    answers = [(str(task), str(answer)) for task, answer in read_gold(gold).items()]
    truth = pl.DataFrame(answers, schema=["task", "truth"], orient="row")
    outcome.private.csv(
        "gold-check.csv", result.frame().with_columns(pl.col("task").cast(pl.String)).join(truth, "task")
    )


class ChooseGold(Action["Labels"]):
    """Tasks for an expert to answer."""

    name, title = "truth.choose-gold", "Choose gold tasks"
    about = "Choose tasks at random for an expert to answer, to check inferred labels and calibrate their confidences."
    details = (
        "The expert fills in the column label of gold.csv; `peerveil truth infer FILE --gold gold.csv` then states how many "
        "labels are correct, with an interval. The draw looks at no answer. More tasks with the same seed include the first ones."
    )
    operator = "the list of gold tasks"
    kinds = ("labels",)
    calls = "peerveil.truth:choose_gold"
    examples = ("reports.csv", "reports.csv --number 100")

    number: Annotated[int, Range(ge=10, le=100_000), common("Number of gold tasks.")] = 30
    seed: Annotated[
        int | None, Range(ge=0, le=2**31), Setting("Seed of an earlier draw; by default a new one that nobody knows.")
    ] = None

    def in_memory(self, source: StudyFile) -> bool:
        """Not several files, nor one that states its own terms."""
        from peerveil.truth.wire import is_answer_file

        return not source.several and not is_answer_file(source.path)

    def _tasks(self, inputs: Inputs[Labels]) -> Any:
        from peerveil.truth.tables import open_answers
        from peerveil.truth.wire import is_answer_file, read_answers

        if inputs.table is not None:
            return inputs.table.frame["task"]
        inputs.file.check_files()
        path = inputs.file.path
        return (read_answers(path).answers.frame if is_answer_file(path) else open_answers(path))["task"]

    def guarantee(self, inputs: Inputs[Labels]) -> None:
        """None: the draw looks at no answer. More tasks than there are is refused here."""
        tasks = self._tasks(inputs).n_unique()
        require(self.number <= tasks, "number", got=self.number, want=f"at most the number of tasks: {tasks:,}")

    def run(self, inputs: Inputs[Labels], context: Context) -> Outcome:  # noqa: ARG002
        """Draw, and write a table to fill in."""
        import polars as pl

        from peerveil.truth.gold import wilson

        seed = secrets.randbelow(2**31) if self.seed is None else self.seed
        chosen = self.call(self._tasks(inputs), seed=seed)
        names = {ours: (inputs.file.columns or {}).get(ours, ours) for ours in ("task", "worker", "label")}
        table = pl.DataFrame({"task": chosen, "worker": "expert", "label": ""}).rename(names)
        part = OutcomePart(
            f"{len(chosen):,} gold tasks are in gold.csv: fill in the correct answer to each, and use the file as gold.",
            [
                "Correct answers must come from somebody who does not see the reports or the inferred labels.",
                f"To add tasks later, draw a larger number with seed {seed}, and keep this seed secret: it tells which tasks are "
                "checked.",
            ],
            {"tasks": len(chosen), "seed": seed},
        )
        part.csv("gold.csv", table)
        rows = []
        for number in sorted({*_SHOWN, self.number}):
            intervals = [wilson(round(number * accuracy), number) for accuracy in _ACCURACIES]
            rows.append([f"{number:,}", *(f"{100 * low:.0f}% to {100 * high:.0f}%" for low, high in intervals)])
        part.table(["gold tasks", *(f"interval if {a:.0%} are correct" for a in _ACCURACIES)], rows)
        reason = "The draw looks at no answer: nothing is spent, and nothing is revealed about anybody."
        outcome = Outcome("Gold tasks", reason, private=part)
        outcome.protect("everybody who answered", NOT_PUBLISHED)
        return outcome
