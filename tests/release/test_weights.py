"""The four weights: what they are, that only public data go in, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from peerveil.core.errors import BadInput
from peerveil.data import Reviews
from peerveil.release.monotone import monotone_l1_map
from peerveil.release.public import PublicScores
from peerveil.release.weights import WEIGHTS, ReviewWeights, review_weights

DATA = Path(__file__).parent / "data" / "iclr2026_review_scores.csv.gz"


def random_reviews(seed: int, *, papers: int = 12, people: int = 8) -> Reviews:
    """Reviews of one to five a paper, in the order of their authors, as an export might have them."""
    rng = np.random.default_rng(seed)
    rows = sorted(
        (int(person), paper) for paper in range(papers) for person in rng.permutation(people)[: rng.integers(1, 6)]
    )
    criteria = {name: rng.integers(1, 5, len(rows)) for name in ("soundness", "novelty")}
    return Reviews(
        paper=[paper for _, paper in rows],
        reviewer=[person for person, _ in rows],
        score=rng.choice([0.1, 0.2, 0.3, 0.7, 0.9], len(rows)),
        criteria=criteria,
    )


def test_rating_is_the_score() -> None:
    reviews = random_reviews(1)
    result = review_weights(reviews, weight="rating", scale=(0, 1))
    assert result.values.tolist() == reviews.scores.tolist()
    assert (result.bounds, result.name) == ((0, 1), "rating")


def test_miscalibration_is_the_score_minus_the_mean_of_the_others() -> None:
    reviews = random_reviews(2)
    result = review_weights(reviews, weight="miscalibration", scale=(0, 1))
    paper = reviews.column("paper")
    for row, score in enumerate(reviews.scores):
        others = [s for other, s in enumerate(reviews.scores) if paper[other] == paper[row] and other != row]
        assert result.values[row] == pytest.approx(score - np.mean(others) if others else 0.0, abs=1e-12)
    assert result.bounds == (-1, 1)


def test_a_single_review_has_no_miscalibration() -> None:
    """Erratum to (3.2): the printed formula divides by zero."""
    alone = review_weights(Reviews(paper=[1, 2], score=[3, 9]), weight="miscalibration", scale=(1, 10))
    assert (alone.values.tolist(), alone.bounds) == ([0, 0], (0, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        as_printed = 3 - np.float64(0) / (1 - 1)
    assert np.isnan(as_printed)


def test_normalized_and_subjectivity_add_up_to_the_score() -> None:
    reviews = random_reviews(3)
    community = monotone_l1_map(reviews.criteria_scores, reviews.scores)
    normalized = review_weights(reviews, weight="normalized", scale=(0, 1))
    subjectivity = review_weights(reviews, weight="subjectivity", scale=(0, 1))
    assert normalized.values.tolist() == community.fitted.tolist()
    assert normalized.values + subjectivity.values == pytest.approx(reviews.scores)
    assert (normalized.bounds, subjectivity.bounds) == ((0, 1), (-1, 1))
    risk = np.abs(reviews.scores - community.lower[community.index]).sum()
    assert np.abs(subjectivity.values).sum() == pytest.approx(risk)


def multisets(reviews: Reviews, weights: ReviewWeights) -> dict[Any, list[bytes]]:
    """For each paper its weights, to the last bit."""
    table: dict[Any, list[bytes]] = {}
    for paper, value in zip(reviews.column("paper"), weights.values, strict=True):
        table.setdefault(paper, []).append(np.float64(value).tobytes())
    return {paper: sorted(values) for paper, values in table.items()}


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("seed", range(5))
def test_weights_are_public_to_the_last_bit(weight: str, seed: int) -> None:
    """Who wrote what, and the order of rows, which may follow it, leave no trace in any paper's weights."""
    reviews = random_reviews(seed)
    before = multisets(reviews, review_weights(reviews, weight=weight))
    rng = np.random.default_rng(100 + seed)
    for _ in range(5):
        order = rng.permutation(len(reviews))
        frame = reviews.frame[order.tolist()].drop("reviewer")
        shuffled = Reviews.from_frame(frame)
        assert multisets(shuffled, review_weights(shuffled, weight=weight)) == before


def test_adding_in_row_order_would_leave_a_trace() -> None:
    """The deliberate fault of the test above: a paper's total added up as the rows come."""
    totals = set()
    for order in ([0.1, 0.2, 0.3], [0.3, 0.2, 0.1]):
        total = 0.0
        for score in order:
            total += score
        totals.add(total)
    assert len(totals) == 2
    reviews = [Reviews(paper=[1] * 3, score=order) for order in ([0.1, 0.2, 0.3], [0.3, 0.2, 0.1])]
    first, second = (multisets(r, review_weights(r, weight="miscalibration")) for r in reviews)
    assert first == second


