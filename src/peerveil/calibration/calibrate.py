"""Calibrated scores from this year's reviews, with intervals: for the operator.

Papers and reviewers are random effects (:mod:`peerveil.calibration.mixed`); how reviewers score is chosen by held-out
likelihood (:mod:`peerveil.calibration.scoring`). Nothing here is private: a calibrated score next to the plain mean tells how
strict a paper's reviewers are. Publish decisions, and see first what they give away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import polars as pl
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.special import gammaincc, ndtr, ndtri

from peerveil.calibration.fit import joined_reviews, known_reviewers
from peerveil.calibration.losses import Threshold
from peerveil.calibration.mixed import Design, Posterior, paper_draws, posterior
from peerveil.calibration.scoring import ScoreModel, choose_model
from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import number, whole
from peerveil.core.result import Pictured, Plan, plain
from peerveil.data import Reviews
from peerveil.data.table import plural
from peerveil.report.figures import COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.core.arrays import Floats, Ints
    from peerveil.data import Rankings

WORTHWHILE: Final = 0.01
"""The gain from which calibration is worth anybody's trouble: one place in a hundred."""
_DISCOVERIES: Final = 0.05  # expected share of reviewers among those named who do not disagree more than by chance
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
    changed : int
        How many of the accepted papers the plain mean would not accept.
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
    changed: int
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
            f"against the plain mean; {plural(self.changed, 'accepted paper')} would be others."
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


# ---- what both start from --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Conference:
    """This year's reviews, joined to the past ones behind them, with the model that they support."""

    reviews: Reviews
    paper: Ints
    names: Any
    who: Ints
    people: list[Any]
    model: ScoreModel
    models: pl.DataFrame
    notes: tuple[str, ...]

    @property
    def design(self) -> Design:
        return self.model.fitted or self.model.design

    @property
    def means(self) -> Floats:
        """The plain mean of each paper."""
        counts = np.bincount(self.paper)
        return np.asarray(np.bincount(self.paper, self.reviews.scores) / counts)


def _read(
    reviews: Any, history: Any, confidence: str | None, columns: Mapping[str, str] | None, argument: str = "reviews"
) -> _Conference:
    """Check and number everything, and choose a model."""
    reviews = Reviews.of(reviews, argument, columns=columns)
    reviews.require_reviewers("calibration")
    several = isinstance(history, Sequence) and not isinstance(history, str)
    past = [Reviews.of(table, "history", columns=columns) for table in (history if several else [history])] if (
        history is not None
    ) else []
    if past:
        known_reviewers(reviews, past)
    paper, texts, scores, papers = joined_reviews([reviews, *past])
    people = texts.unique(maintain_order=True)
    who = texts.replace_strict(people, np.arange(len(people)), return_dtype=pl.Int64).to_numpy()
    now = len(reviews.scores)
    if reviews.scores.std() == 0:
        raise BadInput(argument, got=Verbatim("scores that are all equal"), want="scores that differ")
    for label, numbers in (("paper", paper), ("reviewer", who)):
        if np.bincount(numbers).max() < 2:
            got = Verbatim(f"one review of every {label}" if label == "paper" else "one review by every reviewer")
            want = "papers with several reviews, and reviewers with several papers: otherwise strictness cannot be seen"
            raise BadInput(argument, got=got, want=want)
    notes = []
    start = now
    for table in past:  # other years may use other scales: their scores get this year's mean and spread
        part = slice(start, start + len(table.scores))
        scores[part] = reviews.scores.mean() + reviews.scores.std() * (scores[part] - scores[part].mean()) / max(
            float(scores[part].std()), 1e-12
        )
        start = part.stop
    stated = _confidence([reviews, *past], confidence)
    design = Design(paper, who, papers, len(people))
    model, models = choose_model(design, scores, stated)
    names = reviews.numbered("paper")[1]
    notes += _limits(design, reviews, now)
    ours = reviews.frame["reviewer"].unique(maintain_order=True).to_list()
    return _Conference(reviews, paper[:now], names, who, ours, model, models, tuple(notes))


