"""Methods that chairs know by name, on their own reviews: for comparison with calibrated scores.

- ``z_score``: each reviewer's scores are standardized, then averaged.
- ``with_confidence``: MacKay, Kenna, Low and Parker (2017), *Calibration with confidence*: minimize the sum of c (score - v_i -
  b_j)^2 over papers and reviewers, reviewers' biases adding up to 0 in each connected part; c is the stated confidence, or 1.
- ``least_squares``: Tan, Wu, Bei and Xu (2021), *Least square calibration*, with monotone reviewers: minimize the sum of
  (t_j(score) - x_i)^2, where each reviewer's t_j gives a score's quality and rises by at least a point per point of score.
- ``isotonic``: Su (2021), the Isotonic Mechanism: the plain means, moved as little as possible (least squares) until they agree
  with each author's own ranking of their papers; several authors of a paper are averaged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from peerveil.core.errors import BadInput, Verbatim
from peerveil.core.lazy import connected_components, csr_array, hstack, isotonic_regression, lsqr
from peerveil.data import Rankings

if TYPE_CHECKING:
    from peerveil.core.arrays import Floats
    from peerveil.data import Reviews


def compare_methods(reviews: Reviews, calibrated: pl.DataFrame, rankings: Any = None) -> pl.DataFrame:
    """One row per paper, best first by ``calibrated``, and one column per method."""
    paper, names = reviews.numbered("paper")
    who, _ = reviews.numbered("reviewer")
    score, papers = reviews.scores, np.asarray(paper)
    stated = next((reviews.column(name) for name in reviews.criteria if name.lower() == "confidence"), None)
    weight = np.ones(len(score)) if stated is None else np.maximum(stated, 1e-6) / max(float(stated.mean()), 1e-6)
    means = np.bincount(papers, score) / np.bincount(papers)
    columns = {
        "paper": names,
        "mean": means,
        "z_score": z_scores(papers, who, score),
        "with_confidence": with_confidence(papers, who, score, weight),
        "least_squares": least_squares(papers, who, score),
    }
    if rankings is not None:
        columns["isotonic"] = isotonic(Rankings.of(rankings, "rankings"), names, means, np.bincount(papers))
    return calibrated.join(pl.DataFrame(columns), on="paper", how="left", maintain_order="left")


def z_scores(paper: Any, who: Any, score: Floats) -> Floats:
    """Mean of standardized scores; reviewers who give one score only count as average."""
    count = np.bincount(who)
    mean = np.bincount(who, score) / count
    spread = np.sqrt(np.bincount(who, np.square(score - mean[who])) / count)
    z = np.where(spread[who] > 0, (score - mean[who]) / np.where(spread > 0, spread, 1.0)[who], 0.0)
    return np.asarray(np.bincount(paper, z) / np.bincount(paper))


def with_confidence(paper: Any, who: Any, score: Floats, weight: Floats) -> Floats:
    """Values of papers by weighted least squares."""
    rows, root = np.arange(len(score)), np.sqrt(weight)
    columns = [csr_array((root, (rows, part)), shape=(len(rows), int(part.max()) + 1)) for part in (paper, who)]
    solution = lsqr(hstack(columns), root * score, atol=1e-12, btol=1e-12, iter_lim=10_000)[0]
    value, bias = np.split(solution, [columns[0].shape[1]])
    graph = (columns[0].T @ columns[1]).tocoo()
    count = len(solution)
    links = csr_array((graph.data, (graph.coords[0], len(value) + graph.coords[1])), shape=(count, count))
    parts, part = connected_components(links, directed=False)
    of_bias = part[len(value) :]
    shift = np.bincount(of_bias, bias, minlength=parts) / np.bincount(of_bias, minlength=parts)
    return np.asarray(value + shift[part[: len(value)]])


def least_squares(paper: Any, who: Any, score: Floats, *, rounds: int = 2_000) -> Floats:
    """Qualities of papers, with the mean of the scores.

    The problem is convex, and its constraints concern the t alone: minimizing over t (isotonic regressions of all reviewers at
    once, shifted so far apart that they never meet) and over x (means) in turns leads to the minimum.
    """
    order = np.lexsort((score, who))
    keys = np.column_stack([np.asarray(who)[order], score[order]])
    first = np.concatenate([[True], (np.diff(keys, axis=0) != 0).any(axis=1)])
    level = np.empty(len(score), dtype=int)
    level[order] = np.cumsum(first) - 1
    owner, height = keys[first].T
    counts, sizes = np.bincount(level), np.bincount(paper)
    apart = owner * 20 * (np.ptp(score) + 1)
    quality = np.bincount(paper, score) / sizes
    for _ in range(rounds):
        target = np.bincount(level, quality[paper]) / counts - height + apart
        t = isotonic_regression(target, weights=counts).x - apart + height
        new = np.bincount(paper, t[level]) / sizes
        new += score.mean() - new.mean()
        moved, quality = float(np.abs(new - quality).max()), new
        if moved < 1e-7:
            break
    return np.asarray(quality)


def isotonic(rankings: Rankings, names: Any, means: Floats, counts: Any) -> Floats:
    """Means that agree with authors' rankings; papers that nobody ranked keep theirs."""
    index = {str(name): number for number, name in enumerate(names)}
    known = np.array([index.get(str(item), -1) for item in rankings.items])
    if (known < 0).all():
        got = Verbatim("rankings of other things")
        raise BadInput("rankings", got=got, want="authors' rankings, whose items are papers of these reviews")
    total, authors = np.zeros(len(means)), np.zeros(len(means))
    for row, times in zip(rankings.ranks, rankings.counts, strict=True):
        ranked = np.flatnonzero((row >= 0) & (known >= 0))
        ranked = ranked[np.argsort(row[ranked], kind="stable")]
        papers, places = known[ranked], row[ranked]
        group = np.cumsum(np.concatenate([[0], np.diff(places) != 0])).astype(int)
        weight = np.bincount(group, counts[papers])
        target = np.bincount(group, counts[papers] * means[papers]) / weight
        moved = isotonic_regression(target, weights=weight, increasing=False).x
        # a tie asks for nothing within itself: its papers move together
        total[papers] += times * (means[papers] + (moved - target)[group])
        authors[papers] += times
    return np.asarray(np.where(authors > 0, total / np.maximum(authors, 1), means))
