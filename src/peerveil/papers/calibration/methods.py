"""Figure 3: calibration without privacy, by five methods, and how far the resulting order of papers is off.

| method | uses |
|---|---|
| :func:`uncalibrated` | the mean score of a paper |
| :func:`within_conference` | scores standardized by each reviewer's own mean and deviation |
| :func:`with_known` | known functions, maximum likelihood (Appendix A) |
| :func:`least_squares` | affine corrections and qualities fitted together to this conference alone |
| :func:`with_fit` | the hierarchical model, fitted to past conferences or to this one |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import block_array, coo_array, csc_array
from scipy.sparse.linalg import spsolve
from scipy.stats import kendalltau

from peerveil.calibration.functions import Affine
from peerveil.core.arrays import Floats
from peerveil.core.errors import BadInput
from peerveil.core.exact import number, numbers

if TYPE_CHECKING:
    from peerveil.calibration.fit import MiscalibrationFit
    from peerveil.data import Reviews


def _parts(reviews: Reviews) -> tuple[Any, Any, Floats, int, list[Any]]:
    reviews.require_reviewers("calibration")
    paper, papers = reviews.numbered("paper")
    who, people = reviews.numbered("reviewer")
    return np.asarray(paper), np.asarray(who), reviews.scores, len(papers), people.to_list()


def _means(paper: Any, values: Floats, papers: int) -> Floats:
    return np.asarray(np.bincount(paper, weights=values, minlength=papers) / np.bincount(paper, minlength=papers))


def uncalibrated(reviews: Reviews) -> Floats:
    """The mean score of each paper, papers in sorted order (as for every method here)."""
    paper, papers = reviews.numbered("paper")
    return _means(np.asarray(paper), reviews.scores, len(papers))


def within_conference(reviews: Reviews) -> Floats:
    """Each reviewer's scores minus their mean, over their deviation (0 where all are the same)."""
    paper, who, score, papers, people = _parts(reviews)
    count = np.bincount(who, minlength=len(people))
    mean = np.bincount(who, weights=score, minlength=len(people)) / count
    residual = score - mean[who]
    deviation = np.sqrt(np.bincount(who, weights=residual**2, minlength=len(people)) / count)
    usable = deviation[who] > 0
    standard = np.divide(residual, deviation[who], out=np.zeros_like(residual), where=usable)
    return _means(paper, standard, papers)


def with_known(reviews: Reviews, reviewers: Mapping[Any, Affine], *, noise: float | None = None) -> Floats:
    """Maximum likelihood with known functions: sum of a(s - b) over sum of a^2; with ``noise``, the posterior mean."""
    paper, who, score, papers, people = _parts(reviews)
    missing = [one for one in people if not isinstance(reviewers.get(one), Affine)]
    if missing:
        raise BadInput(f"reviewers[{missing[0]!r}]", got=reviewers.get(missing[0]), want="an Affine")
    scale, bias = np.array([[reviewers[one].scale, reviewers[one].bias] for one in people]).T
    a = scale[who]
    top = np.bincount(paper, weights=a * (score - bias[who]), minlength=papers)
    bottom = np.bincount(paper, weights=a * a, minlength=papers)
    extra = 0.0 if noise is None else number(noise, "noise", 0.0) ** 2
    return np.asarray(top / (bottom + extra))


