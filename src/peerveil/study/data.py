"""Actions on data of any kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from peerveil.study.actions import KINDS, Action, all_actions
from peerveil.study.outcome import Outcome

if TYPE_CHECKING:
    from peerveil.study.execute import Context, Inputs


def usable_by(table: Any) -> str:
    """The modules that can use a table and what it lacks for some, in one line.

    >>> from peerveil.data import Labels, Reviews
    >>> usable_by(Labels(task=[1], worker=[2], label=["cat"]))
    'can be used by truth'
    >>> usable_by(Reviews(paper=[1], score=[5]))
    'no reviewers: release and calibration need them; it can only be described'
    """
    kind = type(table).__name__.lower()
    modules = dict.fromkeys(action.module() for action in all_actions().values() if kind in action.kinds)
    names = " and ".join(module for module in modules if module != "data")
    if kind == "reviews" and not table.has_reviewers:
        return f"no reviewers: {names} need them; it can only be described"
    lacks = ""
    if kind == "reviews" and not table.criteria:
        lacks = "; no criteria: release with --weight normalized or subjectivity needs them"
    if kind == "rankings" and not table.is_complete:
        lacks = "; items left out or tied: rankings randomize needs complete rankings"
    return f"can be used by {names}{lacks}"


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
