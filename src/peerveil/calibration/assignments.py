"""Candidate assignments: who could have written which review, as far as the public knows."""

from __future__ import annotations

import math
from collections import Counter
from itertools import chain, islice, permutations, product
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.core.errors import BadInput, Verbatim

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MOST: Final = 50_000
"""More candidate assignments than this are refused: the linear program would not fit."""


def all_assignments(reviews: Sequence[int], reviewers: int) -> tuple[tuple[int, ...], ...]:
    """Every way to give each reviewer equally many reviews, none of them two of one paper.

    Parameters
    ----------
    reviews
        How many reviews each paper has.
    reviewers
        How many reviewers there are; must divide the number of reviews.

    Examples
    --------
    >>> all_assignments([1, 1], 2)
    ((0, 1), (1, 0))
    >>> len(all_assignments([2, 2, 2], 3))  # each reviewer writes two of six reviews, of different papers
    48
    """
    total = sum(reviews)
    if reviewers < 1 or total % reviewers:
        want = f"a list of candidates: {total} reviews cannot be shared equally by {reviewers} reviewers"
        raise BadInput("assignments", got=None, want=want)
    if total == reviewers:
        _check_count(math.factorial(total))
        return tuple(permutations(range(reviewers)))
    paper = [index for index, count in enumerate(reviews) for _ in range(count)]
    candidates = tuple(islice(_fill(paper, [total // reviewers] * reviewers, []), MOST + 1))
    _check_count(len(candidates))
    return candidates


def _check_count(count: int) -> None:
    if count > MOST:
        got = Verbatim(f"{count:,} or more candidates")
        raise BadInput("assignments", got=got, want=f"at most {MOST:,}: give fewer candidates")


def _fill(paper: list[int], loads: list[int], chosen: list[int]) -> Iterator[tuple[int, ...]]:
    """Every way to complete the chosen reviewers, each of whom has so many reviews left to write."""
    place = len(chosen)
    if place == len(paper):
        yield tuple(chosen)
        return
    taken = {who for who, other in zip(chosen, paper, strict=False) if other == paper[place]}
    for reviewer, load in enumerate(loads):
        if load and reviewer not in taken:
            fewer = [*loads[:reviewer], load - 1, *loads[reviewer + 1 :]]
            yield from _fill(paper, fewer, [*chosen, reviewer])


def committees_exchanged(committees: Sequence[Sequence[int]], *, within: bool = False) -> tuple[tuple[int, ...], ...]:
    """Every way to exchange whole committees between papers, sorted: the order does not depend on the true one.

    Parameters
    ----------
    committees
        The reviewers of each paper, in the order of its reviews.
    within
        Whether reviewers may also have exchanged their reviews within a committee. Without it the k-th of a committee
        wrote the k-th review of whichever paper the committee got.

    Examples
    --------
    >>> committees_exchanged([(0, 1), (2, 3)])
    ((0, 1, 2, 3), (2, 3, 0, 1))
    >>> len(committees_exchanged([(0, 1), (2, 3)], within=True))
    8
    """
    count = math.factorial(len(committees))
    if within:
        count *= math.prod(math.factorial(len(committee)) for committee in committees)
    _check_count(count)
    candidates: set[tuple[int, ...]] = set()
    for order in permutations(committees):
        orders = product(*(permutations(committee) for committee in order)) if within else [order]
        candidates.update(tuple(chain.from_iterable(part)) for part in orders)
    return tuple(sorted(candidates))


def read_assignments(assignments: Any, reviews: Sequence[int], reviewers: int) -> tuple[tuple[int, ...], ...]:
    """Checked candidates: a reviewer for every review, none twice on a paper, no candidate twice."""
    if assignments is None:
        return all_assignments(reviews, reviewers)
    try:
        candidates = tuple(tuple(int(reviewer) for reviewer in candidate) for candidate in assignments)
    except (TypeError, ValueError):
        want = "a list of candidates, each a reviewer for every review"
        raise BadInput("assignments", got=assignments, want=want) from None
    if not candidates:
        raise BadInput("assignments", got=assignments, want="at least one candidate")
    _check_count(len(candidates))
    total = sum(reviews)
    for index, candidate in enumerate(candidates):
        if len(candidate) != total or min(candidate) < 0 or max(candidate) >= reviewers:
            want = f"{total} reviewers from 0 to {reviewers - 1}, one for every review"
            raise BadInput(f"assignments[{index}]", got=candidate, want=want)
    for committee in np.split(np.array(candidates), np.cumsum(reviews)[:-1], axis=1):
        twice = np.flatnonzero((np.diff(np.sort(committee, axis=1), axis=1) == 0).any(axis=1))
        if twice.size:
            raise BadInput(f"assignments[{twice[0]}]", got=candidates[twice[0]], want="no reviewer twice on one paper")
    repeated, times = Counter(candidates).most_common(1)[0]
    if times > 1:
        raise BadInput("assignments", got=repeated, want="every candidate once; use odds to make one likelier")
    return candidates
