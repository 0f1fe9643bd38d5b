"""Name an item: local randomization of a ranking to the name of one item.

A question shows a public block of g items and asks for one of the first c, or one of the last c, by the person's own
ranking. The device names one of these c with weight L each, or one of the other g - c with weight 1 each, where L is the
ratio of the randomized response for epsilon (:class:`peerveil.Response`), at most e^epsilon.

**Neighbors**: one person has any other ranking. **Proof.** Block and side do not depend on the ranking. The weights of the
g items sum to c L + g - c whatever the ranking, so that every name has probability L / (c L + g - c) or 1 / (c L + g - c):
the ratio of two of them is at most L. ∎ The weights are whole numbers, and a uniform whole number decides: what is drawn
is what the proof is about.

**Why this question.** A report is a set A of rankings that make it e^epsilon times as likely. At weak agreement its
information on the scores is the squared length of E[ranks; A] / (1 + (e^epsilon - 1) P[A]). Searches over half spaces from
random starts for 10 items ended at "item i is among the first c" or below: one report cannot tell more. In a block of two it is
Warner's bit for a pair.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.core.errors import BadInput
from peerveil.core.exact import whole

if TYPE_CHECKING:
    from peerveil.core.arrays import Floats, Ints
    from peerveil.core.randomness import Randomness, Response


_BLOCKS: Final = "lists of two or more different items each (numbers from 0)"


@lru_cache(maxsize=256)
def own_items(size: int, response: Response) -> int:
    """How many of a block's g items are a person's own: the c that maximizes c (g - c) / (c L + g - c), exactly.

    >>> from peerveil.core.randomness import Response
    >>> [own_items(10, Response(epsilon, classes=2)) for epsilon in ("1/2", 1, 2, 4)]
    [4, 4, 3, 1]
    """
    keep, share = response.keep_below, response.share
    near = size / (1 + math.sqrt(keep / share))
    around = range(max(1, math.floor(near) - 2), min(size - 1, math.ceil(near) + 2) + 1)  # one maximum, at ``near``
    return max(around, key=lambda c: Fraction(c * (size - c), c * keep + (size - c) * share))


def is_own(ranks: Any, own: int, *, last: bool) -> Any:
    """Which of a block's items (columns) are among the first, or the last, ``own`` of each person (rows)."""
    places = np.argsort(np.argsort(ranks, axis=1), axis=1)
    return places >= ranks.shape[1] - own if last else places < own


def name_items(mine: Any, response: Response, randomness: Randomness) -> Ints:
    """Draw one column per row: one of ``mine``, each with the response's ratio as its weight, or one of the others."""
    people, size = mine.shape
    if not people:
        return np.zeros(0, dtype=np.int64)
    own = int(mine[0].sum())
    split = own * response.keep_below
    drawn = randomness.integers(0, split + (size - own) * response.share, people)
    wanted = np.where(drawn < split, drawn // response.keep_below, own + (drawn - split) // response.share)
    columns = np.argsort(~mine, axis=1, kind="stable")  # a person's own first
    return np.asarray(columns[np.arange(people), wanted], dtype=np.int64)


def name_chances(mine: Any, response: Response) -> list[Fraction]:
    """The exact probability of every name, for one person."""
    weights = [response.keep_below if own else response.share for own in mine]
    return [Fraction(weight, sum(weights)) for weight in weights]


def variance_of_naming(items: int, epsilon: float, own: int | None = None) -> float:
    """The variance of an item's score (in places) from one report, at weak agreement.

    It gives P(pair ordered right) = Phi(D sqrt(n (m - 1) / (2 m V))) for n people and items D places apart.

    The chance to be among the first c rises by b = 6 c (m - c) / (m (m^2 - 1)) per place, that of being named by k b / m, k =
    (e^epsilon - 1) / (1 + (e^epsilon - 1) c / m); a centered score has variance (m - 1) / m^2.

    >>> round(variance_of_naming(10, 1.0)), round(variance_of_naming(10, 1.0, own=3))
    (410, 432)
    """
    m, more = items, math.expm1(epsilon)
    own = own or max(range(1, m), key=lambda c: c * (m - c) / (c * more + m))
    slope = 6 * own * (m - own) / (m * (m * m - 1)) * more / (m + more * own)
    return (m - 1) / m**2 / slope**2


def variance_of_pairs(items: int, epsilon: float) -> float:
    """The same, if each person answers for one random pair: m (m - 1)^2 / (8 tanh^2(epsilon / 2))."""
    return items * (items - 1) ** 2 / (8 * math.tanh(epsilon / 2) ** 2)


def named_scores(votes: Any, response: Response) -> tuple[Floats, Floats]:
    """By item: how often it is named as one of the first, less how often as one of the last; and one report's covariance."""
    items = votes.shape[1]
    own = own_items(items, response)
    total = own * response.keep + (items - own) * response.other
    first, last = (
        (response.other + (response.keep - response.other) * chance) / (2 * total)
        for chance in ((votes < own).mean(axis=0), (votes >= items - own).mean(axis=0))
    )
    return first - last, np.diag(first + last) - np.outer(first - last, first - last)


def read_blocks(blocks: Any, items: int) -> tuple[tuple[int, ...], ...]:
    """Blocks of two or more different items each."""
    try:
        read = tuple(tuple(whole(item, "blocks", 0, items - 1) for item in block) for block in blocks)
    except TypeError:
        raise BadInput("blocks", got=blocks, want=_BLOCKS) from None
    if not read or any(len(block) < 2 or len(set(block)) < len(block) for block in read):
        raise BadInput("blocks", got=blocks, want=_BLOCKS)
    return read


def read_names(names: Any, items: int) -> tuple[str, ...]:
    """One different name per item."""
    read = tuple(names) if isinstance(names, (list, tuple)) else ()
    if len(read) != items or len(set(read)) < items or not all(isinstance(name, str) and name.strip() for name in read):
        raise BadInput("names", got=names, want=f"{items} different names, one per item")
    return read
