"""Actions on data of any kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from peerveil.study.actions import KINDS, Action

if TYPE_CHECKING:
    from peerveil.study.actions import Context
    from peerveil.study.execute import Inputs
    from peerveil.study.outcome import Outcome


class Describe(Action[Any]):
    """What is in a table: for the operator alone."""

    name, title = "data.describe", "Describe the data"
    about = "Describe a table: rows, people, items, distributions and missing values."
    details = "Reads the file as the other commands do, so that a misread column is noticed before anything is spent."
    operator = "counts and distributions, computed from the data without noise"
    kinds = KINDS
    calls = "peerveil.data.describe"
    examples = ("reviews.csv", "scores.csv --kind reviews --column paper=submission --column score=rating")

    def run(self, inputs: Inputs[Any], context: Context) -> Outcome:  # noqa: ARG002
        """Describe it."""
        from peerveil.data import describe
        from peerveil.study.outcome import Outcome

        description = describe(inputs.table)
        outcome = Outcome("What is in the data?")
        outcome.promise = "Nothing of this may be published: it is computed from the data without noise."
        outcome.private_answer = f"{description.summary()}."
        frame = description.frame()
        outcome.table(["fact", "value"], frame.rows(), public=False)
        outcome.picture(description.plot, description.summary(), description.summary(), public=False)
        outcome.file("description.csv", frame.write_csv(), public=False)
        outcome.private_results = description.to_dict()
        return outcome


ACTIONS: Final[tuple[type[Action[Any]], ...]] = (Describe,)
