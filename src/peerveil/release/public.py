"""What is public, the weights that each paper received and how many reviews each reviewer wrote; and who wrote what.

Notation of the release module, from Ding, Shah and Wang (2021): n reviewers, m papers, k_p reviews of paper p, load l_j of
reviewer j; theta_1 <= ... <= theta_n the sorted means of the reviewers' weights. Who wrote which review is private.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerveil.core.arrays import Floats, Ints
from peerveil.core.errors import BadInput, Verbatim
from peerveil.data import Reviews


@dataclass(frozen=True, eq=False, init=False, repr=False)
class PublicScores:
    """The public side of a conference.

    Parameters
    ----------
    papers
        For each paper the weights of its reviews, in any order.
    loads
        For each reviewer how many reviews they wrote, in any order.
    bounds
        The lowest and highest weight that was possible at all; those that occur, if left out. They bound the
        ``"range"`` region only.

    Examples
    --------
    >>> public = PublicScores([[0.2, 0.7], [0.5, 0.9]], loads=[2, 2])
    >>> public
    PublicScores(2 papers, 2 reviewers, 4 reviews)
    >>> public.total  # of the means: known, since everybody wrote equally many reviews
    1.15
    """

    values: Floats
    """All weights, paper by paper, ascending within a paper."""
    offsets: Ints
    """Paper p has ``values[offsets[p]:offsets[p + 1]]``."""
    loads: Ints
    """Loads in ascending order."""
    bounds: tuple[float, float]
    """The lowest and highest possible weight."""

    def __init__(
        self,
        papers: Sequence[ArrayLike] | Floats,
        loads: ArrayLike,
        *,
        bounds: tuple[float, float] | None = None,
    ) -> None:
        values, offsets = _read_papers(papers)
        sorted_loads = _read_loads(loads)
        _check_fit(np.diff(offsets), sorted_loads)
        low, high = float(values.min()), float(values.max())
        bounds = (low, high) if bounds is None else bounds
        if not (len(bounds) == 2 and bounds[0] <= low and high <= bounds[1]):
            raise BadInput("bounds", got=bounds, want=f"a range that holds every weight: {low:g} to {high:g}")
        for array in (values, offsets, sorted_loads):
            array.setflags(write=False)
        fields = {"values": values, "offsets": offsets, "loads": sorted_loads}
        for name, value in {**fields, "bounds": (float(bounds[0]), float(bounds[1]))}.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(
        cls,
        reviews: Any,
        *,
        weight: str = "rating",
        scale: tuple[float, float] | None = None,
        columns: Mapping[str, str] | None = None,
    ) -> PublicScores:
        """The public side of a table of reviews.

        Parameters
        ----------
        reviews : Reviews, DataFrame or path
            Who scored which paper.
        weight : str, optional
            ``"rating"`` (default), ``"miscalibration"``, ``"normalized"`` or ``"subjectivity"``: see
            :mod:`peerveil.release.weights`.
        scale : tuple of float, optional
            The declared lowest and highest score; a score outside is refused. Default: the range of the scores.
        columns : mapping, optional
            Our names for columns that the table calls otherwise: ``{"paper": "submission"}``.
        """
        from peerveil.release.weights import review_weights

        reviews = Reviews.of(reviews, "reviews", columns=columns)
        weights = review_weights(reviews, weight=weight, scale=scale)
        paper, _ = reviews.numbered("paper")
        reviews.require_reviewers("publishing reviewers' means")
        reviewer, _ = reviews.numbered("reviewer")
        return cls(_by_paper(paper, weights.values), np.bincount(reviewer), bounds=weights.bounds)

    @property
    def reviewers(self) -> int:
        """How many reviewers there are: n."""
        return self.loads.size

    @property
    def papers(self) -> int:
        """How many papers there are: m."""
        return self.offsets.size - 1

    @cached_property
    def sizes(self) -> Ints:
        """k_p: how many reviews each paper has."""
        return np.diff(self.offsets)

    @property
    def paper_weights(self) -> list[Floats]:
        """For each paper its weights in ascending order."""
        return np.split(self.values, self.offsets[1:-1])

    @property
    def uniform_load(self) -> int | None:
        """The load that all reviewers share, if they do."""
        return int(self.loads[0]) if self.loads[0] == self.loads[-1] else None

    @property
    def is_private(self) -> bool:
        """Whether an exchange of reviews can move anybody's mean: not if everybody wrote one review, or all weights are equal."""
        return self.reviewers > 1 and int(self.loads[-1]) > 1 and bool(self.values.min() < self.values.max())

    @property
    def total(self) -> float | None:
        """The sum of the reviewers' means: public only if all loads are equal (erratum to Remark 4.5)."""
        load = self.uniform_load
        return None if load is None else float(self.values.sum() / load)

    def __repr__(self) -> str:
        return f"PublicScores({self.papers} papers, {self.reviewers} reviewers, {self.values.size} reviews)"