def _confidence(tables: Sequence[Reviews], name: str | None) -> Floats | None:
    """The stated confidence of every review: the criterion of this name, or the one called so."""
    wanted = "confidence" if name is None else name
    found = [[known for known in table.criteria if known.lower() == wanted.lower()] for table in tables]
    if all(found):
        return np.concatenate([table.column(names[0]) for table, names in zip(tables, found, strict=True)])
    if name is not None:
        have = ", ".join(tables[0].criteria) or "no criteria"
        raise BadInput("confidence", got=name, want=f"a column of numbers of the reviews and the history ({have})")
    return None


def _limits(design: Design, reviews: Reviews, now: int) -> list[str]:
    """What limits the comparison: parts that share no reviewer, single reviews."""
    papers, people = design.paper[:now], design.reviewer[:now]
    part = _parts(design)[: reviews.frame["paper"].n_unique()]
    sizes = np.sort(np.unique(part, return_counts=True)[1])[::-1]
    notes = []
    if len(sizes) > 1:
        listed = ", ".join(map(str, sizes[:8])) + (", ..." if len(sizes) > 8 else "")
        notes.append(
            f"The papers fall into {len(sizes)} parts that share no reviewer ({listed} papers): papers of different parts are "
            "compared as if reviewers of all parts were equally strict on average."
        )
    single = int((np.bincount(papers) == 1).sum()), int((np.bincount(people)[np.unique(people)] == 1).sum())
    if single[0]:
        notes.append(f"{plural(single[0], 'paper')} with a single review: drawn strongly toward the mean.")
    if single[1]:
        notes.append(f"{plural(single[1], 'reviewer')} with a single review: their strictness is hardly known.")
    return notes


def _parts(design: Design) -> Ints:
    """The part of every paper: connected through common reviewers."""
    count = design.papers + design.reviewers
    ones = np.ones(len(design.paper))
    graph = csr_array((ones, (design.paper, design.papers + np.asarray(design.reviewer))), shape=(count, count))
    return np.asarray(connected_components(graph, directed=False)[1][: design.papers])


def _places(accept: object, papers: int) -> int:
    """How many papers are accepted: a number, or the share that a line stands for."""
    if isinstance(accept, Threshold):
        return max(1, round(float(ndtr(-accept.quality)) * papers))
    return whole(accept, "accept", 1, papers)


def _by_mean(means: Floats, places: int) -> Floats:
    """How surely the plain mean accepts each paper: 1 above its line, 0 below, and ties at the line share the rest."""
    line = np.sort(means)[-places]
    above, tied = means > line + 1e-9, np.abs(means - line) <= 1e-9
    return np.where(above, 1.0, np.where(tied, (places - above.sum()) / tied.sum(), 0.0))


def _top(values: Floats, places: int) -> Any:
    """Whether each is among the best, by column."""
    order = np.argsort(-values, axis=0, kind="stable")[:places]
    inside = np.zeros(values.shape, dtype=bool)
    np.put_along_axis(inside, order, True, axis=0)
    return inside


# ---- calibrated scores -----------------------------------------------------------------------------------------------


