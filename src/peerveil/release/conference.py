"""A whole conference, who wrote what included: what simulations, attacks and audits run on.

Two of them are neighbors if two people exchange one review each (:meth:`Conference.exchange`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from peerveil.core.errors import BadInput, Verbatim
from peerveil.release.mechanism import sorted_means
from peerveil.release.public import PublicScores

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Conference:
    """A whole conference, the private part included.

    Attributes
    ----------
    public : PublicScores
        What everybody knows.
    assignment : array
        A row a review: reviewer (0, 1, ...), weight, paper (its place in ``public``).
    """

    public: PublicScores
    assignment: Floats

    def __post_init__(self) -> None:
        object.__setattr__(self, "assignment", _read_assignment(self.public, self.assignment))

    @classmethod
    def of(cls, assignment: ArrayLike) -> Conference:
        """From the assignment alone.

        >>> Conference.of([[0, 0.1, 0], [1, 0.9, 0], [0, 0.5, 1], [1, 0.3, 1]]).means.tolist()
        [0.3, 0.6]
        """
        rows = np.asarray(assignment, dtype=np.float64)
        paper = rows[:, 2].astype(np.int64)
        weights = np.split(rows[np.argsort(paper, kind="stable"), 1], np.cumsum(np.bincount(paper))[:-1])
        return cls(PublicScores(weights, np.bincount(rows[:, 0].astype(np.int64))), rows)

    @cached_property
    def reviewer(self) -> NDArray[np.int64]:
        """Who wrote each review."""
        return self.assignment[:, 0].astype(np.int64)

    @cached_property
    def weight(self) -> Floats:
        """What each review weighs."""
        return np.ascontiguousarray(self.assignment[:, 1])

    @cached_property
    def paper(self) -> NDArray[np.int64]:
        """Which paper each review is about."""
        return self.assignment[:, 2].astype(np.int64)

    @cached_property
    def means(self) -> Floats:
        """The private vector: sorted means."""
        return np.asarray(sorted_means(self.weight, self.reviewer), dtype=np.float64)

    def may_exchange(self, i: ArrayLike, j: ArrayLike) -> NDArray[np.bool_]:
        """Whether the authors of reviews i and j are two people, each of whom could have written the other's review."""
        first, second = np.asarray(i), np.asarray(j)
        a, b, p, q = self.reviewer[first], self.reviewer[second], self.paper[first], self.paper[second]
        papers = self.public.papers
        held = self._held
        free = ~(_within(a * papers + q, held) | _within(b * papers + p, held))
        return np.asarray((a != b) & ((p == q) | free))

    def exchange(self, i: int, j: int) -> Conference:
        """The neighbor in which the authors of reviews i and j have exchanged them."""
        if not self.may_exchange(i, j):
            raise BadInput("i, j", got=(i, j), want="reviews of two people, neither of whom has reviewed both papers")
        rows = self.assignment.copy()
        rows[[i, j], 0] = rows[[j, i], 0]
        return Conference(self.public, rows)

    @cached_property
    def _held(self) -> NDArray[np.int64]:
        return np.sort(self.reviewer * self.public.papers + self.paper)


def _within(keys: NDArray[np.int64], held: NDArray[np.int64]) -> NDArray[np.bool_]:
    place = np.minimum(np.searchsorted(held, keys), held.size - 1)
    return np.asarray(held[place] == keys)


def _read_assignment(public: PublicScores, assignment: ArrayLike) -> Floats:
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
    order = np.lexsort((rows[:, 1], rows[:, 2]))
    same = np.array_equal(rows[order, 1], public.values) and np.array_equal(
        np.bincount(rows[:, 2].astype(np.int64), minlength=public.papers), public.sizes
    )
    if not same or not np.array_equal(np.sort(np.bincount(rows[:, 0].astype(np.int64))), public.loads):
        raise BadInput("assignment", got=Verbatim("other weights or loads"), want="those that are public")
    if np.unique(rows[:, 0] * public.papers + rows[:, 2]).size < len(rows):
        raise BadInput("assignment", got=Verbatim("two reviews of one paper by one person"), want="at most one")
    rows.setflags(write=False)
    return rows
