"""What everybody may know: the weights that each paper received, and how many reviews each reviewer wrote.

Notation of the release room, from Ding, Shah and Wang (2021): n reviewers, m papers, k_p reviews of paper p, load l_j of
reviewer j; theta_1 <= ... <= theta_n the sorted means of the reviewers' weights. Who wrote which review is private.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from peerveil.core.errors import BadInput, Verbatim
from peerveil.data import Reviews

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray


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

    values: NDArray[np.float64]
    """All weights, paper by paper, ascending within a paper."""
    offsets: NDArray[np.int64]
    """Paper p has ``values[offsets[p]:offsets[p + 1]]``."""
    loads: NDArray[np.int64]
    """Loads in ascending order."""
    bounds: tuple[float, float]
    """The lowest and highest possible weight."""

    def __init__(
        self,
        papers: Sequence[ArrayLike] | NDArray[np.float64],
        loads: ArrayLike,
        *,
        bounds: tuple[float, float] | None = None,
    ) -> None:
        values, offsets = _read_papers(papers)
        sorted_loads = _read_loads(loads)
        _check_fit(np.diff(offsets), sorted_loads)
        seen = float(values.min()), float(values.max())
        if bounds is None:
            bounds = seen
        elif not (len(bounds) == 2 and bounds[0] <= seen[0] and seen[1] <= bounds[1]):
            raise BadInput("bounds", got=bounds, want=f"a range that holds every weight: {seen[0]:g} to {seen[1]:g}")
        frozen: dict[str, Any] = {"values": values, "offsets": offsets, "loads": sorted_loads}
        for name, array in frozen.items():
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        object.__setattr__(self, "bounds", (float(bounds[0]), float(bounds[1])))

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
        order = np.argsort(paper, kind="stable")
        sizes = np.bincount(paper)
        papers = np.split(weights.values[order], np.cumsum(sizes)[:-1])
        return cls(papers, np.bincount(reviewer), bounds=weights.bounds)

    @property
    def reviewers(self) -> int:
        """How many reviewers there are: n."""
        return self.loads.size

    @property
    def papers(self) -> int:
        """How many papers there are: m."""
        return self.offsets.size - 1

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """k_p: how many reviews each paper has."""
        return np.diff(self.offsets)

    @property
    def paper_weights(self) -> list[NDArray[np.float64]]:
        """For each paper its weights in ascending order."""
        return np.split(self.values, self.offsets[1:-1])

    @property
    def uniform_load(self) -> int | None:
        """The load that all reviewers share, if they do."""
        return int(self.loads[0]) if self.loads[0] == self.loads[-1] else None

    @property
    def total(self) -> float | None:
        """The sum of the reviewers' means: public only if all loads are equal (erratum to Remark 4.5)."""
        load = self.uniform_load
        return None if load is None else float(self.values.sum() / load)

    def __repr__(self) -> str:
        return f"PublicScores({self.papers} papers, {self.reviewers} reviewers, {self.values.size} reviews)"


def _read_papers(papers: Any) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
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


def _read_loads(loads: ArrayLike) -> NDArray[np.int64]:
    array = np.atleast_1d(np.asarray(loads))
    if array.dtype.kind not in "iu" or array.ndim != 1 or array.size == 0:
        raise BadInput("loads", got=loads, want="whole numbers, one a reviewer")
    if int(array.min()) < 1:
        raise BadInput(
            f"loads[{int(np.argmin(array))}]", got=int(array.min()), want="at least 1: one without reviews has no mean"
        )
    return np.sort(array.astype(np.int64))


def _check_fit(sizes: NDArray[np.int64], loads: NDArray[np.int64]) -> None:
    """Whether anybody could have written these reviews, nobody two of one paper (Gale and Ryser, 1957)."""
    if int(sizes.sum()) != int(loads.sum()):
        raise BadInput("loads", got=Verbatim(f"{int(loads.sum())} reviews"), want=f"the papers' {int(sizes.sum())}")
    if int(loads[-1]) > sizes.size:
        raise BadInput("loads", got=int(loads[-1]), want=f"at most one review of each of the {sizes.size} papers")
    if int(sizes.max()) > loads.size:
        raise BadInput(
            "papers", got=Verbatim(f"{int(sizes.max())} reviews"), want=f"at most {loads.size}, one a reviewer"
        )
    # the i reviewers with the largest loads can hold at most min(k_p, i) reviews of paper p
    heaviest = np.cumsum(loads[::-1])
    held = np.cumsum(np.bincount(sizes, minlength=loads.size + 1)[::-1])[::-1]  # papers with at least i reviews
    if (heaviest > np.cumsum(held[1 : loads.size + 1])).any():
        raise BadInput("loads", got=Verbatim("loads that no assignment has"), want="loads that fit the papers' reviews")
