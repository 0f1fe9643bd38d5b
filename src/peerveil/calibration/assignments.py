"""Candidate assignments: who could have written which review, as far as the public knows."""

from __future__ import annotations

import math
from collections import Counter
from itertools import permutations, product
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
        raise BadInput(
            "assignments",
            got=None,
            want=f"a list of candidates: {total} reviews cannot be shared equally by {reviewers} reviewers",
        )
    load = total // reviewers
    if load == 1:
        if math.factorial(total) > MOST:
            raise too_many(math.factorial(total))
        return tuple(permutations(range(reviewers)))
    paper = [index for index, count in enumerate(reviews) for _ in range(count)]
    found: list[tuple[int, ...]] = []
    for one in _fill(paper, [load] * reviewers, []):
        found.append(one)
        if len(found) > MOST:
            raise too_many(len(found))
    return tuple(found)


def too_many(count: int) -> BadInput:
    """The refusal of a panel that is too large."""
    return BadInput(
        "assignments", got=Verbatim(f"{count:,} or more candidates"), want=f"at most {MOST:,}: give fewer candidates"
    )


def _fill(paper: list[int], left: list[int], chosen: list[int]) -> Iterator[tuple[int, ...]]:
    place = len(chosen)
    if place == len(paper):
        yield tuple(chosen)
        return
    taken = {chosen[i] for i in range(place) if paper[i] == paper[place]}
    for reviewer, load in enumerate(left):
        if load and reviewer not in taken:
            left[reviewer] -= 1
            chosen.append(reviewer)
            yield from _fill(paper, left, chosen)
            chosen.pop()
            left[reviewer] += 1


def committees_exchanged(committees: Sequence[Sequence[int]], *, within: bool = False) -> tuple[tuple[int, ...], ...]:
    """Every way to exchange whole committees between papers, sorted: the order says nothing about the true one.

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
    number = math.factorial(len(committees))
    if within:
        number *= math.prod(math.factorial(len(one)) for one in committees)
    if number > MOST:
        raise too_many(number)
    found: set[tuple[int, ...]] = set()
    for order in permutations(committees):
        parts = product(*(permutations(one) for one in order)) if within else [order]
        found.update(tuple(who for committee in part for who in committee) for part in parts)
    return tuple(sorted(found))


def read_assignments(given: Any, reviews: Sequence[int], reviewers: int) -> tuple[tuple[int, ...], ...]:
    """Checked candidates: a reviewer for every review, none twice on a paper, no candidate twice."""
    if given is None:
        return all_assignments(reviews, reviewers)
    try:
        found = tuple(tuple(int(reviewer) for reviewer in one) for one in given)
    except (TypeError, ValueError):
        raise BadInput(
            "assignments", got=given, want="a list of candidates, each a reviewer for every review"
        ) from None
    total = sum(reviews)
    if not found:
        raise BadInput("assignments", got=given, want="at least one candidate")
    if len(found) > MOST:
        raise too_many(len(found))
    lengths = {len(one) for one in found}
    who = np.array(found, dtype=np.int64) if lengths == {total} else np.full((1, total), -1)
    if who.min() < 0 or who.max() >= reviewers:
        bad = next(i for i, one in enumerate(found) if len(one) != total or not all(0 <= j < reviewers for j in one))
        want = f"{total} reviewers from 0 to {reviewers - 1}, one for every review"
        raise BadInput(f"assignments[{bad}]", got=found[bad], want=want)
    start = 0
    for count in reviews:
        committee = np.sort(who[:, start : start + count], axis=1)
        twice = np.flatnonzero((np.diff(committee, axis=1) == 0).any(axis=1))
        if twice.size:
            raise BadInput(f"assignments[{twice[0]}]", got=found[twice[0]], want="no reviewer twice on one paper")
        start += count
    if len(set(found)) == len(found):
        return found
    repeated = next(one for one, times in Counter(found).items() if times > 1)
    raise BadInput("assignments", got=repeated, want="every candidate once; use odds to make one likelier")
