"""Actions on data of any kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from peerveil.study.actions import KINDS, Action
from peerveil.study.outcome import Outcome

if TYPE_CHECKING:
    from peerveil.study.execute import Context, Inputs


class DescribeData(Action[Any]):
    """What is in a table: for the operator alone."""

    name, title = "data.describe", "Describe the data"
    about = "Describe a table: rows, people, items, distributions and missing values."
    details = "Reads the file as the other commands do, so that a misread column is noticed before anything is spent."
    operator = "counts and distributions, computed from the data without noise"
    kinds = KINDS
    calls = "peerveil.data:describe"
    examples = ("reviews.csv", "scores.csv --kind reviews --column paper=submission --column score=rating")

    def run(self, inputs: Inputs[Any], context: Context) -> Outcome:  # noqa: ARG002
        """Describe it."""
        description = self.call(inputs.table)
        reason = "Nothing of this may be published: it is computed from the data without noise."
        outcome, summary = Outcome("What is in the data?", reason), f"{description.summary()}."
        outcome.add_result("description", description, summary, summary, public=False)
        return outcome


ACTIONS: Final[tuple[type[Action[Any]], ...]] = (DescribeData,)
