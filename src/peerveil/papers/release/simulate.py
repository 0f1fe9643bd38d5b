"""The simulated conferences of Appendix C, and the same with biased reviewers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from peerveil.core.arrays import Floats
from peerveil.core.errors import BadInput
from peerveil.release.expectation import draw_assignment
from peerveil.release.public import PublicScores, sorted_means

Pattern = Literal["iid", "by-paper", "by-pair"]


@dataclass(frozen=True, slots=True)
class SimulatedConference:
    """The public side, the true sorted means, and who wrote which review."""

    public: PublicScores
    true_means: Floats
    reviewer: NDArray[np.int64]
    weights: Floats


def simulate_conference(
    reviewers: int,
    reviews_per_paper: int = 2,
    load: int = 2,
    *,
    pattern: Pattern = "iid",
    beta: tuple[float, float] = (1.0, 1.0),
    bias: float = 0.0,
    rng: np.random.Generator,
) -> SimulatedConference:
    """A conference as in Appendix C of the paper.

    Parameters
    ----------
    reviewers, reviews_per_paper, load
        n, k and l; the number of papers is n l / k.
    pattern
        ``"iid"``: all weights from the beta distribution with parameters ``beta``. ``"by-paper"``: paper i has one weight
        from beta(1, i) and one from beta(2, i) (Figure 2g). ``"by-pair"``: the weight of paper i by reviewer j is from
        beta(i, j) (Figure 2h).
    bias
        The standard deviation of what each reviewer adds to their weights (clipped to [0, 1]); 0 in the paper.

    Examples
    --------
    >>> conference = simulate_conference(10, rng=np.random.default_rng(0))
    >>> conference.public, conference.true_means.size
    (PublicScores(10 papers, 10 reviewers, 20 reviews), 10)
    """
    papers, rest = divmod(reviewers * load, reviews_per_paper)
    if rest:
        raise BadInput(
            "reviewers", got=reviewers, want=f"n l = {reviewers * load} reviews in papers of {reviews_per_paper}"
        )
    if pattern == "by-paper" and reviews_per_paper != 2:
        raise BadInput("reviews_per_paper", got=reviews_per_paper, want="2 for the pattern by-paper")
    offsets = np.arange(papers + 1) * reviews_per_paper
    loads = np.full(reviewers, load)
    who = draw_assignment(offsets, loads, seed=int(rng.integers(2**31)))
    paper = np.repeat(np.arange(papers), reviews_per_paper)
    if pattern == "iid":
        weights = rng.beta(*beta, size=who.size)
    elif pattern == "by-paper":
        weights = rng.beta(np.tile([1.0, 2.0], papers), paper + 1)
    else:
        weights = rng.beta(paper + 1, who + 1)
    if bias:
        weights = np.clip(weights + rng.normal(0, bias, reviewers)[who], 0, 1)
    public = PublicScores(weights.reshape(papers, reviews_per_paper), loads, bounds=(0.0, 1.0))
    return SimulatedConference(public, sorted_means(weights, who), who, weights)
