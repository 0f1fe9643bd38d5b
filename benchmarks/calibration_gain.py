"""What calibration gains and whether its intervals and plans hold: python -m benchmarks.calibration_gain [conferences].

240 papers, 160 reviewers drawn at random, 3 reviews, quality and noise of standard deviation 1, a quarter accepted. `rounded`:
whole scores from 1 to 10, 2 to 5 reviews per paper, a few reviewers with most of the load, t-distributed strictness (4 degrees of
freedom). `known` is the gain with the true variances: more cannot be had.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

from peerveil.calibration import calibrate, plan_decisions
from peerveil.calibration.mixed import Design, Equations, Variances
from peerveil.data import Reviews

PAPERS, REVIEWERS, PLACES = 240, 160, 60


class Sample(NamedTuple):
    """A synthetic conference: reviews, the papers' qualities on the scores' scale, and its random effects' variances."""

    reviews: Reviews
    truth: Any
    variances: Variances


def conference(rng: np.random.Generator, strictness: float, *, rounded: bool = False) -> Sample:
    """A conference; `rounded` also has uneven loads and heavy-tailed strictness."""
    sizes = rng.integers(2, 6, PAPERS) if rounded else np.full(PAPERS, 3)
    load = np.exp(rng.standard_normal(REVIEWERS)) if rounded else np.ones(REVIEWERS)
    people = np.concatenate([rng.choice(REVIEWERS, size, replace=False, p=load / load.sum()) for size in sizes])
    papers = np.repeat(np.arange(PAPERS), sizes)
    truth = rng.standard_normal(PAPERS)
    bias = rng.standard_t(4, REVIEWERS) / np.sqrt(2) if rounded else rng.standard_normal(REVIEWERS)
    score = truth[papers] + strictness * bias[people] + rng.standard_normal(len(papers))
    if rounded:
        score, truth = np.clip(np.round(5.5 + 1.5 * score), 1, 10), 5.5 + 1.5 * truth
    return Sample(Reviews(paper=papers, reviewer=people, score=score), truth, Variances(1, max(strictness**2, 1e-6), 1))


def hits(truth: Any, value: Any) -> float:
    """The share of the truly best papers that are accepted by these values; ties are decided by their order."""
    return len(set(np.argsort(-truth)[:PLACES]) & set(np.argsort(-value, kind="stable")[:PLACES])) / PLACES


def measure(sample: Sample, *, plan: bool) -> list[float]:
    """Gain, gain with known variances, coverage, predicted gain."""
    frame = sample.reviews.frame
    scores = calibrate(sample.reviews, accept=PLACES).scores.sort("paper")
    papers, people = frame["paper"].to_numpy(), frame["reviewer"].to_numpy()
    known = Equations(Design(papers, people, PAPERS, REVIEWERS), sample.variances).solve(sample.reviews.scores).paper
    mean = hits(sample.truth, scores["mean"].to_numpy())
    covered = (scores["lower"].to_numpy() <= sample.truth) & (sample.truth <= scores["upper"].to_numpy())
    predicted = plan_decisions(sample.reviews, accept=PLACES).gain if plan else np.nan  # type: ignore[union-attr]
    gain = hits(sample.truth, scores["calibrated"].to_numpy()) - mean
    return [gain, hits(sample.truth, known) - mean, float(covered.mean()), predicted]


def run(conferences: int, strictness: float, *, rounded: bool = False, planned: int = 50, seed: int = 26) -> Any:
    """One row per conference, planned for the first so many."""
    rng = np.random.default_rng(seed)
    return np.array(
        [measure(conference(rng, strictness, rounded=rounded), plan=i < planned) for i in range(conferences)]
    )


def main() -> None:
    conferences = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for rounded in (False, True):
        for strictness in (0.0, 0.5, 1.0):
            table = run(conferences, strictness, rounded=rounded)
            planned = table[~np.isnan(table[:, 3])]
            print(
                f"strictness {strictness:g}{', rounded' if rounded else ''}: gain {table[:, 0].mean():+.4f} "
                f"(standard error {table[:, 0].std() / conferences**0.5:.4f}; known {table[:, 1].mean():+.4f}), coverage "
                f"{table[:, 2].mean():.3f}, predicted {planned[:, 3].mean():+.4f} for realized {planned[:, 0].mean():+.4f} "
                f"(difference {(planned[:, 3] - planned[:, 0]).mean():+.4f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
