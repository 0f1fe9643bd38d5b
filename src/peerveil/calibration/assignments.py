"""Candidate assignments: who could have written which review, as far as the public knows."""

from __future__ import annotations

import math
from collections import Counter
from itertools import permutations
from typing import TYPE_CHECKING, Any, Final

from peerveil.errors import BadInput, Verbatim

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


def committees_exchanged(committees: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """Every way to exchange whole committees between papers; the first candidate is the one given.

    >>> committees_exchanged([(0, 1), (2, 3)])
    ((0, 1, 2, 3), (2, 3, 0, 1))
    """
    count = len(committees)
    if math.factorial(count) > MOST:
        raise too_many(math.factorial(count))
    orders = permutations(range(count))
    return tuple(dict.fromkeys(tuple(who for c in order for who in committees[c]) for order in orders))


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
    for index, one in enumerate(found):
        if len(one) != total or not all(0 <= reviewer < reviewers for reviewer in one):
            want = f"{total} reviewers from 0 to {reviewers - 1}, one for every review"
            raise BadInput(f"assignments[{index}]", got=one, want=want)
        start = 0
        for count in reviews:
            if len(set(one[start : start + count])) < count:
                raise BadInput(f"assignments[{index}]", got=one, want="no reviewer twice on one paper")
            start += count
    repeated = [one for one, times in Counter(found).items() if times > 1]
    if repeated:
        raise BadInput("assignments", got=repeated[0], want="every candidate once; use weights to make one likelier")
    return found
