"""What the actions of calibration have in common: how many papers to accept, how reviewers score, groups of papers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

import peerveil
from peerveil.core.errors import Verbatim
from peerveil.study.actions import Action, Setting, common
from peerveil.study.spelling import File, InnerShare, Range, ReviewsName, require

if TYPE_CHECKING:
    from peerveil.calibration.fit import MiscalibrationFit
    from peerveil.data import Reviews
    from peerveil.study.execute import Inputs

_NOTHING: Final = Verbatim("nothing")


class DecisionModel(Action["Reviews"]):
    """What planning and deciding have in common: how many papers to accept, and how reviewers score."""

    kinds = ("reviews",)
    from_scores: ClassVar[bool] = False
    """Whether it also works from this year's scores alone."""

    accept: Annotated[
        int | None, Range(ge=0, le=1_000_000), common("How many papers to accept.", "Papers to accept")
    ] = None
    accepted: Annotated[
        InnerShare | None,
        common(
            "Instead of a number: the share of all papers expected above the line, such as 0.25.",
            "Share of papers to accept",
        ),
    ] = None
    history: Annotated[
        tuple[ReviewsName, ...],
        common(
            "Reviews of past conferences, from which each reviewer's strictness (scale and bias) is fitted; the same people "
            "need the same names there.",
            "Past conference",
        ),
    ] = ()
    reviewers: Annotated[
        File | None,
        Setting(
            "Instead of a history: a table with reviewer, scale and bias, where score = scale * quality + bias.",
            "Known strictness",
        ),
    ] = None
    noise: Annotated[
        float | None,
        Range(ge=0),
        Setting("Standard deviation of scores; by default fitted with the history.", "Noise of scores"),
    ] = None
    draws: Annotated[
        int,
        Range(ge=1, le=50),
        Setting(
            "With a history: how many credible functions of each reviewer to average over; 1 takes the mean.",
            "Draws per reviewer",
        ),
    ] = 8
    iterations: Annotated[
        int,
        Range(ge=60, le=1_000_000),
        Setting("With a history: iterations of each of four chains.", "Iterations of the fit"),
    ] = 1500

    def __post_init__(self) -> None:
        got = _NOTHING if self.accept is None else Verbatim("a number and a share")
        want = "a number of papers, or instead accepted: a share of all papers"
        require((self.accept is None) != (self.accepted is None), "accept", got=got, want=want)
        got = Verbatim("a history and reviewers") if self.history else _NOTHING
        want = (
            "past conferences, or instead reviewers: a table of strictness. This year's scores alone are enough for calibration "
            "calibrate (for the operator), and calibration plan says whether that would help"
        )
        known = bool(self.history) + (self.reviewers is not None)
        require(known == 1 or (known == 0 and self.from_scores), "history", got=got, want=want)
        want = "the standard deviation of scores; it is fitted only with a history"
        require(self.reviewers is None or self.noise is not None, "noise", got=_NOTHING, want=want)

    def fit(self, inputs: Inputs[Reviews]) -> MiscalibrationFit | None:
        """Strictness learned from the past, once per run; None if it was given as a table."""
        if not self.history:
            return None
        fit: MiscalibrationFit | None
        fitted, fit = self.__dict__.get("_fit", (None, None))
        if fitted is not inputs:
            from peerveil.calibration.fit import fit_miscalibration, known_reviewers

            past = inputs.others["history"]
            known_reviewers(inputs.table, past)
            fit = fit_miscalibration(past, iterations=self.iterations, progress=False)
            object.__setattr__(self, "_fit", (inputs, fit))
        return fit

    def model(self, inputs: Inputs[Reviews]) -> dict[str, Any]:
        """How reviewers score, and how papers are accepted: the arguments of :class:`peerveil.calibration.Conference`."""
        inputs.table.require_reviewers("calibration")
        people = inputs.table.frame["reviewer"].unique().to_list()
        fit, noise = self.fit(inputs), self.noise
        functions: dict[Any, Any]
        if fit is None:
            assert self.reviewers is not None
            functions = peerveil.calibration.read_miscalibration(self.reviewers, reviewers=people)
        else:
            functions, noise = fit.functions(people, draws=self.draws), fit.noise if noise is None else noise
        return {"functions": functions, "noise": noise, "accept": self.places}

    @property
    def places(self) -> Any:
        """How many papers to accept: a number, or a line."""
        return self.accept if self.accepted is None else peerveil.calibration.Threshold.share(self.accepted)


class GroupedModel(DecisionModel):
    """The same for decisions by groups of papers."""

    group_size: Annotated[
        int,
        Range(ge=2, le=6),
        common(
            "Papers whose committees could have been exchanged. Larger groups hide a writer among more people, and take "
            "longer."
        ),
    ] = 5
    exactly: Annotated[
        bool,
        Setting(
            "Accept exactly the number of papers; otherwise about as many, with fewer wrong decisions.", "Exact number"
        ),
    ] = True
    exchange: Annotated[
        Literal["committees", "reviews", "single"],
        Setting(
            "What could have been exchanged in a group: whole committees, also reviews within a committee, or each k-th review "
            "by itself (small groups)."
        ),
    ] = "committees"
    per_decision: Annotated[
        bool,
        Setting(
            "The adversary error holds after every decision that can be taken, not only on average over decisions.",
            "After every decision",
        ),
    ] = True

    def model(self, inputs: Inputs[Reviews]) -> dict[str, Any]:
        """The same with the settings of groups."""
        return super().model(inputs) | {name: getattr(self, name) for name in ("group_size", "exactly", "exchange")}

    def conference(self, inputs: Inputs[Reviews]) -> peerveil.calibration.Conference:
        """The conference; building it refuses what could not be decided."""
        return peerveil.calibration.Conference(inputs.table, **self.model(inputs))