@pytest.mark.parametrize("weight", WEIGHTS)
def test_weights_stay_within_their_bounds(weight: str) -> None:
    for seed in range(20):
        reviews = random_reviews(seed)
        public = PublicScores.of(reviews, weight=weight, scale=(0.1, 0.9))  # refuses weights outside the bounds
        assert public.bounds == review_weights(reviews, weight=weight, scale=(0.1, 0.9)).bounds
        assert public.values.size == len(reviews)


def test_without_a_scale_the_scores_that_occur_are_the_scale() -> None:
    reviews = Reviews(paper=[1, 1, 2], score=[2, 5, 4])
    assert review_weights(reviews, weight="rating").bounds == (2, 5)
    assert review_weights(reviews, weight="miscalibration").bounds == (-3, 3)


def test_equal_scores_everywhere() -> None:
    reviews = Reviews(paper=[1, 1, 2], score=[4, 4, 4], criteria={"soundness": [1, 2, 1]})
    for weight, expected in zip(WEIGHTS, (4, 0, 4, 0), strict=True):
        assert review_weights(reviews, weight=weight).values.tolist() == [expected] * 3


def test_a_score_outside_the_scale_is_named() -> None:
    reviews = Reviews(paper=[1, 1, 2, 2], score=[1, 12, 4, -1])
    with pytest.raises(BadInput, match=r"row 2 \(index 1\), column score: got 12\.0.*1 to 10 \(1 more rows"):
        review_weights(reviews, weight="rating", scale=(1, 10))


@pytest.mark.parametrize("scale", [(1,), (5, 1), (3, 3), (1, float("nan")), (0, float("inf")), "ab", 5, ("a", "b")])
def test_a_bad_scale_is_refused(scale: Any) -> None:
    with pytest.raises(BadInput, match="scale"):
        review_weights(Reviews(paper=[1], score=[3]), weight="rating", scale=scale)


@pytest.mark.parametrize("weight", ["Rating", "", "mean", None, 3, ["rating"]])
def test_an_unknown_weight_is_refused(weight: Any) -> None:
    with pytest.raises(BadInput, match="rating, miscalibration, normalized, subjectivity"):
        review_weights(Reviews(paper=[1], score=[3]), weight=weight)


@pytest.mark.parametrize("weight", ["normalized", "subjectivity"])
def test_criteria_are_required(weight: str) -> None:
    with pytest.raises(BadInput, match=f"{weight} weight compares"):
        review_weights(Reviews(paper=[1], score=[3]), weight=weight)


def test_confidence_is_no_criterion_unless_named() -> None:
    columns = {"soundness": [1, 2, 3, 3], "Reviewer_Confidence": [5, 1, 2, 5]}
    reviews = Reviews(paper=[1, 1, 2, 2], score=[2, 4, 6, 8], criteria=columns)
    assert review_weights(reviews, weight="normalized").values.tolist() == [2, 4, 7, 7]
    both = review_weights(reviews, weight="normalized", criteria=["soundness", "Reviewer_Confidence"])
    assert both.values.tolist() == [2, 4, 6, 8]
    only = Reviews(paper=[1, 2], score=[2, 4], criteria={"confidence": [1, 2]})
    with pytest.raises(BadInput, match="at least one that judges the paper"):
        review_weights(only, weight="normalized")
    with pytest.raises(BadInput, match="some of soundness"):
        review_weights(reviews, weight="normalized", criteria=["novelty"])
    with pytest.raises(BadInput, match="a list of names"):
        review_weights(reviews, weight="normalized", criteria="soundness")


def test_scores_too_large_to_add_up_are_refused() -> None:
    huge = Reviews(paper=[1, 1], score=[1.5e308, -1.5e308])
    with pytest.raises(BadInput, match="differences"):
        review_weights(huge, weight="miscalibration")
    near = Reviews(paper=[1, 1, 1], score=[1.7e308, 1.7e308, 1.6e308])
    with pytest.raises(BadInput, match="sum"):
        review_weights(near, weight="miscalibration")


def test_the_values_cannot_be_changed() -> None:
    result = review_weights(random_reviews(1))
    with pytest.raises(ValueError, match="read-only"):
        result.values[0] = 1


def test_real_reviews() -> None:
    reviews = Reviews.read(DATA, columns={"score": "rating"})
    result = {weight: review_weights(reviews, weight=weight, scale=(0, 10)) for weight in WEIGHTS}
    assert all(weights.values.size == 76_816 for weights in result.values())
    assert result["miscalibration"].values.mean() == pytest.approx(0, abs=1e-12)
    assert np.abs(result["subjectivity"].values).sum() == 61_374
    assert result["subjectivity"].values.std() < result["miscalibration"].values.std() < 2