@dataclass(frozen=True, eq=False)
class Assignment:
    """A conference with its private side: who wrote which review. Simulations, attacks and audits run on it.

    Two of them are neighbors if two people exchange one review each (:meth:`exchange`).

    Attributes
    ----------
    public : PublicScores
        The public side.
    rows : array
        One row per review: reviewer (0, 1, ...), weight, paper (its place in ``public``).
    """

    public: PublicScores
    rows: Floats

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", _read_rows(self.public, self.rows))

    @classmethod
    def of(cls, rows: ArrayLike) -> Assignment:
        """From the private side alone.

        >>> Assignment.of([[0, 0.1, 0], [1, 0.9, 0], [0, 0.5, 1], [1, 0.3, 1]]).means.tolist()
        [0.3, 0.6]
        """
        table = np.asarray(rows, dtype=np.float64)
        reviewer, paper = table[:, [0, 2]].T.astype(np.int64)
        return cls(PublicScores(_by_paper(paper, table[:, 1]), np.bincount(reviewer)), table)

    @cached_property
    def reviewer(self) -> Ints:
        """Who wrote each review."""
        return self.rows[:, 0].astype(np.int64)

    @cached_property
    def weight(self) -> Floats:
        """The weight of each review."""
        return np.ascontiguousarray(self.rows[:, 1])

    @cached_property
    def paper(self) -> Ints:
        """The paper of each review."""
        return self.rows[:, 2].astype(np.int64)

    @cached_property
    def means(self) -> Floats:
        """The private vector: sorted means."""
        return sorted_means(self.weight, self.reviewer)

    def may_exchange(self, i: ArrayLike, j: ArrayLike) -> NDArray[np.bool_]:
        """Whether the authors of reviews i and j are two people, each of whom could have written the other's review."""
        first, second = np.asarray(i), np.asarray(j)
        a, b, p, q = self.reviewer[first], self.reviewer[second], self.paper[first], self.paper[second]
        papers = self.public.papers
        written = self.reviewer * papers + self.paper
        both = np.isin(a * papers + q, written) | np.isin(b * papers + p, written)
        return np.asarray((a != b) & ((p == q) | ~both))

    def exchange(self, i: int, j: int) -> Assignment:
        """The neighbor in which the authors of reviews i and j have exchanged them."""
        if not self.may_exchange(i, j):
            raise BadInput("i, j", got=(i, j), want="reviews of two people, neither of whom has reviewed both papers")
        rows = self.rows.copy()
        rows[[i, j], 0] = rows[[j, i], 0]
        return Assignment(self.public, rows)


def reviewer_means(weights: Floats, reviewer: Ints) -> Floats:
    """Each reviewer's mean weight: what is private.

    A reviewer's weights are added in ascending order, never in the order of rows, so that equal data give equal bits, and
    so that a mean never falls when a weight rises: rounded addition is monotone.
    """
    order = np.lexsort((weights, reviewer))
    return np.asarray(np.bincount(reviewer[order], weights=weights[order]) / np.bincount(reviewer))


def sorted_means(weights: Floats, reviewer: Ints) -> Floats:
    """:func:`reviewer_means` in ascending order."""
    return np.sort(reviewer_means(weights, reviewer))


def _by_paper(paper: Ints, weights: Floats) -> list[Floats]:
    """The weights of each paper."""
    return np.split(weights[np.argsort(paper, kind="stable")], np.cumsum(np.bincount(paper))[:-1])