def calibrate(
    reviews: Any,
    *,
    history: Any = None,
    accept: int | Threshold | None = None,
    confidence: str | None = None,
    columns: Mapping[str, str] | None = None,
    level: float = 0.95,
) -> CalibratedScores:
    """Calibrated scores with intervals, from this year's reviews alone or together with past ones.

    Parameters
    ----------
    reviews
        Who scored which paper (Reviews, a pandas or Polars frame, or a file name).
    history
        A past conference, or a list of several, with some of the same reviewers: their strictness is then known better. Past
        scores are moved to this year's mean and spread.
    accept
        How many papers to accept, or a :class:`Threshold` (its share of these papers): adds decisions.
    confidence
        The criterion that states each review's confidence; by default the one called ``confidence``, if there is one.
    columns
        Our names for columns that a frame or file calls otherwise: ``{"paper": "submission"}``.
    level
        Of the intervals of scores and ranks.

    Examples
    --------
    >>> from peerveil.data import synthetic_conference
    >>> reviews = synthetic_conference(papers=60, reviewers=40, seed=1).reviews
    >>> result = calibrate(reviews, accept=15)
    >>> result.scores.columns[:7]
    ['paper', 'reviews', 'mean', 'calibrated', 'lower', 'upper', 'rank']
    >>> int(result.scores["accepted"].sum())
    15
    """
    share = number(level, "level", 0.5, 0.999)
    conference = _read(reviews, history, confidence, columns)
    reviews, count = conference.reviews, len(conference.names)
    places = None if accept is None else _places(accept, count)
    draws = int(np.clip(4_000_000 // len(conference.model.scores), 100, 400))
    belief = posterior(conference.design, conference.model.scores, conference.model.variances, draws)
    model = conference.model
    value, deviation = belief.paper[:count], belief.deviation[:count]
    reach = float(ndtri((1 + share) / 2)) * deviation
    order = np.argsort(-value, kind="stable")
    rank = np.empty(count, dtype=int)
    rank[order] = np.arange(1, count + 1)
    ranks = np.argsort(np.argsort(-belief.draws[:count], axis=0), axis=0) + 1
    low, high = np.quantile(ranks, [(1 - share) / 2, (1 + share) / 2], axis=1, method="nearest")
    table = {
        "paper": conference.names,
        "reviews": np.bincount(conference.paper),
        "mean": conference.means,
        "calibrated": model.to_score(value),
        "lower": model.to_score(value - reach),
        "upper": model.to_score(value + reach),
        "rank": rank,
        "rank_lower": np.minimum(low, rank),
        "rank_upper": np.maximum(high, rank),
        "part": _parts(conference.design)[:count] + 1,
    }
    if places is not None:
        by_mean, accepted = _by_mean(conference.means, places), rank <= places
        change = np.where(accepted & (by_mean == 0), "accepted", np.where(~accepted & (by_mean == 1), "rejected", ""))
        table |= {"chance": (ranks <= places).mean(axis=1), "accepted": accepted, "change": change}
    deviations = np.sqrt(model.variances.values)
    return CalibratedScores(
        scores=pl.DataFrame(table)[order],
        reviewers=_reviewers(conference, belief, share),
        more_reviews=_more_reviews(conference, value, deviation, places),
        models=conference.models,
        model=model.name,
        quality=float(deviations[0]),
        strictness=float(deviations[1]),
        noise=float(deviations[2]),
        accept=places,
        level=share,
        notes=conference.notes,
        _reviews=reviews,
    )


def _reviewers(conference: _Conference, belief: Posterior, level: float) -> pl.DataFrame:
    """Strictness of each reviewer, and whether their residuals are larger than the model leads to expect.

    The sum of a reviewer's squared residuals is compared with the same sum in scores simulated from the model (a gamma
    distribution with their mean and variance); reviewers are named by Benjamini and Hochberg's rule.
    """
    design, model, now = conference.design, conference.model, len(conference.paper)
    count, who = len(conference.people), conference.who[:now]
    weight = design.weight[:now]
    sums = csr_array((weight, (who, np.arange(now))), shape=(count, now))
    observed = sums @ np.square(model.scores - belief.fit)[:now]
    expected = sums @ np.square(belief.residuals[:now])
    mean, variance = expected.mean(axis=1), np.maximum(expected.var(axis=1), 1e-300)
    p_value = gammaincc(mean**2 / variance, observed * mean / variance)
    order = np.argsort(p_value)
    passed = np.flatnonzero(p_value[order] <= _DISCOVERIES * np.arange(1, count + 1) / count)
    disagrees = np.zeros(count, dtype=bool)
    disagrees[order[: passed[-1] + 1 if len(passed) else 0]] = True
    scale = np.ones(design.reviewers)
    scale[design.reviewer] = design.loading
    bias, reach = belief.reviewer[:count], float(ndtri((1 + level) / 2)) * belief.reviewer_deviation[:count]
    columns = {
        "reviewer": conference.people,
        "reviews": np.bincount(who, minlength=count),
        "bias": bias,
        "lower": bias - reach,
        "upper": bias + reach,
        "scale": scale[:count],
        "p_value": p_value,
        "disagrees": disagrees,
    }
    return pl.DataFrame(columns).sort("bias")


def _more_reviews(conference: _Conference, value: Floats, deviation: Floats, places: int | None) -> pl.DataFrame:
    """By how much one more review, by a reviewer drawn at random, is expected to make each decision surer.

    A paper's quality is N(m, v) and the line is at t. A review of variance r moves m by N(0, v^2/(v + r)) and leaves the
    variance v r/(v + r). The chance of a wrong decision is Phi(-|m - t|/sd) now, and its mean over the move afterwards.
    """
    columns = ("paper", "calibrated", "wrong", "after", "gain")
    if places is None or places == len(value):
        return pl.DataFrame(schema=dict.fromkeys(columns, pl.Float64))
    edge = np.sort(value)[::-1]
    distance = value - (edge[places - 1] + edge[places]) / 2
    near = np.flatnonzero(np.abs(distance) < 4 * deviation)
    distance, variance = distance[near], np.square(deviation[near])
    variances = conference.model.variances
    review = variances.noise + variances.reviewer
    wrong = ndtr(-np.abs(distance) / np.sqrt(variance))
    grid = np.linspace(-5, 5, 201)
    mass = np.exp(-0.5 * grid * grid)
    moved = distance[:, None] + (variance / np.sqrt(variance + review))[:, None] * grid
    left = np.sqrt(variance * review / (variance + review))
    after = ndtr(-np.abs(moved) / left[:, None]) @ (mass / mass.sum())
    names = pl.Series("paper", conference.names)[near]
    scores = conference.model.to_score(value)[near]
    table = pl.DataFrame(dict(zip(columns, (names, scores, wrong, after, wrong - after), strict=True)))
    return table.sort("gain", descending=True, maintain_order=True).filter(pl.col("gain") >= 0.001)


# ---- would it help? --------------------------------------------------------------------------------------------------


def expected_gain(
    reviews: Any,
    *,
    accept: int | Threshold,
    confidence: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> CalibrationGain:
    """Whether calibration would help: the gain in the share of the truly best papers accepted, given these scores.

    Each posterior draw says which papers are the truly best. Its gain is the share of them that calibration accepts, less
    that of the plain mean (ties at the line count in part). Variances are drawn as well, from their estimates' distribution,
    so that what is not known about strictness counts.
    """
    conference = _read(reviews, None, confidence, columns)
    count, model = len(conference.names), conference.model
    places = _places(accept, count)
    by_mean = _by_mean(conference.means, places)
    draws = int(np.clip(400_000 // len(model.scores), 20, 100))
    rng = np.random.default_rng(0)
    logs, covariance = np.log(model.variances.values), model.variances.covariance
    size, root = np.linalg.eigh(covariance)
    accepted = _top(paper_mean(conference), places)
    gains = []
    for seed in range(8):
        move = root @ (np.sqrt(np.clip(size, 0, 1)) * rng.standard_normal(3))
        variances = type(model.variances)(*np.exp(logs + np.clip(move, -2, 2)).tolist())
        best = _top(paper_draws(conference.design, model.scores, variances, draws, seed), places)
        gains.append((accepted - by_mean) @ best / places)
    gain = np.concatenate(gains)
    deviations = np.sqrt(model.variances.values).tolist()
    lower, upper = np.quantile(gain, [0.025, 0.975]).tolist()
    changed = int((accepted & (by_mean == 0)).sum())
    return CalibrationGain(float(gain.mean()), lower, upper, changed, places, count, *deviations, model.name)


def paper_mean(conference: _Conference) -> Floats:
    """The papers' posterior means."""
    from peerveil.calibration.mixed import Equations

    return Equations(conference.design, conference.model.variances).solve(conference.model.scores).paper
