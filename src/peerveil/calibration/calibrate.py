"""Calibrated scores from this year's reviews, with intervals: for the operator.

Papers and reviewers are random effects (:mod:`peerveil.calibration.mixed`); how reviewers score is chosen by held-out
likelihood (:mod:`peerveil.calibration.scoring`). Nothing here is private: a calibrated score next to the plain mean tells how
strict a paper's reviewers are. Publish decisions, and see first what they give away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from peerveil.calibration.calibrated import CalibratedScores, CalibrationGain
from peerveil.calibration.fit import joined_reviews, known_reviewers
from peerveil.calibration.losses import Threshold
from peerveil.calibration.mixed import Design, Equations, Posterior, Variances, paper_draws, posterior
from peerveil.calibration.scoring import ScoreModel, choose_model
from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.exact import number, whole
from peerveil.core.lazy import connected_components, csr_array, gammaincc, ndtr, stdtrit
from peerveil.data import Reviews
from peerveil.data.table import plural

if TYPE_CHECKING:
    from peerveil.core.arrays import Floats, Ints

_DISCOVERIES: Final = 0.05  # expected share of reviewers among those named who do not disagree more than by chance


# ---- what both start from --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Conference:
    """The reviews of this year, joined to the past ones behind them, with the model that they support."""

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


def check_scores(
    reviews: Any,
    *,
    history: Any = None,
    accept: int | Threshold | None = None,
    confidence: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> tuple[Reviews, list[Reviews], Floats | None, int | None]:
    """The tables, stated confidence and places; refuses what cannot be calibrated, before anything is computed."""
    now = Reviews.of(reviews, "reviews", columns=columns)
    now.require_reviewers("calibration")
    several = isinstance(history, Sequence) and not isinstance(history, str)
    tables = history if several else [] if history is None else [history]
    past = [Reviews.of(table, "history", columns=columns) for table in tables]
    if past:
        known_reviewers(now, past)
    if now.scores.std() == 0:
        raise BadInput("reviews", got=Verbatim("scores that are all equal"), want="scores that differ")
    for column, got in (("paper", "one review of every paper"), ("reviewer", "one review by every reviewer")):
        if all(table.frame[column].n_unique() == table.frame.height for table in (now, *past)):
            want = "papers with several reviews, and reviewers with several papers: otherwise strictness cannot be seen"
            raise BadInput("reviews", got=Verbatim(got), want=want)
    stated = _confidence([now, *past], confidence)
    return now, past, stated, None if accept is None else _places(accept, now.frame["paper"].n_unique())


def _read(now: Reviews, past: list[Reviews], stated: Floats | None) -> _Conference:
    """Number papers and reviewers of all years, this one's first, and choose a model."""
    paper, texts, scores, papers = joined_reviews([now, *past])
    people = texts.unique(maintain_order=True)
    who = texts.replace_strict(people, np.arange(len(people)), return_dtype=pl.Int64).to_numpy()
    count = len(now.scores)
    levels, start, same = np.unique(now.scores), count, True
    for table in past:
        part = slice(start, start + len(table.scores))
        start = part.stop
        if not np.isin(table.scores, levels).all():  # another scale: its scores get this year's mean and spread
            same = False
            standard = (table.scores - table.scores.mean()) / max(float(table.scores.std()), 1e-12)
            scores[part] = now.scores.mean() + now.scores.std() * standard
    design = Design(paper, who, papers, len(people))
    model, models = choose_model(design, scores, stated, ordinal=same)
    names = now.numbered("paper")[1]
    ours = now.frame["reviewer"].unique(maintain_order=True).to_list()
    return _Conference(now, paper[:count], names, who, ours, model, models, _limits(design, count, len(names)))


def _confidence(tables: Sequence[Reviews], name: str | None) -> Floats | None:
    """The stated confidence of every review: the criterion of this name, or the one called so."""
    wanted = "confidence" if name is None else name
    matches = [[known for known in table.criteria if known.lower() == wanted.lower()] for table in tables]
    if all(matches):
        return np.concatenate([table.column(names[0]) for table, names in zip(tables, matches, strict=True)])
    if name is not None:
        have = ", ".join(tables[0].criteria) or "no criteria"
        raise BadInput("confidence", got=name, want=f"a column of numbers of the reviews and the history ({have})")
    return None


def _limits(design: Design, now: int, papers: int) -> tuple[str, ...]:
    """What limits the comparison: parts that share no reviewer, single reviews."""
    sizes = np.sort(np.unique(_parts(design)[:papers], return_counts=True)[1])[::-1]
    notes = []
    if len(sizes) > 1:
        listed = ", ".join(map(str, sizes[:8])) + (", ..." if len(sizes) > 8 else "")
        notes.append(
            f"The papers fall into {len(sizes)} parts that share no reviewer ({listed} papers): papers of different parts are "
            "compared as if reviewers of all parts were equally strict on average."
        )
    if lone := int((np.bincount(design.paper)[:papers] == 1).sum()):
        notes.append(f"{plural(lone, 'paper')} with a single review: drawn strongly toward the mean.")
    if lone := int((np.bincount(design.reviewer)[np.unique(design.reviewer[:now])] == 1).sum()):
        notes.append(f"{plural(lone, 'reviewer')} with a single review: their strictness is hardly known.")
    return tuple(notes)


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
        scores on another scale are moved to this year's mean and spread.
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
    now, past, stated, places = check_scores(
        reviews, history=history, accept=accept, confidence=confidence, columns=columns
    )
    conference = _read(now, past, stated)
    count = len(conference.names)
    draws = int(np.clip(4_000_000 // len(conference.model.scores), 100, 400))
    belief = posterior(conference.design, conference.model.scores, conference.model.variances, draws)
    model = conference.model
    value, deviation = belief.paper[:count], belief.deviation[:count]
    reach = _reach(conference.design, share) * deviation
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
        _reviews=now,
    )


def _reach(design: Design, level: float) -> float:
    """Standard deviations to either side: Student's t, since variances are estimated from so many papers and reviewers."""
    return float(stdtrit(min(design.papers, design.reviewers) - 1, (1 + level) / 2))


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
    bias, reach = belief.reviewer[:count], _reach(design, level) * belief.reviewer_deviation[:count]
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
    now, _, stated, places = check_scores(reviews, accept=accept, confidence=confidence, columns=columns)
    assert places is not None
    conference = _read(now, [], stated)
    count, model = len(conference.names), conference.model
    by_mean = _by_mean(conference.means, places)
    draws = int(np.clip(400_000 // len(model.scores), 20, 100))
    rng = np.random.default_rng(0)
    logs, covariance = np.log(model.variances.values), model.variances.covariance
    size, root = np.linalg.eigh(covariance)
    accepted = _top(Equations(conference.design, model.variances).solve(model.scores).paper, places)
    gains = []
    for seed in range(8):
        move = root @ (np.sqrt(np.clip(size, 0, 1)) * rng.standard_normal(3))
        variances = Variances(*np.exp(logs + np.clip(move, -2, 2)).tolist())
        best = _top(paper_draws(conference.design, model.scores, variances, draws, seed), places)
        gains.append((accepted - by_mean) @ best / places)
    gain = np.concatenate(gains)
    quality, strictness, noise = np.sqrt(model.variances.values).tolist()
    lower, upper = np.quantile(gain, [0.025, 0.975]).tolist()
    return CalibrationGain(
        gain=float(gain.mean()),
        lower=lower,
        upper=upper,
        changed=float(accepted @ (1 - by_mean)),
        accept=places,
        papers=count,
        quality=quality,
        strictness=strictness,
        noise=noise,
        model=model.name,
    )
