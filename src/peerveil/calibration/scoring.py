"""How reviewers score this year: models around the same equations, chosen by the likelihood of held-out reviews.

- ``shift``: every reviewer adds a strictness of their own; everything is normal.
- ``confidence``: besides, the noise of a review depends on its stated confidence (estimated, not taken at face value).
- ``ordinal``: scores are steps of unequal height: each level stands where its share of all scores puts it on a normal scale.
- ``outliers``: the noise of reviews has Student's t distribution with four degrees of freedom, by reweighting.
- ``heavy``: the same for strictness: a few reviewers are very strict, most hardly at all.
- ``affine``: reviewers also stretch quality by a scale of their own, shrunk toward 1; after ``ordinal`` reviewers are
  monotone (a common monotone scale after an affine map of each reviewer's).

A richer model is taken if reviews that were left out are likelier under it by more than two standard errors; ``ordinal``, which
has no unknowns per person or review, if they are likelier at all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from peerveil.calibration.mixed import Design, Equations, Variances, fit_variances
from peerveil.core.lazy import isotonic_regression, ndtr, ndtri, stdtr, student

if TYPE_CHECKING:
    from peerveil.core.arrays import Floats

_FREEDOM: Final = 4.0
_MOST_LEVELS: Final = 20
_FOLDS: Final = 5
_FEW_REVIEWS: Final = 5_000  # beyond, one fold is left out instead of each in turn
_ROUNDS: Final = 5


@dataclass(frozen=True)
class ScoreModel:
    """A model of scores: its parts, the design with stated weights, the scores (perhaps on another scale) and variances."""

    parts: tuple[str, ...]
    design: Design
    scores: Floats
    variances: Variances
    fitted: Design | None = None
    """The design with the weights and loadings that were fitted."""
    levels: Floats | None = None
    values: Floats | None = None

    @property
    def name(self) -> str:
        """The model in words."""
        return " + ".join(self.parts) or "shift"

    def to_score(self, value: Floats) -> Floats:
        """From the model's scale back to that of the scores."""
        if self.levels is None or self.values is None:
            return value
        # straight lines between levels, and beyond the last ones with their slope
        inside = np.interp(value, self.values, self.levels)
        slopes = np.diff(self.levels) / np.diff(self.values)
        below, above = value < self.values[0], value > self.values[-1]
        inside = np.where(below, self.levels[0] + slopes[0] * (value - self.values[0]), inside)
        return np.asarray(np.where(above, self.levels[-1] + slopes[-1] * (value - self.values[-1]), inside))


def choose_model(
    design: Design, scores: Floats, confidence: Floats | None = None, *, ordinal: bool = True
) -> tuple[ScoreModel, pl.DataFrame]:
    """The model that the data support, and a table of all that were tried: gain in log-likelihood per held-out review."""
    model = ScoreModel((), design, scores, fit_variances(design, scores))
    likelihood = _held_out(model, scores)
    rows = [("shift", float(likelihood.mean()), 0.0, 0.0, True)]
    for part in ("confidence", *(("ordinal",) if ordinal else ()), "outliers", "heavy", "affine"):
        richer = _richer(model, part, confidence)
        if richer is None:
            continue
        new = _held_out(richer, scores)
        gain = new - likelihood
        error = float(gain.std() / np.sqrt(len(gain)))
        taken = bool(gain.mean() > (0.0 if part == "ordinal" else 2 * error))
        rows.append((richer.name, float(new.mean()), float(gain.mean()), error, taken))
        if taken:
            refined, variances = _refined(richer, richer.design, richer.scores)
            variances = fit_variances(refined, richer.scores, start=variances)
            model = replace(richer, fitted=refined, variances=variances)
            likelihood = _held_out(model, scores)
    schema = ["model", "log_likelihood", "gain", "standard_error", "taken"]
    return model, pl.DataFrame(rows, schema=schema, orient="row")


def _richer(model: ScoreModel, part: str, confidence: Floats | None) -> ScoreModel | None:
    """The model with one more part, before its weights and scales are fitted; None where the data have nothing for it."""
    richer = replace(model, parts=(*model.parts, part))
    if part == "ordinal":
        if _level_edges(model.scores) is None:
            return None
        levels, values = _normal_levels(model.scores)
        return replace(richer, levels=levels, values=values, scores=values[np.searchsorted(levels, model.scores)])
    if part == "confidence":
        weight = None if confidence is None else _confidence_weights(model, confidence)
        return None if weight is None else replace(richer, design=replace(model.design, weight=weight))
    return richer


