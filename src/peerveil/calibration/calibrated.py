"""What calibrating hands out: scores and reviewers for the operator alone, and whether calibration would help."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

import polars as pl

from peerveil.core.result import Pictured, Plan, plain
from peerveil.report.figures import COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.data import Rankings, Reviews

WORTHWHILE: Final = 0.01
"""The gain from which calibration is worth anybody's trouble: one place in a hundred."""
_SHOWN: Final = 60  # papers in the figure, around the line


@dataclass(frozen=True, kw_only=True)
class CalibratedScores(Pictured):
    """Calibrated scores, and what they say about reviewers. It names reviewers: for the chair alone.

    Attributes
    ----------
    scores : polars.DataFrame
        One row per paper, best first: ``paper``, ``reviews``, ``mean``, ``calibrated``, ``lower``, ``upper``, ``rank``,
        ``rank_lower``, ``rank_upper``, ``part`` (papers of different parts share no reviewer); with a number of papers to
        accept also ``chance`` (of being among the truly best), ``accepted`` and ``change`` (against the plain mean).
    reviewers : polars.DataFrame
        One row per reviewer: ``reviewer``, ``reviews``, ``bias`` (below 0 is strict), ``lower``, ``upper``, ``scale``,
        ``p_value`` and ``disagrees``: whether their scores disagree with the others' beyond strictness.
    more_reviews : polars.DataFrame
        Papers near the line that deserve one more review, most useful first: ``paper``, ``calibrated``, the chance that its
        decision is ``wrong`` now and ``after`` one more review, and the difference, ``gain``.
    models : polars.DataFrame
        The models of scores that were tried, with the log-likelihood per held-out review.
    model : str
        The one that was taken.
    quality, strictness, noise : float
        Standard deviations of papers, reviewers and reviews.
    accept : int or None
        How many papers are accepted.
    level : float
        Of the intervals.
    notes : tuple of str
        What limits the comparison, in sentences.
    """

    operator_only: ClassVar[bool] = True

    scores: pl.DataFrame = field(repr=False)
    reviewers: pl.DataFrame = field(repr=False)
    more_reviews: pl.DataFrame = field(repr=False)
    models: pl.DataFrame = field(repr=False)
    model: str
    quality: float
    strictness: float
    noise: float
    accept: int | None
    level: float
    notes: tuple[str, ...]
    _reviews: Reviews = field(repr=False)

    def summary(self) -> str:
        """The three standard deviations, and how many decisions change."""
        text = (
            f"{self.scores.height} papers, {self.reviewers.height} reviewers (model: {self.model}); standard deviations: "
            f"quality {self.quality:.3g}, strictness {self.strictness:.3g}, noise {self.noise:.3g}"
        )
        if self.accept is None:
            return text
        changed = int((self.scores["change"] == "accepted").sum())
        return f"{text}; of {self.accept} accepted papers {changed} would not be accepted by the plain mean"

    def frame(self) -> pl.DataFrame:
        """One row per paper, best first."""
        return self.scores

    def figures(self) -> dict[str, Any]:
        """The result in a few figures."""
        names = ("model", "quality", "strictness", "noise", "accept")
        return {name: getattr(self, name) for name in names} | {"disagreeing": int(self.reviewers["disagrees"].sum())}

    def compare(self, rankings: Rankings | None = None) -> pl.DataFrame:
        """The methods that chairs know by name on the same reviews: one row per paper, one column per method.

        Parameters
        ----------
        rankings
            Authors' own rankings of their papers, for the Isotonic Mechanism. They are private judgments: collect them with
            ``peerveil collect``.
        """
        from peerveil.calibration.compare import compare_methods

        return compare_methods(self._reviews, self.scores.select("paper", "calibrated"), rankings)

    def to_dict(self) -> dict[str, Any]:
        """All but the reviews, as JSON values."""
        hidden = {"_reviews"}
        return {name: plain(getattr(self, name)) for name in self.__dataclass_fields__ if name not in hidden}

    def draw(self, ax: Axes) -> None:
        """Calibrated scores with their intervals, and plain means, of the papers around the line."""
        middle = self.scores.height // 2 if self.accept is None else self.accept
        first = max(0, min(middle - _SHOWN // 2, self.scores.height - _SHOWN))
        table = self.scores[first : first + _SHOWN]
        rank, value = table["rank"].to_numpy(), table["calibrated"].to_numpy()
        below, above = value - table["lower"].to_numpy(), table["upper"].to_numpy() - value
        interval = f"calibrated, with {100 * self.level:g}% interval"
        ax.errorbar(rank, value, yerr=[below, above], fmt="o", ms=4, lw=0.8, color=COLORS["private"], label=interval)
        ax.plot(rank, table["mean"], "x", ms=4, color=COLORS["truth"], label="plain mean")
        if self.accept is not None:
            ax.axvline(self.accept + 0.5, color=COLORS["accent"], lw=1.2, label="line")
        ax.set(xlabel="rank by calibrated score", ylabel="score")
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, fontsize=9)


@dataclass(frozen=True, slots=True)
class CalibrationGain(Plan):
    """Whether calibration would help this conference, from this year's scores alone.

    Attributes
    ----------
    gain, lower, upper : float
        Expected gain in the share of the truly best papers that are accepted, against the plain mean, on this assignment and
        these scores, and its 95% interval.
    changed : float
        How many of the accepted papers the plain mean would not accept; ties at its line count in part.
    accept, papers : int
        How many papers are accepted, and how many there are.
    quality, strictness, noise : float
        Standard deviations of papers, reviewers and reviews.
    model : str
        The model of scores that was taken.
    """

    gain: float
    lower: float
    upper: float
    changed: float
    accept: int
    papers: int
    quality: float
    strictness: float
    noise: float
    model: str

    @property
    def helps(self) -> bool:
        """Whether the expected gain is worth the trouble."""
        return self.gain >= WORTHWHILE

    @property
    def recommendation(self) -> str:
        """Whether to calibrate, with the expected gain."""
        gain = f"{self.gain:+.3f} (95% interval {self.lower:+.3f} to {self.upper:+.3f})"
        if not self.helps:
            return f"Calibration would not change this conference: the expected gain in the share of the best papers is {gain}."
        return (
            f"Calibrate: the share of the truly best {self.accept} papers that are accepted is expected to change by {gain} "
            f"against the plain mean; {self.changed:.1f} of the accepted papers would be others."
        )

    def table(self) -> pl.DataFrame:
        """One row: the gain, its interval and the three standard deviations."""
        names = ("gain", "lower", "upper", "changed", "accept", "papers", "quality", "strictness", "noise", "model")
        return pl.DataFrame([{name: getattr(self, name) for name in names}])

    def draw(self, ax: Axes) -> None:
        """The expected gain with its interval, beside the least that is worthwhile; the deviations in the title."""
        interval = [[self.gain - self.lower], [self.upper - self.gain]]
        ax.errorbar([self.gain], [0], xerr=interval, fmt="o", capsize=4, color=COLORS["private"], label="expected gain")
        ax.axvline(0, color=COLORS["truth"], lw=1, label="plain mean")
        ax.axvline(WORTHWHILE, color=COLORS["accent"], lw=1.2, ls="--", label="worthwhile")
        ax.set(yticks=[], xlabel="gain in the share of the truly best papers accepted", ylim=(-1, 1))
        spread = f"quality {self.quality:.2g}, strictness {self.strictness:.2g}, noise {self.noise:.2g}"
        ax.set_title(f"standard deviations: {spread}", fontsize=9)
        ax.legend(loc="upper right", fontsize=9)
