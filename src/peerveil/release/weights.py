"""What a review weighs: its rating, its miscalibration, its normalized score, or its subjectivity.

The names of :func:`review_weights`, with s the score of a review, k the number of reviews of its paper:

- ``"rating"``: s itself, (3.1) of Ding, Shah and Wang (2021).
- ``"miscalibration"``: s minus the mean of the *other* reviews of the paper, (3.2). With k = 1 the formula divides by
  zero, and the weight is 0: nobody can be compared, so nobody stands out. Leaving such a paper out instead would leave
  each reviewer with a number of counted reviews that depends on who reviewed it, which is private (erratum).
- ``"normalized"``: the community's map from criteria to overall score (:mod:`peerveil.release.monotone`), applied to
  the criteria of the review: the score that the community would have given to what this reviewer saw.
- ``"subjectivity"``: s minus the normalized score.

**Only public data go in.** The release module takes for public what each paper received: the collection of its reviews,
each with its score and its scores on the criteria, but not with its author. All four weights are functions of that:

- the rating is the score;
- the miscalibration of a review is (k s - total)/(k - 1), and the total of the paper's scores is a function of their
  collection;
- the community's map is a function of the collection of all pairs (criteria, score), ties included, as
  :mod:`peerveil.release.monotone` shows; a normalized score is its value at the review's own criteria, and the
  subjectivity is the review's own score minus that.

So the weights that a paper received can be computed without knowing who wrote what. This holds to the last bit,
whatever the order of the table's rows (which is private where an export is sorted by reviewer): floats are added in
ascending order within a paper, never in the order of rows. If a conference publishes scores but not criteria, the
first two weights are public and the last two are **not**: do not release those.

**Which columns are criteria.** The map grows with every criterion, so a criterion must be a judgment of the paper of
which more is better. How sure or how expert a reviewer is, is none: columns of the names in :data:`NOT_OF_THE_PAPER`
are left out unless ``criteria=`` names them. (In the 76,816 reviews of ``tests/release/data`` confidence beside the
three criteria lowers the risk from 61,374 to 61,368: nothing.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from peerveil.core.arrays import Floats
from peerveil.core.errors import BadInput, Verbatim
from peerveil.data import Reviews
from peerveil.release.monotone import monotone_l1_map

WEIGHTS: Final = ("rating", "miscalibration", "normalized", "subjectivity")
"""The names of the weights."""

NOT_OF_THE_PAPER: Final = frozenset({"confidence", "reviewer confidence", "expertise", "reviewer expertise"})
"""Columns that speak of the reviewer, in lower case and with spaces."""


@dataclass(frozen=True, eq=False, repr=False)
class ReviewWeights:
    """The weights of all reviews of a table.

    Attributes
    ----------
    values : array
        One weight per row, in the order of the table, read-only.
    bounds : tuple
        The lowest and the highest weight that scores on the scale could lead to.
    name : str
        Which weight it is: one of :data:`WEIGHTS`.
    """

    values: Floats
    bounds: tuple[float, float]
    name: str

    def __repr__(self) -> str:
        low, high = self.bounds
        return f"ReviewWeights({self.name}, {self.values.size} reviews, {low:g} to {high:g})"


def review_weights(
    reviews: Any,
    *,
    weight: str = "rating",
    scale: tuple[float, float] | None = None,
    criteria: Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
) -> ReviewWeights:
    """The weight of every review.

    Parameters
    ----------
    reviews : Reviews, DataFrame or path
        Scores of papers; who wrote them is not looked at.
    weight : str, optional
        ``"rating"`` (default), ``"miscalibration"``, ``"normalized"`` or ``"subjectivity"``.
    scale : tuple of float, optional
        The declared lowest and highest score. Default: the range of the scores.
    criteria : list of str, optional
        Which columns the community's map may use. Default: all but :data:`NOT_OF_THE_PAPER`.
    columns : mapping, optional
        Our names for columns that the table calls otherwise: ``{"paper": "submission"}``.

    Examples
    --------
    >>> from peerveil.data import Reviews
    >>> reviews = Reviews(paper=[1, 1, 1, 2], score=[2, 4, 9, 5], criteria={"soundness": [1, 2, 2, 3]})
    >>> review_weights(reviews, weight="miscalibration", scale=(1, 10)).values.tolist()  # the last paper has one review
    [-4.5, -1.5, 6.0, 0.0]
    >>> review_weights(reviews, weight="subjectivity", scale=(1, 10))
    ReviewWeights(subjectivity, 4 reviews, -9 to 9)
    """
    if not isinstance(weight, str) or weight not in WEIGHTS:
        raise BadInput("weight", got=weight, want=f"one of {', '.join(WEIGHTS)}")
    reviews = Reviews.of(reviews, "reviews", columns=columns)
    low, high = _read_scale(reviews, scale)
    if not math.isfinite(high - low):
        raise BadInput("scale", got=(low, high), want="scores whose differences a float can hold")
    score = reviews.scores
    spread = high - low
    bounds = (low, high)
    if weight == "rating":
        values = score
    elif weight == "miscalibration":
        paper, _ = reviews.numbered("paper")
        values, compared = _miscalibration(paper, score)
        bounds = (-spread, spread) if compared else (0.0, 0.0)
    else:
        values = _normalized(reviews, weight, criteria)
        if weight == "subjectivity":
            values = score - values
            bounds = (-spread, spread)
    values = np.clip(values, *bounds) + 0.0  # a rounding beyond the bounds, and a zero with a sign, would be noise
    values.setflags(write=False)
    return ReviewWeights(values, bounds, weight)


def _miscalibration(paper: NDArray[np.int32], score: Floats) -> tuple[Floats, bool]:
    """(3.2), and whether any paper has two reviews to compare.

    Within a paper scores are added in ascending order, so that the total, and with it every weight, is a function of
    the collection of the scores to the last bit.
    """
    order = np.lexsort((score, paper))
    sums = np.bincount(paper[order], weights=score[order])
    k = np.bincount(paper)[paper]
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.where(k > 1, (k * score - sums[paper]) / np.maximum(k - 1, 1), 0.0)
    wrong = np.flatnonzero(~np.isfinite(values))
    if wrong.size:
        raise BadInput(_cell(int(wrong[0])), got=float(score[wrong[0]]), want="scores whose sum a float can hold")
    return values, bool(k.max() > 1)


def _normalized(reviews: Reviews, weight: str, criteria: Sequence[str] | None) -> Floats:
    """The community's map at the criteria of each review."""
    reviews.require_criteria(f"{weight} weight")
    if isinstance(criteria, str):
        raise BadInput("criteria", got=criteria, want="a list of names")
    known = reviews.criteria
    if criteria is None:
        criteria = [name for name in known if _plain(name) not in NOT_OF_THE_PAPER]
    absent = [name for name in criteria if name not in known]
    if absent:
        raise BadInput("criteria", got=Verbatim(", ".join(absent)), want=f"some of {', '.join(known)}")
    if not criteria:
        raise BadInput("criteria", got=Verbatim(f"only {', '.join(known)}"), want="at least one that judges the paper")
    columns = reviews.criteria_scores[:, [known.index(name) for name in dict.fromkeys(criteria)]]
    return monotone_l1_map(columns, reviews.scores).fitted


def _read_scale(reviews: Reviews, scale: tuple[float, float] | None) -> tuple[float, float]:
    score = reviews.scores
    if scale is None:
        return float(score.min()), float(score.max())
    want = "the lowest and the highest possible score, as two numbers"
    try:
        low, high = (float(bound) for bound in scale)
    except (TypeError, ValueError):
        raise BadInput("scale", got=scale, want=want) from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise BadInput("scale", got=scale, want=want)
    wrong = np.flatnonzero((score < low) | (score > high))
    if wrong.size:
        want = f"a score on the declared scale, {low:g} to {high:g}"
        if wrong.size > 1:
            want += f" ({wrong.size - 1:,} more rows are outside)"
        raise BadInput(_cell(int(wrong[0])), got=float(score[wrong[0]]), want=want)
    return low, high


def _cell(index: int) -> str:
    return f"reviews, row {index + 1} (index {index}), column score"


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", " ").replace("-", " ")