def _refined(model: ScoreModel, design: Design, scores: Floats) -> tuple[Design, Variances]:
    """Weights (heavy tails) and loadings (scales) for these reviews, with their variances, by EM.

    E-step: effects at the current weights, their variances from the diagonal of the equations. M-step: t's weights
    (nu + 1)/(nu + squared size), and each reviewer's scale by ridge regression of their scores on the papers' effects.
    """
    variances, stated = model.variances, design.weight
    outliers, heavy, affine = (part in model.parts for part in ("outliers", "heavy", "affine"))
    if not (outliers or heavy or affine):
        return design, variances
    paper, who, people = design.paper, design.reviewer, design.reviewers
    spread = 0.05
    for _ in range(_ROUNDS):
        equations = Equations(design, variances, largest=0)
        effects = equations.solve(scores, 1e-5)
        quality, bias = effects.paper - effects.people[0], effects.people[1:]
        of_paper, of_people = 1 / equations.diagonal, 1 / equations.jacobi[1:]
        square = np.square(scores - effects.fit) + design.loading**2 * of_paper[paper] + of_people[who]
        if outliers:
            weight = stated * (_FREEDOM + 1) / (_FREEDOM + stated * square / variances.noise)
            design = replace(design, weight=weight)
        if heavy:
            size = np.square(bias) + of_people
            prior = (_FREEDOM + 1) / (_FREEDOM + size / variances.reviewer)
            design = replace(design, prior=prior)
            variances = replace(variances, reviewer=max(float((prior * size).mean()), 1e-9))
        if affine:
            # E[q^2] and E[q (score - mean - bias)], summed by reviewer
            second = np.square(quality) + of_paper
            precision = np.bincount(who, design.weight * second[paper], minlength=people) / variances.noise
            rest = (scores - effects.people[0] - bias[who]) * quality[paper] - second[paper]
            pull = np.bincount(who, design.weight * rest, minlength=people) / variances.noise
            change = pull / (precision + 1 / spread)
            spread = float(np.mean(np.square(change) + 1 / (precision + 1 / spread)))
            scale = np.maximum(1 + change, 0.05)
            scale /= np.average(scale, weights=np.bincount(who, minlength=people))
            design = replace(design, loading=scale[who])
        variances = replace(variances, noise=float(np.mean(design.weight * square)))
    return design, variances


# ---- held-out likelihood ---------------------------------------------------------------------------------------------


def _held_out(model: ScoreModel, scores: Floats) -> Floats:
    """The log-likelihood of each held-out score given the other reviews."""
    count = len(scores)
    fold = np.random.default_rng(0).permutation(count) % _FOLDS
    edges = _level_edges(scores, normal="ordinal" in model.parts)
    parts = []
    for number in range(_FOLDS if count <= _FEW_REVIEWS else 1):
        out = fold == number
        test = model.design.of(out)
        design, variances = _refined(model, model.design.of(~out), model.scores[~out])
        equations = Equations(design, variances, largest=0)
        effects = equations.solve(model.scores[~out], 1e-5)
        scale = np.ones(design.reviewers)
        scale[design.reviewer] = design.loading
        load = scale[test.reviewer]
        mean = effects.people[0] + load * (effects.paper - effects.people[0])[test.paper]
        mean += effects.people[1:][test.reviewer]
        variance = load**2 / equations.diagonal[test.paper] + 1 / equations.jacobi[1:][test.reviewer]
        deviation = np.sqrt(variance + variances.noise / test.weight)
        interval = None if edges is None else (edges[0][out], edges[1][out])
        parts.append(_log_density(model.scores[out], mean, deviation, interval, tailed="outliers" in model.parts))
    return np.concatenate(parts)


def _log_density(
    scores: Floats, mean: Floats, deviation: Floats, interval: tuple[Floats, Floats] | None, *, tailed: bool
) -> Floats:
    """Of the interval that a level stands for; of the score itself where there are too many levels."""
    if interval is None:
        z = (scores - mean) / deviation
        density = student.logpdf(z, _FREEDOM) if tailed else -0.5 * z * z - 0.5 * np.log(2 * np.pi)
        return np.asarray(density - np.log(deviation))
    low, high = ((edge - mean) / deviation for edge in interval)
    flip = low + high > 0  # on the side where both are small, so that nothing cancels
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    mass = stdtr(_FREEDOM, high) - stdtr(_FREEDOM, low) if tailed else ndtr(high) - ndtr(low)
    return np.asarray(np.log(np.maximum(mass, 1e-12)))


def _level_edges(scores: Floats, *, normal: bool = False) -> tuple[Floats, Floats] | None:
    """Between which values each score's level extends: midpoints, or the normal scale's; None for too many levels."""
    levels, where, counts = np.unique(scores, return_inverse=True, return_counts=True)
    if not 2 < len(levels) <= _MOST_LEVELS:
        return None
    inner = (levels[1:] + levels[:-1]) / 2
    if normal:
        inner = scores.mean() + scores.std() * ndtri(np.cumsum(counts)[:-1] / len(scores))
    ends = np.concatenate([[-np.inf], inner, [np.inf]])
    return ends[where], ends[where + 1]


def _normal_levels(scores: Floats) -> tuple[Floats, Floats]:
    """Levels, and where each stands on a normal scale: its mean between the quantiles that its share of scores fills."""
    levels, counts = np.unique(scores, return_counts=True)
    cuts = ndtri(np.concatenate([[0.0], np.cumsum(counts) / len(scores)]).clip(0, 1))
    heights = np.where(np.isfinite(cuts), np.exp(-0.5 * np.square(np.clip(cuts, -30, 30))) / np.sqrt(2 * np.pi), 0.0)
    values = -np.diff(heights) / (counts / len(scores))
    return levels, scores.mean() + scores.std() * values


def _confidence_weights(model: ScoreModel, confidence: Floats) -> Floats | None:
    """Weights by stated confidence: noise variances that do not rise with it (isotonic), none if all are equal."""
    levels = np.unique(confidence)
    several = len(levels) > 10
    stated = np.digitize(confidence, np.quantile(confidence, [0.2, 0.4, 0.6, 0.8])) if several else confidence
    _, where, counts = np.unique(stated, return_inverse=True, return_counts=True)
    if len(counts) < 2:
        return None
    equations = Equations(model.design, model.variances, largest=0)
    effects = equations.solve(model.scores, 1e-5)
    square = np.square(model.scores - effects.fit) + 1 / equations.diagonal[model.design.paper]
    square = square + 1 / equations.jacobi[1:][model.design.reviewer]
    noise = isotonic_regression(np.bincount(where, square) / counts, weights=counts, increasing=False).x
    weight = (1 / noise)[where]
    return np.asarray(weight / weight.mean())