def least_squares(reviews: Reviews, *, ridge: float = 0.1) -> Floats:
    """Qualities x_i and corrections c_j s + d_j with the least sum of (c_j s_ij + d_j - x_i)^2.

    The mean of c is held at 1 and that of d at 0 (all zeros would fit perfectly), ``ridge`` draws c_j to 1 and d_j to 0
    so that reviewers of two papers do not fit anything, and corrections that turn scores upside down are set to 0 and
    the rest solved again.
    """
    paper, who, score, papers, people = _parts(reviews)
    pull = number(ridge, "ridge", 1e-9)
    y = (score - score.mean()) / (score.std() or 1.0)
    n, m, r = len(y), papers, len(people)
    rows, ones = np.arange(n), np.ones(n)
    design = csc_array(
        coo_array(
            (
                np.concatenate([y, ones, -ones]),
                (np.tile(rows, 3), np.concatenate([who, r + who, 2 * r + paper])),
            ),
            shape=(n, 2 * r + m),
        )
    )
    fixed = np.zeros(r, dtype=np.bool_)
    for _ in range(20):
        penalty = np.concatenate([np.where(fixed, 1e9, pull), np.full(r, pull), np.full(m, 1e-9)])
        target = np.concatenate([np.where(fixed, 0.0, pull), np.zeros(r + m)])
        hold = coo_array((np.full(2 * r, 1.0 / r), (np.repeat([0, 1], r), np.arange(2 * r))), shape=(2, 2 * r + m))
        gram = design.T @ design + csc_array(coo_array((penalty, (np.arange(2 * r + m),) * 2)))
        system = csc_array(block_array([[gram, hold.T], [hold, None]]))
        solved = spsolve(system, np.concatenate([target, [1.0, 0.0]]))
        wrong = (solved[:r] < -1e-6) & ~fixed
        if not wrong.any():
            break
        fixed |= wrong
    return np.asarray(solved[2 * r : 2 * r + m])


def with_fit(reviews: Reviews, fit: MiscalibrationFit) -> Floats:
    """Posterior mean qualities with fitted functions, averaged over what is not known of the reviewers."""
    paper, who, score, papers, people = _parts(reviews)
    picks = np.linspace(0, len(fit.noise_draws) - 1, 60).astype(int)
    drawn = [fit.draws(one) for one in people]
    total = np.zeros(papers)
    weight = np.zeros(papers)
    for k in picks:
        a = np.array([scale[k] for scale, _ in drawn])[who]
        b = np.array([bias[k] for _, bias in drawn])[who]
        variance = fit.noise_draws[k] ** 2
        top = np.bincount(paper, weights=a * (score - b), minlength=papers)
        bottom = np.bincount(paper, weights=a * a, minlength=papers) + variance
        total += top / bottom
        weight += 1.0
    return np.asarray(total / weight)


def kendall_distance(truth: ArrayLike, estimate: ArrayLike) -> float:
    """The share of pairs that two score vectors order differently; a tie in one of them counts half.

    >>> round(kendall_distance([1, 2, 3], [1, 3, 2]), 6)
    0.333333
    """
    x, y = numbers(truth, "truth"), numbers(estimate, "estimate")
    if x.shape != y.shape or x.ndim != 1 or len(x) < 2:
        raise BadInput("estimate", got=estimate, want="as many numbers as truth, at least two")
    n = len(x)
    pairs = n * (n - 1) / 2
    tau = float(kendalltau(x, y).statistic)
    if np.isnan(tau):
        return 0.5
    ties = [
        float((np.unique(part, return_counts=True)[1] * (np.unique(part, return_counts=True)[1] - 1) / 2).sum())
        for part in (x, y)
    ]
    difference = tau * np.sqrt((pairs - ties[0]) * (pairs - ties[1]))  # concordant minus discordant pairs
    return float(0.5 * (1 - difference / pairs))


def messy_middle_error(
    truth: ArrayLike, estimate: ArrayLike, *, accept: int = 25, middle: tuple[int, int] = (11, 40)
) -> float:
    """Of the papers truly ranked in the middle, the share that is wrongly accepted or rejected (Appendix A)."""
    x, y = numbers(truth, "truth"), numbers(estimate, "estimate")
    if x.shape != y.shape or len(x) < middle[1]:
        raise BadInput("estimate", got=estimate, want=f"as many numbers as truth, at least {middle[1]}")
    rank, guessed = (np.argsort(np.argsort(-part, kind="stable"), kind="stable") + 1 for part in (x, y))
    inside = (rank >= middle[0]) & (rank <= middle[1])
    return float(((rank <= accept) != (guessed <= accept))[inside].mean())