def _read_papers(papers: Any) -> tuple[Floats, Ints]:
    want = "a list with the weights of each paper"
    if isinstance(papers, (str, bytes)) or not hasattr(papers, "__len__") or len(papers) == 0:
        raise BadInput("papers", got=papers, want=want)
    try:
        parts = [np.atleast_1d(np.asarray(part, dtype=np.float64)) for part in papers]
    except (TypeError, ValueError):
        raise BadInput("papers", got=papers, want=want) from None
    sizes = np.array([part.size for part in parts])
    if (sizes == 0).any():
        raise BadInput(f"papers[{int(np.argmin(sizes))}]", got=Verbatim("no reviews"), want="at least one review")
    if any(part.ndim != 1 for part in parts):
        raise BadInput("papers", got=papers, want=want)
    values = np.concatenate(parts)
    paper = np.repeat(np.arange(sizes.size), sizes)
    wrong = np.flatnonzero(~np.isfinite(values))
    if wrong.size:
        raise BadInput(f"papers[{int(paper[wrong[0]])}]", got=float(values[wrong[0]]), want="finite weights")
    return values[np.lexsort((values, paper))], np.concatenate([[0], np.cumsum(sizes)])


def _read_loads(loads: ArrayLike) -> Ints:
    array = np.atleast_1d(np.asarray(loads))
    if array.dtype.kind not in "iu" or array.ndim != 1 or array.size == 0:
        raise BadInput("loads", got=loads, want="whole numbers, one per reviewer")
    if int(array.min()) < 1:
        raise BadInput(
            f"loads[{int(np.argmin(array))}]", got=int(array.min()), want="at least 1: one without reviews has no mean"
        )
    return np.sort(array.astype(np.int64))


def _check_fit(sizes: Ints, loads: Ints) -> None:
    """Whether anybody could have written these reviews, nobody two of one paper (Gale and Ryser, 1957)."""
    if int(sizes.sum()) != int(loads.sum()):
        raise BadInput("loads", got=Verbatim(f"{int(loads.sum())} reviews"), want=f"the papers' {int(sizes.sum())}")
    if int(loads[-1]) > sizes.size:
        raise BadInput("loads", got=int(loads[-1]), want=f"at most one review of each of the {sizes.size} papers")
    if int(sizes.max()) > loads.size:
        raise BadInput(
            "papers", got=Verbatim(f"{int(sizes.max())} reviews"), want=f"at most {loads.size}, one per reviewer"
        )
    # the i reviewers with the largest loads can hold at most min(k_p, i) reviews of paper p
    heaviest = np.cumsum(loads[::-1])
    held = np.cumsum(np.bincount(sizes, minlength=loads.size + 1)[::-1])[::-1]  # papers with at least i reviews
    if (heaviest > np.cumsum(held[1 : loads.size + 1])).any():
        raise BadInput("loads", got=Verbatim("loads that no assignment has"), want="loads that fit the papers' reviews")


def _read_rows(public: PublicScores, assignment: ArrayLike) -> Floats:
    """Rows (reviewer, weight, paper) that agree with what is public."""
    want = "rows (reviewer, weight, paper), reviewers and papers numbered from 0"
    try:
        rows = np.array(assignment, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput("assignment", got=assignment, want=want) from None
    if rows.ndim != 2 or rows.shape[1] != 3 or not np.isfinite(rows).all() or (rows[:, [0, 2]] % 1 != 0).any():
        raise BadInput("assignment", got=rows, want=want)
    if rows[:, [0, 2]].min() < 0 or rows[:, 0].max() >= public.reviewers or rows[:, 2].max() >= public.papers:
        raise BadInput("assignment", got=Verbatim("a reviewer or paper that is not public"), want=want)
    reviewer, paper = rows[:, [0, 2]].T.astype(np.int64)
    columns = (
        (rows[np.lexsort((rows[:, 1], paper)), 1], public.values),
        (np.bincount(paper, minlength=public.papers), public.sizes),
        (np.sort(np.bincount(reviewer)), public.loads),
    )
    if not all(np.array_equal(own, known) for own, known in columns):
        raise BadInput("assignment", got=Verbatim("other weights or loads"), want="those that are public")
    if np.unique(reviewer * public.papers + paper).size < len(rows):
        raise BadInput("assignment", got=Verbatim("two reviews of one paper by one person"), want="at most one")
    rows.setflags(write=False)
    return rows
