"""Who reviews what: random assignments in which loads differ by at most one."""

from __future__ import annotations

from typing import Any

import numpy as np

from peerveil.core.errors import BadInput

Whole = np.ndarray[Any, np.dtype[np.int64]]
_TRIES = 100


def balanced_assignment(
    demand: Whole, people: int, rng: np.random.Generator, *, what: str = "reviews_per_paper"
) -> tuple[Whole, Whole]:
    """Pairs (paper, person): paper p gets ``demand[p]`` different people, and loads differ by at most one.

    >>> papers, people = balanced_assignment(np.array([2, 2, 2]), 4, np.random.default_rng(1))
    >>> sorted(np.bincount(people, minlength=4).tolist())
    [1, 1, 2, 2]
    """
    most = int(demand.max(initial=0))
    if most > people:
        raise BadInput(what, got=most, want=f"at most {people}, one a person: nobody does the same one twice")
    paper = np.repeat(np.arange(len(demand)), demand)
    slots = len(paper)
    rounds = -(-slots // people)
    # one shuffled list of everybody after the other: equal loads, up to one
    drawn = rng.permuted(np.tile(np.arange(people), (rounds, 1)), axis=1).ravel()[:slots]
    for _ in range(_TRIES):
        twice = _repeated(paper, drawn, people)
        if not len(twice):
            return paper, drawn
        for slot, other in zip(twice.tolist(), rng.integers(0, slots, len(twice)).tolist(), strict=True):
            drawn[slot], drawn[other] = drawn[other], drawn[slot]
    # too tight for chance: neighbors in a circle never meet a paper twice
    order = rng.permutation(people)
    return paper, order[np.arange(slots) % people]


def _repeated(paper: Whole, person: Whole, people: int) -> Whole:
    """The slots whose person already has an earlier slot of the same paper."""
    key = paper * people + person
    order = np.argsort(key, kind="stable")
    same = key[order][1:] == key[order][:-1]
    result: Whole = order[1:][same]
    return result
