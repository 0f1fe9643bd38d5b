"""The action that calibrates this year's scores: for the operator alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import peerveil
from peerveil.core.errors import Verbatim
from peerveil.study.actions import Action, Setting, common
from peerveil.study.outcome import NOT_PUBLISHED, Outcome, OutcomePart
from peerveil.study.spelling import AuthorRankings, InnerShare, Name, OtherReviews, Range, require
from peerveil.study.toml import SuggestedStep

if TYPE_CHECKING:
    import polars as pl

    from peerveil.calibration import CalibratedScores
    from peerveil.data import Reviews
    from peerveil.study.execute import Context, Inputs

_ROWS: Final = 15  # of a table in the report


class CalibrateScores(Action["Reviews"]):
    """Calibrated scores of this year."""

    name, title = "calibration.calibrate", "Calibrate scores"
    about = "Correct this year's scores for strict and lenient reviewers, with intervals, ranks and what would change."
    details = (
        "Needs nothing but this year's reviews; a history makes strictness better known. Nothing of this may be published: a "
        "calibrated score beside the plain mean tells how strict a paper's reviewers are. `peerveil calibration plan` says "
        "whether calibration would help at all."
    )
    operator = (
        "calibrated scores, each reviewer's strictness, which reviewers disagree, which papers deserve one more review"
    )
    kinds = ("reviews",)
    calls = "peerveil.calibration:calibrate"
    examples = ("reviews.csv --accept 40", "reviews.csv --accepted 0.25 --history past.csv")

    accept: Annotated[
        int | None, Range(ge=1, le=1_000_000), common("How many papers to accept.", "Papers to accept")
    ] = None
    accepted: Annotated[
        InnerShare | None,
        common("Instead of a number: the share of papers to accept, such as 0.25.", "Share of papers to accept"),
    ] = None
    history: Annotated[
        tuple[OtherReviews, ...],
        Setting("Past conferences with some of the same reviewers, under the same names.", "Past conference"),
    ] = ()
    rankings: Annotated[
        AuthorRankings | None,
        Setting(
            "Authors' own rankings of their papers, to compare with the Isotonic Mechanism: private judgments, which `peerveil "
            "collect` gathers.",
            "Authors' rankings",
        ),
    ] = None
    confidence: Annotated[
        Name | None,
        Setting("The criterion that states a review's confidence; by default the one called confidence."),
    ] = None
    level: Annotated[float, Range(ge=0.5, le=0.999), Setting("Level of the intervals.", "Level of intervals")] = 0.95

    def __post_init__(self) -> None:
        want = "a number of papers, or instead accepted: a share of all papers"
        both = self.accept is not None and self.accepted is not None
        require(not both, "accept", got=Verbatim("a number and a share"), want=want)

    @classmethod
    def suggest(cls, table: Reviews) -> SuggestedStep | None:
        """Calibrate, where reviewers are known."""
        if not table.has_reviewers:
            return None
        question = "What would the scores be if all reviewers were equally strict? For the operator only."
        return SuggestedStep(
            question, {"accepted": 0.25}, {"accepted": "the share of papers to accept"}, commented=True
        )

    def guarantee(self, inputs: Inputs[Reviews]) -> None:
        """None: nothing is published. Refuses what cannot be calibrated."""
        from peerveil.calibration.calibrate import check_scores

        past = inputs.others["history"] or None
        check_scores(inputs.table, history=past, accept=self.places, confidence=self.confidence)

    @property
    def places(self) -> Any:
        """How many papers to accept: a number, a line, or None."""
        return self.accept if self.accepted is None else peerveil.calibration.Threshold.share(self.accepted)

    def run(self, inputs: Inputs[Reviews], context: Context) -> Outcome:
        """Calibrate, and compare with what chairs know by name."""
        context.progress(0.0, "calibrating")
        past = inputs.others["history"] or None
        result = self.call(inputs.table, but=("accepted", "rankings"), accept=self.places, history=past)
        context.progress(0.6, "comparing methods")
        methods = result.compare(*inputs.others["rankings"])
        outcome = Outcome(
            "What would the scores be if all reviewers were equally strict?",
            "For the operator alone: calibrated scores tell how strict the reviewers of each paper are.",
        )
        outcome.protect("who reviewed what", NOT_PUBLISHED)
        outcome.private = self._report(result, methods)
        outcome.figure(result.plot, result.summary(), "Calibrated scores around the line.", public=False, height=4)
        return outcome

    def _report(self, result: CalibratedScores, methods: pl.DataFrame) -> OutcomePart:
        named = int(result.reviewers["disagrees"].sum())
        part = OutcomePart(f"{result.summary()}.", [f"{result.summary()}.", *result.notes], result.figures())
        part.findings.append(
            f"The scores of {named} of {result.reviewers.height} reviewers disagree with the others' beyond strictness "
            "(reviewers.csv)."
        )
        if result.more_reviews.height:
            first = result.more_reviews.row(0, named=True)
            part.findings.append(
                f"One more review helps {result.more_reviews.height} papers near the line (more_reviews.csv), most of all "
                f"{first['paper']}: its decision is wrong with chance {first['wrong']:.2f} now and {first['after']:.2f} then."
            )
        part.table(*_agreement(result, methods))
        part.table(result.models.columns, result.models.rows())
        near = result.scores if result.accept is None else result.scores.filter(result.scores["change"] != "")
        if near.height:
            part.table(near.columns, near.head(_ROWS).rows())
        for name, frame in (
            ("scores", result.scores),
            ("reviewers", result.reviewers),
            ("more_reviews", result.more_reviews),
            ("methods", methods),
        ):
            part.csv(f"{name}.csv", frame)
        return part


def _agreement(result: CalibratedScores, methods: pl.DataFrame) -> tuple[list[str], list[list[object]]]:
    """For every method its rank correlation with the calibrated scores, and how many accepted papers differ."""
    import numpy as np

    places = result.accept
    columns, rows = ["method", "rank correlation with calibrated", *(["other papers accepted"] if places else [])], []
    best = methods["calibrated"].rank("ordinal", descending=True)
    for name in methods.columns[2:]:
        rank = methods[name].rank("ordinal", descending=True)
        row: list[object] = [name, float(np.corrcoef(methods[name].rank(), methods["calibrated"].rank())[0, 1])]
        rows.append([*row, int(((rank <= places) & (best > places)).sum())] if places else row)
    return columns, rows
