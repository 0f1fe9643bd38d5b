"""The random draws behind a synthetic conference: assignments, posts in time, orders and answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from peerveil.core.arrays import Flags, Floats, Ints
from peerveil.core.errors import BadInput

_SWAP_ROUNDS = 100
_BATCH_SECONDS = 300.0  # posts of one person this close are a batch
_TYPICAL_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 120.0, 3600.0  # between posts of a sitting
_QUICK_SHARE = 0.8  # of the pauses in a sitting, the share below five minutes (where the rates allow it)


def balanced_assignment(
    demand: Ints, people: int, rng: np.random.Generator, *, what: str = "reviews_per_paper"
) -> tuple[Ints, Ints]:
    """Pairs (paper, person): paper p gets ``demand[p]`` different people, and loads differ by at most one.

    >>> papers, people = balanced_assignment(np.array([2, 2, 2]), 4, np.random.default_rng(1))
    >>> sorted(np.bincount(people, minlength=4).tolist())
    [1, 1, 2, 2]
    """
    most = int(demand.max(initial=0))
    if most > people:
        raise BadInput(what, got=most, want=f"at most {people}, one per person: nobody does the same one twice")
    paper = np.repeat(np.arange(len(demand)), demand)
    slots = len(paper)
    # one shuffled list of everybody after the other: equal loads, up to one
    everybody = np.tile(np.arange(people), (-(-slots // people), 1))
    person = rng.permuted(everybody, axis=1).ravel()[:slots]
    for _ in range(_SWAP_ROUNDS):
        twice = _repeated(paper * people + person)
        if not len(twice):
            return paper, person
        for slot, other in zip(twice.tolist(), rng.integers(0, slots, len(twice)).tolist(), strict=True):
            person[slot], person[other] = person[other], person[slot]
    # too tight for chance: neighbors in a circle never meet a paper twice
    return paper, rng.permutation(people)[np.arange(slots) % people]


def _repeated(keys: Ints) -> Ints:
    """The positions of values that occur at an earlier position, too."""
    order = np.argsort(keys, kind="stable")
    return order[1:][keys[order][1:] == keys[order][:-1]]


def graded(impressions: Floats, scale: tuple[int, int], argument: str) -> Floats:
    """Impressions as whole scores: the middle of the scale is average, its ends two and a half deviations out."""
    if len(scale) != 2 or scale[0] >= scale[1]:
        raise BadInput(argument, got=scale, want="a lowest and a highest score")
    low, high = scale
    return np.clip(np.rint((low + high) / 2 + impressions * (high - low) / 5.0), low, high)


class Posts(NamedTuple):
    """Reviews and comments, by author; ``pair`` is the place of the review's (paper, person) pair."""

    pair: Ints
    paper: Ints
    person: Ints
    is_comment: Flags
    seconds: Floats
    sitting: Ints

    def reviews(self) -> Ints:
        """The positions of the reviews, in the order of the pairs."""
        positions = np.flatnonzero(~self.is_comment)
        return positions[np.argsort(self.pair[positions])]


def draw_posts(
    paper: Ints, person: Ints, comments: float, batch_rate: float, seconds: float, rng: np.random.Generator
) -> Posts:
    """Reviews and comments with times: each person's posts in sittings, reviews before comments."""
    follow = rng.poisson(comments, len(paper))
    pair = np.concatenate([np.arange(len(paper)), np.repeat(np.arange(len(paper)), follow)])
    is_comment = np.arange(len(pair)) >= len(paper)
    order = np.lexsort((rng.random(len(pair)), is_comment, person[pair]))
    pair, is_comment = pair[order], is_comment[order]
    author = person[pair]
    joined = np.zeros(len(pair), dtype=np.bool_)
    sitting_rate = min(1.0, batch_rate / _QUICK_SHARE)
    joined[1:] = (author[1:] == author[:-1]) & (rng.random(len(pair) - 1) < sitting_rate)
    sitting = np.cumsum(~joined) - 1
    pause = np.where(joined, _pauses(len(pair), batch_rate / max(sitting_rate, 1e-300), rng), 0.0)
    passed = np.cumsum(pause)
    opening = np.flatnonzero(~joined)
    offset = passed - passed[opening][sitting]
    owner = author[opening]
    length = np.zeros(len(opening))
    np.maximum.at(length, sitting, offset)
    # sittings of one person are evenly spread and never overlap: draw the idle time, then add the busy time
    before = np.cumsum(length) - length
    busy = before - before[np.searchsorted(owner, owner)]
    total = np.bincount(owner, weights=length)[owner]
    idle = rng.random(len(opening))
    idle = idle[np.lexsort((idle, owner))] * np.maximum(seconds - total, 0.0)
    return Posts(pair, paper[pair], author, is_comment, (idle + busy)[sitting] + offset, sitting)


def _pauses(count: int, quick: float, rng: np.random.Generator) -> Floats:
    """Seconds between two posts of a sitting: log-normal around two minutes, a share ``quick`` of them below five."""
    edges = np.log(np.array([_BATCH_SECONDS, _LONGEST_PAUSE_SECONDS]) / _TYPICAL_PAUSE_SECONDS)
    below, end = ndtr(edges).tolist()
    share = np.where(rng.random(count) < quick, rng.uniform(0, below, count), rng.uniform(below, end, count))
    return np.maximum(_TYPICAL_PAUSE_SECONDS * np.exp(ndtri(share)), 1.0)


def thread_order(posts: Posts) -> tuple[Ints, Ints]:
    """The number of every post in its thread, from 1, and the position of the post before it, -1 for the first."""
    order = np.lexsort((posts.seconds, posts.paper))
    size, thread = len(order), posts.paper[order]
    opens = np.append(True, thread[1:] != thread[:-1])
    number, before = np.empty(size, dtype=np.int64), np.full(size, -1)
    number[order] = np.arange(size) - np.flatnonzero(opens)[np.cumsum(opens) - 1] + 1
    before[order[1:]] = np.where(opens[1:], -1, order[:-1])
    return number, before


def draw_ranks(quality: Floats, people: int, noise: float, rng: np.random.Generator) -> Ints:
    """Everybody's order of the same papers, as ranks, best first."""
    impressions = quality + noise * rng.standard_normal((people, len(quality)))
    return np.argsort(np.argsort(-impressions, axis=1), axis=1)


def draw_confusion(people: int, classes: int, ability: Sequence[float], rng: np.random.Generator) -> Floats:
    """Everybody's confusion matrix: the chance of each answer (last index) for each correct one."""
    low, high = ability
    skill = rng.uniform(low, high, people)
    diagonal = np.clip(skill[:, None] + rng.uniform(-0.05, 0.05, (people, classes)), low, high)
    confusion = rng.dirichlet(np.full(classes, 2.0), (people, classes))
    confusion[:, range(classes), range(classes)] = 0.0
    confusion *= ((1.0 - diagonal) / confusion.sum(axis=2))[:, :, None]
    confusion[:, range(classes), range(classes)] = diagonal
    return confusion


def draw_answers(confusion: Floats, worker: Ints, correct: Ints, rng: np.random.Generator) -> Ints:
    """What each worker answers where ``correct`` is right."""
    bounds = np.cumsum(confusion[worker, correct], axis=1)
    return np.minimum((rng.random(len(worker))[:, None] >= bounds).sum(axis=1), confusion.shape[1] - 1)
